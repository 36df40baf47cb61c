// Rates of mixers' kernels (scans and sparse attention of a profile) from measured ones: what they take for each
// launch, and the shares of bandwidth and of the matrix units that they reach, by least robust error of the logarithms.
// A kind of scan that was measured has rates of its own; those that were not take what all measured ones reach
// together.
#include "calibration/measure/fit_scans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "calibration/device/optimise.h"

namespace orrery::calibration {
namespace {

constexpr std::size_t kFewestScans = 4;  // samples, below which three numbers are not told apart

std::vector<MixerSample> scans_of(const Samples& samples, double peak, const ScanKind* kind, MixerKernel kernel) {
  std::vector<MixerSample> out;
  for (const ScanSample& s : samples.scans)
    if (s.shape.kernel == kernel && (kind == nullptr || s.shape.kind == kind))
      out.push_back({work_of(s.shape), kernel == MixerKernel::chunks ? peak : 0, s.seconds});
  return out;
}

/// Whether any sample would notice a rate that is a quarter higher or a fifth lower.
bool told(const std::vector<MixerSample>& samples, MixerRates rates, double MixerRates::*rate, double bandwidth) {
  constexpr double kSeen = 0.02;  // of a time
  const auto times = [&](double factor) {
    MixerRates other = rates;
    other.*rate *= factor;
    std::vector<double> out;
    for (const MixerSample& s : samples) out.push_back(seconds_of(s.work, other, bandwidth, s.peak));
    return out;
  };
  const std::vector<double> low = times(0.8), high = times(1.25);
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (std::abs(high[i] / low[i] - 1) > kSeen) return true;
  return false;
}

/// A number that no sample tells is left out, and inherited.
std::string rates_line(std::string_view name, const std::vector<MixerSample>& samples, double bandwidth,
                       const std::string& provenance) {
  const MixerRates r = fit_mixer(samples, bandwidth);
  std::string out, untold;
  const auto add = [&](const char* key, double MixerRates::*rate, const std::string& value) {
    if (told(samples, r, rate, bandwidth))
      out += fmt::format("{}: {}, ", key, value);
    else
      untold += fmt::format("{}{}", untold.empty() ? "" : ", ", key);
  };
  add("launch", &MixerRates::launch, fmt::format("{:.3f} us", r.launch * 1e6));
  add("bandwidth", &MixerRates::bandwidth, fmt::format("{:.4f}", r.bandwidth));
  if (samples.front().peak > 0) add("rate", &MixerRates::rate, fmt::format("{:.4f}", r.rate));
  if (!untold.empty()) untold = "; not told by it and inherited: " + untold;
  return fmt::format("  {}: {{{}provenance: '{}{}'}}\n", name, out, provenance, untold);
}

template <class Shape>
const char* backward_of(const Shape& s) {
  return s.pass == ScanPass::backward ? " backward" : "";
}

std::string joined(const std::set<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

}  // namespace

MixerRates fit_mixer(const std::vector<MixerSample>& samples, double bandwidth) {
  const bool multiplies = !samples.empty() && samples.front().peak > 0;
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
    for (const MixerSample& s : samples)
      out.push_back(std::log(seconds_of(s.work, rates, bandwidth, s.peak) / s.seconds));
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

std::string scans_section(const Samples& samples, double bandwidth, const PeakOf& peak, const std::string& elsewhere) {
  if (samples.scans.empty()) return "";
  const double matrix = peak(DataType::bf16);
  std::set<std::string> seen, own, others;
  for (const ScanSample& s : samples.scans)
    seen.insert(std::string(s.shape.kernel == MixerKernel::convolution ? name_of(s.shape.kernel) : s.shape.kind->name) +
                backward_of(s.shape));
  std::string lines;
  const std::vector<MixerSample> convolutions = scans_of(samples, matrix, nullptr, MixerKernel::convolution),
                                 all = scans_of(samples, matrix, nullptr, MixerKernel::chunks);
  if (!convolutions.empty())
    lines += rates_line(name_of(MixerKernel::convolution), convolutions, bandwidth, "measured here");
  for (const ScanKind* kind : kMeasuredScans) {
    const std::vector<MixerSample> scans = scans_of(samples, matrix, kind, MixerKernel::chunks);
    if (scans.size() < kFewestScans) {
      others.emplace(kind->name);
      continue;
    }
    own.emplace(kind->name);
    lines += rates_line(kind->name, scans, bandwidth, "measured here");
  }
  if (!all.empty())
    lines +=
        rates_line(name_of(MixerKernel::chunks), all, bandwidth, "transferred from the kinds that were measured here");
  std::string said = "as Python runs them: " + joined(seen);
  if (!all.empty() && !others.empty()) said += "; at the rates of these together: " + joined(others);
  if (all.empty() || convolutions.empty())
    said += fmt::format("; {}: {}", all.empty() ? "scans" : name_of(MixerKernel::convolution), elsewhere);
  return fmt::format("\nscans:\n  provenance: '{}'\n{}", said, lines);
}

std::string sparse_section(const Samples& samples, double bandwidth, const PeakOf& peak, const std::string& elsewhere) {
  if (samples.sparse.empty()) return "";
  std::set<std::string> seen, others;
  std::string lines;
  for (const SparseSample& s : samples.sparse) seen.insert(std::string(name_of(s.shape.kernel)) + backward_of(s.shape));
  for (const MixerKernel kernel : kSparseKernels) {
    std::vector<MixerSample> own;
    for (const SparseSample& s : samples.sparse)
      if (s.shape.kernel == kernel)
        own.push_back({work_of(s.shape), kernel == MixerKernel::choice ? 0 : peak(s.shape.dtype), s.seconds});
    if (own.empty()) {
      others.emplace(name_of(kernel));
      continue;
    }
    // Trainers multiply 16 bits where the indexer's public kernel has operands in fp8.
    lines += rates_line(name_of(kernel), own, bandwidth,
                        kernel == MixerKernel::index ? "measured here in fp8, other types at the same share of theirs"
                                                     : "measured here");
  }
  std::string said = "as Python runs them: " + joined(seen);
  if (!others.empty()) said += fmt::format("; {}: {}", joined(others), elsewhere);
  return fmt::format("\nsparse:\n  provenance: '{}'\n{}", said, lines);
}

}  // namespace orrery::calibration
