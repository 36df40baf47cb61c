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
#include <numeric>
#include <optional>
#include <span>

#include "workloads/program_writer.h"
#include "workloads/schedules/chunk_map.h"
#include "workloads/step_passes.h"
#include "workloads/unit_overlap.h"

namespace orrery::workloads {
namespace {

constexpr std::uint32_t kNone = 0xffffffff, kPassKinds = 4;
constexpr double kAmaxPerLayer = 12;  // four GEMMs of a layer, three fp8 tensors each

class StageCompiler {
  using Transfer = ProgramWriter::Transfer;

 public:
  StageCompiler(const Job& job, const LayerSplit& split, const GroupShapes& shapes, const std::vector<Peer>& slots,
                const topology::Cluster& cluster, TemplateLibrary& library, std::int64_t stage, double undisturbed_rate,
                bool evaluation)
      : writer(job, slots),
        job_(job),
        split_(split),
        shapes_(shapes),
        cluster_(cluster),
        library_(library),
        map_(job),
        stage_(stage),
        stages_(job.parallelism.pipeline),
        chunks_(job.parallelism.virtual_pipeline),
        evaluation_(evaluation),
        undisturbed_rate_(gathers_messages(false) ? 0 : undisturbed_rate),
        data_ranks_(job.replicas()),
        shard_ranks_(job.shard_ranks()),
        shard_(shard_parameters(job)),
        sharded_(job.parallelism.sharding != Sharding::none),
        full_shard_(job.parallelism.sharding == Sharding::parameters && data_ranks_ > 1),
        by_unit_(works_by_unit(job)),
        every_pass_(full_shard_ || reduces_every_pass(job)),
        fetch_(microbatch_fetch(job, library)),
        weight_cast_(evaluation ? std::nullopt : weight_cast(job, library)) {}

  void compile(const std::vector<Pass>& passes) {
    chunk_seen_.assign(static_cast<std::size_t>(chunks_), false);
    templates_.assign(static_cast<std::size_t>(chunks_), nullptr);
    wholes_.assign(kPassKinds * static_cast<std::size_t>(chunks_), nullptr);
    chunk_gathers_.assign(static_cast<std::size_t>(chunks_), {});
    gradients_left_.assign(static_cast<std::size_t>(chunks_), 0);
    for (const Pass& pass : passes) gradients_left_[index(pass.chunk)] += ends_microbatch(pass.kind);
    for (const Pass& pass : passes) {
      if (pass.kind == PassKind::forward) forward_order_.push_back(pass.chunk);
    }
    if (!evaluation_) gather_parameters_ahead();
    for (std::size_t i = 0; i < passes.size();) {
      const std::size_t together = passes[i].with_next ? 2 : 1;
      const std::span<const Pass> group(&passes[i], together);
      const bool after_alike = i > 0 && exposes_messages(passes[i - 1], passes[i]);
      const bool before_alike = i + together < passes.size() && exposes_messages(group.back(), passes[i + together]);
      for (const Pass& pass : group) receive(pass, after_alike);
      for (const Pass& pass : group) {
        if (pass.kind == PassKind::forward) gather_in_step();
        run(pass);
        reduce_amax(pass);
        if (ends_microbatch(pass.kind)) reduce_in_step();
      }
      for (const Pass& pass : group) send(pass, before_alike);
      i += together;
    }
    if (!evaluation_) finish_step();
  }

  ProgramWriter writer;

 private:
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

  std::uint32_t compute(const PassItem& item, Category category) {
    return writer.compute(item, category, slowdown(sim::to_seconds(item.duration)));
  }

