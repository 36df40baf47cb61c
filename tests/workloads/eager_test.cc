// Does a framework that computes in steps cost the steps that it takes? Bytes and calls are counted from its code.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "tests/workloads/layers.h"
#include "workloads/job/job_values.h"
#include "workloads/model/kept.h"
#include "workloads/step/steady_clock.h"
#include "workloads/step/step.h"
#include "workloads/traffic/traffic.h"

using namespace orrery;
using namespace orrery::workloads;
using tests::small_job;

namespace {

/// Bytes that kernels bound by memory move in the passes over one block, forward and backward.
double streamed(const Job& job) {
  const LayerPasses passes = tests::passes_over(job, {1, false, false});
  double bytes = 0;
  for (const Pieces* pieces : {&passes.forward, &passes.backward})
    for (const Piece& piece : *pieces)
      for (const Kernel& kernel : piece.kernels) bytes += kernel.flops > 0 ? 0 : kernel.bytes;
  return bytes;
}

double matrix_flops(const Job& job) {
  const LayerPasses passes = tests::passes_over(job, {1, false, false});
  double flops = 0;
  for (const Piece& piece : passes.backward)
    for (const Kernel& kernel : piece.kernels) flops += kernel.flops;
  return flops;
}

using Sets = std::vector<std::string>;

Sets with(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

const Sets kGated{"model.gated_mlp=true", "parallelism.tensor=1", "parallelism.data=8", "model.biases=none"};

}  // namespace

TEST_CASE("a gated activation in steps moves five widths forward and thirteen back, for three and five in one kernel") {
  const double fused = streamed(small_job(with(kGated, {"software.recipe.activation=fused"})));
  const double steps = streamed(small_job(with(kGated, {"software.recipe.activation=in_steps"})));
  // 1024 tokens, 8192 wide, 2 bytes.
  CHECK(steps - fused == Approx((5 + 13 - 3 - 5) * 1024.0 * 8192 * 2));
}

TEST_CASE("a squared ReLU in steps makes fourteen passes for five") {
  const std::vector<std::string> squared{"model.activation=squared_relu", "parallelism.tensor=1", "parallelism.data=8",
                                         "model.biases=none"};
  const double fused = streamed(small_job(with(squared, {"software.recipe.activation=fused"})));
  const double steps = streamed(small_job(with(squared, {"software.recipe.activation=squared_relu_in_steps"})));
  CHECK(steps - fused == Approx((14 - 5) * 1024.0 * 8192 * 2));
  // A GeLU is one kernel either way.
  CHECK(streamed(small_job({"software.recipe.activation=squared_relu_in_steps"})) == streamed(small_job()));
}

TEST_CASE("an RMS norm in steps moves 36 bytes an element forward and 84 back, a layer norm three passes") {
  const std::vector<std::string> rms = with(kGated, {"model.norm=rms_norm"});
  const double fused = streamed(small_job(with(rms, {"software.recipe.norm=persistent"})));
  const double steps = streamed(small_job(with(rms, {"software.recipe.norm=in_steps"})));
  // Forward: to fp32 (2 + 4), square (4 + 4), mean (4), product (4 + 4), to 16 bit (4 + 2), weights (2 + 2).
  // Backward: weights (2 + 2, twice 2 + 2 and 2, 2), to fp32 (2 + 4), product (4 + 4), of the root (4 + 4 + 4, 4), of
  // the square three passes (4 + 4), both together (4 + 4 + 4), to 16 bit (4 + 2). In one kernel 2 + 2 and 2 + 2 + 2.
  const double forward = 6 + 8 + 4 + 8 + 6 + 4;
  const double backward = 4 + 6 + 2 + 6 + 8 + 12 + 4 + 3 * 8 + 12 + 6;
  const double norms = 2 * 1024.0 * 2048;
  CHECK(steps - fused == Approx(norms * (forward + backward - 4 - 6)));
  // A layer norm has kernels of its own: without the fused one, two passes more forward.
  const std::vector<std::string> layer = with(kGated, {"model.norm=layer_norm"});
  CHECK(streamed(small_job(with(layer, {"software.recipe.norm=in_steps"}))) -
            streamed(small_job(with(layer, {"software.recipe.norm=fused"}))) ==
        Approx(norms * 2 * 4));
}

TEST_CASE("scales of rows cast an operand once more for the gradients of weights, and inputs when they are whole") {
  const std::vector<std::string> fp8 = with(kGated, {"cluster.device=h100-sxm-80gb", "software.casts=apart"});
  const double rows = streamed(small_job(with(fp8, {"precision=fp8-rowwise"})));
  const double none = streamed(small_job(with(fp8, {"precision=bf16"})));
  // Inputs of the four linear layers and the gradients of their outputs, of both branches, each read and cast (3), then
  // read for the columns' largest magnitudes (2) and cast again (3).
  const double inputs = 3 * 2048 + 8192, gradients = 3 * 2048 + 2048 + 2 * 8192 + 2048;
  CHECK(rows - none == Approx(1024 * (inputs + gradients) * (3 + 2 + 3)).epsilon(0.01));
  // Written column by column, that cast alone moves more.
  const double apart = streamed(small_job(with(fp8, {"precision=fp8-rowwise", "software.column_cast_traffic=4"})));
  CHECK(apart - rows == Approx(1024 * (inputs + gradients) * 3 * (4 - 1)));
}

TEST_CASE("forward products with scales of rows and long sums take longer, no others do") {
  const auto times = [](const char* type, const char* rate) {
    const Job job = small_job(with(kGated, {"cluster.device=h100-sxm-80gb", std::string("precision=") + type,
                                            std::string("software.rows_scaled_rate=") + rate}));
    std::map<std::string, double> of;
    const LayerPasses passes = tests::passes_over(job, {1, false, false});
    for (const Pieces* pieces : {&passes.forward, &passes.backward})
      for (const Piece& piece : *pieces)
        for (const Kernel& kernel : piece.kernels)
          if (kernel.matmul) of[kernel.name] = sim::to_seconds(kernel.time);
    return of;
  };
  // Sums over 2048, and over 8192 on the way down alone.
  const auto one = times("fp8-rowwise", "1"), half = times("fp8-rowwise", "0.5");
  REQUIRE(one.contains("mlp down"));
  for (const auto& [name, time] : one) {
    INFO(name);
    CHECK(half.at(name) == Approx(name == "mlp down" ? 2 * time : time));
  }
  CHECK(times("fp8", "0.5") == times("fp8", "1"));
}

TEST_CASE("gathered keys in blocks: a kernel for each rank, FLOPs as in one, sums and sent gradients in fp32") {
  const std::vector<std::string> gathered{"parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.context=4",
                                          "parallelism.data=4", "parallelism.context_method=all_gather"};
  const Job whole = small_job(gathered), blocks = small_job(with(gathered, {"software.gathered_in_blocks=true"}));
  const auto of = [](const Job& job, const auto& value) {
    double sum = 0;
    const LayerPasses passes = tests::passes_over(job, {1, false, false});
    for (const Pieces* pieces : {&passes.forward, &passes.backward})
      for (const Piece& piece : *pieces) sum += static_cast<double>(value(piece));
    return sum;
  };
  const auto kernels = [](const Piece& piece) {
    return std::count_if(piece.kernels.begin(), piece.kernels.end(), [](const Kernel& k) {
      return k.name == "attention forward" || k.name == "attention backward";
    });
  };
  CHECK(of(whole, kernels) == 2);
  CHECK(of(blocks, kernels) == 2 * 4);
  const auto flops = [](const Piece& piece) {
    return std::accumulate(piece.kernels.begin(), piece.kernels.end(), 0.0,
                           [](double sum, const Kernel& k) { return sum + k.flops; });
  };
  CHECK(of(blocks, flops) == Approx(of(whole, flops)));
  const auto sent = [](const Piece& piece) {
    return piece.is_comm() && piece.op == calibration::CollectiveOp::send_receive ? piece.bytes : 0.0;
  };
  // A rank's keys and its values, 256 tokens 2048 wide, in fp32, four times.
  const double width = 256 * 2048.0;
  CHECK(of(whole, sent) == 0);
  CHECK(of(blocks, sent) == Approx(4 * 2 * width * 4));
  // Keys and values side by side in both passes (4 each), three merges (4 + 4 + 2) and the cast of the output (4 + 2);
  // backward four sums of three gradients, four times two gradients side by side, and casts of three.
  const double forward = 2 * 4 + 3 * 10 + 6, backward = 2 * 4 + 4 * 3 * 10 + 4 * 2 * 8 + 3 * 6;
  CHECK(streamed(blocks) - streamed(whole) == Approx(width * (forward + backward)));
}

TEST_CASE("copies of queries, keys and values move what they are told to") {
  const double none = streamed(small_job(with(kGated, {"software.qkv_copies=0"})));
  const double some = streamed(small_job(with(kGated, {"software.qkv_copies=2", "software.qkv_gradient_copies=3"})));
  // Read and written, three widths of 2048.
  CHECK(some - none == Approx((2 + 3) * 2 * 3 * 1024.0 * 2048 * 2));
}

TEST_CASE("every second product runs again: key, projection and one branch, without attention") {
  const Job none = small_job(with(kGated, {"recompute=none"}));
  const Job some = small_job(with(kGated, {"recompute={kind: selective, modules: [every_second_product]}"}));
  const double again = 2.0 * 1024 * 2048 * (2048 + 2048 + 8192);
  CHECK(matrix_flops(some) - matrix_flops(none) == Approx(again));
  CHECK(tests::block_bytes(some).kept < tests::block_bytes(none).kept);
  const Job whole = small_job(with(kGated, {"recompute=full"}));
  CHECK(tests::block_bytes(some).kept > tests::block_bytes(whole).kept);
  CHECK(matrix_flops(whole) > matrix_flops(some));
}

TEST_CASE("by operation a projection whose sum over the tensor group stays is not made again where nobody reads it") {
  const auto of = [](const Sets& sets) {
    return small_job(with(with(kGated, {"recompute={kind: selective, modules: [every_second_product]}"}), sets));
  };
  const Sets alone{"parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=16"};
  const Sets shared{"parallelism.tensor=4", "parallelism.pipeline=1", "parallelism.data=4",
                    "parallelism.sequence_parallel=true"};
  const auto spared = [&](const Sets& sets) {
    return matrix_flops(of(sets)) - matrix_flops(of(with(sets, {"software.recomputes_needed_only=true"})));
  };
  CHECK(spared(alone) == 0);
  CHECK(spared(shared) == Approx(2.0 * 1024 * 2048 * 2048 / 4));
  // The sum is kept in its place: a quarter of the tokens, 2048 wide, in 16 bit.
  CHECK(tests::block_bytes(of(with(shared, {"software.recomputes_needed_only=true"}))).kept -
            tests::block_bytes(of(shared)).kept ==
        Approx(1024 / 4.0 * 2048 * 2));
}

TEST_CASE("what no gradient needs is not computed again: neither a block's last product nor its sum") {
  const auto recomputed = [](const Sets& sets, const char* needed) {
    return small_job(
        with(with(kGated, {"recompute=full", std::string("software.recomputes_needed_only=") + needed}), sets));
  };
  // 1024 tokens from 8192 to 2048.
  const double last = 2.0 * 1024 * 2048 * 8192;
  CHECK(matrix_flops(recomputed({}, "false")) - matrix_flops(recomputed({}, "true")) == Approx(last));
  // A norm that reads it does need it, and both halves of a parallel block end together.
  for (const char* other : {"model.post_norm=true", "model.parallel_block=true"})
    CHECK(matrix_flops(recomputed({other}, "false")) == matrix_flops(recomputed({other}, "true")));
  // Over the step's 32 sequences and 8 layers.
  const auto hardware = [&](const char* needed) {
    const StepReport report = simulate_step(recomputed({}, needed));
    return report.rates.hardware_tflops_per_gpu / report.rates.model_tflops_per_gpu;
  };
  const Model model = recomputed({}, "false").model;
  CHECK(hardware("false") - hardware("true") == Approx(8 * 32 * last / model_flops(model, 32)));
}

TEST_CASE("traffic of blocks that stop ahead of their last product is the same by both counts") {
  const auto bytes_again = [](const Sets& sets, const char* needed) {
    const Job job = small_job(with(sets, {"recompute=full", std::string("software.recomputes_needed_only=") + needed}));
    double gathered = 0, summed = 0;
    for (const TrafficRow& row : simulate_step(job).traffic) {
      INFO(row.dimension << ' ' << row.what);
      CHECK(row.closed_form_bytes == Approx(row.simulated_bytes));
      if (row.what != "activations, forward (recomputed)") continue;
      (row.operation == "all_gather" ? gathered : summed) += row.simulated_bytes;
    }
    return std::pair(gathered, summed);
  };
  const Sets by_weight{"parallelism={tensor: 1, pipeline: 1, data: 16, sharding: parameters}", "precision=fp16",
                       "batch.global=16", "software.fp16_accumulation=fp16", "software.fetches=by_weight"};
  for (const Sets& sets : {Sets{}, Sets{"parallelism.sequence_parallel=true"}, Sets{"model.parallel_block=true"},
                           Sets{"parallelism={tensor: 4, tensor_in: 2, pipeline: 1, data: 4}"}, by_weight,
                           with(by_weight, {"software.live_parameters=1e9"})}) {
    const auto all = bytes_again(sets, "false"), needed = bytes_again(sets, "true");
    CHECK(all.first == needed.first);
    const bool halves = !sets.empty() && sets[0] == "model.parallel_block=true";
    CHECK(needed.second == Approx(halves ? all.second : all.second / 2));
  }
}

TEST_CASE("scales of what tensor ranks share out are looked for over all of them, by both counts of the traffic") {
  // Calls a layer: both inputs, attention's output and the activation; backward both outputs, the three of attention's
  // products and both branches.
  struct Case {
    const char *precision, *recompute;
    double forward, again, backward;
  };
  const Sets titan{"cluster.device=h100-sxm-80gb", "software=torchtitan-2024.12",
                   "parallelism={tensor: 2, pipeline: 1, data: 8, sharding: parameters}", "model.gated_mlp=true",
                   "batch.global=8"};
  for (const Case& c :
       {Case{"fp8", "none", 4, 0, 7}, Case{"fp8", "full", 4, 3, 7}, Case{"fp8-rowwise", "none", 2, 0, 5},
        Case{"fp8-rowwise", "full", 2, 1, 5}, Case{"bf16", "full", 0, 0, 0},
        Case{"fp8", "{kind: selective, modules: [every_second_product]}", 4, 0, 7}}) {
    INFO(c.precision << ' ' << c.recompute);
    const Job job =
        small_job(with(titan, {std::string("precision=") + c.precision, std::string("recompute=") + c.recompute}));
    std::map<std::string, double> calls;
    for (const TrafficRow& row : simulate_step(job).traffic) {
      INFO(row.dimension << ' ' << row.what);
      CHECK(row.closed_form_bytes == Approx(row.simulated_bytes));
      if (row.what.rfind("scales", 0) == 0) calls[row.what] = row.simulated_bytes;
    }
    // Each of two ranks sends what it has of an all-reduce of four bytes, or of four for every token; 8 layers, 8
    // groups.
    const double each = 2 * 4 * (std::string(c.precision) == "fp8-rowwise" ? 1024 : 1) * 8 * 8;
    CHECK(calls["scales, forward"] == Approx(c.forward * each));
    CHECK(calls["scales, forward (recomputed)"] == Approx(c.again * each));
    CHECK(calls["scales, backward"] == Approx(c.backward * each));
  }
}

TEST_CASE("exchanges that are fused with products cost the copy of a rank's own part, and barriers") {
  const Sets titan{"cluster.device=h100-sxm-80gb", "software=torchtitan-2024.12",
                   "parallelism={tensor: 2, pipeline: 1, data: 8, sharding: parameters}", "batch.global=8",
                   "precision=bf16"};
  const auto own = [&](const char* overlap, const char* precision) {
    const Job job =
        small_job(with(titan, {std::string("overlap.tensor=") + overlap, std::string("precision=") + precision}));
    double bytes = 0, barriers = 0;
    const Layer block = network_of(job).layer(1);
    for (const LayerOp& op : block.ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream == nullptr) continue;
      if (std::string(stream->name).rfind("own part", 0) == 0) bytes += stream->elements * stream->bytes_each;
      barriers += std::string(stream->name) == "barrier";
    }
    return std::pair(bytes, barriers);
  };
  CHECK(own("false", "bf16").first == 0);
  CHECK(own("false", "bf16").second == 0);
  // Read and written, of half of the tokens: both inputs forward, both gradients of outputs backward.
  const double part = 1024.0 / 2 * 2048;
  CHECK(own("true", "bf16").first == 4 * part * 4);
  CHECK(own("true", "bf16").second == 4 * 3 + 2 * 4);
  CHECK(own("true", "fp8").first == 4 * part * 2);
  // With scales of rows gathers are cast behind, and fused with nothing.
  CHECK(own("true", "fp8-rowwise").first == 0);
  CHECK(own("true", "fp8-rowwise").second == 2 * 4);
}

