// What a part of a graph is (graph_blocks.h): attention, where one core reads three products of one tensor, or one of
// all three, and one product goes back; an MLP, where one activation stands between products up and down; else its
// operators, one by one.
//
// Of operators, a product that another follows is cut by outputs and that one by inputs, what stands ahead of both runs
// whole, as low-rank layers want it; a rule of the user's says otherwise. Views move nothing. An elementwise kernel
// reads its inputs and writes its output; backward it moves the output's gradient, what it kept, and gradients of what
// it read; sums have no backward kernel. What it keeps are those inputs that its gradient needs and nothing before it
// has kept.
//
// Left out: products inside of fused kernels that are not known by name (their bytes are counted, which is said).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "tools/import/graph_blocks.h"

namespace orrery::tools {

namespace {

bool is_attention(const ModelNode& node) {
  return node.op.find("scaled_dot_product") != std::string::npos || node.op.find("flash_attn") != std::string::npos ||
         node.op.find("flex_attention") != std::string::npos || node.op.find("flash_attention") != std::string::npos;
}
bool is_activation(const ModelNode& node) {
  return node.is({"silu", "gelu", "relu", "sigmoid", "tanh", "silu_", "gelu_", "relu_"});
}
/// Of any kind that makes attention or an MLP another: gates, caps, states, choices.
bool is_unusual(const ModelNode& node) {
  return node.is({"softplus", "exp", "cumsum", "topk", "sort", "scatter", "gather", "index", "conv1d", "convolution",
                  "log", "bmm", "grouped_mm", "_grouped_mm", "roll", "softmax", "_softmax", "einsum"});
}

class PartReader {
 public:
  PartReader(const ModelGraph& graph, const GraphModel& model, const GraphPart& part, const std::vector<CutRule>& rules)
      : graph_(graph), model_(model), part_(part), rules_(rules), products_(products_of(graph, part.nodes)) {
    for (std::size_t i = 0; i < part.nodes.size(); ++i) in_part_.insert(part.nodes[i]);
    for (const GraphProduct& product : products_) product_at_[product.node] = &product;
  }

  PartForm read() {
    find_norms();
    PartForm form;
    form.norms = hidden_norms_;
    form.layer_norm = layer_norm_;
    if (!ruled() && (is_attention_part(form) || is_mlp_part(form) || is_expert_part(form))) return form;
    form = {};
    form.norms = hidden_norms_;
    form.layer_norm = layer_norm_;
    write_operators(form);
    return form;
  }

 private:
  const ModelNode& at(std::int32_t node) const { return graph_.nodes[static_cast<std::size_t>(node)]; }

  // ---- norms ----

  /// One weight, and with shifts two, of the width of what they scale.
  void find_norms() {
    for (const std::int32_t i : part_.nodes) {
      const ModelNode& node = at(i);
      const bool whole = node.is({"layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm"});
      if (whole && !node.parameters.empty()) {
        add_norm(i, node.nodes.empty() ? -1 : node.nodes[0], node.out.last(), node.parameters.size() > 1);
      } else if (node.is({"mul", "mul_"})) {
        add_norm_in_steps(i);
      }
    }
  }

  /// The weight of one dimension that a product of elements reads, straight or as 1 + w.
  const std::string* scale_of(const ModelNode& node) const {
    if (node.parameters.size() == 1 && graph_.parameters.at(node.parameters[0]).shape.size() == 1)
      return &node.parameters[0];
    for (const std::int32_t input : node.nodes) {
      std::int32_t one = input;
      while (at(one).is({"add", "to", "_to_copy"}) && at(one).nodes.size() == 1 && at(one).parameters.empty())
        one = at(one).nodes[0];
      const ModelNode& scale = at(one);
      if (scale.is({"add", "to", "_to_copy"}) && scale.nodes.empty() && scale.parameters.size() == 1 &&
          graph_.parameters.at(scale.parameters[0]).shape.size() == 1)
        return &scale.parameters[0];
    }
    return nullptr;
  }

