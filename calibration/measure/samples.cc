// CSV tables of measurements, gzipped or not. Plain commas: none of the published tables quotes a field.
#include "calibration/measure/samples.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>

#include "calibration/measure/served_rows.h"
#include "calibration/measure/table.h"
#include "sim/error.h"
#include "sim/text_file.h"

namespace orrery::calibration {
namespace {

using sim::Place;
using sim::UserError;

template <class Name>
bool named(std::string_view text, std::size_t count, const Name& name_at, std::size_t& found) {
  for (found = 0; found < count; ++found)
    if (name_at(found) == text) return true;
  return false;
}

DataType data_type(const TableLine& line) {
  const std::string_view t = line.text("dtype");
  if (t == "bfloat16" || t == "bf16") return DataType::bf16;
  if (t == "float16" || t == "fp16") return DataType::fp16;
  if (t == "float32" || t == "fp32") return DataType::fp32;
  if (t == "fp8" || t == "fp8_e4m3" || t == "fp8_e5m2") return DataType::fp8;
  if (t == "fp8_block") return DataType::fp8_blockwise;
  if (t == "fp8_row") return DataType::fp8_rowwise;
  std::size_t found = 0;
  if (named(
          t, kDataTypes, [](std::size_t i) { return name_of(static_cast<DataType>(i)); }, found))
    return static_cast<DataType>(found);
  line.fail("dtype", "got '" + std::string(t) +
                         "', expected bfloat16, float16, float32, fp8, fp8_e4m3, fp8_e5m2, fp8_block, mxfp8 or nvfp4");
}

CollectiveOp collective(const TableLine& line, const std::string& column) {
  const std::string_view t = line.text(column);
  if (t == "alltoall") return CollectiveOp::all_to_all;
  std::size_t found = 0;
  if (named(
          t, kCollectiveOps, [](std::size_t i) { return name_of(static_cast<CollectiveOp>(i)); }, found))
    return static_cast<CollectiveOp>(found);
  line.fail(column, "got '" + std::string(t) + "', expected all_reduce, all_gather, reduce_scatter, alltoall, ...");
}

void read_gemm(const TableLine& line, Samples& out) {
  Gemm g;
  g.dtype = data_type(line);
  g.m = line.count("m");
  g.n = line.count("n");
  g.k = line.count("k");
  g.cast_input = is_quantised(g.dtype);
  out.gemm.push_back({g, line.number("ms") * 1e-3});
}

void read_attention(const TableLine& line, Samples& out) {
  Attention a;
  if (line.has("dtype")) a.dtype = data_type(line);
  a.batch = line.count("batch");
  a.queries = a.keys = line.count("seq");
  a.heads = line.count("heads");
  a.kv_heads = line.count("kv_heads");
  a.head_dim = line.count("head_dim");
  if (a.heads % a.kv_heads != 0) line.fail("kv_heads", "does not divide heads");
  a.cache_write = true;
  out.attention.push_back({a, line.number("ms") * 1e-3});
}

/// The experts whose first product has no gate, as models publish them: the activation is a squared ReLU (NVIDIA,
/// Nemotron 3: Nano; Super and Ultra, whose experts take 22 of 512). All others of the tables are gated.
bool is_gated(const ExpertLayer& l) {
  return !(l.top_k == 22 && l.experts == 512) && !(l.hidden == 2688 && l.ffn == 1856);
}

double power_law(const TableLine& line) {
  constexpr std::string_view kPowerLaw = "power_law_";
  std::string_view t = line.text("distribution");
  if (t == "balanced") return 0;
  double alpha = 0;
  if (t.starts_with(kPowerLaw)) {
    t.remove_prefix(kPowerLaw.size());
    const auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), alpha);
    if (error == std::errc{} && end == t.data() + t.size() && alpha > 0 && alpha < 10) return alpha;
  }
  line.fail("distribution", "got '" + std::string(line.text("distribution")) +
                                "', expected balanced or power_law_<exponent>, as in power_law_1.2");
}

