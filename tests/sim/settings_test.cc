// Settings: what a scalar may say, how complaints read, and how trees merge.
#include "sim/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <random>

#include "sim/plain_number.h"
#include "tests/catch.h"

using namespace orrery::sim;

namespace {

const Place kPlace{"s.yaml", 3, 7};

Settings scalar(const std::string& text) { return Settings::scalar(text, kPlace); }

/// The message of the UserError that `action` throws.
std::string complaint(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no complaint";
}

Settings tree() {
  Settings cluster = Settings::mapping(kPlace);
  cluster.set("gpus", scalar("16"));
  cluster.set("fabric", scalar("null"));
  Settings root = Settings::mapping({"s.yaml", 1, 1});
  root.set("cluster", cluster);
  Settings list = Settings::sequence(kPlace);
  list.append(scalar("a"));
  list.append(scalar("b"));
  root.set("list", list);
  return root;
}

}  // namespace

TEST_CASE("integers: whole, in range, nothing else") {
  CHECK(scalar("8").as_int() == 8);
  CHECK(scalar(" -8 ").as_int() == -8);
  CHECK(scalar("1e3").as_int() == 1000);
  CHECK(scalar("4.0").as_int() == 4);
  CHECK(scalar("9223372036854775807").as_int() == std::numeric_limits<std::int64_t>::max());
  for (const char* bad : {"1e300", "3.5", "0x10", "x", "8 GPUs", "nan", "inf", "-inf", "9223372036854775808", "1e17",
                          "--1", "1_000", "1,000", "+-1"}) {
    INFO(bad);
    CHECK_THROWS_AS(scalar(bad).as_int(), UserError);
  }
  CHECK(complaint([] { (void)scalar("x").as_int(1, 1000000); }) ==
        "s.yaml:3:7: expected an integer from 1 to 1000000, got \"x\"");
  CHECK(complaint([] { (void)scalar("0").as_int(1); }) == "s.yaml:3:7: expected an integer of at least 1, got \"0\"");
  CHECK(complaint([] { (void)scalar("9").as_int(std::numeric_limits<std::int64_t>::min(), 8); }) ==
        "s.yaml:3:7: expected an integer of at most 8, got \"9\"");
  CHECK(complaint([] { (void)Settings::sequence(kPlace).as_int(); }) ==
        "s.yaml:3:7: expected an integer, got a list of 0");
}

TEST_CASE("a plain number is what the library reads, to the last bit") {
  std::mt19937 random(7);
  const auto any = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  std::size_t plain = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = any(3) == 0 ? "-" : "";
    for (unsigned left = any(18); left > 0; --left) text += static_cast<char>('0' + any(10));
    if (any(2) == 0) text += '.';
    for (unsigned left = any(12); left > 0; --left) text += any(60) == 0 ? 'e' : static_cast<char>('0' + any(10));
    const std::optional<double> read = plain_number(text);
    if (!read) continue;
    ++plain;
    double whole = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
    INFO(text);
    CHECK((error == std::errc{} && end == text.data() + text.size()));
    CHECK((*read == whole && std::signbit(*read) == std::signbit(whole)));
  }
  CHECK(plain > 5000);
  for (const char* other : {"", "-", ".", "1.", ".5", "1e3", "+1", "--1", "1.2.3", "1234567890123456", "0x1", " 1"})
    CHECK_FALSE(plain_number(other));
}

TEST_CASE("numbers are finite and in range") {
  CHECK(scalar("0.25").as_number() == 0.25);
  CHECK(scalar("+1e-3").as_number() == 0.001);
  for (const char* bad : {"1e400", "nan", "inf", "infinity", "1e-400", "1.5x", "0x1p3", "one"}) {
    INFO(bad);
    CHECK_THROWS_AS(scalar(bad).as_number(), UserError);
  }
  CHECK(complaint([] { (void)scalar("2").as_number(0, 1); }) == "s.yaml:3:7: expected a number from 0 to 1, got \"2\"");
}

