// Names -> documents. A device, model, fabric or software generation is one YAML file; a file or an inline mapping may
// inherit another of its kind and override members (sim::overlay). Files are read once per process: sweeps and
// validation load thousands of scenarios over the same few documents. Left out: search paths, downloads, versions.
#include "scenarios/library.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>

#include "scenarios/embedded_data.h"
#include "scenarios/other_names.h"
#include "scenarios/scenario.h"
#include "scenarios/shipped_only.h"
#include "scenarios/synonyms.h"

namespace orrery::scenarios {

namespace fs = std::filesystem;
using sim::Settings;
using sim::UserError;

namespace {

constexpr std::size_t kLongestChain = 16;
constexpr std::string_view kEnding = ".yaml";

thread_local int shipped_only = 0;  // how many ShippedOnly live on this thread

bool is_plain_name(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == '+';
  };
  return !name.empty() && name.size() <= 128 && name.front() != '.' && std::all_of(name.begin(), name.end(), allowed);
}

/// The name in a reference: of a path, its file name without the ending.
std::string name_in(const Shelf& shelf, const Settings& reference) {
  if (!reference.is_scalar()) return {};
  const std::string file = file_of(shelf, reference);
  if (is_path(reference.text())) return fs::path(file).stem().string();
  const std::size_t begin = file.rfind('/') + 1;
  return file.substr(begin, file.size() - begin - kEnding.size());
}

/// std::filesystem's own takes the path apart.
bool is_file(const std::string& file) {
  struct stat facts {};
  return ::stat(file.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

/// A shelf's document of a plain name, in normal form. A scenario's software names dozens, and paths that are taken
/// apart part by part take longer than what is read.
std::string plain_file(const Shelf& shelf, const std::string& name) {
  static const std::map<std::string, std::string>& folders = *[] {
    auto* all = new std::map<std::string, std::string>;
    for (const Shelf& one : shelves())
      (*all)[one.folder] = ((fs::path(data_directory()) / one.folder).lexically_normal() / "").string();
    return all;
  }();
  const std::string& folder = folders.at(shelf.folder);
  std::string file;
  file.reserve(folder.size() + name.size() + kEnding.size());
  file += folder;
  file += name;
  file += kEnding;
  return file;
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

/// Whether `file`, in normal form, lies in the folder of what ships.
bool ships(const std::string& file) {
  const fs::path below = fs::path(file).lexically_relative(fs::path(data_directory()).lexically_normal());
  return !below.empty() && *below.begin() != "..";
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
#ifndef ORRERY_DATA_MOUNTED  // a page in a browser has them in a file system of its own
  if (const auto embedded = embedded_data()) return *embedded;
#endif
  // A program of somebody else that links the library lies anywhere; a package's prefix is not that of the build.
  for (const char* folder : {ORRERY_DATA_DIR, ORRERY_INSTALLED_DATA_DIR}) {
    if (fs::is_directory(folder, error)) return folder;
  }
  return "/usr/share/orrery";
}

}  // namespace

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".yaml") || name.ends_with(".yml");
}

std::string file_of(const Shelf& shelf, const Settings& reference) {
  if (!reference.is_scalar()) reference.fail(fmt::format("expected the name of a {}", shelf.noun));
  const std::string& name = reference.text();
  if (is_path(name)) {
    if (shipped_only > 0)
      reference.expected("the name of what ships, or a mapping: files are read on the command line alone");
    const fs::path beside = fs::path(reference.place().file.text()).parent_path();
    // Normal form, so that a circle of inheritance meets itself however its paths are written.
    return (fs::path(name).is_absolute() ? fs::path(name) : beside / name).lexically_normal().string();
  }
  const std::vector<std::string> names = shipped(shelf.kind);
  const bool typed = reference.place().file.text().starts_with("--");  // files are read as they are written
  if (!is_plain_name(name)) {
    if (const std::string meant = typed ? name_meant(shelf.kind, name, names) : ""; !meant.empty())
      return plain_file(shelf, meant);
    reference.fail(fmt::format("expected the name of a {}, got \"{}\"", shelf.noun, name));
  }
  std::string file = plain_file(shelf, name);
  if (is_file(file) || other_names(shelf).contains(name)) return file;
  std::vector<std::string> several;
  if (const std::string meant = typed ? name_meant(shelf.kind, name, names, &several) : ""; !meant.empty())
    return plain_file(shelf, meant);
  if (several.size() > 1)
    reference.fail(
        fmt::format("there is no {} \"{}\", expected one of {}", shelf.noun, name, fmt::join(several, ", ")));
  if (const Shelf* other = shelf_with(name); other != nullptr && other->kind != shelf.kind)
    reference.fail(
        fmt::format("got the {} \"{}\", expected a {}: orrery list {}", other->noun, name, shelf.noun, shelf.kind));
  const std::vector<std::string> near = names_near(name, names);
  constexpr std::size_t kMostNames = 16;  // that a line can hold
  const std::string any = names.size() > kMostNames && !shelf.key.empty()
                              ? fmt::format("one that orrery list {} names", shelf.kind)
                              : fmt::format("one of {}", fmt::join(names, ", "));
  reference.fail(near.empty() ? fmt::format("there is no {} \"{}\"; expected {}, a path or an inline mapping",
                                            shelf.noun, name, any)
                              : fmt::format("there is no {} \"{}\"{}", shelf.noun, name, near_text(near)));
}

namespace {

/// A memo, not state: what a path's text was at its time of change is the same for everybody who asks.
class Documents {
 public:
  Settings read(const std::string& file) {
    std::error_code error;
    const fs::file_time_type changed = fs::last_write_time(file, error);
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(file);
    if (known != known_.end() && !error && known->second.first == changed) return known->second.second;
    Settings document = read_yaml(file);
    if (!error) known_.insert_or_assign(file, std::pair{changed, document});
    return document;
  }

