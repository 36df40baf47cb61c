// Levenberg-Marquardt on the log error of dispatcher.h's time. Parameters are searched as logarithms, so that they stay
// positive; what a kind of kernel does not have is not searched.
#include "calibration/measure/fit_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "calibration/device/optimise.h"
#include "calibration/measure/fit.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

constexpr double kNetworkFill = 64;  // rows; DeepEP's chunks between nodes are some tens of tokens deep
constexpr double kFree = 4e11;       // bytes/s of an SM: nothing that a fit can tell from free
constexpr int kIterations = 80;

/// One number that is searched: where it goes, where it starts and what is physical.
struct Searched {
  std::function<double&(ExchangeKernel&)> field;
  double start, low, high;
};

std::vector<Searched> searched(const ExchangeKind& kind, std::size_t shares) {
  const auto at = [](double ExchangeKernel::*member) {
    return [member](ExchangeKernel& k) -> double& { return k.*member; };
  };
  const auto of_processor = [](double ExchangeKernel::Processor::*member) {
    return [member](ExchangeKernel& k) -> double& { return k.processor.*member; };
  };
  std::vector<Searched> out{{at(&ExchangeKernel::fixed), 3e-5, 1e-6, 1e-3}};
  if (kind.network) {
    out.push_back({at(&ExchangeKernel::node), 5e-6, 1e-9, 1e-3});
    out.push_back({at(&ExchangeKernel::fill_rate), 2e10, 1e8, 1e13});
    out.push_back({of_processor(&ExchangeKernel::Processor::source_rate), 3e10, 1e9, kFree});
    out.push_back({of_processor(&ExchangeKernel::Processor::network_rate), 3e10, 1e9, kFree});
    out.push_back({of_processor(&ExchangeKernel::Processor::copy_rate), 3e10, 1e9, kFree});
    out.push_back({at(&ExchangeKernel::exponent), 8, 1.05, 30});
  } else if (kind.chosen_processors) {
    out.push_back({at(&ExchangeKernel::fill_rate), 2e9, 1e8, 1e13});
    out.push_back({of_processor(&ExchangeKernel::Processor::token), 1e-7, 1e-10, 1e-5});
    out.push_back({of_processor(&ExchangeKernel::Processor::copy), 1e-8, 1e-10, 1e-5});
    out.push_back({of_processor(&ExchangeKernel::Processor::source_rate), 5e10, 1e9, kFree});
    out.push_back({of_processor(&ExchangeKernel::Processor::copy_rate), 3e10, 1e9, kFree});
  } else {
    out.push_back({at(&ExchangeKernel::rank), 1e-8, 1e-10, 1e-5});
    out.push_back({of_processor(&ExchangeKernel::Processor::token), 6e-8, 1e-10, 1e-5});
    out.push_back({of_processor(&ExchangeKernel::Processor::copy), 1e-9, 1e-11, 1e-6});
    out.push_back({at(&ExchangeKernel::exponent), 3, 1.05, 30});
  }
  for (std::size_t i = 0; i < shares; ++i)
    out.push_back({[i](ExchangeKernel& k) -> double& { return k.share[i]; }, 0.7, 0.05, 0.98});
  return out;
}

/// Sizes that shares are fitted at: all node counts; one for the groups of a node; a few of many.
std::vector<double> knots_of(const ExchangeKind& kind, std::span<const ExchangeSample> samples) {
  std::set<double> seen;
  for (const ExchangeSample& s : samples) seen.insert(kind.network ? s.shape.nodes : s.shape.ranks);
  if (kind.network || kind.chosen_processors) return {seen.begin(), seen.end()};
  std::vector<double> out;
  for (double size : seen)
    if (size == *seen.rbegin() || (size >= 8 && (out.empty() || size >= 8 * out.back()))) out.push_back(size);
  return out;
}

