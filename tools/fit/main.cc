// orrery_fit PROFILE.yaml --source TEXT [--gemm F.csv] [--attention F.csv] [--nccl F.csv] [--in-switch-from N]
//           [--also OTHER.yaml]...
// Fits the kernel-time model of a device to tables of measurements and rewrites the fitted part of its profile, below
// the marker line; everything above is hand-written and kept. --also writes the same fit into the profile of a sibling
// device.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "calibration/fit.h"
#include "calibration/profile_model.h"
#include "scenarios/scenario.h"
#include "sim/error.h"

namespace {

using namespace orrery::calibration;
using orrery::sim::Settings;
using orrery::sim::UserError;

constexpr const char* kMarker = "# ---- written by orrery_fit from here on: edit above, or fit again ----";
constexpr int kFolds = 5;

struct Options {
  std::string profile, source, gemm, attention, nccl;
  double in_switch_from = 0;
  std::vector<std::string> also;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto next = [&]() -> std::string {
      if (i + 1 >= argc) throw UserError(word + ": wants a value");
      return argv[++i];
    };
    if (word == "--source")
      o.source = next();
    else if (word == "--gemm")
      o.gemm = next();
    else if (word == "--attention")
      o.attention = next();
    else if (word == "--nccl")
      o.nccl = next();
    else if (word == "--in-switch-from")
      o.in_switch_from = std::strtod(next().c_str(), nullptr);
    else if (word == "--also")
      o.also.push_back(next());
    else if (o.profile.empty() && !word.starts_with("--"))
      o.profile = word;
    else
      throw UserError(word + ": unknown option");
  }
  if (o.profile.empty() || o.source.empty())
    throw UserError("would be right: orrery_fit PROFILE.yaml --source TEXT --gemm F ...");
  return o;
}

