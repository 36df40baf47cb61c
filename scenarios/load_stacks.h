// Internal to the loader: an encoder of text ahead of a decoder, and inputs of every layer's own. Throws UserError.
#pragma once

#include "sim/settings.h"
#include "workloads/job/job.h"

namespace orrery::scenarios {

/// `section`: the model, whose pattern is loaded.
void load_stacks(const sim::Settings& section, workloads::Job& job);
/// What holds between them and the layout.
void check_stacks(const sim::Settings& document, const workloads::Model& model, const workloads::Parallelism& layout,
                  const workloads::Method& method);

}  // namespace orrery::scenarios
