// Weights of a pass, fetched one after the other. See weight_collectives.h.
#include "workloads/compile/weight_collectives.h"

#include <algorithm>
#include <map>
#include <utility>

namespace orrery::workloads {

namespace {
double sum_of(std::span<const Weights> weights, bool matrices) {
  double sum = 0;
  for (const Weights& w : weights) sum += w.is_matrix() == matrices ? w.elements : 0;
  return sum;
}
std::int64_t tensors_of(std::span<const Weights> weights, bool matrices) {
  std::int64_t sum = 0;
  for (const Weights& w : weights) sum += w.is_matrix() == matrices ? w.tensors : 0;
  return sum;
}
}  // namespace

std::vector<WeightUse> weight_uses(std::span<const PassItem> items, std::span<const double> embeddings) {
  std::vector<WeightUse> uses;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const PassItem& item = items[i];
    if (item.comm || item.layer < 0) continue;
    const double embedding = embeddings[static_cast<std::size_t>(item.layer)];
    if (item.weights.linear < 0 && embedding == 0) continue;
    const bool goes_on = !uses.empty() && uses.back().end == i && uses.back().layer == item.layer &&
                         uses.back().linear == item.weights.linear;
    if (goes_on) {
      uses.back().end = i + 1;
      continue;
    }
    WeightUse use{i, i + 1, item.layer, item.weights.linear};
    use.tensors = embedding > 0 ? 1 : item.weights.matrices;
    use.elements = embedding > 0 ? embedding : item.weights.elements;
    uses.push_back(use);
  }
  return uses;
}

void keep_for_reuse(std::vector<WeightUse>& uses, double distance) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> last;
  std::vector<double> through{0};  // elements of all uses up to and with this one
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto [known, fresh] = last.try_emplace({uses[i].layer, uses[i].linear}, i);
    if (!fresh) {
      WeightUse& before = uses[known->second];
      before.last = false;
      before.stays = uses[i].here = through[i] - through[known->second + 1] <= distance;
      known->second = i;
    }
    through.push_back(through.back() + uses[i].elements);
  }
}

void WeightCollectives::begin(const Pass& pass, const std::vector<PassItem>& items, const UnitCollectives::Turn& turn) {
  range_ = stage_.range(pass.chunk);
  turn_ = turn;
  turn_.gathers = turn.gathers && pass.kind != PassKind::weight_gradient;  // the gradient of weights needs no weights
  turn_.reduces = turn.reduces && ends_microbatch(pass.kind);
  std::vector<double> embeddings;
  for (std::int32_t place = 0; place < range_.size(); ++place) {
    const bool is = layer(place).kind == LayerKind::embedding;
    embeddings.push_back(is ? stage_.split.parameters_of(range_.begin + place, data_.held) : 0);
  }
  items_ = &items;
  uses_ = weight_uses(items, embeddings);
  keep_for_reuse(uses_, data_.fetches.reuse_distance);
  next_ = left_ = 0;
  in_flight_ = {};
  at_hand_ = 0;
  layer_ = -1;
  UnitLoad load{0, 0, turn_.gathers, turn_.reduces};
  for (const WeightUse& use : uses_) {
    load.parameters += use.here ? 0 : use.elements;
    load.units += use.here ? 0 : 1;
  }
  load.units = std::max<std::int64_t>(1, load.units - 1);
  covered_ = covered_share(load, compute_seconds(items), data_, prices_);
}

/// The host waits for all that it has launched; `cleared`: bytes of a buffer that is filled with zeros meanwhile.
void WeightCollectives::drain(double cleared) {
  if (data_.fetches.fetches != calibration::Fetches::by_weight_drained && cleared == 0) return;
  Kernel clear{cleared > 0 ? "clear gather buffer" : "wait for weights"};
  clear.bytes = cleared;
  if (cleared > 0) clear.time = prices_.device.streaming(calibration::Streaming::copy, cleared);
  PassItem item = library_.compute({clear}, -1);
  item.host_waits = data_.fetches.fetches == calibration::Fetches::by_weight_drained;
  if (item.host_waits) transfers_.await_reductions();
  writer_.compute(item, Category::compute);
}

