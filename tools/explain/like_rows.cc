// Weights and quantiles over known rows.
#include "tools/explain/like_rows.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace orrery::tools {

namespace {

constexpr std::size_t kNamed = 3;

/// The value below which a share `p` of the weight lies; `rows` as in LikeRows.
double quantile(const std::vector<Neighbour>& sorted, double total, double rows, double p) {
  const double wanted = std::clamp(0.5 + (p - 0.5) * (1 + 1 / rows), 0.0, 1.0) * total;
  double sum = 0, last = 0;
  for (const Neighbour& row : sorted) {
    if (row.weight <= 0) continue;
    sum += row.weight;
    last = row.log_ratio;
    if (sum >= wanted * (1 - 1e-12)) break;
  }
  return last;
}

}  // namespace

std::optional<LikeRows> interval_of(std::vector<Neighbour>& by_ratio, std::size_t lists) {
  std::vector<double> by_list(lists, 0.0);
  for (const Neighbour& row : by_ratio) by_list[row.list] += row.weight;
  for (double& weight : by_list) weight = weight > 0 ? 1 / std::sqrt(weight) : 0;
  double total = 0, squares = 0;
  for (Neighbour& row : by_ratio) {
    row.weight *= by_list[row.list];
    total += row.weight;
    squares += row.weight * row.weight;
  }
  if (total <= 0) return std::nullopt;
  LikeRows like;
  like.rows = total * total / squares;
  const auto factor = [&](double p) { return std::exp(quantile(by_ratio, total, like.rows, p)); };
  like.low68 = factor(0.16);
  like.high68 = factor(0.84);
  like.low90 = factor(0.05);
  like.high90 = factor(0.95);
  return like;
}

std::optional<LikeRows> like_rows(const Features& features, const std::vector<KnownRow>& known,
                                  const KnownRow* left_out) {
  const std::vector<RowView> views = views_of(known);
  return like_rows(features, views, view_of(views, known, left_out));
}

std::optional<LikeRows> like_rows(const Features& features, std::span<const RowView> known, const RowView* left_out) {
  const RowTraits asked(features);
  std::map<std::string_view, std::uint32_t> lists;
  std::string_view last_list;  // rows of a list stand together
  std::uint32_t last_number = 0;
  std::vector<Neighbour> sorted;
  std::vector<std::pair<double, const RowView*>> near;
  sorted.reserve(known.size());
  near.reserve(known.size());
  for (const RowView& row : known) {
    if (&row == left_out || !row.evidence) continue;
    const double weight = likeness(asked, row.traits);
    if (lists.empty() || row.list != last_list) {
      const auto number = static_cast<std::uint32_t>(lists.size());
      last_list = row.list;
      last_number = lists.try_emplace(row.list, number).first->second;
    }
    sorted.push_back({row.log_ratio, weight, last_number});
    near.emplace_back(weight, &row);
  }
  std::sort(sorted.begin(), sorted.end(), [](const Neighbour& a, const Neighbour& b) {
    return a.log_ratio != b.log_ratio ? a.log_ratio < b.log_ratio : a.weight < b.weight;
  });
  std::optional<LikeRows> like = interval_of(sorted, lists.size());
  if (!like) return like;
  // The heaviest, of equals those ahead.
  const auto named = near.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, near.size()));
  std::partial_sort(near.begin(), named, near.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  for (auto row = near.begin(); row != named; ++row) like->nearest.emplace_back(row->second->id);
  return like;
}

LikeRows widened(LikeRows like, const Widening& by) {
  // An interval that is narrowed by more than its half is its middle.
  const auto move = [](double& low, double& high, double by_each) {
    const double least = -std::log(high / low) / 2;
    low *= std::exp(-std::max(by_each, least));
    high *= std::exp(std::max(by_each, least));
  };
  move(like.low68, like.high68, by.at68);
  move(like.low90, like.high90, by.at90);
  return like;
}

}  // namespace orrery::tools
