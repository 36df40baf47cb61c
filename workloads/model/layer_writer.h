// What the layers of every transformer family are written with: kernels bound by memory, norms, casts, exchanges of the
// tensor group and linear layers, on one rank.
//
// Sources: Megatron-LM (arXiv 1909.08053) for the tensor-parallel split; Korthikanti et al. (arXiv 2205.05198) for
// sequence parallelism.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/model/computation.h"

namespace orrery::workloads {

/// Weights that are cast in every pass, by the names of the kernels.
inline constexpr const char *kRowsOfWeights = "weights to fp8", *kColumnsOfWeights = "weights to fp8 by columns";

/// Sizes on one rank. Tokens are those of the micro-batch; outside the tensor-parallel regions sequence parallelism
/// leaves a rank `outside` elements of a hidden state.
struct Sizes {
  Sizes(const Model& model, const Split& split, const calibration::LayerStyle& style);
  std::int64_t tensor_in, tensor;  // tensor: ranks that share out the outputs of column-parallel layers
  std::int64_t width;              // of the hidden state that a rank has
  std::int64_t tokens, heads, kv_heads;
  std::int64_t q, kv, ffn, vocab;  // widths: queries and attention output, keys, inside of the MLP, logits
  std::int64_t kv_made;  // of what the rank's product makes of the keys: less than a head where ranks share heads
  std::int64_t out, values, values_made;  // likewise of attention's output, and of values
  std::int64_t gate;  // of the sigmoid on attention's output that the queries' product makes too; 0: none
  bool sequence_parallel;
  double hidden, outside;  // elements
  /// Elements of all tokens, of this width; and of a width that the tensor group shares.
  double of_token(std::int64_t elements) const;
  double shared(std::int64_t whole_width) const;
  double parts() const { return static_cast<double>(tensor); }
};

/// Writes the operations of one layer after the other. Refers to what it is made of.
class LayerWriter {
 public:
  LayerWriter(const Model& model, const Split& split, const Computation& computation);

  const Model& model() const { return model_; }
  const Split& split() const { return split_; }
  const Computation& computation() const { return computation_; }
  const calibration::LayerStyle& style() const { return computation_.style; }
  const Sizes& sizes() const { return sizes_; }
  double element() const { return element_; }  // bytes of an activation

  /// Kernels bound by memory that are written from here on are of tokens that routing gave to this rank, or are not.
  void routed(bool are) { routed_ = are; }
  void add(LayerOp op) { ops_.push_back(std::move(op)); }
  /// The operations since the last call of take(), and how many they are.
  std::vector<LayerOp> take();
  std::size_t size() const { return ops_.size(); }

