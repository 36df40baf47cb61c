// What a compiler of blocks and PyTorch's own operations around them do: bytes of kernels by hand, what is kept, what
// is copied of units of sharded parameters, and the loss.
#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "tests/workloads/layers.h"

using namespace orrery;
using namespace orrery::workloads;
using tests::small_job;

namespace {

using Sets = std::vector<std::string>;

Sets joined(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

/// Bytes of kernels by name, over one block or the head; forward and backward.
struct KernelBytes {
  std::map<std::string, double> forward, backward;
};
KernelBytes bytes_of_kernels(const Job& job, const tests::Layers& layers) {
  const LayerPasses passes = tests::passes_over(job, layers);
  KernelBytes bytes;
  for (const auto& [pieces, sums] : {std::pair{&passes.forward, &bytes.forward}, {&passes.backward, &bytes.backward}})
    for (const Piece& piece : *pieces)
      for (const Kernel& kernel : piece.kernels) (*sums)[kernel.name] += kernel.bytes;
  return bytes;
}
KernelBytes of_block(const Sets& sets) { return bytes_of_kernels(small_job(sets), {1, false, false}); }
KernelBytes of_head(const Sets& sets) { return bytes_of_kernels(small_job(sets), {0, false, true}); }

// 1024 tokens, 2048 wide, an MLP of 8192, queries, keys and values apart.
const double kLlamaHidden = 1024.0 * 2048 * 2, kLlamaInner = 1024.0 * 8192 * 2;
const Sets kLlama{"parallelism={tensor: 1, pipeline: 1, data: 16}",
                  "model.gated_mlp=true",
                  "model.biases=none",
                  "model.norm=rms_norm",
                  "software.query_layers=separate",
                  "software.separate_gate=true",
                  "software.recipe.norm=persistent",
                  "software.recomputes_needed_only=true"};
const Sets kByOperation{"recompute={kind: selective, modules: [every_second_product]}"};

Sets compiled(const char* is) {
  return {std::string("software.compiled_blocks=") + is,
          is == std::string("true") ? "software.recipe.norm=compiled" : "software.recipe.norm=persistent"};
}

}  // namespace

TEST_CASE("a compiler has the norms' backward kernels add up the gradients that meet there") {
  const KernelBytes apart = of_block(joined(kLlama, compiled("false"))),
                    fused = of_block(joined(kLlama, compiled("true")));
  // Two sums of three for queries, keys and values, one for gate and up, one for each residual sum; read, read,
  // written.
  CHECK(apart.backward.at("add input gradients") == Approx(3 * 3 * kLlamaHidden));
  CHECK(apart.backward.at("add residual gradient") == Approx(2 * 3 * kLlamaHidden));
  CHECK(apart.backward.at("layer norm backward") == Approx(2 * 3 * kLlamaHidden));
  CHECK(!fused.backward.contains("add input gradients"));
  CHECK(!fused.backward.contains("add residual gradient"));
  // Gradients of three and of two products, of the residual sum, and the input are read, its gradient written.
  CHECK(fused.backward.at("layer norm backward") == Approx((3 + 3 + 2 + 3) * kLlamaHidden));
  // Over a tensor group the sum is reduced ahead of the norm.
  const Sets shared = joined(kLlama, {"parallelism={tensor: 2, pipeline: 1, data: 8}"});
  const KernelBytes reduced = of_block(joined(shared, compiled("true")));
  CHECK(reduced.backward.at("add input gradients") == Approx(3 * 3 * kLlamaHidden));
  CHECK(reduced.backward.at("layer norm backward") == Approx(2 * 4 * kLlamaHidden / 2));  // of shards
}

TEST_CASE("a compiler makes an activation that was not kept in its backward kernel") {
  for (const Sets& again : {kByOperation, Sets{"recompute=full"}}) {
    const KernelBytes apart = of_block(joined(joined(kLlama, again), compiled("false")));
    const KernelBytes fused = of_block(joined(joined(kLlama, again), compiled("true")));
    CHECK(apart.backward.at("swiglu") == Approx(3 * kLlamaInner));
    CHECK(apart.backward.at("swiglu backward") == Approx(5 * kLlamaInner));
    CHECK(!fused.backward.contains("swiglu"));
    CHECK(fused.backward.at("swiglu backward") == Approx(6 * kLlamaInner));
    CHECK(fused.forward.at("swiglu") == Approx(apart.forward.at("swiglu")));
  }
  const KernelBytes kept = of_block(joined(joined(kLlama, {"recompute=none"}), compiled("true")));
  CHECK(kept.backward.at("swiglu backward") == Approx(5 * kLlamaInner));
}

TEST_CASE("by operation a compiler does not keep the output that only the residual sum reads") {
  const auto kept = [](const char* is) {
    return tests::block_bytes(small_job(joined(joined(kLlama, kByOperation), compiled(is)))).kept;
  };
  CHECK(kept("false") - kept("true") == Approx(kLlamaHidden));
}

TEST_CASE(
    "the final norm lies outside of what is compiled: in steps it keeps its input in fp32 and once more in 16 bit") {
  const auto head = [](const char* is) { return network_of(small_job(joined(kLlama, compiled(is)))).kinds.back(); };
  CHECK(bytes_of(head("true")).kept - bytes_of(head("false")).kept == Approx(2 * kLlamaHidden));
  CHECK(of_head(joined(kLlama, compiled("true"))).forward.at("final layer norm") >
        2 * of_head(joined(kLlama, compiled("false"))).forward.at("final layer norm"));
}

TEST_CASE("units are copied out of their gather in both passes, and their gradients into the reduction") {
  const Sets sharded = joined(kLlama, {"parallelism={tensor: 1, pipeline: 1, data: 16, sharding: parameters}",
                                       "overlap=null", "software.weight_gradients=apart"});
  const Sets copies{"software.copies_units=true"};
  for (const char* recompute : {"recompute=none", "recompute=full"}) {
    const Sets sets = joined(joined(sharded, copies), {recompute});
    const double block = parameters(network_of(small_job(sets)).layer(1));
    const KernelBytes bytes = of_block(sets);
    CHECK(bytes.forward.at("weights out of their gather") == Approx(4 * block));
    CHECK(bytes.backward.at("weights out of their gather") == Approx(4 * block));
    CHECK(bytes.backward.at("gradients into their reduction") == Approx((2 + 4) * block));
    CHECK(!bytes.backward.contains("add weight gradient"));
  }
  const KernelBytes head = of_head(joined(sharded, copies));  // stays gathered
  CHECK(head.forward.at("weights out of their gather") > 0);
  CHECK(!head.backward.contains("weights out of their gather"));
  // Whole weights are not gathered in units.
  const KernelBytes whole = of_block(joined(kLlama, copies));
  CHECK(!whole.forward.contains("weights out of their gather"));
}

TEST_CASE("a log-softmax reads logits twice, and what picks from it has a gradient of its own") {
  const Sets kernel = joined(kLlama, {"software.recipe.loss=kernel", "model.vocab=51200"});
  const KernelBytes one = of_head(kernel), steps = of_head(joined(kernel, {"software.recipe.loss=log_softmax"}));
  const double logits = 1024.0 * 51200;
  CHECK(one.forward.at("softmax with cross entropy") == Approx(8 * logits));
  CHECK(steps.forward.at("log-softmax") == Approx(12 * logits));
  CHECK(steps.backward.at("log-softmax backward") == Approx(12 * logits));
  CHECK(steps.backward.at("clear gradient of log-softmax") == Approx(4 * logits));
  CHECK(steps.backward.at("logit gradient to 16 bit") == Approx(6 * logits));
}

TEST_CASE("what fits no tensor of a loss is reserved and not allocated; the last unit and no cleared gradients") {
  const Sets sharded = joined(kLlama, {"parallelism={tensor: 1, pipeline: 1, data: 16, sharding: parameters}",
                                       "recompute=full", "overlap=null", "model.vocab=300000"});
  const auto memory = [&](const Sets& sets) {
    const Job job = small_job(joined(sharded, sets));
    return stage_memory(job, split_layers(job)).front();
  };
  const StageMemory none = memory({"software.recipe.loss={source: none, like: log_softmax, gaps: []}"}),
                    gap = memory({"software.recipe.loss=log_softmax"});
  const Job job = small_job(joined(sharded, {"software.recipe.loss=log_softmax"}));
  const double tokens = static_cast<double>(job.batch.micro * job.model.seq);
  CHECK(gap.total == none.total);
  CHECK(gap.reserved() - none.reserved() ==
        Approx(2 * tokens * static_cast<double>(padded_vocab(300000, 1, job.software.layers.head.pads_vocabulary))));
  const StageMemory last = memory({"software.keeps_last_unit=true"}), goes = memory({"software.keeps_last_unit=false"});
  CHECK(last.total - goes.total == Approx(2 * tests::shard_parameters(job).layer));
}
