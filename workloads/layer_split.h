// Which layers lie on which stage and chunk of a pipeline.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/job.h"

namespace orrery::workloads {

/// A network cut into the chunks of a pipeline's stages.
struct LayerSplit {
  Network network;
  std::vector<LayerRange> ranges;  // [chunk][stage], flattened as chunk * stages + stage
  std::vector<double> held;        // parameters of each layer of the network on one rank, in elements
  const LayerRange& of(std::int64_t chunk, std::int64_t stage, std::int64_t stages) const {
    return ranges[static_cast<std::size_t>(chunk * stages + stage)];
  }
  /// Of the layers of a range, in elements.
  double parameters(const LayerRange& range) const;
  double parameters_of(std::int64_t layer) const { return held[static_cast<std::size_t>(layer)]; }
  /// A layer between embedding and head; the first one where they differ.
  const Layer& block() const { return network.layer(1); }
};

/// Cuts `blocks` layers, an embedding in front of and a head behind them into `parts` ranges: equal shares of the
/// layers where they divide; else as even as can be with embedding and head a layer each.
std::vector<LayerRange> split_layers(std::int64_t blocks, std::int64_t parts);
/// The layers of a job: its schedule says where blocks lie, parallelism.stage_layers how many layers each holds.
LayerSplit split_layers(const Job& job);

/// Parameters (elements) on one rank of a stage.
double stage_parameters(const Job& job, const LayerSplit& split, std::int64_t stage);

}  // namespace orrery::workloads
