// Data-parallel collectives of one stage, weight by weight: how DeepSpeed's ZeRO 3 of 2021 ran
// (microsoft/DeepSpeed 0.3.13, deepspeed/runtime/zero/stage3.py, PartitionedParameterCoordinator, and
// partition_parameters.py, _allgather_param and _reduce_scatter_gradient).
//
// Ahead of a linear layer its weights are gathered by a call of their own; when the host has them it starts the gather
// of the next weight that is not at hand and then launches the layer. Ahead of each gather it waits for the device
// (torch.cuda.synchronize), so that a gather runs beside one linear layer at most. A weight that is used again soon
// stays (stage3_max_reuse_distance); while many elements are at hand nothing is fetched ahead
// (stage3_max_live_parameters). Gradients are reduced tensor by tensor. Norms and biases stay whole
// (stage3_param_persistence_threshold), and one call gathers them when the optimizer is done, whose buffer is copied
// apart tensor by tensor and rank by rank.
//
// Left out: that gradients wait in a bucket of 5e8 elements before they are reduced; that the last weights of a forward
// pass may stay for the backward pass behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "workloads/compile/unit_collectives.h"

namespace orrery::workloads {

/// Items [begin, end) of a pass that read the same weights.
struct WeightUse {
  std::size_t begin = 0, end = 0;
  std::int32_t layer = -1;   // place in the chunk
  std::int32_t linear = -1;  // of the layer; -1: an embedding
  std::int64_t tensors = 1;
  double elements = 0;
  bool stays = false;  // from this use to the next of the pass
  bool here = false;   // since an earlier use of the pass
  bool last = true;    // use in the pass
};

/// The uses of a pass in order. `embeddings`: elements of a layer, by place, where that is an embedding, else 0.
std::vector<WeightUse> weight_uses(std::span<const PassItem> items, std::span<const double> embeddings);
/// Marks what stays: at most `distance` elements of other uses lie between a use and the next of the same weights.
void keep_for_reuse(std::vector<WeightUse>& uses, double distance);

class WeightCollectives {
 public:
  /// Writes to `writer`; all arguments must stay valid.
  WeightCollectives(const DataParallelism& data, const StageLayout& stage, const CollectivePrices& prices,
                    TemplateLibrary& library, DataTransfers& transfers, ProgramWriter& writer)
      : data_(data), stage_(stage), prices_(prices), library_(library), transfers_(transfers), writer_(writer) {}

  void begin(const Pass& pass, const std::vector<PassItem>& items, const UnitCollectives::Turn& turn);
  /// Before this item of the pass.
  void enter(std::size_t item);
  void end();
  /// After the optimizer.
  void gather_rest();

  /// Share of the pass at hand that its kernels run beside collectives.
  double share_beside() const { return data_.overlaps_parameters ? covered_ : 0; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  const Layer& layer(std::int32_t place) const { return stage_.split.network.layer(range_.begin + place); }
  bool is_block(std::int32_t place) const { return layer(place).kind == LayerKind::block; }
  void fetch(std::size_t use);
  void fetch_ahead();
  void drain(double cleared);
  void take(WeightUse& use);
  void leave(const WeightUse& use);
  void reduce_layer();

  const DataParallelism& data_;
  const StageLayout& stage_;
  const CollectivePrices& prices_;
  TemplateLibrary& library_;
  DataTransfers& transfers_;
  ProgramWriter& writer_;
  LayerRange range_;  // of the pass at hand, as all that follows
  UnitCollectives::Turn turn_;
  std::vector<WeightUse> uses_;
  std::size_t next_ = 0, left_ = 0;  // uses entered, and left
  struct {
    std::uint32_t gather = kNone;
    std::size_t use = 0;
  } in_flight_;
  double at_hand_ = 0;  // elements
  double covered_ = 0;
  const std::vector<PassItem>* items_ = nullptr;
  std::int32_t layer_ = -1;  // whose gradients are being made
};

}  // namespace orrery::workloads
