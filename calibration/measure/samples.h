// Tables of measured kernels, as CSV: the samples that a fit reads and a profile is checked against. The header line
// says which table it is: gemm (dtype,m,n,k,ms), attention (batch,seq,heads,kv_heads,head_dim,ms), nccl
// (op,gpus,bytes,us), experts (dtype,tokens,hidden,expert_ffn,top_k,experts,moe_tp,moe_ep,distribution,ms; distribution
// is balanced or power_law_<alpha>), exchanges of tokens
// (device,nodes,hidden,tokens,top_k,experts,dispatch_sms,dispatch_us,dispatch_notify_us,combine_sms,combine_us,
// combine_notify_us, or op,dtype,tokens,hidden,top_k,experts,ep,distribution,ms), nccl of several devices
// (device,op,gpus,elements,ms; elements of 2 bytes), kernels (device,kernel,m,n,k,us), or what `orrery calibrate`
// measured, all classes in one table (kMeasuredColumns), which may begin with comment lines (#).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibration/device/dispatcher.h"
#include "calibration/device/expert_layer.h"
#include "calibration/device/profile.h"
#include "calibration/device/scan.h"
#include "calibration/device/serving_model.h"

namespace orrery::calibration {

struct GemmSample {
  Gemm shape;
  double seconds = 0;
  bool limited = false;  // ran below the highest clock
};
struct AttentionSample {
  Attention shape;
  double seconds = 0;
  bool limited = false;
};
struct ExpertSample {
  ExpertLayer shape;
  double seconds = 0;
  /// Whether the library's products ran as its tuner had chosen them. The collector keeps what the tuner found in a
  /// file named by type, hidden size, width of a part and experts of a rank, and reads the first file whose name begins
  /// so. A configuration that reads what another one wrote (of other top_k, experts in all or width; in a name with
  /// further digits; for another kernel) finds none of its shapes there and runs what the library falls back on. Which
  /// of those that share a name wrote it the table does not say, so that none of them counts as tuned. Kernels for fp8
  /// by blocks have no tuner. Source: ai-dynamo/aiconfigurator, collector/trtllm/collect_moe.py.
  bool tuned = true;
};
/// Tokens on their way to experts or back, until the last rank is done: what a kernel takes, its wait included.
struct ExchangeSample {
  std::string library;  // deepep or nvlink-one-sided, as dispatchers are named
  std::string device;   // as profiles are named, without its memory
  ExchangePass pass = ExchangePass::dispatch;
  TokenExchange shape;
  double seconds = 0;
};
struct GroupedSample {
  GroupedGemm shape;
  double seconds = 0;
};
struct CollectiveSample {
  CollectiveOp op{};
  std::int64_t gpus = 1;
  sim::Bytes bytes{};
  double seconds = 0;
  std::string device;  // as profiles are named, without its memory: b300-sxm; empty where the table holds one device
};
struct KernelSample {  // of a table that holds several devices; sizes that a kernel lacks are 0
  std::string device, kernel;
  std::int64_t m = 0, n = 0, k = 0;
  double seconds = 0;
};

struct StreamingSample {
  Streaming kernel{};
  double bytes = 0;  // read + written
  double seconds = 0;
};
/// A mixer's scan or convolution, all of its kernels.
struct ScanSample {
  Scan shape;
  double seconds = 0;
};
/// A kernel of attention to chosen keys.
struct SparseSample {
  SparseKernel shape;
  double seconds = 0;
};
/// Measured, but not what a profile is fitted to: host costs, streaming kernels that no step here runs, interference.
struct FactSample {
  std::string kind, name;  // class and name of the row
  double bytes = 0;        // 0: has no size
  double value = 0;        // seconds; a ratio for interference
};
/// Whose kernel was timed: a library's that frameworks and engines call, or one of the module's own, which does the
/// same work and stands in where a device has no kernels of engines.
enum class KernelOf : std::uint8_t { library, plain };
/// What inference engines run.
struct ServedSample {
  Asked asked;
  double seconds = 0;
  std::uint64_t shape = 0;  // as in ServingSample
  KernelOf kernel = KernelOf::library;
  double cast_bytes = 0;  // of the cast that engines time with it and that is not in `seconds`
};
struct SteadySample {  // rate in a long run over the rate of a short one
  DataType dtype = DataType::bf16;
  bool attention = false;
  double ratio = 1;
};

/// What the board drew on average, its pauses included, while a kernel ran for a share of the time.
struct PowerSample {
  std::string kernel;  // gemm | attention | copy | idle
  double share = 0;    // of the time, 0 to 1
  DataType dtype = DataType::bf16;
  double flops = 0, bytes = 0;  // of one run; bytes of device memory, each operand and result once
  double seconds = 0;           // of one run
  double sm_mhz = 0, watts = 0;
};

struct Samples {
  std::vector<GemmSample> gemm;
  std::vector<AttentionSample> attention;
  std::vector<GroupedSample> grouped;
  std::vector<ExpertSample> experts;
  std::size_t faster_twins = 0;  // expert rows left out: the faster of two kernels whose names the table does not give
  std::vector<ExchangeSample> exchange;
  std::size_t other_exchanges = 0;  // rows left out: preparation, and types whose kernels the table does not name
  std::vector<CollectiveSample> collective;
  std::vector<KernelSample> kernel;
  std::vector<StreamingSample> streaming;
  std::vector<SteadySample> steady;
  std::vector<PowerSample> power;
  std::vector<ScanSample> scans;
  std::vector<SparseSample> sparse;
  std::vector<FactSample> facts;
  std::vector<ServedSample> served;
  std::map<std::string, std::size_t> limited;  // rows of which a driver said what held the clock back, by that
};

/// The header of the table that `orrery calibrate` writes. class: gemm | batched_gemm | grouped_gemm | attention |
/// streaming | host | sustained | power | interference | collective | paged_attention | experts | sampling (their
/// sizes: calibration/kernels/abi.h) | scan (name <kind>_<pass>; k: channels of a key, or taps of a convolution of n
/// channels; heads of values, kv_heads of keys, head_dim: channels of a value) | sparse (name <kernel>_<pass>; m: keys
/// that a query attends to, n: keys that are chosen together, k: channels of a key, head_dim: of a value); name: empty
/// or `accumulate` for gemm, forward | backward for attention, <kernel>_<percent of the time> or idle for power, else
/// the kernel, cost or operation; form: tn (forward), nn (data gradient), nt (weight gradient); seconds: the median
/// over repeats, for sustained and interference the ratio; spread_pct: half the interquartile range over the median;
/// error: relative, against float64. Fields that a class lacks are empty. limited: what held the clock back while a row
/// was measured (power, heat, setting or board, joined by +); tables of before lack the column.
inline constexpr const char* kMeasuredColumns =
    "class,name,dtype,form,m,n,k,batch,seq,heads,kv_heads,head_dim,window,elements,bytes,gpus,seconds,spread_pct,"
    "repeats,error,sm_mhz,power_w,limited";

/// Reads one table, gzipped or not. Throws sim::UserError naming file, line, column and what was expected.
Samples read_samples(const std::string& file);

}  // namespace orrery::calibration
