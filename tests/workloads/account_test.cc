// Where a rank's time goes, on programs small enough to book by hand.
#include "workloads/step/account.h"

#include <optional>
#include <vector>

#include "tests/catch.h"

using namespace orrery;
using workloads::Category;
using workloads::CommGroup;

namespace {

/// A program and what became of it: operations at fixed times, in microseconds.
class Ran {
 public:
  /// `ready`: when this rank is there for a transfer, if that is before it starts.
  std::uint32_t add(sim::OpKind kind, std::uint8_t stream, Category category, int start, int finish,
                    std::vector<std::uint32_t> waits = {}, std::optional<int> ready = {}) {
    sim::Op op;
    op.kind = kind;
    op.stream = stream;
    op.category = static_cast<std::uint8_t>(category);
    op.duration = microseconds(finish - start);
    op.slot = category == Category::pipeline_comm ? 1 : 0;
    record.ready.push_back(sim::SimTime(microseconds(ready.value_or(start)).value()));
    record.start.push_back(sim::SimTime(microseconds(start).value()));
    record.finish.push_back(sim::SimTime(microseconds(finish).value()));
    return program.add(op, waits);
  }
  /// Exposed microseconds over [0, end].
  double booked(Category category, int end, double slowdown = 1.0, bool pipelined = true) const {
    const auto parts = workloads::account({&record, &program, &slots, slowdown, pipelined}, sim::SimTime{},
                                          sim::SimTime(microseconds(end).value()));
    return sim::to_seconds(parts[static_cast<std::size_t>(category)]) * 1e6;
  }
  sim::Program program;
  sim::Record record;
  std::vector<workloads::GroupSlot> slots{{CommGroup::tensor, {}, {}, {}}, {CommGroup::activations, {}, {}, {}}};

 private:
  static sim::Duration microseconds(int n) { return sim::Duration(n * std::int64_t{1'000'000}); }
};

constexpr auto kCompute = sim::OpKind::compute, kTransfer = sim::OpKind::transfer;

}  // namespace

TEST_CASE("a gap is communication while a transfer moves, and waiting until its partners are there") {
  // A kernel to 10, a transfer whose partner comes at 13 and that moves until 20, a kernel behind it from 22 to 30, a
  // rank that ends at 35: 10 + 8 of compute, 7 of communication, 3 of waiting, 2 of the host, 5 of bubble at the end.
  for (const Category category : {Category::tensor_comm, Category::pipeline_comm}) {
    Ran ran;
    const auto first = ran.add(kCompute, 0, Category::compute, 0, 10);
    const auto sent = ran.add(kTransfer, 1, category, 13, 20, {first}, 10);
    ran.add(kCompute, 0, Category::compute, 22, 30, {sent});
    const bool message = category == Category::pipeline_comm;
    CHECK(ran.booked(Category::compute, 35) == Approx(18));
    CHECK(ran.booked(category, 35) == Approx(7));
    CHECK(ran.booked(Category::partner_wait, 35) == Approx(message ? 0 : 3).margin(1e-9));
    CHECK(ran.booked(Category::bubble, 35) == Approx(message ? 8 : 5));
    CHECK(ran.booked(Category::host, 35) == Approx(2));
    CHECK(ran.booked(Category::bubble, 35, 1.0, false) == 0);  // one stage: there is no pipeline
    CHECK(ran.booked(Category::partner_wait, 35, 1.0, false) == Approx(8));
  }
}

TEST_CASE("what held a transfer up tells what its rank waited for before it was there") {
  // From 10 on the device waits for a collective that this rank joins at 18. It queues behind another of its stream,
  // which moves until 15; the host issues it at 18. So 5 + 4 of communication and 3 of the host.
  Ran ran;
  const auto first = ran.add(kCompute, 0, Category::compute, 0, 10);
  ran.add(kTransfer, 1, Category::data_comm, 6, 15);
  const auto second = ran.add(kTransfer, 1, Category::tensor_comm, 18, 22, {first});
  ran.add(kCompute, 0, Category::compute, 22, 30, {second});
  CHECK(ran.booked(Category::compute, 30) == Approx(18));
  CHECK(ran.booked(Category::data_comm, 30) == Approx(5));
  CHECK(ran.booked(Category::tensor_comm, 30) == Approx(4));
  CHECK(ran.booked(Category::host, 30) == Approx(3));
  // Of another stream, it is nobody's business.
  ran.program.stream[1] = 2;
  CHECK(ran.booked(Category::data_comm, 30) == Approx(0).margin(1e-9));
  CHECK(ran.booked(Category::host, 30) == Approx(8));
}

TEST_CASE("a kernel that the host held back until a message was there waited for the message") {
  // The stage before sends at 16, until 18; the host launches at 19 a kernel that does not read the message.
  Ran ran;
  ran.add(kCompute, 0, Category::compute, 0, 10);
  const auto message = ran.add(kTransfer, 3, Category::pipeline_comm, 16, 18, {}, 0);
  ran.add(kCompute, 0, Category::compute, 19, 30);
  CHECK(ran.booked(Category::host, 30) == Approx(9));
  ran.program.host_waits[message] = 1;
  CHECK(ran.booked(Category::bubble, 30) == Approx(6));
  CHECK(ran.booked(Category::pipeline_comm, 30) == Approx(2));
  CHECK(ran.booked(Category::host, 30) == Approx(1));
}

TEST_CASE("a collective of a message that is late is the bubble that the message leaves") {
  // The stage before sends at 16, until 18; the all-gather of what came takes until 20: 6 of bubble, 2 and 2 of
  // communication.
  Ran ran;
  ran.add(kCompute, 0, Category::compute, 0, 10);
  const auto message = ran.add(kTransfer, 3, Category::pipeline_comm, 16, 18, {}, 0);
  const auto gather = ran.add(kTransfer, 1, Category::tensor_comm, 18, 20, {0, message});
  ran.add(kCompute, 0, Category::compute, 20, 30, {message, gather});
  CHECK(ran.booked(Category::bubble, 30) == Approx(6));
  CHECK(ran.booked(Category::pipeline_comm, 30) == Approx(2));
  CHECK(ran.booked(Category::tensor_comm, 30) == Approx(2));
  CHECK(ran.booked(Category::compute, 30) == Approx(20));
}

TEST_CASE("what a slow GPU takes beyond a healthy one is called so") {
  // 20 us of kernels at 1.5 times their time: 30.
  Ran ran;
  ran.add(kCompute, 0, Category::compute, 0, 30);
  ran.program.duration[0] = 20'000'000;
  CHECK(ran.booked(Category::compute, 30, 1.5) == Approx(20));
  CHECK(ran.booked(Category::slow_gpu, 30, 1.5) == Approx(10));
}