  // ---- kernels bound by memory ----
  void forward(const char* name, calibration::Streaming kernel, double elements, double bytes_each);
  void backward(const char* name, calibration::Streaming kernel, double elements, double bytes_each);
  /// What makes a tensor that products of fewer bits read.
  enum class Maker : std::uint8_t { norm, activation, other };
  /// Whether what makes it casts it as well. Of Transformer Engine's kernels norms do and activations of its own MLP,
  /// for scales that are known ahead (release_v1.11, transformer_engine/pytorch/module/linear.py, layernorm_mlp.py and
  /// base.py, grad_output_preprocess: outputs of attention and gradients of outputs are cast apart).
  bool casts_in(Maker maker) const {
    using calibration::Casts;
    const Casts casts = style().casts;
    if (!quantised() || scales_twice() || casts == Casts::apart || casts == Casts::scaled) return false;
    // What has scales of rows and of columns is cast from 16 bits by a kernel of its own
    // (transformer_engine/pytorch/csrc/extensions/normalization.cpp, UNFUSED). Left out: cuDNN's norms, which some
    // recipes of Megatron-Bridge ask for (NVTE_NORM_FWD_USE_CUDNN).
    if (computation_.precision.matmul != DataType::fp8) return false;
    if (casts == Casts::fused) return true;
    return maker == Maker::norm || (maker == Maker::activation && casts == Casts::by_norms_and_activations);
  }
  /// What a producing kernel writes more, per element, when it also casts for the GEMM behind it: in fp8 the operand in
  /// place of 16 bits, and by columns what a second kernel reads and writes, unless that is of a gathered tensor.
  double fused_cast(Maker maker) const {
    if (!casts_in(maker)) return 0;
    return operand_ - element_ + (maker == Maker::norm && gathers_quantised() ? 0 : 2 * columns());
  }
  /// A GEMM of a type with scales reads operands that somebody has to cast, by rows and by columns (or transposed):
  /// inside the kernel before it when the software fuses that, else in a kernel of its own (reads 16 bit, writes
  /// twice), and where the whole tensor has a scale too, after one that looks for the largest magnitude. nvfp4's
  /// columns may be rotated and cast by a third.
  void cast(double elements, const char* name, Direction direction, Maker maker = Maker::other);
  /// Likewise of a tensor that no kernel of the software's makes which could cast it: it comes from an exchange, or
  /// goes to products that are dealt out to experts.
  void cast_apart(double elements, const char* name, Direction direction);
  /// Of an operand with scales of rows, in both passes.
  void cast_by_rows(double elements, const char* name, Direction direction);
  /// Of the input of column-parallel layers, before or after it is gathered.
  void cast_input();
  void cast_gradient(double elements, Maker maker = Maker::other) {
    cast(elements, "cast gradient", Direction::backward, maker);
  }
  /// Ahead of such a cast, of a tensor that the tensor group shares out: largest magnitudes are looked for over all of
  /// it, one by one of as many tensors. `rows`: each rank has a part of every row; else it has whole ones.
  void find_scales(Direction direction, bool rows, std::size_t tensors = 1);
  /// Of a rank's shard of a hidden state that the tensor group gathers behind it.
  void cast_ahead(const char* name, const char* by_columns, Direction direction, Maker maker);
  /// The small kernels that the model does not name: views made contiguous, masks; `share` of a layer's. Each is taken
  /// as the floor of a copy, because that is what such a kernel costs.
  void views(double share, Direction direction);
  /// `residual`: its input goes on beside it, so that two gradients meet there. `readers`: products that read it, whose
  /// gradients a compiler adds up in its backward kernel. `reader`: what reads it, casts in place where that takes
  /// them.
  enum class NormReader : std::uint8_t { products, others };
  void norm(const char* name, const char* name_backward, bool residual = true, std::size_t readers = 1,
            NormReader reader = NormReader::others);
  /// How a half of a block begins: off the residual stream.
  void half_norm(std::size_t readers = 1, NormReader reader = NormReader::products);
  /// That of the head, which lies outside of what is compiled.
  void final_norm();
  /// Whether norms add up the gradients of all that reads them: not where the tensor group reduces these.
  bool norm_adds_gradients() const {
    const calibration::Recipe& recipe = style().recipes.of(calibration::RecipePart::norm);
    return sizes_.tensor == 1 && calibration::reads(recipe, "added");
  }
  /// Whether an RMS norm of the head is one operation after the other.
  bool final_norm_in_steps() const {
    const calibration::Recipe& recipe = style().recipes.of(calibration::RecipePart::norm);
    return model_.norm == Norm::rms_norm && (recipe.outside != nullptr || calibration::reads(recipe, "rms"));
  }
  /// Whether an activation that was not kept is made by its own backward kernel.
  bool backward_makes_activation() const {
    const bool again =
        computation_.recompute == Recompute::full || computation_.again(&RecomputedParts::every_second_product);
    return style().compiled_blocks && style().linear.recomputes_needed_only && again;
  }
  /// Reads and writes, with a mask of one byte.
  void dropout(double elements, const char* name, Direction direction);
  /// How a half of a block ends: back onto the residual stream. `products`: those whose output it adds, each of which
  /// casts the stream's gradient; two that share the tokens out are one.
  void bias_dropout_residual(double products = 1);

  /// The copies of a layer that is, or is part of, a unit of sharded parameters.
  void copied_unit(Layer& layer, bool again) const;

  // ---- recipes ----
  /// A name that lines of a recipe may have, and the one that a model has for it.
  using Renamed = std::pair<std::string_view, const char*>;
  /// What a part runs in both passes, as the framework's recipe says.
  void run(const calibration::RecipeSizes& sizes, std::initializer_list<Renamed> renamed = {});
  void run_lines(const calibration::Recipe& recipe, const calibration::RecipeSizes& sizes, Direction direction,
                 std::initializer_list<Renamed> renamed);
  /// What it keeps, and what is alive while its backward pass works.
  void keep(const calibration::RecipeSizes& sizes, std::int32_t half, Layer& layer) const;

  // ---- exchanges of the tensor group ----
  /// Ranks that share out the outputs of column-parallel layers: the tensor group, or those of it in one dimension.
  CommGroup out_group() const { return sizes_.tensor_in > 1 ? CommGroup::tensor_out : CommGroup::tensor; }
  // Forward: g gathers the sequence shards before a column-parallel layer; f reduces after a row-parallel one. Without
  // sequence parallelism the first is nothing and the second an all-reduce (arXiv 2205.05198, figure 5).
  Exchange gathers() const { return sizes_.sequence_parallel ? Exchange::all_gather : Exchange::copy; }
  Exchange reduces() const { return sizes_.sequence_parallel ? Exchange::reduce_scatter : Exchange::all_reduce; }
  /// Of a block's column-parallel layers.
  std::optional<InputExchange> enter() const;
  /// `share`: of the tokens whose sums it makes.
  void leave(double share = 1);
  std::optional<InputExchange> enter_head() const;
  /// Ahead of a gather that is fused with a product.
  void offer_own_part(Direction direction);
  void barriers(int count, Direction direction);
  /// Bytes that a kernel of its own moves for each element of a hidden state of `bytes`, ahead of a scatter along the
  /// sequence or behind a gather.
  double ordering(double bytes) const;

