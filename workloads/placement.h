// Which rank has which coordinates, and which GPU runs it. Ranks are numbered as in Megatron-LM: tensor fastest, then
// context, data, pipeline. The placement decides the GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/job.h"

namespace orrery::workloads {

struct Coordinates {
  std::int64_t tensor = 0, context = 0, data = 0, pipeline = 0;
};

class RankMap {
 public:
  explicit RankMap(const Job& job);
  std::int64_t ranks() const { return tensor_ * context_ * data_ * pipeline_; }
  std::int64_t rank_of(const Coordinates& at) const {
    return at.tensor + tensor_ * (at.context + context_ * (at.data + data_ * at.pipeline));
  }
  Coordinates coordinates_of(std::int64_t rank) const;
  std::int64_t gpu_of(std::int64_t rank) const { return gpu_[static_cast<std::size_t>(rank)]; }
  /// GPUs of the tensor group, of the context group, of that member.
  std::vector<std::int64_t> tensor_group(const Coordinates& member) const;
  std::vector<std::int64_t> context_group(const Coordinates& member) const;
  /// Ranks that hold the same weights as that member, context ranks fastest: with DualPipe also those of the stage that
  /// mirrors the member's.
  std::vector<std::int64_t> replicas(const Coordinates& member) const;

 private:
  /// Turns places in the order of dimensions into GPUs, by Placement::by.
  void arrange(const Job& job);

  std::int64_t tensor_, context_, data_, pipeline_;
  bool mirrored_;
  std::vector<std::int64_t> gpu_;
};

}  // namespace orrery::workloads
