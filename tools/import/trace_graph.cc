// See trace_graph.h. Of operators that run inside of others (aten::linear in aten::addmm in aten::matmul) the outermost
// stands for all of them.
#include "tools/import/trace_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "sim/printable.h"
#include "tools/import/parse_json.h"

namespace orrery::tools {

using nlohmann::json;
using sim::UserError;

namespace {

constexpr std::size_t kMostOperations = 10'000'000, kMostTensors = 4096, kLongestOperator = 4096, kMostSaid = 512;
constexpr std::int64_t kLargestExtent = 1'000'000'000;

/// A tensor as a trace has it.
struct Traced {
  std::int64_t id = 0;
  GraphTensor tensor;
  bool real = false;  // of floating point
};

/// Python's lists with quotes as JSON has them.
json list_of(std::string text) {
  std::replace(text.begin(), text.end(), '\'', '"');
  for (const auto& [word, other] : {std::pair{"None", "null"}, {"True", "true"}, {"False", "false"}}) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 4)) {
      const bool inside = (at > 0 && text[at - 1] != ' ' && text[at - 1] != '[' && text[at - 1] != ',');
      if (!inside) text.replace(at, std::string(word).size(), other);
    }
  }
  return text.empty() ? json::array() : parse_json(text);
}

class TraceReader {
 public:
  TraceReader(const std::string& file, std::vector<TracedOperation> operations) : operations_(std::move(operations)) {
    graph_.file = file;
    graph_.unnamed = true;
  }

  ModelGraph read() {
    std::stable_sort(operations_.begin(), operations_.end(),
                     [](const TracedOperation& a, const TracedOperation& b) { return a.id < b.id; });
    for (std::size_t i = 0; i < operations_.size(); ++i) place_[operations_[i].id] = i;
    for (const TracedOperation& operation : operations_)
      if (is_outermost(operation)) add(operation);
    if (graph_.nodes.empty())
      fail("nodes", "got no operators of a forward pass, expected nodes as aten::linear with shapes of their tensors");
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& message) const {
    throw UserError({graph_.file, 1, 1}, sim::printable(key.substr(0, kMostSaid)), message);
  }

  static bool is_operator(const std::string& name) {
    const std::size_t colons = name.find("::");
    if (colons == std::string::npos || name.find(' ') != std::string::npos) return false;
    const std::string library = name.substr(0, colons);
    return library != "autograd" && library != "c10d" && library != "nccl" &&
           name.find("::autograd::") == std::string::npos && name != "profiler::_record_function_enter_new";
  }
  /// Of the forward pass, and inside of no other operator.
  bool is_outermost(const TracedOperation& operation) const {
    if (!is_operator(operation.name)) return false;
    std::set<std::uint64_t> met{operation.id};
    for (std::uint64_t inside = operation.inside; met.insert(inside).second;) {
      const auto around = place_.find(inside);
      if (around == place_.end()) return true;
      const TracedOperation& outer = operations_[around->second];
      if (is_operator(outer.name) || outer.name.starts_with("autograd::") || outer.name.starts_with("Optimizer."))
        return false;
      inside = outer.inside;
    }
    return true;
  }

  /// The tensors of one side; those of a list one by one.
  std::vector<Traced> tensors(const TracedOperation& operation, const TracedOperation::Tensors& side) const {
    json values, shapes, types;
    try {
      values = list_of(side.values);
      shapes = list_of(side.shapes);
      types = list_of(side.types);
    } catch (const JsonProblem& problem) {
      fail(operation.name, fmt::format("{}, expected lists of values, shapes and types", problem.got));
    }
    std::vector<Traced> out;
    for (std::size_t i = 0; i < values.size() && i < shapes.size() && i < types.size(); ++i) {
      const std::string type = types[i].is_string() ? types[i].get<std::string>() : "";
      if (type.starts_with("Tensor")) add_tensor(operation, values[i], shapes[i], type, out);
      if (!type.starts_with("GenericList[Tensor") || !values[i].is_array() || !shapes[i].is_array()) continue;
      for (std::size_t k = 0; k < values[i].size() && k < shapes[i].size(); ++k)
        add_tensor(operation, values[i][k], shapes[i][k], type, out);
    }
    return out;
  }

  void add_tensor(const TracedOperation& operation, const json& value, const json& shape, const std::string& type,
                  std::vector<Traced>& out) const {
    const bool form = value.is_array() && value.size() >= 5 && value[0].is_number_integer() &&
                      value[4].is_number_integer() && shape.is_array() && out.size() < kMostTensors;
    if (!form)
      fail(operation.name,
           "got a tensor of another form, expected [tensor, storage, offset, elements, bytes of one, device] and its "
           "shape");
    Traced traced;
    traced.id = value[0].get<std::int64_t>();
    traced.tensor.bytes = static_cast<std::int32_t>(std::clamp<std::int64_t>(value[4].get<std::int64_t>(), 1, 16));
    for (const json& size : shape) {
      if (!size.is_number_integer() || size.get<double>() < 0 ||
          size.get<double>() > static_cast<double>(kLargestExtent))
        fail(operation.name,
             fmt::format("got a shape with another size, expected whole ones up to {}", kLargestExtent));
      traced.tensor.shape.push_back(size.get<std::int64_t>());
    }
    for (const char* word : {"loat", "alf", "ouble"}) traced.real = traced.real || type.find(word) != std::string::npos;
    out.push_back(std::move(traced));
  }

