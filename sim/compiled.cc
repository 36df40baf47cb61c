// Compiling programs; see compiled.h.
#include "sim/compiled.h"

#include <algorithm>
#include <numeric>

namespace orrery::sim {

namespace {

/// For each operation the row that keeps its finish; none where nobody on another stream waits for it, nor the host.
class SignalRows {
 public:
  SignalRows(const Program& program, std::uint8_t streams, Rows rows) : program_(program), streams_(streams) {
    number_kept();
    if (rows == Rows::of_their_own) {
      std::iota(row_.begin(), row_.end(), 0u);
      rows_ = static_cast<std::uint32_t>(row_.size());
      return;
    }
    readers_.assign(row_.size() * streams_, 0);
    find_readers();
    clocks_.resize(readers_.size());
    latest_.assign(std::size_t{streams_} * streams_, 0);
    candidates_.resize(streams_);
    turns_.resize(streams_);
    in_turn_.assign(row_.size(), false);
    std::uint32_t host = kNoSignal;
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      advance_clock(op, host);
      if (kept_[op] != kNoSignal) assign(op);
      if (program.host_waits[op] != 0) host = op;
    }
  }

  std::uint32_t rows() const { return rows_; }
  std::uint32_t row_of(std::uint32_t op) const { return kept_[op] == kNoSignal ? kNoSignal : row_[kept_[op]]; }
  bool in_turn(std::uint32_t op) const { return kept_[op] != kNoSignal && !in_turn_.empty() && in_turn_[kept_[op]]; }

 private:
  struct Candidate {
    std::uint32_t row = 0;
    std::uint32_t kept = 0;  // whose finish it holds
  };

  struct Turns {
    std::vector<std::uint32_t> rows;
    std::uint32_t taken = 0;
  };

  std::uint32_t* of(std::vector<std::uint32_t>& table, std::uint32_t kept) {
    return table.data() + std::size_t{kept} * streams_;
  }

  void number_kept() {
    kept_.assign(program_.size(), kNoSignal);
    for (std::uint32_t op = 0; op < program_.size(); ++op) {
      if (program_.host_waits[op] != 0) kept_[op] = 0;
      for (const std::uint32_t wait : program_.waits_of(op)) {
        if (program_.stream[wait] != program_.stream[op]) kept_[wait] = 0;
      }
    }
    std::uint32_t count = 0;
    for (std::uint32_t& kept : kept_) {
      if (kept != kNoSignal) kept = count++;
    }
    row_.resize(count);
  }

  /// By kept operation and stream: one more than the last operation that reads its row.
  void find_readers() {
    std::uint32_t host = kNoSignal;
    for (std::uint32_t op = 0; op < program_.size(); ++op) {
      const std::uint8_t stream = program_.stream[op];
      if (host != kNoSignal) of(readers_, kept_[host])[stream] = op + 1;
      for (const std::uint32_t wait : program_.waits_of(op)) {
        if (program_.stream[wait] != stream) of(readers_, kept_[wait])[stream] = op + 1;
      }
      if (program_.host_waits[op] != 0) host = op;
    }
  }

  /// A vector clock (Fidge; Mattern): by stream, one more than its last operation that has started when `op` finishes.
  void advance_clock(std::uint32_t op, std::uint32_t host) {
    std::uint32_t* clock = of(latest_, program_.stream[op]);
    const auto after = [&](std::uint32_t earlier) {
      const std::uint32_t* other = of(clocks_, kept_[earlier]);
      for (std::uint8_t s = 0; s < streams_; ++s) clock[s] = std::max(clock[s], other[s]);
    };
    if (host != kNoSignal) after(host);
    for (const std::uint32_t wait : program_.waits_of(op)) {
      if (program_.stream[wait] != program_.stream[op]) after(wait);
    }
    clock[program_.stream[op]] = op + 1;
    if (kept_[op] != kNoSignal) std::copy_n(clock, streams_, of(clocks_, kept_[op]));
  }

  /// Takes a row of its stream that nobody reads any more when `op` finishes. Where that is true of none of a few, it
  /// takes one in turn (of what nothing in this program waits for the readers of).
  void assign(std::uint32_t op) {
    constexpr std::size_t kTried = 8;
    std::vector<Candidate>& candidates = candidates_[program_.stream[op]];
    const std::uint32_t* clock = of(clocks_, kept_[op]);
    for (Candidate& candidate : candidates) {
      const std::uint32_t* readers = of(readers_, candidate.kept);
      bool over = true;
      for (std::uint8_t s = 0; s < streams_; ++s) over = over && readers[s] <= clock[s];
      if (!over) continue;
      candidate.kept = kept_[op];
      row_[kept_[op]] = candidate.row;
      return;
    }
    if (candidates.size() < kTried) {
      row_[kept_[op]] = rows_;
      candidates.push_back({rows_++, kept_[op]});
      return;
    }
    constexpr std::uint32_t kTurns = 8;  // a power of two
    Turns& turns = turns_[program_.stream[op]];
    if (turns.taken < kTurns) turns.rows.push_back(rows_++);
    row_[kept_[op]] = turns.rows[turns.taken++ % kTurns];
    in_turn_[kept_[op]] = true;
  }