  /// x * rsqrt(mean(x^2) + eps) * weight: from the weight back to x.
  void add_norm_in_steps(std::int32_t last) {
    const std::string* scale = scale_of(at(last));
    if (scale == nullptr || graph_.parameters.at(*scale).last() != at(last).out.last()) return;
    std::set<std::int32_t> steps{last};
    std::vector<std::int32_t> open{last};
    std::int32_t squared = -1;
    bool roots = false;
    while (!open.empty()) {
      const std::int32_t one = open.back();
      open.pop_back();
      for (const std::int32_t input : at(one).nodes) {
        const ModelNode& node = at(input);
        if (!in_part_.contains(input) || steps.contains(input)) continue;
        if (!node.is({"to", "_to_copy", "mul", "rsqrt", "add", "mean", "pow", "square", "var", "sub", "sqrt", "div",
                      "reciprocal", "type_as", "float"}))
          continue;
        if (node.is({"pow", "square", "var"}) && !node.nodes.empty()) squared = source_of(graph_, node.nodes[0]);
        roots = roots || node.is({"rsqrt", "sqrt"});
        steps.insert(input);
        if (node.is({"pow", "square", "var"})) continue;
        open.push_back(input);
      }
    }
    if (squared < 0 || !roots) return;
    // Of what was met only what hangs on x belongs to it: all, but what x itself was made of.
    for (const std::int32_t step : steps)
      if (step > squared || step == last) norm_nodes_.insert(step);
    add_norm(last, squared, at(last).out.last(), false);
  }

  void add_norm(std::int32_t node, std::int32_t input, std::int64_t width, bool shifts) {
    norm_nodes_.insert(node);
    norm_at_[node] = width;
    if (width == model_.hidden) {
      ++hidden_norms_;
      layer_norm_ = layer_norm_ || shifts;
      const bool first = input >= 0 && source_of(graph_, input) == source_of(graph_, part_.begins);
      if (first) pre_norm_ = node;
    } else {
      ++head_norms_;
      head_width_ = width;
    }
  }

  // ---- attention and MLPs ----

  bool ruled() const {
    return std::any_of(products_.begin(), products_.end(),
                       [&](const GraphProduct& product) { return rule_of(product.weight) != nullptr; });
  }
  /// Of a weight's name the rule names the end, from a dot on; a star stands for what is ahead.
  const CutRule* rule_of(const std::string& weight) const {
    for (const CutRule& rule : rules_) {
      std::string end = rule.weights;
      if (end.starts_with("*")) end = end.substr(1);
      const bool fits = weight.ends_with(end) && (rule.weights.starts_with("*") || weight.size() == end.size() ||
                                                  weight[weight.size() - end.size() - 1] == '.');
      if (!fits) continue;
      rule.used = true;
      return &rule;
    }
    return nullptr;
  }

  /// The node that a product reads, behind views and casts.
  std::int32_t read_by(const GraphProduct& product) const {
    const ModelNode& node = at(product.node);
    return node.nodes.empty() ? -1 : source_of(graph_, node.nodes[0]);
  }
  bool returns(const GraphProduct& product) const {
    const ModelNode& sum = at(part_.sum);
    return std::any_of(sum.nodes.begin(), sum.nodes.end(), [&](std::int32_t input) {
      std::int32_t made = source_of(graph_, input);
      // A norm of the output, or a factor of the residual, may stand between.
      while (made != product.node && in_part_.contains(made) &&
             (norm_nodes_.contains(made) || (at(made).is({"mul"}) && at(made).nodes.size() == 1)) &&
             !at(made).nodes.empty())
        made = source_of(graph_, *std::max_element(at(made).nodes.begin(), at(made).nodes.end()));
      return made == product.node;
    });
  }
  /// All weights of the part are those of its products and norms.
  bool only_known_weights() const {
    for (const std::int32_t i : part_.nodes) {
      const ModelNode& node = at(i);
      if (node.parameters.empty() || product_at_.contains(i) || norm_nodes_.contains(i)) continue;
      if (!node.is({"t", "transpose", "permute", "to", "_to_copy", "add"})) return false;
    }
    return true;
  }
  bool usual_norms() const { return pre_norm_ >= 0 && (hidden_norms_ == 1 || hidden_norms_ == 2); }
  std::size_t count(bool (*of)(const ModelNode&)) const {
    std::size_t found = 0;
    for (const std::int32_t i : part_.nodes) found += static_cast<std::size_t>(of(at(i)) && !norm_nodes_.contains(i));
    return found;
  }

