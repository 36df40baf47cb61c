// The model sections of a profile, from Settings and back to YAML. Bounds are those of profile_keys(), which has been
// over the document; shapes are checked here.
#include <algorithm>
#include <array>
#include <cmath>

#include "calibration/device/keys.h"
#include "calibration/device/profile_model.h"
#include "sim/error.h"

namespace orrery::calibration {

std::vector<double> numbers_at(const sim::Settings& section, std::string_view key) {
  const sim::Settings& list = section.at(key);
  if (!list.is_sequence() || list.item_count() == 0) list.expected("a list of numbers");
  return list.as_numbers();
}

namespace {

using sim::Settings;

double duration_at(const Settings& section, std::string_view key) {
  return sim::to_seconds(section.at(key).as_duration());
}

std::vector<double> rising_at(const Settings& section, std::string_view key) {
  std::vector<double> out = numbers_at(section, key);
  for (std::size_t i = 1; i < out.size(); ++i)
    if (!(out[i] > out[i - 1])) section.at(key).items()[i].expected("more than the one before it");
  return out;
}

/// A fall of the correction steeper than this share of the growth of a size would make larger shapes faster.
constexpr double kSteepestFall = 0.9;

void check_slopes(const Surface& s, const Settings& where) {
  const std::size_t nn = s.n.size(), nk = s.k.size();
  constexpr double kRounded = 1e-3;  // of corrections as profiles write them
  const auto check = [&](double from, double to, double low, double high) {
    if (from - to > kRounded && from - to > kSteepestFall * std::log(high / low) + kRounded)
      where.fail(fmt::format("falls from {:.3f} to {:.3f} between {} and {}: larger shapes would be faster", from, to,
                             low, high));
  };
  for (std::size_t m = 0; m < s.m.size(); ++m)
    for (std::size_t n = 0; n < nn; ++n)
      for (std::size_t k = 0; k < nk; ++k) {
        const double here = s.value[(m * nn + n) * nk + k];
        if (m + 1 < s.m.size()) check(here, s.value[((m + 1) * nn + n) * nk + k], s.m[m], s.m[m + 1]);
        if (n + 1 < nn) check(here, s.value[(m * nn + n + 1) * nk + k], s.n[n], s.n[n + 1]);
        if (k + 1 < nk) check(here, s.value[(m * nn + n) * nk + k + 1], s.k[k], s.k[k + 1]);
      }
}

Surface load_surface(const Settings* section, const char* m, const char* n, const char* k) {
  Surface s;
  if (section == nullptr) return s;
  s.m = rising_at(*section, m);
  s.n = rising_at(*section, n);
  s.k = rising_at(*section, k);
  const Settings& rows = section->at("log_correction");
  const std::size_t expected = s.m.size() * s.n.size();
  if (!rows.is_sequence() || rows.items().size() != expected)
    rows.expected(fmt::format("a list of {}, one for each pair of {} and {}", expected, m, n));
  for (const Settings& row : rows.items()) {
    if (!row.is_sequence() || row.item_count() != s.k.size())
      row.expected(fmt::format("a list of {} numbers, one for each {}", s.k.size(), k));
    const std::vector<double> numbers = row.as_numbers();
    s.value.insert(s.value.end(), numbers.begin(), numbers.end());
  }
  s.prepare();
  if (section->checked_as() != kCheckedProfile) check_slopes(s, rows);
  return s;
}

/// A surface with a row of numbers for each k and m; without `k`, one knot there.
Surface load_detail(const Settings* section) {
  Surface s;
  if (section == nullptr) return s;
  s.m = rising_at(*section, "m");
  s.n = rising_at(*section, "n");
  s.k = {1};
  if (section->find("k") != nullptr) s.k = rising_at(*section, "k");
  const Settings& rows = section->at("log_correction");
  if (!rows.is_sequence() || rows.items().size() != s.m.size() * s.k.size())
    rows.expected(fmt::format("a list of {}, one for each k and m", s.m.size() * s.k.size()));
  s.value.resize(s.size());
  for (std::size_t row = 0; row < rows.items().size(); ++row) {
    const Settings& list = rows.items()[row];
    if (!list.is_sequence() || list.item_count() != s.n.size())
      list.expected(fmt::format("a list of {} numbers, one for each n", s.n.size()));
    const std::vector<double> numbers = list.as_numbers();
    const std::size_t k = row / s.m.size(), m = row % s.m.size();
    for (std::size_t n = 0; n < s.n.size(); ++n) s.value[(m * s.n.size() + n) * s.k.size() + k] = numbers[n];
  }
  s.prepare();
  if (section->checked_as() != kCheckedProfile) check_slopes(s, rows);
  return s;
}

std::string list(const std::vector<double>& values, const char* format) {
  std::string out = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    out += i == 0 ? "" : ", ";
    out += fmt::format(fmt::runtime(format), values[i]);
  }
  return out + "]";
}

std::string surface_yaml(const Surface& s, const std::string& pad, const char* m, const char* n, const char* k) {
  if (s.value.empty()) return "";
  std::string out = pad + "surface:  # ln(time / structure) between these sizes, trilinear in their logarithms\n";
  out += fmt::format("{}  {}: {}\n{}  {}: {}\n{}  {}: {}\n{}  log_correction:\n", pad, m, list(s.m, "{:.0f}"), pad, n,
                     list(s.n, "{:.0f}"), pad, k, list(s.k, "{:.0f}"), pad);
  for (std::size_t row = 0; row < s.m.size() * s.n.size(); ++row) {
    const auto first = s.value.begin() + static_cast<std::ptrdiff_t>(row * s.k.size());
    out += fmt::format("{}    - {}\n", pad, list({first, first + static_cast<std::ptrdiff_t>(s.k.size())}, "{:.3f}"));
  }
  return out;
}

std::string detail_yaml(const Surface& s, const std::string& pad, const char* key) {
  if (s.value.empty()) return "";
  std::string out = fmt::format(
      "{}{}:  # added to the surface; a row for each m, a column for each n, a block for each k\n", pad, key);
  out += fmt::format("{0}  m: {1}\n{0}  n: {2}\n{0}  k: {3}\n{0}  log_correction:\n", pad, list(s.m, "{:.0f}"),
                     list(s.n, "{:.0f}"), list(s.k, "{:.0f}"));
  for (std::size_t k = 0; k < s.k.size(); ++k)
    for (std::size_t m = 0; m < s.m.size(); ++m) {
      std::vector<double> row;
      for (std::size_t n = 0; n < s.n.size(); ++n) row.push_back(s.value[(m * s.n.size() + n) * s.k.size() + k]);
      out += fmt::format("{}    - {}{}\n", pad, list(row, "{:.3f}"), m == 0 ? fmt::format("  # k {:.0f}", s.k[k]) : "");
    }
  return out;
}

constexpr double kCastBytes = 3;  // 16 bit in, 8 bit out

Protocol load_protocol(const Settings& s, std::size_t groups) {
  Protocol p;
  p.base = duration_at(s, "base");
  p.hop = duration_at(s, "hop");
  p.overlap = s.get_number("overlap", 0.0);
  const Settings& rates = s.at("rate");
  if (!rates.is_sequence() || rates.items().size() != groups)
    rates.expected(fmt::format("a list of {} rates, one for each group size", groups));
  for (const Settings& r : rates.items()) p.rate.push_back(r.as_bandwidth().value());
  return p;
}

std::string protocol_yaml(const Protocol& p) {
  std::string rates;
  for (double r : p.rate)  // GPUs that share PCIe send few GB/s
    rates += fmt::format("{}{:.{}f} GB/s", rates.empty() ? "" : ", ", r / 1e9, r < 10e9 ? 3 : 1);
  return fmt::format("{{base: {:.2f} us, hop: {:.3f} us, overlap: {:.3f}, rate: [{}]}}", p.base * 1e6, p.hop * 1e6,
                     p.overlap, rates);
}

/// Factors of the forms that have one; the forward pass's is 1.
void load_forms(const Settings* section, GemmModel& g) {
  if (section == nullptr) return;
  g.form_factor[1] = section->get_number("data_gradient", 1.0);
  g.form_factor[2] = section->get_number("weight_gradient", 1.0);
}

std::vector<Tile> load_tiles(const Settings& tiles) {
  if (!tiles.is_sequence() || tiles.items().empty()) tiles.expected("a list of {m, n, rate, setup}");
  std::vector<Tile> out;
  for (const Settings& t : tiles.items())
    out.push_back({static_cast<double>(t.at("m").as_int()), static_cast<double>(t.at("n").as_int()),
                   t.at("rate").as_number(), duration_at(t, "setup")});
  return out;
}

std::string tiles_yaml(const std::vector<Tile>& tiles, const std::string& pad) {
  std::string out = pad + "tiles:  # rate: share of peak in the inner loop; setup: prologue and epilogue of a tile\n";
  for (const Tile& t : tiles)
    out += fmt::format("{}  - {{m: {:.0f}, n: {:.0f}, rate: {:.4f}, setup: {:.3f} us}}\n", pad, t.m, t.n, t.rate,
                       t.setup * 1e6);
  return out;
}

ServedExperts load_served(const Settings& s) {
  ServedExperts out;
  out.fixed = duration_at(s, "fixed");
  out.choice = s.at("choice").as_number() * 1e-9;
  out.score = s.at("score").as_number() * 1e-9;
  out.expert = s.at("expert").as_number() * 1e-9;
  out.gather = s.at("gather").as_number();
  out.activate = s.at("activate").as_number();
  out.scatter = s.at("scatter").as_number();
  if (s.find("sort") != nullptr) out.sort = duration_at(s, "sort");
  if (s.find("unfused") != nullptr) out.unfused = duration_at(s, "unfused");
  out.unfused_token = s.get_number("unfused_token", 0.0) * 1e-9;
  return out;
}

}  // namespace

