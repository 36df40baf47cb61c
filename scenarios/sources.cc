// Records quote tables; what a paper says elsewhere, in its formulas or its code, is kept in
// scenarios/published/sources.yaml with the place. A record is known by what it cites (`source`), which is what makes
// it a copy of a published row; an `id` is a name, and a scenario means the same under any.
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

/// Whether the record has the name of a document where `path` has its section, as in `software: nemo-24.09`.
bool names_section(const Settings& record, const std::string& path) {
  const std::size_t dot = path.rfind('.');
  const Settings* section = dot == std::string::npos ? nullptr : record.find_path(path.substr(0, dot));
  return section != nullptr && section->is_scalar();
}

/// What the entry's `set` knows of a key that the record leaves open, in a section that the record has.
void add_open(const Settings& record, const Settings& entry, std::vector<Beyond>& out) {
  const Settings* known = entry.find("set");
  if (known == nullptr) return;
  for (const auto& [path, value] : known->members()) {
    std::string_view key = path;
    const Settings* section = section_of(record, key);
    const bool open = section != nullptr ? given(section, key) == nullptr : names_section(record, path);
    if (!open) continue;
    out.push_back({path, "", value, entry.at("source").text(), false});
  }
}

std::string said_by(const Settings& value) {
  if (value.is_null()) return "left open";
  if (value.is_scalar()) return value.text();
  std::string text;
  if (!value.is_mapping()) {
    for (const Settings& item : value.items()) text += (text.empty() ? "" : ", ") + said_by(item);
    return "[" + text + "]";
  }
  for (const auto& [key, member] : value.members()) text += (text.empty() ? "" : ", ") + key + " " + said_by(member);
  return text;
}

/// What the entry's `correct` contradicts: nothing where the section is not there, the value is right, or it was set
/// from elsewhere (--set, a study, a fit). Of a document that is changed in places, the name that it inherits.
void add_contradicted(const Settings& record, const Settings& entry, std::vector<Beyond>& out) {
  const Settings* right = entry.find("correct");
  if (right == nullptr) return;
  for (const auto& [member, value] : right->members()) {
    std::string path = member;
    std::string_view key = member;
    const Settings* section = section_of(record, key);
    if (section == nullptr) continue;
    const Settings* said = given(section, key);
    if (said != nullptr && said->is_mapping() && said->find("inherits") != nullptr) {
      path += ".inherits";
      said = said->find("inherits");
    }
    const bool own = said == nullptr || said->place().file == record.place().file;
    const std::string was = said != nullptr ? said_by(*said) : "not given";
    if (!own || was == said_by(value)) continue;
    out.push_back({std::move(path), was, value, entry.at("source").text(), true});
  }
}

/// `values`: one, or a list.
bool is_one_of(std::string_view text, const Settings& values) {
  if (values.is_scalar()) return text == values.text();
  return std::any_of(values.items().begin(), values.items().end(),
                     [&](const Settings& value) { return text == value.text(); });
}

/// Whether the record cites the table that the entry is about, and is of those rows.
bool quotes(const Settings& record, const Settings& entry) {
  const Settings* citation = given(&record, "source");
  if (citation == nullptr || !citation->is_scalar()) return false;
  const std::vector<Settings>& tables = entry.at("tables").items();
  if (std::none_of(tables.begin(), tables.end(),
                   [&](const Settings& table) { return matches(citation->text(), table.text()); })) {
    return false;
  }
  const Settings* rows = entry.find("where");
  if (rows == nullptr) return true;
  return std::all_of(rows->members().begin(), rows->members().end(), [&](const auto& condition) {
    const Settings* said = record.find_path(condition.first);
    return said != nullptr && said->is_scalar() && is_one_of(said->text(), condition.second);
  });
}

/// The entries of sources.yaml on the rows of which the record is one.
std::vector<Settings> entries_on(const Settings& record) {
  const std::string file =
      (std::filesystem::path(data_directory()) / "scenarios" / "published" / "sources.yaml").string();
  std::vector<Settings> out;
  if (given(&record, "source") == nullptr || !std::filesystem::exists(file)) return out;
  const Settings known = read_once(file);
  for (const Settings& entry : known.items()) {
    entry.refuse_unknown({"tables", "where", "source", "set", "correct", "either"});
    if (quotes(record, entry)) out.push_back(entry);
  }
  return out;
}

}  // namespace

std::string Beyond::said() const { return said_by(value); }

bool matches(std::string_view text, std::string_view pattern) {
  if (!pattern.ends_with('*')) return text == pattern;
  return text.starts_with(pattern.substr(0, pattern.size() - 1));
}

std::vector<Beyond> beyond_record(const Settings& record) {
  std::vector<Beyond> out;
  for (const Settings& entry : entries_on(record)) {
    std::vector<Beyond> more;
    add_open(record, entry, more);
    add_contradicted(record, entry, more);
    for (Beyond& one : more) {  // of several entries on a key the first holds
      const bool said = std::any_of(out.begin(), out.end(), [&](const Beyond& b) { return b.path == one.path; });
      if (!said) out.push_back(std::move(one));
    }
  }
  return out;
}

Settings as_published(const Settings& record, std::vector<std::string>& notes) {
  Settings whole = record;
  for (const Beyond& beyond : beyond_record(record)) {
    apply(whole, {beyond.path, beyond.value});
    notes.push_back(beyond.contradicts ? fmt::format("{}{} is {} in the record and {} by its source: {}.", kCorrected,
                                                     beyond.path, beyond.was, beyond.said(), beyond.source)
                                       : fmt::format("{} is not given: {}, by its source: {}.", beyond.path,
                                                     beyond.said(), beyond.source));
  }
  return whole;
}

std::vector<OtherWay> other_ways(const Settings& record) {
  std::vector<OtherWay> ways;
  for (const Settings& entry : entries_on(record)) {
    const Settings* either = entry.find("either");
    if (either == nullptr) continue;
    for (const Settings& keys : either->items()) {
      OtherWay& way = ways.emplace_back(OtherWay{record, ""});
      for (const auto& [path, value] : keys.members()) {
        apply(way.record, {path, value});
        way.sentence += fmt::format("{}{} {}", way.sentence.empty() ? "" : ", ", path, said_by(value));
      }
      way.sentence += fmt::format(": {}.", entry.at("source").text());
    }
  }
  return ways;
}

}  // namespace orrery::scenarios
