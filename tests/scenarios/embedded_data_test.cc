// Are the documents inside a program that is one file unpacked as they were packed, once, and anew where some are gone?
#include "scenarios/embedded_data.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

/// Packed by the system's own tar.
std::string packed(const fs::path& folder, const fs::path& archive) {
  const std::string command = "tar -C '" + folder.string() + "' --format=ustar -czf '" + archive.string() + "' .";
  REQUIRE(std::system(command.c_str()) == 0);
  return tests::read_file(archive);
}

}  // namespace

TEST_CASE("what tar packed is unpacked byte by byte, and again only where something is missing") {
  const tests::Folder folder;
  const fs::path from = folder.path() / "from", cache = folder.path() / "cache";
  const std::string deep = "calibration/" + std::string(60, 'd') + "/" + std::string(60, 'e') + "/long.yaml";
  const std::vector<std::pair<std::string, std::string>> files = {{"scenarios/a.yaml", "one: 1\n"},
                                                                  {"empty.yaml", ""},
                                                                  {"block.yaml", std::string(512, 'x')},
                                                                  {"zeros.yaml", std::string(1000, '\0')},
                                                                  {deep, std::string(100'000, 'y')}};
  for (const auto& [name, text] : files) write(from / name, text);
  const std::string archive = packed(from, folder.path() / "data.tar.gz");

  const fs::path unpacked = scenarios::unpacked_in(cache, archive);
  for (const auto& [name, text] : files) CHECK(tests::read_file(unpacked / name) == text);
  CHECK(std::distance(fs::directory_iterator(cache), {}) == 1);  // nothing temporary is left

  write(unpacked / "a note of the user's", "stays");
  CHECK(scenarios::unpacked_in(cache, archive) == unpacked);
  CHECK(fs::exists(unpacked / "a note of the user's"));
  write(unpacked / "scenarios/a.yaml", "");  // cut short
  CHECK(scenarios::unpacked_in(cache, archive) == unpacked);
  CHECK(tests::read_file(unpacked / "scenarios/a.yaml") == "one: 1\n");
  CHECK(std::distance(fs::directory_iterator(cache), {}) == 1);
}

TEST_CASE("another archive lies beside the first, and a broken one is our mistake") {
  const tests::Folder folder;
  write(folder.path() / "a" / "x.yaml", "1");
  write(folder.path() / "b" / "x.yaml", "2");
  const std::string a = packed(folder.path() / "a", folder.path() / "a.gz"),
                    b = packed(folder.path() / "b", folder.path() / "b.gz");
  CHECK(scenarios::unpacked_in(folder.path() / "cache", a) != scenarios::unpacked_in(folder.path() / "cache", b));
  for (const std::string& broken : {std::string(), std::string("no archive"), a.substr(0, a.size() / 2)})
    CHECK_THROWS_AS(scenarios::unpack(broken, folder.path() / "broken"), sim::InternalError);
  // A place that is no folder: nothing can be written.
  write(folder.path() / "file", "");
  CHECK_THROWS_AS(scenarios::unpacked_in(folder.path() / "file", a), fs::filesystem_error);
}
