// A whole profile from the samples of one device.
#include "calibration/measure/fit_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "calibration/measure/fit.h"
#include "calibration/measure/fit_host.h"
#include "calibration/measure/fit_node.h"
#include "calibration/measure/fit_scans.h"
#include "calibration/measure/fit_served.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

using sim::UserError;

constexpr const char* kMeasured = "'measured here'";
constexpr std::array kMeasuredTypes{DataType::bf16,          DataType::fp16,        DataType::fp32,  DataType::fp8,
                                    DataType::fp8_blockwise, DataType::fp8_rowwise, DataType::mxfp8, DataType::nvfp4};

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

/// One line of YAML that reads back as `text`.
std::string yaml_string(const std::string& text) {
  std::string out;
  for (char c : one_line(text)) out += c == '\'' ? "''" : std::string(1, c);
  return fmt::format("'{}'", out);
}

/// Without an `error`, so that the section counts as unmeasured.
std::string section(const std::string& key, const std::string& provenance, const std::string& body) {
  return fmt::format("\n{}:\n  provenance: {}\n{}", key, provenance, body);
}

double peak_of(const DeviceFacts& facts, DataType type) {
  const auto at = facts.peak_flops.find(type);
  return at == facts.peak_flops.end() ? 0 : at->second;
}

DeviceProfile::Model device_of(const DeviceFacts& f) {
  DeviceProfile::Model m;
  m.name = f.name;
  m.sheet.processors = f.processors;
  m.sheet.memory = f.memory_bytes;
  m.sheet.memory_bandwidth = f.memory_bandwidth;
  const double peak = std::max(peak_of(f, DataType::bf16), peak_of(f, DataType::fp16));
  if (f.processors < 1 || !(peak > 0) || !(f.memory_bytes > 0) || !(f.memory_bandwidth > 0))
    throw UserError(fmt::format(
        "{}: a profile needs the number of processors (read {}), a 16 bit peak ({} FLOP/s), memory ({} bytes) and its "
        "bandwidth ({} bytes/s)",
        f.name, f.processors, peak, f.memory_bytes, f.memory_bandwidth));
  m.sheet.peak.fill(peak_of(f, DataType::bf16) > 0 ? peak_of(f, DataType::bf16) : peak);
  for (const auto& [type, rate] : f.peak_flops)
    if (rate > 0) m.sheet.peak[static_cast<std::size_t>(type)] = rate;
  return m;
}

std::string data_sheet(const DeviceFacts& f, const DeviceProfile::Model& m, const BaseProfile* base) {
  std::string out = fmt::format("# {}, as measured by orrery calibrate.\n", f.name);
  for (const std::string& note : f.notes) out += fmt::format("# {}\n", one_line(note));
  const std::string provenance = yaml_string("measured here: " + f.description);
  if (base != nullptr)
    return out + fmt::format(
                     "inherits: {0}  # the same chip: what is not said below was not measured here, and is as there\n"
                     "name: {0}\nprovenance: {1}\nprocessors: {2}\nmemory: {3:.0f} MB\n",
                     base->name, provenance, m.sheet.processors, m.sheet.memory / 1e6);
  out += fmt::format("name: {}\nprovenance: {}\n", yaml_string(f.name), provenance);
  out += fmt::format("processors: {}\npeak: {{", m.sheet.processors);
  const char* comma = "";
  for (const DataType t : kMeasuredTypes) {
    if (peak_of(f, t) <= 0) continue;
    out += fmt::format("{}{}: {:.1f} TFLOP/s", comma, name_of(t), m.sheet.peak[static_cast<std::size_t>(t)] / 1e12);
    comma = ", ";
  }
  return out + fmt::format("}}  # dense, from the architecture and its highest clock\nmemory: {:.0f} MB\n",
                           m.sheet.memory / 1e6);
}

/// The rate that all shares of memory bandwidth are told by, and how it was come by.
struct MemoryRate {
  double rate = 0;
  std::string line;  // of the profile
};

