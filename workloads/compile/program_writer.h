// Writes the operations of one program: finds its communicators, notes what each operation is for, and keeps the
// waits that the next compute operation has to honour.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "workloads/compile/pass_template.h"

namespace orrery::workloads {

class ProgramWriter {
 public:
  /// `slots`: what the program's ranks have communicators for; must stay valid. `transfer_issue`: host time to launch a
  /// transfer.
  ProgramWriter(const std::vector<GroupSlot>& slots, sim::Duration transfer_issue)
      : slots_(slots), transfer_issue_(transfer_issue) {}

  struct Transfer {
    CommGroup group;
    CollectiveCost cost = {};
    std::uint32_t traffic = kNoTraffic;
    double share = 1.0;
    bool counts = true;
    bool host_waits = false;
    End end = End::member;
    std::optional<Stream> stream = {};        // where it is not the group's
    std::optional<sim::Duration> issue = {};  // host time to launch it, where it is not that of any transfer
  };

  /// What the operations that follow belong to; outside passes chunk and micro-batch are -1.
  /// `within`: they are its own work, not messages before or behind it.
  void begin(const Pass& pass, bool within = false) {
    pass_ = pass;
    within_pass_ = within;
  }
  void end_passes() { pass_ = {PassKind::forward, -1, -1}; }
  const Pass& pass() const { return pass_; }
  bool is_backward() const { return pass_.kind != PassKind::forward; }

  /// Adds a compute operation that takes `slower` times as long as the item says; returns its index.
  std::uint32_t compute(const PassItem& item, Category category, double slower = 1.0);
  /// Adds one that follows the last compute operation and waits for nothing else; what the next one has to wait for
  /// stays as it is.
  std::uint32_t compute_at_once(const PassItem& item, Category category);
  /// Adds one that waits for what the next one has to wait for, and passes no collective by.
  std::uint32_t compute_before(const PassItem& item, Category category, double slower);
  /// Adds a transfer that waits for these operations; returns its index.
  std::uint32_t transfer(const Transfer& t, std::span<const std::uint32_t> waits);
  /// Adds a pass as one operation, `note` its row of StagePrograms::whole_passes; nothing may be pending.
  void whole_pass(const WholePass& pass, std::uint32_t note);

  /// Adds a pass as a stretch, likewise. `pass` must stay valid.
  void stretch(const WholePass& pass, std::uint32_t note);

  /// The last compute operation, as a list of waits; empty before the first.
  std::span<const std::uint32_t> after_compute() const {
    return {&last_compute_, any_compute_ ? std::size_t{1} : std::size_t{0}};
  }
  /// The last compute operation and all that the next one waits for: what a collective waits for that is issued there.
  /// Valid until the next call.
  std::span<const std::uint32_t> ready_to_compute() {
    ready_ = next_waits_;
    if (any_compute_) ready_.push_back(last_compute_);
    return ready_;
  }
  /// Whether a later compute operation still has to wait for a collective begun before.
  bool is_pending() const { return !pending_.empty(); }
  /// The next compute operation waits for `op`; or the one after `passes_by` more.
  void next_waits_for(std::uint32_t op) { next_waits_.push_back(op); }
  void later_waits_for(std::uint32_t op, std::int32_t passes_by) { pending_.push_back({op, passes_by}); }
  /// The next compute operation waits for all that a later one would wait for.
  void settle();

  sim::Program program;
  std::vector<OpNote> notes;
  std::vector<std::int32_t> slowed;  // StagePrograms::slowed

 private:
  /// Adds the compute operation that stands for a pass.
  void pass_operation(sim::Op op, std::uint32_t note);
  struct Pending {
    std::uint32_t op;
    std::int32_t passes_by;
  };
  std::uint32_t slot_of(const CommGroup& group, End end) const;
  OpNote note() const;

  const std::vector<GroupSlot>& slots_;
  sim::Duration transfer_issue_;
  Pass pass_{PassKind::forward, -1, -1};
  bool within_pass_ = false, any_compute_ = false;
  std::uint32_t last_compute_ = 0;
  std::vector<std::uint32_t> next_waits_, waits_, ready_;  // the latter two: kept for their memory
  std::vector<Pending> pending_;
  std::vector<const WholePass*> stretches_;  // by row of Program::stretches
};

}  // namespace orrery::workloads
