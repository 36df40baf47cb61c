// Adapters beside the products of a frozen network. See adapters.h.
#include "workloads/model/adapters.h"

#include <algorithm>
#include <utility>

#include "sim/real.h"
#include "workloads/model/halves.h"
#include "workloads/model/hybrid.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;
using Part = LinearOp::Part;

using sim::real;

bool column_parallel(Part part) { return part == Part::attention_in || part == Part::mlp_in; }

/// The adapter beside one linear layer. Its input and its output are those of the layer's products together.
class AdapterWriter {
 public:
  AdapterWriter(const LayerWriter& writer, const LinearOp& beside)
      : w_(writer),
        z_(writer.sizes()),
        adapters_(writer.computation().adapters),
        part_(beside.part),
        column_(column_parallel(beside.part)),
        half_(beside.part == Part::attention_in || beside.part == Part::attention_out ? kAttention : kFeedForward),
        in_(beside.products.front().in) {
    for (const MatMul& product : beside.products) out_ += product.out;
  }

  /// What follows the frozen products; forward and backward entries as in layer.h.
  std::vector<LayerOp> ops() const {
    std::vector<LayerOp> ops;
    const double e = w_.element(), in = real(z_.tokens) * real(in_), out = outputs();
    ops.push_back(stream("add input gradients", Streaming::accumulate, in, 3 * e, Direction::backward));
    if (adapters_.dropout) {
      ops.push_back(stream("adapter dropout backward", Streaming::dropout, in, 2 * e + 1, Direction::backward));
      ops.push_back(stream("adapter dropout", Streaming::dropout, in, 2 * e + 1, Direction::forward));
    }
    ops.push_back(linear("adapter down", rows_of_down(), in_, z_.tokens));
    if (z_.tensor > 1) ops.push_back(exchange());
    ops.push_back(linear("adapter up", out_, adapters_.rank, tokens_of_up()));
    ops.push_back(stream("scale adapter gradient", Streaming::accumulate, out, 2 * e, Direction::backward));
    ops.push_back(stream("scale adapter", Streaming::accumulate, out, 2 * e, Direction::forward));
    ops.push_back(stream("add adapter", Streaming::accumulate, out, 3 * e, Direction::forward));
    return ops;
  }

  /// Without dropout the input of the adapter beside the projection is what attention keeps of its output anyway.
  void keep(Layer& layer) const {
    const double e = w_.element(), input = real(z_.tokens) * real(in_);
    const bool kept_already = part_ == Part::attention_out && !adapters_.dropout;
    if (!kept_already) layer.kept.push_back({"adapter input", input, adapters_.dropout ? e + 1 : e, half_});
    layer.kept.push_back({"adapter's inside", real(tokens_of_up()) * real(adapters_.rank), e, half_});
  }

  void weigh(Layer& layer) const {
    layer.weights.push_back({"adapter down", real(rows_of_down()) * real(in_), real(in_)});
    layer.weights.push_back({"adapter up", real(out_) * real(adapters_.rank), real(adapters_.rank)});
  }

 private:
  /// A's rows are cut over the tensor group beside a column-parallel product, if there are as many.
  std::int64_t rows_of_down() const {
    return column_ ? std::max<std::int64_t>(1, adapters_.rank / z_.tensor) : adapters_.rank;
  }
  std::int64_t tokens_of_up() const { return !column_ && z_.sequence_parallel ? z_.tokens / z_.tensor : z_.tokens; }
  double outputs() const { return real(tokens_of_up()) * real(out_); }

  static StreamingOp stream(const char* name, Streaming kernel, double elements, double bytes, Direction direction) {
    return {name, kernel, elements, bytes, direction};
  }
  /// Adapters compute in the type of the activations.
  LinearOp linear(const char* name, std::int64_t out, std::int64_t in, std::int64_t tokens) const {
    MatMul p{name, out, in, tokens, w_.computation().precision.activations};
    p.sum = w_.computation().precision.gradients;
    LinearOp op;
    op.products = {p};
    return op;
  }
  CommOp exchange() const {
    const Exchange what = column_ ? Exchange::all_gather : w_.reduces();
    return CommOp{CommGroup::tensor,
                  what,
                  real(z_.tokens) * real(adapters_.rank),
                  w_.element(),
                  "adapters, forward",
                  "adapter gradients, backward",
                  CommOverlap::none,
                  CommOverlap::none};
  }

  const LayerWriter& w_;
  const Sizes& z_;
  const Adapters& adapters_;
  Part part_;
  bool column_;
  std::int32_t half_;
  std::int64_t in_, out_ = 0;
};

bool adapted(const LinearOp& op, const Adapters& adapters) {
  switch (op.part) {
    case Part::attention_in:
    case Part::attention_out:
      return true;
    case Part::mlp_in:
    case Part::mlp_out:
      return adapters.on_mlp;
    case Part::other:
      return false;
  }
  return false;
}

