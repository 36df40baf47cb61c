// Attention kernels of other generations than the one that a profile's tables timed: the task model of
// attention_model.h with rates of their own. FlashAttention's first version neither keeps the tensor cores as busy as
// the second (fewer other operations, work split over warps: Dao, arXiv 2307.08691, section 3) nor uses what came with
// Hopper (asynchronous copies and warp-group products: arXiv 2407.08608). Below their power limit such kernels run at
// full clocks, so their rates are those of a long step as they stand. What a task does beside its loop is to move
// tiles. Left out: a rate for each head dimension (within 5 % of each other: arXiv 2307.08691, figure 4), splits over
// keys.
#include "calibration/profile_model.h"
#include "sim/error.h"

namespace orrery::calibration {

void load_attention_kernels(const sim::Settings& section, DeviceProfile::Model& device) {
  const sim::Settings* flash_1 = section.find("flash_1");
  if (flash_1 == nullptr) return;
  AttentionModel model = device.attention;
  model.rate_64 = model.rate_128 = flash_1->at("forward").as_number();
  model.backward_ratio = flash_1->at("backward").as_number() / model.rate_128;
  model.surface = {};  // fitted to the other kernels
  model.setup_moves_tiles = true;
  if (const sim::Settings* dropout = flash_1->find("dropout")) {
    constexpr double kNanosecond = 1e-9;
    model.dropout_rate = dropout->as_number() / kNanosecond;
  }
  device.flash_1 = model;
}

}  // namespace orrery::calibration
