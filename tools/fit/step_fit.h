// Parameters of software generations, fabrics and devices fitted on measured steps: what `orrery fit` reads and
// computes, apart from how it is printed. A residual is ln(predicted / measured) of a row's step (or memory), so that
// rows count alike whatever their size. Every row is simulated with the very code of `orrery validate`. Left out:
// parameters of single rows, by design, and parameters that are words or switches.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibration/device/least_squares.h"
#include "scenarios/origin.h"
#include "sim/settings.h"
#include "tools/validation.h"

namespace orrery::tools {

/// A number that rows share: a key of one document. Values in `unit`.
struct FitParameter {
  std::string document;  // as named
  scenarios::DocumentKey key;
  std::string path;  // as a scenario names it: "software.kernel_issue"
  std::string file;
  std::string unit, meaning;
  double low = 0, high = 1, start = 0;
  std::string text_of(double value) const;  // "12.5 us"
  double from_box(double x) const { return low + x * (high - low); }
  double prior = 0;  // how far from `start` it is expected to lie, in its unit; 0: anywhere between the bounds
};

struct FitRow {
  std::string list, id;
  sim::Settings record;
  std::vector<char> affected;  // by each parameter
};

/// How rows that are far off count: as squares, linearly beyond kRobustKnee (Huber), or hardly at all beyond some
/// kRowMiss (Cauchy), as where single steps are timed, of which some were disturbed.
enum class RowLoss : std::uint8_t { squares, robust, heavy_tailed };

struct StepFit {
  std::string file, description;
  std::vector<FitParameter> parameters;
  std::vector<FitRow> rows;
  bool memory = false;  // residuals of measured.memory_gb instead of the step
  RowLoss loss = RowLoss::squares;
  bool by_list = false;     // every list counts alike, however many rows it has
  bool hold_lists = false;  // held out together: a list; else a fold of rows
  int folds = 5;            // of rows; 0: nothing is held out
  double ridge = 0;         // weight of the parameters' priors; 0: none
  int starts = 2;           // where descents begin: the present values, the middle of the bounds, points spread out
};
inline constexpr double kRobustKnee = 0.05;
inline constexpr double kRowMiss = 0.1;  // residual by which rows of a sound model commonly miss
inline constexpr double kSetAside = 5;   // times kRowMiss: a row farther off pulls a heavy-tailed fit no more

/// Reads a fit's document. Throws UserError: unknown keys, keys that are no numbers of a document, bounds the wrong way
/// round or in another unit, rows that no list has, parameters that no row reads.
StepFit read_step_fit(const std::string& file);
/// The same of a document that `file` stands for.
StepFit step_fit_of(const sim::Settings& document, const std::string& file);

/// A fit of a generation as a whole on lists of measured steps, however few: the numbers of its host, its calls, its
/// copies and what slows its kernels down, as far as the rows read them, each held to the generation's own value by a
/// ridge. `except`: patterns of ids that are left out; `only`: that alone are taken (empty: all). Throws UserError.
StepFit framework_fit(const std::string& generation, const std::vector<std::string>& lists,
                      const std::vector<std::string>& only, const std::vector<std::string>& except, double ridge);
/// The fitted generation as a document that inherits the first, with what the rows say of each number as comments.
struct FitOutcome;
std::string framework_text(const StepFit& fit, const FitOutcome& outcome, const std::string& generation,
                           const std::string& name);

/// Simulates rows at points of the unit box, on `jobs` threads, each (row, parameters that it reads) once.
class RowSimulator {
 public:
  RowSimulator(const StepFit& fit, unsigned jobs);
  ~RowSimulator();
  RowSimulator(const RowSimulator&) = delete;
  RowSimulator& operator=(const RowSimulator&) = delete;
  /// Residuals of the rows `which` at each point. Throws UserError naming a row that cannot be simulated, Interrupted
  /// after Ctrl-C.
  std::vector<std::vector<double>> residuals(const std::vector<std::size_t>& which,
                                             const std::vector<calibration::Point>& points);
  std::size_t simulations() const;

 private:
  struct Memory;
  Memory* memory_;
};
struct Interrupted {};

struct FitOutcome {
  calibration::LeastSquaresFit fit;
  calibration::Determination determination;
  std::vector<double> optima;               // costs that the descents ended at
  std::vector<double> before, after;        // residuals of every row at the start and at the optimum
  std::vector<std::optional<double>> held;  // of every row, at the optimum of the others; none: never held out
  std::vector<calibration::Point> fold_optima;
  std::size_t simulations = 0;
};
/// The fit, and one fit more for each part that is held out, begun at the optimum of all. Throws as RowSimulator.
FitOutcome run_step_fit(const StepFit& fit, unsigned jobs);

/// What a fit says of one parameter.
struct Verdict {
  double value = 0, standard_error = 0;  // in its unit
  double fold_low = 0, fold_high = 0;    // over the parts held out
  bool at_bound = false;
  bool determined = false;  // the rows leave less than half of the spread that the bounds leave
  std::string partner;      // of the strongest correlation beyond 0.9; empty: none
};
std::vector<Verdict> verdicts(const StepFit& fit, const FitOutcome& outcome);

/// `text`, a YAML document, with the number at `key` replaced by `value`; a key of the document itself, or of a block
/// of it, that is not there is added. Throws UserError where the key's place cannot be changed by hand rules.
std::string with_value(const std::string& text, const std::string& file, const std::string& key,
                       const std::string& value);

}  // namespace orrery::tools