TEST_CASE("inputs that are gathered for what runs again are in both counts of the traffic") {
  for (const char* modules : {"every_second_product", "mlp"}) {
    for (const char* gated : {"true", "false"}) {
      const Job job = small_job({"parallelism.sequence_parallel=true", std::string("model.gated_mlp=") + gated,
                                 std::string("recompute={kind: selective, modules: [") + modules + "]}"});
      const StepReport report = simulate_step(job);
      bool found = false;
      for (const TrafficRow& row : report.traffic) {
        INFO(modules << ' ' << row.dimension << ' ' << row.what);
        CHECK(row.closed_form_bytes == Approx(row.simulated_bytes));
        found = found || row.what == "activations, forward (recomputed)";
      }
      CHECK(found);
    }
  }
}

TEST_CASE("inputs that stay gathered are not gathered again, and a rank of two keeps the other half of each") {
  const auto with = [](const char* stays) {
    return small_job({"parallelism.sequence_parallel=true", std::string("software.keeps_gathered_inputs=") + stays});
  };
  const auto gathers = [](const Job& job) {
    double bytes = 0;
    for (const TrafficRow& row : simulate_step(job).traffic) {
      INFO(row.dimension << ' ' << row.what);
      CHECK(row.closed_form_bytes == Approx(row.simulated_bytes));
      if (row.what.find("saved input") != std::string::npos) bytes += row.simulated_bytes;
    }
    return bytes;
  };
  const Job again = with("false"), stays = with("true");
  CHECK(gathers(again) > 0);
  CHECK(gathers(stays) == 0);
  const auto kept = [](const Job& job) { return bytes_of(network_of(job).layer(1)).kept; };
  const double hidden = network_of(again).hidden_elements;
  CHECK(kept(stays) - kept(again) == Approx(2 * 2 * hidden / 2));  // two inputs a block, two bytes, the other half
}

