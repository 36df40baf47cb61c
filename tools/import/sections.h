// Keys of a configuration that is cut into sections, read once each, so that what nobody asked for can be named.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/import/import.h"

namespace orrery::tools {

/// A file as Python's YAML reads it: 70_000 is a number.
sim::Settings read_python_yaml(const std::string& file);

class Sections {
 public:
  explicit Sections(const sim::Settings& document) : document_(document) {}

  const sim::Settings& document() const { return document_; }
  /// The value at "section.key"; nullptr where it is absent or null.
  const sim::Settings* find(const std::string& path) {
    asked_.insert(path);
    return document_.find_path(path);
  }
  /// The first of these that is there: what other versions called a key. Of others that say otherwise a remark is kept.
  const sim::Settings* any(const std::vector<std::string>& paths) {
    const sim::Settings* found = nullptr;
    std::string first;
    for (const std::string& path : paths) {
      const sim::Settings* here = find(path);
      if (here != nullptr && found != nullptr && here->is_scalar() && found->is_scalar() &&
          here->text() != found->text() && path != first)
        overruled_.insert(path + " = " + here->text() + ": " + first + " = " + found->text() + " stands instead");
      if (found == nullptr && here != nullptr) first = path;
      if (found == nullptr) found = here;
    }
    return found;
  }
  std::int64_t count(const std::vector<std::string>& paths, std::int64_t fallback, std::int64_t low = 1) {
    const sim::Settings* value = any(paths);
    return value == nullptr ? fallback : value->as_int(low, 1'000'000'000'000);
  }
  bool flag(const std::vector<std::string>& paths, bool fallback) {
    const sim::Settings* value = any(paths);
    return value == nullptr ? fallback : value->as_bool();
  }
  std::string word(const std::vector<std::string>& paths, const std::string& fallback) {
    const sim::Settings* value = any(paths);
    return value != nullptr && value->is_scalar() ? value->text() : fallback;
  }
  /// Whether anybody asked for the key.
  bool asked(const std::string& path) const { return asked_.contains(path); }
  const std::set<std::string>& asked_paths() const { return asked_; }
  /// The paths of all keys that nobody asked for.
  std::vector<std::string> unasked() const {
    std::vector<std::string> rest;
    collect(document_, "", rest);
    return rest;
  }
  /// Keys that nobody asked for, a remark for each section; and those that another one overrules.
  void remark_on_the_rest(Draft& draft, const std::set<std::string>& known = {}, const std::string& why = "") const;

 private:
  void collect(const sim::Settings& node, const std::string& path, std::vector<std::string>& rest) const;
  const sim::Settings& document_;
  std::set<std::string> asked_, overruled_;
};

}  // namespace orrery::tools
