// Left out: traces that are no tables (Philly's is JSON: each attempt is a row of its own here), sub-second zones, the
// state in which a job ended: a job that failed held its GPUs too.
#include "tools/study/queue_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "sim/error.h"
#include "sim/text_file.h"
#include "tools/report/csv.h"

namespace orrery::tools {

namespace {

constexpr std::size_t kMostRows = 5'000'000;
constexpr double kMostSeconds = 100.0 * 365 * 86'400;  // a century, of a job or from the first arrival on
constexpr double kLastDate = 1e11;                     // seconds since 1970
constexpr double kMostGpus = 1 << 20;

enum Field : std::size_t { kSubmit, kGpus, kDuration, kLimit, kDevice, kFields };
struct Names {
  const char* what;
  std::vector<std::string> names;
};
const std::array<Names, kFields>& columns_of_traces() {
  static const std::array<Names, kFields> kNames{{
      {"the arrival", {"submit_s", "submit_time", "submitted_time", "arrival"}},
      {"GPUs", {"gpus", "gpu_num", "num_gpus", "plan_gpu"}},
      {"the time that it runs", {"duration_s", "duration", "runtime"}},
      {"its limit", {"limit_s", "time_limit", "walltime"}},
      {"its device", {"device", "gpu_type"}},
  }};
  return kNames;
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Seconds since 1970 of "2023-03-01 00:16:01", with T for the blank and whatever zone behind it.
std::optional<double> date_of(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd dd:dd:dd";
  if (text.size() < kForm.size()) return std::nullopt;
  std::array<int, 6> parts{};
  std::size_t part = 0;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == 'd') {
      if (!digit) return std::nullopt;
      parts[part] = 10 * parts[part] + (text[i] - '0');
    } else {
      if (text[i] != kForm[i] && !(kForm[i] == ' ' && text[i] == 'T')) return std::nullopt;
      ++part;
    }
  }
  using namespace std::chrono;
  const year_month_day day{year(parts[0]), month(static_cast<unsigned>(parts[1])),
                           std::chrono::day(static_cast<unsigned>(parts[2]))};
  if (!day.ok() || parts[3] > 23 || parts[4] > 59 || parts[5] > 60) return std::nullopt;
  const auto days = sys_days(day).time_since_epoch().count();
  return static_cast<double>(days) * 86'400 + parts[3] * 3600 + parts[4] * 60 + parts[5];
}

std::int64_t milliseconds(double seconds) { return std::llround(seconds * 1000); }

class Reader {
 public:
  Reader(const std::string& file, std::int64_t most_gpus, const std::string& device)
      : file_(file), device_(lower(device)), most_gpus_(most_gpus) {
    at_.fill(kNone);
  }

  QueueTrace read() {
    const std::string text = sim::read_text(file_, "a table of jobs", std::size_t{1} << 30);
    std::string_view rest = text;
    if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
    bool header = true;
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      std::string_view line = rest.substr(0, end);
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      const std::vector<std::string> cells = cells_of(line);
      if (header)
        read_header(cells);
      else
        read_row(cells);
      header = false;
      if (trace_.jobs.size() > kMostRows) fail(0, "trace", fmt::format("holds more than {} jobs", kMostRows));
    }
    if (header) fail(0, "trace", "is empty, expected a header and a row for each job");
    return finished();
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  [[noreturn]] void fail(std::size_t column, const std::string& key, const std::string& message) const {
    throw sim::UserError({file_, line_, static_cast<int>(column) + 1}, key, message);
  }

  std::vector<std::string> cells_of(std::string_view line) const {
    try {
      return csv_cells(line);
    } catch (const std::invalid_argument& error) {
      fail(0, "trace", error.what());
    }
  }

  void read_header(const std::vector<std::string>& cells) {
    for (std::size_t f = 0; f < kFields; ++f) {
      const Names& names = columns_of_traces()[f];
      for (const std::string& name : names.names) {
        const auto found = std::find(cells.begin(), cells.end(), name);
        if (found == cells.end()) continue;
        at_[f] = static_cast<std::size_t>(found - cells.begin());
        break;
      }
      if (at_[f] == kNone && f != kLimit && f != kDevice)
        fail(0, "trace",
             fmt::format("has no column for {}, expected one of {}", names.what, fmt::join(names.names, ", ")));
    }
    trace_.limits = at_[kLimit] != kNone;
    columns_ = cells.size();
  }

