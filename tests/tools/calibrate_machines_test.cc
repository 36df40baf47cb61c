// One go on machines that differ in what they tell: `calibrate --out mine.yaml`, then `run` with mine.yaml on eight
// GPUs. The machine's times are those of a profile that is no shipped one (slower matrix units, memory and links than
// the data sheet), so that the step on that profile is the truth that the calibrated one has to meet.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/library.h"
#include "scenarios/origin.h"
#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/fake_machine.h"
#include "tests/tools/program.h"
#include "tools/calibrate.h"
#include "tools/cluster.h"

using namespace orrery;
using calibration::GpuFacts;
using tests::FakeMachine;
using tests::Folder;
using tests::Outcome;

namespace {

/// A chip of these tests: a shipped profile with rates of its own.
struct Chip {
  std::string base, rates;
};
const Chip kH100{"h100-sxm-80gb",
                 "peak: {bf16: 900 TFLOP/s, fp16: 900 TFLOP/s, fp8: 1800 TFLOP/s, fp32: 60 TFLOP/s}\n"
                 "memory_bandwidth: 3.1 TB/s\n"};
const Chip kMi300x{"mi300x",
                   "peak: {bf16: 1200 TFLOP/s, fp16: 1200 TFLOP/s, fp8: 2400 TFLOP/s, fp32: 150 TFLOP/s}\n"
                   "memory_bandwidth: 4.9 TB/s\n"};
const Chip kB200{"b200-sxm-180gb",
                 "peak: {bf16: 2100 TFLOP/s, fp16: 2100 TFLOP/s, fp8: 4200 TFLOP/s}\nmemory_bandwidth: 7.2 TB/s\n"};

constexpr const char* kEight =
    "cluster: {device: DEVICE, gpus: 8, gpus_per_node: 8}\nmodel: llama3-8b\n"
    "parallelism: {tensor: 2, pipeline: 1, data: 4, sharding: optimizer}\nbatch: {global: 32, micro: 1}\n"
    "precision: bf16\n";
constexpr const char* kOne =
    "cluster: {device: DEVICE, gpus: 1, gpus_per_node: 1}\nmodel: llama3.2-1b\n"
    "parallelism: {tensor: 1, pipeline: 1, data: 1}\nbatch: {global: 8, micro: 1}\nprecision: bf16\n";

double step_of(const Folder& folder, const std::string& device, const std::string& scenario) {
  std::string text = scenario;
  text.replace(text.find("DEVICE"), 6, "h100-sxm-80gb");
  const Outcome run =
      tests::orrery({"run", folder.write("scenario.yaml", text), "--set", "cluster.device=" + device, "--json", "-"});
  INFO(run.err);
  REQUIRE(run.status == 0);
  return nlohmann::json::parse(run.out)["iteration_time_s"];
}

struct Result {
  double error_pct = 0;
  std::string profile;
};

Result one_go(const Chip& chip, const std::string& scenario, bool quick,
              const std::function<void(FakeMachine&)>& differs) {
  const Folder folder;
  const std::string truth_file = folder.write("truth.yaml", fmt::format("inherits: {}\n{}", chip.base, chip.rates));
  FakeMachine machine{calibration::DeviceProfile::load(tools::document_of("devices", truth_file)), {}};
  const auto shipped = calibration::DeviceProfile::load(tools::document_of("devices", chip.base));
  machine.facts = tests::facts_of(shipped, "", "", 8);
  differs(machine);
  const auto plan = calibration::measurement_plan(
      machine.facts, quick ? std::vector<calibration::ModelKernels>{} : tools::shipped_models(), quick);
  tests::record(folder.file("machine"), machine, plan);
  ::setenv("ORRERY_FAKE_RECORDING", folder.file("machine").c_str(), 1);
  std::vector<std::string> arguments{"calibrate", "--module", tests::kFakeGpu, "--out", folder.file("mine.yaml")};
  if (quick) arguments.push_back("--quick");
  const Outcome outcome = tests::orrery(arguments);
  ::unsetenv("ORRERY_FAKE_RECORDING");
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  Result result;
  result.profile = tests::read_file(folder.file("mine.yaml"));
  INFO(result.profile.substr(0, 3000));
  const double truth = step_of(folder, truth_file, scenario);
  result.error_pct = 100 * (step_of(folder, folder.file("mine.yaml"), scenario) / truth - 1);
  return result;
}

void named(FakeMachine& m, const char* name, const char* architecture, std::int32_t gpus) {
  std::snprintf(m.facts.name, sizeof m.facts.name, "%s", name);
  std::snprintf(m.facts.architecture, sizeof m.facts.architecture, "%s", architecture);
  m.facts.gpus = gpus;
}

/// All six, with a few measured shapes or with all of a run.
void six_machines(bool quick) {
  struct Machine {
    const char* what;
    Chip chip;
    const char* scenario;
    std::function<void(FakeMachine&)> differs;
  };
  const std::vector<Machine> machines{
      {"eight H100 with NVLink", kH100, kEight,
       [](FakeMachine& m) {
         named(m, "NVIDIA H100 80GB HBM3", "sm_90", 8);
         m.facts.links.bandwidth = 450e9;
         m.facts.links.count = 18;
       }},
      {"one H100", kH100, kEight, [](FakeMachine& m) { named(m, "NVIDIA H100 80GB HBM3", "sm_90", 1); }},
      {"a virtual machine that hides NVLink", kH100, kEight,
       [](FakeMachine& m) {
         named(m, "NVIDIA H100 80GB HBM3", "sm_90", 8);
         m.facts.links = {};
       }},
      {"eight MI300X", kMi300x, kEight, [](FakeMachine& m) { named(m, "AMD Instinct MI300X OAM", "gfx942", 8); }},
      {"one AMD Radeon Graphics", kMi300x, kOne,
       [](FakeMachine& m) {
         named(m, "AMD Radeon Graphics", "gfx942", 1);
         m.facts.processors = 228;  // no shipped chip
         m.facts.memory.bytes = m.facts.memory.free_bytes = 128e9;
         m.facts.links = {};
       }},
      {"a B200", kB200, kEight, [](FakeMachine& m) { named(m, "NVIDIA B200", "sm_100", 8); }},
  };
  for (const Machine& machine : machines) {
    const Result result = one_go(machine.chip, machine.scenario, quick, machine.differs);
    UNSCOPED_INFO(machine.what << ": " << result.error_pct << " %");
    WARN(machine.what << ": " << result.error_pct << " %");
    CHECK(std::abs(result.error_pct) < 5);
  }
}

}  // namespace

TEST_CASE("calibrate and run in one go, on machines that tell more and less") { six_machines(true); }
TEST_CASE("calibrate and run in one go, with all that a run measures", "[full-size][.]") { six_machines(false); }
