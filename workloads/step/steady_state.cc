// Finding out whether a step repeats. See steady_state.h.
#include "workloads/step/steady_state.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace orrery::workloads {

namespace {

/// The operations of one stage by micro-batch and chunk, in program order, as compressed rows.
struct OpsByPass {
  std::int64_t chunks = 0;
  std::vector<std::uint32_t> begin, ops;

  OpsByPass(const std::vector<OpNote>& notes, std::int64_t microbatches, std::int64_t chunks_per_stage)
      : chunks(chunks_per_stage), begin(static_cast<std::size_t>(microbatches * chunks_per_stage) + 1, 0) {
    for (const OpNote& note : notes) {
      if (note.microbatch >= 0) ++begin[row(note.microbatch, note.chunk) + 1];
    }
    for (std::size_t r = 1; r < begin.size(); ++r) begin[r] += begin[r - 1];
    ops.resize(begin.back());
    std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
    for (std::uint32_t op = 0; op < notes.size(); ++op) {
      if (notes[op].microbatch >= 0) ops[next[row(notes[op].microbatch, notes[op].chunk)]++] = op;
    }
  }
  std::size_t row(std::int64_t microbatch, std::int64_t chunk) const {
    return static_cast<std::size_t>(microbatch * chunks + chunk);
  }
  std::span<const std::uint32_t> of(std::int64_t microbatch, std::int64_t chunk) const {
    const std::size_t r = row(microbatch, chunk);
    return {ops.data() + begin[r], begin[r + 1] - begin[r]};
  }
};

/// Whether a transfer from before the micro-batches that must repeat is under way beside the last of them, as a gather
/// of parameters may be that takes many micro-batches: they repeat only until it ends, and then go faster.
bool outlasted(const Jump& jump, const std::vector<OpNote>& notes, const sim::Program& program,
               const sim::Record& record) {
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t op = 0; op < notes.size(); ++op) {
    if (notes[op].microbatch >= jump.first + jump.window) last = std::min(last, record.finish[op].value());
  }
  for (std::uint32_t op = 0; op < notes.size(); ++op) {
    if (program.kind[op] != sim::OpKind::transfer || notes[op].microbatch >= jump.first) continue;
    if (record.start[op].value() < last && record.finish[op].value() > last) return true;
  }
  return false;
}

/// Whether the host of this stage needs longer for a period than the period takes: it uses up what it is ahead by, and
/// the kernels repeat only until it has. A host that waits for its GPU somewhere in the period goes at the GPU's pace.
bool falls_behind(const Jump& jump, const std::vector<OpNote>& notes, const sim::Program& program, std::int64_t shift) {
  std::int64_t issues = 0;
  for (std::uint32_t op = 0; op < notes.size(); ++op) {
    if (notes[op].microbatch < jump.first || notes[op].microbatch >= jump.first + jump.period) continue;
    if (program.host_waits[op] != 0) return false;
    issues += program.issue[op];
  }
  return issues > shift;
}

}  // namespace

std::optional<Jump> choose_jump(const Schedule& schedule, const PipelineShape& shape, const Perturbation& perturbed,
                                int attempt) {
  constexpr std::int64_t kIterations = 3, kSettle = 2;
  if (perturbed.jitter_sigma > 0 || perturbed.message_sigma > 0 || perturbed.routing.skew > 0) return {};
  if (schedule.repeats == nullptr) return {};
  const auto [period, lead] = schedule.repeats(shape.stages);
  Jump jump;
  jump.period = period;
  jump.first = lead + (kSettle << attempt) * jump.period + (attempt > 0 ? lead : 0);
  jump.window = kIterations * jump.period + lead;
  const std::int64_t most = jump.first + jump.window + jump.period + lead;
  const std::int64_t m = shape.microbatches;
  if (m <= most) return {};
  jump.periods = (m - most) / jump.period;
  jump.microbatches = m - jump.periods * jump.period;
  // Short of two fifths saved, checking for the repetition costs more than it gains.
  if (jump.periods < 1 || 5 * jump.microbatches > 3 * m) return {};
  return jump;
}

std::optional<sim::Duration> shift_of(const Jump& jump, std::int64_t chunks, const StagePrograms& stages,
                                      const sim::Plan& plan, const std::vector<sim::Record>& records) {
  std::vector<OpsByPass> passes;
  passes.reserve(stages.notes.size());
  for (const auto& notes : stages.notes) passes.emplace_back(notes, jump.microbatches, chunks);
  const auto looked_at = [&](std::int64_t microbatch) {
    return microbatch >= jump.first && microbatch < jump.first + jump.window + jump.period;
  };
  for (const std::vector<std::int32_t>& slowed : stages.slowed)  // for as many as the collectives take, and no more
    if (std::any_of(slowed.begin(), slowed.end(), looked_at)) return {};
  std::optional<std::int64_t> shift;
  for (const sim::Record& record : records) {
    const sim::ProgramId stage = plan.instances[record.instance].program;
    if (outlasted(jump, stages.notes[sim::index(stage)], plan.programs[stage], record)) return {};
    const OpsByPass& here = passes[sim::index(stage)];
    for (std::int64_t microbatch = jump.first; microbatch < jump.first + jump.window; ++microbatch) {
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const auto before = here.of(microbatch, chunk), after = here.of(microbatch + jump.period, chunk);
        if (before.size() != after.size()) return {};
        for (std::size_t i = 0; i < before.size(); ++i) {
          const std::int64_t moved = record.finish[after[i]].value() - record.finish[before[i]].value();
          if (!shift) shift = moved;
          if (moved != *shift) return {};
        }
      }
    }
  }
  if (!shift) return {};
  for (std::uint32_t stage = 0; stage < stages.notes.size(); ++stage) {
    if (falls_behind(jump, stages.notes[stage], plan.programs[sim::ProgramId{stage}], *shift)) return {};
  }
  return sim::Duration(*shift);
}

}  // namespace orrery::workloads
