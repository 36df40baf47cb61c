// Compiles the programs of all stages. See stage_program.h.
//
// Order of a step: (parameter all-gathers, when they overlap with the forward pass) - passes, with gradient reductions
// beside the last backward pass of each chunk when they overlap - remaining reductions - tied embedding - gradient norm
// - optimizer - (parameter all-gather when it does not overlap). The step is taken from steady state: an all-gather
// that overlaps with the next step's forward pass stands at the start of this one.
#include "workloads/stage_program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "sim/error.h"
#include "workloads/pass_template.h"

namespace orrery::workloads {

namespace {

using sim::Duration;
using sim::Op;
using sim::OpKind;

constexpr std::uint32_t kNone = 0xffffffff;

class StageCompiler {
 public:
  StageCompiler(const Job& job, const LayerSplit& split, const GroupShapes& shapes, const std::vector<Peer>& slots,
                const topology::Cluster& cluster, TemplateLibrary& library, std::int64_t stage, double undisturbed_rate,
                bool evaluation)
      : slots_(slots),
        job_(job),
        split_(split),
        shapes_(shapes),
        cluster_(cluster),
        library_(library),
        stage_(stage),
        stages_(job.parallelism.pipeline),
        chunks_(job.parallelism.virtual_pipeline),
        evaluation_(evaluation),
        undisturbed_rate_(gathers_messages() ? 0 : undisturbed_rate),
        data_ranks_(job.parallelism.data * job.parallelism.context),
        shard_(shard_parameters(job)),
        sharded_(job.parallelism.sharding != Sharding::none),
        full_shard_(job.parallelism.sharding == Sharding::parameters && data_ranks_ > 1) {}

  void compile(const std::vector<Pass>& passes) {
    chunk_seen_.assign(static_cast<std::size_t>(chunks_), false);
    templates_.assign(static_cast<std::size_t>(chunks_), nullptr);
    wholes_.assign(4 * static_cast<std::size_t>(chunks_), nullptr);
    chunk_gathers_.assign(static_cast<std::size_t>(chunks_), {});
    backwards_left_.assign(static_cast<std::size_t>(chunks_), 0);
    for (const Pass& pass : passes) backwards_left_[index(pass.chunk)] += pass.backward;
    if (!evaluation_) gather_parameters_ahead();
    for (const Pass& pass : passes) emit_pass(pass);
    if (!evaluation_) finish_step();
  }

  sim::Program program;
  std::vector<OpNote> notes;

 private:
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

  // ---- operations ----
  std::uint32_t slot_of(Peer peer) const {
    const auto it = std::find(slots_.begin(), slots_.end(), peer);
    SIM_CHECK(it != slots_.end(), "stage {} has no communicator for peer {}", stage_, static_cast<int>(peer));
    return static_cast<std::uint32_t>(it - slots_.begin());
  }

  OpNote note() const {
    OpNote n;
    n.microbatch = microbatch_;
    n.chunk = static_cast<std::int16_t>(chunk_);
    n.backward = backward_;
    return n;
  }

  std::uint32_t compute(const PassItem& item, Category category) {
    Op op;
    op.kind = OpKind::compute;
    op.stream = static_cast<std::uint8_t>(Stream::compute);
    op.category = static_cast<std::uint8_t>(category);
    const double slower = slowdown();
    op.duration =
        slower == 1.0 ? item.duration : Duration(std::llround(static_cast<double>(item.duration.value()) * slower));
    op.issue = item.issue;
    op.issue_bound = item.issue_bound + (op.duration - item.duration);
    std::vector<std::uint32_t> waits = std::move(next_waits_);
    next_waits_.clear();
    std::erase_if(pending_, [&](Pending& p) {
      if (p.passes_by-- > 0) return false;
      waits.push_back(p.op);
      return true;
    });
    OpNote n = note();
    n.run = item.run;
    notes.push_back(n);
    return last_compute_ = program.add(op, waits);
  }

  struct Transfer {
    Stream stream{};
    Category category{};
    Peer peer{};
    CollectiveCost cost;
    std::uint32_t traffic = kNoTraffic;
    double share = 1.0;
    bool counts = true;
    bool host_waits = false;
  };

