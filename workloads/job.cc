// The cluster of a job, and the names of its choices as the scenario language spells them.
#include "workloads/job.h"

#include <array>

namespace orrery::workloads {

namespace {
constexpr std::array<std::string_view, kScheduleKinds> kSchedules{
    "gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v", "v_half", "v_min", "dualpipe"};
constexpr std::array<std::string_view, 2> kContextMethods{"ring", "all_gather"};
constexpr std::array<std::string_view, 4> kShardings{"none", "optimizer", "gradients", "parameters"};
constexpr std::array<std::string_view, 3> kRecomputes{"none", "selective", "full"};
constexpr std::array<std::string_view, 2> kAttentions{"flash", "unfused"};
constexpr std::array<std::string_view, 3> kOptimizers{"adam", "lamb", "sgd"};
constexpr std::array<std::string_view, 4> kPositions{"learned", "rotary", "none", "alibi"};
constexpr std::array<std::string_view, 2> kNorms{"layer_norm", "rms_norm"};
constexpr std::array<std::string_view, 3> kBiases{"all", "qkv", "none"};
}  // namespace

Site site_of(const Job& job) { return {job.node, job.fabric, job.gpus, job.gpus_per_node, job.perturbation.faults}; }

topology::Cluster cluster_of(const Site& site, const sim::Settings& where) {
  return topology::Cluster(site.node, site.fabric, site.gpus, site.gpus_per_node, where, site.faults);
}

topology::Cluster cluster_of(const Job& job, const sim::Settings& where) { return cluster_of(site_of(job), where); }

bool fuses_wgrad_accumulation(const Job& job) {
  return job.software.layers.fused_wgrad_accumulation &&
         (job.precision.gradients == DataType::fp32 || job.software.layers.fused_wgrad_16bit);
}

std::string_view name_of(ScheduleKind schedule) { return kSchedules[static_cast<std::size_t>(schedule)]; }
std::string_view name_of(ContextMethod method) { return kContextMethods[static_cast<std::size_t>(method)]; }
std::string_view name_of(Sharding sharding) { return kShardings[static_cast<std::size_t>(sharding)]; }
std::string_view name_of(Recompute recompute) { return kRecomputes[static_cast<std::size_t>(recompute)]; }
std::string_view name_of(AttentionKind attention) { return kAttentions[static_cast<std::size_t>(attention)]; }
std::string_view name_of(OptimizerKind optimizer) { return kOptimizers[static_cast<std::size_t>(optimizer)]; }
std::string_view name_of(Positions positions) { return kPositions[static_cast<std::size_t>(positions)]; }
std::string_view name_of(Norm norm) { return kNorms[static_cast<std::size_t>(norm)]; }
std::string_view name_of(Biases biases) { return kBiases[static_cast<std::size_t>(biases)]; }

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names(kSchedules.begin(), kSchedules.end());
  return names;
}

}  // namespace orrery::workloads
