// Measuring: find a GPU module, plan, measure case by case into the journal, fit, write the profile. The module is the
// only code that knows of CUDA or HIP, and is loaded here and nowhere else.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "calibration/device/serving_model.h"
#include "calibration/measure/fit_profile.h"
#include "calibration/measure/gpu_module.h"
#include "calibration/measure/journal.h"
#include "calibration/measure/measurement_plan.h"
#include "calibration/measure/scan_cases.h"
#include "scenarios/load.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/cluster.h"
#include "tools/commands/calibrate.h"
#include "tools/commands/commands.h"
#include "tools/parallel.h"
#include "tools/report/output.h"
#include "tools/report/text.h"
#include "topology/cluster.h"
#include "workloads/model/products.h"

namespace orrery::tools {

namespace {

namespace fs = std::filesystem;
using calibration::Case;
using calibration::GpuFacts;
using calibration::GpuModule;
using calibration::GpuStatus;
using calibration::Measurement;
using calibration::PlannedCase;

std::vector<std::string> modules_beside_program() {
  std::error_code failed;
  const fs::path folder = fs::read_symlink("/proc/self/exe", failed).parent_path();
  std::vector<std::string> found;
  for (const fs::path& place : {folder, folder.parent_path() / "lib/orrery"}) {  // built, or installed
    for (const char* name : {"liborrery_cuda.so", "liborrery_hip.so"}) {
      if (fs::exists(place / name, failed)) found.push_back((place / name).string());
    }
  }
  return found;
}

/// The first module that finds a GPU.
std::unique_ptr<GpuModule> load_module(const std::string& named) {
  const std::vector<std::string> paths = named.empty() ? modules_beside_program() : std::vector<std::string>{named};
  if (paths.empty()) {
    throw sim::UserError(
        "orrery: calibrate: there is no GPU module (liborrery_cuda.so, liborrery_hip.so) beside the program, would be "
        "right: tools/bootstrap calibrate with nvcc or hipcc installed; calibrate --check PROFILE SAMPLES.csv needs "
        "none");
  }
  std::string problems;
  for (const std::string& path : paths) {
    std::string problem;
    try {
      auto module = std::make_unique<GpuModule>(path);
      if (module->devices() > 0) return module;
      problem = fmt::format("{}: {}", fs::path(path).filename().string(), module->message());
    } catch (const sim::UserError& error) {
      if (!named.empty()) throw;
      problem = error.what();
    }
    problems += (problems.empty() ? "" : "; ") + problem;
  }
  throw sim::UserError("orrery: calibrate: no GPU can be measured here: " + problems);
}

/// Words in lower case, as in "nvidia", "a100", "sxm4", "80gb".
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

/// Chips whose drivers may name them "AMD Radeon Graphics", by what they call themselves to a compiler.
const std::map<std::string, std::vector<std::string>> kUnnamed{
    {"gfx90a", {"mi250x"}}, {"gfx942", {"mi300x", "mi325x"}}, {"gfx950", {"mi350x", "mi355x"}}};

/// How far the shipped profile of a chip is from a device: variants differ in their slots, processors, memory, power
/// and GPUs of a node.
double distance(const GpuFacts& f, const std::vector<std::string>& words, const std::string& name,
                const calibration::BaseProfile& base) {
  const auto has = [](const std::vector<std::string>& list, const char* word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  };
  const std::vector<std::string> own = words_of(name);
  double sum = 0;
  for (const char* slot : {"pcie", "nvl", "sxm"}) {
    const bool named = std::any_of(words.begin(), words.end(), [&](const auto& w) { return w.starts_with(slot); });
    if (named != has(own, slot)) sum += std::string_view(slot) == "sxm" ? 0.2 : 1;
  }
  const auto apart = [](double a, double b) { return a > 0 && b > 0 ? std::abs(std::log(a / b)) : 0.0; };
  sum += 4 * apart(static_cast<double>(f.processors), static_cast<double>(base.device.processors()));
  sum += 2 * apart(f.memory.bytes, static_cast<double>(base.device.memory().value()));
  sum += apart(f.power_limit_w, base.device.power().limit);
  sum += apart(f.links.bandwidth, base.node.rate);
  if (f.gpus > 2) sum += 0.1 * apart(f.gpus, static_cast<double>(base.node.gpus));
  return sum + 1e-3 * static_cast<double>(own.size());  // the plainest of equals
}

/// Kernels of engines that ship for a chip.
std::set<std::tuple<calibration::Engine, std::size_t, std::size_t>> served_kernels(const std::string& name) {
  std::set<std::tuple<calibration::Engine, std::size_t, std::size_t>> out;
  const std::vector<std::string> names = scenarios::shipped("serving");
  if (std::find(names.begin(), names.end(), name) == names.end()) return out;
  const sim::Settings document = document_of("serving", name);
  const auto& families = calibration::serving_families();
  for (std::size_t e = 0; e < calibration::kEngines; ++e) {
    const auto engine = static_cast<calibration::Engine>(e);
    for (std::size_t f = 0; f < families.size(); ++f)
      for (std::size_t v = 0; v < families[f]->variants.size(); ++v)
        if (document.find_path(fmt::format("engines.{}.{}.{}", name_of(engine), families[f]->name,
                                           families[f]->variants[v])) != nullptr)
          out.insert({engine, f, v});
  }
  return out;
}

calibration::BaseProfile base_of(const std::string& name) {
  const sim::Settings document = document_of("devices", name);
  const topology::NodeSpec node = topology::load_node_spec(document.at("node"));
  calibration::BaseProfile base{name, calibration::DeviceProfile::load(document), {}, {}};
  base.node.gpus = node.gpus;
  base.node.efficiency = node.efficiency;
  base.node.switched = node.kind == topology::NodeSpec::Kind::nvswitch;
  base.node.mesh = node.kind == topology::NodeSpec::Kind::mesh;
  if (!base.node.mesh) base.node.rate = node.rate.value();
  for (const topology::NodeSpec::MeshLink& link : node.mesh)
    if (base.node.mesh && link.a == 0) base.node.rate += link.rate.value();
  return base;
}

/// The shipped profile of the same chip: by the first word of its name among those of the device's, or by architecture
/// where the device has no name of its own; of several, the nearest.
std::optional<calibration::BaseProfile> shipped_profile(const GpuFacts& facts) {
  constexpr double kOtherChip = 0.5;  // of one that goes by no name: other processors, another memory
  const std::vector<std::string> words = words_of(facts.name);
  const auto unnamed = kUnnamed.find(facts.architecture);
  std::optional<calibration::BaseProfile> best;
  double least = 1e300;
  for (const auto& entry : fs::directory_iterator(scenarios::data_directory() + "/calibration/profiles")) {
    const std::string name = entry.path().stem().string(), chip = words_of(name).front();
    const bool named = std::find(words.begin(), words.end(), chip) != words.end();
    const bool alike = unnamed != kUnnamed.end() &&
                       std::find(unnamed->second.begin(), unnamed->second.end(), chip) != unnamed->second.end();
    if (!named && !alike) continue;
    calibration::BaseProfile base = base_of(name);
    const double far = distance(facts, words, name, base) + (named ? 0 : 0.01);
    if ((!named && far > kOtherChip) || far > least || (far == least && best && best->name < name)) continue;
    least = far;
    best = std::move(base);
  }
  if (best) best->served = served_kernels(best->name);
  return best;
}

/// What is drawn on a terminal while cases run; nothing elsewhere. Time left: the estimates of what is left, scaled by
/// how the finished cases kept to theirs.
class PlanProgress {
 public:
  explicit PlanProgress(const std::vector<PlannedCase>& plan)
      : cases_(plan.size()), shown_(!silenced() && ::isatty(STDERR_FILENO) == 1), begin_(Clock::now()) {
    for (const PlannedCase& p : plan) left_ += p.estimate;
  }
  ~PlanProgress() { clear(); }
  PlanProgress(const PlanProgress&) = delete;
  PlanProgress& operator=(const PlanProgress&) = delete;