  // ---- passes ----
  void run(const Pass& pass) {
    writer.begin(pass);
    if (pass.kind == PassKind::forward && fetch_) writer.compute_at_once(*fetch_, Category::other);
    const ChunkShape& shape = split_.of(pass.chunk, stage_, stages_);
    const PassTemplate& passes = template_of(pass.chunk, shape);
    const bool forward = pass.kind == PassKind::forward;
    const bool first_use = forward && !chunk_seen_[index(pass.chunk)];
    chunk_seen_[index(pass.chunk)] = chunk_seen_[index(pass.chunk)] || forward;
    std::size_t awaited = 0;
    const bool last_gradients = ends_microbatch(pass.kind) && --gradients_left_[index(pass.chunk)] == 0;
    const auto buckets = last_gradients && reduces_beside_backward() ? gradient_buckets(shape, passes, pass.kind)
                                                                     : std::vector<Bucket>{};
    if (by_unit_) begin_units(pass, shape, passes, full_shard_ || first_use, every_pass_ || last_gradients);
    std::size_t next_bucket = 0;
    const bool awaits = first_use && (weight_cast_ || !chunk_gathers_[index(pass.chunk)].empty());
    std::int32_t cast_through = -1;
    if (!by_unit_ && !awaits && buckets.empty() && run_whole(pass, shape, passes)) return;
    const auto& items = passes.of(pass.kind);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (by_unit_) enter_unit(items[i].layer);
      if (first_use) await_parameters(shape, items[i].layer, i, items.size(), awaited);
      if (first_use && weight_cast_ && items[i].layer > cast_through) {
        cast_through = items[i].layer;
        writer.compute_before(*weight_cast_, Category::compute, slowdown(sim::to_seconds(weight_cast_->duration)));
      }
      if (items[i].comm) {
        Transfer t{Stream::tensor,   Category::tensor_comm, Peer::tensor,    items[i].cost,
                   items[i].traffic, items[i].share,        items[i].counts, false};
        if (items[i].context) t.stream = Stream::context, t.category = Category::context_comm, t.peer = Peer::context;
        writer.later_waits_for(writer.transfer(t, writer.after_compute()), items[i].passes_by);
      } else {
        compute(items[i], Category::compute);
      }
      while (next_bucket < buckets.size() && buckets[next_bucket].after_items == i + 1)
        reduce_gradients(buckets[next_bucket++].parameters);
    }
    // A chunk without layers has no weight gradients to compute, but an embedding to reduce.
    while (next_bucket < buckets.size()) reduce_gradients(buckets[next_bucket++].parameters);
    if (by_unit_) end_units();
  }

  /// Scales of fp8 tensors follow the largest magnitudes seen on any rank that holds a part of them or a replica
  /// (Transformer Engine, fp8.py, global_amax_reduction, at the end of fp8_autocast and of the backward pass).
  void reduce_amax(const Pass& pass) {
    const bool none = !job_.software.reduces_amax || job_.precision.matmul != calibration::DataType::fp8 || evaluation_;
    if (none || data_ranks_ == 1 || pass.kind == PassKind::weight_gradient) return;
    GroupShape group = shapes_.data;
    group.ranks *= shapes_.tensor.ranks, group.nodes *= shapes_.tensor.nodes, group.per_node *= shapes_.tensor.per_node;
    const double bytes = kAmaxPerLayer * static_cast<double>(split_.of(pass.chunk, stage_, stages_).layers) * sizeof(float);
    Transfer t{Stream::tensor, Category::data_comm, Peer::data, {}, kNoTraffic, 1.0, true, false};
    t.cost = collective_cost(CollectiveOp::all_reduce, bytes, group, job_.device, job_.software, cluster_);
    t.cost.pattern = Pattern::around;  // a few bytes load no link
    t.cost.work = 0, t.cost.rate_cap = 0;
    t.traffic = library_.traffic({"norm", CollectiveOp::all_reduce, "fp8 scales", group.ranks, bytes,
                                  wire_bytes(CollectiveOp::all_reduce, group.ranks, bytes)});
    writer.next_waits_for(writer.transfer(t, writer.after_compute()));
  }

  const PassTemplate& template_of(std::int32_t chunk, const ChunkShape& shape) {
    const PassTemplate*& known = templates_[index(chunk)];
    if (known == nullptr) known = &library_.of(shape);
    return *known;
  }

