// Does `orrery flows` share links max-min fairly, and is a bad table the user's error, with its place?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/skipped.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"

using namespace orrery;
using tests::check_refused;
using tests::Folder;
using tests::Outcome;

namespace {

const std::string kHeader = "id,src,dst,bytes,start_s,links(space separated)\n";

std::vector<std::pair<std::string, double>> ends_of(const std::string& csv) {
  std::vector<std::pair<std::string, double>> ends;
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  CHECK(line == "id,end_s");
  while (std::getline(lines, line)) {
    const std::size_t comma = line.find(',');
    REQUIRE(comma != std::string::npos);
    ends.emplace_back(line.substr(0, comma), std::stod(line.substr(comma + 1)));
  }
  return ends;
}

std::vector<std::pair<std::string, double>> share(const Folder& folder, const std::string& rows,
                                                  std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"flows", folder.write("paths.csv", kHeader + rows)});
  const Outcome outcome = tests::orrery(more);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(outcome.err.find("solves: ") == 0);
  return ends_of(outcome.out);
}

}  // namespace

TEST_CASE("flows that share one link, worked out by hand") {
  const Folder folder;
  // Two flows of 25 GB on 25 GB/s; b starts at 0.5 s, when a has 12.5 GB left. Shared at 12.5 GB/s until a ends at
  // 1.5 s; b has 12.5 GB left then and, alone again, ends at 2.0 s. The order of the table is kept.
  const auto ends = share(folder, "b,1,2,25e9,0.5,x \na,0,2,25000000000,0,x\n");
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].first == "b");
  CHECK(ends[0].second == Approx(2.0).epsilon(1e-9));
  CHECK(ends[1].second == Approx(1.5).epsilon(1e-9));
}

TEST_CASE("max-min is not an even split: who is held back elsewhere leaves its share to others") {
  const Folder folder;
  // Links x and y of 30 GB/s. a, b, c on x, c also on y beside d: x gives each 10 GB/s, so d has 20 GB/s of y.
  const auto ends =
      share(folder, "a,0,1,10e9,0,x\nb,0,1,10e9,0,x\nc,0,1,10e9,0,x y\nd,0,1,20e9,0,y\n", {"--capacity", "30 GB/s"});
  for (const auto& [id, end] : ends) {
    INFO(id);
    CHECK(end == Approx(1.0).epsilon(1e-9));
  }
}

TEST_CASE("nothing to move ends when it starts; columns may come in another order") {
  const Folder folder;
  const std::string file =
      folder.write("paths.csv", "links,start_s,bytes,dst,src,id,note\r\nx,0.25,0,b,a,7,why\r\nx,0,25e9,b,a,8,\r\n");
  const std::string out = folder.file("ends.csv");
  const Outcome outcome = tests::orrery({"flows", file, "--out", out});
  REQUIRE(outcome.status == 0);
  CHECK(outcome.err.empty());
  for (const char* word : {"solves: ", "flows: 2", "CPU seconds: "}) {
    INFO(word);
    CHECK(outcome.out.find(word) != std::string::npos);
  }
  const auto ends = ends_of(tests::read_file(out));
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].second == Approx(0.25));
  CHECK(ends[1].second == Approx(1.0).epsilon(1e-9));
}

TEST_CASE("numbers, names and blanks may be written in any way") {
  const Folder folder;
  // Each flow alone on a link of 25 GB/s from 1 s on: 25 GB end at 2 s. Names of links as long as a word of the
  // reader's, shorter and longer, and alike up to their end; blanks of each kind between them.
  std::string rows;
  int id = 0;
  for (const char* bytes : {"25000000000", "25000000000.0", "25e9", "2.5e10", "25000000000.", "0025000000000",
                            "25000000000.000000000001", "2500000000000e-2"}) {
    for (const char* start : {"1", "1.0", "1.000000", "1e0", "1.", "10e-1", "1.00000000000000000"}) {
      const std::string name = std::string(static_cast<std::size_t>(id % 20), 'l') + std::to_string(id);
      rows += fmt::format("{},0,1,{},{},{}\t{}-up \r\n", id++, bytes, start, name, name);
    }
  }
  for (const auto& [flow, end] : share(folder, rows)) {
    INFO(flow);
    CHECK(end == Approx(2.0).epsilon(1e-11));
  }
  const auto ends = share(folder, "a,0,1,0.1,0.3,x\nb,0,1,.5,.25,y\n", {"--capacity", "1 B/s"});
  CHECK(ends[0].second == Approx(0.4).epsilon(1e-11));
  CHECK(ends[1].second == Approx(0.75).epsilon(1e-11));
}

