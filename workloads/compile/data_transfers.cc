// Gathers and reductions with their costs. See data_transfers.h.
#include "workloads/compile/data_transfers.h"

#include <algorithm>
#include <cmath>

namespace orrery::workloads {

CollectiveCost owner_reductions(double parameters, const Layer* layer, double gradient_bytes,
                                const CollectivePrices& prices) {
  CollectiveCost sum;
  double moving = 0;  // seconds at each chain's own rate
  const auto add = [&](double elements) {
    const CollectiveCost one = prices.of(CollectiveOp::broadcast, elements * gradient_bytes, CommGroup::data);
    sum.latency += one.latency;
    sum.work += one.work;
    sum.pattern = one.pattern;
    sum.algorithm = one.algorithm;
    if (one.rate_cap > 0) moving += one.work / one.rate_cap;
  };
  double left = parameters;
  if (layer != nullptr) {
    for (const Weights& weights : layer->weights) {
      if (!weights.matrix) continue;
      add(weights.elements);
      left -= weights.elements;
    }
  }
  if (left > 0) add(left);
  if (moving > 0) sum.rate_cap = sum.work / moving;
  return sum;
}

ProgramWriter::Transfer DataTransfers::transfer(CollectiveOp op, double bytes, const char* what) {
  ProgramWriter::Transfer t{data_.among.owners};
  t.cost = prices_.of(op, bytes, data_.among.owners);
  t.traffic =
      library_.traffic({data_.among.owners, op, what, data_.owners, bytes, wire_bytes(op, data_.owners, bytes)});
  beside_ += prices_.seconds_alone(t.cost, data_.among.owners);
  return t;
}

std::uint32_t DataTransfers::gather(double bytes, std::span<const std::uint32_t> waits) {
  const char* what = writer_.is_backward() ? "parameters, backward" : "parameters, forward";
  return writer_.transfer(transfer(CollectiveOp::all_gather, bytes, what), waits);
}

/// One pass over the buffer: from the flat one into the parts of the list, or the other way.
sim::Duration DataTransfers::list_copy(double bytes) const {
  if (!data_.fetches.collectives_by_list) return {};
  return prices_.device.streaming(calibration::Streaming::copy, 2 * bytes);
}

std::uint32_t DataTransfers::gather_weight(double bytes, const char* what, sim::Duration host,
                                           std::span<const std::uint32_t> waits) {
  ProgramWriter::Transfer t = transfer(CollectiveOp::all_gather, bytes, what);
  t.cost.latency += list_copy(bytes);
  t.issue = host;
  return writer_.transfer(t, waits);
}

void DataTransfers::reduce_tensors(double bytes, std::int64_t tensors) {
  if (tensors == 0) return;
  ProgramWriter::Transfer t = transfer(CollectiveOp::reduce_scatter, bytes, "gradients, backward");
  // All calls but one move what is left of the bytes: nothing. Each has its own way round the ranks.
  const sim::Duration empty = prices_.of(CollectiveOp::reduce_scatter, 0, data_.among.owners).latency;
  t.cost.latency += list_copy(bytes) + empty * (tensors - 1);
  t.issue = data_.call * tensors;
  last_reduction_ = writer_.transfer(t, writer_.after_compute());
  reduce_across_repeats(bytes);
}

void DataTransfers::reduce(double bytes) {
  last_reduction_ =
      writer_.transfer(transfer(data_.reduction(), bytes, "gradients, backward"), writer_.after_compute());
  reduce_across_repeats(bytes);
}

void DataTransfers::reduce_unit(double parameters, const Layer* layer, bool complete) {
  const double bytes = parameters * data_.bytes.gradient;
  if (!data_.to_owners) return reduce(bytes);
  ProgramWriter::Transfer t = transfer(data_.reduction(), bytes, "gradients, backward");
  t.cost = owner_reductions(parameters, layer, data_.bytes.gradient, prices_);
  last_reduction_ = writer_.transfer(t, writer_.after_compute());
  if (complete) reduce_across_repeats(bytes);
}

void DataTransfers::reduce_across_repeats(double bytes) {
  if (data_.repeats() == 1) return;
  const double part = bytes / static_cast<double>(data_.owners);
  const std::int64_t groups = data_.repeats();
  ProgramWriter::Transfer t{data_.among.repeats};
  t.cost = prices_.of(CollectiveOp::all_reduce, part, data_.among.repeats);
  t.traffic = library_.traffic({data_.among.repeats, CollectiveOp::all_reduce, "gradients, between shard groups",
                                groups, part, wire_bytes(CollectiveOp::all_reduce, groups, part)});
  const std::uint32_t shared_out = last_reduction_;
  last_reduction_ = writer_.transfer(t, {&shared_out, 1});
}

void DataTransfers::await_reductions() {
  if (last_reduction_ != kNoReduction) writer_.next_waits_for(last_reduction_);
}

double DataTransfers::share_beside(double seconds) {
  if (beside_ <= 0 || seconds <= 0) return 0;
  constexpr double kSteps = 8;  // few kinds of passes, which are timed once each
  const double share = std::round(kSteps * std::min(1.0, beside_ / seconds)) / kSteps;
  beside_ = std::max(0.0, beside_ - seconds);
  return share;
}

}  // namespace orrery::workloads
