// Profiles: the shipped ones load and answer sanely, broken ones are refused where they are broken.
#include <algorithm>
#include <set>

#include "calibration/device/keys.h"
#include "calibration/device/optimise.h"
#include "calibration/measure/samples.h"
#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"
#include "tests/skipped.h"
#include "topology/cluster.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::sim::Settings;
using orrery::sim::UserError;

std::string complaint(const Settings& document) {
  try {
    DeviceProfile::load(document);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

Settings text(const std::string& value) { return orrery::scenarios::parse_yaml("x: " + value, "test.yaml").at("x"); }

double seconds(Duration d) { return orrery::sim::to_seconds(d); }

Attention attention(std::int64_t seq, std::int64_t heads, std::int64_t dim) {
  Attention a;
  a.queries = a.keys = seq;
  a.heads = a.kv_heads = heads;
  a.head_dim = dim;
  return a;
}

void collect_paths(const Settings& node, const std::string& at, std::set<std::string>& out) {
  for (const auto& [key, value] : node.members()) {
    const std::string path = at.empty() ? key : at + "." + key;
    out.insert(path);
    if (value.is_mapping()) collect_paths(value, path, out);
  }
}

}  // namespace

TEST_CASE("every shipped profile loads under its own name with a provenance") {
  const auto names = names_in("calibration/profiles");
  CHECK(names.size() >= 7);
  for (const std::string& name : names) {
    const DeviceProfile p = profile(name);
    CHECK(p.name() == name);
    CHECK_FALSE(p.provenance().empty());
    CHECK(p.memory().value() >= 16'000'000'000);
    CHECK(p.peak(DataType::bf16).value() > 5e13);  // of a GeForce card of 2020, 71 TFLOP/s
  }
}

TEST_CASE("operands carry the scales of their format") {
  CHECK(operand_bytes(DataType::bf16) == 2);
  CHECK(operand_bytes(DataType::fp8) == 1);
  CHECK(operand_bytes(DataType::mxfp8) == (32 + 1) / 32.0);            // E8M0 for 32 elements
  CHECK(operand_bytes(DataType::fp8_blockwise) == (128 + 4) / 128.0);  // fp32 for 128
  CHECK(operand_bytes(DataType::nvfp4) == (16 / 2 + 1) / 16.0);        // E4M3 for 16
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    CHECK(is_quantised(type) == (operand_bytes(type) < 2));
    CHECK(std::string(name_of(type)) == data_type_names()[t]);
  }
}

TEST_CASE("a device multiplies what its data sheet says, and scales in software what it can") {
  const DeviceProfile ampere = profile("a100-sxm-80gb"), hopper = profile("h100-sxm-80gb"),
                      blackwell = profile("b200-sxm-180gb");
  for (const DataType type : {DataType::fp8, DataType::fp8_blockwise, DataType::fp8_rowwise}) {
    CHECK_FALSE(ampere.has(type));
    CHECK(hopper.has(type));
    CHECK(hopper.peak(type) == hopper.peak(DataType::fp8));
  }
  for (const DataType type : {DataType::mxfp8, DataType::nvfp4}) {
    CHECK_FALSE(hopper.has(type));
    CHECK(blackwell.has(type));
  }
  // Twice the rate with half the bytes: a large product in 4 bits is faster, and not more than twice.
  Gemm g{DataType::fp8, 8192, 8192, 8192};
  const double eight = seconds(blackwell.gemm(g));
  g.dtype = DataType::nvfp4;
  const double four = seconds(blackwell.gemm(g));
  CHECK(four < eight);
  CHECK(four > eight / 2.5);
}

TEST_CASE("Blackwell's casts and products take what Transformer Engine's own were published to take") {
  // ROCm/TransformerEngine, pull request 598, on a B200: 8192 x 8192 elements of bf16 to mxfp8, by rows and columns,
  // and by columns alone.
  const DeviceProfile b200 = profile("b200-sxm-180gb");
  const double elements = 8192.0 * 8192, operand = operand_bytes(DataType::mxfp8);
  const auto cast = [&](double written) {
    return seconds(b200.streaming(Streaming::cast_transpose, elements * (2 + written)));
  };
  CHECK(cast(2 * operand) == Approx(52.34e-6).epsilon(0.1));
  CHECK(cast(operand) == Approx(39.61e-6).epsilon(0.1));
  // NVIDIA/TransformerEngine of August 2026, docs/examples/gemm_profiling: 15,872 tokens through four forward products
  // on a B300, casts apart; of mxfp8's time about a hundredth goes to scales.
  const DeviceProfile b300 = profile("b300-sxm-288gb");
  const auto layer = [&](DataType type) {
    double sum = 0;
    for (const auto& [n, k] : {std::pair{12288, 4096}, {4096, 4096}, {16384, 4096}, {4096, 16384}})
      sum += seconds(b300.gemm({type, 15872, n, k}));
    return sum;
  };
  CHECK(layer(DataType::bf16) == Approx(4.250e-3).epsilon(0.1));
  CHECK(layer(DataType::fp8) == Approx(2.158e-3).epsilon(0.1));
  CHECK(layer(DataType::mxfp8) == Approx(2.365e-3).epsilon(0.1));
  CHECK(layer(DataType::nvfp4) == Approx(1.254e-3).epsilon(0.1));
  // All three tables but one are this B300's: what it says of mxfp8 is its share of fp8, (2.365 - 0.021) / 2.158.
  CHECK(layer(DataType::mxfp8) / layer(DataType::fp8) == Approx(1.09).epsilon(0.01));
}

TEST_CASE("a V100 has fp16 alone of the types of 16 bits, and a DGX-1's links") {
  // Data sheet: 125 TFLOP/s in tensor cores, 15.7 in fp32, 900 GB/s, 300 W, six links of 25 GB/s each way.
  const DeviceProfile v100 = profile("v100-sxm-32gb"), small = profile("v100-sxm-16gb"),
                      a100 = profile("a100-sxm-80gb");
  CHECK(v100.processors() == 80);
  CHECK(v100.peak(DataType::fp16).value() == 125e12);
  CHECK(v100.peak(DataType::fp32).value() == 15.7e12);
  CHECK(v100.memory_bandwidth().value() == 900e9);
  CHECK(v100.power().limit == 300);
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    INFO(name_of(type));
    CHECK(v100.has(type) == (type == DataType::fp16 || type == DataType::fp32));
  }
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  for (const auto& [device, sold] : {std::pair{&v100, 32 * kGiB}, {&small, 16 * kGiB}}) {
    const double share = static_cast<double>(device->memory().value()) / sold;
    CHECK(share > 0.98);  // less what the driver keeps
    CHECK(share < 1);
  }
  // A large product takes the share of the roofline that it takes of an A100's, which sustains four fifths of its peak.
  Gemm g{DataType::fp16, 8192, 8192, 8192};
  const double ideal = 2.0 * 8192 * 8192 * 8192 / 125e12;
  CHECK(seconds(v100.gemm(g)) > ideal / 0.9);
  CHECK(seconds(v100.gemm(g)) < ideal / 0.75);
  CHECK(seconds(v100.gemm(g)) == Approx(seconds(a100.gemm(g)) * 312 / 125).epsilon(0.05));
  CHECK(v100.uncertainty(g) == Approx(0.25));  // of what was transferred
  // Simple kernels of memory: as long as on an A100 for each byte a second less.
  const auto beyond_floor = [](const DeviceProfile& p) {
    return seconds(p.streaming(Streaming::copy, 1e9) - p.streaming(Streaming::copy, 0));
  };
  CHECK(beyond_floor(v100) == Approx(beyond_floor(a100) * 2039 / 900).epsilon(1e-6));

  const auto node = orrery::topology::load_node_spec(profile_document("v100-sxm-32gb").at("node"));
  REQUIRE(node.kind == orrery::topology::NodeSpec::Kind::mesh);
  std::vector<double> out(8, 0.0);
  double between_faces = 0;
  for (const auto& link : node.mesh) {
    out.at(static_cast<std::size_t>(link.a)) += link.rate.value();
    out.at(static_cast<std::size_t>(link.b)) += link.rate.value();
    if (link.a < 4 && link.b >= 4) between_faces += link.rate.value();
  }
  for (const double rate : out) CHECK(rate == 6 * 25e9);
  CHECK(between_faces == 6 * 25e9);  // two double and two single links
  // No ring is faster than its links: one between GPUs 0 and 1, four from each of 0 to 3, six from each of all.
  for (const auto& [gpus, links] : {std::pair{2, 1}, {4, 4}, {8, 6}})
    CHECK(v100.node_collective(CollectiveOp::all_reduce, gpus, Bytes(1 << 30)).rate.value() < links * 20e9);
}

