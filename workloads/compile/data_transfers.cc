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
      if (!weights.is_matrix()) continue;
      add(weights.elements);
      left -= weights.elements;
    }
  }
  if (left > 0) add(left);
  if (moving > 0) sum.rate_cap = sum.work / moving;
  return sum;
}

ProgramWriter::Transfer DataTransfers::transfer(CollectiveOp op, double bytes, const char* what,
                                                const CommGroup& group) {
  ProgramWriter::Transfer t{group};
  const std::int64_t ranks = prices_.shapes[group].ranks;
  t.cost = prices_.of(op, bytes, group);
  t.issue = library_.call_of(group);
  t.traffic = library_.traffic({group, op, what, ranks, bytes, wire_bytes(op, ranks, bytes)});
  beside_ += prices_.seconds_alone(t.cost, group);
  return t;
}

/// A group of one rank inside those that share out a state, for which no communicator is made.
bool DataTransfers::is_alone(const CommGroup& group) const {
  return !(group == data_.among.owners) && prices_.shapes[group].ranks == 1;
}

void DataTransfers::stream(const char* name, double bytes) {
  Kernel kernel{name};
  kernel.bytes = bytes;
  kernel.time = prices_.device.streaming(calibration::Streaming::copy, bytes);
  writer_.compute(library_.compute({kernel}, -1), Category::compute);
}

/// Of weights that lie with the host this rank's share comes ahead of the gather.
std::vector<std::uint32_t> DataTransfers::with_host(double parameters, const CommGroup& group,
                                                    std::span<const std::uint32_t> waits) {
  std::vector<std::uint32_t> all(waits.begin(), waits.end());
  if (!host_.copies().states.parameters) return all;
  const auto ranks = static_cast<double>(std::max<std::int64_t>(1, prices_.shapes[group].ranks));
  if (data_.is_frozen()) return {host_.frozen_weights(parameters * data_.bytes.fetched / ranks, all)};
  return {host_.weights(parameters / ranks, all)};
}

void DataTransfers::leave(double parameters) {
  if (!leaves()) return;
  // Of one reduction a step there is nothing to add to.
  const bool every = data_.replicas == 1 || (data_.by_unit && !data_.fetches.reduces_last_pass());
  const std::uint32_t reduced = last_reduction_;
  const auto waits = reduced == kNoReduction ? writer_.after_compute() : std::span<const std::uint32_t>(&reduced, 1);
  last_copy_ = host_.gradients(parameters / data_.shares(), !every || turn_.first, !every || turn_.last, waits);
}

std::uint32_t DataTransfers::gather(double bytes, std::span<const std::uint32_t> waits) {
  const bool backward = writer_.is_backward();
  const CommGroup& group = backward ? data_.among.backward : data_.among.forward;
  if (is_alone(group) && !host_.copies().states.parameters) return kNoTransfer;
  const std::vector<std::uint32_t> after = with_host(bytes / data_.bytes.fetched, group, waits);
  if (is_alone(group)) return after.front();
  const char* what = data_.is_frozen() ? (backward ? "frozen parameters, backward" : "frozen parameters, forward")
                                       : (backward ? "parameters, backward" : "parameters, forward");
  return writer_.transfer(transfer(CollectiveOp::all_gather, bytes, what, group), after);
}

/// One pass over the buffer: from the flat one into the parts of the list, or the other way.
sim::Duration DataTransfers::list_copy(double bytes) const {
  if (!data_.fetches.collectives_by_list) return {};
  return prices_.device.streaming(calibration::Streaming::copy, 2 * bytes);
}

std::uint32_t DataTransfers::gather_weight(double bytes, const char* what, sim::Duration host,
                                           std::span<const std::uint32_t> waits) {
  const std::vector<std::uint32_t> after = with_host(bytes / data_.bytes.parameter, data_.among.owners, waits);
  ProgramWriter::Transfer t = transfer(CollectiveOp::all_gather, bytes, what, data_.among.owners);
  t.cost.latency += list_copy(bytes);
  t.issue = host;
  return writer_.transfer(t, after);
}

