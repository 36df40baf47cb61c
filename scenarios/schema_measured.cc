// Rows of the schema for what was measured of a record. See schema_measured.h.
#include "scenarios/schema_measured.h"

#include "sim/key_rows.h"

namespace orrery::scenarios {

std::vector<Key> measured_keys() {
  return {
      sim::key_row("measured", "mapping", "", "-", {},
                   "What was measured: makes the scenario a record that can be validated."),
      sim::key_row("measured.iteration_s", "number", "s", "-", {}, "One optimizer step, training only.",
                   {"1e-6", "1e7"}),
      sim::key_row("measured.iteration_source", "text", "", "-", {}, "Printed in the source, or derived from what."),
      sim::key_row("measured.iteration_wall_s", "number", "s", "-", {},
                   "One step by the wall clock, with what lies outside the step timer.", {"1e-6", "1e7"}),
      sim::key_row("measured.tokens_per_s", "number", "tokens/s", "-", {},
                   "Throughput of the whole job, training only.", {"1e-3", "1e12"}),
      sim::key_row("measured.tokens_per_s_including_eval", "number", "tokens/s", "-", {},
                   "Throughput that also counts evaluation time.", {"1e-3", "1e12"}),
      sim::key_row("measured.tokens_per_s_per_gpu", "number", "tokens/s", "-", {}, "Throughput of one GPU.",
                   {"1e-6", "1e9"}),
      sim::key_row("measured.samples_per_s", "number", "sequences/s", "-", {},
                   "Throughput of the whole job in sequences.", {"1e-6", "1e9"}),
      sim::key_row("measured.samples_per_s_per_gpu", "number", "sequences/s", "-", {},
                   "Throughput of one GPU in sequences.", {"1e-9", "1e9"}),
      sim::key_row("measured.tflops_per_gpu", "number", "TFLOP/s", "-", {},
                   "Arithmetic rate of one GPU, of the kind in tflops_kind.", {"1e-6", "1e6"}),
      sim::key_row("measured.aggregate_pflops", "number", "PFLOP/s", "-", {}, "Arithmetic rate of the whole job.",
                   {"1e-9", "1e9"}),
      sim::key_row("measured.tflops_kind", "text", "", "-", {},
                   "What tflops_per_gpu counts: model, or hardware including recompute."),
      sim::key_row("measured.mfu_pct", "number", "%", "-", {}, "Model FLOPs utilization.", {"1e-6", "200"}),
      sim::key_row("measured.hfu_pct", "number", "%", "-", {}, "Hardware FLOPs utilization.", {"1e-6", "200"}),
      sim::key_row("measured.memory_gb", "number", "GB", "-", {}, "Peak memory of one GPU.", {"1e-6", "1e5"}),
      sim::key_row("measured.memory_kind", "choice", "", "device", {"allocated", "reserved", "device"},
                   "What memory_gb counts: PyTorch's peak allocated or reserved memory, or all that is taken on the "
                   "device (nvidia-smi)."),
      sim::key_row("measured.memory_rank", "choice", "", "fullest", {"fullest", "first", "last"},
                   "Whose memory memory_gb is: of the fullest GPU, or of the first or the last, that is of that stage "
                   "of the pipeline."),
      sim::key_row("measured.model_state_gb", "number", "GB", "-", {},
                   "Memory of weights, gradients and optimizer on one GPU: what is allocated between steps.",
                   {"1e-6", "1e6"}),
      sim::key_row("measured.evaluation_s", "number", "s", "-", {}, "One evaluation.", {"1e-6", "1e7"}),
      sim::key_row("measured.power_w", "number", "W", "-", {}, "Mean power of one GPU.", {"1e-3", "1e12"}),
      sim::key_row("measured.energy_j", "number", "J", "-", {}, "Energy of one step of the whole job.",
                   {"1e-6", "1e18"}),
      sim::key_row("measured.oom", "boolean", "", "-", {}, "Whether the run went out of memory."),
      sim::key_row("measured.failed", "choice", "", "-", {"crashed_or_oom"},
                   "That the run did not finish, where the source does not say whether for want of memory."),
  };
}

}  // namespace orrery::scenarios
