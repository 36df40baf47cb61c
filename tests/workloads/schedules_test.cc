// Do schedules read like the papers, and is their bubble what the papers derive when communication is free?
#include <set>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "tests/workloads/pipeline.h"
#include "workloads/stage_program.h"

using namespace orrery;
using namespace orrery::workloads;
using namespace orrery::tests;

namespace {

/// Makespan when every pass takes as long on every stage and messages are free.
std::int64_t makespan(ScheduleKind schedule, std::int32_t p, std::int32_t v, std::int32_t m, std::int64_t forward,
                      std::int64_t backward) {
  const ChunkMap map(schedule, p, v);
  const Ran ran = run_pipeline(paper_orders(schedule, map, m), map, [&](std::size_t, std::size_t, const Pass& pass) {
    return pass.kind == PassKind::forward ? forward : backward;
  });
  REQUIRE(ran.finished);
  return ran.makespan;
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

TEST_CASE("the bubble of GPipe and 1F1B is (p-1)/m of the ideal time when communication is free") {
  for (std::int32_t p = 1; p <= 9; ++p) {
    for (std::int32_t m = 1; m <= 24; m += 1 + m / 5) {
      for (const std::int64_t backward : {700, 1400, 2100}) {
        const std::int64_t forward = 700;
        const std::int64_t expected = (m + p - 1) * (forward + backward);  // ideal m (F+B), and (p-1)(F+B) of bubble
        CHECK(makespan(ScheduleKind::gpipe, p, 1, m, forward, backward) == expected);
        CHECK(makespan(ScheduleKind::one_f_one_b, p, 1, m, forward, backward) == expected);
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
          CHECK(makespan(ScheduleKind::interleaved_1f1b, p, v, m, forward, backward) == expected);
        }
      }
    }
  }
}

TEST_CASE("layers fill one stage after the other, but where they divide with embedding and head") {
  const auto layers_of = [](int layers) {
    std::vector<std::int64_t> counts;
    const Job job = small_job({"model.layers=" + std::to_string(layers), "parallelism.pipeline=4", "parallelism.data=2",
                               "software.layer_split=fill"});
    const LayerSplit split = split_layers(job);
    for (const LayerRange& range : split.ranges) counts.push_back(count(split.network, range, LayerKind::block));
    return counts;
  };
  using Counts = std::vector<std::int64_t>;
  CHECK(layers_of(21) == Counts{6, 6, 6, 3});  // 21 = 3 x 6 + 3
  CHECK(layers_of(22) == Counts{5, 6, 6, 5});  // 24 units on four stages
  CHECK(layers_of(24) == Counts{6, 6, 6, 6});
}

TEST_CASE("layers split evenly, or with embedding and head counted as a layer each") {
  // A model of 96 layers, and embedding and head beside them.
  const std::vector<LayerRange> even = split_layers(96, 8 * 12);
  CHECK(even.front() == LayerRange{0, 2});
  CHECK(even.back() == LayerRange{96, 98});
  for (std::int64_t part = 1; part < 95; ++part)
    CHECK(even[static_cast<std::size_t>(part)] == LayerRange{part + 1, part + 2});
  // 22 layers on 8 stages: 24 units, three each, of which the ends' are two layers and the embedding or head.
  const std::vector<LayerRange> uneven = split_layers(22, 8);
  for (std::int64_t s = 0; s < 8; ++s) CHECK(uneven[static_cast<std::size_t>(s)] == LayerRange{3 * s, 3 * s + 3});
  // Whatever the numbers: nothing lost, never further apart than one unit.
  for (std::int64_t layers = 1; layers <= 40; ++layers) {
    for (std::int64_t parts = 1; parts <= layers; ++parts) {
      std::int64_t sum = 0, least = 1 << 20, most = 0;
      for (const LayerRange& range : split_layers(layers, parts)) {
        const std::int64_t ends = (range.begin == 0) + (range.end == layers + 2), blocks = range.size() - ends;
        sum += blocks;
        const std::int64_t units = layers % parts == 0 ? blocks : range.size();
        least = std::min(least, units), most = std::max(most, units);
        CHECK(blocks >= 0);
      }
      CHECK(sum == layers);
      CHECK(most - least <= 1);
    }
  }
}
