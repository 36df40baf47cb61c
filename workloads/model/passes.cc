// A layer's operations as kernels, forward and backward. See passes.h.
#include "workloads/model/passes.h"

#include <algorithm>
#include <cmath>

#include "workloads/model/piece_writer.h"

namespace orrery::workloads {

namespace {

bool scatters(calibration::CollectiveOp op) { return op == calibration::CollectiveOp::reduce_scatter; }

struct OpRange {
  std::size_t begin = 0, end = 0;
};

/// Of a layer without experts its attention or its mixer with a state, up to an MLP.
OpRange mixer_of(const Layer& layer) {
  const auto mixes = [](const LayerOp& op) {
    return std::holds_alternative<AttentionOp>(op) || std::holds_alternative<MixerOp>(op);
  };
  const auto enters_mlp = [](const LayerOp& op) {
    const auto* linear = std::get_if<LinearOp>(&op);
    return linear != nullptr && linear->part == LinearOp::Part::mlp_in;
  };
  const auto& ops = layer.ops;
  if (std::none_of(ops.begin(), ops.end(), mixes)) return {};
  return {0, static_cast<std::size_t>(std::find_if(ops.begin(), ops.end(), enters_mlp) - ops.begin())};
}

/// What graphs replay of a layer of experts: up to where the host waits for counts, or there are none, to where it
/// works for experts. The router's product stands ahead of the first work of the host.
OpRange replayed_of(const Layer& layer, calibration::Graphs graphs) {
  if (graphs == calibration::Graphs::none) return {};
  const auto is_router = [](const LayerOp& op) {
    const auto* host = std::get_if<HostOp>(&op);
    return host != nullptr && host->experts == 0;
  };
  const auto ends = [](const LayerOp& op) {
    const auto* host = std::get_if<HostOp>(&op);
    const auto* run = std::get_if<RunEnd>(&op);
    return (host != nullptr && host->experts > 0) || (run != nullptr && run->host_waits);
  };
  const auto router = std::find_if(layer.ops.begin(), layer.ops.end(), is_router);
  if (router == layer.ops.end()) return graphs == calibration::Graphs::mixers ? mixer_of(layer) : OpRange{};
  const auto end = static_cast<std::size_t>(std::find_if(router, layer.ops.end(), ends) - layer.ops.begin());
  if (graphs != calibration::Graphs::router) return {0, end};
  return {static_cast<std::size_t>(router - layer.ops.begin()) - 1, end};
}

class LayerCompiler {
 public:
  LayerCompiler(const KernelTimes& times, Pieces& out, Pieces* weights)
      : weights_(weights), cuts_at_weights_(times.cuts_at_weights), graphs_(times.graphs), writer_(times, out) {}

  /// `ops`: only the first so many.
  void forward(const Layer& layer, std::optional<std::size_t> ops = {}) {
    begin(layer);
    for (std::size_t i = 0; i < ops.value_or(layer.ops.size()); ++i) forward_at(layer.ops[i]);
  }

  void backward(const Layer& layer) {
    begin(layer);
    writer_.backward = true;
    if (layer.recomputed || layer.recomputed_by_operation) {
      writer_.recomputing = true;
      spares_ = !layer.recomputed;
      forward(layer, layer.needed_again);
      spares_ = false;
      writer_.recomputing = false;
    }
    for (auto op = layer.ops.rbegin(); op != layer.ops.rend(); ++op) {
      const auto* again = std::get_if<Recomputed>(&*op);
      if (again != nullptr && !again->begins && !layer.recomputed) run_again(op.base());
      writer_.replayed = is_replayed(*op);
      std::visit([&](const auto& o) { backward(o); }, *op);
    }
  }

 private:
  void begin(const Layer& layer) {
    layer_ = &layer;
    replayed_ = replayed_of(layer, graphs_);
  }
  bool is_replayed(const LayerOp& op) const {
    const auto place = static_cast<std::size_t>(&op - layer_->ops.data());
    return place >= replayed_.begin && place < replayed_.end;
  }
  void forward_at(const LayerOp& op) {
    writer_.replayed = is_replayed(op);
    std::visit([&](const auto& o) { forward(o); }, op);
  }

  /// Operations ahead of `end`, from the last that begins what is recomputed.
  void run_again(std::vector<LayerOp>::const_iterator end) {
    const auto begins = [](const LayerOp& op) {
      const auto* again = std::get_if<Recomputed>(&op);
      return again != nullptr && again->begins;
    };
    auto begin = end;
    while (!begins(*--begin)) {
    }
    writer_.recomputing = true;
    for (auto op = begin; op != end; ++op) forward_at(*op);
    writer_.recomputing = false;
  }