void read_experts(const TableLine& line, Samples& out) {
  ExpertLayer l;
  l.dtype = data_type(line);
  l.tokens = line.count("tokens");
  l.hidden = line.count("hidden");
  l.ffn = line.count("expert_ffn");
  l.top_k = line.count("top_k");
  l.experts = line.count("experts");
  l.tensor = line.count("moe_tp");
  l.expert_ranks = line.count("moe_ep");
  l.alpha = power_law(line);
  l.gated = is_gated(l);
  constexpr std::int64_t kMost = 1 << 24;
  for (const char* column : {"tokens", "hidden", "expert_ffn"})
    if (line.count(column) > kMost)
      line.fail(column, "got " + std::string(line.text(column)) + ", expected at most 2^24");
  if (l.experts > 65536) line.fail("experts", "got " + std::to_string(l.experts) + ", expected at most 65536");
  if (l.top_k > l.experts)
    line.fail("top_k",
              "got " + std::to_string(l.top_k) + ", expected at most the " + std::to_string(l.experts) + " experts");
  if (l.experts % l.expert_ranks != 0)
    line.fail("moe_ep", "got " + std::to_string(l.expert_ranks) + ", expected a divisor of the " +
                            std::to_string(l.experts) + " experts");
  if (l.tensor > l.ffn) line.fail("moe_tp", "got " + std::to_string(l.tensor) + ", expected at most expert_ffn");
  out.experts.push_back({l, line.number("ms") * 1e-3});
}

auto expert_row(const ExpertSample& s) {
  const ExpertLayer& l = s.shape;
  return std::tuple(l.dtype, l.tokens, l.hidden, l.ffn, l.top_k, l.experts, l.tensor, l.expert_ranks, l.alpha);
}

/// Marks what may have run without its tuning (samples.h).
void mark_tuned(Samples& out) {
  // By type, hidden size and width of a part; by experts of a rank: the layers that ask for that file.
  using Layer = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  using Files = std::map<std::string, std::set<Layer>>;
  std::map<std::tuple<DataType, std::int64_t, std::int64_t>, Files> all;
  std::map<decltype(expert_row(ExpertSample{})), int> kernels;
  const auto folder = [&](const ExpertLayer& l) -> Files& { return all[{l.dtype, l.hidden, l.ffn / l.tensor}]; };
  const auto file = [](const ExpertLayer& l) { return std::to_string(l.experts / l.expert_ranks); };
  std::set<std::tuple<DataType, std::int64_t, std::int64_t, std::int64_t, std::int64_t>> twice;
  const auto layer = [](const ExpertLayer& l) { return std::tuple(l.dtype, l.hidden, l.ffn, l.top_k, l.experts); };
  for (const ExpertSample& s : out.experts) {
    folder(s.shape)[file(s.shape)].insert({s.shape.ffn, s.shape.top_k, s.shape.experts});
    if (++kernels[expert_row(s)] > 1) twice.insert(layer(s.shape));
  }
  for (ExpertSample& s : out.experts) {
    if (s.shape.dtype == DataType::fp8_blockwise) continue;
    const Files& files = folder(s.shape);
    const std::string name = file(s.shape);
    // In order, what begins with a name follows it.
    const auto own = files.find(name), next = std::next(own);
    s.tuned = own->second.size() == 1 && (next == files.end() || !next->first.starts_with(name)) &&
              !twice.contains(layer(s.shape));
  }
}

/// The collector's lists of tokens ended at 65536 before it capped what a power law deals, and end at 16384 since.
void mark_collector(Samples& out) {
  constexpr std::int64_t kLongest = 16384;
  if (std::any_of(out.experts.begin(), out.experts.end(),
                  [](const ExpertSample& s) { return s.shape.tokens > kLongest; }))
    for (ExpertSample& s : out.experts) s.shape.beyond = Beyond::own_rank;
}

/// Where a table holds a layer twice, the slower stays: in NVFP4 and up to 256 experts the collector times two kernels,
/// and throughput's (CUTLASS) takes longer than the one for few tokens, whose row sums no tokens up.
void drop_faster_twins(Samples& out) {
  std::map<decltype(expert_row(ExpertSample{})), double> slowest;
  for (const ExpertSample& s : out.experts) {
    double& seconds = slowest[expert_row(s)];
    seconds = std::max(seconds, s.seconds);
  }
  out.faster_twins =
      std::erase_if(out.experts, [&](const ExpertSample& s) { return s.seconds < slowest.at(expert_row(s)); });
}

constexpr double kScaledFp8 = 1 + 4.0 / 128;  // bytes of an element with its share of a scale for each 128

/// A time that may be 0: none.
double optional_number(const TableLine& line, const std::string& column) {
  return line.text(column) == "0" ? 0.0 : line.number(column);
}

