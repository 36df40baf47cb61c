// `orrery calibrate --learn`: what cannot be run here comes from traces of the user's own job. The classes of kernels
// that the scenario's device was measured for stay as they are; the others take the rates at which the job ran them.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/commands/calibrate.h"
#include "tools/commands/commands.h"
#include "tools/learn/learn_kernels.h"
#include "tools/parallel.h"
#include "tools/report/output.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

/// Sections of a profile whose numbers were measured, by the first word of the keys that a class of kernels is told by;
/// of mixers' kernels each says so for itself.
bool was_measured(const sim::Settings& device, const std::string& key) {
  const std::string first = key.substr(0, key.find('.'));
  const bool attention = key == "sustained.attention" || first == "attention_kernels";
  const bool mixers = first == "scans" || first == "sparse";
  const std::string section = first == "streaming" || mixers ? first : attention ? "attention" : "gemm.bf16";
  const sim::Settings* provenance = mixers ? device.find_path(key.substr(0, key.rfind('.')) + ".provenance") : nullptr;
  if (provenance == nullptr) provenance = device.find_path(section + ".provenance");
  return provenance != nullptr && provenance->text().starts_with("measured here");
}

}  // namespace

int learn_device(const LearnDeviceOptions& options) {
  if (options.scenario.empty())
    throw sim::UserError(
        "orrery: calibrate: --learn: got no scenario, expected --scenario SCENARIO, of which the traces were taken");
  if (options.out.empty())
    throw sim::UserError("orrery: calibrate: --learn: got no file to write, expected --out PROFILE.yaml");
  check_writable(options.out);
  const sim::Settings document = scenarios::read_scenario(options.scenario, options.sets);
  scenarios::load_scenario(document);
  std::vector<Trace> traces;
  std::vector<std::string> names;
  for (const std::string& file : options.traces) {
    for (Trace& trace : read_trace(file)) traces.push_back(std::move(trace));
    names.push_back(std::filesystem::path(file).filename().string());
  }
  const sim::Settings* reference = document.at("cluster").find("device");
  SIM_CHECK(reference != nullptr, "a scenario without a device was loaded");
  const sim::Settings device = scenarios::resolve(scenarios::shelf_of("devices"), *reference).document;
  const InterruptGuard guard;
  std::vector<LearntKernels> kernels;
  try {
    // Behind the software: what is missing of fusions must not pass for slow kernels.
    const Learnt software = learn(document, traces, default_jobs());
    kernels = learn_kernels(with_software(document, software), traces);
  } catch (const LearningInterrupted&) {
    std::cerr << "Interrupted: nothing was learnt.\n";
    return kInterrupted;
  }
  std::string kept;
  std::erase_if(kernels, [&](const LearntKernels& row) {
    const bool measured = was_measured(device, row.keys.front());
    if (measured) kept += fmt::format("{}{}", kept.empty() ? "" : ", ", row.what);
    return measured;
  });
  write_output(options.out, [&](std::ostream& out) { out << device_text(kernels, document, names); });
  TextTable table({{"kernels", Align::left}, {"samples"}, {"measured"}, {"predicted"}});
  for (const LearntKernels& row : kernels)
    table.add_row({row.what, fmt::format("{}", row.samples), time_text(row.measured_s), time_text(row.predicted_s)});
  table.write(std::cout);
  if (!kept.empty()) std::cout << wrapped(fmt::format("as measured before: {}", kept), "  ", "    ");
  fmt::print("profile in {}\n{}", options.out, sources_text(options.out));
  return kDone;
}

}  // namespace orrery::tools
