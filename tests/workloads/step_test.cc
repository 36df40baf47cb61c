// Does a simulated step keep its books: time, bytes, folding, and the direction in which every choice moves the answer?
#include "workloads/step/step.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "tests/workloads/layers.h"
#include "workloads/job/step_plan.h"
#include "workloads/memory/memory.h"
#include "workloads/schedules/catalogue.h"
#include "workloads/schedules/chunk_map.h"
#include "workloads/step/account.h"
#include "workloads/traffic/traffic.h"

using namespace orrery;
using namespace orrery::workloads;
using orrery::tests::small_job;

namespace {
using Sets = std::vector<std::string>;

double seconds(const Sets& sets) { return sim::to_seconds(simulate_step(small_job(sets)).iteration); }

/// Layouts that between them use every sharding, overlap and recompute mode.
std::vector<Sets> mixed_layouts() {
  return {
      {},
      {"parallelism.virtual_pipeline=4", "parallelism.sequence_parallel=true"},
      {"parallelism.sharding=optimizer"},
      {"parallelism.sharding=gradients", "parallelism.sequence_parallel=true", "parallelism.virtual_pipeline=2",
       "overlap={tensor: true, pipeline: true, gradients: true, parameters: true}"},
      {"parallelism.sharding=parameters", "parallelism.pipeline=1", "parallelism.data=8"},
      {"parallelism.sharding=parameters", "parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=16",
       "overlap={tensor: false, pipeline: false, gradients: false, parameters: false}", "recompute=full"},
      {"recompute=full", "attention=unfused"},
      {"recompute={kind: full, layers: 1}", "parallelism.virtual_pipeline=2", "parallelism.sequence_parallel=true"},
      {"recompute={kind: full, layers: 3}", "model.layers=7", "parallelism.context=2", "parallelism.data=2",
       "parallelism.sharding=parameters"},
      {"recompute=selective", "attention=unfused", "parallelism.sequence_parallel=true"},
      {"parallelism.tensor=8", "parallelism.data=1", "overlap={tensor: true}"},
      {"parallelism.tensor=16", "parallelism.pipeline=1", "parallelism.data=1"},
      {"parallelism.tensor=1", "parallelism.pipeline=8", "parallelism.data=2", "software=megatron-2021"},
      {"parallelism.pipeline=4", "parallelism.data=2", "overlap.gradients=true", "software.gradient_bucket='40 MB'"},
      {"model.parallel_block=true", "model.gated_mlp=true", "model.kv_heads=4", "optimizer=lamb"},
      {"model.tied_embeddings=false", "optimizer=sgd", "cluster.device=h100-sxm-80gb", "precision=fp8"},
      {"cluster.device=h100-sxm-80gb", "precision=fp8", "software.reduces_amax=true"},
      {"cluster.device=h100-sxm-80gb", "precision=fp8", "software.reduces_amax=true", "parallelism.schedule=dualpipe"},
      {"cluster.device=h100-sxm-80gb", "precision=fp8", "software=nemo-23.04", "parallelism.virtual_pipeline=2"},
      {"cluster.device=h100-sxm-80gb", "precision=fp8", "software=nemo-23.04", "parallelism.sharding=optimizer",
       "parallelism.shard_group=2"},
      {"model.layers=7", "parallelism.pipeline=2", "parallelism.virtual_pipeline=2"},
      {"parallelism.schedule=zb_h1", "parallelism.pipeline=4", "parallelism.data=2", "overlap.pipeline=false",
       "parallelism.optimizer_post_validation=false"},
      {"parallelism.schedule=zb_h2", "parallelism.pipeline=4", "parallelism.data=2", "parallelism.sharding=optimizer",
       "parallelism.sequence_parallel=true", "software.scattered_messages=both",
       "overlap={tensor: true, pipeline: true, gradients: true, parameters: true}"},
      {"parallelism.schedule=zb_v", "parallelism.pipeline=4", "parallelism.data=2", "recompute=full",
       "overlap.gradients=true", "software.gradient_bucket='40 MB'"},
      {"parallelism.schedule=zb_v", "model.layers=2", "parallelism.sharding=parameters"},
      {"parallelism.schedule=v_half", "parallelism.pipeline=4", "parallelism.data=2", "recompute=selective",
       "attention=unfused", "parallelism.sequence_parallel=true"},
      {"parallelism.schedule=v_min", "parallelism.tensor=1", "parallelism.pipeline=4", "overlap.pipeline=false",
       "parallelism.sharding=gradients"},
      {"parallelism.schedule=dualpipe", "parallelism.pipeline=4", "parallelism.data=2",
       "parallelism.sharding=optimizer", "overlap={tensor: true, pipeline: true, gradients: true, parameters: true}",
       "software.parameter_bucket='40 MB'"},
      {"parallelism.schedule=dualpipe", "parallelism.pipeline=4", "parallelism.data=2",
       "parallelism.sharding=parameters", "model.tied_embeddings=false"},
      {"parallelism.schedule=dualpipe", "parallelism.sharding=gradients", "software=megatron-core-0.8",
       "overlap={tensor: true, pipeline: true, gradients: true, parameters: true}", "software.gradient_bucket='20 MB'",
       "software.bucket_elements_per_rank=0"},
      {"parallelism.schedule=dualpipe", "parallelism.pipeline=4", "parallelism.data=1", "parallelism.tensor=4",
       "placement={order: [pipeline, data, context, tensor]}", "overlap.pipeline=false"},
      {"parallelism.stage_layers=[3, 5]"},
      {"parallelism.sharding=parameters", "parallelism.shard_group=2"},
      {"parallelism.sharding=optimizer", "parallelism.shard_group=4", "parallelism.context=2", "parallelism.tensor=1",
       "overlap={tensor: true, pipeline: true, gradients: true, parameters: true}", "software.gradient_bucket='40 MB'"},
      {"parallelism.sharding=gradients", "parallelism.shard_group=4", "parallelism.schedule=dualpipe"},
      {"parallelism.stage_layers=[0, 3, 3, 2]", "parallelism.schedule=zb_v"},
      {"parallelism.sharding=parameters", "software=deepspeed-zero3-2021"},
      {"parallelism.sharding=parameters", "parallelism.weight_group=2", "parallelism.gradient_group=2",
       "overlap={gradients: true, parameters: true}"},
      {"parallelism.tensor=1", "parallelism.data=8", "parallelism.sharding=parameters", "parallelism.shard_group=4",
       "parallelism.secondary_group=2", "software.quantised_fetches=true", "software.quantised_reductions=true",
       "software.unit_reduction=groups_once"},
      {"parallelism.tensor=8", "parallelism.tensor_in=2", "parallelism.pipeline=1", "parallelism.data=2",
       "parallelism.sharding=parameters", "parallelism.shard_group=2", "recompute=full"},
      {"parallelism.context=2", "parallelism.data=2"},
      {"parallelism.context=4", "parallelism.data=1", "parallelism.sequence_parallel=true", "recompute=full",
       "parallelism.virtual_pipeline=2", "model.kv_heads=4", "parallelism.sharding=optimizer"},
      {"parallelism.context=8", "parallelism.tensor=1", "parallelism.data=1", "recompute=selective",
       "parallelism.sharding=gradients"},
      {"parallelism.context=4", "parallelism.data=1", "parallelism.context_method=all_gather",
       "parallelism.sharding=parameters"},
      {"parallelism.context=2", "parallelism.data=2", "parallelism.context_method=all_gather", "recompute=full",
       "parallelism.schedule=zb_h1", "parallelism.sequence_parallel=true"},
      {"parallelism.context=4", "parallelism.data=1", "parallelism.context_method=all_gather", "recompute=full",
       "software.gathered_in_blocks=true"},
      {"parallelism.context=4", "parallelism.data=1", "parallelism.context_method=all_to_all", "model.kv_heads=8",
       "recompute={kind: full, layers: 1}"},
      {"parallelism.context=2", "parallelism.data=2", "parallelism.context_method=all_to_all", "recompute=selective",
       "parallelism.sequence_parallel=true", "model.attention_window=256"},
      {"parallelism.context=2", "parallelism.pipeline=4", "parallelism.data=1", "parallelism.schedule=dualpipe",
       "placement={order: [data, pipeline, tensor, context]}"},
  };
}

/// The same, and every schedule.
const std::vector<Sets>& layouts() {
  static const std::vector<Sets> all = [] {
    std::vector<Sets> each = mixed_layouts();
    for (const Schedule* schedule : kSchedules) each.push_back(tests::sets_for(*schedule));
    return each;
  }();
  return all;
}

std::string name(const Sets& sets) {
  return std::accumulate(sets.begin(), sets.end(), std::string(),
                         [](const std::string& a, const std::string& b) { return a + b + " "; });
}
}  // namespace

