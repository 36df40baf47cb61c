// Do the schedules with a split backward pass read like their papers, hold what the papers say, wait as long as the
// papers derive, and never lock up?
#include "workloads/schedules/zero_bubble.h"

#include <map>
#include <random>
#include <set>

#include "tests/catch.h"
#include "tests/workloads/pipeline.h"
#include "workloads/schedules/catalogue.h"

using namespace orrery;
using namespace orrery::workloads;
using namespace orrery::tests;

namespace {

ChunkMap map_of(const Schedule& schedule, std::int32_t p) { return schedule.map(p, shape_for(schedule, p, 1).chunks); }

Ran run_equal(const Schedule& schedule, const StageOrders& orders, std::int32_t p, const PassPs& times) {
  const ChunkMap map = map_of(schedule, p);
  return run_pipeline(orders, map, [&](std::size_t, std::size_t, const Pass& pass) { return times.of(pass.kind); });
}
Ran run_paper(const Schedule& schedule, std::int32_t p, std::int32_t m, const PassPs& times) {
  return run_equal(schedule, paper_orders(schedule, shape_for(schedule, p, m)), p, times);
}

/// One stage's order as text.
std::string order(const Schedule& schedule, std::int32_t stage, std::int32_t p, std::int32_t m) {
  const PipelineShape shape = shape_for(schedule, p, m);
  return text(schedule.passes(stage, shape), shape.chunks > 1);
}

/// Every chunk's micro-batches once, and in order: F, then B, or b and W.
void check_complete(const std::vector<Pass>& passes, const ChunkMap& map, std::int32_t m) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::string> seen;
  for (const Pass& pass : passes) seen[{pass.chunk, pass.microbatch}] += letter_of(pass.kind);
  // Both directions of DualPipe share the micro-batches; elsewhere every chunk sees all.
  const std::int64_t each = map.order() == ChunkOrder::both_ways ? m / 2 : m;
  CHECK(seen.size() == static_cast<std::size_t>(each * map.chunks()));
  for (const auto& [key, order] : seen) CHECK((order == "FB" || order == "FbW"));
}

const std::vector<PassPs> kTimes{{1, 1, 1}, {3, 3, 2}, {10, 12, 7}, {12, 10, 7}};

}  // namespace

TEST_CASE("ZB-H1 and ZB-H2 read as in figure 3 of the zero-bubble paper") {
  // Two stages: the first is 1F1B with W right behind b, the last lets W wait for one more micro-batch.
  CHECK(order(schedules::zb_h1, 0, 2, 3) == "F0 F1 b0 W0 F2 b1 W1 b2 W2 ");
  CHECK(order(schedules::zb_h1, 1, 2, 3) == "F0 b0 F1 b1 W0 F2 b2 W1 W2 ");
  // 2(p - s) - 1 forward passes first; W lags 2s.
  CHECK(order(schedules::zb_h2, 0, 2, 4) == "F0 F1 F2 b0 W0 F3 b1 W1 b2 W2 b3 W3 ");
  CHECK(order(schedules::zb_h2, 1, 2, 4) == "F0 b0 F1 b1 F2 b2 W0 F3 b3 W1 W2 W3 ");
}

TEST_CASE("ZB-V goes down the stages and back") {
  // One stage holds both chunks: F of chunk 0, then chunk 1 there and back.
  CHECK(order(schedules::zb_v, 0, 1, 2) == "F0.0 F1.0 b1.0 W1.0 F0.1 b0.0 W0.0 F1.1 b1.1 W1.1 b0.1 W0.1 ");
  // The last of two stages: one F, one round of the way down and back, one b and W there; the pattern until F end; then
  // b by turns with their W put off, b and W of chunk 0, and the W that are left, chunk 1's first.
  CHECK(order(schedules::zb_v, 1, 2, 3) ==
        "F0.0 F1.0 F0.1 F1.1 b1.0 W1.0 F0.2 b0.0 W0.0 F1.2 b1.1 W1.1 b0.1 b1.2 b0.2 W0.1 W1.2 W0.2 ");
}

