// The energy of a job's step.
#pragma once

#include <vector>

#include "workloads/groups/group_shapes.h"
#include "workloads/job/energy.h"
#include "workloads/job/job_values.h"
#include "workloads/step/step.h"

namespace orrery::workloads {

/// What the energy of a step depends on, beside its layers, its time and its traffic. Refers to its arguments.
struct EnergyInputs {
  const Machine& machine;
  const PowerTerms& terms;
  ProgramInputs programs;           // of the training step
  std::int64_t tensor_in_node = 1;  // ranks of a tensor group that lies in a node, else 1
  double microbatches = 1;          // that each chunk of a stage sees: two copies of the model share them out
};

/// `microbatches`: of a step and replica. `programs`: program_inputs_of the training step.
EnergyInputs energy_inputs(const Machine& machine, const PowerTerms& terms, const Parallelism& layout,
                           std::int64_t microbatches, ProgramInputs programs);

/// `seconds`: what the step takes. `traffic`: its rows with closed forms. `shapes`: how its groups lie. Of a device
/// without a power model nothing is known.
Energy step_energy(const EnergyInputs& inputs, const LayerSplit& split, double seconds,
                   const std::vector<TrafficRow>& traffic, const GroupShapes& shapes);

}  // namespace orrery::workloads
