// Small optimisers for fits: Nelder-Mead for structural parameters, ridge least squares for linear corrections.
// Nelder and Mead, "A simplex method for function minimization", Computer Journal 7 (1965).
#pragma once

#include <functional>
#include <vector>

namespace orrery::calibration {

/// Minimises f from `start` with first steps `step` (one per coordinate); at most `evaluations` calls.
/// Restarts from the best point until a restart no longer helps.
std::vector<double> nelder_mead(const std::function<double(const std::vector<double>&)>& f, std::vector<double> start,
                                const std::vector<double>& step, int evaluations);

/// Solves the symmetric positive definite system a x = b (row-major n x n) by Cholesky; SIM_CHECKs definiteness.
std::vector<double> solve_spd(std::vector<double> a, std::vector<double> b);

/// Errors of a fit, in percent.
struct FitError {
  std::size_t samples = 0;
  double median_ape = 0, p90_ape = 0, bias = 0;  // bias: median of predicted / measured - 1
};
/// From predicted / measured - 1, one per sample.
FitError summarise(std::vector<double> relative);

}  // namespace orrery::calibration
