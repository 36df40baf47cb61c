// How far published rows like a scenario were from their predictions: the empirical side of an answer's uncertainty.
// Rows are weighed by likeness (known_rows.h), and the root of what a list then weighs counts, since rows of one source
// share causes. The quantiles of measured / predicted over these weights are the interval, widened by how few rows they
// amount to. Rows that a number was fitted on say nothing about a prediction, nor do rows of which it is not known how
// they ran; both are left out. What no known row has, as a framework that none ran, widens it further (newness.h). Left
// out: a trend within the neighbourhood.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/known_rows.h"

namespace orrery::tools {

struct LikeRows {
  double rows = 0;  // how many independent rows the weights amount to (Kish)
  std::vector<std::string> nearest;
  /// Factors on the prediction: 68 and 90 % of such rows were measured between them.
  double low68 = 1, high68 = 1, low90 = 1, high90 = 1;
};

/// `left_out`: of `known`, the row itself when a known row is asked about; nothing where no row is evidence.
std::optional<LikeRows> like_rows(const Features& features, const std::vector<KnownRow>& known,
                                  const KnownRow* left_out = nullptr);
std::optional<LikeRows> like_rows(const Features& features, std::span<const RowView> known, const RowView* left_out);

/// A row as the quantiles need it: what a factor is the logarithm of, its likeness, and its list by number.
struct Neighbour {
  double log_ratio = 0, weight = 0;
  std::uint32_t list = 0;
};
/// Of rows in the order of their ratios; nothing where they weigh nothing. Names no rows.
std::optional<LikeRows> interval_of(std::vector<Neighbour>& by_ratio, std::size_t lists);

/// By how much, in ln(measured / predicted), the ends of an interval move out; in, but not past each other, below 0.
struct Widening {
  double at68 = 0, at90 = 0;
};
LikeRows widened(LikeRows like, const Widening& by);

}  // namespace orrery::tools