TEST_CASE("a device without bf16 says fp16, and one without either is refused") {
  Settings document = profile_document("v100-sxm-32gb");
  document.set_path("peak", text("{fp32: 15.7 TFLOP/s}"));
  CHECK(complaint(document).find("bf16") != std::string::npos);
  document.set_path("peak", text("{fp16: 125 TFLOP/s, bf16: 100 TFLOP/s}"));
  CHECK(DeviceProfile::load(document).has(DataType::bf16));
  CHECK(DeviceProfile::load(document).peak(DataType::fp32).value() == 100e12);
}

TEST_CASE("an L40S has fp8, GDDR6 and PCIe") {
  // Data sheet: half of the sparse rates; 864 GB/s, 350 W, PCIe 4 of 16 lanes and no NVLink.
  const DeviceProfile l40s = profile("l40s-48gb"), a100 = profile("a100-sxm-80gb");
  CHECK(l40s.processors() == 142);
  CHECK(l40s.peak(DataType::bf16).value() == 362e12);
  CHECK(l40s.peak(DataType::fp16).value() == 362e12);
  CHECK(l40s.peak(DataType::fp8).value() == 733e12);
  CHECK(l40s.peak(DataType::fp32).value() == 91.6e12);
  CHECK(l40s.memory_bandwidth().value() == 864e9);
  CHECK(l40s.power().limit == 350);
  CHECK(l40s.has(DataType::fp8));
  CHECK_FALSE(l40s.has(DataType::mxfp8));
  CHECK_FALSE(l40s.has(DataType::nvfp4));
  CHECK(static_cast<double>(l40s.memory().value()) < 48e9);
  CHECK(static_cast<double>(l40s.memory().value()) > 47e9);
  Gemm g{DataType::bf16, 8192, 8192, 8192};
  const double ideal = 2.0 * 8192 * 8192 * 8192 / 362e12, sixteen = seconds(l40s.gemm(g));
  CHECK(sixteen > ideal / 0.9);
  CHECK(sixteen < ideal / 0.75);
  CHECK(sixteen == Approx(seconds(a100.gemm(g)) * 312 / 362).epsilon(0.05));
  CHECK(l40s.uncertainty(g) == Approx(0.25));
  g.dtype = DataType::fp8;
  CHECK(seconds(l40s.gemm(g)) == Approx(sixteen * 362 / 733).epsilon(0.05));
  const auto node = orrery::topology::load_node_spec(profile_document("l40s-48gb").at("node"));
  CHECK(node.kind == orrery::topology::NodeSpec::Kind::pcie);
  CHECK(node.gpus == 8);
  CHECK(node.rate.value() == 32e9);
}

