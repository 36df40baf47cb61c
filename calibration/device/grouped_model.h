// Time of the products of experts: one linear layer of every expert of a rank, worked on by one kernel. Each product
// e of (m_e, n_e, k_e) has its own tiles, and all tiles are dealt out to the processors together:
//   units = sum_e ceil(m_e/m_t) ceil(n_e/n_t),     waves = q ceil(units/P) + (1-q) max(units/P, 1)
//   compute(t) = max(waves * mean over units of loop_e, longest loop_e),
//   loop_e = 2 m_t n_t k_e / (rate_t * peak / P) + setup_t
// as in gemm_model.h, without a split of the inner dimension. An expert without tokens has no tile; one with a token
// has a whole row of tiles and reads its whole weight:
//   memory = sum_e (A_e + B_e + C_e traffic) / (efficiency * memory bandwidth)
//   time = structure * exp((1 - launch / structure) * surface(ln m, ln n, ln k)), structure = launch + the two joined
// with m the mean rows of the products that have any. Never below the roofline of best_rate * peak and the data sheet's
// bandwidth.
// Serving libraries' kernels (`served`) take experts one after another, so that those of many rows, which compute, hide
// little of what those of few wait for from memory: experts of similar rows are joined, and these times added up, the
// waves' idle ends in proportion. Their tile is the one that took least when the library's tuner timed another group.
// Sources: CUTLASS grouped GEMM (examples/24_gemm_grouped, 57_hopper_grouped_gemm), Gale et al., MegaBlocks (arXiv
// 2211.15841). Left out: padding of tokens to tiles by some libraries (a caller counts it), and the scheduler's reading
// of the list of products, which is part of the launch.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "calibration/device/gemm_model.h"

namespace orrery::calibration {

/// `count` products C[m,n] = A[m,k] B[k,n] of one group.
struct GroupMember {
  double m = 1, n = 1, k = 1;
  double count = 1;
};

/// Rows of experts of equal columns and depth, in the mean over draws of them, by what the time of their products
/// depends on.
class GroupRows {
 public:
  /// Rows of some experts that have any, and the rows of tiles that they make.
  struct Share {
    double rows = 0, experts = 0;
    std::array<float, 16> tiles{};  // by tiles' sides: so many steps
    void add(double rows_of_one, double count);
    /// Rows of tiles of a side: those that were counted, lines between them.
    double tiles_of(double side) const;
  };
  /// One more draw: so many experts of each of these rows. Experts of none do nothing.
  void add_draw(std::span<const double> rows, double count);
  std::span<const Share> draws() const { return draws_; }
  /// Of all draws: experts of similar rows, within a factor of two.
  std::span<const Share> sizes() const { return sizes_; }

 private:
  std::vector<Share> draws_, sizes_;
};

struct GroupedModel {
  double peak = 0;  // FLOP/s of the device
  double processors = 1;
  double memory_bandwidth = 0;  // bytes/s, data sheet
  double element_bytes = 2;     // of A and B
  double launch = 4e-6;         // seconds
  double quantisation = 0.5;    // q
  double memory_efficiency = 0.8;
  double best_rate = 1;           // share of peak that no correction exceeds: what dense products reach at their best
  double accumulate_exposed = 0;  // as of the dense products (gemm_model.h): of what sums move beyond other results
  std::vector<Tile> tiles;
  Surface surface;  // m: rows of a product, n, k as in the forward form

  /// Bytes written, and read where the sum is added to, of an element of C.
  static double result_bytes(bool accumulate, double sum_bytes) { return accumulate ? 2 * sum_bytes : 2; }

  /// Seconds without the surface. Members with m, n or k of 0 do nothing; a group of none takes the launch.
  double structure(std::span<const GroupMember> group, double result_bytes = 2) const;
  /// Seconds without the surface of a serving library's kernel, of products of `columns` and `depth`, by the tile that
  /// takes `timed` least. A tuner's own timings scatter, so that tiles which are all but as fast are as likely.
  double served(const GroupRows& group, const GroupRows& timed, double columns, double depth) const;
  /// Seconds that best_rate of the peak and memory bandwidth allow at best.
  double roofline(std::span<const GroupMember> group, double result_bytes = 2) const;
  /// Seconds. `rows`, `columns`, `depth`: where the surface is asked, the sizes of a member of the forward form.
  double seconds(std::span<const GroupMember> group, double rows, double columns, double depth,
                 double result_bytes = 2) const;

 private:
  double compute(const Tile& tile, std::span<const GroupMember> group) const;
  double served_by(const Tile& tile, const GroupRows& group, double columns, double depth) const;
  /// Seconds of a product's computing beside its memory traffic.
  double joined(double compute, double bytes) const;
  double traffic(std::span<const GroupMember> group, double result_bytes) const;
  /// Seconds for which nothing is multiplied while results are added to what lies in memory.
  double exposed(std::span<const GroupMember> group, double result_bytes) const;
};

/// The tiles of a dense product at work on a group: what a library's products on several streams come to.
GroupedModel grouped_from(const GemmModel& dense);

}  // namespace orrery::calibration
