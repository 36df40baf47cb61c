// Bytes of activations against their definition, walked slowly: what is held while each half works backwards.
#include "workloads/model/kept.h"

#include <algorithm>
#include <vector>

#include "tests/catch.h"
#include "tests/sim/random_plan.h"
#include "tests/workloads/example.h"
#include "workloads/memory/high_water.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// Bytes held while the backward pass of `half` works. Later halves have freed theirs. A layer that is recomputed has
/// everything again before it begins; single tensors are made again for their own half.
double held_at(const Layer& layer, std::int32_t half) {
  double held = 0;
  for (const Kept& kept : layer.kept) {
    const bool there = layer.recomputed || kept.as != KeptAs::recomputed || kept.half == half;
    if (there && kept.half <= half) held += kept.bytes();
  }
  for (const Working& needed : layer.working)
    if (needed.half == half) held += needed.bytes();
  return held;
}

/// Bytes held between the forward and the backward pass.
double held_between(const Layer& layer) {
  double held = 0;
  for (const Kept& kept : layer.kept)
    if (layer.recomputed ? kept.as == KeptAs::input : kept.as != KeptAs::recomputed) held += kept.bytes();
  return held;
}

/// Inputs lie in the first half: the halves behind it make theirs from what is there.
Layer random_layer(test::Random& random) {
  Layer layer{};
  layer.recomputed = random.chance(40);
  const auto halves = static_cast<std::int32_t>(1 + random.below(3));
  for (std::uint32_t n = random.below(9); n > 0; --n) {
    const auto half = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(halves)));
    const KeptAs as = half == 0 && random.chance(30)           ? KeptAs::input
                      : !layer.recomputed && random.chance(30) ? KeptAs::recomputed
                                                               : KeptAs::tensor;
    layer.kept.push_back({"kept", 1.0 + random.below(1000), 2, half, as});
  }
  for (std::uint32_t n = random.below(6); n > 0; --n)
    layer.working.push_back({"working", 1.0 + random.below(1000), 4,
                             static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(halves)))});
  for (std::uint32_t n = random.below(4); n > 0; --n) layer.between.push_back({"between", 1.0 + random.below(9), 2});
  return layer;
}

}  // namespace

TEST_CASE("a layer's bytes are what is held when each of its halves works backwards, to the byte") {
  test::Random random(11);
  for (int n = 0; n < 2000; ++n) {
    const Layer layer = random_layer(random);
    const PassBytes bytes = bytes_of(layer);
    std::int32_t last = 0;
    for (const Kept& kept : layer.kept) last = std::max(last, kept.half);
    for (const Working& needed : layer.working) last = std::max(last, needed.half);
    double most = 0, between = 0;
    for (std::int32_t half = 0; half <= last; ++half) most = std::max(most, held_at(layer, half));
    for (const Between& left : layer.between) between += left.bytes();
    INFO("layer " << n);
    REQUIRE(bytes.kept == held_between(layer));
    REQUIRE(bytes.kept + bytes.working == std::max(most, bytes.kept));
    REQUIRE(bytes.between == between);
  }
}

TEST_CASE("units that find room where a later half has been are no part of what is needed") {
  // The loss frees 7; the products ahead of it need units of 7, and no more.
  Layer head{};
  head.kind = LayerKind::head;
  head.kept = {{"input", 10, 1, 0, KeptAs::input}, {"logits", 7, 1, 1}};
  CHECK(bytes_of(head, 7).working == 0);
  CHECK(bytes_of(head, 7).units == 0);
  CHECK(bytes_of(head, 8).working == 1);
  CHECK(bytes_of(head, 8).units == 8);
  Layer block{};
  block.kept = {{"input", 10, 1, 0, KeptAs::input}};
  Network network;
  network.kinds = {block, head};
  network.layers = {0, 1};
  CHECK(bytes_of(network, {0, 2}, {17, 0, false}).units == 17);  // beside the head, 10 more than the loss frees
  CHECK(bytes_of(network, {0, 2}, {7, 0, false}).units == 0);
  // A block that needs just what the head behind it freed.
  network.kinds[0].working = {{"gradients", 10, 1, 0}};
  network.kinds[1].kept[1] = {"logits", 20, 1, 1};
  CHECK(bytes_of(network, {0, 2}, {20, 0, false}).working == 0);
  CHECK(bytes_of(network, {0, 2}, {20, 0, false}).units == 0);
}

