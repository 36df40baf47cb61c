// Random plans for comparing engines: a small base plan, and its d copies side by side. Links and communicators of
// the base are private to a copy, shared by all copies, or (communicators) join a copy to the next in a ring of
// copies.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/hash.h"
#include "sim/network.h"
#include "sim/plan.h"

namespace orrery::test {

/// A small deterministic generator.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(sim::mix64(seed)) {}
  std::uint64_t next() { return state_ = sim::mix64(state_); }
  /// Uniform enough in [0, n).
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(next() % n); }
  bool chance(std::uint32_t percent) { return below(100) < percent; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

enum class Spread : std::uint8_t { in_copy, over_all, to_next };

struct BaseCommunicator {
  Spread spread = Spread::in_copy;
  std::vector<std::uint32_t> members;                  // base instances; to_next: the second is of the next copy
  std::vector<std::vector<sim::WeightedLink>> routes;  // by pattern; base links
  std::vector<sim::Duration> latency;
};

struct BasePlan {
  std::uint8_t streams = 1;
  std::vector<double> capacity;
  std::vector<bool> shared;  // link is one for all copies
  std::vector<BaseCommunicator> communicators;
  std::vector<sim::Program> programs;                // one per base instance
  std::vector<std::vector<std::uint32_t>> slots;     // base instance -> base communicator by slot
  std::vector<std::vector<std::uint8_t>> is_second;  // of a to_next communicator, by slot
  double sigma = 0;
};

struct Case {
  sim::Plan plan;
  sim::Network network;
};

/// What differs in one copy of many.
struct Odd {
  std::int32_t slow_instance = -1;  // index in the expanded plan
  std::int32_t weak_link = -1;      // index in the expanded network
};

/// `wild`: operations in no order that the members of a communicator agree on, so that many plans deadlock.
BasePlan random_base(std::uint64_t seed, bool wild);
/// Instances of copy j are j * base instances + i.
Case expand(const BasePlan& base, std::uint32_t copies, const Odd& odd = {});

// Defined here, in the header of a test, because only *_test.cc files are compiled.

inline double random_weight(Random& random) {
  constexpr double kWeights[] = {1.0, 0.5, 2.0, 1.0 / 3.0, 1.75};
  return random.chance(70) ? kWeights[random.below(5)] : 0.1 + 2 * random.unit();
}

inline std::int64_t random_time(Random& random) {
  switch (random.below(4)) {
    case 0:
      return 0;
    case 1:
      return 1'000'000 * random.below(4);  // ties
    default:
      return random.below(5'000'000);
  }
}

inline void random_communicators(BasePlan& base, Random& random, std::uint32_t instances) {
  const std::uint32_t count = 1 + random.below(5);
  for (std::uint32_t c = 0; c < count; ++c) {
    BaseCommunicator communicator;
    communicator.spread = static_cast<Spread>(random.below(3));
    const std::uint32_t members = communicator.spread == Spread::to_next ? 2 : 1 + random.below(instances + 1);
    for (std::uint32_t m = 0; m < members; ++m) {
      const bool anyone = communicator.spread == Spread::to_next || random.chance(10);
      const std::uint32_t member = anyone ? random.below(instances) : m % instances;
      communicator.members.push_back(member);
      base.slots[member].push_back(c);
      base.is_second[member].push_back(m == 1 ? 1 : 0);
    }
    for (std::uint32_t p = 0; p < 1 + random.below(2); ++p) {
      std::vector<sim::WeightedLink> route;
      for (std::uint32_t l = 0; l < base.capacity.size(); ++l) {
        if (random.chance(45)) route.push_back({sim::LinkId{l}, random_weight(random)});
      }
      communicator.routes.push_back(route);
      communicator.latency.push_back(sim::Duration(random_time(random) / 10));
    }
    base.communicators.push_back(std::move(communicator));
  }
}

/// One transfer per member slot of a communicator, as (instance, operation).
inline std::vector<std::pair<std::uint32_t, sim::Op>> random_transfer(const BasePlan& base, Random& random,
                                                                      std::uint32_t c, bool plain) {
  sim::Op op;
  op.kind = sim::OpKind::transfer;
  const auto patterns = static_cast<std::uint32_t>(base.communicators[c].routes.size());
  op.pattern = plain ? 0 : random.below(patterns);
  op.work = plain || random.chance(90) ? (plain ? 4000.0 : 1000.0 * (1 + random.below(60))) : 0.0;
  op.rate_cap = !plain && random.chance(25) ? 1e9 * (0.2 + random.unit()) : 0.0;
  op.duration = sim::Duration(plain ? 500 : random_time(random) / 10);
  std::vector<std::pair<std::uint32_t, sim::Op>> ops;
  for (std::uint32_t i = 0; i < base.slots.size(); ++i) {
    for (std::uint32_t s = 0; s < base.slots[i].size(); ++s) {
      if (base.slots[i][s] != c) continue;
      op.slot = s;
      op.stream = static_cast<std::uint8_t>(random.below(base.streams));
      op.issue = sim::Duration(random_time(random) / 5);
      op.host_waits = random.chance(8);
      ops.emplace_back(i, op);
    }
  }
  return ops;
}

inline sim::Op random_compute(const BasePlan& base, Random& random) {
  sim::Op op;
  op.stream = static_cast<std::uint8_t>(random.below(base.streams));
  op.duration = sim::Duration(random_time(random));
  op.loaded = op.duration.value() % 3 == 0 ? 0.5F : 0.0F;
  op.issue = sim::Duration(random_time(random) / 5);
  op.issue_bound = op.issue + sim::Duration(random_time(random) / 2);
  op.host_waits = random.chance(8);
  return op;
}

inline BasePlan random_base(std::uint64_t seed, bool wild) {
  Random random(seed);
  BasePlan base;
  base.streams = static_cast<std::uint8_t>(1 + random.below(3));
  base.sigma = random.chance(15) ? 0.1 : 0.0;
  const std::uint32_t links = random.below(6);
  for (std::uint32_t l = 0; l < links; ++l) {
    base.capacity.push_back(random.chance(70) ? 1e9 * (1 + random.below(3)) : 1e9 * (0.5 + random.unit()));
    base.shared.push_back(random.chance(40));
  }
  const std::uint32_t instances = 1 + random.below(4);
  base.slots.resize(instances);
  base.is_second.resize(instances);
  random_communicators(base, random, instances);

  std::vector<std::vector<sim::Op>> ops(instances);
  const std::uint32_t steps = 3 + random.below(20);
  for (std::uint32_t step = 0; step < steps; ++step) {
    if (random.chance(45)) {
      const std::uint32_t i = random.below(instances);
      ops[i].push_back(random_compute(base, random));
      continue;
    }
    const std::uint32_t c = random.below(static_cast<std::uint32_t>(base.communicators.size()));
    for (const auto& [i, op] : random_transfer(base, random, c, wild)) ops[i].push_back(op);
  }
  for (std::uint32_t i = 0; i < instances; ++i) {
    if (wild) {
      for (std::size_t at = ops[i].size(); at > 1; --at) {
        std::swap(ops[i][at - 1], ops[i][random.below(static_cast<std::uint32_t>(at))]);
      }
    }
    sim::Program program;
    for (const sim::Op& op : ops[i]) {
      std::vector<std::uint32_t> waits;
      for (std::uint32_t w = 0; w < random.below(3) && program.size() > 0; ++w)
        waits.push_back(random.below(program.size()));
      program.add(op, waits);
    }
    base.programs.push_back(std::move(program));
  }
  return base;
}

inline Case expand(const BasePlan& base, std::uint32_t copies, const Odd& odd) {
  Case made;
  sim::Plan& plan = made.plan;
  plan.streams = base.streams;
  plan.noise = {base.sigma, 7};
  plan.message_noise = {2 * base.sigma, 8};
  if (base.sigma > 0) plan.loads = {2, {0.25, 1.75, 1.5, 0.5, 1, 1}, 9};
  for (const sim::Program& program : base.programs) plan.programs.push_back(program);
  std::vector<std::vector<sim::LinkId>> link(copies);
  for (std::uint32_t j = 0; j < copies; ++j) {
    for (std::size_t l = 0; l < base.capacity.size(); ++l) {
      const bool weak = static_cast<std::int32_t>(made.network.capacity.size()) == odd.weak_link;
      const double capacity = base.capacity[l] * (weak ? 0.7 : 1.0);
      link[j].push_back(base.shared[l] && j > 0 ? link[0][l] : made.network.add_link(sim::Bandwidth(capacity)));
    }
  }
  // communicator_of[j][c]: the one that copy j's members join; a to_next communicator is named after its first copy.
  std::vector<std::vector<sim::CommunicatorId>> communicator_of(copies);
  for (std::uint32_t j = 0; j < copies; ++j) {
    for (std::uint32_t c = 0; c < base.communicators.size(); ++c) {
      const BaseCommunicator& from = base.communicators[c];
      const bool over_all = from.spread == Spread::over_all;
      if (over_all && j > 0) {
        communicator_of[j].push_back(communicator_of[0][c]);
        continue;
      }
      const auto first = sim::RouteId{static_cast<std::uint32_t>(made.network.routes())};
      for (std::size_t p = 0; p < from.routes.size(); ++p) {
        std::vector<sim::WeightedLink> route;
        for (std::uint32_t copy = over_all ? 0 : j; copy < (over_all ? copies : j + 1); ++copy) {
          for (const auto& l : from.routes[p]) route.push_back({link[copy][sim::index(l.link)], l.weight});
        }
        made.network.add_route(route, from.latency[p]);
      }
      const auto members = static_cast<std::uint32_t>(from.members.size() * (over_all ? copies : 1));
      const auto patterns = static_cast<std::uint32_t>(from.routes.size());
      communicator_of[j].push_back(plan.communicators.push_back({members, first, patterns, c}));
    }
  }
  for (std::uint32_t j = 0; j < copies; ++j) {
    for (std::uint32_t i = 0; i < base.programs.size(); ++i) {
      std::vector<sim::CommunicatorId> slots;
      for (std::size_t s = 0; s < base.slots[i].size(); ++s) {
        const std::uint32_t c = base.slots[i][s];
        const bool from_previous = base.communicators[c].spread == Spread::to_next && base.is_second[i][s] != 0;
        slots.push_back(communicator_of[from_previous ? (j + copies - 1) % copies : j][c]);
      }
      const bool slow = static_cast<std::int32_t>(plan.instances.size()) == odd.slow_instance;
      plan.add_instance({sim::ProgramId{i}, slow ? 1.3 : 1.0, i}, slots);
    }
  }
  return made;
}

}  // namespace orrery::test
