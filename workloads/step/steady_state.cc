// Finding out whether a step repeats. See steady_state.h.
#include "workloads/step/steady_state.h"

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
  std::optional<std::int64_t> shift;
  for (const sim::Record& record : records) {
    const OpsByPass& here = passes[sim::index(plan.instances[record.instance].program)];
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
  return sim::Duration(*shift);
}

}  // namespace orrery::workloads
