// `orrery learn`: a software generation from profiler traces of the user's own job.
#include "tools/learn/learn.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/learn/decompose.h"
#include "tools/learn/learn_kernels.h"
#include "tools/parallel.h"
#include "tools/report/output.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

/// Mean difference of observations beyond which a user should doubt that traces and scenario belong together.
constexpr double kForeign = 0.25;

struct LearnOptions {
  std::vector<std::string> files, sets;
  std::string scenario, out, kernels, name = "learnt";
  unsigned jobs = 0;
};

void write_numbers(std::ostream& out, const Learnt& learnt) {
  TextTable table({{"key", Align::left}, {"inherited"}, {"learnt"}, {"samples"}, {"rests on", Align::left}});
  for (const LearntNumber& number : learnt.numbers) {
    const auto amount = [&](double value) {
      return number.unit.empty() ? number_text(value) : fmt::format("{} {}", number_text(value), number.unit);
    };
    table.add_row({number.key, amount(number.inherited), number.determined ? amount(number.value) : "-",
                   fmt::format("{}", number.samples),
                   number.determined ? shortened(number.rests_on, 44) : "not determined by these traces"});
  }
  table.write(out);
  for (const std::string& feature : learnt.features) out << fmt::format("  feature found: {}\n", feature);
  for (const std::string& feature : learnt.without) out << fmt::format("  feature missing: {}\n", feature);
  out << fmt::format("  {} observations differ by {:.2f} % in the mean, {:.2f} % before; {} simulations\n",
                     learnt.observations, 100 * learnt.misfit_after, 100 * learnt.misfit_before, learnt.simulations);
}

void write_kernels(std::ostream& out, const std::vector<LearntKernels>& kernels) {
  TextTable table({{"kernels", Align::left}, {"inherited"}, {"learnt"}, {"samples"}, {"measured"}, {"predicted"}});
  for (const LearntKernels& row : kernels)
    table.add_row({row.what, number_text(row.inherited.front()), number_text(row.values.front()),
                   fmt::format("{}", row.samples), time_text(row.measured_s), time_text(row.predicted_s)});
  table.write(out);
}

int run_learn(const LearnOptions& options) {
  check_writable(options.out);
  check_writable(options.kernels);
  if (!options.kernels.empty() && options.kernels == options.out)
    throw sim::UserError("--kernels: got the file of --out, expected another");
  const sim::Settings document = scenarios::read_scenario(options.scenario, options.sets);
  scenarios::load_scenario(document);
  std::vector<Trace> measured;
  std::vector<Decomposition> parts;
  for (const std::string& file : options.files) {
    for (Trace& trace : read_trace(file)) {
      parts.push_back(decompose(trace));
      measured.push_back(std::move(trace));
    }
  }
  const InterruptGuard guard;
  Learnt learnt;
  std::vector<LearntKernels> kernels;
  std::vector<std::string> names;
  for (const std::string& file : options.files) names.push_back(std::filesystem::path(file).filename().string());
  try {
    learnt = learn(document, measured, options.jobs > 0 ? options.jobs : default_jobs());
    // Behind the software: what is missing of fusions must not pass for slow kernels.
    if (!options.kernels.empty()) {
      kernels = learn_kernels(with_software(document, learnt), measured);
      write_output(options.kernels, [&](std::ostream& out) { out << device_text(kernels, document, names); });
    }
  } catch (const LearningInterrupted&) {
    std::cerr << "Interrupted: nothing was learnt.\n";
    return kInterrupted;
  }
  if (learnt.misfit_after > kForeign && !silenced()) {
    std::cerr << wrapped(
        fmt::format("The traces still differ from the prediction by {:.0f} % in the mean: they may not "
                    "be of this scenario's job. `orrery diff` shows where.",
                    100 * learnt.misfit_after),
        "", "");
  }
  const std::string text = software_text(learnt, document, options.name, names);
  if (options.out.empty() || options.out == "-") {
    std::cout << text;
    return kDone;
  }
  write_output(options.out, [&](std::ostream& out) { out << text; });
  std::cout << naming_text(mean_of(parts));
  write_numbers(std::cout, learnt);
  if (!kernels.empty()) write_kernels(std::cout, kernels);
  return kDone;
}

}  // namespace

Action declare_learn(CommandOptions app) {
  const auto options = std::make_shared<LearnOptions>();
  app.add_option(
         "traces", options->files,
         "traces of PyTorch's profiler (.json, .json.gz), exports of Nsight Systems (.sqlite) or this program's "
         "own, a rank each")
      .required()
      .type_name("TRACE...");
  app.add_option("--scenario", options->scenario, "the scenario that they were taken of (YAML)")
      .required()
      .type_name("SCENARIO");
  app.add_option("--out", options->out, "write the generation to FILE; without it, to standard output")
      .type_name("SOFTWARE.yaml");
  app.add_option("--kernels", options->kernels,
                 "write the device to FILE as well: the scenario's, with the rates that these traces show")
      .type_name("DEVICE.yaml");
  app.add_option("--name", options->name, "name of the generation (default: learnt)").type_name("NAME");
  app.add_option("--jobs", options->jobs, "simulations at a time (default: one per core)").check(Range(1, 1024));
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  return [options] { return run_learn(*options); };
}

}  // namespace orrery::tools
