// Walks the chain of inheritance that a scenario's reference begins. Left out: keys that a nearer document sets to a
// mapping's neighbour; a key counts as set where its whole path is there.
#include "scenarios/origin.h"

#include <fmt/format.h>

#include "scenarios/library.h"
#include "scenarios/schema.h"

namespace orrery::scenarios {

using sim::Settings;

DocumentKey document_key(const Settings& path) {
  if (!path.is_scalar()) path.fail("expected a key, as in software.kernel_issue");
  const std::string& text = path.text();
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
  path.fail(fmt::format("read \"{}\", which is no key of a software generation, a fabric or a device{}", text,
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
  const Settings* reference = scenario.find_path(shelf.key);
  if (reference != nullptr && !(reference->is_scalar() && reference->text() == "unknown")) {
    return resolve(shelf, *reference).document;
  }
  if (kind != "software") return Settings::mapping({});
  return resolve(shelf, Settings::scalar(kDefaultSoftware, {"default", 0, 0})).document;
}

bool reads_from(const Settings& scenario, const DocumentKey& key, const std::string& file) {
  const Shelf& shelf = shelf_of(key.kind);
  const Settings* reference = scenario.find_path(shelf.key);
  Settings fallback;
  if (reference == nullptr || (reference->is_scalar() && reference->text() == "unknown")) {
    if (key.kind != "software") return false;
    fallback = Settings::scalar(kDefaultSoftware, {"default", 0, 0});
    reference = &fallback;
  }
  Settings document;
  // The chain is finite: resolving the scenario refuses circles, and so does this count.
  for (int depth = 0; reference != nullptr && depth < 20; ++depth) {
    if (reference->is_mapping()) {
      document = *reference;
    } else {
      const std::string here = file_of(shelf, *reference);
      if (here == file) return true;
      document = read_once(here);
    }
    if (document.find_path(key.key) != nullptr) return false;
    const Settings* parent = document.is_mapping() ? document.find("inherits") : nullptr;
    if (parent == nullptr) return false;
    const Settings next = *parent;
    fallback = next;
    reference = &fallback;
  }
  return false;
}

}  // namespace orrery::scenarios
