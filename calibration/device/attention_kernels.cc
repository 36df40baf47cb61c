// Attention kernels of other generations than the one that a profile's tables timed: the task model of
// attention_model.h with rates of their own. FlashAttention's first version neither keeps the tensor cores as busy as
// the second (fewer other operations, work split over warps: Dao, arXiv 2307.08691, section 3) nor uses what came with
// Hopper (asynchronous copies and warp-group products: arXiv 2407.08608), nor does the second use the latter. What a
// task does beside its loop is to move tiles. Operands in fp8 make the products faster and the softmax between them no
// faster. The library that trains may have other kernels than the one that serves, whose times the tables hold. Left
// out: forward rates of their own for head dimensions above 128, splits over keys.
#include "calibration/device/profile_model.h"
#include "sim/error.h"

namespace orrery::calibration {

namespace {

AttentionModel load_other_kernel(const sim::Settings& rates, const AttentionModel& tables) {
  AttentionModel model = tables;
  model.rate_128 = rates.at("forward").as_number();
  model.rate_64 = rates.get_number("forward_64", model.rate_128);
  const double backward = rates.at("backward").as_number();
  model.backward_ratio = backward / model.rate_128;
  model.backward.ratio_64 = rates.get_number("backward_64", backward) / model.rate_64;
  model.backward.ratio_wide = rates.get_number("backward_wide", backward) / model.rate_128;
  model.backward.whole = rates.get_bool("backward_whole", false);
  if (const sim::Settings* setup = rates.find("setup")) model.setup = sim::to_seconds(setup->as_duration());
  model.surface = {};  // fitted to the other kernels
  model.setup_moves_tiles = true;
  if (const sim::Settings* dropout = rates.find("dropout")) {
    constexpr double kNanosecond = 1e-9;
    model.scores.drawn = dropout->as_number() / kNanosecond;
  }
  return model;
}

}  // namespace

void load_attention_kernels(const sim::Settings& section, DeviceProfile::Model& device) {
  for (std::size_t k = 0; k < kAttentionKernels; ++k)
    if (const sim::Settings* rates = section.find(std::string(name_of(static_cast<AttentionKernel>(k)))))
      device.kernels[k] = load_other_kernel(*rates, device.attention);
}

const AttentionModel* DeviceProfile::Model::other(AttentionKernel kernel) const {
  const std::optional<AttentionModel>& own = kernels[static_cast<std::size_t>(kernel)];
  return own ? &*own : nullptr;
}

}  // namespace orrery::calibration