GemmModel with_type(GemmModel g, const DeviceProfile::Model& device, DataType type) {
  g.peak = device.sheet.peak[static_cast<std::size_t>(type)];
  g.element_bytes = operand_bytes(type);
  return g;
}

GemmModel load_gemm(const Settings& s, const DeviceProfile::Model& device, DataType type) {
  GemmModel g = with_type({}, device, type);
  g.processors = static_cast<double>(device.sheet.processors);
  g.memory_bandwidth = device.sheet.memory_bandwidth;
  g.launch = duration_at(s, "launch");
  g.quantisation = s.at("quantisation").as_number();
  g.memory_efficiency = s.at("memory_efficiency").as_number();
  g.join_time = duration_at(s, "join_time");
  g.join_efficiency = s.at("join_efficiency").as_number();
  g.accumulate_exposed = s.get_number("accumulate_exposed", 0.0);
  g.tiles = load_tiles(s.at("tiles"));
  g.surface = load_surface(s.find("surface"), "m", "n", "k");
  g.detail = load_detail(s.find("detail"));
  g.row_step = s.get_number("row_step", 1.0);
  if (const Settings* streams = s.find("streams"))
    g.streams = {streams->at("together").as_number(), streams->at("hidden").as_number()};
  g.ragged = load_detail(s.find("ragged"));
  load_forms(s.find("forms"), g);
  if (s.find("cast_rate") != nullptr) {
    g.cast.launch = duration_at(s, "cast_launch");
    g.cast.per_element = kCastBytes / s.at("cast_rate").as_bandwidth().value();
  }
  return g;
}

