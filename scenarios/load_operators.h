// Internal to the loader: mixers that are the operators of a graph (model.mixers.NAME.run). Throws UserError.
#pragma once

#include "sim/settings.h"
#include "workloads/job/job.h"

namespace orrery::scenarios {

/// `section`: the mixer; `model`: whose hidden size and sequences are known.
workloads::Operators load_operators(const sim::Settings& section, const workloads::Model& model);
/// What holds between them and the layout.
void check_operators(const sim::Settings& document, const workloads::Model& model, const workloads::Parallelism& layout,
                     const workloads::Method& method);

}  // namespace orrery::scenarios
