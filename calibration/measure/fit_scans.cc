// Rates of mixers' kernels (scans of a profile) from measured scans: what they take for each launch, and the shares of
// bandwidth and of the matrix units that all of them reach, by least robust error of the logarithms.
#include "calibration/measure/fit_scans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "calibration/device/optimise.h"

namespace orrery::calibration {
namespace {

std::vector<ScanSample> scans_of(const Samples& samples, MixerKernel kernel) {
  std::vector<ScanSample> out;
  for (const ScanSample& s : samples.scans)
    if (s.shape.kernel == kernel) out.push_back(s);
  return out;
}

}  // namespace

MixerRates fit_mixer(const std::vector<ScanSample>& samples, double bandwidth, double peak) {
  const bool multiplies = !samples.empty() && samples.front().shape.kernel == MixerKernel::chunks;
  const auto rates_at = [&](const std::vector<double>& p) {
    MixerRates out;
    out.launch = std::clamp(std::exp(p[0]), 1e-7, 1e-4);
    out.bandwidth = std::clamp(std::exp(p[1]), 0.01, 1.0);
    if (multiplies) out.rate = std::clamp(std::exp(p[2]), 0.01, 1.0);
    return out;
  };
  const LogErrors errors = [&](const std::vector<double>& p, std::vector<double>& out) {
    const MixerRates rates = rates_at(p);
    out.clear();
    for (const ScanSample& s : samples)
      out.push_back(std::log(seconds_of(work_of(s.shape), rates, bandwidth, peak) / s.seconds));
  };
  std::vector<double> start{std::log(3e-6), std::log(0.5)};
  if (!multiplies) return rates_at(levenberg_marquardt(errors, start, 40).parameters);
  // Bound by products, and bound by what they move, are valleys apart.
  LogFit best{{}, 1e300};
  for (const double rate : {0.05, 0.5}) {
    std::vector<double> from = start;
    from.push_back(std::log(rate));
    LogFit fit = levenberg_marquardt(errors, from, 40);
    if (fit.cost < best.cost) best = std::move(fit);
  }
  return rates_at(best.parameters);
}

std::string scans_section(const Samples& samples, double bandwidth, double peak, const std::string& elsewhere) {
  if (samples.scans.empty()) return "";
  std::string lines;
  std::set<std::string> seen;
  for (const ScanSample& s : samples.scans)
    seen.insert(std::string(s.shape.kernel == MixerKernel::convolution ? name_of(s.shape.kernel) : s.shape.kind->name) +
                (s.shape.pass == ScanPass::backward ? " backward" : ""));
  for (const MixerKernel kernel : {MixerKernel::convolution, MixerKernel::chunks}) {
    const std::vector<ScanSample> own = scans_of(samples, kernel);
    if (own.empty()) continue;
    const MixerRates r = fit_mixer(own, bandwidth, peak);
    lines += fmt::format("  {}: {{launch: {:.3f} us, bandwidth: {:.4f}", name_of(kernel), r.launch * 1e6, r.bandwidth);
    lines += kernel == MixerKernel::chunks ? fmt::format(", rate: {:.4f}}}\n", r.rate) : std::string("}\n");
  }
  std::string what;
  for (const std::string& one : seen) what += (what.empty() ? "" : ", ") + one;
  const bool whole = seen.contains("convolution") && seen.size() > 2;
  return fmt::format(
      "\nscans:\n  provenance: 'measured here, as Python runs them: {}; other kinds by these rates{}'\n{}", what,
      whole ? std::string() : "; what is not said: " + elsewhere, lines);
}

}  // namespace orrery::calibration