TEST_CASE("what a tensor group exchanges along sequences that lie behind one another is copied into order") {
  const auto job = [](const char* behind, const char* overlap) {
    return small_job({"parallelism.sequence_parallel=true", "model.gated_mlp=true", "software.separate_gate=true",
                      "software.query_layers=separate", "cluster.device=h200-sxm-141gb",
                      std::string("software.sequence_behind_batch=") + behind,
                      std::string("overlap.tensor=") + overlap});
  };
  // Of 1024 tokens of 2048 elements, each read and written: two gathers and two scatters forward, two gathers backward;
  // the scatters backward are of sums, which are written in order.
  const double once = 2.0 * 1024 * 2048 * 2;
  CHECK(streamed(job("true", "false")) - streamed(job("false", "false")) == Approx(6 * once));
  CHECK(streamed(job("true", "true")) == streamed(job("false", "true")));
  // Of three and two gradients that are summed the last addition writes in order, which takes longer than adding alone
  // where memory is fast.
  const auto named = [&](const char* behind, std::string_view name) {
    const LayerPasses passes = tests::passes_over(job(behind, "false"), {1, false, false});
    std::vector<double> times;
    for (const Pieces* pieces : {&passes.forward, &passes.backward})
      for (const Piece& piece : *pieces)
        for (const Kernel& kernel : piece.kernels)
          if (kernel.name.starts_with(name)) times.push_back(sim::to_seconds(kernel.time));
    return times;
  };
  CHECK(named("true", "put in order").size() == 6);
  CHECK(named("false", "put in order").empty());
  const std::vector<double> sums = named("true", "add input gradients"), plain = named("false", "add input gradients");
  CHECK(sums.size() == 3);
  CHECK(plain.size() == 3);
  const auto slow = [&](double time) { return time > 1.05 * plain.front(); };
  CHECK(std::count_if(sums.begin(), sums.end(), slow) == 2);
}

