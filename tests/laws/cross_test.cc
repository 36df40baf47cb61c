// Does anything that the language allows fall between two features? Every software generation with every schedule,
// every sharding and overlap on and off, on a toy of two layers a stage: it runs, or is refused in one line; what it
// moves comes out alike by formula and by count; and a folded run says what a run of every rank says.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iostream>
#include <map>
#include <numeric>
#include <string>

#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "workloads/step/step.h"
#include "workloads/step/step_cache.h"

using namespace orrery;

namespace {

// Under sanitizers, which take ten times as long, one cell of so many is tried: a number that has no divisor in common
// with a generation's cells, so that 31 generations in a row try all of them.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kOneCellOf = 31;
#else
constexpr std::size_t kOneCellOf = 1;
#endif

/// One cell of the cross.
struct Cell {
  std::string software, schedule, sharding;
  bool overlap = false;
  int chunks = 1;
};

/// Eight nodes of two GPUs: tensor 2 x pipeline 4 x data 2, sixteen micro-batches a rank. Layers as large as those of a
/// 7B model on 8192 tokens, 1.6 TFLOP a rank forward, so that the device is busy for longer than a host launches a
/// layer's ten operations of 0.12 ms, and a folded run takes passes as one operation.
sim::Settings toy(const Cell& cell) {
  return scenarios::parse_yaml(
      fmt::format(
          "name: toy\n"
          "cluster: {{device: h100-sxm-80gb, gpus: 16, gpus_per_node: 2, fabric: ndr-rail}}\n"
          "model: {{kind: gpt, layers: 8, hidden: 4096, heads: 32, ffn_hidden: 16384, vocab: 51200, seq: 8192}}\n"
          "parallelism: {{tensor: 2, pipeline: 4, data: 2, virtual_pipeline: {}, schedule: {}, sharding: {}}}\n"
          "batch: {{global: 32, micro: 1}}\n"
          "precision: bf16\n"
          "overlap: {{tensor: {}, pipeline: {}, gradients: {}, parameters: {}}}\n"
          "software: {}\n",
          cell.chunks, cell.schedule, cell.sharding, cell.overlap, cell.overlap, cell.overlap, cell.overlap,
          cell.software),
      "toy.yaml");
}

const std::vector<std::string>& choices(const std::string& path) {
  const auto& keys = scenarios::schema();
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const scenarios::Key& k) { return k.path == path; });
  REQUIRE(key != keys.end());
  REQUIRE_FALSE(key->choices.empty());
  return key->choices;
}

struct Tally {
  int run = 0, refused = 0;
  int in_few = 0;  // folded into fewer events a rank
  std::map<std::string, int> by_schedule;
};

std::vector<Cell> cells_of(const std::string& software) {
  std::vector<Cell> cells;
  for (const std::string& schedule : choices("parallelism.schedule")) {
    for (const std::string& sharding : choices("parallelism.sharding")) {
      for (const bool overlap : {false, true}) {
        for (const int chunks : {1, 2}) cells.push_back({software, schedule, sharding, overlap, chunks});
      }
    }
  }
  return cells;
}

/// Folded beside full.
void check_run(const workloads::Job& job, workloads::StepCache& cache, Tally& tally) {
  workloads::Question options;
  options.cache = &cache;
  const workloads::StepReport folded = workloads::simulate_step(job, options);
  options.ranks = workloads::Question::Ranks::every;
  const workloads::StepReport full = workloads::simulate_step(job, options);
  CHECK(tests::contradiction(folded) == "");
  CHECK(folded.effort.ranks < full.effort.ranks);
  CHECK(tests::comparable(folded) == tests::comparable(full));
  const auto per_rank = [](const workloads::StepReport& r) {
    return static_cast<double>(r.effort.events) / static_cast<double>(r.effort.ranks);
  };
  tally.in_few += per_rank(folded) < per_rank(full) / 2 ? 1 : 0;
}

void check_cell(const Cell& cell, const scenarios::Scenario& base, workloads::StepCache& cache, Tally& tally) {
  INFO(cell.software << ", " << cell.schedule << " of " << cell.chunks << " chunks, sharding " << cell.sharding
                     << ", overlap " << cell.overlap);
  workloads::Job job;
  try {
    job = scenarios::load_variant(base, toy(cell)).job;
  } catch (const sim::UserError& error) {
    const std::string line = error.what();
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.starts_with("toy.yaml:"));
    ++tally.refused;
    // No schedule's own: software that gathers weight by weight has whole passes alone.
    if (line.find("it gathers weight by weight") != std::string::npos) ++tally.by_schedule[cell.schedule];
    return;
  }
  ++tally.run;
  ++tally.by_schedule[cell.schedule];
  try {
    check_run(job, cache, tally);
  } catch (const std::exception& error) {
    FAIL_CHECK(error.what());
  }
}

}  // namespace

TEST_CASE("every generation with every schedule, sharding and overlap runs, or is refused in one line") {
  const std::clock_t begin = std::clock();
  Tally tally;
  workloads::StepCache cache;
  std::size_t seen = 0;
  for (const std::string& software : scenarios::shipped("software")) {
    const std::vector<Cell> cells = cells_of(software);
    CHECK(std::gcd(cells.size(), kOneCellOf) == 1);
    const scenarios::Scenario base = scenarios::load_scenario(toy({software, "1f1b", "none", false, 1}));
    for (const Cell& cell : cells) {
      if (seen++ % kOneCellOf == 0) check_cell(cell, base, cache, tally);
    }
  }
  std::cout << fmt::format("cross: {} run, {} of them in fewer events a rank when folded, {} refused, {:.1f} s\n",
                           tally.run, tally.in_few, tally.refused,
                           static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  CHECK(tally.in_few > tally.run / 10);  // passes as one operation, and steady states, are among them
  // Of one or two chunks one suits every schedule: with each generation, each sharding, overlap or not.
  const auto cells =
      static_cast<int>(scenarios::shipped("software").size() * choices("parallelism.sharding").size() * 2 / kOneCellOf);
  for (const std::string& schedule : choices("parallelism.schedule")) {
    INFO(schedule);
    CHECK(tally.by_schedule[schedule] >= (kOneCellOf == 1 ? cells : cells * 3 / 4));  // the few need not be a fair draw
  }
}
