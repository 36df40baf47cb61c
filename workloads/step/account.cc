// The compute stream's timeline, gap by gap (docs/breakdown.svg draws it). While a kernel runs, time is compute (or
// optimizer), and what a slow GPU takes beyond that is the slow GPU's. A gap is what the operation behind it waited
// for: the transfer that ended last, its own or one that the host waited for before it launched more. Going back from
// that end,
//  - while the transfer moves, the gap is its communication;
//  - while this rank is there and others are not, it waits for them: other stages leave a bubble, the ranks beside it
//    (of the same stage) are partners waited for;
//  - before this rank itself was there, the same is asked of what held the transfer up: another transfer, which it
//    waited for or queued behind, or the host.
// A gap that no transfer explains is the host's.
#include "workloads/step/account.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace orrery::workloads {

namespace {

constexpr std::uint32_t kNone = 0xffffffff;

constexpr std::size_t place_of(Category c) { return static_cast<std::size_t>(c); }

/// By transfer, the one before it on its stream.
std::vector<std::uint32_t> queue_of(const sim::Program& program) {
  std::vector<std::uint32_t> before(program.size(), kNone), last;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] != sim::OpKind::transfer) continue;
    if (program.stream[op] >= last.size()) last.resize(program.stream[op] + std::size_t{1}, kNone);
    before[op] = std::exchange(last[program.stream[op]], op);
  }
  return before;
}

class Ledger {
 public:
  Ledger(const RankRecord& rank, std::vector<Timeline::Gap>* gaps)
      : record_(*rank.record),
        program_(*rank.program),
        slots_(*rank.slots),
        pipelined_(rank.pipelined),
        before_(queue_of(*rank.program)),
        gaps_(gaps) {}

  void book(Category category, std::int64_t duration) {
    if (duration > 0) parts_[place_of(category)] += sim::Duration(duration);
  }

  /// The gap [from, to] before something that waited for transfer `op`, which ended in it.
  void book_gap(std::uint32_t op, std::int64_t from, std::int64_t to) {
    const std::size_t first = gaps_ == nullptr ? 0 : gaps_->size();
    while (op != kNone && to > from) {
      const std::int64_t moved = std::clamp(record_.finish[op].value(), from, to);
      const std::int64_t begun = std::clamp(record_.start[op].value(), from, moved);
      const std::int64_t there = std::clamp(record_.ready[op].value(), from, begun);
      book_between(Category::host, moved, to);
      book_between(static_cast<Category>(program_.category[op]), begun, moved);
      book_between(awaited(op), there, begun);
      to = there;
      op = last_before(op, from);
    }
    book_between(Category::host, from, to);
    if (gaps_ != nullptr) std::reverse(gaps_->begin() + static_cast<std::ptrdiff_t>(first), gaps_->end());
  }

  /// Time between kernels.
  void book_between(Category category, std::int64_t from, std::int64_t to) {
    book(category, to - from);
    if (gaps_ != nullptr && to > from) gaps_->push_back({category, sim::SimTime(from), sim::SimTime(to)});
  }

  /// Of these operations, the transfer that ended last, if it ended after `from`.
  std::uint32_t last_transfer(std::span<const std::uint32_t> ops, std::int64_t from) const {
    std::uint32_t last = kNone;
    for (const std::uint32_t op : ops) {
      if (program_.kind[op] != sim::OpKind::transfer || record_.finish[op].value() <= from) continue;
      if (last == kNone || record_.finish[op] > record_.finish[last]) last = op;
    }
    return last;
  }

  const TimeByCategory& parts() const { return parts_; }

 private:
  Category awaited(std::uint32_t transfer) const {
    const bool across = pipelined_ && slots_[program_.slot[transfer]].group.across_stages;
    return across ? Category::bubble : Category::partner_wait;
  }

  /// What kept a rank from taking part in a transfer: the one before it on its stream, or one that it waited for.
  std::uint32_t last_before(std::uint32_t op, std::int64_t from) const {
    const std::uint32_t awaited = last_transfer(program_.waits_of(op), from);
    const std::uint32_t queued = last_transfer({&before_[op], before_[op] == kNone ? std::size_t{0} : 1}, from);
    if (awaited == kNone || queued == kNone) return awaited == kNone ? queued : awaited;
    return record_.finish[queued] > record_.finish[awaited] ? queued : awaited;
  }

  const sim::Record& record_;
  const sim::Program& program_;
  const std::vector<GroupSlot>& slots_;
  bool pipelined_;
  std::vector<std::uint32_t> before_;
  std::vector<Timeline::Gap>* gaps_;
  TimeByCategory parts_{};
};

