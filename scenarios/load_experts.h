// Internal to the loader: the keys of mixtures of experts. Each throws UserError.
#pragma once

#include "sim/settings.h"
#include "workloads/job/job.h"

namespace orrery::scenarios {

/// Of the model, whose document is `section`; refuses them where its kind is another.
void load_mixture(const sim::Settings& section, workloads::Job& job);
/// The experts that a section of the model describes, and what holds between their counts.
workloads::Experts load_routed(const sim::Settings& section);
void check_expert_counts(const sim::Settings& section, const workloads::Model& model);
/// parallelism.expert and expert_tensor; `section` may be null.
void load_expert_layout(const sim::Settings& document, const sim::Settings* section, workloads::Job& job);
/// The section `experts`.
void load_expert_style(const sim::Settings& document, workloads::Job& job);
/// What holds between them and the rest of the layout.
void check_experts(const sim::Settings& document, const workloads::Experts& experts,
                   const workloads::Parallelism& layout);

}  // namespace orrery::scenarios