void load_experts(const Settings* section, DeviceProfile::Model& device) {
  std::array<const Settings*, kDataTypes> sections{};
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    GroupedModel& g = device.experts.products[t];
    g = grouped_from(device.gemm[t]);
    if (section == nullptr) continue;
    const Settings* own = section->find(name_of(type));
    const Settings* like = is_quantised(type) ? section->find("fp8") : nullptr;
    const Settings* from = own != nullptr ? own : like != nullptr ? like : section->find("bf16");
    if (from == nullptr) continue;
    g.launch = duration_at(*from, "launch");
    g.quantisation = from->at("quantisation").as_number();
    g.memory_efficiency = from->at("memory_efficiency").as_number();
    g.best_rate = from->get_number("best_rate", 1.0);
    sections[t] = from;
    const auto first = static_cast<std::size_t>(std::find(sections.begin(), sections.end(), from) - sections.begin());
    const bool read = first < t;  // for another type
    g.tiles = read ? device.experts.products[first].tiles : load_tiles(from->at("tiles"));
    g.surface = read ? device.experts.products[first].surface : load_surface(from->find("surface"), "m", "n", "k");
    device.experts.around[t] = read ? device.experts.around[first] : load_served(from->at("served"));
    if (own != nullptr || type == DataType::fp16) device.error.grouped[t] = load_uncertainty(from->find("error"));
  }
}