  /// Whether the file is still as it was when `document` was read.
  bool holds(const std::string& file, const Settings& document) {
    std::error_code error;
    const fs::file_time_type changed = fs::last_write_time(file, error);
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(file);
    return !error && known != known_.end() && known->second.first == changed && known->second.second.same_as(document);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::pair<fs::file_time_type, Settings>> known_;
};

Documents& documents() {
  static Documents& all = *new Documents;  // not taken apart at the program's end, which frees it at once
  return all;
}

}  // namespace

ShippedOnly::ShippedOnly() { ++shipped_only; }
ShippedOnly::~ShippedOnly() { --shipped_only; }
bool only_shipped() { return shipped_only > 0; }

Settings read_once(const std::string& file) {
  SIM_CHECK(shipped_only == 0 || ships(file), "{} is to be read for who may name what ships alone", file);
  return documents().read(file);
}

const std::vector<Shelf>& shelves() {
  static const std::vector<Shelf> all{
      {"devices", "cluster.device", "calibration/profiles", "device profile"},
      {"fabrics", "cluster.fabric", "scenarios/fabrics", "fabric"},
      {"software", "software", "calibration/software", "software generation"},
      {"models", "model", "scenarios/models", "model"},
      {"scenarios", "", "scenarios", "scenario"},
      {"features", "", "calibration/features", "software feature"},
      {"collectives", "", "calibration/collectives", "collective library"},
      {"recipes", "", "calibration/recipes", "recipe of a part of a layer"},
      {"dispatchers", "", "calibration/dispatchers", "dispatcher of tokens to experts"},
      {"serving", "", "calibration/serving", "table of engines' kernels"},
      {"tables", "", "scenarios/reproduce", "published table"},
      {"served", "", "scenarios/serving", "scenario of requests"},
      {"engines", "software", "calibration/engines", "inference engine"},
      {"rl", "rl.framework", "calibration/rl", "framework of reinforcement learning"},
      {"trained", "", "scenarios/rl", "scenario of reinforcement learning"},
      {"failures", "campaign.failures", "calibration/reliability", "table of failures"},
  };
  return all;
}

const Shelf* shelf_with(const std::string& name) {
  for (const Shelf& shelf : shelves()) {
    if (shelf.key.empty() && shelf.kind != "scenarios") continue;
    const std::vector<std::string> names = shipped(shelf.kind);
    if (std::find(names.begin(), names.end(), name) != names.end()) return &shelf;
  }
  return nullptr;
}

const Shelf& shelf_of(std::string_view kind) {
  const auto shelf = std::find_if(shelves().begin(), shelves().end(), [&](const Shelf& s) { return s.kind == kind; });
  SIM_CHECK(shelf != shelves().end(), "no kind of document is called {}", kind);
  return *shelf;
}

namespace {

/// The document in a file of a shelf, with `inherits`; of a name that has no file of its own, what it is a name of.
void read_named(const Shelf& shelf, Inherited& here, const sim::Place& place) {
  if (!is_file(here.file)) {
    const std::string name = fs::path(here.file).stem().string();
    const auto other = other_names(shelf).find(name);
    if (other != other_names(shelf).end() && here.file == plain_file(shelf, name)) {
      here.document = document_of_name(name, other->second, place);
      return;
    }
  }
  here.read = here.document = read_once(here.file);
  if (!here.document.is_mapping()) here.document.fail(fmt::format("expected a {}: a mapping of keys", shelf.noun));
  if (here.document.find("also_called") != nullptr && ships(here.file)) here.document.erase("also_called");
}

}  // namespace

std::vector<Inherited> chain_of(const Shelf& shelf, const Settings& reference) {
  std::vector<Inherited> chain;
  std::size_t files = 0;
  Settings next = reference;
  for (bool more = true; more;) {
    Inherited here{next, "", {}};
    if (!next.is_mapping()) {
      here.file = file_of(shelf, next);
      const auto same = [&](const Inherited& nearer) { return nearer.file == here.file; };
      if (std::any_of(chain.begin(), chain.end(), same)) {
        next.fail(fmt::format("got \"{}\", which inherits this very document, expected a {} that does not", next.text(),
                              shelf.noun));
      }
      if (files++ >= kLongestChain) next.fail(fmt::format("inherits through more than {} files", kLongestChain));
      read_named(shelf, here, next.place());
    }
    const Settings* parent = here.document.find("inherits");
    more = parent != nullptr;
    if (more) next = *parent;
    here.document.erase("inherits");
    chain.push_back(std::move(here));
  }
  return chain;
}

namespace {

/// Each document laid over those that it inherits.
Settings overlaid(const std::vector<Inherited>& chain) {
  Settings whole = chain.back().document;
  for (std::size_t i = chain.size() - 1; i-- > 0;) whole = sim::overlay(whole, chain[i].document);
  return whole;
}

using Files = std::vector<std::pair<std::string, Settings>>;  // with what they held

/// A node of its own kind takes the place of the inherited one's wiring: what that says of switches and links is of
/// another machine. What it says of the host stays, unless the node says it too.
void forget_other_wiring(const Settings& reference, Settings& document) {
  const Settings* own = reference.find_path("node.kind");
  const Settings* node = document.find("node");
  if (own == nullptr || node == nullptr || !node->is_mapping()) return;
  Settings rest = *node;
  for (const char* key : {"switches", "links", "rate", "mesh", "mesh_rate", "host_bridges", "host_rate"}) {
    const Settings* said = reference.find_path(std::string("node.") + key);
    if (said == nullptr || said->is_null()) rest.erase(key);
  }
  document.set("node", std::move(rest));
}

Resolved resolve_from_files(const Shelf& shelf, const Settings& reference, Files& files);

/// `files`: those that have a part in it are added.
calibration::Generation generation_of(const std::vector<Inherited>& chain, Files& files) {
  std::vector<calibration::WrittenGeneration> written;
  for (const Inherited& one : chain) written.push_back({one.document, fs::path(one.file).stem().string()});
  return calibration::resolve_generation(
      written,
      [&files](const Settings& feature) { return resolve_from_files(shelf_of("features"), feature, files).document; },
      [&files](const Settings& library) {
        return resolve_from_files(shelf_of("collectives"), library, files).document;
      });
}

/// What a reference stands for, its own name and path aside.
Settings document_of(const Shelf& shelf, const Settings& reference, Files& files) {
  const std::vector<Inherited> chain = chain_of(shelf, reference);
  for (const Inherited& one : chain) {
    if (!one.read.is_null()) files.emplace_back(one.file, one.read);
  }
  return shelf.kind == "software" ? generation_of(chain, files).document : overlaid(chain);
}

/// Documents that files say, as long as these stay as they are. A memo, as that of the files themselves.
class PutTogether {
 public:
  Settings of(const Shelf& shelf, const Settings& reference, Files& files) {
    const std::pair key{shelf.kind, file_of(shelf, reference)};
    if (const auto known = find(key)) {
      files.insert(files.end(), known->files.begin(), known->files.end());
      return known->document;
    }
    Made made;
    made.document = document_of(shelf, reference, made.files);
    files.insert(files.end(), made.files.begin(), made.files.end());
    Settings document = made.document;
    const std::lock_guard lock(mutex_);
    known_.insert_or_assign(key, std::make_shared<const Made>(std::move(made)));
    return document;
  }