std::string read(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw UserError(file + ": cannot be read");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string head_of(const std::string& file) {
  const std::string text = read(file);
  const std::size_t at = text.find(kMarker);
  if (at == std::string::npos) throw UserError(file + ": has no line '" + kMarker + "'");
  return text.substr(0, at);
}

/// The data sheet, from the hand-written part.
DeviceProfile::Model data_sheet(const Settings& head) {
  DeviceProfile::Model m;
  m.processors = head.at("processors").as_int(1);
  const Settings& peak = head.at("peak");
  m.peak.fill(peak.at("bf16").as_flop_rate().value());
  if (const Settings* p = peak.find("fp8")) m.peak[static_cast<std::size_t>(DataType::fp8)] = p->as_flop_rate().value();
  m.memory_bandwidth = head.at("memory_bandwidth").as_bandwidth().value();
  return m;
}

std::string error_line(const FitError& cross, const std::string& extra = "") {
  return fmt::format("error: {{samples: {}, median_pct: {:.2f}, p90_pct: {:.2f}{}, folds: {}}}", cross.samples,
                     cross.median_ape, cross.p90_ape, extra, kFolds);
}

std::vector<double> within(const std::vector<double>& knots, double low, double high) {
  std::vector<double> out;
  for (double k : knots)
    if (k >= low && k <= high) out.push_back(k);
  return out;
}

/// Trained on all but the largest tenth by FLOPs, judged on that tenth.
FitError extrapolated(const GemmModel& start, std::vector<GemmSample> samples, const GemmFitOptions& options) {
  const auto flops = [](const GemmSample& s) {
    return static_cast<double>(s.shape.m) * static_cast<double>(s.shape.n) * static_cast<double>(s.shape.k);
  };
  std::vector<double> sizes;
  for (const auto& s : samples) sizes.push_back(flops(s));
  std::sort(sizes.begin(), sizes.end());
  const double limit = sizes[sizes.size() * 9 / 10];
  std::vector<GemmSample> train, test;
  for (const auto& s : samples) (flops(s) < limit ? train : test).push_back(s);
  return gemm_error(fit_gemm(start, train, options), test);
}

std::string fit_gemm_section(const std::vector<GemmSample>& all, DataType type, const DeviceProfile::Model& device,
                             const std::string& provenance) {
  std::vector<GemmSample> samples;
  for (const auto& s : all)
    if (s.shape.dtype == type) samples.push_back(s);
  if (samples.empty()) return "";
  const GemmModel start = gemm_start(device.peak[static_cast<std::size_t>(type)],
                                     static_cast<double>(device.processors), device.memory_bandwidth, type);
  std::set<double> sizes_m, sizes_n, sizes_k;
  for (const auto& s : samples) {
    sizes_m.insert(static_cast<double>(s.shape.m));
    sizes_n.insert(static_cast<double>(s.shape.n));
    sizes_k.insert(static_cast<double>(s.shape.k));
  }
  const std::vector<double> knots{512, 1024, 2048, 4096, 8192, 16384, 65536};
  GemmFitOptions options;
  options.surface.m = within({512, 1024, 2048, 4096, 8192, 32768}, 1, *sizes_m.rbegin());
  options.surface.n = within(knots, 1, *sizes_n.rbegin());
  options.surface.k = within(knots, 1, *sizes_k.rbegin());
  options.surface.flatness = 0.05, options.surface.largest_fall = 0.09;
  options.detail.m.assign(sizes_m.begin(), sizes_m.end());
  options.detail.n.assign(sizes_n.begin(), sizes_n.end());
  const GemmModel model = fit_gemm(start, samples, options);
  const FitError cross = cross_validate_gemm(start, samples, options, kFolds);
  const FitError beyond = extrapolated(start, samples, options);
  std::cerr << fmt::format("gemm {}: {} samples, cross-validated {:.2f} / {:.2f} %, extrapolated {:.2f} / {:.2f} %\n",
                           name_of(type), cross.samples, cross.median_ape, cross.p90_ape, beyond.median_ape,
                           beyond.p90_ape);
  return fmt::format("  {}:\n    provenance: {}\n    {}\n", name_of(type), provenance,
                     error_line(cross, fmt::format(", extrapolated_median_pct: {:.2f}", beyond.median_ape))) +
         to_yaml(model, 4);
}

std::string fit_attention_section(const std::vector<AttentionSample>& samples, const DeviceProfile::Model& device,
                                  const std::string& provenance) {
  AttentionModel start;
  start.peak = device.peak[static_cast<std::size_t>(DataType::bf16)];
  start.processors = static_cast<double>(device.processors);
  start.memory_bandwidth = device.memory_bandwidth;
  start.launch = 4e-6;
  start.cache_launch = 1e-5;
  bool has_64 = false;
  for (const auto& s : samples) has_64 = has_64 || s.shape.head_dim == 64;
  SurfaceOptions surface;
  surface.m = {512, 1024, 2048, 4096, 8192, 16384};
  surface.n = {4, 16, 64, 256, 1024};
  surface.k = has_64 ? std::vector<double>{64, 128} : std::vector<double>{128};
  AttentionModel model = fit_attention(start, samples, surface);
  // Not in the tables: head dimension 64 runs at 0.85 of the rate of 128 (FlashAttention-2, arXiv 2307.08691, figure
  // 5).
  if (!has_64) model.rate_64 = 0.85 * model.rate_128;
  const FitError cross = cross_validate_attention(start, samples, surface, kFolds);
  std::cerr << fmt::format("attention: {} samples, cross-validated {:.2f} / {:.2f} %\n", cross.samples,
                           cross.median_ape, cross.p90_ape);
  return fmt::format("attention:\n  provenance: {}\n  {}\n", provenance, error_line(cross)) + to_yaml(model, 2);
}

std::string fit_collective_section(const std::vector<CollectiveSample>& samples, const Settings& head,
                                   const Options& options, const std::string& provenance) {
  const Settings& node = head.at("node");
  const double line = node.at("rate").as_bandwidth().value() * node.at("efficiency").as_number(0, 1);
  constexpr double kMegabyte = 1 << 20;
  std::string out;
  const auto of = [&](CollectiveOp op) {
    std::vector<CollectiveSample> own;
    for (const auto& s : samples)
      if (s.op == op) own.push_back(s);
    return own;
  };
  std::string sizes;
  for (std::size_t i = 0; i < kCollectiveOps; ++i) {
    const auto op = static_cast<CollectiveOp>(i);
    // A broadcast moves what an all-gather moves, a send/receive what an exchange between two moves.
    const CollectiveOp like = op == CollectiveOp::broadcast      ? CollectiveOp::all_gather
                              : op == CollectiveOp::send_receive ? CollectiveOp::all_to_all
                                                                 : op;
    const auto own = of(like);
    if (own.empty()) throw UserError(fmt::format("{}: no sample of {}", options.nccl, name_of(like)));
    const CollectiveModel model =
        fit_collective(own, line, op == CollectiveOp::all_reduce ? options.in_switch_from : 0);
    if (sizes.empty())
      for (double g : model.gpus) sizes += fmt::format("{}{:.0f}", sizes.empty() ? "" : ", ", g);
    out += fmt::format("  {}:\n", name_of(op));
    if (like == op) {
      const FitError large = collective_error(model, own, kMegabyte, 1e18),
                     small = collective_error(model, own, 0, kMegabyte);
      std::cerr << fmt::format("{}: from 1 MB {:.2f} / {:.2f} %, below {:.2f} / {:.2f} %\n", name_of(op),
                               large.median_ape, large.p90_ape, small.median_ape, small.p90_ape);
      out +=
          fmt::format("    error: {{samples: {}, median_pct: {:.2f}, p90_pct: {:.2f}, below_1mb_median_pct: {:.2f}}}\n",
                      own.size(), large.median_ape, large.p90_ape, small.median_ape);
    } else {
      out += fmt::format("    provenance: transferred from {}\n", name_of(like));
    }
    out += to_yaml(model, 4);
  }
  return fmt::format("collectives:\n  provenance: {}\n  gpus: [{}]\n", provenance, sizes) + out;
}

int run(const Options& o) {
  const std::string head = head_of(o.profile);
  const Settings settings = orrery::scenarios::parse_yaml(head, o.profile);
  const DeviceProfile::Model device = data_sheet(settings);
  const std::string provenance = "'fitted to published measurements: " + o.source + "'";
  std::string sections;
  if (!o.gemm.empty()) {
    const auto samples = read_samples(o.gemm).gemm;
    sections += "\ngemm:  # model: calibration/gemm_model.h; error: cross-validated over folds\n";
    for (DataType t : {DataType::bf16, DataType::fp8}) sections += fit_gemm_section(samples, t, device, provenance);
  }
  if (!o.attention.empty())
    sections += "\n" + fit_attention_section(read_samples(o.attention).attention, device, provenance);
  if (!o.nccl.empty())
    sections += "\n" + fit_collective_section(read_samples(o.nccl).collective, settings, o, provenance);
  std::ofstream(o.profile) << head << kMarker << "\n" << sections;
  for (const std::string& other : o.also) {
    std::string transferred = sections;
    const std::string from = settings.at("name").text();
    for (std::size_t at = 0; (at = transferred.find("'fitted to", at)) != std::string::npos; at += 8)
      transferred.replace(at, 1, "'transferred from " + from + ", there ");
    const std::string other_head = head_of(other);
    std::ofstream(other) << other_head << kMarker << "\n" << transferred;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const UserError& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
