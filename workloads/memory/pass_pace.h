// How long the passes of layers keep a host and a device, each by itself, and when messages reach a pipeline's stages:
// from these follows how far a host is ahead.
#pragma once

#include <vector>

#include "workloads/compile/layer_split.h"
#include "workloads/compile/pass_template.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

/// Seconds.
struct SecondsOfPass {
  double host = 0, device = 0;
  SecondsOfPass& operator+=(const SecondsOfPass& other);
};

/// Of one micro-batch.
struct LayerPace {
  SecondsOfPass forward, backward;
};

/// By row of Network::kinds. Collectives at their time on an idle network. No pass keeps a device shorter than a host.
std::vector<LayerPace> layer_paces(const Network& network, const CollectivePrices& prices, const PassCosts& costs);

/// When each pass of each stage has what its neighbours send it, in seconds into the step, where stages hold one chunk
/// each and backward passes come whole. Messages take no time, and hosts wait for them, so that a pass begins on both
/// at once.
std::vector<std::vector<double>> message_times(const LayerSplit& split, const ChunkMap& map, const StageOrders& orders,
                                               const std::vector<LayerPace>& paces);

}  // namespace orrery::workloads
