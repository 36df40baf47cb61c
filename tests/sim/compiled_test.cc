// Does a row of the table of signals only pass to an operation that must wait for everyone who reads it?
#include "sim/compiled.h"

#include <map>
#include <vector>

#include "tests/catch.h"
#include "tests/sim/random_plan.h"

using namespace orrery;
using sim::kNoSignal;

namespace {

/// precedes[a][b]: operation a has started before b can finish, by streams, waits and the host alone; the slow way.
std::vector<std::vector<bool>> order_of(const sim::Program& program) {
  const std::uint32_t n = program.size();
  std::vector<std::vector<bool>> precedes(n, std::vector<bool>(n, false));
  std::uint32_t host = kNoSignal;
  std::map<std::uint8_t, std::uint32_t> last;
  for (std::uint32_t b = 0; b < n; ++b) {
    precedes[b][b] = true;
    std::vector<std::uint32_t> before(program.waits_of(b).begin(), program.waits_of(b).end());
    if (host != kNoSignal) before.push_back(host);
    if (last.contains(program.stream[b])) before.push_back(last[program.stream[b]]);
    for (const std::uint32_t c : before) {
      for (std::uint32_t a = 0; a < n; ++a) {
        if (precedes[a][c]) precedes[a][b] = true;
      }
    }
    last[program.stream[b]] = b;
    if (program.host_waits[b] != 0) host = b;
  }
  return precedes;
}

struct RowTable {
  std::map<std::uint32_t, std::uint32_t> of_op;                 // operation -> row
  std::map<std::uint32_t, std::vector<std::uint32_t>> readers;  // operation -> who reads its row
  std::map<std::uint32_t, std::uint32_t> in_turn;               // operation -> its row of CompiledProgram::readers
};

RowTable rows_of(const sim::CompiledProgram& compiled) {
  RowTable rows;
  for (const sim::CompiledOp& op : compiled.ops) {
    if (op.signal != kNoSignal) rows.of_op[op.op] = op.signal;
    if (op.turn != sim::kNoTurn) rows.in_turn[op.op] = op.turn;
    for (std::uint32_t w = op.waits_begin; w < op.waits_end; ++w) {
      rows.readers[compiled.waits[w].op].push_back(op.op);
    }
    if (op.segment.signal != kNoSignal) rows.readers[op.segment.op].push_back(op.op);
  }
  for (const sim::CompiledOp& op : compiled.ops) {  // who waits looks where the other one writes
    for (std::uint32_t w = op.waits_begin; w < op.waits_end; ++w) {
      REQUIRE(rows.of_op.at(compiled.waits[w].op) == compiled.waits[w].signal);
    }
    if (op.segment.signal != kNoSignal) REQUIRE(rows.of_op.at(op.segment.op) == op.segment.signal);
  }
  return rows;
}

sim::Program random_program(test::Random& random, std::uint32_t size, std::uint8_t streams) {
  sim::Program program;
  for (std::uint32_t n = 0; n < size; ++n) {
    sim::Op op;
    op.stream = static_cast<std::uint8_t>(random.below(streams));
    op.host_waits = random.chance(5);
    std::vector<std::uint32_t> after;
    for (std::uint32_t w = random.below(3); w > 0 && n > 0; --w) {
      after.push_back(n - 1 - random.below(std::min(n, random.chance(80) ? 6u : n)));
    }
    program.add(op, after);
  }
  return program;
}

}  // namespace

TEST_CASE("rows of signals pass on only when nobody needs them any more") {
  test::Random random(5);
  std::size_t passed_on = 0;
  for (int n = 0; n < 600; ++n) {
    INFO("program " << n);
    const auto streams = static_cast<std::uint8_t>(1 + random.below(5));
    const sim::Program program = random_program(random, 5 + random.below(80), streams);
    const sim::CompiledProgram compiled = sim::compile(program, streams, sim::Rows::shared);
    const auto precedes = order_of(program);
    const RowTable rows = rows_of(compiled);
    for (const auto& [earlier, row] : rows.of_op) {
      REQUIRE(row < compiled.signals);
      for (const auto& [later, its_row] : rows.of_op) {
        if (its_row != row || later <= earlier) continue;
        REQUIRE(rows.in_turn.contains(earlier) == rows.in_turn.contains(later));
        if (rows.in_turn.contains(later)) continue;  // the engine looks who has read it
        ++passed_on;
        REQUIRE(precedes[earlier][later]);
        const auto readers = rows.readers.find(earlier);
        if (readers == rows.readers.end()) continue;
        for (const std::uint32_t reader : readers->second) REQUIRE(precedes[reader][later]);
      }
    }
  }
  CHECK(passed_on > 1000);
}

