// Data of a run's report: every stage is drawn as its busiest rank. Left out: collectives of tensor groups, which lie
// inside passes (a trace shows them), and links that can never be the bottleneck.
#include "tools/report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/yaml_text.h"
#include "tools/report/page.h"
#include "tools/report/rank_map.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "tools/validation.h"
#include "workloads/step/training_cost.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;
using workloads::Category;
using workloads::StageBars;
using workloads::Timeline;

constexpr double kTicks = 4e9;               // of the step: what a box's place is rounded to
constexpr std::size_t kMostBoxes = 150'000;  // of all stages; what a file below 5 MB holds
constexpr std::size_t kBins = 400;           // of a link's load over the step
constexpr std::size_t kShownLinks = 12;

/// What a box of the timeline stands for; the page knows these numbers.
enum Box : std::uint8_t { forward, backward, input_gradient, weight_gradient, optimizer, data_comm, messages };

Box box_of(const StageBars::Bar& bar) {
  switch (bar.pass) {
    case 'F':
      return forward;
    case 'b':
      return input_gradient;
    case 'W':
      return weight_gradient;
    default:
      return backward;
  }
}

/// The passes and transfers of one stage, as columns.
class Boxes {
 public:
  explicit Boxes(double tick_ps) : tick_ps_(tick_ps) {}

  void add(const StageBars& stage, bool transfers) {
    const StageBars::Bar* open = nullptr;  // the first bar of the pass at hand
    for (const StageBars::Bar& bar : stage.bars) {
      if (!bar.computes) {
        if (transfers) add_transfer(bar);
        continue;
      }
      const bool same = open != nullptr && bar.microbatch >= 0 && bar.pass == open->pass && bar.chunk == open->chunk &&
                        bar.microbatch == open->microbatch;
      if (same) {
        stretch_to(bar.finish);
        continue;
      }
      open = &bar;
      const bool passes = bar.microbatch >= 0;
      push(bar, passes ? box_of(bar) : optimizer);
    }
  }

  std::size_t size() const { return kind_.size(); }

  ordered_json json() const {
    return {{"n", size()},
            {"start", base64_of(start_)},
            {"length", base64_of(length_)},
            {"kind", base64_of(kind_)},
            {"chunk", base64_of(chunk_)},
            {"micro", base64_of(micro_)}};
  }

 private:
  std::uint32_t ticks(sim::SimTime t) const {
    return static_cast<std::uint32_t>(std::clamp(static_cast<double>(t.value()) / tick_ps_, 0.0, kTicks));
  }
  void add_transfer(const StageBars::Bar& bar) {
    if (bar.category == Category::data_comm) push(bar, data_comm);
    if (bar.category == Category::pipeline_comm && bar.stream.sends) push(bar, messages);
  }
  void push(const StageBars::Bar& bar, Box kind) {
    start_.push_back(ticks(bar.start));
    length_.push_back(ticks(bar.finish) - start_.back());
    kind_.push_back(kind);
    chunk_.push_back(static_cast<std::uint8_t>(std::clamp(bar.chunk, 0, 255)));
    micro_.push_back(static_cast<std::uint16_t>(std::clamp(bar.microbatch, 0, 65535)));
  }
  void stretch_to(sim::SimTime finish) {
    std::size_t last = kind_.size() - 1;
    while (kind_[last] >= data_comm) --last;  // transfers that were issued in between
    length_[last] = std::max(length_[last], ticks(finish) - start_[last]);
  }

  double tick_ps_;
  std::vector<std::uint32_t> start_, length_;
  std::vector<std::uint8_t> kind_, chunk_;
  std::vector<std::uint16_t> micro_;
};

std::size_t passes_in(const StageBars& stage) {
  Boxes boxes(1e12);
  boxes.add(stage, false);
  return boxes.size();
}

