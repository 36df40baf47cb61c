// See pass_slots.h.
#include "workloads/compile/pass_slots.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "sim/error.h"

namespace orrery::workloads {

namespace {

/// What a pass makes for another: (gradient, stage, chunk, micro-batch).
using Product = std::tuple<bool, std::int64_t, std::int64_t, std::int32_t>;

Product product_of(const Pass& pass, std::int64_t stage) {
  return {sends_gradient(pass.kind), stage, pass.chunk, pass.microbatch};
}

/// What the pass waits for, made on another stage or on its own; nothing at the ends of the model.
std::optional<Product> input_of(const Pass& pass, std::int64_t stage, const ChunkMap& map) {
  if (pass.kind == PassKind::weight_gradient) return {};
  const Cell cell{stage, pass.chunk};
  const bool gradient = sends_gradient(pass.kind);
  const std::optional<Cell> source = gradient ? map.next(cell) : map.previous(cell);
  if (!source) return {};
  return Product{gradient, source->stage, source->chunk, pass.microbatch};
}

bool trains(const std::vector<Pass>& order) {
  return std::any_of(order.begin(), order.end(), [](const Pass& pass) { return pass.kind != PassKind::forward; });
}

/// `named`: of every pass, or none at all. Nothing where a pass would run ahead of what it needs.
std::optional<std::vector<std::vector<PassSlot>>> filled(const ChunkMap& map, const StageOrders& orders,
                                                         const std::vector<std::vector<std::int64_t>>& named) {
  std::vector<std::vector<PassSlot>> slots(orders.size());
  std::map<Product, std::int64_t> made;
  std::size_t left = 0;
  for (const std::vector<Pass>& order : orders) left += order.size();
  while (left > 0) {
    const std::size_t before = left;
    for (std::size_t s = 0; s < orders.size(); ++s) {
      const auto stage = static_cast<std::int64_t>(s);
      for (; slots[s].size() < orders[s].size(); --left) {
        const std::size_t at = slots[s].size();
        const Pass& pass = orders[s][at];
        PassSlot slot;
        if (at > 0) slot.runs = slots[s].back().runs + 1;
        if (const auto input = input_of(pass, stage, map)) {
          const auto maker = made.find(*input);
          if (maker == made.end()) break;  // its stage comes to it later
          slot.runs = std::max(slot.runs, maker->second + 1);
          if (std::get<1>(*input) != stage) slot.sent = maker->second;
        }
        if (!named.empty()) {
          if (named[s][at] < slot.runs) return {};
          slot.runs = named[s][at];
        }
        slots[s].push_back(slot);
        if (pass.kind != PassKind::weight_gradient) made[product_of(pass, stage)] = slot.runs;
      }
    }
    SIM_CHECK(left < before, "passes of {} stages wait for each other", orders.size());
  }
  return slots;
}

}  // namespace

std::vector<std::vector<PassSlot>> slots_of(const Schedule& schedule, const ChunkMap& map, const StageOrders& orders) {
  std::vector<std::vector<std::int64_t>> named;
  if (schedule.slots != nullptr && std::all_of(orders.begin(), orders.end(), trains)) {
    const PipelineShape shape{static_cast<std::int32_t>(map.stages()), static_cast<std::int32_t>(map.chunks())};
    for (const std::vector<Pass>& order : orders)
      named.push_back(schedule.slots(static_cast<std::int32_t>(named.size()), shape, order));
  }
  if (auto slots = filled(map, orders, named)) return *std::move(slots);
  return *filled(map, orders, {});
}

SlotWalk::SlotWalk(const std::vector<PassSlot>& slots) : slots_(slots) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].sent != PassSlot::kNone) as_sent_.push_back(i);
  }
  std::stable_sort(as_sent_.begin(), as_sent_.end(),
                   [&](std::size_t a, std::size_t b) { return slots[a].sent < slots[b].sent; });
}

std::optional<std::size_t> SlotWalk::sent_ahead_of(std::size_t next) {
  if (taken_ == as_sent_.size() || slots_[as_sent_[taken_]].sent >= slots_[next].runs) return {};
  return as_sent_[taken_++];
}

}  // namespace orrery::workloads
