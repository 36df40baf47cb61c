// How well the ratio of two steps of one job is predicted: what tells whether one layout is better than another, or
// only predicted so. Two layouts of a model on a cluster share most causes of error, and what they share cancels: their
// ratio errs by how differently their time goes. If the time of collectives is off by a third, a layout that spends 5 %
// more of its step on them is off by 1.7 %. So five relative errors, of computation, of collectives of tensor groups,
// of pipelines (messages, waits, bubbles), of data and experts, and of the host, and one of each layout's own, found by
// maximum likelihood over pairs of published rows that differ in layout alone and are predicted within 30 % of each
// other. Errors have heavy tails: Student's t of four degrees (Lange, Little and Taylor, JASA 84, 1989). Left out: that
// a kind of error has a sign; it was tried, and orders the rows of frameworks that are left out no better.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/known_rows.h"

namespace orrery::tools {

/// Shares of a step by what errs together.
inline constexpr std::size_t kStepParts = 5;
inline constexpr std::array<std::string_view, kStepParts> kStepPartNames{"compute", "tensor", "pipeline", "data",
                                                                         "host"};
using Shares = std::array<double, kStepParts>;
Shares shares_of(const std::array<double, workloads::kCategories>& exposed_s);

struct PairErrors {
  double own = 0;  // of the ratio of two layouts whose time goes alike
  Shares of{};     // relative errors of the parts
  std::size_t pairs = 0, groups = 0;
  /// Per cent of the pairs of a framework that is left out that such errors hold, a framework counted as one.
  double held68 = 0, held90 = 0;

  /// The scale of ln(measured ratio / predicted ratio).
  double scale(const Shares& a, const Shares& b) const;
  /// What 68 and 90 % of such ratios stay below.
  double at68(const Shares& a, const Shares& b) const;
  double at90(const Shares& a, const Shares& b) const;
};
/// Nothing where no two rows make a pair.
std::optional<PairErrors> fit_pair_errors(const std::vector<KnownRow>& known);

/// A line of scenarios/published/intervals.yaml.
void write_pair_errors(std::ostream& out, const PairErrors& errors);
PairErrors read_pair_errors(const sim::Settings& line);
/// What ships; nothing where it is not there.
std::optional<PairErrors> shipped_pair_errors();

/// Whether a gain is more than such errors.
enum class Confidence : std::uint8_t { unknown, within, likely, beyond };
/// `gain`: |ln| of the ratio of two predicted steps, whose time goes as `a` and `b` say.
Confidence confidence_of(double gain, const std::optional<PairErrors>& errors, const Shares& a, const Shares& b);
/// "within the error of such predictions", and so on: a clause.
std::string_view text_of(Confidence confidence);
/// One word, for programs: unknown, within, likely or beyond.
std::string_view name_of(Confidence confidence);

/// A layout among those to choose from.
struct Candidate {
  double step_s = 0;
  Shares shares{};
};
struct Chance {
  double best = 0;        // probability that none of the others is faster
  double expected_s = 0;  // of its step: the best of many predictions is the one that errors flatter most
  bool tied = false;      // with the first: the gap is no more than 68 % of such ratios err by
};
/// In the order of `candidates`, the first of which is predicted the fastest.
std::vector<Chance> chances_of(const PairErrors& errors, const std::vector<Candidate>& candidates);
/// What to measure before one decides, by their places from 0: the first, and those tied with it, three at most.
/// `candidates`: the fastest first.
std::vector<std::size_t> worth_measuring(const PairErrors& errors, const std::vector<Candidate>& candidates);

}  // namespace orrery::tools