void WeightCollectives::fetch(std::size_t use) {
  const double bytes = uses_[use].elements * data_.bytes.parameter;
  drain(data_.fetches.collectives_by_list ? bytes : 0);
  const char* what = writer_.is_backward() ? "parameters, backward" : "parameters, forward";
  in_flight_ = {
      transfers_.gather_weight(bytes, what, data_.by_weight.call * uses_[use].tensors, writer_.after_compute()), use};
  at_hand_ += uses_[use].elements;
}

/// The next weight that is not at hand, if none is on its way.
void WeightCollectives::fetch_ahead() {
  if (!turn_.gathers || !data_.overlaps_parameters || in_flight_.gather != kNone) return;
  const double most = data_.fetches.live_parameters;
  if (most > 0 && at_hand_ >= most) return;
  for (std::size_t use = next_; use < uses_.size(); ++use) {
    if (!uses_[use].here) return fetch(use);
  }
}

void WeightCollectives::take(WeightUse& use) {
  const auto at = static_cast<std::size_t>(&use - uses_.data());
  if (!turn_.gathers || use.here) return;
  if (in_flight_.gather == kNone) fetch(at);
  writer_.next_waits_for(in_flight_.gather);
  in_flight_ = {};
  drain(0);
}

void WeightCollectives::leave(const WeightUse& use) {
  if (turn_.gathers && !use.stays) at_hand_ -= use.elements;
  if (turn_.reduces && use.last && is_block(use.layer))
    transfers_.reduce_tensors(use.elements, use.tensors, turn_.complete);
}

/// What of a layer's gradients no linear layer had: norms and biases of a block, all of an embedding or a head.
void WeightCollectives::reduce_layer() {
  if (!turn_.reduces || layer_ < 0) return;
  const std::vector<Weights>& weights = layer(layer_).weights;
  double elements = sum_of(weights, false);
  std::int64_t tensors = tensors_of(weights, false);
  if (!is_block(layer_)) {
    elements += sum_of(weights, true);
    tensors += tensors_of(weights, true);
  }
  transfers_.reduce_tensors(elements, tensors, turn_.complete);
}

void WeightCollectives::enter(std::size_t item) {
  for (; left_ < next_ && uses_[left_].end <= item; ++left_) leave(uses_[left_]);
  if (const std::int32_t here = (*items_)[item].layer; here != layer_) {
    reduce_layer();
    layer_ = here;
  }
  if (next_ < uses_.size() && uses_[next_].begin == item) {
    take(uses_[next_]);
    ++next_;
  }
  fetch_ahead();
}

void WeightCollectives::end() {
  for (; left_ < next_; ++left_) leave(uses_[left_]);
  reduce_layer();
}

void WeightCollectives::gather_rest() {
  double elements = 0;
  std::int64_t tensors = 0;
  for (std::int64_t chunk = 0; chunk < stage_.chunks(); ++chunk) {
    const LayerRange& range = stage_.range(chunk);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const Layer& one = stage_.split.network.layer(i);
      if (one.kind == LayerKind::embedding) continue;
      const auto small = [&](const Weights& w) {
        return !w.is_matrix() && (one.kind == LayerKind::block || w.final_norm);
      };
      for (const Weights& w : one.weights) {
        elements += small(w) ? w.elements : 0;
        tensors += small(w) ? w.tensors : 0;
      }
    }
  }
  if (tensors == 0) return;
  const sim::Duration apart = data_.fetches.fetch_call_per_rank * (data_.owners * tensors);
  transfers_.gather_weight(elements * data_.bytes.parameter, "parameters, after the step", data_.by_weight.call + apart,
                           writer_.ready_to_compute());
}

}  // namespace orrery::workloads
