// Does a table of keys let through what its rows admit, and nothing else?
#include "sim/keys.h"

#include "tests/catch.h"

using namespace orrery::sim;

namespace {

const Place kPlace{"k.yaml", 2, 5};

Settings scalar(const std::string& text) { return Settings::scalar(text, kPlace); }

const KeyTable& table() {
  static const KeyTable keys({{"gpus", "integer", "GPUs", "", {}, "How many.", {"1", "1024"}},
                              {"rate", "quantity", "bytes/s", "", {}, "How fast.", {"1 Gb/s", "100 Tb/s"}},
                              {"rate.*", "quantity", "bytes/s", "-", {}, "By family.", {"1 Gb/s", "100 Tb/s"}},
                              {"share", "number", "", "1", {}, "How much.", {"0.01", "1"}},
                              {"seed", "integer", "", "0", {}, "At least.", {"0", ""}},
                              {"sizes", "list", "bytes", "-", {}, "Rising.", {"1 B", "1 TB"}},
                              {"rows", "list", "", "-", {}, "Of rows.", {"-3", "3"}},
                              {"tiles", "list", "", "-", {}, "Of tiles."},
                              {"tiles[].m", "integer", "", "", {}, "Rows.", {"1", "4096"}},
                              {"free", "mapping", "", "-", {}, "Whatever it holds."},
                              {"other", "name", "", "-", {}, "Another document."}},
                             "unknown");
  return keys;
}

std::string complaint(const std::string& path, Settings value) {
  Settings document = Settings::mapping(kPlace);
  document.set_path(path, std::move(value));
  try {
    table().check(document);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

Settings list(const std::vector<Settings>& items) {
  Settings all = Settings::sequence(kPlace);
  for (const Settings& item : items) all.append(item);
  return all;
}

}  // namespace

TEST_CASE("a number within its bounds passes, one beyond them is refused with its place, its key and the bounds") {
  for (const char* good : {"1", "1024", "1e3"}) CHECK(complaint("gpus", scalar(good)).empty());
  CHECK(complaint("gpus", scalar("0")) == "k.yaml:2:5: gpus: got 0, expected 1 to 1024");
  CHECK(complaint("gpus", scalar("1025")) == "k.yaml:2:5: gpus: got 1025, expected 1 to 1024");
  for (const char* good : {"1 Gb/s", "0.125 GB/s", "12.5 TB/s"}) CHECK(complaint("rate", scalar(good)).empty());
  CHECK(complaint("rate", scalar("400 b/s")) == "k.yaml:2:5: rate: got 400 b/s, expected 1 Gb/s to 100 Tb/s");
  CHECK(complaint("rate", scalar("1 PB/s")) == "k.yaml:2:5: rate: got 1 PB/s, expected 1 Gb/s to 100 Tb/s");
  CHECK(complaint("share", scalar("1e-300")) == "k.yaml:2:5: share: got 1e-300, expected 0.01 to 1");
  CHECK(complaint("seed", scalar("-1")) == "k.yaml:2:5: seed: got -1, expected at least 0");
  CHECK(complaint("seed", scalar("9223372036854775807")).empty());
  CHECK_FALSE(complaint("rate", scalar("fast")).empty());
  CHECK_FALSE(complaint("gpus", scalar("1.5")).empty());
}

TEST_CASE("bounds of a list hold for every number in it, however deep, and free names have those of their star") {
  CHECK(complaint("sizes", list({scalar("1 B"), scalar("1 TB")})).empty());
  CHECK(complaint("sizes", list({scalar("1 MB"), scalar("2 TB")})) ==
        "k.yaml:2:5: sizes[1]: got 2 TB, expected 1 B to 1 TB");
  CHECK(complaint("rows", list({list({scalar("-3"), scalar("3")})})).empty());
  CHECK(complaint("rows", list({list({scalar("0"), scalar("3.1")})})).find("rows[0][1]") != std::string::npos);
  CHECK(complaint("rate.h100", scalar("400 Gb/s")).empty());
  CHECK(complaint("rate.h100", scalar("4 b/s")).find("rate.h100: got 4 b/s") != std::string::npos);
  Settings tile = Settings::mapping(kPlace);
  tile.set("m", scalar("4097"));
  CHECK(complaint("tiles", list({tile})) == "k.yaml:2:5: tiles[0].m: got 4097, expected 1 to 4096");
}

TEST_CASE("unknown members are refused where the table knows all of them; other documents are left to their readers") {
  CHECK(complaint("gpu", scalar("1")).find("did you mean \"gpus\"") != std::string::npos);
  Settings tile = Settings::mapping(kPlace);
  tile.set("n", scalar("1"));
  CHECK(complaint("tiles", list({tile})).find("tiles[0].n: unknown key") != std::string::npos);
  CHECK(complaint("free.any", scalar("1e300")).empty());
  CHECK(complaint("other.gpus", scalar("0")).empty());
  CHECK(complaint("gpus", scalar("unknown")).empty());  // counts as left out
  CHECK(complaint("gpus", scalar("")).empty());
}

TEST_CASE("a key that stands elsewhere is refused with the paths where it may belong") {
  const KeyTable keys({{"far.away.gpus", "integer", "", "", {}, "How many."},
                       {"near.gpus", "integer", "", "", {}, "How many."},
                       {"list[].rate", "number", "", "-", {}, "How fast."}});
  const auto refusal = [&](const std::string& path) {
    Settings document = Settings::mapping(kPlace);
    document.set_path(path, scalar("1"));
    try {
      keys.check(document);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal("gpus") == "k.yaml:2:5: gpus: unknown key; did you mean \"far.away.gpus\" or \"near.gpus\"?");
  CHECK(refusal("near.gpus").empty());
  CHECK(refusal("rate").find("did you mean") == std::string::npos);  // of an item, which a path alone does not name
}

TEST_CASE("names below a path are the members one level down, in the order of the rows") {
  CHECK(table().names_below("tiles[]") == std::vector<std::string>{"m"});
  CHECK(table().names_below("rate") == std::vector<std::string>{"*"});
  CHECK(table().names_below("").front() == "gpus");
  CHECK(table().names_below("").size() == 9);
  CHECK(table().names_below("gpus").empty());
  REQUIRE(table().find("tiles[].m") != nullptr);
  CHECK(table().find("tiles[].m")->meaning == "Rows.");
  CHECK(table().find("tiles[].n") == nullptr);
}

TEST_CASE("a table that cannot be right is our own mistake") {
  using Rows = std::vector<Key>;
  CHECK_THROWS_AS(KeyTable(Rows{{"a", "text", "", "", {}, "A."}, {"a", "text", "", "", {}, "A."}}), InternalError);
  CHECK_THROWS(KeyTable(Rows{{"a", "integer", "", "", {}, "A.", {"one", ""}}}));
}
