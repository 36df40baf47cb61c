// Operations that layers have in common. See layer_writer.h.
#include "workloads/model/layer_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/real.h"
#include "workloads/model/adapters.h"
#include "workloads/model/residual_streams.h"

namespace orrery::workloads {

namespace {
using calibration::Streaming;
using sim::real;
}  // namespace

Sizes::Sizes(const Model& model, const Split& split, const calibration::LayerStyle& style)
    : tensor_in(split.tensor_in),
      tensor(split.tensor / split.tensor_in),
      width(model.hidden / split.tensor_in),
      tokens(split.micro_batch * (model.seq / split.context)),
      heads(model.attention.heads / tensor),
      kv_heads(std::max<std::int64_t>(1, model.attention.kv_heads / tensor)),
      q(model.attention_width() / tensor),
      kv(kv_heads * model.head_dim()),
      ffn(model.mlp.hidden / tensor),
      vocab(padded_vocab(model.vocab, split.tensor, style.head.pads_vocabulary) / tensor),
      kv_made(model.attention.shares_keys ? 0 : std::min(kv, model.kv_width() / tensor)),
      out(model.output_width() / tensor),
      values(kv_heads * model.value_dim()),
      values_made(model.attention.key_is_value || model.attention.shares_keys
                      ? 0
                      : std::min(values, model.values_width() / tensor)),
      gate(model.attention.output_gate ? out : 0),
      sequence_parallel(split.sequence_parallel && tensor > 1),
      hidden(real(tokens) * real(width)),
      outside(real(tokens) / real(sequence_parallel ? tensor : 1) * real(width)) {}

double Sizes::of_token(std::int64_t elements) const { return real(tokens) * real(elements); }
double Sizes::shared(std::int64_t whole_width) const { return real(tokens) * real(whole_width) / real(tensor); }

LayerWriter::LayerWriter(const Model& model, const Split& split, const Computation& computation)
    : model_(model),
      split_(split),
      computation_(computation),
      sizes_(model, split, computation.style),
      element_(calibration::bytes_of(computation.precision.activations)),
      operand_(calibration::operand_bytes(computation.precision.matmul)) {}

std::vector<LayerOp> LayerWriter::take() { return std::exchange(ops_, {}); }

// ---- kernels bound by memory ----

void LayerWriter::forward(const char* name, Streaming kernel, double elements, double bytes_each) {
  add(StreamingOp{name, kernel, elements, bytes_each, Direction::forward, routed_});
}
void LayerWriter::backward(const char* name, Streaming kernel, double elements, double bytes_each) {
  add(StreamingOp{name, kernel, elements, bytes_each, Direction::backward, routed_});
}

/// A norm finds the largest magnitude of what it makes (Transformer Engine 2.9, csrc/extensions/normalization.cpp,
/// FUSED_NORM_AMAX_FP8), and an activation of its own, which Megatron-Core's MLP does not run
/// (megatron/core/fusions/fused_bias_swiglu.py).
void LayerWriter::cast(double elements, const char* name, Direction direction, Maker maker) {
  if (casts_in(maker)) return;
  const bool found = maker == Maker::norm && style().casts == calibration::Casts::scaled_by_makers;
  if (found && computation_.precision.matmul == DataType::fp8)
    return add(
        StreamingOp{name, Streaming::cast_transpose, elements, element_ + operand_ + columns(), direction, routed_});
  cast_apart(elements, name, direction);
}

void LayerWriter::cast_apart(double elements, const char* name, Direction direction) {
  if (!quantised()) return;
  if (scales_rows()) return cast_by_rows(elements, name, direction);
  if (casts_compiled()) return cast_compiled(elements, name, name, direction);
  const double read = scales_twice() ? 2 * element_ : element_;
  const bool rotated =
      computation_.precision.matmul == DataType::nvfp4 && style().rotated_columns == calibration::RotatedColumns::apart;
  const auto stream = [&](double bytes) {
    add(StreamingOp{name, Streaming::cast_transpose, elements, bytes, direction, routed_});
  };
  if (!rotated) return stream(read + operand_ + columns());
  stream(read + operand_);
  stream(element_ + operand_);
}

/// After a pass that looks for the largest magnitude. Compiled, a kernel that writes a tensor and its transpose reads
/// it twice (pytorch/pytorch#133242); but of what a forward pass casts it writes rows alone: columns are read by the
/// products of the backward pass, which casts them from what it kept or made again (pytorch/ao of December 2024,
/// torchao/float8/float8_ops.py, preprocess_addmm; a compiler makes nothing in a pass that nobody reads there).
void LayerWriter::cast_compiled(double elements, const char* name, const char* by_columns, Direction direction) {
  const auto stream = [&](const char* what, double bytes, Direction at) {
    add(StreamingOp{what, Streaming::cast_transpose, elements, bytes, at, routed_});
  };
  stream(by_columns, element_ + operand_, Direction::backward);
  stream(name, 2 * element_ + operand_, direction);
}

/// The weights of these products, anew in each pass (torchao/float8/float8_linear.py). Left out: by operation, that of
/// products which do not run again only the largest magnitude is looked for again.
void LayerWriter::cast_weights(const std::vector<MatMul>& products) {
  if (!casts_compiled()) return;
  double weights = 0;
  for (const MatMul& p : products)
    weights += calibration::is_quantised(p.type) && !p.frozen ? real(p.out) * real(p.in) : 0;
  if (weights == 0) return;
  if (computation_.precision.parameters == DataType::fp8)  // gathered so
    return backward(kColumnsOfWeights, Streaming::cast_transpose, weights, 2 * operand_);
  cast_compiled(weights, kRowsOfWeights, kColumnsOfWeights, Direction::forward);
}

/// A scale of each row of both operands: for the gradients of weights, where tokens are summed over, inputs and output
/// gradients are cast once more, with a scale of each column, which is looked for in a pass of its own (pytorch/ao,
/// torchao/float8/float8_linear.py, matmul_with_hp_or_float8_args), and written column by column, as the product reads
/// them (float8_ops.py, preprocess_addmm).
void LayerWriter::cast_by_rows(double elements, const char* name, Direction direction) {
  const auto stream = [&](double bytes, Direction at) {
    add(StreamingOp{name, Streaming::cast_transpose, elements, bytes, at, routed_});
  };
  stream((element_ + operand_) * style().linear.column_cast_traffic, Direction::backward);  // columns
  stream(element_, Direction::backward);                                                    // their largest magnitudes
  stream(element_ + operand_, direction);
}

/// Of a product that the tensor group gathers. Scales of rows are looked for when it is whole, and it travels in 16 bit
/// (pytorch/torchtitan of June 2025, torchtitan/models/llama3/parallelize_llama.py).
void LayerWriter::cast_input() {
  constexpr const char* kColumns = "transpose gathered input";
  if (gathers_quantised() && casts_in(Maker::norm)) return copy_by_columns(kColumns);
  if (gathers_quantised()) {
    find_scales(Direction::forward, false);
    return cast_ahead("cast input", kColumns, Direction::forward, Maker::norm);
  }
  cast(scales_rows() ? sizes_.hidden : sizes_.outside, "cast input", Direction::forward, Maker::norm);
}

/// Of a tensor that the tensor group gathered.
void LayerWriter::copy_by_columns(const char* name) {
  if (columns() > 0) backward(name, Streaming::cast_transpose, sizes_.hidden, 2 * columns());
}

/// Each rank casts its shard as the products that read it by rows want it. Those that make gradients of weights read it
/// by columns: what was gathered is copied once more, whole (pytorch/ao of December 2024 and June 2025,
/// torchao/float8/float8_ops.py, preprocess_addmm).
void LayerWriter::cast_ahead(const char* name, const char* by_columns, Direction direction, Maker maker) {
  copy_by_columns(by_columns);
  const bool found = maker == Maker::norm && style().casts == calibration::Casts::scaled_by_makers;
  const double looked_at = scales_twice() && !found ? element_ : 0;
  add(StreamingOp{name, Streaming::cast_transpose, sizes_.outside, looked_at + element_ + operand_, direction,
                  routed_});
}

/// torchao/float8/float8_utils.py, tensor_to_amax: the largest magnitude of a DTensor that is sharded is one of each
/// shard, until an operation needs its value (pytorch/ao of December 2024 and June 2025). Left out: those of weights,
/// and mixtures.
void LayerWriter::find_scales(Direction direction, bool rows, std::size_t tensors) {
  const bool dense = sizes_.tensor_in == 1 && !model_.experts.any();
  const bool shared = dense && sizes_.tensor > 1 && style().linear.gathers_quantised;
  if (!shared || !(scales_rows() ? rows : casts_compiled())) return;
  const bool back = direction == Direction::backward;
  CommOp find{CommGroup::tensor,
              back ? Exchange::copy : Exchange::all_reduce,
              scales_rows() ? real(sizes_.tokens) : 1,
              4,
              "scales, forward",
              "scales, backward",
              CommOverlap::none,
              CommOverlap::none};
  find.in = back ? CommOp::In::backward : CommOp::In::forward;
  for (std::size_t i = 0; i < tensors; ++i) add(find);
}

void LayerWriter::views(double share, Direction direction) {
  const auto n = static_cast<int>(std::lround(style().extra_kernels_per_layer * share));
  for (int i = 0; i < n; ++i) add(StreamingOp{"view", Streaming::copy, 1, 2 * element_, direction});
}

void LayerWriter::norm(const char* name, const char* name_backward, bool residual, std::size_t readers,
                       NormReader reader) {
  // The gradient of its output is one of those that are added up.
  const double others = norm_adds_gradients() ? static_cast<double>(readers) - 1 : 0;
  run_norm(style().recipes.of(calibration::RecipePart::norm), name, name_backward, residual, others, reader);
}

void LayerWriter::half_norm(std::size_t readers, NormReader reader) {
  const bool one = model_.residual_streams == 1;  // else gradients of streams meet ahead of it
  if (!one) read_streams(*this);
  norm("layer norm", "layer norm backward", one, readers, reader);
}

void LayerWriter::final_norm() {
  const calibration::Recipe& recipe = style().recipes.of(calibration::RecipePart::norm);
  if (!final_norm_in_steps() || recipe.outside == nullptr) return norm("final layer norm", "final layer norm backward");
  run_norm(*recipe.outside, "final layer norm", "final layer norm backward", false, 0, NormReader::others);
}

void LayerWriter::run_norm(const calibration::Recipe& recipe, const char* name, const char* name_backward,
                           bool residual, double others, NormReader reader) {
  const double cast = reader == NormReader::products ? fused_cast(Maker::norm) : 0;
  const calibration::RecipeSizes sizes(calibration::RecipePart::norm, {{"x", sizes_.outside},
                                                                       {"e", element_},
                                                                       {"cast", cast},
                                                                       {"residual", residual},
                                                                       {"added", others + (residual ? 1 : 0)},
                                                                       {"rms", model_.norm == Norm::rms_norm}});
  const std::initializer_list<Renamed> names{{"norm", name}, {"norm backward", name_backward}};
  run_lines(recipe, sizes, Direction::backward, names);
  const bool again = computation_.again(&RecomputedParts::norms);
  if (again) add(Recomputed{true});
  run_lines(recipe, sizes, Direction::forward, names);
  if (again) add(Recomputed{false});
}

void LayerWriter::dropout(double elements, const char* name, Direction direction) {
  if (style().dropout) add(StreamingOp{name, Streaming::dropout, elements, 2 * element_ + 1, direction});
}

void LayerWriter::bias_dropout_residual(double products) {
  const double outside = sizes_.outside;
  if (gathers_quantised() && !casts_in(Maker::other)) {
    cast_ahead("cast gradient", "transpose gathered gradient", Direction::backward, Maker::other);
    find_scales(Direction::backward, false);
  } else if (products > 0) {
    cast_gradient((scales_rows() ? sizes_.hidden : outside) * products);
  }
  if (model_.post_norm) norm("post layer norm", "post layer norm backward", false);
  if (model_.residual_streams > 1) return write_streams(*this);
  run({calibration::RecipePart::residual,
       {{"x", outside},
        {"e", element_},
        {"mask", style().dropout ? 1 : 0},
        {"bias", has_biases()},
        {"bias_in_gemm", style().linear.bias_in_gemm}}});
}

// ---- recipes ----

void LayerWriter::run(const calibration::RecipeSizes& sizes, std::initializer_list<Renamed> renamed) {
  const calibration::Recipe& recipe = style().recipes.of(sizes.part());
  run_lines(recipe, sizes, Direction::backward, renamed);
  run_lines(recipe, sizes, Direction::forward, renamed);
}

/// Entries that run in the backward pass stand from its last (layer.h).
void LayerWriter::run_lines(const calibration::Recipe& recipe, const calibration::RecipeSizes& sizes,
                            Direction direction, std::initializer_list<Renamed> renamed) {
  const auto put = [&](const calibration::Line& line) {
    if (!line.holds(sizes)) return;
    const char* name = line.name.c_str();
    for (const auto& [written, own] : renamed) {
      if (line.name == written) name = own;
    }
    const double elements = line.elements.at(sizes), bytes_each = line.bytes_each.at(sizes);
    if (const auto* kernel = std::get_if<Streaming>(&line.runs))
      return add(StreamingOp{name, *kernel, elements, bytes_each, direction, routed_, &recipe, line.launches(sizes)});
    add(CommOp{out_group(), exchange_of(std::get<calibration::CollectiveOp>(line.runs)), elements, bytes_each, name, "",
               CommOverlap::none, CommOverlap::none});
  };
  if (direction == Direction::forward) {
    for (const calibration::Line& line : recipe.forward) put(line);
  } else {
    for (auto line = recipe.backward.rbegin(); line != recipe.backward.rend(); ++line) put(*line);
  }
}

void LayerWriter::keep(const calibration::RecipeSizes& sizes, std::int32_t half, Layer& layer) const {
  const calibration::Recipe& recipe = style().recipes.of(sizes.part());
  for (const calibration::KeptLine& line : recipe.keeps) {
    if (line.holds(sizes))
      layer.kept.push_back({line.name.c_str(), line.elements.at(sizes), line.bytes_each.at(sizes), half});
  }
  for (const calibration::KeptLine& line : recipe.works) {
    if (line.holds(sizes))
      layer.working.push_back({line.name.c_str(), line.elements.at(sizes), line.bytes_each.at(sizes), half});
  }
  for (const calibration::KeptLine& line : recipe.gaps) {
    if (line.holds(sizes)) layer.gap += line.elements.at(sizes) * line.bytes_each.at(sizes);
  }
}

/// pytorch/pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_all_gather_copy_out splits what
/// was gathered into the weights (read and written, as it was gathered), chunk_cat puts gradients into the input of
/// their reduction and casts them to its type. `again`: the layer's forward pass runs again from its begin.
void LayerWriter::copied_unit(Layer& layer, bool again) const {
  if (!style().linear.copies_units()) return;
  const double weights = trained_parameters(layer);
  double out = 2.0 * calibration::bytes_of(computation_.precision.parameters);
  // Beside adapters, whose own are few and left out, these weights are frozen: they come as they are held, and nothing
  // of them goes.
  const bool frozen = computation_.adapters.any();
  if (frozen) {
    const FrozenBytes held = frozen_bytes(computation_.adapters, computation_.precision);
    out = 2 * (layer.kind == LayerKind::block ? held.blocks : held.ends);
  }
  const double reduced = element_ + calibration::bytes_of(computation_.precision.gradients);
  const auto copy = [&](Direction direction) {
    return StreamingOp{"weights out of their gather", Streaming::copy, weights, out, direction};
  };
  std::vector<LayerOp> ops{copy(Direction::forward)};
  if (!frozen)
    ops.insert(ops.begin(), StreamingOp{"gradients into their reduction", Streaming::strided, weights, reduced,
                                        Direction::backward});
  if (layer.needed_again) *layer.needed_again += ops.size();
  layer.ops.insert(layer.ops.begin(), ops.begin(), ops.end());
  if (layer.kind == LayerKind::block && !again) layer.ops.push_back(copy(Direction::backward));
}

// ---- exchanges of the tensor group ----

std::optional<InputExchange> LayerWriter::enter(const char* what, const char* saved, const char* what_backward) const {
  if (sizes_.tensor == 1) return {};
  return InputExchange{gathers(),
                       sizes_.hidden,
                       element_,
                       with(CommOverlap::with_next),
                       style().linear.async_tensor_backward || computation_.overlaps_tensor,
                       what,
                       saved,
                       what_backward,
                       out_group(),
                       style().linear.keeps_gathered_inputs};
}
std::optional<InputExchange> LayerWriter::enter() const {
  auto input = enter("activations, forward", "saved inputs, backward", "activation gradients, backward");
  if (!input || !sizes_.sequence_parallel) return input;
  input->gathered_each = gathered();
  if (!gathers_beside_products()) {
    input->overlap = CommOverlap::none;
    input->ordering = ordering(gathered());
  }
  return input;
}
/// Its products are not those of a block, which alone are compiled and cast.
std::optional<InputExchange> LayerWriter::enter_head() const {
  auto input = enter("head input, forward", "head saved input, backward", "head input gradient, backward");
  if (!input) return input;
  if (fuses_exchanges()) {
    input->overlap = CommOverlap::none;
    input->async = style().linear.async_tensor_backward;
  }
  if (!computation_.overlaps_tensor || fuses_exchanges())
    input->ordering = input->ordering_backward = ordering(element_);
  return input;
}
/// Forward, parts of a sum come from all ranks beside the product that makes them and are added up behind it
/// (pytorch/pytorch, torch/distributed/_symmetric_memory/__init__.py, stacked_partials): read from each, written once.
void LayerWriter::leave(double share) {
  if (sizes_.tensor == 1) return;
  CommOp sum{out_group(),
             reduces(),
             sizes_.hidden * share,
             element_,
             "activations, forward",
             "activation gradients, backward",
             with(CommOverlap::with_previous),
             with(CommOverlap::with_next)};
  if (sizes_.sequence_parallel) {
    sum.bytes_each_backward = gathered();
    if (fuses_exchanges())
      sum.ordering = element_ * (1 + 1 / sizes_.parts());
    else if (!computation_.overlaps_tensor)
      sum.ordering = ordering(element_);
    if (!gathers_beside_products()) {
      sum.overlap_backward = CommOverlap::none;
      sum.ordering_backward = ordering(gathered());
    }
  }
  add(sum);
  // Of those of _pipelined_produce_and_all2all, two streams hide each other's but for the first, those around the first
  // part and the last.
  if (sizes_.sequence_parallel && fuses_exchanges()) barriers(4, Direction::forward);
  if (sizes_.sequence_parallel && fuses_exchanges() && gathers_beside_products()) offer_own_part(Direction::backward);
}

/// pytorch/pytorch, torch/distributed/_symmetric_memory/__init__.py, _pipelined_multi_all_gather_and_consume: a rank
/// copies its shard to where the others read it before any product begins; barriers stand ahead of that, behind it and
/// behind the last product. Left out: its second copy, which products hide.
void LayerWriter::offer_own_part(Direction direction) {
  add(StreamingOp{"own part to where others read it", Streaming::copy, sizes_.outside, 2 * gathered(), direction});
  barriers(3, direction);
}

/// Each is a kernel, and takes at least what the smallest takes.
void LayerWriter::barriers(int count, Direction direction) {
  for (int i = 0; i < count; ++i) add(StreamingOp{"barrier", Streaming::copy, 1, 2 * element_, direction});
}

double LayerWriter::ordering(double bytes) const {
  return style().linear.sequence_behind_batch && sizes_.sequence_parallel ? 2 * bytes : 0;
}
double LayerWriter::gathered() const {
  const bool cast = computation_.precision.matmul == DataType::fp8 && style().linear.gathers_quantised;
  return cast ? operand_ : element_;
}
bool LayerWriter::gathers_quantised() const { return sizes_.sequence_parallel && gathered() < element_; }
bool LayerWriter::gathers_beside_products() const {
  return computation_.overlaps_tensor && !(fuses_exchanges() && scales_rows());
}

// ---- linear layers ----

MatMul LayerWriter::product(const char* name, std::int64_t out, std::int64_t in) const {
  MatMul p{name, out, in, sizes_.tokens, computation_.precision.matmul};
  if (computation_.fuses_wgrad_accumulation()) {
    p.sum = computation_.precision.gradients;
    return p;
  }
  const int gradient = calibration::bytes_of(computation_.precision.gradients);
  const double weights = real(out) * real(in);
  if (computation_.keeps_training_gradients && gradient > element_) {
    // Autograd writes a 16-bit gradient anew in every pass; it goes to fp32 as a tensor of its own before it is added
    // (DeepSpeed's bf16_optimizer.py at 56c522386, clear_lp_grads and update_hp_grads).
    p.after_gradient.push_back({"cast training gradient", Streaming::copy, weights, element_ + gradient});
    p.after_gradient.push_back({"add weight gradient", Streaming::accumulate, weights, 3.0 * gradient});
    return p;
  }
  // A unit's gradients go into the buffer of its reduction all at once (copied_unit).
  if (!style().linear.copies_units())
    p.after_gradient.push_back({"add weight gradient", Streaming::accumulate, weights, element_ + 2 * gradient});
  return p;
}

void LayerWriter::column(std::vector<MatMul> products, std::optional<InputExchange> input, LinearOp::Part part,
                         bool apart) {
  LinearOp op;
  if (!norm_adds_gradients())
    op.sums.assign(products.size() - 1, {"add input gradients", Streaming::accumulate, sizes_.hidden, 3 * element_});
  op.products = std::move(products);
  // A sum of gradients is no product that an exchange could be fused with; its last addition puts it in order.
  const bool sums = op.products.size() > 1;
  if (input && sums && fuses_exchanges()) input->async = style().linear.async_tensor_backward;
  if (!op.sums.empty() && input && ordering(element_) > 0) op.sums.back().kernel = Streaming::ordered_sum;
  if (input && !sums && !computation_.overlaps_tensor) input->ordering_backward = ordering(element_);
  op.input = input;
  op.reduces_apart = apart && !sizes_.sequence_parallel;
  op.part = part;
  if (input && fuses_exchanges() && input->overlap != CommOverlap::none) offer_own_part(Direction::forward);
  double out = 0;
  for (const MatMul& p : op.products) out += sizes_.of_token(p.out);
  cast_weights(op.products);
  add(std::move(op));
  if (sizes_.tensor_in == 1) return;
  const char* what = part == LinearOp::Part::attention_in ? "queries, keys and values, forward"
                     : part == LinearOp::Part::mlp_in     ? "up projection, forward"
                                                          : "logits, forward";
  CommOp sum{CommGroup::tensor_in, Exchange::all_reduce, out, element_, what, "", CommOverlap::none, CommOverlap::none};
  sum.in = CommOp::In::forward;
  add(sum);
}

void LayerWriter::row(const char* name, std::int64_t in, LinearOp::Part part, std::int64_t tokens) {
  LinearOp op;
  op.part = part;
  op.products = {product(name, sizes_.width, in)};
  if (tokens > 0) op.products.front().tokens = tokens;
  if (sizes_.tensor_in > 1) {
    const char* what = part == LinearOp::Part::attention_out ? "attention output gradients, backward"
                                                             : "activation gradients of the MLP, backward";
    op.input = InputExchange{
        Exchange::copy, sizes_.of_token(in), element_, CommOverlap::none, style().linear.async_tensor_backward, "", "",
        what,           CommGroup::tensor_in};
  }
  cast_weights(op.products);
  add(std::move(op));
}

}  // namespace orrery::workloads
