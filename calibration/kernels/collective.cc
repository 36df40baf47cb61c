// Collectives between the GPUs of this machine, by NCCL or RCCL, one process driving all of them. Both have the same
// functions, declared here as in NVIDIA's NCCL documentation. Sizes as in nccl-tests: the whole buffer (all-gather: the
// output, reduce-scatter: the input). Communicators take seconds to make, and stay for all cases of a group until one
// fails. Left out: more than one node.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "calibration/kernels/library.h"
#include "calibration/kernels/timing.h"
#include "calibration/kernels/values.h"

namespace orrery::calibration::gpu {
namespace {

using Comm = void*;
constexpr int kSum = 0, kBfloat16 = 9;  // ncclRedOp_t, ncclDataType_t

struct Nccl {
#if defined(ORRERY_HIP)
  Library library{{"librccl.so.1", "librccl.so"}};
#else
  Library library{{"libnccl.so.2", "libnccl.so"}};
#endif
  int (*version)(int*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*init_all)(Comm*, int, const int*) = nullptr;
  int (*destroy)(Comm) = nullptr;
  int (*abort)(Comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, Comm, Stream) = nullptr;
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, Comm, Stream) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t, int, Comm, Stream) = nullptr;
  int (*broadcast)(const void*, void*, std::size_t, int, int, Comm, Stream) = nullptr;
  int (*send)(const void*, std::size_t, int, int, Comm, Stream) = nullptr;
  int (*receive)(void*, std::size_t, int, int, Comm, Stream) = nullptr;
  bool ready = false;

  Nccl() {
    ready = library.get(version, "ncclGetVersion") && library.get(error_text, "ncclGetErrorString") &&
            library.get(init_all, "ncclCommInitAll") && library.get(destroy, "ncclCommDestroy") &&
            library.get(group_start, "ncclGroupStart") && library.get(group_end, "ncclGroupEnd") &&
            library.get(all_reduce, "ncclAllReduce") && library.get(reduce_scatter, "ncclReduceScatter") &&
            library.get(all_gather, "ncclAllGather") && library.get(broadcast, "ncclBroadcast") &&
            library.get(send, "ncclSend") && library.get(receive, "ncclRecv");
    static_cast<void>(library.get(abort, "ncclCommAbort"));
  }
};

Nccl& nccl() {
  static Nccl library;
  return library;
}

void check_nccl(int status, const char* what) {
  if (status != 0) throw Failure{GpuStatus::failed, std::string(what) + ": " + nccl().error_text(status)};
}

/// Communicators by the devices that they join, in their order. Never destroyed with the statics: NCCL's own may be
/// gone by then.
using Kept = std::map<std::vector<int>, std::vector<Comm>>;
Kept& kept() {
  static Kept& one = *new Kept;
  return one;
}

const std::vector<Comm>& communicators(const std::vector<int>& devices) {
  const auto found = kept().find(devices);
  if (found != kept().end()) return found->second;
  std::vector<Comm> made(devices.size());
  check_nccl(nccl().init_all(made.data(), static_cast<int>(devices.size()), devices.data()), "starting NCCL");
  return kept()[devices] = std::move(made);
}

/// After an error a communicator is of no more use, and may never finish what it has begun.
void give_up(const std::vector<int>& devices) {
  const auto found = kept().find(devices);
  if (found == kept().end()) return;
  for (const Comm comm : found->second)
    if (comm != nullptr) static_cast<void>(nccl().abort != nullptr ? nccl().abort(comm) : nccl().destroy(comm));
  kept().erase(found);
}

/// One GPU of the group. Buffers are `count` bf16; sends come from `send`, results go to `receive`.
struct Rank {
  int device = 0;
  Memory send, receive;
  Stream stream = nullptr;
  std::unique_ptr<Mark> begin, end;
  std::unique_ptr<Recording> graph;
};

std::uint64_t seed_of(int rank) { return 0xc0ffeeu + static_cast<std::uint64_t>(rank); }
double sent(int rank, std::int64_t i) {
  return static_cast<double>(from_bf16(to_bf16(normal_at(seed_of(rank), static_cast<std::uint64_t>(i)))));
}

