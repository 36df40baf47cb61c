// Is what was packed when the program was built what the files say, and is a file that somebody changed read as it
// stands?
#include "scenarios/packed_documents.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "calibration/device/keys.h"
#include "calibration/framework/generation.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "sim/packed_settings.h"
#include "sim/text_file.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/scenarios/told.h"

using namespace orrery;
using orrery::scenarios::packed_file;
using orrery::sim::Settings;
using orrery::tests::told;

namespace {

std::vector<std::string> shipped_files() {
  std::vector<std::string> files;
  for (const char* folder : {"scenarios", "calibration"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(tests::kSourceDir) / folder)) {
      if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// A folder for files that the test writes.
class OwnFolder {
 public:
  OwnFolder() { std::filesystem::create_directories(path_); }
  ~OwnFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_ = std::filesystem::temp_directory_path() / "orrery_packed_documents_test";
};

}  // namespace

TEST_CASE("what is packed is what the files say", "[packed]") {
  std::size_t files = 0, right = 0, features = 0;
  for (const std::string& file : shipped_files()) {
    INFO(file);
    const std::string text = sim::read_text(file, "a shipped file");
    const auto packed = packed_file(text);
    REQUIRE(packed.has_value());
    const Settings parsed = scenarios::parse_yaml(text, file), read = scenarios::read_yaml(file);
    const bool same = told(read) == told(parsed);  // not printed: megabytes
    CHECK(same);
    const bool same_bytes = sim::packed(read) == packed->bytes && sim::packed(parsed) == packed->bytes;
    CHECK(same_bytes);
    if (read.checked_as() == calibration::kCheckedProfile) {
      CHECK_NOTHROW(calibration::profile_keys().check(parsed));
      ++right;
    }
    if (read.checked_as() == calibration::kCheckedFeature) {
      const calibration::Feature one = calibration::read_feature(read), other = calibration::read_feature(parsed);
      CHECK(told(one.sets) == told(other.sets));
      CHECK(told(one.absent) == told(other.absent));
      ++features;
    }
    ++files;
  }
  CHECK(files > 400);
  CHECK(right > 8);
  CHECK(features > 30);
}

TEST_CASE("a changed file is read as it stands", "[packed]") {
  const OwnFolder folder;
  const std::string file = std::string(tests::kSourceDir) + "/calibration/profiles/h100-sxm-80gb.yaml";
  std::string text = sim::read_text(file, "a profile");
  // The same bytes at another place are the same document, of that place.
  const Settings copy = scenarios::read_yaml(folder.write("copy.yaml", text));
  CHECK(copy.checked_as() == calibration::kCheckedProfile);
  CHECK(copy.at("name").place().file.text().ends_with("/copy.yaml"));
  // One digit more, and it is another.
  const std::size_t at = text.find("processors: 132");
  REQUIRE(at != std::string::npos);
  text.insert(at + std::string("processors: 132").size(), "0");
  CHECK_FALSE(packed_file(text).has_value());
  const Settings changed = scenarios::read_yaml(folder.write("changed.yaml", text));
  CHECK(changed.checked_as().empty());
  CHECK(changed.at("processors").as_int() == 1320);
}

TEST_CASE("what was found right stays so until it is changed or moved", "[packed]") {
  const Settings document = scenarios::parse_yaml("a: {b: [1, 2], c: x}\nd: {e: 1}\n", "t.yaml");
  const std::string bytes = sim::packed(document);
  const auto read = [&] { return sim::unpacked(bytes, "t.yaml", "right"); };
  Settings one = read();
  CHECK(one.checked_as() == "right");
  CHECK(one.at("a").at("b").checked_as() == "right");
  CHECK(one.at("a").at("c").checked_as().empty());  // of lists and mappings alone
  const Settings before = one;
  one.set_path("a.c", Settings::scalar("y", {}));
  CHECK(one.checked_as().empty());
  CHECK(one.at("a").checked_as().empty());
  CHECK(one.at("d").checked_as() == "right");  // nobody touched it
  CHECK(before.checked_as() == "right");       // a copy that shared what was changed
  Settings erased = read();
  erased.erase("z");  // there is none
  CHECK(erased.checked_as() == "right");
  erased.erase("d");
  CHECK(erased.checked_as().empty());
  Settings holder = Settings::mapping({});
  holder.set("inside", read());
  CHECK(holder.at("inside").checked_as().empty());
  CHECK(holder.at("inside").at("a").checked_as().empty());
  CHECK(sim::overlay(read(), scenarios::parse_yaml("a: {c: z}", "u.yaml")).checked_as().empty());
}

TEST_CASE("an archive finds texts by what they hold", "[packed]") {
  scenarios::PackedArchive archive;
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.push_back(std::string(static_cast<std::size_t>(i % 20), 'x') + std::to_string(i));
  for (const std::string& text : texts) archive.add(text, {"kind " + text, "packed " + text});
  const std::string bytes = archive.bytes();
  for (const std::string& text : texts) {
    const auto found = scenarios::packed_in(bytes, text);
    REQUIRE(found.has_value());
    CHECK(found->checked_as == "kind " + text);
    CHECK(found->bytes == "packed " + text);
  }
  CHECK_FALSE(scenarios::packed_in(bytes, "another").has_value());
  CHECK_FALSE(scenarios::packed_in(bytes, "").has_value());
  CHECK_FALSE(scenarios::packed_in(scenarios::PackedArchive{}.bytes(), "another").has_value());
  CHECK_THROWS_AS(scenarios::packed_in("short", "another"), sim::InternalError);
}
