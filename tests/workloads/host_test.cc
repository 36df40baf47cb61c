// Does the host cost what a generation says? Launches so slow that the device never matters: the step is then what the
// host issues, and laws of it follow from counting kernels.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::small_job;

namespace {

/// Seconds of a step on one GPU of 4 micro-batches, 100 ms per kernel of the forward pass.
double seconds(std::vector<std::string> sets) {
  sets.insert(sets.begin(), {"cluster.gpus=1", "parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=1",
                             "batch.global=4", "batch.micro=1", "software=megatron-2021",
                             "software.kernel_issue='100 ms'", "software.microbatch_host='0 us'"});
  return sim::to_seconds(workloads::simulate_step(small_job(sets)).iteration);
}
constexpr const char* kMixture =
    "model={kind: moe, layers: 2, hidden: 1024, heads: 8, ffn_hidden: 1024, vocab: 1024, seq: 256, experts: 4, top_k: "
    "2, "
    "expert_ffn_hidden: 1024}";
std::string share(const char* value) { return std::string("software.backward_issue_share=") + value; }

}  // namespace

TEST_CASE("kernels of the backward pass cost the host their share, recomputed ones as much as in the forward pass") {
  const double one = seconds({share("1"), "recompute=none"}), half = seconds({share("0.5"), "recompute=none"}),
               quarter = seconds({share("0.25"), "recompute=none"});
  // T = F + share x B: half of B lies between the first two, a quarter between the others.
  CHECK(half < one);
  CHECK(one - half == Approx(2 * (half - quarter)).epsilon(1e-3));
  // Recomputation launches F' kernels more, whatever a kernel of the backward pass costs.
  CHECK(seconds({share("0.25"), "recompute=full"}) - quarter ==
        Approx(seconds({share("1"), "recompute=full"}) - one).epsilon(1e-3));
}

TEST_CASE("an operation costs the host its time once, beside its launches") {
  // Of steps of eight and of four micro-batches the optimizer, of no layer, cancels out.
  const auto four_more = [](const char* issue, const char* operation) {
    const auto of = [&](const char* batch) {
      return seconds({std::string("batch.global=") + batch, std::string("software.kernel_issue=") + issue,
                      std::string("software.operation_host=") + operation, "software.host_waits_for_batch=false"});
    };
    return of("8") - of("4");
  };
  const double launches = four_more("'100 ms'", "'0 us'"), operations = four_more("'0 us'", "'100 ms'");
  CHECK(four_more("'100 ms'", "'100 ms'") == Approx(launches + operations).epsilon(1e-3));
  CHECK(four_more("'0 us'", "'200 ms'") == Approx(2 * operations).epsilon(1e-3));
  CHECK(operations < launches);  // a norm's gradients are several kernels of one
  CHECK(operations > launches / 2);
}

TEST_CASE("what is not fused rotates packed documents one by one") {
  const auto step = [](const char* document) {
    return seconds({"model.positions=rotary", "software.recipe.rotary=by_document", share("1"), "recompute=none",
                    std::string("batch.document_tokens=") + document, "software.host_waits_for_batch=false"});
  };
  const workloads::Job job = small_job({});
  const std::string half = std::to_string(job.model.seq / 2), quarter = std::to_string(job.model.seq / 4);
  // Two documents more: queries and keys, 13 lines forward and 12 backward (calibration/recipes/rotary.yaml), in every
  // layer and each of four micro-batches.
  CHECK(step(quarter.c_str()) - step(half.c_str()) ==
        Approx(2 * 2 * 25 * static_cast<double>(job.model.layers) * 4 * 0.1).epsilon(1e-3));
}

TEST_CASE("documents are put in order around exchanges by heads one by one, where a release does so") {
  // Launches so slow that the host is all that counts.
  const auto step = [](const char* way, const char* document) {
    return sim::to_seconds(
        workloads::simulate_step(
            small_job({"cluster.gpus=2", "cluster.fabric=single-node", "parallelism.tensor=1", "parallelism.pipeline=1",
                       "parallelism.data=1", "parallelism.context=2", "parallelism.context_method=all_to_all",
                       "batch.global=4", "batch.micro=1", "software=megatron-core-0.16", "recompute=none",
                       "software.kernel_issue='1 ms'", "software.operation_host='0 us'",
                       "software.backward_issue_share=1", std::string("software.recipe.head-exchange=") + way,
                       std::string("batch.document_tokens=") + document}))
            .iteration);
  };
  const workloads::Job job = small_job({});
  const std::string half = std::to_string(job.model.seq / 2), quarter = std::to_string(job.model.seq / 4);
  CHECK(step("at_once", quarter.c_str()) == Approx(step("at_once", half.c_str())).epsilon(1e-6));
  // Of each document and rank 22 launches for a tensor that is gathered (q, k, v and the output's gradient) and 14 for
  // one that is sent back (the output, three gradients), in every layer and each of four micro-batches.
  CHECK(step("by_document", quarter.c_str()) - step("by_document", half.c_str()) ==
        Approx(2 * 2 * (4 * 22 + 4 * 14) * static_cast<double>(job.model.layers) * 4 * 1e-3).epsilon(0.01));
}

