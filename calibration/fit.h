// Fits of the kernel-time model to measured samples, and how well they hold: pure functions, no files. Structural
// parameters by Nelder-Mead on the mean robust log error, corrections by iteratively reweighted ridge regression (so
// that outliers, heuristics' bad days, do not bend the surface). Cross-validation deals samples into folds by a hash of
// their place in the table.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "calibration/attention_model.h"
#include "calibration/collective_model.h"
#include "calibration/gemm_model.h"
#include "calibration/optimise.h"
#include "calibration/samples.h"

namespace orrery::calibration {

/// Mean absolute value far out, quadratic near 0 (Huber), of a log error.
double robust_error(double log_error);
/// Which fold a sample belongs to: a hash of its place, so that neighbours in the table fall into different folds.
int fold_of(std::size_t place, int folds);

struct SurfaceOptions {
  std::vector<double> m, n, k;  // knots
  double smoothness = 0.3;      // weight of second differences, in samples at a knot
  double shrinkage = 1e-3;      // weight of the values themselves
  double flatness = 0.0;        // weight of first differences: where there are no samples, the surface runs on level
  /// Largest fall between two knots: where the structure is flat (inside a wave), a fall makes larger shapes faster.
  double largest_fall = 0.5;
};
struct SurfacePoint {
  double m = 1, n = 1, k = 1;
  double log_error = 0;  // ln(measured / structure), to be met by share * surface
  double share = 1;
};
Surface fit_surface(const SurfaceOptions& options, std::span<const SurfacePoint> points);

struct GemmFitOptions {
  SurfaceOptions surface;
  SurfaceOptions detail{{}, {}, {1}, 0.0, 1.0, 0.0, 0.09};  // no knots in m: none
  int evaluations = 4000;                                   // of the structural search
  std::size_t search_samples = 1500;                        // samples that the structural search looks at
};

/// A device's facts with first guesses and the tile shapes that libraries ship.
GemmModel gemm_start(double peak, double processors, double memory_bandwidth, DataType type);
/// Fits structure and surface; `start` gives the device's facts and first guesses.
GemmModel fit_gemm(const GemmModel& start, std::span<const GemmSample> samples, const GemmFitOptions& options);
FitError gemm_error(const GemmModel& model, std::span<const GemmSample> samples);
/// Fits on all folds but one and predicts that one, for each fold.
FitError cross_validate_gemm(const GemmModel& start, std::span<const GemmSample> samples, const GemmFitOptions& options,
                             int folds);

AttentionModel fit_attention(const AttentionModel& start, std::span<const AttentionSample> samples,
                             const SurfaceOptions& surface);
FitError attention_error(const AttentionModel& model, std::span<const AttentionSample> samples);
FitError cross_validate_attention(const AttentionModel& start, std::span<const AttentionSample> samples,
                                  const SurfaceOptions& surface, int folds);

/// Fits one operation of one device. `line_rate`: bytes/s per GPU and direction, which no protocol exceeds;
/// `in_switch_from`: as in CollectiveModel.
CollectiveModel fit_collective(std::span<const CollectiveSample> samples, double line_rate, double in_switch_from);
/// Of the samples with from_bytes <= bytes < to_bytes.
FitError collective_error(const CollectiveModel& model, std::span<const CollectiveSample> samples, double from_bytes,
                          double to_bytes);

GemmModel::Shape model_shape(const Gemm& g);
AttentionModel::Shape model_shape(const Attention& a);

}  // namespace orrery::calibration
