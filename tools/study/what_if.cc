// The list of changes, and what follows from each. It only leaves out what cannot divide; whether a layout runs is the
// loader's to say. Left out: model, batch, GPUs, device and fabric, which are another job; generations of software; the
// optimizer; offloading.
#include "tools/study/what_if.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "tools/study/layouts.h"
#include "workloads/schedules/catalogue.h"

namespace orrery::tools {

using workloads::ExpertStyle;
using workloads::Parallelism;
using workloads::Schedule;

namespace {

constexpr const char* kTensor = "parallelism.tensor";
constexpr const char* kPipeline = "parallelism.pipeline";
constexpr const char* kChunks = "parallelism.virtual_pipeline";
constexpr const char* kContext = "parallelism.context";
constexpr const char* kExpert = "parallelism.expert";
constexpr const char* kExpertTensor = "parallelism.expert_tensor";
constexpr const char* kSequence = "parallelism.sequence_parallel";
constexpr const char* kSchedule = "parallelism.schedule";
constexpr const char* kMicro = "batch.micro";

using Set = std::map<std::string, std::string>;

std::string text(std::int64_t n) { return fmt::format("{}", n); }

std::int64_t number(const Set& set, const char* key, std::int64_t otherwise) {
  const auto found = set.find(key);
  if (found == set.end()) return otherwise;
  std::int64_t value = otherwise;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return value;
}

/// The degrees of a job as a change leaves them.
struct Degrees {
  std::int64_t tensor, pipeline, chunks, context;
  Degrees(const Parallelism& p, const Set& set)
      : tensor(number(set, kTensor, p.tensor)),
        pipeline(number(set, kPipeline, p.pipeline)),
        chunks(number(set, kChunks, p.virtual_pipeline)),
        context(number(set, kContext, p.context)) {}
};

/// The schedule of a changed job, and its chunks: a schedule of one or two has so many, and one that cannot have as
/// many as are asked for becomes the usual one.
const Schedule& follow_schedule(const Parallelism& p, const Set& set, Degrees& degrees) {
  if (const auto named = set.find(kSchedule); named != set.end()) {
    const Schedule& schedule = *workloads::schedule_named(named->second);
    if (schedule.chunks != workloads::kAnyChunks) degrees.chunks = schedule.chunks;
    return schedule;
  }
  if (degrees.pipeline == 1) {
    degrees.chunks = 1;
    return workloads::usual_schedule(1);
  }
  const bool fixed = p.schedule->chunks != workloads::kAnyChunks;
  const bool suits = fixed ? p.schedule->chunks == degrees.chunks : degrees.chunks > 1;
  return suits ? *p.schedule : workloads::usual_schedule(degrees.chunks);
}

/// The largest micro-batch that divides the one there is and with which a replica has whole micro-batches, as many as
/// the schedule can run; 0: none.
std::int64_t follow_micro(std::int64_t micro, std::int64_t sequences, const Degrees& degrees,
                          const Schedule& schedule) {
  const std::vector<std::int64_t> sizes = divisors(micro);
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    if (sequences % *size != 0) continue;
    const workloads::PipelineShape shape{static_cast<std::int32_t>(degrees.pipeline),
                                         static_cast<std::int32_t>(degrees.chunks),
                                         static_cast<std::int32_t>(sequences / *size)};
    if (!schedule.misfit(shape)) return *size;
  }
  return 0;
}

/// Collects changes.
class List {
 public:
  explicit List(const Arrangement& here) : here_(here), p_(here.layout) {}

  void add(std::string kind, Set set, std::string needs = {}) {
    all_.push_back({std::move(kind), std::move(set), false, std::move(needs)});
  }
  void add_numerics(std::string kind, Set set) { all_.push_back({std::move(kind), std::move(set), true}); }

  void add_micro_batches() {
    for (const std::int64_t micro : divisors(here_.batch.global / p_.data)) {
      if (micro != here_.batch.micro) add("micro-batch", {{kMicro, text(micro)}});
    }
  }

  /// Data-parallel ranks become tensor-parallel ones, or the other way round.
  void add_tensor() {
    for (const std::int64_t tensor : divisors(p_.tensor * p_.data)) {
      if (tensor == p_.tensor || here_.model.attention.heads % tensor != 0) continue;
      add_tensor_degree("tensor", {}, tensor);
    }
  }

