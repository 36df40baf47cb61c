// What can be named in a scenario or on the command line: documents that ship and entries of catalogues, by kind.
#pragma once

#include <string>
#include <vector>

namespace orrery::tools {

struct ShippedName {
  std::string name, about;
};

/// devices, fabrics, models, ... as `orrery list` knows them, but keys.
const std::vector<std::string>& shipped_kinds();
/// All of a kind, with what each is in one line. SIM_CHECK where there is no such kind.
std::vector<ShippedName> shipped_names(const std::string& kind);

/// What `orrery help` says of a name: its kind, what it is, what it is another name of, where it is written. By the
/// name itself, else by what it is short for (h100, eos), or by those that begin with it. Empty: nothing is called so.
std::string about_shipped(const std::string& word);

}  // namespace orrery::tools
