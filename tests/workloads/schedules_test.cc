// Do schedules read like the papers, and is their bubble what the papers derive when communication is free?
#include <set>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "tests/workloads/pipeline.h"
#include "workloads/compile/stage_program.h"
#include "workloads/job/job_values.h"
#include "workloads/schedules/catalogue.h"

using namespace orrery;
using namespace orrery::workloads;
using namespace orrery::tests;

namespace {

/// Makespan when every pass takes as long on every stage and messages are free.
std::int64_t makespan(const Schedule& schedule, const PipelineShape& shape, std::int64_t forward,
                      std::int64_t backward) {
  const ChunkMap map = schedule.map(shape.stages, shape.chunks);
  const Ran ran = run_pipeline(paper_orders(schedule, shape), map, [&](std::size_t, std::size_t, const Pass& pass) {
    return pass.kind == PassKind::forward ? forward : backward;
  });
  REQUIRE(ran.finished);
  return ran.makespan;
}

}  // namespace

TEST_CASE("1F1B reads as in figure 4 of the Megatron-LM paper") {
  CHECK(text(schedules::one_f_one_b.passes(0, {.stages = 4, .microbatches = 5})) == "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4 ");
  CHECK(text(schedules::one_f_one_b.passes(3, {.stages = 4, .microbatches = 3})) == "F0 B0 F1 B1 F2 B2 ");
  CHECK(text(schedules::gpipe.passes(0, {.stages = 4, .microbatches = 3})) == "F0 F1 F2 B2 B1 B0 ");
}

TEST_CASE("eager 1F1B reads as in its authors' code, twice as many passes ahead as 1F1B") {
  // Three stages, from the clock table of OverlapFriendlyPipeDreamSchedule.
  const PipelineShape shape{.stages = 3, .microbatches = 6};
  CHECK(text(schedules::eager_1f1b.passes(0, shape)) == "F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5 ");
  CHECK(text(schedules::eager_1f1b.passes(1, shape)) == "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5 ");
  CHECK(text(schedules::eager_1f1b.passes(2, shape)) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 ");
}

TEST_CASE("messages cost eager 1F1B no time but at the ends, 1F1B more than one a micro-batch") {
  // A micro-batch is on its way from a stage to the last and back for (p-s)(F + B) + 2(p-1-s) messages, in which the
  // stage runs as many F + B as it holds micro-batches: 2(p-s) - 1 of eager 1F1B, enough while two messages take no
  // longer than F + B; p - s of 1F1B, which waits 2(p-1-s) / (p-s) messages for each, the first stage the longest.
  const std::int64_t forward = 700, backward = 1400;
  const auto more = [&](const Schedule& schedule, std::int32_t p, std::int64_t message) {
    const auto end = [&](std::int32_t m) {
      const Ran ran = run_pipeline(
          paper_orders(schedule, {p, 1, m}), schedule.map(p, 1),
          [&](std::size_t, std::size_t, const Pass& pass) {
            return pass.kind == PassKind::forward ? forward : backward;
          },
          message);
      REQUIRE(ran.finished);
      return ran.makespan;
    };
    return end(16 * p) - end(8 * p);  // of 8 p micro-batches more
  };
  for (const std::int32_t p : {2, 3, 4, 8}) {
    for (const std::int64_t message : {0, 350, 1050}) {
      INFO(p << " stages, messages of " << message);
      CHECK(more(schedules::eager_1f1b, p, message) == 8 * p * (forward + backward));
      CHECK(more(schedules::one_f_one_b, p, message) == 8 * p * (forward + backward) + 8 * 2 * (p - 1) * message);
    }
    CHECK(more(schedules::eager_1f1b, p, 1400) > 8 * p * (forward + backward));
  }
}

TEST_CASE("interleaved 1F1B goes through the chunks in groups of p micro-batches") {
  // Two stages, two chunks, four micro-batches; the last stage warms up with (v-1) p = 2 passes.
  CHECK(text(schedules::interleaved_1f1b.passes(1, {.stages = 2, .chunks = 2, .microbatches = 4}), true) ==
        "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3 ");
}

TEST_CASE("with one group of micro-batches interleaved 1F1B runs all of them forward first, or as its depth allows") {
  // Two stages, three chunks, two micro-batches: the last stage may begin after (v-1) p = 4 passes, the first after 6.
  const PipelineShape group{.stages = 2, .chunks = 3, .microbatches = 2};
  const PipelineShape early{.stages = 2, .chunks = 3, .microbatches = 2, .one_group_forward_first = false};
  const auto order = [](std::int32_t stage, const PipelineShape& shape) {
    return text(schedules::interleaved_1f1b.passes(stage, shape), true);
  };
  const std::string all_first = "F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 B2.0 B2.1 B1.0 B1.1 B0.0 B0.1 ";
  CHECK(order(0, group) == all_first);
  CHECK(order(1, group) == all_first);
  CHECK(order(0, early) == all_first);
  CHECK(order(1, early) == "F0.0 F0.1 F1.0 F1.1 F2.0 B2.0 F2.1 B2.1 B1.0 B1.1 B0.0 B0.1 ");
}

TEST_CASE("the bubble of GPipe, 1F1B and eager 1F1B is (p-1)/m of the ideal time when communication is free") {
  for (std::int32_t p = 1; p <= 9; ++p) {
    for (std::int32_t m = 1; m <= 24; m += 1 + m / 5) {
      for (const std::int64_t backward : {700, 1400, 2100}) {
        const std::int64_t forward = 700;
        const std::int64_t expected = (m + p - 1) * (forward + backward);  // ideal m (F+B), and (p-1)(F+B) of bubble
        CHECK(makespan(schedules::gpipe, {p, 1, m}, forward, backward) == expected);
        CHECK(makespan(schedules::one_f_one_b, {p, 1, m}, forward, backward) == expected);
        CHECK(makespan(schedules::eager_1f1b, {p, 1, m}, forward, backward) == expected);
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
          CHECK(makespan(schedules::interleaved_1f1b, {p, v, m}, forward, backward) == expected);
          CHECK(makespan(schedules::interleaved_1f1b, {p, v, m, false}, forward, backward) == expected);
        }
      }
    }
  }
}

