// Which layers lie on which stage and chunk of a pipeline.
#pragma once

#include <cstdint>
#include <vector>

#include "calibration/framework/software.h"
#include "workloads/model/layer.h"
#include "workloads/schedules/chunk_map.h"

namespace orrery::workloads {

/// Which of a layer's parameters: routed experts are held by other ranks than the rest; those that are trained, and
/// those that are frozen, and of these routed experts and the rest.
enum class HeldPart : std::uint8_t { all, but_experts, experts, trained, frozen, frozen_but_experts, frozen_experts };

/// A network cut into the chunks of a pipeline's stages.
struct LayerSplit {
  Network network;
  std::vector<LayerRange> ranges;  // [chunk][stage], flattened as chunk * stages + stage
  std::vector<double> held;        // parameters of each layer of the network on one rank, in elements
  std::vector<double> experts;     // of these, those of routed experts
  std::vector<double> trained;     // and those that are trained
  const LayerRange& of(std::int64_t chunk, std::int64_t stage, std::int64_t stages) const {
    return ranges[static_cast<std::size_t>(chunk * stages + stage)];
  }
  /// Of the layers of a range, in elements.
  double parameters(const LayerRange& range, HeldPart which = HeldPart::all) const;
  /// Of those that lie between embedding and head.
  double block_parameters(const LayerRange& range, HeldPart which = HeldPart::all) const;
  double parameters_of(std::int64_t layer, HeldPart which = HeldPart::all) const;
  bool is_block(std::int64_t layer) const { return network.layer(layer).kind == LayerKind::block; }
  /// A layer between embedding and head; the first one where they differ.
  const Layer& block() const { return network.layer(1); }
};

/// Of the FLOPs of all blocks' forward passes, or of their attention alone where parts are recomputed, the share of the
/// blocks that are. `how`: the job's, of the first blocks of each part of a pipeline.
double share_recomputed(const LayerSplit& split, Recompute how);

/// Cuts `blocks` layers, an embedding in front of and a head behind them into `parts` ranges: equal shares of the
/// layers where they divide; else as even as can be with embedding and head a layer each.
/// `behind`: layers behind the blocks, which the last range has.
std::vector<LayerRange> split_layers(std::int64_t blocks, std::int64_t parts, std::int64_t behind = 1);
/// Cuts a network: `map` says where the parts lie, `sharing` how layers that do not divide are shared out; `given`,
/// where not empty, how many layers each part holds.
LayerSplit split_network(Network network, const ChunkMap& map, calibration::LayerSharing sharing,
                         const std::vector<std::int64_t>& given);

/// One stage of the pipeline and the layers that lie on it.
struct StageLayout {
  const LayerSplit& split;  // must stay valid
  ChunkMap map;
  std::int64_t stage = 0;

  std::int64_t stages() const { return map.stages(); }
  std::int64_t chunks() const { return map.chunks(); }
  const LayerRange& range(std::int64_t chunk) const { return split.of(chunk, stage, map.stages()); }
  bool is_first_block(std::int64_t chunk) const { return map.block_of({stage, chunk}) == 0; }
  /// On one rank, in elements.
  double parameters(HeldPart which = HeldPart::all) const;
  /// Layers between embedding and head.
  std::int64_t blocks(const LayerRange& range) const { return count(split.network, range, LayerKind::block); }
  std::int64_t blocks() const;
  /// Chunks in the order of the model, on which all stages that hold a block agree.
  std::vector<std::int32_t> chunks_by_block() const;
};

}  // namespace orrery::workloads