TEST_CASE("ZB-V with fewer than 2p - 1 micro-batches is the order of so many, the missing ones left out") {
  for (std::int32_t p = 2; p <= 5; ++p) {
    for (std::int32_t m = 1; m < 2 * p - 1; ++m) {
      for (std::int32_t stage = 0; stage < p; ++stage) {
        std::vector<Pass> left = schedules::zb_v.passes(stage, shape_for(schedules::zb_v, p, 2 * p - 1));
        std::erase_if(left, [&](const Pass& pass) { return pass.microbatch >= m; });
        CHECK(order(schedules::zb_v, stage, p, m) == text(left, true));
      }
    }
  }
}

TEST_CASE("DualPipe feeds two stages from both ends") {
  // Micro-batches 0 and 1 enter at stage 0 (chunk 0), 2 and 3 at stage 1 (chunk 1); the pair runs as one.
  CHECK(order(schedules::dualpipe, 0, 2, 4) == "F0.0 F1.2 F0.1 B1.2 F1.3B0.0 B1.3 b0.1 W0.1 ");
  CHECK(order(schedules::dualpipe, 1, 2, 4) == "F1.2 F0.0 F1.3 B0.0 F0.1B1.2 B0.1 b1.3 W1.3 ");
}

TEST_CASE("every schedule runs every pass once, in order, and never locks up") {
  for (const Schedule* schedule : kSchedules) {
    int ran = 0;
    for (const std::int32_t p : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
      for (std::int32_t m = 1; m <= 40; m += m < 2 * p + 2 ? 1 : 7) {
        const PipelineShape shape = shape_for(*schedule, p, m);
        if (schedule->misfit(shape)) continue;
        INFO(schedule->name << " p " << p << " m " << m);
        const StageOrders orders = paper_orders(*schedule, shape);
        for (const auto& passes : orders) check_complete(passes, map_of(*schedule, p), m);
        CHECK(run_equal(*schedule, orders, p, {10, 12, 7}).finished);
        ++ran;
      }
    }
    CHECK(ran > 10);  // what it asks of a pipeline leaves some
  }
}

TEST_CASE("the bubble of ZB-H1 is (p-1)(F + b - W)") {
  for (std::int32_t p = 1; p <= 8; ++p) {
    for (std::int32_t m = p; m <= 40; m += 5) {
      for (const PassPs& t : kTimes) {
        const std::int64_t bubble = (p - 1) * (t.forward + t.input_gradient - t.weight_gradient);
        CHECK(run_paper(schedules::zb_h1, p, m, t).makespan == m * t.all() + bubble);
      }
    }
  }
}

TEST_CASE("the bubble of ZB-H2 is (p-1)(F + b - 2W) on every stage's own clock, none when all take as long") {
  for (std::int32_t p = 1; p <= 8; ++p) {
    for (std::int32_t m = 2 * p - 1; m <= 40; m += 5) {
      for (const PassPs& t : kTimes) {
        const std::int64_t bubble = (p - 1) * (t.forward + t.input_gradient - 2 * t.weight_gradient);
        CHECK(run_paper(schedules::zb_h2, p, m, t).longest == m * t.all() + bubble);
      }
    }
  }
}

TEST_CASE("ZB-V has no bubble when all passes take as long") {
  for (std::int32_t p = 1; p <= 8; ++p) {
    for (std::int32_t m = 2 * p - 1; m <= 40; m += 5) {
      CHECK(run_paper(schedules::zb_v, p, m, {1, 1, 1}).longest == 2 * 3 * m);
    }
  }
}

TEST_CASE("stages whose bubble is counted on their own clocks begin the next step each for itself") {
  // Qi et al., arXiv 2401.10241, section 4: without it the optimizer step would bring the bubble back.
  for (const Schedule* schedule : kSchedules) {
    INFO(schedule->name);
    CHECK(schedule->runtimes.step_apart == schedule->runtimes.place_by_times);
  }
  CHECK(schedules::zb_h2.runtimes.step_apart);
  CHECK(schedules::zb_v.runtimes.step_apart);
}

