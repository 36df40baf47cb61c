// DeviceProfile: the data sheet and the answers. Clocks: a kernel of a long step takes its isolated time divided by the
// clock that the device's power limit leaves the step (power.h) and, where its document says so, by the sustained
// factor of its class; except the launch, which does not depend on power.
#include "calibration/device/profile.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "calibration/device/keys.h"
#include "calibration/device/profile_model.h"
#include "calibration/device/serving_kernels.h"
#include "sim/error.h"
#include "sim/real.h"

namespace orrery::calibration {
namespace {

using sim::Settings;

std::size_t index(DataType t) { return static_cast<std::size_t>(t); }

sim::Duration within_longest(double seconds) {
  SIM_CHECK(std::isfinite(seconds) && seconds >= 0, "a kernel of {} s", seconds);
  return sim::seconds(std::min(seconds, kLongestKernel));
}

void load_data_sheet(const Settings& document, DeviceProfile::Model& m) {
  m.sheet.processors = document.at("processors").as_int();
  const Settings& peak = document.at("peak");
  // Volta has fp16 alone of the two types of 16 bits, other devices both.
  const Settings* half = peak.find("bf16") == nullptr ? peak.find("fp16") : nullptr;
  m.sheet.peak.fill((half != nullptr ? *half : peak.at("bf16")).as_flop_rate().value());
  m.sheet.has.fill(false);
  m.sheet.has[index(DataType::fp32)] = m.sheet.has[index(DataType::fp16)] = true;
  m.sheet.has[index(DataType::bf16)] = half == nullptr;
  // Scales of blocks and rows need no unit of their own where fp8 has one: kernels apply them to partial sums
  // (DeepGEMM).
  for (const DataType t : {DataType::fp8, DataType::fp8_blockwise, DataType::fp8_rowwise})
    if (const Settings* p = peak.find("fp8")) {
      m.sheet.peak[index(t)] = p->as_flop_rate().value();
      m.sheet.has[index(t)] = true;
    }
  for (std::size_t t = 0; t < kDataTypes; ++t)
    if (const Settings* p = peak.find(data_type_names()[t])) {
      m.sheet.peak[t] = p->as_flop_rate().value();
      m.sheet.has[t] = true;
    }
  if (const Settings* p = peak.find("unaligned")) m.sheet.unaligned = p->as_flop_rate().value();
  m.sheet.memory = static_cast<double>(document.at("memory").as_bytes().value());
  m.sheet.memory_bandwidth = document.at("memory_bandwidth").as_bandwidth().value();
}

void load_sustained(const Settings& document, DeviceProfile::Model& m) {
  const Settings* s = document.find("sustained");
  if (s == nullptr) return;
  m.sustained.matmul = s->get_number("matmul", 1.0);
  m.sustained.fp8 = s->get_number("fp8", m.sustained.matmul);
  m.sustained.attention = s->get_number("attention", m.sustained.matmul);
}

void load_power(const Settings& document, std::int64_t processors, PowerModel& power) {
  const Settings* s = document.find("power");
  if (s == nullptr) return;
  power.limit = s->at("limit").as_watts();
  power.standing = s->at("standing").as_watts();
  power.active = s->at("active").as_watts();
  power.per_byte = s->at("per_byte").as_joules();
  power.exchange = std::min(1.0, kCollectiveProcessors / static_cast<double>(processors));
  power.attention = s->get_number("attention", power.attention);
  power.product_clock = s->get_number("product_clock", power.product_clock);
  power.exponent = s->get_number("exponent", power.exponent);
  power.governs = s->get_bool("governs", true);
  // Ten picojoules a bit between packages of a board (Arunkumar et al., MCM-GPU, ISCA 2017, table 2); to a NIC and out
  // of it, twice that.
  constexpr double kPerLinkByte = 80e-12, kPerNicByte = 160e-12;
  const auto or_else = [&](const char* key, double (Settings::*read)() const, double fallback) {
    const Settings* member = s->find(key);
    return member != nullptr ? (member->*read)() : fallback;
  };
  power.per_link_byte = or_else("per_link_byte", &Settings::as_joules, kPerLinkByte);
  power.per_nic_byte = or_else("per_nic_byte", &Settings::as_joules, kPerNicByte);
  power.host = or_else("host", &Settings::as_watts, 0);
  power.conversion = s->get_number("conversion", 1);
  const Settings& per_flop = s->at("per_flop");
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    const Settings* own = per_flop.find(name_of(type));
    const Settings* like = is_quantised(type) ? per_flop.find("fp8") : nullptr;
    power.per_flop[t] = (own != nullptr ? *own : like != nullptr ? *like : per_flop.at("bf16")).as_joules();
  }
}

void load_gemms(const Settings& section, DeviceProfile::Model& m) {
  // Types without a section of their own run like bf16 at their peak, fp16 in the same kernels, the others assumed;
  // other types with scales like fp8, where it was measured.
  std::array<const Settings*, kDataTypes> sections{};
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    const Settings* own = section.find(name_of(type));
    const Settings* like = is_quantised(type) ? section.find("fp8") : nullptr;
    const Settings& from = own != nullptr ? *own : like != nullptr ? *like : section.at("bf16");
    sections[t] = &from;
    const auto first = static_cast<std::size_t>(std::find(sections.begin(), sections.end(), &from) - sections.begin());
    m.gemm[t] = first < t ? with_type(m.gemm[first], m, type) : load_gemm(from, m, type);
    if (own != nullptr || type == DataType::fp16) m.error.gemm[t] = load_uncertainty(from.find("error"));
  }
}