  /// The pass as one operation; false, and nothing done, where something else could disturb what goes on inside.
  bool run_whole(const Pass& pass, const ChunkShape& shape, const PassTemplate& passes) {
    if (undisturbed_rate_ <= 0 || writer.is_pending()) return false;
    const std::size_t row = kPassKinds * index(pass.chunk) + static_cast<std::size_t>(pass.kind);
    const TemplateLibrary::Whole*& undisturbed = wholes_[row];
    if (undisturbed == nullptr) undisturbed = &library_.whole(shape, passes, pass.kind, pace());
    if (!undisturbed->pass.closed || undisturbed->pass.highest_rate > undisturbed_rate_) return false;
    const double slower = slowdown(sim::to_seconds(undisturbed->pass.duration));
    const TemplateLibrary::Whole* known =
        slower == pace() ? undisturbed : &library_.whole(shape, passes, pass.kind, slower);
    writer.whole_pass(known->pass, known->note);
    return true;
  }

  /// A message arrives in parts, which NVLink puts together on the tensor stream.
  bool gathers_messages(bool gradient) const {
    return stages_ > 1 && splits_message(job_, gradient) && !job_.parallelism.sequence_parallel;
  }

  /// One end of a message with stage `other`; both ends must describe it alike. Every way and kind of message has
  /// communicators and streams of its own: two stages need not see messages of different kinds in the same order.
  const Transfer& message(const Pass& pass, std::int64_t other, bool sends) {
    const bool gradient = pass.kind != PassKind::forward, returns = map_.returns(pass.chunk);
    struct Line {
      Peer peer;
      Stream stream;
    };
    static constexpr Line lines[2][2][2] = {
        {{{Peer::previous_activation, Stream::pipeline_receive}, {Peer::next_activation, Stream::pipeline_send}},
         {{Peer::next_gradient, Stream::pipeline_receive_gradient},
          {Peer::previous_gradient, Stream::pipeline_send_gradient}}},
        {{{Peer::return_activation_in, Stream::return_receive}, {Peer::return_activation_out, Stream::return_send}},
         {{Peer::return_gradient_in, Stream::return_receive_gradient},
          {Peer::return_gradient_out, Stream::return_send_gradient}}}};
    const Line& line = lines[returns][gradient][sends];
    // Links are numbered by the stage that activations leave, on the way down.
    const std::int64_t link = returns ? std::min(stage_, other) : gradient == sends ? other : stage_;
    std::optional<Transfer>& known = messages_[static_cast<std::size_t>(line.peer)];
    if (known) return *known;
    Transfer& t = known.emplace();
    t.stream = line.stream;
    t.category = Category::pipeline_comm;
    t.peer = line.peer;
    t.cost = send_cost(message_bytes(job_, gradient), shapes_.pipeline_same_node[static_cast<std::size_t>(link)],
                       job_.device, job_.software);
    t.traffic = library_.traffic({"pipeline", CollectiveOp::send_receive,
                                  gradient ? "activation gradients, backward" : "activations, forward", 2,
                                  message_bytes(job_, gradient), message_bytes(job_, gradient)});
    return t;
  }

  /// Whether messages between two passes of a stage are waited for though `overlap.pipeline` hides others: software that
  /// waits for the messages of a forward pass before its next forward pass hides them behind the backward pass between
  /// the two, and where there is none, in warm-up and cool-down, behind nothing.
  bool exposes_messages(const Pass& pass, const Pass& next) const {
    const bool interleaved = job_.parallelism.schedule == ScheduleKind::interleaved_1f1b;  // others could lock up
    return interleaved && job_.overlap.pipeline && !job_.software.overlap_pipeline_warmup && pass.kind == next.kind;
  }

