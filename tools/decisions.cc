// Groups by what their rows state, key by key; pairs by the sum of the hashes of what they state, less one key's, so
// that no two rows are compared that differ in more.
#include "tools/decisions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "tools/pair_errors.h"

namespace orrery::tools {

namespace {

/// Whether a search over layouts may choose it.
bool is_layout(const std::string& key) {
  return key.starts_with("parallelism.") || key == "batch.micro" || key == "recompute" || key.starts_with("recompute.");
}

/// Whether a change of it is another job, not another way to run one.
bool is_size(const std::string& key) { return key == "cluster.gpus" || key == "batch.global"; }

bool compared(const ValidationRow& row) {
  return row.error_pct && row.features.step_s > 0 && 1 + *row.error_pct / 100 > 0 && row.status != RowStatus::error;
}
double measured_s(const ValidationRow& row) { return row.features.step_s / (1 + *row.error_pct / 100); }

bool sooner(const ValidationRow* a, const ValidationRow* b) { return measured_s(*a) < measured_s(*b); }

double change_pct(double first, double second) { return 100 * (second / first - 1); }

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double share_pct(std::size_t of, std::size_t all) {
  return all == 0 ? 0 : 100 * static_cast<double>(of) / static_cast<double>(all);
}

void choose(LayoutGroup& group, const std::optional<PairErrors>& errors) {
  const auto predicted_sooner = [](const ValidationRow* a, const ValidationRow* b) {
    return a->features.step_s < b->features.step_s;
  };
  std::vector<const ValidationRow*> fitting;
  for (const ValidationRow* row : group.rows) {
    if (row->status == RowStatus::ok) fitting.push_back(row);
  }
  std::vector<const ValidationRow*> among = fitting.empty() ? group.rows : fitting;
  std::stable_sort(among.begin(), among.end(), predicted_sooner);
  group.chosen = among.front();
  std::vector<Candidate> candidates;
  for (const ValidationRow* row : among)
    candidates.push_back({row->features.step_s, shares_of(row->features.exposed_s)});
  const auto places = errors ? worth_measuring(*errors, candidates) : std::vector<std::size_t>{0};
  for (const std::size_t place : places) group.measured.push_back(among[place]);
  group.best = *std::min_element(group.rows.begin(), group.rows.end(), sooner);
}

/// The row's pairs of keys and values but for the replicas, and the sum of their hashes.
struct Stated {
  const ValidationRow* row = nullptr;
  std::vector<std::pair<std::string, std::string>> facts;
  std::size_t hash = 0;
};
std::size_t hash_of(const std::pair<std::string, std::string>& fact) {
  return std::hash<std::string>{}(fact.first + '\n' + fact.second);
}
Stated stated(const ValidationRow& row) {
  Stated out{&row, {}, 0};
  for (const auto& fact : row.features.facts) {
    if (fact.first == "parallelism.data") continue;
    out.facts.push_back(fact);
    out.hash += hash_of(fact);
  }
  return out;
}

/// Whether two rows state the same but for the value at `key`.
bool differ_in(const Stated& a, const Stated& b, const std::string& key) {
  return a.facts.size() == b.facts.size() &&
         std::equal(a.facts.begin(), a.facts.end(), b.facts.begin(), [&](const auto& one, const auto& other) {
           return one.first == other.first && (one.second == other.second) == (one.first != key);
         });
}

}  // namespace

double LayoutGroup::regret_pct() const { return change_pct(measured_s(*best), measured_s(*chosen)); }
double LayoutGroup::measured_regret_pct() const {
  return change_pct(measured_s(*best), measured_s(**std::min_element(measured.begin(), measured.end(), sooner)));
}
double LayoutGroup::chosen_off_pct() const { return *chosen->error_pct; }

std::vector<LayoutGroup> layout_groups(const std::vector<ValidationRow>& rows) {
  using Layouts = std::map<std::string, std::vector<const ValidationRow*>>;
  std::map<std::string, Layouts> by_question;
  for (const ValidationRow& row : rows) {
    if (!compared(row)) continue;
    std::string question = row.list, layout;
    for (const auto& [key, value] : row.features.facts)
      (is_layout(key) ? layout : question) += '\n' + key + ' ' + value;
    by_question[question][layout].push_back(&row);
  }
  std::vector<LayoutGroup> out;
  const std::optional<PairErrors> errors = shipped_pair_errors();
  for (auto& [question, layouts] : by_question) {
    if (layouts.size() < 3) continue;
    LayoutGroup group;
    for (auto& [layout, repeats] : layouts) {
      std::sort(repeats.begin(), repeats.end(), sooner);
      group.rows.push_back(repeats[(repeats.size() - 1) / 2]);
    }
    group.list = group.rows.front()->list;
    choose(group, errors);
    out.push_back(std::move(group));
  }
  return out;
}

Decisions decisions_of(const std::vector<LayoutGroup>& groups, const std::string& list) {
  constexpr double kApart = 1.05;
  Decisions out;
  std::vector<double> regrets, after, numbers, off, sizes;
  std::size_t right = 0, near = 0;
  for (const LayoutGroup& group : groups) {
    if (!list.empty() && group.list != list) continue;
    for (std::size_t i = 0; i < group.rows.size(); ++i) {
      for (std::size_t j = i + 1; j < group.rows.size(); ++j) {
        const ValidationRow &a = *group.rows[i], &b = *group.rows[j];
        const double ratio = measured_s(a) / measured_s(b);
        if (std::max(ratio, 1 / ratio) <= kApart) continue;
        ++out.pairs;
        right +=
            (a.features.step_s < b.features.step_s) == (ratio < 1) && a.features.step_s != b.features.step_s ? 1 : 0;
      }
    }
    regrets.push_back(group.regret_pct());
    after.push_back(group.measured_regret_pct());
    numbers.push_back(static_cast<double>(group.measured.size()));
    off.push_back(group.chosen_off_pct());
    sizes.push_back(std::abs(off.back()));
    near += sizes.back() <= 10 ? 1 : 0;
  }
  out.groups = regrets.size();
  out.ordered_right_pct = share_pct(right, out.pairs);
  out.regret_mean_pct = mean(regrets);
  out.regret_median_pct = quantile(regrets, 0.5);
  out.regret_p90_pct = quantile(regrets, 0.9);
  out.to_measure_mean = mean(numbers);
  out.measured_regret_mean_pct = mean(after);
  out.measured_regret_p90_pct = quantile(after, 0.9);
  out.chosen_off_mean_pct = mean(off);
  out.chosen_off_median_pct = quantile(sizes, 0.5);
  out.chosen_within_10_pct = share_pct(near, out.groups);
  return out;
}

std::vector<ChangedPair> changed_pairs(const std::vector<ValidationRow>& rows) {
  constexpr double kApartPct = 3;
  using Key = std::pair<std::string, std::pair<std::string, std::size_t>>;  // list, key that is left out, the rest
  std::map<Key, std::vector<Stated>> alike;
  for (const ValidationRow& row : rows) {
    if (!compared(row)) continue;
    const Stated whole = stated(row);
    for (const auto& fact : whole.facts) {
      if (!is_size(fact.first)) alike[{row.list, {fact.first, whole.hash - hash_of(fact)}}].push_back(whole);
    }
  }
  std::vector<ChangedPair> out;
  for (const auto& [at, group] : alike) {
    const std::string& key = at.second.first;
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t j = i + 1; j < group.size(); ++j) {
        if (!differ_in(group[i], group[j], key)) continue;
        const ValidationRow &a = *group[i].row, &b = *group[j].row;
        const double measured = change_pct(measured_s(a), measured_s(b));
        if (std::abs(measured) > kApartPct)
          out.push_back({at.first, key, measured, change_pct(a.features.step_s, b.features.step_s)});
      }
    }
  }
  return out;
}

PairSummary summary_of(const std::vector<ChangedPair>& pairs, const std::string& list) {
  PairSummary out;
  std::vector<double> off;
  std::size_t right = 0;
  for (const ChangedPair& pair : pairs) {
    if (!list.empty() && pair.list != list) continue;
    right += pair.measured_pct * pair.predicted_pct > 0 ? 1 : 0;
    off.push_back(std::abs(pair.predicted_pct - pair.measured_pct));
  }
  out.n = off.size();
  out.sign_right_pct = share_pct(right, out.n);
  out.size_off_median_points = quantile(off, 0.5);
  out.size_off_p90_points = quantile(off, 0.9);
  return out;
}

}  // namespace orrery::tools