AttentionModel load_attention(const Settings& s, const DeviceProfile::Model& device) {
  AttentionModel a;
  a.peak = device.sheet.peak[static_cast<std::size_t>(DataType::bf16)];
  a.processors = static_cast<double>(device.sheet.processors);
  a.memory_bandwidth = device.sheet.memory_bandwidth;
  // A multiply-add counts as two.
  a.scores.operations = device.sheet.peak[static_cast<std::size_t>(DataType::fp32)] / 2;
  a.launch = duration_at(s, "launch");
  const Settings& rate = s.at("rate");
  a.rate_64 = rate.at("head_dim_64").as_number();
  a.rate_128 = rate.at("head_dim_128").as_number();
  a.setup = duration_at(s, "setup");
  a.quantisation = s.at("quantisation").as_number();
  a.memory_efficiency = s.at("memory_efficiency").as_number();
  a.backward_ratio = s.at("backward_ratio").as_number();
  a.cache.launch = s.find("cache_launch") != nullptr ? duration_at(s, "cache_launch") : 0;
  a.cache.efficiency = s.find("cache_efficiency") != nullptr ? s.at("cache_efficiency").as_number() : 0.5;
  a.surface = load_surface(s.find("surface"), "queries", "sequences_heads", "head_dim");
  return a;
}

namespace {

/// What `section` says of a kernel; what it leaves out stays as it is.
void load_rates(const Settings* section, std::string_view kernel, MixerRates& out) {
  const Settings* own = section == nullptr ? nullptr : section->find(kernel);
  if (own == nullptr) return;
  if (own->find("launch") != nullptr) out.launch = duration_at(*own, "launch");
  out.bandwidth = own->get_number("bandwidth", out.bandwidth);
  out.rate = own->get_number("rate", out.rate);
}

}  // namespace

const MixerRates* MixerModel::own(const ScanKind* kind) const {
  const auto at = static_cast<std::size_t>(std::find(std::begin(kMeasuredScans), std::end(kMeasuredScans), kind) -
                                           std::begin(kMeasuredScans));
  return at < kScanKinds && scans[at] ? &*scans[at] : nullptr;
}

