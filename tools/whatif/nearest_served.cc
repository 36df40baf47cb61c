// The nearest that runs, of scenarios that are served or post-trained. A complaint about what follows from the rest
// (replicas, the fabric, an update's answers) opens that key. Where this does not do, changes are combined, the
// cheapest sum of them first: degrees by powers of two, bits of the weights, GPUs, devices with more memory. A try is a
// load and a look at the memory. Left out: latencies that were promised, for which there is `orrery search`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <queue>
#include <set>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/known_devices.h"
#include "tools/whatif/nearest.h"
#include "tools/whatif/served.h"

namespace orrery::tools {

namespace {

using sim::Settings;

constexpr std::size_t kMostServedTries = 240;
constexpr int kMostOpened = 6;

/// Another value of a key, and how far it is from what was asked for.
struct OtherValue {
  std::string text;
  double far = 0;
};
/// A key that may change, its values the nearest first.
struct Knob {
  std::string key;
  std::vector<OtherValue> values;
};

/// The value at a path whose steps may be items of lists, as in "serving.pools[0].replicas".
const Settings* item_at(const Settings& document, const std::string& path) {
  const std::size_t open = path.find('['), close = path.find(']', open);
  if (open == std::string::npos || close == std::string::npos) return document.find_path(path);
  const Settings* list = document.find_path(path.substr(0, open));
  std::size_t at = 0;
  const auto [end, error] = std::from_chars(path.data() + open + 1, path.data() + close, at);
  if (error != std::errc{} || end != path.data() + close || list == nullptr || !list->is_sequence() ||
      at >= list->items().size())
    return nullptr;
  return close + 2 < path.size() ? list->items()[at].find_path(path.substr(close + 2)) : &list->items()[at];
}

bool stands_at(const Settings& document, const std::string& path) {
  const Settings* value = item_at(document, path);
  return value != nullptr && !value->is_null() && !(value->is_scalar() && value->text().empty());
}

std::int64_t whole_at(const Settings& document, const std::string& path, std::int64_t otherwise) {
  const Settings* value = item_at(document, path);
  if (value == nullptr || !value->is_scalar()) return otherwise;
  std::int64_t number = 0;
  const std::string& text = value->text();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number > 0 ? number : otherwise;
}

/// The key that a line is about, "FILE:LINE:COLUMN: key: ..."; places and names have no dots beside letters.
std::string key_of_line(const std::string& line) {
  for (std::size_t from = 0; from < line.size();) {
    const std::size_t end = line.find(": ", from);
    if (end == std::string::npos) return {};
    const std::string part = line.substr(from, end - from);
    const bool word = !part.empty() && part.find_first_not_of("abcdefghijklmnopqrstuvwxyz_[]0123456789.") == part.npos;
    if (word && (part.find('.') != part.npos || part == "traffic" || part == "serving")) return part;
    from = end + 2;
  }
  return {};
}

/// What follows from the rest, by the end of its key.
bool may_be_opened(const std::string& key) {
  constexpr std::array kEnds{
      ".replicas",           ".gpus_per_node",     ".max_sequences",  ".max_batched_tokens", ".mini_batch",
      ".rollout_gpus",       ".weight_transfer",   ".data",           ".virtual_pipeline",   ".schedule",
      ".sequence_parallel",  ".redundant_experts", ".autoscale.most", ".autoscale.least",    ".slow",
      ".micro_batch_tokens", ".expert_tensor",     ".kv_transfer",    ".at_update",          ".staleness"};
  return std::any_of(kEnds.begin(), kEnds.end(), [&](const char* end) { return key.ends_with(end); });
}

struct ServedTry {
  Settings document;
  std::vector<std::string> sets;

  void set(const std::string& key, const std::string& value) {
    std::erase_if(sets, [&](const std::string& one) { return one.starts_with(key + "="); });
    sets.push_back(key + "=" + value);
    scenarios::apply_set(document, sets.back());
  }

