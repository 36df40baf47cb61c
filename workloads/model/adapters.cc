// Adapters beside the products of a frozen network. See adapters.h.
#include "workloads/model/adapters.h"

#include <algorithm>
#include <utility>

#include "sim/real.h"
#include "workloads/model/families/families.h"
#include "workloads/model/halves.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;
using Part = LinearOp::Part;

using sim::real;

bool column_parallel(Part part) {
  return part == Part::attention_in || part == Part::mlp_in || part == Part::shared_in || part == Part::expert_in ||
         part == Part::latent_up;
}
bool of_attention(Part part) {
  return part == Part::attention_in || part == Part::attention_out || part == Part::latent_down ||
         part == Part::latent_up || part == Part::latent_out;
}
bool of_experts(Part part) { return part == Part::expert_in || part == Part::expert_out; }

/// The adapter beside one linear layer. Its input and its output are those of the layer's products together.
class AdapterWriter {
 public:
  AdapterWriter(const LayerWriter& writer, const LinearOp& beside)
      : w_(writer),
        z_(writer.sizes()),
        adapters_(writer.computation().adapters),
        part_(beside.part),
        column_(column_parallel(beside.part)),
        half_(of_attention(beside.part) ? kAttention : kFeedForward),
        routed_(of_experts(beside.part)),
        cut_over_(routed_ || beside.part == Part::latent_down ? 1 : z_.tensor),
        tokens_(beside.products.front().tokens),
        in_(beside.products.front().in) {
    for (const MatMul& product : beside.products) out_ += product.out;
  }

  /// What follows the frozen products; forward and backward entries as in layer.h.
  std::vector<LayerOp> ops() const {
    std::vector<LayerOp> ops;
    const double e = w_.element(), in = real(tokens_) * real(in_), out = outputs();
    ops.push_back(stream("add input gradients", Streaming::accumulate, in, 3 * e, Direction::backward));
    if (adapters_.dropout) {
      ops.push_back(stream("adapter dropout backward", Streaming::dropout, in, 2 * e + 1, Direction::backward));
      ops.push_back(stream("adapter dropout", Streaming::dropout, in, 2 * e + 1, Direction::forward));
    }
    add_shared_gradients(ops);
    ops.push_back(linear("adapter down", rows_of_down(), in_, tokens_));
    if (cut_over_ > 1) ops.push_back(exchange());
    ops.push_back(linear("adapter up", out_, adapters_.rank, tokens_of_up()));
    ops.push_back(stream("scale adapter gradient", Streaming::accumulate, out, 2 * e, Direction::backward));
    ops.push_back(stream("scale adapter", Streaming::accumulate, out, 2 * e, Direction::forward));
    ops.push_back(stream("add adapter", Streaming::accumulate, out, 3 * e, Direction::forward));
    return ops;
  }

  /// Without dropout the input of the adapter beside the projection is what attention keeps of its output anyway, and
  /// latent attention keeps what its products read.
  void keep(Layer& layer) const {
    const double e = w_.element(), input = real(tokens_) * real(in_);
    const bool kept_already = of_attention(part_) && part_ != Part::attention_in && !adapters_.dropout;
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
    return column_ ? std::max<std::int64_t>(1, adapters_.rank / cut_over_) : adapters_.rank;
  }
  std::int64_t tokens_of_up() const {
    return !column_ && !routed_ && z_.sequence_parallel ? tokens_ / cut_over_ : tokens_;
  }
  double outputs() const { return real(tokens_of_up()) * real(out_); }