  void begins(const PlannedCase& p) const {
    if (!shown_) return;
    const double spent = std::chrono::duration<double>(Clock::now() - begin_).count();
    // Few finished cases say little: the estimate counts as ten seconds of experience.
    const double pace = (spent + 10) / (planned_ + 10);
    const double share = planned_ / std::max(planned_ + left_, 1e-9), seconds = pace * left_;
    const std::string left = seconds < 90 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
    fmt::print(stderr, "\r\033[K{} {}/{}, about {} left: {}", bar(share, 20), done_, cases_, left,
               shortened(calibration::describe(p.what), 50));
    std::fflush(stderr);
  }
  void ended(const PlannedCase& p) {
    ++done_;
    planned_ += p.estimate;
    left_ -= p.estimate;
  }
  void skipped(const PlannedCase& p) {
    --cases_;
    left_ -= p.estimate;
  }
  void clear() const {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::size_t cases_, done_ = 0;
  bool shown_;
  Clock::time_point begin_;
  double planned_ = 0, left_ = 0;
};

/// How cases ended, by class.
struct Tally {
  struct OfClass {
    std::size_t measured = 0;
    std::map<std::string, std::size_t> problems;  // by reason
  };
  std::map<std::string, OfClass> classes;
  std::string libraries;                       // that Python found
  std::map<std::string, std::size_t> limited;  // by what held the clock back
  std::size_t left = 0;                        // for which the time did not last
  bool lost = false, interrupted = false;
  std::string lost_message;

