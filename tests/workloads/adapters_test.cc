// Does fine-tuning by low-rank adapters compute, hold and send what frozen weights leave of a training step?
#include "workloads/model/adapters.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/workloads/example.h"
#include "workloads/job/job_values.h"
#include "workloads/memory/memory.h"
#include "workloads/model/kept.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;
using tests::small_job;

namespace {

std::vector<std::string> lora(std::vector<std::string> more = {}) {
  more.insert(more.begin(), "finetune={kind: lora, rank: 16}");
  return more;
}

/// Latent attention that compresses queries too, as DeepSeek-V3 has it.
const std::vector<std::string>& latent() {
  static const std::vector<std::string> sets{"model.attention_kind=mla", "model.kv_lora=256",    "model.q_lora=512",
                                             "model.qk_nope_dim=64",     "model.qk_rope_dim=32", "model.v_dim=64",
                                             "model.kv_heads=null"};
  return sets;
}

/// A small mixture, of 8 experts a layer, two for each token, the first layer dense, in the same layout.
std::vector<std::string> mixture(std::vector<std::string> more = {}) {
  const std::vector<std::string> base{
      "model={kind: moe, layers: 8, hidden: 2048, heads: 16, kv_heads: 4, ffn_hidden: 4096, vocab: 51200, seq: 1024, "
      "gated_mlp: true, tied_embeddings: false, positions: rotary, norm: rms_norm, biases: none, experts: 8, top_k: 2, "
      "expert_ffn_hidden: 1024, dense_layers: 1, shared_experts: 1}",
      "parallelism={tensor: 2, pipeline: 2, data: 4, expert: 4, expert_tensor: 1, sequence_parallel: true, sharding: "
      "optimizer}",
      "finetune={kind: lora, rank: 16, modules: all}"};
  more.insert(more.begin(), base.begin(), base.end());
  return more;
}

/// A mixture whose 16 replicas share all of it out, experts over so many ranks.
std::vector<std::string> shared_out(int expert, std::vector<std::string> more = {}) {
  more.insert(more.begin(), "parallelism={tensor: 1, pipeline: 1, data: 16, expert: " + std::to_string(expert) +
                                ", sharding: parameters}");
  return mixture(more);
}

}  // namespace

TEST_CASE("adapters have the parameters of their two factors, by the layers and by the formula") {
  for (const std::string tensor : {"1", "2", "4"}) {
    for (const char* modules : {"attention", "all"}) {
      const Job job = small_job({"parallelism={tensor: " + tensor + ", pipeline: 2}",
                                 std::string("finetune={kind: lora, rank: 16, modules: ") + modules + "}"});
      const Network network = network_of(job);
      INFO("tensor " << tensor << ", " << modules);
      CHECK(static_cast<double>(job.model.layers) * trained_parameters(network.layer(1)) ==
            adapter_parameters(job.model, job.method.adapters, job.parallelism.tensor));
      CHECK(trained_parameters(network.layer(0)) == 0);
      CHECK(trained_parameters(network.layer(network.size() - 1)) == 0);
    }
  }
  // On one rank: r (h + 3h) beside queries, keys and values, r (h + h) beside the projection.
  const Job whole = small_job({"parallelism={tensor: 1, pipeline: 1}", "finetune={kind: lora, rank: 16}"});
  CHECK(trained_parameters(network_of(whole).layer(1)) == 16 * (4 + 2) * 2048.0);
}

TEST_CASE("frozen products have gradients of their inputs alone: 4 FLOPs a parameter and token, not 6") {
  const Job trains = small_job(), adapts = small_job(lora());
  const double all = model_flops(trains.model, 32), frozen = model_flops(adapts.model, 32, Trained::adapters);
  // Attention has no weights: twice forward's work backward, as before.
  const double attention = 3 * 32 * 8 * 4.0 * 1024 * 1024 * 2048;
  CHECK(frozen - attention == Approx((all - attention) * 2 / 3));
  CHECK(simulate_step(adapts).rates.model_tflops_per_gpu > 0);
  const Network network = network_of(adapts);
  const LayerPasses passes = passes_of(network.layer(1), {adapts.machine.device, 1}, false);
  int of_weights = 0;
  for (const auto& piece : passes.backward) {
    for (const Kernel& kernel : piece.kernels) of_weights += kernel.name.find("weight gradient") != std::string::npos;
  }
  CHECK(of_weights == 4);  // up and down of two adapters
}

