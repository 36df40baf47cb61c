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
};

RowTable rows_of(const sim::CompiledProgram& compiled) {
  RowTable rows;
  for (const sim::CompiledOp& op : compiled.ops) {
    if (op.signal != kNoSignal) rows.of_op[op.op] = op.signal;
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
  CHECK(sim::compile(program, 2, sim::Rows::shared).signals <= 4);
  // Waited for are all but the last transfer.
  CHECK(sim::compile(program, 2, sim::Rows::of_their_own).signals == 1999);
}