TEST_CASE("DualPipe pairs a forward with a backward pass in all of its middle, but where the two ways first meet") {
  for (std::int32_t p = 2; p <= 8; p += 2) {
    for (const std::int32_t m : {2 * p, 2 * p + 2, 4 * p}) {
      for (std::int32_t stage = 0; stage < p; ++stage) {
        INFO("stage " << stage << " of " << p << ", " << m << " micro-batches");
        const std::int32_t depth = std::min(stage, p - 1 - stage), inner = p / 2 - 1 - depth;
        const auto passes = schedules::dualpipe.passes(stage, shape_for(schedules::dualpipe, p, m));
        const auto pairs = std::count_if(passes.begin(), passes.end(), [](const Pass& pass) { return pass.with_next; });
        // 2 a round of m/2 - p + depth + 1 rounds, and one for each stage further in; the two middle stages begin
        // apart.
        CHECK(pairs == 2 * (m / 2 - p + depth + 1) + inner - (inner == 0 ? 1 : 0));
      }
    }
  }
}

TEST_CASE("V-Half and V-Min wait about a half and two thirds of 1F1B's bubble") {
  for (std::int32_t p = 2; p <= 12; ++p) {
    const std::int32_t m = 3 * p;
    const std::int64_t one_f_one_b = (p - 1) * 6;  // of F + B for a whole stage, two chunks of 3 units
    const auto bubble = [&](const Schedule& schedule) {
      const PipelineTimes times{std::vector<PipelineTimes::Passes>(static_cast<std::size_t>(2 * p)), 0};
      const StageOrders orders = best_orders(schedule, shape_for(schedule, p, m), times);
      return run_equal(schedule, orders, p, {1, 1, 1}).longest - 6 * m;
    };
    CHECK(2 * bubble(schedules::v_half) <= one_f_one_b);
    CHECK(3 * bubble(schedules::v_min) <= 2 * one_f_one_b + 3);  // one unit more where stages do not come in threes
  }
}

TEST_CASE("no order that is searched for takes less than the one that runs") {
  // The authors' times of a stage of 6.2B, with messages that take nothing, little and much.
  for (const Schedule* schedule : {&schedules::zb_h1, &schedules::zb_h2}) {
    for (const std::int32_t p : {4, 8}) {
      for (const double message : {0.0, 2000.0, 8000.0}) {
        INFO(schedule->name << ", " << p << " stages, messages of " << message << " us");
        const std::int32_t m = 3 * p;
        const PipelineTimes times{
            std::vector<PipelineTimes::Passes>(static_cast<std::size_t>(p), {25661, 30005, 20103}), message};
        const PipelineShape shape = shape_for(*schedule, p, m);
        const std::int64_t held =
            schedule->held_when_searched ? schedule->held_when_searched(p) : most_held(paper_orders(*schedule, shape));
        const auto longest = [&](const StageOrders& orders) {
          return *longest_stage(orders, map_of(*schedule, p), times);
        };
        CHECK(longest(best_orders(*schedule, shape, times)) <= longest(search_zero_bubble(p, m, held, times)));
      }
    }
  }
}

TEST_CASE("the bubble of DualPipe is (p/2-1)(F&B + B - 3W)") {
  for (const std::int32_t p : {2, 4, 6, 8, 16}) {
    for (std::int32_t m = 2 * p; m <= 40; m += 6) {
      for (const PassPs& t : kTimes) {
        const std::int64_t backward = t.input_gradient + t.weight_gradient, pair = t.forward + backward;
        const std::int64_t bubble = (p / 2 - 1) * (pair + backward - 3 * t.weight_gradient);
        const std::int64_t makespan = run_paper(schedules::dualpipe, p, m, t).makespan;
        // The formula takes F and b as alike; where they differ, pairs of unlike neighbours meet a little sooner.
        if (t.forward == t.input_gradient) CHECK(makespan == m * t.all() + bubble);
        CHECK(makespan <= m * t.all() + bubble + (p / 2 - 1) * std::abs(t.forward - t.input_gradient));
        CHECK(makespan >= m * t.all());
      }
    }
  }
}

TEST_CASE("activations held: p, 2p-1, 2p halves, p+1 chunks, and what the V schedules promise") {
  for (std::int32_t p = 2; p <= 12; ++p) {
    const auto held = [&](const Schedule& schedule) {
      return most_held(paper_orders(schedule, shape_for(schedule, p, 4 * p)));
    };
    CHECK(held(schedules::one_f_one_b) == p);
    CHECK(held(schedules::zb_h1) == p);
    CHECK(held(schedules::zb_h2) == 2 * p - 1);
    CHECK(held(schedules::zb_v) == 2 * p);
    CHECK(held(schedules::v_half) <= p + 2);             // halves: p/2 and one
    CHECK(3 * held(schedules::v_min) <= 2 * p + 3 * 3);  // halves: p/3 and at most one and a half
    if (p % 2 == 0) CHECK(held(schedules::dualpipe) == p + 1);
  }
}

