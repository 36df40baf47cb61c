// Formulas of the communication table for recommenders. Independent of the layers' own lists, like the rest of the
// closed form (traffic.h).
#pragma once

#include "workloads/job/job.h"
#include "workloads/traffic/traffic_rows.h"

namespace orrery::workloads {

/// Parameters that every rank repeats: MLPs, cross layers and tables that lie on every rank.
double repeated_parameters(const Recommender& model);

/// Rows of the tables' groups: vectors, their gradients and keys. `samples`: of a step. `bytes`: of an activation.
void add_table_rows(const Recommender& model, std::int64_t gpus, double samples, double bytes, TrafficRows& rows);

}  // namespace orrery::workloads
