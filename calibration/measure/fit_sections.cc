// The fitted sections of a profile, each with its provenance and how well it holds.
#include <fmt/format.h>

#include <algorithm>

#include "calibration/measure/fit.h"
#include "calibration/measure/fit_profile.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

std::string summary_of(std::string_view kernel, const FitQuality& q) {
  std::string out =
      fmt::format("{}: {} samples, {} {:.2f} / {:.2f} %", kernel, q.held_out.samples,
                  q.folds > 0 ? "cross-validated" : "in-sample", q.held_out.median_ape, q.held_out.p90_ape);
  if (q.beyond.samples > 0)
    out += fmt::format(", extrapolated {:.2f} / {:.2f} %", q.beyond.median_ape, q.beyond.p90_ape);
  return out + "\n";
}

/// Groups that only `other` has, at its rates and switches times what the largest group fitted is to the same there.
void add_larger_groups(CollectiveModel& model, const CollectiveModel& other, CollectiveOp op) {
  const double largest = model.gpus.back();
  const auto scale = [&](Protocol CollectiveModel::*protocol,
                         CollectiveModel::Part (CollectiveModel::*part)(CollectiveOp, double, double) const) {
    constexpr double kLong = 1 << 28;
    const double factor = (model.*part)(op, largest, kLong).rate / (other.*part)(op, largest, kLong).rate;
    for (std::size_t g = 0; g < other.gpus.size(); ++g)
      if (other.gpus[g] > largest) (model.*protocol).rate.push_back(factor * (other.*protocol).rate[g]);
  };
  scale(&CollectiveModel::low_latency, &CollectiveModel::low_latency_part);
  scale(&CollectiveModel::bulk, &CollectiveModel::bulk_part);
  const double shift = model.switch_bytes.back() / other.switch_at(largest);
  for (std::size_t g = 0; g < other.gpus.size(); ++g)
    if (other.gpus[g] > largest) {
      model.switch_bytes.push_back(shift * other.switch_bytes[g]);
      model.gpus.push_back(other.gpus[g]);
    }
}

}  // namespace

FittedSection fit_gemm_section(const std::vector<GemmSample>& all, DataType type, const DeviceProfile::Model& device,
                               const std::string& provenance, const std::vector<GroupedSample>& groups) {
  std::vector<GemmSample> samples;
  for (const auto& s : all)
    if (s.shape.dtype == type) samples.push_back(s);
  if (samples.empty()) return {};
  const GemmModel start = gemm_start(device.sheet.peak[static_cast<std::size_t>(type)],
                                     static_cast<double>(device.sheet.processors), device.sheet.memory_bandwidth, type);
  const GemmFitOptions options = gemm_options(samples);
  const GemmModel model = fit_gemm(start, samples, options);
  const FitQuality quality = judge_gemm(start, samples, options, kFolds);
  std::string streams;
  if (const auto fitted = fit_streams(model, groups, type))
    streams = fmt::format("    streams: {{together: {:.3f}, hidden: {:.2f}}}\n", fitted->together, fitted->hidden);
  return {fmt::format("  {}:\n    provenance: {}\n    {}\n", name_of(type), provenance, to_yaml(quality)) +
              to_yaml(model, 4) + streams,
          summary_of(fmt::format("gemm {}", name_of(type)), quality)};
}

FittedSection fit_experts_section(const std::vector<ExpertSample>& all, const DeviceProfile::Model& device,
                                  const std::string& provenance) {
  FittedSection out{
      fmt::format("experts:  # model: calibration/device/grouped_model.h\n  provenance: {}\n", provenance), ""};
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    std::vector<ExpertSample> samples;
    for (const auto& s : all)
      if (s.shape.dtype == type) samples.push_back(s);
    const auto untuned = std::count_if(samples.begin(), samples.end(), [](const auto& s) { return !s.tuned; });
    if (untuned == std::ssize(samples)) continue;
    GroupedModel start = grouped_from(device.gemm[t]);
    start.tiles = served_tiles(device.sheet, type);
    const ExpertModel model = fit_experts(start, samples);
    const FitQuality quality = judge_experts(start, samples);
    out.yaml += fmt::format("  {}:  # but for {} rows of {}, whose kernels may not have been tuned\n    {}\n",
                            name_of(type), untuned, samples.size(), to_yaml(quality));
    out.yaml += to_yaml(model.products, model.around, 4);
    out.summary += summary_of(fmt::format("experts {}", name_of(type)), quality);
    out.summary += fmt::format("  {} of {} may be untuned\n", untuned, samples.size());
  }
  return out;
}

