// Software generations: the shipped ones load through their inheritance; unknown and absurd values are refused; what is
// fitted is what calibration/fitted.yaml says; every shipped feature has a source, a user and an effect.
#include <algorithm>
#include <map>
#include <set>

#include "calibration/device/keys.h"
#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::scenarios::parse_yaml;
using orrery::scenarios::read_yaml;
using orrery::sim::Settings;
using orrery::sim::UserError;

std::string complaint(const std::string& yaml) {
  try {
    load_software(parse_yaml(yaml, "test.yaml"));
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

Settings shipped(const std::string& folder, const std::string& name) {
  return read_yaml(source("calibration/" + folder + "/" + name + ".yaml"));
}

/// A key and its value as a document holds them: recipe.loss below recipe.
std::string written(const std::string& key, const std::string& value) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return key + ": " + value + "\n";
  std::string below = written(key.substr(dot + 1), value);
  below.pop_back();
  return key.substr(0, dot) + ": {" + below + "}\n";
}

std::vector<RecipePart> all_parts() {
  std::vector<RecipePart> parts;
  for (std::size_t i = 0; i < kRecipeParts; ++i) parts.push_back(static_cast<RecipePart>(i));
  return parts;
}

/// What a feature sets, those of recipes as recipe.<part>.
std::map<std::string, std::string> keys_set(const Settings& sets) {
  std::map<std::string, std::string> keys;
  if (!sets.is_mapping()) return keys;
  for (const auto& [key, value] : sets.members()) {
    if (!value.is_mapping()) keys[key] = value.text();
    for (const auto& [below, text] : keys_set(value)) keys[key + "." + below] = text;
  }
  return keys;
}

/// The names in a list of a document; none where there is no list.
std::set<std::string> listed(const Settings& document, const char* key) {
  std::set<std::string> names;
  if (const Settings* list = document.find(key)) {
    for (const Settings& item : list->items()) names.insert(item.text());
  }
  return names;
}

}  // namespace

TEST_CASE("every shipped generation loads under its own name with a provenance") {
  const auto names = names_in("calibration/software");
  CHECK(names.size() >= 19);
  for (const std::string& name : names) {
    const Software s = load_software(generation(name).document);
    INFO(name);
    CHECK(s.name == name);
    CHECK_FALSE(s.provenance.empty());
    CHECK(s.host.kernel_issue > orrery::sim::Duration{});
    CHECK(s.library.collective_step_ring > orrery::sim::Duration{});
  }
}

TEST_CASE("a generation keeps what it does not override") {
  const Software older = load_software(generation("megatron-2022").document);
  const Software newer = load_software(generation("megatron-2023").document);
  CHECK(older.defaults.attention == AttentionKind::unfused);
  CHECK(newer.defaults.attention == AttentionKind::flash);
  CHECK(newer.defaults.sequence_parallel == older.defaults.sequence_parallel);
  CHECK(newer.library.collective_step_ring == older.library.collective_step_ring);
}

TEST_CASE("software: unknown keys and absurd values are refused at their place") {
  CHECK(complaint("name: x\nkernel_isue: 5 us\n").find("kernel_issue") != std::string::npos);
  CHECK(complaint("name: x\nkernel_issue: 5\n").find("test.yaml:2") != std::string::npos);
  CHECK(complaint("name: x\nkernel_issue: -1 us\n").find("kernel_issue") != std::string::npos);
  CHECK(complaint("name: x\nattention: flush\n").find("flash") != std::string::npos);
  CHECK(complaint("name: x\ncompute_slowdown_under_collective: 0.9\n").find("compute_slowdown") != std::string::npos);
  CHECK(complaint("name: x\ngradient_bucket: 9 EB\n").find("gradient_bucket") != std::string::npos);
  CHECK(complaint("name: x\ninherits: y\n").find("inherits") != std::string::npos);
  CHECK(complaint("kernel_issue: 5 us\n").find("name") != std::string::npos);
  CHECK(complaint("name: x\n").empty());
}

TEST_CASE("every documented software key is read") {
  // A sequence is no value of any key but `facts`, so each of the others must complain when it is given one.
  for (const orrery::sim::Key& doc : software_keys()) {
    if (doc.path == "facts" || doc.path == "offers" || doc.type == "text") continue;
    INFO(doc.path);
    CHECK_FALSE(complaint("name: x\n" + written(doc.path, "[1, 2]")).empty());
  }
}

