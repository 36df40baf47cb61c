// See by_operation.h. Left out: blocks whose halves stand side by side, which no framework checkpoints so.
#include "workloads/model/by_operation.h"

#include <string_view>

namespace orrery::workloads {

namespace {

/// Rows of a product's output that are of every second one: of the key, of the projection, and of one of two branches
/// or else of the way down. `sums_stay`: what row-parallel products are summed up to is kept, and nothing else reads
/// their output, so that they are not made again.
std::int64_t again(const MatMul& product, const Sizes& sizes, bool gated, bool sums_stay) {
  const std::string_view name = product.name;
  if (name == "qkv") return sizes.kv;
  if (name == "mlp up") return gated ? (product.out > sizes.ffn ? product.out / 2 : product.out) : 0;
  const bool summed = name == "attention projection" || (name == "mlp down" && !gated);
  return name == "key" || (summed && !sums_stay) ? product.out : 0;
}

}  // namespace

void recompute_by_operation(const LayerWriter& writer, Layer& layer) {
  const Sizes& sizes = writer.sizes();
  const bool gated = writer.model().mlp.gated;
  // A compiler leaves out a product that nobody reads; all-reduces are not of what the policy keeps.
  const bool sums_stay = writer.style().linear.recomputes_needed_only && sizes.sequence_parallel;
  layer.recomputed_by_operation = true;
  for (LayerOp& op : layer.ops) {
    if (auto* linear = std::get_if<LinearOp>(&op))
      for (MatMul& product : linear->products) product.again = again(product, sizes, gated, sums_stay);
  }
  const double e = writer.element();
  std::vector<Kept> kept;
  for (Kept k : layer.kept) {
    const std::string_view name = k.name;
    if (name == "keys and values") {  // values stay, as their product made them
      const double values = sizes.of_token(sizes.kv);
      kept.push_back({"values", values, k.bytes_each, k.half});
      const bool repeated = k.elements > 2 * values;
      kept.push_back({"keys", repeated ? k.elements : k.elements - values, k.bytes_each, k.half, KeptAs::recomputed});
      continue;
    }
    if (name == "up projection" && gated) {
      kept.push_back({"gate", k.elements / 2, k.bytes_each, k.half});
      kept.push_back({"up projection", k.elements / 2, k.bytes_each, k.half, KeptAs::recomputed});
      continue;
    }
    const bool stays = k.as == KeptAs::input || name == "queries" || name == "attention output" ||
                       name == "log-sum-exp of scores" || name == "scores" || name == "up projection";
    if (!stays) k.as = KeptAs::recomputed;
    kept.push_back(k);
  }
  if (sums_stay) kept.push_back({"output of the projection", sizes.outside, e, 0});
  // A compiler keeps nothing that its backward graph does not read.
  if (gated && !writer.style().compiled_blocks) kept.push_back({"output of the way down", sizes.outside, e, 1});
  layer.kept = std::move(kept);
}

}  // namespace orrery::workloads
