// Where a rank's time goes, on programs small enough to book by hand.
#include "workloads/account.h"

#include <vector>

#include "tests/catch.h"

using namespace orrery;
using workloads::Category;

namespace {

/// A program and what became of it: operations at fixed times, in microseconds.
class Ran {
 public:
  std::uint32_t add(sim::OpKind kind, std::uint8_t stream, Category category, int start, int finish,
                    std::vector<std::uint32_t> waits = {}) {
    sim::Op op;
    op.kind = kind;
    op.stream = stream;
    op.category = static_cast<std::uint8_t>(category);
    op.duration = microseconds(finish - start);
    record.ready.push_back(sim::SimTime(microseconds(start).value()));
    record.start.push_back(sim::SimTime(microseconds(start).value()));
    record.finish.push_back(sim::SimTime(microseconds(finish).value()));
    return program.add(op, waits);
  }
  /// Exposed microseconds over [0, end].
  double booked(Category category, int end) const {
    const auto parts = workloads::account(record, program, sim::SimTime{}, sim::SimTime(microseconds(end).value()));
    return parts[static_cast<std::size_t>(category)] * 1e6;
  }
  sim::Program program;
  sim::Record record;

 private:
  static sim::Duration microseconds(int n) { return sim::Duration(n * std::int64_t{1'000'000}); }
};

constexpr auto kCompute = sim::OpKind::compute, kTransfer = sim::OpKind::transfer;

}  // namespace

TEST_CASE("a gap is communication while a transfer moves, and bubble while it waits for its partners") {
  // A kernel to 10, a transfer whose partner comes at 13 and that moves until 20, a kernel behind it from 22 to 30, a
  // rank that ends at 35: 10 + 8 of compute, 7 of communication, 3 + 5 of bubble, 2 of the host.
  Ran ran;
  const auto first = ran.add(kCompute, 0, Category::compute, 0, 10);
  const auto sent = ran.add(kTransfer, 1, Category::tensor_comm, 13, 20, {first});
  ran.add(kCompute, 0, Category::compute, 22, 30, {sent});
  CHECK(ran.booked(Category::compute, 35) == Approx(18));
  CHECK(ran.booked(Category::tensor_comm, 35) == Approx(7));
  CHECK(ran.booked(Category::bubble, 35) == Approx(8));
  CHECK(ran.booked(Category::other, 35) == Approx(2));
}

TEST_CASE("a transfer that queues behind another of its stream waits for that one, not for its partners") {
  // From 10 on the device waits for the second transfer, which starts at 18: the first moves until 15, then partners
  // are awaited for 3. So 5 + 4 of communication and 3 of bubble.
  Ran ran;
  const auto first = ran.add(kCompute, 0, Category::compute, 0, 10);
  ran.add(kTransfer, 1, Category::data_comm, 6, 15);
  const auto second = ran.add(kTransfer, 1, Category::tensor_comm, 18, 22, {first});
  ran.add(kCompute, 0, Category::compute, 22, 30, {second});
  CHECK(ran.booked(Category::compute, 30) == Approx(18));
  CHECK(ran.booked(Category::data_comm, 30) == Approx(5));
  CHECK(ran.booked(Category::tensor_comm, 30) == Approx(4));
  CHECK(ran.booked(Category::bubble, 30) == Approx(3));
  // Of another stream, it is nobody's business.
  ran.program.stream[1] = 2;
  CHECK(ran.booked(Category::data_comm, 30) == Approx(0).margin(1e-9));
  CHECK(ran.booked(Category::bubble, 30) == Approx(8));
}
