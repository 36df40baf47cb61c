// Compiling programs; see compiled.h.
#include "sim/compiled.h"

#include <algorithm>

namespace orrery::sim {

namespace {

/// Rows of the program whose finish must be kept: somebody on another stream waits for it, or the host does.
std::vector<std::uint32_t> number_signals(const Program& program, std::uint32_t& signals) {
  std::vector<std::uint32_t> signal(program.size(), kNoSignal);
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.host_waits[op] != 0) signal[op] = 0;
    for (const std::uint32_t wait : program.waits_of(op)) {
      if (program.stream[wait] != program.stream[op]) signal[wait] = 0;
    }
  }
  signals = 0;
  for (std::uint32_t& s : signal) {
    if (s != kNoSignal) s = signals++;
  }
  return signal;
}

void list_transfers_by_slot(CompiledProgram& compiled) {
  std::uint32_t slots = 0;
  for (const CompiledOp& op : compiled.ops) {
    if (op.slot != kNoSlot) slots = std::max(slots, op.slot + 1);
  }
  std::vector<std::vector<std::uint32_t>> rows(slots);
  for (std::uint32_t row = 0; row < compiled.ops.size(); ++row) {
    if (compiled.ops[row].slot != kNoSlot) rows[compiled.ops[row].slot].push_back(row);
  }
  compiled.slot_begin.assign(1, 0);
  for (auto& of_slot : rows) {
    std::sort(of_slot.begin(), of_slot.end(),
              [&](std::uint32_t a, std::uint32_t b) { return compiled.ops[a].op < compiled.ops[b].op; });
    for (std::uint32_t k = 0; k < of_slot.size(); ++k) compiled.ops[of_slot[k]].occurrence = k;
    compiled.slot_ops.insert(compiled.slot_ops.end(), of_slot.begin(), of_slot.end());
    compiled.slot_begin.push_back(static_cast<std::uint32_t>(compiled.slot_ops.size()));
  }
}

}  // namespace

CompiledProgram compile(const Program& program, std::uint8_t streams) {
  CompiledProgram compiled;
  const std::vector<std::uint32_t> signal = number_signals(program, compiled.signals);

  std::vector<std::int64_t> host_start(program.size());
  std::vector<std::uint32_t> segment(program.size());
  std::int64_t clock = 0;
  std::uint32_t current = kNoSignal;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    host_start[op] = clock;
    segment[op] = current;
    clock += program.issue[op];
    if (program.host_waits[op] != 0) {
      clock = 0;
      current = signal[op];
    }
  }

  compiled.ops.reserve(program.size());
  for (std::uint8_t s = 0; s < streams; ++s) {
    compiled.stream_begin.push_back(static_cast<std::uint32_t>(compiled.ops.size()));
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      if (program.stream[op] != s) continue;
      const bool transfer = program.kind[op] == OpKind::transfer;
      CompiledOp row;
      row.duration = program.duration[op];
      row.host_start = host_start[op];
      row.host_bound = transfer ? program.issue[op] : program.issue_bound[op];
      row.op = op;
      row.segment = segment[op];
      row.signal = signal[op];
      row.slot = transfer ? program.slot[op] : kNoSlot;
      row.stream = s;
      row.waits_begin = static_cast<std::uint32_t>(compiled.waits.size());
      for (const std::uint32_t wait : program.waits_of(op)) {
        if (program.stream[wait] != s) compiled.waits.push_back(signal[wait]);  // its own stream is in order anyway
      }
      row.waits_end = static_cast<std::uint32_t>(compiled.waits.size());
      compiled.ops.push_back(row);
    }
  }
  compiled.stream_begin.push_back(static_cast<std::uint32_t>(compiled.ops.size()));
  list_transfers_by_slot(compiled);
  return compiled;
}

}  // namespace orrery::sim