  /// `exposed`: posted when the pass before is done, not ahead.
  void receive(const Pass& pass, bool exposed) {
    writer.begin(pass);
    if (pass.kind == PassKind::weight_gradient) return;
    const Cell cell{stage_, pass.chunk};
    const std::optional<Cell> source = pass.kind == PassKind::forward ? map_.previous(cell) : map_.next(cell);
    if (!source || source->stage == stage_) return;
    Transfer t = message(pass, source->stage, false);
    t.counts = false;  // the sender counts the message
    // Runtimes with a split backward pass post all messages and wait on the device: two stages' orders may cross.
    t.host_waits =
        job_.software.host_waits_for_pipeline && !job_.overlap.pipeline && !splits_backward(job_.parallelism.schedule);
    const std::uint32_t op = writer.transfer(t, exposed ? writer.after_compute() : std::span<const std::uint32_t>{});
    const bool gradient = pass.kind != PassKind::forward;
    if (gathers_messages(gradient)) {
      // Scatter/gather (arXiv 2104.04473, section 4.1): each tensor rank carries a part across, NVLink puts it
      // together.
      const double bytes = message_bytes(job_, gradient) * static_cast<double>(job_.parallelism.tensor);
      Transfer gather{Stream::tensor, Category::tensor_comm, Peer::tensor, {}, kNoTraffic, 1.0, true, false};
      gather.cost =
          collective_cost(CollectiveOp::all_gather, bytes, shapes_.tensor, job_.device, job_.software, cluster_);
      gather.traffic =
          library_.traffic({"tensor", CollectiveOp::all_gather, "pipeline message", job_.parallelism.tensor, bytes,
                            wire_bytes(CollectiveOp::all_gather, job_.parallelism.tensor, bytes)});
      writer.next_waits_for(writer.transfer(gather, {&op, 1}));
    } else {
      writer.next_waits_for(op);
    }
  }

  /// `exposed`: the next pass starts when the message is delivered.
  void send(const Pass& pass, bool exposed) {
    writer.begin(pass);
    if (pass.kind == PassKind::weight_gradient) return;
    const Cell cell{stage_, pass.chunk};
    const std::optional<Cell> target = pass.kind == PassKind::forward ? map_.next(cell) : map_.previous(cell);
    if (!target || target->stage == stage_) return;
    const std::uint32_t op = writer.transfer(message(pass, target->stage, true), writer.after_compute());
    if (!job_.overlap.pipeline || exposed) writer.next_waits_for(op);
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
    return data_ranks_ > 1 && job_.overlap.gradients && !by_unit_ && !evaluation_;
  }
  bool gathers_beside_forward() const { return data_ranks_ > 1 && sharded_ && !by_unit_ && job_.overlap.parameters; }
  double gradient_bytes() const { return calibration::bytes_of(job_.precision.gradients); }
  double parameter_bytes() const { return calibration::bytes_of(job_.precision.parameters); }

  /// Parameters that fill a bucket; 0: all those of the chunk.
  double bucket_parameters(sim::Bytes bucket, double bytes_each) const {
    if (job_.software.buckets_follow_model) return chunks_ > 1 ? 0 : shard_.layer;
    return static_cast<double>(bucket.value()) / bytes_each;
  }

  /// A bucket is closed after the layer that fills it; the last one takes the rest of the chunk.
  std::vector<Bucket> gradient_buckets(const ChunkShape& shape, const PassTemplate& passes, PassKind kind) const {
    const double target = bucket_parameters(job_.software.gradient_bucket, gradient_bytes());
    std::vector<Bucket> buckets;
    double filled = shape.head ? shard_.head : 0;
    for (std::int64_t layer = shape.layers; layer-- > 1;) {
      filled += shard_.layer;
      if (target > 0 && filled >= target) {
        buckets.push_back({passes.layer_done(kind)[static_cast<std::size_t>(layer)], filled});
        filled = 0;
      }
    }
    filled += (shape.layers > 0 ? shard_.layer : 0) + (shape.embedding ? shard_.embedding : 0);
    if (filled > 0) buckets.push_back({passes.of(kind).size(), filled});
    return buckets;
  }

  Transfer data_transfer(CollectiveOp op, double bytes, const char* what) {
    Transfer t{Stream::data, Category::data_comm, Peer::data, {}, kNoTraffic, 1.0, true, false};
    t.cost = collective_cost(op, bytes, shapes_.data, job_.device, job_.software, cluster_);
    beside_ += seconds_alone(t.cost, shapes_.data, cluster_);
    t.traffic = library_.traffic({"data", op, what, shard_ranks_, bytes, wire_bytes(op, shard_ranks_, bytes)});
    return t;
  }

