// Does a block that is given as operators of a graph weigh, compute and exchange what its operators say? One that
// spells an MLP out is that MLP in parameters and FLOPs, and close to it in time; others are counted twice and folded.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/library.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/workloads/example.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

Job operators_job(const std::string& model, const std::string& layout, const std::vector<std::string>& sets = {}) {
  const std::string text =
      fmt::format(R"(
name: operators
cluster: {{device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}}
model: {{hidden: 2048, heads: 16, kv_heads: 8, vocab: 2560, seq: 2048, gated_mlp: true, tied_embeddings: false,
        positions: rotary, norm: rms_norm, {}{}}}
parallelism: {{{}{}}}
batch: {{global: 32, micro: 1}}
precision: bf16
software: megatron-core-0.16
)",
                  model.find("biases:") == std::string::npos ? "biases: none, " : "", model,
                  layout.find("sharding") == std::string::npos ? "sharding: optimizer, " : "", layout);
  sim::Settings document = scenarios::parse_yaml(text, "operators.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document).job;
}

std::string operators_refusal(const std::string& run, const std::string& layout = "tensor: 1",
                              const std::vector<std::string>& sets = {}) {
  try {
    operators_job("blocks: {pattern: attention+U, repeat: 2}, mixers: {U: {kind: operators, run: [" + run + "]}}",
                  layout, sets);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "";
}

const std::string kMlp =
    "{op: norm}, {op: product, in: 2048, out: 8192, cut: out}, "
    "{op: product, in: 2048, out: 8192, cut: out, beside: true}, "
    "{op: elementwise, name: swiglu, reads: 16384, writes: 8192, backward: 40960, keeps: 16384}, "
    "{op: product, in: 8192, out: 2048, cut: in}, {op: residual}";
const std::string kSpelt =
    "blocks: {pattern: attention+U, repeat: 8}, mixers: {U: {kind: operators, run: [" + kMlp + "]}}";
const std::string kPlain = "blocks: {pattern: attention+mlp, repeat: 8}, ffn_hidden: 8192";
/// Thin products ahead of wide ones, attention, a convolution, a copy, a product of two activations.
const std::string kOdd =
    "blocks: {pattern: attention+U+mlp U attention+mlp U+mlp, repeat: 2}, ffn_hidden: 4096, mixers: {U: {kind: "
    "operators, run: ["
    "{op: norm}, {op: product, in: 2048, out: 256}, {op: product, in: 2048, out: 128, beside: true}, "
    "{op: product, in: 256, out: 2048, cut: out, weights: 2048}, {op: product, in: 128, out: 1024, cut: out}, "
    "{op: copy, reads: 2048, writes: 2048}, {op: attention, heads: 16, kv_heads: 8, head_dim: 128, causal: false}, "
    "{op: matmul, flops: 1000000, reads: 512, writes: 512, keeps: 512}, "
    "{op: elementwise, reads: 2048, writes: 2048, keeps: 2048, weights: 6144}, "
    "{op: product, in: 2048, out: 2048, cut: in}, {op: residual}, "
    "{op: norm}, {op: product, in: 2048, out: 2048}, {op: residual}]}}";

/// Of Mamba-1: inside of what ranks share out a thin product by inputs, whose sums every rank reads whole, and one by
/// outputs of these; weights of a convolution and of decays that are shared out too. Behind the channel a gate.
const std::string kSummed =
    "blocks: {pattern: U attention+mlp+G, repeat: 4}, ffn_hidden: 4096, mixers: {U: {kind: operators, run: ["
    "{op: norm}, {op: product, in: 2048, out: 8192, cut: out}, "
    "{op: elementwise, reads: 4096, writes: 4096, keeps: 4096, weights: 20480, cut: out}, "
    "{op: product, in: 4096, out: 160, cut: sum}, {op: product, in: 128, out: 4096, cut: out, weights: 4096}, "
    "{op: matmul, flops: 589824, reads: 12320, writes: 4096, keeps: 8192}, "
    "{op: product, in: 4096, out: 2048, cut: in}, {op: residual}]}, "
    "G: {kind: operators, run: [{op: norm}, {op: product, in: 2048, out: 256, cut: out}, "
    "{op: product, in: 256, out: 2048, cut: in}, {op: residual}]}}";

const std::string kOperatorLayouts[]{
    "tensor: 1, pipeline: 1",
    "tensor: 2, pipeline: 2, sequence_parallel: true",
    "tensor: 4, pipeline: 2, sequence_parallel: false",
    "tensor: 8, pipeline: 1, sequence_parallel: true",
    "tensor: 1, pipeline: 1, sharding: parameters",
};

}  // namespace