  bool is_attention_part(PartForm& form) const {
    if (count(is_attention) != 1 || count(is_activation) + count(is_unusual) > 0 || !usual_norms() ||
        !only_known_weights())
      return false;
    const auto core =
        std::find_if(part_.nodes.begin(), part_.nodes.end(), [&](std::int32_t i) { return is_attention(at(i)); });
    const ModelNode& node = at(*core);
    if (node.nodes.size() < 3) return false;
    const std::vector<std::int64_t>& queries = at(node.nodes[0]).out.shape;
    if (queries.size() != 4) return false;
    const std::int64_t width = queries[3];
    if (products_.size() != 4 && products_.size() != 2) return false;
    const GraphProduct& back = products_.back();
    if (!returns(back) || width == 0 || back.in % width != 0) return false;
    const std::int64_t heads = back.in / width;
    std::int64_t keys = 0;
    if (products_.size() == 4) {
      if (products_[0].out != back.in || products_[1].out != products_[2].out) return false;
      keys = products_[1].out;
    } else {
      keys = (products_[0].out - back.in) / 2;
    }
    for (std::size_t i = 0; i + 1 < products_.size(); ++i) {
      if (read_by(products_[i]) != source_of(graph_, pre_norm_) || products_[i].in != model_.hidden) return false;
    }
    if (keys <= 0 || keys % width != 0 || heads % (keys / width) != 0 || head_norms_ % 2 != 0 || head_norms_ > 2)
      return false;
    if (head_norms_ == 2 && head_width_ != width) return false;
    form.kind = PartKind::attention;
    form.sizes = {{"heads", heads}, {"kv_heads", keys / width}};
    if (heads * width != model_.hidden) form.sizes["head_dim"] = width;
    form.qk_norm = head_norms_ == 2;
    form.first_bias = products_[0].bias > 0;
    form.last_bias = back.bias > 0;
    form.rotary = std::any_of(part_.nodes.begin(), part_.nodes.end(), [&](std::int32_t i) {
      const ModelNode& one = at(i);
      return one.is({"neg", "view_as_complex", "cat"}) || one.op.find("rope") != std::string::npos ||
             one.op.find("rotary") != std::string::npos;
    });
    return true;
  }

  bool is_mlp_part(PartForm& form) const {
    if (count(is_attention) + count(is_unusual) > 0 || !usual_norms() || !only_known_weights() || head_norms_ > 0)
      return false;
    if (products_.size() != 2 && products_.size() != 3) return false;
    const GraphProduct& down = products_.back();
    if (!returns(down)) return false;
    for (std::size_t i = 0; i + 1 < products_.size(); ++i) {
      if (read_by(products_[i]) != source_of(graph_, pre_norm_)) return false;
    }
    form.gated = products_.size() == 3 || products_[0].out == 2 * down.in;
    if (products_[0].out != (products_.size() == 2 && form.gated ? 2 * down.in : down.in)) return false;
    if (products_.size() == 3 && products_[1].out != down.in) return false;
    form.activation = activation(form.gated);
    if (form.activation.empty()) return false;
    form.kind = PartKind::mlp;
    form.sizes = {{"ffn_hidden", down.in}};
    form.first_bias = products_[0].bias > 0;
    form.last_bias = down.bias > 0;
    return true;
  }

  /// Weights of all experts in one tensor, [experts, a, b]: up, or gate and up in one or two, and down.
  std::vector<GraphTensor> expert_weights() const {
    std::map<std::string, GraphTensor> found;
    for (const std::int32_t i : part_.nodes) {
      for (const std::string& weight : at(i).parameters) {
        const GraphTensor& tensor = graph_.parameters.at(weight);
        if (tensor.shape.size() == 3 && !at(i).is({"conv1d", "convolution"})) found[weight] = tensor;
      }
    }
    std::vector<GraphTensor> weights;
    for (const auto& [name, tensor] : found) weights.push_back(tensor);
    std::sort(weights.begin(), weights.end(),
              [](const GraphTensor& a, const GraphTensor& b) { return a.elements() > b.elements(); });
    return weights;
  }

