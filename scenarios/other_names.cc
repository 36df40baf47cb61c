// Documents are searched as text first: few have other names, and whoever misspells a name waits for all of a shelf.
#include "scenarios/other_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <utility>

#include "scenarios/scenario.h"
#include "scenarios/synonyms.h"
#include "sim/text_file.h"

namespace orrery::scenarios {

namespace fs = std::filesystem;
using sim::Settings;

namespace {

constexpr const char* kAlsoCalled = "also_called";

std::map<std::string, OtherName> read_other_names(const Shelf& shelf) {
  std::map<std::string, OtherName> names;
  if (shelf.key.empty()) return names;  // no scenario names its documents
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(data_directory()) / shelf.folder, error)) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string file = entry.path().lexically_normal().string();
    if (sim::read_text(file, "a YAML file").find(fmt::format("\n{}:", kAlsoCalled)) == std::string::npos) continue;
    for (const auto& [name, about] : read_once(file).at(kAlsoCalled).members())
      names[name] = {entry.path().stem().string(), about.text()};
  }
  return names;
}

}  // namespace

const std::map<std::string, OtherName>& other_names(const Shelf& shelf) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<std::string, std::map<std::string, OtherName>>;
  const std::lock_guard lock(mutex);
  const auto known = all.find(shelf.kind);
  return known != all.end() ? known->second : all.emplace(shelf.kind, read_other_names(shelf)).first->second;
}

std::string other_name_of(std::string_view kind, const std::string& name) {
  const bool has = std::any_of(shelves().begin(), shelves().end(), [&](const Shelf& s) { return s.kind == kind; });
  if (!has) return {};
  const auto& others = other_names(shelf_of(kind));
  const auto other = others.find(name);
  return other != others.end() ? other->second.of : "";
}

Settings document_of_name(const std::string& name, const OtherName& other, const sim::Place& place) {
  Settings document = Settings::mapping(place);
  document.set("name", Settings::scalar(name, place, true));
  document.set("provenance",
               Settings::scalar(fmt::format("{}; as {} in everything", other.about, other.of), place, true));
  document.set("inherits", Settings::scalar(other.of, place, true));
  return document;
}

}  // namespace orrery::scenarios