/// Of a type that runs like fp8, whose kernels read more scales.
void load_mxfp8_products(const Settings& document, DeviceProfile::Model& m) {
  const Settings* s = document.find("mxfp8_products");
  if (s == nullptr || document.at("gemm").find("mxfp8") != nullptr) return;
  m.gemm[index(DataType::mxfp8)].form_factor = {s->get_number("forward", 1.0), s->get_number("data_gradient", 1.0),
                                                s->get_number("weight_gradient", 1.0)};
}

using sim::real;

}  // namespace

DeviceProfile DeviceProfile::load(const sim::Settings& document) {
  if (!document.is_mapping()) document.expected("a device profile: a mapping of keys");
  if (document.checked_as() != kCheckedProfile) profile_keys().check(document);
  auto m = std::make_shared<Model>();
  m->name = document.at("name").text();
  m->provenance = document.get_text("provenance", "");
  load_data_sheet(document, *m);
  load_sustained(document, *m);
  load_power(document, m->sheet.processors, m->power);
  load_gemms(document.at("gemm"), *m);
  load_mxfp8_products(document, *m);
  load_experts(document.find("experts"), *m);
  m->attention = load_attention(document.at("attention"), *m);
  m->error.attention = load_uncertainty(document.at("attention").find("error"));
  if (const Settings* kernels = document.find("attention_kernels")) load_attention_kernels(*kernels, *m);
  m->streaming = load_streaming(document.at("streaming"));
  m->error.streaming = load_uncertainty(document.at("streaming").find("error"));
  m->mixers = load_mixers(document.find("scans"), document.find("sparse"));
  m->host = load_measured_host(document);
  if (const Settings* serving = document.find("serving")) {
    serving_keys().check(*serving);
    m->serving = *serving;
  }
  m->collective = load_collectives(document.at("collectives"));
  for (std::size_t i = 0; i < kCollectiveOps; ++i)
    m->error.collective[i] =
        load_uncertainty(document.at("collectives").at(name_of(static_cast<CollectiveOp>(i))).find("error"));
  DeviceProfile out;
  out.model_ = std::move(m);
  return out;
}

const std::string& DeviceProfile::name() const { return model_->name; }
std::int64_t DeviceProfile::processors() const { return model_->sheet.processors; }
FlopRate DeviceProfile::peak(DataType t) const { return FlopRate(model_->sheet.peak[index(t)]); }
bool DeviceProfile::has(DataType t) const { return model_->sheet.has[index(t)]; }
Bytes DeviceProfile::memory() const { return Bytes(static_cast<std::int64_t>(model_->sheet.memory)); }
Bandwidth DeviceProfile::memory_bandwidth() const { return Bandwidth(model_->sheet.memory_bandwidth); }
const std::string& DeviceProfile::provenance() const { return model_->provenance; }

