// The `error` mappings of a profile, as text and as what they say about an answer.
#include "calibration/device/uncertainty.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery::calibration {
namespace {

using sim::Settings;

constexpr std::size_t kFewest = 10;  // samples that a percentile needs

Sizes sizes_at(const Settings& list) {
  if (!list.is_sequence() || list.items().size() != 3) list.expected("a list of three sizes");
  Sizes out{};
  for (std::size_t i = 0; i < 3; ++i) out[i] = list.items()[i].as_number();
  return out;
}

double percent_at(const Settings& value) { return value.as_number() / 100; }

std::array<double, kSizeClasses> by_size_at(const Settings& list) {
  if (!list.is_sequence() || list.items().size() != kSizeClasses)
    list.expected(fmt::format("a list of {} percentages, small sizes first", kSizeClasses));
  std::array<double, kSizeClasses> out{};
  for (std::size_t i = 0; i < kSizeClasses; ++i) out[i] = percent_at(list.items()[i]);
  return out;
}

std::string text_of(const std::array<double, kSizeClasses>& percent) {
  return fmt::format("[{:.2f}, {:.2f}, {:.2f}]", percent[0], percent[1], percent[2]);
}

std::string range_text(const Sizes& sizes) {
  return fmt::format("[{:.0f}, {:.0f}, {:.0f}]", sizes[0], sizes[1], sizes[2]);
}

}  // namespace

double Uncertainty::at(std::size_t size_class, const Sizes& sizes) const {
  double doublings = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double size = std::max(sizes[i], 1e-9);
    doublings += std::max({0.0, std::log2(size / to[i]), std::log2(from[i] / size)});
  }
  return inside[size_class] + per_doubling * doublings;
}

FitQuality quality_of(const std::vector<Judged>& judged, int folds) {
  FitQuality out;
  out.folds = folds;
  std::vector<double> all;
  std::array<std::vector<double>, kSizeClasses> by_size;
  for (const Judged& j : judged) {
    all.push_back(j.relative);
    by_size[j.size_class].push_back(std::fabs(j.relative));
  }
  out.held_out = summarise(all);
  for (std::size_t i = 0; i < kSizeClasses; ++i) {
    const bool few = by_size[i].size() < kFewest;
    out.median_by_size[i] = few ? out.held_out.median_ape : 100 * quantile(by_size[i], 0.5);
    out.p90_by_size[i] = few ? out.held_out.p90_ape : 100 * quantile(by_size[i], 0.9);
  }
  return out;
}

Uncertainty load_uncertainty(const Settings* error) {
  Uncertainty out;
  if (error == nullptr) return out;
  out.measured = true;
  out.inside.fill(percent_at(error->at("p90_pct")));
  out.per_doubling = out.inside[0];
  if (const Settings* list = error->find("median_by_size_pct")) by_size_at(*list);
  if (const Settings* list = error->find("p90_by_size_pct")) out.inside = by_size_at(*list);
  if (error->find("folds") == nullptr)
    for (double& share : out.inside) share *= kInSample;
  if (const Settings* s = error->find("extrapolated_p90_pct")) out.per_doubling = percent_at(*s);
  if (const Settings* s = error->find("from")) out.from = sizes_at(*s);
  if (const Settings* s = error->find("to")) out.to = sizes_at(*s);
  for (std::size_t i = 0; i < 3; ++i)
    if (out.to[i] < out.from[i]) error->at("to").expected("the largest sizes fitted, which `from` is not above");
  return out;
}

std::string to_yaml(const FitQuality& q) {
  std::string out = fmt::format("error: {{samples: {}, median_pct: {:.2f}, p90_pct: {:.2f}", q.held_out.samples,
                                q.held_out.median_ape, q.held_out.p90_ape);
  out +=
      fmt::format(", median_by_size_pct: {}, p90_by_size_pct: {}", text_of(q.median_by_size), text_of(q.p90_by_size));
  if (q.beyond.samples > 0)
    out += fmt::format(", extrapolated_median_pct: {:.2f}, extrapolated_p90_pct: {:.2f}", q.beyond.median_ape,
                       q.beyond.p90_ape);
  if (q.folds > 0) out += fmt::format(", folds: {}", q.folds);
  return out + fmt::format(", from: {}, to: {}}}", range_text(q.from), range_text(q.to));
}

}  // namespace orrery::calibration