/// DeepEP's own test on random routing: rows to experts in fp8, results back in bf16, on nodes of eight GPUs or trays
/// of four. Between nodes a token stays within four (test_internode.py), and a rank that is done waits for the others.
void read_deepep(const TableLine& line, Samples& out) {
  std::string device(line.text("device"));
  std::replace(device.begin(), device.end(), '_', '-');
  const auto nodes = static_cast<double>(line.count("nodes"));
  const double each = device.starts_with("gb") ? 4 : 8;
  const auto hidden = static_cast<double>(line.count("hidden")), tokens = static_cast<double>(line.count("tokens"));
  const auto top_k = static_cast<double>(line.count("top_k")), experts = static_cast<double>(line.count("experts"));
  if (nodes > 1e6) line.fail("nodes", "got more than a million, expected at most that");
  if (experts > 65536) line.fail("experts", "got more than 65536, expected at most that");
  if (experts < nodes * each || top_k > experts)
    line.fail("experts",
              "got " + std::string(line.text("experts")) + ", expected at least one for each rank and choice");
  constexpr double kMostNodes = 4;
  for (const bool combine : {false, true}) {
    const std::string pass = combine ? "combine" : "dispatch";
    ExchangeSample sample{
        "deepep", device, combine ? ExchangePass::combine : ExchangePass::dispatch,
        even_exchange(tokens, hidden * (combine ? 2 : kScaledFp8), top_k, experts, nodes * each, nodes, kMostNodes),
        1e-6 * (line.number(pass + "_us") + optional_number(line, pass + "_notify_us"))};
    sample.shape.processors = static_cast<double>(line.count(pass + "_sms"));
    out.exchange.push_back(std::move(sample));
  }
}

/// TensorRT-LLM's one-sided exchange in an NVLink domain of GB200, balanced: a token's choices lie on as many ranks as
/// there are, or as it has choices. In NVFP4 the table holds two kernels and does not name them.
void read_one_sided(const TableLine& line, Samples& out) {
  const std::string_view op = line.text("op");
  const DataType type = data_type(line);
  const bool combine = op == "alltoall_combine";
  const auto top_k = static_cast<double>(line.count("top_k")), ranks = static_cast<double>(line.count("ep"));
  const auto tokens = static_cast<double>(line.count("tokens")), hidden = static_cast<double>(line.count("hidden"));
  if ((!combine && op != "alltoall_dispatch") || type == DataType::nvfp4 || line.text("distribution") != "balanced") {
    ++out.other_exchanges;
    return;
  }
  ExchangeSample sample{"nvlink-one-sided",
                        "gb200",
                        combine ? ExchangePass::combine : ExchangePass::dispatch,
                        {},
                        line.number("ms") * 1e-3};
  sample.shape.tokens = tokens;
  sample.shape.row_bytes = hidden * (combine || type == DataType::bf16 ? 2 : 1);
  sample.shape.ranks = ranks;
  sample.shape.copies = std::min(ranks, top_k);
  out.exchange.push_back(std::move(sample));
}

