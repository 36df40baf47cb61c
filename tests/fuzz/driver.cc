// Runs mutations of each target's inputs in any build, without a compiler's help: `orrery_fuzz --seconds 10`. Inputs
// run in a child process, thousands in each, so that one that crashes, waits or fills the memory ends that process
// alone; the input then lies in --out, to be run again by --input. Prints a row per target. Exit status: 0 nothing was
// found, 1 something was, 2 the words are wrong.
// Left out: coverage, which tools/fuzz prints by way of libFuzzer.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "sim/error.h"
#include "sim/hash.h"
#include "tests/fuzz/mutation.h"
#include "tests/fuzz/target.h"

namespace {

using namespace orrery::fuzz;
using Clock = std::chrono::steady_clock;

#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
/// Of CPU time, for one input. Sanitizers take ten times as long.
constexpr int kPatience = kSanitized ? 60 : 5;
constexpr long kMostKiB = (kSanitized ? 3 : 1) << 20;  // beyond what the process had before its first input
constexpr std::uint64_t kInputsOfAChild = 20'000;
constexpr std::size_t kMostFindings = 10;  // of one target

struct Options {
  double seconds = 10;
  std::uint64_t executions = 0;  // 0: by `seconds`
  std::uint64_t seed = 1;
  std::vector<std::string> targets;
  std::string out = "fuzz-findings", corpus, input, write_seeds;
  bool list = false;
};

/// What a child leaves to its parent.
struct Shared {
  std::uint64_t executions, refused;
  double slowest_s;
  long kib;
  char message[512];
  std::size_t size;
  char bytes[kLargestInput];
};

Shared& shared() {
  static auto* memory =
      static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *memory;
}

long peak_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// Of CPU time, so that a busy machine is no finding; and of the clock, twelve times as much, for what sleeps.
void set_patience(int seconds) {
  const itimerval cpu{{0, 0}, {seconds, 0}}, wall{{0, 0}, {12 * seconds, 0}};
  ::setitimer(ITIMER_PROF, &cpu, nullptr);
  ::setitimer(ITIMER_REAL, &wall, nullptr);
}

/// Empty where the input was read or refused.
std::string finding_of(const Target& target, const std::string& bytes, bool& refused, std::string* refusal = nullptr) {
  try {
    target.read(bytes);
  } catch (const orrery::sim::UserError& error) {
    refused = true;
    if (refusal != nullptr) *refusal = error.what();
    if (std::strpbrk(error.what(), "\n\r\x1b") != nullptr) return "a refusal of more than a line";
    if (*error.what() == '\0') return "a refusal without a word";
  } catch (const std::exception& error) {
    return *error.what() == '\0' ? "an exception without a word" : error.what();
  }
  return {};
}

/// The part of a child; does not return.
[[noreturn]] void run_inputs(const Target& target, const std::vector<std::string>& inputs, std::uint64_t seed,
                             std::uint64_t most, Clock::time_point end) {
  Mutation mutation(inputs, seed);
  if (!kSanitized) {
    constexpr rlim_t kMostBytes = rlim_t{4} << 30;  // of addresses; what is used of them is counted below
    const rlimit limit{kMostBytes, kMostBytes};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  const long before = peak_kib();
  for (std::uint64_t i = 0; i < most && Clock::now() < end; ++i) {
    // The first child begins with the inputs themselves.
    const bool first = seed == 0 && i < inputs.size();
    const std::string bytes = first ? inputs[i].substr(0, kLargestInput) : mutation.next();
    shared().size = bytes.size();
    std::memcpy(shared().bytes, bytes.data(), bytes.size());
    set_patience(kPatience);
    const Clock::time_point begin = Clock::now();
    bool refused = false;
    std::string finding = finding_of(target, bytes, refused);
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    const long kib = peak_kib() - before;
    if (finding.empty() && kib > kMostKiB) finding = fmt::format("{} MiB", kib >> 10);
    if (!finding.empty()) {
      std::strncpy(shared().message, finding.c_str(), sizeof(Shared::message) - 1);
      ::_exit(3);
    }
    ++shared().executions;
    shared().refused += refused ? 1 : 0;
    shared().slowest_s = std::max(shared().slowest_s, took);
    shared().kib = std::max(shared().kib, kib);
  }
  ::_exit(0);
}

std::string end_of(int status) {
  if (WIFEXITED(status)) return shared().message[0] != '\0' ? shared().message : "exit";
  const int signal = WTERMSIG(status);
  if (signal == SIGPROF || signal == SIGALRM) return fmt::format("more than {} s", kPatience);
  return fmt::format("signal {}", ::strsignal(signal));
}

/// An input that is found again has the same name.
std::string name_of(const std::string& bytes) {
  return fmt::format("{:016x}", orrery::sim::Fnv1a().add_text(bytes).value());
}

/// The files of a further corpus.
void add_files(const std::string& corpus, const Target& target, std::vector<std::string>& inputs) {
  if (corpus.empty()) return;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(corpus) / target.name, none)) {
    std::ifstream in(entry.path(), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
}

/// Of a target whose own inputs are all refused nothing would be tried but its refusals.
bool reads_any(const Target& target) {
  for (const std::string& bytes : target.seeds()) {
    bool refused = false;
    if (finding_of(target, bytes, refused).empty() && !refused) return true;
  }
  return false;
}

/// How many findings there were.
std::size_t fuzz(const Target& target, const Options& options) {
  std::vector<std::string> inputs = inputs_of(target);
  add_files(options.corpus, target, inputs);
  std::memset(&shared(), 0, sizeof(Shared));
  const Clock::time_point begin = Clock::now();
  constexpr double kDays = 7 * 86'400;
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(options.executions > 0 ? kDays : options.seconds));
  std::size_t findings = 0;
  std::fflush(nullptr);
  const pid_t first = ::fork();
  if (first == 0) ::_exit(reads_any(target) ? 0 : 3);
  int read = 0;
  ::waitpid(first, &read, 0);
  if (!WIFEXITED(read) || WEXITSTATUS(read) != 0) {
    ++findings;
    fmt::print("found {}: it reads none of its own inputs\n", target.name);
  }
  for (std::uint64_t round = 0; findings < kMostFindings && Clock::now() < end; ++round) {
    std::uint64_t most = kInputsOfAChild;
    if (options.executions > 0) {
      if (shared().executions >= options.executions) break;
      most = std::min(most, options.executions - shared().executions);
    }
    shared().message[0] = '\0';
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) run_inputs(target, inputs, round == 0 ? 0 : 1'000'003 * options.seed + round, most, end);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    ++findings;
    const std::string bytes(shared().bytes, shared().size);
    const std::string file = fmt::format("{}/{}-{}", options.out, target.name, name_of(bytes));
    std::filesystem::create_directories(options.out);
    std::ofstream(file, std::ios::binary) << bytes;
    fmt::print("found {}: {}\n", file, end_of(status));
  }
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  fmt::print("{:<20} {:>10} executions {:>8.0f}/s {:>5.1f} % refused, slowest {:.2f} s, {:>4} MiB more, {} found\n",
             target.name, shared().executions, static_cast<double>(shared().executions) / std::max(took, 1e-9),
             100.0 * static_cast<double>(shared().refused) /
                 static_cast<double>(std::max<std::uint64_t>(shared().executions, 1)),
             shared().slowest_s, shared().kib >> 10, findings);
  std::fflush(stdout);
  return findings;
}

