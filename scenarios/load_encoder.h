// Internal to the loader: an encoder of images ahead of a decoder (model.encoder). Each throws UserError.
#pragma once

#include "sim/settings.h"
#include "workloads/job/job.h"

namespace orrery::scenarios {

/// Of the model, whose document is `section` and whose own sizes are known.
void load_encoder(const sim::Settings& section, workloads::Job& job);
/// What holds between it and the layout and options of the job.
void check_encoder(const sim::Settings& document, const workloads::Encoder& encoder,
                   const workloads::Parallelism& layout, const workloads::Method& method);

}  // namespace orrery::scenarios
