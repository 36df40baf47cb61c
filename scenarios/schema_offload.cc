// Rows of the scenario language for what waits in the host's memory. See schema_offload.h.
#include "scenarios/schema_offload.h"

#include "sim/key_rows.h"

namespace orrery::scenarios {

std::vector<Key> offload_keys() {
  return {
      sim::key_row("offload", "mapping", "", "-", {}, "What waits in the host's memory."),
      sim::key_row("offload.activation_layers", "integer", "", "0", {},
                   "Layers whose activations are sent to the host behind their forward pass and fetched ahead of their "
                   "backward pass, on a model of one pipeline stage; their way there and back is taken to hide.",
                   {"0", "1e6"}),
      sim::key_row("offload.activations_layers", "integer", "", "activation_layers", {},
                   "Another spelling of activation_layers.", {"0", "1e6"}),
      sim::key_row("offload.optimizer", "boolean", "", "false", {},
                   "Whether the optimizer's states lie in the host's memory, and the host updates the weights: "
                   "Megatron-Core's --optimizer-cpu-offload, DeepSpeed's offload_optimizer, PyTorch's "
                   "CPUOffloadPolicy. How gradients get there the software says (offloaded_gradients)."),
      sim::key_row("offload.optimizer_fraction", "number", "", "1", {},
                   "Share of the parameters whose states lie there; the device updates the others meanwhile.",
                   {"0", "1"}),
      sim::key_row("offload.optimizer_overlap", "boolean", "", "false", {},
                   "Whether gradients leave, weights are updated and come back layer by layer, so that copies run "
                   "beside the update (--overlap-cpu-optimizer-d2h-h2d); else one after the other."),
      sim::key_row("offload.parameters", "boolean", "", "false", {},
                   "Whether the shards of weights lie there too, so that each rank's comes ahead of every gather; with "
                   "sharding: parameters and optimizer: true."),
  };
}

}  // namespace orrery::scenarios