  /// A choice of the largest scores over experts that one product makes, and the experts' products, by the shapes of
  /// their weights; beside them an MLP that every token goes through, with a gate or none.
  bool is_expert_part(PartForm& form) const {
    const std::vector<GraphTensor> weights = expert_weights();
    const auto choice =
        std::find_if(part_.nodes.begin(), part_.nodes.end(), [&](std::int32_t i) { return at(i).is({"topk"}); });
    if (weights.size() < 2 || weights.size() > 3 || choice == part_.nodes.end() || !usual_norms()) return false;
    const std::int64_t experts = weights[0].shape[0], top = at(*choice).out.last(), h = model_.hidden;
    const auto width = [&](const GraphTensor& tensor) {
      return tensor.elements() / static_cast<double>(experts) / static_cast<double>(h);
    };
    const double down = width(weights.back()),
                 all = down + width(weights[0]) + (weights.size() == 3 ? width(weights[1]) : 0);
    const bool alike = std::all_of(weights.begin(), weights.end(),
                                   [&](const GraphTensor& tensor) { return tensor.shape[0] == experts; });
    if (!alike || down < 1 || down != std::floor(down) || (all != 3 * down && all != 2 * down) || top < 1 ||
        top > experts)
      return false;
    form.gated = all == 3 * down;
    form.activation = expert_activation();
    form.sizes = {{"experts", experts}, {"top_k", top}, {"expert_ffn_hidden", static_cast<std::int64_t>(down)}};
    if (form.activation.empty() || !take_shared(experts, form)) return false;
    form.kind = PartKind::experts;
    form.routed = 2 * model_.tokens * static_cast<double>(top) * all * static_cast<double>(h);
    return true;
  }
  std::string expert_activation() const {
    const bool silu = std::any_of(part_.nodes.begin(), part_.nodes.end(), [&](std::int32_t i) {
      return at(i).is({"silu", "silu_"});
    });
    return silu ? "swiglu" : activation(false);
  }
  /// What is no router among products.
  bool take_shared(std::int64_t experts, PartForm& form) const {
    std::vector<const GraphProduct*> others;
    bool routes = false;
    for (const GraphProduct& product : products_) {
      if (product.in == model_.hidden && product.out == experts && !routes)
        routes = true;
      else if (product.in == model_.hidden && product.out == 1)
        form.shared_gate = true;
      else
        others.push_back(&product);
    }
    if (!routes) return false;
    if (others.empty()) return !form.shared_gate;
    std::int64_t inside = 0, made = 0;
    for (const GraphProduct* product : others) {
      if (product->out == model_.hidden && product->in != model_.hidden)
        inside = product->in;
      else if (product->in == model_.hidden)
        made += product->out;
      else
        return false;
    }
    if (inside == 0 || made != (form.gated ? 2 : 1) * inside) return false;
    form.sizes["shared_experts"] = 1;
    form.sizes["shared_expert_ffn_hidden"] = inside;
    return true;
  }

  /// The name of the scenario language; empty: another.
  std::string activation(bool gated) const {
    std::set<std::string> met;
    bool squares = false;
    for (const std::int32_t i : part_.nodes) {
      if (norm_nodes_.contains(i)) continue;
      std::string op = at(i).op;
      if (is_activation(at(i))) {
        if (op.ends_with('_')) op.pop_back();
        met.insert(op);
      }
      squares = squares || at(i).is({"pow", "square"});
    }
    if (met.size() != 1) return "";
    const std::string& one = *met.begin();
    if ((one == "silu" || one == "sigmoid") && gated) return "swiglu";
    if (one == "gelu" || (one == "tanh" && squares)) return "gelu";  // the latter as GPT-2 writes it out
    if (one == "relu") return squares && !gated ? "squared_relu" : "relu";
    return "";
  }

  // ---- operators ----

