// Does the graph of an exported model become that model? Llama 3 8B's is the family's to the last parameter and FLOP;
// blocks that no family has run by their operators; what is no such graph gets one line.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/tools/exported_llama.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"
#include "workloads/model/model.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::ExportedLlama;
using tests::Folder;
using workloads::Model;

namespace {

ExportedLlama llama3_8b() {
  ExportedLlama llama;
  llama.layers = 32;
  llama.hidden = 4096;
  llama.heads = 32;
  llama.kv_heads = 8;
  llama.head_dim = 128;
  llama.ffn = 14336;
  llama.vocab = 128256;
  llama.seq = 8192;
  return llama;
}

workloads::Job job_of_graph(const std::string& text, const std::vector<std::string>& cuts = {},
                            const std::vector<std::string>& sets = {}) {
  const Folder folder;
  tools::Draft draft = tools::import_graph(folder.write("graph.json", text), cuts);
  for (const std::string& set : sets) draft.apply(set);
  return scenarios::load_scenario(scenarios::parse_yaml(draft.yaml(), "imported.yaml")).job;
}

std::string graph_refusal(const std::string& text, const std::vector<std::string>& cuts = {}) {
  try {
    job_of_graph(text, cuts);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("the graph of Llama 3 8B is the family's model, and its step the family's") {
  const std::vector<std::string> layout{"cluster.gpus=16", "cluster.fabric=ndr-rail", "batch.global=16",
                                        "parallelism={tensor: 2, sequence_parallel: true}"};
  workloads::Job graph = job_of_graph(llama3_8b().json(), {}, layout);
  sim::Settings document = scenarios::parse_yaml(
      "{name: family, model: llama3-8b, precision: bf16, cluster: {device: h100-sxm-80gb}, batch: {micro: 1}}", "f");
  for (const std::string& set : layout) scenarios::apply_set(document, set);
  const workloads::Job family = scenarios::load_scenario(document).job;
  graph.model.name = family.model.name;
  CHECK(graph.model == family.model);
  CHECK(workloads::parameter_count(graph.model) == workloads::parameter_count(family.model));
  CHECK(workloads::model_flops(graph.model, 16) == workloads::model_flops(family.model, 16));
  CHECK(workloads::simulate_step(graph).iteration == workloads::simulate_step(family).iteration);
}

TEST_CASE("a graph's features are the model's") {
  ExportedLlama llama;
  llama.qk_norm = llama.tied = true;
  const Model qwen = job_of_graph(llama.json()).model;
  CHECK(qwen.attention.qk_norm);
  CHECK(qwen.tied_embeddings);
  CHECK(qwen.biases == workloads::Biases::none);
  CHECK(qwen.positions == workloads::Positions::rotary);
  CHECK(!qwen.pattern.any());
  llama.biases = true;
  llama.qk_norm = false;
  CHECK(job_of_graph(llama.json()).model.biases == workloads::Biases::qkv);
}

TEST_CASE("attention that core ATen spells out in products is attention") {
  ExportedLlama llama = llama3_8b();
  llama.layers = 2;
  for (const bool qk_norm : {false, true}) {
    llama.qk_norm = qk_norm;
    llama.decomposed = false;
    const Model whole = job_of_graph(llama.json()).model;
    llama.decomposed = true;
    CHECK(job_of_graph(llama.json()).model == whole);
  }
}

TEST_CASE("parts that no family has run by their operators, cut as their weights are") {
  ExportedLlama llama = llama3_8b();
  llama.layers = 4;
  llama.low_rank = 512;
  llama.convolved = 2;
  const std::string graph = llama.json();
  const double h = 4096, f = 14336, r = 512;
  const double attention = 2 * h * h + 2 * h * 1024 + h, mlp = 2 * h * f + h * r + r * f + h,
               convolution = 3 * h * h + h * 3 + h * h + h;
  for (const char* layout : {"parallelism={tensor: 1}", "parallelism={tensor: 2, sequence_parallel: true}",
                             "parallelism={tensor: 4, pipeline: 2, sequence_parallel: true}"}) {
    INFO(layout);
    const workloads::Job job = job_of_graph(graph, {}, {layout, "batch.global=8", "model.seq=2048"});
    CHECK(workloads::parameter_count(job.model) ==
          Approx(2 * h * 128256 + 4 * (attention + mlp) + 2 * convolution).epsilon(1e-12));
    CHECK(job.model.pattern.kinds.size() == 2);
    CHECK(tests::contradiction(workloads::simulate_step(job)) == "");
  }
  const Model model = job_of_graph(graph).model;
  const double met = 4 * (attention + mlp - 2 * h) + 2 * 4 * h * h + h * 128256;
  const double scores = 4 * 4 * h * 8192 * 8192;
  CHECK(workloads::model_flops(model, 1) == Approx(3 * (2 * met * 8192 + scores)).epsilon(1e-12));
}

namespace {

/// gMLP (arXiv 2105.08050): of 512 channels a half gates the other, whose 64 positions a product mixes; twice, and
/// attention without a softmax, whose two products have no weights.
std::string odd_graph() {
  std::string parameters = R"("tok": {"shape": [96, 128]})", nodes, stream = "embedding";
  const auto weight = [&](const std::string& name, const char* shape) {
    parameters += fmt::format(R"(, "{}": {{"shape": [{}]}})", name, shape);
  };
  const auto node = [&](const std::string& name, const char* target, const std::string& inputs, const char* shape) {
    nodes += fmt::format("{}{{\"name\": \"{}\", \"target\": \"aten.{}\", \"inputs\": [{}], \"shape\": [1, {}]}}",
                         nodes.empty() ? "" : ",\n", name, target, inputs, shape);
  };
  const auto q = [](const std::string& a, const std::string& b = "") {
    return b.empty() ? "\"" + a + "\"" : "\"" + a + "\", \"" + b + "\"";
  };
  node("embedding", "embedding.default", q("tok", "ids"), "64, 128");
  for (int i = 0; i < 2; ++i) {
    const std::string p = fmt::format("h.{}.", i), n = i == 0 ? "" : "_1", to = fmt::format("add_{}", 2 * i);
    for (const auto& [name, shape] :
         {std::pair{"norm", "128"}, {"in", "512, 128"}, {"mix", "64, 64"}, {"out", "128, 256"}})
      weight(p + name, shape);
    node("norm" + n, "rms_norm.default", q(stream, p + "norm"), "64, 128");
    node("in" + n, "linear.default", q("norm" + n, p + "in"), "64, 512");
    node("left" + n, "slice.Tensor", q("in" + n), "64, 256");
    node("right" + n, "slice.Tensor", q("in" + n), "64, 256");
    node("turn" + n, "transpose.int", q("right" + n), "256, 64");
    node("mix" + n, "linear.default", q("turn" + n, p + "mix"), "256, 64");
    node("back" + n, "transpose.int", q("mix" + n), "64, 256");
    node("mul" + n, "mul.Tensor", q("left" + n, "back" + n), "64, 256");
    node("out" + n, "linear.default", q("mul" + n, p + "out"), "64, 128");
    node(to, "add.Tensor", q(stream, "out" + n), "64, 128");
    const std::string next = fmt::format("add_{}", 2 * i + 1);
    weight(p + "scan_norm", "128");
    for (const char* name : {"q", "k", "o"}) weight(p + name, "128, 128");
    node("scan_norm" + n, "rms_norm.default", q(to, p + "scan_norm"), "64, 128");
    node("q" + n, "linear.default", q("scan_norm" + n, p + "q"), "64, 128");
    node("k" + n, "linear.default", q("scan_norm" + n, p + "k"), "64, 128");
    node("kt" + n, "transpose.int", q("k" + n), "128, 64");
    node("matmul" + n, "matmul.default", q("kt" + n, "q" + n), "128, 128");
    node("matmul_again" + n, "matmul.default", q("q" + n, "matmul" + n), "64, 128");
    node("o" + n, "linear.default", q("matmul_again" + n, p + "o"), "64, 128");
    node(next, "add.Tensor", q(to, "o" + n), "64, 128");
    stream = next;
  }
  node("head", "linear.default", q(stream, "tok"), "64, 96");
  return fmt::format("{{\"parameters\": {{{}}}, \"nodes\": [\n{}]}}", parameters, nodes);
}

}  // namespace

TEST_CASE("products along positions and of two activations are counted by their rows; equal blocks are of one kind") {
  const workloads::Job job = job_of_graph(odd_graph(), {}, {"cluster.gpus=8"});
  const double s = 64, h = 128;
  const double gated = 2 * s * (h * 512 + 256 * h) + 2 * 256 * s * s, mixed = 2 * s * 3 * h * h + 2 * 2 * h * h * s;
  CHECK(workloads::model_flops(job.model, 1) == Approx(3 * (2 * (gated + mixed) + 2 * s * 96 * h)).epsilon(1e-12));
  CHECK(job.model.pattern.kinds.size() == 1);  // the two layers, each of both parts
  for (const char* layout : {"{tensor: 2}", "{tensor: 2, sequence_parallel: true}", "{pipeline: 2}"}) {
    INFO(layout);
    CHECK(tests::contradiction(workloads::simulate_step(job_of_graph(
              odd_graph(), {}, {"cluster.gpus=8", "batch.global=8", fmt::format("parallelism={}", layout)}))) == "");
  }
}

TEST_CASE("experts of a graph are experts, which expert parallelism cuts") {
  ExportedLlama llama = llama3_8b();
  llama.layers = 4;
  llama.seq = 2048;
  llama.ffn = 1024;
  llama.experts = 64;
  llama.top = 8;
  for (const std::int64_t shared : {0, 2048}) {
    llama.shared = shared;
    const workloads::Job job = job_of_graph(
        llama.json(), {},
        {"parallelism={tensor: 1, expert: 8}", "cluster.gpus=16", "cluster.fabric=ndr-rail", "batch.global=16"});
    const double h = 4096, f = 1024, own = static_cast<double>(shared);
    const double attention = 2 * h * h + 2 * h * 1024 + h, beside = own > 0 ? 3 * h * own + h : 0;
    CHECK(workloads::parameter_count(job.model) ==
          Approx(2 * h * 128256 + 4 * (attention + h + 64 * h + 64 * 3 * h * f + beside)).epsilon(1e-12));
    CHECK(job.model.experts.top_k == 8);
    CHECK(job.model.pattern.kinds.size() == 1);
    CHECK(tests::contradiction(workloads::simulate_step(job)) == "");
  }
}

TEST_CASE("experts that run one by one are the experts that run at once") {
  ExportedLlama llama = llama3_8b();
  llama.layers = 2;
  llama.seq = 1024;
  llama.ffn = 512;
  llama.experts = 8;
  llama.top = 2;
  const Model at_once = job_of_graph(llama.json()).model;
  llama.single_experts = true;
  CHECK(job_of_graph(llama.json()).model == at_once);
  // Where numbers leave one out they are not all there: operators then, one by one.
  std::string odd = llama.json();
  for (std::size_t at = 0; (at = odd.find("experts.7.", at)) != std::string::npos;) odd.replace(at, 10, "experts.9.");
  CHECK_FALSE(job_of_graph(odd).model == at_once);
}

TEST_CASE("operators of a graph have no flag of Megatron-LM's") {
  ExportedLlama llama;
  llama.convolved = 1;
  const Folder folder;
  const tools::Draft draft = tools::import_graph(folder.write("graph.json", llama.json()), {});
  std::string refused;
  try {
    tools::megatron_arguments(scenarios::load_scenario(draft.document()));
  } catch (const sim::UserError& error) {
    refused = error.what();
  }
  CHECK(refused.find("operators of a graph") != std::string::npos);
}

TEST_CASE("a rule makes operators of a known part, about as fast") {
  ExportedLlama llama = llama3_8b();
  llama.layers = 4;
  llama.seq = 4096;
  const workloads::Job known = job_of_graph(llama.json());
  const workloads::Job ruled = job_of_graph(llama.json(), {"mlp.up_proj.weight=out"});
  CHECK(ruled.model.pattern.any());
  CHECK(workloads::parameter_count(ruled.model) == workloads::parameter_count(known.model));
  CHECK(workloads::model_flops(ruled.model, 8) == workloads::model_flops(known.model, 8));
  const double own = sim::to_seconds(workloads::simulate_step(known).iteration);
  CHECK(sim::to_seconds(workloads::simulate_step(ruled).iteration) == Approx(own).epsilon(0.05));
  const std::string whole =
      graph_refusal(llama.json(), {"self_attn.o_proj.weight=none", "mlp.down_proj.weight=sideways"});
  CHECK(whole.find("--cut: got \"mlp.down_proj.weight=sideways\"") != std::string::npos);
  CHECK(graph_refusal(llama.json(), {"nothing.weight=out"}).find("ends the name of no weight") != std::string::npos);
  CHECK(graph_refusal(llama.json(), {"mlp.down_proj.weight=none"}).find("whole product") != std::string::npos);
}

TEST_CASE("what is no graph of a model gets one line") {
  const std::string good = ExportedLlama().json();
  CHECK(graph_refusal(good) == "");
  const auto refused = [](const std::string& graph, const char* with) {
    const std::string message = graph_refusal(graph);
    INFO(message);
    CHECK(message.find(with) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  };
  refused("", "got no JSON");
  refused("[]", "holds no parameters");
  refused("{\"parameters\": {}, \"nodes\": []}", "expected parameters by name");
  refused("{\"parameters\": {\"w\": {}}, \"nodes\": [1]}", "holds no shape");
  refused("{\"parameters\": {\"w\": {\"shape\": [-1]}}, \"nodes\": [1]}", "shape: got -1");
  refused(
      "{\"parameters\": {}, \"nodes\": [{\"name\": \"a\", \"target\": \"aten.add.Tensor\", \"inputs\": [], "
      "\"shape\": [\"s0\", 4]}]}",
      "lengths that are known");
  refused(
      "{\"parameters\": {}, \"nodes\": [{\"name\": \"a\", \"target\": \"aten.add.Tensor\", \"inputs\": [], "
      "\"shape\": [4]}]}",
      "got no embedding of tokens");
  refused(replaced(good, "\"add_1\"", "\"add\""), "two nodes of this name");
  refused(replaced(good, "aten.embedding.default", "aten.gather.default"), "got no embedding");
  refused(replaced(good, "[1024, 256]", "[1024, 255]"), "embedding of another shape");
  refused(replaced(good, "\"dtype\": \"bfloat16\"}", "\"same_as\": \"nobody\"}"), "same_as: got nobody");
}

TEST_CASE("orrery import graph writes a scenario that runs") {
  const Folder folder;
  const std::string graph = folder.write("llama.json", ExportedLlama().json()), out = folder.file("llama.yaml");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"import", "graph", graph, "--out", out},
                                                std::vector<std::string>{"import", graph, "--out", out}}) {
    const tests::Outcome made = tests::orrery(words);
    INFO(made.err);
    CHECK(made.status == 0);
    CHECK(made.err.find("parameters in the graph") != std::string::npos);
    CHECK(tests::orrery({"run", out}).status == 0);
  }
}
