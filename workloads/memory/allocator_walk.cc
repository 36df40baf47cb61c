// Two steps: moments are made in the first, where its passes left room, and lie there in all that follow. Hosts
// load kernels in the first passes and are not ahead there.
//
// Left out: tensors below a megabyte but for sums of rows (tokens, masks, lengths, losses), what is cached before the
// model is made, communication of data-parallel ranks, and activations that wait for messages to be sent.
#include "workloads/memory/allocator_walk.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "sim/real.h"
#include "workloads/memory/caching_allocator.h"
#include "workloads/memory/launch_queue.h"

namespace orrery::workloads {

namespace {

using Block = CachingAllocator::Block;

/// An allocator with the blocks that another stream may still read.
class Memory {
 public:
  Memory(std::int64_t capacity, double ahead, bool streams)
      : allocator_(capacity), queue_(0), ahead_(ahead), streams_(streams) {}

  Block take(double bytes) {
    while (!waiting_.empty() && waiting_.front().until <= queue_.host()) return_first();
    const auto size = static_cast<std::int64_t>(bytes);
    if (const auto block = allocator_.try_allocate(size)) return *block;
    // A failed allocation waits for all that waits, then gives back what is cached.
    queue_.synchronize();
    while (!waiting_.empty()) return_first();
    allocator_.release_cached();
    return allocator_.allocate(size);
  }
  void drop(Block block) { allocator_.free(block); }
  /// Of a tensor that a collective was given.
  void hand_over(Block block) {
    if (streams_) waiting_.push_back({block, collective_});
    if (!streams_) drop(block);
  }
  void launch(double launches, const SecondsOfPass& pace, double share, bool collective = false) {
    queue_.launch(launches, pace.host * share, pace.device * share);
    if (collective) collective_ = queue_.device();
  }
  void await(double seconds) { queue_.hold_device(begun_ + seconds); }
  void synchronize() { queue_.synchronize(); }
  void begin_step() {
    queue_.synchronize();
    begun_ = queue_.device();
  }
  void get_ahead() { queue_.set_room(ahead_); }
  void release_cached() { allocator_.release_cached(); }
  double reserved() const { return static_cast<double>(allocator_.reserved()); }

 private:
  struct Waiting {
    Block block;
    double until;  // the device has passed the last collective that was launched when it was let go of
  };
  void return_first() {
    allocator_.free(waiting_.front().block);
    waiting_.pop_front();
  }
  CachingAllocator allocator_;
  LaunchQueue queue_;
  double ahead_;
  bool streams_;
  double collective_ = 0, begun_ = 0;
  std::deque<Waiting> waiting_;
};

/// What a block keeps for its backward pass.
struct KeptBlock {
  Block input_norm, queries_keys_values, keys_values, attention, sums, middle, middle_norm, up, activation, gated,
      output;
};
struct KeptPass {
  Block input = -1, norm = -1, softmax = -1;
  std::vector<KeptBlock> blocks;
};

constexpr double kProductWorkspace = 32 << 20;  // bytes, of each thread (ATen/cuda/CUDABlas: Hopper)
constexpr double kHeadLaunches = 20;
constexpr double kWeights = 6;  // of a block, each of whose gradients is added up in a launch of its own

class StageWalk {
 public:
  explicit StageWalk(const WalkedStage& stage)
      : stage_(stage),
        sizes_(stage.sizes),
        memory_(stage.capacity, stage.launches.ahead, stage.sizes.split),
        forward_(stage.launches.forward_block / 8),
        backward_((stage.launches.backward_block - kWeights) / 7) {}

  double run() {
    make_model();
    constexpr int kSteps = 2;
    double behind_passes = 0;
    for (int step = 0; step < kSteps; ++step) {
      memory_.begin_step();
      if (step == 1) rebuild_buckets();
      for (std::size_t i = 0; i < stage_.passes.size(); ++i) {
        if (stage_.passes[i].kind == PassKind::forward) forward_pass(i);
        if (stage_.passes[i].kind != PassKind::backward) continue;
        backward_pass(i);
        memory_.get_ahead();
      }
      behind_passes = memory_.reserved();
      memory_.begin_step();  // the norm of the gradients is known
      if (step == 0) make_moments();
      gather_parameters();
    }
    return std::max(behind_passes, memory_.reserved());
  }

