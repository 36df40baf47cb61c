// Reads what waits in the host's memory: activations of layers, states of the optimizer.
#include "scenarios/load.h"

#include "workloads/job/job_values.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::Job;

namespace {

/// Activations that wait with the host.
void load_activations(const Settings& section, Job& job) {
  const Settings* layers = given(&section, "activation_layers");
  const Settings* also = given(&section, "activations_layers");
  if (layers != nullptr && also != nullptr) also->fail("stands beside activation_layers, expected one of them");
  if (layers == nullptr) layers = also;
  if (layers == nullptr) return;
  const std::int64_t count = layers->as_int();
  if (count > job.model.layers)
    layers->fail(fmt::format("got {}, expected at most the {} layers of the model", count, job.model.layers));
  // Megatron-Core refuses it too (megatron/core/transformer/transformer_config.py, cpu_offloading).
  if (count > 0 && job.parallelism.pipeline > 1)
    layers->fail(
        fmt::format("got {} layers with a pipeline of {} stages, expected one stage", count, job.parallelism.pipeline));
  job.method.offloaded_layers = count;
  if (count > 0)
    job.assumptions.push_back(
        fmt::format("offload: activations of {} layers wait in the host's memory; their transfers hide.", count));
}

/// What no states of the optimizer in the host's memory go with.
void check_states(const Settings& states, bool mixed, const workloads::Parallelism& layout,
                  workloads::OptimizerKind optimizer) {
  const auto refuse = [&](const std::string& what, const std::string& right) {
    states.fail(fmt::format("got true with {}, expected false or {}", what, right));
  };
  if (mixed) refuse("nodes of several kinds", "nodes of one kind");
  if (layout.optimizer_post_validation)
    refuse("parallelism.optimizer_post_validation", "that false: no stage steps its optimizer apart");
  using enum workloads::OptimizerKind;
  if (optimizer != adam && optimizer != sgd && optimizer != adagrad && optimizer != lion)
    refuse(fmt::format("optimizer: {}", name_of(optimizer)), "adam, sgd, adagrad or lion");
}

void say_states(Job& job) {
  const workloads::HostStates& states = job.method.host_states;
  const topology::NodeSpec::Host& node = job.machine.node.host;
  const workloads::HostCopies host = workloads::host_copies_of(job.method, job.software.optimizer, job.machine);
  job.assumptions.push_back(
      fmt::format("offload: {} of the optimizer's states{} in the host's memory; gradients leave {}, the host updates "
                  "at {:.3g} GB/s for each GPU, {:g} of its memory's rate (software.host_update_share, which no "
                  "measured step tells), copies move {:.3g} GB/s for each GPU, both ways{}.",
                  states.optimizer == 1 ? "all" : fmt::format("{:g}", states.optimizer),
                  states.parameters ? " and the weights' shards lie" : " lie",
                  host.in_backward ? "with the backward pass" : "behind the last pass", host.rates.memory / 1e9,
                  job.software.optimizer.host_update_share, host.rates.link / 1e9,
                  states.overlaps ? ", layer by layer beside the update" : ""));
  if (node.memory_rate.value() == 0)
    job.assumptions.push_back(
        fmt::format("offload: {} does not say how fast its hosts' memory is (node.host_memory_rate): {:g} GB/s.",
                    job.machine.device.name(), workloads::kHostMemoryRate / 1e9));
  if (node.memory.value() == 0)
    job.assumptions.push_back(
        fmt::format("offload: {} does not say how much memory its hosts have (node.host_memory): not checked.",
                    job.machine.device.name()));
}

/// States of the optimizer, and weights, that lie with the host.
void load_states(const Settings& section, Job& job) {
  const Settings* optimizer = given(&section, "optimizer");
  const Settings* fraction = given(&section, "optimizer_fraction");
  const Settings* weights = given(&section, "parameters");
  const bool on = optimizer != nullptr && optimizer->as_bool();
  workloads::HostStates& states = job.method.host_states;
  if (on) states.optimizer = fraction == nullptr ? 1 : fraction->as_number();
  states.overlaps = boolean(&section, "optimizer_overlap", false);
  states.parameters = weights != nullptr && weights->as_bool();
  if (!on) {
    for (const char* key : {"optimizer_fraction", "optimizer_overlap", "parameters"}) {
      const Settings* stands = given(&section, key);
      const bool off = stands == nullptr || stands->text() == "false";
      if (!off) stands->fail(fmt::format("got {} without optimizer: true, expected it beside", stands->text()));
    }
    return;
  }
  if (!states.any()) {  // a share of none
    states = {};
    return;
  }
  check_states(*optimizer, job.machine.mixed(), job.parallelism, job.method.optimizer);
  const bool shared = job.parallelism.sharding == workloads::Sharding::parameters && job.replicas() > 1;
  if (states.parameters && !shared)
    weights->fail(
        "got true, expected false, or parallelism.sharding: parameters over several ranks, which gather them");
  if (states.parameters && job.model.experts.any() && job.expert_replicas() == 1)
    weights->fail(
        "got true with experts that one rank alone holds, expected false, or fewer ranks in an expert group: nothing "
        "gathers them");
  if (states.parameters && states.optimizer < 1)
    fraction->fail(
        fmt::format("got {} with parameters: true, expected 1: weights that lie with the host are updated there",
                    fraction->text()));
  say_states(job);
}

}  // namespace

void load_offload(const Settings& document, Job& job) {
  job.method.offloaded_layers = 0;
  job.method.host_states = {};
  const Settings* section = given(&document, "offload");
  if (section == nullptr) return;
  if (!section->is_mapping()) section->expected("a mapping, as in {activation_layers: 20}");
  load_activations(*section, job);
  load_states(*section, job);
}

}  // namespace orrery::scenarios
