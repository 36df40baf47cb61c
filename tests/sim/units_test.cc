// Units, ids, noise and rounding: the small parts.
#include "sim/units.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include "sim/fluid.h"
#include "sim/hash.h"
#include "sim/id.h"
#include "sim/noise.h"
#include "tests/catch.h"

using namespace orrery::sim;

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
static_assert(Addable<Bytes, Bytes> && !Addable<Bytes, Bandwidth> && !Addable<SimTime, SimTime>);
static_assert(!std::is_convertible_v<LinkId, std::uint32_t> && !std::is_convertible_v<LinkId, RouteId>);

TEST_CASE("moving bytes takes time, rounded up") {
  CHECK(Bytes(1000) / Bandwidth(1e9) == Duration(1'000'000));
  CHECK(Bytes(1) / Bandwidth(3e12) == Duration(1));  // a third of a picosecond
  CHECK(SimTime(5) + Duration(3) == SimTime(8));
  CHECK(SimTime(5) - SimTime(3) == Duration(2));
  CHECK(seconds(2.5e-6) == microseconds(2.5));
  CHECK(to_seconds(seconds(0.125)) == 0.125);
}

TEST_CASE("integers stop at the ends of their type") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const Duration longest(kMost), shortest(kLeast), one(1);
  CHECK(longest + one == longest);
  CHECK(longest - one == Duration(kMost - 1));
  CHECK(shortest - one == shortest);
  CHECK(shortest + one == Duration(kLeast + 1));
  CHECK(one - shortest == longest);
  CHECK(longest * 2 == longest);
  CHECK(2 * longest == longest);
  CHECK(longest * -2 == shortest);
  CHECK(shortest * -1 == longest);
  Duration sum = longest;
  sum += longest;
  CHECK(sum == longest);
  sum -= shortest;
  CHECK(sum == longest);
  CHECK(SimTime(kMost) + one == kNever);
  CHECK(SimTime(kLeast) - SimTime(kMost) == shortest);
  CHECK(seconds(1e300) == longest);
  CHECK(seconds(std::nan("")) == longest);
  CHECK(seconds(-1e300) == shortest);
  CHECK(scaled(longest, 2) == longest);
  CHECK(scaled(Duration(3), 0.5) == Duration(2));
  CHECK(Bytes(1) / Bandwidth(1e-300) == longest);
  CHECK(Bytes(0) / Bandwidth(0) == longest);                      // no number
  CHECK(Bandwidth(1e308) + Bandwidth(1e308) > Bandwidth(1e308));  // doubles as before
}

TEST_CASE("rounding to significant bits") {
  CHECK(round_significant<40>(25e9) == 25e9);  // few bits: unchanged
  CHECK(round_significant<40>(24999999999.999996) == 25e9);
  for (const double x : {1.0 / 3, 1e9 / 7, 3e-5, 1e14 / 3}) {
    CHECK(std::abs(round_significant<40>(x) - x) <= x * 0x1p-40);
    CHECK(round_significant<40>(round_significant<40>(x)) == round_significant<40>(x));
  }
}

TEST_CASE("noise is a function of seed, key and operation, lognormal with median one") {
  const Noise noise{0.05, 42};
  CHECK(noise_factor(noise, 1, 2) == noise_factor(noise, 1, 2));
  CHECK(noise_factor(noise, 1, 2) != noise_factor(noise, 2, 1));
  CHECK(noise_factor({0, 42}, 1, 2) == 1.0);
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (std::uint64_t n = 0; n < kDraws; ++n) {
    const double x = gaussian(42, n % 100, n / 100);
    sum += x;
    squares += x * x;
  }
  // The mean of n draws has standard deviation n^-1/2, that of the squares (2/n)^1/2: five of them.
  CHECK(std::abs(sum / kDraws) < 5 / std::sqrt(kDraws));
  CHECK(std::abs(squares / kDraws - 1) < 5 * std::sqrt(2.0 / kDraws));
}

TEST_CASE("a normal deviate is made of two uniform ones as Box and Muller do") {
  for (std::uint64_t n = 0; n < 1000; ++n) {
    const std::uint64_t first = hash_pair(hash_pair(7, n), 3), second = mix64(first);
    const long double radius = std::sqrt(-2 * std::log((static_cast<long double>(first >> 11) + 0.5L) / 0x1p53L));
    const long double turn = static_cast<long double>(second >> 11) / 0x1p53L;
    CHECK(std::abs(gaussian(7, n, 3) - static_cast<double>(radius * std::cos(2 * std::acos(-1.0L) * turn))) < 1e-12);
  }
}