  /// Gradients are reduced among those that share them out, then each part across the groups that repeat it.
  void reduce_bytes(double bytes) {
    const bool scatters = sharded_ && (full_shard_ || !job_.software.all_reduces_shards);
    const CollectiveOp op = scatters ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce;
    Transfer reduction = data_transfer(op, bytes, "gradients, backward");
    const bool to_owners = every_pass_ && !full_shard_;
    if (to_owners) reduction.cost = owner_reductions(bytes / gradient_bytes(), job_, shapes_.data, cluster_);
    last_reduction_ = writer.transfer(reduction, writer.after_compute());
    if (shard_ranks_ == data_ranks_ || (to_owners && gradients_left_[index(writer.pass().chunk)] > 0)) return;
    const double part = bytes / static_cast<double>(shard_ranks_);
    const std::int64_t groups = data_ranks_ / shard_ranks_;
    Transfer t{Stream::data, Category::data_comm, Peer::replicate, {}, kNoTraffic, 1.0, true, false};
    t.cost = collective_cost(CollectiveOp::all_reduce, part, shapes_.replicate, job_.device, job_.software, cluster_);
    t.traffic = library_.traffic({"data", CollectiveOp::all_reduce, "gradients, between shard groups", groups, part,
                                  wire_bytes(CollectiveOp::all_reduce, groups, part)});
    const std::uint32_t shared_out = last_reduction_;
    last_reduction_ = writer.transfer(t, {&shared_out, 1});
  }

  void reduce_gradients(double parameters) {
    if (in_step())
      put_off_.push_back({writer.pass(), backward_passes_ + stage_, parameters});
    else
      reduce_bytes(parameters * reduced_gradient_bytes(job_));
  }

  // ---- data-parallel collectives that all stages begin at a time (software key data_collectives_in_step) ----
  bool in_step() const { return job_.software.data_collectives_in_step && chunks_ > 1; }

  /// A reduction on stage s is put off by the s backward passes that stage 0 lags behind.
  void reduce_in_step() {
    while (!put_off_.empty() && put_off_.front().due <= backward_passes_) reduce_put_off();
    ++backward_passes_;
  }
  void reduce_put_off() {
    const Pass at = writer.pass();
    writer.begin(put_off_.front().pass);
    reduce_bytes(put_off_.front().parameters * reduced_gradient_bytes(job_));
    put_off_.erase(put_off_.begin());
    writer.begin(at);
  }

  /// When stage 0 enters a chunk, which is s forward passes before stage s does, the next chunk's parameters are gathered.
  void gather_in_step() {
    const std::size_t ahead = forward_passes_++ + static_cast<std::size_t>(stage_);
    if (!in_step() || !gathers_beside_forward() || ahead >= forward_order_.size()) return;
    const std::vector<std::int32_t> chunks = chunks_by_block();
    const auto entered = std::find(chunks.begin(), chunks.end(), forward_order_[ahead]);
    const bool first = std::find(forward_order_.begin(), forward_order_.begin() + static_cast<std::ptrdiff_t>(ahead),
                                 *entered) == forward_order_.begin() + static_cast<std::ptrdiff_t>(ahead);
    if (!first || entered + 1 == chunks.end() || !chunk_gathers_[index(entered[1])].empty()) return;
    const Pass at = writer.pass();
    writer.begin({PassKind::forward, entered[1], -1});
    chunk_gathers_[index(entered[1])] = gather_chunk(entered[1], writer.after_compute());
    writer.begin(at);
  }

  /// All-gathers the parameters of one chunk, bucket by bucket, in the order in which the forward pass uses them.
  std::vector<std::uint32_t> gather_chunk(std::int64_t chunk, std::span<const std::uint32_t> waits) {
    const double bytes = chunk_parameters(split_.of(chunk, stage_, stages_)) * parameter_bytes();
    const double bucket = bucket_parameters(job_.software.parameter_bucket, parameter_bytes()) * parameter_bytes();
    const auto parts = bucket > 0 ? std::max<std::int64_t>(1, std::llround(bytes / bucket)) : 1;
    std::vector<std::uint32_t> gathers;
    for (std::int64_t i = 0; i < parts; ++i) {
      gathers.push_back(writer.transfer(
          data_transfer(CollectiveOp::all_gather, bytes / static_cast<double>(parts), "parameters, forward"), waits));
    }
    return gathers;
  }

