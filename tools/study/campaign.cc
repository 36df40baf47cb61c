// Text and JSON of a campaign.
#include "tools/study/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tools/report/report.h"
#include "tools/report/text.h"

namespace orrery::tools {

using campaign::Distribution;
using nlohmann::ordered_json;

namespace {

constexpr double kHour = 3600, kDay = 24 * kHour;

std::string percent_text(double share) { return fmt::format("{:.2f} %", 100 * share); }

/// What the campaign has to do, in words.
std::string task_text(const CampaignStudy& study) {
  const campaign::Plan& plan = study.plan;
  const double step = static_cast<double>(plan.phases.back().priced[0]) / sim::kPicosecondsPerSecond;
  if (plan.window)
    return fmt::format("{} of steps of {}", long_time_text(campaign::to_seconds(plan.limit)), time_text(step));
  return fmt::format("{} steps of {}", count_text(static_cast<double>(plan.steps)), time_text(step));
}

void write_distributions(std::ostream& out, const CampaignStudy& study) {
  const campaign::Summary& summary = study.summary;
  TextTable table({{"", Align::left}, {"mean"}, {"+-95 %"}, {"p5"}, {"p50"}, {"p95"}});
  const auto row = [&](const char* what, const Distribution& d, const auto& text) {
    table.add_row({what, text(d.mean), text(d.error), text(d.p5), text(d.p50), text(d.p95)});
  };
  const auto count = [](double value) { return value < 1e-9 ? std::string("0") : number_text(value); };
  if (!study.plan.window) row("time to train", summary.wall_s, long_time_text);
  if (study.priced.scenario.job.training.price_per_gpu_hour_usd > 0)
    row("cost, US dollars", summary.wall_s, [&](double wall) { return si_text(campaign_usd(study, wall), ""); });
  row("goodput", summary.goodput, percent_text);
  row("ETTR", summary.ettr, percent_text);
  row("failures", summary.failures, count);
  if (summary.planned_stops.mean > 0) row("planned stops", summary.planned_stops, count);
  if (summary.degradations.mean > 0) row("slow-downs", summary.degradations, count);
  row("MTBF", summary.mtbf_s, long_time_text);
  row("MTTR", summary.mttr_s, long_time_text);
  if (study.plan.window) row("steps", summary.steps, count);
  table.write(out);
  if (!study.plan.window && summary.finished < summary.seeds)
    out << fmt::format("  {} of {} campaigns did not end before the limit of {}.\n", summary.seeds - summary.finished,
                       summary.seeds, long_time_text(campaign::to_seconds(study.plan.limit)));
}

void write_shares(std::ostream& out, const campaign::Summary& summary) {
  out << "\nWhere the time goes (mean of all seeds)\n";
  TextTable table({{"", Align::left}, {""}, {""}, {"", Align::left}});
  for (std::size_t s = 0; s < campaign::kShares; ++s) {
    const double seconds = summary.shares_s[s].mean, share = seconds / std::max(1e-300, summary.wall_s.mean);
    if (seconds == 0) continue;
    table.add_row({std::string(name_of(static_cast<campaign::Share>(s))), long_time_text(seconds), percent_text(share),
                   bar(share, 40)});
  }
  table.write(out);
}

void write_causes(std::ostream& out, const campaign::Summary& summary) {
  if (summary.causes.empty()) return;
  out << "\nBy cause (means)\n";
  TextTable table({{"", Align::left}, {"effect", Align::left}, {"count"}, {"p5 to p95"}, {"work lost"}, {"down"}});
  std::vector<const campaign::CauseSummary*> order;
  for (const campaign::CauseSummary& cause : summary.causes) order.push_back(&cause);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->count.mean > b->count.mean; });
  for (const campaign::CauseSummary* cause : order) {
    table.add_row({shortened(cause->name, 40), std::string(name_of(cause->effect)), number_text(cause->count.mean),
                   fmt::format("{:.0f} to {:.0f}", cause->count.p5, cause->count.p95),
                   long_time_text(cause->lost_s.mean), long_time_text(cause->down_s.mean)});
  }
  table.write(out);
}

void write_interval(std::ostream& out, const CampaignStudy& study) {
  const IntervalStudy& interval = study.interval;
  if (interval.points.empty()) return;
  const double step = static_cast<double>(study.plan.phases.back().step[0]) / sim::kPicosecondsPerSecond;
  out << "\nCheckpoints\n";
  TextTable table({{"", Align::left}, {"steps"}, {"time"}});
  for (const auto& [what, steps] :
       {std::pair("interval used", interval.used), std::pair("best found", interval.best),
        std::pair("Daly's formula", interval.daly), std::pair("Young's formula", interval.young)})
    table.add_row({what, number_text(steps), long_time_text(steps * step)});
  table.write(out);
  out << fmt::format("  Each stalls for {}.\n", time_text(interval.stall_s));
}

void write_changes(std::ostream& out, const CampaignStudy& study) {
  if (study.changes.empty()) return;
  out << "\nWhat to change first (each alone, the same failures)\n";
  TextTable table({{"", Align::left}, {"saves"}, {"goodput"}});
  for (const CampaignStudy::Change& change : study.changes)
    table.add_row({change.what, (change.saved_s < 0 ? "-" : "") + long_time_text(std::abs(change.saved_s)),
                   percent_text(change.goodput)});
  table.write(out);
}

ordered_json json_of(const Distribution& d) {
  return {{"mean", d.mean}, {"error", d.error}, {"p5", d.p5}, {"p50", d.p50}, {"p95", d.p95}};
}

