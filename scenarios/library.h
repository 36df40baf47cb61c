// Internal to the room: the files that names refer to, and inheritance between them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/settings.h"

namespace orrery::scenarios {

/// The generation that is taken where a scenario names no software.
inline constexpr const char* kDefaultSoftware = "megatron-core-0.8";

/// A kind of document that a scenario refers to by name.
struct Shelf {
  std::string kind;    // as shipped() calls it: "devices"
  std::string key;     // the scenario's key: "cluster.device"
  std::string folder;  // below data_directory(): "calibration/profiles"
  std::string noun;    // "device profile"
};

/// devices, fabrics, software, models, scenarios.
const std::vector<Shelf>& shelves();
/// The shelf of that kind; SIM_CHECK when there is none.
const Shelf& shelf_of(std::string_view kind);

/// The file that the name or path `reference` means, in normal form. Throws UserError for unknown names (with the
/// nearest) and what is no name.
std::string file_of(const Shelf& shelf, const sim::Settings& reference);

/// What a reference stands for, inheritance resolved.
struct Resolved {
  sim::Settings document;  // without `inherits`
  std::string name;      // of the file, or of the file that an inline mapping inherits; empty for a mapping of its own
  bool changed = false;  // an inline mapping changed what it inherits
};

/// Resolves `reference`: a name (a file of the shelf), a path (it holds a '/' or ends in .yaml; relative to the file
/// that names it), or an inline mapping, with or without `inherits: NAME`. Inheritance may be 16 files deep. Throws
/// UserError for unknown names (with the nearest), unsafe names, circles, and files that hold no mapping.
Resolved resolve(const Shelf& shelf, const sim::Settings& reference);

/// read_yaml, once per process and time of change of the file.
sim::Settings read_once(const std::string& file);

}  // namespace orrery::scenarios