/// What the time [start, finish] of compute operation `op` consists of. What a slow GPU takes beyond the program's time
/// is the slow GPU's; noise takes longer, or less long, than the program says: that is computing. What is left of a
/// launch-bound run is the host's.
struct KernelTime {
  std::int64_t computing = 0, slow = 0, host = 0;
};
KernelTime kernel_time(const RankRecord& rank, std::uint32_t op) {
  const sim::Program& program = *rank.program;
  const std::int64_t took = rank.record->finish[op].value() - rank.record->start[op].value();
  const std::int64_t alone = program.duration[op];
  KernelTime time;
  if (rank.slowdown > 1) {  // noise may have made them short
    const double loss = static_cast<double>(alone) * (rank.slowdown - 1);
    time.slow = std::clamp<std::int64_t>(std::llround(loss), 0, std::max<std::int64_t>(took - alone, 0));
  }
  const bool host_bound = took - time.slow > alone && program.issue_bound[op] > alone;
  time.computing = host_bound ? alone : took - time.slow;
  time.host = took - time.slow - time.computing;
  return time;
}

void book_kernels(const RankRecord& rank, std::uint32_t op, std::span<const sim::Duration> tensor_wait,
                  Ledger& ledger) {
  const KernelTime time = kernel_time(rank, op);
  const std::int64_t waits = tensor_wait.empty() ? 0 : tensor_wait[op].value();
  ledger.book(static_cast<Category>(rank.program->category[op]), time.computing - waits);
  ledger.book(Category::tensor_comm, waits);
  ledger.book(Category::slow_gpu, time.slow);
  ledger.book(Category::host, time.host);
}

}  // namespace

std::array<double, kCategories> in_seconds(const TimeByCategory& parts) {
  std::array<double, kCategories> seconds{};
  for (std::size_t c = 0; c < kCategories; ++c) seconds[c] = sim::to_seconds(parts[c]);
  return seconds;
}

TimeByCategory account(const RankRecord& rank, sim::SimTime begin, sim::SimTime end,
                       std::span<const sim::Duration> tensor_wait, std::vector<Timeline::Gap>* gaps) {
  const sim::Record& record = *rank.record;
  const sim::Program& program = *rank.program;
  Ledger ledger(rank, gaps);
  std::int64_t clock = begin.value();
  std::uint32_t last = kNone, held = kNone;  // held: of the transfers that kept the host, the one that ended last
  const auto later = [&](std::uint32_t a, std::uint32_t b) {
    return b == kNone || (a != kNone && record.finish[a] > record.finish[b]) ? a : b;
  };
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const std::int64_t start = record.start[op].value(), finish = record.finish[op].value();
    if (program.kind[op] == sim::OpKind::transfer) {
      last = later(op, last);
      if (program.host_waits[op] != 0) held = later(op, held);
      continue;
    }
    if (finish <= begin.value()) continue;  // a micro-batch fetched ahead of the window
    if (start > clock) {
      const bool kept = held != kNone && record.finish[held].value() > clock;
      const std::uint32_t awaited = ledger.last_transfer(program.waits_of(op), clock);
      ledger.book_gap(kept ? later(held, awaited) : awaited, clock, start);
    }
    book_kernels(rank, op, tensor_wait, ledger);
    clock = std::max(clock, finish);
  }
  // After the last kernel: transfers of this rank that are still under way, then waiting for ranks that finish later.
  const std::int64_t latest = last == kNone ? clock : std::min(record.finish[last].value(), end.value());
  if (latest > clock) ledger.book_gap(last, clock, latest);
  ledger.book_between(rank.pipelined ? Category::bubble : Category::partner_wait, std::max(clock, latest), end.value());
  return ledger.parts();
}

sim::Duration busy_time(const RankRecord& rank, std::span<const sim::Duration> tensor_wait) {
  sim::Duration busy{};
  for (std::uint32_t op = 0; op < rank.program->size(); ++op) {
    if (rank.program->kind[op] != sim::OpKind::compute) continue;
    const KernelTime time = kernel_time(rank, op);
    busy += sim::Duration(time.computing + time.slow);
    if (!tensor_wait.empty()) busy -= tensor_wait[op];
  }
  return busy;
}

bool is_launch_bound(const RankRecord& rank, std::span<const sim::Duration> tensor_wait) {
  for (std::uint32_t op = 0; op < rank.program->size() && !tensor_wait.empty(); ++op) {
    const sim::Duration took = rank.record->finish[op] - rank.record->start[op];
    if (tensor_wait[op].value() > 0 && took.value() > rank.program->duration[op]) return true;
  }
  return false;
}

}  // namespace orrery::workloads