/// Data sheets, and clocks times the width of a bus, say what no kernel may exceed; where one did, or where they say
/// far more than any kernel reached, what was measured stands in their place.
MemoryRate memory_rate(const DeviceFacts& f, const Samples& samples, const BaseProfile* base) {
  constexpr double kFarMore = 1.6, kLarge = 64e6;  // bytes beyond any cache
  const double stated = f.memory_bandwidth;
  double fastest = 0;
  for (const StreamingSample& s : samples.streaming)
    if (s.bytes > kLarge) fastest = std::max(fastest, s.bytes / s.seconds);
  // Beside the launch, kernels move bytes faster than in all.
  if (fastest > 0) {
    const StreamingModel shares = fit_streaming(StreamingModel{}, samples.streaming, fastest);
    double most = 1;
    for (const StreamingSample& s : samples.streaming)
      if (s.bytes > kLarge) most = std::max(most, shares.efficiency[static_cast<std::size_t>(s.kernel)]);
    fastest *= std::min(most, 1.1);
  }
  // What comes out of a cache is no rate of memory.
  const double served = fastest_served(samples, kLarge);
  if (fastest == 0 || served < kFarMore * fastest) fastest = std::max(fastest, served);
  const bool exceeded = fastest > stated, doubted = base == nullptr && fastest > 0 && stated > kFarMore * fastest;
  if (exceeded || doubted)
    return {
        fastest,
        fmt::format("memory_bandwidth: {:.1f} GB/s  # of the fastest kernel measured; {} {:.1f} GB/s\n", fastest / 1e9,
                    base != nullptr ? "the data sheet says" : "bus width and memory clock say", stated / 1e9)};
  if (base != nullptr) return {stated, ""};
  return {stated,
          fmt::format("memory_bandwidth: {:.1f} GB/s  # bus width and memory clock; the fastest kernel measured "
                      "moved {:.1f} GB/s\n",
                      stated / 1e9, fastest / 1e9)};
}

/// What was not determined stays the base's, or is assumed; both are said. Where the limit is known to leave a clock,
/// no further factor holds what a long step loses.
std::string power(const DeviceFacts& f, const PowerFit& fit, const BaseProfile* base) {
  const PowerModel& p = fit.power;
  const std::string elsewhere = base != nullptr ? "as " + base->name : "assumed";
  std::string types, lines, others;
  const auto line = [&](bool told, const char* key, double value) {
    if (!told) others += fmt::format("{}, ", key);
    if (told || base == nullptr) lines += fmt::format("  {}: {:.3f}\n", key, value);
  };
  line(fit.tells_attention, "attention", p.attention);
  line(fit.tells_clock, "product_clock", p.product_clock);
  line(fit.tells_clock, "exponent", p.exponent);
  for (std::size_t t = 0; t < kDataTypes; ++t)
    if (p.per_flop[t] > 0)
      types += fmt::format("{}{}: {:.3f} pJ", types.empty() ? "" : ", ", name_of(static_cast<DataType>(t)),
                           p.per_flop[t] * 1e12);
  if (!others.empty()) others = fmt::format("; not determined, {}: {}", elsewhere, others.substr(0, others.size() - 2));
  return fmt::format(
      "\nsustained: {{matmul: 1.0, fp8: 1.0, attention: 1.0, provenance: 'what a long step loses follows from "
      "power'}}\n"
      "\npower:  # see calibration/device/power.h\n{}  limit: {:.0f} W\n  standing: {:.0f} W\n  active: {:.0f} W\n"
      "  per_flop: {{{}}}\n{}  per_byte: {:.0f} pJ\n"
      "  provenance: 'measured here, {:.0f} W off at most; limit: driver; per_byte: assumed{}'\n",
      base != nullptr ? "  governs: true\n" : "", f.power_limit, p.standing, p.active, types, lines, p.per_byte * 1e12,
      fit.largest_error, others);
}

std::string sustained(const Samples& samples, const BaseProfile* base) {
  // Where the base's clock follows from its limit, a factor beside that would count the same loss twice.
  const bool governed = base != nullptr && base->device.power().known() && base->device.power().governs;
  std::vector<double> matmul, fp8, attention;
  for (const SteadySample& s : samples.steady)
    (s.attention ? attention : s.dtype == DataType::fp8 ? fp8 : matmul).push_back(std::clamp(s.ratio, 0.2, 1.0));
  if (samples.steady.empty() || governed) return "";
  std::string out = "\nsustained:  # rate in a long run over the rate of a short one\n";
  for (const auto& [key, values] : {std::pair{"matmul", &matmul}, {"fp8", &fp8}, {"attention", &attention}})
    if (!values->empty()) out += fmt::format("  {}: {:.3f}\n", key, quantile(*values, 0.5));
  return out + fmt::format("  provenance: {}\n", kMeasured);
}

/// Keys of the base that a section written anew does not have.
std::string without(const std::vector<const char*>& keys, const std::string& written, int indent) {
  std::string out;
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  for (const char* key : keys)
    if (written.find(fmt::format("\n{}{}:", pad, key)) == std::string::npos)
      out += fmt::format("{}{}: null\n", pad, key);
  return out;
}