TEST_CASE("folded and full give the same step to the picosecond, in every layout") {
  for (const Sets& sets : layouts()) {
    INFO(name(sets));
    const Job job = small_job(sets);
    const StepReport folded = simulate_step(job), full = simulate_step(job, {.ranks = Question::Ranks::every});
    CHECK(folded.iteration == full.iteration);
    // A step that was cut short because it repeats adds its periods up in doubles: less than a picosecond apart.
    for (std::size_t c = 0; c < kCategories; ++c) CHECK(std::abs(folded.breakdown_s[c] - full.breakdown_s[c]) < 1e-12);
    CHECK(full.effort.ranks == 16);
    CHECK(folded.effort.ranks < 16);
  }
}

TEST_CASE("ranks of a tensor group that are alike are made once, on any fabric, with the times of all") {
  for (const char* fabric :
       {"ndr-rail", "{inherits: ndr-rail, rail: false, unit_nodes: 4, oversubscription: 4}",
        "{inherits: ndr-rail, unit_nodes: 4, radix: 16, spine_radix: 16, pod_leaves: 8, core_oversubscription: 4}",
        "tomahawk4-200g", "{inherits: tomahawk4-200g, ecmp_seed: 3}", "roce-4x200g", "selene-hdr"}) {
    for (const Sets& layout : {Sets{"parallelism={tensor: 4, pipeline: 2, virtual_pipeline: 2, data: 16}"},
                               Sets{"parallelism={tensor: 8, pipeline: 4, data: 4, sharding: optimizer}"},
                               Sets{"parallelism={tensor: 2, pipeline: 4, data: 8, context: 2}"}}) {
      Sets sets = layout;
      sets.insert(sets.end(), {"cluster.device=h100-sxm-80gb", "cluster.gpus=128", "batch={global: 64, micro: 1}",
                               std::string("cluster.fabric=") + fabric});
      INFO(name(sets));
      const Job job = small_job(sets);
      const StepReport folded = simulate_step(job), full = simulate_step(job, {.ranks = Question::Ranks::every});
      CHECK(folded.iteration == full.iteration);
      CHECK(folded.effort.ranks <= 128 / job.parallelism.tensor);
    }
  }
}