 private:
  void make_model();
  void rebuild_buckets();
  void make_moments();
  void gather_parameters();

  void forward_pass(std::size_t at);
  Block embed();
  KeptBlock forward_block();
  void lose(KeptPass& kept);
  void backward_pass(std::size_t at);
  Block gradient_of_loss(const KeptPass& kept);
  Block backward_mlp(const KeptBlock& kept, Block gradient);
  void backward_attention(const KeptBlock& kept);
  void embed_backward(Block gradient);

  /// A product whose output is scattered: the input's owner lets go of what it read behind it.
  Block row_product(std::optional<Block> copy = {});
  /// Backward of a product whose input was gathered: the gradient of its input, scattered, and the norm's behind it.
  Block column_gradient(double weight, Block norm, Block from);
  void weight_gradient(double bytes) { gradients_.push_back(memory_.take(bytes)); }
  void gather_into(std::optional<Block>& buffer) {
    if (sizes_.split && !buffer) buffer = memory_.take(sizes_.whole);
  }
  void send() {
    if (stage_.waits) memory_.synchronize();
    memory_.launch(4, {}, 0, true);
  }
  void workspace(bool& has) {
    if (!has) memory_.take(kProductWorkspace);
    has = true;
  }

  const WalkedStage& stage_;
  const TensorSizes& sizes_;
  Memory memory_;
  double forward_, backward_;  // launches of a part of a block's pass
  std::deque<KeptPass> kept_;
  std::vector<Block> gradients_, buckets_;
  std::optional<Block> gathered_, gathered_gradient_;  // one for all layers
  bool forward_workspace_ = false, backward_workspace_ = false;
};

void StageWalk::make_model() {
  double all = 0;
  for (const double elements : stage_.lasting.weights) {
    memory_.take(2 * elements);
    all += elements;
  }
  rebuild_buckets();
  memory_.take(4 * all / stage_.lasting.owners);
  memory_.take(4 * all);
  memory_.release_cached();
}

/// From the last weight to the first; once the first step has told their order, they are made anew.
void StageWalk::rebuild_buckets() {
  if (!(stage_.lasting.bucket > 0)) return;
  std::vector<Block> made;
  double bytes = 0;
  const std::vector<double>& weights = stage_.lasting.weights;
  for (std::size_t i = weights.size(); i-- > 0;) {
    bytes += 2 * weights[i];
    if (bytes < stage_.lasting.bucket && i > 0) continue;
    made.push_back(memory_.take(bytes));
    bytes = 0;
  }
  for (const Block block : buckets_) memory_.drop(block);
  buckets_ = std::move(made);
}

void StageWalk::make_moments() {
  for (const double elements : stage_.lasting.weights) {
    for (int moment = 0; moment < 2; ++moment) memory_.take(4 * elements / stage_.lasting.owners);
  }
}

/// This rank's share, a flat copy for each rank, and the library's of them all.
void StageWalk::gather_parameters() {
  if (stage_.lasting.listed <= 1) return;
  double bytes = 0;
  for (const double elements : stage_.lasting.weights) bytes += 2 * elements;
  const double share = bytes / sim::real(stage_.lasting.listed);
  std::vector<Block> lists{memory_.take(share)};
  for (std::int64_t rank = 0; rank < stage_.lasting.listed; ++rank) lists.push_back(memory_.take(share));
  lists.push_back(memory_.take(bytes));
  for (const Block block : lists) memory_.drop(block);
}

Block StageWalk::embed() {
  if (!sizes_.split) return memory_.take(sizes_.part);
  const Block looked_up = memory_.take(sizes_.whole);
  const Block masked = memory_.take(sizes_.whole);
  memory_.drop(looked_up);
  const Block part = memory_.take(sizes_.part);
  memory_.launch(5, {}, 0, true);
  memory_.hand_over(masked);
  return part;
}

Block StageWalk::row_product(std::optional<Block> copy) {
  const Block whole = memory_.take(sizes_.split ? sizes_.whole : sizes_.part);
  if (copy) memory_.drop(*copy);
  if (!sizes_.split) return whole;
  const Block part = memory_.take(sizes_.part);
  memory_.launch(forward_, stage_.block.forward, 1.0 / 8, true);
  memory_.hand_over(whole);
  return part;
}

KeptBlock StageWalk::forward_block() {
  const BlockSizes& b = sizes_.block;
  const auto work = [&](bool collective) { memory_.launch(forward_, stage_.block.forward, 1.0 / 8, collective); };
  KeptBlock kept;
  kept.input_norm = memory_.take(sizes_.part);
  gather_into(gathered_);
  const Block projected = memory_.take(b.queries_keys_values);
  workspace(forward_workspace_);
  work(true);
  work(false);
  kept.queries_keys_values = memory_.take(b.queries_keys_values);
  const Block stacked = memory_.take(b.keys_values);
  kept.keys_values = memory_.take(b.keys_values);
  memory_.drop(stacked);
  work(false);
  kept.attention = memory_.take(b.attention);
  kept.sums = memory_.take(b.sums);
  const Block copy = memory_.take(b.attention);
  work(false);
  const Block from_attention = row_product(copy);
  memory_.drop(projected);
  kept.middle = memory_.take(sizes_.part);
  kept.middle_norm = memory_.take(sizes_.part);
  kept.up = memory_.take(b.up);
  work(true);
  kept.activation = memory_.take(b.gate);
  kept.gated = memory_.take(b.gate);
  work(false);
  const Block from_mlp = row_product();
  if (!sizes_.split) memory_.launch(2 * forward_, stage_.block.forward, 2.0 / 8);
  kept.output = memory_.take(sizes_.part);
  memory_.hand_over(from_mlp);
  memory_.hand_over(from_attention);
  return kept;
}

/// Logits in 16 bits, in fp32, and less their maximum, of which the last stays as the softmax.
void StageWalk::lose(KeptPass& kept) {
  kept.norm = memory_.take(sizes_.part);
  gather_into(gathered_);
  const Block logits = memory_.take(sizes_.logits);
  memory_.launch(kHeadLaunches / 2, stage_.head.forward, 0.5, true);
  const Block in_fp32 = memory_.take(2 * sizes_.logits);
  memory_.drop(logits);
  kept.softmax = memory_.take(2 * sizes_.logits);
  memory_.launch(kHeadLaunches / 2, stage_.head.forward, 0.5, true);
  memory_.drop(in_fp32);
}

void StageWalk::forward_pass(std::size_t at) {
  memory_.await(stage_.arrivals[at]);
  KeptPass kept;
  kept.input = stage_.first ? embed() : memory_.take(sizes_.part);
  for (std::int64_t i = 0; i < stage_.blocks; ++i) kept.blocks.push_back(forward_block());
  if (stage_.last) lose(kept);
  if (!stage_.last) {
    send();
    memory_.hand_over(kept.blocks.empty() ? kept.input : kept.blocks.back().output);
  }
  kept_.push_back(std::move(kept));
}

Block StageWalk::column_gradient(double weight, Block norm, Block from) {
  const Block whole = memory_.take(sizes_.split ? sizes_.whole : sizes_.part);
  workspace(backward_workspace_);
  memory_.launch(backward_, stage_.block.backward, 1.0 / 8, true);
  Block part = whole;
  if (sizes_.split) part = memory_.take(sizes_.part);
  memory_.launch(backward_ / 2, stage_.block.backward, 1.0 / 16, true);
  weight_gradient(weight);
  memory_.launch(backward_ / 2, stage_.block.backward, 1.0 / 16);
  if (sizes_.split) memory_.hand_over(whole);
  memory_.drop(from);
  memory_.hand_over(norm);
  const Block of_norm = memory_.take(sizes_.part);
  memory_.hand_over(part);
  return of_norm;
}

Block StageWalk::gradient_of_loss(const KeptPass& kept) {
  if (!stage_.last) {
    memory_.launch(4, {}, 0, true);
    return memory_.take(sizes_.part);
  }
  const Block logits = memory_.take(sizes_.logits);
  memory_.drop(kept.softmax);
  memory_.launch(kHeadLaunches, stage_.head.backward, 1);
  const Block gradient = column_gradient(sizes_.ends, kept.norm, logits);
  if (!kept.blocks.empty()) memory_.drop(kept.blocks.back().output);
  return gradient;
}

/// Returns the gradient of what lies between attention and MLP.
Block StageWalk::backward_mlp(const KeptBlock& kept, Block gradient) {
  const BlockSizes& b = sizes_.block;
  gather_into(gathered_gradient_);
  const Block of_gated = memory_.take(b.gate);
  workspace(backward_workspace_);
  weight_gradient(b.weights[3]);
  memory_.launch(backward_, stage_.block.backward, 1.0 / 4, true);
  memory_.drop(kept.gated);
  const Block of_up = memory_.take(b.gate), of_activation = memory_.take(b.gate);
  memory_.drop(of_gated);
  memory_.drop(kept.activation);
  const Block of_gate = memory_.take(b.gate);
  memory_.drop(of_activation);
  memory_.drop(kept.up);
  const Block both = memory_.take(b.up);
  memory_.drop(of_gate);
  memory_.drop(of_up);
  const Block of_norm = column_gradient(b.weights[2], kept.middle_norm, both);
  memory_.drop(kept.middle);
  const Block sum = memory_.take(sizes_.part);
  memory_.hand_over(gradient);
  memory_.drop(of_norm);
  return sum;
}

void StageWalk::backward_attention(const KeptBlock& kept) {
  const BlockSizes& b = sizes_.block;
  const Block of_output = memory_.take(b.attention);
  memory_.launch(backward_, stage_.block.backward, 1.0 / 8, true);
  const Block copy = memory_.take(b.attention);
  weight_gradient(b.weights[1]);
  memory_.drop(copy);
  const Block of_heads = memory_.take(b.attention);
  memory_.drop(of_output);
  const Block queries = memory_.take(b.attention), keys = memory_.take(b.keys_values / 2),
              values = memory_.take(b.keys_values / 2);
  const Block sums = memory_.take(b.sums), added = memory_.take(2 * b.attention);
  memory_.launch(backward_, stage_.block.backward, 1.0 / 8);
  for (const Block done :
       {added, sums, of_heads, kept.queries_keys_values, kept.keys_values, kept.sums, kept.attention})
    memory_.drop(done);
  const Block stacked = memory_.take(b.keys_values);
  memory_.drop(keys);
  memory_.drop(values);
  const Block joined = memory_.take(b.queries_keys_values);
  memory_.drop(queries);
  memory_.drop(stacked);
  const Block contiguous = memory_.take(b.queries_keys_values);
  memory_.drop(joined);
  const Block of_norm = column_gradient(b.weights[0], kept.input_norm, contiguous);
  memory_.drop(of_norm);
}

void StageWalk::embed_backward(Block gradient) {
  if (!sizes_.split) {
    weight_gradient(sizes_.ends);
    return memory_.drop(gradient);
  }
  const Block whole = memory_.take(sizes_.whole);
  memory_.launch(4, {}, 0, true);
  const Block masked = memory_.take(sizes_.whole);
  weight_gradient(sizes_.ends);
  memory_.hand_over(whole);
  memory_.drop(masked);
  memory_.hand_over(gradient);
}

void StageWalk::backward_pass(std::size_t at) {
  const KeptPass kept = std::move(kept_.front());
  kept_.pop_front();
  memory_.await(stage_.arrivals[at]);
  if (stage_.waits && !stage_.last) memory_.synchronize();
  Block gradient = gradient_of_loss(kept);
  for (std::size_t i = kept.blocks.size(); i-- > 0;) {
    gradient = backward_mlp(kept.blocks[i], gradient);
    backward_attention(kept.blocks[i]);
    memory_.drop(i > 0 ? kept.blocks[i - 1].output : kept.input);
  }
  if (stage_.first) embed_backward(gradient);
  if (!stage_.first) {
    send();
    memory_.hand_over(gradient);
  }
  memory_.launch(kWeights * static_cast<double>(kept.blocks.size()), {}, 0);
  while (!gradients_.empty()) {  // added up from the first weight to the last
    memory_.drop(gradients_.back());
    gradients_.pop_back();
  }
}

}  // namespace

double reserved_by_steps(const WalkedStage& stage) { return StageWalk(stage).run(); }

}  // namespace orrery::workloads
