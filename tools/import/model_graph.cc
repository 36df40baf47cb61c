// See model_graph.h. Left out: numbers among a node's arguments, whose effect its shape shows.
#include "tools/import/model_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/printable.h"
#include "sim/text_file.h"
#include "tools/import/parse_json.h"
#include "tools/import/trace_graph.h"

namespace orrery::tools {

using nlohmann::json;
using sim::Place;
using sim::UserError;

namespace {

constexpr double kMostElements = 1e15;
constexpr std::int64_t kLargestSize = 1'000'000'000;
constexpr std::size_t kMostNodes = 1'000'000, kMostSizes = 16, kMostInputs = 1024, kLongestName = 512;

Place place_of_byte(const std::string& file, const std::string& text, std::size_t byte) {
  byte = std::min(byte, text.size());
  const auto begin = text.begin(), end = begin + static_cast<std::ptrdiff_t>(byte);
  const std::size_t last = byte == 0 ? std::string::npos : text.rfind('\n', byte - 1);
  const std::size_t column = last == std::string::npos ? byte : byte - last - 1;
  return {file, static_cast<int>(std::count(begin, end, '\n')) + 1, static_cast<int>(column) + 1};
}

class GraphReader {
 public:
  GraphReader(const std::string& file, const std::string& text) : file_(file), text_(text) {}

  ModelGraph read() {
    const json document = parsed();
    graph_.file = file_;
    const json& parameters = member(document, "parameters", "the document");
    const json& nodes = member(document, "nodes", "the document");
    if (!parameters.is_object() || !nodes.is_array() || nodes.empty() || nodes.size() > kMostNodes)
      fail("", fmt::format("got another form, expected parameters by name and a list of 1 to {} nodes, as "
                           "tools/print_graph writes them",
                           kMostNodes));
    for (const auto& [name, value] : parameters.items()) add_parameter(name, value);
    for (const auto& [name, other] : graph_.same) {
      if (!graph_.parameters.contains(other)) fail(name, fmt::format("same_as: got {}, no parameter", shown(other)));
    }
    for (const json& value : nodes) add_node(value);
    return std::move(graph_);
  }

 private:
  json parsed() const {
    try {
      return parse_json(text_);
    } catch (const JsonProblem& problem) {
      throw UserError(place_of_byte(file_, text_, problem.at), "", problem.got + ", expected the graph of a model");
    }
  }
  static std::string shown(const std::string& text) { return sim::printable(text.substr(0, kLongestName)); }
  [[noreturn]] void fail(const std::string& name, const std::string& message) const {
    const std::size_t at = name.empty() ? std::string::npos : text_.find('"' + name + '"');
    const Place place = at == std::string::npos ? Place{file_, 1, 1} : place_of_byte(file_, text_, at);
    throw UserError(place, shown(name), message);
  }
  const json& member(const json& object, const char* key, const std::string& name) const {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || found == object.end())
      fail(name == "the document" ? "" : name, fmt::format("holds no {}, as tools/print_graph writes it", key));
    return *found;
  }

  GraphTensor tensor_of(const json& value, const std::string& name) const {
    GraphTensor tensor;
    const json& shape = member(value, "shape", name);
    if (!shape.is_array() || shape.size() > kMostSizes) fail(name, "shape: expected a list of sizes");
    for (const json& size : shape) {
      if (!size.is_number_integer() || size.get<double>() < 0 || size.get<double>() > real_limit())
        fail(name, fmt::format("shape: got {}, expected whole sizes up to {}: export it with lengths that are known",
                               shown(size.dump()), kLargestSize));
      tensor.shape.push_back(size.get<std::int64_t>());
    }
    if (tensor.elements() > kMostElements) fail(name, "shape: got more elements than any tensor has");
    const auto type = value.find("dtype");
    if (type == value.end() || !type->is_string()) return tensor;
    tensor.bytes = bytes_of_type(type->get<std::string>());
    return tensor;
  }
  static double real_limit() { return static_cast<double>(kLargestSize); }
  /// By its digits: bfloat16, float32, int64, float8_e4m3fn, bool.
  static std::int32_t bytes_of_type(const std::string& type) {
    for (const auto& [digits, bytes] : {std::pair{"64", 8}, {"32", 4}, {"16", 2}, {"8", 1}, {"bool", 1}}) {
      if (type.find(digits) != std::string::npos) return bytes;
    }
    return 2;
  }

  void add_parameter(const std::string& name, const json& value) {
    if (name.empty() || name.size() > kLongestName || sim::printable(name) != name)
      fail("", "parameters: got a name that is empty, too long or not printable");
    graph_.parameters[name] = tensor_of(value, name);
    if (const auto same = value.find("same_as"); same != value.end() && same->is_string())
      graph_.same[name] = same->get<std::string>();
  }

  void add_node(const json& value) {
    ModelNode node;
    const json &name = member(value, "name", ""), &target = member(value, "target", "");
    if (!name.is_string() || !target.is_string() || name.get<std::string>().size() > kLongestName)
      fail("", "nodes: got a node whose name or target is no text");
    node.name = name.get<std::string>();
    node.target = target.get<std::string>();
    if (numbers_.contains(node.name)) fail(node.name, "got two nodes of this name");
    if (graph_.parameters.contains(node.name)) fail(node.name, "got a node with the name of a parameter");
    node.out = tensor_of(value, node.name);
    const json& inputs = member(value, "inputs", node.name);
    if (!inputs.is_array() || inputs.size() > kMostInputs) fail(node.name, "inputs: expected a list of names");
    for (const json& input : inputs) {
      if (!input.is_string()) fail(node.name, "inputs: expected names of nodes and parameters");
      const std::string from = input.get<std::string>();
      const auto made = numbers_.find(from);
      if (graph_.parameters.contains(from))
        node.parameters.push_back(from);
      else if (made == numbers_.end())
        node.outside.push_back(from);
      if (made != numbers_.end()) node.nodes.push_back(made->second);
    }
    node.op = op_of(node.target);
    numbers_[node.name] = static_cast<std::int32_t>(graph_.nodes.size());
    graph_.nodes.push_back(std::move(node));
  }

  /// "aten.linear.default" and "torch.ops.aten.linear.default": linear; "<built-in function add>": add.
  static std::string op_of(std::string target) {
    if (target.starts_with("<built-in function ")) return target.substr(19, target.find('>') - 19);
    if (target.starts_with("torch.ops.")) target = target.substr(10);
    const std::size_t library = target.find('.');
    if (library == std::string::npos) return target;
    const std::size_t overload = target.find('.', library + 1);
    return target.substr(library + 1, overload == std::string::npos ? overload : overload - library - 1);
  }

  const std::string &file_, &text_;
  ModelGraph graph_;
  std::map<std::string, std::int32_t> numbers_;
};

}  // namespace

double GraphTensor::elements() const {
  double all = 1;
  for (const std::int64_t size : shape) all *= static_cast<double>(size);
  return all;
}

bool ModelNode::is(std::initializer_list<std::string_view> ops) const {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

const std::string& ModelGraph::tensor_of(const std::string& parameter) const {
  const auto other = same.find(parameter);
  return other == same.end() ? parameter : other->second;
}

void ModelGraph::fail(const ModelNode& node, const std::string& message) const {
  throw UserError(Place{file, 0, 0}, sim::printable(node.name), message);
}

ModelGraph read_model_graph(const std::string& file) {
  const std::string text = sim::read_text(file, "the graph of a model");
  return is_execution_trace(text) ? read_execution_trace(file, text) : GraphReader(file, text).read();
}

}  // namespace orrery::tools
