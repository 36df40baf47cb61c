// The communication groups of a job, as data: who is in each, on which streams its transfers run, what their time
// counts as. The list is made once per job, from its layout, from how its schedule lays the model on stages and from
// what the model's ends share; communicators, programs, costs, traffic and timelines ask it.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "workloads/collectives/collective.h"
#include "workloads/groups/dims.h"
#include "workloads/groups/streams.h"
#include "workloads/model/comm_group.h"

namespace orrery::workloads {

/// How the ranks of a mixture of experts share these out: groups inside those of tensor, context and data ranks, whose
/// places are numbered on: first the parts of an expert, then experts, then replicas (Megatron-Core,
/// parallel_state.py, the order of its expert ranks).
struct ExpertLayout {
  std::int64_t expert = 1, tensor = 1;
  std::int64_t shard_ranks = 1;  // as GroupLayout's, of experts
  bool any = false;              // the model has experts
  bool tables = false;           // which are embedding tables: `expert` ranks or nodes, of `tensor` ranks each
  bool gathers = false;          // tokens come by all-gather, else by all-to-all
  ExchangeStyle exchange;        // of the latter
  bool operator==(const ExpertLayout&) const = default;
};

/// What the groups of a job follow from.
struct GroupLayout {
  Dims dims;
  ExpertLayout experts;
  bool mirrored = false;              // stages s and p-1-s hold the same blocks
  bool around = false;                // activations go on from the last stage to the first
  bool returns = false;               // some chunks run from the last stage to the first
  bool ties_ends = false;             // first and last stage hold the same word embedding
  bool shards = false;                // states are shared out, so that the gradients' norm is a sum over all ranks
  bool all_reduces_gradients = true;  // among the ranks that share out a state
  std::int64_t shard_ranks = 1;       // how many those are
  std::int64_t tensor_in = 1;         // of the tensor ranks, neighbours
  /// Of the ranks that share out a state, neighbours: those that share out weights and gradients, as many as
  /// shard_ranks where all of them do. secondary_ranks: of the second copy; 0: there is none.
  std::int64_t weight_ranks = 1, gradient_ranks = 1, secondary_ranks = 0;
  calibration::CollectiveAlgorithms own_routes;  // GroupCalls::own
  bool offloads = false;                         // some states lie in the host's memory
  bool reduces_scales = false;                   // scales of fp8 tensors, among tensor and data ranks
  bool operator==(const GroupLayout&) const = default;
};

/// Pairs of ranks that differ in their stage alone: for s below `pairs`, stages s and s + apart (counted round).
struct StagePairs {
  std::int64_t pairs = 0, apart = 1;
  bool returning = false;  // of chunks that run from the last stage to the first
  bool operator==(const StagePairs&) const = default;
};

/// One group that the ranks of a job have, or that those of some stages have.
struct JobGroup {
  CommGroup group;
  std::variant<SubGroup, StagePairs> members;
  enum class Carries : std::uint8_t { collectives, messages, signals };  // signals: a few bytes, which load no link
  Carries carries = Carries::collectives;
  Stream stream, receives;  // receives: of the end of a message that receives it
  Category category{};
  bool all_reduces = false;                    // collectives: beside what goes once around
  bool upwards = false;                        // messages: from the pair's second stage to its first
  std::optional<ExchangeStyle> exchange = {};  // all-to-alls, and nothing else
};

/// In the order in which communicators are made; groups that nobody needs are left out.
std::vector<JobGroup> comm_groups(const GroupLayout& layout);

/// The entry of a group; null where the job has none.
const JobGroup* find_group(const std::vector<JobGroup>& groups, const CommGroup& group);

/// Which end of a message; of anything else all members are alike.
enum class End : std::uint8_t { member, sends, receives };

/// What a rank has a communicator for.
struct GroupSlot {
  CommGroup group;
  End end{};
  Stream stream;
  Category category{};
};

/// What the ranks of a stage have communicators for.
std::vector<GroupSlot> slots_of_stage(const std::vector<JobGroup>& groups, const Dims& dims, std::int64_t stage);

/// The end of `group` that a pair's first or second stage has.
End end_of(const JobGroup& group, bool first);

/// The stage that a pair's first stage talks to.
std::int64_t second_stage(const StagePairs& pairs, std::int64_t first, const Dims& dims);

/// Streams that a job with these groups can use: so many of all_streams().
std::uint8_t streams_of(const std::vector<JobGroup>& groups);

/// A number that the members of a communicator share and no other communicator of the job has: of the one that `rank`
/// has at this end of `group`.
std::int64_t communicator_of(const JobGroup& group, const Dims& dims, std::int64_t rank, End end);

}  // namespace orrery::workloads
