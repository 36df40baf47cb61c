// A walk back from the fullest pass over as many launches as the host is ahead. See waiting_blocks.h.
#include "workloads/memory/waiting_blocks.h"

#include <algorithm>

#include "sim/real.h"

namespace orrery::workloads {

namespace {

/// Of one pass.
struct Freed {
  double launches = 0, bytes = 0;  // bytes: of blocks that a collective of another stream was given
};

void add_freed(Freed& freed, const Pieces& pieces) {
  for (const Piece& piece : pieces) {
    for (const Kernel& kernel : piece.kernels) freed.launches += sim::real(kernel.launches);
    if (!piece.is_comm()) continue;
    freed.launches += 1;
    const bool drops_input = piece.op == calibration::CollectiveOp::reduce_scatter;
    if (drops_input && piece.group == CommGroup::tensor) freed.bytes += piece.bytes;
  }
}

/// Of a chunk's passes. The halves of a split backward pass count as a whole one and nothing.
struct ChunkFreed {
  Freed forward, backward;
  Freed of(PassKind kind) const {
    if (kind == PassKind::weight_gradient) return {};
    return kind == PassKind::forward ? forward : backward;
  }
};

std::vector<ChunkFreed> freed_by_chunk(const StageLayout& stage, const KernelTimes& kernels,
                                       const calibration::HostLaunches& counted) {
  const Network& network = stage.split.network;
  std::vector<ChunkFreed> kinds;
  for (const Layer& layer : network.kinds) {
    const LayerPasses passes = passes_of(layer, kernels, false);
    add_freed(kinds.emplace_back().forward, passes.forward);
    add_freed(kinds.back().backward, passes.backward);
    if (layer.kind != LayerKind::block) continue;
    if (counted.forward_block > 0) kinds.back().forward.launches = counted.forward_block;
    if (counted.backward_block > 0) kinds.back().backward.launches = counted.backward_block;
  }
  std::vector<ChunkFreed> chunks;
  for (std::int64_t chunk = 0; chunk < stage.chunks(); ++chunk) {
    ChunkFreed& sum = chunks.emplace_back();
    const LayerRange& range = stage.range(chunk);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const ChunkFreed& layer = kinds[network.layers[static_cast<std::size_t>(i)]];
      sum.forward.launches += layer.forward.launches;
      sum.forward.bytes += layer.forward.bytes;
      sum.backward.launches += layer.backward.launches;
      sum.backward.bytes += layer.backward.bytes;
    }
  }
  return chunks;
}

/// Of the last `lead` launches ahead of where a pass is fullest. Inside a pass blocks are taken to be freed evenly.
double waiting_at(const std::vector<Pass>& passes, std::size_t at, const std::vector<ChunkFreed>& chunks,
                  HostLead lead) {
  double bytes = 0, left = lead.launches.ahead;
  std::size_t behind = passes[at].kind == PassKind::forward ? at + 1 : at;
  if (lead.ends_with_pass) return behind == at ? 0 : chunks[static_cast<std::size_t>(passes[at].chunk)].forward.bytes;
  while (behind > 0 && left > 0) {
    const Pass& pass = passes[--behind];
    const Freed freed = chunks[static_cast<std::size_t>(pass.chunk)].of(pass.kind);
    if (freed.launches > 0) bytes += freed.bytes * std::min(1.0, left / freed.launches);
    left -= freed.launches;
  }
  return bytes;
}

}  // namespace

double waiting_bytes(const StageLayout& stage, const std::vector<Pass>& passes, const Pass& fullest,
                     const KernelTimes& kernels, HostLead lead) {
  if (!(lead.launches.ahead > 0)) return 0;
  const std::vector<ChunkFreed> chunks = freed_by_chunk(stage, kernels, lead.launches);
  double most = 0;
  // Later micro-batches are as full, and come behind backward passes too: those that follow what the fullest follows.
  const auto like = [&](std::size_t at) {
    return passes[at].kind == fullest.kind && passes[at].chunk == fullest.chunk;
  };
  const auto first = std::find(passes.begin(), passes.end(), fullest);
  if (first == passes.end()) return 0;
  for (auto at = static_cast<std::size_t>(first - passes.begin()); at < passes.size(); ++at) {
    const bool follows = first == passes.begin() || (at > 0 && passes[at - 1].kind == (first - 1)->kind);
    if (like(at) && follows) most = std::max(most, waiting_at(passes, at, chunks, lead));
  }
  return most;
}

}  // namespace orrery::workloads
