// Do studies that are killed at random moments come to the same bytes when they are resumed, or begun again? A few
// times in the suite; ORRERY_KILLS=500 tools_test "studies that are killed*" for as many as one likes.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/tools/program.h"
#include "tools/parallel.h"
#include "tools/study/best_first.h"
#include "tools/study/crew.h"

using namespace orrery;
using tests::Folder;
using Clock = std::chrono::steady_clock;

namespace {

/// One kind of study: what begins it, what goes on with it, and what it leaves.
struct Study {
  std::string name;
  std::vector<std::string> begin, resume;
  std::vector<std::string> results;  // files that must come to the same bytes
  std::string journal;               // that its rows go to; empty: it has none and begins again
};

struct Counts {
  int runs = 0, killed = 0, torn = 0;
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Runs to the end, or to a kill after `at_most` seconds; the exit status, or 128 + signal.
int run(const std::vector<std::string>& words, double at_most, int signal) {
  const pid_t child = tests::spawn_orrery(words);
  REQUIRE(child > 0);
  const Clock::time_point begin = Clock::now();
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (seconds_since(begin) > at_most) {
      ::kill(child, signal);
      ::waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string contents(const std::vector<std::string>& files) {
  std::string all;
  for (const std::string& file : files) all += tests::read_file(file);
  return all;
}

/// Kills the study up to three times, each time after a part of `whole_s`, tears its last row apart now and then, and
/// lets it end.
void kill_and_resume(const Study& study, double whole_s, std::mt19937_64& random, Counts& counts) {
  const auto part = [&] { return static_cast<double>(random() % 1000) / 1000; };
  bool begun = false;
  for (const std::string& file : study.results) std::filesystem::remove(file);
  if (!study.journal.empty()) std::filesystem::remove(study.journal);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const int signal = random() % 4 == 0 ? SIGINT : random() % 3 == 0 ? SIGTERM : SIGKILL;
    const int status = run(begun ? study.resume : study.begin, 1.05 * whole_s * part(), signal);
    ++counts.runs;
    counts.killed += status > 128 ? 1 : 0;
    INFO("exit status " << status);
    CHECK((status == 0 || status > 128));
    if (status == 0) return;
    begun = !study.journal.empty() && std::filesystem::exists(study.journal);
    if (begun && random() % 3 == 0) {  // what a power cut leaves
      const auto size = std::filesystem::file_size(study.journal);
      std::filesystem::resize_file(study.journal, size - random() % std::min<std::uintmax_t>(size + 1, 200));
      ++counts.torn;
    }
  }
  CHECK(run(begun ? study.resume : study.begin, 1e9, SIGKILL) == 0);
}

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<Study> studies(const Folder& folder) {
  const std::string open = folder.write("open.yaml", tests::small_scenario("data: 4, ", ""));
  std::string few = tests::small_scenario("gpus: 16, gpus_per_node: 8", "gpus: 8, gpus_per_node: 4");
  few.replace(few.find("data: 4"), 7, "data: 2");
  few = folder.write("few.yaml", few);
  const std::string weeks =
      folder.write("weeks.yaml",
                   tests::small_scenario() + "campaign: {steps: 100000, failures: llama3-2024, repair: {spares: 1}}\n");
  const std::string table = folder.file("sweep.csv"), notes = folder.file("notes.csv"), best = folder.file("best.json");
  const std::string ends = folder.file("weeks.json"), page = folder.file("weeks.html");
  const std::string profile = folder.file("p.yaml"), samples = folder.file("p.csv");
  const std::vector<std::string> sweep{"sweep",  open,
                                       "--vary", "parallelism.tensor=1,2,3,4",
                                       "--vary", "batch.micro=1,2,4",
                                       "--vary", "model.layers=4:24:+2",
                                       "--jobs", "2"};
  const std::vector<std::string> search{"search", few, "--top", "3", "--json", best, "--resume", notes, "--jobs", "2"};
  const std::vector<std::string> campaign{"campaign", weeks, "--seeds", "200", "--json", ends, "--report", page};
  const std::vector<std::string> calibrate{"calibrate", "--module", tests::kFakeGpu, "--quick", "--out", profile};
  return {{"sweep", with(sweep, {"--csv", table}), with(sweep, {"--resume", table}), {table}, table},
          {"search", search, search, {best}, notes},
          {"campaign", campaign, campaign, {ends, page}, ""},
          {"calibrate", calibrate, with(calibrate, {"--resume"}), {profile, samples}, samples}};
}

}  // namespace

TEST_CASE("a search that is stopped before it has its bounds calls no layout infeasible and no answer whole") {
  const sim::Settings document = scenarios::parse_yaml(tests::small_scenario(), "small.yaml");
  tools::LayoutSpace space(document, {});
  const auto crew = tools::make_crew(1);
  const tools::InterruptGuard guard;
  std::raise(SIGINT);
  const tools::SearchResult result = tools::search_layouts(space, {}, *crew, 1);
  CHECK(!result.complete);
  CHECK(result.layouts > 4);
  CHECK(result.infeasible == 0);
  CHECK(result.best.empty());
  const tools::InterruptGuard forgotten;  // for the tests behind this one
}

TEST_CASE("studies that are killed at random moments come to the same bytes") {
  const char* asked = std::getenv("ORRERY_KILLS");
  const int kills = asked == nullptr ? 12 : std::atoi(asked);
  const Folder folder;
  ::setenv("ORRERY_FAKE_SLOW_MS", "1", 1);
  std::mt19937_64 random(20240611);
  Counts all;
  for (const Study& study : studies(folder)) {
    INFO(study.name);
    const Clock::time_point begin = Clock::now();
    REQUIRE(run(study.begin, 1e9, SIGKILL) == 0);
    const double whole_s = seconds_since(begin);
    const std::string whole = contents(study.results);
    REQUIRE(whole.size() > 200);
    Counts counts;
    while (counts.killed < kills / 4) {
      kill_and_resume(study, whole_s, random, counts);
      const bool same = contents(study.results) == whole;  // whole tables would be printed
      REQUIRE(same);
      REQUIRE(counts.runs < 20 * (kills + 10));  // a study that is over before it can be killed
    }
    std::printf("%s: %d runs, %d killed, %d torn, the same %zu bytes each time (%.2f s alone)\n", study.name.c_str(),
                counts.runs, counts.killed, counts.torn, whole.size(), whole_s);
    all.killed += counts.killed;
  }
  ::unsetenv("ORRERY_FAKE_SLOW_MS");
  CHECK(all.killed >= kills / 4 * 4);
}