  /// For each node how many products lie between it and the sum, itself included.
  void find_depths() {
    std::map<std::int32_t, int> depth;
    for (auto node = part_.nodes.rbegin(); node != part_.nodes.rend(); ++node) {
      const int own = depth[*node] + (product_at_.contains(*node) ? 1 : 0);
      depth[*node] = own;
      for (const std::int32_t input : at(*node).nodes)
        if (in_part_.contains(input)) depth[input] = std::max(depth[input], own);
    }
    for (const GraphProduct& product : products_) depth_[product.node] = depth[product.node];
  }
  /// Whether no product runs whole behind one that is cut by outputs.
  bool follow_each_other() {
    return std::none_of(products_.begin(), products_.end(), [&](const GraphProduct& product) {
      return stage_[product.node] == 1 && cut_of(product) == "none";
    });
  }
  std::string cut_of(const GraphProduct& product) const {
    if (whole_) return "none";
    if (const CutRule* rule = rule_of(product.weight); rule != nullptr) return rule->cut;
    const int own = depth_.at(product.node);
    if (own == 2) return "out";
    if (own > 2) return "none";
    return product.out == model_.hidden && follows_cut(product.node) ? "in" : "none";
  }
  /// Whether what it reads hangs on a product that is cut by outputs.
  bool follows_cut(std::int32_t node) const {
    std::set<std::int32_t> met;
    std::vector<std::int32_t> open{node};
    while (!open.empty()) {
      const std::int32_t one = open.back();
      open.pop_back();
      for (const std::int32_t input : at(one).nodes) {
        if (!in_part_.contains(input) || !met.insert(input).second) continue;
        const auto product = product_at_.find(input);
        if (product == product_at_.end()) {
          open.push_back(input);
        } else if (cut_of(*product->second) == "out") {
          return true;
        }
      }
    }
    return false;
  }

  /// 0: outside of what is cut, 1: inside, 2: behind a product by inputs; in this order they run.
  void find_stages() {
    for (const std::int32_t i : part_.nodes) {
      int stage = 0;
      for (const std::int32_t input : at(i).nodes) {
        const auto made = stage_.find(input);
        if (made != stage_.end()) stage = std::max(stage, made->second);
      }
      if (const auto product = product_at_.find(i); product != product_at_.end()) {
        const std::string cut = cut_of(*product->second);
        if (cut == "out") stage = std::max(stage, 1);
        if (cut == "in") stage = 2;
      }
      stage_[i] = stage;
    }
  }

  double of_token(double elements) const { return elements / model_.tokens; }
  /// In elements of the stream's type.
  double of_token(const GraphTensor& tensor) const {
    return of_token(tensor.elements()) * tensor.bytes / at(part_.begins).out.bytes;
  }
  static std::string number(double value) { return fmt::format("{:.10g}", value); }

  static bool is_view(const ModelNode& node) {
    return node.is({"view",
                    "reshape",
                    "_unsafe_view",
                    "transpose",
                    "permute",
                    "t",
                    "unsqueeze",
                    "squeeze",
                    "expand",
                    "slice",
                    "select",
                    "split",
                    "split_with_sizes",
                    "chunk",
                    "getitem",
                    "unbind",
                    "alias",
                    "detach",
                    "unflatten",
                    "flatten",
                    "dropout",
                    "lift_fresh_copy",
                    "view_as",
                    "expand_as",
                    "narrow",
                    "movedim",
                    "view_as_real",
                    "view_as_complex",
                    "_assert_tensor_metadata",
                    "T",
                    "mT"});
  }
  /// Contiguous copies of what lies so already are none, and casts to the same type.
  bool moves_nothing(const ModelNode& node) const {
    if (is_view(node)) return true;
    if (!node.is({"contiguous", "clone", "to", "_to_copy", "type_as"}) || node.nodes.empty()) return false;
    const ModelNode& from = at(node.nodes[0]);
    if (node.is({"to", "_to_copy", "type_as"})) return from.out.bytes == node.out.bytes;
    std::int32_t one = node.nodes[0];
    while (is_view(at(one)) && !at(one).nodes.empty()) {
      if (at(one).is({"transpose", "permute", "expand", "slice", "split", "chunk", "T", "mT"})) return false;
      one = at(one).nodes[0];
    }
    return true;
  }
  static bool is_copy(const ModelNode& node) {
    return node.is({"contiguous", "clone", "cat", "stack", "repeat", "repeat_interleave", "index_select", "gather",
                    "roll", "constant_pad_nd", "pad", "index", "flip", "copy", "copy_"});
  }
  /// Whose gradient needs no input.
  static bool is_linear(const ModelNode& node) {
    return node.is({"add", "add_", "sub", "neg", "mean", "sum", "cumsum", "to", "_to_copy", "type_as", "masked_fill",
                    "where", "triu", "tril", "ones", "zeros", "full", "arange"}) ||
           (node.is({"mul", "mul_", "div"}) && node.nodes.size() + node.parameters.size() == 1);
  }