  /// Likewise with the pipeline, in every number of chunks.
  void add_pipeline() {
    for (const std::int64_t pipeline : divisors(p_.pipeline * p_.data)) {
      if (pipeline != p_.pipeline) add_pipeline_degree("pipeline", {}, pipeline);
    }
    for (const std::int64_t chunks : chunk_counts(here_.model.layers, p_.pipeline)) {
      if (chunks != p_.virtual_pipeline) add("virtual pipeline", {{kChunks, text(chunks)}});
    }
  }

  /// Tensor-parallel ranks become stages, or the other way round.
  void add_trades() {
    for (const std::int64_t tensor : divisors(p_.tensor * p_.pipeline)) {
      if (tensor == p_.tensor || here_.model.attention.heads % tensor != 0) continue;
      add_pipeline_degree("tensor for pipeline", {{kTensor, text(tensor)}}, p_.tensor * p_.pipeline / tensor);
    }
    for (const std::int64_t tensor : divisors(p_.tensor * p_.context)) {
      if (tensor == p_.tensor || p_.context == 1 || here_.model.attention.heads % tensor != 0) continue;
      add("tensor for context", {{kTensor, text(tensor)}, {kContext, text(p_.tensor * p_.context / tensor)}});
    }
  }

  void add_context() {
    for (const std::int64_t context : divisors(p_.context * p_.data)) {
      if (context != p_.context && here_.model.seq % (2 * context) == 0) add("context", {{kContext, text(context)}});
    }
    if (p_.context == 1) return;
    using enum workloads::ContextMethod;
    for (const auto& [method, means] :
         {std::pair{ring, "a ring"}, {all_gather, "all-gathers"}, {all_to_all, "heads"}}) {
      if (method == p_.context_method) continue;
      add("context method", {{"parallelism.context_method", std::string(workloads::name_of(method))}},
          fmt::format("context parallelism by {}", means));
    }
  }

  void add_experts() {
    const workloads::Experts& experts = here_.model.experts;
    if (!experts.any()) return;
    const std::int64_t ranks = p_.tensor * p_.data * p_.context;
    std::vector<std::int64_t> parts{1};
    if (p_.tensor > 1) parts.push_back(p_.tensor);
    for (const std::int64_t expert : divisors(std::gcd(experts.count, ranks))) {
      for (const std::int64_t tensor : parts) {
        if (expert == p_.expert && tensor == p_.expert_tensor) continue;
        if (ranks % (expert * tensor) == 0) add("expert", {{kExpert, text(expert)}, {kExpertTensor, text(tensor)}});
      }
    }
    if (!here_.overlap.experts) add("overlap of experts", {{"overlap.experts", "true"}}, "overlap of experts");
  }

  void add_states() {
    for (const auto level : {workloads::Sharding::none, workloads::Sharding::optimizer, workloads::Sharding::gradients,
                             workloads::Sharding::parameters}) {
      if (level != p_.sharding) add("sharding", {{"parallelism.sharding", std::string(workloads::name_of(level))}});
    }
    if (p_.tensor > 1) add("sequence parallelism", {{kSequence, p_.sequence_parallel ? "false" : "true"}});
  }

  void add_recomputation() {
    for (const char* kind : {"none", "selective", "full"}) add("recompute", {{"recompute", kind}});
    std::vector<std::string> parts{"core_attention", "mlp", "activation", "norms", "norms, activation"};
    if (here_.model.experts.any()) parts.insert(parts.end(), {"moe_act", "moe"});
    if (here_.model.attention.latent.any()) parts.insert(parts.end(), {"mla_up_proj", "mla_up_proj, moe_act"});
    for (const std::string& modules : parts) {
      add("recompute", {{"recompute", fmt::format("{{kind: selective, modules: [{}]}}", modules)}},
          "recomputation by module");
    }
  }

  void add_schedules() {
    for (const Schedule* schedule : workloads::kSchedules) {
      if (schedule == p_.schedule || p_.pipeline == 1) continue;
      const bool usual = schedule == &workloads::usual_schedule(p_.virtual_pipeline);
      add("schedule", {{kSchedule, std::string(schedule->name)}},
          usual ? "" : fmt::format("schedule {}", schedule->name));
    }
  }

