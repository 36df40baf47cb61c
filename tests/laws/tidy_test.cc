// Does the tree keep the habits of the house? What a machine can check about style is checked here, not in review.
#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "tests/catch.h"
#include "tests/laws/code.h"
#include "tests/laws/tree.h"
#include "tests/paths.h"

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

TEST_CASE("the tree is found: every room has sources", "[tree]") {
  std::set<std::string> rooms;
  for (const SourceFile& file : source_files()) {
    if (file.suffix == ".cc") rooms.insert(file.room());
  }
  for (const char* room : {"sim", "topology", "calibration", "workloads", "scenarios", "tools", "tests"}) {
    CHECK(rooms.count(room) == 1);
  }
}

TEST_CASE("a source file opens with a comment", "[tree]") {
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (!file.is_code()) continue;
    if (file.lines.empty() || !file.lines[0].starts_with("//")) problems.push_back(file.path);
  }
  CHECK(problems == Problems{});
}

TEST_CASE("a header says #pragma once", "[tree]") {
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (file.suffix == ".h" && file.text.find("\n#pragma once\n") == std::string::npos) problems.push_back(file.path);
  }
  CHECK(problems == Problems{});
}

TEST_CASE("files have at most 800 lines, lines at most 120 columns, no tabs, no spaces at the end", "[tree]") {
  Problems problems;
  for (const SourceFile& file : source_files()) {
    const bool script = file.suffix.empty() && file.text.starts_with("#!");
    if (!file.is_code() && !script && file.suffix != ".txt") continue;
    if (file.lines.size() > 800) problems.push_back(file.path + ": " + std::to_string(file.lines.size()) + " lines");
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      const bool printed = file.path.starts_with("tests/golden/");  // by the program, as wide as it prints
      if (width_of(line) > 120 && !printed)
        problems.push_back(at(file, i) + ": " + std::to_string(width_of(line)) + " columns");
      if (line.find('\t') != std::string::npos) problems.push_back(at(file, i) + ": tab");
      if (!line.empty() && (line.back() == ' ' || line.back() == '\r')) problems.push_back(at(file, i) + ": line end");
    }
    if (!file.text.empty() && file.text.back() != '\n') problems.push_back(file.path + ": no final line break");
  }
  CHECK(problems == Problems{});
}

TEST_CASE("the library that the page is built with has what the rooms use", "[tree]") {
  // libc++ 14 has neither std::ranges' algorithms nor its views; tools/whatif/library_gaps.h fills its other gaps.
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (!file.is_code() || file.room() == "tests") continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      for (const char* name : {"std::ranges::", "std::views::"})
        if (file.lines[i].find(name) != std::string::npos) problems.push_back(at(file, i) + ": " + name);
    }
  }
  CHECK(problems == Problems{});
}

TEST_CASE("no two types of a namespace have one name: linkers take either for the other", "[tree]") {
  const std::regex type(R"(^(?:struct|class) (\w+)(?: final)?(?: : [^;{]*)?\s*\{)");
  std::map<std::string, std::string> defined;  // where, by namespace and name
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (!file.is_code() || file.room() == "tests" || file.path.starts_with("calibration/kernels/")) continue;
    std::string space;
    bool unnamed = false;  // names of an unnamed namespace stay in their file
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      if (line.starts_with("namespace {")) unnamed = true;
      if (line.starts_with("}  // namespace")) unnamed = false;
      if (line.starts_with("namespace ") && !unnamed) space = line;
      std::smatch found;
      if (unnamed || !std::regex_search(line, found, type)) continue;
      const auto [other, is_new] = defined.emplace(space + found[1].str(), at(file, i));
      if (!is_new) problems.push_back(at(file, i) + ": " + found[1].str() + ", as in " + other->second);
    }
  }
  CHECK(defined.size() > 300);
  CHECK(problems == Problems{});
}

TEST_CASE("a script can be run as the documents say", "[tree]") {
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (!file.suffix.empty() || !file.text.starts_with("#!")) continue;
    const fs::perms perms = fs::status(fs::path(orrery::tests::kSourceDir) / file.path).permissions();
    if ((perms & fs::perms::owner_exec) == fs::perms::none) problems.push_back(file.path + " is not executable");
  }
  CHECK(problems == Problems{});
}

