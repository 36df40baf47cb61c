// What of a scenario no published row has, and by how much that widens its interval. An answer about a framework or a
// device that nobody measured is worth less than one about what was compared a hundred times: its interval is widened,
// or narrowed where it holds more, until it holds what it promises of rows whose framework, generation, device or kind
// of work is left out as a whole (conformal quantiles: Romano, Patterson and Candes, NeurIPS 2019, equations 6 to 8),
// each framework or device counted as one. What is new besides never narrows it further. Steps that wait for the host
// are no matter of their own: too few sources have them, and likeness already judges them by each other. The table is
// scenarios/published/intervals.yaml, which tools/scoreboard writes. Left out: that what was left out had a part in how
// the model was built, so that the first rows of a source of tomorrow may miss by more than those of today do
// (docs/scoreboard.md keeps what each list missed by on its first day).
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/explain/like_rows.h"
#include "tools/pair_errors.h"

namespace orrery::tools {

/// Of what published rows ran: the same, another of its kind, or nothing of the kind.
enum class Seen : std::uint8_t { same, kin, none };

struct Newness {
  Seen framework = Seen::same;  // kin: another generation of it
  bool device = false, work = false;
  bool size = false;  // more than twice the GPUs of any row on this device, or on any where the device is new
  bool operator==(const Newness&) const = default;
  bool any() const { return framework != Seen::same || device || work || size; }
  /// Whether all that is new of `other` is new here too.
  bool covers(const Newness& other) const;
};
inline constexpr std::size_t kNewnesses = 24;
std::size_t index_of(const Newness& newness);
Newness newness_at(std::size_t index);

/// `left_out`: of `known`, the row itself when a known row is asked about.
Newness newness_of(const Features& features, const std::vector<KnownRow>& known, const KnownRow* left_out = nullptr);
Newness newness_of(const Features& features, std::span<const RowView> known, const RowView* left_out = nullptr);
/// "no row of framework axonn, none on a gb300"; empty where nothing is new.
std::string text_of(const Newness& newness, const Features& features);

/// The widening of each newness, and what it rests on: rows, and the frameworks, devices or lists that they are of.
struct Widenings {
  struct Entry {
    Widening widening;
    std::size_t rows = 0, groups = 0;
  };
  std::array<Entry, kNewnesses> at{};
};

/// How many rows intervals hold, in per cent, whose `left_out` (row, source, generation, framework, device, work, or
/// framework and device) nothing else is of; a row's own group has no part in its widening.
struct Held {
  std::string left_out;
  std::string list;  // empty: of all lists
  std::int64_t rows = 0, groups = 0;
  double at68 = 0, at90 = 0;                      // of rows whose state is known
  double each68 = 0, each90 = 0;                  // the mean over groups, each counted alike
  double with_unknown68 = 0, with_unknown90 = 0;  // of all rows in no fit
  double half90_pct = 0;                          // half the interval of 90 %, mean
};
/// The nearest to these values that nowhere fall: neighbours that do take their weighted mean (isotonic regression by
/// pooling adjacent violators: Barlow, Bartholomew, Bremner and Brunk, Statistical Inference under Order Restrictions,
/// 1972). What frameworks nobody measured ask for is so no less than what new generations do, and no more than told.
std::vector<double> nowhere_falling(const std::vector<double>& values, const std::vector<double>& weights);

struct WidthStudy {
  Widenings widenings;
  std::vector<Held> held;
  std::optional<PairErrors> ratios;
};
WidthStudy study_widths(const std::vector<KnownRow>& known);

/// scenarios/published/intervals.yaml as text, and from the folder of data; empty entries where it is not there. Throws
/// sim::UserError for a broken one.
void write_widths(std::ostream& out, const WidthStudy& study);
WidthStudy shipped_widths();

/// An answer about one step.
struct StepInterval {
  LikeRows like;  // widened
  Newness newness;
  Widening widening;
  bool itself = false;  // a published row, judged by all others
};
/// Nothing where no rows are known. `itself`: of `known`, the measurement of this very run.
std::optional<StepInterval> step_interval(const Features& features, const std::vector<KnownRow>& known,
                                          const Widenings& widenings, const KnownRow* itself = nullptr);
std::optional<StepInterval> step_interval(const Features& features, std::span<const RowView> known,
                                          const Widenings& widenings, const RowView* itself);

/// The same of a simulated scenario, by the rows that ship.
std::optional<StepInterval> interval_of_run(const scenarios::Scenario& scenario, const workloads::StepReport& report);
/// "867.0 ms to 985.0 ms".
std::string range_text(double step_s, double low, double high);
/// Lines below a table of times, and what `run --json` says.
std::string text_of(const StepInterval& interval, double step_s, const Features& features);
nlohmann::ordered_json interval_json(const StepInterval& interval, double step_s, const Features& features);

}  // namespace orrery::tools
