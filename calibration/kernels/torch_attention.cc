// Attention as PyTorch runs it, aten::_flash_attention_forward and its gradient: FlashAttention-2 on CUDA (Dao, arXiv
// 2307.08691), AOTriton or Composable Kernel on ROCm. Queries that are fewer than keys are the last positions. Results
// lie in memory of PyTorch's; what they hold is copied out where they are checked, and not where they are timed.
#include "calibration/kernels/attention.h"
#include "calibration/kernels/torch.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {
namespace {

/// A case's sizes; `queries` are its last positions.
struct Sizes {
  std::int64_t queries = 0;
  double scale = 1;
  std::int64_t left = -1, right = -1;  // of a window; -1: none

  Sizes(const Case& what, std::int64_t q) : queries(q), scale(attention_scale(what)) {
    if (what.attention.window == 0) return;
    left = what.attention.window - 1;
    right = 0;
  }
  std::int64_t* or_none(std::int64_t& side) const { return left < 0 ? nullptr : &side; }
};

class TorchForward : public AttentionPass {
 public:
  TorchForward(Device& device, const Case& what, std::int64_t queries)
      : device_(device), case_(what), sizes_(what, queries) {}

  void launch(const AttentionTensors& t, Stream stream) override {
    const OnStream here(device_, stream);
    const Case::Attention& a = case_.attention;
    const auto tensor = [&](void* data, std::int64_t positions, std::int64_t heads) {
      return torch_tensor(device_, case_.dtype, data, {case_.batch, positions, heads, a.head_dim});
    };
    const TorchValue q = tensor(t.q, sizes_.queries, a.heads), k = tensor(t.k, a.seq, a.kv_heads),
                     v = tensor(t.v, a.seq, a.kv_heads);
    check_torch(
        torch().flash_forward(q.get(), k.get(), v.get(), nullptr, nullptr, sizes_.queries, a.seq, 0, 1, 0,
                              &sizes_.scale, sizes_.or_none(sizes_.left), sizes_.or_none(sizes_.right), nullptr,
                              nullptr, out_.place(), log_sum_.place(), state_.place(), unused_.place(), mask_.place()),
        "attention");
  }
  void deliver(const AttentionTensors& t, Stream stream) override {
    out_.copy_to(t.out, stream);
    if (t.statistics != nullptr) log_sum_.copy_to(t.statistics, stream);
  }

 private:
  Device& device_;
  Case case_;
  Sizes sizes_;
  TorchValue out_, log_sum_, state_, unused_, mask_;
};

class TorchBackward : public AttentionPass {
 public:
  TorchBackward(Device& device, const Case& what) : device_(device), case_(what), sizes_(what, what.attention.seq) {
    check_torch(torch().empty(none_.place()), "making a tensor");
    check_torch(torch().empty(other_none_.place()), "making a tensor");
    check_torch(torch().empty(state_.place()), "making a tensor");
    check_torch(torch().empty(unused_.place()), "making a tensor");
  }

  void launch(const AttentionTensors& t, Stream stream) override {
    const OnStream here(device_, stream);
    const Case::Attention& a = case_.attention;
    const auto tensor = [&](void* data, std::int64_t heads) {
      return torch_tensor(device_, case_.dtype, data, {case_.batch, a.seq, heads, a.head_dim});
    };
    const TorchValue q = tensor(t.q, a.heads), k = tensor(t.k, a.kv_heads), v = tensor(t.v, a.kv_heads),
                     out = tensor(t.out, a.heads), dout = tensor(t.dout, a.heads);
    const TorchValue log_sum = statistics(t);
    check_torch(torch().flash_backward(dout.get(), q.get(), k.get(), v.get(), out.get(), log_sum.get(), none_.get(),
                                       other_none_.get(), a.seq, a.seq, 0, 1, state_.get(), unused_.get(),
                                       &sizes_.scale, sizes_.or_none(sizes_.left), sizes_.or_none(sizes_.right),
                                       dq_.place(), dk_.place(), dv_.place()),
                "the gradient of attention");
  }
  void deliver(const AttentionTensors& t, Stream stream) override {
    dq_.copy_to(t.dq, stream);
    dk_.copy_to(t.dk, stream);
    dv_.copy_to(t.dv, stream);
  }

 private:
  TorchValue statistics(const AttentionTensors& t) const {
    const std::int64_t heads = case_.attention.heads, seq = case_.attention.seq;
    return torch_tensor(device_, torch().float32(), t.statistics, {case_.batch, heads, seq}, {heads * seq, seq, 1});
  }

  Device& device_;
  Case case_;
  Sizes sizes_;
  TorchValue none_, other_none_, state_, unused_, dq_, dk_, dv_;
};

void need_torch() {
  if (!torch().ready) throw Failure{GpuStatus::unavailable, "PyTorch's library: " + torch().library.problem()};
}

}  // namespace

std::unique_ptr<AttentionPass> make_torch_pass(Device& device, const Case& what, bool backward) {
  need_torch();
  if (backward) return std::make_unique<TorchBackward>(device, what);
  return std::make_unique<TorchForward>(device, what, what.attention.seq);
}

std::unique_ptr<AttentionPass> make_cached_pass(Device& device, const Case& what) {
  need_torch();
  return std::make_unique<TorchForward>(device, what, what.m);
}

void list_torch(Inventory& inventory) {
  inventory.add("PyTorch", torch().ready ? "(its library of kernels)" : "", torch().library.problem(),
                "attention of engines over caches, and of training on ROCm");
  // Kernels that are compiled from Python as they run have no interface that a module could call.
  inventory.add("flash-linear-attention, mamba-ssm", "", "Python alone; --learn takes them from a trace",
                "scans of Mamba-2 and of gated delta nets, sparse attention");
}

}  // namespace orrery::calibration::gpu
