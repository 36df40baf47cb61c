// Internal to the room: the files that names refer to, and inheritance between them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibration/framework/generation.h"
#include "calibration/framework/recipe.h"
#include "sim/settings.h"

namespace orrery::scenarios {

/// The generation that is taken where a scenario names no software: the newest release of Megatron-Core that ships.
inline constexpr const char* kDefaultSoftware = "megatron-core-0.16";

/// A kind of document that a scenario refers to by name.
struct Shelf {
  std::string kind;    // as shipped() calls it: "devices"
  std::string key;     // the scenario's key: "cluster.device"; empty where it has none
  std::string folder;  // below data_directory(): "calibration/profiles"
  std::string noun;    // "device profile"
};

/// devices, fabrics, software, models, scenarios, tables, dispatchers; features and collectives, which software
/// generations name.
const std::vector<Shelf>& shelves();
/// The shelf of that kind; SIM_CHECK when there is none.
const Shelf& shelf_of(std::string_view kind);

/// Of what a scenario names, and scenarios, the shelf that has a document of exactly this name; null: none.
const Shelf* shelf_with(const std::string& name);

/// Whether a reference is a path: it holds a '/' or ends in .yaml or .yml.
bool is_path(const std::string& name);
/// The file that the name or path `reference` means, in normal form. Throws UserError for unknown names (with the
/// nearest) and what is no name.
std::string file_of(const Shelf& shelf, const sim::Settings& reference);

/// A document of a chain of inheritance.
struct Inherited {
  sim::Settings document;  // without `inherits`
  std::string file;        // empty: an inline mapping
  sim::Settings read;      // the file, with it; null: an inline mapping, or another name of a file (other_names.h)
};
/// What `reference` stands for, then what that inherits (a mapping may be inherited as a file is), the nearest first.
/// Throws as resolve.
std::vector<Inherited> chain_of(const Shelf& shelf, const sim::Settings& reference);

/// What a reference stands for, inheritance resolved.
struct Resolved {
  sim::Settings document;  // without `inherits`; of a software generation the flat keys
  std::string name;      // of the file, or of the file that an inline mapping inherits; empty for a mapping of its own
  bool changed = false;  // an inline mapping changed what it inherits
};

/// What files say is put together once for as long as none of them changes: the documents of two calls with one name
/// are then copies of each other (sim::Settings::same_as).
/// Resolves `reference`: a name (a file of the shelf), a path (it holds a '/' or ends in .yaml; relative to the file
/// that names it), or an inline mapping, with or without `inherits: NAME`. Inheritance may be 16 files deep. Throws
/// UserError for unknown names (with the nearest), unsafe names, circles, and files that hold no mapping.
Resolved resolve(const Shelf& shelf, const sim::Settings& reference);

/// The reference to software that a scenario means by `reference`: another where it fine-tunes by adapters and the
/// generation names one that such runs take in its place (software.adapters). Throws as resolve.
sim::Settings software_of(const sim::Settings& scenario, const sim::Settings& reference);

/// The software generation that `reference` stands for. Throws as resolve, and as calibration::resolve_generation.
calibration::Generation resolve_software(const sim::Settings& reference);

/// What calibration/recipes holds, read once per process.
const calibration::RecipeBook& recipe_book();

/// read_yaml, once per process and time of change of the file.
sim::Settings read_once(const std::string& file);

}  // namespace orrery::scenarios
