// Small optimisers for fits: Nelder-Mead and Levenberg-Marquardt for structural parameters, ridge least squares for
// linear corrections.
// Nelder and Mead, "A simplex method for function minimization", Computer Journal 7 (1965).
#pragma once

#include <functional>
#include <vector>

namespace orrery::calibration {

/// Minimises f from `start` with first steps `step` (one per coordinate); at most `evaluations` calls.
/// Restarts from the best point until a restart no longer helps.
std::vector<double> nelder_mead(const std::function<double(const std::vector<double>&)>& f, std::vector<double> start,
                                const std::vector<double>& step, int evaluations);

/// ln(predicted / measured) of every sample at the given parameters.
using LogErrors = std::function<void(const std::vector<double>& parameters, std::vector<double>& errors)>;
/// Minimises the mean robust error (see robust_error) by Levenberg-Marquardt with weights 1 / |error| far out and a
/// numeric Jacobian (steps of 0.01): parameters are logarithms of order 1. Marquardt, SIAM J. Appl. Math. 11 (1963).
struct LogFit {
  std::vector<double> parameters;
  double cost = 0;
};
LogFit levenberg_marquardt(const LogErrors& errors, std::vector<double> start, int iterations);

/// Mean absolute value far out, quadratic near 0 (Huber), of a log error.
double robust_error(double log_error);

/// Solves the symmetric positive definite system a x = b (row-major n x n) by Cholesky; SIM_CHECKs definiteness.
std::vector<double> solve_spd(std::vector<double> a, std::vector<double> b);

/// Errors of a fit, in percent.
struct FitError {
  std::size_t samples = 0;
  double median_ape = 0, p90_ape = 0, bias = 0;  // bias: median of predicted / measured - 1
};
/// From predicted / measured - 1, one per sample.
FitError summarise(std::vector<double> relative);
/// The value that a share q of `values` does not exceed; 0 for none.
double quantile(std::vector<double> values, double q);

}  // namespace orrery::calibration
