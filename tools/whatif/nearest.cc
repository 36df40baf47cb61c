// A scenario that does not load says which key is wrong. What follows from others is left open or rounded: the number
// of replicas, chunks and schedule, the batch, what a node of the device holds. Where that does not do, layouts around
// the one asked for are tried, the least changed first (by powers of two), with the changed key held; then values of
// that key around the one asked for; for a number type that the device lacks, the devices that have it. Each try is a
// load, a millisecond or so. Left out: memory, for which the page has remedies; what runs best, which `orrery search`
// finds.
#include "tools/whatif/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "sim/error.h"
#include "tools/import/known_devices.h"

namespace orrery::tools {

namespace {

using sim::Settings;

constexpr std::size_t kMostTries = 160;  // of layouts
constexpr int kMostRepairs = 8;          // of one layout

/// What may change without anybody being asked.
constexpr std::array kFollowers{"parallelism.data",          "parallelism.virtual_pipeline",
                                "parallelism.schedule",      "parallelism.sequence_parallel",
                                "parallelism.expert_tensor", "batch.global",
                                "cluster.gpus_per_node",     "cluster.fabric",
                                "overlap.pipeline"};

struct Degrees {
  std::int64_t tensor = 1, pipeline = 1, context = 1, expert = 1;
};

std::int64_t number_at(const Settings& document, const char* path, std::int64_t otherwise) {
  const Settings* value = document.find_path(path);
  if (value == nullptr || !value->is_scalar()) return otherwise;
  std::int64_t number = 0;
  const std::string& text = value->text();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number > 0 ? number : otherwise;
}

bool is_given(const Settings& document, const std::string& path) {
  const Settings* value = document.find_path(path);
  return value != nullptr && !value->is_null() && !(value->is_scalar() && value->text().empty());
}

/// The line that loading ends with; empty: it loads.
std::string complaint(const Settings& document) {
  try {
    scenarios::load_scenario(document);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return {};
}

/// The key that a line is about: "FILE:LINE:COLUMN: key: ...".
std::string key_in(const std::string& line) {
  for (std::size_t from = 0; from < line.size();) {
    const std::size_t end = line.find(": ", from);
    if (end == std::string::npos) return {};
    const std::string part = line.substr(from, end - from);
    for (const scenarios::Key& key : scenarios::schema())
      if (key.path == part) return part;
    from = end + 2;
  }
  return {};
}

std::string key_of(const std::string& set) { return set.substr(0, set.find('=')); }

/// Of a key that is set several times, the last.
std::vector<std::string> last_of_each(std::vector<std::string> sets) {
  for (auto set = sets.begin(); set != sets.end();) {
    const std::string key = key_of(*set);
    const bool again = std::any_of(set + 1, sets.end(), [&](const std::string& one) { return key_of(one) == key; });
    set = again ? sets.erase(set) : set + 1;
  }
  return sets;
}

/// A document under repair, and what was laid over it.
class Attempt {
 public:
  Attempt(Settings document, std::string changed) : document_(std::move(document)), changed_(std::move(changed)) {}

  void set(const std::string& key, const std::string& value) {
    sets_.push_back(key + "=" + value);
    scenarios::apply_set(document_, sets_.back());
  }

  /// As repair, of what a line says of a document that loads.
  bool repair(const std::string& line) {
    try {
      return mend(key_in(line), line) && repair();
    } catch (const sim::UserError&) {
      return false;
    }
  }

  /// Whether it loads once what its complaints name is left open or rounded.
  bool repair() {
    try {
      for (int i = 0; i < kMostRepairs; ++i) {
        const std::string line = complaint(document_);
        if (line.empty()) return true;
        if (!mend(key_in(line), line)) return false;
      }
    } catch (const sim::UserError&) {
      // A value that no key takes.
    }
    return false;
  }

  Nearest result(bool keeps) && {
    sets_ = last_of_each(std::move(sets_));
    const bool follows = keeps && std::all_of(sets_.begin(), sets_.end(), [](const std::string& set) {
                           return std::find(kFollowers.begin(), kFollowers.end(), key_of(set)) != kFollowers.end();
                         });
    return {std::move(sets_), keeps, follows, std::move(document_)};
  }

 private:
  bool open(const std::string& key) {
    if (key == changed_ || !is_given(document_, key)) return false;
    set(key, "null");
    return true;
  }

  /// Sequences to the nearest multiple that the replicas share out, then of the stages as well.
  bool round_batch() {
    const std::int64_t model = number_at(document_, "parallelism.tensor", 1) *
                               number_at(document_, "parallelism.pipeline", 1) *
                               number_at(document_, "parallelism.context", 1);
    const std::int64_t replicas = std::max<std::int64_t>(1, number_at(document_, "cluster.gpus", 1) / model);
    std::int64_t unit = replicas * number_at(document_, "batch.micro", 1);
    if (++rounded_ > 1) unit *= number_at(document_, "parallelism.pipeline", 1);
    const std::int64_t asked = number_at(document_, "batch.global", unit), even = (asked + unit / 2) / unit * unit;
    if (rounded_ > 2 || changed_ == "batch.global") return false;
    set("batch.global", fmt::format("{}", std::max(unit, even)));
    return true;
  }

  /// More passes than a plan lists: half the batch, or twice the micro-batch.
  bool shorten() {
    if (changed_ == "batch.global") {
      set("batch.micro", fmt::format("{}", 2 * number_at(document_, "batch.micro", 1)));
      return true;
    }
    const std::int64_t batch = number_at(document_, "batch.global", 1);
    if (batch < 2) return false;
    set("batch.global", fmt::format("{}", batch / 2));
    rounded_ = 0;
    return true;
  }

  bool mend(const std::string& key, const std::string& line) {
    if (line.find("operations to list") != std::string::npos) return shorten();
    if (key == "parallelism.expert" && line.find("expected 1: ") != std::string::npos)
      return open(key);  // a dense model
    if (key.empty() || key == "model" || key == "cluster.gpus" || key == "cluster.device") return false;
    if (key == "batch.global" && round_batch()) return true;
    if (key == "batch.global" || key == "batch.micro")
      return key != changed_ && changed_ != "batch.micro" && one_each();
    if (key == "cluster.fabric" && changed_ != key) {
      const Settings* device = document_.find_path("cluster.device");
      const bool named = device != nullptr && device->is_scalar();
      const std::string usual(usual_fabric(named ? device->text() : ""));
      const Settings* fabric = document_.find_path(key);
      if (fabric != nullptr && fabric->is_scalar() && fabric->text() == usual) return false;
      set(key, usual);
      return true;
    }
    if (key == "parallelism.schedule" || key == "parallelism.virtual_pipeline") {
      const bool chunks = open("parallelism.virtual_pipeline"), schedule = open("parallelism.schedule");
      return chunks || schedule;
    }
    const bool layout = key == "parallelism.tensor" || key == "parallelism.pipeline" || key == "parallelism.context" ||
                        key == "parallelism.expert";
    return !layout && open(key);
  }

  bool one_each() {
    if (number_at(document_, "batch.micro", 1) == 1) return false;
    rounded_ = 0;
    set("batch.micro", "1");
    return true;
  }

  Settings document_;
  std::string changed_;
  std::vector<std::string> sets_;
  int rounded_ = 0;
};

/// `value`, then its halves and doubles up to eight times, whole numbers alone, the nearest first.
std::vector<std::int64_t> around(std::int64_t value) {
  std::vector<std::int64_t> values{value};
  std::int64_t down = value, up = value;
  for (int i = 0; i < 3; ++i) {
    if (down % 2 == 0 && down > 1) values.push_back(down /= 2);
    values.push_back(up *= 2);
  }
  if (std::find(values.begin(), values.end(), 1) == values.end()) values.push_back(1);
  return values;
}

double away(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
}

/// Layouts near the one asked for, the nearest first, with `held` as it is.
std::vector<Degrees> layouts_near(const Degrees& asked, const std::string& held) {
  const auto values = [&](const char* key, std::int64_t value) {
    return held == key ? std::vector<std::int64_t>{value} : around(value);
  };
  std::vector<std::pair<double, Degrees>> found;
  for (const std::int64_t tensor : values("parallelism.tensor", asked.tensor))
    for (const std::int64_t pipeline : values("parallelism.pipeline", asked.pipeline))
      for (const std::int64_t context : values("parallelism.context", asked.context))
        for (const std::int64_t expert : values("parallelism.expert", asked.expert)) {
          const double far = away(tensor, asked.tensor) + away(pipeline, asked.pipeline) +
                             1.1 * away(context, asked.context) + 1.1 * away(expert, asked.expert);
          found.emplace_back(far, Degrees{tensor, pipeline, context, expert});
        }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Degrees> layouts;
  for (const auto& [far, layout] : found) layouts.push_back(layout);
  if (layouts.size() > kMostTries) layouts.resize(kMostTries);
  return layouts;
}

Degrees layout_of(const Settings& document) {
  return {number_at(document, "parallelism.tensor", 1), number_at(document, "parallelism.pipeline", 1),
          number_at(document, "parallelism.context", 1), number_at(document, "parallelism.expert", 1)};
}

std::optional<Nearest> other_layout(const Settings& document, const std::string& changed) {
  const Degrees asked = layout_of(document);
  for (const Degrees& layout : layouts_near(asked, changed)) {
    Attempt attempt(document, changed);
    bool other = false;
    for (const auto& [key, value, now] : {std::tuple("parallelism.tensor", layout.tensor, asked.tensor),
                                          {"parallelism.pipeline", layout.pipeline, asked.pipeline},
                                          {"parallelism.context", layout.context, asked.context},
                                          {"parallelism.expert", layout.expert, asked.expert}}) {
      if (value == now) continue;
      attempt.set(key, fmt::format("{}", value));
      other = true;
    }
    if (other && changed != "parallelism.data" && is_given(document, "parallelism.data"))
      attempt.set("parallelism.data", "null");
    if (attempt.repair()) return std::move(attempt).result(true);
  }
  return std::nullopt;
}

/// Values of the changed key itself around the one asked for.
std::optional<Nearest> other_value(const Settings& document, const std::string& changed) {
  const std::int64_t asked = number_at(document, changed.c_str(), 0);
  if (asked == 0) return std::nullopt;
  std::vector<std::int64_t> values;
  for (std::int64_t by = 1; by <= std::min<std::int64_t>(asked, 16); ++by) {
    if (asked > by) values.push_back(asked - by);
    values.push_back(asked + by);
  }
  for (std::int64_t power = 1; power <= std::int64_t{1} << 17; power *= 2) values.push_back(power);
  std::stable_sort(values.begin(), values.end(), [&](auto a, auto b) { return away(a, asked) < away(b, asked); });
  for (const std::int64_t value : values) {
    Attempt attempt(document, changed);
    attempt.set(changed, fmt::format("{}", value));
    if (attempt.repair()) return std::move(attempt).result(false);
  }
  return std::nullopt;
}

/// The nearest kind of GPU that computes in the type asked for.
std::optional<Nearest> other_device(const Settings& document, const std::string& changed) {
  if (!changed.starts_with("precision")) return std::nullopt;
  const Settings* device = document.find_path("cluster.device");
  const bool amd = device != nullptr && device->is_scalar() && device->text().starts_with("mi");
  const std::vector<const char*> devices = amd ? std::vector<const char*>{"mi300x", "mi355x", "h100-sxm-80gb"}
                                               : std::vector<const char*>{"h100-sxm-80gb", "b200-sxm-180gb", "mi355x"};
  for (const char* name : devices) {
    Attempt attempt(document, changed);
    attempt.set("cluster.device", name);
    if (is_given(document, "cluster.gpus_per_node")) attempt.set("cluster.gpus_per_node", "null");
    if (attempt.repair()) return std::move(attempt).result(true);
  }
  return std::nullopt;
}

}  // namespace

namespace {

std::optional<Nearest> nearest_that_loads(const Settings& document, const std::string& changed) {
  Attempt attempt(document, changed);
  if (attempt.repair()) return std::move(attempt).result(true);
  for (auto* way : {other_device, other_layout, other_value})
    if (std::optional<Nearest> found = way(document, changed)) return found;
  return std::nullopt;
}

}  // namespace

std::optional<Nearest> nearest_that_runs(const Settings& document, const std::string& changed, const std::string& line,
                                         const Complaint& runs) {
  constexpr int kMostRuns = 6;
  std::optional<Nearest> found;
  if (complaint(document).empty())
    found = Nearest{{}, true, true, document};
  else
    found = nearest_that_loads(document, changed);
  std::string said = found && found->sets.empty() ? line : found ? runs(found->document) : "";
  for (int i = 0; i < kMostRuns && found && !said.empty(); ++i) {
    Attempt attempt(found->document, changed);
    if (!attempt.repair(said)) return std::nullopt;
    Nearest further = std::move(attempt).result(found->keeps);
    further.sets.insert(further.sets.begin(), found->sets.begin(), found->sets.end());
    further.sets = last_of_each(std::move(further.sets));
    further.follows = further.follows && found->follows;
    found = std::move(further);
    said = runs(found->document);
  }
  return said.empty() ? found : std::nullopt;
}

}  // namespace orrery::tools