  std::uint32_t transfer(const Transfer& t, std::span<const std::uint32_t> waits) {
    Op op;
    op.kind = OpKind::transfer;
    op.stream = static_cast<std::uint8_t>(t.stream);
    op.category = static_cast<std::uint8_t>(t.category);
    op.host_waits = t.host_waits;
    op.issue = job_.software.transfer_issue;
    op.duration = t.cost.latency;
    op.slot = slot_of(t.peer);
    op.pattern = static_cast<std::uint32_t>(t.cost.pattern);
    op.work = t.cost.work;
    op.rate_cap = t.cost.rate_cap;
    OpNote n = note();
    n.traffic = t.traffic;
    n.share = t.share;
    n.counts = t.counts;
    notes.push_back(n);
    return program.add(op, waits);
  }

  std::span<const std::uint32_t> after_compute() const {
    return {&last_compute_, last_compute_ == kNone ? std::size_t{0} : std::size_t{1}};
  }

  // ---- passes ----
  std::int64_t global_chunk(const Pass& pass) const { return pass.chunk * stages_ + stage_; }

  void emit_pass(const Pass& pass) {
    microbatch_ = pass.microbatch, chunk_ = pass.chunk, backward_ = pass.backward;
    const ChunkShape& shape = split_.of(pass.chunk, stage_, stages_);
    const PassTemplate& passes = template_of(shape);
    receive(pass);
    const bool first_use = !pass.backward && !chunk_seen_[index(pass.chunk)];
    chunk_seen_[index(pass.chunk)] = chunk_seen_[index(pass.chunk)] || !pass.backward;
    std::size_t awaited = 0;
    const bool last_backward = pass.backward && --backwards_left_[index(pass.chunk)] == 0;
    const auto buckets =
        last_backward && reduces_beside_backward() ? gradient_buckets(shape, passes) : std::vector<Bucket>{};
    if (full_shard_) begin_units(pass, shape);
    std::size_t next_bucket = 0;
    const auto& items = pass.backward ? passes.backward : passes.forward;
    const bool awaits = first_use && !chunk_gathers_[index(pass.chunk)].empty();
    if (undisturbed_rate_ > 0 && !full_shard_ && !awaits && buckets.empty() && pending_.empty() &&
        emit_whole(shape, passes)) {
      send(pass);
      return;
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (full_shard_) enter_unit(items[i].layer);
      if (first_use) await_parameters(shape, items[i].layer, i, items.size(), awaited);
      if (items[i].comm) {
        const Transfer t{Stream::tensor,   Category::tensor_comm, Peer::tensor,    items[i].cost,
                         items[i].traffic, items[i].share,        items[i].counts, false};
        pending_.push_back({transfer(t, after_compute()), items[i].passes_by});
      } else {
        compute(items[i], Category::compute);
      }
      while (next_bucket < buckets.size() && buckets[next_bucket].after_items == i + 1)
        reduce_gradients(buckets[next_bucket++].parameters);
    }
    if (full_shard_) end_units();
    send(pass);
  }

  const PassTemplate& template_of(const ChunkShape& shape) {
    const PassTemplate*& known = templates_[index(chunk_)];
    if (known == nullptr) known = &library_.of(shape);
    return *known;
  }

  /// The pass as one operation; false, and nothing done, where a collective of it outlasts its kernels.
  bool emit_whole(const ChunkShape& shape, const PassTemplate& passes) {
    const double slower = slowdown();
    const TemplateLibrary::Whole*& known = wholes_[4 * index(chunk_) + 2 * backward_ + (slower != 1.0)];
    if (known == nullptr) known = &library_.whole(shape, passes, backward_, slower);
    const TemplateLibrary::Whole& whole = *known;
    if (!whole.pass.closed || whole.pass.highest_rate > undisturbed_rate_) return false;
    Op op;
    op.kind = OpKind::compute;
    op.stream = static_cast<std::uint8_t>(Stream::compute);
    op.category = static_cast<std::uint8_t>(Category::compute);
    op.duration = whole.pass.duration;
    op.issue = whole.pass.issue;
    op.issue_bound = whole.pass.issue_bound;
    OpNote n = note();
    n.whole = whole.note;
    notes.push_back(n);
    last_compute_ = program.add(op, next_waits_);
    next_waits_.clear();
    return true;
  }