TEST_CASE("operators that spell an MLP out weigh and compute what it does, and take about its time") {
  for (const std::string& layout : kOperatorLayouts) {
    INFO(layout);
    const Job plain = operators_job(kPlain, layout), spelt = operators_job(kSpelt, layout);
    CHECK(parameter_count(spelt.model) == parameter_count(plain.model));
    CHECK(model_flops(spelt.model, 32) == model_flops(plain.model, 32));
    const StepReport own = simulate_step(plain), other = simulate_step(spelt);
    CHECK(tests::contradiction(other) == "");
    CHECK(sim::to_seconds(other.iteration) == Approx(sim::to_seconds(own.iteration)).epsilon(0.02));
    CHECK(other.memory.peak_bytes == Approx(own.memory.peak_bytes).epsilon(0.05));
  }
}

TEST_CASE("kernels of graphs and of mixers with a state cast no operands: these are cast apart") {
  const double tokens = 2048, each = 2 + 2;  // 16 bit read, 8 written by rows and by columns
  const std::vector<std::string> fused{"software=nemo-25.04", "precision=fp8"};
  const std::vector<std::string> blocks{"cluster.device=b200-sxm-180gb", "software=nemo-25.04", "precision=mxfp8"};
  const auto cast = [&](const std::string& model, const std::vector<std::string>& sets) {
    const Network network = network_of(operators_job(model, "tensor: 1", sets));
    double bytes = 0;
    for (const LayerOp& op : network.layer(1).ops)
      if (const auto* stream = std::get_if<StreamingOp>(&op);
          stream != nullptr && std::string_view(stream->name).starts_with("cast "))
        bytes += stream->elements * stream->bytes_each;
    return bytes;
  };
  // Norms cast what they make. Else: outputs of attention and of the activation; gradients of queries, keys and values,
  // of both branches of the activation and twice of the residual stream.
  const double stream = 2048, inside = stream + (stream + 2 * 1024), branches = 8192 + 2 * 8192;
  CHECK(cast(kPlain, fused) == Approx(tokens * (inside + branches + 2 * stream) * each));
  // Likewise of the spelt MLP what swiglu makes in both passes.
  CHECK(cast(kSpelt, fused) == Approx(tokens * (inside + branches + 2 * stream) * each));
  // Of Mamba-2 what its gated norm makes, gradients of gate, input, B, C and steps, and that of the stream.
  const std::string mixer = "M: {kind: mamba2, state: 128, heads: 64, head_dim: 64, groups: 8, conv: 4}";
  CHECK(cast("blocks: {pattern: M, repeat: 8}, mixers: {" + mixer + "}", fused) ==
        Approx(tokens * (4096 + 2 * 4096 + 2 * 8 * 128 + 64 + stream) * each));
  // With scales of blocks nothing casts what it makes: inputs and outputs of attention and MLP, gradients of queries,
  // keys and values, of what the activation reads, and two of the residual stream.
  const double attention = 2048 + 2048 + (2048 + 2 * 1024) + 2048, mlp = 2048 + 8192 + 8192 + 2048;
  std::vector<std::string> ungated = blocks;
  ungated.insert(ungated.end(), {"model.gated_mlp=false", "model.activation=gelu"});
  CHECK(cast(kPlain, ungated) == Approx(tokens * (attention + mlp) * (2 + 2 * (1 + 1 / 32.0))));
}

