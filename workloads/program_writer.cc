// Operations of a program from items and transfers. See program_writer.h.
#include "workloads/program_writer.h"

#include <algorithm>
#include <cmath>

namespace orrery::workloads {

std::uint32_t ProgramWriter::slot_of(Peer peer) {
  const auto it = std::find(slots.begin(), slots.end(), peer);
  if (it != slots.end()) return static_cast<std::uint32_t>(it - slots.begin());
  slots.push_back(peer);
  return static_cast<std::uint32_t>(slots.size() - 1);
}

OpNote ProgramWriter::note() const {
  OpNote n;
  n.microbatch = pass_.microbatch;
  n.chunk = static_cast<std::int16_t>(pass_.chunk);
  n.kind = pass_.kind;
  return n;
}

std::uint32_t ProgramWriter::compute(const PassItem& item, Category category, double slower) {
  sim::Op op;
  op.kind = sim::OpKind::compute;
  op.stream = static_cast<std::uint8_t>(Stream::compute);
  op.category = static_cast<std::uint8_t>(category);
  op.duration =
      slower == 1.0 ? item.duration : sim::Duration(std::llround(static_cast<double>(item.duration.value()) * slower));
  op.issue = item.issue;
  op.issue_bound = item.issue_bound + (op.duration - item.duration);
  std::vector<std::uint32_t> waits = std::move(next_waits_);
  next_waits_.clear();
  std::erase_if(pending_, [&](Pending& p) {
    if (p.passes_by-- > 0) return false;
    waits.push_back(p.op);
    return true;
  });
  OpNote n = note();
  n.run = item.run;
  notes.push_back(n);
  any_compute_ = true;
  return last_compute_ = program.add(op, waits);
}

std::uint32_t ProgramWriter::transfer(const Transfer& t, const std::vector<std::uint32_t>& waits) {
  sim::Op op;
  op.kind = sim::OpKind::transfer;
  op.stream = static_cast<std::uint8_t>(t.stream);
  op.category = static_cast<std::uint8_t>(t.category);
  op.host_waits = t.host_waits;
  op.issue = job_.software.transfer_issue;
  op.duration = t.cost.latency;
  op.slot = slot_of(t.peer);
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

std::vector<std::uint32_t> ProgramWriter::after_compute() const {
  return any_compute_ ? std::vector<std::uint32_t>{last_compute_} : std::vector<std::uint32_t>{};
}

void ProgramWriter::settle() {
  for (const Pending& p : pending_) next_waits_.push_back(p.op);
  pending_.clear();
}

}  // namespace orrery::workloads