/// `size_column` counts elements of so many bytes.
CollectiveSample collective_sample(const TableLine& line, const std::string& op_column, double seconds,
                                   const std::string& size_column = "bytes", std::int64_t element = 1) {
  const std::int64_t gpus = line.count("gpus");
  if (gpus > 1'000'000) line.fail("gpus", "expected at most a million");
  if (line.count(size_column) > 1'000'000'000'000'000 / element) line.fail(size_column, "expected at most 1e15 bytes");
  CollectiveSample sample{collective(line, op_column), gpus, sim::Bytes(line.count(size_column) * element), seconds,
                          ""};
  if (line.has("device")) sample.device = line.text("device");
  std::replace(sample.device.begin(), sample.device.end(), '_', '-');
  return sample;
}

/// Of several devices: elements of 2 bytes, milliseconds.
void read_device_collective(const TableLine& line, Samples& out) {
  out.collective.push_back(collective_sample(line, "op", line.number("ms") * 1e-3, "elements", 2));
}

void read_collective(const TableLine& line, Samples& out) {
  out.collective.push_back(collective_sample(line, "op", line.number("us") * 1e-6));
}

void read_kernel(const TableLine& line, Samples& out) {
  out.kernel.push_back({std::string(line.text("device")), std::string(line.text("kernel")), line.optional_count("m"),
                        line.optional_count("n"), line.optional_count("k"), line.number("us") * 1e-6});
}

Gemm::Form form_of(const TableLine& line) {
  const std::string_view t = line.text("form");
  if (t == "tn" || t.empty()) return Gemm::Form::forward;
  if (t == "nn") return Gemm::Form::data_gradient;
  if (t == "nt") return Gemm::Form::weight_gradient;
  line.fail("form", "got '" + std::string(t) + "', expected tn, nn or nt");
}

GemmSample measured_gemm(const TableLine& line) {
  Gemm g;
  g.dtype = data_type(line);
  g.form = form_of(line);
  g.m = line.count("m");
  g.n = line.count("n");
  g.k = line.count("k");
  g.batch = line.optional_count("batch", 1);
  const std::string_view name = line.text("name");
  if (!name.empty() && name != "accumulate")
    line.fail("name", "got '" + std::string(name) + "', expected nothing or accumulate");
  g.accumulate = name == "accumulate";
  return {g, line.number("seconds")};
}

/// `batch` experts of m tokens each; the sizes are those of the product in its form.
GroupedSample measured_grouped(const TableLine& line) {
  GroupedGemm g;
  g.dtype = data_type(line);
  g.form = form_of(line);
  const std::int64_t m = line.count("m"), n = line.count("n"), k = line.count("k");
  const bool weight = g.form == Gemm::Form::weight_gradient, data = g.form == Gemm::Form::data_gradient;
  g.out = weight ? m : data ? k : n;
  g.in = data || weight ? n : k;
  const std::int64_t experts = line.count("batch");
  if (experts > 65536) line.fail("batch", "got " + std::to_string(experts) + ", expected at most 65536");
  g.tokens.assign(static_cast<std::size_t>(experts), weight ? k : m);
  const std::string_view name = line.text("name");
  std::size_t found = 0;
  if (!named(
          name, kGroupedKernels, [](std::size_t i) { return name_of(static_cast<GroupedKernel>(i)); }, found))
    line.fail("name", "got '" + std::string(name) + "', expected grouped, loop or streams");
  g.kernel = static_cast<GroupedKernel>(found);
  return {g, line.number("seconds")};
}

Attention attention_of(const TableLine& line) {
  Attention a;
  a.dtype = data_type(line);
  a.batch = line.optional_count("batch", 1);
  a.queries = a.keys = line.count("seq");
  a.heads = line.count("heads");
  a.kv_heads = line.count("kv_heads");
  a.head_dim = line.count("head_dim");
  a.window = line.optional_count("window");
  if (a.heads % a.kv_heads != 0) line.fail("kv_heads", "does not divide heads");
  return a;
}

AttentionSample measured_attention(const TableLine& line) {
  Attention a = attention_of(line);
  a.kernel = AttentionKernel::fused;  // of the library that trains
  const std::string_view name = line.text("name");
  if (name != "forward" && name != "backward")
    line.fail("name", "got '" + std::string(name) + "', expected forward or backward");
  a.backward = name == "backward";
  return {a, line.number("seconds")};
}

void measured_streaming(const TableLine& line, Samples& out) {
  const std::string_view name = line.text("name");
  const double bytes = line.number("bytes"), seconds = line.number("seconds");
  std::size_t found = 0;
  if (named(
          name, kStreamingKernels, [](std::size_t i) { return name_of(static_cast<Streaming>(i)); }, found))
    out.streaming.push_back({static_cast<Streaming>(found), bytes, seconds});
  else
    out.facts.push_back({"streaming", std::string(name), bytes, seconds});
}

PowerSample measured_power(const TableLine& line) {
  PowerSample s;
  const std::string_view name = line.text("name");
  const std::size_t mark = name.rfind('_');
  s.kernel = name.substr(0, mark);
  double percent = 0;
  const std::string_view digits = mark == std::string_view::npos ? std::string_view{} : name.substr(mark + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), percent);
  const bool idle = name == "idle", copy = s.kernel == "copy", product = s.kernel == "gemm";
  if (!idle && (!(copy || product || s.kernel == "attention") || !(percent >= 1 && percent <= 100)))
    line.fail("name", "got '" + std::string(name) +
                          "', expected idle, or gemm, attention or copy with a share of the time, as in gemm_75");
  s.watts = line.number("power_w");
  if (idle) return s;
  s.share = percent / 100;
  s.seconds = line.number("seconds");
  s.sm_mhz = line.text("sm_mhz").empty() ? 0 : line.number("sm_mhz");
  s.dtype = data_type(line);
  if (copy) {
    s.bytes = line.number("bytes");
  } else if (product) {
    const double m = line.number("m"), n = line.number("n"), k = line.number("k");
    s.flops = 2 * m * n * k;
    s.bytes = bytes_of(s.dtype) * (m * k + k * n) + 2 * m * n;
  } else {
    const Attention a = attention_of(line);  // forward, causal
    const auto rows = static_cast<double>(a.batch * a.queries), width = static_cast<double>(a.head_dim);
    s.flops = 2 * rows * static_cast<double>(a.queries * a.heads) * width;
    s.bytes = 2 * rows * width * static_cast<double>(2 * a.heads + 2 * a.kv_heads);
  }
  return s;
}

