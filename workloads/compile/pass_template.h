// Pass templates: the pieces of a pass over one chunk with their device and transfer times worked out once, ready to be
// stamped into a program for every micro-batch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "calibration/framework/software.h"
#include "sim/plan.h"
#include "workloads/compile/program_notes.h"
#include "workloads/groups/collective_prices.h"
#include "workloads/groups/whole_passes.h"
#include "workloads/model/computation.h"

namespace orrery::workloads {

/// Of a run's duration: what grows with the tokens that routing gives this rank, and what makes up for SMs that kernels
/// leave free.
struct ComputeShares {
  float routed = 0, spared = 0;
};

/// A compute operation or a collective of a pass.
struct PassItem {
  bool comm = false;
  std::int32_t layer = -1;  // place in the chunk's range of layers; -1: of none
  WeightsUsed weights;      // where costs cut at weights
  sim::Duration issue{};    // host time to launch it
  // compute
  std::uint32_t run = 0;
  sim::Duration duration{}, issue_bound{};
  ComputeShares shares;
  bool host_waits = false;  // the host issues nothing more until it has finished
  // comm
  CommGroup group = CommGroup::tensor;  // whose members take part
  CollectiveCost cost;
  std::uint32_t traffic = kNoTraffic;
  double share = 1.0;
  bool counts = true;
  std::int32_t passes_by = 0;  // how many compute operations may follow before one has to wait for this transfer
};

struct PassTemplate {
  std::array<std::vector<PassItem>, 4> items;       // by kind of pass
  std::array<std::vector<std::size_t>, 4> done_at;  // by kind and place of a layer: items after which it is done
  const std::vector<PassItem>& of(PassKind kind) const { return items[static_cast<std::size_t>(kind)]; }
  const std::vector<std::size_t>& layer_done(PassKind kind) const { return done_at[static_cast<std::size_t>(kind)]; }
};

/// A pass as one operation: what its kernels and tensor collectives come to when nothing outside can disturb them.
/// Begun at t0 on an idle tensor stream, its host at h0, it ends at max(t0 + duration, h0 + issue_bound).
struct WholePass {
  bool closed = false;  // nobody but the tensor group takes part, and nothing is under way when the last kernel ends
  sim::Duration duration{}, issue{}, issue_bound{};
  sim::Duration tensor_wait{};  // part of duration in which the compute stream waits for tensor collectives
  double highest_rate = 0;      // bytes/s of its fastest collective; infinite if one has no cap of its own
  sim::Stretch stretch;         // the same operations, for an engine that sees who disturbs them
};

/// `slower`: factor on device time of kernels (beside a data-parallel collective). Exact, to the picosecond, where the
/// tensor group's members run in step and no link limits its collectives, or where nobody else is on the links that
/// `passes` tells of.
WholePass whole_pass(std::span<const PassItem> items, double slower, const WholePasses& passes = {});

/// What passes cost beside their kernels and collectives, and how the two lie beside each other.
struct PassCosts {
  calibration::HostCosts host;
  calibration::OverlapCosts overlap;
  calibration::GemmRates gemm_rates{};
  bool overlaps_tensor = false;    // collectives are cut up with the GEMMs beside them
  bool splits_backward = false;    // the schedule cuts backward passes in two
  bool waits_for_batch = false;    // the host reads back how much of a micro-batch it was sent
  bool cuts_at_weights = false;    // every linear layer has items of its own: PassItem::weights
  double exchange_processors = 0;  // SMs that an exchange of tokens takes from the kernels of another micro-batch
  double busiest_load = 1;         // KernelTimes::busiest_load
  bool operator==(const PassCosts&) const = default;
};

/// Makes templates and remembers them by the layers of the chunk; owns what they share: runs of kernels and kinds of
/// traffic.
class TemplateLibrary {
 public:
  /// `network`: the job's layers. All arguments must stay valid.
  TemplateLibrary(const Network& network, const CollectivePrices& prices, const PassCosts& costs, StagePrograms& out)
      : network_(network), prices_(prices), costs_(costs), out_(out) {}

  const PassTemplate& of(const LayerRange& range);
  /// The passes over one layer, by kind of pass.
  using LayerItems = std::array<std::vector<PassItem>, 4>;
  /// `kind`: row of Network::kinds.
  const LayerItems& of_kind(std::uint8_t kind);
  struct Whole {
    WholePass pass;
    std::uint32_t note = kNoWholePass;
  };
  /// A pass of one of these templates as one operation.
  const Whole& whole(const PassTemplate& passes, PassKind kind, double slower, const WholePasses& how);
  /// The same of one layer, `kind` as in of_kind().
  const WholePass& whole_layer(std::uint8_t kind, PassKind pass, double slower, const WholePasses& how);
  /// A compute item of these kernels; times scaled by nothing.
  PassItem compute(std::vector<Kernel> kernels, std::int32_t layer);
  /// Seconds of an exchange with nothing beside it, and how much longer kernels take while it holds its SMs.
  double seconds_of(const PassItem& exchange) const { return prices_.seconds_alone(exchange.cost, exchange.group); }
  double beside_exchange() const;
  std::uint32_t traffic(const TrafficKey& key);
  /// Host time to launch a collective of a group.
  sim::Duration call_of(const CommGroup& group) const;

 private:
  std::vector<PassItem> items(const Pieces& pieces);
  PassItem transfer(const Piece& piece, double share, bool counts, std::int32_t passes_by);
  void lend_processors(std::vector<Kernel>& kernels, const Piece& collective) const;
  std::uint32_t run_of(std::vector<Kernel> kernels);

  const Network& network_;
  const CollectivePrices& prices_;
  const PassCosts& costs_;
  StagePrograms& out_;
  std::map<std::uint8_t, LayerItems> kinds_;
  std::map<std::vector<std::uint8_t>, PassTemplate> templates_;  // by the kinds of the layers
  std::map<std::tuple<const PassTemplate*, PassKind, double>, Whole> wholes_;
  std::map<std::tuple<std::uint8_t, PassKind, double>, WholePass> whole_layers_;
  std::map<std::vector<std::pair<std::string, std::int64_t>>, std::uint32_t> run_ids_;
  std::map<std::tuple<std::uint8_t, int, std::string, double>, std::uint32_t> traffic_ids_;
};

/// What the host does ahead of the first pass of a step (HostCosts::step_begin_host); nothing where that takes no time.
std::optional<PassItem> step_begin(const PassCosts& costs, const calibration::DeviceProfile& device,
                                   TemplateLibrary& library);

/// What every stage does before a forward pass: it fetches the micro-batch, of which it needs at least the masks. A
/// host that reads back how much it was sent starts the pass on an idle device (megatron/mpu/data.py, broadcast_data).
/// Nothing where the software says that it costs nothing.
std::optional<PassItem> microbatch_fetch(const PassCosts& costs, const calibration::DeviceProfile& device,
                                         TemplateLibrary& library);

/// What comes before a layer's first forward pass of a step in fp8: its weights are cast and transposed, and the copies
/// kept for the other micro-batches (Transformer Engine's is_first_microbatch). Weights that were gathered in fp8 are
/// only transposed. Nothing for layers without products in fp8, and for those whose passes cast them anew.
std::optional<PassItem> weight_cast(const Layer& layer, const Precision& precision,
                                    const calibration::DeviceProfile& device, TemplateLibrary& library);

/// Seconds of the kernels of a pass.
double compute_seconds(std::span<const PassItem> items);

}  // namespace orrery::workloads