  // ---- kernels bound by memory ----
  void forward(const StreamingOp& op) {
    if (op.direction == Direction::forward) writer_.stream(op);
  }
  void backward(const StreamingOp& op) {
    if (op.direction == Direction::backward) writer_.stream(op);
  }

  // ---- attention: attention_passes.cc ----
  void forward(const AttentionOp& op) {
    if (!spares_) attention_forward(op, writer_);
  }
  void backward(const AttentionOp& op) { attention_backward(op, writer_); }

  // ---- mixers ----
  void run(const std::vector<MixerOp::Kernel>& kernels) {
    for (const auto& [name, kind, work, type, scan] : kernels) {
      Kernel kernel{name, writer_.device().mixer(kind, work, type, scan), false, work.flops, work.bytes, type};
      kernel.launches = work.launches;
      writer_.add(std::move(kernel));
    }
  }
  void forward(const MixerOp& op) {
    if (!spares_) run(op.forward);
  }
  void backward(const MixerOp& op) { run(op.backward); }

  // ---- exchanges ----
  void forward(const CommOp& op) {
    const auto collective = collective_of(op.exchange);
    const bool spared = spares_ && op.exchange != Exchange::all_gather;
    if (collective && op.in != CommOp::In::backward && !spared)
      in_order(*collective, op.overlap, op.elements, op.ordering,
               [&] { writer_.comm(op.group, *collective, op.elements * op.bytes_each, op.what, op.overlap); });
  }
  void backward(const CommOp& op) {
    const double each = op.bytes_each_backward > 0 ? op.bytes_each_backward : op.bytes_each;
    const auto collective = collective_of(adjoint(op.exchange));
    if (collective && op.in != CommOp::In::forward)
      in_order(*collective, op.overlap_backward, op.elements, op.ordering_backward,
               [&] { writer_.comm(op.group, *collective, op.elements * each, op.what_backward, op.overlap_backward); });
  }
  /// What is scattered is put in order ahead of its exchange; what is gathered, and parts of a sum that come while a
  /// product is still at work, behind it. `moved`: bytes that this moves for each of the elements; 0: nothing does.
  template <class Exchange>
  void in_order(calibration::CollectiveOp op, CommOverlap overlap, double elements, double moved,
                const Exchange& exchange) {
    const bool sums = overlap == CommOverlap::with_previous, ahead = scatters(op) && !sums;
    const auto kernel = sums ? calibration::Streaming::copy : calibration::Streaming::rank_order;
    if (moved > 0 && ahead) writer_.stream({"put in order to scatter", kernel, elements, moved});
    exchange();
    if (moved > 0 && !ahead) writer_.stream({"put in order along the sequence", kernel, elements, moved});
  }

  void forward(const RunEnd& op) { writer_.end_run(op.host_waits); }
  void backward(const RunEnd&) { writer_.end_run(false); }
  // Without experts it is what a layer of them takes, else what each of these does.
  void forward(const HostOp& op) { writer_.host_works(op); }
  void backward(const HostOp& op) { writer_.host_works(op); }
  void forward(const Recomputed&) {}
  void backward(const Recomputed&) {}

  // ---- linear layers ----
  void product(const MatMul& p, std::string name, std::int64_t m, std::int64_t n, std::int64_t k,
               calibration::Gemm::Form form, std::optional<DataType> sum = {}) {
    calibration::Gemm shape;
    shape.dtype = p.type;
    shape.m = m;
    shape.n = n;
    shape.k = k;
    shape.form = form;
    shape.accumulate = sum.has_value();
    shape.sum = sum.value_or(DataType::fp32);
    writer_.product(std::move(name), shape, p);
  }

  /// The weights of one of the layer's linear layers.
  WeightsUsed weights_of(const LinearOp& op) const {
    WeightsUsed used;
    for (const LayerOp& other : layer_->ops) {
      const auto* linear = std::get_if<LinearOp>(&other);
      used.linear += linear != nullptr;
      if (linear == &op) break;
    }
    used.matrices = static_cast<std::int32_t>(op.products.size());
    for (const MatMul& p : op.products) used.elements += static_cast<double>(p.out * p.in * p.copies);
    return used;
  }
  void begin_linear(const LinearOp& op) {
    if (cuts_at_weights_) writer_.use(weights_of(op));
  }
  void end_linear() {
    if (cuts_at_weights_) writer_.use({});
  }

