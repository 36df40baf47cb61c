// Kernels that are Python's: scans of mixers with a state (Triton kernels of flash-linear-attention and mamba_ssm, and
// causal-conv1d's convolution), and sparse attention (DeepGEMM's scores of an indexer, PyTorch's choice of the highest,
// as Megatron-Core runs it, FlashMLA's attention to chosen keys, and flash-linear-attention's to chosen blocks of
// them). They are run where PyTorch runs them, by a process of the Python interpreter, which is told the cases line by
// line and answers each with its time; what it does not have, it names.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "calibration/device/scan.h"

namespace orrery::calibration {

struct ScanCase {
  std::variant<Scan, SparseKernel> shape;  // of a convolution `channels`, else heads
};

/// Passes of every kind that has a public kernel, few and many positions; `quick`: of one width.
std::vector<ScanCase> scan_cases(bool quick);
/// "scan" or "sparse": as in the samples' column class.
std::string_view class_of(const ScanCase& what);
/// "gated_delta_forward": as in the samples' column name.
std::string name_of(const ScanCase& what);
/// The first columns of a row of the samples: what is measured (measurement.h, kCaseColumns).
std::string key_of(const ScanCase& what);

struct ScanTime {
  double seconds = 0, spread_pct = 0;
  int repeats = 0;
};
std::string row_of(const ScanCase& what, const ScanTime& time);

/// Where Python is: ORRERY_PYTHON, else python3 of the path.
std::string python_program();

/// What became of the cases.
struct ScanRun {
  std::string libraries;  // that were found, with versions
  /// Cases that were not measured, by class and reason.
  std::map<std::string, std::map<std::string, std::size_t>, std::less<>> problems;
};
/// Runs cases on GPU `device` for at most `budget` seconds in all; `measured` is called with each that ends well, and
/// ends the run by returning false. Never throws for what Python or its packages do.
ScanRun run_scans(int device, const std::vector<ScanCase>& cases, double budget,
                  const std::function<bool(const ScanCase&, const ScanTime&)>& measured);

/// The program that Python is given.
extern const char* const kScanProgram;

}  // namespace orrery::calibration
