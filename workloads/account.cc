// The compute stream's timeline, gap by gap. While a kernel runs, time is compute (or optimizer). A gap ends when the
// operation behind it starts; the transfer that it waited for last tells why: from the moment that transfer began to
// move it is communication, before that other transfers were ahead of it on its stream, which is communication too, or
// its partners were not there yet, which is bubble. A gap that no transfer explains is the host's.
#include "workloads/account.h"

#include <algorithm>

namespace orrery::workloads {

namespace {

constexpr std::size_t at(Category c) { return static_cast<std::size_t>(c); }

struct Ledger {
  std::array<std::int64_t, kCategories> ps{};
  void book(Category category, std::int64_t duration) {
    if (duration > 0) ps[at(category)] += duration;
  }
  /// The gap [from, to] before something that waited for transfer `op`; `then` is what follows the transfer. A transfer
  /// that queues behind another of its stream waits for that one, not for its partners.
  void book_gap(const sim::Record& record, const sim::Program& program, std::uint32_t op, std::int64_t from,
                std::int64_t to, Category then) {
    const std::int64_t begun = std::clamp(record.start[op].value(), from, to);
    const std::int64_t moved = std::clamp(record.finish[op].value(), begun, to);
    std::uint32_t behind = op;
    while (behind > 0 && program.stream[behind - 1] != program.stream[op]) --behind;
    if (behind > 0 && begun > from && record.finish[behind - 1].value() > from)
      book_gap(record, program, behind - 1, from, begun, Category::bubble);
    else
      book(Category::bubble, begun - from);
    book(static_cast<Category>(program.category[op]), moved - begun);
    book(then, to - moved);
  }
};

}  // namespace

std::array<double, kCategories> account(const sim::Record& record, const sim::Program& program, sim::SimTime begin,
                                        sim::SimTime end, std::span<const sim::Duration> tensor_wait) {
  Ledger ledger;
  std::int64_t clock = begin.value();
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] != sim::OpKind::compute) continue;
    const std::int64_t start = record.start[op].value(), finish = record.finish[op].value();
    if (finish <= begin.value()) continue;  // a micro-batch fetched ahead of the window
    if (start > clock) {
      std::uint32_t last = 0;
      std::int64_t latest = -1;
      for (const std::uint32_t wait : program.waits_of(op)) {
        if (program.kind[wait] == sim::OpKind::transfer && record.finish[wait].value() > latest) {
          latest = record.finish[wait].value();
          last = wait;
        }
      }
      if (latest > clock)
        ledger.book_gap(record, program, last, clock, start, Category::other);
      else
        ledger.book(Category::other, start - clock);
    }
    const auto category = static_cast<Category>(program.category[op]);
    const std::int64_t busy = std::min(finish - start, program.duration[op]);
    // Slow or noisy ranks take longer than the program says: that is compute too. What is left of a launch-bound run is
    // the host's.
    const bool host_bound = finish - start > program.duration[op] && program.issue_bound[op] > program.duration[op];
    const std::int64_t waits = tensor_wait.empty() ? 0 : tensor_wait[op].value();
    ledger.book(category, (host_bound ? busy : finish - start) - waits);
    ledger.book(Category::tensor_comm, waits);
    if (host_bound) ledger.book(Category::other, finish - start - busy);
    clock = std::max(clock, finish);
  }
  // After the last kernel: transfers of this rank that are still under way, then waiting for ranks that finish later.
  std::uint32_t last = 0;
  std::int64_t latest = clock;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == sim::OpKind::transfer && record.finish[op].value() > latest) {
      latest = record.finish[op].value();
      last = op;
    }
  }
  latest = std::min(latest, end.value());
  if (latest > clock) ledger.book_gap(record, program, last, clock, latest, Category::other);
  ledger.book(Category::bubble, end.value() - std::max(clock, latest));
  std::array<double, kCategories> seconds{};
  for (std::size_t c = 0; c < kCategories; ++c)
    seconds[c] = static_cast<double>(ledger.ps[c]) / sim::kPicosecondsPerSecond;
  return seconds;
}

double busy_seconds(const sim::Record& record, const sim::Program& program,
                    std::span<const sim::Duration> tensor_wait) {
  std::int64_t ps = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] != sim::OpKind::compute) continue;
    ps += record.finish[op].value() - record.start[op].value();
    if (!tensor_wait.empty()) ps -= tensor_wait[op].value();
  }
  return static_cast<double>(ps) / sim::kPicosecondsPerSecond;
}

bool is_launch_bound(const sim::Record& record, const sim::Program& program,
                     std::span<const sim::Duration> tensor_wait) {
  for (std::uint32_t op = 0; op < program.size() && !tensor_wait.empty(); ++op) {
    const std::int64_t took = record.finish[op].value() - record.start[op].value();
    if (tensor_wait[op].value() > 0 && took > program.duration[op]) return true;
  }
  return false;
}

}  // namespace orrery::workloads