class Group {
 public:
  Group(Device& device, const Case& what) : name_(what.name), count_(what.bytes / 2), home_(device.number()) {
    if (name_ == "all_reduce_graph") name_ = "all_reduce";
    graphs_ = name_ != what.name;
    const auto gpus = static_cast<int>(what.gpus);
    // Every rank has an equal part.
    count_ -= count_ % gpus;
    for (int i = 0; i < gpus; ++i) devices_.push_back((home_ + i) % device.facts().gpus);
    comms_ = communicators(devices_);
    for (int i = 0; i < gpus; ++i) {
      check(gpuSetDevice(devices_[static_cast<std::size_t>(i)]), "choosing a device");
      Rank rank;
      rank.device = devices_[static_cast<std::size_t>(i)];
      const auto bytes = static_cast<std::size_t>(count_) * 2;
      rank.send = Memory(bytes);
      rank.receive = Memory(bytes);
      check(gpuStreamCreateWithFlags(&rank.stream, gpuStreamNonBlocking), "making a stream");
      rank.begin = std::make_unique<Mark>();
      rank.end = std::make_unique<Mark>();
      fill(rank.send.data(), Filled::bf16, Fill::normal, 1, count_, seed_of(i), rank.stream);
      check_launch("filling the inputs");
      check(gpuMemsetAsync(rank.receive.data(), 0xff, bytes, rank.stream), "poisoning the outputs");
      ranks_.push_back(std::move(rank));
    }
    synchronise();
  }
  ~Group() {
    for (const Rank& rank : ranks_) static_cast<void>(gpuStreamDestroy(rank.stream));
    static_cast<void>(gpuSetDevice(home_));
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Whatever is wrong between a group's beginning and its end, the group is ended: NCCL counts them, and another case
  /// would be enqueued into this one's.
  void run() {
    check_nccl(nccl().group_start(), "starting a group");
    const int enqueued = enqueue(), ended = nccl().group_end();
    if (enqueued != 0 || ended != 0) give_up(devices_);
    check_nccl(enqueued, "enqueuing a collective");
    check_nccl(ended, "ending a group");
  }

  /// Seconds of one of `times` runs, on the slowest GPU.
  double timed(int times) {
    if (graphs_) record(times);
    for (Rank& rank : ranks_) on(rank, [&] { rank.begin->record(rank.stream); });
    if (graphs_) {
      for (Rank& rank : ranks_) on(rank, [&] { rank.graph->launch(rank.stream); });
    } else {
      for (int i = 0; i < times; ++i) run();
    }
    for (Rank& rank : ranks_) on(rank, [&] { rank.end->record(rank.stream); });
    double longest = 0;
    for (Rank& rank : ranks_) {
      on(rank, [&] { rank.end->wait(); });
      longest = std::max(longest, rank.end->since(*rank.begin));
    }
    return longest / times;
  }

  void synchronise() {
    for (Rank& rank : ranks_) on(rank, [&] { check(gpuStreamSynchronize(rank.stream), "running a collective"); });
  }

  /// Of some elements on the first and on the last GPU.
  double error() {
    run();
    synchronise();
    Difference difference;
    const auto gpus = static_cast<int>(ranks_.size());
    const std::int64_t part = count_ / gpus;
    const bool parts = name_ == "reduce_scatter";
    for (const int r : {0, gpus - 1}) {
      for (std::uint64_t sample = 0; sample < 64; ++sample) {
        const std::int64_t length = parts ? part : count_;
        const auto i = static_cast<std::int64_t>(bits_at(3, sample) % static_cast<std::uint64_t>(length));
        Bf16 stored = 0;
        check(gpuMemcpy(&stored, static_cast<Bf16*>(ranks_[static_cast<std::size_t>(r)].receive.data()) + i, 2,
                        gpuMemcpyDeviceToHost),
              "reading a result");
        difference.add(static_cast<double>(from_bf16(stored)), right(r, i, part, gpus));
      }
    }
    return difference.relative();
  }

 private:
  /// The first status that is not success; what follows it is not enqueued.
  int enqueue() const {
    const auto gpus = static_cast<int>(ranks_.size());
    const auto all = static_cast<std::size_t>(count_), part = all / ranks_.size();
    int status = 0;
    for (int r = 0; r < gpus && status == 0; ++r) {
      const Rank& rank = ranks_[static_cast<std::size_t>(r)];
      auto* const in = static_cast<Bf16*>(rank.send.data());
      auto* const out = static_cast<Bf16*>(rank.receive.data());
      const Comm comm = comms_[static_cast<std::size_t>(r)];
      const auto also = [&](int next) { status = status != 0 ? status : next; };
      if (name_ == "all_reduce") also(nccl().all_reduce(in, out, all, kBfloat16, kSum, comm, rank.stream));
      if (name_ == "reduce_scatter") also(nccl().reduce_scatter(in, out, part, kBfloat16, kSum, comm, rank.stream));
      if (name_ == "all_gather") also(nccl().all_gather(in, out, part, kBfloat16, comm, rank.stream));
      if (name_ == "broadcast") also(nccl().broadcast(in, out, all, kBfloat16, 0, comm, rank.stream));
      if (name_ == "send_receive") {
        also(nccl().send(in, all, kBfloat16, (r + 1) % gpus, comm, rank.stream));
        also(nccl().receive(out, all, kBfloat16, (r + gpus - 1) % gpus, comm, rank.stream));
      }
      for (int peer = 0; name_ == "all_to_all" && peer < gpus; ++peer) {
        const std::size_t at = part * static_cast<std::size_t>(peer);
        also(nccl().send(in + at, part, kBfloat16, peer, comm, rank.stream));
        also(nccl().receive(out + at, part, kBfloat16, peer, comm, rank.stream));
      }
    }
    return status;
  }

  double right(int r, std::int64_t i, std::int64_t part, int gpus) const {
    const int peer = static_cast<int>(i / part);
    if (name_ == "all_gather") return sent(peer, i % part);
    if (name_ == "broadcast") return sent(0, i);
    if (name_ == "send_receive") return sent((r + gpus - 1) % gpus, i);
    if (name_ == "all_to_all") return sent(peer, r * part + i % part);
    double sum = 0;
    for (int rank = 0; rank < gpus; ++rank) sum += sent(rank, name_ == "reduce_scatter" ? r * part + i : i);
    return sum;
  }

  template <class Work>
  static void on(const Rank& rank, const Work& work) {
    check(gpuSetDevice(rank.device), "choosing a device");
    work();
  }

  /// The runs as one graph of each GPU; none where they are not recorded.
  void record(int times) {
    if (recorded_ == times) return;
    for (Rank& rank : ranks_) on(rank, [&] { rank.graph = std::make_unique<Recording>(rank.stream); });
    for (int i = 0; i < times; ++i) run();
    for (Rank& rank : ranks_) on(rank, [&] { rank.graph->end(); });
    recorded_ = times;
    for (Rank& rank : ranks_) on(rank, [&] { rank.graph->launch(rank.stream); });  // loads it
    synchronise();
  }

  std::string name_;
  std::int64_t count_;
  bool graphs_ = false;
  int recorded_ = 0;
  int home_;
  std::vector<int> devices_;
  std::vector<Comm> comms_;  // kept for later groups
  std::vector<Rank> ranks_;
};

}  // namespace

