// Operators of a graph, one mapping a line:
//   run:
//   - {op: norm}
//   - {op: product, in: 4096, out: 14336, cut: out}
//   - {op: product, in: 4096, out: 14336, cut: out, beside: true}
//   - {op: elementwise, reads: 28672, writes: 14336, keeps: 28672}
//   - {op: product, in: 14336, out: 4096, cut: in}
//   - {op: residual}
// Sizes are elements of a token; `share` says of which share of a sequence's tokens, where a block has streams of its
// own weights for images and text, or something once a sequence. What a product by outputs opens one by inputs closes,
// before the stream of hidden states goes on: norms, sums and whole products stand outside.
#include "scenarios/load_operators.h"

#include <algorithm>
#include <string_view>

#include "scenarios/load.h"
#include "workloads/model/carried.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::Model;
using workloads::Operator;
using workloads::Operators;
using Cut = Operator::Cut;
using Kind = Operator::Kind;

namespace {

constexpr std::size_t kMostOperators = 4096;  // of a block
constexpr std::int64_t kWidest = 10'000'000;
constexpr double kMostOfToken = 1e12;

const std::vector<std::string> kKinds{"norm", "product", "attention", "matmul", "elementwise", "copy", "residual"};
const std::vector<std::string> kCuts{"none", "out", "in", "sum"};

const std::vector<std::string>& keys_of_operator(Kind kind) {
  static const std::vector<std::string> none{}, norm{"shared"},
      product{"name", "in", "out", "cut", "beside", "weights", "share", "shared"},
      attention{"name", "heads", "kv_heads", "head_dim", "causal"},
      matmul{"name", "flops", "reads", "writes", "keeps", "share"},
      streaming{"name", "reads", "writes", "backward", "keeps", "weights", "cut", "share", "shared", "ahead"};
  if (kind == Kind::norm) return norm;
  if (kind == Kind::product) return product;
  if (kind == Kind::attention) return attention;
  if (kind == Kind::matmul) return matmul;
  return kind == Kind::elementwise || kind == Kind::copy ? streaming : none;
}

double of_token(const Settings& line, const char* key, double fallback) {
  const Settings* value = given(&line, key);
  return value == nullptr ? fallback : value->as_number(0, kMostOfToken);
}

Cut read_cut(const Settings& line, const std::vector<std::string>& known) {
  const Settings* cut = given(&line, "cut");
  const std::string word = cut == nullptr ? "none" : cut->as_choice(known);
  return static_cast<Cut>(std::find(kCuts.begin(), kCuts.end(), word) - kCuts.begin());
}

void read_product(const Settings& line, Operator& op) {
  op.in = required(line, "in").as_int(1, kWidest);
  op.out = required(line, "out").as_int(1, kWidest);
  op.cut = read_cut(line, kCuts);
  op.beside = boolean(&line, "beside", false);
}

void read_attention(const Settings& line, Operator& op) {
  op.heads = required(line, "heads").as_int(1, 1'000'000);
  const Settings* keys = given(&line, "kv_heads");
  op.kv_heads = keys == nullptr ? op.heads : keys->as_int(1, 1'000'000);
  op.head_dim = required(line, "head_dim").as_int(1, 65536);
  op.causal = boolean(&line, "causal", true);
  if (op.heads % op.kv_heads != 0)
    line.fail(fmt::format("got {} heads over {} of keys, expected a multiple", op.heads, op.kv_heads));
}

Operator read_operator(const Settings& line) {
  if (!line.is_mapping()) line.expected("an operator as {op: product, in: 4096, out: 4096}");
  Operator op;
  const std::string kind = required(line, "op").as_choice(kKinds);
  op.kind = static_cast<Kind>(std::find(kKinds.begin(), kKinds.end(), kind) - kKinds.begin());
  const std::vector<std::string>& known = keys_of_operator(op.kind);
  for (const auto& [key, value] : line.members()) {
    if (key == "op" || std::find(known.begin(), known.end(), key) != known.end()) continue;
    value.fail(fmt::format("got a key that {} has not, expected {}", kind,
                           known.empty() ? "none" : fmt::format("one of {}", fmt::join(known, ", "))));
  }
  if (op.kind == Kind::product) read_product(line, op);
  if (op.kind == Kind::attention) read_attention(line, op);
  if (op.kind == Kind::elementwise || op.kind == Kind::copy) op.cut = read_cut(line, {"none", "out"});
  op.reads = of_token(line, "reads", 0);
  op.writes = of_token(line, "writes", 0);
  op.keeps = of_token(line, "keeps", 0);
  op.weights = of_token(line, "weights", 0);
  op.flops = of_token(line, "flops", 0);
  if (const Settings* share = given(&line, "share"); share != nullptr) op.share = share->as_number(1e-9, 1e6);
  op.shared = boolean(&line, "shared", false);
  op.ahead = of_token(line, "ahead", 0);
  if (op.ahead > op.reads)
    line.fail(fmt::format("got {:g} elements of a layer ahead of {:g} that it reads", op.ahead, op.reads));
  // The output's gradient, what was kept, and a gradient of all that was read.
  op.backward = of_token(line, "backward", op.writes + op.keeps + op.reads);
  const bool streams = op.kind == Kind::elementwise || op.kind == Kind::copy || op.kind == Kind::matmul;
  if (streams && op.reads + op.writes == 0) line.fail("holds neither reads nor writes, elements of a token");
  if (op.kind == Kind::matmul && op.flops == 0) line.fail("holds no flops, of a token");
  return op;
}

/// Where in a block an operator stands.
struct BlockPlace {
  bool opened = false;  // a product by outputs stands ahead, behind the last norm or sum
  bool inside = false;  // and none by inputs behind it
};

void check_place(const Settings& line, const Operator& op, const Operator* ahead, const BlockPlace& place,
                 std::int64_t hidden) {
  const bool stream = op.kind == Kind::norm || op.kind == Kind::residual;
  if (stream && place.inside)
    line.fail(
        "got a norm or a sum onto the residual stream behind a product with cut: out, expected one with cut: in "
        "between");
  if (op.kind != Kind::product) return;
  const bool alike = ahead != nullptr && ahead->kind == Kind::product && ahead->cut == op.cut && ahead->in == op.in &&
                     ahead->share == op.share;
  if (op.beside && (!alike || op.cut == Cut::in || op.cut == Cut::sum))
    line.fail("got beside: true, expected a product of the same in, share and cut, none or out, ahead of it");
  if (op.cut == Cut::in && (!place.opened || op.out != hidden))
    line.fail(
        fmt::format("got cut: in, expected it behind a product with cut: out, and out: {}, the hidden size", hidden));
  if (op.cut == Cut::sum && !place.inside)
    line.fail("got cut: sum, expected it behind a product with cut: out and ahead of one with cut: in");
  if (op.cut == Cut::none && place.inside) line.fail("got a whole product behind one with cut: out, expected cut: in");
}

BlockPlace behind(const Operator& op, BlockPlace place) {
  if (op.kind == Kind::norm || op.kind == Kind::residual) return {};
  if (op.kind != Kind::product) return place;
  return {place.opened || op.cut == Cut::out, op.cut == Cut::out || op.cut == Cut::sum};
}

}  // namespace

