// Cuts a network into chunks. See layer_split.h. When stages x chunks do not divide the layers, embedding and LM head
// count as one layer each and the cuts fall as evenly as whole layers allow; a job may also say how many each block
// holds. DeepSpeed counts layers alone and fills one stage after the other (deepspeed/runtime/utils.py,
// partition_balanced), but where layers, embedding and head divide, which is what models were given two layers less
// for. nanotron weighs blocks by their products (src/nanotron/models/base.py, build_model): a stage takes blocks until
// it has passed its share of the sum, and what is left comes to the last.
#include "workloads/compile/layer_split.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace orrery::workloads {

namespace {

/// Ranges of so many layers each, the embedding in the first and what is behind the blocks in the last.
std::vector<LayerRange> ranges_of(const std::vector<std::int64_t>& blocks, std::int64_t behind) {
  std::vector<LayerRange> ranges;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::int64_t end = begin + blocks[i] + (i == 0 ? 1 : 0) + (i + 1 == blocks.size() ? behind : 0);
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

std::vector<std::int64_t> even_shares(std::int64_t blocks, std::int64_t parts, std::int64_t behind) {
  if (blocks % parts == 0) return std::vector<std::int64_t>(static_cast<std::size_t>(parts), blocks / parts);
  const std::int64_t units = blocks + 1 + behind;
  std::vector<std::int64_t> shares;
  for (std::int64_t i = 0; i < parts; ++i) shares.push_back((i + 1) * units / parts - i * units / parts);
  --shares.front();
  shares.back() -= behind;
  for (std::size_t i = shares.size(); shares.back() < 0 && i-- > 0;) {  // more behind than the last part's share
    const std::int64_t moved = i + 1 < shares.size() && shares[i] > 0 ? 1 : 0;
    shares[i] -= moved;
    shares.back() += moved;
  }
  return shares;
}

/// Every part holds as many layers as the fullest has to, until none are left.
std::vector<std::int64_t> filled_shares(std::int64_t blocks, std::int64_t parts) {
  const std::int64_t most = (blocks + parts - 1) / parts;
  std::vector<std::int64_t> shares;
  for (std::int64_t i = 0; i < parts; ++i) {
    shares.push_back(std::min(most, blocks));
    blocks -= shares.back();
  }
  return shares;
}

/// Elements of the weights that the layer multiplies with.
double product_size(const Layer& layer) {
  double sum = 0;
  for (const LayerOp& op : layer.ops) {
    const auto* linear = std::get_if<LinearOp>(&op);
    if (linear == nullptr) continue;
    for (const MatMul& product : linear->products)
      sum += static_cast<double>(product.out) * static_cast<double>(product.in);
  }
  return sum;
}

std::vector<std::int64_t> weighed_shares(const Network& network, std::int64_t blocks, std::int64_t parts) {
  double sum = 0, passed = 0;
  for (std::int64_t i = 0; i < network.size(); ++i) sum += product_size(network.layer(i));
  std::vector<std::int64_t> shares(static_cast<std::size_t>(parts), 0);
  std::int64_t part = 0;
  for (std::int64_t i = 1; i <= blocks; ++i) {
    ++shares[static_cast<std::size_t>(part)];
    passed += product_size(network.layer(i));
    const double share = sum * static_cast<double>(part + 1) / static_cast<double>(parts);
    if (passed > share && part + 1 < parts) ++part;
  }
  return shares;
}

std::vector<std::int64_t> shares_of(const Network& network, calibration::LayerSharing sharing, std::int64_t parts) {
  const std::int64_t blocks = network.size() - 1 - network.behind;
  if (sharing == calibration::LayerSharing::weigh) return weighed_shares(network, blocks, parts);
  const bool fills = sharing == calibration::LayerSharing::fill && (blocks + 2) % parts != 0 && blocks % parts != 0;
  return fills ? filled_shares(blocks, parts) : even_shares(blocks, parts, network.behind);
}

/// The first blocks of every range, as Megatron-Core's --recompute-method block has it
/// (megatron/core/transformer/transformer_block.py: each part of a pipeline is a block of its own).
void recompute_first_blocks(const std::vector<LayerRange>& ranges, Network& network) {
  for (const LayerRange& range : ranges) {
    std::int64_t left = network.again.blocks;
    for (std::int64_t i = range.begin; i < range.end && left > 0; ++i) {
      std::uint8_t& kind = network.layers[static_cast<std::size_t>(i)];
      if (network.kinds[kind].kind != LayerKind::block) continue;
      kind = static_cast<std::uint8_t>(kind + network.again.kinds);
      --left;
    }
  }
}

}  // namespace

double share_recomputed(const LayerSplit& split, Recompute how) {
  std::vector<double> flops;
  for (const Layer& layer : split.network.kinds) {
    const ForwardFlops forward = forward_flops(layer);
    const double linear = how == Recompute::full ? forward.linear : 0;
    flops.push_back(layer.kind == LayerKind::block ? linear + forward.attention : 0);
  }
  double all = 0, again = 0;
  for (const std::uint8_t kind : split.network.layers) {
    all += flops[kind];
    if (kind >= split.network.again.kinds) again += flops[kind];
  }
  return all > 0 ? again / all : 0;
}

double LayerSplit::parameters_of(std::int64_t layer, HeldPart which) const {
  const auto at = static_cast<std::size_t>(layer);
  switch (which) {
    case HeldPart::all:
      return held[at];
    case HeldPart::but_experts:
      return held[at] - experts[at];
    case HeldPart::experts:
      return experts[at];
    case HeldPart::trained:
      return trained[at];
    case HeldPart::frozen:
      return held[at] - trained[at];
    case HeldPart::frozen_but_experts:
      return held[at] - trained[at] - experts[at];
    case HeldPart::frozen_experts:
      return experts[at];
  }
  return 0;
}

double LayerSplit::parameters(const LayerRange& range, HeldPart which) const {
  double sum = 0;
  for (std::int64_t i = range.begin; i < range.end; ++i) sum += parameters_of(i, which);
  return sum;
}

double LayerSplit::block_parameters(const LayerRange& range, HeldPart which) const {
  double sum = 0;
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    if (is_block(i)) sum += parameters_of(i, which);
  }
  return sum;
}

