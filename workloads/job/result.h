// What is known of a step once it has run: its time and where that went, memory by stage, the communication table,
// energy, and for pictures when each operation ran.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/device/profile.h"
#include "sim/engine.h"
#include "sim/plan.h"
#include "topology/cluster.h"
#include "workloads/groups/streams.h"
#include "workloads/job/energy.h"
#include "workloads/model/comm_group.h"
#include "workloads/model/passes.h"

namespace orrery::workloads {

/// One row of the communication table. Closed form and simulated count are computed independently and must be equal.
struct TrafficRow {
  CommGroup among;               // whose members move it
  std::string dimension;         // tensor | data | pipeline | context | embedding ...
  std::string operation;         // all_gather | reduce_scatter | all_reduce | send_receive
  std::string what;              // what is moved, as in "activations, forward"
  std::int64_t group = 1;        // ranks in the group
  std::string level;             // highest network tier that the group crosses
  double calls_per_layer = 0;    // per micro-batch; 0 where it is not per layer
  double calls = 0;              // per step, of the rank that makes most
  double bytes_per_call = 0;     // the whole buffer, as in nccl-tests (send_receive: the message)
  double closed_form_bytes = 0;  // per step, summed over all ranks: what the rank sends
  double simulated_bytes = 0;    // the same, counted in the simulated plan
};

/// Bytes per rank of a stage at its fullest moment. `total` is the sum of the other five, and what has to fit.
struct StageMemory {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0, total = 0;
  /// What the buffers consist of.
  struct Buffers {
    double accumulators = 0;   // of gradients, beyond the 2 bytes per parameter listed as gradients
    double weight_copies = 0;  // weights in fp8 and their transposes, kept over the step
    double gathered = 0;       // parameters and gradients that sharding makes whole for the units at work
    double messages = 0;       // of pipeline, sequence and context parallelism
    double step = 0;           // temporaries of the optimizer step, where that is the fullest moment
    double fragmentation = 0;  // what the framework's allocator holds beyond what is allocated
    double context = 0;        // outside of the allocator: CUDA context and communicators
    double sum() const { return accumulators + weight_copies + gathered + messages + step + fragmentation + context; }
  } parts;
  double passing_gradients = 0;  // of `gathered`: whole gradients of chunks whose backward passes are under way
  double host = 0;               // of the rank in the host's memory (offload.optimizer), no part of total
  double waiting = 0;    // freed, but another stream may read it yet: reserved where there is room, no part of total
  double walked = 0;     // reserved, where the software has it walked through the allocator (allocator_walk.h), else 0
  double allocated = 0;  // what PyTorch calls the peak allocated memory: total less fragmentation and context
  enum class During : std::uint8_t { forward, backward, optimizer };
  struct Moment {
    During during = During::forward;
    std::int32_t chunk = 0, microbatch = 0;  // of the pass
    double at_s = 0;                         // seconds into the step, where it was counted
  } peak;
  /// As PyTorch counts reserved memory.
  double reserved() const { return walked > 0 ? walked : total - parts.context + waiting; }
  double counted_activations = 0;  // activations counted from simulated lifetimes (Question::counts_memory)
};
std::string_view name_of(StageMemory::During during);

/// A change of the scenario with which a step would fit its memory.
struct Remedy {
  std::vector<std::string> changes;  // "key.path=value", as --set takes them
  double peak_bytes = 0;             // of the changed scenario
};

/// A kernel inside a compute operation, for traces and rooflines: operations hold runs of kernels.
struct KernelSlice {
  std::string name;
  sim::Duration duration{};
  double flops = 0;  // of matrix products; 0: bound by memory
  double bytes = 0;  // of memory, each operand and result read or written once
  calibration::DataType type = calibration::DataType::bf16;
  sim::Duration issue{};      // of the host, to launch it
  sim::Duration host{};       // of the host, ahead of that: what a layer of experts takes beyond its launches
  std::int64_t launches = 1;  // for kernels that stand for several
  KernelShape shape{};        // of the whole product, also where it is cut to overlap
};

inline constexpr std::int64_t kNoCommunicator = -1;

/// One recorded rank, ready to draw.
struct Timeline {
  std::int64_t rank = 0;   // the rank asked for, or one that its class stands for
  std::int64_t ranks = 1;  // how many ranks it stands for
  std::int64_t stage = 0;
  struct Span {
    std::string name;
    Stream stream;
    Category category{};
    sim::SimTime ready{}, start{}, finish{};
    std::vector<KernelSlice> kernels;  // compute only
    double bytes = 0;                  // transfers only
    // The pass that it belongs to; micro-batch -1: none.
    char pass = 'F';  // letter_of(PassKind)
    std::int32_t chunk = -1, microbatch = -1;
    std::int32_t layer = -1;  // of the network, the embedding 0 where there is one; -1: of none
    /// Transfers: which one. Spans of several ranks with the same meeting are one transfer.
    struct Meeting {
      std::int64_t communicator = kNoCommunicator, turn = 0;
      auto operator<=>(const Meeting&) const = default;
    } meeting;
    /// What the host did for it. Its kernels' launches stand last.
    struct Host {
      sim::SimTime from{}, until{};
    } host;
    /// Transfers: the call. `what` is moved by `ranks` of `group`.
    struct Call {
      calibration::CollectiveOp op{};
      std::string_view group;
      std::int64_t ranks = 0;
    } call;
  };
  std::vector<Span> spans;
  std::array<double, kCategories> breakdown_s{};  // exposed time of this rank; sums to the iteration
  /// Time without a kernel, and what it was waiting for: that part of the breakdown. One after the other.
  struct Gap {
    Category category{};
    sim::SimTime from{}, to{};
  };
  std::vector<Gap> gaps;
  /// What the rank holds from a moment on, in bytes: model states, buffers and live activations.
  struct Memory {
    sim::SimTime at{};
    double bytes = 0;
  };
  std::vector<Memory> memory;  // in the order of time
};

/// When the operations of a stage's busiest rank ran, a pass that is simulated as one operation as one: what a picture
/// of the pipeline is drawn from.
struct StageBars {
  std::int64_t rank = 0, stage = 0;
  struct Bar {
    sim::SimTime start{}, finish{};
    Stream stream;
    Category category{};
    bool computes = false;  // else a transfer
    char pass = 'F';        // as Timeline::Span
    std::int32_t chunk = -1, microbatch = -1;
  };
  std::vector<Bar> bars;  // in issue order
};

/// Kernels of one name and size over a step.
struct KernelUse {
  std::string name;
  double flops = 0, bytes = 0;  // of one, as in KernelSlice
  calibration::DataType type = calibration::DataType::bf16;
  std::int64_t count = 0;
  sim::Duration time{};  // of all
};

/// Bytes through one link of the cluster (or a bundle of parallel ones), one direction.
struct LinkLoad {
  std::string name;
  topology::Tier tier{};
  double capacity = 0;  // bytes/s
  double bytes = 0;     // per step
  double busy_s = 0;    // time with a transfer under way on it
  /// From a moment on, bytes/s: every transfer at its mean rate from its start to its finish.
  struct Rate {
    sim::SimTime at{};
    double bytes_per_s = 0;
  };
  std::vector<Rate> rates;  // in the order of time
};

/// What a step comes to. Question (step.h) says which parts are asked for.
struct StepReport {
  std::int64_t gpus = 0;
  /// What the simulation took.
  struct Effort {
    std::int64_t ranks = 0;  // simulated
    std::uint64_t events = 0;
    double wall_s = 0;  // host time spent planning and simulating
  } effort;
  // Time
  sim::Duration iteration{};  // the step's period: the makespan, or where stages step their optimizers apart
                              // (Parallelism::optimizer_post_validation) the longest time that a stage is at work
  std::array<double, kCategories> breakdown_s{};  // exposed time of the busiest rank; sums to the iteration
  std::int64_t busiest_stage = 0;
  struct Evaluated {
    double seconds = 0;       // one evaluation (0: none)
    double iteration_s = 0;   // iteration + evaluation / every_steps
    double tokens_per_s = 0;  // of training, with evaluations in between
  } evaluation;
  struct Rates {
    double tokens_per_s = 0, tokens_per_s_per_gpu = 0;
    double model_tflops_per_gpu = 0, hardware_tflops_per_gpu = 0, aggregate_pflops = 0, mfu_pct = 0, hfu_pct = 0;
    struct OfStage {
      double computing_s = 0;  // kernels of its busiest rank, where one was recorded
      std::int64_t layers = 0;
    };
    std::vector<OfStage> stages;
  } rates;
  struct Memory {
    bool fits = true;
    double peak_bytes = 0, capacity_bytes = 0;  // of the fullest rank for its GPU
    double allocated_bytes = 0;                 // of the fullest rank
    double reserved_bytes = 0;                  // likewise, what the allocator holds, with what waits
    struct Host {
      double peak_bytes = 0, capacity_bytes = 0;  // of the fullest node's hosts, at most; capacity 0: not known
      bool fits = true;
    } host;
    std::vector<StageMemory> stages;
    std::size_t tightest = 0;       // stage that has least left or lacks most, whose numbers the first two are
    std::vector<Remedy> would_fit;  // where it does not fit: filled by who knows the scenario (scenarios::would_fit)
  } memory;
  Energy energy;  // of the step; not where Question::parts asks for times alone
  // Traffic
  std::vector<TrafficRow> traffic;
  struct TierBytes {
    topology::Tier tier;
    double bytes;
  };
  std::vector<TierBytes> tier_bytes;  // bytes per step whose highest tier is this one
  std::vector<Timeline> timelines;    // Question::timelines
  /// Of the busiest rank of every stage, by stage; where bars would fill the memory, those of the first stages alone.
  struct Busiest {
    std::vector<Timeline> timelines;  // Question::stages; without spans
    std::vector<KernelUse> kernels;   // Question::stages: of them all together
    std::vector<StageBars> bars;      // Question::stages: bars or timelines
  } busiest;
  std::vector<LinkLoad> links;  // with timelines: links of different load, the busiest first; folded only
  std::vector<std::string> assumptions;
};

}  // namespace orrery::workloads