TEST_CASE("folded and full agree when a GPU or a NIC is slow or kernels jitter") {
  for (const Sets& sets :
       {Sets{"perturb.slow_gpus=[{gpu: 5, slowdown: 1.3}]"}, Sets{"perturb.slow_nics=[{node: 1, nic: 2, rate: 0.25}]"},
        Sets{"perturb.jitter={sigma: 0.05, seed: 7}"}}) {
    for (const Sets& layout : layouts()) {
      Sets both = layout;
      both.insert(both.end(), sets.begin(), sets.end());
      INFO(name(both));
      const Job job = small_job(both);
      CHECK(simulate_step(job).iteration == simulate_step(job, {.ranks = Question::Ranks::every}).iteration);
    }
  }
}

TEST_CASE("simulated bytes equal the closed form in every dimension and layout") {
  for (const Sets& sets : layouts()) {
    INFO(name(sets));
    for (const TrafficRow& row : traffic_table(small_job(sets))) {
      INFO(row.dimension + " " + row.operation + " " + row.what);
      CHECK(row.closed_form_bytes > 0);
      CHECK(row.simulated_bytes == Approx(row.closed_form_bytes).epsilon(1e-9));
    }
  }
}

TEST_CASE("the breakdown sums to the iteration") {
  for (const Sets& sets : layouts()) {
    INFO(name(sets));
    const StepReport report = simulate_step(small_job(sets));
    double sum = 0;
    for (const double part : report.breakdown_s) {
      CHECK(part >= 0);
      sum += part;
    }
    CHECK(sum == Approx(sim::to_seconds(report.iteration)).epsilon(1e-12));
  }
}

