// Configurations of TorchTitan in Python, since February 2026: a function of a config_registry.py makes a
// Trainer.Config, whose parts are those of the TOML before.
#pragma once

#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

struct TitanConfig {
  sim::Settings document;            // in the sections of TOML
  std::string function;              // that makes it
  std::vector<std::string> remarks;  // what was not followed
  std::vector<std::string> open;     // "path = text" of what only a run can say
  std::vector<std::string> none;     // paths that are set to None
};

/// `function`: whose configuration, where the file holds several. Throws sim::UserError for a file without any.
TitanConfig read_titan_python(const std::string& file, const std::string& function);

}  // namespace orrery::tools