Operators load_operators(const Settings& section, const Model& model) {
  const Settings& run = required(section, "run");
  if (!run.is_sequence() || run.items().empty() || run.items().size() > kMostOperators)
    run.fail(fmt::format("expected a list of 1 to {} operators", kMostOperators));
  if (model.parallel_block)
    run.fail("got operators of a model with parallel_block, expected none: norms and sums are operators of their own");
  if (model.biases == workloads::Biases::all && model.norm == workloads::Norm::rms_norm)
    run.fail("got operators of a model with biases: all and rms_norm, expected biases: none or qkv");
  Operators operators;
  bool adds = false;
  BlockPlace place;
  for (const Settings& line : run.items()) {
    const Operator op = read_operator(line);
    check_place(line, op, operators.run.empty() ? nullptr : &operators.run.back(), place, model.hidden);
    place = behind(op, place);
    adds = adds || op.kind == Kind::residual;
    operators.run.push_back(op);
  }
  if (place.inside) run.fail("ends behind a product with cut: out, expected one with cut: in");
  if (!adds) run.fail("holds no {op: residual}, the sum onto the stream of hidden states");
  return operators;
}

namespace {

/// Weights of a layer ahead need one that holds them, on the same stage.
void check_shared(const Settings& document, const Model& model, const workloads::Parallelism& layout) {
  std::vector<Operator> held;
  const auto holds = [&](const Operator& op) {
    return std::any_of(held.begin(), held.end(), [&](const Operator& one) {
      return one.kind == op.kind && one.in == op.in && one.out == op.out && one.weights == op.weights;
    });
  };
  for (const Model::Block& block : model.pattern.kinds) {  // in the order in which they first come
    for (const Operators* operators : {&block.operators, &block.behind}) {
      for (const Operator& op : operators->run) {
        if (!op.shared) {
          if (!holds(op)) held.push_back(op);
          continue;
        }
        if (!holds(op))
          fail_at(document, "model.mixers",
                  fmt::format("got an operator with shared: true ({} to {}), expected a block ahead with the same "
                              "operator that holds its weights",
                              op.in, op.out));
        if (layout.pipeline > 1)
          fail_at(document, "parallelism.pipeline",
                  fmt::format("got {} with operators whose weights are those of a layer ahead, expected 1: stages "
                              "would each hold a copy and add up its gradients",
                              layout.pipeline));
      }
    }
  }
}

/// What operators read of a layer ahead has to be made there.
void check_ahead(const Settings& document, const Model& model) {
  if (!workloads::carries(model)) return;
  for (std::int64_t reader = 0; reader < model.layers; ++reader) {
    const bool keys = model.pattern.at(reader).attention.shares_keys;
    for (const workloads::CarriedRead& read : workloads::carried_reads(model, reader))
      if (read.maker < 0 && !keys)
        fail_at(document, "model.mixers",
                fmt::format("got ahead: {:g} in block {}, expected a block ahead that makes so many elements of a "
                            "token",
                            read.elements, reader + 1));
  }
}

}  // namespace

void check_operators(const Settings& document, const Model& model, const workloads::Parallelism& layout,
                     const workloads::Method& method) {
  check_shared(document, model, layout);
  check_ahead(document, model);
  for (const Model::Block& block : model.pattern.kinds) {
    if (!block.operators.any() && !block.behind.any()) continue;
    if (layout.context > 1)
      fail_at(document, "parallelism.context",
              fmt::format("got {} with a mixer that is operators of a graph, expected 1", layout.context));
    if (method.adapters.any())
      fail_at(document, "finetune", "got adapters beside a mixer that is operators of a graph, expected none");
    if (layout.tensor == 1) continue;
    bool inside = false;
    std::vector<Operator> all = block.operators.run;
    all.insert(all.end(), block.behind.run.begin(), block.behind.run.end());
    for (const Operator& op : all) {
      if (op.kind == Kind::product) inside = op.cut == Cut::out || op.cut == Cut::sum;
      if ((op.kind == Kind::attention || op.kind == Kind::matmul) && !inside)
        fail_at(document, "parallelism.tensor",
                fmt::format("got {} with an operator over positions behind whole products, expected 1, or cut: out on "
                            "the products ahead of it",
                            layout.tensor));
    }
  }
}

}  // namespace orrery::scenarios