ScanSample measured_scan(const TableLine& line) {
  const std::string_view name = line.text("name");
  const std::size_t mark = name.rfind('_');
  const std::string_view kind = name.substr(0, mark),
                         pass = mark == std::string_view::npos ? "" : name.substr(mark + 1);
  Scan s;
  std::size_t found = 0;
  const bool convolution = kind == name_of(MixerKernel::convolution);
  if ((pass != "forward" && pass != "backward") ||
      (!convolution &&
       !named(
           kind, std::size(kMeasuredScans), [](std::size_t i) { return kMeasuredScans[i]->name; }, found)))
    line.fail("name",
              "got '" + std::string(name) +
                  "', expected mamba2, gated_delta, kda, lightning, rwkv7 or convolution, then _forward or _backward");
  s.pass = pass == "backward" ? ScanPass::backward : ScanPass::forward;
  s.batch = line.optional_count("batch", 1);
  s.positions = line.count("seq");
  if (convolution) {
    s.kernel = MixerKernel::convolution;
    s.channels = line.count("n");
    s.taps = line.count("k");
  } else {
    s.kind = kMeasuredScans[found];
    s.heads = line.count("heads");
    s.key_heads = line.count("kv_heads");
    s.key_dim = line.count("k");
    s.value_dim = line.count("head_dim");
    s.chunk = s.kind->chunk;
  }
  return {s, line.number("seconds")};
}

SparseSample measured_sparse(const TableLine& line) {
  const std::string_view name = line.text("name");
  const std::size_t mark = name.rfind('_');
  const std::string_view kernel = name.substr(0, mark),
                         pass = mark == std::string_view::npos ? "" : name.substr(mark + 1);
  std::size_t found = 0;
  const bool known = named(
      kernel, std::size(kSparseKernels), [](std::size_t i) { return name_of(kSparseKernels[i]); }, found);
  const bool attends = known && kSparseKernels[found] >= MixerKernel::attention;
  if (!known || !(pass == "forward" || (pass == "backward" && attends)))
    line.fail("name", "got '" + std::string(name) +
                          "', expected index_forward, choice_forward, or attention or block_attention, then _forward "
                          "or _backward");
  SparseKernel s;
  s.kernel = kSparseKernels[found];
  s.pass = pass == "backward" ? ScanPass::backward : ScanPass::forward;
  s.dtype = data_type(line);
  s.chosen = line.count("m");
  s.block = line.count("n");
  s.query_dim = line.count("k");
  s.positions = line.count("seq");
  s.heads = line.count("heads");
  s.key_heads = line.count("kv_heads");
  s.value_dim = line.count("head_dim");
  return {s, line.number("seconds")};
}

/// A row of what `orrery calibrate` wrote.
void read_measured(const TableLine& line, Samples& out) {
  const std::string_view kind = line.text("class");
  const std::string_view limits = line.has("limited") ? line.text("limited") : std::string_view{};
  if (!limits.empty()) ++out.limited[std::string(limits)];
  const bool product = kind == "gemm" || kind == "batched_gemm";
  bool trained = true;
  if (product) {
    const GemmSample sample = measured_gemm(line);
    if (kind == "gemm") add_served_product(sample, out);
    trained = kind != "gemm" || sample.shape.form != Gemm::Form::forward || sample.shape.m >= kFewestTrainedRows;
    if (trained) out.gemm.push_back(sample);
  } else if (kind == "grouped_gemm")
    out.grouped.push_back(measured_grouped(line));
  else if (kind == "attention")
    out.attention.push_back(measured_attention(line));
  else if (kind == "streaming")
    measured_streaming(line, out);
  else if (kind == "sustained")
    out.steady.push_back({data_type(line), line.optional_count("heads") > 0, line.number("seconds")});
  else if (kind == "power")
    out.power.push_back(measured_power(line));
  else if (kind == "scan")
    out.scans.push_back(measured_scan(line));
  else if (kind == "sparse")
    out.sparse.push_back(measured_sparse(line));
  else if (kind == "host" || kind == "interference")
    out.facts.push_back({std::string(kind), std::string(line.text("name")),
                         static_cast<double>(line.optional_count("bytes")), line.number("seconds")});
  else if (kind == "paged_attention" || kind == "experts" || kind == "sampling" ||
           (kind == "collective" && line.text("name") == "all_reduce_graph"))
    read_served(line, out);
  else if (kind == "collective")
    out.collective.push_back(collective_sample(line, "name", line.number("seconds")));
  else
    line.fail("class", "got '" + std::string(kind) +
                           "', expected gemm, batched_gemm, grouped_gemm, attention, streaming, host, sustained, "
                           "power, interference, collective, paged_attention, experts, sampling or scan");
  if (limits.empty()) return;
  if (product && trained) out.gemm.back().limited = true;
  if (kind == "attention") out.attention.back().limited = true;
}