TEST_CASE("every number of a shipped profile says where it comes from") {
  // Measured here, fitted to published measurements, transferred from another device, from a data sheet, or assumed.
  const auto known = [](const std::string& text) {
    for (const char* kind : {"measured here", "fitted", "transferred", "data sheet", "assumed"})
      if (text.find(kind) != std::string::npos) return true;
    return false;
  };
  for (const std::string& name : names_in("calibration/profiles")) {
    const Settings document = profile_document(name);
    INFO(name);
    CHECK(known(document.at("provenance").text()));  // of what stands at the top: the data sheet
    for (const auto& [key, section] : document.members()) {
      if (!section.is_mapping() || key == "peak") continue;
      INFO(key);
      if (key != "gemm") CHECK(known(section.get_text("provenance", "")));
      for (const auto& [type, gemm] : section.members())
        if (key == "gemm") CHECK(known(gemm.get_text("provenance", "")));
    }
  }
}

TEST_CASE("an MI210, one MI250X die with 104 of its 110 CUs, is predicted from the MI250X's profile") {
  const std::string file = table("kernels-a100-mi210");
  if (file.empty()) {
    orrery::tests::skipped("no table of MI210 kernels beside the source tree");
    return;
  }
  Settings document = profile_document("mi250x-gcd");
  document.set_path("processors", text("104"));
  document.set_path("peak.bf16", text("181.05 TFLOP/s"));  // 191.5 * 104 / 110
  document.set_path("peak.fp16", text("181.05 TFLOP/s"));
  const DeviceProfile p = DeviceProfile::load(document).isolated();
  constexpr double kFramework = 28e-6;  // seconds of launch that each row of the table includes
  std::vector<double> gemm;
  for (const KernelSample& s : read_samples(file).kernel) {
    if (s.device != "mi210") continue;
    if (s.kernel == "matmul") {
      Gemm g;
      g.dtype = DataType::fp16;
      g.m = s.m;
      g.n = s.n;
      g.k = s.k;
      gemm.push_back((seconds(p.gemm(g)) + kFramework) / s.seconds - 1);
    }
  }
  const FitError e = summarise(gemm);
  CHECK(e.samples == 22);
  CHECK(e.median_ape < 1.5);
  CHECK(e.p90_ape < 5);
}

