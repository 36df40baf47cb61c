// One go on machines that differ in what they tell: `calibrate --out mine.yaml`, then `run` with mine.yaml on eight
// GPUs. The machine's times are those of a profile that is no shipped one (slower matrix units, memory and links than
// the data sheet), so that the step on that profile is the truth that the calibrated one has to meet.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "calibration/device/serving_families.h"
#include "calibration/device/serving_model.h"
#include "calibration/measure/samples.h"
#include "scenarios/library.h"
#include "scenarios/origin.h"
#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/fake_machine.h"
#include "tests/tools/program.h"
#include "tools/cluster.h"
#include "tools/commands/calibrate.h"

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

/// With a few measured shapes or with all of a run; all six machines or those that are quick to fit.
void six_machines(bool quick, bool every) {
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
      {"a B200", kB200, kEight, [](FakeMachine& m) { named(m, "NVIDIA B200", "sm_100", 1); }},
  };
  for (const Machine& machine : machines) {
    // Collectives of many GPUs take their time to fit.
    const std::string_view what = machine.what;
    if (!every && (what == "eight H100 with NVLink" || what == "eight MI300X" || what == "a B200")) continue;
    const auto differs = [&](FakeMachine& m) {
      machine.differs(m);
      if (!every) m.facts.gpus = std::min(m.facts.gpus, 2);
    };
    const Result result = one_go(machine.chip, machine.scenario, quick, differs);
    INFO(machine.what << ": " << result.error_pct << " %");
    CHECK(std::abs(result.error_pct) < 5);
  }
}

}  // namespace

TEST_CASE("calibrate and run in one go, on machines that tell more and less") { six_machines(true, false); }
TEST_CASE("calibrate and run in one go, on all six machines", "[full-size]") { six_machines(true, true); }
TEST_CASE("calibrate and run in one go, with all that a run measures", "[full-size][.]") { six_machines(false, true); }