TEST_CASE("ids may come in any order, each once") {
  const Folder folder;
  const auto refused = [&](const std::string& rows, const std::string& place) {
    check_refused(tests::orrery({"flows", folder.write("case.csv", kHeader + rows)}), "case.csv" + place);
  };
  const auto row = [](const std::string& id) { return id + ",0,1,5,0,x\n"; };
  CHECK(share(folder, row("9") + row("10") + row("a") + row("b") + row("8") + row("c")).size() == 6);
  refused(row("9") + row("10") + row("9"), ":4:1: id: ");
  refused(row("9") + row("10") + row("8") + row("10"), ":5:1: id: ");
  refused(row("2") + row("1") + row("3") + row("1"), ":5:1: id: ");
  refused(row("b") + row("a") + row("a"), ":4:1: id: ");
}

TEST_CASE("a bad table of flows is refused with its place") {
  const Folder folder;
  const auto refused = [&](const std::string& text, const std::string& place) {
    check_refused(tests::orrery({"flows", folder.write("case.csv", text)}), "case.csv" + place);
  };
  refused("", ":1:1: id: ");
  refused("id,src,dst,bytes,start_s\n0,0,1,5,0\n", ":1:1: links: ");
  refused("id,src,dst,bytes,start_s,links,id\n", ":1:32: id: ");
  refused(kHeader, ":2:1: id: ");
  refused(kHeader + "0,0,1,many,0,x\n", ":2:7: bytes: ");
  refused(kHeader + "0,0,1,5,0,x\n1,0,1,-5,0,x\n", ":3:7: bytes: ");
  refused(kHeader + "0,0,1,nan,0,x\n", ":2:7: bytes: ");
  refused(kHeader + "0,0,1,5x,0,x\n", ":2:7: bytes: ");
  refused(kHeader + "0,0,1,,0,x\n", ":2:7: bytes: ");
  refused(kHeader + "0,0,1,5,inf,x\n", ":2:9: start_s: ");
  refused(kHeader + "0,0,1,5,-1,x\n", ":2:9: start_s: ");
  refused(kHeader + "0,0,1,5,0,   \n", ":2:11: links: ");
  refused(kHeader + "0,0,1,5,0,\n", ":2:11: links: ");
  refused(kHeader + ",0,1,5,0,x\n", ":2:1: id: ");
  refused(kHeader + "0,0,1,5,0,x\n0,0,1,5,0,x\n", ":3:1: id: ");
  refused(kHeader + "0,0,1,5,0,x\n1,0,1,5", ":3:7: start_s: ");
  refused(kHeader + "0,0,1,5,0,x,y\n", ":2:13: line: ");
  refused(kHeader + "0,0,1,1e18,0,x\n", ": at 2.5e+10 bytes/s");
  const std::string good = folder.write("case.csv", kHeader + "0,0,1,5,0,x\n");
  check_refused(tests::orrery({"flows", good, "--capacity", "25"}), "--capacity");
  check_refused(tests::orrery({"flows", good, "--capacity", "-1 GB/s"}), "--capacity");
  check_refused(tests::orrery({"flows", good, "--out", folder.file("no/folder.csv")}), "no/folder.csv");
  check_refused(tests::orrery({"flows", folder.file("missing.csv")}), "missing.csv");
  check_refused(tests::orrery({"flows", folder.path().string()}), folder.path().string());
}

TEST_CASE("cases with known answers, where they lie beside the tree") {
  const std::filesystem::path cases = std::filesystem::path(tests::kSourceDir) / ".." / "shared/reference/maxmin";
  if (!std::filesystem::is_directory(cases)) {
    tests::skipped("no max-min reference cases beside the source tree");
    return;
  }
  std::size_t compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cases)) {
    const std::string name = entry.path().filename().string();
    const std::size_t at = name.find(".paths.csv");
    if (at == std::string::npos) continue;
    const Outcome outcome = tests::orrery({"flows", entry.path().string()});
    INFO(name << ": " << outcome.err);
    REQUIRE(outcome.status == 0);
    const auto ends = ends_of(outcome.out);
    const auto expected = ends_of(tests::read_file(cases / (name.substr(0, at) + ".expected.csv")));
    REQUIRE(ends.size() == expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      REQUIRE(ends[i].first == expected[i].first);
      worst = std::max(worst, std::abs(ends[i].second / expected[i].second - 1));
    }
    CHECK(worst <= 1e-6);
    compared += ends.size();
  }
  CHECK(compared > 0);
}