GpuTiming measure_collective(Device& device, const Case& what, double budget, bool timed) {
  if (!nccl().ready) throw Failure{GpuStatus::unavailable, "NCCL: " + nccl().library.problem()};
  if (what.gpus < 2 || what.gpus > device.facts().gpus) {
    throw Failure{GpuStatus::unavailable, "this machine has " + std::to_string(device.facts().gpus) + " GPUs"};
  }
  GpuTiming timing;
  Group group(device, what);
  timing.error = group.error();
  // bf16 sums of n terms round n - 1 times.
  if (!(timing.error < 2e-2)) throw Failure{GpuStatus::wrong, "relative error " + std::to_string(timing.error)};
  if (!timed) return timing;
  const int times = static_cast<int>(std::clamp(std::ceil(2e-3 / group.timed(3)), 1.0, 100.0));
  const auto begin = std::chrono::steady_clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  while (timing.repeats < kMostRepeats && (timing.repeats < 5 || spent() < budget))
    timing.seconds[timing.repeats++] = group.timed(times);
  return timing;
}

void end_collectives() {
  while (!kept().empty()) give_up(kept().begin()->first);
}

void list_collective_library(Inventory& inventory) {
  int v = 0;
  std::string version;
  if (nccl().ready && nccl().version(&v) == 0)  // 2.28.9 is 22809
    version = std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
#if defined(ORRERY_HIP)
  inventory.add("RCCL", version, nccl().library.problem(), "collectives");
#else
  inventory.add("NCCL", version, nccl().library.problem(), "collectives");
#endif
}

}  // namespace orrery::calibration::gpu
