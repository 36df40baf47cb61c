// Does an output file appear whole or not at all, and is an unwritable one the user's error?
#include "tools/report/output.h"

#include <ostream>
#include <stdexcept>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;
using tests::Folder;

namespace {
std::size_t files_in(const Folder& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : tests::fs::directory_iterator(folder.path())) ++count;
  return count;
}
}  // namespace

TEST_CASE("an output replaces the old file, and a symbolic link stays one") {
  const Folder folder;
  const std::string file = folder.write("out.json", "old"), link = folder.file("link.json");
  tests::fs::create_symlink(file, link);
  tools::write_output(link, [](std::ostream& out) { out << "new"; });
  CHECK(tests::read_file(file) == "new");
  CHECK(tests::fs::is_symlink(link));
  CHECK(files_in(folder) == 2);
}

TEST_CASE("when the writer fails the old file is untouched and nothing is left beside it") {
  const Folder folder;
  const std::string file = folder.write("out.json", "old");
  CHECK_THROWS_AS(tools::write_output(file,
                                      [](std::ostream& out) {
                                        out << "half";
                                        throw std::runtime_error("stop");
                                      }),
                  std::runtime_error);
  CHECK(tests::read_file(file) == "old");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("a full device, a folder and a missing folder are the user's errors") {
  const Folder folder;
  const auto write = [](std::ostream& out) { out << std::string(1 << 20, 'x'); };
  CHECK_THROWS_AS(tools::write_output("/dev/full", write), sim::UserError);
  CHECK_THROWS_AS(tools::write_output(folder.path().string(), write), sim::UserError);
  CHECK_THROWS_AS(tools::write_output(folder.file("missing/out.json"), write), sim::UserError);
  CHECK_THROWS_AS(tools::check_writable(folder.file("missing/out.json")), sim::UserError);
  CHECK_NOTHROW(tools::check_writable("-"));
  CHECK_NOTHROW(tools::write_output("/dev/null", write));
}