  // ---- linear layers ----
  /// What `write` adds runs again ahead of its backward pass, if this part is recomputed.
  template <class Write>
  void again(bool RecomputedParts::*part, const Write& write) {
    const bool marked = computation_.again(part);
    if (marked) add(Recomputed{true});
    write();
    if (marked) add(Recomputed{false});
  }
  MatMul product(const char* name, std::int64_t out, std::int64_t in) const;
  /// Products of one input. `apart`: each reduces the gradient of the input by itself.
  void column(std::vector<MatMul> products, std::optional<InputExchange> input,
              LinearOp::Part part = LinearOp::Part::other, bool apart = false);
  /// `tokens`: that it runs on; 0: all of a rank.
  void row(const char* name, std::int64_t in, LinearOp::Part part = LinearOp::Part::other, std::int64_t tokens = 0);
  /// Bytes of an element of a weight's gradient as a tensor of its own, which the fused accumulation avoids.
  double own_gradient() const { return computation_.fuses_wgrad_accumulation() ? 0 : element_; }
  bool has_biases() const { return model_.biases == Biases::all; }
  /// Whether products read operands with scales, and the bytes of an element of those.
  bool quantised() const { return calibration::is_quantised(computation_.precision.matmul); }
  double operand() const { return operand_; }

 private:
  /// `others`: gradients that meet at it beside its own and that of the residual stream.
  void run_norm(const calibration::Recipe& recipe, const char* name, const char* name_backward, bool residual,
                double others, NormReader reader);
  /// A scale of the whole tensor beside those of its blocks is known when all of it has been seen (nvfp4, arXiv
  /// 2509.25149, section 3): no kernel that makes the tensor can cast it.
  bool scales_twice() const {
    const DataType type = computation_.precision.matmul;
    return type == DataType::nvfp4 || (type == DataType::fp8 && style().has_tensor_scales());
  }
  /// A scale of each row, of what is cast in high precision for each product.
  bool scales_rows() const { return computation_.precision.matmul == DataType::fp8_rowwise; }
  /// A scale of the whole tensor, which a pass of its own looks for ahead of the cast, as a compiler writes both.
  bool casts_compiled() const { return computation_.precision.matmul == DataType::fp8 && style().looks_for_scales(); }
  void cast_compiled(double elements, const char* name, const char* by_columns, Direction direction);
  void cast_weights(const std::vector<MatMul>& products);
  CommOverlap with(CommOverlap overlap) const { return computation_.overlaps_tensor ? overlap : CommOverlap::none; }
  /// Labels as in InputExchange.
  std::optional<InputExchange> enter(const char* what, const char* saved, const char* what_backward) const;
  /// Bytes of an element of an operand that the tensor group gathers.
  double gathered() const;
  /// Whether that is cast ahead of the gather.
  bool gathers_quantised() const;
  void copy_by_columns(const char* name);
  /// Whether casts are Transformer Engine's, whose kernels find scales or cast.
  bool by_makers() const {
    using calibration::Casts;
    const Casts casts = style().casts;
    return casts == Casts::by_norms || casts == Casts::by_norms_and_activations || casts == Casts::scaled_by_makers;
  }
  /// Bytes of an element by columns, which products with one scale a tensor may need no copy of (computation_of). Those
  /// of frozen weights read none (Transformer Engine 2.9, linear.py, backward_needs_input, requires_wgrad).
  double columns() const {
    const bool none = style().linear.column_cast_traffic == 0 || (by_makers() && computation_.adapters.any());
    return none && computation_.precision.matmul == DataType::fp8 ? 0 : operand_;
  }
  /// Whether a product runs beside the gather of its operand: not where that is cast behind it.
  bool gathers_beside_products() const;
  /// Whether an exchange runs beside a product of which it is the only one, and beside no other kernel.
  bool fuses_exchanges() const { return computation_.overlaps_tensor && style().linear.exchanges_fused; }

  const Model& model_;
  const Split& split_;
  const Computation& computation_;
  Sizes sizes_;
  double element_, operand_;  // bytes of an activation; of an operand of a product, with its scales
  std::vector<LayerOp> ops_;
  bool routed_ = false;
};

}  // namespace orrery::workloads
