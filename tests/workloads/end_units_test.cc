// Embedding and head: what a backward pass holds of the logits and when, what sharded parameters take beside it, and
// how a plain loop over FSDP2 and tensor ranks lays them out.
#include <algorithm>
#include <map>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "tests/workloads/layers.h"
#include "workloads/job/job_values.h"
#include "workloads/model/optimizer_step.h"
#include "workloads/step/step.h"
#include "workloads/traffic/traffic.h"

using namespace orrery;
using namespace orrery::workloads;
using tests::small_job;
using EndSets = std::vector<std::string>;

namespace {

EndSets end_sets(EndSets a, const EndSets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

StageMemory end_memory(const EndSets& sets) {
  const Job job = small_job(sets);
  return stage_memory(job, split_layers(job)).front();
}

Layer head_layer_of(const EndSets& sets) { return network_of(small_job(sets)).kinds.back(); }

std::map<std::string, double> end_traffic(const EndSets& sets) {
  std::map<std::string, double> bytes;
  for (const TrafficRow& row : simulate_step(small_job(sets)).traffic) {
    INFO(row.dimension << ' ' << row.what);
    CHECK(row.closed_form_bytes == Approx(row.simulated_bytes));
    bytes[row.what] += row.simulated_bytes;
  }
  return bytes;
}

const EndSets kEndsOnOneStage{"parallelism={tensor: 1, pipeline: 1}"};
const EndSets kEndsOnTensor{"parallelism={tensor: 2, pipeline: 1, sequence_parallel: true}",
                            "model.tied_embeddings=false"};
// 4 micro-batches of 2 sequences.
const EndSets kShardedEnds{"parallelism={tensor: 1, pipeline: 1, data: 16, sharding: parameters}", "batch.global=128",
                           "batch.micro=2", "recompute=full", "overlap=null"};

}  // namespace

TEST_CASE("the loss frees the logits that it kept before the head's products begin") {
  // In 16 bit beside 4 bytes kept: logits n, hidden states m, a weight gradient w. The loss holds c copies; behind it 4
  // n are gone, and 2 (n + m + w) are there.
  const double n = 1024.0 * 51200, m = 1024.0 * 2048, w = 51200.0 * 2048;
  const auto working = [](const char* loss) {
    return bytes_of(head_layer_of(end_sets(kEndsOnOneStage, {"batch.micro=1", "software.weight_gradients=apart",
                                                             std::string("software.recipe.loss=") + loss})))
        .working;
  };
  CHECK(working("in_steps") == Approx(std::max(2 * n, 2 * (n + m + w) - 4 * n)));
  // Over the logits nothing is held beside them, and 2 n are gone.
  CHECK(working("over_logits") == Approx(std::max(0.0, 2 * (n + m + w) - 2 * n)));
}

TEST_CASE("blocks of sharded parameters are gathered beside the passes over them, and not beside a loss") {
  Layer block{}, head{};
  head.kind = LayerKind::head;
  block.kept = {{"input", 10, 1, 0, KeptAs::input}};
  block.working = {{"gradients", 30, 1, 0}};
  head.kept = {{"input", 5, 1, 0, KeptAs::input}, {"logits", 100, 1, 1}};
  head.working = {{"copies", 50, 1, 1}, {"logit gradient", 50, 1, 0}, {"weight gradient", 8, 1, 0, true}};
  Network network;
  network.kinds = {block, head};
  network.layers = {0, 1};
  const UnitBytes none, blocks{7, 0, false}, ends{7, 20, true}, large{400, 20, true};
  // Kept: 10 + 5 + 100. The loss needs 50 more; the head's products 58 where 100 have gone; the block, when 105 have,
  // 30 and what units take: its own, and weights and gradients of the ends.
  CHECK(bytes_of(network, {0, 2}, none).working == 50);
  CHECK(bytes_of(network, {0, 2}, blocks).working == 50);
  CHECK(bytes_of(network, {0, 2}, ends).units == 0);
  const PassBytes most = bytes_of(network, {0, 2}, large);
  CHECK(most.working == std::max(50 + 8 + 400 + 20 - 100, 30 + 400 + 20 + 8 - 105));
  CHECK(most.units == 420);
  // A block that needs more is the fullest: beside it weights and gradients of the ends, these where they stay whole.
  network.kinds[0].working = {{"gradients", 80, 1, 0}, {"weight gradient", 9, 1, 0, true}};
  const PassBytes whole = bytes_of(network, {0, 2}, large), gone = bytes_of(network, {0, 2}, {400, 20, false});
  CHECK(whole.working == 80 + 9 + 400 + 20 + 8 - 105);
  CHECK(whole.units == 400 + 20 + 8);
  CHECK(gone.working == 80 + 9 + 400 + 20 - 105);
  network.layers = {0, 0, 1};  // one block more, which keeps 10: the one behind it needs as much
  CHECK(bytes_of(network, {0, 3}, large).working == whole.working);
  // Of these 400 are 30 a block's own gradient and 60 that of the block behind it, which is reduced meanwhile: the head
  // has neither, the first block behind it no other; the second has both, where 10 more have gone.
  const UnitBytes flies{400, 20, true, 30, 60};
  CHECK(bytes_of(network, {0, 3}, flies).working == whole.working - 10);
  network.layers = {0, 1};
  const PassBytes first = bytes_of(network, {0, 2}, flies);
  CHECK(first.working == whole.working - 60);
  CHECK(first.units == whole.units - 60);
  CHECK(bytes_of(network, {1, 2}, flies).working == 50 + 8 + 400 - 90 + 20 - 100);
}

TEST_CASE("embedding and head that are let go behind the forward pass are not there when the loss is at its fullest") {
  const EndSets sharded = end_sets(kShardedEnds, {"software.recipe.loss=log_softmax", "model.tied_embeddings=false"});
  const StageMemory kept = end_memory(end_sets(sharded, {"software.frees_end_unit=false"}));
  const StageMemory freed = end_memory(end_sets(sharded, {"software.frees_end_unit=true"}));
  const ShardParameters shard = tests::shard_parameters(small_job(sharded));
  CHECK(kept.total - freed.total == Approx(2 * (shard.embedding + shard.head)));
}

TEST_CASE("gradients that are reduced in the last backward pass alone are held whole, in the type of their reduction") {
  const auto at = [](const char* last) {
    return end_sets(kShardedEnds, {std::string("software.unit_reduction=") + last});
  };
  CHECK(end_traffic(at("every_pass"))["gradients, backward"] ==
        Approx(4 * end_traffic(at("last_pass"))["gradients, backward"]));
  const Job job = small_job(kShardedEnds);
  const Network network = network_of(job);
  const double all = parameters(network, {0, network.size()});
  const auto held = [](const StageMemory& m) { return m.gradients + m.parts.accumulators; };
  CHECK(held(end_memory(at("every_pass"))) == Approx(2 * all / 16));
  CHECK(held(end_memory(at("last_pass"))) == Approx(4 * all));
}

TEST_CASE("states in the type of the weights take 4 bytes a parameter, and a step of the optimizer 14") {
  const auto states = [](const char* follow) {
    return end_sets(kEndsOnOneStage, {std::string("software.optimizer_states=") + follow,
                                      "software.recipe.optimizer=fused", "parallelism.sharding=none"});
  };
  const StageMemory own = end_memory(states("fp32")), follows = end_memory(states("as_weights"));
  CHECK(own.optimizer == Approx(3 * follows.optimizer));
  CHECK(follows.optimizer == Approx(2 * follows.parameters));
  // A weight and two moments read and written, a gradient read, in 16 bit.
  const Job job = small_job(states("as_weights"));
  const auto kernels = optimizer_kernels(job.method.optimizer, job.method.precision, job.software.optimizer,
                                         job.machine.device, {1e6, 1e6});
  CHECK(kernels.back().bytes == 14e6);
}

TEST_CASE("logits that the tensor group gathers, and a whole embedding, stand with every rank of it") {
  const EndSets gathers{"software.gathers_logits=true", "software.whole_embedding=true"};
  auto shards = end_traffic(kEndsOnTensor), whole = end_traffic(end_sets(kEndsOnTensor, gathers));
  CHECK(shards["loss"] > 0);
  CHECK(whole["loss"] == 0);
  CHECK(whole["embedding, forward"] == 0);
  CHECK(whole["embedding gradient, backward"] == shards["embedding gradient, backward"]);
  CHECK(shards["logits, forward"] == 0);
  // Of every token 51200 logits in 16 bit.
  CHECK(whole["logits, forward"] / whole["head input, forward"] == Approx(51200.0 / 2048));
  const auto logits = [](const EndSets& sets) { return head_layer_of(sets).kept.back().bytes(); };
  CHECK(logits(end_sets(kEndsOnTensor, gathers)) == Approx(2 * logits(kEndsOnTensor)));
  const Network half = network_of(small_job(kEndsOnTensor)),
                all = network_of(small_job(end_sets(kEndsOnTensor, gathers)));
  CHECK(parameters(all.layer(0)) == Approx(2 * parameters(half.layer(0))).epsilon(0.03));  // positions are not split
  CHECK(parameters(all.kinds.back()) == parameters(half.kinds.back()));
}

TEST_CASE("what chunks received last, and its gradient, lie beside the optimizer step") {
  const auto held = [](const char* holds) {
    const Job job = small_job({"optimizer=lamb", "recompute=full", "model.seq=64", "model.vocab=1024",
                               std::string("software.holds_last_inputs=") + holds});
    return stage_memory(job, split_layers(job));
  };
  const auto without = held("false"), with = held("true");
  REQUIRE(without.back().peak.during == StageMemory::During::optimizer);
  const Job job = small_job({"model.seq=64"});
  const double message = 2.0 * static_cast<double>(job.batch.micro * 64 * job.model.hidden);
  CHECK(with.front().total == without.front().total);  // the first stage receives no activation
  CHECK(with.back().total - without.back().total == Approx(2 * message));
}

TEST_CASE("units that are gathered in another stream's pool stay reserved there, and are not allocated") {
  const StageMemory here = end_memory(end_sets(kShardedEnds, {"software.gathers_in_own_pool=false"}));
  const StageMemory apart = end_memory(end_sets(kShardedEnds, {"software.gathers_in_own_pool=true"}));
  const ShardParameters shard = tests::shard_parameters(small_job(kShardedEnds));
  CHECK(apart.total == here.total);
  CHECK(apart.reserved() - here.reserved() == Approx(2 * (shard.embedding + shard.head + shard.layer)));
}

TEST_CASE("a recomputed product at the end of a block runs again only where all of a part does") {
  const auto again = [](const char* needed) {
    const Job job = small_job(end_sets(kEndsOnOneStage, {"recompute={kind: selective, modules: [mlp_down]}",
                                                         std::string("software.recomputes_needed_only=") + needed}));
    int count = 0;
    for (const Piece& piece : tests::passes_over(job, {1, false, false}).backward)
      for (const Kernel& kernel : piece.kernels) count += kernel.name == "mlp down" ? 1 : 0;
    return count;
  };
  CHECK(again("false") == 1);
  CHECK(again("true") == 0);
}
