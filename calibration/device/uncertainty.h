// How far an answer of the kernel-time model may be off: the error that nine in ten held-out measurements of the same
// kernel, data type and size class stay below, from the cross-validation that the profile states. Inside the range of
// sizes that were fitted it is that error; with each doubling of a size beyond them it grows by the error that the fit
// showed on its largest tenth of samples when it had not seen them. Left out: steady clocks (the profile's `sustained`
// factors), which move all kernels of a class together.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "calibration/device/optimise.h"
#include "sim/settings.h"

namespace orrery::calibration {

inline constexpr std::size_t kSizeClasses = 3;

/// Size classes, by where they begin: in FLOPs (small: the launch and a few waves count; large: the steady rate) or in
/// bytes (small: latency; large: bandwidth).
struct SizeClasses {
  std::array<double, kSizeClasses - 1> begins;  // of medium and of large
  std::array<const char*, kSizeClasses> names;

  constexpr std::size_t of(double size) const { return size < begins[0] ? 0 : size < begins[1] ? 1 : 2; }
};
inline constexpr SizeClasses kByFlops{{1e10, 1e12}, {"below 10 GFLOP", "10 GFLOP to 1 TFLOP", "from 1 TFLOP"}};
inline constexpr SizeClasses kByBytes{{1 << 20, 1 << 26}, {"below 1 MiB", "1 MiB to 64 MiB", "from 64 MiB"}};

/// What is said of numbers that were transferred or taken from a data sheet: a guess, as nothing was measured.
inline constexpr double kUnmeasured = 0.25;

/// Errors on the very samples that a fit saw flatter it; they count this much more.
inline constexpr double kInSample = 2;

/// The sizes that a kernel is told apart by; up to three, others 1.
using Sizes = std::array<double, 3>;

struct Uncertainty {
  bool measured = false;
  std::array<double, kSizeClasses> inside{kUnmeasured, kUnmeasured, kUnmeasured};  // relative, by size class
  double per_doubling = 0.0;  // relative, for each doubling beyond the range
  Sizes from{1, 1, 1}, to{1e18, 1e18, 1e18};

  /// Relative: the error that about nine in ten answers stay below.
  double at(std::size_t size_class, const Sizes& sizes) const;
};

/// One prediction beside its measurement.
struct Judged {
  double relative = 0;  // predicted / measured - 1
  std::size_t size_class = 0;
};

/// How well a fit holds: on held-out samples, and on its largest samples when it had seen only smaller ones.
struct FitQuality {
  FitError held_out;
  // Percent; of all where a class has fewer than ten samples.
  std::array<double, kSizeClasses> median_by_size{}, p90_by_size{};
  FitError beyond;  // no samples: not tried
  int folds = 0;    // 0: the samples were not held out
  Sizes from{1, 1, 1}, to{1, 1, 1};
};
FitQuality quality_of(const std::vector<Judged>& held_out, int folds);

/// The `error` mapping of a profile section; `error` null: unmeasured; without `folds`: in-sample. Throws
/// sim::UserError.
Uncertainty load_uncertainty(const sim::Settings* error);
/// The same mapping as one line of YAML, "error: {...}".
std::string to_yaml(const FitQuality& quality);

}  // namespace orrery::calibration