  void add_overlaps() {
    const workloads::Overlap& overlap = here_.overlap;
    const auto flip = [&](bool matters, const char* key, bool now) {
      if (!matters) return;
      add(fmt::format("overlap of {}", key), {{fmt::format("overlap.{}", key), now ? "false" : "true"}},
          now ? "" : fmt::format("overlap of {}", key));
    };
    flip(p_.tensor > 1, "tensor", overlap.tensor);
    flip(p_.pipeline > 1, "pipeline", overlap.pipeline);
    flip(p_.data > 1, "gradients", overlap.gradients);
    flip(p_.data > 1, "parameters", overlap.parameters);
  }

  /// Stages and layers over nodes of two kinds.
  void add_kinds() {
    if (here_.swapped_kinds.empty()) return;
    if (!here_.balances_layers) {
      add("layers by device", {{"parallelism.stage_layers", "balanced"}}, "stages of different size");
      add("kinds of nodes", {{"cluster.others", here_.swapped_kinds}, {"parallelism.stage_layers", "balanced"}},
          "stages of different size");
    }
    add("kinds of nodes", {{"cluster.others", here_.swapped_kinds}});
  }

  /// Where the tables of a recommender lie, which has no other layout.
  void add_tables() {
    const workloads::Recommender& model = here_.model.recommender;
    for (const char* placement : {"auto", "table", "row", "column"})
      add("placement of tables", {{"tables.placement", placement}});
    if (model.plan.node_ranks > 1) add("exchange of vectors", {{"tables.exchange", "flat"}});
    if (!model.prefetches) add("prefetch of keys", {{"tables.prefetch", "true"}}, "prefetch of keys");
  }

  void add_method() {
    if (here_.method.attention != workloads::AttentionKind::flash)
      add("attention", {{"attention", "flash"}}, "fused attention");
    for (const char* precision : {"bf16", "fp16", "fp8", "mxfp8", "fp8-blockwise", "nvfp4"}) {
      if (precision != workloads::name_of(here_.method.precision.matmul))
        add_numerics("precision", {{"precision", precision}});
    }
    for (const char* order : {"tensor, context, pipeline, data", "tensor, pipeline, context, data",
                              "tensor, data, context, pipeline", "data, tensor, context, pipeline"})
      add("placement", {{"placement", fmt::format("{{order: [{}]}}", order)}});
  }

  /// Launches replayed as CUDA graphs. Where the host has to know how many tokens come to experts, a step cannot be one
  /// graph: then what does not hang on these counts is (Megatron-Core, --cuda-graph-scope attn moe_router
  /// moe_preprocess), or buffers have room for more than come (paged_stash).
  void add_graphs() {
    const ExpertStyle& experts = here_.method.experts;
    const bool counts = here_.model.experts.any() && !experts.pads_to_capacity && !experts.paged_stash;
    const calibration::HostCosts& host = here_.host;
    const bool works = host.expert_layer_host > sim::Duration{} || host.operation_host > sim::Duration{};
    if (counts && works && host.graphs == calibration::Graphs::none)
      add("CUDA graphs", {{"software.graphs", "ahead_of_counts"}}, "CUDA graphs of attention and router");
    constexpr std::int64_t kReplayed = 1'000'000;  // calibration/features/cuda-graphs.yaml: a launch costs 1 us
    if (here_.names_features || here_.host.kernel_issue.value() <= kReplayed) return;
    Set set{{"software.features", "[cuda-graphs]"}};
    if (counts) set["experts.paged_stash"] = "true";
    add("CUDA graphs", std::move(set),
        counts ? "CUDA graphs of whole steps, over paged buffers of experts" : "CUDA graphs");
  }

  std::vector<WhatIf> take() { return std::move(all_); }

 private:
  /// With and without sequence parallelism where the job has no tensor group that could say.
  void add_tensor_degree(const std::string& kind, Set set, std::int64_t tensor) {
    set[kTensor] = text(tensor);
    add(kind, set);
    if (tensor == 1 || p_.sequence_parallel) return;
    set[kSequence] = "true";
    add(kind, std::move(set));
  }

  void add_pipeline_degree(const std::string& kind, Set set, std::int64_t pipeline) {
    if (pipeline > here_.model.layers + 2) return;
    set[kPipeline] = text(pipeline);
    for (const std::int64_t chunks : chunk_counts(here_.model.layers, pipeline)) {
      set[kChunks] = text(chunks);
      add(kind, set);
    }
  }

