// What a configuration says beyond the keys that a scenario is made of, by catalogues of its program's keys: without
// effect on a step, or of weight and not simulated. What no catalogue has is not known, and told what it may mean.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/import/import.h"
#include "tools/import/sections.h"

namespace orrery::tools {

/// A reason, and keys with blanks between them, by their paths; one that ends with * stands for all that begin so, and
/// a section's for all in it. Of "key=value" the value is the key's default, which weighs nothing.
struct NamedKeys {
  const char *why, *keys;
};

class KeyCatalogue {
 public:
  KeyCatalogue(std::span<const NamedKeys> of_weight, std::span<const NamedKeys> without_effect);
  /// Names the keys that nobody asked for, those of weight first.
  void tell(Sections& config, Draft& draft) const;

 private:
  struct Reason {
    const char* why = nullptr;
    bool weighs = false;
    std::string usual = {};  // its default, where that is neither false nor nothing
  };
  void add(std::span<const NamedKeys> groups, bool weighs);
  Reason of(const std::string& path) const;
  std::map<std::string, Reason> whole_;
  std::vector<std::pair<std::string, Reason>> begun_;
};

}  // namespace orrery::tools