namespace {

/// One pass of each kind on a device of one compute stream and another, its kernels given by their times.
struct TimedKernels {
  sim::Record record;
  sim::Program program;
  std::vector<OpNote> notes;

  void add(const Pass& pass, std::int64_t start, std::int64_t finish, Category category = Category::compute) {
    sim::Op op;
    op.kind = category == Category::compute ? sim::OpKind::compute : sim::OpKind::transfer;
    op.category = static_cast<std::uint8_t>(category);
    program.add(op);
    record.start.push_back(sim::SimTime{start});
    record.finish.push_back(sim::SimTime{finish});
    OpNote note;
    note.kind = pass.kind;
    note.chunk = static_cast<decltype(note.chunk)>(pass.chunk);
    note.microbatch = pass.microbatch;
    note.within_pass = true;
    notes.push_back(note);
  }
};

constexpr std::int64_t kMicrosecond = 1'000'000;

}  // namespace

TEST_CASE("bytes over time: kept from a pass's first kernel, freed when its last one ends, working in between") {
  TimedKernels line;
  const Pass forward{PassKind::forward, 0, 0}, backward{PassKind::backward, 0, 0};
  // Gathers of a tensor or context group belong to their pass, a message does not; they count by their begin alone.
  line.add(forward, 1 * kMicrosecond, 3 * kMicrosecond, Category::tensor_comm);
  line.add(forward, 3 * kMicrosecond, 4 * kMicrosecond);
  line.add(forward, 0, 9 * kMicrosecond, Category::pipeline_comm);
  line.add(backward, 7 * kMicrosecond, 8 * kMicrosecond);
  line.add(backward, 8 * kMicrosecond, 9 * kMicrosecond);
  line.add(backward, 6 * kMicrosecond, 7 * kMicrosecond, Category::context_comm);
  line.add(backward, 9 * kMicrosecond, 20 * kMicrosecond, Category::tensor_comm);
  const std::vector<PassBytes> chunks{{100, 30, 0, 7}};  // and 7 of gradients while the backward pass is under way
  const std::vector<HeldBytes> points = held_over_time(line.record, line.program, line.notes, chunks);
  REQUIRE(points.size() == 3);
  CHECK(points[0].at == 1 * kMicrosecond);
  CHECK(points[0].bytes == 100);
  CHECK(points[1].at == 6 * kMicrosecond);
  CHECK(points[1].bytes == 137);
  CHECK(points[2].at == 9 * kMicrosecond);
  CHECK(points[2].bytes == 0);
  const HighWater most = counted_high_water(line.record, line.program, line.notes, chunks);
  CHECK(most.held == 100);
  CHECK(most.working == 30);
  CHECK(most.gradients == 7);
  CHECK(most.pass == backward);
}

TEST_CASE("passes that begin at one instant are held both, the later by chunk and micro-batch last") {
  TimedKernels line;
  for (const std::int32_t chunk : {2, 0, 1}) line.add({PassKind::forward, chunk, 0}, 5, 6);
  // Backward passes that end where others begin have freed what they held before these count.
  line.add({PassKind::backward, 0, 0}, 6, 7);
  line.add({PassKind::backward, 1, 0}, 7, 8);
  const HighWater most =
      counted_high_water(line.record, line.program, line.notes, {{10, 0, 0}, {10, 0, 0}, {10, 0, 0}});
  CHECK(most.held == 30);
  CHECK(most.pass == Pass{PassKind::forward, 2, 0});
  CHECK(most.in_flight == std::vector<std::int32_t>{1, 1, 1});
  const HighWater later =
      counted_high_water(line.record, line.program, line.notes, {{10, 1, 0}, {10, 11, 0}, {10, 0, 0}});
  CHECK(later.pass == Pass{PassKind::backward, 0, 0});
  CHECK(counted_high_water(line.record, line.program, line.notes, {{10, 0, 0, 0, 5}, {10, 0, 0}, {10, 0, 0, 0, 5}})
            .units == 0);  // of a forward pass
  CHECK(later.bytes() == 31);
  const HighWater units =
      counted_high_water(line.record, line.program, line.notes, {{10, 1, 0, 0, 1}, {10, 0, 0}, {10, 0, 0}});
  CHECK(units.units == 1);  // of the one byte that the backward pass needs
}