/// When a stage has its first backward pass before it, and when no forward pass is left.
ordered_json phases_of(const StageBars& stage) {
  sim::SimTime warm{}, steady{};
  bool backward_seen = false;
  for (const StageBars::Bar& bar : stage.bars) {
    if (!bar.computes || bar.microbatch < 0) continue;
    if (bar.pass == 'F') steady = std::max(steady, bar.finish);
    if (bar.pass != 'F' && !backward_seen) {
      warm = bar.start;
      backward_seen = true;
    }
  }
  return {{"warm_s", sim::to_seconds(sim::Duration(warm.value()))},
          {"steady_s", sim::to_seconds(sim::Duration(std::max(warm, steady).value()))}};
}

ordered_json timeline_json(const workloads::StepReport& report, double tick_ps) {
  std::size_t passes = 0, shown = 0;
  for (const StageBars& stage : report.busiest.bars) passes += passes_in(stage);
  ordered_json json;
  json["tick_s"] = tick_ps / sim::kPicosecondsPerSecond;
  json["rows"] = ordered_json::array();
  for (const StageBars& stage : report.busiest.bars) {
    if (stage.bars.empty()) break;
    Boxes boxes(tick_ps);
    boxes.add(stage, 3 * passes < kMostBoxes);
    if (shown + boxes.size() > kMostBoxes) break;
    shown += boxes.size();
    ordered_json row = boxes.json();
    row["stage"] = stage.stage;
    row["rank"] = stage.rank;
    row["phases"] = phases_of(stage);
    json["rows"].push_back(std::move(row));
  }
  json["stages"] = report.memory.stages.size();
  json["transfers"] = 3 * passes < kMostBoxes;
  return json;
}

/// Steps of memory over time; where there are more than a screen could show, the largest of neighbours.
ordered_json memory_series(const Timeline& timeline, double tick_ps) {
  constexpr std::size_t kMostPoints = 4000;
  const std::size_t block = timeline.memory.size() / kMostPoints + 1;
  std::vector<std::uint32_t> at;
  std::vector<float> gigabytes;
  for (std::size_t i = 0; i < timeline.memory.size(); i += block) {
    double most = 0;
    for (std::size_t j = i; j < std::min(timeline.memory.size(), i + block); ++j)
      most = std::max(most, timeline.memory[j].bytes);
    at.push_back(static_cast<std::uint32_t>(static_cast<double>(timeline.memory[i].at.value()) / tick_ps));
    gigabytes.push_back(static_cast<float>(most / 1e9));
  }
  return {{"stage", timeline.stage}, {"n", at.size()}, {"at", base64_of(at)}, {"gb", base64_of(gigabytes)}};
}

ordered_json stages_json(const workloads::StepReport& report, double tick_ps) {
  ordered_json stages = ordered_json::array();
  for (const Timeline& timeline : report.busiest.timelines) {
    const workloads::StageMemory& m = report.memory.stages[static_cast<std::size_t>(timeline.stage)];
    ordered_json row;
    row["stage"] = timeline.stage;
    row["rank"] = timeline.rank;
    row["breakdown_s"] = timeline.breakdown_s;
    row["memory_gb"] = {m.parameters / 1e9, m.gradients / 1e9, m.optimizer / 1e9, m.activations / 1e9, m.buffers / 1e9};
    row["fullest"] = workloads::name_of(m.peak.during);
    row["over_time"] = memory_series(timeline, tick_ps);
    stages.push_back(std::move(row));
  }
  return stages;
}

/// Mean load of a link in each of kBins equal parts of the step, as shares of its capacity.
std::vector<float> load_bins(const workloads::LinkLoad& link, double step_ps) {
  std::vector<double> bins(kBins, 0);
  const double width = step_ps / static_cast<double>(kBins);
  for (std::size_t i = 0; i + 1 < link.rates.size(); ++i) {
    if (link.rates[i].bytes_per_s <= 0) continue;
    double from = static_cast<double>(link.rates[i].at.value());
    const double to = static_cast<double>(link.rates[i + 1].at.value());
    while (from < to) {
      const auto bin = std::min(kBins - 1, static_cast<std::size_t>(from / width));
      const double edge = bin + 1 == kBins ? to : std::min(to, static_cast<double>(bin + 1) * width);
      bins[bin] += link.rates[i].bytes_per_s / link.capacity * (edge - from) / width;
      if (edge <= from) break;
      from = edge;
    }
  }
  return {bins.begin(), bins.end()};
}

