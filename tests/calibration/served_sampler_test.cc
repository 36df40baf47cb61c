// Does leaving tokens out take what was published of it, and does it scale as its passes and rows do?
#include "calibration/device/served_sampler.h"

#include <array>

#include "tests/calibration/support.h"
#include "tests/catch.h"

using namespace orrery::calibration;
using namespace orrery::calibration_test;

TEST_CASE("top-p and top-k take what vLLM's pull request 40376 measured") {
  const DeviceProfile h100 = profile("h100-sxm-80gb");
  // Milliseconds of its table.
  struct Row {
    double rows, logits;
    Cut cut;
    double by_row, sorted, rejection;
  };
  constexpr std::array<Row, 4> kRows{{{64, 131072, Cut::top_p, 0.459, 1.005, 0.106},
                                      {128, 131072, Cut::top_p, 0.518, 2.272, 0.138},
                                      {64, 131072, Cut::both, 0.306, 1.057, 0.199},
                                      {512, 131072, Cut::top_p, 2.013, 6.150, 0.372}}};
  for (const Row& row : kRows) {
    INFO(row.rows << " rows");
    const auto ms = [&](Truncation way) { return 1e3 * truncation_seconds(h100, way, row.cut, row.rows, row.logits); };
    CHECK(ms(Truncation::by_row) == Approx(row.by_row).epsilon(0.2));
    CHECK(ms(Truncation::sorted) == Approx(row.sorted).epsilon(0.2));
    CHECK(ms(Truncation::rejection) == Approx(row.rejection).epsilon(0.2));
  }
}

TEST_CASE("few rows are sorted, and a sort goes at the memory's rate") {
  const DeviceProfile h100 = profile("h100-sxm-80gb"), h200 = profile("h200-sxm-141gb");
  const auto of = [](const DeviceProfile& device, Truncation way, double rows) {
    return truncation_seconds(device, way, Cut::top_p, rows, 128256);
  };
  CHECK(of(h100, Truncation::by_row, 7) == of(h100, Truncation::sorted, 7));
  CHECK(of(h100, Truncation::by_row, 64) < of(h100, Truncation::sorted, 64));
  const double rows = 64, more = 128;  // the launches fall out of the difference
  const double slow = of(h100, Truncation::sorted, more) - of(h100, Truncation::sorted, rows),
               fast = of(h200, Truncation::sorted, more) - of(h200, Truncation::sorted, rows);
  CHECK(slow / fast == Approx(h200.memory_bandwidth().value() / h100.memory_bandwidth().value()));
  for (const Truncation way : {Truncation::sorted, Truncation::by_row, Truncation::rejection}) {
    CHECK(truncation_seconds(h100, way, Cut::none, 64, 128256) == 0);
    CHECK(of(h100, way, 0) == 0);
  }
}
