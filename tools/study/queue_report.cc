// Left out: every job's row; the trace has them, and a policy's starts are a question for a scheduler.
#include "tools/study/queue_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tools/report/text.h"
#include "tools/study/campaign.h"

namespace orrery::tools {

using nlohmann::ordered_json;

namespace {

struct UseText {
  const char *name, *meaning;
};
constexpr std::array<UseText, queue::kUses> kUseTexts{{
    {"work", "what jobs take with their nodes at their best"},
    {"slow_down", "what they take longer as their nodes lie apart"},
    {"rounding", "GPUs of a job's last node that it does not ask for"},
    {"fragmented", "free while a job waits that asks for no more than are free"},
    {"short_of", "free while the first in the queue asks for more than are free"},
    {"idle", "free while nobody waits"},
    {"lost", "work that is done again after a failure"},
    {"restart", "coming up after a failure"},
    {"repair", "nodes that are being mended"},
}};
/// What is always there; the rest where jobs fail.
constexpr std::size_t kUsesWithoutFailures = 6;
std::size_t uses_of(const QueueStudy& study) { return study.failures.any() ? queue::kUses : kUsesWithoutFailures; }
constexpr std::array<const char*, queue::kSpans> kSpanNames{"node", "unit", "pod", "cluster"};

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string head_line(const QueueStudy& study) {
  const workloads::Machine& machine = study.scenario.job.machine;
  const std::int64_t pods = *std::max_element(study.layout.pod_of.begin(), study.layout.pod_of.end()) + 1;
  return fmt::format("{} jobs on {} x {}, {}: {} nodes in {} units, {} pods", study.trace.jobs.size(),
                     study.layout.gpus(), machine.device.name(), machine.fabric.name, study.layout.unit_of.size(),
                     study.layout.pod_of.size(), pods);
}

void write_policies(std::ostream& out, const QueueStudy& study) {
  TextTable table({{"order", Align::left},
                   {"placement", Align::left},
                   {"used %"},
                   {"wait,\nmean"},
                   {"median"},
                   {"95 %"},
                   {"slow-\ndown"},
                   {"stretch"},
                   {"frag-\nmented %"},
                   {"ends\nafter"}});
  std::string last;
  for (const QueueRow& row : study.rows) {
    table.add_row({row.order == last ? "" : row.order, row.placement, percent(row.utilisation),
                   long_time_text(row.waits.mean_s), long_time_text(row.waits.p50_s), long_time_text(row.waits.p95_s),
                   number_text(row.bounded_slowdown), fmt::format("{:.4f}", row.stretch),
                   percent(row.shares[static_cast<std::size_t>(queue::Use::fragmented)]),
                   long_time_text(row.makespan_s)});
    last = row.order;
  }
  table.write(out);
  out << "\nslow-down: mean of (wait + run) / run, runs below 10 s taken as 10 s. stretch: runs over those with all\n"
         "nodes at their best, by GPU-time.\n";
}

void write_best(std::ostream& out, const QueueStudy& study) {
  const QueueRow& best = study.rows[study.best];
  out << fmt::format("\nOf {} with {}, the least slow-down\n", best.order, best.placement);
  TextTable uses({{"GPUs' time", Align::left}, {"%"}, {"", Align::left}});
  for (std::size_t u = 0; u < uses_of(study); ++u)
    uses.add_row({kUseTexts[u].name, percent(best.shares[u]), kUseTexts[u].meaning});
  uses.write(out);
  out << "\n  jobs within one";
  for (std::size_t s = 0; s < queue::kSpans; ++s)
    out << fmt::format("{} {}: {}", s == 0 ? "" : ",", kSpanNames[s], best.spans[s]);
  out << fmt::format("; started ahead of their turn: {}", best.backfilled);
  out << (study.failures.any() ? fmt::format("; failures: {}\n", best.failures) : std::string("\n"));
  if (study.resampled.seeds == 0) return;
  const auto interval = [](const campaign::Distribution& d, const auto& text) {
    return fmt::format("{} ({} to {} in 90 %)", text(d.mean), text(d.p5), text(d.p95));
  };
  const auto share = [](double value) { return percent(value) + " %"; };
  out << fmt::format("  over {} queues with jobs drawn anew:\n    used {}\n    mean wait {}\n    slow-down {}\n",
                     study.resampled.seeds, interval(study.resampled.utilisation, share),
                     interval(study.resampled.wait_mean_s, long_time_text),
                     interval(study.resampled.bounded_slowdown, number_text));
}

void write_prices(std::ostream& out, const QueueStudy& study) {
  if (study.prices.empty()) return;
  out << "\nA step over the step with all nodes at their best, nodes dealt out over all units of the span\n";
  TextTable table({{"GPUs"}, {"step"}, {"unit"}, {"pod"}, {"cluster"}});
  for (const QueuePrice& price : study.prices) {
    table.add_row({fmt::format("{}", price.gpus), time_text(price.best_s), fmt::format("{:.4f}", price.factor[1]),
                   fmt::format("{:.4f}", price.factor[2]), fmt::format("{:.4f}", price.factor[3])});
  }
  table.write(out);
}

ordered_json distribution_json(const campaign::Distribution& d) {
  return {{"mean", d.mean}, {"error", d.error}, {"p5", d.p5}, {"p50", d.p50}, {"p95", d.p95}};
}

ordered_json row_json(const QueueRow& row, std::size_t uses) {
  ordered_json json{{"order", row.order},
                    {"placement", row.placement},
                    {"utilisation", row.utilisation},
                    {"wait_mean_s", row.waits.mean_s},
                    {"wait_p50_s", row.waits.p50_s},
                    {"wait_p95_s", row.waits.p95_s},
                    {"wait_p99_s", row.waits.p99_s},
                    {"wait_max_s", row.waits.max_s},
                    {"bounded_slowdown", row.bounded_slowdown},
                    {"stretch", row.stretch},
                    {"makespan_s", row.makespan_s},
                    {"backfilled", row.backfilled}};
  if (uses == queue::kUses) json["failures"] = row.failures;
  for (std::size_t u = 0; u < uses; ++u) json["gpu_time"][kUseTexts[u].name] = row.shares[u];
  for (std::size_t s = 0; s < queue::kSpans; ++s) json["spans"][kSpanNames[s]] = row.spans[s];
  return json;
}

/// Waits in classes that double from a minute on: how many jobs of each policy waited so long.
ordered_json waits_json(const QueueStudy& study) {
  constexpr std::size_t kClasses = 14;
  ordered_json json{{"below_s", ordered_json::array()}, {"counts", ordered_json::array()}};
  for (std::size_t c = 0; c < kClasses; ++c) json["below_s"].push_back(60 * std::pow(2.0, static_cast<double>(c)));
  for (const QueueRow& row : study.rows) {
    std::vector<std::int64_t> counts(kClasses + 1, 0);
    for (const double wait : row.waits.all_s) {
      std::size_t c = 0;
      while (c < kClasses && wait >= 60 * std::pow(2.0, static_cast<double>(c))) ++c;
      ++counts[c];
    }
    json["counts"].push_back(counts);
  }
  return json;
}

}  // namespace

void write_queue(std::ostream& out, const QueueStudy& study) {
  out << head_line(study) << "\n\n";
  write_policies(out, study);
  write_best(out, study);
  write_prices(out, study);
  if (!study.notes.empty()) out << "\nAssumptions\n";
  for (const std::string& note : study.notes) out << wrapped(note, "  - ", "    ");
}

ordered_json queue_json(const QueueStudy& study) {
  ordered_json json{{"scenario", study.scenario.id},
                    {"gpus", study.layout.gpus()},
                    {"jobs", study.trace.jobs.size()},
                    {"units", study.layout.pod_of.size()},
                    {"best", study.best}};
  json["policies"] = ordered_json::array();
  for (const QueueRow& row : study.rows) json["policies"].push_back(row_json(row, uses_of(study)));
  json["prices"] = ordered_json::array();
  for (const QueuePrice& price : study.prices) {
    json["prices"].push_back({{"gpus", price.gpus},
                              {"step_s", price.best_s},
                              {"unit", price.factor[1]},
                              {"pod", price.factor[2]},
                              {"cluster", price.factor[3]}});
  }
  if (study.resampled.seeds > 0) {
    json["resampled"] = {{"seeds", study.resampled.seeds},
                         {"utilisation", distribution_json(study.resampled.utilisation)},
                         {"wait_mean_s", distribution_json(study.resampled.wait_mean_s)},
                         {"wait_p95_s", distribution_json(study.resampled.wait_p95_s)},
                         {"bounded_slowdown", distribution_json(study.resampled.bounded_slowdown)}};
  }
  json["assumptions"] = study.notes;
  return json;
}

ordered_json queue_page(const QueueStudy& study) {
  ordered_json page = queue_json(study);
  const QueueRow& best = study.rows[study.best];
  page["kind"] = "queue";
  page["title"] = "Queue of " + shortened(study.trace_file, 120);
  page["subtitle"] = head_line(study);
  page["description"] = study.scenario.job.description;
  page["facts"] = {{"best policy", best.order + ", " + best.placement, "least mean slow-down of those tried"},
                   {"used", percent(best.utilisation) + " %", "of the GPUs' time"},
                   {"mean wait", long_time_text(best.waits.mean_s), "95 % below " + long_time_text(best.waits.p95_s)},
                   {"slow-down", number_text(best.bounded_slowdown), "(wait + run) / run, mean"}};
  page["uses"] = ordered_json::array();
  for (std::size_t u = 0; u < uses_of(study); ++u) page["uses"].push_back({kUseTexts[u].name, kUseTexts[u].meaning});
  page["held"] = ordered_json::array();
  for (const QueueRow& row : study.rows) page["held"].push_back(row.held_gpus);
  page["waits"] = waits_json(study);
  return page;
}

}  // namespace orrery::tools
