// The kernels around experts: what must be read and written, however a library does it.
#include "calibration/device/router_kernels.h"

#include "tests/catch.h"

namespace {

using namespace orrery::calibration;

double reads(const Kernels& kernels) {
  double sum = 0;
  for (const MovedBytes& k : kernels) sum += k.reads;
  return sum;
}

double writes(const Kernels& kernels) {
  double sum = 0;
  for (const MovedBytes& k : kernels) sum += k.writes;
  return sum;
}

double total(const Kernels& kernels) { return reads(kernels) + writes(kernels); }

/// A layer of DeepSeek-V3 on 4096 tokens of a rank.
constexpr RouterShape kShape{4096, 7168, 256, 8, 2};
constexpr double kRows = 4096.0 * 8, kRow = 7168.0 * 2;

}  // namespace

TEST_CASE("a fused permutation reads each token once and writes each of its rows") {
  const Kernels k = permute_kernels(kShape, kRows, true);
  CHECK(k.back().name == "permute");
  // The rows themselves, and 4 bytes of weight for each cell read and each row written.
  CHECK(k.back().reads == Approx(4096 * kRow + 4096 * 256 * 4.0));
  CHECK(k.back().writes == Approx(kRows * (kRow + 4)));
  // The map takes less than a twentieth of what the rows take.
  CHECK(total(k) - k.back().total() < k.back().total() / 20);
}

TEST_CASE("without fusion rows are read as often as they are written, and sums are read back") {
  CHECK(permute_kernels(kShape, kRows, false).back().reads >= kRows * kRow);
  const Kernels k = unpermute_kernels(kShape, kRows, false);
  // Zeros are written, and for each row the row and the sum are read and the sum is written.
  CHECK(total(k) == Approx(4096 * kRow + kRows * (3 * kRow + 8)));
  CHECK(total(unpermute_kernels(kShape, kRows, true)) == Approx(4096 * kRow + kRows * (kRow + 4)));
}

TEST_CASE("fusing never moves more, and every kernel moves something") {
  for (const RouterShape& s : {kShape, RouterShape{1, 64, 8, 2, 2}, RouterShape{16384, 2048, 128, 8, 1}}) {
    const double rows = s.tokens * s.top_k;
    CHECK(total(choose_kernels(s, true)) <= total(choose_kernels(s, false)));
    CHECK(total(balance_loss_kernels(s, true)) <= total(balance_loss_kernels(s, false)));
    CHECK(total(unpermute_kernels(s, rows, true)) < total(unpermute_kernels(s, rows, false)));
    CHECK(choose_kernels(s, true).size() < choose_kernels(s, false).size());
    for (bool fused : {false, true})
      for (const Kernels& kernels : {choose_kernels(s, fused), choose_backward_kernels(s, fused),
                                     balance_loss_kernels(s, fused), z_loss_kernels(s), permute_kernels(s, rows, fused),
                                     unpermute_kernels(s, rows, fused), sort_chunks_kernels(s, rows)})
        for (const MovedBytes& k : kernels) {
          CAPTURE(k.name);
          CHECK(k.total() > 0);
        }
  }
}

TEST_CASE("scores are read at least once by whatever chooses from them, and a sort moves every row twice") {
  const double scores = 4096.0 * 256 * 4;
  for (bool fused : {false, true}) {
    CHECK(reads(choose_kernels(kShape, fused)) >= scores);
    CHECK(writes(choose_kernels(kShape, fused)) >= scores);
    CHECK(writes(choose_backward_kernels(kShape, fused)) >= scores);
  }
  CHECK(reads(z_loss_kernels(kShape)) == Approx(scores));
  CHECK(total(sort_chunks_kernels(kShape, kRows)) == Approx(kRows * (2 * kRow + 4)));
}
