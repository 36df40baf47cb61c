// Compiles the programs of all stages. See stage_program.h.
//
// Order of a step: (parameter all-gathers, when they overlap with the forward pass) - passes, with gradient reductions
// beside the last backward pass of each chunk when they overlap - remaining reductions - tied embedding - gradient norm
// - optimizer - (parameter all-gather when it does not overlap). The step is taken from steady state: an all-gather
// that overlaps with the next step's forward pass stands at the start of this one.
#include "workloads/stage_program.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "workloads/data_collectives.h"
#include "workloads/schedules/chunk_map.h"
#include "workloads/step_passes.h"
#include "workloads/unit_overlap.h"

namespace orrery::workloads {
namespace {

constexpr std::uint32_t kNone = 0xffffffff, kPassKinds = 4;

class StageCompiler {
  using Transfer = ProgramWriter::Transfer;

 public:
  StageCompiler(const Job& job, const LayerSplit& split, const GroupShapes& shapes, const std::vector<GroupSlot>& slots,
                const topology::Cluster& cluster, TemplateLibrary& library, std::int64_t stage, double undisturbed_rate,
                bool evaluation)
      : writer(job, slots),
        job_(job),
        split_(split),
        shapes_(shapes),
        cluster_(cluster),
        library_(library),
        map_(job.parallelism.chunk_map()),
        stage_(stage),
        stages_(job.parallelism.pipeline),
        chunks_(job.parallelism.virtual_pipeline),
        evaluation_(evaluation),
        undisturbed_rate_(gathers_messages(false) ? 0 : undisturbed_rate),
        data_ranks_(job.replicas()),
        shard_ranks_(job.shard_ranks()),
        sharded_(job.parallelism.sharding != Sharding::none),
        full_shard_(job.parallelism.sharding == Sharding::parameters && data_ranks_ > 1),
        by_unit_(works_by_unit(job)),
        gradient_bytes_(calibration::bytes_of(job.precision.gradients)),
        data_(job, split, shapes, cluster, library, writer, stage, evaluation),
        gathers_every_pass_(gathers_every_pass(job)),
        fetch_(microbatch_fetch(job, library)),
        weight_cast_(evaluation ? std::nullopt : weight_cast(job, split.block(), library)) {}

  void compile(const std::vector<Pass>& passes) {
    chunk_seen_.assign(static_cast<std::size_t>(chunks_), false);
    templates_.assign(static_cast<std::size_t>(chunks_), nullptr);
    wholes_.assign(kPassKinds * static_cast<std::size_t>(chunks_), nullptr);
    data_.plan(passes);
    data_.gather_ahead();
    for (std::size_t i = 0; i < passes.size();) {
      const std::size_t together = passes[i].with_next ? 2 : 1;
      const std::span<const Pass> group(&passes[i], together);
      const bool after_alike = i > 0 && exposes_messages(passes[i - 1], passes[i]);
      const bool before_alike = i + together < passes.size() && exposes_messages(group.back(), passes[i + together]);
      for (const Pass& pass : group) receive(pass, after_alike);
      for (const Pass& pass : group) {
        if (pass.kind == PassKind::forward) data_.before_forward();
        run(pass);
        reduce_amax(pass);
        if (ends_microbatch(pass.kind)) data_.after_backward();
      }
      for (const Pass& pass : group) send(pass, before_alike);
      i += together;
    }
    if (!evaluation_) finish_step();
  }

  ProgramWriter writer;

 private:
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

  std::uint32_t compute(const PassItem& item, Category category) { return writer.compute(item, category, slowdown()); }