int run_one_input(const Target& target, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  bool refused = false;
  std::string refusal;
  const std::string finding = finding_of(target, bytes, refused, &refusal);
  fmt::print("{}\n", !finding.empty() ? "found: " + finding : refused ? "refused: " + refusal : "read");
  return finding.empty() ? 0 : 1;
}

/// The first inputs of every target as files, for libFuzzer: FOLDER/<target>/<number>.
void write_seeds(const std::vector<const Target*>& chosen, const std::string& folder) {
  for (const Target* target : chosen) {
    const std::filesystem::path into = std::filesystem::path(folder) / target->name;
    std::filesystem::create_directories(into);
    std::size_t number = 0;
    for (const std::string& bytes : inputs_of(*target))
      std::ofstream(into / fmt::format("seed-{}", number++), std::ios::binary) << bytes;
  }
}

int run(const Options& options) {
  std::vector<const Target*> chosen;
  for (const std::string& name : options.targets) chosen.push_back(&target_of(name));
  if (options.targets.empty()) {
    for (const Target& target : targets()) chosen.push_back(&target);
  }
  if (options.list) {
    for (const Target* target : chosen) fmt::print("{:<20} {}\n", target->name, target->reads);
    return 0;
  }
  if (!options.write_seeds.empty()) {
    write_seeds(chosen, options.write_seeds);
    return 0;
  }
  if (!options.input.empty()) return run_one_input(*chosen.front(), options.input);
  std::size_t findings = 0;
  for (const Target* target : chosen) findings += fuzz(*target, options);
  return findings == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Mutates inputs of every reader and runs them");
  app.add_option("targets", options.targets, "names of targets (default: all)");
  app.add_option("--seconds", options.seconds, "for each target (default 10)")->check(CLI::Range(0.1, 1e6));
  app.add_option("--executions", options.executions, "for each target, in place of --seconds");
  app.add_option("--seed", options.seed, "of the mutations (default 1)");
  app.add_option("--out", options.out, "folder for inputs that are findings (default fuzz-findings)");
  app.add_option("--corpus", options.corpus, "folder with more inputs, FOLDER/<target>/<file>");
  app.add_option("--input", options.input, "run this file alone, as input of the first target named");
  app.add_option("--write-seeds", options.write_seeds, "write the first inputs to this folder, and stop");
  app.add_flag("--list", options.list, "print the targets, and stop");
  try {
    app.parse(argc, argv);
    return run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