ordered_json interval_json(const CampaignStudy& study) {
  const IntervalStudy& interval = study.interval;
  ordered_json json{{"used_steps", interval.used},   {"best_steps", interval.best}, {"daly_steps", interval.daly},
                    {"young_steps", interval.young}, {"stall_s", interval.stall_s}, {"tried", ordered_json::array()}};
  for (const IntervalStudy::Point& point : interval.points)
    json["tried"].push_back({{"interval_steps", point.steps}, {"goodput", point.goodput}, {"error", point.error}});
  return json;
}

std::vector<std::string> assumptions_of(const CampaignStudy& study) {
  std::vector<std::string> all = study.plan.notes;
  const campaign::Spec& spec = study.priced.spec;
  const bool unrepaired = std::any_of(spec.fleet.causes.begin(), spec.fleet.causes.end(), [](const auto& cause) {
    return cause.loses != campaign::Loses::process && cause.repair_s == 0;
  });
  if (unrepaired)
    all.emplace_back("Nodes lost to causes that name no repair are back at once, as if spares never ran out.");
  if (!study.priced.report.memory.fits) all.insert(all.begin(), "The step does not fit the memory of the GPUs.");
  return all;
}

}  // namespace

std::string long_time_text(double seconds) {
  if (seconds >= 2 * kDay) return number_text(seconds / kDay) + " days";
  if (seconds >= 2 * kHour) return number_text(seconds / kHour) + " h";
  if (seconds >= 120) return number_text(seconds / 60) + " min";
  return seconds == 0 ? "0 s" : time_text(seconds);
}

double campaign_usd(const CampaignStudy& study, double wall_s) {
  const double nodes = static_cast<double>(study.plan.pool.nodes);
  const double gpus = nodes * static_cast<double>(study.plan.pool.gpus_per_node);
  return wall_s / kHour * gpus * study.priced.scenario.job.training.price_per_gpu_hour_usd;
}

void write_campaign(std::ostream& out, const CampaignStudy& study) {
  const scenarios::Scenario& scenario = study.priced.scenario;
  out << wrapped(fmt::format("{}: {}", scenario.id, scenario_line(scenario.job)), "", "  ");
  if (!scenario.job.description.empty()) out << wrapped(scenario.job.description, "  ", "  ");
  const std::string fleet = study.priced.spec.fleet.causes.empty() ? "nothing" : study.priced.spec.fleet.name;
  out << fmt::format("  {}, failures: {}, {} seeds\n\n", task_text(study), fleet, study.summary.seeds);
  write_distributions(out, study);
  write_shares(out, study.summary);
  write_causes(out, study.summary);
  write_interval(out, study);
  write_changes(out, study);
  const std::vector<std::string> assumptions = assumptions_of(study);
  if (!assumptions.empty()) out << "\nAssumptions\n";
  for (const std::string& text : assumptions) out << wrapped(text, "  - ", "    ");
}

ordered_json campaign_json(const CampaignStudy& study) {
  const campaign::Summary& summary = study.summary;
  ordered_json json;
  json["scenario"] = study.priced.scenario.id;
  json["gpus"] = study.priced.machine.gpus;
  json["spare_nodes"] = study.priced.spec.repair.spares;
  json["failures_of"] = study.priced.spec.fleet.name;
  json["seeds"] = summary.seeds;
  json["finished"] = summary.finished;
  json["steps_to_do"] = study.plan.window ? ordered_json() : ordered_json(study.plan.steps);
  json["iteration_time_s"] = sim::to_seconds(study.priced.report.iteration);
  json["fits"] = study.priced.report.memory.fits;
  json["wall_time_s"] = json_of(summary.wall_s);
  const double usd = campaign_usd(study, summary.wall_s.mean);
  json["cost_usd"] = usd > 0 ? ordered_json(usd) : ordered_json();
  for (const auto& [name, value] :
       {std::pair("goodput", &summary.goodput), std::pair("ettr", &summary.ettr),
        std::pair("failures", &summary.failures), std::pair("planned_stops", &summary.planned_stops),
        std::pair("slow_downs", &summary.degradations), std::pair("mtbf_s", &summary.mtbf_s),
        std::pair("mttr_s", &summary.mttr_s), std::pair("steps", &summary.steps)})
    json[name] = json_of(*value);
  for (std::size_t s = 0; s < campaign::kShares; ++s)
    json["shares_s"][std::string(name_of(static_cast<campaign::Share>(s)))] = summary.shares_s[s].mean;
  json["causes"] = ordered_json::array();
  for (const campaign::CauseSummary& cause : summary.causes) {
    json["causes"].push_back({{"name", cause.name},
                              {"effect", name_of(cause.effect)},
                              {"count", json_of(cause.count)},
                              {"lost_s", json_of(cause.lost_s)},
                              {"down_s", json_of(cause.down_s)}});
  }
  json["checkpoint_interval"] = interval_json(study);
  json["changes"] = ordered_json::array();
  for (const CampaignStudy::Change& change : study.changes)
    json["changes"].push_back({{"what", change.what}, {"saved_s", change.saved_s}, {"goodput", change.goodput}});
  json["sizes"] = ordered_json::array();
  for (const CampaignStudy::Size& size : study.sizes)
    json["sizes"].push_back({{"gpus", size.gpus}, {"goodput", size.goodput}, {"error", size.error}});
  json["assumptions"] = assumptions_of(study);
  return json;
}

}  // namespace orrery::tools