ordered_json links_json(const workloads::StepReport& report, double step_ps) {
  ordered_json links = ordered_json::array();
  for (std::size_t i = 0; i < std::min(kShownLinks, report.links.size()); ++i) {
    const workloads::LinkLoad& link = report.links[i];
    links.push_back({{"name", link.name},
                     {"tier", topology::name_of(link.tier)},
                     {"capacity_gbs", link.capacity / 1e9},
                     {"gb", link.bytes / 1e9},
                     {"busy_s", link.busy_s},
                     {"load", base64_of(load_bins(link, step_ps))}});
  }
  return links;
}

/// Kernels of one name and size, summed over the stages' busiest ranks.
ordered_json kernels_json(const workloads::StepReport& report) {
  ordered_json kernels = ordered_json::array();
  for (const workloads::KernelUse& use : report.busiest.kernels) {
    kernels.push_back({{"name", use.name},
                       {"flops", use.flops},
                       {"bytes", use.bytes},
                       {"type", calibration::name_of(use.type)},
                       {"count", use.count},
                       {"seconds", sim::to_seconds(use.time)}});
  }
  return kernels;
}

/// Peaks of the roofline: the usual two and that of the job's products.
ordered_json device_json(const calibration::DeviceProfile& device, calibration::DataType product) {
  ordered_json json;
  json["name"] = device.name();
  json["bandwidth"] = device.memory_bandwidth().value();
  json["peaks"] = ordered_json::object();
  for (std::size_t t = 0; t < calibration::kDataTypes; ++t) {
    const auto type = static_cast<calibration::DataType>(t);
    const bool usual = type == calibration::DataType::bf16 || type == calibration::DataType::fp8;
    if (type == product || (usual && device.has(type)))
      json["peaks"][std::string(calibration::name_of(type))] = device.peak(type).value();
  }
  return json;
}

/// What a record says was measured, beside the prediction.
ordered_json measured_json(const scenarios::Scenario& scenario, const workloads::StepReport& report) {
  ordered_json rows = ordered_json::array();
  if (!scenario.measured) return rows;
  const scenarios::Measured& m = *scenario.measured;
  const bool hardware = m.tflops_kind.starts_with("hardware") || m.tflops_kind.starts_with("megatron");
  const double memory = m.memory.kind == "allocated"  ? report.memory.allocated_bytes
                        : m.memory.kind == "reserved" ? report.memory.reserved_bytes
                                                      : report.memory.peak_bytes;
  const auto add = [&](const char* name, const char* unit, const std::optional<double>& measured, double predicted) {
    if (!measured) return;
    ordered_json row{{"name", name}, {"unit", unit}, {"measured", *measured}, {"predicted", predicted}};
    row["error_pct"] = *measured > 0 ? ordered_json(100 * (predicted / *measured - 1)) : ordered_json(nullptr);
    rows.push_back(std::move(row));
  };
  add("step time", "s", m.iteration_s, sim::to_seconds(report.iteration));
  add("throughput", "tokens/s", m.tokens_per_s, report.rates.tokens_per_s);
  add("throughput with evaluation", "tokens/s", m.tokens_per_s_including_eval, report.evaluation.tokens_per_s);
  add(hardware ? "hardware FLOPs per GPU" : "model FLOPs per GPU", "TFLOP/s", m.tflops_per_gpu,
      hardware ? report.rates.hardware_tflops_per_gpu : report.rates.model_tflops_per_gpu);
  add("MFU", "%", m.mfu_pct, report.rates.mfu_pct);
  add("HFU", "%", m.hfu_pct, report.rates.hfu_pct);
  add("memory per GPU", "GB", m.memory.peak_gb, memory / 1e9);
  if (report.energy.known) {
    add("mean power of a GPU", "W", m.power_w, report.energy.gpu_w());
    add("energy of a step", "J", m.energy_j, report.energy.total_j());
  }
  if (m.memory.oom)
    rows.push_back({{"name", "runs out of memory"}, {"measured", *m.memory.oom}, {"predicted", !report.memory.fits}});
  return rows;
}