TEST_CASE("operands that are gathered cast are written once by each rank and copied by columns when they are whole") {
  const auto job = [](const char* cast, const char* current) {
    return small_job({"parallelism.sequence_parallel=true", "cluster.device=h100-sxm-80gb", "precision=fp8",
                      "software.keeps_gathered_inputs=true", std::string("software.gathers_quantised=") + cast,
                      std::string("software.casts=") + (current == std::string("true") ? "scaled" : "apart")});
  };
  // Two inputs and two output gradients of a block. A rank of two casts half of each: reads 2 bytes and writes one in
  // place of two, and of the whole one more is read and written. With a scale that is looked for, 2 bytes ahead of that
  // in both ways, and one read of 2 in place of the two that writing twice takes.
  const double shard = 1024.0 * 2048 / 2;
  CHECK(streamed(job("true", "false")) - streamed(job("false", "false")) == Approx(4 * shard * (3 + 2 * 2 - 4)));
  CHECK(streamed(job("true", "true")) - streamed(job("false", "true")) == Approx(4 * shard * (5 + 2 * 2 - 8)));
}

TEST_CASE("exchanges that are fused with products leave sums of gradients and casts of rows to wait for theirs") {
  const auto job = [](const char* fused, const char* precision) {
    return small_job({"parallelism.sequence_parallel=true", "overlap.tensor=true", "model.gated_mlp=true",
                      "software.separate_gate=true", "software.query_layers=separate", "software.casts=apart",
                      "software.keeps_gathered_inputs=true", "cluster.device=h100-sxm-80gb",
                      std::string("software.exchanges_fused=") + fused, std::string("precision=") + precision});
  };
  // How many exchanges of a block a rank waits for.
  const auto waits = [](const Job& of, Pieces LayerPasses::*direction) {
    const LayerPasses passes = tests::passes_over(of, {1, false, false});
    int count = 0;
    for (const Piece& piece : passes.*direction) count += piece.is_comm() && piece.overlap == CommOverlap::none;
    return count;
  };
  CHECK(waits(job("false", "fp8"), &LayerPasses::forward) == 0);
  CHECK(waits(job("false", "fp8"), &LayerPasses::backward) == 0);
  CHECK(waits(job("true", "fp8"), &LayerPasses::forward) == 0);
  CHECK(waits(job("true", "fp8"), &LayerPasses::backward) == 2);          // both scatters of sums
  CHECK(waits(job("true", "fp8-rowwise"), &LayerPasses::forward) == 2);   // both gathers
  CHECK(waits(job("true", "fp8-rowwise"), &LayerPasses::backward) == 4);  // and those of output gradients
  // Parts that two ranks scatter are read whole and written halved, twice a block.
  const double whole = 1024.0 * 2048 * 2, own_parts = 4 * (whole / 2) * 2, barriers = (4 * 3 + 2 * 4) * 4;
  CHECK(streamed(job("true", "fp8")) - streamed(job("false", "fp8")) == Approx(2 * whole * 1.5 + own_parts + barriers));
}

