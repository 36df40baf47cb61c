// Internal to the loader: models whose blocks follow a pattern of their own (model.blocks, mixers, channels). Each
// throws UserError.
#pragma once

#include <string>
#include <vector>

#include "sim/settings.h"
#include "workloads/job/job.h"

namespace orrery::scenarios {

/// Whether the model, whose document is `section`, has one.
/// Kinds of mixers, in the order in which they are listed.
const std::vector<std::string>& mixer_names();
bool has_pattern(const sim::Settings& section);
/// How many blocks it has.
std::int64_t blocks_of(const sim::Settings& section);
/// Once sizes and features of the model itself are known: what its blocks leave open is the model's.
void load_pattern(const sim::Settings& section, workloads::Job& job);
/// What holds between the pattern and the layout and options of the job.
void check_pattern(const sim::Settings& document, const workloads::Model& model, const workloads::Parallelism& layout,
                   const workloads::Method& method);

}  // namespace orrery::scenarios
