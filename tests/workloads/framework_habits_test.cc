// What the frameworks of today do beside Megatron-LM: keys copied out to all heads, rotation in steps, gates apart,
// activations with the host, gathers into the gradients' buffer, losses that hold more or less than theirs.
#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/job/job_values.h"
#include "workloads/memory/memory.h"
#include "workloads/model/kept.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;
using tests::small_job;
using Sets = std::vector<std::string>;

namespace {

const Sets kOneStage{"parallelism={tensor: 1, pipeline: 1}"};

Sets plus(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

double kept_bytes(const Layer& layer, std::string_view name) {
  double bytes = 0;
  for (const Kept& kept : layer.kept) bytes += kept.name == name ? kept.bytes() : 0;
  return bytes;
}

double forward_bytes(const Layer& layer, std::string_view name) {
  double bytes = 0;
  for (const LayerOp& op : layer.ops) {
    const auto* stream = std::get_if<StreamingOp>(&op);
    if (stream != nullptr && stream->direction == Direction::forward && stream->name == name)
      bytes += stream->elements * stream->bytes_each;
  }
  return bytes;
}

/// Of all kernels of a direction that are no products.
double streamed(const Layer& layer, Direction direction) {
  double bytes = 0;
  for (const LayerOp& op : layer.ops) {
    const auto* stream = std::get_if<StreamingOp>(&op);
    if (stream != nullptr && stream->direction == direction) bytes += stream->elements * stream->bytes_each;
  }
  return bytes;
}

/// Whole weights of a block, in the order in which they lie.
std::vector<double> matrices(const Job& job) {
  std::vector<double> elements;
  const Network network = network_of(job);
  for (const Weights& weights : network.layer(1).weights)
    if (weights.is_matrix()) elements.push_back(weights.elements);
  return elements;
}

StageMemory memory_of(const Sets& sets) {
  const Job job = small_job(sets);
  return stage_memory(job, split_layers(job)).front();
}

}  // namespace

TEST_CASE("keys and values that are copied out lie and travel as if every query had its own") {
  const Sets grouped = plus(kOneStage, {"model.kv_heads=4"});
  const Job shared = small_job(grouped), repeated = small_job(plus(grouped, {"software.repeats_keys=true"}));
  const double heads = static_cast<double>(shared.model.attention.heads);
  const Layer a = network_of(shared).layer(1), b = network_of(repeated).layer(1);
  CHECK(kept_bytes(b, "keys and values") == Approx(heads / 4 * kept_bytes(a, "keys and values")));
  // Read once, written once for each query: bf16, of keys and of values.
  const double tokens = static_cast<double>(shared.batch.micro * shared.model.seq);
  const double width = static_cast<double>(shared.model.head_dim());
  CHECK(forward_bytes(a, "repeat keys and values") == 0);
  CHECK(forward_bytes(b, "repeat keys and values") == Approx(2 * tokens * width * (heads + 4) * 2));
  CHECK(parameters(a) == parameters(b));
  // Where heads have keys of their own there is nothing to copy.
  const Sets own = plus(kOneStage, {"software.repeats_keys=true"});
  CHECK(text(network_of(small_job(own)).layer(1)) == text(network_of(small_job(kOneStage)).layer(1)));
}

TEST_CASE("a context group exchanges the keys that attention reads, by count and by formula") {
  const Sets ring{"parallelism={tensor: 1, pipeline: 1, context: 2}", "model.kv_heads=4"};
  const auto exchanged = [](const Job& job) {
    const StepReport report = simulate_step(job);
    double bytes = 0;
    for (const TrafficRow& row : report.traffic) {
      if (row.what.find("keys and values") == std::string::npos) continue;
      CHECK(row.simulated_bytes == Approx(row.closed_form_bytes));
      bytes += row.simulated_bytes;
    }
    return bytes;
  };
  const Job shared = small_job(ring), repeated = small_job(plus(ring, {"software.repeats_keys=true"}));
  const double each = exchanged(shared);
  CHECK(each > 0);
  CHECK(exchanged(repeated) == Approx(each * static_cast<double>(shared.model.attention.heads) / 4));
}

TEST_CASE("a rotation in steps moves 20 bytes for each query and key, one kernel 4") {
  const Sets rotary = plus(kOneStage, {"model.positions=rotary"});
  const Layer fused = network_of(small_job(rotary)).layer(1);
  const Layer steps = network_of(small_job(plus(rotary, {"software.recipe.rotary=in_steps"}))).layer(1);
  const double moved = forward_bytes(steps, "queries and keys to fp32") + forward_bytes(steps, "rotate in fp32") +
                       forward_bytes(steps, "rotated to 16 bit");
  CHECK(moved == Approx(5 * forward_bytes(fused, "rotate queries and keys")));  // 6 + 8 + 6 of 4
}

TEST_CASE("with a factor beside the rotation five kernels move 24 bytes for each query and key, in both directions") {
  // The product with cosines and that with sines read and write one, the swap and the sum make three passes, the copy
  // two: twelve of two bytes, where one kernel reads and writes.
  const Sets rotary = plus(kOneStage, {"model.positions=rotary"});
  const Layer fused = network_of(small_job(rotary)).layer(1);
  const Layer scaled = network_of(small_job(plus(rotary, {"model.rotary_factor=1.25"}))).layer(1);
  const double elements = 1024.0 * 2 * 2048;
  CHECK(forward_bytes(fused, "rotate queries and keys") == 4 * elements);
  for (const Direction direction : {Direction::forward, Direction::backward})
    CHECK(streamed(scaled, direction) - streamed(fused, direction) == Approx((24 - 4) * elements));
}

TEST_CASE(
    "queries that share keys are copied out of the tensor of all three with the values, and their gradients joined") {
  const auto moved = [](const Sets& sets, Direction direction) {
    const Sets parts = plus(sets, {"software.query_layers=parted"}),
               whole = plus(sets, {"software.query_layers=joint"});
    return streamed(network_of(small_job(parts)).layer(1), direction) -
           streamed(network_of(small_job(whole)).layer(1), direction);
  };
  const Sets grouped = plus(kOneStage, {"model.kv_heads=4"});
  const double tokens = 1024, query = 2048, key = query / 4;
  CHECK(moved(grouped, Direction::forward) == Approx(4 * tokens * (query + key)));
  CHECK(moved(plus(grouped, {"model.qk_norm=true"}), Direction::forward) == Approx(4 * tokens * (query + 2 * key)));
  CHECK(moved(grouped, Direction::backward) == Approx(4 * tokens * (query + 2 * key)));
  CHECK(moved(kOneStage, Direction::forward) == 0);  // of as many heads they are views
}

TEST_CASE("queries, keys and values apart are the parts of one matrix, each cut over the tensor group") {
  const Sets grouped{"model.kv_heads=4"};
  const std::vector<double> one = matrices(small_job(grouped)),
                            three = matrices(small_job(plus(grouped, {"software.query_layers=separate"})));
  REQUIRE(three.size() == one.size() + 2);
  const double query = 2048.0 * 2048 / 2;  // two ranks; 4 of 16 heads have keys
  CHECK(three[0] == query);
  CHECK(three[1] == query / 4);
  CHECK(three[2] == query / 4);
  CHECK(one[0] == three[0] + three[1] + three[2]);
}

TEST_CASE("each half needs gradients of what it reads and makes while it works backwards, and one of a weight") {
  // In 16 bit: of the residual stream's two ends, of queries and output, of keys and values, which a quarter of the
  // heads have, and in fp32 of queries once more; of an MLP's two sides, or three with a gate.
  const auto needed = [](const Sets& sets, std::int32_t half, bool for_weights) {
    double bytes = 0;
    const Network network = network_of(small_job(plus({"model.kv_heads=4"}, sets)));
    for (const Working& working : network.layer(1).working)
      if (working.half == half && working.for_weights == for_weights) bytes += working.bytes();
    return bytes;
  };
  const Sets unfused{"software.weight_gradients=apart"}, gated{"model.gated_mlp=true"};
  const double outside = 1024.0 * 2048, inside = outside / 2, ffn = 1024.0 * 8192 / 2;  // two tensor ranks
  CHECK(needed({}, 0, false) == Approx(2 * (2 * outside + 2 * inside + 2 * inside / 4) + 4 * inside));
  const double scores = 16.0 / 2 * 1024 * 1024;  // two of them in 16 bit where attention is not fused
  CHECK(needed({"attention=unfused"}, 0, false) ==
        Approx(2 * (2 * outside + 2 * inside + 2 * inside / 4) + 2 * 2 * scores));
  CHECK(needed({}, 1, false) == Approx(2 * (2 * outside + 2 * ffn)));
  CHECK(needed(gated, 1, false) == Approx(2 * (2 * outside + 3 * ffn)));
  CHECK(needed(unfused, 1, true) == Approx(2 * 2048.0 * 8192 / 2));
  CHECK(needed({}, 1, true) == 0);
}

TEST_CASE("a gate apart is a product of its own over the same weights and FLOPs") {
  const Sets gated = plus(kOneStage, {"model.gated_mlp=true"});
  const Layer one = network_of(small_job(gated)).layer(1);
  const Layer two = network_of(small_job(plus(gated, {"software.separate_gate=true"}))).layer(1);
  const auto products = [](const Layer& layer) {
    std::size_t count = 0;
    for (const LayerOp& op : layer.ops) {
      const auto* linear = std::get_if<LinearOp>(&op);
      if (linear != nullptr && linear->part == LinearOp::Part::mlp_in) count = linear->products.size();
    }
    return count;
  };
  CHECK(products(one) == 1);
  CHECK(products(two) == 2);
  CHECK(parameters(one) == parameters(two));
  CHECK(forward_flops(one).linear == forward_flops(two).linear);
  // By operation the second of two products is made again, whichever way they are written.
  const Sets again{"recompute={kind: selective, modules: [every_second_product]}"};
  const auto rows = [&](const Sets& sets) {
    std::int64_t sum = 0;
    const Layer layer = network_of(small_job(plus(sets, again))).layer(1);
    for (const LayerOp& op : layer.ops) {
      if (const auto* linear = std::get_if<LinearOp>(&op); linear != nullptr)
        for (const MatMul& product : linear->products) sum += product.again;
    }
    return sum;
  };
  CHECK(rows(gated) == rows(plus(gated, {"software.separate_gate=true"})));
}

TEST_CASE("layers whose activations wait with the host leave the device, but for the last one sent") {
  const StageMemory here = memory_of(kOneStage);
  const double block = bytes_of(network_of(small_job(kOneStage)).layer(1)).kept;
  for (const int layers : {0, 1, 2, 3, 8}) {
    const StageMemory away =
        memory_of(plus(kOneStage, {"offload={activation_layers: " + std::to_string(layers) + "}"}));
    INFO(layers);
    CHECK(here.total - away.total == Approx(std::max(0, layers - 1) * block));
  }
  CHECK(simulate_step(small_job(plus(kOneStage, {"offload={activation_layers: 8}"}))).iteration ==
        simulate_step(small_job(kOneStage)).iteration);
}

TEST_CASE("mxfp8 weights that are gathered into the gradients' buffer spare the 16-bit ones of the blocks") {
  const Sets mxfp8 = plus(kOneStage, {"cluster.device=b200-sxm-180gb", "precision=mxfp8"});
  const auto parameters_held = [&](const std::string& sharding, const char* gathers) {
    return memory_of(plus(mxfp8, {"parallelism.sharding=" + sharding,
                                  std::string("software.gathers_into_gradients=") + gathers}))
        .parameters;
  };
  const Network network = network_of(small_job(mxfp8));
  double blocks = 0;
  for (std::int64_t i = 0; i < network.size(); ++i)
    blocks += network.layer(i).kind == LayerKind::block ? parameters(network.layer(i)) : 0;
  CHECK(parameters_held("optimizer", "false") - parameters_held("optimizer", "true") == Approx(2 * blocks));
  CHECK(parameters_held("none", "false") == parameters_held("none", "true"));  // nothing is gathered
}

TEST_CASE("a loss holds as many 16-bit copies of the logits as its framework's") {
  const auto working = [](const char* loss) {
    const Network network = network_of(small_job(plus(kOneStage, {std::string("software.recipe.loss=") + loss})));
    return bytes_of(network.layer(network.size() - 1)).working;
  };
  const Job job = small_job(kOneStage);
  const double logits = static_cast<double>(job.batch.micro * job.model.seq) *
                        static_cast<double>(padded_vocab(job.model.vocab, 1, job.software.layers.head.pads_vocabulary));
  CHECK(working("log_softmax") - working("in_steps") == Approx(3 * 2 * logits));
  CHECK(working("in_steps") - working("{source: none, like: in_steps, works: []}") == Approx(2 * logits));
}

TEST_CASE("held training gradients take two bytes a parameter beside fp32 ones") {
  const Sets fp32{"precision={gradients: fp32}"};
  const StageMemory dropped = memory_of(plus(kOneStage, fp32));
  const StageMemory held = memory_of(plus(plus(kOneStage, fp32), {"software.training_gradients=held"}));
  const Network network = network_of(small_job(kOneStage));
  CHECK(held.total - dropped.total == Approx(2 * parameters(network, {0, network.size()})));
  // Gradients that are added up in 16 bit are those of training.
  const Sets half = plus(kOneStage, {"precision=fp16", "software.fp16_accumulation=fp16"});
  CHECK(memory_of(plus(half, {"software.training_gradients=held"})).total == memory_of(half).total);
}