  // ---- pipeline messages ----
  double message_bytes() const {
    const double whole = static_cast<double>(job_.batch.micro * job_.model.seq / job_.parallelism.context) *
                         static_cast<double>(job_.model.hidden) * calibration::bytes_of(job_.precision.activations);
    return message_is_split() ? whole / static_cast<double>(job_.parallelism.tensor) : whole;
  }
  /// A message arrives in parts, which NVLink puts together on the tensor stream.
  bool gathers_messages() const { return stages_ > 1 && message_is_split() && !job_.parallelism.sequence_parallel; }
  bool message_is_split() const {
    return job_.parallelism.tensor > 1 && (job_.parallelism.sequence_parallel || job_.software.scatter_gather_pipeline);
  }

  /// The message between `from` and the stage after it; both ends must describe it alike.
  const Transfer& message(Peer peer, Stream stream, std::int64_t from, bool gradient) {
    std::optional<Transfer>& known = messages_[static_cast<std::size_t>(peer)];
    if (known) return *known;
    Transfer& t = known.emplace();
    t.stream = stream;
    t.category = Category::pipeline_comm;
    t.peer = peer;
    t.cost = send_cost(message_bytes(), shapes_.pipeline_same_node[static_cast<std::size_t>(from)], job_.device,
                       job_.software);
    t.traffic = library_.traffic({"pipeline", CollectiveOp::send_receive,
                                  gradient ? "activation gradients, backward" : "activations, forward", 2,
                                  message_bytes(), message_bytes()});
    return t;
  }

  std::int64_t previous_stage() const { return (stage_ + stages_ - 1) % stages_; }

  void receive(const Pass& pass) {
    const std::int64_t g = global_chunk(pass);
    if (stages_ == 1 || (pass.backward ? g == stages_ * chunks_ - 1 : g == 0)) return;
    Transfer t = pass.backward ? message(Peer::next_gradient, Stream::pipeline_receive_gradient, stage_, true)
                               : message(Peer::previous_activation, Stream::pipeline_receive, previous_stage(), false);
    t.counts = false;  // the sender counts the message
    t.host_waits = job_.software.host_waits_for_pipeline && !job_.overlap.pipeline;
    const std::uint32_t op = transfer(t, {});
    if (gathers_messages()) {
      // Scatter/gather (arXiv 2104.04473, section 4.1): each tensor rank carries a part across, NVLink puts it
      // together.
      const double bytes = message_bytes() * static_cast<double>(job_.parallelism.tensor);
      Transfer gather{Stream::tensor, Category::tensor_comm, Peer::tensor, {}, kNoTraffic, 1.0, true, false};
      gather.cost =
          collective_cost(CollectiveOp::all_gather, bytes, shapes_.tensor, job_.device, job_.software, cluster_);
      gather.traffic =
          library_.traffic({"tensor", CollectiveOp::all_gather, "pipeline message", job_.parallelism.tensor, bytes,
                            wire_bytes(CollectiveOp::all_gather, job_.parallelism.tensor, bytes)});
      next_waits_.push_back(transfer(gather, {&op, 1}));
    } else {
      next_waits_.push_back(op);
    }
  }

  void send(const Pass& pass) {
    const std::int64_t g = global_chunk(pass);
    if (stages_ == 1 || (pass.backward ? g == 0 : g == stages_ * chunks_ - 1)) return;
    const Transfer& t = pass.backward
                            ? message(Peer::previous_gradient, Stream::pipeline_send_gradient, previous_stage(), true)
                            : message(Peer::next_activation, Stream::pipeline_send, stage_, false);
    const std::uint32_t op = transfer(t, after_compute());
    if (!job_.overlap.pipeline) next_waits_.push_back(op);
  }

  // ---- data parallelism: reductions and gathers of whole chunks (ZeRO 0 to 2) ----
  struct Bucket {
    std::size_t after_items;
    double parameters;
  };

  double chunk_parameters(const ChunkShape& shape) const {
    return static_cast<double>(shape.layers) * shard_.layer + (shape.embedding ? shard_.embedding : 0) +
           (shape.head ? shard_.head : 0);
  }
  bool reduces_beside_backward() const {
    return data_ranks_ > 1 && job_.overlap.gradients && !full_shard_ && !evaluation_;
  }
  bool gathers_beside_forward() const { return data_ranks_ > 1 && sharded_ && !full_shard_ && job_.overlap.parameters; }
  double gradient_bytes() const { return calibration::bytes_of(job_.precision.gradients); }
  double parameter_bytes() const { return calibration::bytes_of(job_.precision.parameters); }

