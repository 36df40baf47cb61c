// A profile that says what the host of its machine takes, and what products lose beside traffic, reaches where a
// framework's numbers are made; what the scenario itself says stays, and the answer says what was taken.
#include "calibration/device/measured_host.h"

#include <algorithm>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"

using namespace orrery;

namespace {

constexpr const char* kHost = "host: {launch: 5.76 us}\n";  // twice the usual one's
constexpr const char* kInterference = "interference: {traffic: [400 GB/s, 2000 GB/s], products: [1.1, 1.7]}\n";

/// On four GPUs, or on sixteen of two nodes.
scenarios::Scenario scenario(const std::string& device, const std::string& software, int gpus = 4) {
  std::string indented = "  device:\n    inherits: h100-sxm-80gb\n";
  for (std::size_t at = 0; at < device.size();) {
    const std::size_t end = device.find('\n', at) + 1;
    indented += "    " + device.substr(at, end - at);
    at = end;
  }
  return scenarios::load_scenario(
      scenarios::parse_yaml("cluster:\n" + indented + "  gpus: " + std::to_string(gpus) + "\n  fabric: ndr-rail\n" +
                                "model: {kind: gpt, layers: 4, hidden: 1024, heads: 16, vocab: 51200, seq: 2048}\n"
                                "parallelism: {data: " +
                                std::to_string(gpus) + "}\nbatch: {global: 32, micro: 1}\nsoftware: " + software,
                            "measured.yaml"));
}

bool says(const scenarios::Scenario& s, const std::string& words) {
  return std::any_of(s.job.assumptions.begin(), s.job.assumptions.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

calibration::MeasuredHost measured(const std::string& text) {
  return calibration::load_measured_host(scenarios::parse_yaml(text, "p.yaml"));
}

}  // namespace

TEST_CASE("a host's pace and what products lose beside traffic are read, and lie on straight lines") {
  const calibration::MeasuredHost host = measured(std::string(kHost) + kInterference);
  CHECK(host.pace() == Approx(2));
  CHECK(host.slowdown(0) == 1);
  CHECK(host.slowdown(200e9) == Approx(1.05));  // half of the way to the first
  CHECK(host.slowdown(400e9) == Approx(1.1));
  CHECK(host.slowdown(1200e9) == Approx((1.1 + 1.7) / 2));  // half of the way between both
  CHECK(host.slowdown(9000e9) == Approx(1.7));              // no more than was measured
  CHECK(measured("name: x").pace() == 1);
  CHECK(measured("name: x").slowdown(1e12) == 1);
  for (const char* wrong :
       {"interference: {traffic: [2 GB/s, 1 GB/s], products: [1, 1]}",
        "interference: {traffic: [1 GB/s], products: [1, 2]}", "interference: {traffic: [], products: []}",
        "interference: {traffic: [1 GB/s], products: [0.5]}"})
    CHECK_THROWS_AS(measured(wrong), sim::UserError);
}

TEST_CASE("times of the host go at the measured host's pace, but for those that the scenario says") {
  const auto usual = scenario("", "megatron-core-0.16\n").job.software.host;
  const scenarios::Scenario slow = scenario(kHost, "megatron-core-0.16\n");
  const auto twice = [](sim::Duration d) { return sim::seconds(2 * sim::to_seconds(d)); };
  CHECK(slow.job.software.host.kernel_issue == twice(usual.kernel_issue));
  CHECK(slow.job.software.host.step_host == twice(usual.step_host));
  CHECK(slow.job.software.host.calls.per_rank == twice(usual.calls.per_rank));
  CHECK(says(slow, "Host times are 2.00 of those of"));
  const auto own = scenario(kHost, "{inherits: megatron-core-0.16, kernel_issue: 7 us}\n").job.software.host;
  CHECK(sim::to_seconds(own.kernel_issue) == Approx(7e-6));
  CHECK(own.step_host == twice(usual.step_host));
}

TEST_CASE("kernels beside a collective are slowed down by the traffic that links let it move") {
  // Within a node 450 GB/s, three times through memory: 1350 GB/s, of the way from 400 to 2000.
  const scenarios::Scenario node = scenario(kInterference, "megatron-core-0.16\n");
  CHECK(node.job.software.overlap.compute_slowdown_under_collective == Approx(1.1 + 0.6 * (1350. - 400) / 1600));
  CHECK(says(node, "beside a data-parallel collective"));
  // Between nodes a NIC of 50 GB/s for each: 150 GB/s.
  const scenarios::Scenario nodes = scenario(kInterference, "megatron-core-0.16\n", 16);
  CHECK(nodes.job.software.overlap.compute_slowdown_under_collective == Approx(1 + 0.1 * 150 / 400));
  const scenarios::Scenario said =
      scenario(kInterference, "{inherits: megatron-core-0.16, compute_slowdown_under_collective: 1.3}\n");
  CHECK(said.job.software.overlap.compute_slowdown_under_collective == 1.3);
  const double shipped = scenario("", "megatron-core-0.16\n").job.software.overlap.compute_slowdown_under_collective;
  CHECK(scenario(kHost, "megatron-core-0.16\n").job.software.overlap.compute_slowdown_under_collective == shipped);
}
