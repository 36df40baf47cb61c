// Do schedules read like the papers, and is their bubble what the papers derive when communication is free?
#include <map>
#include <set>

#include "sim/engine.h"
#include "tests/catch.h"
#include "workloads/schedules/schedule.h"
#include "workloads/stage_program.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// A pipeline whose passes take fixed times and whose messages are free: p instances, one program each.
sim::SimTime makespan(ScheduleKind schedule, std::int32_t p, std::int32_t v, std::int32_t m, std::int64_t forward_ps,
                      std::int64_t backward_ps) {
  sim::Plan plan;
  sim::Network network;
  plan.streams = 5;
  const sim::RouteId nothing = network.add_route({}, sim::Duration(0));
  // One channel per directed pair of neighbours and direction of travel.
  std::vector<sim::CommunicatorId> forward, backward;
  for (std::int32_t s = 0; s < p; ++s) {
    forward.push_back(plan.communicators.push_back({2, nothing, 1}));   // s -> s + 1
    backward.push_back(plan.communicators.push_back({2, nothing, 1}));  // s + 1 -> s
  }
  for (std::int32_t s = 0; s < p; ++s) {
    sim::Program program;
    std::uint32_t last = 0;
    std::set<std::uint32_t> used;
    for (const Pass& pass : passes_of(schedule, s, p, v, m)) {
      const std::int32_t g = pass.chunk * p + s;
      sim::Op message;
      message.kind = sim::OpKind::transfer;
      std::vector<std::uint32_t> waits;
      const bool receives = p > 1 && (pass.backward ? g != p * v - 1 : g != 0);
      if (receives) {
        message.slot = pass.backward ? 3 : 1, message.stream = static_cast<std::uint8_t>(message.slot);
        used.insert(message.slot);
        waits.push_back(program.add(message));
      }
      sim::Op compute;
      compute.duration = sim::Duration(pass.backward ? backward_ps : forward_ps);
      compute.issue_bound = sim::Duration(0);
      last = program.add(compute, waits);
      const bool sends = p > 1 && (pass.backward ? g != 0 : g != p * v - 1);
      if (sends) {
        message.slot = pass.backward ? 2 : 0, message.stream = static_cast<std::uint8_t>(message.slot == 0 ? 4 : 2);
        used.insert(message.slot);
        const std::vector<std::uint32_t> after{last};
        program.add(message, after);
      }
    }
    // Slots in the order 0..3; renumber to those used, because an unused member would never arrive.
    std::map<std::uint32_t, std::uint32_t> renumber;
    std::vector<sim::CommunicatorId> slots;
    const sim::CommunicatorId by_slot[4] = {
        forward[static_cast<std::size_t>(s)], forward[static_cast<std::size_t>((s + p - 1) % p)],
        backward[static_cast<std::size_t>((s + p - 1) % p)], backward[static_cast<std::size_t>(s)]};
    for (const std::uint32_t slot : used) {
      renumber[slot] = static_cast<std::uint32_t>(slots.size());
      slots.push_back(by_slot[slot]);
    }
    for (auto& slot : program.slot) {
      if (slot != sim::kNoSlot) slot = renumber[slot];
    }
    const sim::ProgramId id = plan.programs.push_back(program);
    plan.add_instance({id, 1.0, 0}, slots);
  }
  for (auto& communicator : plan.communicators) {
    std::uint32_t arrivals = 0;
    for (const auto id : plan.slots) arrivals += &plan.communicators[id] == &communicator;
    communicator.members = arrivals;
  }
  const sim::Result result = sim::run(plan, network);
  REQUIRE(result.outcome == sim::Outcome::finished);
  return result.makespan;
}

}  // namespace

TEST_CASE("1F1B reads as in figure 4 of the Megatron-LM paper") {
  CHECK(text(one_f_one_b(0, 4, 5)) == "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4 ");
  CHECK(text(one_f_one_b(3, 4, 3)) == "F0 B0 F1 B1 F2 B2 ");
  CHECK(text(gpipe(3)) == "F0 F1 F2 B2 B1 B0 ");
}

