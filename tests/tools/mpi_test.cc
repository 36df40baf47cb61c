// Do several ranks of mpirun make the table that one process makes, and does a rank that is killed lose nothing that
// was finished? Only in builds with MPI; others say so.
#ifndef ORRERY_MPI

#include "tests/catch.h"
#include "tests/skipped.h"

TEST_CASE("several ranks of mpirun are not of this build") {
  orrery::tests::skipped("built without MPI, so no study ran on several ranks; install libopenmpi-dev and openmpi-bin");
}

#else

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/thinned.h"
#include "tests/tools/program.h"

using namespace orrery;
using tests::Folder;
using tests::read_file;
using tests::small_scenario;

namespace {

/// mpirun refuses root and more ranks than cores unless told otherwise, and MPI leaks on purpose.
pid_t spawn_ranks(int ranks, std::vector<std::string> arguments, const std::vector<std::string>& options = {}) {
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
  ::setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 1);  // the same for Open MPI 5
  ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  std::vector<std::string> all{"-n", std::to_string(ranks)};
  all.insert(all.end(), options.begin(), options.end());
  all.emplace_back(tests::kProgram);
  all.insert(all.end(), arguments.begin(), arguments.end());
  return tests::spawn_orrery(all, tests::kMpirun);
}

int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string scenario_in(const Folder& folder) { return folder.write("s.yaml", small_scenario("data: 4, ", "")); }

std::size_t lines_in(const std::string& file) {
  const std::string text = read_file(file);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Waits until the file has so many lines; false when that takes two minutes.
bool has_lines(const std::string& file, std::size_t lines) {
  for (int look = 0; look < 60'000; ++look) {
    if (lines_in(file) >= lines) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

/// Processes whose parent is `parent`.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : tests::fs::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string pid, name, state;
    long from = 0;
    if (stat >> pid >> name >> state >> from && from == parent) children.push_back(std::stoi(pid));
  }
  std::sort(children.begin(), children.end());
  return children;
}

std::vector<std::string> long_sweep(const std::string& scenario) {
  return {"sweep", scenario, "--vary", "batch.global=16:960:+16"};
}

}  // namespace

TEST_CASE("a sweep on three ranks is that of one process") {
  const Folder folder;
  const std::string scenario = scenario_in(folder), one = folder.file("one.csv"), three = folder.file("three.csv");
  const std::string micro = tests::kThins ? "batch.micro=1" : "batch.micro=1,2,4";
  std::vector<std::string> sweep{"sweep",  scenario, "--vary", "parallelism.tensor=1,2,3",
                                 "--vary", micro,    "--csv",  one};
  REQUIRE(tests::orrery(sweep).status == 0);
  sweep.back() = three;
  REQUIRE(status_of(spawn_ranks(3, sweep)) == 0);
  CHECK(lines_in(one) == (tests::kThins ? 4 : 10));
  CHECK(read_file(three) == read_file(one));
}

TEST_CASE("a search on three ranks finds what one process finds", "[full-size]") {
  const Folder folder;
  const std::string scenario = scenario_in(folder), one = folder.file("one.json"), three = folder.file("three.json");
  REQUIRE(tests::orrery({"search", scenario, "--top", "5", "--json", one}).status == 0);
  REQUIRE(status_of(spawn_ranks(3, {"search", scenario, "--top", "5", "--json", three})) == 0);
  const auto a = nlohmann::json::parse(read_file(one)), b = nlohmann::json::parse(read_file(three));
  for (std::size_t i = 0; i < 5; ++i) CHECK(a["rows"][i]["set"] == b["rows"][i]["set"]);
}

TEST_CASE("a killed rank ends the job, as mpirun does, and --resume completes the same table", "[full-size]") {
  const Folder folder;
  const std::string scenario = scenario_in(folder), file = folder.file("t.csv"), whole = folder.file("whole.csv");
  std::vector<std::string> sweep = long_sweep(scenario);
  sweep.insert(sweep.end(), {"--csv", file});
  const pid_t mpirun = spawn_ranks(3, sweep);
  REQUIRE(mpirun > 0);
  REQUIRE(has_lines(file, 6));
  const std::vector<pid_t> ranks = children_of(mpirun);
  REQUIRE(ranks.size() >= 3);
  ::kill(ranks.back(), SIGKILL);
  CHECK(status_of(mpirun) != 0);
  const std::size_t kept = lines_in(file);
  CHECK(kept >= 6);
  sweep = long_sweep(scenario);
  sweep.insert(sweep.end(), {"--resume", file});
  REQUIRE(tests::orrery(sweep).status == 0);
  sweep = long_sweep(scenario);
  sweep.insert(sweep.end(), {"--csv", whole});
  REQUIRE(tests::orrery(sweep).status == 0);
  CHECK(read_file(file) == read_file(whole));
}

TEST_CASE("where mpirun lets the others live, rank 0 does a killed rank's points", "[full-size]") {
  const Folder folder;
  const std::string scenario = scenario_in(folder), file = folder.file("t.csv"), whole = folder.file("whole.csv");
  std::vector<std::string> sweep = long_sweep(scenario);
  sweep.insert(sweep.end(), {"--csv", file});
  const pid_t mpirun = spawn_ranks(3, sweep, {"--enable-recovery"});
  REQUIRE(mpirun > 0);
  REQUIRE(has_lines(file, 6));
  const std::vector<pid_t> ranks = children_of(mpirun);
  REQUIRE(ranks.size() >= 3);
  ::kill(ranks.back(), SIGKILL);
  status_of(mpirun);  // its own verdict on a job that lost a rank is not ours
  sweep.back() = whole;
  REQUIRE(tests::orrery(sweep).status == 0);
  CHECK(read_file(file) == read_file(whole));
}

#endif