  void write_operators(PartForm& form) {
    find_depths();
    find_stages();
    // Products that mix positions with each other have no part of a rank's channels.
    const bool turned = std::any_of(products_.begin(), products_.end(), [&](const GraphProduct& product) {
      return product.in == model_.seq && std::abs(of_token(product.rows) - 1) > 1e-9;
    });
    if (!ruled() && (turned || !follow_each_other())) {
      whole_ = true;
      find_stages();
      form.remarks.push_back(fmt::format(
          "{}: its products do not follow each other by outputs and inputs; whole on every tensor rank, unless --cut "
          "says otherwise",
          part_.layer.empty() ? "a part without weights" : part_.layer));
    }
    std::vector<std::int32_t> order = part_.nodes;
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return stage_[a] < stage_[b]; });
    std::set<std::int32_t> written;
    for (const std::int32_t i : order) {
      const auto product = product_at_.find(i);
      if (product == product_at_.end())
        write_node(i, form);
      else
        write_products(*product->second, written, form);
    }
    form.lines.emplace_back("{op: residual}");
  }

  /// With it those that read the same and are cut alike, wherever they stand: one input serves them all.
  void write_products(const GraphProduct& first, std::set<std::int32_t>& written, PartForm& form) {
    const std::string cut = cut_of(first);
    const std::int32_t from = read_by(first);
    for (const GraphProduct& product : products_) {
      const bool beside = product.node != first.node;
      if (beside && (cut == "in" || from < 0 || product.in != first.in || product.rows != first.rows ||
                     read_by(product) != from || cut_of(product) != cut))
        continue;
      if (!written.insert(product.node).second) continue;
      std::string line = fmt::format("{{op: product, name: {}, in: {}, out: {}, cut: {}", name_of(product.weight),
                                     product.in, product.out, cut);
      if (beside) line += ", beside: true";
      const double share = of_token(product.rows);  // of positions mixed with each other, rows are channels
      if (std::abs(share - 1) > 1e-9) line += fmt::format(", share: {}", number(share));
      if (product.bias > 0) line += fmt::format(", weights: {}", number(product.bias));
      form.lines.push_back(line + "}");
    }
    if (from >= 0) kept_.insert(from);
  }
  /// Without the layer's prefix.
  std::string name_of(const std::string& weight) const {
    std::string name = weight.starts_with(part_.layer + ".") ? weight.substr(part_.layer.size() + 1) : weight;
    for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' ? c : '-';
    return name;
  }

  void write_node(std::int32_t i, PartForm& form) {
    const ModelNode& node = at(i);
    if (const auto norm = norm_at_.find(i); norm != norm_at_.end() && norm->second == model_.hidden && stage_[i] != 1) {
      form.lines.emplace_back("{op: norm}");
      return;
    }
    if (norm_nodes_.contains(i) && belongs_to_hidden_norm(i)) return;
    if (is_attention(node)) return write_attention(node, form);
    if (node.is({"matmul", "bmm", "baddbmm"}) && node.nodes.size() >= 2) return write_matmul(node, form);
    if (moves_nothing(node)) {
      if (!node.nodes.empty() && kept_.contains(node.nodes[0])) kept_.insert(i);
      return;
    }
    write_streaming(i, form);
  }
  /// Steps of a norm of the hidden state stand for themselves in its one line.
  bool belongs_to_hidden_norm(std::int32_t i) const {
    return at(i).out.last() == model_.hidden || at(i).out.last() == 1;
  }

