// Compiles the programs of all stages. See stage_program.h.
//
// Order of a step: (parameter all-gathers, when they overlap with the forward pass) - passes, with gradient reductions
// beside the last backward pass of each chunk when they overlap - remaining reductions - tied embedding - gradient norm
// - optimizer - (parameter all-gather when it does not overlap). The step is taken from steady state: an all-gather
// that overlaps with the next step's forward pass stands at the start of this one.
#include "workloads/compile/stage_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "sim/error.h"
#include "workloads/compile/pass_compiler.h"
#include "workloads/compile/pass_slots.h"

namespace orrery::workloads {
namespace {

/// What a plan lists takes some 300 bytes an operation until it has run: this is 1 GiB.
constexpr std::size_t kMostOperations = 3'500'000;

void check_length(std::size_t operations, std::size_t passes) {
  if (operations <= kMostOperations) return;
  throw sim::UserError(
      fmt::format("batch.global: got {} passes a stage, more than {} operations to list, expected fewer "
                  "micro-batches (a larger micro-batch, more data parallelism)",
                  passes, kMostOperations));
}

/// Room for so many operations and an eighth more.
void reserve(ProgramWriter& writer, std::size_t operations) {
  const std::size_t room = operations + operations / 8;
  auto& [kind, stream, category, host_waits, issue, duration, issue_bound, slot, pattern, work, rate_cap, loaded,
         waits_begin, waits, stretches] = writer.program;
  const auto columns = [&](auto&... column) { (column.reserve(room), ...); };
  columns(kind, stream, category, host_waits, issue, duration, issue_bound, slot, pattern, work, rate_cap, loaded,
          waits_begin, waits, writer.notes);
}

/// Walks the passes of one stage.
class StageCompiler {
 public:
  StageCompiler(const ProgramInputs& inputs, const StageLayout& stage, const CollectivePrices& prices,
                const std::vector<GroupSlot>& slots, const std::vector<PassSlot>& pass_slots, TemplateLibrary& library,
                PassCompiler::Parts parts)
      : writer(slots, inputs.passes.host.transfer_issue),
        workload_(inputs.workload),
        stage_(stage),
        prices_(prices),
        library_(library),
        costs_(inputs.passes),
        scale_bytes_(inputs.workload.gradients ? inputs.scale_bytes : 0),
        takes_turns_(inputs.takes_turns),
        slots_(pass_slots),
        messages_(inputs.messages, stage_, prices, library, writer),
        passes_(std::move(parts), stage_, library, writer, data_),
        end_(inputs.update, stage_, prices, library, writer) {
    data_.emplace_back(inputs.data, stage_, prices, library, writer, inputs.update.host, inputs.workload.new_weights);
    for (const std::optional<DataParallelism>* apart : {&inputs.data_apart, &inputs.frozen_experts}) {
      if (*apart)
        data_.emplace_back(**apart, stage_, prices, library, writer, inputs.update.host, inputs.workload.new_weights);
    }
  }

  /// `listed`: operations of the stages before.
  void compile(const std::vector<Pass>& order, std::size_t listed) {
    if (workload_.ending == Workload::Ending::update) {
      if (const auto begin = step_begin(costs_, prices_.device, library_))
        writer.compute_at_once(*begin, Category::host);
    }
    for (DataStream& data : data_) data.chunks.plan(order);
    for (DataStream& data : data_) data.chunks.gather_ahead();
    const std::vector<PassInStep> passes = in_step(order, stage_.chunks());
    for (std::size_t i = 0; i < passes.size();) {
      const std::size_t together = passes[i].pass.with_next ? 2 : 1;
      const std::span<const PassInStep> group(&passes[i], together);
      const std::size_t behind = i + together;
      const bool after_alike = i > 0 && messages_.exposes(passes[i - 1].pass, passes[i].pass);
      const bool before_alike = behind < passes.size() && messages_.exposes(group.back().pass, passes[behind].pass);
      if (slots_.any()) {
        end_slots(passes, i);
      } else {
        for (std::size_t j = i; j < behind; ++j) messages_.receive(passes[j].pass, posted(passes, j, after_alike));
      }
      const std::size_t ahead = std::min(passes.size(), behind + messages_.posts_ahead());
      if (!slots_.any() && ahead > behind) posted(passes, ahead - 1, false);
      run(group);
      for (const PassInStep& pass : group) messages_.send(pass.pass, before_alike);
      check_length(listed + writer.program.size(), order.size());
      // Of the first stage, as long as its first passes let expect; the others are about as long as each other.
      if (listed == 0 && i < passes.size() / 8 && behind >= passes.size() / 8)
        reserve(writer, writer.program.size() * passes.size() / behind);
      i = behind;
    }
    if (workload_.ending == Workload::Ending::update) end_.write(data_);
  }

  ProgramWriter writer;

 private:
  /// What pass `last` waits for, all messages up to it being posted in their order.
  std::optional<std::uint32_t> posted(std::span<const PassInStep> passes, std::size_t last, bool exposed) {
    while (posted_.size() <= last) posted_.push_back(messages_.post(passes[posted_.size()].pass, exposed));
    return posted_[last];
  }

  /// Takes what is sent to the stage ahead of pass `next`, for any of its passes, when the pass before is done.
  void end_slots(std::span<const PassInStep> passes, std::size_t next) {
    while (const auto needs = slots_.sent_ahead_of(next)) {
      const Pass& pass = passes[*needs].pass;
      messages_.receive(pass, messages_.post(pass, true));
    }
  }

