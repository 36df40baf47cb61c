// The table of the `campaign` section.
#include "sim/key_rows.h"
#include "workloads/runs/campaign/spec.h"

namespace orrery::campaign {

namespace {

using Rows = std::vector<sim::Key>;

/// A row of a time that a campaign spends.
sim::Key time_row(const char* path, const char* fallback, const char* meaning) {
  return sim::key_row(path, "quantity", "time", fallback, {}, meaning, {"0 s", "10 years"});
}

Rows run_rows() {
  return {
      sim::key_row("tokens", "number", "tokens", "training.tokens", {}, "Tokens to train on; or steps, or window.",
                   {"1", "1e18"}),
      sim::key_row("steps", "integer", "steps", "-", {}, "Steps to train.", {"1", "1000000000000"}),
      sim::key_row("window", "quantity", "time", "-", {}, "Train for so long, however far it comes.",
                   {"1 s", "100 years"}),
      sim::key_row("limit", "quantity", "time", "20 times what it takes without failures", {}, "Give up after so long.",
                   {"1 s", "1000 years"}),
      sim::key_row("ramp", "list", "", "-", {}, "First tokens in batches of another size."),
      sim::key_row("ramp[].until_tokens", "number", "tokens", "", {}, "Tokens trained when the next size begins.",
                   {"1", "1e18"}),
      sim::key_row("ramp[].global", "integer", "sequences", "", {}, "Sequences per step until then.",
                   {"1", "1000000000"}),
      sim::key_row("step_excess", "number", "", "0", {},
                   "What real steps take beyond the simulated one in the mean, as a share of it: jitter.", {"0", "10"}),
      sim::key_row("data_loading", "mapping", "", "-", {}, "Waits for data."),
      time_row("data_loading.per_step", "0 s", "What each step waits for its data."),
      time_row("data_loading.at_restart", "0 s", "From the start of the loaders to their first batch."),
      sim::key_row("first_start", "choice", "", "none", {"none", "cold", "load"},
                   "What counts of the time before the first step: nothing, a start as after a failure, or that with a "
                   "checkpoint loaded."),
      sim::key_row("failures", "name", "", "none fail", {},
                   "What fails: a file of calibration/reliability, a path, or a mapping that may inherit one."),
      sim::key_row("maintenance", "mapping", "", "-", {}, "Planned stops."),
      sim::key_row("maintenance.every", "quantity", "time", "", {}, "From the beginning of one to that of the next.",
                   {"1 min", "100 years"}),
      time_row("maintenance.for", "", "How long the machine is down."),
      sim::key_row("elastic", "mapping", "", "-", {},
                   "Go on with fewer data-parallel replicas where nodes are missing."),
      sim::key_row("elastic.min_replicas", "integer", "replicas", "1", {}, "Wait for nodes below so many.",
                   {"1", "1048576"}),
      sim::key_row("elastic.regrow", "boolean", "", "true", {},
                   "Stop to take nodes back as soon as they are there; false: with the next restart."),
  };
}

Rows checkpoint_rows() {
  return {
      sim::key_row("checkpoint", "mapping", "", "to storage, in the background, at Daly's interval", {},
                   "What is saved, and where."),
      sim::key_row("checkpoint.every_steps", "integer", "steps", "-", {}, "Steps between two.", {"1", "1000000000"}),
      sim::key_row("checkpoint.every", "quantity", "time", "Daly's interval", {}, "Time between two.",
                   {"1 ms", "10 years"}),
      sim::key_row("checkpoint.bytes", "quantity", "bytes", "weights and optimizer states, by the memory account", {},
                   "Size of the whole checkpoint.", {"1 B", "1000 PB"}),
      sim::key_row("checkpoint.snapshot", "quantity", "bytes/s", "the PCIe rate of the device", {},
                   "From one GPU to the memory of its host.", {"1 MB/s", "100 TB/s"}),
      sim::key_row("checkpoint.tiers", "list", "", "storage", {}, "Where checkpoints go, nearest first."),
      sim::key_row("checkpoint.tiers[].to", "choice", "", "", {"host", "neighbour", "storage"},
                   "The host's own memory, which ends with the node; another node's too; storage, which outlives all."),
      sim::key_row("checkpoint.tiers[].one_in", "integer", "checkpoints", "1", {},
                   "One in so many checkpoints goes there.", {"1", "1000000000"}),
      sim::key_row("checkpoint.tiers[].mode", "choice", "", "background", {"background", "blocking"},
                   "Whether the step waits for the copy to the host alone, or until all is written."),
      sim::key_row("checkpoint.tiers[].write", "quantity", "bytes/s",
                   "1 GB/s to storage, 10 GB/s to a neighbour, no limit to the host", {}, "Of one node.",
                   {"1 MB/s", "100 TB/s"}),
      sim::key_row("checkpoint.tiers[].read", "quantity", "bytes/s", "that of write", {}, "Of one node.",
                   {"1 MB/s", "100 TB/s"}),
      sim::key_row("checkpoint.tiers[].total", "quantity", "bytes/s", "no limit", {}, "Of the whole store, either way.",
                   {"1 MB/s", "10000 TB/s"}),
  };
}

Rows repair_rows() {
  return {
      sim::key_row("repair", "mapping", "", "-", {}, "From a failure to the next step."),
      time_row("repair.detection", "30 s", "From a crash to the stop of the job."),
      time_row("repair.hang_detection", "10 min", "From a hang to the stop of the job."),
      time_row("repair.slow_detection", "1 h", "From the first slow step to an orderly stop."),
      time_row("repair.diagnosis", "5 min", "From the stop to knowing which nodes to leave out."),
      time_row("repair.swap", "0 s", "A spare node in place of a lost one."),
      time_row("repair.scheduler", "1 min", "The new allocation of nodes."),
      time_row("repair.container", "90 s", "From the allocation to running processes."),
      time_row("repair.initialisation", "0 s", "Communicators of the collective library, however many ranks."),
      time_row("repair.initialisation_per_rank", "3 ms", "What each rank adds to it."),
      time_row("repair.warm_up", "0 s", "What the first steps take beyond others: compilation, allocation, caches."),
      sim::key_row(
          "repair.warm_up_steps", "integer", "steps", "0", {},
          "Steps on made-up data ahead of the first that counts, as NeMo takes them to compile and to allocate.",
          {"0", "1000000"}),
      sim::key_row("repair.spares", "integer", "nodes", "0", {},
                   "Healthy nodes beside the job's; of several kinds, by how many there are of each.",
                   {"0", "1048576"}),
  };
}

}  // namespace

const sim::KeyTable& campaign_keys() {
  static const sim::KeyTable keys = [] {
    Rows rows = run_rows();
    for (Rows more : {checkpoint_rows(), repair_rows()}) rows.insert(rows.end(), more.begin(), more.end());
    return sim::KeyTable(std::move(rows), "unknown");
  }();
  return keys;
}

}  // namespace orrery::campaign
