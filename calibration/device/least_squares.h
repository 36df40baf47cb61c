// Least squares within bounds, for fits whose every residual costs a simulation: Levenberg and Marquardt on the unit
// box, with numeric derivatives and all residuals of several points asked for at once, so that they can run in
// parallel. What the residuals say of each parameter comes with it. Marquardt, SIAM J. Appl. Math. 11 (1963); Huber,
// Ann. Math. Statist. 35 (1964). Cauchy's loss t^2 ln(1 + r^2/t^2) is the likelihood of errors with heavy tails: beyond
// t a residual pulls the less the larger it is, so that what was disturbed is set aside. Left out: second derivatives,
// and optima other than the one downhill of the start.
#pragma once

#include <functional>
#include <limits>
#include <vector>

namespace orrery::calibration {

using Point = std::vector<double>;  // a coordinate per parameter, each from 0 (its lower bound) to 1 (its upper)

/// The residuals of every row at each of `points`: as many vectors as points, all of one length.
using Residuals = std::function<std::vector<std::vector<double>>(const std::vector<Point>& points)>;

struct LeastSquaresOptions {
  int iterations = 25;
  double knee = std::numeric_limits<double>::infinity();  // residuals beyond it count linearly (Huber)
  double tail =
      std::numeric_limits<double>::infinity();  // residuals far beyond it hardly count (Cauchy); not with knee
  std::size_t exact_from = std::numeric_limits<std::size_t>::max();  // residuals from there on are squares: priors
  std::vector<double> weights;                                       // of each row; empty: 1
};

struct LeastSquaresFit {
  Point at;
  std::vector<double> residuals;              // there
  std::vector<double> weights;                // of each row, the loss's share included
  std::vector<std::vector<double>> jacobian;  // a column per parameter: change of each residual across the whole box
  double cost = 0;                            // sum of weighted squares, or of the loss asked for
  int iterations = 0;
};

/// Goes downhill from `start`, which is moved into the box. A coordinate that would leave the box stays at its bound.
LeastSquaresFit least_squares(const Residuals& residuals, Point start, const LeastSquaresOptions& options = {});

/// What residuals tell of parameters: the covariance of Gauss and Markov, with the bounds as what was known before (a
/// uniform spread over the box). Takes rows for independent; rows of one source rarely are.
struct Determination {
  std::vector<double> standard_error;            // of each coordinate; kSpread where the rows tell nothing
  std::vector<std::vector<double>> correlation;  // between coordinates
  /// Of the Jacobian in units of the residuals' own scatter, largest first: moving across the whole box in that
  /// direction changes the rows by so many standard deviations. Below about kSpread^-1 the bounds tell more.
  std::vector<double> singular_values;
  Point weakest;  // the direction of the last one
};
/// Standard deviation of a uniform distribution over a box of width 1.
inline constexpr double kSpread = 0.28867513459481287;
Determination determination(const LeastSquaresFit& fit);

/// Eigenvalues, largest first, with eigenvectors as rows, of a symmetric row-major n x n matrix: Jacobi's rotations.
struct Eigen {
  std::vector<double> values;
  std::vector<std::vector<double>> vectors;
};
Eigen symmetric_eigen(std::vector<double> matrix, std::size_t n);

}  // namespace orrery::calibration
