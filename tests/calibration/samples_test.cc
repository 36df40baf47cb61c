// Fits: optimisers find known answers, tables are read strictly, and shipped profiles predict the published tables as
// well as they claim.
#include "calibration/measure/samples.h"

#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "calibration/measure/fit.h"
#include "calibration/measure/scan_cases.h"
#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"
#include "tests/skipped.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::sim::UserError;

std::string complaint(const std::string& csv) {
  const auto file =
      std::filesystem::temp_directory_path() / ("orrery_samples_" + std::to_string(std::hash<std::string>{}(csv)));
  std::ofstream(file) << csv;
  std::string out;
  try {
    read_samples(file.string());
  } catch (const UserError& e) {
    out = e.what();
  }
  std::filesystem::remove(file);
  return out;
}

struct Bound {
  double median, p90;
};

struct Device {
  const char* profile;
  const char* table;
  Bound bf16, fp8, attention;
};

// What the fits have to keep: the cross-validated errors that the profiles state, rounded up.
constexpr Device kDevices[] = {{"a100-sxm-80gb", "a100", {1.5, 7}, {0, 0}, {2, 7}},
                               {"h100-sxm-80gb", "h100", {2, 8}, {1.5, 6}, {2.5, 8}},
                               {"h200-sxm-141gb", "h200", {2, 7}, {1.5, 5.5}, {2, 7}},
                               {"b200-sxm-180gb", "b200", {2.5, 9}, {2.3, 7}, {2, 7}}};

bool missing(const std::string& file, const std::string& what) {
  if (file.empty()) orrery::tests::skipped("no table of " + what + " beside the source tree");
  return file.empty();
}

double relative(orrery::sim::Duration predicted, double measured) {
  return orrery::sim::to_seconds(predicted) / measured - 1;
}

void check_bound(const std::vector<double>& errors, const Bound& bound) {
  const FitError e = summarise(errors);
  CHECK(e.median_ape < bound.median);
  CHECK(e.p90_ape < bound.p90);
  CHECK(std::fabs(e.bias) < 1.0);
}

}  // namespace

TEST_CASE("tables are read gzipped too, and a stream that ends early is refused") {
  const auto file = std::filesystem::temp_directory_path() / "orrery_samples.csv.gz";
  const std::string table = "dtype,m,n,k,ms\nnvfp4,512,1024,2048,0.5\nfp8_block,512,1024,2048,0.6\nbfloat16,8,8,8,1\n";
  const gzFile out = gzopen(file.c_str(), "wb");
  gzwrite(out, table.data(), static_cast<unsigned>(table.size()));
  gzclose(out);
  const Samples samples = read_samples(file.string());
  REQUIRE(samples.gemm.size() == 3);
  CHECK(samples.gemm[0].shape.dtype == DataType::nvfp4);
  CHECK(samples.gemm[1].shape.dtype == DataType::fp8_blockwise);
  // Published tables of types with scales time the cast too.
  CHECK((samples.gemm[0].shape.cast_input && samples.gemm[1].shape.cast_input && !samples.gemm[2].shape.cast_input));
  CHECK(samples.gemm[1].seconds == Approx(0.6e-3));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 10);
  std::string error;
  try {
    read_samples(file.string());
  } catch (const UserError& e) {
    error = e.what();
  }
  std::filesystem::remove(file);
  CHECK(error.find("got a damaged gzip stream, expected a whole one") != std::string::npos);
}

TEST_CASE("a table of several devices says whose collective each row is: elements of two bytes") {
  const auto file = std::filesystem::temp_directory_path() / "orrery_devices.csv";
  std::ofstream(file) << "device,op,gpus,elements,ms\nb300_sxm,alltoall,4,1024,0.02\nl40s,all_reduce,8,4096,0.1\n";
  const Samples samples = read_samples(file.string());
  std::filesystem::remove(file);
  REQUIRE(samples.collective.size() == 2);
  CHECK(samples.collective[0].device == "b300-sxm");
  CHECK(samples.collective[0].op == CollectiveOp::all_to_all);
  CHECK(samples.collective[0].bytes.value() == 2048);
  CHECK(samples.collective[0].seconds == Approx(20e-6));
  CHECK(samples.collective[1].device == "l40s");
  CHECK(complaint("device,op,gpus,elements,ms\nl40s,all_reduce,8,1e15,0.1\n").find("at most 1e15 bytes") !=
        std::string::npos);
}

