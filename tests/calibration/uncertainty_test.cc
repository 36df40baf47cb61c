// Uncertainty: what a profile states, by size class, more beyond the sizes fitted, and a guess where nothing was.
#include "calibration/device/uncertainty.h"

#include "calibration/device/keys.h"
#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::scenarios::parse_yaml;

Uncertainty read(const std::string& yaml) {
  // As a profile's section is read: first by the table of keys.
  const auto document = parse_yaml(yaml, "test.yaml");
  profile_keys().check(document, "attention");
  return load_uncertainty(document.find("error"));
}

std::string complaint(const std::string& yaml) {
  try {
    read(yaml);
  } catch (const orrery::sim::UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("uncertainty: by size class inside the range, growing with each doubling beyond it") {
  const Uncertainty u = read(
      "error: {p90_pct: 6, p90_by_size_pct: [9, 6, 5], folds: 5, extrapolated_p90_pct: 4, from: [512, 512, 512], "
      "to: [8192, 8192, 8192]}");
  CHECK(u.at(0, {512, 1024, 8192}) == Approx(0.09));
  CHECK(u.at(2, {8192, 8192, 8192}) == Approx(0.05));
  CHECK(u.at(2, {16384, 8192, 8192}) == Approx(0.05 + 0.04));                     // one doubling
  CHECK(u.at(0, {256, 8192, 4 * 8192}) == Approx(0.09 + (1 + 2) * 0.04));         // one below, two above
  CHECK(read("error: {p90_pct: 6, folds: 5}").at(1, {1, 1, 1}) == Approx(0.06));  // a range that was not said
  CHECK(read("error: {p90_pct: 6}").at(1, {1, 1, 1}) == Approx(0.06 * kInSample));
  CHECK(read("{}").at(1, {1, 1, 1}) == kUnmeasured);
}

TEST_CASE("uncertainty is a summary of held-out samples") {
  std::vector<Judged> judged;
  // Small: errors 0.1 % to 10 % in even steps, the 90th percentile is 9 %; large: 1 % each.
  for (int i = 1; i <= 100; ++i) judged.push_back({i * 0.001, 0});
  for (int i = 0; i < 20; ++i) judged.push_back({-0.01, 2});
  judged.push_back({0.5, 1});  // too few of a class: all samples speak for it
  FitQuality q = quality_of(judged, 5);
  q.from = {1, 1, 1};
  q.to = {8, 8, 8};
  CHECK(q.p90_by_size[0] == Approx(9).margin(0.11));
  CHECK(q.p90_by_size[2] == Approx(1));
  CHECK(q.p90_by_size[1] == q.held_out.p90_ape);
  // What is written reads back.
  const Uncertainty u = read(to_yaml(q));
  CHECK(u.measured);
  CHECK(u.at(0, {8, 8, 8}) == Approx(0.09).margin(0.0011));
  CHECK(u.at(2, {1, 1, 1}) == Approx(0.01));
  CHECK(u.at(2, {16, 1, 1}) > u.at(2, {8, 1, 1}));
}

TEST_CASE("an error mapping that says nonsense is refused at its place") {
  CHECK(complaint("error: {p90_pct: -1}").find("p90_pct") != std::string::npos);
  CHECK(complaint("error: {p90_pct: .nan}").find("p90_pct") != std::string::npos);
  CHECK(complaint("error: {median_pct: 1}").find("p90_pct") != std::string::npos);
  CHECK(complaint("error: {p90_pct: 1, p90_by_size_pct: [1, 2]}").find("p90_by_size_pct") != std::string::npos);
  CHECK(complaint("error: {p90_pct: 1, from: [1, 2, 3], to: [1, 1, 1]}").find("error.to") != std::string::npos);
  CHECK(complaint("error: {p90_pct: 1, form: [1, 2, 3]}").find("from") != std::string::npos);
  CHECK(complaint("error: {p90_pct: 1}").empty());
}

TEST_CASE("every shipped device says how far off its answers may be") {
  for (const std::string& name : names_in("calibration/profiles")) {
    const DeviceProfile p = profile(name);
    Random random(31);
    INFO(name);
    for (int i = 0; i < 500; ++i) {
      Gemm g;
      g.m = random.size(1, 1e5);
      g.n = random.size(1, 1e5);
      g.k = random.size(1, 1e5);
      Gemm wider = g;
      wider.n *= 64;
      Attention a;
      a.queries = a.keys = random.size(1, 1e5);
      a.heads = random.size(1, 128);
      a.head_dim = 128;
      Attention back = a;
      back.backward = true;
      CHECK(p.uncertainty(g) > 0.005);
      CHECK(p.uncertainty(g) < 5);
      CHECK(p.uncertainty(back) > p.uncertainty(a));
      CHECK(p.uncertainty(Streaming::gelu, static_cast<double>(g.m) * 1e3) > 0.005);
      CHECK(p.uncertainty(CollectiveOp::all_reduce, 8, orrery::sim::Bytes(g.m * 1000)) > 0.001);
    }
    CHECK(p.uncertainty(CollectiveOp::all_reduce, 1, orrery::sim::Bytes(1)) == 0);
    // Twice as wide as anything measured is less certain than the widest.
    Gemm widest;
    widest.m = widest.k = 8192;
    widest.n = 65536;
    Gemm beyond = widest;
    beyond.n *= 4;
    CHECK(p.uncertainty(beyond) >= p.uncertainty(widest));
  }
}