TEST_CASE("a function has at most 90 lines", "[tree]") {
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

TEST_CASE("no comma joins statements", "[tree]") {
  Problems problems;
  std::size_t statements = 0;
  for (const SourceFile& file : source_files()) {
    if (!file.is_code()) continue;
    for (const Statement& statement : parse(file.text).statements) {
      ++statements;
      if (joins_by_comma(statement)) problems.push_back(file.path + ":" + std::to_string(statement.line + 1));
    }
  }
  CHECK(statements > 10000);
  CHECK(problems == Problems{});
}

TEST_CASE("what the laws read as a comma that joins, and as a member", "[tree]") {
  const auto joined = [](const std::string& text) {
    std::size_t count = 0;
    for (const Statement& statement : parse("void f() {\n" + text + "\n}\n").statements)
      count += joins_by_comma(statement) ? 1 : 0;
    return count;
  };
  for (const char* text :
       {"a = 1, b = 2;", "if (c < d) a.x *= 2, ++b;", "return *e = 1, success;", "++a, --b;", "add(1), add(2);",
        "for (int i = 0; i < n; ++i) p[i] += 1, v->q -= 2;",
        "sort(v, [](int a, int b) { x = a, y = b; return a < b; });", "else a = f<int, int>(1), b = 2;"}) {
    INFO(text);
    CHECK(joined(text) == 1);
  }
  for (const char* text :
       {"int a = 1, b = 2;", "const std::map<int, int> m = {{1, 2}};", "f(a, b);", "return {a, b};",
        "for (i = 0, j = 0; i < n; ++i, ++j) f(i, j);", "a = f(1, 2) + g{3, 4};", "x = \"a, b = 1\";",
        "auto [a, b] = pair;  // c = 1, d = 2", "a = std::pair<int, int>(1, 2);"}) {
    INFO(text);
    CHECK(joined(text) == 0);
  }
  const Code code = parse(
      "struct A : B {\n  A(int x, int y) : a_(x), b_(y) { go(); }\n  int f(int, int) const;\n  static const int kN = "
      "3;\n"
      "  enum class K { p, q } ;\n  bool operator==(const A&) const = default;\n  int a_ = 1, b_ = 2;\n"
      "  std::map<int, int> m_{};\n  void (*done)(int) = nullptr;\n};\n");
  REQUIRE(code.types.size() == 1);
  CHECK(code.types[0].name == "A");
  CHECK(code.types[0].lines == 10);
  std::size_t members = 0;
  for (const Statement& declaration : code.types[0].declarations) members += members_of(declaration);
  CHECK(members == 4);  // a_, b_, m_, done
  const Code inside =
      parse("struct B {\n  struct C {\n    int x = 0;\n  } c;\n  struct D {\n    int y = 0;\n  };\n};\n");
  REQUIRE(inside.types.size() == 3);  // the outer one is closed last
  members = 0;
  for (const Statement& declaration : inside.types[2].declarations) members += members_of(declaration);
  CHECK(members == 1);  // c
}

TEST_CASE("the recipes for a new thing name files that there are", "[tree]") {
  std::string text;
  for (const SourceFile& file : source_files()) {
    if (file.path == "docs/CONTRIBUTING.md") text = file.text;
  }
  static const std::regex kPath(R"(`([a-z_.]+/[\w./-]*)`)");
  std::size_t paths = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), kPath), end; at != end; ++at, ++paths) {
    INFO((*at)[1].str());
    CHECK(fs::exists(fs::path(orrery::tests::kSourceDir) / (*at)[1].str()));
  }
  CHECK(paths > 30);
}

