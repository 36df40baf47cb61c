// Configurations of Hugging Face as jobs, and what a card states of their models.
#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"

namespace orrery::tests {

struct StatedModel {
  const char* config;
  double parameters, active;  // in 1e9; 0: a token meets all
  const char* layout;
};

/// `sets`: as behind --set.
inline workloads::Job job_of_config(const Folder& folder, const std::string& config,
                                    const std::vector<std::string>& sets = {}) {
  tools::Draft draft = tools::import_hf(folder.write("config.json", config));
  for (const std::string& set : sets) draft.apply(set);
  return scenarios::load_scenario(scenarios::parse_yaml(draft.yaml(), "imported.yaml")).job;
}

/// With `to` in place of `from` it is refused in one line, which names the file and holds `with`.
inline void check_config_refused(std::string config, const char* from, const char* to, const char* with) {
  const Folder folder;
  const std::size_t at = config.find(from);
  REQUIRE(at != std::string::npos);
  std::string message;
  try {
    job_of_config(folder, config.replace(at, std::string(from).size(), to));
  } catch (const sim::UserError& error) {
    message = error.what();
  }
  INFO(message);
  CHECK(message.find(with) != std::string::npos);
  CHECK(message.find("config.json") != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

}  // namespace orrery::tests