TEST_CASE("frozen weights take their operands' bytes, adapters the 16 of mixed-precision Adam") {
  const Job job = small_job(lora({"parallelism={tensor: 1, pipeline: 1, sharding: none}"}));
  const LayerSplit split = split_layers(job);
  const StageMemory stage = stage_memory(job, split).front();
  const double adapters = 8 * 16 * 6 * 2048.0, frozen = parameter_count(job.model) + 2 * 2048;  // and the final norm
  CHECK(stage.parameters == Approx(2 * (adapters + frozen)));
  CHECK(stage.gradients == Approx(2 * adapters));
  CHECK(stage.optimizer == Approx(12 * adapters));
  const Job quantised = small_job(lora({"parallelism={tensor: 1, pipeline: 1}", "precision=fp8",
                                        "cluster.device=h100-sxm-80gb", "model.tied_embeddings=false"}));
  const StageMemory held = stage_memory(quantised, split_layers(quantised)).front();
  CHECK(held.parts.weight_copies == 0);
  CHECK(held.parameters == Approx(2 * adapters + parameter_count(quantised.model) + 2 * 2048));
}

TEST_CASE("QLoRA holds 4 bits of a linear layer's weight, and makes 16 of them for every product") {
  const std::vector<std::string> sets{"parallelism={tensor: 1, pipeline: 1, sharding: none}"};
  const auto with = [&](const char* kind) {
    std::vector<std::string> all{std::string("finetune={kind: ") + kind + ", rank: 16}"};
    all.insert(all.end(), sets.begin(), sets.end());
    return small_job(all);
  };
  const Job lora_job = with("lora"), qlora = with("qlora");
  const double matrices = 8 * 12 * 2048.0 * 2048;  // eight layers of 12 h^2
  const auto parameters_of = [](const Job& job) { return stage_memory(job, split_layers(job)).front().parameters; };
  // 4 bits, 8 for 64 weights, 32 for 64 x 256; biases and norms of blocks, under a thousandth, are held with them.
  const double held = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
  CHECK(parameters_of(lora_job) - parameters_of(qlora) == Approx(matrices * (2 - held)).epsilon(1e-3));
  double bytes = 0;
  const LayerPasses passes = passes_of(network_of(qlora).layer(1), {qlora.machine.device, 1}, false);
  for (const Pieces* pieces : {&passes.forward, &passes.backward}) {
    for (const Piece& piece : *pieces) {
      for (const Kernel& kernel : piece.kernels)
        bytes += kernel.name.find("dequantise") != std::string::npos ? kernel.bytes : 0;
    }
  }
  CHECK(bytes == Approx(2 * matrices / 8 * (held + 2)));
  CHECK(simulate_step(qlora).iteration > simulate_step(lora_job).iteration);
}

TEST_CASE("frozen weights are copied out of their gather as they are held, and nothing goes to a reduction") {
  for (const char* kind : {"lora", "qlora"}) {
    const Job job = small_job({std::string("finetune={kind: ") + kind + ", rank: 16}", "software=accelerate-2026",
                               "parallelism={tensor: 1, pipeline: 1, data: 16, sharding: parameters}"});
    INFO(kind);
    const LayerPasses passes = passes_of(network_of(job).layer(1), {job.machine.device, 1}, false);
    double copied = 0;
    for (const Pieces* pieces : {&passes.forward, &passes.backward}) {
      for (const Piece& piece : *pieces) {
        for (const Kernel& kernel : piece.kernels) {
          CHECK(kernel.name != "gradients into their reduction");
          copied += kernel.name == "weights out of their gather" ? kernel.bytes : 0;
        }
      }
    }
    // Read and written, forward and backward; biases and norms are under a thousandth of 12 h^2.
    const bool four = job.method.adapters.frozen == Adapters::Frozen::nf4;
    const double held = four ? 0.5 + 1.0 / 64 + 4.0 / (64 * 256) : 2;
    CHECK(copied == Approx(2 * 2 * held * 12 * 2048.0 * 2048).epsilon(2e-3));
  }
}

