// Operations of a program from items and transfers. See program_writer.h.
#include "workloads/compile/program_writer.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"

namespace orrery::workloads {

std::uint32_t ProgramWriter::slot_of(const CommGroup& group, End end) const {
  const auto it = std::find_if(slots_.begin(), slots_.end(),
                               [&](const GroupSlot& slot) { return slot.group == group && slot.end == end; });
  SIM_CHECK(it != slots_.end(), "no communicator for {} (group {})", group.name, group.order);
  return static_cast<std::uint32_t>(it - slots_.begin());
}

OpNote ProgramWriter::note() const {
  OpNote n;
  n.microbatch = pass_.microbatch;
  n.chunk = static_cast<std::int16_t>(pass_.chunk);
  n.kind = pass_.kind;
  n.within_pass = within_pass_;
  return n;
}

std::uint32_t ProgramWriter::compute(const PassItem& item, Category category, double slower) {
  sim::Op op;
  op.kind = sim::OpKind::compute;
  op.stream = Stream::compute.order;
  op.category = static_cast<std::uint8_t>(category);
  op.duration = slower == 1.0 ? item.duration : scaled(item.duration, slower);
  op.issue = item.issue;
  op.issue_bound = item.issue_bound + (op.duration - item.duration);
  op.host_waits = item.host_waits;
  op.loaded = item.shares.routed;
  waits_.swap(next_waits_);
  next_waits_.clear();
  std::erase_if(pending_, [&](Pending& p) {
    if (p.passes_by-- > 0) return false;
    waits_.push_back(p.op);
    return true;
  });
  OpNote n = note();
  n.run = item.run;
  notes.push_back(n);
  any_compute_ = true;
  return last_compute_ = program.add(op, waits_);
}

std::uint32_t ProgramWriter::compute_at_once(const PassItem& item, Category category) {
  std::vector<std::uint32_t> waits;
  std::vector<Pending> pending;
  std::swap(waits, next_waits_);
  std::swap(pending, pending_);
  const std::uint32_t op = compute(item, category, 1.0);
  std::swap(waits, next_waits_);
  std::swap(pending, pending_);
  return op;
}

std::uint32_t ProgramWriter::compute_before(const PassItem& item, Category category, double slower) {
  std::vector<Pending> pending;
  std::swap(pending, pending_);
  const std::uint32_t op = compute(item, category, slower);
  std::swap(pending, pending_);
  return op;
}

std::uint32_t ProgramWriter::transfer(const Transfer& t, std::span<const std::uint32_t> waits) {
  sim::Op op;
  op.kind = sim::OpKind::transfer;
  op.slot = slot_of(t.group, t.end);
  const GroupSlot& slot = slots_[op.slot];
  op.stream = t.stream.value_or(slot.stream).order;
  op.category = static_cast<std::uint8_t>(slot.category);
  op.host_waits = t.host_waits;
  op.issue = t.issue.value_or(transfer_issue_);
  op.duration = t.cost.latency;
  op.pattern = static_cast<std::uint32_t>(t.cost.pattern);
  op.work = t.cost.work;
  op.rate_cap = t.cost.rate_cap;
  OpNote n = note();
  n.traffic = t.traffic;
  n.share = t.share;
  n.counts = t.counts;
  notes.push_back(n);
  return program.add(op, waits);
}

void ProgramWriter::pass_operation(sim::Op op, std::uint32_t note_of_pass) {
  op.stream = Stream::compute.order;
  op.category = static_cast<std::uint8_t>(Category::compute);
  OpNote n = note();
  n.whole = note_of_pass;
  notes.push_back(n);
  any_compute_ = true;
  last_compute_ = program.add(op, next_waits_);
  next_waits_.clear();
}

void ProgramWriter::whole_pass(const WholePass& pass, std::uint32_t note_of_pass) {
  sim::Op op;
  op.kind = sim::OpKind::compute;
  op.duration = pass.duration;
  op.issue = pass.issue;
  op.issue_bound = pass.issue_bound;
  pass_operation(op, note_of_pass);
}

void ProgramWriter::stretch(const WholePass& pass, std::uint32_t note_of_pass) {
  const auto known = std::find(stretches_.begin(), stretches_.end(), &pass);
  sim::Op op;
  op.pattern = static_cast<std::uint32_t>(known - stretches_.begin());
  if (known == stretches_.end()) {
    stretches_.push_back(&pass);
    program.stretches.push_back(pass.stretch);
  }
  op.slot = slot_of(CommGroup::tensor, End::member);
  op.kind = sim::OpKind::stretch;
  op.issue = pass.issue;
  pass_operation(op, note_of_pass);
  op.kind = sim::OpKind::stretch_transfers;
  op.stream = slots_[op.slot].stream.order;
  op.category = static_cast<std::uint8_t>(slots_[op.slot].category);
  op.issue = {};
  notes.push_back(note());
  program.add(op);
}

void ProgramWriter::settle() {
  for (const Pending& p : pending_) next_waits_.push_back(p.op);
  pending_.clear();
}

}  // namespace orrery::workloads
