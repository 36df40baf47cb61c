// Rows of the scenario language for what is trained, and by what. See schema_finetune.h.
#include "scenarios/schema_finetune.h"

#include "sim/key_rows.h"
#include "workloads/model/optimizer_step.h"

namespace orrery::scenarios {

std::vector<Key> finetune_keys() {
  return {
      sim::key_row("optimizer", "choice", "", "adam", workloads::optimizer_names(),
                   "Optimizer: its states and its kernels; muon updates matrices of blocks, adam the rest."),
      sim::key_row("finetune", "mapping", "", "-", {},
                   "Adapters are trained beside frozen weights, which have no gradients."),
      sim::key_row("finetune.kind", "choice", "", "", {"lora", "qlora", "full"},
                   "Low-rank adapters (arXiv 2106.09685), or these beside weights in 4 bits (2305.14314); full: all "
                   "weights are trained."),
      sim::key_row("finetune.rank", "integer", "elements", "", {}, "Inner width of an adapter.", {"1", "65536"}),
      sim::key_row("finetune.modules", "choice", "", "attention", {"attention", "all"},
                   "Beside which products adapters stand: those of attention, or those of the MLP too."),
      sim::key_row("finetune.fp8_activation_input", "boolean", "", "true where products are of a type with scales", {},
                   "The input of the MLP's activation is kept in fp8 for the backward pass, as MLPerf's submissions of "
                   "LoRA do (FP8_ACT=1)."),
      sim::key_row("finetune.dropout", "number", "", "0", {}, "Dropout of an adapter's input.", {"0", "0.99"}),
  };
}

}  // namespace orrery::scenarios
