// Double binary tree all-reduce (Sanders, Speck & Träff, Parallel Computing 2009; NCCL 2.4): two trees, each carrying
// half of the buffer, every node an inner node of one and a leaf of the other, so that a node sends 2 x bytes in all
// (of two nodes, each root of one tree, 1 x bytes). Inside a node the ranks form a chain. With L = ceil(log2 nodes)
// levels and g ranks per node a chunk goes through 2 (g-1) stages inside nodes and 2 L between them, up and down:
//   time = base + 2 (g-1) (node + c / node rate) + 2 L (net + path) + (2 L - 2) c / rate + 2 bytes / rate
// where c are the bytes of a chunk over all channels; the last two terms are (stages + chunks - 1) chunk times, two of
// which every chunk spends at the busiest NIC. Chunks are as NCCL cuts them (src/enqueue.cc: calcCollChunking of 2.30
// for LL128, that of 2.8 to 2.19 for Simple).
#include <algorithm>
#include <cmath>
#include <limits>

#include "workloads/collectives/algorithm.h"

namespace orrery::workloads {

namespace {

constexpr double kKiB = 1024;

/// Bytes of a chunk in one channel. Deep pipelines get smaller chunks.
double tree_chunk(const Call& call, Protocol::Kind kind, double channels) {
  const double part = call.bytes / channels;
  const auto halve = [&](double& chunk, double chunks, double least) {
    while (std::floor(part / chunk) < chunks && chunk > least) chunk /= 2;
  };
  double chunk = 32 * kKiB;  // LL
  const double levels = std::floor(std::log2(call.nodes()));
  if (kind == Protocol::Kind::ll128) {
    const double steps = 1 + levels + 0.1 * call.per_node();
    chunk = 576 * kKiB;
    halve(chunk, steps * 64 / call.per_node(), 128 * kKiB);
    halve(chunk, steps * 16 / call.per_node(), 32 * kKiB);
  } else if (kind == Protocol::Kind::simple) {
    const double depth = call.per_node() - 1 + levels;
    chunk = 512 * kKiB;
    halve(chunk, depth * 8, 128 * kKiB);
    halve(chunk, depth * 4, 64 * kKiB);
    halve(chunk, depth, 32 * kKiB);
  }
  return std::min(chunk, part);
}

/// Of NCCL's tree by size, from 64 bytes in powers of two (tuning.cc, treeCorrectionFactor).
constexpr std::array<std::array<float, 24>, 3> kCorrection{{
    {1, 1, 1, 1, .9F, .8F, .7F, .7F, .7F, .7F, .6F, .5F, .4F, .4F, .5F, .6F, .7F, .8F, .9F, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9F, .8F, .8F, .8F, .7F, .6F, .6F, .6F, .6F, .6F, .6F, .8F, .9F, .9F, .9F, .9F, 1, 1, 1},
    {.9F, .9F, .9F, .9F, .9F, .9F, .9F, .8F, .7F, .6F, .6F, .5F,
     .5F, .5F, .5F, .6F, .7F, .8F, .7F, .7F, .8F, .9F, .9F, .9F},
}};

}  // namespace

double tree_bytes(double bytes, std::int64_t nodes) { return nodes == 2 ? bytes : 2 * bytes; }

Estimate double_binary_tree(const Call& call, const Protocol& protocol) {
  const bool simple = protocol.kind == Protocol::Kind::simple;
  const double base = simple ? sim::to_seconds(call.software.library.collective_base) : protocol.tree_base;
  const double net = simple ? sim::to_seconds(call.software.library.collective_step_tree) : protocol.tree_net;
  const double node = simple ? sim::to_seconds(call.software.library.collective_step_node) : protocol.tree_node;
  const double channels = call.channels(), stages = 2 * call.levels();
  const double chain = 2 * (call.per_node() - 1);
  const double in_flight = tree_chunk(call, protocol.kind, channels) * channels;
  Estimate out;
  out.latency = base + chain * node + stages * net + (stages - 1) * call.hop() +
                (stages - 2) * in_flight / (call.rate * protocol.share);
  if (chain > 0) out.latency += chain * in_flight / (call.node_rate() * protocol.share);
  out.work = tree_bytes(call.bytes, call.shape.nodes);
  out.rate_cap = protocol.share < 1.0 ? call.rate * protocol.share : 0.0;
  out.pattern = Pattern::across;
  return out;
}

/// NVIDIA/nccl, src/graph/tuning.cc, as believed_ring; per-channel limits of Ampere, or Hopper where switches reduce.
double believed_tree(const Call& call, const Protocol& protocol) {
  constexpr double kNicLatency = 0.6e-6;
  const bool simple = protocol.kind == Protocol::Kind::simple, two = call.shape.nodes <= 2;
  const bool hopper = call.device.reduces_in_switch(std::numeric_limits<std::int32_t>::max());
  const double channels = call.channels();
  const double net = protocol.tree_net + (simple ? 2 : 1) * kNicLatency;
  const double latency =
      protocol.tree_base + 2 * ((call.per_node() - 1) * protocol.tree_node + std::floor(std::log2(call.nodes())) * net);
  const double per_channel = hopper ? (two ? 41.4e9 : 36e9) : (two ? 23.6e9 : 17.8e9);
  double rate = std::min(0.92 * call.line_rate, channels * per_channel);
  if (protocol.kind == Protocol::Kind::ll) rate = std::min(rate / 3.8, two ? 22.5e9 : 19e9);
  if (protocol.kind == Protocol::Kind::ll128) {
    rate = std::min(rate * 120 / 128, channels * (hopper ? (two ? 36.7e9 : 29e9) : 20e9));
  }
  const double power = call.bytes < 64 ? -1 : std::floor(std::log2(call.bytes / 64));
  if (power >= 0 && power < 23) {
    rate *= static_cast<double>(kCorrection[static_cast<std::size_t>(protocol.kind)][static_cast<std::size_t>(power)]);
  }
  return latency + 2 * call.bytes / rate;
}

}  // namespace orrery::workloads
