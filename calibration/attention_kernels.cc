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

namespace {
double rate_at(const sim::Settings& kernel, std::string_view key) {
  const sim::Settings& s = kernel.at(key);
  const double share = s.as_number(0, 1);
  if (share < 0.01) s.fail("read " + s.text() + ", would be right: a share of the bf16 peak, 0.01 to 1");
  return share;
}
}  // namespace

void load_attention_kernels(const sim::Settings& section, DeviceProfile::Model& device) {
  section.refuse_unknown({"provenance", "flash_1"});
  const sim::Settings* flash_1 = section.find("flash_1");
  if (flash_1 == nullptr) return;
  flash_1->refuse_unknown({"forward", "backward", "dropout"});
  AttentionModel model = device.attention;
  model.rate_64 = model.rate_128 = rate_at(*flash_1, "forward");
  model.backward_ratio = rate_at(*flash_1, "backward") / model.rate_128;
  model.surface = {};  // fitted to the other kernels
  model.setup_moves_tiles = true;
  if (const sim::Settings* dropout = flash_1->find("dropout")) {
    constexpr double kNanosecond = 1e-9, kMost = 1e6;
    model.dropout_rate = dropout->as_number(1, kMost) / kNanosecond;
  }
  device.flash_1 = model;
}

}  // namespace orrery::calibration