TEST_CASE("a row's name is found, and says what the schedule is and where it is described") {
  for (const Schedule* schedule : kSchedules) {
    INFO(schedule->name);
    CHECK(schedule_named(schedule->name) == schedule);
    CHECK(schedule->meaning.size() > 20);
    CHECK(schedule->paper.find("arXiv") != std::string_view::npos);
    // A search holds what its order does or more, and there is one only where weight gradients are placed.
    CHECK((schedule->held_when_searched == nullptr || schedule->runtimes.place_by_times));
    CHECK((schedule->with_one_chunk == nullptr || schedule->chunks == kAnyChunks));
  }
  CHECK(schedule_named("1f1c") == nullptr);
}

TEST_CASE("what a row says of its order, the order does") {
  for (const Schedule* schedule : kSchedules) {
    for (const std::int32_t p : {2, 4, 6}) {
      INFO(schedule->name << ", " << p << " stages");
      const PipelineShape shape = shape_for(*schedule, p, 4 * p), longer = shape_for(*schedule, p, 8 * p);
      REQUIRE_FALSE(schedule->misfit(shape));
      const StageOrders orders = paper_orders(*schedule, shape);
      std::set<PassKind> kinds;
      std::set<std::int32_t> chunks;
      for (const std::vector<Pass>& passes : orders) {
        for (const Pass& pass : passes) {
          kinds.insert(pass.kind);
          chunks.insert(pass.chunk);
        }
        const bool nested = passes.front() == Pass{PassKind::forward, 0, passes.front().microbatch} &&
                            passes.back() == Pass{PassKind::backward, 0, passes.back().microbatch};
        CHECK(nested == schedule->nested);
      }
      CHECK(kinds.contains(PassKind::backward) == (schedule->backward != BackwardPasses::cut));
      CHECK(kinds.contains(PassKind::input_gradient) == schedule->splits_backward());
      CHECK(kinds.contains(PassKind::weight_gradient) == schedule->splits_backward());
      CHECK(chunks.size() == static_cast<std::size_t>(shape.chunks));
      const std::int64_t held = most_held(orders), held_longer = most_held(paper_orders(*schedule, longer));
      CHECK(schedule->holds_all == (held_longer == 8 * p));
      CHECK((schedule->holds_all || held_longer == held));
    }
  }
}

TEST_CASE("an order that repeats does so with its period, forward passes no further ahead than its lead") {
  int repeat = 0;
  for (const Schedule* schedule : kSchedules) {
    if (schedule->repeats == nullptr) continue;
    ++repeat;
    for (const std::int32_t p : {2, 3, 5, 8}) {
      INFO(schedule->name << ", " << p << " stages");
      const auto [period, lead] = schedule->repeats(p);
      const PipelineShape shape = shape_for(*schedule, p, 12 * p);
      for (const std::vector<Pass>& passes : paper_orders(*schedule, shape)) {
        // Away from the ends by as many micro-batches as forward passes may be ahead.
        const auto each = static_cast<std::size_t>(passes.size() / static_cast<std::size_t>(shape.microbatches));
        const std::size_t ends = each * static_cast<std::size_t>(lead), next = each * static_cast<std::size_t>(period);
        REQUIRE(passes.size() > 2 * ends + next);
        for (std::size_t i = ends; i + next < passes.size() - ends; ++i) {
          Pass later = passes[i];
          later.microbatch += static_cast<std::int32_t>(period);
          CHECK(passes[i + next] == later);
        }
        std::int32_t done = 0;
        std::vector<std::int32_t> left(static_cast<std::size_t>(shape.microbatches), shape.chunks);
        for (const Pass& pass : passes) {
          if (pass.kind == PassKind::forward) CHECK(pass.microbatch - done <= lead);
          if (ends_microbatch(pass.kind)) --left[static_cast<std::size_t>(pass.microbatch)];
          while (done < shape.microbatches && left[static_cast<std::size_t>(done)] == 0) ++done;
        }
      }
    }
  }
  CHECK(repeat >= 2);
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
        least = std::min(least, units);
        most = std::max(most, units);
        CHECK(blocks >= 0);
      }
      CHECK(sum == layers);
      CHECK(most - least <= 1);
    }
  }
}