TEST_CASE("frozen weights that are shared out are gathered twice a micro-batch, and never reduced") {
  for (const char* kind : {"lora", "qlora"}) {
    const Job job = small_job({std::string("finetune={kind: ") + kind + ", rank: 16}",
                               "parallelism={tensor: 1, pipeline: 1, data: 16, sharding: parameters}",
                               "batch={global: 64, micro: 1}", "recompute=full"});
    INFO(kind);
    const StepReport report = simulate_step(job);
    const double matrices = 8 * 12 * 2048.0 * 2048, ends = (51200 + 1024 + 2.0) * 2048;
    const bool four = job.method.adapters.frozen == Adapters::Frozen::nf4;
    const double of_blocks = four ? 0.5 + 1.0 / 64 + 4.0 / (64 * 256) : 2;
    double gathered = 0, reduced = 0;
    for (const TrafficRow& row : report.traffic) {
      CHECK(row.simulated_bytes == Approx(row.closed_form_bytes));
      if (row.what.starts_with("frozen parameters")) gathered += row.simulated_bytes;
      if (row.what.starts_with("gradients")) reduced += row.simulated_bytes;
    }
    // Of 16 ranks each receives 15 / 16 of all, forward and backward of four micro-batches.
    CHECK(gathered == Approx(2 * 4 * 16 * 15.0 / 16 * (matrices * of_blocks + ends * 2)).epsilon(2e-3));
    CHECK(reduced > 0);
    CHECK(reduced < gathered / 20);
    const Job whole = small_job({std::string("finetune={kind: ") + kind + ", rank: 16}",
                                 "parallelism={tensor: 1, pipeline: 1, data: 16, sharding: none}",
                                 "batch={global: 64, micro: 1}", "recompute=full"});
    const auto held = [](const Job& j) { return stage_memory(j, split_layers(j)).front().parameters; };
    CHECK(held(job) == Approx(held(whole) / 16).epsilon(0.02));
    CHECK(simulate_step(whole).iteration < report.iteration);
  }
}

TEST_CASE("tensors that only gradients of frozen weights would need are not kept") {
  const PassBytes trains = bytes_of(network_of(small_job()).layer(1));
  const PassBytes adapts = bytes_of(network_of(small_job(lora())).layer(1));
  // Of each half the input of its products, of the MLP its activation; beside them stand the adapters' input and inside
  // (the projection's adapter reads what attention keeps).
  const double tokens = 1024, h = 2048, t = 2, e = 2;
  const double gone = tokens * (2 * h + 4 * h / t) * e, come = tokens * (h + 2 * 16) * e;
  CHECK(adapts.kept == Approx(trains.kept - gone + come));
}

TEST_CASE("the two counts of traffic agree, and a folded run equals one of every rank, with adapters") {
  for (const std::vector<std::string>& sets :
       {lora(),
        lora({"parallelism.sequence_parallel=true", "parallelism.sharding=optimizer"}),
        lora({"recompute=full", "model.tied_embeddings=false"}),
        lora({"recompute={kind: full, layers: 1}"}),
        lora({"parallelism={tensor: 4, pipeline: 2, context: 2, sequence_parallel: true, sharding: optimizer}"}),
        std::vector<std::string>{"finetune={kind: lora, rank: 2, modules: all, dropout: 0.1}",
                                 "parallelism={tensor: 4, pipeline: 1, sharding: gradients}"},
        lora({"parallelism.schedule=zb_h1"}),
        mixture(),
        mixture({"finetune.modules=attention"}),
        mixture({"recompute=full"}),
        mixture({"experts.dispatcher=deepep", "recompute={kind: full, layers: 1}"}),
        mixture({"recompute={kind: selective, modules: [moe]}"}),
        mixture({"recompute={kind: selective, modules: [core_attn, qkv, mlp]}"}),
        mixture({"parallelism={tensor: 1, pipeline: 4, data: 4, expert: 2, sharding: gradients}"}),
        mixture(latent()),
        shared_out(1),
        shared_out(4),
        shared_out(8, {"recompute=full"}),
        shared_out(4, {"finetune.kind=qlora"}),
        shared_out(4, latent()),
        shared_out(2, {"software=accelerate-2026"}),
        mixture({"parallelism={tensor: 2, pipeline: 1, data: 8, expert: 4, sequence_parallel: true, sharding: "
                 "parameters}"})}) {
    const Job job = small_job(sets);
    Question options;
    options.ranks = Question::Ranks::every;
    const StepReport folded = simulate_step(job), full = simulate_step(job, options);
    CHECK(tests::contradiction(folded) == "");
    CHECK(tests::comparable(folded) == tests::comparable(full));
  }
}