TEST_CASE("operators of every kind are folded, and counted twice") {
  for (const std::string& layout : kOperatorLayouts) {
    for (const char* more : {"recompute=none", "recompute=full", "recompute=selective", "precision=fp8"}) {
      INFO(layout << ", " << more);
      const Job job = operators_job(kOdd, layout, {more});
      const StepReport folded = simulate_step(job);
      CHECK(tests::contradiction(folded) == "");
      Question full;
      full.ranks = Question::Ranks::every;
      CHECK(tests::comparable(simulate_step(job, full)) == tests::comparable(folded));
    }
  }
}

TEST_CASE("a product whose sums every rank reads is summed in both passes") {
  const double h = 2048, d = 4096, tokens = 2048, microbatches = 8, bytes = 2;
  const Job job = operators_job(kSummed, "tensor: 4, pipeline: 1, sequence_parallel: true");
  const double mixer = h * 2 * d + 20480 + d * 160 + 128 * d + d + d * h + h;
  const double attention = 2 * h * h + 2 * h * 1024 + h, mlp = 3 * h * 4096 + h, gate = 2 * h * 256 + h;
  CHECK(parameter_count(job.model) == Approx(2 * 2560 * h + 4 * (mixer + attention + mlp + gate)).epsilon(1e-12));
  double forward = 0, backward = 0;
  for (const TrafficRow& row : simulate_step(job).traffic) {
    if (row.what == "operator sums, forward") forward += row.calls * row.bytes_per_call;
    if (row.what == "operator sum gradients, backward") backward += row.calls * row.bytes_per_call;
  }
  const double expected = 4 * microbatches * tokens * 160 * bytes;
  CHECK(forward == Approx(expected));
  CHECK(backward == Approx(expected));
  for (const std::string& layout : kOperatorLayouts) {
    for (const char* more : {"recompute=none", "recompute=full", "precision=fp8"}) {
      INFO(layout << ", " << more);
      const Job each = operators_job(kSummed, layout, {more});
      const StepReport folded = simulate_step(each);
      CHECK(tests::contradiction(folded) == "");
      Question full;
      full.ranks = Question::Ranks::every;
      CHECK(tests::comparable(simulate_step(each, full)) == tests::comparable(folded));
    }
  }
  // Twice the ranks hold half of the weights each, but for norms.
  const auto held = [](const char* layout) {
    return simulate_step(operators_job(kSummed, layout)).memory.stages[0].parameters;
  };
  CHECK(held("tensor: 8, pipeline: 1, sequence_parallel: true") <
        0.51 * held("tensor: 4, pipeline: 1, sequence_parallel: true"));
}

TEST_CASE("operators weigh and compute what they say") {
  const Model model = operators_job(kOdd, "tensor: 1").model;
  const double h = 2048, s = 2048, vocab = 2560;
  const double attention = h * h + 2 * h * 1024 + h * h + h, mlp = 3 * h * 4096 + h;
  const double products = h * 256 + h * 128 + 256 * h + 128.0 * 1024 + h * h + h * h;
  const double odd = products + 2048 + 6144 + 2 * h;
  CHECK(parameter_count(model) == Approx(2 * vocab * h + 2 * (2 * attention + 3 * mlp + 3 * odd)).epsilon(1e-12));
  const double met = 2 * (2 * (attention - h) + 3 * (mlp - h) + 3 * products) + vocab * h;
  const double scores = 2 * (2 + 3) * 4 * 16 * 128 * s * s, others = 2 * 3 * 1e6 * s;
  CHECK(model_flops(model, 1) == Approx(3 * (2 * met * s + scores + others)).epsilon(1e-12));
}