/// Where a profile says nothing, as on an H100 (calibration/profiles/h100-sxm-80gb.yaml).
MixerModel load_mixers(const Settings* scans, const Settings* sparse) {
  MixerModel out;
  out.rates = {MixerRates{2.6e-6, 0.70, 0}, MixerRates{3.3e-6, 0.49, 0.5}, MixerRates{3.3e-6, 0.7, 0.69},
               MixerRates{3.3e-6, 0.12, 0}, MixerRates{3.3e-6, 0.7, 0.65}, {}};
  for (std::size_t i = 0; i < kMixerKernels; ++i) {
    const auto kernel = static_cast<MixerKernel>(i);
    if (kernel == MixerKernel::block_attention) out.rates[i] = out.rates[i - 1];  // as of single keys
    load_rates(kernel < MixerKernel::index ? scans : sparse, name_of(kernel), out.rates[i]);
  }
  for (std::size_t i = 0; i < kScanKinds; ++i) {
    if (scans == nullptr || scans->find(kMeasuredScans[i]->name) == nullptr) continue;
    out.scans[i] = out.rates[static_cast<std::size_t>(MixerKernel::chunks)];
    load_rates(scans, kMeasuredScans[i]->name, *out.scans[i]);
  }
  return out;
}

StreamingModel load_streaming(const Settings& s) {
  StreamingModel out;
  out.floor = duration_at(s, "floor");
  const Settings& efficiency = s.at("efficiency");
  const Settings* elements = s.find("elements");
  for (std::size_t i = 0; i < kStreamingKernels; ++i) {
    const auto kernel = static_cast<Streaming>(i);
    const Settings* share = efficiency.find(name_of(kernel));
    const double assumed = share == nullptr ? assumed_efficiency(kernel) : 0;
    out.efficiency[i] = assumed > 0 ? assumed : efficiency.at(name_of(kernel)).as_number();
    const Settings* rate = elements == nullptr ? nullptr : elements->find(name_of(kernel));
    out.elements[i] = rate != nullptr ? rate->as_number() : elements_per_processor(kernel);
  }
  return out;
}

std::array<CollectiveModel, kCollectiveOps> load_collectives(const Settings& s) {
  const std::vector<double> gpus = rising_at(s, "gpus");
  std::array<CollectiveModel, kCollectiveOps> out;
  for (std::size_t i = 0; i < kCollectiveOps; ++i) {
    const Settings& op = s.at(name_of(static_cast<CollectiveOp>(i)));
    CollectiveModel& m = out[i];
    m.gpus = gpus;
    m.low_latency = load_protocol(op.at("low_latency"), gpus.size());
    m.bulk = load_protocol(op.at("bulk"), gpus.size());
    const Settings& sizes = op.at("switch");
    if (!sizes.is_sequence() || sizes.items().size() != gpus.size())
      sizes.expected(fmt::format("a list of {} sizes, one for each group size", gpus.size()));
    for (const Settings& b : sizes.items()) m.switch_bytes.push_back(static_cast<double>(b.as_bytes().value()));
    m.in_switch_from = static_cast<double>(op.get_int("in_switch_from", 0));
    if (const Settings* in_switch = op.find("in_switch")) m.in_switch = load_protocol(*in_switch, 1);
  }
  return out;
}

std::string to_yaml(const GemmModel& g, int indent) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  std::string out = fmt::format(
      "{0}launch: {1:.3f} us\n{0}quantisation: {2:.3f}\n{0}memory_efficiency: {3:.3f}\n{0}join_time: {4:.3f} us\n"
      "{0}join_efficiency: {5:.3f}\n",
      pad, g.launch * 1e6, g.quantisation, g.memory_efficiency, g.join_time * 1e6, g.join_efficiency);
  if (g.cast.per_element > 0)
    out += fmt::format("{0}cast_launch: {1:.3f} us\n{0}cast_rate: {2:.1f} GB/s\n", pad, g.cast.launch * 1e6,
                       kCastBytes / g.cast.per_element / 1e9);
  if (g.accumulate_exposed > 0) out += fmt::format("{}accumulate_exposed: {:.3f}\n", pad, g.accumulate_exposed);
  if (g.form_factor[1] != 1 || g.form_factor[2] != 1)
    out +=
        fmt::format("{0}forms: {{data_gradient: {1:.3f}, weight_gradient: {2:.3f}}}  # time over the forward form's\n",
                    pad, g.form_factor[1], g.form_factor[2]);
  out += tiles_yaml(g.tiles, pad);
  return out + surface_yaml(g.surface, pad, "m", "n", "k") + detail_yaml(g.detail, pad, "detail") +
         ragged_yaml(g, indent);
}

