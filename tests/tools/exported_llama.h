// The graph of a Llama's forward pass, node by node as torch.export prints that of Hugging Face's modeling_llama.py
// (transformers 4.4x with scaled_dot_product_attention; names of nodes count up over the whole graph), in the form that
// tools/print_graph writes. Changes to it are what tests ask about.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace orrery::tests {

struct ExportedLlama {
  std::int64_t layers = 2, hidden = 256, heads = 4, kv_heads = 2, head_dim = 64, ffn = 512, vocab = 1024, seq = 128;
  bool tied = false, qk_norm = false, biases = false;
  std::string type = "bfloat16";
  /// In place of the up projection a chain of two: hidden -> low_rank -> ffn; 0: none.
  std::int64_t low_rank = 0;
  /// Layers that have, between attention and MLP, a short convolution with gates (as LFM2's): up to here.
  std::int64_t convolved = 0;

  /// In place of the MLP so many experts, of which a token goes to `top`, by grouped products (transformers 5, Qwen3
  /// MoE), and beside them a shared one of that width, with its gate; 0: none.
  std::int64_t experts = 0, top = 2, shared = 0;

  /// Experts one by one, each with weights and rows of its own (transformers 4, Mixtral).
  bool single_experts = false;

  /// Attention in operators of its own, as core ATen has it: scaled queries and keys, two products of a batch of
  /// matrices, a mask and a softmax between them.
  bool decomposed = false;

  /// Its layers alone: they read hidden states that the caller hands in, and no head is behind them.
  bool alone = false;

  std::string json() {
    parameters_.clear();
    nodes_.clear();
    count_.clear();
    const std::string table = alone ? "" : weight("model.embed_tokens.weight", {vocab, hidden});
    std::string stream = alone ? "hidden_states" : node("embedding", {table, "input_ids"}, {1, seq, hidden});
    const std::string angles = rotary_table();
    for (std::int64_t i = 0; i < layers; ++i) stream = layer(fmt::format("model.layers.{}", i), stream, angles, i);
    if (alone) return text();
    const std::string normed = norm("model.norm", stream, hidden, {1, seq, hidden});
    const std::string cut = node("slice", {normed}, {1, seq, hidden});
    if (tied) {
      node("linear", {cut, table}, {1, seq, vocab});
    } else {
      linear("lm_head", cut, hidden, vocab, {1, seq});
    }
    return text();
  }

 private:
  std::string text() const {
    return fmt::format("{{\"parameters\": {{{}}},\n\"nodes\": [\n{}\n]}}\n", fmt::join(parameters_, ",\n"),
                       fmt::join(nodes_, ",\n"));
  }

  using Shape = std::vector<std::int64_t>;

  std::string weight(const std::string& name, const Shape& shape) {
    parameters_.push_back(fmt::format(R"("{}": {{"shape": [{}], "dtype": "{}"}})", name, fmt::join(shape, ", "), type));
    return name;
  }
  std::string node(const std::string& op, const std::vector<std::string>& inputs, const Shape& shape,
                   const std::string& dtype = "", const std::string& overload = "default") {
    const int n = count_[op]++;
    const std::string name = n == 0 ? op : fmt::format("{}_{}", op, n);
    nodes_.push_back(
        fmt::format(R"({{"name": "{}", "target": "aten.{}.{}", "inputs": ["{}"], "shape": [{}], "dtype": "{}"}})", name,
                    op, overload, fmt::join(inputs, "\", \""), fmt::join(shape, ", "), dtype.empty() ? type : dtype));
    return name;
  }
  std::string linear(const std::string& module, const std::string& input, std::int64_t in, std::int64_t out, Shape rows,
                     bool bias = false) {
    rows.push_back(out);
    std::vector<std::string> inputs{input, weight(module + ".weight", {out, in})};
    if (bias) inputs.push_back(weight(module + ".bias", {out}));
    return node("linear", inputs, rows);
  }

  /// cos and sin of positions, once a model: nothing of it hangs on a hidden state.
  std::string rotary_table() {
    node("arange", {"input_ids"}, {seq}, "int64");
    const std::string positions = node("unsqueeze", {"arange"}, {1, 1, seq}, "int64");
    const std::string all =
        node("matmul", {"b_model_rotary_emb_inv_freq", positions}, {1, head_dim / 2, seq}, "float32");
    const std::string turned = node("transpose", {all}, {1, seq, head_dim / 2}, "float32");
    const std::string twice = node("cat", {turned, turned}, {1, seq, head_dim}, "float32");
    const std::string cos = node("cos", {twice}, {1, seq, head_dim}, "float32");
    return node("to", {cos}, {1, seq, head_dim});
  }