TEST_CASE("W of a micro-batch fills a gap that is as long as it is") {
  // Two stages whose passes take 1 each: b0 comes back at 3 and b1 at 5, so that the first has 4 to 5 for W0.
  const PipelineShape shape = shape_for(schedules::zb_h1, 2, 2);
  const PipelineTimes times{std::vector<PipelineTimes::Passes>(2, {1, 1, 1}), 0, 1};
  const StageOrders placed =
      place_weight_gradients(paper_orders(schedules::zb_h1, shape), map_of(schedules::zb_h1, 2), times, 2, false);
  CHECK(text(placed[0], false) == "F0 F1 b0 W0 b1 W1 ");
  // A stage by itself never waits, so that nothing is to be gained by W ahead of the end.
  const StageOrders alone = place_weight_gradients(paper_orders(schedules::zb_h1, shape_for(schedules::zb_h1, 1, 2)),
                                                   map_of(schedules::zb_h1, 1), {{{1, 1, 1}}, 0, 1}, 2, true);
  CHECK(text(alone[0], false) == "F0 b0 F1 b1 W0 W1 ");
}

TEST_CASE("orders found for given times are complete, hold no more and take no longer than the paper's") {
  std::mt19937 random(7);
  std::uniform_int_distribution<std::int64_t> draw(5, 20);
  for (const Schedule* schedule : kSchedules) {
    if (!schedule->runtimes.place_by_times) continue;
    for (std::int32_t p = 1; p <= 8; ++p) {
      for (const std::int32_t m : {1, p, 2 * p - 1, 24}) {
        INFO(schedule->name << " p " << p << " m " << m);
        const PipelineShape shape = shape_for(*schedule, p, m);
        const ChunkMap map = map_of(*schedule, p);
        PipelineTimes times;
        std::vector<PassPs> ps;
        for (std::int64_t cell = 0; cell < p * map.chunks(); ++cell) {
          ps.push_back({draw(random), draw(random), draw(random)});
          times.cells.push_back({static_cast<double>(ps.back().forward), static_cast<double>(ps.back().input_gradient),
                                 static_cast<double>(ps.back().weight_gradient)});
        }
        times.message = 2;
        const auto on_engine = [&](const StageOrders& orders) {
          return run_pipeline(
              orders, map,
              [&](std::size_t s, std::size_t, const Pass& pass) {
                return ps[s * static_cast<std::size_t>(map.chunks()) + static_cast<std::size_t>(pass.chunk)].of(
                    pass.kind);
              },
              2);
        };
        const StageOrders paper = paper_orders(*schedule, shape), best = best_orders(*schedule, shape, times);
        for (const auto& passes : best) check_complete(passes, map, m);
        // ZB-2p, which its authors plan in place of ZB-H2, may hold 2p.
        CHECK(most_held(best) <= (schedule == &schedules::zb_h2 ? 2 * p : most_held(paper)));
        const Ran a = on_engine(paper), b = on_engine(best);
        REQUIRE(a.finished);
        REQUIRE(b.finished);
        CHECK(b.longest <= a.longest);
        CHECK(longest_stage(best, map, times) == static_cast<double>(b.longest));  // the sketch agrees with the engine
        for (const bool eager : {false, true}) {  // no worse than W placed as late as the paper's memory lets it wait
          const StageOrders placed = place_weight_gradients(paper, map, times, most_held(paper), eager);
          CHECK(static_cast<double>(b.longest) <= *longest_stage(placed, map, times));
        }
        if (map.chunks() == 1) {  // no worse than what the search for one chunk finds
          const std::int64_t limit = schedule->held_when_searched ? schedule->held_when_searched(p) : most_held(paper);
          const auto found = longest_stage(search_zero_bubble(p, m, limit, times), map, times);
          if (found) CHECK(static_cast<double>(b.longest) <= *found);
        }
        // In another unit of time the best order is the same one.
        PipelineTimes small = times;
        small.message *= 0x1p-30;
        for (PipelineTimes::Passes& cell : small.cells)
          cell = {cell.forward * 0x1p-30, cell.input_gradient * 0x1p-30, cell.weight_gradient * 0x1p-30};
        CHECK(best_orders(*schedule, shape, small) == best);
      }
    }
  }
}