/// Products that ran at their highest clock, where these are most: what a limit takes is told by power, and not by each
/// kernel. Otherwise all.
std::vector<GemmSample> unlimited(const std::vector<GemmSample>& all) {
  std::vector<GemmSample> out;
  for (const GemmSample& s : all)
    if (!s.limited) out.push_back(s);
  return 2 * out.size() >= all.size() ? out : all;
}

/// A loop over experts times each of its products, which have fewer rows than those of whole layers.
void add_loops(const std::vector<GroupedSample>& groups, std::vector<GemmSample>& out) {
  for (const GroupedSample& s : groups) {
    if (s.shape.kernel != GroupedKernel::loop || s.shape.form != Gemm::Form::forward || s.shape.tokens.empty())
      continue;
    GemmSample one;
    one.shape.dtype = s.shape.dtype;
    one.shape.m = s.shape.tokens.front();
    one.shape.n = s.shape.out;
    one.shape.k = s.shape.in;
    one.seconds = s.seconds / static_cast<double>(s.shape.tokens.size());
    out.push_back(one);
  }
}

std::string gemm(const Samples& samples, const DeviceProfile::Model& device, const BaseProfile* base) {
  std::vector<GemmSample> products = unlimited(samples.gemm);
  add_loops(samples.grouped, products);
  std::string out;
  bool has_bf16 = false;
  for (const DataType t : kMeasuredTypes) {
    std::string fitted = fit_gemm_section(products, t, device, kMeasured, samples.grouped).yaml;
    if (!fitted.empty() && base != nullptr)
      fitted += without(
          {"accumulate_exposed", "forms", "cast_launch", "cast_rate", "surface", "detail", "row_step", "ragged"},
          fitted, 4);
    has_bf16 = has_bf16 || (t == DataType::bf16 && !fitted.empty());
    out += fitted;
  }
  const std::string head = "\ngemm:  # model: calibration/device/gemm_model.h; error: cross-validated over folds\n";
  if (base != nullptr) return out.empty() ? "" : head + out;
  if (has_bf16) return head + out;
  // Other types fall back on bf16, so there has to be one: the fp16 kernels of this device.
  std::vector<GemmSample> half;
  for (GemmSample s : products)
    if (s.shape.dtype == DataType::fp16) {
      s.shape.dtype = DataType::bf16;
      half.push_back(s);
    }
  if (half.empty())
    throw UserError(
        fmt::format("{}: no matrix product was measured, and no profile is given to take them from", device.name));
  return head + fit_gemm_section(half, DataType::bf16, device, "'measured here, as fp16'").yaml + out;
}

std::string attention(const Samples& samples, const DeviceProfile::Model& device, const BaseProfile* base) {
  const bool forward = std::any_of(samples.attention.begin(), samples.attention.end(),
                                   [](const AttentionSample& s) { return !s.shape.backward; });
  if (forward) {
    std::string out = fmt::format("\n{}", fit_attention_section(samples.attention, device, kMeasured).yaml);
    if (base != nullptr)
      out += without({"surface"}, out, 2) +
             "\nattention_kernels: {fused: null, fused_2026: null}  # the vendor's kernels are those of attention, "
             "above\n";
    return out;
  }
  if (base != nullptr) return "";
  AttentionModel assumed;
  assumed.rate_64 = 0.45;
  assumed.rate_128 = 0.55;
  return section("attention", "'assumed: rates of FlashAttention-2 on an A100 (arXiv 2307.08691)'",
                 to_yaml(assumed, 2));
}

/// Shares of memory bandwidth, measured or of the base, or assumed.
StreamingModel streaming_model(const Samples& samples, const DeviceProfile::Model& device, const BaseProfile* base) {
  StreamingModel start;
  start.efficiency.fill(0.7);
  if (base != nullptr) start = base->device.model().streaming;
  return samples.streaming.empty() ? start : fit_streaming(start, samples.streaming, device.sheet.memory_bandwidth);
}

std::string streaming(const Samples& samples, const DeviceProfile::Model& device, const BaseProfile* base) {
  if (samples.streaming.empty() && base != nullptr) return "";
  const std::string others = base != nullptr ? "as " + base->name : "assumed";
  StreamingModel model = streaming_model(samples, device, base);
  if (samples.streaming.empty()) return section("streaming", yaml_string(others), to_yaml(model, 2));
  std::string missing, cached;
  for (std::size_t i = 0; i < kStreamingKernels; ++i) {
    const auto kernel = static_cast<Streaming>(i);
    if (std::none_of(samples.streaming.begin(), samples.streaming.end(),
                     [&](const StreamingSample& s) { return s.kernel == kernel; }))
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name_of(kernel));
  }
  for (std::size_t i = 0; i < kStreamingKernels; ++i) {
    if (model.efficiency[i] <= 1) continue;
    cached +=
        fmt::format("{}{} {:.2f}", cached.empty() ? "" : ", ", name_of(static_cast<Streaming>(i)), model.efficiency[i]);
    model.efficiency[i] = 1;
  }
  std::string provenance = missing.empty() ? "measured here" : "measured here; " + others + ": " + missing;
  if (!cached.empty()) provenance += "; small tensors alone moved more than memory does, and count as 1: " + cached;
  return section(
      "streaming", yaml_string(provenance),
      fmt::format("  {}\n", to_yaml(judge_streaming(model, samples.streaming, device.sheet.memory_bandwidth))) +
          to_yaml(model, 2));
}

