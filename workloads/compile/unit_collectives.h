// Data-parallel collectives of one stage, unit by unit (ZeRO 3, FSDP): parameters are gathered before the unit that
// they belong to runs, gradients reduced behind it. They take SMs and memory bandwidth from kernels only while they
// last.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compile/data_transfers.h"
#include "workloads/compile/layer_split.h"

namespace orrery::workloads {

/// The units of one pass.
struct UnitLoad {
  double parameters = 0;  // elements of all units
  std::int64_t units = 1;
  bool gathers = false, reduces = false;
};

/// Share, 0 to 1, of a pass of `compute` seconds that its collectives cover when they run beside it on an idle network
/// (path latencies left out).
double covered_share(const UnitLoad& pass, double compute, const DataParallelism& data, const CollectivePrices& prices);

/// Units are the layers of a chunk, and embedding and head together with the first unit entered. A unit's parameters
/// are gathered before it runs; with overlap, the gather of the next unit is issued when a unit starts.
class UnitCollectives {
 public:
  /// Writes to `writer`; all arguments must stay valid.
  UnitCollectives(const DataParallelism& data, const StageLayout& stage, const CollectivePrices& prices,
                  DataTransfers& transfers, ProgramWriter& writer)
      : data_(data), stage_(stage), prices_(prices), transfers_(transfers), writer_(writer) {}

  /// What a pass does with its units.
  struct Turn {
    bool gathers = false, reduces = false;
    bool complete = false;  // the gradients are those of all micro-batches
  };
  void begin(const Pass& pass, const PassTemplate& passes, const Turn& turn);
  /// Before an item of the layer at this place of the chunk; -1: of no block.
  void enter(std::int32_t layer);
  void end();

  /// Share of the pass at hand that its kernels run beside collectives.
  double share_beside() const { return data_.overlaps_parameters ? covered_ : 0; }

 private:
  struct Unit {
    std::int32_t layer;
    double parameters;
    std::uint32_t gather;
  };
  /// A layer without experts, or without adapters.
  bool is_empty(const Unit& unit) const {
    const bool part = data_.of_experts() || data_.held == HeldPart::trained;
    return part && unit.parameters == 0;
  }
  void gather(std::size_t i);
  void reduce(std::size_t i);

  const DataParallelism& data_;
  const StageLayout& stage_;
  const CollectivePrices& prices_;
  DataTransfers& transfers_;
  ProgramWriter& writer_;
  LayerRange range_;  // of the pass at hand
  Turn turn_;         // likewise
  double covered_ = 0;
  std::vector<Unit> units_;
  std::size_t unit_ = 0;
  bool entered_ = false;  // any unit of the pass
};

}  // namespace orrery::workloads