struct Table {
  std::vector<std::string> columns;
  void (*read)(const TableLine&, Samples&);
};

const std::vector<Table>& tables() {
  static const std::vector<Table> all = [] {
    std::vector<std::string> measured;
    for (std::string_view c : fields_of(kMeasuredColumns)) measured.emplace_back(c);
    measured.pop_back();  // tables of before do not say what limited a row
    return std::vector<Table>{
        {{"dtype", "m", "n", "k", "ms"}, read_gemm},
        {{"batch", "seq", "heads", "kv_heads", "head_dim", "ms"}, read_attention},
        {{"op", "gpus", "bytes", "us"}, read_collective},
        {{"dtype", "tokens", "hidden", "expert_ffn", "top_k", "experts", "moe_tp", "moe_ep", "distribution", "ms"},
         read_experts},
        {{"device", "nodes", "hidden", "tokens", "top_k", "experts", "dispatch_sms", "dispatch_us",
          "dispatch_notify_us", "combine_sms", "combine_us", "combine_notify_us"},
         read_deepep},
        {{"op", "dtype", "tokens", "hidden", "top_k", "experts", "ep", "distribution", "ms"}, read_one_sided},
        {{"device", "op", "gpus", "elements", "ms"}, read_device_collective},
        {{"device", "kernel", "m", "n", "k", "us"}, read_kernel},
        {std::move(measured), read_measured}};
  }();
  return all;
}

const Table& table_of(const std::map<std::string, std::size_t>& columns, const std::string& header, const Place& at) {
  for (const Table& t : tables()) {
    bool all = true;
    for (const std::string& c : t.columns) all = all && columns.count(c) == 1;
    if (all) return t;
  }
  throw UserError(at, "header",
                  "got '" + header +
                      "', expected dtype,m,n,k,ms or batch,seq,heads,kv_heads,head_dim,ms or op,gpus,bytes,us "
                      "or device,op,gpus,elements,ms or dtype,tokens,hidden,expert_ffn,top_k,experts,moe_tp,moe_ep,"
                      "distribution,ms or the columns that orrery calibrate writes");
}

}  // namespace

Samples read_samples(const std::string& file) {
  std::istringstream in(whole_text(file));
  std::string text;
  int number = 0;
  bool whole = true;  // the line ends in a line break
  const auto next = [&] {
    if (!std::getline(in, text)) return false;
    ++number;
    whole = !in.eof();
    while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.pop_back();
    return true;
  };
  do {
    if (!next()) throw UserError(Place{file, std::max(number, 1), 1}, "header", "the file is empty");
  } while (text.starts_with('#'));
  const Place header{file, number, 1};
  std::map<std::string, std::size_t> columns;
  for (std::string_view c : fields_of(text))
    if (!columns.emplace(std::string(c), columns.size()).second)
      throw UserError(header, "header", "names the column '" + std::string(c) + "' twice");
  const Table& table = table_of(columns, text, header);
  Samples out;
  while (next()) {
    if (text.empty()) continue;
    // A measurement that was cut off while it was written may read as a smaller number.
    if (!whole && table.read == read_measured)
      throw UserError(Place{file, number, 1}, "line",
                      "the last line is cut off, expected a line break at its end; delete the line");
    table.read(TableLine(file, number, columns, text), out);
  }
  mark_collector(out);
  mark_tuned(out);
  drop_faster_twins(out);
  return out;
}

}  // namespace orrery::calibration