  /// A bucket is closed after the layer that fills it; the last one takes the rest of the chunk.
  std::vector<Bucket> gradient_buckets(const ChunkShape& shape, const PassTemplate& passes) const {
    const double target = static_cast<double>(job_.software.gradient_bucket.value()) / gradient_bytes();
    std::vector<Bucket> buckets;
    double filled = shape.head ? shard_.head : 0;
    for (std::int64_t layer = shape.layers; layer-- > 1;) {
      filled += shard_.layer;
      if (target > 0 && filled >= target) {
        buckets.push_back({passes.layer_done[static_cast<std::size_t>(layer)], filled});
        filled = 0;
      }
    }
    filled += (shape.layers > 0 ? shard_.layer : 0) + (shape.embedding ? shard_.embedding : 0);
    if (filled > 0) buckets.push_back({passes.backward.size(), filled});
    return buckets;
  }

  Transfer data_transfer(CollectiveOp op, double bytes, const char* what) {
    Transfer t{Stream::data, Category::data_comm, Peer::data, {}, kNoTraffic, 1.0, true, false};
    t.cost = collective_cost(op, bytes, shapes_.data, job_.device, job_.software, cluster_);
    t.traffic = library_.traffic({"data", op, what, data_ranks_, bytes, wire_bytes(op, data_ranks_, bytes)});
    return t;
  }

  void reduce_gradients(double parameters) {
    const CollectiveOp op = sharded_ ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce;
    last_reduction_ =
        transfer(data_transfer(op, parameters * gradient_bytes(), "gradients, backward"), after_compute());
    reducing_ = true;
  }

  /// All-gathers the parameters of one chunk, bucket by bucket, in the order in which the forward pass uses them.
  std::vector<std::uint32_t> gather_chunk(std::int64_t chunk, std::span<const std::uint32_t> waits) {
    const double bytes = chunk_parameters(split_.of(chunk, stage_, stages_)) * parameter_bytes();
    const auto bucket = static_cast<double>(job_.software.parameter_bucket.value());
    const auto parts = bucket > 0 ? std::max<std::int64_t>(1, std::llround(bytes / bucket)) : 1;
    std::vector<std::uint32_t> gathers;
    for (std::int64_t i = 0; i < parts; ++i) {
      gathers.push_back(transfer(
          data_transfer(CollectiveOp::all_gather, bytes / static_cast<double>(parts), "parameters, forward"), waits));
    }
    return gathers;
  }

  /// Before a layer's first use the next compute operation waits for the buckets that hold its parameters.
  void await_parameters(const ChunkShape& shape, std::int32_t layer, std::size_t item, std::size_t items,
                        std::size_t& awaited) {
    const std::vector<std::uint32_t>& gathers = chunk_gathers_[index(chunk_)];
    if (awaited >= gathers.size()) return;
    const double all = chunk_parameters(shape), embedding = shape.embedding ? shard_.embedding : 0;
    const bool is_head = layer < 0 && item > 0 && item + 1 >= items;
    const double needed = layer >= 0                    ? embedding + static_cast<double>(layer + 1) * shard_.layer
                          : is_head || !shape.embedding ? all
                                                        : embedding;
    const auto buckets = static_cast<double>(gathers.size());
    const auto through = std::min(gathers.size(), static_cast<std::size_t>(std::ceil(needed / all * buckets - 1e-9)));
    if (through <= awaited) return;
    next_waits_.push_back(gathers[through - 1]);  // buckets arrive in order
    awaited = through;
  }

  void gather_parameters_ahead() {
    if (!gathers_beside_forward()) return;
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
      chunk_ = static_cast<std::int32_t>(chunk);
      chunk_gathers_[static_cast<std::size_t>(chunk)] = gather_chunk(chunk, {});
    }
  }

  double slowdown() const { return beside_data_collective() ? job_.software.compute_slowdown_under_collective : 1.0; }

  /// Kernels that run while a data-parallel collective is under way lose SMs and memory bandwidth to it.
  bool beside_data_collective() const {
    if (evaluation_ || optimizing_ || data_ranks_ == 1) return false;
    if (full_shard_) return job_.overlap.parameters;
    if (!backward_ && gathers_beside_forward()) {
      return std::find(chunk_seen_.begin(), chunk_seen_.end(), false) != chunk_seen_.end();
    }
    return backward_ && reducing_;
  }

