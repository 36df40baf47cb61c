// All-reduce by NVLS and trees (NCCL 2.18): the switch of each node reduces and multicasts (NVLink SHARP), the nodes
// form a double binary tree, eight heads side by side, one for each GPU and its NIC. With L = ceil(log2 nodes):
//   time = base + 2 L (net + path) + (2 L - 2) c / rate + 2 bytes / rate
// where c are the bytes of a chunk over 16 channels of all heads. A chunk is of 64 KiB, 32 KiB for buffers below one
// chunk for every channel and head, and twice 64 KiB on two or three nodes (src/enqueue.cc, src/transport/nvls.cc).
// So bandwidth falls with the nodes: 64 MB are 8 chunks, and 8192 GPUs make 20 stages. Base and net:
// src/graph/tuning.cc of 2.30, hwLatencies[NVLINK] and [NET]; nothing is fitted.
#include <algorithm>
#include <cmath>

#include "workloads/collectives/algorithm.h"

namespace orrery::workloads {

namespace {

constexpr double kBase = 25e-6, kNet = 20.9e-6, kChannels = 16;
constexpr double kKilobyte = 1024;

double nvls_chunk(const Call& call, double pipes) {
  double chunk = call.shape.nodes >= 4 ? 64 * kKilobyte : 128 * kKilobyte;
  if (call.bytes < 4 * pipes * chunk) chunk = std::min(chunk, 64 * kKilobyte);
  if (call.bytes < pipes * chunk) chunk = std::min(chunk, 32 * kKilobyte);
  return std::min(chunk, call.bytes / pipes);
}

}  // namespace

Estimate nvls_tree(const Call& call, const Protocol&) {
  const double pipes = kChannels * call.per_node(), stages = 2 * call.levels();
  const double in_flight = nvls_chunk(call, pipes) * pipes;
  Estimate out;
  out.latency = kBase + stages * kNet + (stages - 1) * call.hop() + (stages - 2) * in_flight / call.rate;
  out.work = tree_bytes(call.bytes, call.shape.nodes);
  out.rate_cap = in_switch_cap(call, out.work);
  out.pattern = Pattern::across;
  return out;
}

/// NVIDIA/nccl, src/graph/tuning.cc, per-channel limits of Hopper.
double believed_nvls_tree(const Call& call, const Protocol&) {
  constexpr double kNicLatency = 0.6e-6;
  const bool two = call.shape.nodes <= 2;
  const double latency = kBase + 2 * std::floor(std::log2(call.nodes())) * (kNet + 2 * kNicLatency);
  const double rate = std::min((two ? 2 : 1) * call.line_rate, kChannels * (two ? 57.7e9 : 45.5e9));
  return latency + 2 * call.bytes * (call.ranks() - 1) / call.ranks() / rate;
}

}  // namespace orrery::workloads
