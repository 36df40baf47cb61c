// What a key of a document means, for the schema and for help. The loaders of this room and these tables are written
// side by side; a test loads a document that uses every key.
#pragma once

#include <string>
#include <vector>

namespace orrery::calibration {

struct KeyDoc {
  std::string path;      // "collective_base"; "gemm.bf16.launch" for nested keys, "*" for a free name
  std::string type;      // "integer" | "number" | "boolean" | "text" | "choice" | "quantity" | "list" | "mapping"
  std::string unit;      // "us", "bytes", ...; empty when it has none
  std::string fallback;  // the default, as text; empty: required
  std::string meaning;   // one sentence
  std::vector<std::string> choices = {};
};

/// Every key of calibration/software/<name>.yaml, flat or as it is written there.
const std::vector<KeyDoc>& software_keys();
/// Every key of calibration/profiles/<device>.yaml, except those below `node`, which the topology room owns.
const std::vector<KeyDoc>& profile_keys();

}  // namespace orrery::calibration