TEST_CASE("Nelder-Mead finds the minimum of a banana valley") {
  const auto rosenbrock = [](const std::vector<double>& x) {
    return 100 * std::pow(x[1] - x[0] * x[0], 2) + std::pow(1 - x[0], 2);
  };
  const auto found = nelder_mead(rosenbrock, {-1.2, 1}, {0.5, 0.5}, 5000);
  CHECK(found[0] == Approx(1).epsilon(1e-3));
  CHECK(found[1] == Approx(1).epsilon(1e-3));
}

TEST_CASE("Levenberg-Marquardt finds a law through outliers") {
  // y = a x^b; every seventh point is off by a factor of three, which an absolute error does not follow.
  const LogErrors errors = [](const std::vector<double>& p, std::vector<double>& out) {
    out.clear();
    for (int i = 1; i <= 70; ++i) {
      const double measured = std::log(5.0) + 1.5 * std::log(i) + (i % 7 == 0 ? std::log(3.0) : 0.0);
      out.push_back(p[0] + p[1] * std::log(i) - measured);
    }
  };
  const LogFit fit = levenberg_marquardt(errors, {0.0, 0.0}, 100);
  CHECK(std::exp(fit.parameters[0]) == Approx(5).epsilon(0.02));
  CHECK(fit.parameters[1] == Approx(1.5).epsilon(0.02));
}

TEST_CASE("Cholesky solves a small system") {
  // [[4, 2], [2, 3]] x = [10, 9] has x = [1.5, 2].
  const auto x = solve_spd({4, 2, 2, 3}, {10, 9});
  CHECK(x[0] == Approx(1.5));
  CHECK(x[1] == Approx(2));
}

TEST_CASE("a fit recovers a model from its own times") {
  GemmModel truth = gemm_start(300e12, 100, 2e12, DataType::bf16);
  // Rates and set-up times as a law of the tile's sides: what the fit assumes.
  for (Tile& t : truth.tiles) {
    t.rate = 0.85 / (1 + 12 / t.m + 8 / t.n);
    t.setup = 8e-7 + 2e-11 * t.m * t.n;
  }
  truth.quantisation = 0.8;
  truth.launch = 3e-6;
  Random random(5);
  std::vector<GemmSample> samples;
  for (int i = 0; i < 400; ++i) {
    GemmSample s;
    s.shape.m = random.size(256, 8192);
    s.shape.n = random.size(256, 8192);
    s.shape.k = random.size(256, 8192);
    s.seconds = truth.seconds(model_shape(s.shape));
    samples.push_back(s);
  }
  GemmFitOptions options;
  options.surface = {{512}, {512}, {512}};
  options.iterations = 60;
  const GemmModel start = gemm_start(300e12, 100, 2e12, DataType::bf16);
  const FitError e = gemm_error(fit_gemm(start, samples, options), samples);
  INFO(e.median_ape << " / " << e.p90_ape);
  CHECK(e.median_ape < 1);
  CHECK(e.p90_ape < 4);
}

TEST_CASE("tables are read strictly") {
  CHECK(complaint("dtype,m,n,k,ms\nbfloat16,512,512,512,0.1\n").empty());
  CHECK(complaint("dtype,m,n,k\n").find(":1:1") != std::string::npos);
  CHECK(complaint("dtype,m,n,k,ms\nbfloat16,512,512,512\n").find(":2:") != std::string::npos);
  CHECK(complaint("dtype,m,n,k,ms\nbfloat16,512,-1,512,0.1\n").find(": n:") != std::string::npos);
  CHECK(complaint("dtype,m,n,k,ms\nbfloat16,512,1,512,nan\n").find(": ms:") != std::string::npos);
  CHECK(complaint("dtype,m,n,k,ms\nint4,512,1,512,1\n").find("bfloat16") != std::string::npos);
  CHECK(complaint("op,gpus,bytes,us\nall_reduc,2,512,1\n").find("all_reduce") != std::string::npos);
  CHECK(complaint("batch,seq,heads,kv_heads,head_dim,ms\n1,512,8,3,128,1\n").find("kv_heads") != std::string::npos);
}

