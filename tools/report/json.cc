// The JSON of `run`. Left out: versioning; keys are only ever added.
#include <nlohmann/json.hpp>
#include <ostream>

#include "tools/report/kinds.h"
#include "tools/report/report.h"
#include "workloads/model/causal_flops.h"
#include "workloads/step/training_cost.h"

namespace orrery::tools {

using nlohmann::ordered_json;

double sent_share(const std::string& operation, std::int64_t group) {
  if (operation == "send_receive") return 1;
  if (group <= 1) return 0;
  const double n = static_cast<double>(group);
  if (operation == "all_reduce") return 2 * (n - 1) / n;
  if (operation == "all_gather" || operation == "reduce_scatter" || operation == "all_to_all") return (n - 1) / n;
  return 1;
}

ordered_json traffic_json(const workloads::TrafficRow& row) {
  ordered_json json;
  json["dimension"] = row.dimension;
  json["operation"] = row.operation;
  json["calls"] = row.calls;
  json["bytes_per_call"] = row.bytes_per_call;
  json["bytes_per_rank"] = row.calls * row.bytes_per_call * sent_share(row.operation, row.group);
  json["what"] = row.what;
  json["group"] = row.group;
  json["level"] = row.level;
  json["calls_per_layer"] = row.calls_per_layer;
  json["closed_form_bytes"] = row.closed_form_bytes;
  json["simulated_bytes"] = row.simulated_bytes;
  return json;
}

double causal_mfu_pct(const workloads::Model& model, std::int64_t global_batch, const workloads::StepReport& report) {
  const double square = workloads::model_flops(model, global_batch);
  return report.rates.mfu_pct * workloads::causal_model_flops(model, global_batch) / square;
}

calibration::DataType utilisation_type(const calibration::DeviceProfile& device) {
  using calibration::DataType;
  return device.has(DataType::bf16) ? DataType::bf16 : DataType::fp16;
}

namespace {

ordered_json stage_json(const workloads::StageMemory& stage) {
  ordered_json row;
  row["parameters"] = stage.parameters;
  row["gradients"] = stage.gradients;
  row["optimizer"] = stage.optimizer;
  row["activations"] = stage.activations;
  row["buffers"] = stage.buffers;
  row["total"] = stage.total;
  row["allocated"] = stage.allocated;
  row["buffers_of"] = {{"gradient_accumulators", stage.parts.accumulators},
                       {"weight_copies", stage.parts.weight_copies},
                       {"gathered", stage.parts.gathered},
                       {"messages", stage.parts.messages},
                       {"optimizer_step", stage.parts.step},
                       {"fragmentation", stage.parts.fragmentation},
                       {"context", stage.parts.context}};
  if (stage.host > 0) row["host"] = stage.host;
  row["peak"] = {{"during", workloads::name_of(stage.peak.during)}};
  if (stage.peak.during != workloads::StageMemory::During::optimizer) {
    row["peak"]["chunk"] = stage.peak.chunk;
    row["peak"]["microbatch"] = stage.peak.microbatch;
  }
  if (stage.counted_activations > 0) {
    row["peak"]["at_s"] = stage.peak.at_s;
    row["counted_activations"] = stage.counted_activations;
  }
  return row;
}

ordered_json memory_json(const workloads::StepReport& report) {
  ordered_json json;
  json["fits"] = report.memory.fits;
  json["peak_bytes"] = report.memory.peak_bytes;
  json["allocated_bytes"] = report.memory.allocated_bytes;
  json["reserved_bytes"] = report.memory.reserved_bytes;
  json["capacity_bytes"] = report.memory.capacity_bytes;
  if (report.memory.host.peak_bytes > 0) {
    json["host_bytes"] = report.memory.host.peak_bytes;
    const double capacity = report.memory.host.capacity_bytes;
    json["host_capacity_bytes"] = capacity > 0 ? ordered_json(capacity) : ordered_json(nullptr);
  }
  json["would_fit"] = ordered_json::array();
  for (const workloads::Remedy& remedy : report.memory.would_fit) {
    json["would_fit"].push_back({{"set", remedy.changes}, {"peak_bytes", remedy.peak_bytes}});
  }
  json["stages"] = ordered_json::array();
  for (const workloads::StageMemory& stage : report.memory.stages) json["stages"].push_back(stage_json(stage));
  return json;
}

ordered_json provenance_json(const calibration::DeviceProfile& device, const topology::FabricSpec& fabric,
                             const calibration::Software& software) {
  ordered_json json;
  json["device_profile"] = device.name();
  json["device_profile_source"] = device.provenance();
  json["fabric"] = fabric.name;
  json["fabric_source"] = fabric.provenance;
  json["software"] = software.name;
  json["software_source"] = software.provenance;
  return json;
}

/// Nothing where the device's document does not say what it draws.
void add_energy(ordered_json& json, const workloads::Energy& energy, const std::vector<workloads::WarmRow>& rows,
                double tokens_per_s) {
  if (!energy.known) return;
  json["energy_j"] = energy.total_j();
  json["power_w"] = energy.gpu_w();
  ordered_json power;
  power["gpu_w"] = energy.gpu_w();
  power["gpu_peak_w"] = energy.busiest_gpu_w;
  power["node_w"] = energy.node_w();
  power["node_peak_w"] = energy.node_peak_w();
  power["job_w"] = energy.job_w();
  power["site_w"] = energy.site_w();
  power["energy_per_token_j"] = energy.site_w() / tokens_per_s;
  if (energy.carbon_g_per_kwh > 0) {
    power["carbon_g"] = energy.grams_of(energy.site_j());
    power["carbon_g_per_million_tokens"] = energy.grams_of(1e6 * energy.site_w() / tokens_per_s);
  }
  for (std::size_t p = 0; p < workloads::kEnergyParts; ++p)
    power["energy_by_part_j"][std::string(workloads::name_of(static_cast<workloads::EnergyPart>(p)))] =
        energy.parts_j[p];
  for (const workloads::WarmRow& row : rows)
    power["temperature_rows"].push_back(
        {{"temperature_c", row.temperature_c}, {"clock", row.clock}, {"throttled_by_temperature", row.throttled}});
  json["power"] = std::move(power);
}

}  // namespace

ordered_json tier_bytes_json(const workloads::StepReport& report) {
  ordered_json json = ordered_json::object();
  for (const auto& tier : report.tier_bytes) json[std::string(topology::name_of(tier.tier))] = tier.bytes;
  return json;
}

ordered_json report_json(const scenarios::Scenario& scenario, const workloads::StepReport& report) {
  ordered_json json;
  json["scenario"] = scenario.id;
  json["gpus"] = report.gpus;
  json["ranks_simulated"] = report.effort.ranks;
  json["events"] = report.effort.events;
  json["wall_s"] = report.effort.wall_s;
  json["iteration_time_s"] = sim::to_seconds(report.iteration);
  json["tokens_per_s"] = report.rates.tokens_per_s;
  json["tokens_per_s_per_gpu"] = report.rates.tokens_per_s_per_gpu;
  json["model_tflops_per_gpu"] = report.rates.model_tflops_per_gpu;
  json["hardware_tflops_per_gpu"] = report.rates.hardware_tflops_per_gpu;
  json["aggregate_pflops"] = report.rates.aggregate_pflops;
  json["mfu_pct"] = report.rates.mfu_pct;
  json["mfu_causal_pct"] = causal_mfu_pct(scenario.job.model, scenario.job.batch.global, report);
  json["hfu_pct"] = report.rates.hfu_pct;
  if (scenario.job.evaluation.every_steps > 0) {
    json["iteration_time_with_evaluation_s"] = report.evaluation.iteration_s;
    json["tokens_per_s_with_evaluation"] = report.evaluation.tokens_per_s;
    json["evaluation_s"] = report.evaluation.seconds;
  }
  const workloads::TrainingCost cost =
      workloads::training_cost(scenario.job.training, scenario.job.machine.gpus, report.evaluation.tokens_per_s);
  if (cost.time_s > 0) json["time_to_train_s"] = cost.time_s;
  if (cost.usd > 0) json["cost_usd"] = cost.usd;
  if (cost.usd_per_million_tokens > 0) json["usd_per_million_tokens"] = cost.usd_per_million_tokens;
  add_energy(json, report.energy, scenario.job.power.rows, report.rates.tokens_per_s);
  ordered_json breakdown;
  for (std::size_t c = 0; c < workloads::kCategories; ++c) {
    breakdown[std::string(workloads::name_of(static_cast<workloads::Category>(c)))] = report.breakdown_s[c];
  }
  json["breakdown_s"] = std::move(breakdown);
  json["busiest_stage"] = report.busiest_stage;
  json["memory"] = memory_json(report);
  if (scenario.job.machine.mixed()) json["kinds"] = kinds_json(scenario.job.machine, report);
  json["traffic"] = ordered_json::array();
  for (const workloads::TrafficRow& row : report.traffic) json["traffic"].push_back(traffic_json(row));
  json["tier_bytes"] = tier_bytes_json(report);
  json["assumptions"] = report.assumptions;
  json["provenance"] = provenance_json(scenario.job.machine.device, scenario.job.machine.fabric, scenario.job.software);
  return json;
}

void write_json(std::ostream& out, const ordered_json& json) {
  out << json.dump(2, ' ', false, ordered_json::error_handler_t::replace) << '\n';
}

}  // namespace orrery::tools
