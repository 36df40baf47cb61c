// The report of `run` for people. Left out: traffic, which has a command of its own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "tools/report/kinds.h"
#include "tools/report/recommender_text.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "workloads/step/training_cost.h"

namespace orrery::tools {

namespace {

using workloads::StageMemory;
using workloads::StepReport;

constexpr std::size_t kBarWidth = 50;

void write_head(std::ostream& out, const scenarios::Scenario& scenario, const StepReport& report) {
  const workloads::Job& job = scenario.job;
  out << wrapped(fmt::format("{}: {}", scenario.id.empty() ? job.name : scenario.id, scenario_line(job)), "", "  ");
  if (!job.description.empty()) out << wrapped(job.description, "  ", "  ");
  out << fmt::format("  {} of {} ranks simulated, {} events, {}\n", report.effort.ranks, report.gpus,
                     count_text(static_cast<double>(report.effort.events)), time_text(report.effort.wall_s));
}

/// What does not fit and what would, ahead of all else: the numbers below are of a step that cannot run.
void write_shortage(std::ostream& out, const StepReport& report) {
  if (report.memory.fits) return;
  out << wrapped(
      fmt::format("OUT OF MEMORY: {}. The step below is what it would take if it did fit.", shortage_text(report)), "",
      "  ");
  out << (report.memory.would_fit.empty() ? "  No single change and no combination tried would make it fit.\n"
                                          : "  Ways out, each tried; `orrery advise` says what they cost in time:\n");
  for (const workloads::Remedy& remedy : report.memory.would_fit) {
    out << fmt::format("    {}: {}\n", fmt::join(remedy.changes, " "), bytes_text(remedy.peak_bytes));
  }
  out << '\n';
}

/// `counted`: what a batch is of, tokens or samples. `cost`: of the whole training.
/// `causal_pct`: MFU of a causal kernel's FLOPs.
void write_rates(std::ostream& out, std::string_view counted, const workloads::Evaluation& evaluation,
                 const workloads::Training& training, const workloads::TrainingCost& cost,
                 const workloads::Machine& machine, double causal_pct, const StepReport& report) {
  TextTable table({{"", Align::left}, {""}, {"", Align::left}});
  table.add_row({"iteration time", time_text(sim::to_seconds(report.iteration)), ""});
  const bool tokens = counted == "tokens";
  const calibration::DataType sixteen_bits = utilisation_type(machine.device);
  table.add_row({fmt::format("{} per second", counted), si_text(report.rates.tokens_per_s, ""),
                 fmt::format("{} per GPU", number_text(report.rates.tokens_per_s_per_gpu))});
  if (evaluation.every_steps > 0) {
    table.add_row({"with evaluation", time_text(report.evaluation.iteration_s),
                   fmt::format("{} tokens/s, one evaluation of {} sequences every {} steps takes {}",
                               si_text(report.evaluation.tokens_per_s, ""), evaluation.sequences,
                               evaluation.every_steps, time_text(report.evaluation.seconds))});
  }
  table.add_row({"model FLOPs per GPU", si_text(report.rates.model_tflops_per_gpu * 1e12, "FLOP/s"),
                 fmt::format("MFU {:.1f} %", report.rates.mfu_pct) +
                     (tokens ? fmt::format(", {:.1f} % with causal attention", causal_pct) : "")});
  table.add_row({"hardware FLOPs per GPU", si_text(report.rates.hardware_tflops_per_gpu * 1e12, "FLOP/s"),
                 fmt::format("HFU {:.1f} %, both of the dense {} peak, {}", report.rates.hfu_pct,
                             calibration::name_of(sixteen_bits), si_text(machine.mean_peak(sixteen_bits), "FLOP/s"))});
  table.add_row({"model FLOPs, all GPUs", fmt::format("{} PFLOP/s", number_text(report.rates.aggregate_pflops)), ""});
  if (cost.time_s > 0) {
    table.add_row({"time to train", fmt::format("{} days", number_text(cost.time_s / 86'400)),
                   fmt::format("{} tokens, without failures and restarts", si_text(training.tokens, ""))});
  }
  if (cost.usd_per_million_tokens > 0) {
    table.add_row({"cost of a million tokens", fmt::format("{} USD", number_text(cost.usd_per_million_tokens)),
                   cost.usd > 0 ? fmt::format("{} USD for the training", count_text(cost.usd)) : ""});
  }
  out << "\nTime and rates\n";
  table.write(out);
}

void write_breakdown(std::ostream& out, const StepReport& report) {
  const double total = sim::to_seconds(report.iteration);
  TextTable table({{"", Align::left}, {""}, {""}, {"", Align::left}});
  for (std::size_t c = 0; c < workloads::kCategories; ++c) {
    const double part = report.breakdown_s[c];
    if (part == 0) continue;
    const double share = total > 0 ? part / total : 0;
    table.add_row({std::string(workloads::name_of(static_cast<workloads::Category>(c))), time_text(part),
                   fmt::format("{:.1f} %", 100 * share), bar(share, kBarWidth)});
  }
  out << fmt::format("\nWhere the time goes (exposed time of the busiest rank, in stage {})\n", report.busiest_stage);
  table.write(out);
}

void write_energy(std::ostream& out, const workloads::Energy& energy, double tokens_per_s) {
  if (!energy.known) return;
  TextTable table({{"", Align::left}, {""}, {"", Align::left}});
  table.add_row({"energy of the step", si_text(energy.total_j(), "J"),
                 fmt::format("{} a token{}", si_text(energy.site_w() / tokens_per_s, "J"),
                             energy.pue > 1 ? fmt::format(", with the site's PUE of {:g}", energy.pue) : "")});
  table.add_row({"a GPU", fmt::format("{:.0f} W", energy.gpu_w()),
                 fmt::format("in the mean; {:.0f} W while the hungriest stage computes", energy.busiest_gpu_w)});
  table.add_row({fmt::format("a node of {:.0f}", energy.gpus_per_node), si_text(energy.node_w(), "W"),
                 fmt::format("at the plug; peak {}", si_text(energy.node_peak_w(), "W"))});
  table.add_row({"all nodes", si_text(energy.job_w(), "W"),
                 energy.pue > 1 ? fmt::format("{} with all of the site", si_text(energy.site_w(), "W")) : ""});
  if (energy.carbon_g_per_kwh > 0) {
    table.add_row({"carbon", fmt::format("{} g", number_text(energy.grams_of(energy.site_j()))),
                   fmt::format("of CO2 a step, {} g a million tokens",
                               number_text(energy.grams_of(1e6 * energy.site_w() / tokens_per_s)))});
  }
  std::vector<std::string> parts;
  for (std::size_t p = 0; p < workloads::kEnergyParts; ++p) {
    if (energy.parts_j[p] > 0)
      parts.push_back(fmt::format("{} {:.1f} %", workloads::name_of(static_cast<workloads::EnergyPart>(p)),
                                  100 * energy.parts_j[p] / energy.total_j()));
  }
  out << "\nPower and energy\n";
  table.write(out);
  out << wrapped(fmt::format("Of the energy: {}.", fmt::join(parts, ", ")), "  ", "  ");
}

void write_tiers(std::ostream& out, const StepReport& report) {
  if (report.tier_bytes.empty()) return;
  double all = 0;
  for (const StepReport::TierBytes& tier : report.tier_bytes) all += tier.bytes;
  TextTable table({{"", Align::left}, {""}, {""}});
  for (const StepReport::TierBytes& tier : report.tier_bytes) {
    table.add_row({std::string(topology::name_of(tier.tier)), bytes_text(tier.bytes),
                   fmt::format("{:.2f} %", 100 * tier.bytes / all)});
  }
  out << "\nTraffic of the step, by the highest tier of links that it crosses\n";
  table.write(out);
}

std::vector<std::string> memory_cells(const StageMemory& stage) {
  std::vector<std::string> cells;
  for (const double bytes :
       {stage.parameters, stage.gradients, stage.optimizer, stage.activations, stage.buffers, stage.total}) {
    cells.push_back(bytes_text(bytes));
  }
  return cells;
}

/// The moment at which a stage is fullest: "backward 11", "backward 2.11" (chunk.micro-batch), "optimizer".
std::string moment_text(const StageMemory& stage, bool chunks) {
  const std::string during(workloads::name_of(stage.peak.during));
  if (stage.peak.during == StageMemory::During::optimizer) return during;
  return chunks ? fmt::format("{} {}.{}", during, stage.peak.chunk, stage.peak.microbatch)
                : fmt::format("{} {}", during, stage.peak.microbatch);
}

/// What the buffers of a stage are, and when it is fullest.
std::string fullest_text(const StepReport& report) {
  const auto fullest = std::max_element(report.memory.stages.begin(), report.memory.stages.end(),
                                        [](const StageMemory& a, const StageMemory& b) { return a.total < b.total; });
  std::string text = fmt::format("Stage {} is fullest", fullest - report.memory.stages.begin());
  if (fullest->peak.at_s > 0) text += fmt::format(", {} into the step", time_text(fullest->peak.at_s));
  std::vector<std::string> parts;
  const StageMemory::Buffers& b = fullest->parts;
  const std::pair<const char*, double> named[] = {
      {"gradient accumulators", b.accumulators},         {"fp8 copies of weights", b.weight_copies},
      {"gathered parameters and gradients", b.gathered}, {"messages", b.messages},
      {"temporaries of the optimizer", b.step},          {"fragmentation", b.fragmentation},
      {"context and communicators", b.context}};
  for (const auto& [name, bytes] : named) {
    if (bytes > 0) parts.push_back(fmt::format("{} {}", name, bytes_text(bytes)));
  }
  if (!parts.empty()) text += fmt::format("; its buffers: {}", fmt::join(parts, ", "));
  return text + ".";
}

/// `in_chunks`: stages hold several chunks, which are named.
void write_memory(std::ostream& out, bool in_chunks, const StepReport& report) {
  TextTable table({{"stage", Align::left},
                   {"parameters"},
                   {"gradients"},
                   {"optimizer"},
                   {"activations"},
                   {"buffers"},
                   {"total"},
                   {"fullest in", Align::left}});
  // Neighbours that print alike share a line: a pipeline of 64 stages need not take 64 lines.
  for (std::size_t first = 0; first < report.memory.stages.size();) {
    const std::vector<std::string> cells = memory_cells(report.memory.stages[first]);
    std::size_t last = first;
    while (last + 1 < report.memory.stages.size() && memory_cells(report.memory.stages[last + 1]) == cells) ++last;
    std::vector<std::string> row{first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last)};
    row.insert(row.end(), cells.begin(), cells.end());
    row.push_back(moment_text(report.memory.stages[first], in_chunks));
    table.add_row(std::move(row));
    first = last + 1;
  }
  out << fmt::format("\nMemory per GPU: peak {} of {}, {}\n", bytes_text(report.memory.peak_bytes),
                     bytes_text(report.memory.capacity_bytes), report.memory.fits ? "fits" : "OUT OF MEMORY");
  table.write(out);
  out << wrapped(fullest_text(report), "  ", "  ");
  if (report.memory.host.peak_bytes > 0) {
    const StepReport::Memory::Host& host = report.memory.host;
    const std::string of = host.capacity_bytes > 0 ? fmt::format("of {}, {}", bytes_text(host.capacity_bytes),
                                                                 host.fits ? "which fits" : "OUT OF MEMORY")
                                                   : "of how much its document does not say";
    out << wrapped(fmt::format("The hosts of a node hold {} of its GPUs' states, {}.", bytes_text(host.peak_bytes), of),
                   "  ", "  ");
  }
}

}  // namespace

std::string shortage_text(const StepReport& report) {
  if (!report.memory.host.fits && report.memory.peak_bytes <= report.memory.capacity_bytes)
    return fmt::format("the hosts of a node take {} of {}", bytes_text(report.memory.host.peak_bytes),
                       bytes_text(report.memory.host.capacity_bytes));
  return fmt::format("stage {} takes {} of {} per GPU", report.memory.tightest, bytes_text(report.memory.peak_bytes),
                     bytes_text(report.memory.capacity_bytes));
}

namespace {
/// "512 x h100-sxm-80gb", of several kinds each.
std::string gpus_text(const workloads::Machine& machine) {
  std::vector<std::string> kinds;
  for (std::size_t kind = 0; kind < machine.mixture.kinds(); ++kind)
    kinds.push_back(fmt::format("{} x {}", machine.gpus_of_kind(kind), machine.device_of_kind(kind).name()));
  return fmt::format("{}", fmt::join(kinds, " + "));
}
}  // namespace

std::string scenario_line(const workloads::Job& job) {
  const workloads::Parallelism& p = job.parallelism;
  if (job.model.recommender.any())
    return fmt::format("{} x {} on {}, {}, batch of {} samples, {}", job.machine.gpus, job.machine.device.name(),
                       job.machine.fabric.name.empty() ? "no fabric" : job.machine.fabric.name, job.model.name,
                       job.batch.global, calibration::name_of(job.method.precision.matmul));
  std::string layout = fmt::format("TP {} PP {}", p.tensor, p.pipeline);
  if (p.virtual_pipeline > 1) layout += fmt::format("x{}", p.virtual_pipeline);
  layout += fmt::format(" DP {}", p.data);
  if (p.context > 1) layout += fmt::format(" CP {}", p.context);
  if (p.expert > 1) layout += fmt::format(" EP {}", p.expert);
  std::string batch = fmt::format("{} x {}", job.batch.global, job.model.seq);
  const std::int64_t document = job.model.attention.document;
  if (document > 0 && document < job.model.seq) batch += fmt::format(" of documents of {}", document);
  return fmt::format("{} on {}, {}, {} {}, batch {}, {}", gpus_text(job.machine),
                     job.machine.fabric.name.empty() ? "no fabric" : job.machine.fabric.name, job.model.name, layout,
                     p.schedule->name, batch, calibration::name_of(job.method.precision.matmul));
}

void write_report(std::ostream& out, const scenarios::Scenario& scenario, const StepReport& report,
                  const std::string& sure) {
  write_shortage(out, report);
  write_head(out, scenario, report);
  const workloads::Job& job = scenario.job;
  write_rates(out, job.model.recommender.any() ? "samples" : "tokens", job.evaluation, job.training,
              workloads::training_cost(job.training, job.machine.gpus, report.evaluation.tokens_per_s), job.machine,
              causal_mfu_pct(job.model, job.batch.global, report), report);
  out << sure;
  write_breakdown(out, report);
  write_tables(out, scenario, report);
  write_energy(out, report.energy, report.rates.tokens_per_s);
  write_tiers(out, report);
  write_memory(out, job.parallelism.virtual_pipeline > 1, report);
  write_kinds(out, job.machine, report);
  if (report.assumptions.empty()) return;
  out << "\nAssumptions\n";
  for (const std::string& assumption : report.assumptions) out << wrapped(assumption, "  - ", "    ");
}

}  // namespace orrery::tools