/// `causal_pct`: MFU of a causal kernel's FLOPs.
/// `peak_type`: whose peak the MFU is of.
/// Days and dollars of the whole training, behind the step's time.
void add_training(ordered_json& facts, const workloads::Training& training, std::int64_t gpus, double tokens_per_s) {
  const workloads::TrainingCost cost = workloads::training_cost(training, gpus, tokens_per_s);
  if (!(cost.time_s > 0)) return;
  const std::string days = fmt::format("{} days", number_text(cost.time_s / 86'400));
  const std::string tokens = si_text(training.tokens, "") + "tokens, without failures";
  facts.insert(facts.begin() + 1,
               ordered_json::array(
                   {"training", cost.usd > 0 ? fmt::format("{}, {} USD", days, count_text(cost.usd)) : days, tokens}));
}

ordered_json facts_json(bool evaluates, double causal_pct, calibration::DataType peak_type,
                        const workloads::StepReport& report) {
  ordered_json facts = ordered_json::array();
  const auto add = [&](const std::string& name, const std::string& value, const std::string& note) {
    facts.push_back({name, value, note});
  };
  add("step time", time_text(sim::to_seconds(report.iteration)),
      evaluates ? time_text(report.evaluation.iteration_s) + " with evaluation" : "");
  add("throughput", si_text(report.rates.tokens_per_s, "tokens/s"),
      number_text(report.rates.tokens_per_s_per_gpu) + " per GPU");
  add("MFU", fmt::format("{:.1f} %", report.rates.mfu_pct),
      fmt::format("{} per GPU, of the dense {} peak; {:.1f} % with causal attention",
                  si_text(report.rates.model_tflops_per_gpu * 1e12, "FLOP/s"), calibration::name_of(peak_type),
                  causal_pct));
  add("memory per GPU", bytes_text(report.memory.peak_bytes),
      fmt::format("of {}, {}", bytes_text(report.memory.capacity_bytes),
                  report.memory.fits ? "fits" : "OUT OF MEMORY"));
  if (const workloads::Energy& energy = report.energy; energy.known) {
    add("power", fmt::format("{} a node", si_text(energy.node_w(), "W")),
        fmt::format("{:.0f} W a GPU, {} with all of the site", energy.gpu_w(), si_text(energy.site_w(), "W")));
    add("energy", fmt::format("{} a step", si_text(energy.total_j(), "J")),
        fmt::format("{} a token{}", si_text(energy.site_w() / report.rates.tokens_per_s, "J"),
                    energy.carbon_g_per_kwh > 0
                        ? fmt::format(", {} g of CO2 a million",
                                      number_text(energy.grams_of(1e6 * energy.site_w() / report.rates.tokens_per_s)))
                        : ""));
  }
  const auto part = [&](workloads::Category category) {
    return report.breakdown_s[static_cast<std::size_t>(category)] / sim::to_seconds(report.iteration);
  };
  add("exposed communication and waiting",
      fmt::format("{:.1f} %", 100 * (1 - part(workloads::Category::compute) - part(workloads::Category::optimizer))),
      fmt::format("of the step, of the busiest rank (stage {})", report.busiest_stage));
  add("simulated", fmt::format("{} of {} ranks", report.effort.ranks, report.gpus),
      fmt::format("{} events", count_text(static_cast<double>(report.effort.events))));
  return facts;
}

ordered_json provenance_json(const calibration::DeviceProfile& device, const topology::NodeSpec& node,
                             const topology::FabricSpec& fabric, const calibration::Software& software) {
  return ordered_json::array({{"device", device.name(), device.provenance()},
                              {"inside a node", device.name(), node.provenance},
                              {"fabric", fabric.name, fabric.provenance},
                              {"training software", software.name, software.provenance}});
}

/// The time that is drawn: the step, or the last span's end where stages end apart.
double drawn_ps(const workloads::StepReport& report) {
  double step_ps = static_cast<double>(report.iteration.value());
  for (const StageBars& stage : report.busiest.bars) {
    for (const StageBars::Bar& bar : stage.bars) step_ps = std::max(step_ps, static_cast<double>(bar.finish.value()));
  }
  return step_ps;
}

}  // namespace

ordered_json pipeline_page(const scenarios::Scenario& scenario, const workloads::StepReport& report) {
  const double step_ps = drawn_ps(report);
  ordered_json page;
  page["title"] = scenario.id.empty() ? scenario.job.name : scenario.id;
  page["subtitle"] = scenario_line(scenario.job);
  page["span_s"] = step_ps / sim::kPicosecondsPerSecond;
  page["timeline"] = timeline_json(report, std::max(1.0, step_ps / kTicks));
  return page;
}

ordered_json run_page(const sim::Settings& document, const scenarios::Scenario& scenario,
                      const workloads::StepReport& report) {
  const workloads::Job& job = scenario.job;
  const double step_ps = drawn_ps(report);
  const double tick_ps = std::max(1.0, step_ps / kTicks);
  ordered_json page;
  page["kind"] = "run";
  page["title"] = scenario.id.empty() ? job.name : scenario.id;
  page["subtitle"] = scenario_line(job);
  page["description"] = job.description;
  page["facts"] = facts_json(job.evaluation.every_steps > 0, causal_mfu_pct(job.model, job.batch.global, report),
                             utilisation_type(job.machine.device), report);
  add_training(page["facts"], job.training, job.machine.gpus, report.rates.tokens_per_s);
  page["measured"] = measured_json(scenario, report);
  page["source"] = scenario.source;
  page["notes"] = scenario.notes;
  page["iteration_s"] = sim::to_seconds(report.iteration);
  page["span_s"] = step_ps / sim::kPicosecondsPerSecond;
  page["fits"] = report.memory.fits;
  page["shortage"] = report.memory.fits ? "" : shortage_text(report);
  page["capacity_gb"] = report.memory.capacity_bytes / 1e9;
  page["stages"] = stages_json(report, tick_ps);
  page["timeline"] = timeline_json(report, tick_ps);
  page["traffic"] = ordered_json::array();
  for (const workloads::TrafficRow& row : report.traffic) page["traffic"].push_back(traffic_json(row));
  page["rank_map"] = rank_map_json(job.parallelism, job.placement, job.machine);
  page["tiers"] = ordered_json::array();
  for (const auto& tier : report.tier_bytes)
    page["tiers"].push_back({{"tier", topology::name_of(tier.tier)}, {"bytes", tier.bytes}});
  page["links"] = links_json(report, step_ps);
  page["device"] = device_json(job.machine.device, job.method.precision.matmul);
  page["kernels"] = kernels_json(report);
  page["assumptions"] = report.assumptions;
  page["provenance"] = provenance_json(job.machine.device, job.machine.node, job.machine.fabric, job.software);
  page["would_fit"] = ordered_json::array();
  for (const workloads::Remedy& remedy : report.memory.would_fit)
    page["would_fit"].push_back(
        {{"set", fmt::format("{}", fmt::join(remedy.changes, " "))}, {"peak", bytes_text(remedy.peak_bytes)}});
  page["scenario"] = scenarios::yaml_text(document);
  return page;
}

}  // namespace orrery::tools
