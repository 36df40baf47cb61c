// One row of a samples file: what is measured (a Case of the module's interface) and what came out. The file is also
// the journal of a run, so that a row is written and read as text here and nowhere else in this room; read_samples()
// turns a whole file into samples for a fit.
#pragma once

#include <string>
#include <string_view>

#include "calibration/kernels/abi.h"
#include "calibration/measure/samples.h"

namespace orrery::calibration {

std::string_view name_of(CaseClass c);
/// "" for none.
std::string_view name_of(CaseType t);
std::string_view name_of(CaseForm f);

/// Of kMeasuredColumns, those that say what is measured.
inline constexpr int kCaseColumns = 16;

/// The first kCaseColumns columns; the same for two cases exactly where they are the same case.
std::string key_of(const Case& what);
/// The same part of a row of a samples file; empty where the row does not have all its columns.
std::string key_of_row(std::string_view row);

struct Measurement {
  Case what;
  double seconds = 0;     // median; the ratio for sustained and interference
  double spread_pct = 0;  // half the interquartile range over the median
  int repeats = 0;
  double error = -1;  // relative, against float64; below 0: not checked
  double sm_mhz = 0, power_w = 0;
  int limits = 0;  // bits of what held the clock back
};
/// A row without its line break; unknown numbers are left empty.
std::string row_of(const Measurement& m);

/// For people: "gemm bfloat16 tn 4096 x 4096 x 4096".
/// What held a clock back, as in "power+heat"; empty: nothing that is known.
std::string limits_text(int limits);

std::string describe(const Case& what);

/// Bytes that a streaming kernel reads and writes for each element; 0 for a name that is none.
double streaming_bytes(std::string_view kernel);
/// Sizes a name must not exceed; see Case.
void set_name(Case& what, std::string_view name);

}  // namespace orrery::calibration