  // ---- data parallelism: parameters sharded layer by layer (ZeRO 3, FSDP) ----
  // Units are the layers of the chunk, and embedding and head (-1) together with the first unit entered. A unit's
  // parameters are gathered before it runs; with overlap, the gather of the next unit is issued when a unit starts.
  void begin_units(const Pass& pass, const ChunkShape& shape) {
    units_.clear();
    const bool forward = !pass.backward;
    const double ends = (shape.embedding ? shard_.embedding : 0) + (shape.head ? shard_.head : 0);
    for (std::int64_t i = 0; i < shape.layers; ++i) {
      const auto layer = static_cast<std::int32_t>(forward ? i : shape.layers - 1 - i);
      units_.push_back({layer, shard_.layer + (i == 0 ? ends : 0), kNone});
    }
    if (units_.empty()) units_.push_back({-1, ends, kNone});
    unit_ = kNone;
    gather_unit(0);
  }

  void gather_unit(std::size_t i) {
    if (i >= units_.size() || units_[i].gather != kNone) return;
    const char* what = backward_ ? "parameters, backward" : "parameters, forward";
    units_[i].gather = transfer(data_transfer(CollectiveOp::all_gather, units_[i].parameters * parameter_bytes(), what),
                                after_compute());
  }

  void enter_unit(std::int32_t layer) {
    std::size_t i = unit_ == kNone ? 0 : unit_;
    while (layer >= 0 && i + 1 < units_.size() && units_[i].layer != layer) ++i;
    if (unit_ != kNone && i == unit_) return;
    if (unit_ != kNone && backward_) scatter_unit(unit_);
    unit_ = static_cast<std::uint32_t>(i);
    gather_unit(i);
    next_waits_.push_back(units_[i].gather);
    if (job_.overlap.parameters) gather_unit(i + 1);
  }

  void scatter_unit(std::size_t i) {
    if (evaluation_) return;
    const std::uint32_t op = transfer(
        data_transfer(CollectiveOp::reduce_scatter, units_[i].parameters * gradient_bytes(), "gradients, backward"),
        after_compute());
    last_reduction_ = op;
    if (!job_.overlap.gradients) next_waits_.push_back(op);
  }

  void end_units() {
    if (backward_ && unit_ != kNone) scatter_unit(unit_);
  }

  // ---- end of the step ----
  void finish_step() {
    microbatch_ = -1, chunk_ = -1, backward_ = false;
    for (const Pending& p : pending_) next_waits_.push_back(p.op);
    pending_.clear();
    if (data_ranks_ > 1 && !full_shard_ && !job_.overlap.gradients) {
      for (std::int64_t chunk = chunks_; chunk-- > 0;) {
        chunk_ = static_cast<std::int32_t>(chunk);
        reduce_gradients(chunk_parameters(split_.of(chunk, stage_, stages_)));
      }
      chunk_ = -1;
    }
    if (last_reduction_ != kNone) next_waits_.push_back(last_reduction_);  // the data stream runs in order
    reduce_tied_embedding();
    optimizing_ = true;
    const double parameters = stage_parameters(job_, split_, stage_);
    const double updated = sharded_ ? parameters / static_cast<double>(data_ranks_) : parameters;
    const Kernel norm{"gradient norm",
                      job_.device.streaming(calibration::Streaming::gradient_norm, updated * gradient_bytes()), false};
    compute(library_.compute({norm}, -1), Category::optimizer);
    reduce_norm();
    compute(library_.compute(optimizer_kernels(job_, parameters, updated), -1), Category::optimizer);
    if (data_ranks_ > 1 && sharded_ && !full_shard_ && !job_.overlap.parameters) {
      for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
        chunk_ = static_cast<std::int32_t>(chunk);
        gather_chunk(chunk, after_compute());
      }
    }
  }

