// Names of the choices of a job, as the scenario language spells them.
#include "workloads/job.h"

#include <array>

#include "workloads/schedules/chunk_map.h"

namespace orrery::workloads {

namespace {
constexpr std::array<std::string_view, kScheduleKinds> kSchedules{
    "gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v", "v_half", "v_min", "dualpipe"};
}  // namespace

Split split_of(const Job& job) {
  const Parallelism& p = job.parallelism;
  return {p.tensor, p.context, p.sequence_parallel, p.context_method, job.batch.micro};
}

Computation computation_of(const Job& job) {
  Computation computation;
  computation.precision = job.precision;
  computation.recompute = job.recompute;
  computation.attention = job.attention;
  computation.overlaps_tensor = job.overlap.tensor;
  computation.ends_on_one_stage = ChunkMap(job).ends_meet();
  computation.keeps_training_gradients = job.software.gradients.keeps_training_gradients;
  computation.style = job.software.layers;
  computation.attention_style = job.software.attention_style;
  return computation;
}

Network network_of(const Job& job) { return gpt(job.model, split_of(job), computation_of(job)); }

std::string_view name_of(ScheduleKind schedule) { return kSchedules[static_cast<std::size_t>(schedule)]; }

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names(kSchedules.begin(), kSchedules.end());
  return names;
}

}  // namespace orrery::workloads
