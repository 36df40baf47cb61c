// Products of experts: tiles dealt out together, weights read once for each expert that has a token, and the laws that
// any device keeps.
#include "calibration/device/grouped_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;

/// 100 processors of 1 TFLOP/s, one tile shape, strict waves: everything can be worked out by hand.
GroupedModel simple_model() {
  GroupedModel g;
  g.peak = 100e12;
  g.processors = 100;
  g.memory_bandwidth = 1e15;  // memory never binds
  g.memory_efficiency = 1;
  g.launch = 0;
  g.quantisation = 1;
  g.tiles = {{128, 128, 1.0, 0}};
  return g;
}

double structure(const GroupedModel& model, const std::vector<GroupMember>& group) { return model.structure(group); }

GroupedGemm layer(std::vector<std::int64_t> tokens, std::int64_t out, std::int64_t in,
                  Gemm::Form form = Gemm::Form::forward) {
  GroupedGemm g;
  g.tokens = std::move(tokens);
  g.out = out;
  g.in = in;
  g.form = form;
  return g;
}

double seconds(const DeviceProfile& p, const GroupedGemm& g) { return orrery::sim::to_seconds(p.grouped_gemm(g)); }

constexpr Gemm::Form kForms[] = {Gemm::Form::forward, Gemm::Form::data_gradient, Gemm::Form::weight_gradient};

}  // namespace

TEST_CASE("tiles of all experts share waves") {
  const GroupedModel g = simple_model();
  const double k = 1024, wave = 2 * 128 * 128 * k / 1e12;
  // Four experts of 25 tiles fill 100 processors once, as one expert of 100 tiles does; a token more is a wave more.
  CHECK(structure(g, {{640, 640, k, 4}}) == Approx(wave));
  CHECK(structure(g, {{640, 640, k, 3}, {641, 640, k, 1}}) == Approx(2 * wave));
  // One token is a whole row of tiles: five of them, as 128 tokens are.
  CHECK(structure(g, {{1, 640, k, 20}}) == Approx(wave));
  CHECK(structure(g, {{1, 640, k, 21}}) == Approx(2 * wave));
  // An expert without tokens has none.
  CHECK(structure(g, {{640, 640, k, 4}, {0, 640, k, 50}}) == Approx(wave));
}

TEST_CASE("the longest product of a group ends it") {
  const GroupedModel g = simple_model();
  // Weight gradients: one tile of 100 tokens deep in a hundred, one of 10,240 deep: all but one processor wait.
  const double deep = 2 * 128 * 128 * 10240 / 1e12;
  CHECK(structure(g, {{128, 128, 96, 99}, {128, 128, 10240, 1}}) == Approx(deep));
}

TEST_CASE("a serving library's kernel keeps the tile that its tuner found") {
  GroupedModel g = simple_model();
  g.tiles = {{64, 128, 0.5, 0}, {128, 128, 0.75, 0}};
  const double k = 1024, slow = 2 * 64 * 128 * k / 0.5e12, fast = 2 * 128 * 128 * k / 0.75e12;
  const auto rows = [](double of_one, double count) {
    GroupRows out;
    out.add_draw(std::vector<double>{of_one}, count);
    return out;
  };
  // Ten experts of 64 rows: ten tiles of ten columns either way, of which the smaller ends first.
  const GroupRows timed = rows(64, 10);
  REQUIRE(slow < fast);
  CHECK(g.served(timed, timed, 1280, k) == Approx(slow));
  // Ten of 128 rows are two waves of smaller tiles and one of larger ones, which the tuner did not see.
  REQUIRE(2 * slow > fast);
  CHECK(g.served(rows(128, 10), timed, 1280, k) == Approx(2 * slow));
  CHECK(g.served(rows(128, 10), rows(128, 10), 1280, k) == Approx(fast));
  // Tiles that took as long are as likely.
  g.tiles = {{64, 128, 0.5, 0}, {128, 128, 1.0, 0}};
  CHECK(g.served(rows(128, 10), timed, 1280, k) == Approx((2 * slow + slow) / 2));
  // A group without a token takes the launch.
  g.launch = 3e-6;
  CHECK(g.served({}, timed, 1280, k) == Approx(3e-6));
}

TEST_CASE("experts of few rows wait for memory after those of many have computed") {
  GroupedModel g = simple_model();
  g.quantisation = 0;
  g.memory_bandwidth = 1e12;
  g.tiles = {{16, 128, 1.0, 0}};
  const double k = 1024, n = 1280;
  GroupRows group;
  // One expert of eighty waves, and 64 of one row each: 64 rows of ten tiles, and as many weights.
  std::vector<double> rows(64, 1);
  rows.push_back(16 * 800);
  group.add_draw(rows, 1);
  const double wave = 2 * 16 * 128 * k / 1e12;
  const double many = 80 * wave, few = 64 * (2 * (k + k * n) + 2 * n) / 1e12;
  REQUIRE(few > 3 * 6.4 * wave);  // neither counts beside the other
  REQUIRE(many > 3 * (2 * (12800 * k + k * n) + 2 * 12800 * n) / 1e12);
  CHECK(g.served(group, group, n, k) == Approx(many + few).epsilon(0.03));
  const std::vector<GroupMember> same{{12800, n, k, 1}, {1, n, k, 64}};
  CHECK(g.structure(same) < 0.9 * (many + few));
}

TEST_CASE("a group's waves are the mean of its draws'") {
  const GroupedModel g = simple_model();
  const double k = 1024, wave = 2 * 128 * 128 * k / 1e12;
  GroupRows group;
  group.add_draw(std::vector<double>{640}, 4);  // 5 rows of tiles each, of 5 columns: 100 tiles
  group.add_draw(std::vector<double>{640}, 5);  // 125
  CHECK(g.served(group, group, 640, k) == Approx((1 + 2) / 2.0 * wave));
}

