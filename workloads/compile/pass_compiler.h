// One pass through one chunk of a stage: its items, one after the other or as one operation, with the collectives of
// data parallelism that belong between them.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "workloads/compile/data_stream.h"
#include "workloads/compile/unit_collectives.h"

namespace orrery::workloads {

/// Factor on the device time of kernels.
struct Pace {
  double of_all = 1;             // the slowest GPU of a pipeline's stages sets their pace
  double beside_collective = 1;  // beside a data-parallel collective kernels lose SMs and memory bandwidth to it
  double at(double share_beside) const { return of_all * (1 + share_beside * (beside_collective - 1)); }
};

/// A pass as it stands in its step.
struct PassInStep {
  Pass pass;
  bool first_use = false;        // the first forward pass through its chunk
  bool first_gradients = false;  // the first pass that makes gradients of its chunk's weights
  bool last_gradients = false;   // the last one
};
/// The passes of a stage of so many chunks.
std::vector<PassInStep> in_step(const std::vector<Pass>& passes, std::int64_t chunks);

class PassCompiler {
 public:
  /// What a pass is made of. `casts`: what comes before a layer's first use, by row of Network::kinds.
  struct Parts {
    std::optional<PassItem> fetch;  // of a micro-batch
    std::map<std::uint8_t, PassItem> casts;
    Pace pace;
    WholePasses whole;
  };
  /// Writes to `writer`; all arguments must stay valid.
  PassCompiler(Parts parts, const StageLayout& stage, TemplateLibrary& library, ProgramWriter& writer,
               DataStreams& data);

  void compile(const PassInStep& pass);
  /// Two passes of different micro-batches in turn: while one waits for an exchange of its experts, the other computes
  /// (Megatron-Core, --overlap-moe-expert-parallel-comm; DualPipe, arXiv 2412.19437, figure 4).
  void compile_in_turn(const PassInStep& one, const PassInStep& other);

 private:
  class Walk;
  const PassTemplate& template_of(std::int32_t chunk);
  bool gathered_ahead(std::int32_t chunk) const;
  bool runs_whole(const PassInStep& pass, const PassTemplate& passes);
  /// A bucket and whose it is.
  struct Due {
    DataCollectives::Bucket bucket;
    DataCollectives* of;
  };
  std::vector<Due> buckets_of(const PassInStep& pass, const PassTemplate& passes);
  bool runs_as_stretch(std::int64_t layer, PassKind kind);
  void item(const PassItem& item);
  void cast(std::int64_t layer);
  void pass_by(std::span<const PassItem> items);
  double beside_exchange(const PassItem& item);
  double pace() const;

  Parts parts_;
  const StageLayout& stage_;
  TemplateLibrary& library_;
  ProgramWriter& writer_;
  DataStreams& data_;
  double beside_ = 0;    // share of the computation at hand that collectives of whole chunks run beside
  double exchange_ = 0;  // seconds left of another pass's exchange of tokens
  std::vector<const PassTemplate*> templates_;         // by chunk
  std::vector<const TemplateLibrary::Whole*> wholes_;  // by chunk and kind of pass, at full speed
};

}  // namespace orrery::workloads
