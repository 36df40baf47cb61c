// What an answer hangs on though no key of the scenario says it: habits of the named software, and a fabric that leaves
// out what a device is sold with. A change of the software may move a step severalfold by them, so each is said, as
// load_options.cc says of recomputation that stops early.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/load.h"
#include "workloads/step/job_values.h"

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

}  // namespace

void note_what_moves(Job& job) {
  if (job.model.recommender.any()) return;
  note_reductions(job);
  note_trays(job);
}

}  // namespace orrery::scenarios
