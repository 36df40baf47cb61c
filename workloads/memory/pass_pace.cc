// Left out: the time of messages, what hosts do for them, and launches of the embedding, of which only one stage has
// any: stages of as many blocks are taken to launch for as long.
#include "workloads/memory/pass_pace.h"

#include <algorithm>
#include <limits>

#include "sim/units.h"

namespace orrery::workloads {

SecondsOfPass& SecondsOfPass::operator+=(const SecondsOfPass& other) {
  host += other.host;
  device += other.device;
  return *this;
}

namespace {

/// A collective that lets kernels pass by runs beside them.
SecondsOfPass pace_of(const std::vector<PassItem>& items, const CollectivePrices& prices) {
  SecondsOfPass pace;
  double beside = 0;
  for (const PassItem& item : items) {
    pace.host += sim::to_seconds(item.issue);
    const double seconds = item.comm ? prices.seconds_alone(item.cost, item.group) : sim::to_seconds(item.duration);
    (item.comm && item.passes_by > 0 ? beside : pace.device) += seconds;
  }
  pace.device = std::max(pace.device, beside);
  return pace;
}

/// A stage on its way through a step.
struct Progress {
  std::size_t done = 0;
  double time = 0;
};

}  // namespace

std::vector<LayerPace> layer_paces(const Network& network, const CollectivePrices& prices, const PassCosts& costs) {
  StagePrograms unused;
  TemplateLibrary library(network, prices, costs, unused);
  std::vector<LayerPace> paces;
  for (std::size_t kind = 0; kind < network.kinds.size(); ++kind) {
    const TemplateLibrary::LayerItems& items = library.of_kind(static_cast<std::uint8_t>(kind));
    LayerPace& pace = paces.emplace_back();
    pace.forward = pace_of(items[static_cast<std::size_t>(PassKind::forward)], prices);
    pace.backward = pace_of(items[static_cast<std::size_t>(PassKind::backward)], prices);
    if (network.kinds[kind].kind == LayerKind::embedding) pace.forward.host = pace.backward.host = 0;
    // What steps tell as the host's time of a call, reserved memory tells as the device's too (nanotron's sweep,
    // docs/evidence/memory.md): hosts that the head's long products let get ahead stay so over blocks that bind the
    // host.
    for (SecondsOfPass* pass : {&pace.forward, &pace.backward}) pass->device = std::max(pass->device, pass->host);
  }
  return paces;
}

std::vector<std::vector<double>> message_times(const LayerSplit& split, const ChunkMap& map, const StageOrders& orders,
                                               const std::vector<LayerPace>& paces) {
  constexpr double kNotYet = std::numeric_limits<double>::infinity();
  const std::size_t stages = orders.size();
  std::vector<LayerPace> of_stage(stages);
  std::vector<std::vector<double>> forward(stages), backward(stages), arrive(stages);  // ends, by micro-batch
  for (std::size_t s = 0; s < stages; ++s) {
    const LayerRange& range = split.of(0, static_cast<std::int64_t>(s), map.stages());
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const LayerPace& layer = paces[split.network.layers[static_cast<std::size_t>(i)]];
      of_stage[s].forward += layer.forward;
      of_stage[s].backward += layer.backward;
    }
    forward[s].assign(orders[s].size(), kNotYet);
    backward[s].assign(orders[s].size(), kNotYet);
    arrive[s].assign(orders[s].size(), 0);
  }
  std::vector<Progress> at(stages);
  const auto step = [&](std::size_t s) {
    const Pass& pass = orders[s][at[s].done];
    const auto batch = static_cast<std::size_t>(pass.microbatch);
    const bool ahead = pass.kind == PassKind::forward;
    double& arrival = arrive[s][at[s].done];
    if (ahead && s > 0) arrival = forward[s - 1][batch];
    if (!ahead && s + 1 < stages) arrival = backward[s + 1][batch];
    if (arrival == kNotYet) return false;
    const SecondsOfPass& pace = ahead ? of_stage[s].forward : of_stage[s].backward;
    at[s].time = std::max(at[s].time, arrival) + std::max(pace.host, pace.device);
    (ahead ? forward : backward)[s][batch] = at[s].time;
    ++at[s].done;
    return true;
  };
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t s = 0; s < stages; ++s)
      while (at[s].done < orders[s].size() && step(s)) moves = true;
  }
  return arrive;
}

}  // namespace orrery::workloads