  // ---- passes ----
  void run(const Pass& pass) {
    writer.begin(pass, true);
    if (pass.kind == PassKind::forward && fetch_) writer.compute_at_once(*fetch_, Category::other);
    const LayerRange& range = split_.of(pass.chunk, stage_, stages_);
    const PassTemplate& passes = template_of(pass.chunk, range);
    const bool forward = pass.kind == PassKind::forward;
    const bool first_use = forward && !chunk_seen_[index(pass.chunk)];
    chunk_seen_[index(pass.chunk)] = chunk_seen_[index(pass.chunk)] || forward;
    std::size_t awaited = 0;
    const bool last_gradients = data_.completes_gradients(pass);
    const auto buckets =
        last_gradients ? data_.buckets(range, passes, pass.kind) : std::vector<DataCollectives::Bucket>{};
    if (by_unit_) begin_units(pass, range, passes, full_shard_ || first_use || (forward && gathers_every_pass_));
    std::size_t next_bucket = 0;
    const bool awaits = first_use && (weight_cast_ || data_.gathered_ahead(pass.chunk));
    std::int32_t cast_through = -1;
    if (!by_unit_ && !awaits && buckets.empty() && run_whole(pass, passes)) return;
    const auto& items = passes.of(pass.kind);
    for (std::size_t i = 0, through = 0; i < items.size(); ++i) {
      const bool in_block = is_block(range, items[i].layer);
      if (by_unit_) enter_unit(in_block ? items[i].layer : -1);
      if (i == through) {
        through = next_bucket < buckets.size() ? std::max(i + 1, buckets[next_bucket].after_items) : items.size();
        pass_by({&items[i], through - i});
      }
      if (first_use) data_.await_parameters(range, items[i].layer, awaited);
      if (first_use && weight_cast_ && in_block && items[i].layer > cast_through) {
        cast_through = items[i].layer;
        writer.compute_before(*weight_cast_, Category::compute, slowdown());
      }
      if (items[i].comm) {
        const Transfer t{items[i].context ? CommGroup::context : CommGroup::tensor, items[i].cost, items[i].traffic,
                         items[i].share, items[i].counts};
        writer.later_waits_for(writer.transfer(t, writer.ready_to_compute()), items[i].passes_by);
      } else {
        compute(items[i], Category::compute);
      }
      while (next_bucket < buckets.size() && buckets[next_bucket].after_items == i + 1)
        data_.reduce(buckets[next_bucket++].parameters);
    }
    // A chunk without layers has no weight gradients to compute, but an embedding to reduce.
    while (next_bucket < buckets.size()) data_.reduce(buckets[next_bucket++].parameters);
    if (by_unit_) end_units();
  }

  /// Scales of fp8 tensors follow the largest magnitudes seen on any rank that holds a part of them or a replica
  /// (Transformer Engine, fp8.py, global_amax_reduction, at the end of fp8_autocast and of the backward pass).
  void reduce_amax(const Pass& pass) {
    const double bytes = amax_bytes(job_, static_cast<double>(blocks_of(split_.of(pass.chunk, stage_, stages_))));
    if (bytes <= 0 || evaluation_ || pass.kind == PassKind::weight_gradient) return;
    const GroupShape& group = shapes_[CommGroup::scales];
    Transfer t{CommGroup::data};
    t.stream = Stream::tensor;
    t.cost = collective_cost(CollectiveOp::all_reduce, bytes, group, job_.device, job_.software, cluster_);
    t.cost.pattern = Pattern::around;  // a few bytes load no link
    t.cost.work = 0;
    t.cost.rate_cap = 0;
    t.traffic = library_.traffic({CommGroup::scales, CollectiveOp::all_reduce, "fp8 scales", group.ranks, bytes,
                                  wire_bytes(CollectiveOp::all_reduce, group.ranks, bytes)});
    writer.next_waits_for(writer.transfer(t, writer.after_compute()));
  }

  bool is_block(const LayerRange& range, std::int64_t place) const {
    return split_.network.layer(range.begin + place).kind == LayerKind::block;
  }
  std::int64_t blocks_of(const LayerRange& range) const { return count(split_.network, range, LayerKind::block); }

  const PassTemplate& template_of(std::int32_t chunk, const LayerRange& range) {
    const PassTemplate*& known = templates_[index(chunk)];
    if (known == nullptr) known = &library_.of(range);
    return *known;
  }

  /// The pass as one operation; false, and nothing done, where something else could disturb what goes on inside.
  bool run_whole(const Pass& pass, const PassTemplate& passes) {
    if (undisturbed_rate_ <= 0 || writer.is_pending()) return false;
    const std::size_t row = kPassKinds * index(pass.chunk) + static_cast<std::size_t>(pass.kind);
    const TemplateLibrary::Whole*& undisturbed = wholes_[row];
    if (undisturbed == nullptr) undisturbed = &library_.whole(passes, pass.kind, pace());
    if (!undisturbed->pass.closed || undisturbed->pass.highest_rate > undisturbed_rate_) return false;
    pass_by(passes.of(pass.kind));
    const double slower = slowdown();
    const TemplateLibrary::Whole* known = slower == pace() ? undisturbed : &library_.whole(passes, pass.kind, slower);
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
    const CommGroup groups[2][2] = {{CommGroup::activations, CommGroup::gradients},
                                    {CommGroup::return_activations, CommGroup::return_gradients}};
    // Links are numbered by the stage that activations leave, on the way down.
    const std::int64_t link = returns ? std::min(stage_, other) : gradient == sends ? other : stage_;
    std::optional<Transfer>& known = messages_[returns][gradient][sends];
    if (known) return *known;
    Transfer& t = known.emplace();
    t.group = groups[returns][gradient];
    t.end = sends ? End::sends : End::receives;
    t.cost = send_cost(message_bytes(job_, gradient), shapes_.pipeline_same_node[static_cast<std::size_t>(link)],
                       job_.device, job_.software);
    t.traffic = library_.traffic({t.group, CollectiveOp::send_receive,
                                  gradient ? "activation gradients, backward" : "activations, forward", 2,
                                  message_bytes(job_, gradient), message_bytes(job_, gradient)});
    return t;
  }