/// Of the section's operations.
std::string without_in_switch(const std::string& section) {
  const std::size_t from = section.find("  all_reduce:\n"), to = section.find("  all_gather:\n");
  const std::string own = section.substr(from, to - from);
  return section.substr(0, to) + without({"in_switch_from", "in_switch"}, own, 4) + section.substr(to);
}

std::string collectives(const Samples& samples, const FittedNode& node, const BaseProfile* base) {
  const auto has = [&](CollectiveOp op) {
    return std::any_of(samples.collective.begin(), samples.collective.end(),
                       [op](const CollectiveSample& s) { return s.op == op; });
  };
  // The other operations follow from these.
  if (has(CollectiveOp::all_reduce) && has(CollectiveOp::all_gather) && has(CollectiveOp::reduce_scatter) &&
      has(CollectiveOp::all_to_all)) {
    const DeviceProfile::Model* larger = base != nullptr && node.yaml.empty() ? &base->device.model() : nullptr;
    const auto& like = base != nullptr ? base->device.model().collective[0] : CollectiveModel{};
    const bool in_switch = base != nullptr && node.rates == GroupRates::by_law;
    const std::string out = fmt::format(
        "\n{}", fit_collective_section(samples.collective, node.line_rate, in_switch ? like.in_switch_from : 0,
                                       kMeasured, "the samples", node.rates, larger)
                    .yaml);
    return base != nullptr ? without_in_switch(out) : out;
  }
  if (base != nullptr && node.yaml.empty()) return "";
  CollectiveModel assumed;
  assumed.gpus = {2};
  assumed.switch_bytes = {1 << 20};
  assumed.low_latency.rate = {0.3 * node.line_rate};
  assumed.bulk.rate = {0.8 * node.line_rate};
  std::string out = "  gpus: [2]\n";
  for (std::size_t i = 0; i < kCollectiveOps; ++i)
    out += fmt::format("  {}:\n{}", name_of(static_cast<CollectiveOp>(i)), to_yaml(assumed, 4));
  out = section("collectives", "'assumed: 0.8 of the rate of the links; nothing was measured between GPUs'", out);
  return base != nullptr ? without_in_switch(out) : out;
}

}  // namespace

std::string fit_profile(const DeviceFacts& given, const Samples& samples, const BaseProfile* base) {
  DeviceFacts facts = given;
  for (const auto& [what, count] : samples.limited)
    facts.notes.push_back(
        fmt::format("{} samples ran below the highest clock, limited by {}{}", count, what,
                    unlimited(samples.gemm).size() < samples.gemm.size() ? "; products among them are in no fit" : ""));
  const MemoryRate memory = memory_rate(given, samples, base);
  facts.memory_bandwidth = memory.rate;
  const DeviceProfile::Model device = device_of(facts);
  const std::optional<PowerFit> watts =
      facts.power_limit > 0
          ? fit_power(samples.power, facts.boost_hz * 1e-6, base != nullptr ? base->device.power() : PowerModel{})
          : std::nullopt;
  const FittedNode node = fit_node(facts, samples, base);
  const std::string elsewhere = base != nullptr ? "as " + base->name : "as an H100";
  const PeakOf peak = [&](DataType type) { return peak_of(facts, type); };
  return data_sheet(facts, device, base) + memory.line +
         (watts ? power(facts, *watts, base) : sustained(samples, base)) + with_host_link(node.yaml, samples) +
         streaming(samples, device, base) + gemm(samples, device, base) + attention(samples, device, base) +
         collectives(samples, node, base) + scans_section(samples, device.sheet.memory_bandwidth, peak, elsewhere) +
         sparse_section(samples, device.sheet.memory_bandwidth, peak, elsewhere) +
         served_section(facts, samples, device, streaming_model(samples, device, base), base) + host_sections(samples) +
         facts_text(samples);
}

}  // namespace orrery::calibration