  /// Before a layer's first use the next compute operation waits for the buckets that hold its parameters.
  void await_parameters(const ChunkShape& shape, std::int32_t layer, std::size_t item, std::size_t items,
                        std::size_t& awaited) {
    const std::vector<std::uint32_t>& gathers = chunk_gathers_[index(writer.pass().chunk)];
    if (awaited >= gathers.size()) return;
    const double all = chunk_parameters(shape), embedding = shape.embedding ? shard_.embedding : 0;
    const bool is_head = layer < 0 && item > 0 && item + 1 >= items;
    const double needed = layer >= 0                    ? embedding + static_cast<double>(layer + 1) * shard_.layer
                          : is_head || !shape.embedding ? all
                                                        : embedding;
    const auto buckets = static_cast<double>(gathers.size());
    const auto through = std::min(gathers.size(), static_cast<std::size_t>(std::ceil(needed / all * buckets - 1e-9)));
    if (through <= awaited) return;
    writer.next_waits_for(gathers[through - 1]);  // buckets arrive in order
    awaited = through;
  }

  /// Chunks in the order of the model, on which all stages that hold a block agree.
  std::vector<std::int32_t> chunks_by_block() const {
    std::vector<std::int32_t> chunks(static_cast<std::size_t>(chunks_));
    std::iota(chunks.begin(), chunks.end(), 0);
    std::sort(chunks.begin(), chunks.end(), [&](std::int32_t a, std::int32_t b) {
      return map_.block_of({stage_, a}) < map_.block_of({stage_, b});
    });
    return chunks;
  }

  void gather_parameters_ahead() {
    if (!gathers_beside_forward()) return;
    std::vector<std::int32_t> chunks = chunks_by_block();
    if (in_step()) chunks.resize(2);  // megatron/core/pipeline_parallel/schedules.py: the first two at once
    for (const std::int32_t chunk : chunks) {
      writer.begin({PassKind::forward, chunk, -1});
      chunk_gathers_[index(chunk)] = gather_chunk(chunk, {});
    }
  }

  /// Factor on every kernel of a pass.
  double pace() const {
    return stages_ > 1 && !evaluation_ && !optimizing_ ? job_.software.pipeline_slowdown : 1.0;
  }

  /// Factor on kernels that take `seconds`: while a data-parallel collective is under way they lose SMs and memory
  /// bandwidth to it. Collectives last as long as they take alone, and stand beside the computation that follows them in
  /// the program; time in which the device waits does not count against them.
  double slowdown(double seconds) {
    if (data_ranks_ == 1 || evaluation_ || optimizing_) return pace();
    double share = by_unit_ && job_.overlap.parameters ? covered_ : 0;
    if (!by_unit_ && beside_ > 0 && seconds > 0) {
      constexpr double kSteps = 8;  // few kinds of passes, which are timed once each
      share = std::round(kSteps * std::min(1.0, beside_ / seconds)) / kSteps;
      beside_ = std::max(0.0, beside_ - seconds);
    }
    return pace() * (1 + share * (job_.software.compute_slowdown_under_collective - 1));
  }