TEST_CASE("operands that are gathered cast travel in half the bytes, but for those with scales of rows") {
  const auto gathered = [](const char* cast, const char* precision) {
    double bytes = 0;
    const Job job = small_job({"parallelism.sequence_parallel=true", "cluster.device=h100-sxm-80gb",
                               std::string("software.gathers_quantised=") + cast, "software.casts=apart",
                               std::string("precision=") + precision});
    for (const TrafficRow& row : simulate_step(job).traffic) {
      INFO(row.dimension << ' ' << row.what);
      CHECK(row.closed_form_bytes == Approx(row.simulated_bytes));
      if (row.operation == "all_gather" && row.dimension == "tensor" && row.what.find("activation") == 0)
        bytes += row.simulated_bytes;
    }
    return bytes;
  };
  CHECK(gathered("false", "fp8") > 0);
  CHECK(gathered("true", "fp8") == Approx(gathered("false", "fp8") / 2));
  CHECK(gathered("true", "fp8-rowwise") == Approx(gathered("false", "fp8-rowwise")));
  CHECK(gathered("true", "bf16") == Approx(gathered("false", "bf16")));
}

TEST_CASE("a loss in steps over shards of the vocabulary holds one more tensor of them in fp32") {
  const auto beside = [](const char* loss, const char* tensor, const char* data) {
    const Job job = small_job({std::string("software.recipe.loss=") + loss, std::string("parallelism.tensor=") + tensor,
                               std::string("parallelism.data=") + data});
    const Network network = network_of(job);
    for (const Working& held : network.kinds.back().working)
      if (held.name == std::string_view("logits beside the kept ones")) return held.bytes();
    return 0.0;
  };
  const double logits = 1024.0 * 51200;
  CHECK(beside("log_softmax", "1", "8") == Approx(8 * logits));
  CHECK(beside("log_softmax", "2", "4") == Approx((8 + 4) * logits / 2));
  CHECK(beside("in_steps", "2", "4") == Approx(2 * logits / 2));
}