TEST_CASE("booleans and choices") {
  CHECK(scalar("true").as_bool());
  CHECK_FALSE(scalar("No").as_bool());
  CHECK_THROWS_AS(scalar("1").as_bool(), UserError);
  CHECK(scalar("full").as_choice({"none", "selective", "full"}) == "full");
  CHECK(complaint([] {
          (void)scalar("seletcive").as_choice({"none", "selective", "full"});
        }) == "s.yaml:3:7: expected one of none, selective, full, got \"seletcive\"; did you mean \"selective\"?");
}

TEST_CASE("quantities: the unit decides, b is a bit and B a byte") {
  CHECK(scalar("80 GB").as_bytes() == Bytes(80'000'000'000));
  CHECK(scalar("80GiB").as_bytes() == Bytes(80LL * 1024 * 1024 * 1024));
  CHECK(scalar("1.5 kB").as_bytes() == Bytes(1500));
  CHECK(scalar("4096 B").as_bytes() == Bytes(4096));
  CHECK(scalar("400 Gb/s").as_bandwidth() == Bandwidth(50e9));
  CHECK(scalar("400 Gbps").as_bandwidth() == Bandwidth(50e9));
  CHECK(scalar("3.35 TB/s").as_bandwidth().value() == Approx(3.35e12));
  CHECK(scalar("25 GB/s").as_bandwidth() == Bandwidth(25e9));
  CHECK(scalar("1 GiB/s").as_bandwidth() == Bandwidth(1073741824.0));
  CHECK(scalar("989 TFLOP/s").as_flop_rate() == FlopRate(989e12));
  CHECK(scalar("5 us").as_duration() == Duration(5'000'000));
  CHECK(scalar("130 ns").as_duration() == Duration(130'000));
  CHECK(scalar("7 ps").as_duration() == Duration(7));
  CHECK(scalar("1.2 ms").as_duration() == Duration(1'200'000'000));
  CHECK(scalar("2 hours").as_duration() == Duration(7'200'000'000'000'000));
}

TEST_CASE("quantities without a unit, with a wrong one, or out of range are refused") {
  for (const char* bad :
       {"80", "80 Gb", "80 GB/s", "80 gigs", "GB", "-1 GB", "1e300 GB", "nan GB", "1e19 B", "8 0 GB"}) {
    INFO(bad);
    CHECK_THROWS_AS(scalar(bad).as_bytes(), UserError);
  }
  for (const char* bad : {"400", "400 G", "400 GB", "0 GB/s", "-1 GB/s", "1e308 TB/s"}) {
    INFO(bad);
    CHECK_THROWS_AS(scalar(bad).as_bandwidth(), UserError);
  }
  for (const char* bad : {"5", "5 m", "-5 us", "1e9 s", "1e300 hours", "us"}) {
    INFO(bad);
    CHECK_THROWS_AS(scalar(bad).as_duration(), UserError);
  }
  CHECK_THROWS_AS(scalar("5 FLOP").as_flop_rate(), UserError);
  CHECK(complaint([] { (void)scalar("80").as_bytes(); }) ==
        "s.yaml:3:7: expected a size with a unit, as in \"80 GB\" or \"512 MiB\", got \"80\" without a unit");
  CHECK(complaint([] { (void)scalar("5 parsec").as_duration(); }) ==
        "s.yaml:3:7: expected a time with a unit, as in \"5 us\" or \"1.2 ms\", got \"5 parsec\" with the unknown unit "
        "\"parsec\"");
}

TEST_CASE("paths name every node, null is absent") {
  const Settings root = tree();
  CHECK(root.at("cluster").at("gpus").path() == "cluster.gpus");
  CHECK(root.at("list").items()[1].path() == "list[1]");
  CHECK(root.find("nothing") == nullptr);
  CHECK(root.at("cluster").find("fabric") == nullptr);
  CHECK(root.at("cluster").get_int("fabric", 5) == 5);
  CHECK(complaint([&] { (void)root.at("cluster").at("fabric"); }) ==
        "s.yaml:3:7: cluster.fabric: is missing; this key is required");
  CHECK(complaint([&] { (void)root.at("cluster").at("gpus").find("x"); }) ==
        "s.yaml:3:7: cluster.gpus: expected a mapping (with the key x), got \"16\"");
  CHECK(Settings::scalar("null", kPlace).is_null());
  CHECK(Settings::scalar("null", kPlace, true).text() == "null");
  CHECK(Settings().find("x") == nullptr);
}

TEST_CASE("unknown keys are answered with the nearest known one") {
  const Settings root = tree();
  CHECK_NOTHROW(root.refuse_unknown({"cluster", "list"}));
  CHECK(complaint([&] {
          root.refuse_unknown({"clusters", "list"});
        }) == "s.yaml:3:7: cluster: unknown key; did you mean \"clusters\"?");
  CHECK(nearest_word("tesnor", {"tensor", "data"}) == "tensor");
  CHECK(nearest_word("xyz", {"tensor", "data"}).empty());
  CHECK(nearest_word(std::string(1000, 'a'), {"tensor"}).empty());
}

TEST_CASE("the nearest word is at the least distance, the first of equal ones, and at most a third of its length off") {
  // By the definition, over every way to end: a letter comes, goes, or becomes another, or two change places.
  const std::function<std::size_t(std::string_view, std::string_view)> distance = [&](std::string_view a,
                                                                                      std::string_view b) {
    if (a.empty() || b.empty()) return a.size() + b.size();
    const auto less = [](std::string_view text, std::size_t n) { return text.substr(0, text.size() - n); };
    std::size_t least = std::min({distance(less(a, 1), b) + 1, distance(a, less(b, 1)) + 1,
                                  distance(less(a, 1), less(b, 1)) + (a.back() == b.back() ? 0 : 1)});
    if (a.size() > 1 && b.size() > 1 && a.back() == b[b.size() - 2] && a[a.size() - 2] == b.back())
      least = std::min(least, distance(less(a, 2), less(b, 2)) + 1);
    return least;
  };
  std::mt19937 random(7);
  const auto word = [&] {
    std::string text;
    for (std::size_t left = 1 + random() % 6; left > 0; --left) text += static_cast<char>('a' + random() % 3);
    return text;
  };
  int found = 0;
  for (int n = 0; n < 600; ++n) {
    const std::string asked = word();
    std::vector<std::string> candidates(4);
    for (std::string& candidate : candidates) candidate = word();
    std::string nearest;
    // Of one letter none may be wrong, of two and of up to five one, of six two.
    std::size_t least = asked.size() < 2 ? 1 : asked.size() < 6 ? 2 : 3;
    for (const std::string& candidate : candidates) {
      if (distance(asked, candidate) >= least) continue;
      least = distance(asked, candidate);
      nearest = candidate;
    }
    CHECK(nearest_word(asked, candidates) == nearest);
    found += nearest.empty() ? 0 : 1;
  }
  CHECK(found > 100);
  // "limit_all_gathers" is no misprint of "min_num_params", nor "quant_config" of "model_config".
  CHECK(nearest_word("limit_all_gathers", {"min_num_params"}).empty());
  CHECK(nearest_word("quant_config", {"model_config"}).empty());
  CHECK(nearest_word("tensor-paralel-sise", {"tensor-parallel-size"}) == "tensor-parallel-size");
}

TEST_CASE("copies of a value are the same until one is changed") {
  Settings root = Settings::mapping({"t.yaml", 1, 1});
  root.set_path("a.b", scalar("1"));
  Settings copy = root;
  CHECK(copy.same_as(root));
  CHECK(copy.find_path("a")->same_as(*root.find_path("a")));
  CHECK_FALSE(copy.same_as(*root.find_path("a")));
  copy.set_path("a.b", scalar("1"));  // as it was, but nobody looks
  CHECK_FALSE(copy.same_as(root));
  CHECK(root.find_path("a.b")->text() == "1");
  CHECK(scalar("x").same_as(scalar("x")));
  CHECK_FALSE(scalar("x").same_as(scalar("y")));
  CHECK_FALSE(Settings::scalar("x", {"t.yaml", 1, 1}).same_as(Settings::scalar("x", {"t.yaml", 2, 1})));
}

TEST_CASE("find_path follows mappings and stops where there is none") {
  Settings root = Settings::mapping({"t.yaml", 1, 1});
  root.set_path("cluster.gpus", scalar("32"));
  CHECK(root.find_path("cluster.gpus")->text() == "32");
  CHECK(root.find_path("cluster")->is_mapping());
  CHECK(root.find_path("cluster.gpus.more") == nullptr);
  CHECK(root.find_path("cluster.fabric.kind") == nullptr);
  CHECK(root.find_path("") == &root);
}

TEST_CASE("set_path makes mappings on the way and refuses to cross scalars") {
  Settings root = tree();
  root.set_path("cluster.gpus", scalar("32"));
  root.set_path("batch.global", scalar("8"));
  root.set_path("cluster.fabric.kind", scalar("star"));  // null gives way
  CHECK(root.at("cluster").get_int("gpus", 0) == 32);
  CHECK(root.at("batch").at("global").path() == "batch.global");
  CHECK(root.at("cluster").at("fabric").get_text("kind", "") == "star");
  CHECK_THROWS_AS(root.set_path("cluster.gpus.more", scalar("1")), UserError);
  CHECK_THROWS_AS(root.set_path("list.x", scalar("1")), UserError);
  for (const char* bad : {"", ".", "a..b", "cluster."}) CHECK_THROWS_AS(root.set_path(bad, scalar("1")), UserError);
  std::string deep = "a";
  for (int n = 0; n < 100; ++n) deep += ".a";
  CHECK_THROWS_AS(root.set_path(deep, scalar("1")), UserError);
}

TEST_CASE("overlay merges mappings member by member and replaces the rest") {
  Settings changes = Settings::mapping({"other.yaml", 1, 1});
  Settings cluster = Settings::mapping({"other.yaml", 2, 1});
  cluster.set("gpus", scalar("64"));
  changes.set("cluster", cluster);
  changes.set("list", scalar("none"));
  Settings base = tree();
  base.set_path("cluster.device", scalar("h100"));
  const Settings merged = overlay(base, changes);
  CHECK(merged.at("cluster").get_int("gpus", 0) == 64);
  CHECK(merged.at("cluster").get_text("device", "") == "h100");
  CHECK(merged.at("cluster").at("device").path() == "cluster.device");
  CHECK(merged.get_text("list", "") == "none");
}

TEST_CASE("a copy shares nothing that a change of either could show") {
  const Settings original = tree();
  Settings copy = original;
  copy.set_path("cluster.gpus", scalar("32"));
  copy.set_path("cluster.node.kind", scalar("mesh"));
  CHECK(original.find_path("cluster.gpus")->text() == "16");
  CHECK(original.find_path("cluster.node") == nullptr);
  CHECK(copy.find_path("cluster.node.kind")->path() == "cluster.node.kind");
  copy.erase("list");
  copy.erase("nothing of that name");
  CHECK(copy.find("list") == nullptr);
  REQUIRE(original.find("list") != nullptr);
  // What is held elsewhere too has a path in each place.
  Settings other = Settings::mapping(kPlace);
  other.set("machine", original.at("cluster"));
  CHECK(other.find_path("machine.gpus")->path() == "machine.gpus");
  CHECK(original.find_path("cluster.gpus")->path() == "cluster.gpus");
  Settings list = original.at("list");
  list.append(list);  // itself, as it was
  REQUIRE(list.items().size() == 3);
  CHECK(list.items()[2].items().size() == 2);
  CHECK(list.items()[2].items()[1].path() == "list[2][1]");
  CHECK(original.at("list").items().size() == 2);
}
