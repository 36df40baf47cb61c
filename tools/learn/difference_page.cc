// Data of the page: facts, parts, and of each side a lane of computing and one of collectives. Neighbours of one colour
// that lie closer than a pixel are drawn as one. Left out: streams by themselves, names of kernels.
#include "tools/learn/difference_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/learn/kernel_names.h"
#include "tools/report/text.h"

namespace orrery::tools {

using nlohmann::ordered_json;

namespace {

constexpr double kPixels = 2000;  // across the picture, at most

/// Colours of the page's palette: forward, backward, optimizer, other; collectives.
int colour_of(const DeviceEvent& event) {
  if (is_collective(event.what)) return 3;
  switch (event.phase) {
    case Phase::forward:
      return 0;
    case Phase::backward:
      return 1;
    case Phase::optimizer:
      return 7;
    case Phase::other:
      break;
  }
  return 5;
}

/// Of the first step: [from, to, colour], seconds from its first event.
ordered_json lane(const Trace& trace, bool collectives, double span_s) {
  ordered_json spans = ordered_json::array();
  const TimeSpan step = trace.steps.front();
  Nanoseconds first = -1;
  double from = 0, to = 0;
  int colour = -1;
  const auto flush = [&] {
    if (colour >= 0) spans.push_back({from, to, colour});
  };
  for (const DeviceEvent& event : within_steps(trace)) {
    const Nanoseconds at = event.launched != kNone ? event.launched : event.start;
    if (at > step.to) continue;
    if (first < 0) first = trace.own ? 0 : event.start;
    if (is_collective(event.what) != collectives) continue;
    const double begin = static_cast<double>(event.start - first) * kNano;
    const double end = static_cast<double>(event.end - first) * kNano;
    if (colour == colour_of(event) && begin - to < span_s / kPixels) {
      to = std::max(to, end);
      continue;
    }
    flush();
    from = begin;
    to = end;
    colour = colour_of(event);
  }
  flush();
  return spans;
}

}  // namespace

ordered_json difference_page(const Difference& d, const Trace& measured, const Trace& predicted,
                             const std::string& title) {
  ordered_json page = difference_json(d);
  page["kind"] = "diff";
  page["title"] = "Trace beside prediction: " + shortened(title, 120);
  page["subtitle"] = fmt::format("{}, {}", d.ranks.size() == 1 ? "one rank" : fmt::format("{} ranks", d.ranks.size()),
                                 d.measured.steps == 1 ? "one step" : fmt::format("{} steps", d.measured.steps));
  page["description"] = "";
  page["facts"] = {{"measured", time_text(d.measured.step_s), "per step"},
                   {"predicted", time_text(d.predicted.step_s), error_text(page["error_pct"])},
                   {"explained by name", fmt::format("{:.2f} %", page["explained_by_name_pct"].get<double>()),
                    "of the device's time"}};
  for (std::size_t i = 0; i < d.rows.size(); ++i) page["rows"][i]["part"] = text(d.rows[i].part);
  page["rank"] = d.ranks.front();
  const double span = std::max(d.measured.step_s, d.predicted.step_s);
  page["span_s"] = span;
  // Pairs of texts and lists in braces would become an object.
  page["lanes"] = ordered_json::array();
  for (const bool collectives : {false, true})
    page["lanes"].push_back(ordered_json::array({collectives ? "" : "measured", lane(measured, collectives, span)}));
  for (const bool collectives : {false, true})
    page["lanes"].push_back(ordered_json::array({collectives ? "" : "predicted", lane(predicted, collectives, span)}));
  page["assumptions"] = ordered_json::array();
  return page;
}

}  // namespace orrery::tools