  void run(std::span<const PassInStep> group) {
    if (group.size() == 2 && takes_turns_) {
      for (const PassInStep& pass : group) begin(pass.pass);
      passes_.compile_in_turn(group[0], group[1]);
      for (const PassInStep& pass : group) end(pass.pass);
      return;
    }
    for (const PassInStep& pass : group) {
      begin(pass.pass);
      passes_.compile(pass);
      end(pass.pass);
    }
  }

  void begin(const Pass& pass) {
    for (DataStream& data : data_) {
      if (pass.kind == PassKind::forward) data.chunks.before_forward();
    }
  }
  void end(const Pass& pass) {
    reduce_scales(pass);
    for (DataStream& data : data_) {
      if (ends_microbatch(pass.kind)) data.chunks.after_backward();
    }
  }

  /// Scales of fp8 tensors follow the largest magnitudes seen on any rank that holds a part of them or a replica
  /// (Transformer Engine, fp8.py, global_amax_reduction, at the end of fp8_autocast and of the backward pass).
  void reduce_scales(const Pass& pass) {
    const double bytes = scale_bytes_ * static_cast<double>(stage_.blocks(stage_.range(pass.chunk)));
    if (bytes <= 0 || pass.kind == PassKind::weight_gradient) return;
    const std::int64_t ranks = prices_.shapes[CommGroup::scales].ranks;
    ProgramWriter::Transfer t{CommGroup::scales};
    t.cost = prices_.of_signal(CollectiveOp::all_reduce, bytes, CommGroup::scales);
    t.traffic = library_.traffic({CommGroup::scales, CollectiveOp::all_reduce, "fp8 scales", ranks, bytes,
                                  wire_bytes(CollectiveOp::all_reduce, ranks, bytes)});
    writer.next_waits_for(writer.transfer(t, writer.after_compute()));
  }

  const Workload& workload_;
  StageLayout stage_;
  const CollectivePrices& prices_;
  TemplateLibrary& library_;
  const PassCosts& costs_;
  double scale_bytes_;  // of a block; 0: none are reduced
  bool takes_turns_;
  SlotWalk slots_;
  DataStreams data_;
  PipelineMessages messages_;
  std::vector<std::optional<std::uint32_t>> posted_;  // by pass, as far as they are
  PassCompiler passes_;
  StepEnd end_;
};

/// What the passes of all stages have in common.
PassCompiler::Parts parts_of(const ProgramInputs& inputs, const Network& network, const CollectivePrices& prices,
                             TemplateLibrary& library, const WholePasses& whole) {
  PassCompiler::Parts parts;
  parts.fetch = microbatch_fetch(inputs.passes, prices.device, library);
  for (std::uint8_t kind = 0; inputs.workload.new_weights && kind < network.kinds.size(); ++kind) {
    if (auto cast = weight_cast(network.kinds[kind], inputs.update.precision, prices.device, library))
      parts.casts.emplace(kind, *std::move(cast));
  }
  if (inputs.workload.gradients) {
    parts.pace.of_all = inputs.slowest * inputs.passes.overlap.kernel_slowdown;
    if (inputs.map.stages() > 1) parts.pace.of_all *= inputs.passes.overlap.pipeline_slowdown;
    parts.pace.beside_collective = inputs.passes.overlap.compute_slowdown_under_collective;
  }
  // Where parts of messages come together on the tensor group's links, its collectives are not alone there.
  const bool gathers = inputs.map.stages() > 1 && inputs.messages.gathers(false);
  parts.whole = whole;
  if (gathers) parts.whole.sure_rate = 0;
  return parts;
}

}  // namespace

StagePrograms compile_programs(const ProgramInputs& inputs, const LayerSplit& split, StageOrders scheduled,
                               const StagePrices& prices, const std::vector<std::vector<GroupSlot>>& slots,
                               const WholePasses& whole) {
  StagePrograms out;
  std::deque<TemplateLibrary> libraries;  // by kind of nodes; parts refer to them
  std::vector<PassCompiler::Parts> parts;
  for (const CollectivePrices& kind : prices.kinds) {
    libraries.emplace_back(split.network, kind, inputs.passes, out);
    parts.push_back(parts_of(inputs, split.network, kind, libraries.back(), whole));
  }
  for (std::vector<Pass>& order : scheduled) order = inputs.workload.passes(std::move(order));
  std::vector<std::vector<PassSlot>> pass_slots(scheduled.size());
  // Passes that run as one send and receive as one: they have no slots of their own.
  const bool pairs = std::any_of(scheduled.begin(), scheduled.end(), [](const std::vector<Pass>& order) {
    return std::any_of(order.begin(), order.end(), [](const Pass& pass) { return pass.with_next; });
  });
  if (inputs.messages.ends_slots_of != nullptr && !pairs)
    pass_slots = slots_of(*inputs.messages.ends_slots_of, inputs.map, scheduled);
  std::size_t listed = 0;
  for (std::size_t stage = 0; stage < scheduled.size(); ++stage) {
    std::vector<Pass> order = std::move(scheduled[stage]);
    const std::size_t kind = prices.kind_of(stage);
    StageCompiler compiler(inputs, {split, inputs.map, static_cast<std::int64_t>(stage)}, prices.kinds[kind],
                           slots[stage], pass_slots[stage], libraries[kind], parts[kind]);
    if (stage > 0) reserve(compiler.writer, listed / stage);  // stages are about as long as each other
    compiler.compile(order, listed);
    listed += compiler.writer.program.size();
    out.programs.push_back(std::move(compiler.writer.program));
    out.notes.push_back(std::move(compiler.writer.notes));
    out.slowed.push_back(std::move(compiler.writer.slowed));
    out.orders.push_back(std::move(order));
  }
  return out;
}

}  // namespace orrery::workloads