void DataTransfers::reduce_tensors(double parameters, std::int64_t tensors, bool complete) {
  if (tensors == 0) return;
  const double bytes = parameters * data_.bytes.gradient;
  ProgramWriter::Transfer t = transfer(CollectiveOp::reduce_scatter, bytes, "gradients, backward", data_.among.owners);
  // All calls but one move what is left of the bytes: nothing. Each has its own way round the ranks.
  const sim::Duration empty = prices_.of(CollectiveOp::reduce_scatter, 0, data_.among.owners).latency;
  t.cost.latency += list_copy(bytes) + empty * (tensors - 1);
  t.issue = data_.by_weight.call * tensors;
  last_reduction_ = writer_.transfer(t, writer_.after_compute());
  if (complete || !data_.fetches.reduces_groups_once()) reduce_across_repeats(bytes);
  leave(parameters);
}

void DataTransfers::reduce(double bytes) {
  last_reduction_ = writer_.transfer(transfer(data_.reduction(), bytes, "gradients, backward", data_.among.owners),
                                     writer_.after_compute());
  reduce_across_repeats(bytes);
}

/// Blocks of int4 are quantised ahead of their exchange; behind it what arrived is read and added up.
void DataTransfers::reduce_pass(double parameters) {
  const CommGroup& group = data_.among.reduced;
  if (is_alone(group)) return;
  const double bytes = parameters * data_.bytes.exchanged;
  const bool quantised = data_.fetches.quantised_reductions();
  if (quantised) stream("quantise gradients", parameters * data_.bytes.gradient + bytes);
  ProgramWriter::Transfer t = transfer(data_.reduction(), bytes, "gradients, backward", group);
  const double kept = parameters * data_.bytes.gradient / static_cast<double>(data_.among.ranks.gradients);
  if (quantised) t.cost.latency += prices_.device.streaming(calibration::Streaming::copy, bytes + kept);
  last_reduction_ = writer_.transfer(t, writer_.after_compute());
}

/// What a pass, or all of them, left of the gradients on the ranks that they were reduced over.
void DataTransfers::reduce_between_parts(double parameters, bool complete) {
  const double bytes = parameters * data_.bytes.gradient;
  bool reduced = !is_alone(data_.among.reduced);  // some of the way; else they come straight from the pass
  if (data_.among.ranks.gradients < data_.owners && complete) {
    const double part = bytes / static_cast<double>(data_.among.ranks.gradients);
    const ProgramWriter::Transfer t =
        transfer(CollectiveOp::reduce_scatter, part, "gradients, between their groups", CommGroup::gradient_parts);
    const std::uint32_t pass = last_reduction_;
    last_reduction_ = writer_.transfer(t, reduced ? std::span(&pass, 1) : writer_.after_compute());
    reduced = true;
  }
  if (complete || !data_.fetches.reduces_groups_once()) reduce_across_repeats(bytes, reduced);
}

void DataTransfers::gather_new(double parameters) {
  if (data_.among.ranks.weights >= data_.owners) return;
  const double part = parameters * data_.bytes.parameter / static_cast<double>(data_.among.ranks.weights);
  writer_.transfer(transfer(CollectiveOp::all_gather, part, "new parameters, after the step", CommGroup::new_weights),
                   writer_.ready_to_compute());
}

void DataTransfers::reduce_unit(double parameters, const Layer* layer, bool complete) {
  if (!data_.to_owners) {
    reduce_pass(parameters);
    reduce_between_parts(parameters, complete);
    return leave(parameters);
  }
  const double bytes = parameters * data_.bytes.gradient;
  ProgramWriter::Transfer t = transfer(data_.reduction(), bytes, "gradients, backward", data_.among.owners);
  t.cost = owner_reductions(parameters, layer, data_.bytes.gradient, prices_);
  last_reduction_ = writer_.transfer(t, writer_.after_compute());
  if (complete) reduce_across_repeats(bytes);
  leave(parameters);
}

void DataTransfers::reduce_across_repeats(double bytes, bool reduced) {
  if (data_.repeats() == 1) return;
  const double part = bytes / static_cast<double>(data_.owners);
  const std::int64_t groups = data_.repeats();
  ProgramWriter::Transfer t{data_.among.repeats};
  t.cost = prices_.of(CollectiveOp::all_reduce, part, data_.among.repeats);
  t.issue = library_.call_of(data_.among.repeats);
  t.traffic = library_.traffic({data_.among.repeats, CollectiveOp::all_reduce, "gradients, between shard groups",
                                groups, part, wire_bytes(CollectiveOp::all_reduce, groups, part)});
  const std::uint32_t shared_out = last_reduction_;
  last_reduction_ = writer_.transfer(t, reduced ? std::span(&shared_out, 1) : writer_.after_compute());
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