  std::string_view cell(const std::vector<std::string>& cells, Field field) const {
    const std::string_view text = cells[at_[field]];
    const std::size_t first = text.find_first_not_of(" \t");
    return first == std::string_view::npos ? std::string_view()
                                           : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
  }

  /// A count or a time; nothing where the cell is empty.
  std::optional<double> quantity(const std::vector<std::string>& cells, Field field, double most) const {
    const std::string_view text = cell(cells, field);
    if (text.empty() || text == "nan" || text == "None") return std::nullopt;
    const std::optional<double> value = number_of(text);
    if (!value || *value < 0 || *value > most)
      fail(at_[field], columns_of_traces()[field].names.front(),
           fmt::format("got '{}', expected a number from 0 to {}", text.substr(0, 40), most));
    return value;
  }

  static std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
    return out;
  }

  bool runs_here(const std::vector<std::string>& cells) const {
    if (device_.empty() || at_[kDevice] == kNone) return true;
    const std::string asked = lower(cell(cells, kDevice));
    return asked.empty() || asked == device_ || device_.starts_with(asked + "-");
  }

  void read_row(const std::vector<std::string>& cells) {
    if (cells.size() != columns_)
      fail(0, "trace", fmt::format("got {} cells, expected {} as in the header", cells.size(), columns_));
    const std::string_view when = cell(cells, kSubmit);
    std::optional<double> submit = number_of(when);
    if (!submit) submit = date_of(when);
    if (!submit || *submit < 0 || *submit > kLastDate)
      fail(
          at_[kSubmit], "submit_s",
          fmt::format("got '{}', expected seconds from 0 on, or a date as in 2023-03-01 00:16:01", when.substr(0, 40)));
    const double gpus = quantity(cells, kGpus, kMostGpus).value_or(0);
    const double duration = quantity(cells, kDuration, kMostSeconds).value_or(0);
    const double limit = trace_.limits ? quantity(cells, kLimit, kMostSeconds).value_or(0) : 0;
    if (gpus != std::floor(gpus))
      fail(at_[kGpus], "gpus", fmt::format("got {}, expected a whole number", cell(cells, kGpus)));
    const std::int64_t work = milliseconds(duration);
    if (!runs_here(cells))
      ++trace_.elsewhere;
    else if (gpus == 0)
      ++trace_.without_gpus;
    else if (work == 0)
      ++trace_.without_time;
    else if (gpus > static_cast<double>(most_gpus_))
      ++trace_.too_large;
    else
      trace_.jobs.push_back(
          {milliseconds(*submit), static_cast<std::int64_t>(gpus), work, limit > 0 ? milliseconds(limit) : work, 0});
  }

  QueueTrace finished() {
    std::stable_sort(trace_.jobs.begin(), trace_.jobs.end(),
                     [](const queue::Request& a, const queue::Request& b) { return a.submit_ms < b.submit_ms; });
    if (trace_.jobs.empty())
      fail(0, "trace",
           fmt::format("holds no job that can run: {} without GPUs, {} without a time, {} of more than {} GPUs{}",
                       trace_.without_gpus, trace_.without_time, trace_.too_large, most_gpus_,
                       trace_.elsewhere > 0 ? fmt::format(", {} for other devices", trace_.elsewhere) : ""));
    if (trace_.jobs.back().submit_ms - trace_.jobs.front().submit_ms > milliseconds(kMostSeconds))
      fail(0, "trace", "spans more than 100 years from its first arrival to its last");
    return std::move(trace_);
  }

  const std::string& file_;
  std::string device_;
  std::int64_t most_gpus_;
  std::array<std::size_t, kFields> at_;
  std::size_t columns_ = 0;
  int line_ = 0;
  QueueTrace trace_;
};

}  // namespace

QueueTrace read_queue_trace(const std::string& file, std::int64_t most_gpus, const std::string& device) {
  return Reader(file, most_gpus, device).read();
}

}  // namespace orrery::tools