TEST_CASE("graphs take operations that they replay from the host, and all their launches but one") {
  const auto step = [](const char* graphs, const char* operation) {
    return seconds({kMixture, "software=megatron-core-0.16", "software.expert_layer_host='1 us'",
                    "software.kernel_issue='1 us'", std::string("software.graphs=") + graphs,
                    std::string("software.operation_host=") + operation});
  };
  const double none = step("none", "'100 ms'"), router = step("router", "'100 ms'"),
               ahead = step("ahead_of_counts", "'100 ms'");
  CHECK(router < none);
  CHECK(ahead < router);
  CHECK(step("ahead_of_counts", "'0 us'") <= step("none", "'0 us'"));
  // As records say it that know no graphs: nothing of the host ahead of the counts, but something behind them.
  CHECK(seconds({kMixture, "software=megatron-core-0.16", "software.expert_layer_host='0 us'",
                 "software.kernel_issue='1 us'", "software.operation_host='100 ms'"}) == ahead);
}

TEST_CASE("graphs of mixers take these from the host, and leave MLPs to it") {
  const std::string model =
      "model={hidden: 1024, heads: 8, kv_heads: 8, vocab: 2560, seq: 1024, positions: none, norm: rms_norm, biases: "
      "none, blocks: {pattern: M A F, repeat: 2}, mixers: {M: {kind: mamba2, state: 64, heads: 16, head_dim: 64}, A: "
      "{kind: attention}}, channels: {F: {kind: mlp, ffn_hidden: 4096}}}";
  const auto step = [&](const char* graphs, const std::string& blocks) {
    return seconds({model, "model.blocks={pattern: '" + blocks + "', repeat: 2}", "software=megatron-core-0.16",
                    "software.kernel_issue='1 us'", "software.operation_host='100 ms'",
                    std::string("software.graphs=") + graphs});
  };
  // Without experts no other scope covers anything.
  CHECK(step("ahead_of_counts", "M A F") == step("none", "M A F"));
  CHECK(step("mixers", "M A F") < step("none", "M A F"));
  // What is left is what the MLPs take: nothing more for further mixers.
  const double mixers = step("none", "M A M A F") - step("none", "M A F"),
               replayed = step("mixers", "M A M A F") - step("mixers", "M A F");
  CHECK(replayed < 0.05 * mixers);
}

TEST_CASE("every micro-batch is fetched once by a stage of one chunk") {
  const double without = seconds({"software.host_waits_for_batch=false"});
  const double with = seconds({"software.host_waits_for_batch=false", "software.microbatch_host='1 s'"});
  // 4 micro-batches, a second each and the launch of the kernel that brings them.
  CHECK(with - without == Approx(4 * (1 + 0.1)).epsilon(1e-3));
}

TEST_CASE("stages that sleep while they exchange shapes take 0.6 s a micro-batch, with two neighbours 1.2 s") {
  // Of one neighbour a stage sends or receives activations (0.4 s) and gradients (0.2 s), beside which a small model's
  // kernels are nothing.
  const auto seconds_of = [](int stages, int microbatches) {
    return sim::to_seconds(
        workloads::simulate_step(small_job({"cluster.gpus=" + std::to_string(stages), "parallelism.tensor=1",
                                            "parallelism.pipeline=" + std::to_string(stages), "parallelism.data=1",
                                            "batch.global=" + std::to_string(microbatches), "batch.micro=1",
                                            "parallelism.sequence_parallel=false", "software=nanotron-2024-12"}))
            .iteration);
  };
  CHECK(seconds_of(2, 24) - seconds_of(2, 8) == Approx(16 * 0.6).epsilon(0.03));
  CHECK(seconds_of(4, 24) - seconds_of(4, 8) == Approx(16 * 1.2).epsilon(0.03));
}

TEST_CASE("the fused softmax takes whole blocks of score matrices, or none") {
  const auto unfused = [](const char* matrices) {
    return seconds({"attention=unfused", std::string("software.fused_softmax_matrices=") + matrices});
  };
  const workloads::Job job = small_job({});
  INFO(job.model.attention.heads);
  CHECK(unfused("1") == unfused("2"));    // an even number of heads
  CHECK(unfused("1024") > unfused("1"));  // five kernels in place of one, forward and backward
}

TEST_CASE("a host that waits for every kernel adds all of its launches to the device's time") {
  const auto run = [](const char* blocking, const char* issue) {
    return seconds({std::string("software.blocking_launches=") + blocking,
                    std::string("software.kernel_issue=") + issue, "software.host_waits_for_batch=false"});
  };
  // Launches of 50 ms hide the device's time behind them, so that a step is their sum; one by one they come on top.
  const double launches = run("false", "'50 ms'"), device = run("false", "'0 us'");
  CHECK(run("true", "'0 us'") == Approx(device).epsilon(1e-6));
  CHECK(run("true", "'50 ms'") - device == Approx(launches).epsilon(1e-3));
  CHECK(run("true", "'100 ms'") - device == Approx(2 * launches).epsilon(1e-3));
}

TEST_CASE("the slowest GPU sets a pipeline's pace, and no other's") {
  const auto compute = [](const char* stages, const char* slowdown) {
    const workloads::Job job = small_job({"parallelism.data=null", std::string("parallelism.pipeline=") + stages,
                                          std::string("software.pipeline_slowdown=") + slowdown});
    const workloads::StepReport report = workloads::simulate_step(job);
    return report.breakdown_s[static_cast<std::size_t>(workloads::Category::compute)];
  };
  CHECK(compute("2", "1.25") == Approx(1.25 * compute("2", "1")).epsilon(1e-6));
  CHECK(compute("1", "1.25") == compute("1", "1"));
}
