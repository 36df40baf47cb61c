// Data of a study's report. Left out: what one point's step looks like; `orrery run --report` draws that.
#include "tools/study/study_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tools/report/page.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;

/// Reasons as numbers of a list. A list that grows beyond its share of the file holds later reasons without numbers.
class Reasons {
 public:
  Reasons() { number({}); }
  std::uint16_t number(const std::string& reason) {
    const auto known = numbers_.find(reason);
    if (known != numbers_.end()) return known->second;
    const bool full = bytes_ > kMostBytes || texts_.size() > kMostTexts;
    const std::string text = full ? without_numbers(reason) : reason;
    const auto [place, added] = numbers_.try_emplace(text, static_cast<std::uint16_t>(texts_.size()));
    if (added && texts_.size() == kLast) return 0;
    if (added) {
      texts_.push_back(text);
      bytes_ += text.size();
    }
    return place->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  static std::string without_numbers(const std::string& text) {
    std::string out;
    for (const char c : text) {
      const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
      if (!digit) out += c;
      if (digit && !out.ends_with('#')) out += '#';
    }
    return out;
  }
  static constexpr std::size_t kMostBytes = 300'000, kMostTexts = 20'000, kLast = 65'000;
  std::map<std::string, std::uint16_t> numbers_;
  std::vector<std::string> texts_;
  std::size_t bytes_ = 0;
};

bool has_cost(const std::vector<PointResult>& points) {
  return std::any_of(points.begin(), points.end(), [](const PointResult& p) { return p.usd_per_million_tokens > 0; });
}

/// The points that the page holds, in their order.
std::vector<std::size_t> kept_points(const Study& study, std::size_t bytes_each) {
  std::vector<std::size_t> kept(study.points.size());
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  const std::size_t most = kMostStudyBytes / bytes_each;
  if (kept.size() <= most) return kept;
  std::stable_sort(kept.begin(), kept.end(), [&](std::size_t a, std::size_t b) {
    return study.points[a].tokens_per_s > study.points[b].tokens_per_s;  // 0 where nothing was simulated
  });
  kept.resize(most);
  std::sort(kept.begin(), kept.end());
  return kept;
}

ordered_json key_json(const StudyKey& key, const std::vector<std::size_t>& kept) {
  ordered_json json{{"name", key.name}, {"values", key.values}};
  const auto column = [&](auto zero) {
    std::vector<decltype(zero)> choice;
    choice.reserve(kept.size());
    for (const std::size_t i : kept) choice.push_back(static_cast<decltype(zero)>(key.choice[i]));
    return base64_of(choice);
  };
  json["bits"] = key.values.size() <= 256 ? 8 : key.values.size() <= 65536 ? 16 : 32;
  json["choice"] = key.values.size() <= 256     ? column(std::uint8_t{})
                   : key.values.size() <= 65536 ? column(std::uint16_t{})
                                                : column(std::uint32_t{});
  return json;
}

ordered_json results_json(const Study& study, const std::vector<std::size_t>& kept, bool cost) {
  struct Result {
    const char *name, *title, *unit;
    double PointResult::*number;
    double scale;
  };
  std::vector<Result> results{{"tokens_per_s", "tokens/s", "tokens/s", &PointResult::tokens_per_s, 1},
                              {"iteration_s", "step time", "s", &PointResult::iteration_s, 1},
                              {"mfu_pct", "MFU", "%", &PointResult::mfu_pct, 1},
                              {"memory_gb", "memory per GPU", "GB", &PointResult::peak_memory_gb, 1}};
  if (cost) results.push_back({"cost", "cost", "USD/Mtok", &PointResult::usd_per_million_tokens, 1});
  ordered_json json = ordered_json::array();
  for (const Result& result : results) {
    std::vector<float> column;
    column.reserve(kept.size());
    for (const std::size_t i : kept) column.push_back(static_cast<float>(study.points[i].*result.number));
    json.push_back(
        {{"name", result.name}, {"title", result.title}, {"unit", result.unit}, {"column", base64_of(column)}});
  }
  return json;
}

ordered_json facts_json(const Study& study, const std::vector<char>& front) {
  ordered_json facts = ordered_json::array();
  for (const auto& card : study.winner) facts.push_back(card);
  const auto best =
      std::max_element(study.points.begin(), study.points.end(),
                       [](const PointResult& a, const PointResult& b) { return a.tokens_per_s < b.tokens_per_s; });
  if (study.winner.empty() && best != study.points.end() && best->tokens_per_s > 0) {
    facts.push_back({"highest throughput", si_text(best->tokens_per_s, "tokens/s"),
                     fmt::format("{} a step, MFU {:.1f} %, {}", time_text(best->iteration_s), best->mfu_pct,
                                 bytes_text(best->peak_memory_gb * 1e9))});
  }
  for (const auto& [name, value] : study.facts) facts.push_back({name, value, ""});
  facts.push_back({"on the front", count_text(static_cast<double>(std::count(front.begin(), front.end(), char{1}))),
                   "points that no other beats"});
  return facts;
}

}  // namespace