TEST_CASE("rooms include only the rooms below them", "[tree]") {
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

TEST_CASE("sub-rooms include only what is below them", "[tree]") {
  // Libraries below tools/ stand on all rooms, and on these of each other.
  const auto tools = [](const std::vector<std::string>& libraries) {
    std::vector<std::string> out{"sim/", "topology/", "calibration/", "workloads/", "scenarios/"};
    for (const std::string& library : libraries) out.push_back("tools/" + library);
    return out;
  };
  const auto of_job = [](std::vector<std::string> more) {
    for (const char* below : {"sim/", "topology/", "calibration/", "workloads/model/", "workloads/schedules/",
                              "workloads/collectives/", "workloads/groups/", "workloads/compile/"})
      more.emplace_back(below);
    return more;
  };
  const std::map<std::string, std::vector<std::string>> kArrows = {
      {"workloads/model/", {"sim/", "calibration/", "workloads/model/"}},
      {"workloads/schedules/", {"sim/", "workloads/schedules/"}},
      {"workloads/collectives/", {"sim/", "topology/", "calibration/", "workloads/collectives/"}},
      {"workloads/groups/",
       {"sim/", "topology/", "calibration/", "workloads/model/", "workloads/schedules/", "workloads/collectives/",
        "workloads/groups/"}},
      {"workloads/compile/",
       {"sim/", "topology/", "calibration/", "workloads/model/", "workloads/schedules/", "workloads/collectives/",
        "workloads/groups/", "workloads/compile/"}},
      {"workloads/job/", of_job({"workloads/job/"})},
      {"workloads/memory/", of_job({"workloads/job/", "workloads/memory/"})},
      {"workloads/traffic/", of_job({"workloads/job/", "workloads/traffic/"})},
      {"workloads/step/", of_job({"workloads/job/", "workloads/memory/", "workloads/traffic/", "workloads/step/",
                                  "workloads/runs/serving/"})},
      {"workloads/runs/rl/", {"sim/", "workloads/runs/serving/", "workloads/runs/rl/"}},  // likewise of steps
      {"workloads/runs/serving/", {"sim/", "workloads/runs/serving/"}},    // knows times of iterations, and no model
      {"workloads/runs/campaign/", {"sim/", "workloads/runs/campaign/"}},  // runs over times of steps, and no step
      {"workloads/runs/queue/", {"sim/", "workloads/runs/queue/"}},        // as do queues
      {"calibration/device/", {"sim/", "calibration/device/"}},            // how long a kernel takes, whoever runs it
      {"calibration/framework/", {"sim/", "calibration/device/", "calibration/framework/"}},
      {"tools/report/", tools({"report/", "validation.", "decisions."})},
      {"tools/study/", tools({"report/", "validation.", "decisions.", "study/", "parallel.", "import/parse_json."})},
      {"tools/explain/", tools({"report/", "validation.", "decisions.", "known_rows.", "pair_errors.", "study/",
                                "parallel.", "explain/"})},
      {"tools/fit/", tools({"report/", "validation.", "decisions.", "study/", "parallel.", "fit/"})},
      {"tools/import/", tools({"import/", "report/text."})},
      {"tools/whatif/",
       tools({"report/", "validation.", "decisions.", "study/", "parallel.", "import/", "explain/", "whatif/"})},
      {"tools/learn/", tools({"report/", "validation.", "decisions.", "parallel.", "learn/"})},
      {"tools/replay/",
       tools({"report/", "validation.", "decisions.", "parallel.", "learn/", "replay/", "import/parse_json."})},
      {"tools/api/", tools({"api/"})},
      {"tools/python/", tools({"report/", "validation.", "decisions.", "study/", "parallel.", "explain/"})},
      {"tools/validation.", tools({"validation."})},
      {"tools/known_rows.", tools({"report/", "validation.", "known_rows."})},
      {"tools/pair_errors.", tools({"known_rows.", "pair_errors."})},
      {"tools/decisions.", tools({"validation.", "pair_errors.", "decisions."})},
      {"tools/parallel.", tools({"report/", "parallel."})},
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
  for (const SourceFile& file : source_files()) {  // what a device does stands without how that is measured
    if (file.room() != "calibration" || file.path.starts_with("calibration/measure/")) continue;
    for (const Include& include : includes_of(file)) {
      if (include.name.starts_with("calibration/measure/")) problems.push_back(at(file, include.line) + " measures");
    }
  }
  for (const SourceFile& file : source_files()) {  // nothing stands between the sub-rooms
    if (file.room() == "workloads" && file.path.find('/', 10) == std::string::npos) problems.push_back(file.path);
  }
  CHECK(arrows > 100);
  CHECK(problems == Problems{});
}

TEST_CASE("a model knows recipes and styles of layers, and no framework", "[tree]") {
  const std::set<std::string> kKnown = {"calibration/framework/recipe.h", "calibration/framework/layer_style.h"};
  Problems problems;
  std::size_t of_recipes = 0;
  for (const SourceFile& file : source_files()) {
    // What it knows knows no framework either.
    if (!file.path.starts_with("workloads/model/") && kKnown.count(file.path) == 0) continue;
    for (const Include& include : includes_of(file)) {
      if (!include.name.starts_with("calibration/framework/")) continue;
      if (kKnown.count(include.name) == 0)
        problems.push_back(at(file, include.line) + " includes " + include.name);
      else
        ++of_recipes;
    }
  }
  CHECK(of_recipes > 3);
  CHECK(problems == Problems{});
}

TEST_CASE("files of a room that are compiled together share no name of a function that is a file's own", "[tree]") {
  // orrery_folder_batches of CMakeLists.txt compiles files of a folder together: a call means what it does in a file of
  // its own only if no other file, and no header, declares another function of its name.
  std::map<std::string, std::vector<std::string>> declared, own;  // headers of the rooms; files of a folder
  const std::set<std::string> rooms{"sim", "topology", "calibration", "workloads", "scenarios"};
  const auto together = [&](const SourceFile& file) {
    return rooms.count(file.room()) != 0 && file.path.find("/kernels/") == std::string::npos;
  };
  const std::vector<SourceFile> files = source_files();
  std::size_t seen = 0;
  for (const SourceFile& file : files) {
    if (!together(file)) continue;
    if (file.suffix == ".h") {
      for (const Statement& f : functions_of(file.lines).named) declared[f.text].push_back(at(file, f.line));
    } else if (file.suffix == ".cc") {
      const std::string folder = file.path.substr(0, file.path.rfind('/') + 1);
      std::set<std::string> names;
      for (const Statement& f : functions_of(file.lines).unnamed) {
        if (names.insert(f.text).second) own[folder + " " + f.text].push_back(at(file, f.line));
        ++seen;
      }
    }
  }
  Problems problems;
  for (const auto& [key, places] : own) {
    const auto other = declared.find(key.substr(key.find(' ') + 1));
    if (places.size() == 1 && other == declared.end()) continue;
    std::string line = key + ":";
    for (const std::string& place : places) line += " " + place;
    if (other != declared.end()) line += ", declared at " + other->second.front();
    problems.push_back(line);
  }
  CHECK(seen > 500);
  CHECK(problems == Problems{});
}

TEST_CASE("what the laws read as a function", "[tree]") {
  const std::vector<std::string> lines{"namespace orrery::sim {",
                                       "namespace {",
                                       "constexpr double kHalf = 0.5;",
                                       "}",
                                       "double sum(const Shares& shares);",
                                       "namespace {",
                                       "constexpr std::size_t at(Category c) { return 0; }",
                                       "const std::array<Row, 2> kRows{row(1), row(2)};",
                                       "std::function<double(int)> kHalf = half(2);",
                                       "template <typename Of>",
                                       "Row number(std::string key, Of group,",
                                       "           double bound) {",
                                       "  return sum(key);",
                                       "}",
                                       "}  // namespace",
                                       "Duration Profile::attention(const Attention& a) const {",
                                       "}",
                                       "}  // namespace orrery::sim"};
  const Functions functions = functions_of(lines);
  REQUIRE(functions.unnamed.size() == 2);
  CHECK(functions.unnamed[0].text == "orrery::sim at");
  CHECK(functions.unnamed[0].line == 6);
  CHECK(functions.unnamed[1].text == "orrery::sim number");
  REQUIRE(functions.named.size() == 1);
  CHECK(functions.named[0].text == "orrery::sim sum");
}

TEST_CASE("the what-if page's engine is made of all that its sources include", "[tree]") {
  // Its own build, by another compiler, is not the gate's.
  const std::vector<SourceFile> files = source_files();
  const auto find = [&](const std::string& path) {
    return std::find_if(files.begin(), files.end(), [&](const SourceFile& file) { return file.path == path; });
  };
  const auto list = find("tools/whatif/CMakeLists.txt");
  REQUIRE(list != files.end());
  // foreach(file report/json ...) names sources one by one; all of tools/import and tools/whatif stand by patterns.
  std::smatch named;
  REQUIRE(std::regex_search(list->text, named, std::regex(R"(foreach\(file ([^)]*)\))")));
  std::istringstream words(named[1].str());
  std::vector<std::string> made;
  for (std::string word; words >> word;) made.push_back("tools/" + word);
  CHECK(made.size() > 8);
  const std::regex whole(R"(tools/(import|whatif)/.*)"),
      apart(R"(tools/report/page|tools/validation|tools/parallel|tools/study/trace_file)");  // headers alone
  Problems problems;
  for (const std::string& unit : made) {
    for (const char* suffix : {".h", ".cc"}) {
      const auto file = find(unit + suffix);
      if (file == files.end()) continue;
      for (const Include& include : includes_of(*file)) {
        if (!include.quoted || !include.name.starts_with("tools/") || !include.name.ends_with(".h")) continue;
        const std::string other = include.name.substr(0, include.name.size() - 2);
        const bool has = find(other + ".cc") == files.end() || std::regex_match(other, whole) ||
                         std::regex_match(other, apart) || std::find(made.begin(), made.end(), other) != made.end();
        if (!has) problems.push_back(at(*file, include.line) + " includes " + include.name);
      }
    }
  }
  // What is left out of these patterns is not included by what stays.
  std::vector<std::regex> left_out;
  const std::regex filter(R"re(FILTER tool_sources EXCLUDE REGEX\s+"([^"]*)")re");
  for (auto match = std::sregex_iterator(list->text.begin(), list->text.end(), filter); match != std::sregex_iterator();
       ++match)
    left_out.emplace_back(std::regex_replace((*match)[1].str(), std::regex(R"(\\\\)"), R"(\)"));
  CHECK(left_out.size() >= 2);
  const auto is_out = [&](const std::string& path) {
    return std::any_of(left_out.begin(), left_out.end(),
                       [&](const std::regex& one) { return std::regex_search("/" + path, one); });
  };
  for (const SourceFile& file : files) {
    if (!file.path.starts_with("tools/import/") || !file.is_code()) continue;
    const std::string unit = file.path.substr(0, file.path.rfind('.'));
    if (is_out(unit + ".cc")) continue;
    for (const Include& include : includes_of(file)) {
      if (!include.quoted || !include.name.starts_with("tools/import/") || !include.name.ends_with(".h")) continue;
      const std::string other = include.name.substr(0, include.name.size() - 2) + ".cc";
      if (find(other) != files.end() && is_out(other))
        problems.push_back(at(file, include.line) + " includes " + include.name + ", which is left out");
    }
  }
  CHECK(problems == Problems{});
}

TEST_CASE("all of a job goes to few functions, where it is loaded, in the step or above", "[tree]") {
  // A parameter or a member: definitions count, declarations that have one elsewhere do not.
  static const std::regex kJob(R"(const (workloads::)?Job& ?\w*( =[^,)]*)?[,)])"),
      kMember(R"(const (workloads::)?Job& \w+_;)");
  Problems takers;
  for (const SourceFile& file : source_files()) {
    const bool step =
        std::regex_search(file.path, std::regex("^(workloads/(job|memory|traffic|step)|scenarios|tools)/"));
    if (!file.is_code() || file.room() == "tests") continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const bool takes = file.suffix == ".cc" && std::regex_search(file.lines[i], kJob);
      if (!takes && !std::regex_search(file.lines[i], kMember)) continue;
      takers.push_back(at(file, i));
      CHECK(step);
    }
  }
  CHECK(takers.size() > 5);  // the law sees them
  if (takers.size() >= 30) CHECK(takers == Problems{});
}

TEST_CASE("heavy libraries stay in the .cc files of the room that owns them", "[tree]") {
  const std::map<std::string, std::set<std::string>> kOwners = {
      {"boost", {"topology", "tools"}}, {"yaml-cpp", {"scenarios"}}, {"nlohmann", {"tools"}}, {"CLI", {"tools"}}};
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

TEST_CASE("tests include Catch2 by one header, which knows both of its versions", "[tree]") {
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (!file.is_code() || file.path == "tests/catch.h" || file.path == "tests/test_main.cc") continue;
    for (const Include& include : includes_of(file)) {
      if (include.name.starts_with("catch2/")) problems.push_back(at(file, include.line));
    }
  }
  CHECK(problems == Problems{});
}

TEST_CASE("JSON that comes from outside is read by one function, which bounds it", "[tree]") {
  // Beside it the reader of profiler's traces, which takes events one by one and builds no tree.
  static const std::regex kParse(R"(json::(parse|accept|sax_parse|from_\w+)\()");
  const std::set<std::string> kReaders{"tools/import/parse_json.cc", "tools/learn/kineto.cc"};
  std::set<std::string> seen;
  Problems problems;
  for (const SourceFile& file : source_files()) {
    if (!file.is_code() || file.room() == "tests") continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      if (!std::regex_search(file.lines[i], kParse)) continue;
      if (kReaders.contains(file.path))
        seen.insert(file.path);
      else
        problems.push_back(at(file, i));
    }
  }
  CHECK(seen == kReaders);  // the law sees them
  CHECK(problems == Problems{});
}

TEST_CASE("no machine's paths and no unfinished work in the tree", "[tree]") {
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

TEST_CASE("the version is said by the build; what repeats it agrees", "[tree]") {
  std::string version;
  std::map<std::string, std::string> texts;
  for (const SourceFile& file : source_files()) texts[file.path] = file.text;
  static const std::regex kProject(R"(project\(orrery VERSION (\d+\.\d+\.\d+) )");
  std::smatch match;
  REQUIRE(std::regex_search(texts.at("CMakeLists.txt"), match, kProject));
  version = match[1];
  CHECK(texts.at("docs/CITATION.cff").find("\nversion: " + version + "\n") != std::string::npos);
  CHECK(texts.at("docs/CHANGELOG.md").find("\n## " + version + "\n") != std::string::npos);
  for (const auto& [path, text] : texts) {  // not in the program's own texts
    if (!path.ends_with(".cc") || path.starts_with("tests/")) continue;
    INFO(path);
    CHECK(text.find("orrery " + version) == std::string::npos);
  }
}

TEST_CASE("documents show the commands, the rooms and the package of every dependency", "[tree]") {
  std::string readme, install, contributing, bootstrap, ci;
  for (const SourceFile& file : source_files()) {
    if (file.path == "README.md") readme = file.text;
    if (file.path == "docs/install.md") install = file.text;
    if (file.path == "docs/CONTRIBUTING.md") contributing = file.text;
    if (file.path == "tools/bootstrap") bootstrap = file.text;
    if (file.path == ".ci/run") ci = file.text;
  }
  CHECK(readme.find("./tools/bootstrap run") != std::string::npos);
  CHECK(readme.find("./tools/bootstrap test") != std::string::npos);
  CHECK(std::count(readme.begin(), readme.end(), '\n') <
        110);  // every list of records is a line of its table  // a screen
  CHECK(ci.find("./tools/bootstrap test") != std::string::npos);
  CHECK(ci.find("./tools/check_fresh 12 root test") != std::string::npos);  // the same on a machine that has nothing
  for (const char* room : {"sim/", "topology/", "calibration/", "workloads/", "scenarios/", "tools/", "tests/"}) {
    INFO(room);
    CHECK(contributing.find(room) != std::string::npos);
  }
  // Every package that bootstrap installs is explained.
  const std::string::size_type begin = bootstrap.find("packages=("), end = bootstrap.find(')', begin);
  REQUIRE(begin != std::string::npos);
  std::istringstream packages(bootstrap.substr(begin + 10, end - begin - 10));
  std::size_t count = 0;
  for (std::string package; packages >> package; ++count) {
    INFO(package);
    CHECK(install.find(package) != std::string::npos);
  }
  CHECK(count >= 10);
}
