// How fast the engine room is: event queue, fair sharing, folding, and a whole step shaped like training (tensor
// groups of 4 inside nodes, a pipeline of 8 stages with interleaved micro-batches, rings over the data-parallel
// groups).
#include <benchmark/benchmark.h>

#include <vector>

#include "sim/engine.h"
#include "sim/event_queue.h"
#include "sim/fold.h"
#include "sim/hash.h"
#include "sim/max_min.h"

namespace {

using namespace orrery::sim;

/// The hold model: takes the earliest of n pending events and pushes a later one, which is one item. Drawing by how
/// much later is part of it.
void event_queue(benchmark::State& state) {
  EventQueue queue;
  std::uint64_t random = 1;
  const auto later = [&] { return static_cast<std::int64_t>((random = mix64(random)) % 1'000'000'000); };
  for (std::int64_t n = 0; n < state.range(0); ++n) queue.push({later(), static_cast<std::uint32_t>(n), 0});
  std::int64_t taken = 0;
  for (auto _ : state) {
    for (const Event& event : queue.take()) {
      queue.push({event.at + later(), event.subject, event.version});
      ++taken;
    }
  }
  state.SetItemsProcessed(taken);
}
BENCHMARK(event_queue)->Arg(1000)->Arg(100000);

/// Takes all that 1,344 replicas have at the earliest of n / 1,344 instants, and puts each off to the same later one.
void event_queue_of_replicas(benchmark::State& state) {
  constexpr std::uint32_t kReplicas = 1344;
  EventQueue queue;
  std::uint64_t random = 1;
  const auto later = [&] { return static_cast<std::int64_t>((random = mix64(random)) % 1'000'000'000); };
  for (std::int64_t n = 0; n < state.range(0) / kReplicas; ++n) {
    const std::int64_t at = later();
    for (std::uint32_t r = 0; r < kReplicas; ++r) queue.push({at, static_cast<std::uint32_t>(n) * kReplicas + r, 0});
  }
  for (auto _ : state) {
    const std::int64_t by = later();
    for (const Event& event : queue.take()) queue.push({event.at + by, event.subject, event.version});
  }
  state.SetItemsProcessed(state.iterations() * kReplicas);
}
BENCHMARK(event_queue_of_replicas)->Arg(13440)->Arg(134400);

/// A random permutation of hosts through a two-level tree: every demand crosses four links.
void max_min(benchmark::State& state) {
  const auto hosts = static_cast<std::uint32_t>(state.range(0));
  const std::uint32_t leaves = hosts / 16;
  Table<LinkId, double> capacity(2 * hosts + 2 * leaves, 25e9);
  for (std::uint32_t l = 2 * hosts; l < capacity.size(); ++l) capacity.rows()[l] = 16 * 25e9 / 2;
  std::vector<std::vector<WeightedLink>> routes;
  for (std::uint32_t h = 0; h < hosts; ++h) {
    const auto to = static_cast<std::uint32_t>(mix64(h) % hosts);
    routes.push_back(
        {{LinkId{h}}, {LinkId{2 * hosts + h / 16}}, {LinkId{2 * hosts + leaves + to / 16}}, {LinkId{hosts + to}}});
  }
  std::vector<Demand> demands;
  for (const auto& route : routes) demands.push_back({route, 0});
  for (auto _ : state) benchmark::DoNotOptimize(max_min_rates(demands, capacity));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(max_min)->Arg(64)->Arg(1024)->Arg(12288);

struct Step {
  Plan plan;
  Network network;
};

constexpr std::uint32_t kTensor = 4, kStages = 8, kBlocks = 12 * 8;

/// Slots: 0 tensor group, 1 data group, 2 from the previous stage, 3 to the next.
Program stage_program(std::uint32_t stage) {
  Program program;
  const auto compute = [&](std::int64_t us) {
    Op op;
    op.issue = Duration(10'000'000);
    op.issue_bound = Duration(20'000'000);
    op.duration = Duration(us * 1'000'000);
    program.add(op);
  };
  const auto transfer = [&](std::uint32_t slot, std::uint8_t stream, double work, std::vector<std::uint32_t> after) {
    Op op;
    op.kind = OpKind::transfer;
    op.slot = slot;
    op.stream = stream;
    op.work = work;
    op.duration = Duration(5'000'000);
    op.issue = Duration(5'000'000);
    return program.add(op, after);
  };
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    std::vector<std::uint32_t> received;
    if (stage > 0) received.push_back(transfer(2, 1, 12e6, {}));
    compute(100);
    std::vector<std::uint32_t> last = received;
    for (int layer = 0; layer < 4; ++layer) {
      transfer(0, 0, 24e6, last);
      last.clear();
      compute(400);
    }
    if (stage + 1 < kStages) transfer(3, 2, 12e6, {program.size() - 1});
  }
  transfer(1, 3, 1e9, {program.size() - 1});
  return program;
}

/// `data` replicas; replica d, stage p, tensor rank t is GPU (p * data + d) * 4 + t. Each GPU has an NVLink and a NIC
/// port in and out; pairs of stages and rings cross a spine bundle per rail.
Step training_step(std::uint32_t data, double sigma) {
  Step step;
  step.plan.streams = 4;
  step.plan.noise = {sigma, 1};
  const std::uint32_t gpus = data * kStages * kTensor;
  std::vector<LinkId> nvlink, nic_out, nic_in, spine;
  for (std::uint32_t g = 0; g < gpus; ++g) {
    nvlink.push_back(step.network.add_link(Bandwidth{300e9}));
    nic_out.push_back(step.network.add_link(Bandwidth{50e9}));
    nic_in.push_back(step.network.add_link(Bandwidth{50e9}));
  }
  for (std::uint32_t b = 0; b < gpus / 32 + 1; ++b) spine.push_back(step.network.add_link(Bandwidth{32 * 50e9}));
  for (std::uint32_t p = 0; p < kStages; ++p) step.plan.programs.push_back(stage_program(p));

  const auto gpu = [&](std::uint32_t p, std::uint32_t d, std::uint32_t t) { return (p * data + d) * kTensor + t; };
  std::vector<std::vector<CommunicatorId>> slots(gpus, std::vector<CommunicatorId>(4));
  std::vector<std::uint32_t> used(gpus, 4);
  const auto join = [&](std::span<const WeightedLink> route, std::uint32_t members) {
    return step.plan.communicators.push_back({members, step.network.add_route(route, Duration(1'000'000)), 1});
  };
  const CommunicatorId nobody = join({}, 0);
  std::uint32_t nobody_members = 0;
  for (std::uint32_t p = 0; p < kStages; ++p) {
    for (std::uint32_t t = 0; t < kTensor; ++t) {
      std::vector<WeightedLink> ring;
      for (std::uint32_t d = 0; d < data; ++d) {
        const std::uint32_t g = gpu(p, d, t);
        ring.insert(ring.end(), {{nic_out[g]}, {nic_in[g]}, {spine[g / 32], 1.0}});
      }
      const CommunicatorId c = join(ring, data);
      for (std::uint32_t d = 0; d < data; ++d) slots[gpu(p, d, t)][1] = c;
    }
    for (std::uint32_t d = 0; d < data; ++d) {
      std::vector<WeightedLink> ring;
      for (std::uint32_t t = 0; t < kTensor; ++t) ring.push_back({nvlink[gpu(p, d, t)]});
      const CommunicatorId c = join(ring, kTensor);
      for (std::uint32_t t = 0; t < kTensor; ++t) slots[gpu(p, d, t)][0] = c;
      for (std::uint32_t t = 0; t < kTensor; ++t) {
        const std::uint32_t g = gpu(p, d, t);
        if (p == 0) {
          slots[g][2] = nobody;
          ++nobody_members;
        }
        if (p + 1 == kStages) {
          slots[g][3] = nobody;
          ++nobody_members;
          continue;
        }
        const std::uint32_t to = gpu(p + 1, d, t);
        slots[g][3] = slots[to][2] = join(std::vector<WeightedLink>{{nic_out[g]}, {spine[g / 32]}, {nic_in[to]}}, 2);
      }
    }
  }
  step.plan.communicators[nobody].members = nobody_members;
  for (std::uint32_t g = 0; g < gpus; ++g) {
    step.plan.add_instance({ProgramId{g / (data * kTensor)}, 1.0, g}, slots[g]);
  }
  return step;
}

void full_step(benchmark::State& state) {
  const Step step =
      training_step(static_cast<std::uint32_t>(state.range(0)), static_cast<double>(state.range(1)) * 1e-2);
  std::uint64_t operations = 0, events = 0, solves = 0;
  for (const Instance& i : step.plan.instances) operations += step.plan.programs[i.program].size();
  for (auto _ : state) {
    const Result result = run(step.plan, step.network);
    events = result.events;
    solves = result.solves;
    if (result.outcome != Outcome::finished) state.SkipWithError("deadlock");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(operations));
  state.counters["operations"] = static_cast<double>(operations);
  state.counters["events"] = static_cast<double>(events);
  state.counters["solves"] = static_cast<double>(solves);
}
// Replicas of 32 GPUs, percent of noise.
BENCHMARK(full_step)->Args({1, 0})->Args({16, 0})->Args({336, 0})->Args({336, 2})->Unit(benchmark::kMillisecond);

void folding(benchmark::State& state) {
  const Step step = training_step(static_cast<std::uint32_t>(state.range(0)), 0);
  std::size_t classes = 0;
  for (auto _ : state) classes = fold(step.plan, step.network).plan.instances.size();
  state.counters["classes"] = static_cast<double>(classes);
}
BENCHMARK(folding)->Arg(16)->Arg(336)->Unit(benchmark::kMillisecond);

}  // namespace
