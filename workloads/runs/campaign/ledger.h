// What a campaign has done and saved, by step number: which stretches count, in which state of the machine they were
// run, and from which step it could go on.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/runs/campaign/plan.h"
#include "workloads/runs/campaign/progress.h"

namespace orrery::campaign {

/// Stretches of steps that count, in order, without gaps from step 0.
class Ledger {
 public:
  explicit Ledger(const Plan& plan) : plan_(plan) {}
  void add(std::int64_t from, std::int64_t to, std::size_t state);
  /// Takes back all from `step` on; returns the time that it took.
  Elapsed roll_back(std::int64_t step);
  std::int64_t steps() const { return stretches_.empty() ? 0 : stretches_.back().to; }
  void add_content_to(Shares& shares) const;

 private:
  struct Stretch {
    std::int64_t from, to;
    std::size_t state;
  };
  const Plan& plan_;
  std::vector<Stretch> stretches_;
};

/// The newest checkpoint of every tier that can be loaded.
class Saves {
 public:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  explicit Saves(const Plan& plan) : plan_(plan), tiers_(plan.saves.size()) {}
  /// A stretch from `from`, begun at `begin` in that state, has reached `step` at `now`: what was taken on the way.
  void note(std::int64_t from, Elapsed begin, std::size_t state, std::int64_t step, Elapsed now);
  /// All of `step` lies everywhere.
  void note_all(std::int64_t step);
  /// A failure took with it what it takes.
  void lose(Loses loses);
  struct Newest {
    std::int64_t step = 0;
    std::size_t tier = kNone;  // none: the beginning
  };
  /// Of equal ones the quickest to load.
  Newest newest() const;
  /// What is newer than `step` is gone: the job went on from there.
  void forget_after(std::int64_t step);

 private:
  struct Tier {
    std::int64_t step = 0;  // 0: nothing
    std::int64_t pending = 0;
    Elapsed pending_at = kNoTime;  // when `pending` can be loaded
  };
  const Plan& plan_;
  std::vector<Tier> tiers_;
};

}  // namespace orrery::campaign
