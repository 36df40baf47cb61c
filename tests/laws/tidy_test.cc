// Does the tree keep the habits of the house? What a machine can check about style is checked here, not in review.
#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "tests/catch.h"
#include "tests/laws/tree.h"

using namespace orrery::laws;

namespace {

using Problems = std::vector<std::string>;

std::string at(const SourceFile& file, std::size_t line) { return file.path + ":" + std::to_string(line + 1); }

/// What #include names, by form: "room/header.h" or <library/header>.
struct Include {
  std::string name;
  bool quoted = false;
  std::size_t line = 0;
};

std::vector<Include> includes_of(const SourceFile& file) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> includes;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    std::smatch match;
    if (std::regex_search(file.lines[i], match, kInclude)) includes.push_back({match[2], match[1] == "\"", i});
  }
  return includes;
}

}  // namespace

TEST_CASE("the tree is found: every room has sources") {
  std::set<std::string> rooms;
  for (const SourceFile& file : source_files()) {
    if (file.suffix == ".cc") rooms.insert(file.room());
  }
  for (const char* room : {"sim", "topology", "calibration", "workloads", "scenarios", "tools", "tests"}) {
    CHECK(rooms.count(room) == 1);
  }
}

TEST_CASE("a source file opens with a comment") {
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (!file.is_code()) continue;
    if (file.lines.empty() || !file.lines[0].starts_with("//")) problems.push_back(file.path);
  }
  CHECK(problems == Problems{});
}

TEST_CASE("a header says #pragma once") {
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (file.suffix == ".h" && file.text.find("\n#pragma once\n") == std::string::npos) problems.push_back(file.path);
  }
  CHECK(problems == Problems{});
}

TEST_CASE("files have at most 500 lines, lines at most 120 columns, no tabs, no spaces at the end") {
  Problems problems;
  for (const SourceFile& file : source_files()) {
    const bool script = file.suffix.empty() && file.text.starts_with("#!");
    if (!file.is_code() && !script && file.suffix != ".txt") continue;
    if (file.lines.size() > 500) problems.push_back(file.path + ": " + std::to_string(file.lines.size()) + " lines");
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      if (width_of(line) > 120) problems.push_back(at(file, i) + ": " + std::to_string(width_of(line)) + " columns");
      if (line.find('\t') != std::string::npos) problems.push_back(at(file, i) + ": tab");
      if (!line.empty() && (line.back() == ' ' || line.back() == '\r')) problems.push_back(at(file, i) + ": line end");
    }
    if (!file.text.empty() && file.text.back() != '\n') problems.push_back(file.path + ": no final line break");
  }
  CHECK(problems == Problems{});
}

TEST_CASE("a function has at most 90 lines") {
  // Approximation: from the last line that has text in the first column to the brace that closes a block there (a
  // signature may take several lines). Namespaces close with a comment, types with a semicolon. A catalogue is a table,
  // however long, that happens to be a function.
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (file.suffix != ".cc" && file.suffix != ".h") continue;
    std::size_t begin = 0;
    bool catalogue = false;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      const bool opens = !line.empty() && line[0] != ' ' && line[0] != '}' && line[0] != '#' && line[0] != '/';
      if (opens && !line.starts_with("namespace")) {
        begin = i;
        catalogue = false;
      }
      catalogue = catalogue || line.starts_with("  static const std::vector<");
      if (line == "}" && i - begin > 90 && !catalogue)
        problems.push_back(at(file, begin) + ": " + std::to_string(i - begin));
    }
  }
  CHECK(problems == Problems{});
}

TEST_CASE("rooms include only the rooms below them") {
  const std::map<std::string, std::set<std::string>> kArrows = {
      {"sim", {"sim"}},
      {"topology", {"sim", "topology"}},
      {"calibration", {"sim", "calibration"}},
      {"workloads", {"sim", "topology", "calibration", "workloads"}},
      {"scenarios", {"sim", "topology", "calibration", "workloads", "scenarios"}},
      {"tools", {"sim", "topology", "calibration", "workloads", "scenarios", "tools"}},
      {"tests", {"sim", "topology", "calibration", "workloads", "scenarios", "tools", "tests"}},
  };
  Problems problems;
  std::size_t arrows = 0;
  for (const SourceFile& file : source_files()) {
    const auto allowed = kArrows.find(file.room());
    if (allowed == kArrows.end() || !file.is_code()) continue;
    for (const Include& include : includes_of(file)) {
      if (!include.quoted) continue;
      ++arrows;
      const std::string room = include.name.substr(0, include.name.find('/'));
      if (allowed->second.count(room) == 0) problems.push_back(at(file, include.line) + " includes " + include.name);
    }
  }
  CHECK(arrows > 100);
  CHECK(problems == Problems{});
}

