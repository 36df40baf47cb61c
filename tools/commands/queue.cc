// `orrery queue`: a trace of jobs replayed on a cluster under several policies.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/parallel.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/study/queue_report.h"

namespace orrery::tools {

namespace {

struct QueueFlags {
  std::string scenario, trace, json, report;
  std::vector<std::string> sets;
  QueueOptions queue;
};

int queue_command(QueueFlags options) {
  check_writable(options.json);
  check_report(options.report);
  if (options.queue.jobs == 0) options.queue.jobs = default_jobs();
  const sim::Settings document = scenarios::read_scenario(options.scenario, options.sets);
  const InterruptGuard guard;
  const QueueStudy study = study_queue(document, options.trace, options.queue);
  if (study.interrupted) return kInterrupted;
  if (!options.json.empty()) write_output(options.json, [&](std::ostream& out) { write_json(out, queue_json(study)); });
  if (!options.report.empty())
    write_output(options.report, [&](std::ostream& out) { write_page(out, queue_page(study)); });
  if (options.json != "-" && options.report != "-") write_queue(std::cout, study);
  return kDone;
}

}  // namespace

Action declare_queue(CommandOptions app) {
  const auto options = std::make_shared<QueueFlags>();
  app.add_option("scenario", options->scenario,
                 "scenario whose cluster and job the queue runs on and is made of, a file (YAML) or a name")
      .required();
  app.add_option("trace", options->trace,
                 "CSV with a header: submit_s, gpus, duration_s, limit_s, or the columns of Helios and Acme")
      .required();
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--gpus", options->queue.gpus, "GPUs of the cluster (default: those of the scenario)")
      .check(Range(1, 1 << 20));
  app.add_option(
      "--device", options->queue.device,
      "of nodes of several kinds, the device of those whose queue it is, with the jobs whose column device or "
      "gpu_type says so");
  app.add_option("--order", options->queue.orders, "fifo, shortest or backfill; may be repeated (default: all)")
      .check(OneOf(queue_order_names()));
  app.add_option("--placement", options->queue.placements,
                 "best_fit, first_fit, spread or random; may be repeated (default: all)")
      .check(OneOf(queue_placement_names()));
  app.add_option("--resample", options->queue.resamples,
                 "queues with jobs drawn anew from the trace's, for intervals (default 0)")
      .check(Range(0, 100'000));
  app.add_flag("--failures", options->queue.failures,
               "jobs fail, and go on from their checkpoints, as the scenario's campaign section says");
  app.add_option("--jobs", options->queue.jobs, "simulations at a time (default: one per core)").check(Range(1, 1024));
  app.add_option("--json", options->json, "write the result as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write charts of the queue as one HTML file that needs no network")
      .type_name("FILE");
  return [options] { return queue_command(*options); };
}

}  // namespace orrery::tools
