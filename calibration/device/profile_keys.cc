// The keys of a device profile, documented. The readers are in profile.cc and profile_sections.cc; a test checks that a
// document with exactly these keys loads and that any other key is refused.
#include <fmt/format.h>

#include "calibration/device/keys.h"
#include "calibration/device/measured_host.h"
#include "calibration/device/profile.h"
#include "calibration/device/scan.h"
#include "sim/key_rows.h"

namespace orrery::calibration {
namespace {

using sim::Bounds;
using Docs = std::vector<sim::Key>;

// Rates of one device reach from a laptop's to those of an ideal one whose work takes no time (studies of the rest). A
// share of a peak below a thousandth would be a broken device, and steps too long to count in picoseconds.
constexpr Bounds kFlops{"10 GFLOP/s", "100 EFLOP/s"}, kBandwidth{"1 GB/s", "100 EB/s"}, kShare{"0.001", "1"};
constexpr Bounds kFixed{"0 s", "1 ms"};     // of one kernel
constexpr Bounds kElements{"1e6", "1e12"};  // a second and processor
constexpr Bounds kWatts{"1 W", "100 kW"};
constexpr Bounds kCount{"0", "1e9"}, kPercent{"0", "1e5"}, kSizes{"1", "1e18"};

void data_sheet(Docs& out) {
  out.insert(
      out.end(),
      {
          sim::key_row("name", "text", "", "", {}, "Name of the device."),
          sim::key_row("provenance", "text", "", "-", {},
                       "What was measured, fitted or transferred, and how well it fits."),
          sim::key_row("processors", "integer", "SMs or CUs", "", {}, "Processors that tiles are dealt out to.",
                       {"1", "100000"}),
          sim::key_row("peak", "mapping", "", "", {}, "Dense matrix peaks of the data sheet."),
          sim::key_row("peak.bf16", "quantity", "FLOP/s", "-", {},
                       "Dense bf16 peak; absent: the device has no bf16, and peak.fp16 stands for it below.", kFlops),
          sim::key_row("peak.fp16", "quantity", "FLOP/s", "peak.bf16", {}, "Dense fp16 peak.", kFlops),
          sim::key_row("peak.fp32", "quantity", "FLOP/s", "peak.bf16", {},
                       "Dense peak for fp32 data (TF32 where the device has it).", kFlops),
          sim::key_row("peak.fp8", "quantity", "FLOP/s", "-", {}, "Dense fp8 peak; absent: the device has no fp8.",
                       kFlops),
          sim::key_row("peak.mxfp8", "quantity", "FLOP/s", "-", {},
                       "Dense peak of fp8 with a scale for every 32 elements.", kFlops),
          sim::key_row("peak.fp8-blockwise", "quantity", "FLOP/s", "peak.fp8", {},
                       "Dense peak of fp8 with scales of blocks.", kFlops),
          sim::key_row("peak.fp8-rowwise", "quantity", "FLOP/s", "peak.fp8", {},
                       "Dense peak of fp8 with scales of rows.", kFlops),
          sim::key_row("peak.nvfp4", "quantity", "FLOP/s", "-", {},
                       "Dense peak of 4 bits with a scale for every 16 elements.", kFlops),
          sim::key_row("peak.unaligned", "quantity", "FLOP/s", "-", {},
                       "Rate of 16-bit products whose rows do not begin at multiples of 16 bytes: heads whose size 8 "
                       "does not divide.",
                       kFlops),
          sim::key_row("memory", "quantity", "bytes", "", {}, "Device memory.", {"1 MB", "100 TB"}),
          sim::key_row("memory_bandwidth", "quantity", "bytes/s", "", {}, "Device memory bandwidth of the data sheet.",
                       kBandwidth),
          sim::key_row("sustained", "mapping", "", "-", {}, "Clocks of a long step over those of a short benchmark."),
          sim::key_row("sustained.matmul", "number", "", "1", {},
                       "Factor on the rate of 16 and 32 bit matrix products.", {"0.2", "1"}),
          sim::key_row("sustained.fp8", "number", "", "sustained.matmul", {},
                       "Factor on the rate of matrix products in fp8 and below.", {"0.2", "1"}),
          sim::key_row("sustained.attention", "number", "", "sustained.matmul", {},
                       "Factor on the rate of fused attention.", {"0.2", "1"}),
          sim::key_row("sustained.provenance", "text", "", "-", {}, "Where the factors come from."),
          sim::key_row(
              "mxfp8_products", "mapping", "", "-", {},
              "Time of matrix products in mxfp8 over those in fp8, where gemm has no table of its own for it."),
          sim::key_row("mxfp8_products.forward", "number", "", "1", {}, "Of the forward pass.", {"0.5", "2"}),
          sim::key_row("mxfp8_products.data_gradient", "number", "", "1", {}, "Of the input's gradient.", {"0.5", "2"}),
          sim::key_row("mxfp8_products.weight_gradient", "number", "", "1", {}, "Of the weight's.", {"0.5", "2"}),
          sim::key_row("mxfp8_products.provenance", "text", "", "-", {}, "Where they come from."),
          sim::key_row("node", "mapping", "", "", {},
                       "How the GPUs of a node reach each other; see the keys of a node."),
      });
}

/// How power and speed follow the clock.
void power_and_clock(Docs& out) {
  out.insert(
      out.end(),
      {
          sim::key_row("power.attention", "number", "", "1", {},
                       "Energy of an operation of fused attention over that of a product of the same type.",
                       {"0.5", "5"}),
          sim::key_row(
              "power.product_clock", "number", "", "1", {},
              "Share of the highest clock beyond which products are no faster: their load makes the device stretch it.",
              {"0.2", "1"}),
          sim::key_row(
              "power.exponent", "number", "", "3", {},
              "Power of activity and operations goes with their speed to this; 3 where the voltage follows the clock.",
              {"1", "4"}),
      });
}

void power(Docs& out) {
  out.insert(
      out.end(),
      {
          sim::key_row("power", "mapping", "", "-", {},
                       "What the device draws; its clock in a step follows from its limit."),
          sim::key_row("power.limit", "quantity", "W", "", {},
                       "Power limit of the board or package; a step's clock keeps its mean within it.", kWatts),
          sim::key_row("power.standing", "quantity", "W", "", {}, "Drawn with no kernel running.", {"0 W", "5 kW"}),
          sim::key_row("power.active", "quantity", "W", "", {},
                       "Drawn beyond that while any kernel runs, at full clock.", {"0 W", "5 kW"}),
          sim::key_row("power.per_flop", "mapping", "", "", {},
                       "Energy of an operation of a matrix product at full clock, by type of operands; types that are "
                       "missing take fp8's, or bf16's."),
          sim::key_row("power.per_byte", "quantity", "J", "", {},
                       "Energy of a byte read from or written to device memory.", {"0 J", "1 uJ"}),
          sim::key_row("power.governs", "boolean", "", "true", {},
                       "Whether a step's clock follows from the limit; false where the sustained factors hold what it "
                       "leaves, so that a lower cap alone moves the clock."),
          sim::key_row("power.per_link_byte", "quantity", "J", "80 pJ", {},
                       "Energy of a byte sent from one device to another of its node.", {"0 J", "1 uJ"}),
          sim::key_row("power.per_nic_byte", "quantity", "J", "160 pJ", {},
                       "Energy of a byte through a NIC, in or out.", {"0 J", "1 uJ"}),
          sim::key_row(
              "power.host", "quantity", "W", "0 W", {},
              "What the rest of a node draws for each of its devices: processors, memory, switches inside, fans, NICs.",
              {"0 W", "100 kW"}),
          sim::key_row("power.conversion", "number", "", "1", {},
                       "What leaves the power supplies of a node over what enters them.", {"0.5", "1"}),
          sim::key_row("power.provenance", "text", "", "-", {}, "Where the figures come from."),
      });
  for (const std::string& type : data_type_names())
    out.push_back(sim::key_row("power.per_flop." + type, "quantity", "J", type == "bf16" ? "" : "-", {},
                               "Energy of an operation of a product with operands of this type, at full clock.",
                               {"0 J", "1 nJ"}));
}

void errors(Docs& out, const std::string& at) {
  out.push_back(sim::key_row(at + ".provenance", "text", "", "-", {}, "Where the numbers come from."));
  out.push_back(sim::key_row(at + ".error", "mapping", "", "-", {},
                             "How well the fit holds: samples, folds (left out: in-sample), percentiles of the error "
                             "in percent (by_size: small, medium, large) and the smallest and largest sizes fitted "
                             "(from, to). Uncertainty of every answer comes from it."));
  const auto row = [&](const char* name, const char* type, const char* meaning, Bounds bounds) {
    out.push_back({at + ".error." + name, type, "", "-", {}, meaning, bounds});
  };
  row("samples", "number", "Measurements that were held out.", kCount);
  row("folds", "number", "Parts that the measurements were cut into, each left out once; absent: in-sample.", kCount);
  row("median_pct", "number", "Median of the error, in percent.", kPercent);
  row("p90_pct", "number", "Its 90th percentile.", kPercent);
  row("median_by_size_pct", "list", "Its median, small sizes first.", kPercent);
  row("p90_by_size_pct", "list", "Its 90th percentile, small sizes first.", kPercent);
  row("extrapolated_median_pct", "number", "Its median beyond the sizes fitted.", kPercent);
  row("extrapolated_p90_pct", "number", "Its 90th percentile there.", kPercent);
  row("from", "list", "The smallest sizes fitted.", kSizes);
  row("to", "list", "The largest sizes fitted.", kSizes);
}

/// A correction: knots along three sizes and its values there.
void surface(Docs& out, const std::string& at, const std::vector<const char*>& sizes) {
  for (const char* size : sizes)
    out.push_back(sim::key_row(at + "." + size, "list", "", "-", {}, "Knots along this size, rising.", {"1", "1e9"}));
  out.push_back(
      sim::key_row(at + ".log_correction", "list", "", "", {}, "ln(time / structure), row by row.", {"-3", "3"}));
}

void tiles(Docs& out, const std::string& at) {
  out.insert(
      out.end(),
      {
          sim::key_row(at + ".tiles", "list", "", "", {},
                       "Tile shapes: m, n, rate (share of peak in the inner loop), setup (time per tile)."),
          sim::key_row(at + ".tiles[].m", "integer", "rows", "", {}, "Rows of the result in one tile.", {"1", "4096"}),
          sim::key_row(at + ".tiles[].n", "integer", "columns", "", {}, "Columns of the result in one tile.",
                       {"1", "4096"}),
          sim::key_row(at + ".tiles[].rate", "number", "", "", {}, "Share of peak in the inner loop.", kShare),
          sim::key_row(at + ".tiles[].setup", "quantity", "s", "", {}, "Time per tile.", kFixed),
      });
}

void streams(Docs& out, const std::string& at) {
  out.push_back(
      sim::key_row(at + ".streams", "mapping", "", "-", {}, "Products of several experts on several streams."));
  out.push_back(sim::key_row(at + ".streams.together", "number", "", "1", {},
                             "Time of all their tiles dealt out together over what the structure says.",
                             {"0.1", "10"}));
  out.push_back(sim::key_row(at + ".streams.hidden", "number", "", "0.4", {},
                             "Share hidden of what one after another takes beyond that.", {"0", "1"}));
}

void gemm(Docs& out, const std::string& at) {
  out.push_back(sim::key_row(at, "mapping", "", at == "gemm.bf16" ? "" : "gemm.bf16", {},
                             "Wave model of matrix products of this type."));
  errors(out, at);
  out.insert(out.end(),
             {
                 sim::key_row(at + ".launch", "quantity", "s", "", {}, "Device time of an empty kernel.", kFixed),
                 sim::key_row(at + ".quantisation", "number", "", "", {},
                              "How strictly waves are whole: 1 whole, 0 fractional.", {"0", "1"}),
                 sim::key_row(at + ".memory_efficiency", "number", "", "", {},
                              "Share of memory bandwidth that operands and result move at.", kShare),
                 sim::key_row(at + ".join_time", "quantity", "s", "", {},
                              "Fixed cost of splitting the inner dimension.", kFixed),
                 sim::key_row(at + ".join_efficiency", "number", "", "", {},
                              "Rate of adding partial results, over memory bandwidth.", {"0.001", "100"}),
                 sim::key_row(at + ".accumulate_exposed", "number", "", "0", {},
                              "Share of the extra traffic of adding into an fp32 result that other work does not hide.",
                              {"0", "1"}),
                 sim::key_row(at + ".cast_launch", "quantity", "s", "0 us", {},
                              "Fixed cost of casting a 16 bit operand ahead of the product.", kFixed),
                 sim::key_row(at + ".cast_rate", "quantity", "bytes/s", "-", {},
                              "Rate of that cast, over 3 bytes an element.", kBandwidth),
                 sim::key_row(
                     at + ".forms", "mapping", "", "-", {},
                     "Time of the data_gradient and weight_gradient forms of operands over that of the forward form."),
                 sim::key_row(at + ".forms.data_gradient", "number", "", "1", {},
                              "Of products that make input gradients.", {"0.5", "2"}),
                 sim::key_row(at + ".forms.weight_gradient", "number", "", "1", {},
                              "Of products that make weight gradients.", {"0.5", "2"}),
                 sim::key_row(at + ".surface", "mapping", "", "-", {},
                              "Correction: knots m, n, k and log_correction, a row for each (m, n)."),
                 sim::key_row(at + ".detail", "mapping", "", "-", {},
                              "Correction added to it: knots m, n, k and log_correction, a row for each k and m."),
                 sim::key_row(at + ".row_step", "integer", "rows", "1", {},
                              "Rows that its kernels compute at a time, where m is no multiple of 128.", {"1", "128"}),
                 sim::key_row(at + ".ragged", "mapping", "", "-", {},
                              "Correction added where m is no multiple of 128, as `detail`."),
             });
  streams(out, at);
  tiles(out, at);
  for (const char* of : {".surface", ".detail", ".ragged"}) surface(out, at + of, {"m", "n", "k"});
}

/// Grouped products of experts of one type.
void experts(Docs& out, const std::string& at) {
  out.push_back(sim::key_row(at, "mapping", "", "experts.bf16", {}, "Grouped products of experts of this type."));
  errors(out, at);
  const auto row = [&](const char* name, const char* type, const char* unit, const char* meaning, Bounds bounds) {
    out.push_back({at + "." + name, type, unit, "", {}, meaning, bounds});
  };
  row("launch", "quantity", "s", "Device time of an empty kernel.", kFixed);
  row("quantisation", "number", "", "How strictly waves are whole: 1 whole, 0 fractional.", {"0", "1"});
  row("memory_efficiency", "number", "", "Share of memory bandwidth that weights, rows and results move at.", kShare);
  out.push_back(
      sim::key_row(at + ".best_rate", "number", "", "1", {}, "Share of peak that no correction exceeds.", kShare));
  out.push_back(
      sim::key_row(at + ".served", "mapping", "", "", {}, "What serving libraries' tables time around the products."));
  constexpr Bounds kEach{"0", "1e6"}, kMoved{"0.001", "100"};
  row("served.fixed", "quantity", "s", "Fixed time of choosing, sorting and gathering.", kFixed);
  row("served.choice", "number", "ns", "Per token and expert that it chose.", kEach);
  row("served.score", "number", "ns", "Per token and expert of the layer.", kEach);
  row("served.expert", "number", "ns", "Per expert of the rank.", kEach);
  row("served.gather", "number", "", "Rate of gathering rows, over memory bandwidth.", kMoved);
  row("served.activate", "number", "", "Rate of the activation, over memory bandwidth.", kMoved);
  row("served.scatter", "number", "", "Rate of summing rows into tokens, over memory bandwidth.", kMoved);
  row("served.sort", "quantity", "s", "Added for choices of more tokens than one block sorts.", kFixed);
  row("served.unfused", "quantity", "s", "Added where a token takes more than 16 experts or of more than 512.", kFixed);
  row("served.unfused_token", "number", "ns", "Added there per token.", kEach);
  tiles(out, at);
  out.push_back(
      sim::key_row(at + ".surface", "mapping", "", "-", {},
                   "Correction: knots m (tokens of an expert), n, k and log_correction, a row for each (m, n)."));
  surface(out, at + ".surface", {"m", "n", "k"});
}

void attention(Docs& out) {
  out.push_back(sim::key_row("attention", "mapping", "", "", {}, "Task model of fused attention."));
  errors(out, "attention");
  out.insert(out.end(),
             {
                 sim::key_row("attention.launch", "quantity", "s", "", {}, "Device time of an empty kernel.", kFixed),
                 sim::key_row("attention.rate", "mapping", "", "", {},
                              "Share of the bf16 peak in the inner loop, by head dimension."),
                 sim::key_row("attention.rate.head_dim_64", "number", "", "", {}, "At head dimension 64.", kShare),
                 sim::key_row("attention.rate.head_dim_128", "number", "", "", {}, "At head dimension 128.", kShare),
                 sim::key_row("attention.setup", "quantity", "s", "", {},
                              "Prologue and epilogue of a task of 128 queries.", kFixed),
                 sim::key_row("attention.quantisation", "number", "", "", {},
                              "How strictly waves are whole: 1 whole, 0 fractional.", {"0", "1"}),
                 sim::key_row("attention.memory_efficiency", "number", "", "", {},
                              "Share of memory bandwidth that Q, K, V and O move at.", kShare),
                 sim::key_row("attention.backward_ratio", "number", "", "", {},
                              "Rate of the backward pass over that of the forward pass.", kShare),
                 sim::key_row("attention.cache_launch", "quantity", "s", "0 us", {},
                              "Fixed cost of the cache copy that tables of serving kernels include.", kFixed),
                 sim::key_row("attention.cache_efficiency", "number", "", "0.5", {},
                              "Share of memory bandwidth that this copy moves at.", {"0.001", "10"}),
                 sim::key_row("attention.surface", "mapping", "", "-", {},
                              "Correction: knots queries, sequences_heads, head_dim and log_correction."),
             });
  surface(out, "attention.surface", {"queries", "sequences_heads", "head_dim"});
}

void attention_kernels(Docs& out) {
  out.insert(out.end(),
             {
                 sim::key_row("attention_kernels", "mapping", "", "-", {}, "Attention kernels of other generations."),
                 sim::key_row("attention_kernels.provenance", "text", "", "-", {}, "Where the numbers come from."),
             });
  const auto kernel = [&](const std::string& at, const char* meaning) {
    const Bounds share{"0.01", "2"};
    out.insert(
        out.end(),
        {
            sim::key_row(at, "mapping", "", "attention", {}, meaning),
            sim::key_row(at + ".provenance", "text", "", "-", {}, "Where its numbers come from."),
            sim::key_row(
                at + ".forward", "number", "", "", {},
                "Share of the bf16 peak in the inner loop of the forward pass; operands of 8 bits may go beyond it.",
                share),
            sim::key_row(at + ".backward", "number", "", "", {}, "Likewise of the backward pass.", share),
            sim::key_row(at + ".forward_64", "number", "", at + ".forward", {},
                         "Likewise of the forward pass with heads of 64 channels.", share),
            sim::key_row(at + ".backward_64", "number", "", at + ".backward", {},
                         "Likewise of the backward pass with heads of 64 channels.", share),
            sim::key_row(at + ".backward_wide", "number", "", at + ".backward", {},
                         "Likewise of the backward pass with heads of more than 128 channels.", share),
            sim::key_row(at + ".backward_whole", "boolean", "", "false", {},
                         "The backward pass goes through all keys ahead of a query, whether there is a window or not."),
            sim::key_row(at + ".setup", "quantity", "s", "attention.setup", {},
                         "Time of a task of 128 queries beside its loop, with heads of 128 channels.", kFixed),
            sim::key_row(
                at + ".dropout", "number", "1/ns", "-", {},
                "Scores per nanosecond that the device makes random numbers for; absent: dropout costs nothing.",
                {"1", "1e6"}),
        });
  };
  kernel("attention_kernels.flash_1", "FlashAttention 1 (CUDA or Triton).");
  kernel("attention_kernels.flash_2", "FlashAttention 2, where it falls behind the kernels that the profile timed.");
  kernel("attention_kernels.fused", "The vendor's kernels for training, where the profile timed those for serving.");
  kernel("attention_kernels.fused_fp8", "The vendor's kernels on operands in fp8.");
  kernel("attention_kernels.fused_2026", "The vendor's kernels of 2026, where they are faster than the tables'.");
}

void mixers(Docs& out) {
  out.push_back(sim::key_row("scans", "mapping", "", "as an H100's", {},
                             "Kernels of mixers with a state (Mamba-2, delta rules)."));
  out.push_back(sim::key_row("scans.provenance", "text", "", "-", {}, "Where the numbers come from."));
  out.push_back(
      sim::key_row("sparse", "mapping", "", "as an H100's", {}, "Kernels of attention to chosen or compressed keys."));
  out.push_back(sim::key_row("sparse.provenance", "text", "", "-", {}, "Where the numbers come from."));
  const auto kernel = [&](const std::string& name, const std::string& otherwise, const std::string& meaning) {
    out.push_back(sim::key_row(name, "mapping", "", otherwise, {}, meaning));
    out.push_back(sim::key_row(name + ".provenance", "text", "", "-", {}, "Where these numbers come from."));
    out.push_back(sim::key_row(name + ".launch", "quantity", "s", otherwise, {},
                               "Device time of each of its kernels at least.", kFixed));
    out.push_back(sim::key_row(name + ".bandwidth", "number", "", otherwise, {},
                               "Share of memory bandwidth that it reaches.", kShare));
    out.push_back(sim::key_row(name + ".rate", "number", "", otherwise, {},
                               "Share of the matrix units' peak in its type.", kShare));
  };
  kernel("scans.convolution", "as an H100's", "The short causal convolution ahead of a scan.");
  kernel("scans.chunks", "as an H100's", "The scan in chunks of positions, of kinds without rates of their own.");
  for (const ScanKind* kind : kMeasuredScans)
    kernel(fmt::format("scans.{}", kind->name), "those of scans.chunks", fmt::format("Scans of {} alone.", kind->name));
  kernel("sparse.index", "as an H100's", "The scores by which keys are chosen.");
  kernel("sparse.choice", "as an H100's", "The choice of the keys of highest score.");
  kernel("sparse.attention", "as an H100's", "Attention to keys that were chosen.");
  kernel("sparse.block_attention", "that of sparse.attention",
         "Attention to blocks of keys that were chosen together.");
}

void streaming(Docs& out) {
  out.push_back(sim::key_row("streaming", "mapping", "", "", {}, "Kernels bound by memory traffic."));
  errors(out, "streaming");
  out.push_back(
      sim::key_row("streaming.floor", "quantity", "s", "", {}, "Device time of the smallest kernel.", kFixed));
  out.push_back(sim::key_row("streaming.efficiency", "mapping", "", "", {}, "Share of memory bandwidth, by kernel."));
  for (std::size_t i = 0; i < kStreamingKernels; ++i) {
    const auto which = static_cast<Streaming>(i);
    const double assumed = assumed_efficiency(which);
    out.push_back(sim::key_row("streaming.efficiency." + std::string(name_of(which)), "number", "",
                               assumed > 0 ? fmt::format("{}", assumed) : "", {},
                               "Share of memory bandwidth that this kernel reaches.", kShare));
  }
  out.push_back(
      sim::key_row("streaming.elements", "mapping", "", "", {}, "Elements a second and processor, by kernel."));
  for (std::size_t i = 0; i < kStreamingKernels; ++i) {
    const auto which = static_cast<Streaming>(i);
    const double assumed = elements_per_processor(which);
    if (assumed <= 0) continue;
    out.push_back(sim::key_row(
        "streaming.elements." + std::string(name_of(which)), "number", "", fmt::format("{}", assumed), {},
        "Elements a second that a processor does of this kernel, which goes by elements, not by bytes.", kElements));
  }
}

void collectives(Docs& out) {
  out.push_back(sim::key_row("collectives", "mapping", "", "", {}, "Collectives inside one node."));
  out.push_back(sim::key_row("collectives.provenance", "text", "", "-", {}, "Where the numbers come from."));
  out.push_back(sim::key_row("collectives.gpus", "list", "GPUs", "", {},
                             "Group sizes that rates and switches are given for, rising.", {"1", "1e6"}));
  for (std::size_t i = 0; i < kCollectiveOps; ++i) {
    const std::string at = "collectives." + std::string(name_of(static_cast<CollectiveOp>(i)));
    out.push_back(
        sim::key_row(at, "mapping", "", "", {}, "Two protocols and where the library switches between them."));
    errors(out, at);
    for (const char* name : {"low_latency", "bulk", "in_switch"}) {
      const bool in_switch = std::string_view(name) == "in_switch";
      if (in_switch && static_cast<CollectiveOp>(i) != CollectiveOp::all_reduce) continue;
      const std::string protocol = at + "." + name;
      out.push_back(
          sim::key_row(protocol, "mapping", "", in_switch ? "none" : "", {},
                       in_switch ? "Reduction in the switches over more GPUs than collectives.gpus, where it is faster."
                                 : "What one transfer costs in this protocol."));
      if (in_switch)
        out.push_back(sim::key_row(protocol + ".provenance", "text", "", "", {}, "Where the numbers come from."));
      out.push_back(sim::key_row(protocol + ".base", "quantity", "s", "", {}, "Fixed cost.", {"0.1 us", "10 ms"}));
      out.push_back(
          sim::key_row(protocol + ".hop", "quantity", "s", "", {}, "Cost of each further GPU.", {"0 s", "10 ms"}));
      out.push_back(
          sim::key_row(protocol + ".overlap", "number", "", "0", {},
                       "How far fixed cost and transfer hide each other; below 0, they add to more than their sum.",
                       {"-0.75", "1"}));
      out.push_back(sim::key_row(protocol + ".rate", "list", "bytes/s", "", {},
                                 "What a GPU sends a second, one for each group size.", {"10 MB/s", "100 TB/s"}));
    }
    out.push_back(sim::key_row(at + ".switch", "list", "bytes", "", {},
                               "Buffer size up to which low_latency is used, for each group size.", {"1 B", "1 TB"}));
    out.push_back(sim::key_row(at + ".in_switch_from", "integer", "GPUs", "0", {},
                               "Group size from which bulk is in-switch reduction; 0: never.", {"0", "1e6"}));
  }
}

}  // namespace

const sim::KeyTable& profile_keys() {
  // Not taken apart at the program's end, which frees it at once.
  static const sim::KeyTable& docs = *[] {
    Docs out;
    data_sheet(out);
    power(out);
    power_and_clock(out);
    out.push_back(sim::key_row(
        "gemm", "mapping", "", "", {},
        "Matrix products, by data type; types left out run like bf16, those with scales like fp8, at their peak."));
    for (const std::string& type : data_type_names()) gemm(out, "gemm." + type);
    out.push_back(
        sim::key_row("experts", "mapping", "", "gemm", {},
                     "Grouped products of experts, by data type; absent: tiles and rates of dense products."));
    out.push_back(sim::key_row("experts.provenance", "text", "", "-", {}, "Where the numbers come from."));
    for (const std::string& type : data_type_names()) experts(out, "experts." + type);
    attention(out);
    attention_kernels(out);
    streaming(out);
    mixers(out);
    collectives(out);
    measured_host_keys(out);
    out.push_back(sim::key_row(
        "serving", "mapping", "", "as the device's of this name", {},
        "Kernels of inference engines, in the form of calibration/serving/, laid over the device's document there."));
    return new sim::KeyTable(std::move(out));
  }();
  return docs;
}

}  // namespace orrery::calibration