ExchangeKernel fitted_kernel(const ExchangeKind& kind, std::span<const ExchangeSample> samples) {
  SIM_CHECK(!samples.empty(), "no samples");
  ExchangeKernel start;
  start.device = kind.device;
  start.pass = kind.pass;
  start.network = kind.network;
  start.fill_rows = kind.network ? kNetworkFill : 1;
  start.sizes = knots_of(kind, samples);
  start.share.assign(start.sizes.size(), 0.7);
  const std::vector<Searched> fields = searched(kind, start.share.size());
  const auto unpack = [&](const std::vector<double>& p) {
    ExchangeKernel k = start;
    for (std::size_t i = 0; i < fields.size(); ++i)
      fields[i].field(k) = std::clamp(std::exp(p[i]), fields[i].low, fields[i].high);
    return k;
  };
  const LogErrors errors = [&](const std::vector<double>& p, std::vector<double>& out) {
    const ExchangeKernel k = unpack(p);
    out.clear();
    for (const ExchangeSample& s : samples) out.push_back(std::log(k.alone(s.shape, kind.line_rate) / s.seconds));
  };
  std::vector<double> guess;
  for (const Searched& f : fields) guess.push_back(std::log(f.start));
  return unpack(levenberg_marquardt(errors, guess, kIterations).parameters);
}

}  // namespace

ExchangeKernel fit_exchange(const ExchangeKind& kind, std::span<const ExchangeSample> samples) {
  return fitted_kernel(kind, samples);
}

FitError judge_exchange(const ExchangeKind& kind, std::span<const ExchangeSample> samples) {
  std::vector<ExchangeSample> halves[2];
  for (std::size_t i = 0; i < samples.size(); ++i) halves[fold_of(i, 2)].push_back(samples[i]);
  std::vector<double> relative;
  for (std::size_t test : {0u, 1u}) {
    if (halves[1 - test].empty()) continue;
    const ExchangeKernel k = fitted_kernel(kind, halves[1 - test]);
    for (const ExchangeSample& s : halves[test]) relative.push_back(k.alone(s.shape, kind.line_rate) / s.seconds - 1);
  }
  return summarise(std::move(relative));
}

std::string to_yaml(const ExchangeKernel& k, const FitError& held_out) {
  const auto list = [](const std::vector<double>& values, const char* format) {
    std::string out;
    for (double v : values) out += (out.empty() ? "" : ", ") + fmt::format(fmt::runtime(format), v);
    return "[" + out + "]";
  };
  std::string out = fmt::format(
      "  - device: {}\n    pass: {}\n    reach: {}\n    error: {{samples: {}, folds: 2, median_pct: {:.2f}, p90_pct: "
      "{:.2f}}}\n",
      k.device, k.pass == ExchangePass::dispatch ? "dispatch" : "combine", k.network ? "network" : "domain",
      held_out.samples, held_out.median_ape, held_out.p90_ape);
  const auto seconds = [&](const char* key, double value) {
    if (value > 0) out += fmt::format("    {}: {:.4g} ns\n", key, value * 1e9);
  };
  const auto rate = [&](const char* key, double value) {
    if (value < kFree) out += fmt::format("    {}: {:.4g} GB/s\n", key, value / 1e9);
  };
  seconds("fixed", k.fixed);
  seconds("rank", k.rank);
  seconds("node", k.node);
  if (k.fill_rows != 1) out += fmt::format("    fill_rows: {:.0f}\n", k.fill_rows);
  if (k.fill_rate < 1e17) out += fmt::format("    fill_rate: {:.4g} GB/s\n", k.fill_rate / 1e9);
  seconds("token", k.processor.token);
  seconds("copy", k.processor.copy);
  rate("source_rate", k.processor.source_rate);
  rate("network_rate", k.processor.network_rate);
  rate("copy_rate", k.processor.copy_rate);
  if (k.exponent != 4) out += fmt::format("    exponent: {:.3g}\n", k.exponent);
  return out + fmt::format("    sizes: {}\n    share: {}\n", list(k.sizes, "{:.0f}"), list(k.share, "{:.3f}"));
}

}  // namespace orrery::calibration