TEST_CASE("every key of a shipped profile is documented") {
  std::set<std::string> documented;
  for (const orrery::sim::Key& doc : profile_keys()) documented.insert(doc.path);
  for (const std::string& name : names_in("calibration/profiles")) {
    std::set<std::string> used;
    collect_paths(profile_document(name), "", used);
    for (const std::string& path : used) {
      const bool inside = path.starts_with("node.");  // keys of the topology room
      INFO(name << ": " << path);
      CHECK((inside || documented.count(path) == 1));
    }
  }
}

TEST_CASE("a broken profile is refused at its place") {
  const Settings good = profile_document("a100-sxm-80gb");
  REQUIRE(complaint(good).empty());
  const auto with = [&](const std::string& path, const std::string& value) {
    Settings broken = good;
    broken.set_path(path, text(value));
    return complaint(broken);
  };
  CHECK(with("processors", "0").find("processors") != std::string::npos);
  CHECK(with("memory_bandwidth", "-3 TB/s").find("memory_bandwidth") != std::string::npos);
  CHECK(with("memory_bandwidth", "3").find("memory_bandwidth") != std::string::npos);
  CHECK(with("peak.bf16", ".nan").find("peak.bf16") != std::string::npos);
  CHECK(with("gemm.bf16.quantisation", "1.5").find("quantisation") != std::string::npos);
  CHECK(with("gemm.bf16.tiles", "[]").find("tiles") != std::string::npos);
  CHECK(with("gemm.bf16.surface.m", "[512, 512]").find("surface.m") != std::string::npos);
  CHECK(with("gemm.bf16.surface.log_correction", "[[1]]").find("log_correction") != std::string::npos);
  CHECK(with("streaming.efficiency.gelu", "0").find("streaming.efficiency.gelu") != std::string::npos);
  CHECK(with("collectives.all_reduce.bulk.rate", "[200 GB/s]").find("bulk.rate") != std::string::npos);
  CHECK(with("collectives.gpus", "[8, 4, 2]").find("collectives.gpus") != std::string::npos);
  CHECK(with("sustained.matmul", "1.2").find("sustained.matmul") != std::string::npos);
  CHECK(with("gemm.bf16.quantization", "1").find("quantisation") != std::string::npos);  // the nearest known key
  CHECK(with("gemm.bf16.launch", ".inf us").find("gemm.bf16.launch") != std::string::npos);
  CHECK(with("gemm.bf16.launch", "-1 us").find("gemm.bf16.launch") != std::string::npos);
  CHECK(with("gemm.bf16.launch", "1 parsec").find("gemm.bf16.launch") != std::string::npos);
  CHECK(with("gemm.bf16.detail.k", "[4096, 768]").find("detail.k") != std::string::npos);
  CHECK(with("gemm.bf16.detail.log_correction", "[[.nan]]").find("log_correction") != std::string::npos);
  CHECK(with("gemm.bf16.forms", "{weight_gradient: 0}").find("weight_gradient") != std::string::npos);
  CHECK(with("gemm.bf16.forms", "{weight_gradients: 1}").find("weight_gradient") != std::string::npos);
  CHECK(with("gemm.bf16.error.p90_pct", "-2").find("p90_pct") != std::string::npos);
  CHECK(with("attention.rate.head_dim_64", ".nan").find("head_dim_64") != std::string::npos);
  CHECK(with("streaming.floor", "-1 us").find("streaming.floor") != std::string::npos);
  CHECK(with("collectives.all_reduce.switch", "[1 MB, 1 MB, -1 MB]").find("switch") != std::string::npos);
  // A correction that falls faster than the work grows would make larger shapes faster.
  CHECK(with("gemm.bf16.surface", "{m: [512, 1024], n: [512], k: [512], log_correction: [[0.5], [-0.5]]}")
            .find("faster") != std::string::npos);
}

