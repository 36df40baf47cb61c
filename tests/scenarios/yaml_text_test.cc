// Does YAML that the program writes read back as the same tree?
#include "scenarios/yaml_text.h"

#include <filesystem>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/paths.h"

using namespace orrery;

namespace {

bool same(const sim::Settings& a, const sim::Settings& b) {
  if (a.kind() != b.kind() || a.text() != b.text()) return false;
  if (a.items().size() != b.items().size() || a.members().size() != b.members().size()) return false;
  for (std::size_t i = 0; i < a.items().size(); ++i) {
    if (!same(a.items()[i], b.items()[i])) return false;
  }
  for (std::size_t i = 0; i < a.members().size(); ++i) {
    if (a.members()[i].first != b.members()[i].first || !same(a.members()[i].second, b.members()[i].second))
      return false;
  }
  return true;
}

sim::Settings again(const sim::Settings& document) {
  return scenarios::parse_yaml(scenarios::yaml_text(document), "again.yaml");
}

}  // namespace

TEST_CASE("every shipped scenario, profile and list reads back as it was") {
  std::size_t files = 0;
  for (const char* folder : {"/scenarios", "/calibration", "/tests/published"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(tests::kSourceDir + std::string(folder))) {
      if (entry.path().extension() != ".yaml") continue;
      INFO(entry.path().string());
      const sim::Settings document = scenarios::read_yaml(entry.path().string());
      CHECK(same(document, again(document)));
      ++files;
    }
  }
  CHECK(files > 20);
}

TEST_CASE("texts that look like something else stay texts") {
  sim::Settings document = sim::Settings::mapping({});
  const std::vector<std::string> texts = {
      "",    "~",   "null", "a: b", "- a",  "#",   "a # b", "{a}", "[",  "'",     "\"",   "\\",  "\t", "a\nb",
      "*x",  "&x",  "!t",   "%",    "@",    "`",   " a",    "a ",  "-",  "--- a", "...",  "? a", "|",  "\u00e9",
      "a,b", "1e5", "-1.5", "0x10", "true", "yes", "<<",    "a:",  ":a", "80 GB", "5 us", "=",   ">"};
  for (std::size_t i = 0; i < texts.size(); ++i)
    document.set("key " + std::to_string(i), sim::Settings::scalar(texts[i], {}, true));
  document.set("a: key", sim::Settings());
  document.set("empty mapping", sim::Settings::mapping({}));
  document.set("empty sequence", sim::Settings::sequence({}));
  CHECK(same(document, again(document)));
}
