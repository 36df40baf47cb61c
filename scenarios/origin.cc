// Asks the chain of inheritance that a scenario's reference begins. Left out: keys that a nearer document sets to a
// mapping's neighbour; a key counts as set where its whole path is there.
#include "scenarios/origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "calibration/framework/software.h"
#include "scenarios/library.h"
#include "scenarios/schema.h"

namespace orrery::scenarios {

using sim::Settings;

namespace {

/// What `scenario` says on the shelf, or the default software; null where it refers to nothing.
Settings reference_in(const Settings& scenario, const Shelf& shelf) {
  const Settings* reference = scenario.find_path(shelf.key);
  const bool said = reference != nullptr && !(reference->is_scalar() && reference->text() == "unknown");
  if (shelf.kind != "software") return said ? *reference : Settings{};
  return software_of(scenario, said ? *reference : Settings::scalar(kDefaultSoftware, {"default", 0, 0}));
}

/// The key where it stands, where it is named without its block, or with `fitted`.
std::string at_its_place(const std::string& key) {
  const std::string prefix = shelf_of("software").key + ".";
  return key.starts_with(prefix) ? prefix + calibration::present_key(key.substr(prefix.size())) : key;
}

}  // namespace

DocumentKey document_key(const Settings& path) {
  if (!path.is_scalar()) path.fail("expected a key, as in software.kernel_issue");
  const std::string text = at_its_place(path.text());
  std::vector<std::string> known;
  for (const char* kind : {"devices", "fabrics", "software"}) {
    const std::string prefix = shelf_of(kind).key + ".";
    for (const Key& key : schema()) {
      if (!key.path.starts_with(prefix)) continue;
      // A star stands for a free name: the tables of the kernel-time model.
      const std::string stem = key.path.substr(0, key.path.find('*'));
      const bool free = stem.size() < key.path.size() && text.starts_with(stem);
      if ((key.path == text && key.type != "mapping") || free) return {kind, text.substr(prefix.size())};
      known.push_back(key.path);
    }
  }
  const std::string nearest = sim::nearest_word(text, known);
  path.fail(fmt::format("got \"{}\", which is no key of a software generation, a fabric or a device{}", text,
                        nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest)));
}

std::string document_file(const std::string& kind, const Settings& reference) {
  return file_of(shelf_of(kind), reference);
}

Settings whole_document(const std::string& kind, const std::string& file) {
  return resolve(shelf_of(kind), Settings::scalar(file, {file, 0, 0}, true)).document;
}

Settings referred_document(const Settings& scenario, const std::string& kind) {
  const Shelf& shelf = shelf_of(kind);
  const Settings reference = reference_in(scenario, shelf);
  return reference.is_null() ? Settings::mapping({}) : resolve(shelf, reference).document;
}

calibration::Generation referred_software(const Settings& scenario) {
  return resolve_software(reference_in(scenario, shelf_of("software")));
}

Settings without_feature(const Settings& scenario, const std::string& feature) {
  const Settings reference = reference_in(scenario, shelf_of("software"));
  Settings without = Settings::sequence(reference.place());
  without.append(Settings::scalar(feature, reference.place(), true));
  // A mapping that changes what it inherits takes one change more; anything else is inherited as it is.
  const bool open = reference.is_mapping() && reference.find("inherits") != nullptr &&
                    reference.find("features") == nullptr && reference.find("without") == nullptr;
  Settings changed = open ? reference : Settings::mapping(reference.place());
  if (!open) changed.set("inherits", reference);
  changed.set("without", std::move(without));
  Settings whole = scenario;
  whole.set("software", std::move(changed));
  return whole;
}

bool reads_from(const Settings& scenario, const DocumentKey& key, const std::string& file) {
  const Shelf& shelf = shelf_of(key.kind);
  const Settings reference = reference_in(scenario, shelf);
  if (reference.is_null()) return false;
  const std::vector<Inherited> chain = chain_of(shelf, reference);
  const auto at = std::find_if(chain.begin(), chain.end(), [&](const Inherited& one) { return one.file == file; });
  if (at == chain.end()) return false;
  if (key.kind == "software") {
    const calibration::Generation generation = resolve_software(reference);
    const calibration::KeySource* source = generation.source_of(key.key);
    return source == nullptr || source->document >= static_cast<std::size_t>(at - chain.begin());
  }
  return std::none_of(chain.begin(), at,
                      [&](const Inherited& nearer) { return nearer.document.find_path(key.key) != nullptr; });
}

}  // namespace orrery::scenarios
