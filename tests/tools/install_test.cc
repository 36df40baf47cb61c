// Does an installed tree work by itself: the program with its data, and a program of somebody else that finds the
// library with find_package? The Debian packages take longer: tools/check_package installs them into a bare root.
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>

#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/tools/program.h"

using namespace orrery;
using tests::Folder;

namespace {

namespace fs = std::filesystem;

/// Runs a shell command without ORRERY_HOME; what it prints.
struct Ran {
  int status = -1;
  std::string out;
};
Ran sh(const Folder& folder, const std::string& command) {
  const std::string out = folder.file("sh.out");
  const int status = std::system(fmt::format("( unset ORRERY_HOME; {} ) > '{}' 2>&1", command, out).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, tests::read_file(out)};
}

}  // namespace

TEST_CASE("an installed tree: the program finds its data, manual and completions lie where they belong",
          "[full-size]") {
  const Folder folder;
  const std::string root = folder.file("usr");
  const Ran installed = sh(folder, fmt::format("'{}' --install '{}' --prefix '{}' --component program", tests::kCmake,
                                               tests::kBuildDir, root));
  INFO(installed.out);
  REQUIRE(installed.status == 0);
  const Ran run = sh(folder, fmt::format("cd / && '{}/bin/orrery' run gpt3-6.7b-h100", root));
  INFO(run.out);
  CHECK(run.status == 0);
  // The same answer as the built program's; above it stands how long the simulation took.
  const auto answer = [](const std::string& text) {
    return text.substr(std::min(text.find("Time and rates"), text.size()));
  };
  CHECK(answer(run.out).size() > 100);
  CHECK(answer(run.out) == answer(sh(folder, fmt::format("cd / && '{}' run gpt3-6.7b-h100", tests::kProgram)).out));
  CHECK(fs::exists(root + "/share/orrery/calibration/profiles/h100-sxm-80gb.yaml"));
  CHECK(fs::exists(root + "/share/man/man1/orrery-run.1.gz"));
  CHECK(fs::exists(root + "/share/man/man5/orrery-scenario.5.gz"));
  CHECK(tests::read_file(root + "/share/bash-completion/completions/orrery") ==
        tests::orrery({"completion", "bash"}).out);
  // How sure advice is comes from the published rows.
  CHECK(fs::exists(root + "/share/orrery/scenarios/published/residuals.csv"));
  const Ran advice = sh(folder, fmt::format("cd / && '{}/bin/orrery' advise gpt3-6.7b-h100 --top 1", root));
  CHECK(advice.out.find("pairs of published layouts") != std::string::npos);
  // Data alone: no sources, no tests.
  for (const auto& entry : fs::recursive_directory_iterator(root + "/share/orrery")) {
    const bool residuals = entry.path().filename() == "residuals.csv";
    if (entry.is_regular_file() && !residuals) CHECK(entry.path().extension() == ".yaml");
  }
}

TEST_CASE("a program of its own finds the installed library, links it and runs", "[full-size]") {
  const Folder folder;
  const std::string root = folder.file("usr"), build = folder.file("build");
  for (const char* component : {"program", "library"}) {
    const Ran installed = sh(folder, fmt::format("'{}' --install '{}' --prefix '{}' --component {}", tests::kCmake,
                                                 tests::kBuildDir, root, component));
    INFO(installed.out);
    REQUIRE(installed.status == 0);
  }
  // With the generator and the compiler of this build: no other need be installed.
  const Ran built =
      sh(folder, fmt::format("'{0}' -S '{1}/docs/example' -B '{2}' -G '{3}' -DCMAKE_CXX_COMPILER='{4}' "
                             "-DCMAKE_PREFIX_PATH='{5}' && '{0}' --build '{2}'",
                             tests::kCmake, tests::kSourceDir, build, tests::kGenerator, tests::kCxxCompiler, root));
  INFO(built.out);
  REQUIRE(built.status == 0);
  const Ran run = sh(folder, fmt::format("cd / && ORRERY_HOME='{}/share/orrery' '{}/layouts'", root, build));
  INFO(run.out);
  CHECK(run.status == 0);
  CHECK(run.out.find("parallelism.tensor=2: ") != std::string::npos);
  CHECK(run.out.find("parallelism.tensor=4: ") != std::string::npos);
  // The header stands alone: the standard library is all that it needs.
  const std::string header = tests::read_file(root + "/include/orrery/orrery.h");
  CHECK(header.find("#include \"") == std::string::npos);
}