DeviceProfile DeviceProfile::isolated() const {
  auto m = std::make_shared<Model>(*model_);
  m->sustained.matmul = m->sustained.fp8 = m->sustained.attention = 1;
  DeviceProfile out;
  out.model_ = std::move(m);
  return out;
}

const PowerModel& DeviceProfile::power() const { return model_->power; }

double DeviceProfile::product_speed(DataType type) const {
  return model_->power.product_speed(clock_) * (is_quantised(type) ? model_->sustained.fp8 : model_->sustained.matmul);
}

DeviceProfile DeviceProfile::at_clock(double clock) const {
  SIM_CHECK(clock > 0 && clock <= 1, "a clock of {}", clock);
  DeviceProfile out = *this;
  out.clock_ = clock;
  return out;
}

Duration DeviceProfile::gemm(const Gemm& g) const {
  SIM_CHECK(g.m >= 1 && g.n >= 1 && g.k >= 1 && g.batch >= 1, "GEMM of {} x {} x {}, batch {}", g.m, g.n, g.k, g.batch);
  const GemmModel& model = model_->gemm[index(g.dtype)];
  const double isolated = model.seconds({real(g.m), real(g.n), real(g.k), real(g.batch), g.accumulate, g.cast_input,
                                         g.form, static_cast<double>(bytes_of(g.sum))});
  const double factor = product_speed(g.dtype);
  const double time = model.launch + std::max(0.0, isolated - model.launch) / factor;
  if (g.aligned || !(model_->sheet.unaligned > 0) || bytes_of(g.dtype) != 2) return within_longest(time);
  return within_longest(
      std::max(time, 2 * real(g.m) * real(g.n) * real(g.k) * real(g.batch) / model_->sheet.unaligned));
}

Duration DeviceProfile::attention(const Attention& a) const {
  SIM_CHECK(a.batch >= 1 && a.queries >= 1 && a.keys >= 1 && a.heads >= 1 && a.kv_heads >= 1 && a.head_dim >= 1 &&
                a.window >= 0,
            "attention of {} x {} queries, {} keys, {} heads, {} kv heads, head dim {}, window {}", a.batch, a.queries,
            a.keys, a.heads, a.kv_heads, a.head_dim, a.window);
  const AttentionModel::Shape shape{real(a.batch),    real(a.queries),  real(a.keys),   real(a.heads),
                                    real(a.kv_heads), real(a.head_dim), real(a.window), a.causal,
                                    a.backward,       a.cache_write,    a.dropout,      a.score_operations};
  if (const AttentionModel* other = model_->other(a.kernel)) {
    const double full = other->seconds(shape);
    return within_longest(other->launch + std::max(0.0, full - other->launch) / clock_);
  }
  const AttentionModel& model = model_->attention;
  const double isolated = model.seconds(shape);
  return within_longest(model.launch + std::max(0.0, isolated - model.launch) / (clock_ * model_->sustained.attention));
}

/// Launches do not go with the clock, memory neither; products in chunks do.
Duration DeviceProfile::scan(const Scan& shape) const {
  return mixer(shape.kernel, work_of(shape), DataType::bf16, shape.kind);
}

Duration DeviceProfile::mixer(MixerKernel kernel, const MixerWork& work, DataType type, const ScanKind* kind) const {
  const MixerRates* own = kernel == MixerKernel::chunks ? model_->mixers.own(kind) : nullptr;
  const MixerRates& rates = own != nullptr ? *own : model_->mixers.rates[static_cast<std::size_t>(kernel)];
  const double sheet = model_->sheet.peak[index(has(type) ? type : DataType::bf16)];
  return within_longest(
      seconds_of(work, rates, model_->sheet.memory_bandwidth, sheet * clock_ * model_->sustained.attention));
}