TEST_CASE("rows of tiles of any side lie between those that cover all rows and those of whole experts") {
  GroupRows::Share share;
  share.add(100, 2);
  share.add(7, 3);
  CHECK(share.tiles_of(16) == Approx(2 * 7 + 3));
  CHECK(share.tiles_of(32) == Approx(2 * 4 + 3));
  CHECK(share.tiles_of(24) == Approx((17 + 11) / 2.0));
  CHECK(share.tiles_of(256) == Approx(5));
  CHECK(share.tiles_of(512) == Approx(5));
  CHECK(share.tiles_of(1) == Approx(221));
}

TEST_CASE("a weight is read once for each expert that has a token") {
  GroupedModel g = simple_model();
  g.memory_bandwidth = 1e10;  // nothing else counts
  const double weight = 2.0 * 640 * 1024;
  const double few = 2.0 * 1024 + 2 * 640;  // bytes of a token's input and result
  CHECK(structure(g, {{1, 640, 1024, 8}}) == Approx(8 * (weight + few) / 1e10).epsilon(1e-3));
  CHECK(structure(g, {{8, 640, 1024, 1}}) == Approx((weight + 8 * few) / 1e10).epsilon(1e-3));
  // Adding into an fp32 sum reads and writes it: 8 bytes an element in place of 2.
  const std::vector<GroupMember> gradient{{640, 1024, 32, 1}};
  CHECK(g.structure(gradient, GroupedModel::result_bytes(true, 4)) - g.structure(gradient) ==
        Approx(6.0 * 640 * 1024 / 1e10).epsilon(1e-3));
}

TEST_CASE("tokens are dealt out evenly") {
  CHECK(even_tokens(10, 4) == std::vector<std::int64_t>{3, 3, 2, 2});
  CHECK(even_tokens(0, 2) == std::vector<std::int64_t>{0, 0});
  CHECK_THROWS(even_tokens(1, 0));
}

TEST_CASE("the three ways to launch experts, on every shipped device") {
  for (const std::string& name : names_in("calibration/profiles")) {
    CAPTURE(name);
    const DeviceProfile p = profile(name);
    // One expert on streams is a dense product, but for its correction and for splits of the inner dimension, which
    // large products do not have; in a loop it is one exactly.
    Gemm dense;
    dense.m = 8192;
    dense.n = 4096;
    dense.k = 4096;
    GroupedGemm one = layer({8192}, 4096, 4096);
    one.kernel = GroupedKernel::loop;
    CHECK(p.grouped_gemm(one) == p.gemm(dense));
    one.kernel = GroupedKernel::streams;
    CHECK(seconds(p, one) == Approx(orrery::sim::to_seconds(p.gemm(dense))).epsilon(0.25));
    // Sixty-four experts one after another leave processors idle that their tiles together fill.
    GroupedGemm many = layer(even_tokens(64 * 256, 64), 2048, 2048);
    many.kernel = GroupedKernel::loop;
    const double loop = seconds(p, many);
    many.kernel = GroupedKernel::streams;
    CHECK(seconds(p, many) < loop);
  }
}

TEST_CASE("laws of expert products on every shipped device, type and form") {
  for (const std::string& name : names_in("calibration/profiles")) {
    const DeviceProfile p = profile(name);
    for (std::size_t t = 0; t < kDataTypes; ++t)
      for (const Gemm::Form form : kForms) {
        const auto type = static_cast<DataType>(t);
        if (!p.has(type)) continue;
        CAPTURE(name, name_of(type), static_cast<int>(form));
        // Never faster with more tokens, beyond what a correction may fall between knots where waves or writes leave
        // the time level (fit_experts.cc: largest_fall).
        const double fall = std::exp(-0.09);
        double before = 0;
        for (std::int64_t tokens = 16; tokens <= 1 << 16; tokens *= 2) {
          GroupedGemm g = layer(even_tokens(tokens * 16, 16), 4096, 2048, form);
          g.dtype = type;
          const double now = seconds(p, g);
          CHECK(now >= before * fall);
          before = now;
          // Never below what the data sheet allows: the experts' weights at the memory's bandwidth, the arithmetic at
          // the peak.
          const double weights = 16 * operand_bytes(type) * 4096 * 2048;
          if (form != Gemm::Form::weight_gradient) CHECK(now > weights / p.memory_bandwidth().value());
          CHECK(now > 0.999 * 2 * 16 * static_cast<double>(tokens) * 4096 * 2048 / p.peak(type).value());
        }
        // Even loads are never slower than the same tokens unevenly.
        GroupedGemm even = layer(std::vector<std::int64_t>(8, 1024), 4096, 2048, form);
        GroupedGemm skewed = layer({4096, 2048, 1024, 512, 256, 128, 64, 64}, 4096, 2048, form);
        even.dtype = skewed.dtype = type;
        CHECK(seconds(p, even) <= seconds(p, skewed) * 1.001);
      }
  }
}

TEST_CASE("a group that nothing was given to takes a launch, and sizes are checked") {
  const DeviceProfile p = profile("h100-sxm-80gb");
  const double nothing = seconds(p, layer({0, 0, 0}, 4096, 2048));
  CHECK(nothing > 0);
  CHECK(nothing < 2e-5);
  CHECK_THROWS(p.grouped_gemm(layer({1}, 0, 2048)));
  CHECK_THROWS(p.grouped_gemm(layer({-1}, 4096, 2048)));
  CHECK(p.uncertainty(layer({64}, 4096, 2048)) > 0);
}