namespace {

/// A row of the samples file for every case of a plan.
std::string table_of(const FakeMachine& machine, const std::vector<calibration::PlannedCase>& plan) {
  std::string text = std::string(calibration::kMeasuredColumns) + "\n";
  for (const calibration::PlannedCase& p : plan) {
    if (p.what.kind == calibration::CaseClass::power && !machine.tells_power) continue;
    const calibration::GpuTiming t = tests::timing_of(machine, p.what);
    text += calibration::row_of({p.what, t.seconds[0], 0.5, t.repeats, t.error, t.sm_mhz, t.power_w}) + "\n";
  }
  return text;
}

/// Relative errors of a profile on what a machine answers, by class of cases.
std::map<calibration::CaseClass, std::vector<double>> errors_of(const calibration::DeviceProfile& profile,
                                                                const FakeMachine& machine,
                                                                const std::vector<calibration::PlannedCase>& plan) {
  using calibration::CaseClass;
  const FakeMachine predicted{profile, machine.facts};
  std::map<CaseClass, std::vector<double>> out;
  for (const calibration::PlannedCase& p : plan) {
    const CaseClass kind = p.what.kind;
    const std::string_view name = p.what.name;  // a profile has no number of products in one launch
    if (tests::fake::is_served(p.what) || name == "all_reduce_graph" || name == "grouped") continue;
    if (kind != CaseClass::gemm && kind != CaseClass::attention && kind != CaseClass::streaming &&
        kind != CaseClass::collective && kind != CaseClass::grouped_gemm)
      continue;
    if (kind == CaseClass::streaming && tests::fake::streaming_of(p.what) == calibration::Streaming::copy &&
        std::string_view(p.what.name) != "copy")
      continue;  // profiles have no name for it
    const double truth = tests::timing_of(machine, p.what).seconds[0];
    out[kind].push_back(std::abs(tests::fake::seconds_of(predicted, p.what) / truth - 1));
  }
  return out;
}

/// Of the kernels of engines that the profile itself has, on the samples that it was fitted to; by their names.
std::map<std::string, std::vector<double>> served_errors(const calibration::DeviceProfile& profile,
                                                         const std::string& samples) {
  std::map<std::string, std::vector<double>> out;
  const sim::Settings* said = calibration::served_by_profile(profile);
  if (said == nullptr) return out;
  for (const calibration::ServedSample& s : calibration::read_samples(samples).served) {
    const calibration::ServingFamily& family = *calibration::serving_families()[s.asked.family];
    const std::string name = fmt::format("{}.{}", family.name, family.variants[s.asked.variant]);
    for (std::size_t e = 0; e < calibration::kEngines; ++e) {
      const auto engine = static_cast<calibration::Engine>(e);
      // A cast that engines time with a product is not in the sample.
      if (s.cast_bytes > 0 || said->find_path(fmt::format("engines.{}.{}", name_of(engine), name)) == nullptr) continue;
      const calibration::ServingKernels kernels(profile, engine, said);
      out[name].push_back(std::abs(kernels.model().seconds(s.asked) / s.seconds - 1));
      break;
    }
  }
  return out;
}

double share_of(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// What a driver may tell or not, drawn.
FakeMachine drawn(std::uint64_t seed, const Folder& folder) {
  const auto draw = [&seed](std::uint64_t choices) {  // SplitMix64
    std::uint64_t x = (seed += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (x ^ (x >> 31)) % choices;
  };
  struct Named {
    const char *base, *name, *architecture;
  };
  const std::vector<Named> chips{
      {"h100-sxm-80gb", "NVIDIA H100 80GB HBM3", "sm_90"}, {"a100-sxm-80gb", "NVIDIA A100-SXM4-80GB", "sm_80"},
      {"b200-sxm-180gb", "NVIDIA B200", "sm_100"},         {"mi300x", "AMD Instinct MI300X OAM", "gfx942"},
      {"mi250x-gcd", "AMD Instinct MI250X", "gfx90a"},     {"l40s-48gb", "NVIDIA L40S", "sm_89"}};
  const Named chip = chips[draw(chips.size())];
  const double slower = 0.85 + 0.01 * static_cast<double>(draw(30));
  const auto shipped = calibration::DeviceProfile::load(tools::document_of("devices", chip.base));
  const std::string truth = folder.write(
      "truth.yaml",
      fmt::format("inherits: {}\nmemory_bandwidth: {:.0f} GB/s\npeak: {{bf16: {:.0f} GFLOP/s, fp16: {:.0f} GFLOP/s}}\n",
                  chip.base, slower * shipped.memory_bandwidth().value() / 1e9,
                  slower * shipped.peak(calibration::DataType::bf16).value() / 1e9,
                  slower * shipped.peak(calibration::DataType::fp16).value() / 1e9));
  FakeMachine machine{calibration::DeviceProfile::load(tools::document_of("devices", truth)), {}};
  const bool known = draw(3) != 0;
  const std::int32_t gpus[] = {1, 2, 4, 8};
  machine.facts = tests::facts_of(shipped, known ? chip.name : "Graphics Device", known ? chip.architecture : "none",
                                  gpus[draw(4)]);
  if (draw(2) == 0) machine.facts.links.pcie = 0;
  if (draw(2) == 0) machine.facts.memory.bandwidth *= draw(2) == 0 ? 0.5 : 2;
  const std::vector<std::string> served = scenarios::shipped("serving");
  if (std::find(served.begin(), served.end(), chip.base) != served.end()) {
    const sim::Settings document = tools::document_of("serving", chip.base);
    machine.served = calibration::ServingKernels(machine.truth, calibration::Engine::trtllm, &document);
  }
  machine.tells_power = draw(3) != 0 && machine.truth.power().known();
  machine.tells_clocks = draw(2) == 0;
  if (!machine.tells_power) machine.facts.power_limit_w = 0;
  return machine;
}

/// With `alone`, most machines have one GPU: collectives of several take their time to fit.
void drawn_machines(std::uint64_t seeds, bool alone) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Folder folder;
    FakeMachine machine = drawn(seed, folder);
    if (alone && seed % 8 != 0) machine.facts.gpus = 1;
    const auto plan = calibration::measurement_plan(machine.facts, {}, true);
    const std::string text = tools::profile_text(machine.facts, folder.write("samples.csv", table_of(machine, plan)));
    INFO("seed " << seed << ": " << machine.facts.name << ", " << machine.facts.gpus << " GPUs\n"
                 << text.substr(0, 2500));
    const auto profile =
        calibration::DeviceProfile::load(tools::document_of("devices", folder.write("mine.yaml", text))).isolated();
    const bool known = text.find("\ninherits: ") != std::string::npos;
    for (const auto& [kind, errors] : errors_of(profile, machine, plan)) {
      INFO(name_of(kind) << ": " << 100 * share_of(errors, 0.5) << " / " << 100 * share_of(errors, 0.9) << " %");
      CHECK(share_of(errors, 0.5) < 0.05);
      CHECK(share_of(errors, 0.9) < 0.15);
    }
    for (const auto& [name, errors] : served_errors(profile, folder.file("samples.csv"))) {
      INFO(name << ": " << 100 * share_of(errors, 0.5) << " / " << 100 * share_of(errors, 0.9) << " %");
      CHECK(share_of(errors, 0.5) < 0.05);
      CHECK(share_of(errors, 0.9) < 0.15);
    }
    if (!known && machine.facts.gpus == 1) CHECK(text.find("nothing was measured between GPUs") != std::string::npos);
    const bool whole_power = text.find("exponent") != std::string::npos;
    if (machine.tells_power) CHECK(whole_power);  // told, or named among what was not determined
    if (!machine.tells_power) CHECK(text.find("power: ") == std::string::npos);
  }
}

}  // namespace

TEST_CASE("whatever a driver tells, the profile predicts the machine's times, or says what it could not know") {
  drawn_machines(8, true);
}
TEST_CASE("the same of machines with several GPUs", "[full-size]") { drawn_machines(32, false); }