TEST_CASE("what a calibration writes is read back") {
  const std::string header = std::string(kMeasuredColumns) + "\n";
  const auto file = std::filesystem::temp_directory_path() / "orrery_samples_measured.csv";
  std::ofstream(file) << "# some GPU\n# driver 1\n"
                      << header << "gemm,,bfloat16,nn,512,1024,2048,,,,,,,,,,1e-5,0.5,20,1e-3,1980,300,power\n"
                      << "batched_gemm,accumulate,fp8_e5m2,nt,1,2,3,4,,,,,,,,,2e-5,,,,,,\n"
                      << "attention,backward,bfloat16,,,,,2,4096,32,8,128,1024,,,0,3e-4,,,,,,\n"
                      << "streaming,layer_norm_backward,bfloat16,,,,,,,,,,,1000,4000,,4e-6,,,,,,\n"
                      << "streaming,rms_norm,bfloat16,,,,,,,,,,,1000,4000,,4e-6,,,,,,\n"
                      << "host,copy_h2d,,,,,,,,,,,,,1000000,,5e-5,,,,,,\n"
                      << "sustained,steady_over_cold,bfloat16,tn,8192,8192,8192,,,,,,,,,,0.93,,,,,,\n"
                      << "interference,gemm_beside_copy,bfloat16,tn,8192,8192,8192,,,,,,,,,,1.2,,,,,,\n"
                      << "power,idle,,,,,,,,,,,,,,,3,,1,,,101,\n"
                      << "power,gemm_75,bfloat16,,4096,4096,4096,,,,,,,,,,2e-4,,64,,1950,512,\n"
                      << "power,attention_100,bfloat16,,,,,4,8192,16,16,128,,,,,9e-3,,64,,1900,600,\n"
                      << "collective,all_gather,bfloat16,,,,,,,,,,,,1048576,8,6e-5,,,,,,\n";
  const Samples s = read_samples(file.string());
  std::filesystem::remove(file);
  REQUIRE(s.gemm.size() == 2);
  CHECK(s.gemm[0].shape.form == Gemm::Form::data_gradient);
  CHECK(s.gemm[0].shape.k == 2048);
  CHECK(s.gemm[0].seconds == 1e-5);
  CHECK(s.gemm[0].limited);
  CHECK_FALSE(s.gemm[1].limited);
  CHECK(s.limited.at("power") == 1);
  CHECK(s.gemm[1].shape.accumulate);
  CHECK(s.gemm[1].shape.batch == 4);
  CHECK_FALSE(s.gemm[1].shape.cast_input);  // a calibration casts ahead of what it times
  REQUIRE(s.attention.size() == 1);
  CHECK(s.attention[0].shape.backward);
  CHECK(s.attention[0].shape.window == 1024);
  CHECK_FALSE(s.attention[0].shape.cache_write);
  CHECK(s.attention[0].shape.kernel == AttentionKernel::fused);
  REQUIRE(s.streaming.size() == 1);
  CHECK(s.streaming[0].kernel == Streaming::layer_norm_backward);
  CHECK(s.streaming[0].bytes == 4000);
  REQUIRE(s.facts.size() == 3);  // rms_norm, copy_h2d, gemm_beside_copy
  CHECK(s.facts[1].bytes == 1e6);
  REQUIRE(s.steady.size() == 1);
  CHECK(s.steady[0].ratio == 0.93);
  REQUIRE(s.power.size() == 3);
  CHECK(s.power[0].share == 0);
  CHECK(s.power[0].watts == 101);
  CHECK(s.power[1].share == 0.75);
  CHECK(s.power[1].flops == 2.0 * 4096 * 4096 * 4096);
  CHECK(s.power[1].bytes == 3.0 * 2 * 4096 * 4096);
  CHECK(s.power[2].flops == 4.0 * 4 * 16 * 8192 * (8192 / 2.0) * 128);  // two products over half of a square
  CHECK(s.power[2].sm_mhz == 1900);
  REQUIRE(s.collective.size() == 1);
  CHECK(s.collective[0].gpus == 8);
}

