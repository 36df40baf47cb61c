// Weighted quantiles over pairs of rows. The weight of a pair is the product of its rows' weights, evened out over
// lists as in like_rows.cc. Left out: which key differs between the two rows; too few rows differ in one alone.
#include "tools/explain/change_error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

namespace orrery::tools {

namespace {

struct WeighedError {
  double error = 0, weight = 0;
};

/// The value below which a share `p` of the weight lies.
double quantile(const std::vector<WeighedError>& sorted, double total, double p) {
  double sum = 0;
  for (const WeighedError& pair : sorted) {
    sum += pair.weight;
    if (sum >= p * total * (1 - 1e-12)) return pair.error;
  }
  return sorted.back().error;
}

/// Rows of which any two make a pair.
auto family_of(const KnownRow& row) {
  return std::tuple(row.list, row.features.device, row.features.software, row.features.gpus, row.features.sizes.hidden);
}

}  // namespace

std::optional<ChangeError> change_error(const Features& features, const std::vector<KnownRow>& known,
                                        const KnownRow* left_out) {
  using Family = decltype(family_of(known.front()));
  std::map<Family, std::vector<std::pair<double, double>>> families;  // weight and ln of each row's error
  for (const KnownRow& row : known) {
    if (&row == left_out) continue;
    const double weight = likeness(features, row.features);
    families[family_of(row)].emplace_back(weight, row.log_ratio);
  }
  std::vector<std::pair<std::string, WeighedError>> pairs;  // with the list
  std::map<std::string, double> by_list;
  for (const auto& [family, rows] : families) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const double weight = rows[i].first * rows[j].first;
        pairs.emplace_back(std::get<0>(family), WeighedError{std::abs(rows[i].second - rows[j].second), weight});
        by_list[std::get<0>(family)] += weight;
      }
    }
  }
  if (pairs.empty()) return std::nullopt;
  std::vector<WeighedError> sorted;
  double total = 0, squares = 0;
  for (const auto& [list, pair] : pairs) {
    sorted.push_back({pair.error, pair.weight / std::sqrt(by_list.at(list))});
    total += sorted.back().weight;
    squares += sorted.back().weight * sorted.back().weight;
  }
  std::sort(sorted.begin(), sorted.end(), [](const WeighedError& a, const WeighedError& b) {
    return a.error != b.error ? a.error < b.error : a.weight < b.weight;
  });
  return ChangeError{total * total / squares, quantile(sorted, total, 0.68), quantile(sorted, total, 0.90)};
}

Confidence confidence_of(double gain, const std::optional<ChangeError>& error) {
  if (!error) return Confidence::unknown;
  if (gain > error->half90) return Confidence::beyond;
  return gain > error->half68 ? Confidence::likely : Confidence::within;
}

std::string_view text_of(Confidence confidence) {
  static constexpr std::array<std::string_view, 4> kTexts{
      "no published rows tell how sure this is", "within the error of such predictions: measure before you rely on it",
      "more than the error of two in three such predictions", "more than the error of nine in ten such predictions"};
  return kTexts[static_cast<std::size_t>(confidence)];
}

std::string_view name_of(Confidence confidence) {
  static constexpr std::array<std::string_view, 4> kNames{"unknown", "within", "likely", "beyond"};
  return kNames[static_cast<std::size_t>(confidence)];
}

}  // namespace orrery::tools