  /// Whether messages between two passes of a stage are waited for though `overlap.pipeline` hides others: software
  /// that waits for the messages of a forward pass before its next forward pass hides them behind the backward pass
  /// between the two, and where there is none, in warm-up and cool-down, behind nothing.
  bool exposes_messages(const Pass& pass, const Pass& next) const {
    return job_.parallelism.schedule->waits_in_warm_up && job_.overlap.pipeline &&
           !job_.software.messages.overlap_pipeline_warmup && pass.kind == next.kind;
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
    t.host_waits = job_.software.messages.host_waits_for_pipeline && !job_.overlap.pipeline &&
                   !job_.parallelism.schedule->posts_ahead;
    const std::uint32_t op = writer.transfer(t, exposed ? writer.after_compute() : std::span<const std::uint32_t>{});
    const bool gradient = pass.kind != PassKind::forward;
    if (gathers_messages(gradient)) {
      // Scatter/gather (arXiv 2104.04473, section 4.1): each tensor rank carries a part across, NVLink puts it
      // together.
      const double bytes = message_bytes(job_, gradient) * static_cast<double>(job_.parallelism.tensor);
      Transfer gather{CommGroup::tensor};
      gather.cost = collective_cost(CollectiveOp::all_gather, bytes, shapes_[CommGroup::tensor], job_.device,
                                    job_.software, cluster_);
      gather.traffic =
          library_.traffic({CommGroup::tensor, CollectiveOp::all_gather, "pipeline message", job_.parallelism.tensor,
                            bytes, wire_bytes(CollectiveOp::all_gather, job_.parallelism.tensor, bytes)});
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

  /// Factor on every kernel of a pass.
  double pace() const {
    return stages_ > 1 && !evaluation_ && !optimizing_ ? job_.software.overlap.pipeline_slowdown : 1.0;
  }

  /// What follows is computation of these items: takes the share of it that data-parallel collectives run beside.
  void pass_by(std::span<const PassItem> items) {
    const bool none = by_unit_ || !data_.anything_beside() || evaluation_ || optimizing_;
    beside_ = none ? 0 : data_.share_beside(compute_seconds(items));
  }

  /// Factor on kernels: beside a data-parallel collective they lose SMs and memory bandwidth to it.
  double slowdown() const {
    if (data_ranks_ == 1 || evaluation_ || optimizing_) return pace();
    const double share = !by_unit_ ? beside_ : job_.overlap.parameters ? covered_ : 0;
    return pace() * (1 + share * (job_.software.overlap.compute_slowdown_under_collective - 1));
  }

  // ---- data parallelism: parameters sharded layer by layer (ZeRO 3, FSDP) ----
  // Units are the layers of the chunk, and embedding and head (-1) together with the first unit entered. A unit's
  // parameters are gathered before it runs; with overlap, the gather of the next unit is issued when a unit starts.
  void begin_units(const Pass& pass, const LayerRange& range, const PassTemplate& passes, bool gathers) {
    gathers_ = gathers && pass.kind != PassKind::weight_gradient;  // the gradient of weights needs no weights
    reduces_ = ends_microbatch(pass.kind);
    covered_ =
        covered_share({data_.chunk_parameters(range), std::max<std::int64_t>(1, blocks_of(range)), gathers_, reduces_},
                      compute_seconds(passes.of(pass.kind)), job_, shapes_[CommGroup::data], cluster_);
    units_.clear();
    const bool forward = pass.kind == PassKind::forward;
    double ends = 0;
    for (std::int64_t i = 0; i < range.size(); ++i) {
      const std::int64_t place = forward ? i : range.size() - 1 - i;
      const double held = split_.parameters_of(range.begin + place);
      if (is_block(range, place))
        units_.push_back({static_cast<std::int32_t>(place), held, kNone});
      else
        ends += held;
    }
    if (units_.empty()) units_.push_back({-1, 0, kNone});
    units_.front().parameters += ends;
    unit_ = kNone;
    gather_unit(0);
  }

  void gather_unit(std::size_t i) {
    if (!gathers_ || i >= units_.size() || units_[i].gather != kNone) return;
    units_[i].gather = data_.gather_unit(units_[i].parameters);
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
    data_.reduce_unit(units_[i].parameters);
    if (!job_.overlap.gradients) writer.next_waits_for(data_.last_reduction());
  }

  void end_units() { scatter_unit(unit_ == kNone ? 0 : unit_); }

  // ---- end of the step ----
  void finish_step() {
    writer.end_passes();
    writer.settle();
    data_.reduce_rest();
    if (data_.last_reduction() != DataCollectives::kNoReduction) writer.next_waits_for(data_.last_reduction());
    reduce_tied_embedding();
    optimizing_ = true;
    const double parameters = stage_parameters(job_, split_, stage_);
    const double updated = sharded_ ? parameters / static_cast<double>(shard_ranks_) : parameters;
    Kernel norm{"gradient norm"};
    norm.bytes = updated * gradient_bytes_;
    norm.time = job_.device.streaming(calibration::Streaming::gradient_norm, norm.bytes);
    compute(library_.compute({norm}, -1), Category::optimizer);
    reduce_norm();
    compute(library_.compute(optimizer_kernels(job_.optimizer, job_.precision, job_.software.optimizer, job_.device,
                                               parameters, updated),
                             -1),
            Category::optimizer);
    data_.gather_rest();
  }

  /// First and last stage hold the same word embedding and add up its gradients.
  void reduce_tied_embedding() {
    if (map_.ends_meet() || !job_.model.tied_embeddings || (stage_ != 0 && stage_ != stages_ - 1)) return;
    const double bytes =
        split_.network.tied_elements * gradient_bytes_ / (full_shard_ ? static_cast<double>(shard_ranks_) : 1.0);
    Transfer t{CommGroup::embedding};
    t.cost = collective_cost(CollectiveOp::all_reduce, bytes, shapes_[CommGroup::embedding], job_.device, job_.software,
                             cluster_);
    t.traffic = library_.traffic({CommGroup::embedding, CollectiveOp::all_reduce, "tied embedding gradients", 2, bytes,
                                  wire_bytes(CollectiveOp::all_reduce, 2, bytes)});
    writer.next_waits_for(writer.transfer(t, writer.after_compute()));
  }

  /// The norm is summed over every rank that holds a part of the gradients; the host reads it to decide on clipping or
  /// skipping. With post-validation partial norms travel along the pipeline's messages, and nobody waits.
  void reduce_norm() {
    const GroupShape& group = shapes_[CommGroup::norm];
    const std::int64_t ranks = group.ranks;
    if (ranks == 1) return;
    const bool waits = !job_.parallelism.optimizer_post_validation;
    Transfer t{CommGroup::norm};
    t.host_waits = waits;
    if (!waits) t.stream = Stream::pipeline_send;
    t.cost = collective_cost(CollectiveOp::all_reduce, 4, group, job_.device, job_.software, cluster_);
    t.cost.pattern = Pattern::around;  // its route is empty: four bytes load no link
    t.cost.work = 0;
    t.cost.rate_cap = 0;
    t.traffic = library_.traffic({CommGroup::norm, CollectiveOp::all_reduce, "gradient norm", ranks, 4,
                                  wire_bytes(CollectiveOp::all_reduce, ranks, 4)});
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
  bool sharded_, full_shard_, by_unit_;
  double gradient_bytes_;  // of an element
  DataCollectives data_;
  bool gathers_every_pass_;  // weights are gathered for the forward pass of every micro-batch
  std::optional<PassItem> fetch_, weight_cast_;

  double beside_ = 0;  // share of the computation at hand that collectives of whole chunks run beside
  bool optimizing_ = false;
  std::vector<bool> chunk_seen_;
  std::vector<const PassTemplate*> templates_;         // by chunk
  std::vector<const TemplateLibrary::Whole*> wholes_;  // by chunk and kind of pass, at full speed
  std::optional<Transfer> messages_[2][2][2];          // [returns][gradient][sends]
  std::vector<Unit> units_;
  std::uint32_t unit_ = kNone;
  bool gathers_ = false, reduces_ = false;  // the units of the pass at hand
  double covered_ = 0;                      // share of the pass at hand that its units' collectives run beside
};

}  // namespace

StagePrograms compile_programs(const Job& job, const LayerSplit& split, const GroupShapes& shapes,
                               const std::vector<std::vector<GroupSlot>>& slots, const topology::Cluster& cluster,
                               double undisturbed_rate, bool evaluation) {
  StagePrograms out;
  TemplateLibrary library(job, split.network, shapes, cluster, out);
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
