// What of a file an importer knows and takes, and yet comes to nothing: an option of a part that is turned off, a value
// that another one overrules, a default that is said. The scenario is made once more without each that no remark names;
// where it is the same, a remark says so.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "sim/settings.h"
#include "tools/import/import.h"

namespace orrery::tools {

struct SaidKey {
  std::vector<std::string> names;  // by which a remark may have named it
  std::string shown;               // as it is written: "--eval-iters 3"
};

/// Names those of `said` that change nothing. `without`: what the file makes where the i-th is not there; it may throw
/// sim::UserError, as of a key that has to be there.
void tell_idle(Draft& draft, const std::vector<SaidKey>& said, const std::function<Draft(std::size_t i)>& without);

/// The draft that `import` makes of a document, with its keys that change nothing named.
Draft tell_idle_keys(const sim::Settings& document, const std::function<Draft(const sim::Settings&)>& import);

}  // namespace orrery::tools
