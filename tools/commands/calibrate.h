// The measuring half of `orrery calibrate`; the checking half is in calibrate.cc.
#pragma once

#include <string>
#include <vector>

#include "calibration/measure/measurement_plan.h"

namespace orrery::tools {

struct MeasureOptions {
  std::string out;     // profile to write; the samples go beside it, as .csv
  std::string module;  // GPU module to load; empty: those beside the program
  int device = 0;
  double minutes = 0;  // after which no further case is begun; 0: no limit
  bool quick = false, resume = false;
};

/// The kernels of every shipped model of language, split over 1, 8, 4 and 2 tensor ranks in turn.
std::vector<calibration::ModelKernels> shipped_models();

/// The text of a profile of a device that told these facts of itself, fitted to the samples of a table.
std::string profile_text(const calibration::GpuFacts& facts, const std::string& samples,
                         const std::vector<std::string>& problems = {});

/// Kernels whose median error on the samples exceeds kFarOffPct, a line each.
inline constexpr double kFarOffPct = 30;
std::vector<std::string> far_off(const std::string& profile, const std::string& samples);

/// What of a profile's file was measured, transferred, inherited or assumed: lines for people.
std::string sources_text(const std::string& profile);

/// Measures the GPU, then fits and writes a profile. Returns the exit status; throws sim::UserError. Whatever was
/// measured stays in the samples file, however the run ends.
int measure_device(const MeasureOptions& options);

struct LearnDeviceOptions {
  std::vector<std::string> traces, sets;
  std::string scenario, out;
};

/// Writes the scenario's device with the rates that traces of its job show, for classes of kernels that were not
/// measured. Needs no GPU. Returns the exit status; throws sim::UserError.
int learn_device(const LearnDeviceOptions& options);

/// Checks the result of every kernel once on small shapes and prints the errors. kBug where one is wrong.
int verify_device(const MeasureOptions& options);

}  // namespace orrery::tools
