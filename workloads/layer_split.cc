// Which layers lie on which stage and chunk. When stages x chunks do not divide the layers, embedding and LM head count
// as one layer each and the cuts fall as evenly as whole layers allow; a job may also say how many each block holds.
// DeepSpeed counts layers alone and fills one stage after the other (deepspeed/runtime/utils.py, partition_balanced),
// but where layers, embedding and head divide, which is what models were given two layers less for.
#include <algorithm>

#include "workloads/schedules/chunk_map.h"
#include "workloads/stage_program.h"

namespace orrery::workloads {

LayerSplit split_layers(std::int64_t layers, std::int64_t stages, std::int64_t chunks) {
  const std::int64_t parts = stages * chunks;
  LayerSplit split;
  split.shapes.resize(static_cast<std::size_t>(parts));
  split.shapes.front().embedding = true;
  split.shapes.back().head = true;
  if (layers % parts == 0) {
    for (ChunkShape& shape : split.shapes) shape.layers = layers / parts;
    return split;
  }
  const std::int64_t units = layers + 2;
  for (std::int64_t i = 0; i < parts; ++i) {
    ChunkShape& shape = split.shapes[static_cast<std::size_t>(i)];
    const std::int64_t share = (i + 1) * units / parts - i * units / parts;
    shape.layers = share - (shape.embedding ? 1 : 0) - (shape.head ? 1 : 0);
  }
  return split;
}

namespace {

/// Every block holds as many layers as the fullest has to, until none are left.
void fill_in_order(std::int64_t layers, LayerSplit& blocks) {
  const auto parts = static_cast<std::int64_t>(blocks.shapes.size());
  const std::int64_t most = (layers + parts - 1) / parts;
  for (ChunkShape& shape : blocks.shapes) {
    shape.layers = std::min(most, layers);
    layers -= shape.layers;
  }
}

}  // namespace

LayerSplit split_layers(const Job& job) {
  const ChunkMap map = job.parallelism.chunk_map();
  LayerSplit blocks = split_layers(job.model.layers, map.blocks(), 1);
  if (job.software.defaults.layer_split == "fill" && (job.model.layers + 2) % map.blocks() != 0)
    fill_in_order(job.model.layers, blocks);
  const std::vector<std::int64_t>& given = job.parallelism.stage_layers;
  for (std::size_t b = 0; b < given.size(); ++b) blocks.shapes[b].layers = given[b];
  LayerSplit split;
  for (std::int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
    for (std::int64_t stage = 0; stage < map.stages(); ++stage)
      split.shapes.push_back(blocks.shapes[static_cast<std::size_t>(map.block_of({stage, chunk}))]);
  }
  return split;
}

double stage_parameters(const Job& job, const LayerSplit& split, std::int64_t stage) {
  const ShardParameters shard = shard_parameters(job);
  double parameters = 0;
  for (std::int64_t chunk = 0; chunk < job.parallelism.virtual_pipeline; ++chunk) {
    const ChunkShape& shape = split.of(chunk, stage, job.parallelism.pipeline);
    parameters += static_cast<double>(shape.layers) * shard.layer + (shape.embedding ? shard.embedding : 0) +
                  (shape.head ? shard.head : 0);
  }
  return parameters;
}

}  // namespace orrery::workloads
