// Do the GPU kernels compute what they should? Their own sources run here on an emulated device, and the module's own
// checks against float64 judge them; a library that is made to err shows that the checks notice.
#include <cstdlib>
#include <string>

#include "calibration/measure/gpu_module.h"
#include "calibration/measure/measurement_plan.h"
#include "tests/catch.h"
#include "tests/paths.h"

using namespace orrery::calibration;

namespace {

GpuModule& emulated() {
  ::setenv("ORRERY_GPU_LIBRARY_PATH", orrery::tests::kEmulatedFolder, 1);
  static GpuModule module(orrery::tests::kEmulatedGpu);
  static const GpuFacts facts = module.open(0);
  static_cast<void>(facts);
  return module;
}

/// Relative error of a case whose result is right.
double error_of(const Case& what) {
  Measurement m;
  const GpuStatus status = emulated().measure(what, 0, false, m);
  INFO(describe(what) << ": " << (status == GpuStatus::done ? "" : emulated().message()));
  REQUIRE(status == GpuStatus::done);
  return m.error;
}

Case streaming(const char* name, std::int64_t rows, std::int64_t columns) {
  Case c;
  c.kind = CaseClass::streaming;
  set_name(c, name);
  c.dtype = CaseType::bfloat16;
  c.m = rows;
  c.n = columns;
  return c;
}

}  // namespace

TEST_CASE("every streaming kernel is right on an emulated device, at several lengths of a row", "[full-size]") {
  for (const PlannedCase& p : verification_plan(emulated().open(0))) {
    if (p.what.kind != CaseClass::streaming || p.what.m != 192) continue;  // once each
    const std::string name = p.what.name;
    const bool summed = name == "lamb" || name == "gradient_norm" || name == "accumulate" || name == "optimizer";
    const bool table = name == "embedding" || name == "embedding_backward";
    for (const std::int64_t columns : {64, 640, 4160, 12288}) {
      if ((summed && columns > 4160) || (table && columns > 64)) continue;  // long on a host
      const double error = error_of(streaming(name.c_str(), 64, columns));
      INFO(name << " " << columns << ": " << error);
      // Rounding to bf16 is 2^-9 relative at most; copies are exact.
      CHECK(error < 4e-3);
      if (name == "copy" || name == "embedding" || name == "permute" || name == "cast_transpose") CHECK(error == 0);
    }
  }
}

TEST_CASE("streaming kernels are right with warps of 64 lanes") {
  GpuModule wide(orrery::tests::kEmulatedWide);
  for (const PlannedCase& p : verification_plan(wide.open(0))) {
    if (p.what.kind != CaseClass::streaming || p.what.m != 192) continue;  // once each
    const std::string name = p.what.name;
    // A row of ten vectors of 8 in a warp that is partly idle; softmax and losses have longer ones.
    Measurement m;
    const GpuStatus status =
        wide.measure(streaming(name.c_str(), 64, name == "embedding_backward" ? 64 : 640), 0, false, m);
    INFO(name << ": " << m.error << " " << (status == GpuStatus::done ? "" : wide.message()));
    REQUIRE(status == GpuStatus::done);
    CHECK(m.error < 4e-3);  // rounding to bf16 is 2^-9 relative at most
  }
}

TEST_CASE("products have the layout that their form says, with batches and with sums") {
  for (const CaseType type : {CaseType::bfloat16, CaseType::float16, CaseType::float32}) {
    for (const CaseForm form : {CaseForm::tn, CaseForm::nn, CaseForm::nt}) {
      for (const bool accumulate : {false, true}) {
        Case c;
        c.dtype = type;
        c.form = form;
        c.m = 24;
        c.n = 40;
        c.k = 56;
        c.batch = accumulate ? 1 : 3;
        if (accumulate) set_name(c, "accumulate");
        CHECK(error_of(c) < 4e-3);
      }
    }
  }
}

TEST_CASE("products of experts lie one after another, in a loop and on several streams") {
  for (const char* name : {"loop", "streams"})
    for (const CaseForm form : {CaseForm::tn, CaseForm::nn, CaseForm::nt}) {
      Case c;
      c.kind = CaseClass::grouped_gemm;
      set_name(c, name);
      c.dtype = CaseType::bfloat16;
      c.form = form;
      c.m = 24;
      c.n = 40;
      c.k = 56;
      c.batch = 6;  // more than streams
      CHECK(error_of(c) < 4e-3);
    }
}

TEST_CASE("attention agrees with the textbook, forward and backward, with shared heads and windows") {
  for (const char* pass : {"forward", "backward"}) {
    for (const std::int64_t kv_heads : {4, 2}) {
      for (const std::int64_t window : {0, 24}) {
        for (const std::int64_t seq : {64, 288}) {
          Case c;
          c.kind = CaseClass::attention;
          set_name(c, pass);
          c.dtype = CaseType::bfloat16;
          c.batch = 2;
          c.attention.seq = seq;
          c.attention.heads = 4;
          c.attention.kv_heads = kv_heads;
          c.attention.head_dim = 16;
          c.attention.window = window;
          CHECK(error_of(c) < 1e-2);
        }
      }
    }
  }
}

