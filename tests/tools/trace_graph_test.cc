// Does an execution trace of a forward pass become the model that ran? Traces are those of Chakra's schema as PyTorch's
// observer writes them (JSON) and as Chakra's converter does (protobuf), of the graph that exported_llama.h spells.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/skipped.h"
#include "tests/tools/exported_llama.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"
#include "tools/import/parse_json.h"
#include "tools/replay/chakra.h"
#include "workloads/model/model.h"
#include "workloads/step/step.h"

using namespace orrery;
using nlohmann::json;
using tests::ExportedLlama;
using tests::Folder;

namespace {

/// The graph's nodes as operators that ran, each with one inside of it; behind them what a trace of a step has too.
class TraceWriter {
 public:
  explicit TraceWriter(const std::string& graph) {
    const json document = tools::parse_json(graph);
    for (const auto& [name, tensor] : document["parameters"].items()) add_tensor(name, tensor["shape"], "bfloat16");
    for (const json& node : document["nodes"]) add(node);
    behind("autograd::engine::evaluate_function: MmBackward0", "aten::mm");
    behind("Optimizer.step#AdamW.step", "aten::_foreach_add_");
  }

  std::string text() const {
    return fmt::format("{{\"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": 1, \"nodes\": [\n{}\n]}}",
                       fmt::join(nodes_, ",\n"));
  }

  /// As varints and fields of messages (protobuf.dev, encoding); a message stands behind its length.
  std::string protobuf() const {
    std::string out = message(
        "\x0a\x05"
        "0.0.4");
    for (const std::string& text : nodes_) {
      const json node = tools::parse_json(text);
      std::string one = field(1, node["id"].get<std::uint64_t>()) + field(2, node["name"].get<std::string>());
      one += field(4, field_of(node["ctrl_deps"].get<std::uint64_t>()));
      for (const auto& [number, side] : {std::pair{8, "inputs"}, {9, "outputs"}})
        one += field(number, field(1, node[side]["values"].dump()) + field(2, node[side]["shapes"].dump()) +
                                 field(3, node[side]["types"].dump()));
      out += message(one);
    }
    return out;
  }

 private:
  static std::string field_of(std::uint64_t value) {
    std::string out;
    for (; value >= 128; value >>= 7) out += static_cast<char>(value % 128 + 128);
    return out + static_cast<char>(value);
  }
  static std::string field(int number, std::uint64_t value) {
    return field_of(static_cast<std::uint64_t>(number) << 3) + field_of(value);
  }
  static std::string field(int number, const std::string& bytes) {
    return field_of((static_cast<std::uint64_t>(number) << 3) + 2) + field_of(bytes.size()) + bytes;
  }
  static std::string message(const std::string& bytes) { return field_of(bytes.size()) + bytes; }

  struct Tensor {
    std::int64_t id;
    json shape;
    std::string type;
  };

  void add_tensor(const std::string& name, const json& shape, const std::string& dtype) {
    const std::map<std::string, std::string> types{
        {"bfloat16", "Tensor(c10::BFloat16)"}, {"float32", "Tensor(float)"}, {"int64", "Tensor(long)"}};
    tensors_[name] = {static_cast<std::int64_t>(tensors_.size()) + 1, shape, types.at(dtype)};
  }

  json side(const std::vector<std::string>& names) const {
    json values = json::array(), shapes = json::array(), types = json::array();
    for (const std::string& name : names) {
      const Tensor& tensor = tensors_.at(name);
      std::int64_t elements = 1;
      for (const json& size : tensor.shape) elements *= size.get<std::int64_t>();
      const int bytes = tensor.type == "Tensor(float)" ? 4 : 2;
      values.push_back({tensor.id, tensor.id, 0, elements, bytes, "cuda:0"});
      shapes.push_back(tensor.shape);
      types.push_back(tensor.type);
    }
    return {{"values", values}, {"shapes", shapes}, {"types", types}};
  }

  void write(const std::string& name, std::uint64_t inside, const json& in, const json& out) {
    nodes_.push_back(
        json{{"id", next_++}, {"name", name}, {"ctrl_deps", inside}, {"inputs", in}, {"outputs", out}}.dump());
  }