  void forward(const LinearOp& op) {
    begin_linear(op);
    forward_products(op);
    end_linear();
  }
  void backward(const LinearOp& op) {
    begin_linear(op);
    backward_products(op);
    end_linear();
  }

  void forward_products(const LinearOp& op) {
    const bool idle =
        spares_ && std::all_of(op.products.begin(), op.products.end(), [](const MatMul& p) { return p.again == 0; });
    if (op.input && !idle) {
      if (const auto collective = collective_of(op.input->exchange)) gather(*op.input, *collective);
    }
    for (const MatMul& p : op.products) {
      const std::int64_t out = spares_ ? p.again : p.out;
      if (out == 0) continue;
      product(p, p.name, out, p.tokens, p.in, calibration::Gemm::Form::forward);
      for (const StreamingOp& after : p.after) writer_.stream(after);
    }
  }

  void gather(const InputExchange& in, calibration::CollectiveOp op) {
    in_order(op, in.overlap, in.elements, in.ordering, [&] { exchange(in, op, in.what, in.overlap); });
  }
  void exchange(const InputExchange& input, calibration::CollectiveOp op, const char* what, CommOverlap overlap) {
    const bool cast = op == calibration::CollectiveOp::all_gather && input.gathered_each > 0;
    writer_.comm(input.group, op, input.elements * (cast ? input.gathered_each : input.bytes_each), what, overlap);
  }

  /// Gradients of the input, then their reduction beside the weight gradients, unless these have a pass of their own.
  /// Where the input came as shards and only a shard was kept, it is gathered once more, beside the input gradient, for
  /// the gradients of weights that are trained.
  void backward_products(const LinearOp& op) {
    const std::optional<InputExchange>& input = op.input;
    const bool trains = std::any_of(op.products.begin(), op.products.end(), [](const MatMul& p) { return !p.frozen; });
    if (input && input->exchange == Exchange::all_gather && trains && !input->stays)
      exchange(*input, calibration::CollectiveOp::all_gather, input->saved,
               input->async ? CommOverlap::behind : CommOverlap::none);
    for (auto p = op.products.rbegin(); p != op.products.rend() && !op.detached; ++p)
      product(*p, std::string(p->name) + " data gradient", p->in, p->tokens, p->out,
              calibration::Gemm::Form::data_gradient);
    const auto reduction = input ? collective_of(adjoint(input->exchange)) : std::nullopt;
    if (reduction && op.reduces_apart)
      for (std::size_t i = 1; i < op.products.size(); ++i)
        exchange(*input, *reduction, input->what_backward, CommOverlap::none);
    for (const StreamingOp& sum : op.sums) writer_.stream(sum);
    if (reduction) {
      const CommOverlap overlap = input->async && weights_ == nullptr ? CommOverlap::behind : CommOverlap::none;
      in_order(*reduction, overlap, input->elements, input->ordering_backward,
               [&] { exchange(*input, *reduction, input->what_backward, overlap); });
    }
    writer_.into(weights_, [&] {
      for (auto p = op.products.rbegin(); p != op.products.rend(); ++p) weight_gradient(*p);
    });
    if (input) writer_.cut();
  }

  void weight_gradient(const MatMul& p) {
    if (p.frozen) return;
    product(p, std::string(p.name) + " weight gradient", p.out, p.in, p.tokens,
            calibration::Gemm::Form::weight_gradient, p.sum);
    for (const StreamingOp& after : p.after_gradient) writer_.stream(after);
  }

  Pieces* weights_;       // where weight gradients go; nullptr: among the rest
  bool cuts_at_weights_;  // every linear layer has pieces of its own
  calibration::Graphs graphs_;
  const Layer* layer_ = nullptr;  // at hand
  OpRange replayed_;              // of its operations
  bool spares_ = false;           // what runs again leaves out attention, reductions and whole products
  PieceWriter writer_;
};

}  // namespace

LayerPasses passes_of(const Layer& layer, const KernelTimes& times, bool splits_backward) {
  LayerPasses passes;
  LayerCompiler(times, passes.forward, nullptr).forward(layer);
  LayerCompiler(times, passes.backward, nullptr).backward(layer);
  if (splits_backward) LayerCompiler(times, passes.input_gradient, &passes.weight_gradient).backward(layer);
  return passes;
}

}  // namespace orrery::workloads
