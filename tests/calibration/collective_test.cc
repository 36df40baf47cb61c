// Collectives inside a node: the traffic that they claim, order in size, and the links that they must fit.
#include <cmath>

#include "calibration/device/collective_model.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"
#include "topology/cluster.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;

CollectiveOp op(std::size_t i) { return static_cast<CollectiveOp>(i); }

}  // namespace

TEST_CASE("what a GPU sends in a collective") {
  const double s = 1024;
  CHECK(wire_bytes(CollectiveOp::all_reduce, 4, s) == 2 * 3.0 / 4 * s);
  CHECK(wire_bytes(CollectiveOp::all_gather, 4, s) == 3.0 / 4 * s);
  CHECK(wire_bytes(CollectiveOp::reduce_scatter, 8, s) == 7.0 / 8 * s);
  CHECK(wire_bytes(CollectiveOp::all_to_all, 2, s) == s / 2);
  CHECK(wire_bytes(CollectiveOp::send_receive, 2, s) == s);
  CHECK(steps(CollectiveOp::all_reduce, 8) == 14);
  CHECK(steps(CollectiveOp::all_gather, 8) == 7);
}

TEST_CASE("a pipelined transfer lies between transfer plus start-up and the square of the sum of roots") {
  CollectiveModel m;
  m.gpus = {2};
  m.switch_bytes = {1};
  m.bulk = {10e-6, 0, 1.0, {100e9}};
  m.low_latency = {1e-6, 0, 0.0, {100e9}};
  // 1 MB at 100 GB/s takes 10 us, as long as the start-up: (sqrt 10 + sqrt 10)^2 = 40 us.
  const CollectiveTiming t = m.timing(CollectiveOp::send_receive, 2, 1e6);
  CHECK(orrery::sim::to_seconds(t.total()) == Approx(40e-6));
  CHECK(t.wire_bytes == 1e6);
  CHECK(t.rate.value() == 100e9);
}

TEST_CASE("a start-up that runs beside the transfer takes no more than both, and no less than the longer") {
  CollectiveModel m;
  m.gpus = {2};
  m.switch_bytes = {1};
  m.low_latency = {1e-6, 0, 0.0, {100e9}};
  m.bulk = {30e-6, 0, -0.5, {100e9}};
  // q = 1 / (1 - 1/2) = 2: 30 us of start-up and 40 us of transfer (4 MB at 100 GB/s) are the sides of a 3-4-5
  // triangle.
  CHECK(orrery::sim::to_seconds(m.timing(CollectiveOp::send_receive, 2, 4e6).total()) == Approx(50e-6));
  for (const double g : {-0.75, -0.3, -1e-9, 0.0}) {
    m.bulk.overlap = g;
    const double t = orrery::sim::to_seconds(m.timing(CollectiveOp::send_receive, 2, 4e6).total());
    INFO(g);
    CHECK(t >= 40e-6);
    CHECK(t <= 70.001e-6);
  }
}

TEST_CASE("one GPU takes no time, and time never falls with size") {
  for (const std::string& name : names_in("calibration/profiles")) {
    const DeviceProfile p = profile(name);
    for (std::size_t i = 0; i < kCollectiveOps; ++i) {
      CHECK(p.node_collective(op(i), 1, Bytes(1 << 30)).total().value() == 0);
      for (std::int64_t gpus = 2; gpus <= 8; ++gpus) {
        Duration before{};
        for (double bytes = 256; bytes < 4e10; bytes *= 1.19) {
          const CollectiveTiming t = p.node_collective(op(i), gpus, Bytes(static_cast<std::int64_t>(bytes)));
          INFO(name << " " << name_of(op(i)) << " over " << gpus << ", " << bytes << " bytes");
          CHECK(t.latency.value() >= 0);
          CHECK(t.wire_bytes > 0);
          CHECK(t.total().value() >= before.value() - 2);  // two parts, each rounded to a picosecond
          before = t.total();
        }
      }
    }
  }
}

TEST_CASE("no collective runs above what the links of its node carry") {
  for (const std::string& name : names_in("calibration/profiles")) {
    const DeviceProfile p = profile(name);
    const auto document = profile_document(name);
    const auto node = orrery::topology::load_node_spec(document.at("node"));
    if (node.kind != orrery::topology::NodeSpec::Kind::nvswitch) continue;
    for (std::size_t i = 0; i < kCollectiveOps; ++i)
      for (std::int64_t gpus = 2; gpus <= 8; ++gpus)
        for (const double bytes : {1e3, 1e6, 1e9}) {
          INFO(name << " " << name_of(op(i)) << " over " << gpus);
          CHECK(p.node_collective(op(i), gpus, Bytes(static_cast<std::int64_t>(bytes))).rate.value() <=
                node.rate.value() * node.efficiency * (1 + 1e-3));
        }
  }
}