bool DeviceProfile::has(const ScanKind& kind) const {
  return model_ != nullptr && model_->mixers.own(&kind) != nullptr;
}

bool DeviceProfile::has(AttentionKernel kernel) const {
  return kernel == AttentionKernel::fused || kernel == AttentionKernel::served || model_->other(kernel) != nullptr;
}

Duration DeviceProfile::streaming(Streaming kernel, double bytes, double elements) const {
  SIM_CHECK(std::isfinite(bytes) && bytes >= 0, "a streaming kernel of {} bytes", bytes);
  SIM_CHECK(std::isfinite(elements) && elements >= 0, "a streaming kernel of {} elements", elements);
  return within_longest(model_->streaming.floor +
                        std::max(seconds_of_bytes(kernel, bytes), seconds_of_elements(kernel, elements) / clock_));
}

double DeviceProfile::seconds_of_bytes(Streaming kernel, double bytes) const {
  return bytes / (model_->streaming.efficiency[static_cast<std::size_t>(kernel)] * model_->sheet.memory_bandwidth);
}

double DeviceProfile::seconds_of_elements(Streaming kernel, double elements) const {
  const double rate = model_->streaming.elements[static_cast<std::size_t>(kernel)] * real(model_->sheet.processors);
  return rate > 0 ? elements / rate : 0;
}

bool DeviceProfile::goes_by_elements(Streaming kernel, double bytes, double elements) const {
  return seconds_of_elements(kernel, elements) > seconds_of_bytes(kernel, bytes);
}

double DeviceProfile::uncertainty(const Gemm& g) const {
  const double flops = 2 * real(g.m) * real(g.n) * real(g.k) * real(g.batch);
  return model_->error.gemm[index(g.dtype)].at(kByFlops.of(flops), {real(g.m), real(g.n), real(g.k)});
}

double DeviceProfile::uncertainty(const Attention& a) const {
  // A few rates for all shapes, from whole steps or from a figure: what these leave open.
  constexpr double kOtherKernels = 0.15;
  if (model_->other(a.kernel) != nullptr) return kOtherKernels;
  const double pairs = a.causal ? real(a.queries) * real(a.keys) / 2 : real(a.queries) * real(a.keys);
  const double flops = 4 * real(a.batch) * real(a.heads) * real(a.head_dim) * pairs;
  const double forward = model_->error.attention.at(kByFlops.of(flops),
                                                    {real(a.queries), real(a.batch) * real(a.heads), real(a.head_dim)});
  // One ratio for all shapes stands for the backward pass. FlashAttention-2's ranges over +-10 % with the sequence
  // (arXiv 2307.08691, figures 4 to 6).
  constexpr double kBackwardRatio = 0.1;
  return a.backward ? std::hypot(forward, kBackwardRatio) : forward;
}

double DeviceProfile::uncertainty(Streaming, double bytes) const {
  return model_->error.streaming.at(kByBytes.of(bytes), {std::max(1.0, bytes), 1, 1});
}

double DeviceProfile::uncertainty(CollectiveOp op, std::int64_t gpus, Bytes size) const {
  if (gpus <= 1) return 0;
  const double bytes = real(size.value());
  return model_->error.collective[static_cast<std::size_t>(op)].at(kByBytes.of(bytes),
                                                                   {real(gpus), std::max(1.0, bytes), 1});
}

CollectiveTiming DeviceProfile::node_collective(CollectiveOp op, std::int64_t gpus, Bytes size) const {
  SIM_CHECK(gpus >= 1 && size.value() >= 0, "a collective of {} GPUs over {} bytes", gpus, size.value());
  return model_->collective[static_cast<std::size_t>(op)].timing(op, real(gpus), real(size.value()));
}

bool DeviceProfile::reduces_in_switch(std::int64_t gpus) const {
  const double from = model_->collective[static_cast<std::size_t>(CollectiveOp::all_reduce)].in_switch_from;
  return from > 0 && real(gpus) >= from;
}

}  // namespace orrery::calibration