  std::vector<std::string> problems() const {
    std::vector<std::string> lines;
    for (const auto& [kind, of] : classes) {
      for (const auto& [reason, count] : of.problems)
        lines.push_back(fmt::format("not measured: {} {}: {}", count, kind, reason));
    }
    return lines;
  }
};

std::string reason_of(GpuStatus status, const std::string& message) {
  switch (status) {
    case GpuStatus::unavailable:
      return "not available: " + message;
    case GpuStatus::out_of_memory:
      return "out of memory";
    case GpuStatus::wrong:
      return "wrong result: " + message;
    default:
      return message;
  }
}

Tally measure_all(GpuModule& module, const std::vector<PlannedCase>& plan, calibration::Journal& journal,
                  double minutes) {
  const InterruptGuard guard;
  const auto begin = std::chrono::steady_clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  Tally tally;
  PlanProgress progress(plan);
  for (const PlannedCase& p : plan) {
    Tally::OfClass& of = tally.classes[std::string(name_of(p.what.kind))];
    if (journal.has(p.what)) {
      ++of.measured;
      progress.skipped(p);
      continue;
    }
    if (InterruptGuard::interrupted()) {
      tally.interrupted = true;
      break;
    }
    if (minutes > 0 && spent() + p.estimate > 60 * minutes) {
      ++tally.left;
      progress.skipped(p);
      continue;
    }
    progress.begins(p);
    Measurement measured;
    const GpuStatus status = module.measure(p.what, p.budget, true, measured);
    if (status == GpuStatus::done) {
      journal.append(measured);
      ++of.measured;
      if (measured.limits != 0) ++tally.limited[calibration::limits_text(measured.limits)];
    } else if (status == GpuStatus::lost || status == GpuStatus::no_device) {
      tally.lost = true;
      tally.lost_message = module.message();
      break;
    } else {
      ++of.problems[reason_of(status, module.message())];
    }
    progress.ended(p);
  }
  return tally;
}

/// Scans and sparse attention, as Python runs them, in what is left of the time.
void measure_scans(const MeasureOptions& options, calibration::Journal& journal, Tally& tally, double spent) {
  constexpr double kQuickSeconds = 90, kSeconds = 420;
  const auto of = [&](const calibration::ScanCase& one) -> Tally::OfClass& {
    return tally.classes[std::string(calibration::class_of(one))];
  };
  std::vector<calibration::ScanCase> cases;
  for (const calibration::ScanCase& one : calibration::scan_cases(options.quick)) {
    if (journal.has(calibration::key_of(one)))
      ++of(one).measured;
    else
      cases.push_back(one);
  }
  double budget = options.quick ? kQuickSeconds : kSeconds;
  if (options.minutes > 0) budget = std::clamp(60 * options.minutes - spent, 0.0, budget);
  const InterruptGuard guard;
  const calibration::ScanRun run = calibration::run_scans(
      options.device, cases, budget, [&](const calibration::ScanCase& what, const calibration::ScanTime& time) {
        journal.append(calibration::row_of(what, time));
        ++of(what).measured;
        return !InterruptGuard::interrupted();
      });
  for (const auto& [kind, reasons] : run.problems)
    for (const auto& [reason, count] : reasons) tally.classes[kind].problems[reason] += count;
  tally.libraries = run.libraries;
  tally.interrupted = tally.interrupted || InterruptGuard::interrupted();
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

/// Samples of different ones must not be mixed.
std::string identity_of(const GpuFacts& f) {
  return fmt::format("{}, {}, driver {}, runtime {}; {}", f.name, f.architecture, f.driver, f.runtime, f.libraries);
}

std::vector<std::string> notes_of(const GpuFacts& f) {
  std::vector<std::string> notes{
      fmt::format("measured by orrery calibrate on {}, one of {} GPUs", today(), f.gpus),
      fmt::format("clock at most {:.0f} MHz, power limit {:.0f} W", f.clock_hz * 1e-6, f.power_limit_w)};
  if (f.missing[0] != 0) notes.push_back(fmt::format("missing: {}", f.missing));
  if (f.state[0] != 0) notes.push_back(fmt::format("while it was measured: {}", f.state));
  return notes;
}

calibration::DeviceFacts device_facts(const GpuFacts& f, const calibration::BaseProfile* base) {
  calibration::DeviceFacts facts;
  facts.description = identity_of(f);
  for (const std::string& word : words_of(f.name)) facts.name += (facts.name.empty() ? "" : "-") + word;
  facts.architecture = f.architecture;
  facts.processors = f.processors;
  facts.memory_bytes = f.memory.bytes;
  facts.boost_hz = f.clock_hz;
  facts.power_limit = f.power_limit_w;
  facts.gpus = f.gpus;
  facts.links = f.links;
  facts.notes = notes_of(f);
  using calibration::CaseType;
  using calibration::DataType;
  const std::map<DataType, CaseType> types{{DataType::fp32, CaseType::float32},
                                           {DataType::bf16, CaseType::bfloat16},
                                           {DataType::fp16, CaseType::float16},
                                           {DataType::fp8, CaseType::fp8_e4m3},
                                           {DataType::fp8_blockwise, CaseType::fp8_block},
                                           {DataType::fp8_rowwise, CaseType::fp8_row},
                                           {DataType::mxfp8, CaseType::mxfp8},
                                           {DataType::nvfp4, CaseType::nvfp4}};
  for (const auto& [type, measured] : types) {
    const double peak = f.peak[static_cast<int>(measured)];
    if (peak > 0) facts.peak_flops[type] = base != nullptr ? base->device.peak(type).value() : peak;
  }
  facts.memory_bandwidth = base != nullptr ? base->device.memory_bandwidth().value() : f.memory.bandwidth;
  return facts;
}

void describe_device(const GpuFacts& f, int number) {
  fmt::print("GPU {}: {} ({}), {} processors, {}, driver {}, runtime {}\n", number, f.name, f.architecture,
             f.processors, bytes_text(f.memory.bytes), f.driver, f.runtime);
  fmt::print("{}", wrapped(fmt::format("found: {}", f.libraries), "  ", "    "));
  if (f.missing[0] != 0) fmt::print("{}", wrapped(fmt::format("missing: {}", f.missing), "  ", "    "));
  if (f.state[0] != 0) fmt::print("{}", wrapped(fmt::format("this bends what is measured: {}", f.state), "  ", "    "));
  std::fflush(stdout);
}

void write_tally(std::ostream& out, const Tally& tally) {
  TextTable table({{"class", Align::left}, {"measured"}, {"not measured"}});
  for (const auto& [kind, of] : tally.classes) {
    std::size_t problems = 0;
    for (const auto& [reason, count] : of.problems) problems += count;
    table.add_row({kind, fmt::format("{}", of.measured), fmt::format("{}", problems)});
  }
  table.write(out);
  if (!tally.libraries.empty()) out << wrapped("Python found: " + tally.libraries, "  ", "    ");
  for (const std::string& line : tally.problems()) out << wrapped(line, "  ", "    ");
  for (const auto& [what, count] : tally.limited)
    out << fmt::format("  below the highest clock: {} cases, limited by {}\n", count, what);
}

std::string samples_file_of(const std::string& profile) { return fs::path(profile).replace_extension(".csv").string(); }

}  // namespace

std::vector<calibration::ModelKernels> shipped_models() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(scenarios::data_directory() + "/scenarios/models")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::vector<workloads::Model> models;
  for (const std::string& file : files) {
    if (scenarios::read_yaml(file).get_text("kind", "gpt") == "dlrm") continue;  // its look-ups are streams of bytes
    workloads::Job job;
    scenarios::load_model(scenarios::parse_yaml("model: " + fs::path(file).stem().string(), file), job);
    models.push_back(job.model);
  }
  std::vector<calibration::ModelKernels> kernels;
  for (const std::int64_t tensor : {1, 8, 4, 2}) {
    for (const workloads::Model& model : models) {
      if (workloads::can_be_cut(model, tensor)) kernels.push_back(workloads::measured_kernels(model, tensor));
    }
  }
  return kernels;
}

std::string profile_text(const GpuFacts& facts, const std::string& samples, const std::vector<std::string>& problems) {
  const std::optional<calibration::BaseProfile> base = shipped_profile(facts);
  const calibration::BaseProfile* const same_chip = base ? &*base : nullptr;
  calibration::DeviceFacts told = device_facts(facts, same_chip);
  told.notes.insert(told.notes.end(), problems.begin(), problems.end());
  return calibration::fit_profile(told, calibration::read_samples(samples), same_chip);
}

int measure_device(const MeasureOptions& options) {
  if (options.out.empty()) {
    throw sim::UserError(
        "orrery: calibrate: --out: nothing was given, expected --out PROFILE.yaml to measure the local GPU, or "
        "--check PROFILE SAMPLES.csv to compare a profile with measurements");
  }
  if (fs::path(options.out).extension() != ".yaml")
    throw sim::UserError(
        fmt::format("orrery: calibrate: --out: got '{}', expected a name that ends in .yaml", options.out));
  check_writable(options.out);
  const std::unique_ptr<GpuModule> module = load_module(options.module);
  const GpuFacts facts = module->open(options.device);
  const std::string samples = samples_file_of(options.out);
  calibration::Journal journal(samples, identity_of(facts), notes_of(facts), options.resume);
  describe_device(facts, options.device);
  const std::vector<PlannedCase> plan = calibration::measurement_plan(facts, shipped_models(), options.quick);
  const auto begin = std::chrono::steady_clock::now();
  Tally tally = measure_all(*module, plan, journal, options.minutes);
  if (!tally.lost && !tally.interrupted)
    measure_scans(options, journal, tally,
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  write_tally(std::cout, tally);
  const std::string kept = fmt::format("{} measurements are kept in {}, --resume continues", journal.rows(), samples);
  if (tally.lost)
    throw sim::UserError(fmt::format("orrery: calibrate: the GPU no longer answers: {}; {}", tally.lost_message, kept));
  if (tally.left > 0) fmt::print("{} cases left for another {:.3g} minutes: {}\n", tally.left, options.minutes, kept);
  if (tally.interrupted) {
    std::cerr << "stopped; " << kept << '\n';
    return kInterrupted;
  }
  const std::string profile = profile_text(facts, samples, tally.problems());
  write_output(options.out, [&](std::ostream& out) { out << profile; });
  fmt::print("profile in {}, its {} samples in {}\n{}", options.out, journal.rows(), samples,
             sources_text(options.out));
  for (const std::string& line : far_off(options.out, samples)) fmt::print("{}", wrapped(line, "", "  "));
  return kDone;
}

int verify_device(const MeasureOptions& options) {
  const std::unique_ptr<GpuModule> module = load_module(options.module);
  const GpuFacts facts = module->open(options.device);
  describe_device(facts, options.device);
  const std::vector<PlannedCase> plan = calibration::verification_plan(facts);
  const InterruptGuard guard;
  TextTable table({{"case", Align::left}, {"relative error"}, {"", Align::left}});
  std::size_t wrong = 0, checked = 0;
  std::string lost;
  {
    PlanProgress progress(plan);
    for (const PlannedCase& p : plan) {
      if (InterruptGuard::interrupted() || !lost.empty()) break;
      progress.begins(p);
      Measurement measured;
      const GpuStatus status = module->measure(p.what, p.budget, false, measured);
      progress.ended(p);
      const std::string error = measured.error >= 0 ? fmt::format("{:.2e}", measured.error) : "-";
      const bool fine = status == GpuStatus::done || status == GpuStatus::unavailable;
      if (status == GpuStatus::lost || status == GpuStatus::no_device) lost = module->message();
      wrong += fine ? 0 : 1;
      checked += status == GpuStatus::done ? 1 : 0;
      table.add_row({calibration::describe(p.what), status == GpuStatus::done ? error : "",
                     status == GpuStatus::done ? "" : shortened(reason_of(status, module->message()), 60)});
    }
  }
  table.write(std::cout);
  fmt::print("{} of {} cases checked, {} wrong or failed\n", checked, plan.size(), wrong);
  if (!lost.empty()) throw sim::UserError("orrery: calibrate: the GPU no longer answers: " + lost);
  if (InterruptGuard::interrupted()) return kInterrupted;
  return wrong == 0 ? kDone : kBug;
}

}  // namespace orrery::tools
