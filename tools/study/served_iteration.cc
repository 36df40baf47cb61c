// One iteration, taken apart. See served_iteration.h.
#include "tools/study/served_iteration.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/error.h"
#include "tools/report/text.h"
#include "tools/report/trace_sink.h"

namespace orrery::tools {

using nlohmann::ordered_json;
using workloads::PartOfIteration;

namespace {

std::string_view name_of(PartOfIteration::Use use) {
  constexpr std::array<std::string_view, 5> kNames{"compute", "compute", "memory", "communication", "host"};
  return kNames[static_cast<std::size_t>(use)];
}

/// Kernels of one name, over all layers.
struct KernelSum {
  PartOfIteration part;
  double launches = 0, seconds = 0, flops = 0, bytes = 0, roofline = 0;
};

std::vector<KernelSum> sums_of(const IterationStudy& study) {
  std::vector<KernelSum> sums;
  std::map<std::string_view, std::size_t> at;
  for (const PartOfIteration& part : study.parts) {
    const auto [place, fresh] = at.emplace(part.name, sums.size());
    if (fresh) sums.push_back({part});
    KernelSum& sum = sums[place->second];
    sum.launches += part.times;
    sum.seconds += part.times * part.seconds;
    sum.flops += part.times * part.flops;
    sum.bytes += part.times * part.bytes;
    sum.roofline += part.times * part.roofline;
  }
  return sums;
}

std::string work_text(const IterationStudy& study) {
  const scenarios::ServedWorkload& work = *study.scenario.workload;
  return work.decodes
             ? fmt::format("{} sequences decode behind {} tokens each", work.sequences, work.cached)
             : fmt::format("{} prompts of {} tokens behind {} cached ones", work.sequences, work.tokens, work.cached);
}

std::vector<std::string> assumptions_of(const IterationStudy& study) {
  std::vector<std::string> all = study.scenario.assumptions;
  all.push_back(fmt::format("Kernels: {}.", study.kernels));
  all.push_back(
      fmt::format("Engine {}: {}.", study.scenario.replica.engine.name, study.scenario.replica.engine.provenance));
  return all;
}

}  // namespace

workloads::UseOfTime IterationStudy::use() const {
  workloads::UseOfTime use;
  for (const PartOfIteration& part : parts) use.add(part, part.times);
  return use;
}

IterationStudy study_iteration(const scenarios::ServingScenario& scenario) {
  if (!scenario.workload)
    throw sim::UserError(scenario.id +
                         ": says how a model is served, which orrery serving runs; expected workload: "
                         "prefill or decode for one iteration");
  IterationStudy study;
  study.scenario = scenario;
  const workloads::IterationTimes times(
      scenario.replica, scenarios::kernels_of(scenario.machine.device, scenario.replica.engine.kernels));
  study.kernels = times.kernels().provenance();
  study.memory = workloads::serving_memory(
      scenario.replica, times.pass(), static_cast<double>(scenario.machine.device.memory().value()), scenario.limits);
  const scenarios::ServedWorkload& work = *scenario.workload;
  study.tokens = {{{work.sequences, work.tokens, work.cached}}, work.sequences};
  study.parts = times.parts(study.tokens);
  study.seconds = times.seconds(study.tokens);
  for (const workloads::ServedStack& stack : times.pass().stacks) study.layers.push_back(stack.layers);
  return study;
}

void write_iteration(std::ostream& out, const IterationStudy& study) {
  const scenarios::ServingScenario& s = study.scenario;
  out << wrapped(fmt::format("{}: one iteration of {} on {} x {}, {}", s.id, s.replica.model.name,
                             s.replica.layout.gpus(), s.machine.device.name(), s.replica.engine.name),
                 "", "  ");
  out << wrapped(work_text(study), "  ", "    ");
  const double rate = static_cast<double>(study.tokens.tokens()) / study.seconds;
  out << fmt::format("\n  {} an iteration, {} tokens/s of a replica\n\n", time_text(study.seconds), number_text(rate));
  TextTable table(
      {{"kernel", Align::left}, {"bound by", Align::left}, {"launches"}, {"each"}, {"all"}, {"share"}, {"roofline"}});
  for (const KernelSum& sum : sums_of(study))
    table.add_row({std::string(sum.part.name), std::string(name_of(sum.part.use)), fmt::format("{:.0f}", sum.launches),
                   time_text(sum.seconds / sum.launches), time_text(sum.seconds),
                   fmt::format("{:.1f} %", 100 * sum.seconds / study.seconds),
                   sum.roofline > 0 ? fmt::format("{:.0f} %", 100 * sum.roofline / sum.seconds) : std::string()});
  table.write(out);
  const workloads::UseOfTime use = study.use();
  out << "\nWhere its time goes\n";
  TextTable parts({{"", Align::left}, {""}, {"", Align::left}});
  for (const auto& [name, value] : {std::pair("compute", use.compute), std::pair("memory", use.memory),
                                    std::pair("communication", use.communication), std::pair("host", use.host)})
    parts.add_row({name, time_text(value), bar(value / study.seconds, 40)});
  parts.write(out);
  out << fmt::format("\nMemory of a GPU: {:.1f} of {:.1f} GB; weights {:.1f}, cache {:.1f}\n\nAssumptions\n",
                     study.memory.given / 1e9, study.memory.total / 1e9, study.memory.weights / 1e9,
                     study.memory.cache / 1e9);
  for (const std::string& line : assumptions_of(study)) out << wrapped(line, "  - ", "    ");
}

ordered_json iteration_json(const IterationStudy& study) {
  const scenarios::ServingScenario& s = study.scenario;
  const scenarios::ServedWorkload& work = *s.workload;
  const workloads::UseOfTime use = study.use();
  ordered_json json{
      {"scenario", s.id},
      {"gpus", s.replica.layout.gpus()},
      {"workload",
       {{"kind", work.decodes ? "decode" : "prefill"},
        {"sequences", work.sequences},
        {"tokens", work.tokens},
        {"cached", work.cached}}},
      {"iteration_time_s", study.seconds},
      {"tokens_per_s", static_cast<double>(study.tokens.tokens()) / study.seconds},
      {"breakdown_s",
       {{"compute", use.compute}, {"memory", use.memory}, {"communication", use.communication}, {"host", use.host}}}};
  json["kernels"] = ordered_json::array();
  for (const KernelSum& sum : sums_of(study)) {
    ordered_json one{{"kernel", sum.part.name},  {"bound_by", name_of(sum.part.use)},
                     {"launches", sum.launches}, {"seconds", sum.seconds},
                     {"flops", sum.flops},       {"bytes", sum.bytes}};
    if (sum.roofline > 0) one["roofline_pct"] = 100 * sum.roofline / sum.seconds;
    json["kernels"].push_back(std::move(one));
  }
  json["memory"] = {{"fits", study.memory.blocks > 0},
                    {"weights_bytes", study.memory.weights},
                    {"cache_bytes", study.memory.cache},
                    {"states_bytes", study.memory.states},
                    {"other_bytes", study.memory.held() - study.memory.weights},
                    {"given_bytes", study.memory.given}};
  json["assumptions"] = assumptions_of(study);
  return json;
}

void trace_iteration(std::ostream& out, const IterationStudy& study, TraceForm form) {
  const auto sink = form == TraceForm::perfetto ? perfetto_sink(out) : chrome_sink(out);
  sink->begin(study.scenario.id);
  sink->process(0, "rank 0: " + work_text(study), 0);
  sink->thread(0, 0, "kernels", 0);
  double at = 0;
  const auto show = [&](const PartOfIteration& part, std::int64_t layer) {
    const auto nanoseconds = [](double seconds) { return std::llround(seconds * 1e9); };
    TraceArguments arguments{{"FLOPs", part.flops}, {"bytes", part.bytes}};
    if (layer >= 0) arguments.insert(arguments.begin(), {"layer of its kind", layer});
    sink->slice(0, 0, std::string(part.name), name_of(part.use), nanoseconds(at), nanoseconds(at + part.seconds),
                arguments);
    at += part.seconds;
  };
  const auto show_stack = [&](std::int64_t stack, std::int64_t layers) {
    for (std::int64_t layer = 0; layer < layers; ++layer)
      for (const PartOfIteration& part : study.parts)
        if (part.stack == stack) show(part, stack >= 0 ? layer : -1);
  };
  for (std::size_t i = 0; i < study.layers.size(); ++i) show_stack(static_cast<std::int64_t>(i), study.layers[i]);
  show_stack(-1, 1);
  sink->end();
}

}  // namespace orrery::tools
