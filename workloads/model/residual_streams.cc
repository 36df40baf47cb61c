// See residual_streams.h. Around each half, on a state of n streams of C elements a token (arXiv 2512.24880, section
// 4.3): a kernel reads all streams, normalises them and multiplies them by the maps' weights (n (n + 2) numbers a
// token), brought onto their manifolds; one reads all streams and writes what the half reads; behind it one reads the
// half's output and all streams, and writes all streams. Backward each reads what it read, beside the gradients of what
// it wrote, and adds to the gradients of the streams. The embedding is copied to all streams; ahead of the head they
// are joined by maps of their own.
//
// Left out: FLOPs of the maps (a thousandth of a block's), Sinkhorn's iterations on 4 x 4 numbers, and the
// recomputation of what these kernels make, as the paper does in blocks of layers: streams and outputs of halves are
// kept, unless the whole layer is recomputed.
#include "workloads/model/residual_streams.h"

#include <algorithm>
#include <string_view>

#include "sim/real.h"
#include "workloads/model/halves.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;
using sim::real;

constexpr std::string_view kHalfInput = "norm input";  // that every half keeps

double streams_in(const LayerWriter& writer) { return real(writer.model().residual_streams); }

}  // namespace

double stream_map_parameters(const Model& model) {
  const std::int64_t n = model.residual_streams, maps = stream_maps(n);
  return n > 1 ? real(maps * (n * model.hidden + 1) + 3) : 0;  // and three factors
}

double stream_head_parameters(const Model& model) {
  const std::int64_t n = model.residual_streams;
  return n > 1 ? real(n * (n * model.hidden + 1) + 1) : 0;
}

void read_streams(LayerWriter& writer) {
  const double n = streams_in(writer), x = writer.sizes().outside, e = writer.element();
  writer.backward("read streams backward", Streaming::copy, x, (3 * n + 1) * e);
  writer.backward("stream maps backward", Streaming::copy, x, 3 * n * e);
  writer.forward("stream maps", Streaming::copy, x, n * e);
  writer.forward("read streams", Streaming::copy, x, (n + 1) * e);
}

void write_streams(LayerWriter& writer) {
  const double n = streams_in(writer), x = writer.sizes().outside, e = writer.element();
  writer.backward("write streams backward", Streaming::copy, x, (3 * n + 2) * e);
  writer.forward("write streams", Streaming::copy, x, (2 * n + 1) * e);
}

void widen(Network& network, const LayerWriter& writer) {
  const double n = streams_in(writer), x = writer.sizes().outside, e = writer.element();
  const auto stream = [&](const char* name, Direction direction, double bytes) {
    return StreamingOp{name, Streaming::copy, x, bytes * e, direction};
  };
  for (Layer& layer : network.kinds) {
    if (layer.kind == LayerKind::embedding) {
      layer.ops.push_back(stream("join stream gradients", Direction::backward, n + 1));
      layer.ops.push_back(stream("copy to streams", Direction::forward, n + 1));
      continue;
    }
    if (layer.kind == LayerKind::head) {
      layer.ops.insert(layer.ops.begin(), stream("join streams backward", Direction::backward, 3 * n + 1));
      layer.ops.insert(layer.ops.begin() + 1, stream("join streams", Direction::forward, 2 * n + 1));
      layer.kept.push_back({"residual streams", n * x, e, kFeedForward, KeptAs::input});
      layer.weights.push_back({"maps that join streams", stream_head_parameters(writer.model())});
      continue;
    }
    std::vector<Kept> more;
    for (Kept& kept : layer.kept) {
      if (kept.name != kHalfInput) continue;
      more.push_back({"residual streams", n * x, e, kept.half, kept.as});
      more.push_back({"output of a half", x, e, kept.half});
      kept.as = KeptAs::tensor;
      layer.working.push_back({"gradients of streams", 2 * n * x, e, kept.half});
      layer.weights.push_back({"stream maps", stream_map_parameters(writer.model())});
    }
    layer.kept.insert(layer.kept.end(), more.begin(), more.end());
  }
  network.residual_elements *= n;
}

}  // namespace orrery::workloads