TEST_CASE("tensor parallelism communicates as in the table: two collectives forward and two backward per layer") {
  // b s h e = 1 x 1024 x 2048 x 2 bytes; 8 layers, 8 micro-batches, 4 replicas; each of two ranks sends half of the
  // buffer.
  const double buffer = 1024.0 * 2048 * 2, runs = 8.0 * 4;
  double all_reduce = 0, gather = 0, scatter = 0;
  for (const TrafficRow& row : traffic_table(small_job())) {
    if (row.dimension == "tensor" && row.calls_per_layer > 0) {
      CHECK(row.operation == "all_reduce");
      CHECK(row.calls_per_layer == 2);
      all_reduce += row.simulated_bytes;
    }
  }
  CHECK(all_reduce ==
        Approx(4 * 8 * runs * 2 * (2 * buffer / 2)));  // four per layer, two ranks, 2 (n-1)/n of the buffer
  for (const TrafficRow& row : traffic_table(small_job({"parallelism.sequence_parallel=true"}))) {
    if (row.dimension != "tensor" || row.calls_per_layer == 0 || row.what == "saved inputs, backward") continue;
    (row.operation == "all_gather" ? gather : scatter) += row.simulated_bytes;
  }
  CHECK(gather == Approx(4 * 8 * runs * 2 * (buffer / 2)));
  CHECK(scatter == Approx(gather));  // a pair moves what an all-reduce moves
}

TEST_CASE("choices move the step in the direction that they must") {
  const double base = seconds({});
  CHECK(seconds({"batch.global=64"}) > base);
  CHECK(seconds({"model.layers=16"}) > base);
  CHECK(seconds({"model.hidden=4096"}) > base);
  CHECK(seconds({"model.ffn_hidden=16384"}) > base);
  CHECK(seconds({"model.vocab=102400"}) > base);
  CHECK(seconds({"model.seq=2048"}) > base);
  CHECK(seconds({"model.attention_window=128"}) < base);
  CHECK(seconds({"model.kv_heads=2"}) < base);
  CHECK(seconds({"model.gated_mlp=true"}) > base);
  CHECK(seconds({"model.parallel_block=true"}) < base);
  CHECK(seconds({"recompute=full"}) > base);
  CHECK(seconds({"recompute=selective"}) > base);
  CHECK(seconds({"attention=unfused"}) > base);
  CHECK(seconds({"optimizer=lamb"}) > base);
  CHECK(seconds({"optimizer=sgd"}) < base);
  CHECK(seconds({"overlap.gradients=true", "software.gradient_bucket='40 MB'"}) < base);
  CHECK(seconds({"overlap.pipeline=true"}) < base);
  CHECK(seconds({"overlap.tensor=true"}) < base);
  CHECK(seconds({"parallelism.sharding=optimizer", "overlap.parameters=true", "software.parameter_bucket='40 MB'"}) <
        seconds({"parallelism.sharding=optimizer", "software.parameter_bucket='40 MB'"}));
  CHECK(seconds({"cluster.device=h100-sxm-80gb"}) < base);
  CHECK(seconds({"cluster.fabric=ndr-rail"}) < base);
  CHECK(seconds({"perturb.slow_gpus=[{gpu: 3, slowdown: 1.2}]"}) > base);
  CHECK(seconds({"perturb.slow_nics=[{node: 0, nic: 0, rate: 0.1}]"}) > base);
  CHECK(seconds({"perturb.jitter={sigma: 0.1, seed: 1}"}) != base);
  CHECK(seconds({"perturb.jitter={sigma: 0.1, seed: 1}"}) != seconds({"perturb.jitter={sigma: 0.1, seed: 2}"}));
  CHECK(seconds({"placement={order: [pipeline, data, context, tensor]}"}) > base);
}

