// What of computation.h is more than data.
#include "workloads/model/computation.h"

#include <array>

namespace orrery::workloads {

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor, bool pads) {
  if (!pads) return vocab / tensor * tensor;
  const std::int64_t multiple = 128 * tensor;
  return (vocab + multiple - 1) / multiple * multiple;
}

bool makes_last_product_again(const Model& model, const calibration::LinearStyle& style) {
  return !style.recomputes_needed_only || model.post_norm;
}

bool stops_ahead_of_last_product(const Model& model, const calibration::LinearStyle& style, const Adapters& adapters) {
  return !makes_last_product_again(model, style) && !model.parallel_block && !model.experts.any() && !adapters.any();
}

namespace {
constexpr std::array<std::string_view, 3> kContextMethods{"ring", "all_gather", "all_to_all"};
}  // namespace

std::string_view name_of(ContextMethod method) { return kContextMethods[static_cast<std::size_t>(method)]; }

}  // namespace orrery::workloads