TEST_CASE("two streams that wait for each other in turn need few rows") {
  // c0 t0 c1 t1 ...: each transfer waits for the compute operation before it and the next one for the transfer. Where
  // c(k+1) finishes, t(k) has started, so c(k)'s row is free; likewise for transfers.
  sim::Program program;
  for (std::uint32_t k = 0; k < 1000; ++k) {
    sim::Op compute, transfer;
    transfer.stream = 1;
    const std::uint32_t at = program.size();
    program.add(compute, k > 0 ? std::vector<std::uint32_t>{at - 1} : std::vector<std::uint32_t>{});
    program.add(transfer, std::vector<std::uint32_t>{at});
  }
  CHECK(sim::compile(program, 2, sim::Rows::shared).signals == 2);
  // Waited for are all but the last transfer.
  CHECK(sim::compile(program, 2, sim::Rows::of_their_own).signals == 1999);
}

TEST_CASE("a host that waits for one operation after another needs one row") {
  // The last to read an operation's finish is the next one that the host waits for, which may take its row.
  sim::Program program;
  sim::Op op;
  op.host_waits = true;
  for (int k = 0; k < 20; ++k) program.add(op);
  CHECK(sim::compile(program, 1, sim::Rows::shared).signals == 1);
}

TEST_CASE("a compiled program lists its operations by stream and its transfers by slot") {
  // Streams 0 and 2 of three; the host waits for the second operation, and issues for 5 ps each.
  sim::Program program;
  sim::Op compute, transfer;
  compute.stream = 2;
  compute.duration = sim::Duration{70};
  compute.issue = sim::Duration{5};
  compute.issue_bound = sim::Duration{9};
  transfer.kind = sim::OpKind::transfer;
  transfer.work = 1;
  transfer.slot = 1;
  transfer.issue = sim::Duration{5};
  sim::Op waited = transfer;
  waited.host_waits = true;
  program.add(compute);
  program.add(waited);
  program.add(transfer, std::vector<std::uint32_t>{0});
  program.add(compute, std::vector<std::uint32_t>{0});  // of its own stream: no wait is needed
  const sim::CompiledProgram compiled = sim::compile(program, 3, sim::Rows::of_their_own);
  CHECK(compiled.stream_begin == std::vector<std::uint32_t>{0, 2, 2, 4});
  CHECK(compiled.slot_begin == std::vector<std::uint32_t>{0, 0, 2});
  CHECK(compiled.slot_ops == std::vector<std::uint32_t>{0, 1});
  CHECK(compiled.signals == 2);
  REQUIRE(compiled.ops.size() == 4);
  const std::uint32_t order[] = {1, 2, 0, 3};
  const std::int64_t host_start[] = {5, 0, 0, 5}, host_bound[] = {5, 5, 9, 9};
  for (std::size_t row = 0; row < 4; ++row) {
    INFO("row " << row);
    const sim::CompiledOp& op = compiled.ops[row];
    CHECK(op.op == order[row]);
    CHECK(op.stream == (row < 2 ? 0 : 2));
    CHECK(op.host_start == host_start[row]);
    CHECK(op.host_bound == host_bound[row]);
    CHECK(op.slot == (row < 2 ? 1 : sim::kNoSlot));
    CHECK(op.occurrence == (row == 1 ? 1 : 0));
    CHECK(op.waits_end - op.waits_begin == (row == 1 ? 1 : 0));
    const bool after_wait = op.op > 1;  // issued once the host has seen the second operation end
    CHECK((op.segment.signal != kNoSignal) == after_wait);
    if (after_wait) CHECK(op.segment.op == 1);
    CHECK((op.signal != kNoSignal) == (op.op < 2));
  }
}

TEST_CASE("a program without transfers has no slots") {
  sim::Program program;
  program.add(sim::Op{});
  const sim::CompiledProgram compiled = sim::compile(program, 1, sim::Rows::shared);
  CHECK(compiled.slot_begin == std::vector<std::uint32_t>{0});
  CHECK(compiled.stream_begin == std::vector<std::uint32_t>{0, 1});
  CHECK(compiled.signals == 0);
}

TEST_CASE("rows that are taken in turn say who reads them") {
  // Receives that wait for nothing, and compute operations on another stream that wait for them: no program order says
  // that a receive finishes after the compute operation that waits for an earlier one has started.
  sim::Program program;
  constexpr std::uint32_t kCount = 1000;
  for (std::uint32_t k = 0; k < kCount; ++k) {
    sim::Op receive, compute;
    receive.stream = 1;
    program.add(receive);
    program.add(compute, std::vector<std::uint32_t>{2 * k});
  }
  const sim::CompiledProgram compiled = sim::compile(program, 2, sim::Rows::shared);
  CHECK(compiled.signals < 20);
  std::uint32_t turns = 0;
  for (std::uint32_t row = 0; row < compiled.ops.size(); ++row) {
    const sim::CompiledOp& op = compiled.ops[row];
    if (op.turn == sim::kNoTurn) continue;
    ++turns;
    REQUIRE(op.stream == 1);
    // Read by the compute operation of the same place in the order of its stream, which comes first in `ops`.
    REQUIRE(compiled.turn_begin[op.turn + 1] - compiled.turn_begin[op.turn] == 1);
    REQUIRE(compiled.readers[compiled.turn_begin[op.turn]].stream == 0);
    REQUIRE(compiled.readers[compiled.turn_begin[op.turn]].passed == row - kCount + 1);
  }
  CHECK(turns > kCount - 20);
}
