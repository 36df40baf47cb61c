// Records quote tables; what a paper says elsewhere, in its formulas or its code, is kept in scenarios/sources.yaml
// with the place. What a record says stands, but where its source contradicts it: then the correction, said aloud.
#include "scenarios/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "scenarios/library.h"
#include "scenarios/load.h"
#include "scenarios/scenario.h"

namespace orrery::scenarios {

using sim::Settings;

namespace {

/// The section that the last key of `path` belongs to, which `path` is cut down to; nullptr where there is none.
const Settings* section_of(const Settings& document, std::string_view& path) {
  const Settings* section = &document;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    section = given(section, path.substr(0, dot));
    if (section == nullptr || !section->is_mapping()) return nullptr;
    path = path.substr(dot + 1);
  }
  return section;
}

/// Whether the document says nothing of `path`, and has the section that the key belongs to.
bool leaves_open(const Settings& document, std::string_view path) {
  const Settings* section = section_of(document, path);
  return section != nullptr && given(section, path) == nullptr;
}

/// Puts `path` right in `document`, a record of `file`, and says what it was; empty where nothing is to correct: the
/// section is not there, the value is right, or it was set from elsewhere (--set, a study, a fit). Of a document that
/// is changed in places, the name that it inherits is corrected.
std::string correct(Settings& document, const std::string& file, std::string path, const Settings& value) {
  std::string_view key = path;
  const Settings* section = section_of(document, key);
  if (section == nullptr) return {};
  const Settings* said = given(section, key);
  if (said != nullptr && said->is_mapping() && said->find("inherits") != nullptr) {
    path += ".inherits";
    said = said->find("inherits");
  }
  if (said != nullptr && (said->place().file != file || (said->is_scalar() && said->text() == value.text()))) return {};
  const std::string was = said != nullptr && said->is_scalar() ? said->text() : "not given";
  document.set_path(path, value);
  return was;
}

/// Whether `patterns`, one or a list of them, name the record.
bool names_record(const Settings& patterns, std::string_view id) {
  if (!patterns.is_sequence()) return is_record(id, patterns.text());
  const std::vector<Settings> all = patterns.items();
  return std::any_of(all.begin(), all.end(), [&](const Settings& one) { return is_record(id, one.text()); });
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
    entry.refuse_unknown({"records", "source", "set", "correct"});
    if (!names_record(entry.at("records"), id->text())) continue;
    const std::string source = entry.at("source").text();
    if (const Settings* open = entry.find("set")) {
      for (const auto& [path, value] : open->members()) {
        if (!leaves_open(document, path)) continue;
        whole.set_path(path, value);
        notes.push_back(fmt::format("{} is not given: {}, by its source: {}.", path, value.text(), source));
      }
    }
    if (const Settings* wrong = entry.find("correct")) {
      for (const auto& [path, value] : wrong->members()) {
        const std::string was = correct(whole, id->place().file, path, value);
        if (was.empty()) continue;
        notes.push_back(fmt::format("{}{} is {} in the record and {} by its source: {}.", kCorrected, path, was,
                                    value.text(), source));
      }
    }
  }
  return whole;
}

}  // namespace orrery::scenarios