TEST_CASE("attention: bounds, windows, causality, backward") {
  for (const std::string& name : names_in("calibration/profiles")) {
    const DeviceProfile p = profile(name);
    INFO(name);
    for (const std::int64_t seq : {1, 512, 2048, 32768}) {
      Attention a = attention(seq, 32, 128);
      const double s = static_cast<double>(seq);
      const double causal_flops = 4 * 32.0 * 128 * (s * (s + 1) / 2);
      const double t = seconds(p.attention(a));
      CHECK(t * p.peak(DataType::bf16).value() > causal_flops);
      a.causal = false;
      CHECK(seconds(p.attention(a)) >= t * 0.999);
      a.causal = true;
      a.backward = true;
      CHECK(seconds(p.attention(a)) > t);
    }
    // Long sequences: work is quadratic, so twice the sequence takes nearly four times as long (rates still ramp a
    // little).
    const double ratio =
        seconds(p.attention(attention(32768, 32, 128))) / seconds(p.attention(attention(16384, 32, 128)));
    CHECK(ratio > 3.4);
    CHECK(ratio < 4.3);
    // A window of an eighth leaves (1/8)(2 - 1/8) = 0.23 of the causal pairs; blocks on the diagonal add a little, as
    // does a launch, which is as long on faster devices.
    Attention windowed = attention(16384, 32, 128);
    windowed.window = 2048;
    const double share = seconds(p.attention(windowed)) / seconds(p.attention(attention(16384, 32, 128)));
    CHECK(share > 0.23);
    CHECK(share < 0.33);
    // Backward: 2.5 times the FLOPs at 0.8 to 0.87 of the rate (FlashAttention-2).
    Attention back = attention(16384, 32, 128);
    back.backward = true;
    const double slower = seconds(p.attention(back)) / seconds(p.attention(attention(16384, 32, 128)));
    CHECK(slower > 2.5 / 0.9);
    CHECK(slower < 2.5 / 0.75);
  }
}

