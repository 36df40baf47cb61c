// The keys of a device profile, documented. The readers are in profile.cc and profile_sections.cc; a test checks that a
// document with exactly these keys loads and that any other key is refused.
#include "calibration/keys.h"
#include "calibration/profile.h"

namespace orrery::calibration {
namespace {

using Docs = std::vector<KeyDoc>;

void data_sheet(Docs& out) {
  out.insert(
      out.end(),
      {
          {"name", "text", "", "", "Name of the device."},
          {"provenance", "text", "", "-", "What was measured, fitted or transferred, and how well it fits."},
          {"processors", "integer", "SMs or CUs", "", "Processors that tiles are dealt out to."},
          {"peak", "mapping", "", "", "Dense matrix peaks of the data sheet."},
          {"peak.bf16", "quantity", "FLOP/s", "", "Dense bf16 peak."},
          {"peak.fp16", "quantity", "FLOP/s", "peak.bf16", "Dense fp16 peak."},
          {"peak.fp32", "quantity", "FLOP/s", "peak.bf16", "Peak of fp32, not of TF32."},
          {"peak.fp8", "quantity", "FLOP/s", "-", "Dense fp8 peak; absent: the device has no fp8."},
          {"peak.mxfp8", "quantity", "FLOP/s", "-", "Dense peak of fp8 with a scale for every 32 elements."},
          {"peak.fp8-blockwise", "quantity", "FLOP/s", "peak.fp8", "Dense peak of fp8 with scales of blocks."},
          {"peak.fp8-rowwise", "quantity", "FLOP/s", "peak.fp8", "Dense peak of fp8 with scales of rows."},
          {"peak.nvfp4", "quantity", "FLOP/s", "-", "Dense peak of 4 bits with a scale for every 16 elements."},
          {"peak.unaligned", "quantity", "FLOP/s", "-",
           "Rate of 16-bit products whose rows do not begin at multiples of 16 bytes: heads whose size 8 does not "
           "divide."},
          {"memory", "quantity", "bytes", "", "Device memory."},
          {"memory_bandwidth", "quantity", "bytes/s", "", "Device memory bandwidth of the data sheet."},
          {"sustained", "mapping", "", "-", "Clocks of a long step over those of a short benchmark."},
          {"sustained.matmul", "number", "", "1", "Factor on the rate of 16 and 32 bit matrix products."},
          {"sustained.fp8", "number", "", "sustained.matmul",
           "Factor on the rate of matrix products in fp8 and below."},
          {"sustained.attention", "number", "", "sustained.matmul", "Factor on the rate of fused attention."},
          {"sustained.provenance", "text", "", "-", "Where the factors come from."},
          {"node", "mapping", "", "", "How the GPUs of a node reach each other; see the keys of a node."},
      });
}

void errors(Docs& out, const std::string& at) {
  out.push_back({at + ".provenance", "text", "", "-", "Where the numbers come from."});
  out.push_back({at + ".error", "mapping", "", "-",
                 "How well the fit holds: samples, folds (left out: in-sample), percentiles of the error in percent "
                 "(by_size: small, medium, large) and the smallest and largest sizes fitted (from, to). "
                 "Uncertainty of every answer comes from it."});
}

void gemm(Docs& out, const std::string& at) {
  out.push_back(
      {at, "mapping", "", at == "gemm.bf16" ? "" : "gemm.bf16", "Wave model of matrix products of this type."});
  errors(out, at);
  out.insert(
      out.end(),
      {
          {at + ".launch", "quantity", "time", "", "Device time of an empty kernel."},
          {at + ".quantisation", "number", "", "", "How strictly waves are whole: 1 whole, 0 fractional."},
          {at + ".memory_efficiency", "number", "", "", "Share of memory bandwidth that operands and result move at."},
          {at + ".join_time", "quantity", "time", "", "Fixed cost of splitting the inner dimension."},
          {at + ".join_efficiency", "number", "", "", "Rate of adding partial results, over memory bandwidth."},
          {at + ".accumulate_exposed", "number", "", "0",
           "Share of the extra traffic of adding into an fp32 result that other work does not hide."},
          {at + ".cast_launch", "quantity", "time", "0 us",
           "Fixed cost of casting a 16 bit operand ahead of the product."},
          {at + ".cast_rate", "quantity", "bytes/s", "-", "Rate of that cast, over 3 bytes an element."},
          {at + ".tiles", "list", "", "",
           "Tile shapes: m, n, rate (share of peak in the inner loop), setup (time per tile)."},
          {at + ".forms", "mapping", "", "-",
           "Time of the data_gradient and weight_gradient forms of operands over that of the forward form."},
          {at + ".surface", "mapping", "", "-", "Correction: knots m, n, k and log_correction, a row for each (m, n)."},
          {at + ".detail", "mapping", "", "-",
           "Correction added to it: knots m, n, k and log_correction, a row for each k and m."},
      });
}

void attention(Docs& out) {
  out.push_back({"attention", "mapping", "", "", "Task model of fused attention."});
  errors(out, "attention");
  out.insert(
      out.end(),
      {
          {"attention.launch", "quantity", "time", "", "Device time of an empty kernel."},
          {"attention.rate", "mapping", "", "", "Share of the bf16 peak in the inner loop, by head dimension."},
          {"attention.rate.head_dim_64", "number", "", "", "At head dimension 64."},
          {"attention.rate.head_dim_128", "number", "", "", "At head dimension 128."},
          {"attention.setup", "quantity", "time", "", "Prologue and epilogue of a task of 128 queries."},
          {"attention.quantisation", "number", "", "", "How strictly waves are whole: 1 whole, 0 fractional."},
          {"attention.memory_efficiency", "number", "", "", "Share of memory bandwidth that Q, K, V and O move at."},
          {"attention.backward_ratio", "number", "", "", "Rate of the backward pass over that of the forward pass."},
          {"attention.cache_launch", "quantity", "time", "0 us",
           "Fixed cost of the cache copy that tables of serving kernels include."},
          {"attention.cache_efficiency", "number", "", "0.5", "Share of memory bandwidth that this copy moves at."},
          {"attention.surface", "mapping", "", "-",
           "Correction: knots queries, sequences_heads, head_dim and log_correction."},
      });
}

void attention_kernels(Docs& out) {
  out.insert(out.end(),
             {
                 {"attention_kernels", "mapping", "", "-", "Attention kernels of other generations."},
                 {"attention_kernels.provenance", "text", "", "-", "Where the numbers come from."},
                 {"attention_kernels.flash_1", "mapping", "", "attention", "FlashAttention 1 (CUDA or Triton)."},
                 {"attention_kernels.flash_1.forward", "number", "", "",
                  "Share of the bf16 peak in the inner loop of the forward pass, at the clocks of a long step."},
                 {"attention_kernels.flash_1.backward", "number", "", "", "Likewise of the backward pass."},
                 {"attention_kernels.flash_1.dropout", "number", "1/ns", "-",
                  "Scores per nanosecond that the device makes random numbers for; absent: dropout costs nothing."},
             });
}

void streaming(Docs& out) {
  out.push_back({"streaming", "mapping", "", "", "Kernels bound by memory traffic."});
  errors(out, "streaming");
  out.push_back({"streaming.floor", "quantity", "time", "", "Device time of the smallest kernel."});
  out.push_back({"streaming.efficiency", "mapping", "", "", "Share of memory bandwidth, by kernel."});
  for (std::size_t i = 0; i < kStreamingKernels; ++i)
    out.push_back({"streaming.efficiency." + std::string(name_of(static_cast<Streaming>(i))), "number", "", "",
                   "Share of memory bandwidth that this kernel reaches."});
}

void collectives(Docs& out) {
  out.push_back({"collectives", "mapping", "", "", "Collectives inside one node."});
  out.push_back({"collectives.provenance", "text", "", "-", "Where the numbers come from."});
  out.push_back({"collectives.gpus", "list", "GPUs", "", "Group sizes that rates and switches are given for, rising."});
  for (std::size_t i = 0; i < kCollectiveOps; ++i) {
    const std::string at = "collectives." + std::string(name_of(static_cast<CollectiveOp>(i)));
    out.push_back({at, "mapping", "", "", "Two protocols and where the library switches between them."});
    errors(out, at);
    for (const char* protocol : {"low_latency", "bulk"})
      out.push_back(
          {at + "." + protocol, "mapping", "", "",
           "base and hop (time), overlap (-0.75 to 1), rate (one for each group size, bytes/s that a GPU sends)."});
    out.push_back(
        {at + ".switch", "list", "bytes", "", "Buffer size up to which low_latency is used, for each group size."});
    out.push_back({at + ".in_switch_from", "integer", "GPUs", "0",
                   "Group size from which bulk is in-switch reduction; 0: never."});
  }
}

}  // namespace

const std::vector<KeyDoc>& profile_keys() {
  static const Docs docs = [] {
    Docs out;
    data_sheet(out);
    out.push_back({"gemm", "mapping", "", "",
                   "Matrix products, by data type; types left out run like bf16, those with scales like fp8, at "
                   "their peak."});
    for (const std::string& type : data_type_names()) gemm(out, "gemm." + type);
    attention(out);
    attention_kernels(out);
    streaming(out);
    collectives(out);
    return out;
  }();
  return docs;
}

}  // namespace orrery::calibration