 private:
  using Key = std::pair<std::string, std::string>;  // kind of shelf, file
  struct Made {
    Settings document;
    Files files;
  };

  std::shared_ptr<const Made> find(const Key& key) {
    std::shared_ptr<const Made> made;
    {
      const std::lock_guard lock(mutex_);
      const auto known = known_.find(key);
      if (known != known_.end()) made = known->second;
    }
    const auto holds = [](const auto& file) { return documents().holds(file.first, file.second); };
    return made && std::all_of(made->files.begin(), made->files.end(), holds) ? made : nullptr;
  }

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Made>> known_;
};

Resolved resolve_from_files(const Shelf& shelf, const Settings& reference, Files& files) {
  static PutTogether& put_together = *new PutTogether;  // as documents()
  Resolved resolved;
  if (!reference.is_mapping()) {
    resolved.document = put_together.of(shelf, reference, files);
    resolved.name = name_in(shelf, reference);
    return resolved;
  }
  const Settings* parent = reference.find("inherits");
  if (parent != nullptr) resolved.name = name_in(shelf, *parent);
  resolved.changed = parent != nullptr && reference.members().size() > 1;
  resolved.document = placed_at(reference.path(), document_of(shelf, reference, files));
  if (parent != nullptr) forget_other_wiring(reference, resolved.document);
  return resolved;
}

}  // namespace

Resolved resolve(const Shelf& shelf, const Settings& reference) {
  Files files;
  return resolve_from_files(shelf, reference, files);
}

Settings software_of(const Settings& scenario, const Settings& reference) {
  const Settings* finetune = scenario.find("finetune");
  if (finetune == nullptr || finetune->is_null()) return reference;
  const Settings* kind = finetune->is_mapping() ? finetune->find("kind") : nullptr;
  if (kind != nullptr && kind->is_scalar() && kind->text() == "full") return reference;
  const Settings other = resolve_software(reference).adapters;
  if (other.is_null()) return reference;
  if (!other.is_scalar()) other.expected("the name of a generation, or none");
  if (other.text() == "none") return reference;
  Settings name = Settings::scalar(other.text(), reference.place(), true);
  if (!reference.is_mapping() || reference.find("inherits") == nullptr) return name;
  Settings changed = reference;
  changed.set("inherits", std::move(name));
  return changed;
}

calibration::Generation resolve_software(const Settings& reference) {
  Files files;
  return generation_of(chain_of(shelf_of("software"), reference), files);
}

const calibration::RecipeBook& recipe_book() {
  static const calibration::RecipeBook& book = *[] {
    calibration::RecipeBook all;
    for (std::size_t part = 0; part < calibration::kRecipeParts; ++part) {
      const std::string name(calibration::name_of(static_cast<calibration::RecipePart>(part)));
      const std::string file = plain_file(shelf_of("recipes"), name);
      if (!is_file(file))
        throw sim::UserError(fmt::format("{}: is missing, expected a recipe that ships with the program", file));
      all.add(read_once(file));
    }
    return new calibration::RecipeBook(std::move(all));
  }();
  return book;
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
  for (const auto& [name, other] : other_names(shelf_of(kind))) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string about(const std::string& kind, const std::string& name) {
  const auto& others = other_names(shelf_of(kind));
  if (const auto other = others.find(name); other != others.end()) return other->second.about;
  const fs::path file = fs::path(data_directory()) / shelf_of(kind).folder / (name + ".yaml");
  const Settings document = read_once(file.string());
  for (const char* key : {"description", "title"}) {
    if (const Settings* text = document.find(key); text != nullptr && text->is_scalar()) return text->text();
  }
  std::ifstream lines(file);
  std::string comment;
  for (std::string line; std::getline(lines, line) && line.starts_with("# ");) comment += line.substr(1);
  // A sentence ends at a full stop before a capital letter, or with the comment.
  std::size_t end = comment.find(". ");
  while (end != std::string::npos && (comment[end + 2] < 'A' || comment[end + 2] > 'Z'))
    end = comment.find(". ", end + 1);
  comment = comment.substr(0, end);
  while (comment.ends_with('.')) comment.pop_back();
  return comment.empty() ? comment : comment.substr(1);
}

}  // namespace orrery::scenarios
