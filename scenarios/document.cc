// Scenario files and lists of them as documents, and changes to them from the command line.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "calibration/framework/software.h"
#include "scenarios/library.h"
#include "scenarios/load.h"
#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "scenarios/synonyms.h"
#include "scenarios/yaml.h"

namespace orrery::scenarios {

namespace fs = std::filesystem;
using sim::Place;
using sim::Settings;
using sim::UserError;

namespace {

constexpr const char* kSet = "--set";

/// An item of a list as a document of its own: paths begin at it.
Settings as_document(const Settings& item) {
  if (!item.is_mapping()) item.fail("expected a scenario: a mapping of keys");
  Settings document = Settings::mapping(item.place());
  for (const auto& [name, member] : item.members()) document.set(name, member);
  return document;
}

std::string member_text(const Settings& document, std::string_view key) {
  const Settings* member = document.find(key);
  return member != nullptr && member->is_scalar() ? member->text() : "";
}

/// What ships under `name`, but no scenario: with what it is, and how it is asked about. `typed` is what stands there,
/// where it is short for several (mixtral).
[[noreturn]] void refuse_other_kind(const std::string& typed, const std::string& name, const Shelf& shelf,
                                    const std::string& more = "") {
  const std::string ask = shelf.kind == "models" ? fmt::format(", or ask: --model {} --device h100 --gpus 64", name)
                          : shelf.kind == "devices"
                              ? fmt::format(", or ask: --model llama3.1-8b --device {} --gpus 8", name)
                              : "";
  throw UserError(Place{typed, 0, 0}, "",
                  fmt::format("got a {}{}, expected a scenario: run one that ships with --set {}={}, as gpt3-6.7b-h100"
                              "{} (orrery list scenarios{})",
                              shelf.noun, typed == name ? "" : fmt::format(" ({})", name), shelf.key, name, ask, more));
}

/// Refuses a word that is short for what ships of those kinds: h100 is a device, megatron software, though scenarios
/// have them in their names. `part_of`: those scenarios.
void refuse_words_of(std::initializer_list<const char*> kinds, const std::string& word,
                     const std::vector<std::string>& part_of = {}) {
  for (const char* kind : kinds) {
    std::vector<std::string> several;
    std::string meant = name_meant(kind, word, shipped(kind), &several);
    if (meant.empty() && !several.empty()) meant = several.front();
    const bool begins = std::equal(word.begin(), word.end(), meant.begin(),
                                   meant.begin() + static_cast<std::ptrdiff_t>(std::min(word.size(), meant.size())),
                                   [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
    if (meant.empty() || !begins) continue;
    const std::string more =
        part_of.empty() ? "" : fmt::format("; it is part of the name of {}", fmt::join(part_of, ", "));
    refuse_other_kind(word, meant, shelf_of(kind), more);
  }
}

/// The file that `name` means: itself, or the shipped scenario of that name, or of which that is a part; of training
/// first, then of requests, then of reinforcement learning.
std::string scenario_file(const std::string& name) {
  std::error_code error;
  if (name == "-" || fs::exists(name, error) || name.find('/') != std::string::npos) return name;
  constexpr std::array kKinds{"scenarios", "served", "trained"};
  for (const char* kind : kKinds) {
    const std::string file = fmt::format("{}/{}/{}.yaml", data_directory(), shelf_of(kind).folder, name);
    if (fs::is_regular_file(file, error)) return file;
  }
  std::vector<std::string> all, several;
  for (const char* kind : kKinds) {
    const std::vector<std::string> names = shipped(kind);
    all.insert(all.end(), names.begin(), names.end());
  }
  if (const Shelf* shelf = shelf_with(name); shelf != nullptr) refuse_other_kind(name, name, *shelf);
  std::vector<std::string> part_of;
  if (const std::string meant = name_meant("scenarios", name, all, &part_of); !meant.empty()) part_of = {meant};
  refuse_words_of({"devices", "software"}, name, part_of);
  for (const char* kind : kKinds) {
    if (const std::string meant = name_meant(kind, name, shipped(kind), &several); !meant.empty())
      return (fs::path(data_directory()) / shelf_of(kind).folder / (meant + ".yaml")).string();
    if (several.size() > 1)
      throw UserError(
          Place{name, 0, 0}, "",
          fmt::format("is no file, and part of several scenarios: expected one of {}", fmt::join(several, ", ")));
  }
  refuse_words_of({"models", "fabrics"}, name);
  const std::vector<std::string> near = names_near(name, all);
  if (near.empty())
    throw UserError(Place{name, 0, 0}, "",
                    "there is no such file, and no shipped scenario of that name; orrery list scenarios names them");
  throw UserError(
      Place{name, 0, 0}, "",
      near.size() == 1
          ? fmt::format("there is no such file; did you mean the shipped scenario \"{}\"?", near.front())
          : fmt::format("there is no such file; expected one of the shipped scenarios {}", names_text(near)));
}

/// "FILE#ID": the record of that id. Only where no file is called so.
Settings record_of(const std::string& file, const std::string& id) {
  const std::vector<Settings> records = read_records(file);
  std::vector<std::string> ids;
  for (const Settings& record : records) {
    ids.push_back(member_text(record, "id"));
    if (ids.back() == id) return record;
  }
  const std::string nearest = sim::nearest_word(id, ids);
  throw UserError(Place{file, 0, 0}, "",
                  fmt::format("holds no record \"{}\"{}", id,
                              nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest)));
}

/// Where `dotted` goes below a document that is given by name ("cluster.device" of "cluster.device.memory"), makes the
/// name a mapping that inherits it, so that one of its values can be changed.
void open_references(Settings& document, const std::string& dotted) {
  for (const Shelf& shelf : shelves()) {
    if (shelf.key.empty() || !dotted.starts_with(shelf.key + ".")) continue;
    const Settings* node = document.find_path(shelf.key);
    std::string name;
    if (node != nullptr && node->is_scalar()) name = node->text();
    const bool open = node == nullptr || name == "unknown";
    if (open && shelf.kind == "software") name = kDefaultSoftware;
    if (open && shelf.kind != "software") continue;
    if (name.empty()) continue;
    const Place place = node != nullptr ? node->place() : Place{kSet, 0, 0};
    Settings reference = Settings::mapping(place);
    reference.set("inherits", Settings::scalar(name, place, true));
    document.set_path(shelf.key, std::move(reference));
  }
}

/// A word that stands for one key of its section: `precision: bf16` is {matmul: bf16} where a model is trained and
/// {weights: bf16} where it is served, `recompute: full` is {kind: full}. With another key beside it, it is that
/// mapping.
void open_words(Settings& document, const std::string& dotted) {
  if (document.find("rl") != nullptr) return;  // whose sections have one each
  const char* of_types = document.find("serving") != nullptr ? "weights" : "matmul";
  for (const auto& [section, key] : {std::pair("precision", of_types), {"recompute", "kind"}}) {
    const Settings* word = document.find(section);
    if (!dotted.starts_with(std::string(section) + ".") || word == nullptr || !word->is_scalar() || word->is_null())
      continue;
    Settings opened = Settings::mapping(word->place());
    opened.set(key, *word);
    document.set_path(section, std::move(opened));
  }
}

/// Where a key of a software generation stands in `document`, as it is written there, or else would be written now.
std::string written_key(const Settings& document, const std::string& dotted) {
  const std::string prefix = shelf_of("software").key + ".";
  const Settings* software = document.find_path(shelf_of("software").key);
  const bool trains = document.find("serving") == nullptr;  // engines have keys of their own
  if (!dotted.starts_with(prefix) || software == nullptr || !trains) return dotted;
  const std::string key = dotted.substr(prefix.size()), there = calibration::spelled_in(*software, key);
  return prefix + (there.empty() ? calibration::present_key(key) : there);
}

/// As set_path, where a step such as "pools[0]" is an item of a list that is there.
void set_item_path(Settings& document, const std::string& dotted, const Settings& value) {
  const std::size_t open = dotted.find('['), close = dotted.find(']', open);
  if (open == std::string::npos || close == std::string::npos) return document.set_path(dotted, value);
  const std::string list = dotted.substr(0, open), rest = dotted.substr(close + 1);
  const std::string index = dotted.substr(open + 1, close - open - 1);
  const Settings* items = document.find_path(list);
  const auto refuse = [&](const std::string& expected) {
    throw UserError(value.place(), dotted, "expected " + expected);
  };
  if (items == nullptr || !items->is_sequence() || items->items().empty()) refuse(list + " to be a list");
  const std::size_t size = items->items().size();
  std::size_t at = size;
  const auto [end, error] = std::from_chars(index.data(), index.data() + index.size(), at);
  if (error != std::errc{} || end != index.data() + index.size() || at >= size)
    refuse(fmt::format("an item of {} from 0 to {}, as in {}[0]", list, size - 1, list));
  if (!rest.empty() && (rest.front() != '.' || rest.size() == 1)) refuse("a key such as " + list + "[0].name");
  Settings changed = Settings::sequence(items->place(), items->path());
  for (std::size_t i = 0; i < size; ++i) {
    Settings item = items->items()[i];
    if (i == at && rest.empty()) item = value;
    if (i == at && !rest.empty()) set_item_path(item, rest.substr(1), value);
    changed.append(std::move(item));
  }
  document.set_path(list, std::move(changed));
}

/// A name that is short for one that ships becomes that one, so that a scenario that is kept reads again.
void spell_out(Assignment& assignment) {
  if (!assignment.value.is_scalar() || is_path(assignment.value.text())) return;
  const std::string& typed = assignment.value.text();
  std::string meant;
  for (const Shelf& shelf : shelves()) {
    if (shelf.key != assignment.key) continue;
    const std::vector<std::string> names = shipped(shelf.kind);
    if (std::find(names.begin(), names.end(), typed) != names.end()) return;
    if (meant.empty()) meant = name_meant(shelf.kind, typed, names);
  }
  if (!meant.empty()) assignment.value = Settings::scalar(meant, assignment.value.place());
}

}  // namespace

void refuse_other_document(const Settings& document) {
  struct Form {
    std::vector<std::string_view> keys;
    std::string_view what, instead;
  };
  static const std::vector<Form> forms{
      {{"model_type"}, "a config.json of a model", "orrery import hf FILE makes one of it"},
      {{"layers", "hidden"}, "a model", "name it in one, as model: FILE"},
      {{"kind", "nics"}, "a fabric", "name it in one, as cluster: {fabric: FILE}; orrery topology FILE draws it"},
      {{"kind", "nic_rate"}, "a fabric", "name it in one, as cluster: {fabric: FILE}; orrery topology FILE draws it"},
      {{"peak", "memory"}, "a device profile", "name it in one, as cluster: {device: FILE}"},
      {{"inherits", "features"}, "a software generation", "name it in one, as software: FILE"},
      {{"provenance", "host"}, "a software generation", "name it in one, as software: FILE"},
  };
  if (const Settings* models = document.find("models"); models != nullptr)
    models->fail("are several on one cluster, which orrery serving and orrery search run, expected one model here");
  if (document.find("cluster") != nullptr || document.find("model") != nullptr) return;
  for (const Form& form : forms) {
    if (std::all_of(form.keys.begin(), form.keys.end(),
                    [&](std::string_view key) { return document.find(key) != nullptr; }))
      document.fail(fmt::format("got {}, expected a scenario: {}", form.what, form.instead));
  }
}

Assignment parse_assignment(const std::string& text, const std::string& source) {
  const Place place{source, 0, 0};
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UserError(place, "", fmt::format("got \"{}\", expected key.path=value", text));
  }
  Assignment assignment{key_meant(text.substr(0, equals)), {}};
  try {
    assignment.value = parse_yaml_value(value_meant(assignment.key, text.substr(equals + 1)), source);
  } catch (const UserError& error) {
    throw UserError(place, assignment.key, fmt::format("the value {}", error.what() + source.size() + 2));
  }
  if (assignment.value.is_null()) assignment.value = Settings::scalar("", place);
  return assignment;
}

void apply(Settings& document, const Assignment& assignment) {
  open_references(document, assignment.key);
  open_words(document, assignment.key);
  set_item_path(document, written_key(document, assignment.key), assignment.value);
}

void apply_set(Settings& document, const std::string& text) {
  Assignment assignment = parse_assignment(text);
  spell_out(assignment);
  const std::string& key = assignment.key;
  const std::vector<std::string>& known = known_keys("");
  const bool plain = key.find('.') == std::string::npos && document.find("cluster") != nullptr;  // of a scenario
  if (plain && std::find(known.begin(), known.end(), key) == known.end()) {
    const std::string near = key_near(key), ending = "." + key;
    if (!near.empty() && !near.ends_with(ending))
      throw UserError(Place{kSet, 0, 0}, key, fmt::format("unknown key; did you mean \"{}\"?", near));
  }
  apply(document, assignment);
}

Settings read_scenario(const std::string& file, const std::vector<std::string>& sets) {
  std::error_code error;
  const std::size_t hash = file.rfind('#');
  Settings document;
  if (hash != std::string::npos && !fs::exists(file, error)) {
    document = record_of(file.substr(0, hash), file.substr(hash + 1));
  } else {
    const std::string path = scenario_file(file);
    std::vector<Settings> records = read_records(path);
    if (records.size() != 1) {
      throw UserError(Place{path, 0, 0}, "",
                      fmt::format("holds {} records, expected one scenario, or {}#ID", records.size(), path));
    }
    document = std::move(records.front());
  }
  for (const std::string& assignment : sets) apply_set(document, assignment);
  return document;
}

std::vector<Settings> read_records(const std::string& file) {
  const Settings document = read_yaml(file);
  std::vector<Settings> records;
  if (document.is_null()) throw UserError(Place{file, 0, 0}, "", "is empty, expected a scenario");
  if (!document.is_sequence()) {
    if (!document.is_mapping()) document.fail("expected a scenario (a mapping of keys) or a list of records");
    records.push_back(document);
    return records;
  }
  for (const Settings& item : document.items()) records.push_back(as_document(item));
  return records;
}

}  // namespace orrery::scenarios