TEST_CASE("rows of scans and sparse attention are read as they are written, and what is none is refused by name") {
  std::string csv = std::string(kMeasuredColumns) + "\n";
  const std::vector<ScanCase> cases = scan_cases(false);
  for (std::size_t i = 0; i < cases.size(); ++i)
    csv += row_of(cases[i], {1e-6 * static_cast<double>(i + 1), 0.5, 5}) + "\n";
  const auto file = std::filesystem::temp_directory_path() / "orrery_scans_test.csv";
  std::ofstream(file) << csv;
  const Samples read = read_samples(file.string());
  std::filesystem::remove(file);
  REQUIRE(read.scans.size() + read.sparse.size() == cases.size());
  CHECK(read.sparse.size() > 12);
  std::size_t scans = 0, sparse = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO(name_of(cases[i]));
    const bool scan = std::holds_alternative<Scan>(cases[i].shape);
    const auto same = [&](const auto& found) {
      CHECK(key_of(ScanCase{found.shape}) == key_of(cases[i]));
      CHECK(found.seconds == Approx(1e-6 * static_cast<double>(i + 1)));
      const MixerWork asked = std::visit([](const auto& shape) { return work_of(shape); }, cases[i].shape);
      CHECK(work_of(found.shape).bytes == asked.bytes);
      CHECK(work_of(found.shape).flops == asked.flops);
    };
    if (scan)
      same(read.scans.at(scans++));
    else
      same(read.sparse.at(sparse++));
  }
  for (const char* name : {"mamba3_forward", "mamba2", "mamba2_sideways", "_forward"}) {
    INFO(name);
    const std::string one =
        std::string(kMeasuredColumns) + "\nscan," + name + ",bfloat16,,,,128,1,256,8,8,64,,,,,1e-5,1,5,,,,\n";
    CHECK(complaint(one).find("expected mamba2, gated_delta") != std::string::npos);
  }
  for (const char* name : {"index_backward", "chunks_forward", "attention", "choice_"}) {
    INFO(name);
    const std::string one =
        std::string(kMeasuredColumns) + "\nsparse," + name + ",bfloat16,,64,1,128,1,256,8,8,64,,,,,1e-5,1,5,,,,\n";
    CHECK(complaint(one).find("expected index_forward") != std::string::npos);
  }
}

TEST_CASE("broken rows of a calibration are refused at their place") {
  const std::string columns(kMeasuredColumns);
  const std::string header = columns.substr(0, columns.rfind(',')) + "\n";  // what limited a row need not be said
  const auto row = [&](const std::string& line) { return complaint(header + line); };
  const std::string rest = ",,,,,,,,,,1e-5,,,,,\n";  // batch to power_w
  CHECK(row("gemm,,bfloat16,tn,512,512,512" + rest).empty());
  CHECK(row("gem,,bfloat16,tn,512,512,512" + rest).find(":2:1: class: got 'gem'") != std::string::npos);
  CHECK(row("gemm,,bfloat16,tt,512,512,512" + rest).find(":2:4: form:") != std::string::npos);
  CHECK(row("gemm,,bfloat16,tn,512,,512" + rest).find(":2:6: n:") != std::string::npos);
  CHECK(row("gemm,twice,bfloat16,tn,512,512,512" + rest).find(":2:2: name:") != std::string::npos);
  CHECK(row("gemm,,bfloat16,tn,512,512,512,,,,,,,,,,inf,,,,,\n").find(":2:17: seconds:") != std::string::npos);
  CHECK(row("gemm,,bfloat16,tn,512,512,512,,,,,,,,,,-1,,,,,\n").find(": seconds:") != std::string::npos);
  CHECK(row("attention,forwards,bfloat16,,,,,1,512,8,8,128,,,,,1e-5,,,,,\n").find("forward or backward") !=
        std::string::npos);
  CHECK(row("power,gemm,bfloat16,,512,512,512,,,,,,,,,,1e-5,,,,,300\n").find(":2:2: name:") != std::string::npos);
  CHECK(row("power,gemm_50,bfloat16,,512,512,512,,,,,,,,,,1e-5,,,,,\n").find(": power_w:") != std::string::npos);
  CHECK(row("collective,all_reduc,bfloat16,,,,,,,,,,,,1024,8,1e-5,,,,,\n").find(": name:") != std::string::npos);
  // Cut off in the last line: refused even where what is left still reads as a row.
  CHECK(row("gemm,,bfloat16,tn,512,512,512,,,,,,,,,,1e-5,,,,,").find("cut off") != std::string::npos);
  CHECK(row("gemm,,bfloat16,tn,51").find("cut off") != std::string::npos);
  CHECK(complaint("m,m,n,k,ms\n").find("twice") != std::string::npos);
  CHECK(complaint("# only a comment\n").find("empty") != std::string::npos);
  CHECK(complaint("").find("empty") != std::string::npos);
}

