// Prompts computed by one pool of replicas and answers written by another: between them the cache of each prompt is
// handed over, as flows that share the links of a network with each other.
//
// A request goes to a replica that computes prompts; when its prompt is through it waits until a replica that writes
// answers has a place and blocks for it, its keys and values flow there, and it decodes. The blocks that its prompt
// left are free when the flow is through, so that a slow network or a full second pool stops the first. That order is
// TensorRT-LLM's (trtllm-serve disaggregated), vLLM's (NixlConnector: the second pulls) and, but for when room is
// taken, SGLang's (disaggregation/decode.py). Left out: prefixes that the second pool finds in its own cache.
//
// Each pool may change while it serves (pool.h), by a figure of its own. A replica that computes prompts and fails
// takes with it those that it was computing and the caches that it had not handed over: these prompts are computed
// again elsewhere. What is on its way from a replica that fails, or to one, breaks off at once; nothing sets out from
// it or to it any more, and what waits for that goes on when the failure is noticed: to another replica, if the cache
// is still there. Answers on a replica that fails lose their caches: prompt and what is written are computed again by
// the first pool, handed over anew, and gone on with (Dynamo's request migration), begun again, or lost. Left out:
// parts of caches that have come.
#pragma once

#include <span>
#include <vector>

#include "sim/network.h"
#include "workloads/runs/serving/serve.h"

namespace orrery::serving {

/// Whether a prompt's keys and values flow layer by layer while it is computed, or all of them behind it.
enum class Handing : std::uint8_t { whole, layer_by_layer };

/// What the way between the pools is.
class Ways {
 public:
  virtual ~Ways() = default;
  /// Links of the network, bytes/s each.
  virtual const sim::Table<sim::LinkId, double>& capacity() const = 0;
  /// What is on the way from an attention group of the first pool to one of the second, counted through replicas, and
  /// the time of its first byte. Stays valid.
  struct Way {
    std::span<const sim::WeightedLink> links;
    Time latency = 0;
  };
  virtual Way way(std::int64_t from, std::int64_t to) = 0;
};

struct Handover {
  Ways* ways = nullptr;         // null: no bytes, no time
  double bytes_a_token = 0;     // of a transfer, as the links' weights count them
  double bytes_a_sequence = 0;  // beside, however long it is
  Handing handing = Handing::whole;
  std::int64_t layers = 1;
  Time latency = 0;                             // of a handover, beyond the network's
  std::int64_t groups_from = 1, groups_to = 1;  // attention groups of a replica
};

struct Apart {
  Fleet prefill, decode;
  Handover handover;
};

struct ApartOutcome {
  Outcome prefill, decode;  // requests of the first: until their prompts are through; of the second: from there on
  /// Of each request as its user sees it.
  std::vector<Served> requests;
  /// When its prompt was through, when its cache began to flow, and when it was there; kNever where it was not.
  struct Handed {
    Time computed = kNever, begun = kNever, there = kNever;
    std::int32_t from = 0, to = 0;
  };
  std::vector<Handed> handed;
  double bytes = 0;                         // handed over, or begun to be
  double broken = 0;                        // of these, of handovers that a failure broke off
  std::int64_t lost_tokens = 0, moved = 0;  // computed in vain; requests whose prompts are computed anew
};

/// What one model asks of its pools.
struct ApartRun {
  const Trace* trace;
  const Apart* fleet;
  StepTimes *prefill, *decode;
};

/// Models with pools of their own whose caches share the links of one network: all their ways have the same ones.
/// Requests as in serve(): an open loop by the trace's arrivals, a closed one by the ends of answers.
std::vector<ApartOutcome> serve_apart(std::span<const ApartRun> runs);
/// One alone.
ApartOutcome serve_apart(const Trace& trace, const Apart& fleet, StepTimes& prefill, StepTimes& decode);

}  // namespace orrery::serving