TEST_CASE("a slower GPU slows the step by no more than its own slowdown") {
  const double base = seconds({});
  const double slow = seconds({"perturb.slow_gpus=[{gpu: 0, slowdown: 1.5}]"});
  CHECK(slow > base);
  CHECK(slow <= 1.5 * base);
}

TEST_CASE("evaluation adds forward passes and is spread over the steps between") {
  const Job job = small_job({"evaluation={every_steps: 4, sequences: 100}"});
  const StepReport report = simulate_step(job);
  CHECK(report.evaluation.seconds > 0);
  // 100 sequences are four batches of 32; a forward pass is shorter than a step.
  CHECK(report.evaluation.seconds < 4 * sim::to_seconds(report.iteration));
  CHECK(report.evaluation.iteration_s ==
        Approx(sim::to_seconds(report.iteration) + sim::to_seconds(job.software.host.step_host) +
               report.evaluation.seconds / 4));
}

TEST_CASE("an evaluation under any schedule computes the forward passes of the step and nothing else") {
  const topology::Cluster cluster = [] {
    const Job job = small_job();
    return topology::Cluster(job.machine.node, job.machine.fabric, job.machine.gpus, job.machine.gpus_per_node,
                             sim::Settings());
  }();
  for (const Schedule* schedule : kSchedules) {
    INFO(schedule->name);
    Sets sets = tests::sets_for(*schedule);
    sets.insert(sets.end(),
                {"parallelism.pipeline=4", "parallelism.data=2", "evaluation={every_steps: 4, sequences: 32}"});
    const Job job = small_job(sets);
    CHECK(simulate_step(job).evaluation.seconds > 0);
    const StepPlan step =
        make_plan(job, cluster, make_groups(group_inputs_of(job), cluster), {Workload::evaluation, false});
    std::int64_t forwards = 0;  // last pieces of chunks: as many as micro-batches x chunks on every stage
    for (const auto& notes : step.stages.notes) {
      std::set<std::pair<int, int>> passes;
      for (const OpNote& note : notes) {
        CHECK(note.kind == PassKind::forward);
        passes.insert({note.chunk, note.microbatch});
      }
      forwards += static_cast<std::int64_t>(passes.size());
    }
    // DualPipe's two blocks of a stage see half of the micro-batches each.
    const std::int64_t blocks = job.parallelism.chunk_map().blocks();
    CHECK(forwards == job.microbatches() * blocks);
  }
}

TEST_CASE("the first rank of each tensor group tells how all groups lie, and where their bytes go") {
  std::size_t told = 0;
  for (const Sets& sets : mixed_layouts()) {
    std::string text;
    for (const std::string& set : sets) text += set + ' ';
    INFO(text);
    const Job job = small_job(sets);
    const topology::Cluster cluster = cluster_of(site_of(job));
    const GroupInputs inputs = group_inputs_of(job);
    const auto all = make_groups(inputs, cluster), first = make_groups(inputs, cluster, true);
    CHECK(all->alike == 1);
    if (first->alike == 1) continue;
    ++told;
    CHECK(first->alike == job.parallelism.tensor);
    for (const JobGroup& group : all->list) {
      INFO(group.group.name);
      const GroupShape &a = all->shapes[group.group], &b = first->shapes[group.group];
      CHECK(std::tie(a.ranks, a.nodes, a.per_node, a.rails, a.top, a.hop, a.nic) ==
            std::tie(b.ranks, b.nodes, b.per_node, b.rails, b.top, b.hop, b.nic));
    }
    CHECK(all->shapes.pipeline_same_node == first->shapes.pipeline_same_node);
    std::vector<TrafficRow> rows = closed_form_traffic(job);
    for (TrafficRow& row : rows) row.simulated_bytes = row.closed_form_bytes;
    const RankMap ranks(inputs.layout.dims, inputs.placement, job.machine.gpus_per_node);
    CHECK(bytes_by_tier(rows, all->list, ranks, cluster) ==
          bytes_by_tier(rows, first->list, ranks, cluster, first->alike));
  }
  CHECK(told > 10);
}