TEST_CASE("an adapted step is faster than a whole one and no faster than its forward and input gradients") {
  const Job trains = small_job({"model.hidden=8192", "model.ffn_hidden=32768", "batch.global=128"});
  const Job adapts = small_job(lora({"model.hidden=8192", "model.ffn_hidden=32768", "batch.global=128"}));
  const double whole = sim::to_seconds(simulate_step(trains).iteration);
  const double adapted = sim::to_seconds(simulate_step(adapts).iteration);
  CHECK(adapted < 0.8 * whole);
  CHECK(adapted > 0.5 * whole);
}

TEST_CASE("adapters of a mixture stand beside attention and MLPs, and all experts of a rank share theirs") {
  const Job job = small_job(mixture());
  const Network network = network_of(job);
  double held = 0;
  for (std::int64_t i = 0; i < network.size(); ++i) held += trained_parameters(network.layer(i));
  CHECK(held == Approx(adapter_parameters(job.model, job.method.adapters, job.parallelism.tensor)));
  // Rank 16, tensor 2: of attention 8 h + 16 (h + 2 h / 4) / 2 ahead of it and 16 (h / 2 + h) behind, of an MLP of f
  // inside, cut in two, 8 h + 16 (2 f / 2) and 16 (f / 2 + h); of experts, whole on each rank, 16 (h + 2 f + f + h).
  const double h = 2048, dense = 4096, expert = 1024;
  const auto mlp = [&](double f) { return 8 * h + 16 * f + 16 * (f / 2 + h); };
  const double attention = 8 * h + 16 * 1.5 * h / 2 + 16 * (h / 2 + h);
  CHECK(held == Approx(8 * attention + mlp(dense) + 7 * (mlp(expert) + 16 * (2 * h + 3 * expert))));
  // Frozen experts have neither gradient nor state.
  const Job whole = small_job(mixture({"finetune={kind: full}"}));
  const auto held_of = [](const Job& j) { return stage_memory(j, split_layers(j)).front(); };
  CHECK(held_of(job).gradients < held_of(whole).gradients / 50);
  CHECK(simulate_step(job).iteration < simulate_step(whole).iteration);
  const StepReport report = simulate_step(job);
  double kept_alike = 0;
  for (const TrafficRow& row : report.traffic) {
    if (row.what == "expert adapter gradients, backward") kept_alike += row.simulated_bytes;
  }
  // Two weights of 16 (h + 2 f) and 16 (f + h) elements in 16 bit, 3/4 of which each of 4 ranks sends twice; 16 GPUs
  // in groups of 4, 7 layers over 2 stages, 8 micro-batches.
  CHECK(kept_alike == Approx(8 * 7 * 2 * 4 * 2 * 0.75 * 2 * 16 * (2 * h + 3 * expert)));
}

TEST_CASE("a mixture's frozen weights are shared out by who holds them: experts over the ranks that hold the same") {
  const double held = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);  // bytes of a weight in four bits, as above
  for (const std::string kind : {"lora", "qlora"}) {
    for (const int expert : {1, 2, 8}) {
      INFO(kind << ", expert " << expert);
      const Job job = small_job(shared_out(expert, {"finetune.kind=" + kind}));
      // Seven layers of 8 experts of three h x f; all else that is frozen is counted by the formula.
      const double h = 2048, experts = 7 * 8 * 3 * h * 1024, ends = 2 * 51200 * h;
      const double rest = parameter_count(job.model) - experts - ends, of_blocks = kind == "lora" ? 2 : held;
      const double adapters = adapter_parameters(job.model, job.method.adapters, 1);
      // Each rank holds a sixteenth of everything: of experts the share of its group, over the groups that hold it too.
      const StageMemory stage = stage_memory(job, split_layers(job)).front();
      CHECK(stage.parameters == Approx((of_blocks * (rest + experts) + 2 * ends + 2 * adapters) / 16).epsilon(1e-3));
      // Gathered forward and backward of two micro-batches by all 16 ranks: experts among 16 / expert.
      double of_experts = 0, of_rest = 0;
      for (const TrafficRow& row : simulate_step(job).traffic) {
        if (!row.what.starts_with("frozen parameters")) continue;
        (row.among == CommGroup::expert_data ? of_experts : of_rest) += row.simulated_bytes;
      }
      const double among = 16.0 / expert, passes = 2 * 2 * of_blocks;
      const double gathered = passes * 16 * (1 - 1 / among) * experts / expert;
      if (expert == 1) CHECK(of_experts == 0);
      if (expert > 1) CHECK(of_experts == Approx(gathered).epsilon(1e-3));
      const double beside = passes * 15 * rest + 2 * 2 * 15 * 2 * ends;
      CHECK(of_rest == Approx(expert == 1 ? beside + gathered : beside).epsilon(1e-3));
    }
  }
}

