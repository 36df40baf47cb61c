// Are measurements planned in time, order and memory, and do rows and medians say what they should?
#include "calibration/measure/measurement.h"

#include <algorithm>
#include <set>

#include "calibration/measure/measurement_plan.h"
#include "calibration/measure/statistics.h"
#include "tests/catch.h"

using namespace orrery::calibration;

namespace {

GpuFacts h200() {
  GpuFacts f;
  f.gpus = 1;
  f.processors = 132;
  f.memory.bytes = f.memory.free_bytes = 141e9;
  f.memory.l2_bytes = 60e6;
  f.memory.bandwidth = 4.8e12;
  const auto peak = [&f](CaseType t) -> double& { return f.peak[static_cast<int>(t)]; };
  peak(CaseType::bfloat16) = peak(CaseType::float16) = 989e12;
  peak(CaseType::fp8_e4m3) = peak(CaseType::fp8_e5m2) = 1979e12;
  peak(CaseType::float32) = 494e12;
  return f;
}

/// GPT-3 175B (12288 hidden, 96 heads of 128, 4 x 12288 in the MLP, a vocabulary of 51200) on 1, 8, 4 and 2 ranks.
std::vector<ModelKernels> gpt3() {
  std::vector<ModelKernels> kernels;
  for (const std::int64_t tensor : {1, 8, 4, 2}) {
    const std::int64_t h = 12288;
    kernels.push_back(
        {2048,
         96 / tensor,
         96 / tensor,
         128,
         {{3 * h / tensor, h}, {h, h / tensor}, {4 * h / tensor, h}, {h, 4 * h / tensor}, {51200 / tensor, h}}});
  }
  return kernels;
}

double seconds_of(const std::vector<PlannedCase>& plan) {
  double sum = 0;
  for (const PlannedCase& p : plan) sum += p.estimate;
  return sum;
}

bool has(const std::vector<PlannedCase>& plan, const std::string& key) {
  return std::any_of(plan.begin(), plan.end(), [&](const PlannedCase& p) { return key_of(p.what) == key; });
}

}  // namespace

TEST_CASE("plans keep to their time, hold no case twice and put every class first") {
  const std::vector<PlannedCase> quick = measurement_plan(h200(), gpt3(), true);
  std::vector<ModelKernels> fourteen;
  for (int i = 0; i < 14; ++i) {
    const std::vector<ModelKernels> one = gpt3();
    fourteen.insert(fourteen.end(), one.begin(), one.end());
  }
  const std::vector<PlannedCase> full = measurement_plan(h200(), fourteen, false);
  CHECK(seconds_of(quick) < 120);
  CHECK(seconds_of(full) < 1200);
  for (const auto& plan : {quick, full}) {
    std::set<std::string> keys;
    for (const PlannedCase& p : plan) {
      INFO(key_of(p.what));
      CHECK(keys.insert(key_of(p.what)).second);
      CHECK(p.estimate > p.budget);
      CHECK(memory_bytes(p.what) < 141e9);
    }
  }
  // The quick plan is how the full one begins, but for the length of what runs for seconds.
  for (std::size_t i = 0; i < quick.size(); ++i) CHECK(key_of(full[i].what) == key_of(quick[i].what));
  std::set<CaseClass> classes;
  for (const PlannedCase& p : quick) classes.insert(p.what.kind);
  CHECK(classes.size() == 11);  // all but batched products, which no flash model runs, and collectives of one GPU
}

TEST_CASE("the shapes of a model are its products under tensor parallelism") {
  const std::vector<PlannedCase> plan = measurement_plan(h200(), gpt3(), false);
  // Eight ways: 12 heads of 128 for q, k and v; a quarter of the hidden size four times over is 6144.
  CHECK(has(plan, "gemm,,bfloat16,tn,2048,4608,12288,1,,,,,,,,"));
  CHECK(has(plan, "gemm,,bfloat16,tn,2048,12288,1536,1,,,,,,,,"));
  CHECK(has(plan, "gemm,,bfloat16,tn,2048,6144,12288,1,,,,,,,,"));
  CHECK(has(plan, "gemm,,bfloat16,nn,2048,12288,6144,1,,,,,,,,"));
  CHECK(has(plan, "gemm,accumulate,bfloat16,nt,6144,12288,2048,1,,,,,,,,"));
  CHECK(has(plan, "gemm,,fp8_e4m3,tn,2048,6144,12288,1,,,,,,,,"));
  CHECK(has(plan, "attention,backward,bfloat16,,,,,1,2048,12,12,128,,,,"));
  // Of a model without attention its products alone.
  std::vector<ModelKernels> mamba = gpt3();
  mamba.front().heads = mamba.front().kv_heads = mamba.front().head_dim = 0;
  for (const PlannedCase& p : measurement_plan(h200(), mamba, false))
    if (p.what.kind == CaseClass::attention) CHECK(p.what.attention.heads > 0);
}