  void add(const json& node) {
    std::vector<std::string> inputs;
    for (const json& input : node["inputs"]) {
      const auto name = input.get<std::string>();
      // What the caller hands in: a layer's input, numbers of words, and buffers.
      if (!tensors_.contains(name) && name == "hidden_states") add_tensor(name, node["shape"], "bfloat16");
      if (!tensors_.contains(name)) add_tensor(name, json{1, 1}, "int64");
      inputs.push_back(name);
    }
    const auto made = node["name"].get<std::string>(), target = node["target"].get<std::string>();
    add_tensor(made, node["shape"], node["dtype"].get<std::string>());
    const std::string op = "aten::" + target.substr(5, target.find('.', 5) - 5);
    const std::uint64_t around = next_;
    write(op, 2, side(inputs), side({made}));
    write("aten::empty", around, side({}), side({made}));
  }

  void behind(const std::string& around, const std::string& op) {
    const std::uint64_t outer = next_;
    const std::string& weight = tensors_.begin()->first;
    write(around, 2, side({}), side({}));
    write(op, outer, side({weight, weight}), side({weight}));
  }

  std::map<std::string, Tensor> tensors_;
  std::vector<std::string> nodes_;
  std::uint64_t next_ = 3;
};

ExportedLlama small_llama() {
  ExportedLlama llama;
  llama.layers = 4;
  llama.hidden = 2048;
  llama.heads = 16;
  llama.kv_heads = 4;
  llama.head_dim = 128;
  llama.ffn = 6144;
  llama.vocab = 32000;
  llama.seq = 2048;
  return llama;
}

workloads::Job job_of_trace(const std::string& file, const std::vector<std::string>& cuts = {},
                            const std::vector<std::string>& sets = {}) {
  tools::Draft draft = tools::import_graph(file, cuts);
  for (const std::string& set : sets) draft.apply(set);
  return scenarios::load_scenario(scenarios::parse_yaml(draft.yaml(), "imported.yaml")).job;
}

/// The same of what torch.export has.
workloads::Job job_of_export(const Folder& folder, ExportedLlama llama, const std::vector<std::string>& sets = {}) {
  return job_of_trace(folder.write("export.json", llama.json()), {}, sets);
}

}  // namespace

TEST_CASE("the trace of a model's forward pass is the model that ran") {
  const Folder folder;
  const std::vector<std::string> layout{"batch.global=16", "parallelism={tensor: 2, sequence_parallel: true}"};
  ExportedLlama llama = small_llama();
  for (const bool qk_norm : {false, true}) {
    INFO(qk_norm);
    llama.qk_norm = qk_norm;
    workloads::Job traced = job_of_trace(folder.write("trace.json", TraceWriter(llama.json()).text()), {}, layout);
    const workloads::Job exported = job_of_export(folder, llama, layout);
    traced.model.name = exported.model.name;
    CHECK(traced.model == exported.model);
    CHECK(workloads::simulate_step(traced).iteration == workloads::simulate_step(exported).iteration);
  }
}

TEST_CASE("a trace of the schema ahead of Chakra's, whose shapes stand beside its tensors, is read likewise") {
  const Folder folder;
  const ExportedLlama llama = small_llama();
  json older = tools::parse_json(TraceWriter(ExportedLlama(llama).json()).text());
  older["schema"] = "1.0.1";
  for (json& node : older["nodes"]) {
    node["parent"] = node["ctrl_deps"];
    node["rf_id"] = 0;
    node.erase("ctrl_deps");
    for (const std::string side : {"input", "output"}) {
      const json lists = node[side + "s"];
      node[side + "s"] = lists["values"];
      node[side + "_shapes"] = lists["shapes"];
      node[side + "_types"] = lists["types"];
    }
  }
  // The file's own words come first, as the observer writes them.
  const std::string nodes = older["nodes"].dump();
  workloads::Job traced = job_of_trace(
      folder.write("trace.json", "{\"schema\": \"1.0.1\", \"pid\": 1, \"start_ts\": 2,\n\"nodes\": " + nodes + "}"));
  const workloads::Job exported = job_of_export(folder, llama);
  traced.model.name = exported.model.name;
  CHECK(traced.model == exported.model);
}