TEST_CASE("latent attention has adapters beside all its products, whole ones where those are whole") {
  std::vector<std::string> sets = latent();
  sets.emplace_back("finetune.modules=attention");
  const Job job = small_job(mixture(sets));
  double trained = 0;
  for (std::int64_t i = 0; i < network_of(job).size(); ++i) trained += trained_parameters(network_of(job).layer(i));
  CHECK(trained == Approx(adapter_parameters(job.model, job.method.adapters, 2)));
  // Rank 16 over 2 ranks, 16 heads: down to 512 + 256 + 32 whole; up from each in 8 rows to its half of the heads'
  // 96 and 64 + 64; the output's half of 16 x 64 back to h.
  const double h = 2048, down = 16 * (h + 800), up = 8 * (512 + 256.0) + 16 * (16 * 96 + 16 * 128) / 2.0;
  CHECK(trained == Approx(8 * (down + up + 16 * (16 * 64 / 2.0 + h))));
  // What they add to a step is less than what training all would.
  sets.back() = "finetune={kind: full}";
  CHECK(simulate_step(job).iteration < simulate_step(small_job(mixture(sets))).iteration);
}

TEST_CASE("frozen weights that are shared out are gathered as units, and come from the host as they are held") {
  const std::vector<std::string> shared{"parallelism={data: 16, sharding: parameters}"};
  for (const char* more : {"software=deepspeed-zero3-2021", "offload={optimizer: true, parameters: true}",
                           "finetune={kind: qlora, rank: 16}"}) {
    INFO(more);
    std::vector<std::string> sets = lora(shared);
    sets.emplace_back(more);
    if (std::string(more).find("qlora") != std::string::npos)
      sets.emplace_back("offload={optimizer: true, parameters: true}");
    const Job job = small_job(sets);
    const StepReport report = simulate_step(job);
    CHECK(tests::contradiction(report) == "");
    if (!job.method.host_states.parameters) continue;
    double from_host = 0, gathered = 0;
    for (const TrafficRow& row : report.traffic) {
      if (row.what == "frozen parameters, from the host") from_host += row.simulated_bytes;
      if (row.what.starts_with("frozen parameters, forward") || row.what.starts_with("frozen parameters, backward"))
        gathered += row.simulated_bytes;
    }
    // Each of 16 ranks brings a sixteenth of what a gather hands to the other fifteen.
    CHECK(from_host > 0);
    CHECK(from_host * 15 == Approx(gathered));
    // No share of a weight stays with the device: the host holds what the device held before, and of each adapter's
    // weight 12 bytes of states, and its gradient in 4, or a copy in 2 as well.
    sets.emplace_back("offload={optimizer: false, parameters: false}");
    const Job without = small_job(sets);
    const StageMemory with_host = stage_memory(job, split_layers(job)).front(),
                      alone = stage_memory(without, split_layers(without)).front();
    const double adapters = adapter_parameters(job.model, job.method.adapters, 1) / 16;
    CHECK(with_host.parameters == 0);
    CHECK(alone.parameters > 100 * adapters);
    CHECK(with_host.host - (alone.parameters - 2 * adapters) >= Approx(16 * adapters));
    CHECK(with_host.host - (alone.parameters - 2 * adapters) <= Approx(18 * adapters));
  }
}

TEST_CASE("adapters are refused where nothing says how they lie") {
  CHECK_THROWS_WITH(small_job(mixture({"parallelism.expert=2", "parallelism.expert_tensor=2"})),
                    ContainsSubstring("expert_tensor"));
  CHECK_THROWS_WITH(small_job(lora({"model.parallel_block=true"})), ContainsSubstring("finetune"));
  CHECK_THROWS_WITH(small_job({"finetune={kind: lora}"}), ContainsSubstring("finetune"));
  CHECK_THROWS_WITH(small_job({"finetune={kind: lora, rank: 0}"}), ContainsSubstring("rank"));
}