TEST_CASE("sub-rooms include only what is below them") {
  const std::map<std::string, std::vector<std::string>> kArrows = {
      {"workloads/model/", {"sim/", "calibration/", "workloads/model/"}},
      {"workloads/schedules/", {"sim/", "workloads/schedules/"}},
      {"workloads/collectives/", {"sim/", "topology/", "calibration/", "workloads/collectives/"}},
  };
  Problems problems;
  std::size_t arrows = 0;
  for (const SourceFile& file : source_files()) {
    for (const auto& [folder, allowed] : kArrows) {
      if (!file.path.starts_with(folder)) continue;
      for (const Include& include : includes_of(file)) {
        if (!include.quoted) continue;
        ++arrows;
        const bool below = std::any_of(allowed.begin(), allowed.end(),
                                       [&](const std::string& prefix) { return include.name.starts_with(prefix); });
        if (!below) problems.push_back(at(file, include.line) + " includes " + include.name);
      }
    }
  }
  CHECK(arrows > 10);
  CHECK(problems == Problems{});
}

TEST_CASE("heavy libraries stay in the .cc files of the room that owns them") {
  const std::map<std::string, std::set<std::string>> kOwners = {
      {"boost", {"topology"}}, {"yaml-cpp", {"scenarios"}}, {"nlohmann", {"tools"}}, {"CLI", {"tools"}}};
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (!file.is_code() || file.room() == "tests") continue;
    for (const Include& include : includes_of(file)) {
      const auto owners = kOwners.find(include.name.substr(0, include.name.find('/')));
      if (include.quoted || owners == kOwners.end() || include.name == "nlohmann/json_fwd.hpp") continue;
      const bool owned = owners->second.count(file.room()) == 1;
      if (!owned || file.suffix != ".cc") problems.push_back(at(file, include.line) + " includes " + include.name);
    }
  }
  CHECK(problems == Problems{});
}

TEST_CASE("no machine's paths and no unfinished work in the tree") {
  // Put together from halves, so that this file does not find itself.
  const std::vector<std::string> kForbidden = {std::string("/ho") + "me/",  std::string("/ro") + "ot/",
                                               std::string("/Us") + "ers/", std::string("/wo") + "rk/",
                                               std::string("/tm") + "p/",   std::string("TO") + "DO",
                                               std::string("FIX") + "ME",   std::string("not imple") + "mented"};
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (file.path == "LICENSE") continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      for (const std::string& word : kForbidden) {
        if (file.lines[i].find(word) != std::string::npos) problems.push_back(at(file, i) + ": " + word);
      }
    }
  }
  CHECK(problems == Problems{});
}

TEST_CASE("the README shows the commands, the rooms and the package of every dependency") {
  std::string readme, bootstrap, ci;
  for (const SourceFile& file : source_files()) {
    if (file.path == "README.md") readme = file.text;
    if (file.path == "tools/bootstrap") bootstrap = file.text;
    if (file.path == ".ci/run") ci = file.text;
  }
  CHECK(readme.find("./tools/bootstrap run") != std::string::npos);
  CHECK(readme.find("./tools/bootstrap test") != std::string::npos);
  CHECK(ci.find("./tools/bootstrap test") != std::string::npos);
  CHECK(ci.find("./tools/check_fresh 12 root test") != std::string::npos);  // the same on a machine that has nothing
  for (const char* room : {"sim/", "topology/", "calibration/", "workloads/", "scenarios/", "tools/", "tests/"}) {
    INFO(room);
    CHECK(readme.find(room) != std::string::npos);
  }
  // Every package that bootstrap installs is explained.
  const std::string::size_type begin = bootstrap.find("packages=("), end = bootstrap.find(')', begin);
  REQUIRE(begin != std::string::npos);
  std::istringstream packages(bootstrap.substr(begin + 10, end - begin - 10));
  std::size_t count = 0;
  for (std::string package; packages >> package; ++count) {
    INFO(package);
    CHECK(readme.find(package) != std::string::npos);
  }
  CHECK(count >= 10);
}
