// Remedies against running out of memory: sequence parallelism, recomputation, smaller micro-batches, sharding, more
// tensor and more pipeline parallelism, each tried on the scenario as a user would with --set and believed only when
// the changed scenario loads and its memory fits. Left out: what they cost in time, which `orrery compare` tells; more
// GPUs; other models, precisions and schedules.
#include "scenarios/would_fit.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "workloads/memory/memory.h"

namespace orrery::scenarios {

using workloads::Job;
using workloads::Recompute;
using workloads::Remedy;
using workloads::Sharding;

namespace {

using Changes = std::vector<std::string>;

/// One kind of change: its values, mildest first.
using Lever = std::vector<Changes>;

void add(std::vector<Lever>& levers, Lever lever) {
  if (!lever.empty()) levers.push_back(std::move(lever));
}

/// Twice, four times ... the degree, out of the data-parallel ranks.
Lever more_of(const char* key, std::int64_t degree, std::int64_t data, std::int64_t limit) {
  Lever lever;
  while (data % 2 == 0 && 2 * degree <= limit) {
    degree *= 2;
    data /= 2;
    lever.push_back({fmt::format("parallelism.{}={}", key, degree), fmt::format("parallelism.data={}", data)});
  }
  return lever;
}

/// In the order in which they are proposed: what costs least time first. `sequences`: of a micro-batch. `layers`: of
/// the model.
std::vector<Lever> levers_of(const workloads::Parallelism& p, Recompute current, workloads::AttentionKind attention,
                             std::int64_t sequences, std::int64_t gpus_per_node, std::int64_t layers) {
  std::vector<Lever> levers;
  if (p.tensor > 1 && !p.sequence_parallel) add(levers, {{"parallelism.sequence_parallel=true"}});
  Lever sharding;
  for (const Sharding level : {Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
    // With a pipeline, sharded gradients and parameters would travel once for every micro-batch.
    if (level > p.sharding && p.data > 1 && (level == Sharding::optimizer || p.pipeline == 1)) {
      sharding.push_back({fmt::format("parallelism.sharding={}", workloads::name_of(level))});
    }
  }
  add(levers, std::move(sharding));
  Lever recompute;
  if (current == Recompute::none && attention == workloads::AttentionKind::unfused) {
    recompute.push_back({"recompute=selective"});
  }
  if (current != Recompute::full) recompute.push_back({"recompute=full"});
  add(levers, std::move(recompute));
  Lever micro;
  for (std::int64_t size = sequences; size % 2 == 0;) {
    size /= 2;
    micro.push_back({fmt::format("batch.micro={}", size)});
  }
  if (sequences > 1 && (micro.empty() || micro.back().front() != "batch.micro=1")) micro.push_back({"batch.micro=1"});
  add(levers, std::move(micro));
  add(levers, more_of("tensor", p.tensor, p.data, gpus_per_node));
  add(levers, more_of("pipeline", p.pipeline, p.data, layers));
  return levers;
}

/// Peak memory of the changed scenario, where it loads and fits.
std::optional<Remedy> tried(const sim::Settings& document, const Changes& changes) {
  sim::Settings changed = document;
  try {
    for (const std::string& change : changes) apply_set(changed, change);
    const Job job = load_scenario(changed).job;
    const workloads::MemoryNeed need =
        workloads::memory_need(workloads::stage_memory(job, workloads::split_layers(job)), job.machine);
    if (need.fits()) return Remedy{changes, need.peak};
  } catch (const sim::UserError&) {
    // Not a layout of this model on these GPUs.
  }
  return std::nullopt;
}

Changes joined(const std::vector<Lever>& levers) {
  Changes all;
  for (const Lever& lever : levers) all.insert(all.end(), lever.back().begin(), lever.back().end());
  return all;
}

/// The strongest change of each kind together, then without those that it does not need, the costliest first.
std::optional<Remedy> combination(const sim::Settings& document, std::vector<Lever> levers) {
  // More tensor and more pipeline parallelism both take data-parallel ranks: one of them.
  while (levers.size() > 1 && levers.back().front().front().starts_with("parallelism.pipeline")) {
    if (!levers[levers.size() - 2].front().front().starts_with("parallelism.tensor")) break;
    levers.pop_back();
  }
  std::optional<Remedy> best;
  // A value that does not load must not spoil the rest: kinds are dropped from the end until what is left fits.
  for (; levers.size() > 1 && !best; levers.pop_back()) {
    best = tried(document, joined(levers));
    if (best) break;
  }
  for (std::size_t i = levers.size(); best && i-- > 0;) {
    std::vector<Lever> fewer = levers;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (fewer.empty()) break;
    if (const std::optional<Remedy> enough = tried(document, joined(fewer))) {
      best = enough;
      levers = fewer;
    }
  }
  return best;
}

}  // namespace

std::vector<Remedy> would_fit(const sim::Settings& document) {
  const Job job = load_scenario(document).job;
  const std::vector<Lever> levers = levers_of(job.parallelism, job.method.recompute, job.method.attention,
                                              job.batch.micro, job.machine.gpus_per_node, job.model.layers);
  std::vector<Remedy> remedies;
  for (const Lever& lever : levers) {
    for (const Changes& changes : lever) {
      const std::optional<Remedy> remedy = tried(document, changes);
      if (!remedy) continue;
      remedies.push_back(*remedy);
      break;
    }
  }
  if (remedies.empty()) {
    if (const std::optional<Remedy> remedy = combination(document, levers)) remedies.push_back(*remedy);
  }
  return remedies;
}

}  // namespace orrery::scenarios