TEST_CASE("the search waits as long as its authors' planner, which counts what W still needs of a micro-batch") {
  // auto_schedule.py, run by itself with these microseconds for 8 stages and 32 micro-batches of 6.2B, says 2p
  // micro-batches leave a bubble of 23.5 ms, and 90.6 ms where activations stay whole until W; p leave 254.0 ms either
  // way.
  const std::int32_t p = 8, m = 32;
  const double between = 32.0 * 4096 / (34.0 * 4096 + 5.0 * 32 * 1024);
  PipelineTimes times{std::vector<PipelineTimes::Passes>(p, {25661, 30005, 20103}), 180, between};
  const ChunkMap map = map_of(schedules::zb_h1, p);
  const auto bubble = [&](std::int64_t held) {
    return *longest_stage(search_zero_bubble(p, m, held, times), map, times) - m * (25661.0 + 30005 + 20103);
  };
  CHECK(bubble(2 * p) == Approx(23520).epsilon(0.01));
  CHECK(bubble(p) == Approx(253981).epsilon(0.01));
  times.kept_between = 1;
  CHECK(bubble(2 * p) == Approx(90637).epsilon(0.01));
  CHECK(bubble(p) == Approx(253981).epsilon(0.01));
}

TEST_CASE("the search takes every stage for the median one") {
  // A light first and a heavy last stage, as embedding and head make them, change no order.
  PipelineTimes equal{std::vector<PipelineTimes::Passes>(8, {3, 3, 2}), 0.1, 1}, ends = equal;
  ends.cells.front() = {2, 2, 1};
  ends.cells.back() = {4, 4, 3};
  const StageOrders a = search_zero_bubble(8, 24, 16, equal), b = search_zero_bubble(8, 24, 16, ends);
  for (std::size_t s = 0; s < a.size(); ++s) CHECK(text(a[s]) == text(b[s]));
}

TEST_CASE("blocks of a V and of two ways lie where the papers put them") {
  const ChunkMap vee = schedules::zb_v.map(4, 2), both = schedules::dualpipe.map(4, 2);
  for (std::int64_t s = 0; s < 4; ++s) {
    CHECK(vee.block_of({s, 0}) == s);
    CHECK(vee.block_of({s, 1}) == 7 - s);
    CHECK(both.block_of({s, 0}) == s);
    CHECK(both.block_of({s, 1}) == 3 - s);
  }
  CHECK(vee.crossings() == 6);
  CHECK(both.crossings() == 3);
  // next() and previous() undo each other, and walk through all blocks in order.
  for (const ChunkMap& map : {vee, both, schedules::interleaved_1f1b.map(4, 3)}) {
    for (std::int64_t s = 0; s < map.stages(); ++s) {
      for (std::int64_t c = 0; c < map.chunks(); ++c) {
        const auto next = map.next({s, c});
        if (!next) continue;
        CHECK(map.previous(*next) == Cell{s, c});
        CHECK(map.block_of(*next) == map.block_of({s, c}) + 1);
      }
    }
  }
}

TEST_CASE("of orders that take as long but for rounding the first stays") {
  CHECK(is_shorter(1, 1.001));
  CHECK_FALSE(is_shorter(1, 1));
  CHECK_FALSE(is_shorter(1 - 1e-15, 1));
  CHECK_FALSE(is_shorter(1, 1 - 1e-15));
  // On one stage nothing ever waits, so every order takes as long, and the paper's runs whatever the last digits say.
  std::mt19937 random(11);
  std::uniform_real_distribution<double> draw(0.1, 1);
  for (const Schedule* schedule : kSchedules) {
    if (!schedule->runtimes.place_by_times) continue;
    const PipelineShape shape = shape_for(*schedule, 1, 8);
    for (int times_drawn = 0; times_drawn < 50; ++times_drawn) {
      PipelineTimes times;
      for (std::int64_t cell = 0; cell < map_of(*schedule, 1).chunks(); ++cell)
        times.cells.push_back({draw(random), draw(random), draw(random)});
      INFO(schedule->name);
      CHECK(best_orders(*schedule, shape, times) == paper_orders(*schedule, shape));
    }
  }
}
