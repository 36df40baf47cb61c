// The communication table: closed forms of what a step moves, beside what the compiled plan moves.
#pragma once

#include <array>
#include <vector>

#include "workloads/job/result.h"
#include "workloads/job/step_plan.h"

namespace orrery::workloads {

/// Rows from formulas of the job alone (Megatron-LM papers; see traffic.cc); simulated_bytes is 0.
std::vector<TrafficRow> closed_form_traffic(const Job& job);

/// Rows counted over the operations of the plan's programs and the instances that run them; closed_form_bytes is 0.
std::vector<TrafficRow> count_traffic(const StepPlan& plan);

/// Of a step that does so many times more what `plan` does and `less`, a period shorter, does not (steady_state.h).
std::vector<TrafficRow> count_repeated_traffic(const StepPlan& plan, const StepPlan& less, std::int64_t times);

/// Both in one table, matched by dimension, operation and what. A row that only one of them knows keeps a zero in the
/// other.
std::vector<TrafficRow> merge_traffic(std::vector<TrafficRow> closed_form, const std::vector<TrafficRow>& counted);

/// By topology::Tier.
using ByTier = std::array<double, 6>;
/// The rows' simulated bytes by the highest tier that each message crosses, every group laid out as a ring; adds up to
/// the sum of the rows. `alike`: Groups::alike.
ByTier bytes_by_tier(const std::vector<TrafficRow>& rows, const std::vector<JobGroup>& groups, const RankMap& ranks,
                     const topology::Cluster& cluster, std::int64_t alike = 1, const AlikeReplicas& replicas = {});

}  // namespace orrery::workloads
