// The operation list of one pipeline stage: passes in schedule order, each pass the pieces of its chunk, with tensor
// collectives, pipeline messages and data-parallel collectives where the job's overlap puts them.
#pragma once

#include <vector>

#include "workloads/compile/pipeline_messages.h"
#include "workloads/compile/program_notes.h"
#include "workloads/compile/step_end.h"
#include "workloads/compile/workload.h"

namespace orrery::workloads {

/// What programs follow from, beside layers, orders and prices: a value for each part of the compiler.
struct ProgramInputs {
  Workload workload = Workload::training_step;
  ChunkMap map;
  PassCosts passes;
  DataParallelism data;
  /// Of what goes another way than the rest: routed experts, or beside adapters frozen weights that are shared out.
  std::optional<DataParallelism> data_apart;
  /// Of frozen experts, where other ranks share them out than the rest.
  std::optional<DataParallelism> frozen_experts;
  MessageStyle messages;
  UpdateStyle update;
  /// Bytes of the largest magnitudes of a block that a pass in fp8 ends by reducing over tensor- and data-parallel
  /// ranks (software key amax_reduction); 0 where it does not.
  double scale_bytes = 0;
  /// Passes that run as one take turns at computing while exchanges of experts are under way (overlap.experts).
  bool takes_turns = false;
  /// Time of kernels on the slowest of the GPUs that wait for each other, over that on one of the mean (slowest.h).
  double slowest = 1;
};

/// Compiles the programs. `scheduled`: the passes of every stage as the job's schedule orders them. `slots`: by stage,
/// what its ranks have communicators for.
StagePrograms compile_programs(const ProgramInputs& inputs, const LayerSplit& split, StageOrders scheduled,
                               const StagePrices& prices, const std::vector<std::vector<GroupSlot>>& slots,
                               const WholePasses& whole);

}  // namespace orrery::workloads