TEST_CASE("a model of low rank has two narrow layers in place of each wide one") {
  const std::string plain = "layers: 8, ffn_hidden: 8192", low = plain + ", low_rank: 256";
  const double h = 2048, f = 8192, kv = 1024, r = 256, s = 2048, vocab = 2560;
  const double pairs = r * (h + (h + 2 * kv)) + r * (h + h) + r * (h + 2 * f) + r * (f + h);
  const Model model = operators_job(low, "tensor: 1").model;
  CHECK(parameter_count(model) == Approx(2 * vocab * h + 8 * (pairs + 2 * h)).epsilon(1e-12));
  CHECK(model_flops(model, 1) == Approx(3 * (8 * (2 * pairs * s + 4 * h * s * s) + 2 * h * vocab * s)).epsilon(1e-12));
  for (const std::string& layout : kOperatorLayouts) {
    INFO(layout);
    const StepReport narrow = simulate_step(operators_job(low, layout)),
                     wide = simulate_step(operators_job(plain, layout));
    CHECK(tests::contradiction(narrow) == "");
    CHECK(narrow.memory.peak_bytes < wide.memory.peak_bytes);
  }
  // Of full rank the two products do about twice the work of one.
  CHECK(simulate_step(operators_job(plain + ", low_rank: 2048", "tensor: 1")).iteration >
        simulate_step(operators_job(plain, "tensor: 1")).iteration);
  const auto refused = [](const std::string& text) {
    try {
      operators_job(text, "tensor: 1");
    } catch (const sim::UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused(low + ", post_norm: true").find("parts of its own") != std::string::npos);
  CHECK(refused(low + ", biases: all").find("expected biases: none or qkv") != std::string::npos);
  CHECK(refused(kPlain + ", low_rank: 256").find("parts of its own") != std::string::npos);
}

namespace {
/// Four uses of two kinds of block: of an MLP's weights the first holds all, the others what is their own.
std::string shared_mlp(bool shared) {
  const auto run = [](const char* whose) {
    return fmt::format(
        "[{{op: norm, shared: {0}}}, {{op: product, in: 2048, out: 64}}, "
        "{{op: product, in: 2048, out: 8192, cut: out, weights: 8192, shared: {0}}}, "
        "{{op: product, in: 64, out: 8192, cut: out}}, "
        "{{op: elementwise, reads: 16384, writes: 8192, keeps: 16384, weights: 512, shared: {0}}}, "
        "{{op: product, in: 8192, out: 2048, cut: in, shared: {0}}}, {{op: residual}}]",
        whose);
  };
  return fmt::format(
      "blocks: attention U attention V V V, mixers: {{U: {{kind: operators, run: {}}}, V: {{kind: operators, run: "
      "{}}}}}",
      run("false"), run(shared ? "true" : "false"));
}
}  // namespace

TEST_CASE("operators of shared weights compute as others do and hold none") {
  const Model own = operators_job(shared_mlp(false), "tensor: 1").model,
              shared = operators_job(shared_mlp(true), "tensor: 1").model;
  const double h = 2048, f = 8192, once = h + h * f + f + 512 + f * h;
  CHECK(parameter_count(own) - parameter_count(shared) == Approx(3 * once).epsilon(1e-12));
  CHECK(model_flops(own, 1) == model_flops(shared, 1));
  for (const char* layout : {"tensor: 1", "tensor: 2, sequence_parallel: true", "tensor: 2, sequence_parallel: false",
                             "tensor: 4, sequence_parallel: true, sharding: parameters"}) {
    INFO(layout);
    const StepReport with = simulate_step(operators_job(shared_mlp(true), layout)),
                     without = simulate_step(operators_job(shared_mlp(false), layout));
    CHECK(tests::contradiction(with) == "");
    CHECK(with.memory.stages[0].parameters < without.memory.stages[0].parameters);
    CHECK(with.iteration < without.iteration);  // fewer gradients to reduce, fewer weights to update
  }
  const auto refused = [](const std::string& model, const std::string& layout, const char* with) {
    std::string message;
    try {
      operators_job(model, layout);
    } catch (const sim::UserError& error) {
      message = error.what();
    }
    INFO(message);
    CHECK(message.find(with) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  };
  refused(shared_mlp(true), "tensor: 1, pipeline: 2", "weights are those of a layer ahead, expected 1");
  std::string orphans = shared_mlp(true);
  orphans.replace(orphans.find("attention U attention"), 21, "V attention attention U");
  refused(orphans, "tensor: 1", "expected a block ahead with the same operator");
  const std::string gate =
      "blocks: attention {}, mixers: {{G: {{kind: operators, run: [{{op: norm}}, {{op: product, in: 2048, out: 512, "
      "cut: out}}, {{op: elementwise, reads: {}, writes: 512, ahead: 512}}, {{op: product, in: 512, out: 2048, cut: "
      "in}}, {{op: residual}}]}}, M: {{kind: operators, run: [{{op: product, in: 2048, out: 512}}, {{op: product, in: "
      "512, out: 2048}}, {{op: residual}}]}}}}";
  CHECK(tests::contradiction(simulate_step(
            operators_job(fmt::format(fmt::runtime(gate), "M attention G", 1024), "tensor: 1, pipeline: 2"))) == "");
  refused(fmt::format(fmt::runtime(gate), "G M", 1024), "tensor: 1", "expected a block ahead that makes so many");
  refused(fmt::format(fmt::runtime(gate), "M G", 256), "tensor: 1", "of a layer ahead of 256");
}

TEST_CASE("operators that do not fit each other are refused in one line") {
  const std::string sum = ", {op: residual}", up = "{op: product, in: 2048, out: 8192, cut: out}",
                    down = ", {op: product, in: 8192, out: 2048, cut: in}";
  CHECK(operators_refusal(up + down + sum) == "");
  const auto refused = [](const std::string& run, const char* with, const std::string& layout = "tensor: 1",
                          const std::vector<std::string>& sets = {}) {
    const std::string message = operators_refusal(run, layout, sets);
    INFO(message);
    CHECK(message.find(with) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.find("expected") + message.find("holds") != 2 * std::string::npos);
  };
  refused(up + sum, "behind a product with cut: out");
  refused(down.substr(2) + sum, "cut: in, expected it behind");
  refused(up + down, "holds no {op: residual}");
  refused(up + ", {op: product, in: 8192, out: 2048}" + sum, "whole product");
  refused("{op: product, in: 2048, out: 64}, {op: product, in: 64, out: 64, beside: true}" + sum, "beside: true");
  refused("{op: elementwise}" + sum, "holds neither reads nor writes");
  refused("{op: elementwise, in: 4, reads: 1}" + sum, "got a key that elementwise has not");
  refused("{op: attention, heads: 3, kv_heads: 2, head_dim: 64}" + sum, "got 3 heads over 2");
  refused("{op: convolve}" + sum, "expected");
  refused("{op: product, in: 0, out: 4}" + sum, "expected");
  refused("7" + sum, "expected an operator");
  refused("{op: attention, heads: 16, head_dim: 64}" + sum, "behind whole products",
          "tensor: 2, sequence_parallel: true");
  refused("{op: product, in: 2048, out: 63, cut: out}, {op: product, in: 63, out: 2048, cut: in}" + sum,
          "elements of an operator's cut", "tensor: 2, sequence_parallel: true");
  refused(up + down + sum, "parallelism.context", "tensor: 1, context: 2");
  refused(up + down + sum, "adapters beside a mixer", "tensor: 1", {"finetune={kind: lora, rank: 16}"});
  refused(up + down + sum, "parallel_block", "tensor: 1", {"model.parallel_block=true"});
  const std::string thin = ", {op: product, in: 8192, out: 64, cut: sum}";
  CHECK(operators_refusal(up + thin + ", {op: product, in: 64, out: 8192, cut: out}" + down + sum) == "");
  refused(thin.substr(2) + sum, "cut: sum, expected it behind");
  refused(up + thin + sum, "behind a product with cut: out");
  refused("{op: elementwise, reads: 4, cut: in}" + sum, "expected");
}
