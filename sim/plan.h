// What is to be simulated, as flat tables: a few programs and the many instances that run them.
//
// A program is a list of operations in the order in which the host issues them. Each operation belongs to one stream;
// a stream runs its operations one at a time, in order. An operation may also wait for operations of other streams
// (`waits`). There are two kinds:
//  - compute: a run of kernels that nothing interrupts, given by two numbers. With t0 the time at which stream and
//    waits are ready and h0 the time at which the host begins to issue it, it finishes at max(t0 + duration, h0 +
//    issue_bound): a run of kernels k with device times d_k, the k-th launched by the host c_k after h0, finishes
//    exactly then with duration = sum d_k and issue_bound = max_k (c_k + sum_{j>=k} d_j) (max-plus).
//  - transfer: a rendezvous on a communicator followed by a fluid transfer. It begins when all members of the
//    communicator have arrived, waits for its latency, then moves `work` bytes along a route at a max-min fair rate.
//    All members finish together. The k-th transfer that a member issues on a communicator meets the k-th of the
//    others. Collectives and send/receive pairs are the same thing here.
//
// A stretch stands for a run of these that repeats: compute operations on one stream and transfers on another, of a
// communicator that the instance has for itself. It is written down once and named by two operations for each time that
// it runs, one on either stream. Its times are those of its operations listed one by one, to the picosecond; the engine
// goes through them where somebody else comes onto their links, and nowhere else (sim/stretches.h).
//
// Host: issuing operation i takes `issue` of host time; the host runs ahead of the device except where `host_waits`
// says that it blocks until an operation has finished.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/id.h"
#include "sim/units.h"

namespace orrery::sim {

enum class OpKind : std::uint8_t {
  compute,
  transfer,
  stretch,           // the compute operations of a stretch, with all that it waits for
  stretch_transfers  // its transfers; follows the former at once, waits for nothing, costs the host nothing
};

inline constexpr std::uint32_t kNoSlot = 0xffffffff;

/// One operation, as handed to Program::add. Times in picoseconds through Duration.
struct Op {
  OpKind kind = OpKind::compute;
  std::uint8_t stream = 0;
  std::uint8_t category = 0;     // for the reader only (compute, tensor, pipeline, ...)
  bool host_waits = false;       // the host issues nothing more until this has finished
  Duration issue{};              // host time to issue it
  Duration duration{};           // compute: device time; transfer: latency before the fluid part
  Duration issue_bound{};        // compute only; at least `issue`
  std::uint32_t slot = kNoSlot;  // transfer, stretch: which of the instance's communicators
  std::uint32_t pattern = 0;     // transfer: which of the communicator's routes; stretch: row of Program::stretches
  double work = 0;               // transfer: bytes to move along the route
  double rate_cap = 0;           // transfer: bytes/s that it can use at most; 0 = no cap of its own
  float loaded = 0;              // compute: share of `duration` that grows with the instance's load (Plan::loads)
  friend bool operator==(const Op&, const Op&) = default;
};

/// Operations in issue order, a transfer at least. A transfer waits for the compute operations before it, and some
/// compute operation for it: so the stretch ends when both streams are done, and nothing of it is known too late.
struct Stretch {
  struct Item {
    bool transfer = false;
    std::uint32_t transfers = 0;  // compute: so many of the stretch's transfers must have finished, the first ones
    std::uint32_t pattern = 0;    // these as in Op
    std::int64_t issue = 0, duration = 0, issue_bound = 0;  // ps
    double work = 0, rate_cap = 0;
  };
  std::vector<Item> items;
};

struct Program {
  // Columns, one row per operation, in issue order.
  std::vector<OpKind> kind;
  std::vector<std::uint8_t> stream;
  std::vector<std::uint8_t> category;
  std::vector<std::uint8_t> host_waits;
  std::vector<std::int64_t> issue;        // ps
  std::vector<std::int64_t> duration;     // ps
  std::vector<std::int64_t> issue_bound;  // ps
  std::vector<std::uint32_t> slot;
  std::vector<std::uint32_t> pattern;
  std::vector<double> work;
  std::vector<double> rate_cap;
  std::vector<float> loaded;
  std::vector<std::uint32_t> waits_begin{0};  // compressed rows of `waits`
  std::vector<std::uint32_t> waits;           // indices of earlier operations of this program
  std::vector<Stretch> stretches;

  std::uint32_t size() const { return static_cast<std::uint32_t>(kind.size()); }
  std::span<const std::uint32_t> waits_of(std::uint32_t op) const {
    return {waits.data() + waits_begin[op], waits_begin[op + 1] - waits_begin[op]};
  }
  /// The operation as it was handed to add(), without what it waits for.
  Op op_at(std::uint32_t op) const;
  /// Appends an operation that waits for `after` (each an index below size()); returns its index.
  std::uint32_t add(const Op& op, std::span<const std::uint32_t> after = {});
};

struct Instance {
  ProgramId program{};
  double slowdown = 1.0;         // multiplies compute durations; 1.1 = a tenth slower
  std::uint64_t noise_key = 0;   // which noise the instance draws; only used when Plan::noise.sigma > 0
  std::uint64_t load_group = 0;  // instances that share work out among them, and this one's place among these;
  std::uint32_t load_place = 0;  // only used where Plan::loads has rows
};

/// How unevenly groups of instances share work out: each row is one way, a factor for every place, 1 in the mean. The
/// group `load_group` takes for operation `op` the row that a hash of (seed, group, operation) points at.
struct Loads {
  std::uint32_t places = 0;
  std::vector<double> factors;  // rows of `places`; empty: work is shared out evenly
  std::uint64_t seed = 0;
  bool any() const { return !factors.empty(); }
};

/// Lognormal noise with median 1, a hash without state: on compute durations of (seed, noise_key, operation), on the
/// latency of transfers of (seed, noise_key of the communicator, which transfer on it).
struct Noise {
  double sigma = 0;
  std::uint64_t seed = 0;
};

struct Communicator {
  std::uint32_t members = 0;  // arrivals that a transfer waits for, counted over (instance, slot) pairs
  RouteId first_route{};      // pattern p uses route first_route + p
  std::uint32_t patterns = 1;
  std::uint64_t noise_key = 0;  // which noise its latencies draw; only used when Plan::message_noise.sigma > 0
};

struct Plan {
  std::uint8_t streams = 1;
  Table<ProgramId, Program> programs;
  Table<InstanceId, Instance> instances;
  std::vector<std::uint32_t> slots_begin{0};  // compressed rows: instance -> its communicators, by slot
  std::vector<CommunicatorId> slots;
  Table<CommunicatorId, Communicator> communicators;
  Noise noise;          // of compute
  Noise message_noise;  // of transfers' latency
  Loads loads;          // of the loaded share of compute

  std::span<const CommunicatorId> slots_of(InstanceId i) const {
    return {slots.data() + slots_begin[index(i)], slots_begin[index(i) + 1] - slots_begin[index(i)]};
  }
  InstanceId add_instance(const Instance& instance, std::span<const CommunicatorId> communicators_by_slot);
};

/// Throws InternalError when the tables do not fit together (ids in range, waits go backwards, members = arrivals,
/// ...).
struct Network;
void check(const Plan& plan, const Network& network);

}  // namespace orrery::sim
