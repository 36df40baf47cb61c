// Several models on one cluster: a list `models`, each with its engine, pools, traffic and promise, on GPUs of its own;
// where prompts and answers are apart, caches of all cross one fabric.
#pragma once

#include <string>
#include <vector>

#include "scenarios/serving.h"

namespace orrery::scenarios {

struct ServedModels {
  std::string id, description;
  std::int64_t gpus = 0;                // of the cluster
  std::vector<ServingScenario> models;  // by the list, and so they lie on the cluster
  std::int64_t served_gpus() const;
};

/// Whether the document has such a list.
bool serves_several(const sim::Settings& document);

/// The scenario of each model by itself: what stands beside `models` holds for each that does not say otherwise.
/// Throws UserError.
std::vector<sim::Settings> documents_of_models(const sim::Settings& document);

/// Throws UserError.
ServedModels load_served_models(const sim::Settings& document);

}  // namespace orrery::scenarios
