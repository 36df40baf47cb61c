// Reads a trace the way Perfetto's importer does (times cut off to whole nanoseconds) and says what is wrong with it:
// slices that do not nest, arrows that lack an end or a slice to stand in, counters that go back in time, processes and
// threads without a name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace orrery::tests {

struct TraceCheck {
  std::vector<std::string> problems;
  std::size_t slices = 0, arrows = 0, counters = 0;
  std::size_t deepest = 0;
};

class TraceReader {
 public:
  explicit TraceReader(const nlohmann::json& trace) {
    for (const auto& event : trace.at("traceEvents")) read(event);
    check_nesting();
    check_arrows();
    for (const Track& track : seen_) {
      if (!named_.contains(track))
        problem("process " + std::to_string(track.first) + " thread " + std::to_string(track.second) + " has no name");
    }
  }
  TraceCheck result;

 private:
  using Track = std::pair<int, int>;
  struct Slice {
    std::int64_t from, to;
    std::string name;
    double bytes;  // -1: not a transfer
  };
  struct Point {
    char phase;
    Track track;
    std::int64_t at;
    std::string binding;
  };

  void problem(std::string text) { result.problems.push_back(std::move(text)); }

  static std::int64_t nanoseconds(const nlohmann::json& microseconds) {
    return static_cast<std::int64_t>(microseconds.get<double>() * 1000.0);
  }

  void read(const nlohmann::json& event) {
    const auto phase = event.at("ph").get<std::string>();
    const Track track{event.at("pid"), event.value("tid", 0)};
    if (phase == "M") {
      const auto what = event.at("name").get<std::string>();
      if (what == "thread_name") named_.insert(track);
      if (what == "process_name") named_.insert({track.first, 0});
    } else if (phase == "X") {
      read_slice(event, track);
    } else if (phase == "C") {
      read_counter(event, track);
    } else if (phase == "s" || phase == "t" || phase == "f") {
      arrows_[event.at("cat").get<std::string>() + event.at("name").get<std::string>() + event.at("id").dump()]
          .push_back({phase[0], track, nanoseconds(event.at("ts")), event.value("bp", "")});
    } else {
      problem("unknown phase " + phase);
    }
  }

  void read_slice(const nlohmann::json& event, Track track) {
    const std::int64_t from = nanoseconds(event.at("ts")), duration = nanoseconds(event.at("dur"));
    slices_[track].push_back({from, from + duration, event.at("name"), event.at("args").value("bytes", -1.0)});
    ++result.slices;
    seen_.insert(track);
    seen_.insert({track.first, 0});
    if (from < 0 || duration < 0) problem("negative time in " + event.at("name").get<std::string>());
    if (event.at("cat").get<std::string>().empty()) problem("no category");
  }

  void read_counter(const nlohmann::json& event, Track track) {
    ++result.counters;
    const auto name = event.at("name").get<std::string>();
    const std::int64_t at = nanoseconds(event.at("ts"));
    const auto [last, fresh] = counters_.try_emplace({track.first, name}, at);
    if (!fresh && at < last->second) problem("counter " + name + " goes back in time");
    last->second = at;
    for (const auto& [series, value] : event.at("args").items()) {
      if (!value.is_number() || value.get<double>() < 0) problem("counter " + name + " of " + series);
    }
  }

  void check_nesting() {
    for (auto& [track, slices] : slices_) {
      std::stable_sort(slices.begin(), slices.end(),
                       [](const Slice& a, const Slice& b) { return a.from != b.from ? a.from < b.from : a.to > b.to; });
      std::vector<Slice> open;
      for (const Slice& slice : slices) {
        while (!open.empty() && open.back().to <= slice.from) open.pop_back();
        if (!open.empty() && slice.to > open.back().to)
          problem("'" + slice.name + "' ends after '" + open.back().name + "', in which it begins");
        open.push_back(slice);
        result.deepest = std::max(result.deepest, open.size());
      }
    }
  }

  /// The transfer in which an arrow's point stands: of those that begin no later, the last that has not ended. Slices
  /// are in the order in which check_nesting left them.
  const Slice* holder(const Point& point) const {
    const auto slices = slices_.find(point.track);
    if (slices == slices_.end()) return nullptr;
    auto slice = std::upper_bound(slices->second.begin(), slices->second.end(), point.at,
                                  [](std::int64_t at, const Slice& one) { return at < one.from; });
    while (slice != slices->second.begin()) {
      --slice;
      if (slice->bytes >= 0 && point.at < slice->to) return &*slice;
    }
    return nullptr;
  }

  /// One beginning, one end, times in order, every point in a transfer of as many bytes and the same times, and no
  /// track twice.
  void check_arrows() {
    for (auto& [id, points] : arrows_) {
      ++result.arrows;
      std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.at < b.at; });
      const auto count = [&, &points = points](char phase) {
        return std::count_if(points.begin(), points.end(), [&](const Point& p) { return p.phase == phase; });
      };
      if (count('s') != 1 || count('f') != 1) problem("arrow " + id + " has no beginning or no end, or two");
      if (points.front().phase != 's' || points.back().phase != 'f') problem("arrow " + id + " is out of order");
      std::set<Track> tracks;
      const Slice* first = nullptr;
      for (const Point& point : points) {
        const Slice* slice = holder(point);
        if (point.binding != "e") problem("arrow " + id + " binds to the next slice");
        if (!tracks.insert(point.track).second) problem("arrow " + id + " comes twice to a track");
        if (slice == nullptr) {
          problem("arrow " + id + " stands in no transfer");
          continue;
        }
        if (first == nullptr) first = slice;
        if (slice->bytes != first->bytes || slice->from != first->from || slice->to != first->to)
          problem("arrow " + id + " joins '" + first->name + "' and '" + slice->name + "', which differ");
      }
    }
  }

  std::map<Track, std::vector<Slice>> slices_;
  std::map<std::string, std::vector<Point>> arrows_;
  std::map<std::pair<int, std::string>, std::int64_t> counters_;
  std::set<Track> named_, seen_;
};

inline TraceCheck check_trace(const nlohmann::json& trace) { return TraceReader(trace).result; }

}  // namespace orrery::tests