  void write_attention(const ModelNode& node, PartForm& form) {
    const std::vector<std::int64_t>& q = at(node.nodes[0]).out.shape;
    if (q.size() != 4 || node.nodes.size() < 3)
      graph_.fail(node, "got attention over queries of another shape, expected [batch, heads, sequence, width]");
    const bool heads_first = q[2] == model_.seq;
    const auto heads_of = [&](std::int32_t input) { return heads_at(at(input).out.shape, heads_first); };
    const std::int64_t heads = heads_of(node.nodes[0]), keys = heads_of(node.nodes[1]);
    form.lines.push_back(fmt::format("{{op: attention, name: {}, heads: {}, kv_heads: {}, head_dim: {}}}", node.op,
                                     heads, keys > 0 && heads % keys == 0 ? keys : heads, q[3]));
  }
  static std::int64_t heads_at(const std::vector<std::int64_t>& shape, bool heads_first) {
    return shape.size() != 4 ? 1 : shape[heads_first ? 1 : 2];
  }

  void write_matmul(const ModelNode& node, PartForm& form) {
    const GraphTensor &a = at(node.nodes[0]).out, &b = at(node.nodes[1]).out;
    const double flops = 2 * node.out.elements() * static_cast<double>(a.last());
    const double keeps = keep(node.nodes[0]) + keep(node.nodes[1]);
    form.mixed += flops;
    form.lines.push_back(fmt::format("{{op: matmul, name: {}, flops: {}, reads: {}, writes: {}, keeps: {}}}", node.op,
                                     number(of_token(flops)), number(of_token(a) + of_token(b)),
                                     number(of_token(node.out)), number(keeps)));
  }

  /// Elements of a token that are kept from here on, if nothing kept them before.
  double keep(std::int32_t node) {
    const std::int32_t source = source_of(graph_, node);
    if (!in_part_.contains(source) && source != part_.begins) return 0;  // a mask, a table of angles
    if (kept_.contains(source) || kept_.contains(node)) return 0;
    kept_.insert(source);
    return of_token(at(source).out);
  }

  void write_streaming(std::int32_t i, PartForm& form) {
    const ModelNode& node = at(i);
    double reads = 0, keeps = 0, weights = 0;
    for (const std::int32_t input : std::set<std::int32_t>(node.nodes.begin(), node.nodes.end())) {
      reads += of_token(at(input).out);
      if (!is_linear(node) && !is_copy(node)) keeps += keep(input);
    }
    bool large = false;
    for (const std::string& weight : node.parameters) {
      const GraphTensor& tensor = graph_.parameters.at(weight);
      weights += tensor.elements();
      large = large || tensor.elements() > 1e6;
    }
    if (large)
      form.remarks.push_back(
          fmt::format("{} of {}: its products are not known; its bytes and weights are counted alone", node.op,
                      fmt::join(node.parameters, ", ")));
    const double writes = of_token(node.out);
    if (reads + writes == 0) return;
    std::string line = fmt::format("{{op: {}, name: {}, reads: {}, writes: {}", is_copy(node) ? "copy" : "elementwise",
                                   name_of(node.op), number(reads), number(writes));
    if (keeps > 0) line += fmt::format(", keeps: {}", number(keeps));
    if (node.is({"add", "add_", "sub", "arange", "ones", "zeros", "full"})) line += ", backward: 0";
    if (weights > 0) line += fmt::format(", weights: {}", number(weights));
    form.lines.push_back(line + "}");
  }

  const ModelGraph& graph_;
  const GraphModel& model_;
  const GraphPart& part_;
  const std::vector<CutRule>& rules_;
  std::vector<GraphProduct> products_;
  std::set<std::int32_t> in_part_, norm_nodes_, kept_;
  std::map<std::int32_t, const GraphProduct*> product_at_;
  std::map<std::int32_t, std::int64_t> norm_at_;  // width, by the last node of each
  std::map<std::int32_t, int> depth_, stage_;
  int hidden_norms_ = 0, head_norms_ = 0;
  std::int64_t head_width_ = 0;
  bool layer_norm_ = false;
  bool whole_ = false;  // no product is cut
  std::int32_t pre_norm_ = -1;
};

}  // namespace

PartForm form_of_part(const ModelGraph& graph, const GraphModel& model, const GraphPart& part,
                      const std::vector<CutRule>& rules) {
  return PartReader(graph, model, part, rules).read();
}

}  // namespace orrery::tools