TEST_CASE("interleaved 1F1B goes through the chunks in groups of p micro-batches") {
  // Two stages, two chunks, four micro-batches; the last stage warms up with (v-1) p = 2 passes.
  CHECK(text(interleaved_1f1b(1, 2, 2, 4), true) ==
        "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3 ");
}

TEST_CASE("every schedule runs every pass of every chunk once, forward before backward") {
  for (std::int32_t p = 1; p <= 6; ++p) {
    for (std::int32_t v = 1; v <= 3; ++v) {
      for (std::int32_t m = p; m <= 4 * p; m += p) {
        const ScheduleKind kinds[] = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved_1f1b};
        for (const ScheduleKind kind : kinds) {
          if (kind != ScheduleKind::interleaved_1f1b && v > 1) continue;
          for (std::int32_t stage = 0; stage < p; ++stage) {
            std::set<std::pair<std::int32_t, std::int32_t>> done, open;
            for (const Pass& pass : passes_of(kind, stage, p, v, m)) {
              const std::pair key{pass.chunk, pass.microbatch};
              if (pass.backward) {
                REQUIRE(open.erase(key) == 1);
                REQUIRE(done.insert(key).second);
              } else {
                REQUIRE(open.insert(key).second);
              }
            }
            CHECK(open.empty());
            CHECK(done.size() == static_cast<std::size_t>(v * m));
          }
        }
      }
    }
  }
}

TEST_CASE("the bubble of GPipe and 1F1B is (p-1)/m of the ideal time when communication is free") {
  for (std::int32_t p = 1; p <= 9; ++p) {
    for (std::int32_t m = 1; m <= 24; m += 1 + m / 5) {
      for (const std::int64_t backward : {700, 1400, 2100}) {
        const std::int64_t forward = 700;
        const std::int64_t expected = (m + p - 1) * (forward + backward);  // ideal m (F+B), and (p-1)(F+B) of bubble
        CHECK(makespan(ScheduleKind::gpipe, p, 1, m, forward, backward).value() == expected);
        CHECK(makespan(ScheduleKind::one_f_one_b, p, 1, m, forward, backward).value() == expected);
      }
    }
  }
}

TEST_CASE("the bubble of interleaved 1F1B is (p-1)/(v m) of the ideal time when communication is free") {
  for (std::int32_t p = 2; p <= 8; ++p) {
    for (std::int32_t v = 2; v <= 5; ++v) {
      for (std::int32_t m = p; m <= 5 * p; m += p) {
        for (const std::int64_t backward : {700, 1400}) {
          const std::int64_t forward = 700;
          const std::int64_t expected = (static_cast<std::int64_t>(m) * v + p - 1) * (forward + backward);
          CHECK(makespan(ScheduleKind::interleaved_1f1b, p, v, m, forward, backward).value() == expected);
        }
      }
    }
  }
}

TEST_CASE("layers split evenly, or with embedding and head counted as a layer each") {
  const LayerSplit even = split_layers(96, 8, 12);
  for (const ChunkShape& shape : even.shapes) CHECK(shape.layers == 1);
  CHECK(even.of(0, 0, 8).embedding);
  CHECK(even.of(11, 7, 8).head);
  // 22 layers on 8 stages: 24 units, three each; the ends hold two layers and the embedding or head.
  const LayerSplit uneven = split_layers(22, 8, 1);
  std::int64_t total = 0;
  for (std::size_t s = 0; s < 8; ++s) {
    CHECK(uneven.shapes[s].layers == (s == 0 || s == 7 ? 2 : 3));
    total += uneven.shapes[s].layers;
  }
  CHECK(total == 22);
  // Whatever the numbers: nothing lost, never further apart than one unit.
  for (std::int64_t layers = 1; layers <= 40; ++layers) {
    for (std::int64_t parts = 1; parts <= layers; ++parts) {
      std::int64_t sum = 0, least = 1 << 20, most = 0;
      for (const ChunkShape& shape : split_layers(layers, parts, 1).shapes) {
        sum += shape.layers;
        const std::int64_t units = layers % parts == 0 ? shape.layers : shape.layers + shape.embedding + shape.head;
        least = std::min(least, units), most = std::max(most, units);
        CHECK(shape.layers >= 0);
      }
      CHECK(sum == layers);
      CHECK(most - least <= 1);
    }
  }
}