  std::string norm(const std::string& module, const std::string& x, std::int64_t width, const Shape& shape) {
    Shape row = shape;
    row.back() = 1;
    const std::string wide = node("to", {x}, shape, "float32");
    const std::string squares = node("pow", {wide}, shape, "float32");
    const std::string mean = node("mean", {squares}, row, "float32");
    const std::string sum = node("add", {mean}, row, "float32");
    const std::string root = node("rsqrt", {sum}, row, "float32");
    const std::string scaled = node("mul", {wide, root}, shape, "float32");
    const std::string back = node("to", {scaled}, shape);
    return node("mul", {weight(module + ".weight", {width}), back}, shape);
  }

  std::string rotated(const std::string& x, const std::string& angles, std::int64_t n) {
    const Shape shape{1, n, seq, head_dim}, half{1, n, seq, head_dim / 2};
    const std::string own = node("mul", {x, angles}, shape);
    const std::string first = node("slice", {x}, half), second = node("slice", {x}, half);
    const std::string turned = node("cat", {node("neg", {second}, half), first}, shape);
    return node("add", {own, node("mul", {turned, angles}, shape)}, shape);
  }

  std::string spelled(const std::string& q, const std::string& k, const std::string& v) {
    const Shape rows{1, heads, seq, head_dim}, columns{1, heads, head_dim, seq}, scores{1, heads, seq, seq};
    const auto batch = [&](const std::string& one, const Shape& shape) {
      return node("view", {node("expand", {one}, shape)}, {shape[1], shape[2], shape[3]});
    };
    const std::string queries = batch(node("mul", {q}, rows, "", "Scalar"), rows);
    const std::string keys = batch(node("mul", {node("permute", {k}, columns)}, columns, "", "Scalar"), columns);
    const std::string product = node("view", {node("bmm", {queries, keys}, {heads, seq, seq})}, scores);
    const std::string masked = node("add", {product, "mask"}, scores, "", "Tensor");
    const std::string shares = batch(node("_softmax", {masked}, scores), scores);
    return node("view", {node("bmm", {shares, batch(v, rows)}, {heads, seq, head_dim})}, rows);
  }

  std::string attention(const std::string& module, const std::string& x, const std::string& angles) {
    const auto part = [&](const char* name, std::int64_t n) {
      const std::string made = linear(module + name, x, hidden, n * head_dim, {1, seq}, biases);
      const std::string viewed = node("view", {made}, {1, seq, n, head_dim});
      const bool normed = qk_norm && std::string(name) != ".v_proj";
      const std::string own =
          normed ? norm(module + "." + name[1] + "_norm", viewed, head_dim, {1, seq, n, head_dim}) : viewed;
      return node("transpose", {own}, {1, n, seq, head_dim}, "", "int");
    };
    const std::string q = part(".q_proj", heads), k = part(".k_proj", kv_heads), v = part(".v_proj", kv_heads);
    const std::string around = node("unsqueeze", {angles}, {1, 1, seq, head_dim});
    const std::string turned_q = rotated(q, around, heads), turned_k = rotated(k, around, kv_heads);
    const auto repeated = [&](const std::string& one) {
      if (kv_heads == heads) return node("contiguous", {one}, {1, heads, seq, head_dim});
      const std::int64_t times = heads / kv_heads;
      const std::string wide = node("unsqueeze", {one}, {1, kv_heads, 1, seq, head_dim});
      const std::string all = node("expand", {wide}, {1, kv_heads, times, seq, head_dim});
      return node("reshape", {all}, {1, heads, seq, head_dim});
    };
    const std::string keys = repeated(turned_k), values = repeated(v);
    const std::string mixed =
        decomposed ? spelled(turned_q, keys, values)
                   : node("scaled_dot_product_attention", {turned_q, keys, values}, {1, heads, seq, head_dim});
    const std::string back = node("transpose", {mixed}, {1, seq, heads, head_dim}, "", "int");
    const std::string laid = node("contiguous", {back}, {1, seq, heads, head_dim});
    const std::string flat = node("reshape", {laid}, {1, seq, heads * head_dim});
    return linear(module + ".o_proj", flat, heads * head_dim, hidden, {1, seq});
  }

  std::string mlp(const std::string& module, const std::string& x) {
    const Shape rows{1, seq}, wide{1, seq, ffn};
    const std::string gate = node("silu", {linear(module + ".gate_proj", x, hidden, ffn, rows)}, wide);
    std::string up;
    if (low_rank > 0)
      up = linear(module + ".up_b", linear(module + ".up_a", x, hidden, low_rank, rows), low_rank, ffn, rows);
    else
      up = linear(module + ".up_proj", x, hidden, ffn, rows);
    return linear(module + ".down_proj", node("mul", {gate, up}, wide, "", "Tensor"), ffn, hidden, rows);
  }

