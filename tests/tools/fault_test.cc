// What does a run leave when the system fails it: a full disk, a device that gives up, calls that are interrupted or do
// half of their work, memory that ends? The old file or the whole new one, nothing beside it, and one line.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/skipped.h"
#include "tests/tools/program.h"

using namespace orrery;
using tests::Folder;
using tests::Outcome;

namespace {

/// The program with the fault, in environment variables that go away with it.
class Fault {
 public:
  explicit Fault(const std::string& fault) {
    ::setenv("LD_PRELOAD", tests::kFaults, 1);
    ::setenv("ORRERY_FAULT", fault.c_str(), 1);
  }
  ~Fault() {
    ::unsetenv("LD_PRELOAD");
    ::unsetenv("ORRERY_FAULT");
  }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

bool sanitized() {
#ifdef __SANITIZE_ADDRESS__
  tests::skipped("faults of the system, since the sanitizer has to be the first library that is loaded");
  return true;
#else
  return false;
#endif
}

Outcome with_fault(const std::string& fault, const std::vector<std::string>& words) {
  const Fault at(fault);
  return tests::orrery(words);
}

std::size_t files_in(const Folder& folder) {
  const std::filesystem::directory_iterator files(folder.path());
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

/// Exit status 0, or 2 with one line: what a user can understand.
void check_end(const Outcome& outcome) {
  INFO(outcome.err);
  CHECK((outcome.status == 0 || outcome.status == 2));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == (outcome.status == 0 ? 0 : 1));
}

}  // namespace

TEST_CASE("an output whose write, synchronisation or renaming fails is the old file, and the line says so") {
  if (sanitized()) return;
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", tests::small_scenario()), out = folder.write("out.json", "old");
  REQUIRE(tests::orrery({"run", scenario, "--json", folder.file("new.json")}).status == 0);
  const std::size_t whole = tests::read_file(folder.file("new.json")).size();
  std::filesystem::remove(folder.file("new.json"));
  int failed = 0;
  for (const char* call : {"write", "fsync", "rename"}) {
    for (const char* error : {"ENOSPC", "EIO"}) {
      for (int number = 1; number <= 4; ++number) {
        INFO(call << " " << number << " " << error);
        folder.write("out.json", "old");
        const Outcome outcome =
            with_fault(fmt::format("{}:{}:{}", call, number, error), {"run", scenario, "--json", out, "--quiet"});
        check_end(outcome);
        const std::string text = tests::read_file(out);
        CHECK(outcome.status == (text == "old" ? 2 : 0));
        CHECK((text == "old" || text.size() + 100 > whole));  // `wall_s` has as many digits as it likes
        CHECK(files_in(folder) == 2);
        failed += outcome.status == 2 ? 1 : 0;
        if (outcome.status == 2) CHECK(outcome.err.find("out.json") != std::string::npos);
      }
    }
  }
  CHECK(failed >= 6);  // the first write, fsync and rename at least
}

TEST_CASE("calls that are interrupted, or do a part of their work, are made again: the same bytes") {
  if (sanitized()) return;
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", tests::small_scenario("data: 4, ", ""));
  const auto table = [&](const std::string& name) {
    return std::vector<std::string>{
        "sweep", scenario, "--vary", "parallelism.tensor=1,2,4", "--csv", folder.file(name), "--jobs", "2", "--quiet"};
  };
  REQUIRE(tests::orrery(table("whole.csv")).status == 0);
  const std::string whole = tests::read_file(folder.file("whole.csv"));
  for (const char* fault : {"write:1:EINTR", "write:2:EINTR", "write:5:EINTR", "write:1:short", "write:3:short",
                            "read:1:EINTR", "read:7:EINTR", "read:1:short", "read:20:short"}) {
    INFO(fault);
    const Outcome outcome = with_fault(fault, table("part.csv"));
    check_end(outcome);
    CHECK(outcome.status == 0);
    CHECK(tests::read_file(folder.file("part.csv")) == whole);
  }
}

TEST_CASE("a sweep whose disk fills up at any write keeps its whole rows, and goes on to the same bytes") {
  if (sanitized()) return;
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", tests::small_scenario("data: 4, ", ""));
  const std::string file = folder.file("t.csv");
  const std::vector<std::string> words{
      "sweep", scenario, "--vary", "parallelism.tensor=1,2,4", "--vary", "batch.micro=1,2", "--jobs", "1", "--quiet"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  REQUIRE(tests::orrery(with({"--csv", file})).status == 0);
  const std::string whole = tests::read_file(file);
  int failed = 0;
  for (int number = 1; number <= 10; ++number) {
    INFO("write " << number);
    std::filesystem::remove(file);
    const Outcome full = with_fault(fmt::format("write:{}:ENOSPC", number), with({"--csv", file}));
    check_end(full);
    failed += full.status == 2 ? 1 : 0;
    const bool begun = std::filesystem::exists(file);
    REQUIRE(tests::orrery(with({begun ? "--resume" : "--csv", file})).status == 0);
    CHECK(tests::read_file(file) == whole);
    CHECK(files_in(folder) == 2);
  }
  CHECK(failed >= 6);  // each of the rows
}

TEST_CASE("memory that ends, wherever it does, is one line and leaves a whole file, old or new") {
  if (sanitized()) return;
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", tests::small_scenario()), out = folder.write("out.json", "old");
  // The first few hundred are made before the program's own first statement.
  int ended = 0;
  for (int number = 600; number < 40'000; number = number * 11 / 10 + 7) {
    INFO("allocation " << number);
    const Outcome outcome =
        with_fault(fmt::format("memory:{}:EIO", number), {"run", scenario, "--json", out, "--quiet"});
    check_end(outcome);
    if (outcome.status == 0 && ended > 6) break;  // it makes no more than that
    ++ended;
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find("memory") != std::string::npos);
    // What is finished stays: the text that is printed behind the file may end for want of memory too.
    const std::string left = tests::read_file(out);
    CHECK((left == "old" || nlohmann::json::accept(left)));
    CHECK(files_in(folder) == 2);
  }
}