TEST_CASE("a device without fp8 or with little memory gets what it can run") {
  GpuFacts small = h200();
  small.memory.bytes = 8e9;
  for (const CaseType t : {CaseType::fp8_e4m3, CaseType::fp8_e5m2}) small.peak[static_cast<int>(t)] = 0;
  const std::vector<PlannedCase> plan = measurement_plan(small, {gpt3()}, false);
  CHECK(!plan.empty());
  for (const PlannedCase& p : plan) {
    CHECK(p.what.dtype != CaseType::fp8_e4m3);
    CHECK(p.what.dtype != CaseType::fp8_e5m2);
    CHECK(memory_bytes(p.what) < 8e9);
  }
  for (const PlannedCase& p : measurement_plan(h200(), {}, false)) {
    if (p.what.dtype == CaseType::fp8_e4m3 && p.what.kind == CaseClass::gemm) CHECK(p.what.form == CaseForm::tn);
  }
}

TEST_CASE("the verification plan runs every kernel, type, form and pass") {
  std::set<std::string> seen;
  for (const PlannedCase& p : verification_plan(h200())) {
    seen.insert(std::string(name_of(p.what.dtype)) + " " + std::string(name_of(p.what.form)));
    seen.insert(p.what.name);
    if (p.what.kind == CaseClass::streaming) CHECK(streaming_bytes(p.what.name) > 0);
  }
  for (const char* what : {"bfloat16 tn", "bfloat16 nn", "bfloat16 nt", "fp8_e4m3 tn", "fp8_e5m2 tn", "float16 nt",
                           "forward", "backward", "accumulate", "lamb", "cast_transpose", "swiglu_backward", "decode",
                           "decode_plain", "prefill", "plain", "softmax_draw", "grouped"}) {
    INFO(what);
    CHECK(seen.count(what) == 1);
  }
}

TEST_CASE("a row and its key") {
  Measurement m;
  m.what.kind = CaseClass::attention;
  set_name(m.what, "backward");
  m.what.dtype = CaseType::bfloat16;
  m.what.batch = 2;
  m.what.attention.seq = 4096;
  m.what.attention.heads = 16;
  m.what.attention.kv_heads = 4;
  m.what.attention.head_dim = 128;
  m.what.attention.window = 1024;
  m.seconds = 0.00125;
  m.spread_pct = 0.5;
  m.repeats = 40;
  m.sm_mhz = 1755;
  CHECK(limits_text(kLimitedByPower | kLimitedByHeat) == "power+heat");
  const std::string row = row_of(m);
  CHECK(row == "attention,backward,bfloat16,,,,,2,4096,16,4,128,1024,,,,0.00125,0.5,40,,1755,,");
  CHECK(key_of_row(row) == key_of(m.what));
  const std::string columns = kMeasuredColumns;
  CHECK(std::count(row.begin(), row.end(), ',') == std::count(columns.begin(), columns.end(), ','));
  CHECK(key_of_row(row.substr(0, row.size() - 2)).empty());  // a column is missing
}

TEST_CASE("median and spread of repeats") {
  // Quartiles of 1 2 3 4 5 are 2 and 4; half of their distance is a third of the median.
  const Spread even = spread_of({5, 1, 4, 2, 3});
  CHECK(even.median == 3);
  CHECK(even.spread_pct == Approx(100.0 / 3));
  CHECK(even.outliers == 0);
  // Quartiles 1 and 1.1: 9 lies more than three ranges above.
  const Spread stray = spread_of({1, 1.1, 1, 1.1, 1, 1.1, 9});
  CHECK(stray.median == 1.1);
  CHECK(stray.outliers == 1);
  CHECK(spread_of({2}).spread_pct == 0);
}