TEST_CASE("rates follow from the iteration") {
  const Job job = small_job();
  const StepReport r = simulate_step(job);
  const double s = sim::to_seconds(r.iteration);
  CHECK(r.rates.tokens_per_s == Approx(32 * 1024 / s));
  CHECK(r.rates.model_tflops_per_gpu == Approx(model_flops(job.model, 32) / s / 16 / 1e12));
  CHECK(r.rates.mfu_pct == Approx(100 * r.rates.model_tflops_per_gpu / 312));
}

TEST_CASE("model states take 16 bytes per parameter, or 2 + 14/d when gradients and optimizer are sharded") {
  const auto states = [](const Sets& sets) {
    const Job job = small_job(sets);
    double sum = 0;
    for (const StageMemory& m : stage_memory(job, split_layers(job))) {
      sum += m.parameters + m.gradients + m.optimizer;
    }
    return sum / parameter_count(job.model);
  };
  const Sets one{"parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=16", "batch.global=32",
                 "software=megatron-core-0.8"};
  const auto with = [&](const char* sharding) {
    Sets s = one;
    s.push_back(std::string("parallelism.sharding=") + sharding);
    return states(s);
  };
  CHECK(with("none") == Approx(16).epsilon(2e-3));  // the final norm's 2h are not in the closed form
  CHECK(with("optimizer") == Approx(4 + 12.0 / 16).epsilon(2e-3));
  CHECK(with("gradients") == Approx(2 + 14.0 / 16).epsilon(2e-3));
  CHECK(with("parameters") == Approx(16.0 / 16).epsilon(2e-3));
  // Gradients that are added up whole over a step's micro-batches are whole.
  Sets whole = one;
  whole.insert(whole.end(), {"parallelism.sharding=gradients", "software.gradient_reduction=once"});
  CHECK(states(whole) == Approx(4 + 12.0 / 16).epsilon(2e-3));
  Sets hybrid = one;  // shared out among four, four times
  hybrid.insert(hybrid.end(), {"parallelism.sharding=parameters", "parallelism.shard_group=4"});
  CHECK(states(hybrid) == Approx(16.0 / 4).epsilon(2e-3));
}

TEST_CASE("activations per layer follow Korthikanti et al., equations 1 to 6") {
  const double sbh = 1024.0 * 2048, a = 16, s = 1024, h = 2048, t = 2;
  const auto bytes = [](const Sets& sets) { return tests::block_bytes(small_job(sets)).kept; };
  CHECK(bytes({"attention=unfused"}) == Approx(sbh * (10 + 24 / t + 5 * a * s / (h * t))));
  CHECK(bytes({"attention=unfused", "parallelism.sequence_parallel=true"}) == Approx(sbh / t * (34 + 5 * a * s / h)));
  CHECK(bytes({"attention=unfused", "recompute=selective", "parallelism.sequence_parallel=true"}) ==
        Approx(sbh / t * 34));
  CHECK(bytes({"recompute=full"}) == Approx(2 * sbh));
}

TEST_CASE("1F1B keeps p - s micro-batches in flight, GPipe all of them") {
  const Job job = small_job({"parallelism.tensor=1", "parallelism.pipeline=4", "parallelism.data=4"});
  const LayerSplit split = split_layers(job);
  for (std::int32_t stage = 0; stage < 4; ++stage) CHECK(tests::in_flight(job, split, stage).layers == 2 * (4 - stage));
  const Job gpipe =
      small_job({"parallelism.tensor=1", "parallelism.pipeline=4", "parallelism.data=4", "parallelism.schedule=gpipe"});
  CHECK(tests::in_flight(gpipe, split, 0).layers == 2 * 8);
}

