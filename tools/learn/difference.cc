// A trace beside a prediction, part by part. See difference.h.
#include "tools/learn/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "tools/learn/kernel_names.h"
#include "tools/report/text.h"

namespace orrery::tools {

using nlohmann::ordered_json;

Difference difference_of(const std::vector<Trace>& measured, const std::vector<Trace>& predicted,
                         const std::vector<std::int64_t>& ranks) {
  const auto mean = [](const std::vector<Trace>& traces) {
    std::vector<Decomposition> each;
    for (const Trace& trace : traces) each.push_back(decompose(trace));
    return mean_of(each);
  };
  Difference out{mean(measured), mean(predicted), {}, ranks};
  std::set<Part> parts;
  for (const auto& [part, tally] : out.measured.parts) parts.insert(part);
  for (const auto& [part, tally] : out.predicted.parts) parts.insert(part);
  for (const Part& part : parts) {
    DifferenceRow row{part, {}, {}};
    if (const auto at = out.measured.parts.find(part); at != out.measured.parts.end()) row.measured = at->second;
    if (const auto at = out.predicted.parts.find(part); at != out.predicted.parts.end()) row.predicted = at->second;
    out.rows.push_back(row);
  }
  std::stable_sort(out.rows.begin(), out.rows.end(), [](const DifferenceRow& a, const DifferenceRow& b) {
    return std::abs(a.difference_s()) > std::abs(b.difference_s());
  });
  return out;
}

namespace {

std::string signed_ms(double seconds) { return fmt::format("{:+.3f}", 1e3 * seconds); }
std::string ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

double percent(double predicted, double measured) { return measured > 0 ? 100 * (predicted / measured - 1) : 0; }

/// Sums by stream: compute, communication and idle.
void write_streams(std::ostream& out, const Difference& d) {
  TextTable table({{"stream", Align::left}, {"measured ms"}, {"predicted ms"}, {"difference ms"}});
  for (const char* stream : {"compute", "communication", "idle"}) {
    double measured = 0, predicted = 0;
    for (const DifferenceRow& row : d.rows) {
      if (stream_of(row.part) != stream) continue;
      measured += row.measured.seconds;
      predicted += row.predicted.seconds;
    }
    table.add_row({stream, ms(measured), ms(predicted), signed_ms(predicted - measured)});
  }
  table.add_row(
      {"step", ms(d.measured.step_s), ms(d.predicted.step_s), signed_ms(d.predicted.step_s - d.measured.step_s)});
  table.write(out);
}

}  // namespace

void write_difference(std::ostream& out, const Difference& d) {
  out << fmt::format("measured {}, predicted {}, {} ({} of {} traced, {} of them measured)\n",
                     time_text(d.measured.step_s), time_text(d.predicted.step_s),
                     error_text(percent(d.predicted.step_s, d.measured.step_s)),
                     d.ranks.size() == 1 ? "one rank" : fmt::format("{} ranks", d.ranks.size()),
                     d.measured.steps == 1 ? "one step" : "steps", d.measured.steps);
  out << naming_text(d.measured) << '\n';
  write_streams(out, d);
  out << '\n';
  TextTable table({{"part of the step", Align::left},
                   {"measured\nms"},
                   {"times"},
                   {"busy ms"},
                   {"predicted\nms"},
                   {"times"},
                   {"busy ms"},
                   {"difference\nms"}});
  for (const DifferenceRow& row : d.rows) {
    if (row.measured.busy_s + row.measured.seconds + row.predicted.busy_s + row.predicted.seconds == 0) continue;
    const auto times = [](const Tally& tally) { return fmt::format("{:.0f}", tally.count); };
    table.add_row({text(row.part), ms(row.measured.seconds), times(row.measured), ms(row.measured.busy_s),
                   ms(row.predicted.seconds), times(row.predicted), ms(row.predicted.busy_s),
                   signed_ms(row.difference_s())});
  }
  table.write(out);
  out << wrapped(
      "Parts add up to the step: what runs beside computing counts as busy alone, and what runs beside something else "
      "of its own kind once. Means over the traced ranks and steps; above 0 the prediction takes longer.",
      "  ", "  ");
}

ordered_json difference_json(const Difference& d) {
  ordered_json json;
  json["measured_step_s"] = d.measured.step_s;
  json["predicted_step_s"] = d.predicted.step_s;
  json["error_pct"] = percent(d.predicted.step_s, d.measured.step_s);
  json["ranks"] = d.ranks;
  json["steps"] = d.measured.steps;
  json["explained_by_name_pct"] =
      d.measured.device_s > 0 ? 100 * (1 - d.measured.unnamed_s / d.measured.device_s) : 100.0;
  json["device_events"] = {{"read", d.measured.read}, {"in_steps", d.measured.within}};
  json["rows"] = ordered_json::array();
  for (const DifferenceRow& row : d.rows) {
    json["rows"].push_back({{"phase", name_of(row.part.phase)},
                            {"stream", stream_of(row.part)},
                            {"class", row.part.idle ? "idle" : name_of(row.part.what)},
                            {"measured_s", row.measured.seconds},
                            {"measured_busy_s", row.measured.busy_s},
                            {"measured_count", row.measured.count},
                            {"predicted_s", row.predicted.seconds},
                            {"predicted_busy_s", row.predicted.busy_s},
                            {"predicted_count", row.predicted.count},
                            {"difference_s", row.difference_s()}});
  }
  return json;
}

}  // namespace orrery::tools