  /// Opens what complaints name, and says how the last one ends.
  std::string mend(const std::string& changed) {
    std::string line = served_complaint(document);
    for (int i = 0; i < kMostOpened && !line.empty(); ++i) {
      const std::string key = key_of_line(line);
      if (key == "cluster.fabric" && changed != key) {
        const Settings* device = document.find_path("cluster.device");
        const bool named = device != nullptr && device->is_scalar();
        const std::string usual(usual_fabric(named ? device->text() : ""));
        const Settings* fabric = document.find_path(key);
        if (fabric != nullptr && fabric->is_scalar() && fabric->text() == usual) return line;
        set(key, usual);
      } else if (key != changed && may_be_opened(key) && stands_at(document, key)) {
        set(key, "null");
      } else {
        return line;
      }
      line = served_complaint(document);
    }
    return line;
  }
};

/// A degree's halves and doubles, up to eight times.
Knob degree(const Settings& document, const std::string& key, double each) {
  Knob knob{key, {}};
  const std::int64_t now = whole_at(document, key, 1);
  std::int64_t down = now;
  for (int i = 1; i <= 3; ++i) {
    knob.values.push_back({fmt::format("{}", now << i), each * i});
    if (down % 2 == 0) knob.values.push_back({fmt::format("{}", down /= 2), each * i});
  }
  if (now > 1 && down > 1) knob.values.push_back({"1", each * 3.5});
  return knob;
}

/// Other values of the key that was changed itself, beside those of `degree`, which are far behind the rest.
/// `blamed`: the complaint is about that key.
Knob changed_itself(const Settings& document, const std::string& changed, bool blamed) {
  const double far = blamed ? 2 : 6;
  Knob knob = degree(document, changed, 1);
  const std::int64_t now = whole_at(document, changed, 0);
  if (now == 0) return {changed, {}};
  for (OtherValue& value : knob.values) value.far += far;
  for (std::int64_t by = 1; by <= 4; ++by) {
    knob.values.push_back({fmt::format("{}", now + by), far + 0.1 * static_cast<double>(by)});
    if (now > by) knob.values.push_back({fmt::format("{}", now - by), far + 0.1 * static_cast<double>(by)});
  }
  return knob;
}

std::vector<Knob> knobs_of(const Settings& document, const std::string& changed, const std::string& line) {
  const bool rl = kind_of(document) == QuestionKind::rl;
  const std::string pools = rl ? "rl.rollout.pools" : "serving.pools", engine = rl ? "rl.rollout." : "";
  std::vector<Knob> knobs;
  const Settings* list = document.find_path(pools);
  const std::size_t count = list != nullptr && list->is_sequence() ? list->items().size() : 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(count, 2); ++i) {
    const std::string pool = fmt::format("{}[{}].parallelism.", pools, i);
    knobs.push_back(degree(document, pool + "tensor", 1));
    for (const char* key : {"expert", "attention_data", "pipeline"})
      if (key == std::string("expert") || stands_at(document, pool + key))
        knobs.push_back(degree(document, pool + key, 1.3));
    if (count == 2 && stands_at(document, fmt::format("{}[{}].replicas", pools, i)))
      knobs.push_back(degree(document, fmt::format("{}[{}].replicas", pools, i), 1.1));
  }
  if (rl) {
    for (const char* key : {"tensor", "pipeline", "context", "expert"})
      if (key == std::string("tensor") || stands_at(document, fmt::format("rl.training.parallelism.{}", key)))
        knobs.push_back(degree(document, fmt::format("rl.training.parallelism.{}", key), 1.2));
    if (stands_at(document, "rl.placement.rollout_gpus"))
      knobs.push_back(degree(document, "rl.placement.rollout_gpus", 1));
  }
  knobs.push_back({engine + "precision.weights", {{"fp8", 1.6}, {"fp4", 4.5}}});
  knobs.push_back({"cluster.gpus", {}});
  for (const OtherValue& value : degree(document, "cluster.gpus", 1.7).values)
    if (value.text != "1") knobs.back().values.push_back(value);
  knobs.push_back({"cluster.device", {{"h200-sxm-141gb", 2.4}, {"b200-sxm-180gb", 2.8}, {"mi300x", 3.4}}});
  std::erase_if(knobs, [&](const Knob& knob) { return knob.key == changed; });
  const std::string key = key_of_line(line);
  if (Knob own = changed_itself(document, changed, !key.empty() && changed.ends_with(key)); !own.values.empty())
    knobs.push_back(std::move(own));
  for (Knob& knob : knobs)
    std::stable_sort(knob.values.begin(), knob.values.end(),
                     [](const auto& a, const auto& b) { return a.far < b.far; });
  return knobs;
}

/// Combinations of values, the least far first; 0 of a knob leaves it as it is.
class Combinations {
 public:
  explicit Combinations(const std::vector<Knob>& knobs) : knobs_(knobs) {
    offer(std::vector<std::size_t>(knobs.size()));
  }

  std::vector<std::size_t> next() {
    if (open_.empty()) return {};
    const std::vector<std::size_t> best = open_.top().second;
    open_.pop();
    for (std::size_t i = 0; i < knobs_.size(); ++i) {
      if (best[i] >= knobs_[i].values.size()) continue;
      std::vector<std::size_t> further = best;
      ++further[i];
      offer(std::move(further));
    }
    return best;
  }

 private:
  void offer(std::vector<std::size_t> choice) {
    if (!seen_.insert(choice).second) return;
    double far = 0;
    for (std::size_t i = 0; i < choice.size(); ++i)
      if (choice[i] > 0) far += knobs_[i].values[choice[i] - 1].far;
    open_.emplace(-far, std::move(choice));
  }

  const std::vector<Knob>& knobs_;
  std::set<std::vector<std::size_t>> seen_;
  std::priority_queue<std::pair<double, std::vector<std::size_t>>> open_;
};

bool only_follows(const std::vector<std::string>& sets) {
  return std::all_of(sets.begin(), sets.end(), [](const std::string& set) {
    const std::string key = set.substr(0, set.find('='));
    return key == "cluster.fabric" || may_be_opened(key);
  });
}

}  // namespace

std::optional<Nearest> nearest_served(const Settings& document, const std::string& changed, const std::string& line,
                                      const Complaint& runs) {
  constexpr int kMostServedRuns = 3;
  const std::vector<Knob> knobs = knobs_of(document, changed, line);
  Combinations combinations(knobs);
  int ran = 0;
  for (std::size_t tries = 0; tries < kMostServedTries && ran < kMostServedRuns; ++tries) {
    const std::vector<std::size_t> choice = combinations.next();
    if (choice.empty()) return std::nullopt;
    try {
      ServedTry attempt{document, {}};
      bool keeps = true;
      for (std::size_t i = 0; i < choice.size(); ++i) {
        if (choice[i] == 0) continue;
        attempt.set(knobs[i].key, knobs[i].values[choice[i] - 1].text);
        keeps = keeps && knobs[i].key != changed;
      }
      if (!attempt.mend(changed).empty()) continue;
      ++ran;
      if (!runs(attempt.document).empty()) continue;
      const bool follows = keeps && only_follows(attempt.sets);
      return Nearest{std::move(attempt.sets), keeps, follows, std::move(attempt.document)};
    } catch (const sim::UserError&) {
      // A value that no key takes here.
    }
  }
  return std::nullopt;
}

}  // namespace orrery::tools