  const Arrangement& here_;
  const Parallelism& p_;
  std::vector<WhatIf> all_;
};

}  // namespace

namespace {
/// The stages of a machine of two kinds on the other kind first: those of the first kind last, or the other way round.
std::string swapped_kinds(const workloads::Machine& machine) {
  if (machine.mixture.kinds() != 2) return {};
  const auto& kinds = machine.mixture.kind_of_stage;
  const auto others = std::count(kinds.begin(), kinds.end(), std::uint8_t{1});
  std::vector<std::int64_t> stages(static_cast<std::size_t>(others));
  const bool behind = !kinds.empty() && kinds.front() == 0;
  std::iota(stages.begin(), stages.end(), behind ? 0 : static_cast<std::int64_t>(kinds.size()) - others);
  return fmt::format("[{{device: {}, gpus: {}, stages: [{}]}}]", machine.device_of_kind(1).name(),
                     machine.gpus_of_kind(1), fmt::join(stages, ", "));
}
}  // namespace

Arrangement arrangement_of(const scenarios::Scenario& scenario) {
  const auto& job = scenario.job;
  return {job.machine.gpus,
          job.model,
          job.parallelism,
          job.batch,
          job.method,
          job.overlap,
          job.machine.mixture.balances_layers,
          swapped_kinds(job.machine),
          job.software.host};
}

std::vector<WhatIf> what_ifs(const Arrangement& here) {
  List list(here);
  if (here.model.recommender.any()) {
    list.add_tables();
    return list.take();
  }
  list.add_micro_batches();
  list.add_tensor();
  list.add_pipeline();
  list.add_trades();
  list.add_context();
  list.add_experts();
  list.add_states();
  list.add_recomputation();
  list.add_schedules();
  list.add_overlaps();
  list.add_method();
  list.add_graphs();
  list.add_kinds();
  return list.take();
}

std::optional<WhatIf> joined(const WhatIf& a, const WhatIf& b) {
  if (a.kind == b.kind) return std::nullopt;
  WhatIf both = a;
  for (const auto& [key, value] : b.set) {
    if (!both.set.emplace(key, value).second) return std::nullopt;
  }
  both.kind = fmt::format("{} and {}", a.kind, b.kind);
  both.numerics = a.numerics || b.numerics;
  both.needs = a.needs.empty() || b.needs.empty() ? a.needs + b.needs : fmt::format("{} and {}", a.needs, b.needs);
  return both;
}

std::optional<std::vector<std::string>> assignments(const Arrangement& here, const WhatIf& what_if) {
  const Parallelism& p = here.layout;
  Degrees degrees(p, what_if.set);
  const Schedule& schedule = follow_schedule(p, what_if.set, degrees);
  const std::int64_t others = degrees.tensor * degrees.pipeline * degrees.context;
  if (here.gpus % others != 0) return std::nullopt;
  const std::int64_t data = here.gpus / others;
  if (here.batch.global % data != 0) return std::nullopt;
  const std::int64_t micro =
      follow_micro(number(what_if.set, kMicro, here.batch.micro), here.batch.global / data, degrees, schedule);
  if (micro == 0) return std::nullopt;
  Set set = what_if.set;
  const auto follow = [&](const char* key, std::int64_t now, std::int64_t was) {
    if (now != was)
      set[key] = text(now);
    else if (!what_if.set.contains(key))
      set.erase(key);
  };
  follow(kChunks, degrees.chunks, p.virtual_pipeline);
  follow("parallelism.data", data, p.data);
  follow(kMicro, micro, here.batch.micro);
  if (&schedule != p.schedule) set[kSchedule] = std::string(schedule.name);
  if (degrees.tensor == 1 && p.sequence_parallel) set[kSequence] = "false";
  const bool experts_cut = p.expert_tensor > 1 && p.expert_tensor == p.tensor;
  if (experts_cut && degrees.tensor != p.tensor && !set.contains(kExpertTensor))
    set[kExpertTensor] = text(degrees.tensor);
  const bool recut = degrees.pipeline != p.pipeline || degrees.chunks != p.virtual_pipeline;
  if (recut && !p.stage_layers.empty() && !here.balances_layers) set["parallelism.stage_layers"] = "null";
  std::vector<std::string> lines;
  for (const auto& [key, value] : set) lines.push_back(fmt::format("{}={}", key, value));
  return lines;
}

}  // namespace orrery::tools
