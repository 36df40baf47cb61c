// See load_low_rank.h. Every linear layer of a block becomes two, from n to r elements and from r to m (FinGPT-HPC,
// arXiv 2402.13533, section III; Khodak et al., arXiv 2105.01029): queries, keys and values share one pair, both up
// projections of a gated MLP too. Blocks run by their operators, as the two products stand in the code: nothing is
// fused.
//
// Over tensor ranks the first pair's second product is cut by outputs, and what it feeds ends in a pair of which both
// are cut by inputs: the first one's sums, r elements a token, are whole on every rank. The paper trains on a pipeline.
//
// Left out: factors that are quantised, the decomposition of a model that was trained before.
#include "scenarios/load_low_rank.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "scenarios/load.h"

namespace orrery::scenarios {

using workloads::Model;
using workloads::Operator;
using Kind = Operator::Kind;
using Cut = Operator::Cut;

namespace {

Operator narrow(std::int64_t in, std::int64_t out, Cut cut, double biases = 0) {
  Operator op;
  op.kind = Kind::product;
  op.in = in;
  op.out = out;
  op.cut = cut;
  op.weights = biases;
  return op;
}

Operator of_kind(Kind kind) {
  Operator op;
  op.kind = kind;
  return op;
}

/// A kernel that reads and writes so many elements of a token, and keeps what it read where `keeps`.
Operator streaming(double reads, double writes, bool keeps) {
  Operator op = of_kind(Kind::elementwise);
  op.reads = reads;
  op.writes = writes;
  op.keeps = keeps ? reads : 0;
  op.backward = op.writes + op.keeps + op.reads;
  return op;
}

workloads::Operators block_of(const Model& model, std::int64_t rank) {
  const std::int64_t h = model.hidden, q = model.attention_width(), kv = model.kv_width(), f = model.mlp.hidden;
  const auto wide = [](std::int64_t elements) { return static_cast<double>(elements); };
  const bool all = model.biases == workloads::Biases::all, some = model.biases != workloads::Biases::none;
  Operator core = of_kind(Kind::attention);
  core.heads = model.attention.heads;
  core.kv_heads = model.attention.kv_heads;
  core.head_dim = model.head_dim();
  const std::int64_t up = model.mlp.gated ? 2 * f : f;
  std::vector<Operator> run{of_kind(Kind::norm), narrow(h, rank, Cut::none),
                            narrow(rank, q + 2 * kv, Cut::out, some ? wide(q + 2 * kv) : 0)};
  if (model.positions == workloads::Positions::rotary) run.push_back(streaming(wide(q + kv), wide(q + kv), false));
  run.push_back(core);
  for (Operator op : {narrow(q, rank, Cut::sum), narrow(rank, h, Cut::in, all ? wide(h) : 0), of_kind(Kind::residual),
                      of_kind(Kind::norm), narrow(h, rank, Cut::none), narrow(rank, up, Cut::out, all ? wide(up) : 0),
                      streaming(wide(up), wide(f), true), narrow(f, rank, Cut::sum),
                      narrow(rank, h, Cut::in, all ? wide(h) : 0), of_kind(Kind::residual)})
    run.push_back(std::move(op));
  return {run};
}

}  // namespace

void load_low_rank(const sim::Settings& section, workloads::Job& job) {
  const sim::Settings* rank = given(&section, "low_rank");
  if (rank == nullptr) return;
  Model& model = job.model;
  const Model::Attention& a = model.attention;
  const bool usual = !model.pattern.any() && !model.experts.any() && !model.recommender.any() && !model.encoder.any() &&
                     !model.parallel_block && !model.post_norm && !a.latent.any() && !a.qk_norm && a.window == 0 &&
                     a.value_width == 0 && model.positions != workloads::Positions::alibi;
  if (!usual)
    rank->fail("got low_rank of a model with parts of its own, expected one of attention to all keys and MLPs alike");
  if (model.biases == workloads::Biases::all && model.norm == workloads::Norm::rms_norm)
    rank->fail("got low_rank of a model with biases: all and rms_norm, expected biases: none or qkv");
  Model::Block block;
  block.operators = block_of(model, rank->as_int(1, 10'000'000));
  model.pattern.kinds = {std::move(block)};
  model.pattern.blocks.assign(static_cast<std::size_t>(model.layers), 0);
  job.assumptions.push_back(
      fmt::format("model.low_rank: every linear layer of a block is two of rank {}, and runs as two products: nothing "
                  "is fused.",
                  rank->as_int()));
}

}  // namespace orrery::scenarios
