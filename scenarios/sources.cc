// Records quote tables; what a paper says elsewhere, in its formulas or its code, is kept in scenarios/sources.yaml
// with the place. Left out: corrections, since what a record says stands.
#include "scenarios/sources.h"

#include <fmt/format.h>

#include <filesystem>

#include "scenarios/library.h"
#include "scenarios/load.h"
#include "scenarios/scenario.h"

namespace orrery::scenarios {

using sim::Settings;

namespace {

/// Whether the document says nothing of `path`, and has the section that the key belongs to.
bool leaves_open(const Settings& document, std::string_view path) {
  const Settings* section = &document;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    section = given(section, path.substr(0, dot));
    if (section == nullptr || !section->is_mapping()) return false;
    path = path.substr(dot + 1);
  }
  return given(section, path) == nullptr;
}

}  // namespace

bool is_record(std::string_view id, std::string_view pattern) {
  if (!pattern.ends_with('*')) return id == pattern;
  return id.starts_with(pattern.substr(0, pattern.size() - 1));
}

Settings completed(const Settings& document, std::vector<std::string>& notes) {
  const Settings* id = given(&document, "id");
  const std::string file =
      (std::filesystem::path(data_directory()) / "scenarios" / "published" / "sources.yaml").string();
  if (id == nullptr || !id->is_scalar() || !std::filesystem::exists(file)) return document;
  Settings whole = document;
  const Settings known = read_once(file);
  for (const Settings& entry : known.items()) {
    entry.refuse_unknown({"records", "source", "set"});
    if (!is_record(id->text(), entry.at("records").text())) continue;
    for (const auto& [path, value] : entry.at("set").members()) {
      if (!leaves_open(document, path)) continue;
      whole.set_path(path, value);
      notes.push_back(
          fmt::format("{} is not given: {}, by its source: {}.", path, value.text(), entry.at("source").text()));
    }
  }
  return whole;
}

}  // namespace orrery::scenarios