  const Program& program_;
  const std::uint8_t streams_;
  std::uint32_t rows_ = 0;
  std::vector<std::uint32_t> kept_;                 // operation -> number among those whose finish is kept
  std::vector<std::uint32_t> row_;                  // by that number
  std::vector<std::uint32_t> readers_;              // by that number and stream
  std::vector<std::uint32_t> clocks_;               // by that number and stream
  std::vector<std::uint32_t> latest_;               // by stream, the clock of its last operation
  std::vector<std::vector<Candidate>> candidates_;  // by stream
  std::vector<Turns> turns_;                        // by stream
  std::vector<bool> in_turn_;                       // by the number among those that are kept
};

/// Who reads what is kept in turn; operations are listed by now.
void list_readers(CompiledProgram& compiled, std::uint32_t operations, std::uint8_t streams) {
  std::vector<std::uint32_t> turn(operations, kNoTurn);
  std::uint32_t turns = 0;
  for (CompiledOp& op : compiled.ops) {
    if (op.turn != kNoTurn) op.turn = turn[op.op] = turns++;
  }
  compiled.turn_begin.assign(1, 0);
  if (turns == 0) return;
  std::vector<std::uint32_t> passed(std::size_t{turns} * streams, 0);
  for (std::uint32_t row = 0; row < compiled.ops.size(); ++row) {
    const CompiledOp& op = compiled.ops[row];
    const auto reads = [&](const Wait& wait) {
      if (wait.signal == kNoSignal || turn[wait.op] == kNoTurn) return;
      passed[std::size_t{turn[wait.op]} * streams + op.stream] = row + 1;  // later ones come later
    };
    for (std::uint32_t w = op.waits_begin; w < op.waits_end; ++w) reads(compiled.waits[w]);
    reads(op.segment);
  }
  for (std::uint32_t t = 0; t < turns; ++t) {
    for (std::uint32_t s = 0; s < streams; ++s) {
      if (const std::uint32_t row = passed[std::size_t{t} * streams + s]; row > 0) compiled.readers.push_back({s, row});
    }
    compiled.turn_begin.push_back(static_cast<std::uint32_t>(compiled.readers.size()));
  }
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
  const auto earlier = [&](std::uint32_t a, std::uint32_t b) { return compiled.ops[a].op < compiled.ops[b].op; };
  for (auto& of_slot : rows) {
    // As a rule those of one stream, and in order.
    if (!std::is_sorted(of_slot.begin(), of_slot.end(), earlier)) std::sort(of_slot.begin(), of_slot.end(), earlier);
    for (std::uint32_t k = 0; k < of_slot.size(); ++k) compiled.ops[of_slot[k]].occurrence = k;
    compiled.slot_ops.insert(compiled.slot_ops.end(), of_slot.begin(), of_slot.end());
    compiled.slot_begin.push_back(static_cast<std::uint32_t>(compiled.slot_ops.size()));
  }
}

}  // namespace

CompiledProgram compile(const Program& program, std::uint8_t streams, Rows rows) {
  CompiledProgram compiled;
  const SignalRows signals(program, streams, rows);
  compiled.signals = signals.rows();
  const auto wait_for = [&](std::uint32_t op) { return Wait{signals.row_of(op), op}; };

  std::vector<std::int64_t> host_start(program.size());
  std::vector<Wait> segment(program.size());
  std::int64_t clock = 0;
  Wait current;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    host_start[op] = clock;
    segment[op] = current;
    clock += program.issue[op];
    if (program.host_waits[op] != 0) {
      clock = 0;
      current = wait_for(op);
    }
  }

  std::vector<std::vector<std::uint32_t>> by_stream(streams);
  for (std::uint32_t op = 0; op < program.size(); ++op) by_stream[program.stream[op]].push_back(op);

  compiled.ops.reserve(program.size());
  for (std::uint8_t s = 0; s < streams; ++s) {
    compiled.stream_begin.push_back(static_cast<std::uint32_t>(compiled.ops.size()));
    for (const std::uint32_t op : by_stream[s]) {
      const bool transfer = program.kind[op] == OpKind::transfer;
      CompiledOp row;
      row.duration = program.duration[op];
      row.host_start = host_start[op];
      row.host_bound = transfer ? program.issue[op] : program.issue_bound[op];
      row.op = op;
      row.segment = segment[op];
      row.signal = signals.row_of(op);
      row.turn = signals.in_turn(op) ? 0 : kNoTurn;
      row.slot = transfer ? program.slot[op] : kNoSlot;
      row.stream = s;
      row.kind = program.kind[op];
      row.waits_begin = static_cast<std::uint32_t>(compiled.waits.size());
      for (const std::uint32_t wait : program.waits_of(op)) {
        if (program.stream[wait] != s) compiled.waits.push_back(wait_for(wait));  // its own stream is in order anyway
      }
      row.waits_end = static_cast<std::uint32_t>(compiled.waits.size());
      compiled.ops.push_back(row);
    }
  }
  compiled.stream_begin.push_back(static_cast<std::uint32_t>(compiled.ops.size()));
  list_transfers_by_slot(compiled);
  list_readers(compiled, program.size(), streams);
  return compiled;
}

}  // namespace orrery::sim
