// The scenario language as a table: one row per key. The loader, `orrery schema`, `orrery help`, the refusal of unknown
// keys and the test that walks every key all read this table, so that no key can be read and ignored.
#pragma once

#include <string>
#include <vector>

namespace orrery::scenarios {

struct Key {
  std::string path;  // "parallelism.tensor"
  /// "integer" | "number" | "boolean" | "text" | "choice" | "quantity" | "list" | "mapping" | "name"
  std::string type;
  std::string unit;      // "GPUs", "sequences", "bytes/s", ...; empty when it has none
  std::string fallback;  // the documented default, as text; empty: required; "-" : absent means none
  std::vector<std::string> choices;
  std::string meaning;  // one sentence
};

const std::vector<Key>& schema();
/// The names of the members that may lie below `path`: "" for the document, "perturb.slow_gpus[]" for an item of a
/// list.
std::vector<std::string> known_keys(const std::string& path);
/// JSON Schema (draft 2020-12) of the language, as text.
std::string json_schema();
/// The text of `orrery help KEY`; throws UserError naming the nearest key.
std::string help(const std::string& key);

}  // namespace orrery::scenarios
