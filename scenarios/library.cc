// Names -> documents. A device, model, fabric or software generation is one YAML file; a file or an inline mapping may
// inherit another of its kind and override members (sim::overlay). Files are read once per process: sweeps and
// validation load thousands of scenarios over the same few documents. Left out: search paths, downloads, versions.
#include "scenarios/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "scenarios/scenario.h"

namespace orrery::scenarios {

namespace fs = std::filesystem;
using sim::Settings;
using sim::UserError;

namespace {

constexpr std::size_t kLongestChain = 16;

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".yaml") || name.ends_with(".yml");
}

bool is_plain_name(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == '+';
  };
  return !name.empty() && name.size() <= 128 && name.front() != '.' && std::all_of(name.begin(), name.end(), allowed);
}

Settings without(const Settings& mapping, std::string_view key) {
  Settings kept = Settings::mapping(mapping.place());
  for (const auto& [name, member] : mapping.members()) {
    if (name != key) kept.set(name, member);
  }
  return kept;
}

/// `document` with all that it inherits below it.
Settings flatten(const Shelf& shelf, const Settings& document, std::vector<std::string>& chain) {
  const Settings* parent = document.find("inherits");
  const Settings own = without(document, "inherits");
  if (parent == nullptr) return own;
  const std::string file = file_of(shelf, *parent);
  if (std::find(chain.begin(), chain.end(), file) != chain.end()) {
    parent->fail(fmt::format("read \"{}\", which inherits this very document; a {} that does not would be right",
                             parent->text(), shelf.noun));
  }
  if (chain.size() >= kLongestChain) parent->fail(fmt::format("inherits through more than {} files", kLongestChain));
  chain.push_back(file);
  const Settings above = read_once(file);
  if (!above.is_mapping()) above.fail(fmt::format("expected a {}: a mapping of keys", shelf.noun));
  return sim::overlay(flatten(shelf, above, chain), own);
}

/// The name in a reference: of a path, its file name without the ending.
std::string name_in(const Settings& reference) {
  return is_path(reference.text()) ? fs::path(reference.text()).stem().string() : reference.text();
}

/// `document` as the member `path` of a scenario, so that complaints name the whole path and not the bare member.
Settings placed_at(std::string_view path, const Settings& document) {
  if (path.empty()) return document;
  Settings holder = Settings::mapping(document.place());
  holder.set_path(path, document);
  const Settings* node = &holder;
  while (node->path() != path) node = &node->members().front().second;
  return *node;
}

fs::path find_data_directory() {
  if (const char* home = std::getenv("ORRERY_HOME"); home != nullptr && *home != '\0') return home;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (fs::path folder = program.parent_path(); !error && folder.has_relative_path(); folder = folder.parent_path()) {
    for (const fs::path& candidate : {folder, folder / "share" / "orrery"}) {
      if (fs::is_directory(candidate / "calibration" / "profiles", error) &&
          fs::is_directory(candidate / "scenarios" / "models", error)) {
        return candidate;
      }
    }
    error.clear();
  }
  // A program of somebody else that links the library lies anywhere; a package's prefix is not that of the build.
  for (const char* folder : {ORRERY_DATA_DIR, ORRERY_INSTALLED_DATA_DIR}) {
    if (fs::is_directory(folder, error)) return folder;
  }
  return "/usr/share/orrery";
}

}  // namespace

std::string file_of(const Shelf& shelf, const Settings& reference) {
  if (!reference.is_scalar()) reference.fail(fmt::format("expected the name of a {}", shelf.noun));
  const std::string& name = reference.text();
  if (is_path(name)) {
    const fs::path beside = fs::path(reference.place().file).parent_path();
    // Normal form, so that a circle of inheritance meets itself however its paths are written.
    return (fs::path(name).is_absolute() ? fs::path(name) : beside / name).lexically_normal().string();
  }
  if (!is_plain_name(name)) reference.fail(fmt::format("expected the name of a {}, got \"{}\"", shelf.noun, name));
  const fs::path file = fs::path(data_directory()) / shelf.folder / (name + ".yaml");
  std::error_code error;
  if (fs::is_regular_file(file, error)) return file.lexically_normal().string();
  const std::vector<std::string> names = shipped(shelf.kind);
  const std::string nearest = sim::nearest_word(name, names);
  reference.fail(nearest.empty()
                     ? fmt::format("there is no {} \"{}\"; expected one of {}, a path or an inline mapping", shelf.noun,
                                   name, fmt::join(names, ", "))
                     : fmt::format("there is no {} \"{}\"; did you mean \"{}\"?", shelf.noun, name, nearest));
}

/// A memo, not state: what a path's text was at its time of change is the same for everybody who asks.
Settings read_once(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, std::pair<fs::file_time_type, Settings>> documents;
  std::error_code error;
  const fs::file_time_type changed = fs::last_write_time(file, error);
  const std::lock_guard lock(mutex);
  const auto known = documents.find(file);
  if (known != documents.end() && !error && known->second.first == changed) return known->second.second;
  Settings document = read_yaml(file);
  if (!error) documents.insert_or_assign(file, std::pair{changed, document});
  return document;
}

const std::vector<Shelf>& shelves() {
  static const std::vector<Shelf> all{
      {"devices", "cluster.device", "calibration/profiles", "device profile"},
      {"fabrics", "cluster.fabric", "scenarios/fabrics", "fabric"},
      {"software", "software", "calibration/software", "software generation"},
      {"models", "model", "scenarios/models", "model"},
      {"scenarios", "", "scenarios", "scenario"},
  };
  return all;
}

const Shelf& shelf_of(std::string_view kind) {
  const auto shelf = std::find_if(shelves().begin(), shelves().end(), [&](const Shelf& s) { return s.kind == kind; });
  SIM_CHECK(shelf != shelves().end(), "no kind of document is called {}", kind);
  return *shelf;
}

Resolved resolve(const Shelf& shelf, const Settings& reference) {
  Resolved resolved;
  std::vector<std::string> chain;
  if (reference.is_mapping()) {
    const Settings* parent = reference.find("inherits");
    if (parent != nullptr) resolved.name = name_in(*parent);
    resolved.changed = parent != nullptr && reference.members().size() > 1;
    resolved.document = placed_at(reference.path(), flatten(shelf, reference, chain));
    return resolved;
  }
  const std::string file = file_of(shelf, reference);
  resolved.name = name_in(reference);
  chain.push_back(file);
  const Settings document = read_once(file);
  if (!document.is_mapping()) document.fail(fmt::format("expected a {}: a mapping of keys", shelf.noun));
  resolved.document = flatten(shelf, document, chain);
  return resolved;
}

std::string data_directory() {
  static const std::string directory = find_data_directory().string();
  return directory;
}

std::vector<std::string> shipped(const std::string& kind) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(data_directory()) / shelf_of(kind).folder, error)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace orrery::scenarios