  // ---- data parallelism: parameters sharded layer by layer (ZeRO 3, FSDP) ----
  // Units are the layers of the chunk, and embedding and head (-1) together with the first unit entered. A unit's
  // parameters are gathered before it runs; with overlap, the gather of the next unit is issued when a unit starts.
  void begin_units(const Pass& pass, const ChunkShape& shape, const PassTemplate& passes, bool gathers, bool reduces) {
    gathers_ = gathers && pass.kind != PassKind::weight_gradient;  // the gradient of weights needs no weights
    reduces_ = reduces && ends_microbatch(pass.kind);
    covered_ = covered_share({chunk_parameters(shape), std::max<std::int64_t>(1, shape.layers), gathers_, reduces_},
                             compute_seconds(passes.of(pass.kind)), job_, shapes_.data, cluster_);
    units_.clear();
    const bool forward = pass.kind == PassKind::forward;
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
    if (!gathers_ || i >= units_.size() || units_[i].gather != kNone) return;
    const char* what = writer.is_backward() ? "parameters, backward" : "parameters, forward";
    units_[i].gather =
        writer.transfer(data_transfer(CollectiveOp::all_gather, units_[i].parameters * parameter_bytes(), what),
                        writer.after_compute());
  }

  void enter_unit(std::int32_t layer) {
    std::size_t i = unit_ == kNone ? 0 : unit_;
    while (layer >= 0 && i + 1 < units_.size() && units_[i].layer != layer) ++i;
    if (unit_ != kNone && i == unit_) return;
    if (unit_ != kNone) scatter_unit(unit_);
    unit_ = static_cast<std::uint32_t>(i);
    gather_unit(i);
    if (units_[i].gather != kNone) writer.next_waits_for(units_[i].gather);
    if (job_.overlap.parameters) gather_unit(i + 1);
  }

  void scatter_unit(std::size_t i) {
    if (!reduces_) return;
    reduce_bytes(units_[i].parameters * gradient_bytes());
    if (!job_.overlap.gradients) writer.next_waits_for(last_reduction_);
  }

  void end_units() { scatter_unit(unit_ == kNone ? 0 : unit_); }

  // ---- end of the step ----
  void finish_step() {
    writer.end_passes();
    writer.settle();
    while (!put_off_.empty()) reduce_put_off();
    std::vector<std::int32_t> chunks = chunks_by_block();
    if (data_ranks_ > 1 && !by_unit_ && !job_.overlap.gradients) {
      for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
        writer.begin({PassKind::forward, *chunk, -1});
        reduce_bytes(chunk_parameters(split_.of(*chunk, stage_, stages_)) * reduced_gradient_bytes(job_));
      }
      writer.end_passes();
    }
    if (last_reduction_ != kNone) writer.next_waits_for(last_reduction_);  // the data stream runs in order
    reduce_tied_embedding();
    optimizing_ = true;
    const double parameters = stage_parameters(job_, split_, stage_);
    const double updated = sharded_ ? parameters / static_cast<double>(shard_ranks_) : parameters;
    Kernel norm{"gradient norm"};
    norm.bytes = updated * gradient_bytes();
    norm.time = job_.device.streaming(calibration::Streaming::gradient_norm, norm.bytes);
    compute(library_.compute({norm}, -1), Category::optimizer);
    reduce_norm();
    compute(library_.compute(optimizer_kernels(job_, parameters, updated), -1), Category::optimizer);
    if (data_ranks_ > 1 && sharded_ && !by_unit_ && !job_.overlap.parameters) {
      for (const std::int32_t chunk : chunks) {
        writer.begin({PassKind::forward, chunk, -1});
        gather_chunk(chunk, writer.after_compute());
      }
    }
  }

  /// First and last stage hold the same word embedding and add up its gradients.
  void reduce_tied_embedding() {
    if (map_.ends_meet() || !job_.model.tied_embeddings || (stage_ != 0 && stage_ != stages_ - 1)) return;
    const double elements =
        static_cast<double>(padded_vocab(job_) / job_.parallelism.tensor) * static_cast<double>(job_.model.hidden);
    const double bytes = elements * gradient_bytes() / (full_shard_ ? static_cast<double>(shard_ranks_) : 1.0);
    Transfer t{Stream::data, Category::data_comm, Peer::embedding, {}, kNoTraffic, 1.0, true, false};
    t.cost = collective_cost(CollectiveOp::all_reduce, bytes, shapes_.embedding, job_.device, job_.software, cluster_);
    t.traffic = library_.traffic({"embedding", CollectiveOp::all_reduce, "tied embedding gradients", 2, bytes,
                                  wire_bytes(CollectiveOp::all_reduce, 2, bytes)});
    writer.next_waits_for(writer.transfer(t, writer.after_compute()));
  }

