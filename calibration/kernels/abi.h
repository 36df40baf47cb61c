// What the program and a GPU module say to each other. A module (liborrery_cuda.so, liborrery_hip.so) is loaded with
// dlopen by `orrery calibrate` alone, so that every other command starts without a GPU library. Only plain data crosses
// the border, and no exception does: modules may be built by another compiler. One module drives one device at a time,
// from one thread.
#pragma once

#include <cstdint>

namespace orrery::calibration {

/// Both sides must name the same number; it changes with anything below.
inline constexpr std::int32_t kGpuAbi = 5;

enum class CaseClass : std::int32_t {
  gemm,
  batched_gemm,
  attention,
  streaming,
  host,
  sustained,
  interference,
  collective,
  grouped_gemm,
  power,
  paged_attention,
  experts,
  sampling
};
inline constexpr int kCaseClasses = 13;
/// fp8_block: scales in fp32 of 128 elements of A and of 128 x 128 of B; fp8_row: of rows and columns; mxfp8: powers of
/// two of 32 elements; nvfp4: e2m1, scales in e4m3 of 16 elements.
enum class CaseType : std::int32_t {
  none,
  bfloat16,
  float16,
  float32,
  fp8_e4m3,
  fp8_e5m2,
  fp8_block,
  fp8_row,
  mxfp8,
  nvfp4
};
inline constexpr int kCaseTypes = 10;
/// Operands of C[m,n] = A[m,k] B[k,n] in memory, as a library with column-major matrices names them for a row-major C:
/// tn (forward) A as [m,k], B as [n,k]; nn (data gradient) A as [m,k], B as [k,n]; nt (weight gradient) A as [k,m], B
/// as [k,n].
enum class CaseForm : std::int32_t { none, tn, nn, nt };
inline constexpr int kCaseForms = 4;

/// One thing to measure: a row of the samples file without its results. Fields that a class lacks are 0.
///   gemm, batched_gemm  name "" or "accumulate" (C is fp32 and added to); dtype, form, m, n, k, batch. fp8_e5m2: A is
///                       e5m2 (a gradient), B is e4m3; the result of fp8 and narrower types is bfloat16
///   grouped_gemm        name loop (one stream), streams (four), each product a launch of its own, or grouped, all in
///                       one launch of a library; dtype, form, m, n, k of each of `batch` experts
///   attention           name forward or backward, causal; dtype, batch, seq, heads, kv_heads, head_dim, window
///                       (0: all)
///   streaming           name of the kernel; m rows of n elements, elements = m * n, bytes read and written
///   host                name launch_eager, launch_graph, kernel_gap, copy_h2d, copy_d2h, copy_d2d; bytes for copies
///   sustained           steady_over_cold: rate in a long run over the rate of a short one; heads > 0: attention, else
///                       a product of m, n, k in dtype
///   interference        gemm_beside_copy, gemm_beside_reduction: time beside it over time alone, of m, n, k in dtype;
///                       gemm_beside_copy_<percent>: beside a copy that keeps to that share of its rate; traffic_alone:
///                       seconds of one round of that copy (`bytes`) with nothing beside it
///   power               <kernel>_<percent>, gemm_75: what the board draws while the kernel runs for that share of the
///                       time, in periods shorter than a power limiter's; kernel: gemm (m, n, k in dtype), attention,
///                       copy (m rows of n), or idle, alone and without a share
///   collective          name of the operation, or all_reduce_graph, replayed as a graph; dtype, bytes (the whole
///                       buffer), gpus
///   paged_attention     of `batch` sequences, the last m of seq positions attend to all of these; heads, kv_heads,
///                       head_dim, window. name decode (m is 1) or prefill: a library's kernel, on a cache that lies
///                       in one piece; decode_plain: this module's own, on pages of kPageTokens tokens
///   experts             name plain, this module's own, or grouped, a library's; m tokens, hidden k, width n of an
///                       expert, `batch` experts of which each token takes `elements` in turn: both products, gated
///                       activation, gathering and mean of the rows
///   sampling            of m rows of n logits: softmax, and a token by its probability
struct Case {
  CaseClass kind = CaseClass::gemm;
  CaseType dtype = CaseType::none;
  CaseForm form = CaseForm::none;
  char name[36] = {};
  std::int64_t m = 0, n = 0, k = 0, batch = 0;
  struct Attention {
    std::int64_t seq = 0, heads = 0, kv_heads = 0, head_dim = 0, window = 0;
  } attention;
  std::int64_t elements = 0, bytes = 0, gpus = 0;
};

enum class GpuStatus : std::int32_t {
  done,
  unavailable,    // this device, or a library that is missing, cannot run the case
  out_of_memory,  // the case does not fit
  wrong,          // the result differs from the float64 reference by more than rounding
  lost,           // the device no longer answers; nothing more can be measured
  no_device,      // no driver or no GPU
  failed          // anything else; the message says what
};

/// What a module knows about a device. Texts are zero-terminated.
struct GpuFacts {
  char name[128] = {};
  char architecture[32] = {};  // "sm_90", "gfx90a"
  char driver[64] = {}, runtime[64] = {};
  char libraries[1024] = {};  // found, with versions, separated by "; "
  char missing[1024] = {};    // not found and what they would measure, separated by "; "
  std::int32_t gpus = 0;      // of this machine
  std::int64_t processors = 0;
  struct Memory {
    double bytes = 0, free_bytes = 0, l2_bytes = 0;
    double bandwidth = 0;  // bytes/s, from bus width and memory clock; 0 unknown
  } memory;
  double clock_hz = 0;           // highest
  double peak[kCaseTypes] = {};  // dense FLOP/s at that clock, from the architecture; 0: not supported
  /// How it reaches the other GPUs of its machine. What a driver hides (in a virtual machine, say) is 0, as is what a
  /// GPU does not have.
  struct Links {
    double bandwidth = 0;    // bytes/s and direction, all NVLinks or xGMI links of the GPU together
    std::int32_t count = 0;  // of these links
    std::int32_t peers = 0;  // GPUs that they lead to; 0: to switches
    double pcie = 0;         // bytes/s and direction of its slot
  } links;
  double power_limit_w = 0;
  char state[256] = {};  // what bends measurements: other processes, clocks that are set; separated by "; "
};

inline constexpr int kMostRepeats = 64;
inline constexpr std::int64_t kPageTokens = 16;
/// What interference's traffic reads and writes in one round, together.
inline constexpr std::int64_t kTrafficBytes = std::int64_t{512} << 20;

/// What held a clock back, as bits.
inline constexpr std::int32_t kLimitedByPower = 1, kLimitedByHeat = 2, kLimitedBySetting = 4, kLimitedByBoard = 8;

/// What one measurement gave. Without `timed`, only `error` is filled in.
struct GpuTiming {
  std::int32_t repeats = 0;
  double seconds[kMostRepeats] = {};  // one kernel each; the ratio for sustained and interference
  double error = -1;                  // ||out - reference|| / ||reference||, reference in float64; below 0: not checked
  std::int32_t limits = 0;            // of the bits above, those that a driver named while the kernel ran
  double sm_mhz = 0, power_w = 0;     // while the kernel ran, for class power the mean with its pauses; 0 unknown
};

}  // namespace orrery::calibration

/// Modules hide everything else.
#define ORRERY_EXPORT __attribute__((visibility("default")))

extern "C" {
// The functions of a module; a program finds them by name with dlsym.
ORRERY_EXPORT std::int32_t orrery_gpu_abi();
/// The text of the last status other than done; valid until the next call.
ORRERY_EXPORT const char* orrery_gpu_message();
ORRERY_EXPORT orrery::calibration::GpuStatus orrery_gpu_count(std::int32_t* count);
/// Chooses a device for all later calls and describes it.
ORRERY_EXPORT orrery::calibration::GpuStatus orrery_gpu_open(std::int32_t device, orrery::calibration::GpuFacts* facts);
/// Prepares a case, checks its result once and, where `timed`, repeats it for about `budget` seconds.
ORRERY_EXPORT orrery::calibration::GpuStatus orrery_gpu_measure(const orrery::calibration::Case* what, double budget,
                                                                std::int32_t timed,
                                                                orrery::calibration::GpuTiming* timing);
ORRERY_EXPORT void orrery_gpu_close();
}