std::string ragged_yaml(const GemmModel& g, int indent) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  const std::string step = g.row_step > 1 ? fmt::format("{}row_step: {:.0f}\n", pad, g.row_step) : std::string();
  return step + detail_yaml(g.ragged, pad, "ragged");
}

std::string to_yaml(const GroupedModel& g, const ServedExperts& s, int indent) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  return fmt::format(
             "{0}launch: {1:.3f} us\n{0}quantisation: {2:.3f}\n{0}memory_efficiency: {3:.3f}\n{0}best_rate: {11:.3f}\n"
             "{0}served: {{fixed: {4:.3f} us, choice: {5:.6f}, score: {6:.6f}, expert: {7:.4f}, gather: {8:.3f}, "
             "activate: {9:.3f}, scatter: {10:.3f}, sort: {12:.3f} us, unfused: {13:.3f} us, unfused_token: {14:.3f}}}"
             "  # ns, and shares of memory bandwidth\n",
             pad, g.launch * 1e6, g.quantisation, g.memory_efficiency, s.fixed * 1e6, s.choice * 1e9, s.score * 1e9,
             s.expert * 1e9, s.gather, s.activate, s.scatter, g.best_rate, s.sort * 1e6, s.unfused * 1e6,
             s.unfused_token * 1e9) +
         tiles_yaml(g.tiles, pad) + surface_yaml(g.surface, pad, "m", "n", "k");
}

std::string to_yaml(const AttentionModel& a, int indent) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  return fmt::format(
             "{0}launch: {1:.3f} us\n{0}rate: {{head_dim_64: {2:.4f}, head_dim_128: {3:.4f}}}\n{0}setup: {4:.3f} us\n"
             "{0}quantisation: {5:.3f}\n{0}memory_efficiency: {6:.3f}\n{0}backward_ratio: {7:.3f}\n{0}cache_launch: "
             "{8:.3f} us\n"
             "{0}cache_efficiency: {9:.3f}\n",
             pad, a.launch * 1e6, a.rate_64, a.rate_128, a.setup * 1e6, a.quantisation, a.memory_efficiency,
             a.backward_ratio, a.cache.launch * 1e6, a.cache.efficiency) +
         surface_yaml(a.surface, pad, "queries", "sequences_heads", "head_dim");
}

std::string to_yaml(const StreamingModel& m, int indent) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  std::string out =
      fmt::format("{0}floor: {1:.3f} us\n{0}efficiency:  # share of data sheet memory bandwidth\n", pad, m.floor * 1e6);
  for (std::size_t i = 0; i < kStreamingKernels; ++i)
    out += fmt::format("{}  {}: {:.3f}\n", pad, name_of(static_cast<Streaming>(i)), m.efficiency[i]);
  return out;
}

std::string to_yaml(const CollectiveModel& m, int indent) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  std::string sizes;
  for (double b : m.switch_bytes) sizes += fmt::format("{}{:.1f} kB", sizes.empty() ? "" : ", ", b / 1e3);
  std::string out = fmt::format("{0}low_latency: {1}\n{0}bulk: {2}\n{0}switch: [{3}]\n", pad,
                                protocol_yaml(m.low_latency), protocol_yaml(m.bulk), sizes);
  if (m.in_switch_from > 0) out += fmt::format("{}in_switch_from: {:.0f}\n", pad, m.in_switch_from);
  if (!m.in_switch.rate.empty()) out += fmt::format("{}in_switch: {}\n", pad, protocol_yaml(m.in_switch));
  return out;
}

}  // namespace orrery::calibration
