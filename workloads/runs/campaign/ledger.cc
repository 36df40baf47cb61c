// Stretches and checkpoints.
#include "workloads/runs/campaign/ledger.h"

#include <algorithm>

namespace orrery::campaign {

void Ledger::add(std::int64_t from, std::int64_t to, std::size_t state) {
  SIM_CHECK(from == steps(), "a stretch from step {} behind step {}", from, steps());
  if (to == from) return;
  if (!stretches_.empty() && stretches_.back().state == state)
    stretches_.back().to = to;
  else
    stretches_.push_back({from, to, state});
}

Elapsed Ledger::roll_back(std::int64_t step) {
  Elapsed lost{};
  while (steps() > step) {
    Stretch& last = stretches_.back();
    const std::int64_t from = std::max(step, last.from);
    lost += time_until(plan_, last.to, last.state) - time_until(plan_, from, last.state);
    last.to = from;
    if (last.to == last.from) stretches_.pop_back();
  }
  return lost;
}

void Ledger::add_content_to(Shares& shares) const {
  for (const Stretch& stretch : stretches_) add_content(plan_, stretch.from, stretch.to, stretch.state, shares);
}

void Saves::note(std::int64_t from, Elapsed begin, std::size_t state, std::int64_t step, Elapsed now) {
  const Elapsed before = time_until(plan_, from, state);
  for (std::size_t k = 0; k < tiers_.size(); ++k) {
    const Save& save = plan_.saves[k];
    Tier& tier = tiers_[k];
    if (tier.pending_at <= now) {
      tier.step = std::max(tier.step, tier.pending);
      tier.pending_at = kNoTime;
    }
    const std::int64_t last = step / save.every * save.every;
    for (std::int64_t taken = last; taken > from; taken -= save.every) {
      const Elapsed durable = begin + (time_until(plan_, taken, state) - before) + save.durable;
      if (durable <= now) {
        tier.step = taken;
        break;
      }
      tier.pending = taken;
      tier.pending_at = durable;
    }
  }
}

void Saves::note_all(std::int64_t step) {
  for (Tier& tier : tiers_) tier = {step, 0, kNoTime};
}

void Saves::lose(Loses loses) {
  for (std::size_t k = 0; k < tiers_.size(); ++k) {
    // What was on its way to a tier goes with the processes that sent it.
    tiers_[k].pending_at = kNoTime;
    const Store store = plan_.saves[k].to;
    const bool gone =
        (store == Store::host && loses != Loses::process) || (store == Store::neighbour && loses == Loses::group);
    if (gone) tiers_[k].step = 0;
  }
}

Saves::Newest Saves::newest() const {
  Newest newest;
  for (std::size_t k = 0; k < tiers_.size(); ++k) {
    if (tiers_[k].step == 0 || tiers_[k].step < newest.step) continue;
    const bool quicker =
        newest.tier == kNone || tiers_[k].step > newest.step || plan_.saves[k].load < plan_.saves[newest.tier].load;
    if (quicker) newest = {tiers_[k].step, k};
  }
  return newest;
}

void Saves::forget_after(std::int64_t step) {
  for (Tier& tier : tiers_) {
    if (tier.step > step) tier.step = 0;
    tier.pending_at = kNoTime;
  }
}

}  // namespace orrery::campaign