TEST_CASE("split schedules hold what their papers say: p, 2p-1, 2p halves, p+1 blocks") {
  const auto most = [](const char* schedule) {
    const Job job = small_job({"parallelism.tensor=1", "parallelism.pipeline=4", "parallelism.data=4",
                               std::string("parallelism.schedule=") + schedule});
    const LayerSplit split = split_layers(job);
    double layers = 0;
    for (std::int32_t stage = 0; stage < 4; ++stage)
      layers = std::max(layers, tests::in_flight(job, split, stage).layers);
    return layers;
  };
  // Eight layers: two on a stage, one in a chunk of a V, two in each of DualPipe's two blocks.
  CHECK(most("1f1b") == 2 * 4);
  CHECK(most("zb_h1") <= 2 * 4);
  CHECK(most("zb_h2") <= 2 * 7);
  CHECK(most("zb_h2") > 2 * 4);
  CHECK(most("zb_v") <= 1 * 8);
  CHECK(most("v_half") <= 1 * 6);
  CHECK(most("v_min") <= 1 * 4);
  CHECK(most("dualpipe") == 2 * 5);
}

TEST_CASE("a split backward pass does the same work in two parts") {
  const Job job = small_job({"parallelism.schedule=zb_h1", "parallelism.sequence_parallel=true"});
  const LayerPasses passes = tests::passes_over(job, {4, true, true});
  const auto sum = [](const Pieces& pieces) {
    std::int64_t ps = 0;
    for (const Piece& piece : pieces) {
      for (const Kernel& kernel : piece.kernels) ps += kernel.time.value();
    }
    return ps;
  };
  CHECK(sum(passes.input_gradient) + sum(passes.weight_gradient) == sum(passes.backward));
  CHECK(sum(passes.weight_gradient) > 0);
  // Four GEMMs in each of four layers, and the head's; nothing to communicate.
  std::size_t gemms = 0;
  for (const Piece& piece : passes.weight_gradient) {
    CHECK_FALSE(piece.is_comm());
    for (const Kernel& kernel : piece.kernels) gemms += kernel.matmul;
  }
  CHECK(gemms == 4 * 4 + 1);
}

TEST_CASE("a stage that steps its optimizer by itself waits less, and nothing else about the step changes") {
  const Sets zb{"parallelism.tensor=1", "parallelism.pipeline=8", "parallelism.data=2", "parallelism.schedule=zb_h2",
                "model.tied_embeddings=false"};
  Sets synchronous = zb;
  synchronous.emplace_back("parallelism.optimizer_post_validation=false");
  const StepReport apart = simulate_step(small_job(zb)), together = simulate_step(small_job(synchronous));
  CHECK(apart.iteration < together.iteration);
  CHECK(apart.memory.peak_bytes == together.memory.peak_bytes);
  const auto compute = static_cast<std::size_t>(Category::compute);
  CHECK(apart.breakdown_s[compute] == Approx(together.breakdown_s[compute]));
}

TEST_CASE("a stage that fetches its micro-batch ahead of time is not at work yet") {
  const auto seconds_with = [](const char* host) {
    return sim::to_seconds(
        simulate_step(small_job({"parallelism.schedule=zb_h2", "parallelism.tensor=1", "parallelism.pipeline=4",
                                 "parallelism.data=4", "software.host_waits_for_batch=false",
                                 std::string("software.microbatch_host=") + host}))
            .iteration);
  };
  // Eight micro-batches, each with a microsecond of the host, a launch of 5 us and a copy of 3 us.
  const double without = seconds_with("0 us"), with = seconds_with("1 us");
  CHECK(with >= without);
  CHECK(with - without <= 8 * 9e-6);
}

TEST_CASE("tied weights on one stage need no exchange and are held once") {
  const auto embedding_rows = [](const char* schedule) {
    int rows = 0;
    for (const TrafficRow& row : traffic_table(small_job({std::string("parallelism.schedule=") + schedule})))
      rows += row.dimension == "embedding";
    return rows;
  };
  CHECK(embedding_rows("1f1b") == 1);
  CHECK(embedding_rows("zb_v") == 0);
  CHECK(embedding_rows("dualpipe") == 0);
}

