// The cluster of a job, and how it cuts and computes its layers. See job.h.
#include "workloads/job/job.h"

#include "workloads/model/families/families.h"

namespace orrery::workloads {

std::int64_t Machine::gpus_of_kind(std::size_t kind) const {
  if (kind > 0) return mixture.others[kind - 1].nodes.nodes * gpus_per_node;
  std::int64_t left = gpus;
  for (std::size_t other = 1; other < mixture.kinds(); ++other) left -= gpus_of_kind(other);
  return left;
}

bool Machine::knows_power() const {
  for (std::size_t kind = 0; kind < mixture.kinds(); ++kind) {
    if (!device_of_kind(kind).power().known()) return false;
  }
  return true;
}

double Machine::mean_peak(calibration::DataType type) const {
  if (!mixed()) return device.peak(type).value();
  double sum = 0;
  for (std::size_t kind = 0; kind < mixture.kinds(); ++kind)
    sum += static_cast<double>(gpus_of_kind(kind)) * device_of_kind(kind).peak(type).value();
  return sum / static_cast<double>(gpus);
}

/// A domain of NVLink that the job fills in part is there as a whole.
Site site_of(const Job& job) {
  const std::int64_t per_node = job.machine.gpus_per_node, nodes = (job.machine.gpus + per_node - 1) / per_node;
  Site site{job.machine.node, job.machine.fabric, nodes * per_node, per_node, job.perturbation.faults};
  for (const OtherKind& other : job.machine.mixture.others) site.others.push_back(other.nodes);
  return site;
}

topology::Cluster cluster_of(const Site& site, const sim::Settings& where) {
  return topology::Cluster(site.node, site.fabric, site.gpus, site.gpus_per_node, where, site.faults, site.others);
}

Split split_of(const Job& job) {
  const Parallelism& p = job.parallelism;
  if (const Recommender& tables = job.model.recommender; tables.any()) {
    Split split;
    split.expert = tables.plan.ranks;
    split.expert_tensor = tables.plan.node_ranks;
    split.micro_batch = job.batch.micro;
    return split;
  }
  return {p.tensor,         p.context,       p.expert,          p.expert_tensor, p.sequence_parallel,
          p.context_method, job.batch.micro, p.inside.tensor_in};
}

Computation computation_of(const Job& job) {
  Computation computation;
  computation.precision = job.method.precision;
  computation.recompute = job.method.recompute;
  computation.attention = job.method.attention;
  computation.overlaps_tensor = job.overlap.tensor;
  computation.ends_on_one_stage = job.parallelism.chunk_map().ends_meet();
  computation.keeps_training_gradients = job.software.gradients.of_training == calibration::TrainingGradients::kept;
  computation.style = job.software.layers;
  // Gradients of sharded parameters go into buffers that are made anew.
  const bool shards = job.parallelism.sharding == Sharding::parameters;
  calibration::WeightGradients& made = computation.style.linear.weight_gradients;
  if (shards && made == calibration::WeightGradients::fused_16bit) made = calibration::WeightGradients::fused;
  if (!shards) computation.style.linear.unit_gathers = calibration::UnitGathers::in_place;
  // Where tensor cores know scales of blocks, products of Transformer Engine read operands with one scale by rows and
  // by columns, and no tensor is copied by columns (v2.3, transformer_engine/pytorch/csrc/extensions/quantizer.cpp,
  // nvte_is_non_tn_fp8_gemm_supported). Of other libraries' this is not known.
  using calibration::Casts;
  const Casts casts = job.software.layers.casts;
  const calibration::DeviceProfile& device = job.machine.device;
  const bool by_blocks = device.peak(calibration::DataType::mxfp8) > device.peak(calibration::DataType::bf16);
  if (by_blocks && (casts == Casts::by_norms || casts == Casts::scaled_by_makers))
    computation.style.linear.column_cast_traffic = 0;
  computation.attention_style = job.software.attention_style;
  computation.recomputed = job.method.recomputed;
  computation.recomputed_layers = job.method.recomputed_layers;
  computation.experts = job.method.experts;
  computation.adapters = job.method.adapters;
  return computation;
}

Network network_of(const Job& job) { return network(job.model, split_of(job), computation_of(job)); }

}  // namespace orrery::workloads
