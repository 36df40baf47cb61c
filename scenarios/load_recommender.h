// Internal to the room: recommenders.
#pragma once

#include "scenarios/load.h"

namespace orrery::scenarios {

/// Whether the scenario's model is a recommender. Throws UserError where the model cannot be found.
bool trains_recommender(const sim::Settings& document);

/// In place of load_model, load_layout, load_options and check_job. Throws UserError.
void load_recommender(const sim::Settings& document, workloads::Job& job);

/// Refuses a recommender's keys beside a model of layers.
void refuse_recommender_keys(const sim::Settings& document, const sim::Settings& model);

}  // namespace orrery::scenarios