TEST_CASE("published matrix products are predicted within bounds") {
  for (const Device& device : kDevices) {
    const std::string file = table(std::string("gemm-") + device.table + "-sxm");
    if (missing(file, "matrix products")) return;
    const DeviceProfile p = profile(device.profile).isolated();
    std::vector<double> bf16, fp8;
    for (const GemmSample& s : read_samples(file).gemm)
      (s.shape.dtype == DataType::fp8 ? fp8 : bf16).push_back(relative(p.gemm(s.shape), s.seconds));
    INFO(device.profile);
    check_bound(bf16, device.bf16);
    if (!fp8.empty()) check_bound(fp8, device.fp8);
  }
}

TEST_CASE("published attention is predicted within bounds") {
  for (const Device& device : kDevices) {
    const std::string file = table(std::string("attention-fwd-") + device.table + "-sxm");
    if (missing(file, "attention")) return;
    const DeviceProfile p = profile(device.profile).isolated();
    std::vector<double> errors;
    for (const AttentionSample& s : read_samples(file).attention)
      errors.push_back(relative(p.attention(s.shape), s.seconds));
    INFO(device.profile);
    check_bound(errors, device.attention);
  }
}

TEST_CASE("published collectives of L40S over PCIe are predicted as well as the profile says") {
  const std::string file = table("nccl-more");
  if (missing(file, "collectives of L40S")) return;
  const auto document = profile_document("l40s-48gb");
  const DeviceProfile p = profile("l40s-48gb");
  const auto samples = read_samples(file).collective;
  for (const CollectiveOp op :
       {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::reduce_scatter, CollectiveOp::all_to_all}) {
    std::vector<double> errors;
    for (const CollectiveSample& s : samples)
      if (s.device == "l40s" && s.op == op)
        errors.push_back(relative(p.node_collective(op, s.gpus, s.bytes).total(), s.seconds));
    const auto& stated = document.at("collectives").at(name_of(op)).at("error");
    INFO(name_of(op));
    CHECK(errors.size() == static_cast<std::size_t>(stated.at("samples").as_int()));
    CHECK(summarise(errors).median_ape < stated.at("median_pct").as_number() * 1.5);
    CHECK(summarise(errors).p90_ape < stated.at("p90_pct").as_number());
  }
}

TEST_CASE("groups that share links have rates of their own: those of a PCIe node are found again, by no law") {
  CollectiveModel truth;
  truth.gpus = {2, 4, 8};
  truth.switch_bytes = {3e5, 3e5, 3e5};
  truth.low_latency = {5e-6, 1e-6, 0.0, {9e9, 3.5e9, 0.8e9}};
  truth.bulk = {30e-6, 1e-6, 0.0, {20e9, 5e9, 1.5e9}};
  std::vector<CollectiveSample> samples;
  for (const std::int64_t gpus : {2, 4, 8})
    for (int size = 9; size <= 29; ++size) {
      CollectiveSample s;
      s.op = CollectiveOp::all_gather;
      s.gpus = gpus;
      s.bytes = orrery::sim::Bytes(std::int64_t{1} << size);
      s.seconds = orrery::sim::to_seconds(
          truth.timing(s.op, static_cast<double>(gpus), static_cast<double>(s.bytes.value())).total());
      samples.push_back(s);
    }
  constexpr double kLine = 26e9;
  const CollectiveModel own = fit_collective(samples, kLine, 0, GroupRates::own);
  for (std::size_t g = 0; g < 3; ++g) CHECK(own.bulk.rate[g] == Approx(truth.bulk.rate[g]).epsilon(0.02));
  CHECK(collective_error(own, samples, 0, 1e18).p90_ape < 5);
  // A law of the group size, which rises, finds no such thing.
  CHECK(collective_error(fit_collective(samples, kLine, 0), samples, 0, 1e18).p90_ape > 50);
}

TEST_CASE("published collectives of one node are predicted within bounds, operation by operation") {
  for (const Device& device : kDevices) {
    const std::string file = table(std::string("nccl-") + device.table + "-sxm");
    if (missing(file, "collectives")) return;
    const DeviceProfile p = profile(device.profile);
    const auto samples = read_samples(file).collective;
    for (std::size_t i = 0; i < kCollectiveOps; ++i) {
      std::vector<double> small, large;
      for (const CollectiveSample& s : samples)
        if (s.op == static_cast<CollectiveOp>(i))
          (s.bytes.value() < 1 << 20 ? small : large)
              .push_back(relative(p.node_collective(s.op, s.gpus, s.bytes).total(), s.seconds));
      INFO(device.profile << " " << name_of(static_cast<CollectiveOp>(i)));
      CHECK(summarise(small).median_ape < 20);
      CHECK(summarise(large).median_ape < 6);
    }
  }
}