TEST_CASE("the choices of every software key are its values, and no other word is") {
  for (const orrery::sim::Key& doc : software_keys()) {
    INFO(doc.path);
    CHECK((doc.type == "choice") == (!doc.choices.empty() && doc.type != "list"));
    for (const std::string& choice : doc.choices) {
      const std::string value = doc.type == "list" ? "[" + choice + "]" : choice;
      CHECK(complaint("name: x\n" + written(doc.path, value)).empty());
    }
    if (!doc.choices.empty()) CHECK_FALSE(complaint("name: x\n" + written(doc.path, "[nonsense]")).empty());
  }
}

TEST_CASE("what a generation says is fitted is what fitted.yaml names, and nothing else is") {
  // (generation, key), once from the list of fits and once from the blocks.
  std::set<std::pair<std::string, std::string>> fits, blocks;
  const Settings known = read_yaml(source("calibration/fitted.yaml"));
  for (const Settings& fit : known.items()) {
    CHECK_FALSE(fit.at("records").items().empty());
    for (const Settings& parameter : fit.at("parameters").items()) {
      const std::string key = parameter.at("key").text(), document = parameter.at("document").text();
      INFO(document << " " << key);
      const std::string place = orrery::scenarios::document_key(parameter.at("key")).key;
      if (key.starts_with("software.")) CHECK(fits.emplace(document, place).second);
    }
  }
  for (const std::string& name : names_in("calibration/software")) {
    const Settings document = shipped("software", name);
    const Generation resolved = generation(name);
    const Settings* fitted = document.find("fitted");
    if (fitted == nullptr) continue;
    for (const auto& [key, value] : fitted->members()) {
      INFO(name << " " << key);
      const std::string place = present_key(key);
      blocks.emplace(name, place);
      REQUIRE(resolved.document.find_path(place) != nullptr);
      CHECK(resolved.document.find_path(place)->text() == value.text());
      REQUIRE(resolved.source_of(place) != nullptr);
      CHECK(text(*resolved.source_of(place)) == "fitted, " + name);
    }
  }
  CHECK(fits.size() >= 10);
  CHECK(fits == blocks);
}

TEST_CASE("every shipped feature has its name, a meaning, a source, and a generation that lists it") {
  std::set<std::string> used;
  for (const std::string& name : names_in("calibration/software"))
    used.merge(listed(shipped("software", name), "features"));
  const auto features = names_in("calibration/features");
  CHECK(features.size() > 40);
  CHECK(used == std::set<std::string>(features.begin(), features.end()));
  std::set<std::string> all_sets;
  for (const std::string& name : features) {
    INFO(name);
    const Settings document = shipped("features", name);
    const Feature feature = read_feature(document);
    CHECK(feature.name == name);
    CHECK(feature.meaning.ends_with("."));
    CHECK(document.at("source").text().size() > 10);
    for (const std::string& other : feature.overrides)
      CHECK(std::find(features.begin(), features.end(), other) != features.end());
    // No two files are the same cause.
    std::string sets;
    for (const auto& [key, value] : keys_set(feature.sets)) sets += key + "=" + value + ";";
    CHECK(all_sets.insert(sets).second);
  }
}

TEST_CASE("every shipped feature sets something that is not so without it") {
  std::map<std::string, std::string> defaults;
  for (const orrery::sim::Key& doc : software_keys()) defaults[doc.path] = doc.fallback;
  for (const std::string& name : names_in("calibration/features")) {
    INFO(name);
    const Feature feature = read_feature(shipped("features", name));
    for (const RecipePart part : all_parts())
      defaults["recipe." + std::string(name_of(part))] = orrery::scenarios::recipe_book().usual(part)->variant;
    const std::map<std::string, std::string> sets = keys_set(feature.sets), absent = keys_set(feature.absent);
    CHECK(std::any_of(sets.begin(), sets.end(), [&](const auto& key) {
      const auto without = absent.find(key.first);
      return key.second != (without != absent.end() ? without->second : defaults.at(key.first));
    }));
  }
}

TEST_CASE("every shipped collective library has its name, a meaning and a source, and is used") {
  std::set<std::string> used;
  for (const std::string& name : names_in("calibration/software")) {
    const Settings document = shipped("software", name);
    if (const Settings* library = document.find("collectives")) used.insert(library->text());
    // A generation that inherits nothing has to say which it runs on.
    CHECK((document.find("inherits") != nullptr || document.find("collectives") != nullptr));
  }
  const auto libraries = names_in("calibration/collectives");
  CHECK(used == std::set<std::string>(libraries.begin(), libraries.end()));
  for (const std::string& name : libraries) {
    const Settings document = shipped("collectives", name);
    CHECK(document.at("name").text() == name);
    CHECK_FALSE(document.at("meaning").text().empty());
    CHECK_FALSE(document.at("source").text().empty());
  }
}