TEST_CASE("hipBLASLt multiplies where PyTorch would choose it, and fp8 everywhere") {
  for (const char* asked : {"1", "0"}) {
    ::setenv("TORCH_BLAS_PREFER_HIPBLASLT", asked, 1);
    for (const CaseForm form : {CaseForm::tn, CaseForm::nn, CaseForm::nt})
      for (const bool accumulate : {false, true}) {
        Case c;
        c.dtype = CaseType::bfloat16;
        c.form = form;
        c.m = 24;
        c.n = 40;
        c.k = 56;
        c.batch = accumulate ? 1 : 3;
        if (accumulate) set_name(c, "accumulate");
        CHECK(error_of(c) < 4e-3);
      }
    for (const CaseType type : {CaseType::fp8_e4m3, CaseType::fp8_e5m2}) {
      Case c;
      c.dtype = type;
      c.form = CaseForm::tn;
      c.m = c.n = 32;
      c.k = 64;
      c.batch = 1;
      CHECK(error_of(c) < 4e-3);  // products of fp8 are exact in float64; their sum is rounded to bf16
      c.form = CaseForm::nn;
      Measurement m;
      CHECK(emulated().measure(c, 0, false, m) == GpuStatus::unavailable);
      c.dtype = CaseType::fp8_block;
      c.form = CaseForm::tn;
      CHECK(emulated().measure(c, 0, false, m) == GpuStatus::unavailable);
    }
    for (const CaseType type : {CaseType::fp8_row, CaseType::mxfp8}) {
      Case c;
      c.dtype = type;
      c.form = CaseForm::tn;
      c.m = 48;
      c.n = 32;
      c.k = 96;
      c.batch = 1;
      CHECK(error_of(c) < 4e-3);
    }
  }
  // The element that rocBLAS is made to err at is right where hipBLASLt multiplies: the choice is made.
  ::setenv("ORRERY_EMULATED_ERROR", "wrong", 1);
  Case c;
  c.dtype = CaseType::bfloat16;
  c.form = CaseForm::tn;
  c.m = c.n = c.k = 16;
  c.batch = 1;
  Measurement m;
  ::setenv("TORCH_BLAS_PREFER_HIPBLASLT", "1", 1);
  CHECK(emulated().measure(c, 0, false, m) == GpuStatus::done);
  ::setenv("TORCH_BLAS_PREFER_HIPBLASLT", "0", 1);
  CHECK(emulated().measure(c, 0, false, m) == GpuStatus::wrong);
  ::unsetenv("TORCH_BLAS_PREFER_HIPBLASLT");
  ::unsetenv("ORRERY_EMULATED_ERROR");
}

namespace {

Case attention_over_cache(const char* name, std::int64_t sequences, std::int64_t fresh, std::int64_t keys,
                          std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t window) {
  Case c;
  c.kind = CaseClass::paged_attention;
  set_name(c, name);
  c.dtype = CaseType::bfloat16;
  c.batch = sequences;
  c.m = fresh;
  c.attention = {keys, heads, kv_heads, head_dim, window};
  return c;
}

/// On warps of either width.
double error_of(GpuModule& module, const Case& what) {
  Measurement m;
  const GpuStatus status = module.measure(what, 0, false, m);
  INFO(describe(what) << ": " << (status == GpuStatus::done ? "" : module.message()));
  REQUIRE(status == GpuStatus::done);
  return m.error;
}

}  // namespace

TEST_CASE("what engines run is right: pages, splits, windows, experts of few tokens, draws") {
  static_cast<void>(emulated());
  GpuModule wide(orrery::tests::kEmulatedWide);
  static_cast<void>(wide.open(0));
  for (GpuModule* one : {&emulated(), &wide}) {
    GpuModule& module = *one;
    // One page that is not full; several with one part; parts of which the last is shorter, as one sequence has few
    // tasks. Query heads that fill a group of eight, and that do not.
    for (const std::int64_t keys : {5, 40, 700})
      for (const std::int64_t heads : {2, 10, 18})
        for (const std::int64_t window : {0, 24})
          CHECK(error_of(module, attention_over_cache("decode_plain", 2, 1, keys, heads, 2, 32, window)) < 1e-2);
    CHECK(error_of(module, attention_over_cache("decode_plain", 1, 1, 1100, 1, 1, 128, 0)) < 1e-2);
    Case c;
    c.kind = CaseClass::experts;
    set_name(c, "plain");
    c.dtype = CaseType::bfloat16;
    c.k = 64;
    c.n = 40;
    c.batch = 6;
    c.elements = 3;
    for (const std::int64_t tokens : {1, 5, 37}) {  // experts without a token; more rows than a warp holds
      c.m = tokens;
      CHECK(error_of(module, c) < 1e-2);
    }
    Case sampling;
    sampling.kind = CaseClass::sampling;
    sampling.dtype = CaseType::bfloat16;
    sampling.m = 3;
    for (const std::int64_t logits : {8, 4096, 20000}) {
      sampling.n = logits;
      CHECK(error_of(module, sampling) < 1e-3);
    }
  }
}