  /// First and last stage hold the same word embedding and add up its gradients.
  void reduce_tied_embedding() {
    if (stages_ == 1 || !job_.model.tied_embeddings || (stage_ != 0 && stage_ != stages_ - 1)) return;
    const double elements =
        static_cast<double>(padded_vocab(job_) / job_.parallelism.tensor) * static_cast<double>(job_.model.hidden);
    const double bytes = elements * gradient_bytes() / (full_shard_ ? static_cast<double>(data_ranks_) : 1.0);
    Transfer t{Stream::data, Category::data_comm, Peer::embedding, {}, kNoTraffic, 1.0, true, false};
    t.cost = collective_cost(CollectiveOp::all_reduce, bytes, shapes_.embedding, job_.device, job_.software, cluster_);
    t.traffic = library_.traffic({"embedding", CollectiveOp::all_reduce, "tied embedding gradients", 2, bytes,
                                  wire_bytes(CollectiveOp::all_reduce, 2, bytes)});
    next_waits_.push_back(transfer(t, after_compute()));
  }

  /// The norm is summed over every rank that holds a part of the gradients; the host reads it to decide on clipping or
  /// skipping.
  void reduce_norm() {
    const std::int64_t ranks = shapes_.world.ranks;
    if (ranks == 1) return;
    Transfer t{Stream::data, Category::other, Peer::world, {}, kNoTraffic, 1.0, true, true};
    t.cost = collective_cost(CollectiveOp::all_reduce, 4, shapes_.world, job_.device, job_.software, cluster_);
    t.cost.pattern = Pattern::around;  // the world's route is empty: four bytes load no link
    t.cost.work = 0, t.cost.rate_cap = 0;
    t.traffic = library_.traffic(
        {"norm", CollectiveOp::all_reduce, "gradient norm", ranks, 4, wire_bytes(CollectiveOp::all_reduce, ranks, 4)});
    next_waits_.push_back(transfer(t, after_compute()));
  }

  struct Pending {
    std::uint32_t op;
    std::int32_t passes_by;
  };
  struct Unit {
    std::int32_t layer;
    double parameters;
    std::uint32_t gather;
  };

  const std::vector<Peer>& slots_;
  const Job& job_;
  const LayerSplit& split_;
  const GroupShapes& shapes_;
  const topology::Cluster& cluster_;
  TemplateLibrary& library_;
  std::int64_t stage_, stages_, chunks_;
  bool evaluation_;
  double undisturbed_rate_;
  std::int64_t data_ranks_;
  ShardParameters shard_;
  bool sharded_, full_shard_;

  std::int32_t microbatch_ = -1, chunk_ = -1;
  bool backward_ = false, reducing_ = false, optimizing_ = false;
  std::uint32_t last_compute_ = kNone;
  std::vector<std::uint32_t> next_waits_;  // what the next compute operation waits for
  std::vector<Pending> pending_;           // tensor collectives that a later compute operation waits for
  std::vector<bool> chunk_seen_;
  std::vector<const PassTemplate*> templates_;            // by chunk
  std::vector<const TemplateLibrary::Whole*> wholes_;     // by chunk, direction and whether slowed down
  std::array<std::optional<Transfer>, kPeers> messages_;  // by peer
  std::vector<std::vector<std::uint32_t>> chunk_gathers_;
  std::vector<std::int64_t> backwards_left_;
  std::uint32_t last_reduction_ = kNone;
  std::vector<Unit> units_;
  std::uint32_t unit_ = kNone;
};

}  // namespace

StagePrograms compile_programs(const Job& job, const LayerSplit& split, const GroupShapes& shapes,
                               const std::vector<std::vector<Peer>>& slots, const topology::Cluster& cluster,
                               double undisturbed_rate, bool evaluation) {
  StagePrograms out;
  TemplateLibrary library(job, shapes, cluster, out);
  const auto stages = static_cast<std::int32_t>(job.parallelism.pipeline);
  const auto chunks = static_cast<std::int32_t>(job.parallelism.virtual_pipeline);
  const auto m = static_cast<std::int32_t>(job.microbatches());
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const ScheduleKind schedule = job.parallelism.schedule;
    const std::vector<Peer>& slots_of_stage = slots[static_cast<std::size_t>(stage)];
    StageCompiler compiler(job, split, shapes, slots_of_stage, cluster, library, stage, undisturbed_rate, evaluation);
    compiler.compile(evaluation ? forward_only(schedule, stage, stages, chunks, m)
                                : passes_of(schedule, stage, stages, chunks, m));
    out.programs.push_back(std::move(compiler.program));
    out.notes.push_back(std::move(compiler.notes));
  }
  return out;
}

}  // namespace orrery::workloads
