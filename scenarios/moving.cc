// What an answer hangs on though no key of the scenario says it: habits of the named software, and a fabric that leaves
// out what a device is sold with. A change of the software may move a step severalfold by them, so each is said, as
// load_options.cc says of recomputation that stops early.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "calibration/framework/recipe.h"
#include "scenarios/load.h"
#include "workloads/job/job_values.h"

namespace orrery::scenarios {

namespace {

using workloads::Job;

void note_reductions(Job& job) {
  const workloads::DataParallelism data = workloads::data_parallelism_of(job);
  const std::int64_t passes = job.microbatches();
  if (!data.by_unit || passes < 2) return;
  job.assumptions.push_back(
      data.gathers_every_pass
          ? fmt::format("Weights are gathered and gradients reduced in each of {} micro-batches, as {} does where they "
                        "are sharded.",
                        passes, job.software.name)
          : fmt::format(
                "Sharded gradients are reduced in each of {} backward passes, as {} does; software that sums them "
                "whole reduces once a step.",
                passes, job.software.name));
}

/// A rack's NVLink reaches beyond a tray, and the fabric does not have it.
void note_trays(Job& job) {
  const workloads::Machine& machine = job.machine;
  const bool tray = machine.node.kind == topology::NodeSpec::Kind::nvswitch && machine.device.name().starts_with("gb");
  if (!tray || machine.fabric.gpus.nvlink_domain > 0 || machine.gpus <= machine.gpus_per_node) return;
  job.assumptions.push_back(fmt::format(
      "{} joins trays of {} {} by its network alone: no NVLink of a rack of 72 reaches beyond a tray, as it "
      "does on nvl72-ndr and nvl72-xdr.",
      machine.fabric.name, machine.gpus_per_node, machine.device.name()));
}

/// Documents of a pack that a host goes through one by one: what it launches for them may outlast what the GPU
/// computes.
void note_packs(Job& job) {
  using calibration::RecipePart;
  const std::int64_t document = job.model.attention.document, seq = job.model.seq;
  const std::int64_t documents = document > 0 ? (2 * seq + document) / (2 * document) : 1;  // of a sequence, rounded
  if (documents < 2) return;
  const calibration::Recipe& rotary = job.software.layers.recipes.of(RecipePart::rotary);
  const calibration::Recipe& order = job.software.layers.recipes.of(RecipePart::head_exchange);
  std::vector<std::string> does, instead;
  if (job.model.positions == workloads::Positions::rotary && calibration::reads(rotary, "packed")) {
    does.push_back("rotates");
    instead.push_back("software.recipe.rotary=fused");
  }
  const bool exchanges =
      job.parallelism.context > 1 && job.parallelism.context_method == workloads::ContextMethod::all_to_all;
  if (exchanges && !order.forward.empty()) {
    does.push_back("puts in order around exchanges of heads");
    instead.push_back("software.recipe.head-exchange=at_once");
  }
  if (does.empty()) return;
  const bool newer = instead.back().ends_with("at_once");
  job.assumptions.push_back(fmt::format(
      "{} {} the {} documents of a packed sequence one by one, launched by the host each time; --set {}{} would take "
      "most of that away.",
      job.software.name, fmt::join(does, " and "), documents, fmt::join(instead, " --set "),
      newer ? " (Transformer Engine v2.18)" : ""));
}

}  // namespace

void note_what_moves(Job& job) {
  if (job.model.recommender.any()) return;
  note_reductions(job);
  note_trays(job);
  note_packs(job);
}

}  // namespace orrery::scenarios