/// Ahead of every product, forward and backward, its weights are made from 4 bits (bitsandbytes,
/// autograd/_functions.py, MatMul4Bit).
void dequantise(Layer& layer, double held, double element) {
  std::vector<LayerOp> ops;
  double largest = 0;
  for (LayerOp& op : layer.ops) {
    double weights = 0;
    if (const auto* linear = std::get_if<LinearOp>(&op)) {
      for (const MatMul& product : linear->products) weights += real(product.out) * real(product.in);
    }
    const auto stream = [&](const char* name, Direction direction) {
      ops.push_back(StreamingOp{name, Streaming::copy, weights, held + element, direction});
    };
    if (weights > 0) stream("dequantise weights", Direction::forward);
    ops.push_back(std::move(op));
    if (weights > 0) stream("dequantise weights backward", Direction::backward);
    largest = std::max(largest, weights);
  }
  layer.ops = std::move(ops);
  for (const std::int32_t half : {kAttention, kFeedForward})
    layer.working.push_back({"dequantised weights", largest, element, half});
}

void freeze(Layer& layer) {
  for (LayerOp& op : layer.ops) {
    if (auto* linear = std::get_if<LinearOp>(&op)) {
      for (MatMul& product : linear->products) product.frozen = true;
    }
  }
  for (Weights& weights : layer.weights) weights.frozen = true;
  std::erase_if(layer.kept, [](const Kept& kept) { return kept.for_weights; });
  std::erase_if(layer.working, [](const Working& working) { return working.for_weights; });
  layer.between.clear();
}

/// Nothing ahead of the first adapter has a gradient.
void end_backward_at(Layer& embedding) {
  std::erase_if(embedding.ops, [](const LayerOp& op) {
    const auto* stream = std::get_if<StreamingOp>(&op);
    const auto* comm = std::get_if<CommOp>(&op);
    return (stream != nullptr && stream->direction == Direction::backward) ||
           (comm != nullptr && comm->in == CommOp::In::backward);
  });
  for (LayerOp& op : embedding.ops) {
    if (auto* comm = std::get_if<CommOp>(&op)) comm->in = CommOp::In::forward;
  }
  embedding.kept.clear();
}

void add_adapters(Layer& layer, const LayerWriter& writer) {
  std::vector<LayerOp> ops;
  for (LayerOp& op : layer.ops) {
    ops.push_back(std::move(op));
    const auto* linear = std::get_if<LinearOp>(&ops.back());
    if (linear == nullptr || !adapted(*linear, writer.computation().adapters)) continue;
    const AdapterWriter adapter(writer, *linear);
    adapter.keep(layer);
    adapter.weigh(layer);
    for (LayerOp& more : adapter.ops()) ops.push_back(std::move(more));
  }
  layer.ops = std::move(ops);
}

}  // namespace

void adapt(Network& network, const LayerWriter& writer) {
  for (Layer& layer : network.kinds) {
    freeze(layer);
    const Computation& computation = writer.computation();
    if (layer.kind == LayerKind::block && computation.adapters.frozen == Adapters::Frozen::nf4)
      dequantise(layer, frozen_bytes(computation.adapters, computation.precision).blocks, writer.element());
    if (layer.kind == LayerKind::embedding) end_backward_at(layer);
    if (layer.kind == LayerKind::block) add_adapters(layer, writer);
  }
  network.tied_elements = 0;  // there is no gradient to add up
}

FrozenBytes frozen_bytes(const Adapters& adapters, const Precision& precision) {
  const double element = calibration::bytes_of(precision.activations);
  const double read =
      calibration::is_quantised(precision.matmul) ? calibration::operand_bytes(precision.matmul) : element;
  if (adapters.frozen == Adapters::Frozen::as_read) return {read, read};
  // Four bits, a scale of eight for 64 of them and one of fp32 for 256 scales (arXiv 2305.14314, section 3).
  return {0.5 + 1.0 / 64 + 4.0 / (64 * 256), element};
}

namespace {
/// Beside attention, and beside the MLP, of one layer.
struct OfLayer {
  double attention, mlp;
};
OfLayer parameters_beside(const Model& model, const Adapters& adapters, std::int64_t tensor) {
  const double t = real(tensor), r = real(adapters.rank), h = real(model.hidden), f = real(model.mlp.hidden);
  const double q = real(model.attention_width()), out = real(model.output_width());
  const double kv = real(std::max(model.kv_made(), tensor * (model.head_dim() + model.value_dim())));
  const double rows = std::max(1.0, static_cast<double>(adapters.rank / tensor));
  const double made =
      q + (model.attention.output_gate ? out : 0) + (model.attention.key_is_value ? real(model.kv_made()) : kv);
  const double attention = rows * h + r * made / t + r * (out / t + h);
  const double mlp = rows * h + r * (model.mlp.gated ? 2 : 1) * f / t + r * (f / t + h);
  return {attention, adapters.on_mlp ? mlp : 0};
}
}  // namespace

double adapter_parameters(const Model& model, const Adapters& adapters, std::int64_t tensor) {
  if (!model.pattern.any()) {
    const OfLayer each = parameters_beside(model, adapters, tensor);
    return real(model.layers) * (each.attention + each.mlp);
  }
  double sum = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const Model::Block& block = model.pattern.at(layer);
    const OfLayer each = parameters_beside(as_seen_by(model, block), adapters, tensor);
    const bool usual = block.attends && !block.attention.latent.any() && !block.attention.sparse.compressed();
    sum += (usual ? each.attention : 0) + (block.channel == Model::Block::Channel::mlp ? each.mlp : 0);
  }
  return sum;
}

}  // namespace orrery::workloads