TEST_CASE("a normal deviate of the least uniform one is finite, and what half of 2^-53 gives") {
  // The operation whose hash is a given word: each step of mix64 undone, and the odd factors by their inverses.
  const auto inverse = [](std::uint64_t odd) {
    std::uint64_t x = odd;  // right in three bits, and in twice as many after each step
    for (int step = 0; step < 5; ++step) x *= 2 - odd * x;
    return x;
  };
  const auto unmix = [&](std::uint64_t x) {
    x = (x ^ (x >> 31) ^ (x >> 62)) * inverse(0x94d049bb133111ebu);
    x = (x ^ (x >> 27) ^ (x >> 54)) * inverse(0xbf58476d1ce4e5b9u);
    x = x ^ (x >> 30) ^ (x >> 60);
    return x - 0x9e3779b97f4a7c15u;
  };
  for (const std::uint64_t first : {0u, 1u, 2u, 3u, 2047u}) {  // of each, the 53 highest bits are 0
    const std::uint64_t op = (unmix(first) ^ mix64(hash_pair(42, 9))) * inverse(0xd6e8feb86659fd93u);
    REQUIRE(hash_pair(hash_pair(42, 9), op) == first);
    const double radius = std::sqrt(2 * 54 * std::numbers::ln2);  // of the deviate 2^-54
    const double turn = static_cast<double>(mix64(first) >> 11) / 0x1p53;
    CHECK(std::abs(gaussian(42, 9, op) - radius * std::cos(2 * std::numbers::pi * turn)) < 1e-9);
  }
}

TEST_CASE("noise scales what it falls on: compute by exp(sigma x), latency by the same to the picosecond") {
  const Noise noise{0.05, 42};
  for (std::uint64_t n = 0; n < 100; ++n) {
    const double factor = noise_factor(noise, n, 7);
    CHECK(std::abs(std::log(factor) - 0.05 * gaussian(42, n, 7)) < 1e-12);
    CHECK(noisy_latency(noise, n, 7, 1'000'000) == std::llround(1e6 * factor));
  }
  CHECK(noisy_latency({0, 42}, 1, 2, 1234) == 1234);
}

TEST_CASE("times that noise makes too long can still be added up, and lie behind the latest instant") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t bounded :
       {scale_compute(1'000'000, 0, 0, 1e30).duration, noisy_latency({1e-9, 42}, 1, 2, kMost)}) {
    CHECK(bounded > kLatest);
    CHECK(bounded <= kMost / 3);
  }
}

TEST_CASE("places of a group share a row of loads in each operation, and every row is drawn") {
  Loads loads;
  CHECK(load_factor(loads, 3, 0, 5) == 1);
  loads.places = 4;
  loads.seed = 9;
  constexpr int kRows = 5;
  for (int row = 0; row < kRows; ++row) {
    for (int place = 0; place < 4; ++place) loads.factors.push_back(10 * row + place);
  }
  std::array<int, kRows> drawn{};
  for (std::uint64_t op = 0; op < 1000; ++op) {
    const int row = static_cast<int>(load_factor(loads, 3, 0, op)) / 10;
    for (std::uint32_t place = 0; place < 4; ++place)
      CHECK(load_factor(loads, 3, place, op) == 10 * row + static_cast<int>(place));
    ++drawn.at(static_cast<std::size_t>(row));
  }
  // Of 1000 draws 200 a row, with a standard deviation of 12.6: six of them.
  for (const int times : drawn) CHECK(std::abs(times - 200) < 76);
}

TEST_CASE("FNV-1a gives the values of its authors' test vectors") {
  // isthe.com/chongo/src/fnv/test_fnv.c, 64 bit.
  CHECK(Fnv1a().value() == 0xcbf29ce484222325u);
  CHECK(Fnv1a().add_text("a").value() == 0xaf63dc4c8601ec8cu);
  CHECK(Fnv1a().add_text("foobar").value() == 0x85944171f73967e8u);
}

TEST_CASE("slowing a compute operation moves its device part only") {
  // 100 ps of kernels, the last of which the host launches 30 ps before the bound of 150.
  const ScaledCompute slow = scale_compute(100, 150, 40, 1.5);
  CHECK(slow.duration == 150);
  CHECK(slow.issue_bound == 200);
  CHECK(scale_compute(100, 60, 40, 0.5).issue_bound == 40);  // the host is not sped up
}
