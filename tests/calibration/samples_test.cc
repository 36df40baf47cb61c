// Fits: optimisers find known answers, tables are read strictly, and shipped profiles predict the published tables as
// well as they claim.
#include "calibration/samples.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "calibration/fit.h"
#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"

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
constexpr Device kDevices[] = {{"a100-sxm-80gb", "a100", {2, 9}, {0, 0}, {2, 7}},
                               {"h100-sxm-80gb", "h100", {2.5, 9}, {2, 6}, {2.5, 8}},
                               {"h200-sxm-141gb", "h200", {2.5, 8}, {2, 6}, {2, 7}},
                               {"b200-sxm-180gb", "b200", {3, 9.5}, {2.5, 7.5}, {2, 7}}};

bool missing(const std::string& file, const std::string& what) {
  if (file.empty()) std::cout << "skipped: no table of " << what << " beside the project\n";
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

TEST_CASE("Nelder-Mead finds the minimum of a banana valley") {
  const auto rosenbrock = [](const std::vector<double>& x) {
    return 100 * std::pow(x[1] - x[0] * x[0], 2) + std::pow(1 - x[0], 2);
  };
  const auto found = nelder_mead(rosenbrock, {-1.2, 1}, {0.5, 0.5}, 5000);
  CHECK(found[0] == Approx(1).epsilon(1e-3));
  CHECK(found[1] == Approx(1).epsilon(1e-3));
}

TEST_CASE("Cholesky solves a small system") {
  // [[4, 2], [2, 3]] x = [10, 9] has x = [1.5, 2].
  const auto x = solve_spd({4, 2, 2, 3}, {10, 9});
  CHECK(x[0] == Approx(1.5));
  CHECK(x[1] == Approx(2));
}

TEST_CASE("a fit recovers a model from its own times") {
  GemmModel truth = gemm_start(300e12, 100, 2e12, DataType::bf16);
  truth.tiles = {{128, 128, 0.8, 2e-6}};
  truth.quantisation = 0.9, truth.launch = 3e-6;
  Random random(5);
  std::vector<GemmSample> samples;
  for (int i = 0; i < 400; ++i) {
    GemmSample s;
    s.shape.m = random.size(256, 8192), s.shape.n = random.size(256, 8192), s.shape.k = random.size(256, 8192);
    s.seconds = truth.seconds(model_shape(s.shape));
    samples.push_back(s);
  }
  GemmModel start = truth;
  start.tiles[0].rate = 0.5, start.tiles[0].setup = 1e-6, start.quantisation = 0.5, start.launch = 1e-6;
  GemmFitOptions options;
  options.surface = {{512}, {512}, {512}};
  options.evaluations = 8000;
  const FitError e = gemm_error(fit_gemm(start, samples, options), samples);
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