std::vector<char> study_front(const std::vector<PointResult>& points) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].status == PointStatus::ok) order.push_back(i);
  }
  const auto cost = [&](std::size_t i) { return points[i].usd_per_million_tokens; };
  const auto memory = [&](std::size_t i) { return points[i].peak_memory_gb; };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (points[a].tokens_per_s != points[b].tokens_per_s) return points[a].tokens_per_s > points[b].tokens_per_s;
    return memory(a) != memory(b) ? memory(a) < memory(b) : cost(a) < cost(b);
  });
  // Of all points so far, which are faster: the lowest cost for at most so much memory, lower the more memory.
  std::map<double, double> stairs;
  std::vector<char> front(points.size(), 0);
  const std::size_t* last = nullptr;
  for (const std::size_t& i : order) {
    const bool twin = last != nullptr && points[*last].tokens_per_s == points[i].tokens_per_s &&
                      memory(*last) == memory(i) && cost(*last) == cost(i);
    if (twin) {
      front[i] = front[*last];
      continue;
    }
    last = &i;
    const auto above = stairs.upper_bound(memory(i));
    if (above != stairs.begin() && std::prev(above)->second <= cost(i)) continue;
    front[i] = 1;
    auto next = stairs.insert_or_assign(memory(i), cost(i)).first;
    for (++next; next != stairs.end() && next->second >= cost(i);) next = stairs.erase(next);
  }
  return front;
}

ordered_json study_page(const Study& study) {
  const bool cost = has_cost(study.points);
  std::size_t bytes_each = 4 * (cost ? 5 : 4) + 1 + 2;
  for (const StudyKey& key : study.keys)
    bytes_each += key.values.size() <= 256 ? 1 : key.values.size() <= 65536 ? 2 : 4;
  const std::vector<std::size_t> kept = kept_points(study, bytes_each * 4 / 3 + 1);
  const std::vector<char> front = study_front(study.points);
  Reasons reasons;
  std::vector<std::uint8_t> status;  // and whether on the front
  std::vector<std::uint16_t> reason;
  for (const std::size_t i : kept) {
    const PointResult& point = study.points[i];
    status.push_back(static_cast<std::uint8_t>(static_cast<int>(point.status) + (front[i] != 0 ? 16 : 0)));
    // That of a point that runs out of memory follows from its memory.
    reason.push_back(reasons.number(point.status == PointStatus::oom ? "out of memory" : point.reason));
  }
  ordered_json page;
  page["kind"] = "study";
  page["title"] = study.title;
  page["subtitle"] = study.subtitle;
  page["facts"] = facts_json(study, front);
  page["points"] = study.points.size();
  page["n"] = kept.size();
  page["cost"] = cost;
  page["keys"] = ordered_json::array();
  for (const StudyKey& key : study.keys) page["keys"].push_back(key_json(key, kept));
  page["results"] = results_json(study, kept, cost);
  page["status"] = base64_of(status);
  page["reason"] = base64_of(reason);
  page["reasons"] = reasons.texts();
  page["infeasible"] = ordered_json::array();
  for (const auto& [text, count] : study.infeasible) page["infeasible"].push_back({text, count});
  return page;
}

}  // namespace orrery::tools
