// The values that the page's controls show. Left out: what no control moves.
#include "tools/whatif/layout.h"

#include <nlohmann/json.hpp>

#include "workloads/step/step.h"

namespace orrery::tools {

using nlohmann::ordered_json;

ordered_json layout_json(const scenarios::Scenario& scenario) {
  const workloads::Job& job = scenario.job;
  const workloads::Parallelism& split = job.parallelism;
  ordered_json out;
  out["cluster.device"] = job.machine.device.name();
  out["cluster.gpus"] = job.machine.gpus;
  out["cluster.gpus_per_node"] = job.machine.gpus_per_node;
  out["cluster.fabric"] = job.machine.fabric.name;
  out["model"] = job.model.name;
  out["model.layers"] = job.model.layers;
  out["model.hidden"] = job.model.hidden;
  out["model.seq"] = job.model.seq;
  out["model.experts"] = job.model.experts.count;
  out["parallelism.tensor"] = split.tensor;
  out["parallelism.pipeline"] = split.pipeline;
  out["parallelism.virtual_pipeline"] = split.virtual_pipeline;
  out["parallelism.data"] = split.data;
  out["parallelism.context"] = split.context;
  out["parallelism.expert"] = split.expert;
  out["parallelism.expert_tensor"] = split.expert_tensor;
  out["parallelism.sequence_parallel"] = split.sequence_parallel;
  out["parallelism.sharding"] = calibration::name_of(split.sharding);
  out["parallelism.schedule"] = split.schedule->name;
  out["batch.global"] = job.batch.global;
  out["batch.micro"] = job.batch.micro;
  out["precision"] = calibration::name_of(job.method.precision.matmul);
  out["recompute"] = name_of(job.method.recompute);
  out["attention"] = name_of(job.method.attention);
  out["overlap.tensor"] = job.overlap.tensor;
  out["overlap.pipeline"] = job.overlap.pipeline;
  out["overlap.gradients"] = job.overlap.gradients;
  out["overlap.parameters"] = job.overlap.parameters;
  out["software"] = job.software.name;
  out["cost.price_per_gpu_hour_usd"] = job.training.price_per_gpu_hour_usd;
  out["training.tokens"] = job.training.tokens;
  out["parameters"] = workloads::parameter_count(job.model);
  out["microbatches"] = job.microbatches();
  return out;
}

}  // namespace orrery::tools
