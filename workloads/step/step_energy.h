// The energy of a job's step.
#pragma once

#include <vector>

#include "workloads/compile/group_shapes.h"
#include "workloads/step/energy.h"
#include "workloads/step/job_values.h"
#include "workloads/step/step.h"

namespace orrery::workloads {

/// `seconds`: what the step takes. `traffic`: its rows with closed forms. `shapes`: how its groups lie.
Energy step_energy(const Job& job, const LayerSplit& split, double seconds, const std::vector<TrafficRow>& traffic,
                   const GroupShapes& shapes);

}  // namespace orrery::workloads
