// The scenario language as a table: one row per key. The loader, `orrery schema`, `orrery help`, the refusal of unknown
// keys and the test that walks every key all read this table, so that no key can be read and ignored.
#pragma once

#include <string>
#include <vector>

#include "sim/keys.h"

namespace orrery::scenarios {

using sim::Key;

/// The language, and below the names that stand for other documents the keys of those. "unknown" counts as left out.
const sim::KeyTable& schema();
/// schema().check(document, path), by a table of half the size where the document says nothing of what is served,
/// trained by reinforcement or lost to failures, and names device, fabric and software.
void check_keys(const sim::Settings& document, std::string_view path = {});
/// The names of the members that may lie below `path`: "" for the document, "perturb.slow_gpus[]" for an item of a
/// list.
const std::vector<std::string>& known_keys(const std::string& path);
/// JSON Schema (draft 2020-12) of the language, as text.
std::string json_schema();
/// The text of `orrery help KEY`; throws UserError naming the nearest key.
std::string help(const std::string& key);

}  // namespace orrery::scenarios