TEST_CASE("the library's rate stretches 16-bit products, and nothing else") {
  const auto seconds_of = [](const char* rate, const char* precision) {
    const Job job = small_job({std::string("software.gemm_rate=") + rate, std::string("precision=") + precision,
                               "cluster.device=h100-sxm-80gb"});
    const LayerPasses passes = tests::passes_over(job, {1, false, false});
    double products = 0, streamed = 0;
    for (const Piece& piece : passes.forward)
      for (const Kernel& kernel : piece.kernels) {
        if (kernel.name == "qkv" || kernel.name == "mlp up") products += sim::to_seconds(kernel.time);
        if (kernel.flops == 0) streamed += sim::to_seconds(kernel.time);
      }
    return std::pair(products, streamed);
  };
  const auto whole = seconds_of("1", "bf16"), slow = seconds_of("0.8", "bf16");
  CHECK(whole.first > 0);
  CHECK(slow.first == Approx(whole.first / 0.8));
  CHECK(slow.second == whole.second);
  CHECK(seconds_of("0.8", "fp8").first == seconds_of("1", "fp8").first);
}

TEST_CASE("sharded gradients that are reduced last go whole, in their own type, behind the last pass") {
  const auto with = [](const char* last, const char* sharding) {
    const bool behind = last == std::string("true");
    return small_job({std::string("software.shard_reduction=") + (behind ? "all_reduce_last" : "scatter"),
                      std::string("parallelism.sharding=") + sharding, "software.overlap_gradients=true"});
  };
  CHECK_FALSE(with("true", "optimizer").overlap.gradients);
  CHECK(with("true", "none").overlap.gradients);
  CHECK(with("false", "optimizer").overlap.gradients);
  const Job job = with("true", "optimizer");
  CHECK(data_parallelism_of(job).reduction() == calibration::CollectiveOp::all_reduce);
  CHECK(data_parallelism_of(job).bytes.reduced == calibration::bytes_of(job.method.precision.gradients));
  double reduced = 0;
  for (const TrafficRow& row : simulate_step(job).traffic) {
    INFO(row.dimension << ' ' << row.what);
    CHECK(row.closed_form_bytes == Approx(row.simulated_bytes));
    if (row.operation == "all_reduce" && row.dimension == "data") reduced += row.simulated_bytes;
  }
  CHECK(reduced > 0);
}