  StreamingOp stream(const char* name, Streaming kernel, double elements, double bytes, Direction direction) const {
    return {name, kernel, elements, bytes, direction, routed_};
  }
  /// Ranks that share experts out keep the same adapter: behind every backward pass they add its gradients up, weight
  /// by weight (NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/peft/utils.py, _allreduce_shared_expert_grad).
  void add_shared_gradients(std::vector<LayerOp>& ops) const {
    if (!routed_ || w_.split().expert == 1) return;
    for (const double elements : {real(out_), real(in_)}) {
      CommOp op{CommGroup::expert,
                Exchange::copy,
                elements * real(adapters_.rank),
                w_.element(),
                "",
                "expert adapter gradients, backward",
                CommOverlap::none,
                CommOverlap::none};
      op.in = CommOp::In::backward;
      ops.push_back(op);
    }
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
                  real(tokens_) * real(adapters_.rank),
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
  bool routed_;            // beside experts: one adapter for all of a rank, and so for all of its tokens
  std::int64_t cut_over_;  // ranks that share its insides out
  std::int64_t tokens_;
  std::int64_t in_, out_ = 0;
};

bool adapted(const LinearOp& op, const Adapters& adapters) {
  switch (op.part) {
    case Part::attention_in:
    case Part::attention_out:
    case Part::latent_down:
    case Part::latent_up:
    case Part::latent_out:
      return true;
    case Part::mlp_in:
    case Part::mlp_out:
    case Part::shared_in:
    case Part::shared_out:
    case Part::expert_in:
    case Part::expert_out:
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
/// Beside latent attention: whole ones beside what compresses, the rest cut as column- and row-parallel ones are.
double beside_latent(const Model& model, const Adapters& adapters, std::int64_t tensor) {
  const LatentAttention& latent = model.attention.latent;
  const double t = real(tensor), r = real(adapters.rank), h = real(model.hidden), heads = real(model.attention.heads);
  const double rows = std::max(1.0, static_cast<double>(adapters.rank / tensor));
  const double q = heads * real(latent.qk_dim()), kv = heads * real(latent.nope_dim + latent.v_dim),
               out = heads * real(latent.v_dim), width = real(latent.q_rank + latent.kv_rank + latent.rope_dim);
  const double read = latent.q_rank > 0 ? real(latent.q_rank) : h;
  return r * (h + width) + rows * (read + real(latent.kv_rank)) + r * (q + kv) / t + r * (out / t + h);
}

/// Beside attention, of one layer; where blocks differ, latent attention has none.
double beside_attention(const Model& model, const Adapters& adapters, std::int64_t tensor) {
  if (model.attention.latent.any() && !model.pattern.any()) return beside_latent(model, adapters, tensor);
  if (model.attention.latent.any() || model.attention.sparse.compressed()) return 0;
  const double t = real(tensor), r = real(adapters.rank), h = real(model.hidden);
  const double q = real(model.attention_width()), out = real(model.output_width());
  const double kv = real(std::max(model.kv_made(), tensor * (model.head_dim() + model.value_dim())));
  const double rows = std::max(1.0, static_cast<double>(adapters.rank / tensor));
  const double made =
      q + (model.attention.output_gate ? out : 0) + (model.attention.key_is_value ? real(model.kv_made()) : kv);
  return rows * h + r * made / t + r * (out / t + h);
}

/// Beside an MLP of so many elements inside, whose tensor group has `t` ranks.
double beside_mlp(const Adapters& adapters, double width, double inside, bool gated, std::int64_t tensor) {
  const double t = real(tensor), r = real(adapters.rank);
  const double rows = std::max(1.0, static_cast<double>(adapters.rank / tensor));
  return rows * width + r * (gated ? 2 : 1) * inside / t + r * (inside / t + width);
}
}  // namespace

double adapter_parameters(const Model& model, const Adapters& adapters, std::int64_t tensor) {
  using Channel = Model::Block::Channel;
  const Experts& experts = model.experts;
  double sum = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const bool pattern = model.pattern.any();
    const Model own = pattern ? as_seen_by(model, model.pattern.at(layer)) : model;
    const bool attends = !pattern || model.pattern.at(layer).attends;
    const Channel dense_or_not = experts.in_layer(layer) ? Channel::experts : Channel::mlp;
    const Channel channel = pattern ? model.pattern.at(layer).channel : dense_or_not;
    if (attends) sum += beside_attention(own, adapters, tensor);
    if (!adapters.on_mlp) continue;
    if (channel == Channel::mlp)
      sum += beside_mlp(adapters, real(model.hidden), real(own.mlp.hidden), own.mlp.gated, tensor);
    if (channel != Channel::experts) continue;
    sum += beside_mlp(adapters, real(experts.width(model.hidden)), real(experts.ffn_hidden), own.mlp.gated, 1);
    if (experts.shared > 0)
      sum += beside_mlp(adapters, real(model.hidden), real(experts.shared_width()), own.mlp.gated, tensor);
  }
  return sum;
}

}  // namespace orrery::workloads