  std::string one_by_one(const std::string& module, const std::string& x, const std::string& best) {
    const std::int64_t own = seq * top / experts;
    std::string sum = node("zeros_like", {x}, {seq, hidden});
    for (std::int64_t i = 0; i < experts; ++i) {
      const std::string expert = fmt::format("{}.experts.{}", module, i);
      const std::string sent = node("index", {x, best}, {own, hidden});
      const std::string gate = node("silu", {linear(expert + ".w1", sent, hidden, ffn, {own})}, {own, ffn});
      const std::string inner =
          node("mul", {gate, linear(expert + ".w3", sent, hidden, ffn, {own})}, {own, ffn}, "", "Tensor");
      const std::string made = linear(expert + ".w2", inner, ffn, hidden, {own});
      sum = node("index_add", {sum, node("mul", {made, best}, {own, hidden}, "", "Tensor")}, {seq, hidden});
    }
    return node("view", {sum}, {1, seq, hidden});
  }

  std::string mixture(const std::string& module, const std::string& x) {
    const Shape rows{1, seq}, scores{1, seq, experts}, chosen{1, seq, top}, wide{1, seq, hidden};
    const std::int64_t sent = seq * top;
    const std::string logits = linear(module + ".gate", x, hidden, experts, rows);
    const std::string best = node("topk", {node("softmax", {logits}, scores, "float32")}, chosen, "float32");
    if (single_experts) return one_by_one(module, x, best);
    const std::string sorted = node("index", {x, best}, {sent, hidden});
    const std::string up = weight(module + ".experts.gate_up_proj", {experts, 2 * ffn, hidden});
    const std::string both =
        node("_grouped_mm", {sorted, node("transpose", {up}, {experts, hidden, 2 * ffn})}, {sent, 2 * ffn});
    const std::string gate = node("silu", {node("slice", {both}, {sent, ffn})}, {sent, ffn});
    const std::string inner = node("mul", {gate, node("slice", {both}, {sent, ffn})}, {sent, ffn});
    const std::string down = weight(module + ".experts.down_proj", {experts, hidden, ffn});
    const std::string made =
        node("_grouped_mm", {inner, node("transpose", {down}, {experts, ffn, hidden})}, {sent, hidden});
    const std::string routed = node("index_add", {x, node("mul", {made, best}, {sent, hidden})}, wide);
    if (shared == 0) return routed;
    const Shape inside{1, seq, shared};
    const std::string own_gate =
        node("silu", {linear(module + ".shared_expert.gate_proj", x, hidden, shared, rows)}, inside);
    const std::string own_up = linear(module + ".shared_expert.up_proj", x, hidden, shared, rows);
    const std::string own =
        linear(module + ".shared_expert.down_proj", node("mul", {own_gate, own_up}, inside), shared, hidden, rows);
    const std::string open = node("sigmoid", {linear(module + ".shared_expert_gate", x, hidden, 1, rows)}, {1, seq, 1});
    return node("add", {routed, node("mul", {open, own}, wide)}, wide, "", "Tensor");
  }

  /// Gates and input from one product, a convolution of three positions, its gate, and a product back.
  std::string convolution(const std::string& module, const std::string& x) {
    const Shape wide{1, seq, hidden}, along{1, hidden, seq};
    const std::string all = linear(module + ".in_proj", x, hidden, 3 * hidden, {1, seq});
    const std::string b = node("slice", {all}, wide), c = node("slice", {all}, wide), own = node("slice", {all}, wide);
    const std::string gated = node("transpose", {node("mul", {b, own}, wide)}, along);
    const std::string mixed = node("conv1d", {gated, weight(module + ".conv.weight", {hidden, 1, 3})}, along);
    const std::string back = node("mul", {c, node("transpose", {mixed}, wide)}, wide);
    return linear(module + ".out_proj", back, hidden, hidden, {1, seq});
  }

  std::string layer(const std::string& module, std::string stream, const std::string& angles, std::int64_t number) {
    const Shape shape{1, seq, hidden};
    const auto add = [&](const std::string& to, const std::string& what) {
      return node("add", {to, what}, shape, "", "Tensor");
    };
    const std::string first = norm(module + ".input_layernorm", stream, hidden, shape);
    stream = add(stream, attention(module + ".self_attn", first, angles));
    if (number < convolved)
      stream = add(stream, convolution(module + ".conv", norm(module + ".conv_norm", stream, hidden, shape)));
    const std::string second = norm(module + ".post_attention_layernorm", stream, hidden, shape);
    return add(stream, experts > 0 ? mixture(module + ".mlp", second) : mlp(module + ".mlp", second));
  }

  std::vector<std::string> parameters_, nodes_;
  std::map<std::string, int> count_;
};

}  // namespace orrery::tests