  void add(const TracedOperation& operation) {
    ModelNode node;
    node.op = operation.name.substr(operation.name.find("::") + 2);
    if (const std::size_t overload = node.op.find('.'); overload != std::string::npos) node.op.resize(overload);
    node.target = operation.name;
    node.name = fmt::format("{}-{}", node.op, operation.id);
    for (const Traced& input : tensors(operation, operation.in)) {
      if (const auto made = made_.find(input.id); made != made_.end())
        node.nodes.push_back(made->second);
      else if (input.real && input.tensor.elements() > 1)
        node.parameters.push_back(weight_of(input));
    }
    const std::vector<Traced> outputs = tensors(operation, operation.out);
    if (outputs.empty()) return;
    node.out = outputs.front().tensor;
    for (const Traced& output : outputs) made_[output.id] = static_cast<std::int32_t>(graph_.nodes.size());
    graph_.nodes.push_back(std::move(node));
  }

  std::string weight_of(const Traced& input) {
    const auto known = weights_.find(input.id);
    if (known != weights_.end()) return known->second;
    std::string name = fmt::format("w{}-{}", weights_.size(), fmt::join(input.tensor.shape, "x"));
    graph_.parameters[name] = input.tensor;
    return weights_[input.id] = name;
  }

  std::vector<TracedOperation> operations_;
  std::map<std::uint64_t, std::size_t> place_;
  ModelGraph graph_;
  std::map<std::int64_t, std::int32_t> made_;    // the node that made a tensor last
  std::map<std::int64_t, std::string> weights_;  // names
};

std::string text_of(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? found->dump(-1, ' ', true, json::error_handler_t::replace) : "";
}

TracedOperation::Tensors side_of(const json& node, const char* key) {
  const auto side = node.find(key);
  if (side == node.end()) return {};
  if (side->is_array()) {  // ahead of Chakra's schema (1.0.1): shapes and types stand beside it
    const std::string one = std::string_view(key) == "inputs" ? "input" : "output";
    return {text_of(node, key), text_of(node, (one + "_shapes").c_str()), text_of(node, (one + "_types").c_str())};
  }
  return {text_of(*side, "values"), text_of(*side, "shapes"), text_of(*side, "types")};
}

/// The byte behind the object that begins at `at`, or the end of the text.
std::size_t end_of_object(const std::string& text, std::size_t at) {
  std::size_t depth = 0;
  for (bool quoted = false; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '\\') ++at;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0) return at + 1;
  }
  return text.size();
}

TracedOperation traced_operation(const std::string& file, const json& node) {
  const auto number = [&](const char* key, const char* other) {
    auto found = node.find(key);
    if (found == node.end()) found = node.find(other);
    return found != node.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : std::uint64_t{0};
  };
  const auto name = node.find("name");
  if (name == node.end() || !name->is_string() || name->get<std::string>().size() > kLongestOperator)
    throw UserError({file, 1, 1}, "nodes", "got a node without a name, expected those of an execution trace");
  return {number("id", "id"), number("ctrl_deps", "parent"), name->get<std::string>(), side_of(node, "inputs"),
          side_of(node, "outputs")};
}

}  // namespace

bool is_execution_trace(const std::string& text) {
  const std::string head = text.substr(0, 256);
  const auto says = [&](std::string_view word) { return head.find(word) != std::string::npos; };
  return says("\"schema\"") && (says("chakra") || (says("\"pid\"") && says("\"nodes\"")));
}

ModelGraph graph_of_trace(const std::string& file, std::vector<TracedOperation> operations) {
  return TraceReader(file, std::move(operations)).read();
}

ModelGraph read_execution_trace(const std::string& file, const std::string& text) {
  const std::size_t key = text.find("\"nodes\""),
                    begin = text.find_first_not_of(" \t\r\n:", key == std::string::npos ? key : key + 7);
  if (key == std::string::npos || begin == std::string::npos || text[begin] != '[')
    throw UserError({file, 1, 1}, "nodes", "is no list, expected the nodes of an execution trace");
  std::vector<TracedOperation> operations;
  for (std::size_t at = begin + 1; at < text.size() && text[at] != ']';) {
    if (text[at] != '{') {
      ++at;
      continue;
    }
    const std::size_t end = end_of_object(text, at);
    if (operations.size() >= kMostOperations)
      throw UserError({file, 1, 1}, "nodes",
                      fmt::format("got more than {}, expected those of a step", kMostOperations));
    try {
      operations.push_back(traced_operation(file, parse_json(std::string_view(text).substr(at, end - at))));
    } catch (const JsonProblem& problem) {
      throw UserError({file, 1, 1}, "nodes", problem.got + ", expected the nodes of an execution trace");
    }
    at = end;
  }
  return graph_of_trace(file, std::move(operations));
}

}  // namespace orrery::tools