TEST_CASE("FlashAttention 1 runs long sequences at the shares of peak that the profile gives it") {
  for (const char* name : {"a100-sxm-80gb", "h100-sxm-80gb"}) {
    const DeviceProfile device = profile(name);
    const Settings rates = profile_document(name).at("attention_kernels").at("flash_1");
    Attention shape = attention(65536, 16, 128);
    shape.kernel = AttentionKernel::flash_1;
    // Half of 4 h s^2 d is causal. 16 heads of 512 blocks of queries are dealt out in whole waves; what is left, under
    // 1 %, is the setup of a block and the diagonal, done whole.
    const double processors = static_cast<double>(device.processors());
    const double waves = std::ceil(16 * 512 / processors) * processors / (16 * 512);
    const double flops = waves * 2.0 * 16 * 65536 * 65536 * 128, peak = device.peak(DataType::bf16).value();
    INFO(name);
    const double forward = flops / (rates.at("forward").as_number(0, 1) * peak);
    CHECK(seconds(device.attention(shape)) == Approx(forward).epsilon(0.01));
    // Five matrix products for two.
    shape.backward = true;
    const double backward = 2.5 * flops / (rates.at("backward").as_number(0, 1) * peak);
    CHECK(seconds(device.attention(shape)) == Approx(backward).epsilon(0.01));
    Attention fused = shape;
    fused.kernel = AttentionKernel::fused;
    CHECK(device.attention(fused) < device.attention(shape));
  }
  // Where a profile knows of no such kernel, its own stand in.
  Attention shape = attention(4096, 16, 128);
  const Duration own = profile("mi300x").attention(shape);
  shape.kernel = AttentionKernel::flash_1;
  CHECK(profile("mi300x").attention(shape) == own);
}

TEST_CASE(
    "dropout inside FlashAttention 1 costs the random numbers of every score that a block visits, in both passes") {
  const DeviceProfile device = profile("a100-sxm-80gb");
  // Four sequences of 2048 with 32 heads: a block of 128 queries visits 64 keys more than the 1024.5 that count on
  // average. 108 processors of 64 integer lanes at 1.41 GHz take 68 operations for 8 scores.
  const double scores = 4 * 32 * 2048 * (1024.5 + 64), rate = 108 * 64 * 1.41e9 / (68.0 / 8);
  for (const bool backward : {false, true}) {
    Attention shape = attention(2048, 32, 128);
    shape.batch = 4;
    shape.backward = backward;
    shape.kernel = AttentionKernel::flash_1;
    const double without = seconds(device.attention(shape));
    shape.dropout = true;
    CHECK(seconds(device.attention(shape)) - without == Approx(scores / rate).epsilon(0.002));
    shape.kernel = AttentionKernel::fused;  // the tables of these kernels know nothing of dropout
    const Duration fused = device.attention(shape);
    shape.dropout = false;
    CHECK(device.attention(shape) == fused);
  }
}

TEST_CASE("shares of peak of other attention kernels are refused where they cannot be") {
  Settings document = profile_document("a100-sxm-80gb");
  document.set_path("attention_kernels.flash_1.forward", text("2.5"));
  CHECK(complaint(document).find("forward") != std::string::npos);
  document.set_path("attention_kernels.flash_1.forward", text("0"));
  CHECK(complaint(document).find("0.01 to 2") != std::string::npos);
}

TEST_CASE("attention never gets faster with more work") {
  for (const std::string& name : names_in("calibration/profiles")) {
    const DeviceProfile p = profile(name);
    Random random(3);
    double worst = 0;
    for (int i = 0; i < 5000; ++i) {
      Attention a = attention(random.size(1, 40000), random.size(1, 128), i % 2 == 0 ? 64 : 128);
      a.kv_heads = 1;
      a.batch = random.size(1, 64);
      Attention b = a;
      if (i % 3 == 0)
        b.batch = random.size(static_cast<double>(a.batch), 2.0 * static_cast<double>(a.batch));
      else if (i % 3 == 1)
        b.heads = random.size(static_cast<double>(a.heads), 2.0 * static_cast<double>(a.heads));
      else
        b.queries = b.keys = random.size(static_cast<double>(a.keys), 2.0 * static_cast<double>(a.keys));
      worst = std::max(worst, seconds(p.attention(a)) / seconds(p.attention(b)) - 1);
    }
    INFO(name);
    CHECK(worst < 0.05);
  }
}