std::vector<LayerRange> split_layers(std::int64_t blocks, std::int64_t parts, std::int64_t behind) {
  return ranges_of(even_shares(blocks, parts, behind), behind);
}

LayerSplit split_network(Network network, const ChunkMap& map, calibration::LayerSharing sharing,
                         const std::vector<std::int64_t>& given) {
  const std::int64_t behind = network.behind, parts = map.blocks();
  std::vector<std::int64_t> shares = shares_of(network, sharing, parts);
  std::copy(given.begin(), given.end(), shares.begin());
  const std::vector<LayerRange> blocks = ranges_of(shares, behind);
  LayerSplit split;
  split.network = std::move(network);
  recompute_first_blocks(blocks, split.network);
  std::vector<double> kinds, experts, trained;
  for (const Layer& layer : split.network.kinds) {
    kinds.push_back(parameters(layer));
    experts.push_back(expert_parameters(layer));
    trained.push_back(trained_parameters(layer));
  }
  for (const std::uint8_t kind : split.network.layers) {
    split.held.push_back(kinds[kind]);
    split.experts.push_back(experts[kind]);
    split.trained.push_back(trained[kind]);
  }
  for (std::int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
    for (std::int64_t stage = 0; stage < map.stages(); ++stage)
      split.ranges.push_back(blocks[static_cast<std::size_t>(map.block_of({stage, chunk}))]);
  }
  return split;
}

double StageLayout::parameters(HeldPart which) const {
  double sum = 0;
  for (std::int64_t chunk = 0; chunk < chunks(); ++chunk) sum += split.parameters(range(chunk), which);
  return sum;
}

std::int64_t StageLayout::blocks() const {
  std::int64_t sum = 0;
  for (std::int64_t chunk = 0; chunk < chunks(); ++chunk) sum += blocks(range(chunk));
  return sum;
}

std::vector<std::int32_t> StageLayout::chunks_by_block() const {
  std::vector<std::int32_t> order(static_cast<std::size_t>(chunks()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return map.block_of({stage, a}) < map.block_of({stage, b});
  });
  return order;
}

}  // namespace orrery::workloads
