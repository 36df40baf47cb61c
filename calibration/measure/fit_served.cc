// Few shapes of each kernel are measured, one table for all engines: what a kernel's structure leaves out is held by
// the correction as in tables of thousands, whose knots lie as far apart as the samples do.
#include "calibration/measure/fit_served.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "calibration/measure/fit_serving.h"

namespace orrery::calibration {
namespace {

constexpr std::size_t kFewestShapes = 6;
constexpr std::size_t kDecodeFamily = 0, kPrefillFamily = 2, kProductFamily = 4;  // of serving_families()

using Kind = std::pair<std::size_t, std::size_t>;  // family, variant

/// Whether the engine runs the very kernel that was measured.
bool runs_it(Engine engine, const Kind& kind, KernelOf kernel, const std::string& architecture) {
  if (kernel == KernelOf::plain) return false;
  if (kind.first == kProductFamily) return kind.second == static_cast<std::size_t>(WeightType::bf16);
  const bool attention = kind.first == kDecodeFamily || kind.first == kPrefillFamily;
  return attention && engine != Engine::trtllm && architecture.starts_with("sm_8");
}

std::vector<ServingSample> samples_of(const Samples& samples, const Kind& kind, KernelOf kernel, double floor,
                                      double copied) {
  std::vector<ServingSample> out;
  for (const ServedSample& s : samples.served) {
    if (Kind{s.asked.family, s.asked.variant} != kind || s.kernel != kernel) continue;
    const double cast = s.cast_bytes > 0 ? floor + s.cast_bytes / copied : 0;
    out.push_back({Engine::trtllm, s.asked, s.seconds + cast, s.shape});
  }
  return out;
}

std::string title_of(const Kind& kind) {
  const ServingFamily& family = *serving_families()[kind.first];
  return fmt::format("{} {}", family.name, family.variants[kind.second]);
}

struct Measured {
  KernelOf kernel = KernelOf::library;
  std::string yaml;  // of the kernel, indented as it stands below an engine
};

std::map<Kind, Measured> fitted_kernels(const Samples& samples, const DeviceProfile::Model& device,
                                        const StreamingModel& streaming) {
  ServingFacts facts{static_cast<double>(device.sheet.processors), device.sheet.memory_bandwidth, device.sheet.peak};
  const double copied = streaming.efficiency[static_cast<std::size_t>(Streaming::copy)] * device.sheet.memory_bandwidth;
  std::map<Kind, Measured> out;
  for (const ServedSample& s : samples.served) {
    const Kind kind{s.asked.family, s.asked.variant};
    if (out.contains(kind)) continue;
    // A library's before one of our own.
    for (const KernelOf kernel : {KernelOf::library, KernelOf::plain}) {
      const std::vector<ServingSample> own = samples_of(samples, kind, kernel, streaming.floor, copied);
      if (own.size() < kFewestShapes) continue;
      const FittedServingKernel fitted = fit_and_judge(*serving_families()[kind.first], facts, own);
      const char* const whose = kernel == KernelOf::library ? "'measured here, a library''s kernel'"
                                                            : "'measured here, a plain kernel of orrery''s own'";
      out[kind] = {kernel, to_yaml(fitted.kernel, fitted.error, whose, 10)};
      // What is laid over a shipped kernel leaves none of its numbers behind.
      if (fitted.kernel.correction.grids.empty()) out[kind].yaml += "          correction: null\n";
      break;
    }
  }
  return out;
}

}  // namespace

double fastest_served(const Samples& samples, double from_bytes) {
  // What a roofline takes where a byte takes a second and operations nothing.
  ServingFacts bytes_alone;
  bytes_alone.peak.fill(1e300);
  double fastest = 0;
  for (const ServedSample& s : samples.served) {
    const double bytes = serving_families()[s.asked.family]->roofline(bytes_alone, s.asked.work);
    if (bytes > from_bytes) fastest = std::max(fastest, bytes / s.seconds);
  }
  return fastest;
}

std::string served_section(const DeviceFacts& facts, const Samples& samples, const DeviceProfile::Model& device,
                           const StreamingModel& streaming, const BaseProfile* base) {
  const std::map<Kind, Measured> kernels = fitted_kernels(samples, device, streaming);
  std::string out, stay;
  for (std::size_t e = 0; e < kEngines; ++e) {
    const auto engine = static_cast<Engine>(e);
    std::string own, family;
    for (const auto& [kind, measured] : kernels) {
      const bool ships = base != nullptr && base->served.contains({engine, kind.first, kind.second});
      if (ships && !runs_it(engine, kind, measured.kernel, facts.architecture)) {
        stay += fmt::format("{}{} {}", stay.empty() ? "" : ", ", calibration::name_of(engine), title_of(kind));
        continue;
      }
      const ServingFamily& f = *serving_families()[kind.first];
      if (family != f.name) own += fmt::format("      {}:\n", f.name);
      family = f.name;
      own += fmt::format("        {}:\n{}", f.variants[kind.second], measured.yaml);
    }
    if (!own.empty()) out += fmt::format("    {}:\n{}", calibration::name_of(engine), own);
  }
  if (out.empty()) return "";
  const std::string rest = base != nullptr && !base->served.empty()
                               ? fmt::format("what was not measured, and engines'' own kernels, as {}", base->name)
                               : "what was not measured is assumed";
  return fmt::format(
      "\nserving:  # of inference engines; form and structures: calibration/device/serving_families.h\n"
      "  provenance: 'measured here; {}{}'\n  engines:\n{}",
      rest, stay.empty() ? "" : ": " + stay, out);
}

}  // namespace orrery::calibration