TEST_CASE("context parallelism cuts the sequence: activations by its degree, attention into equal shares") {
  const Sets one{"model.seq=8192", "parallelism.context=1"},
      two{"model.seq=8192", "parallelism.context=2", "parallelism.data=2"};
  CHECK(tests::block_bytes(small_job(two)).kept == Approx(tests::block_bytes(small_job(one)).kept / 2));
  // A rank's queries times the keys that they see: s^2/2 of the causal triangle over c ranks. Ring: its own triangle
  // (s/c)^2/2, and (c-1) half squares; gathered: (s/c) queries by s/2 keys. Both s^2/(2c), so each takes about half as
  // long as the whole, and no less.
  const auto attention_s = [](const Sets& sets) {
    const LayerPasses passes = tests::passes_over(small_job(sets), {1, false, false});
    double seconds = 0;
    for (const Piece& piece : passes.forward) {
      for (const Kernel& kernel : piece.kernels) {
        if (kernel.name == "attention forward") seconds += sim::to_seconds(kernel.time);
      }
    }
    return seconds;
  };
  Sets gathered = two;
  gathered.emplace_back("parallelism.context_method=all_gather");
  const auto longer = [](Sets sets) {  // smaller kernels fill a GPU less: long sequences show the work alone
    sets[0] = "model.seq=131072";
    return sets;
  };
  const double half = attention_s(longer(one)) / 2;
  CHECK(attention_s(longer(two)) == Approx(half).epsilon(0.1));
  CHECK(attention_s(longer(gathered)) == Approx(half).epsilon(0.1));
  // The ring hides its messages behind attention where attention is long; a gather hides nothing.
  const auto exposed = [](const Sets& sets) {
    return simulate_step(small_job(sets)).breakdown_s[static_cast<std::size_t>(Category::context_comm)];
  };
  CHECK(exposed(two) < exposed(gathered));
  CHECK(exposed(one) == 0);
}

TEST_CASE("a step that a slow GPU makes shorter says so") {
  // Stages of three nodes that share out weights over 100 Gb/s: gathers and the messages between stages use the same
  // NICs, and a delay of one stage takes them apart.
  const std::vector<std::string> sets{
      "cluster={device: h100-sxm-80gb, gpus: 24, fabric: jean-zay-4x100g}",
      "model={layers: 4, hidden: 1920, heads: 24, vocab: 32000, seq: 4096, gated_mlp: true, parallel_block: true, "
      "tied_embeddings: true, positions: alibi, biases: none}",
      "parallelism={tensor: 2, pipeline: 2, data: 6, sequence_parallel: false, sharding: parameters}",
      "batch={global: 192, micro: 4}",
      "recompute=selective",
      "optimizer=sgd",
      "software=nemo-25.09",
      "overlap={tensor: false, pipeline: true, gradients: false, parameters: false}"};
  const auto with = [&](const char* perturbed) {
    std::vector<std::string> all = sets;
    all.emplace_back(std::string("perturb=") + perturbed);
    return simulate_step(small_job(all));
  };
  const auto told = [](const StepReport& report) {
    return std::any_of(report.assumptions.begin(), report.assumptions.end(), [](const std::string& line) {
      return line.find("shorter than without slow GPUs") != std::string::npos;
    });
  };
  const StepReport plain = simulate_step(small_job(sets));
  for (const char* perturbed :
       {"{slow_gpus: [{gpu: 0, slowdown: 2}]}", "{slow_gpus: [{gpu: 12, slowdown: 2}]}",
        "{slow_gpus: [{gpu: 0, slowdown: 1.0001}]}", "{slow_gpus: [{gpu: 0, slowdown: 0.5}]}"}) {
    INFO(perturbed);
    const StepReport slow = with(perturbed);
    const bool harmful = std::string(perturbed).find("0.5") == std::string::npos;
    CHECK(told(slow) == (harmful && sim::to_seconds(slow.iteration) <= 0.999 * sim::to_seconds(plain.iteration)));
  }
  CHECK_FALSE(told(plain));
  CHECK(told(with("{slow_gpus: [{gpu: 0, slowdown: 2}]}")));
}