TEST_CASE("experts and unknown parts of a trace are those of the export") {
  const Folder folder;
  const std::vector<std::string> layout{"batch.global=16", "parallelism={tensor: 2, sequence_parallel: true}"};
  ExportedLlama mixture = small_llama(), odd = small_llama();
  mixture.experts = 16;
  mixture.top = 4;
  mixture.ffn = 512;
  odd.convolved = 2;
  odd.low_rank = 256;
  for (ExportedLlama* llama : {&mixture, &odd}) {
    const workloads::Job traced =
        job_of_trace(folder.write("trace.json", TraceWriter(llama->json()).text()), {}, layout);
    const workloads::Job exported = job_of_export(folder, *llama, layout);
    CHECK(workloads::parameter_count(traced.model) == workloads::parameter_count(exported.model));
    CHECK(workloads::model_flops(traced.model, 1) == Approx(workloads::model_flops(exported.model, 1)).epsilon(1e-12));
    CHECK(tests::contradiction(workloads::simulate_step(traced)) == "");
    CHECK(sim::to_seconds(workloads::simulate_step(traced).iteration) ==
          Approx(sim::to_seconds(workloads::simulate_step(exported).iteration)).epsilon(0.05));
  }
}

TEST_CASE("the trace of one layer is a layer, of which a model is made") {
  const Folder folder;
  ExportedLlama layer = small_llama();
  layer.alone = true;
  layer.layers = 1;
  const double h = 2048, f = 6144, block = 2 * h * h + 2 * h * 512 + 3 * h * f + 2 * h;
  for (const std::string& text : {layer.json(), TraceWriter(layer.json()).text()}) {
    const std::string file = folder.write("layer.json", text);
    const workloads::Job one = job_of_trace(file);
    CHECK(one.model.layers == 1);
    CHECK(one.model.hidden == 2048);
    CHECK(one.model.seq == 2048);
    const workloads::Job many =
        job_of_trace(file, {}, {"model.layers=4", "model.vocab=32000", "model.tied_embeddings=false"});
    CHECK(workloads::parameter_count(many.model) == Approx(4 * block + 2 * 32000 * h).epsilon(1e-12));
    workloads::Job whole = job_of_export(folder, small_llama());
    whole.model.name = many.model.name;
    CHECK(many.model == whole.model);
  }
}

TEST_CASE("a trace in Chakra's own format is read as its text is") {
  if (!tools::has_chakra()) {
    tests::skipped("a build without libprotobuf");
    return;
  }
  const Folder folder;
  const TraceWriter trace(small_llama().json());
  const std::string text = folder.write("trace.json", trace.text()),
                    binary = folder.write("trace.et", trace.protobuf());
  const std::string out = folder.file("of-text.yaml"), other = folder.file("of-binary.yaml");
  REQUIRE(tests::orrery({"import", "graph", text, "--out", out}).status == 0);
  const tests::Outcome made = tests::orrery({"import", "graph", binary, "--out", other});
  INFO(made.err);
  REQUIRE(made.status == 0);
  const auto job = [](const std::string& file) {
    return scenarios::load_scenario(scenarios::read_yaml(file)).job.model;
  };
  workloads::Model first = job(out), second = job(other);
  first.name = second.name;
  CHECK(first == second);
  CHECK(tests::orrery({"run", other}).status == 0);
}

TEST_CASE("what is no trace of a forward pass gets one line") {
  const Folder folder;
  const std::string good = TraceWriter(ExportedLlama().json()).text();
  const auto refused = [&](const std::string& from, const std::string& to, const char* with) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    std::string message;
    try {
      job_of_trace(folder.write("trace.json", text));
    } catch (const sim::UserError& error) {
      message = error.what();
    }
    INFO(message);
    CHECK(message.find(with) != std::string::npos);
    CHECK(message.find("trace.json") != std::string::npos);
    CHECK(message.find("expected") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  };
  CHECK(job_of_trace(folder.write("trace.json", good)).model.layers == 2);
  refused("\"nodes\": [", "\"nodes\": 3, \"others\": [", "is no list");
  refused("\"name\":\"aten::embedding\"", "\"called\":\"aten::embedding\"", "got a node without a name");
  refused("\"aten::embedding\"", "\"aten::gather\"", "got no embedding");
  refused("\"cuda:0\"", "\"cuda:0\"]], [[", "got");
  refused("\"shapes\":[[", "\"shapes\":[[-5,", "got a shape");
}
