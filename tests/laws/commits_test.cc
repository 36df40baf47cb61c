// What a commit may change together with what it adds, by the history of the sources: a framework's habit is a file of
// data, so that the commit which adds one touches no header. Commits before the rule are left alone, and so is a tree
// without its history.
#include <fmt/format.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"
#include "tests/paths.h"

namespace {

constexpr std::string_view kCommit = "commit ", kAdded = "A\tcalibration/features/";

/// Commits of `log`, as git log --name-status prints it behind "commit HASH", that add a feature and change a header.
std::vector<std::string> features_with_headers(const std::string& log) {
  std::vector<std::string> found;
  std::string commit;
  bool adds = false, header = false;
  const auto close = [&] {
    if (adds && header) found.push_back(commit);
    adds = header = false;
  };
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kCommit)) {
      close();
      commit = line.substr(kCommit.size());
    }
    adds = adds || line.starts_with(kAdded);
    header = header || (line.ends_with(".h") && line.find('\t') != std::string::npos);
  }
  close();
  return found;
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  pclose(pipe);
  return text;
}

}  // namespace

TEST_CASE("a commit that adds a feature changes no header", "[tree]") {
  const std::string log =
      "commit one\nA\tcalibration/features/a.yaml\nM\tcalibration/software/b.yaml\n"
      "commit two\nM\tcalibration/features/a.yaml\nM\tcalibration/framework/software.h\n"
      "commit three\nM\tworkloads/job/job.h\nA\tcalibration/features/c.yaml\n";
  CHECK(features_with_headers(log) == std::vector<std::string>{"three"});
  // The rule stands from December 2026 on.
  const std::string history =
      output_of(fmt::format("git -C '{}' log --since=2026-12-01T00:00:00Z --no-merges --no-renames --name-status "
                            "--format='commit %h %s' 2>/dev/null",
                            orrery::tests::kSourceDir));
  CHECK(features_with_headers(history) == std::vector<std::string>{});
}