TEST_CASE("streaming kernels: a floor, then a rate below the data sheet's") {
  for (const std::string& name : names_in("calibration/profiles")) {
    const DeviceProfile p = profile(name);
    for (std::size_t i = 0; i < kStreamingKernels; ++i) {
      const auto kernel = static_cast<Streaming>(i);
      const double floor = seconds(p.streaming(kernel, 0)), large = seconds(p.streaming(kernel, 1e9));
      CHECK(floor > 1e-6);
      CHECK(floor < 2e-5);
      CHECK(large > 1e9 / p.memory_bandwidth().value());
      // Linear in between.
      CHECK(seconds(p.streaming(kernel, 5e8)) == Approx((floor + large) / 2).epsilon(1e-6));
    }
  }
}

TEST_CASE("kernels of PyTorch's that go by elements take as long as on an H200, and as long a processor elsewhere") {
  struct Measured {
    Streaming kernel;
    double elements, bytes_each, seconds;
  };
  // PyTorch 2.11: rows of 4096, bf16 but where 12 bytes are moved; 8 of 128 and of 256 scores of 8192 tokens.
  constexpr double kFew = 65536.0 * 4096, kMany = 98304.0 * 4096;
  const DeviceProfile h200 = profile("h200-sxm-141gb"), h20 = profile("h20-sxm-96gb");
  for (const Measured& m :
       {Measured{Streaming::scatter_add, kFew, 6, 1018e-6}, Measured{Streaming::scatter_add, kMany, 6, 1533e-6},
        Measured{Streaming::scatter_add, kFew, 12, 930e-6}, Measured{Streaming::scatter_add, kMany, 12, 1469e-6},
        Measured{Streaming::index_add, kFew, 6, 2232e-6}, Measured{Streaming::index_add, kMany, 6, 3376e-6},
        Measured{Streaming::strided_cast, kFew, 6, 1081e-6}, Measured{Streaming::strided_cast, kMany, 6, 1620e-6},
        Measured{Streaming::top_k, 8192.0 * 128, 4, 60e-6}, Measured{Streaming::top_k, 8192.0 * 256, 4, 108e-6},
        Measured{Streaming::rank_order, kFew, 2, kFew * 2 / 1.2e12},
        Measured{Streaming::ordered_sum, kFew, 6, kFew * 6 / 2.15e12}, Measured{Streaming::copy, kFew, 4, 287e-6},
        Measured{Streaming::copy, kMany, 4, 427e-6}}) {
    CAPTURE(name_of(m.kernel), m.elements);
    const double bytes = m.elements * m.bytes_each, time = seconds(h200.streaming(m.kernel, bytes, m.elements));
    CHECK(time == Approx(m.seconds).epsilon(0.1));
    if (m.kernel == Streaming::copy) continue;
    // By bytes, where these take longer.
    CHECK(h200.streaming(m.kernel, 1e3 * bytes, m.elements) == h200.streaming(Streaming::optimizer, 1e3 * bytes));
    const double floor = seconds(h200.streaming(m.kernel, 0, 0));
    CHECK(seconds(h20.streaming(m.kernel, bytes, m.elements)) ==
          Approx(floor + (time - floor) * 132 / 78).epsilon(1e-3));
  }
  CHECK(h200.streaming(Streaming::rank_order, 2 * kMany, kMany) ==
        h200.streaming(Streaming::rank_order, 4 * kMany, kMany));
  Settings document = profile_document("h200-sxm-141gb");
  document.set_path("streaming.elements.scatter_add", text("4e9"));
  CHECK(seconds(DeviceProfile::load(document).streaming(Streaming::scatter_add, 0, kMany)) ==
        Approx(seconds(h200.streaming(Streaming::scatter_add, 0, kMany)) / 2).epsilon(0.01));
}

TEST_CASE("the sustained factor slows matrix products, not the launch") {
  Settings document = profile_document("a100-sxm-80gb");
  document.set_path("sustained.matmul", text("0.5"));
  const DeviceProfile slow = DeviceProfile::load(document);
  Gemm g;
  g.m = g.n = g.k = 8192;
  const double isolated = seconds(slow.isolated().gemm(g)), sustained = seconds(slow.gemm(g));
  CHECK(sustained == Approx(2 * isolated).epsilon(0.01));
  CHECK(sustained < 2 * isolated);
}