FittedSection fit_attention_section(const std::vector<AttentionSample>& samples, const DeviceProfile::Model& device,
                                    const std::string& provenance) {
  AttentionModel start;
  start.peak = device.sheet.peak[static_cast<std::size_t>(DataType::bf16)];
  start.processors = static_cast<double>(device.sheet.processors);
  start.memory_bandwidth = device.sheet.memory_bandwidth;
  start.launch = 4e-6;
  const SurfaceOptions surface = attention_options(samples);
  AttentionModel model = fit_attention(start, samples, surface);
  std::string notes;
  if (surface.k.size() == 1) {
    // FlashAttention-2, arXiv 2307.08691, figure 5.
    model.rate_64 = 0.85 * model.rate_128;
    notes += "  # rate at head_dim 64: 0.85 of that at 128, as in FlashAttention-2 (arXiv 2307.08691, figure 5)\n";
  }
  if (std::none_of(samples.begin(), samples.end(), [](const auto& s) { return s.shape.backward; }))
    notes += "  # backward_ratio: from FlashAttention-2 (arXiv 2307.08691, figures 4 to 6), not measured\n";
  const FitQuality quality = judge_attention(start, samples, surface, kFolds);
  return {
      fmt::format("attention:\n  provenance: {}\n{}  {}\n", provenance, notes, to_yaml(quality)) + to_yaml(model, 2),
      summary_of("attention", quality)};
}

FittedSection fit_collective_section(const std::vector<CollectiveSample>& samples, double line_rate,
                                     double in_switch_from, const std::string& provenance, const std::string& table,
                                     GroupRates rates, const DeviceProfile::Model* larger) {
  std::string out, sizes, summary;
  for (std::size_t i = 0; i < kCollectiveOps; ++i) {
    const auto op = static_cast<CollectiveOp>(i);
    std::vector<CollectiveSample> own;
    const auto collect = [&](CollectiveOp from) {
      for (const auto& s : samples)
        if (s.op == from) own.push_back(s);
    };
    collect(op);
    // A broadcast moves what an all-gather moves, a send/receive what an exchange between two moves.
    const CollectiveOp like = !own.empty()                       ? op
                              : op == CollectiveOp::broadcast    ? CollectiveOp::all_gather
                              : op == CollectiveOp::send_receive ? CollectiveOp::all_to_all
                                                                 : op;
    if (like != op) collect(like);
    if (own.empty()) throw sim::UserError(fmt::format("{}: no sample of {}", table, name_of(like)));
    const double in_switch = op == CollectiveOp::all_reduce ? in_switch_from : 0;
    const CollectiveModel fitted = fit_collective(own, line_rate, in_switch, rates);
    CollectiveModel model = fitted;
    if (larger != nullptr) add_larger_groups(model, larger->collective[i], op);
    if (sizes.empty())
      for (double g : model.gpus) sizes += fmt::format("{}{:.0f}", sizes.empty() ? "" : ", ", g);
    out += fmt::format("  {}:\n", name_of(op));
    if (like == op) {
      const FitQuality quality = judge_collective(own, line_rate, in_switch, kFolds, rates);
      summary += summary_of(name_of(op), quality);
      const FitError large = collective_error(fitted, own, 1 << 20, 1e18);
      summary += fmt::format("  in-sample from 1 MB {:.2f} / {:.2f} %\n", large.median_ape, large.p90_ape);
      out += fmt::format("    {}\n", to_yaml(quality));
    } else {
      out += fmt::format("    provenance: transferred from {}\n", name_of(like));
    }
    out += to_yaml(model, 4);
  }
  return {fmt::format("collectives:\n  provenance: {}\n  gpus: [{}]\n", provenance, sizes) + out, summary};
}

}  // namespace orrery::calibration
