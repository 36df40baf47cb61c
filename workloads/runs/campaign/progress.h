// How far a campaign is after a time without interruptions, in closed form: W(n) is the time of the first n steps in
// one state of the machine, with their evaluations and the stalls of their checkpoints, counted by absolute step number
// as training loops do (a checkpoint after step n when n is a multiple of the interval). All jumps go through W and its
// inverse, so that a week between two failures costs as much as a minute.
#pragma once

#include <array>
#include <cstdint>

#include "workloads/runs/campaign/plan.h"

namespace orrery::campaign {

/// What a campaign's time goes into; every picosecond is in exactly one.
enum class Share : std::uint8_t {
  work,            // steps that count, at the simulator's time with the whole machine
  excess,          // what real steps take beyond it
  data,            // waits for data
  fewer_replicas,  // what steps take longer with nodes missing
  slow,            // what steps take longer with something slow, unseen
  evaluation,
  checkpoint,  // stalls
  lost,        // all that a failure threw away, since the checkpoint that the job came back to
  detection,
  diagnosis,
  waiting,  // for nodes
  restart,  // swap, scheduler, containers
  initialisation,
  loading,
  warm_up,
  drain,  // saving ahead of a planned stop
  maintenance
};
inline constexpr std::size_t kShares = 17;
std::string_view name_of(Share share);
/// What it means, in one sentence.
std::string_view meaning_of(Share share);

using Shares = std::array<Elapsed, kShares>;
inline Elapsed& at(Shares& shares, Share share) { return shares[static_cast<std::size_t>(share)]; }
inline Elapsed at(const Shares& shares, Share share) { return shares[static_cast<std::size_t>(share)]; }
Elapsed sum(const Shares& shares);

/// W(step) in that state.
Elapsed time_until(const Plan& plan, std::int64_t step, std::size_t state);
/// The most steps from `from` on that end within `time`; at most to plan.steps.
std::int64_t steps_within(const Plan& plan, std::int64_t from, Elapsed time, std::size_t state);
/// Adds what the steps from `from` to `to` consist of; their sum is W(to) - W(from).
void add_content(const Plan& plan, std::int64_t from, std::int64_t to, std::size_t state, Shares& shares);

}  // namespace orrery::campaign
