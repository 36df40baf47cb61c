// Steps of reinforcement learning in time. A batch of answers is written, judged and scored, and trained on; new
// weights go to the engine. Where both share their GPUs (colocated) that is a sum. Where each has its own, a batch may
// be handed in while weights are up to `staleness` steps old: batch i as soon as step i - staleness - 1 is trained and
// its weights are over; with staleness 0 trainer and engine wait for each other. A transfer stops both.
//
// Batches under way share the engine, and weights come when training ends, which hangs on when batches end. The
// engine's clock stops while weights come, so that the loop of requests runs as one, in the engine's time, on all
// batches that can have been handed in by the end of the one asked for; those hang on earlier trainings alone. Each
// step runs it again, on a batch more.
//
// Prices are those of a step of mean size, given. Left out: training on parts of a batch as they come in, engines that
// get their weights one after the other, judges that run while others still write.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "workloads/runs/rl/rollout.h"

namespace orrery::rl {

enum class Placement : std::uint8_t { colocated, separate, asynchronous };
/// Requests under way as weights come: ended first; broken off, their caches computed again; gone on with.
enum class UnderWay : std::uint8_t { drain, interrupt, resume };
/// What a step is trained on: the answers that were handed in for it, or the first that are through.
enum class Order : std::uint8_t { batch, first };

/// What one step's parts take. The trainer's time line is the sum of them, with what it waits for answers.
enum class Part : std::uint8_t {
  generation,  // of which the trainer sees all where nothing overlaps, else what it waits
  reward,
  logprob,
  reference,
  critic,
  training,
  weight_transfer,
  swap,
  host,
  wait
};
inline constexpr std::size_t kParts = 10;
std::string_view name_of(Part part);
using PartTimes = std::array<Time, kParts>;

struct StepSpec {
  BatchSpec batch;
  Placement placement = Placement::colocated;
  std::int64_t staleness = 0;
  UnderWay under_way = UnderWay::drain;
  Order order = Order::batch;
  /// So many times as many samples are handed in as are trained on; the step goes on when enough are through, and the
  /// others are written to their ends in the next one. Not where batches overlap anyway.
  double oversampling = 1;
  std::int64_t steps = 1;  // that are counted
};

/// Of a step, by part; generation and wait are found. Two of swap: from the trainer to the engine, and back.
struct Prices {
  Time reward = 0, logprob = 0, reference = 0, critic = 0, training = 0, weight_transfer = 0;
  Time to_engine = 0, to_trainer = 0, host = 0;
  Time per_cached_token = 0;  // of a replica, to compute what an interruption lost
  Time trainer() const { return reward + logprob + reference + critic + training + host; }
};

/// A stretch of a step; `engine`: on the engine's line, else the trainer's.
struct Span {
  std::int64_t step = 0;
  Part part = Part::generation;
  bool engine = false;
  Time from = 0, until = 0;
};

struct Steps {
  Time step = 0;        // of the counted ones in the mean
  PartTimes parts{};    // their means on the trainer's line: they sum to the step but for rounding
  Time generation = 0;  // from a batch handed in to its last answer, whoever waits for it
  Time half = 0;        // of a batch's time, when half of its answers are through
  std::vector<Span> spans;
  double trained = 0, tokens = 0, written = 0;  // a step: samples and tokens trained on, tokens written
  double engine_busy = 0;                       // share of the engine's time that replicas are at work
  std::int64_t refused = 0, preemptions = 0;
  std::vector<std::int32_t> lengths;  // of a counted batch's answers
  std::vector<Time> ends;             // when the answers of the last counted batch were through, since it began
};

Steps run_steps(const StepSpec& spec, const Prices& prices, const Fleet& fleet, serving::StepTimes& times);

}  // namespace orrery::rl
