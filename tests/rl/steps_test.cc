// Laws of steps of reinforcement learning, on a machine whose iterations take what a roofline would.
#include "workloads/runs/rl/steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/catch.h"
#include "workloads/runs/rl/packing.h"

namespace orrery::rl {
namespace {

constexpr Time kMs = 1'000'000'000;

class RooflineTimes : public serving::StepTimes {
 public:
  serving::Segment decode(std::int64_t sequences, std::int64_t) override {
    return {0, INT64_MAX, 10 * kMs + 20'000'003 * sequences, 1'009};
  }
  Time mixed(const serving::Mixed& batch) override {
    Time time = 11 * kMs + 20'000'003 * batch.decodes + 1'009 * batch.keys;
    for (const serving::Piece& piece : batch.pieces) time += 40'000'001 * piece.fresh;
    return time;
  }
};

StepSpec spec_of(std::int64_t prompts, std::int64_t samples, double mean, double variation) {
  StepSpec spec;
  spec.batch.prompts = prompts;
  spec.batch.samples = samples;
  spec.batch.prompt = {100, 0.5, 1000, {}};
  spec.batch.answer = {mean, variation, 8 * mean, {}};
  return spec;
}

Fleet fleet_of(std::int64_t replicas) {
  Fleet fleet;
  fleet.replicas = replicas;
  fleet.limits = {64, 2048, 100'000, 16, true, true, serving::find_batching("vllm-v1")};
  return fleet;
}

Prices prices_of(Time training) {
  Prices prices;
  prices.reward = 3 * kMs;
  prices.logprob = 40 * kMs;
  prices.reference = 41 * kMs;
  prices.training = training;
  prices.weight_transfer = 70 * kMs;
  prices.host = 5 * kMs;
  prices.to_engine = 11 * kMs;
  prices.to_trainer = 13 * kMs;
  prices.per_cached_token = 40'000'001;
  return prices;
}

Steps steps_of(const StepSpec& spec, const Prices& prices, std::int64_t replicas) {
  RooflineTimes times;
  return run_steps(spec, prices, fleet_of(replicas), times);
}

TEST_CASE("a log-normal that is cut off has the mean that was asked for", "[rl]") {
  for (const double mean : {10.0, 800.0, 3200.0}) {
    for (const double variation : {0.2, 1.0, 2.0}) {
      BatchSpec spec;
      spec.prompts = 20'000;
      spec.prompt = {1, 0, 1, {}};
      spec.answer = {mean, variation, 4096, {}};
      const Batch batch = draw_batch(spec, 0);
      const double drawn = static_cast<double>(batch.written()) / 20'000;
      INFO(mean << " +- " << variation);
      // Of so many draws the mean scatters by variation / sqrt(n); half a token is lost or won by rounding.
      CHECK(std::abs(drawn - mean) < 4 * variation * mean / std::sqrt(20'000) + 0.5);
    }
  }
}

TEST_CASE("percentiles of answers are those that were stated", "[rl]") {
  BatchSpec spec;
  spec.prompts = 10'000;
  spec.prompt = {1, 0, 1, {}};
  spec.answer.percentiles = {{50, 900}, {90, 4000}, {99, 8000}, {100, 16000}};
  spec.answer.most = 16000;
  const Batch batch = draw_batch(spec, 0);
  for (const auto& [percent, tokens] : spec.answer.percentiles) {
    const auto below =
        std::count_if(batch.trained.begin(), batch.trained.end(), [&](const Sample& s) { return s.output <= tokens; });
    CHECK(std::abs(static_cast<double>(below) / 100 - percent) < 2);
  }
}

TEST_CASE("a batch with more samples begins with that of fewer, prompt by prompt", "[rl]") {
  const Batch few = draw_batch(spec_of(10, 3, 100, 1).batch, 2), many = draw_batch(spec_of(10, 5, 100, 1).batch, 2);
  for (std::size_t prompt = 0; prompt < 10; ++prompt) {
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(few.trained[3 * prompt + i].output == many.trained[5 * prompt + i].output);
      CHECK(few.trained[3 * prompt + i].input == many.trained[5 * prompt + i].input);
    }
  }
}

TEST_CASE("packing loses no token, and all ranks run as many micro-batches", "[rl]") {
  for (const std::int64_t most : {500, 1000, 4000}) {
    for (const std::int64_t ranks : {1, 3, 8}) {
      const Batch batch = draw_batch(spec_of(40, 4, 200, 1).batch, 0);
      double tokens = 0;
      for (const Sample& s : batch.trained) tokens += s.input + s.output;
      for (const bool several : {false, true}) {
        const Packed packed = pack(batch.trained, most, ranks, several);
        CHECK(packed.tokens * static_cast<double>(packed.each * ranks) == Approx(tokens));
        CHECK(packed.each * ranks >= (several ? static_cast<std::int64_t>(tokens) / std::max(most, packed.most) : 160));
        if (!several) CHECK(packed.each == (160 + ranks - 1) / ranks);
      }
    }
  }
  // Three fit two by two and one by itself.
  const std::vector<Sample> three{{0, 10, 50}, {1, 10, 30}, {2, 10, 50}};
  CHECK(pack(three, 100, 1, true).each == 2);
}

TEST_CASE("every answer is written, once, and its tokens are counted", "[rl]") {
  for (const bool by_sample : {false, true}) {
    const Batch batch = draw_batch(spec_of(20, 4, 60, 1).batch, 0);
    std::vector<Handed> handed;
    for (const Sample& sample : batch.trained) handed.push_back({0, sample});
    Fleet fleet = fleet_of(3);
    fleet.by_sample = by_sample;
    RooflineTimes times;
    const Rollout rollout = generate(handed, fleet, times);
    CHECK(rollout.written == batch.written());
    for (const serving::Served& served : rollout.served) {
      CHECK(served.last != serving::kNever);
      CHECK(served.last <= rollout.end);
    }
  }
}

TEST_CASE("the parts of a step are the step", "[rl]") {
  for (const Placement placement : {Placement::colocated, Placement::separate, Placement::asynchronous}) {
    for (const UnderWay under_way : {UnderWay::drain, UnderWay::interrupt, UnderWay::resume}) {
      StepSpec spec = spec_of(16, 4, 80, 1);
      spec.placement = placement;
      spec.staleness = placement == Placement::asynchronous ? 2 : 0;
      spec.under_way = under_way;
      spec.steps = 3;
      const Steps steps = steps_of(spec, prices_of(900 * kMs), 2);
      const Time sum = std::accumulate(steps.parts.begin(), steps.parts.end(), Time{0});
      CHECK(std::abs(sum - steps.step) <= static_cast<Time>(kParts));  // each mean is rounded
      CHECK(steps.trained == 64);
    }
  }
}

TEST_CASE("without answers a step is its training and its transfers", "[rl]") {
  for (const Placement placement : {Placement::colocated, Placement::separate, Placement::asynchronous}) {
    StepSpec spec = spec_of(16, 4, 0, 0);
    spec.placement = placement;
    spec.staleness = placement == Placement::asynchronous ? 1 : 0;
    Prices prices;
    prices.training = 777 * kMs + 1;
    prices.weight_transfer = 10 * kMs + 3;
    CHECK(steps_of(spec, prices, 2).step == prices.training + prices.weight_transfer);
  }
}

TEST_CASE("staleness never costs throughput, and overlap gains what it can", "[rl]") {
  for (const double variation : {0.0, 0.5, 1.5}) {
    for (const Time training : {100 * kMs, 1'500 * kMs, 6'000 * kMs}) {
      for (const UnderWay under_way : {UnderWay::drain, UnderWay::resume}) {
        Time before = 0;
        for (const std::int64_t staleness : {0, 1, 2, 4}) {
          StepSpec spec = spec_of(24, 4, 100, variation);
          spec.placement = staleness == 0 ? Placement::separate : Placement::asynchronous;
          spec.staleness = staleness;
          spec.under_way = under_way;
          spec.steps = 6;
          const Steps steps = steps_of(spec, prices_of(training), 3);
          INFO("variation " << variation << ", training " << training << " ps, staleness " << staleness);
          if (staleness == 0) before = steps.step;
          CHECK(steps.step <= before);
          // No step is quicker than its trainer.
          CHECK(steps.step >= prices_of(training).trainer() + prices_of(training).weight_transfer);
        }
      }
    }
  }
}

TEST_CASE("more samples, and longer tails, are never quicker", "[rl]") {
  for (const Placement placement : {Placement::colocated, Placement::separate, Placement::asynchronous}) {
    Time before = 0;
    for (const std::int64_t samples : {1, 2, 4, 8, 16}) {
      StepSpec spec = spec_of(12, samples, 100, 1);
      spec.placement = placement;
      spec.staleness = placement == Placement::asynchronous ? 1 : 0;
      spec.steps = 3;
      const Time step = steps_of(spec, prices_of(50 * kMs), 2).step;
      INFO("samples " << samples);
      CHECK(step >= before);
      before = step;
    }
  }
  Time before = 0;
  for (const double variation : {0.0, 0.5, 1.0, 1.5}) {
    const Time step = steps_of(spec_of(24, 4, 100, variation), prices_of(50 * kMs), 3).step;
    CHECK(step >= before);
    before = step;
  }
}

TEST_CASE("a long tail is what an asynchronous step gains by", "[rl]") {
  // AReaL (arXiv 2505.24298) and verl's pages of asynchronous trainers: the longer the tail, the more is gained.
  double gain_before = 1;
  for (const double variation : {0.0, 0.7, 1.4}) {
    StepSpec spec = spec_of(32, 4, 100, variation);
    spec.steps = 6;
    spec.placement = Placement::separate;
    const Prices prices = prices_of(1'500 * kMs);
    const auto separate = static_cast<double>(steps_of(spec, prices, 2).step);
    spec.placement = Placement::asynchronous;
    spec.staleness = 2;
    spec.under_way = UnderWay::resume;
    const double gain = separate / static_cast<double>(steps_of(spec, prices, 2).step);
    INFO("variation " << variation << ": " << gain);
    CHECK(gain > 1);
    CHECK(gain >= gain_before);
    gain_before = gain;
  }
}

TEST_CASE("answers left to the next step shorten the tail", "[rl]") {
  StepSpec spec = spec_of(32, 4, 100, 1.5);
  spec.steps = 4;
  const Steps whole = steps_of(spec, prices_of(100 * kMs), 2);
  spec.oversampling = 1.5;
  const Steps partial = steps_of(spec, prices_of(100 * kMs), 2);
  CHECK(partial.generation < whole.generation);
}

TEST_CASE("what is carried over from step to step meets new prompts of other lengths under the same numbers", "[rl]") {
  // Left-over answers stand beside prompts of the next step whose numbers begin anew; their caches are not shared.
  StepSpec spec = spec_of(64, 8, 300, 1.5);
  spec.batch.prompt = {200, 1, 4000, {}};
  spec.steps = 5;
  for (const double oversampling : {1.1, 1.25, 2.0}) {
    spec.oversampling = oversampling;
    for (const std::int64_t replicas : {1, 3, 16}) {
      INFO(oversampling << " x, " << replicas << " replicas");
      const Steps steps = steps_of(spec, prices_of(100 * kMs), replicas);
      CHECK(steps.refused == 0);
      CHECK(steps.trained == 64 * 8);
      CHECK(steps.ends.size() >= 64 * 8);
    }
  }
}

TEST_CASE("dynamic sampling takes rounds until enough prompts count", "[rl]") {
  StepSpec spec = spec_of(64, 4, 100, 1);
  spec.batch.accepted = 0.3;
  const Batch batch = draw_batch(spec.batch, 0);
  CHECK(batch.trained.size() == 256);
  // 64 prompts of which 0.3 count: 3.3 rounds of 64 in the mean.
  CHECK(batch.rounds.size() >= 3);
  CHECK(batch.rounds.size() <= 6);
  const Time few = steps_of(spec_of(64, 4, 100, 1), prices_of(100 * kMs), 2).generation;
  CHECK(steps_of(spec, prices_of(100 * kMs), 2).generation > 2 * few);
}

TEST_CASE("an interruption costs what the caches take to compute again", "[rl]") {
  StepSpec spec = spec_of(24, 4, 200, 1);
  spec.placement = Placement::asynchronous;
  spec.staleness = 2;
  spec.steps = 6;
  spec.under_way = UnderWay::resume;
  const Time resumed = steps_of(spec, prices_of(100 * kMs), 2).step;
  spec.under_way = UnderWay::interrupt;
  CHECK(steps_of(spec, prices_of(100 * kMs), 2).step > resumed);
}

}  // namespace
}  // namespace orrery::rl