TEST_CASE("host time around tensor collectives is paid for each, and ahead of calls that ranks compare for each rank") {
  // One micro-batch through launches so slow that the device never matters.
  const auto seconds = [](std::vector<std::string> sets) {
    sets.insert(sets.begin(), {"software.kernel_issue='0 us'", "software.transfer_issue='0 us'",
                               "software.microbatch_host='0 us'", "software.step_host='0 us'"});
    return sim::to_seconds(simulate_step(small_job(sets)).iteration);
  };
  const std::vector<std::string> node{"cluster.gpus=2", "parallelism.pipeline=1", "parallelism.data=1",
                                      "batch.global=1"};
  const double one = seconds(with(node, {"software.tensor_call='100 ms'"}));
  const double two = seconds(with(node, {"software.tensor_call='200 ms'"}));
  // 8 layers: two reductions forward, two backward; the embedding's, and of the head the loss's three and its input's.
  const double calls = 8 * 4 + 1 + 3 + 1;
  CHECK(two - one == Approx(0.1 * calls).epsilon(0.01));
  const auto checked = [](const std::string& time, const std::string& jobs) {
    return std::vector<std::string>{"software.checked_call_per_rank='" + time + "'", "software.checked_calls=" + jobs};
  };
  CHECK(seconds(with(node, checked("200 ms", "between_nodes"))) == seconds(with(node, checked("0 us", "always"))));
  // Two ranks for each of these calls, and for the sum of the norm.
  const double slow = seconds(with(node, checked("200 ms", "always")));
  const double more = slow - seconds(with(node, checked("100 ms", "always")));
  CHECK(more == Approx(0.2 * (calls + 1)).epsilon(0.01));

  // Two stages of two ranks on nodes of two: their messages pass between nodes.
  const std::vector<std::string> far{"cluster.gpus=4", "cluster.gpus_per_node=2", "parallelism.pipeline=2",
                                     "parallelism.data=1", "batch.global=1"};
  const double apart = seconds(with(far, checked("100 ms", "between_nodes")));
  CHECK(apart == seconds(with(far, checked("100 ms", "always"))));
  CHECK(apart > seconds(far) + 0.2 * 4 * 4);
  CHECK(seconds(with(far, checked("100 ms", "never"))) == seconds(far));
  // And again for each node of a group that lies over several, here one a rank.
  const std::vector<std::string> over{"cluster.gpus=4", "cluster.gpus_per_node=1", "parallelism.pipeline=2",
                                      "parallelism.data=1", "batch.global=1"};
  CHECK(seconds(with(over, {"software.checked_call_per_node='100 ms'"})) ==
        seconds(with(over, {"software.checked_call_per_rank='100 ms'"})));
}