TEST_CASE("attention of PyTorch's library is laid out as it is there, with its gradients") {
  for (const std::int64_t window : {0, 24}) {
    CHECK(error_of(attention_over_cache("decode", 3, 1, 70, 4, 2, 16, window)) < 1e-2);
    CHECK(error_of(attention_over_cache("prefill", 2, 24, 70, 4, 2, 16, window)) < 1e-2);
  }
  ::setenv("ORRERY_EMULATED_TORCH", "1", 1);
  for (const char* pass : {"forward", "backward"})
    for (const std::int64_t window : {0, 24}) {
      Case c;
      c.kind = CaseClass::attention;
      set_name(c, pass);
      c.dtype = CaseType::bfloat16;
      c.batch = 2;
      c.attention = {96, 4, 2, 16, window};
      CHECK(error_of(c) < 1e-2);
    }
  ::unsetenv("ORRERY_EMULATED_TORCH");
}

TEST_CASE("products of experts in one launch of PyTorch's are laid out as it wants them, in every form") {
  Case c;
  c.kind = CaseClass::grouped_gemm;
  set_name(c, "grouped");
  c.dtype = CaseType::bfloat16;
  c.m = 24;
  c.n = 40;
  c.k = 56;
  c.batch = 5;
  for (const CaseForm form : {CaseForm::tn, CaseForm::nn, CaseForm::nt}) {
    c.form = form;
    CHECK(error_of(c) < 4e-3);
  }
  Measurement m;
  c.dtype = CaseType::fp8_row;
  CHECK(emulated().measure(c, 0, false, m) == GpuStatus::unavailable);  // a gradient
  c.form = CaseForm::tn;
  CHECK(error_of(c) < 4e-3);
}

TEST_CASE("fp8 of gfx942 has a bias of its own") {
  ::setenv("ORRERY_EMULATED_ARCHITECTURE", "gfx942", 1);
  static_cast<void>(emulated().open(0));
  Case c;
  c.form = CaseForm::tn;
  c.m = c.n = 32;
  c.k = 64;
  c.batch = 1;
  for (const CaseType type : {CaseType::fp8_e4m3, CaseType::fp8_e5m2}) {
    c.dtype = type;
    CHECK(error_of(c) < 4e-3);
  }
  c.kind = CaseClass::grouped_gemm;
  set_name(c, "grouped");
  c.dtype = CaseType::fp8_row;
  c.batch = 3;
  CHECK(error_of(c) < 4e-3);
  ::unsetenv("ORRERY_EMULATED_ARCHITECTURE");
  static_cast<void>(emulated().open(0));
}

TEST_CASE("a wrong or an unwritten element is noticed") {
  Case c;
  c.dtype = CaseType::bfloat16;
  c.form = CaseForm::tn;
  c.m = c.n = c.k = 16;
  c.batch = 1;
  for (const char* how : {"wrong", "unwritten"}) {
    ::setenv("ORRERY_EMULATED_ERROR", how, 1);
    Measurement m;
    INFO(how);
    CHECK(emulated().measure(c, 0, false, m) == GpuStatus::wrong);
    ::unsetenv("ORRERY_EMULATED_ERROR");
  }
  CHECK(emulated().message().find("1 elements were not written") != std::string::npos);
  CHECK(error_of(c) < 4e-3);
}

TEST_CASE("repeats are counted and timed; shapes that a kernel cannot take are named") {
  Measurement m;
  REQUIRE(emulated().measure(streaming("gelu", 64, 640), 0.01, true, m) == GpuStatus::done);
  CHECK(m.repeats >= 3);
  CHECK(m.seconds > 0);
  CHECK(emulated().measure(streaming("layer_norm", 64, 16448), 0, false, m) == GpuStatus::unavailable);
  CHECK(emulated().message().find("length") != std::string::npos);
  CHECK(emulated().measure(streaming("no_such_kernel", 64, 64), 0, false, m) == GpuStatus::unavailable);
  Case incomplete = streaming("copy", 64, 64);
  incomplete.kind = CaseClass::gemm;
  CHECK(emulated().measure(incomplete, 0, false, m) == GpuStatus::failed);
  const Case large = streaming("copy", 1 << 20, 1 << 20);
  CHECK(emulated().measure(large, 0, false, m) == GpuStatus::out_of_memory);
}