  /// The norm is summed over every rank that holds a part of the gradients; the host reads it to decide on clipping or
  /// skipping. With post-validation partial norms travel along the pipeline's messages, and nobody waits.
  void reduce_norm() {
    const std::int64_t ranks = shapes_.world.ranks;
    if (ranks == 1) return;
    const bool waits = !job_.parallelism.optimizer_post_validation;
    Transfer t{
        waits ? Stream::data : Stream::pipeline_send, Category::other, Peer::world, {}, kNoTraffic, 1.0, true, waits};
    t.cost = collective_cost(CollectiveOp::all_reduce, 4, shapes_.world, job_.device, job_.software, cluster_);
    t.cost.pattern = Pattern::around;  // the world's route is empty: four bytes load no link
    t.cost.work = 0, t.cost.rate_cap = 0;
    t.traffic = library_.traffic(
        {"norm", CollectiveOp::all_reduce, "gradient norm", ranks, 4, wire_bytes(CollectiveOp::all_reduce, ranks, 4)});
    const std::uint32_t op = writer.transfer(t, writer.after_compute());
    if (waits) writer.next_waits_for(op);
  }

  struct Unit {
    std::int32_t layer;
    double parameters;
    std::uint32_t gather;
  };

  const Job& job_;
  const LayerSplit& split_;
  const GroupShapes& shapes_;
  const topology::Cluster& cluster_;
  TemplateLibrary& library_;
  ChunkMap map_;
  std::int64_t stage_, stages_, chunks_;
  bool evaluation_;
  double undisturbed_rate_;
  std::int64_t data_ranks_, shard_ranks_;
  ShardParameters shard_;
  bool sharded_, full_shard_, by_unit_, every_pass_;  // every_pass_: gradients are reduced in each backward pass
  std::optional<PassItem> fetch_, weight_cast_;

  struct PutOff {
    Pass pass;
    std::int64_t due;  // number of the backward pass after which it is issued
    double parameters;
  };
  std::vector<PutOff> put_off_;
  std::vector<std::int32_t> forward_order_;  // chunks of the stage's forward passes
  std::size_t forward_passes_ = 0;           // begun
  std::int64_t backward_passes_ = 0;         // done
  double beside_ = 0;  // seconds of data-parallel collectives that computation has yet to pass by
  bool optimizing_ = false;
  std::vector<bool> chunk_seen_;
  std::vector<const PassTemplate*> templates_;            // by chunk
  std::vector<const TemplateLibrary::Whole*> wholes_;     // by chunk and kind of pass, at full speed
  std::array<std::optional<Transfer>, kPeers> messages_;  // by peer
  std::vector<std::vector<std::uint32_t>> chunk_gathers_;
  std::vector<std::int64_t> gradients_left_;  // passes of a chunk that make gradients of weights
  std::uint32_t last_reduction_ = kNone;
  std::vector<Unit> units_;
  std::uint32_t unit_ = kNone;
  bool gathers_ = false, reduces_ = false;  // the units of the pass at hand
  double covered_ = 0;                      // share of the pass at hand that its units' collectives run beside
};

}  // namespace

StagePrograms compile_programs(const Job& job, const LayerSplit& split, const GroupShapes& shapes,
                               const std::vector<std::vector<Peer>>& slots, const topology::Cluster& cluster,
                               double undisturbed_rate, bool evaluation) {
  StagePrograms out;
  TemplateLibrary library(job, shapes, cluster, out);
  StageOrders orders = step_passes(job, split);
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    StageCompiler compiler(job, split, shapes, slots[stage], cluster, library, static_cast<std::int64_t>(stage),
                           undisturbed_rate, evaluation);
    compiler.compile(evaluation ? forward_only(std::move(orders[stage])) : orders[stage]);
    out.programs.push_back(std::move(compiler.writer.program));
    out.notes.push_back(std::move(compiler.writer.notes));
  }
  return out;
}

}  // namespace orrery::workloads