TEST_CASE("reductions of gradients are compared too, bucket by bucket") {
  const auto seconds = [](std::vector<std::string> sets) {
    const std::vector<std::string> replicas{
        "cluster.gpus=4",     "cluster.gpus_per_node=2", "parallelism.tensor=1",         "parallelism.pipeline=1",
        "parallelism.data=4", "batch.global=4",          "software.checked_calls=always"};
    return sim::to_seconds(simulate_step(small_job(with(replicas, std::move(sets)))).iteration);
  };
  // One for all gradients, of four ranks on two nodes.
  const double one = seconds({}), slow = seconds({"software.checked_call_per_rank='1 s'"});
  CHECK(slow - one == Approx(4.0).epsilon(0.05));
  CHECK(seconds({"software.checked_call_per_node='1 s'"}) - one == Approx(2.0).epsilon(0.05));
  // Each of eight layers fills a bucket, and the last takes the rest.
  const std::string buckets = "software.gradient_bucket='1 MB'";
  const double bucketed = seconds({"overlap.gradients=true", buckets, "software.checked_call_per_rank='1 s'"});
  CHECK(bucketed - one == Approx(4.0 * 8).epsilon(0.05));
}

TEST_CASE("stages that weigh blocks take them until they have passed their share, as nanotron does") {
  // A block has 4 x 2048 + 2 x 8192 times 2048 weights, a head of 131072 words 131072 times 2048: 5.33 blocks.
  const auto blocks = [](const char* layers, const char* stages, const char* gpus) {
    const Job job =
        small_job({"software.layer_split=weigh", std::string("model.layers=") + layers, "model.vocab=131072",
                   "model.ffn_hidden=8192", "parallelism.tensor=1", std::string("parallelism.pipeline=") + stages,
                   "parallelism.data=1", std::string("cluster.gpus=") + gpus, "batch.global=8"});
    const LayerSplit split = split_layers(job);
    std::vector<std::int64_t> counts;
    for (std::int64_t stage = 0; stage < job.parallelism.pipeline; ++stage)
      counts.push_back(count(split.network, split.of(0, stage, job.parallelism.pipeline), LayerKind::block));
    return counts;
  };
  // 16 blocks and the head are 21.33 of them, a half 10.67: eleven pass it.
  CHECK(blocks("16", "2", "2") == std::vector<std::int64_t>{11, 5});
  // Quarters end at 5.33, 10.67 and 16: six, five, and 16 is reached but not passed by five more.
  CHECK(blocks("16", "4", "4") == std::vector<std::int64_t>{6, 5, 5, 0});
}

TEST_CASE("a loss compiled into few kernels takes less time than one operation at a time, and more than one kernel") {
  const auto head = [](const char* set) {
    const LayerPasses passes = tests::passes_over(small_job({set}), {0, false, true});
    double seconds = 0;
    for (const Pieces* pieces : {&passes.forward, &passes.backward})
      for (const Piece& piece : *pieces)
        for (const Kernel& kernel : piece.kernels) seconds += sim::to_seconds(kernel.time);
    return seconds;
  };
  const double steps = head("software.recipe.loss=in_steps"), few = head("software.recipe.loss=compiled"),
               one = head("software.recipe.loss=fused");
  CHECK(one < few);
  CHECK(few < steps);
}

TEST_CASE("a job's clock follows the power of its passes, its limit and nothing else") {
  const auto clock = [](std::vector<std::string> sets) {
    sets.insert(sets.begin(), {"cluster.device=h100-sxm-80gb", "cluster.fabric=ndr-rail", "model.hidden=8192",
                               "model.heads=64", "model.ffn_hidden=32768", "model.seq=4096"});
    return small_job(sets).machine.device.clock();
  };
  const double usual = clock({});
  CHECK(usual < 1);
  CHECK(usual > 0.7);
  CHECK(clock({"cluster.device.power.limit='500 W'"}) < usual);
  CHECK(clock({"cluster.device.power.limit='2 kW'"}) == 1);
  // What the tensor group moves inside the node is drawn too, whether it is waited for or not.
  for (const char* overlap : {"overlap.tensor=false", "overlap.tensor=true"}) {
    CHECK(clock({overlap, "cluster.device.power.per_link_byte='1 nJ'"}) < clock({overlap}));
    const std::vector<std::string> alone{overlap, "parallelism.tensor=1", "parallelism.data=8"};
    CHECK(clock(with(alone, {"cluster.device.power.per_link_byte='1 nJ'"})) == clock(alone));
  }
  // Nothing of the pipeline's shape or of the network between nodes moves it.
  CHECK(clock({"parallelism.pipeline=4", "parallelism.data=2"}) == usual);
  CHECK(clock({"batch.global=64"}) == usual);
  // Thin products draw less.
  CHECK(clock({"model.hidden=1024", "model.heads=8", "model.ffn_hidden=4096"}) > usual);
  CHECK(small_job().machine.device.clock() == 1);  // an A100's document names no power
}
