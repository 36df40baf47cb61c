// Units of a pass, entered one after the other. See unit_collectives.h.
#include "workloads/compile/unit_collectives.h"

#include <algorithm>

namespace orrery::workloads {

namespace {
constexpr std::uint32_t kNone = 0xffffffff;
}  // namespace

double covered_share(const UnitLoad& pass, double compute, const DataParallelism& data,
                     const CollectivePrices& prices) {
  const auto units = static_cast<double>(pass.units);
  const auto seconds = [&](CollectiveOp op, double bytes_each, const CommGroup& group) {
    if (!(group == data.among.owners) && prices.shapes[group].ranks == 1) return 0.0;
    const double bytes = pass.parameters / units * bytes_each;
    return units * prices.seconds_alone(prices.of(op, bytes, group), group);
  };
  double collectives = 0;
  const CommGroup& gathers = pass.reduces ? data.among.backward : data.among.forward;
  if (pass.gathers) collectives += seconds(CollectiveOp::all_gather, data.bytes.fetched, gathers);
  if (pass.reduces) collectives += seconds(CollectiveOp::reduce_scatter, data.bytes.exchanged, data.among.reduced);
  return compute > 0 ? std::min(1.0, collectives / compute) : 1.0;
}

void UnitCollectives::begin(const Pass& pass, const PassTemplate& passes, const Turn& turn) {
  range_ = stage_.range(pass.chunk);
  turn_ = turn;
  turn_.gathers = turn.gathers && pass.kind != PassKind::weight_gradient;  // the gradient of weights needs no weights
  turn_.reduces = turn.reduces && ends_microbatch(pass.kind) && !data_.is_frozen();
  const std::int64_t blocks = std::max<std::int64_t>(1, stage_.blocks(range_));
  covered_ = covered_share({stage_.split.parameters(range_, data_.held), blocks, turn_.gathers, turn_.reduces},
                           compute_seconds(passes.of(pass.kind)), data_, prices_);
  units_.clear();
  const bool forward = pass.kind == PassKind::forward;
  double ends = 0;
  for (std::int64_t i = 0; i < range_.size(); ++i) {
    const std::int64_t place = forward ? i : range_.size() - 1 - i;
    const double held = stage_.split.parameters_of(range_.begin + place, data_.held);
    if (stage_.split.is_block(range_.begin + place))
      units_.push_back({static_cast<std::int32_t>(place), held, kNone});
    else
      ends += held * data_.bytes.ends;
  }
  if (units_.empty()) units_.push_back({-1, 0, kNone});
  units_.front().parameters += ends;
  entered_ = false;
  gather(0);
}

void UnitCollectives::gather(std::size_t i) {
  if (!turn_.gathers || i >= units_.size() || units_[i].gather != kNone || is_empty(units_[i])) return;
  units_[i].gather = transfers_.gather(units_[i].parameters * data_.bytes.fetched, writer_.after_compute());
}

void UnitCollectives::enter(std::int32_t layer) {
  std::size_t i = entered_ ? unit_ : 0;
  while (layer >= 0 && i + 1 < units_.size() && units_[i].layer != layer) ++i;
  if (entered_ && i == unit_) return;
  if (entered_) reduce(unit_);
  unit_ = i;
  entered_ = true;
  gather(i);
  if (units_[i].gather != kNone) {
    writer_.next_waits_for(units_[i].gather);
    // A byte read and a parameter written; what was quantised ahead of the gather is a small part of it.
    if (data_.fetches.quantised_fetches())
      transfers_.stream("dequantise weights", units_[i].parameters * (data_.bytes.fetched + data_.bytes.parameter));
  }
  if (data_.overlaps_parameters) gather(i + 1);
}

void UnitCollectives::reduce(std::size_t i) {
  const Unit& unit = units_[i];
  if (!turn_.reduces || is_empty(unit)) return;
  const Layer* layer = unit.layer < 0 ? nullptr : &stage_.split.network.layer(range_.begin + unit.layer);
  transfers_.reduce_unit(unit.parameters, layer, turn_.complete);
  if (!data_.overlaps_gradients) transfers_.await_reductions();
}

void UnitCollectives::end() { reduce(entered_ ? unit_ : 0); }

}  // namespace orrery::workloads
