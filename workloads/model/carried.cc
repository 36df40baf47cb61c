// See carried.h. Keys are those of the last layer ahead that makes any and sees as far (transformers, models/gemma4,
// Gemma4TextAttention: kv_shared_layer_index; microsoft/Phi-4-mini-flash-reasoning, modeling_phi4flash.py). What
// operators read is what the last block ahead makes of which a line writes as many elements.
#include "workloads/model/carried.h"

#include <algorithm>

#include "sim/real.h"

namespace orrery::workloads {

namespace {

using sim::real;

const Model::Block& block_at(const Model& model, std::int64_t at) {
  return model.pattern.kinds[model.pattern.blocks[static_cast<std::size_t>(at)]];
}

bool reads_ahead(const Operator& op) { return op.ahead > 0; }

bool makes(const Operators& operators, double elements) {
  return std::none_of(operators.run.begin(), operators.run.end(), reads_ahead) &&
         std::any_of(operators.run.begin(), operators.run.end(), [&](const Operator& op) {
           return op.kind == Operator::Kind::product ? real(op.out) == elements : op.writes == elements;
         });
}

bool makes_keys_of(const Model::Block& maker, const Model::Attention& reader) {
  const Model::Attention& own = maker.attention;
  return maker.attends && !own.shares_keys && own.window == reader.window && own.chunked == reader.chunked;
}

template <class Makes>
std::int64_t last_ahead(const Model& model, std::int64_t reader, Makes&& made) {
  std::int64_t at = reader - 1;
  while (at >= 0 && !made(block_at(model, at))) --at;
  return at;
}

}  // namespace

std::vector<CarriedRead> carried_reads(const Model& model, std::int64_t reader) {
  std::vector<CarriedRead> reads;
  const Model::Block& block = block_at(model, reader);
  if (block.attends && block.attention.shares_keys) {
    Model seen = model;
    seen.attention = block.attention;
    reads.push_back(
        {last_ahead(model, reader, [&](const Model::Block& one) { return makes_keys_of(one, block.attention); }),
         reader, real(seen.kv_width() + seen.values_width())});
  }
  for (const Operators* operators : {&block.operators, &block.behind}) {
    for (const Operator& op : operators->run) {
      if (!reads_ahead(op)) continue;
      const std::int64_t maker = last_ahead(model, reader, [&](const Model::Block& one) {
        return makes(one.operators, op.ahead) || makes(one.behind, op.ahead);
      });
      reads.push_back({maker, reader, op.ahead});
    }
  }
  return reads;
}

bool carries(const Model& model) {
  const std::vector<Model::Block>& kinds = model.pattern.kinds;
  const auto ahead = [](const Operators& operators) {
    return std::any_of(operators.run.begin(), operators.run.end(), reads_ahead);
  };
  return std::any_of(kinds.begin(), kinds.end(), [&](const Model::Block& block) {
    return (block.attends && block.attention.shares_keys) || ahead(block.operators) || ahead(block.behind);
  });
}

double carried_into(const Model& model, std::int64_t block) {
  double sum = 0;
  std::vector<std::int64_t> makers;
  for (std::int64_t reader = block; reader < model.layers; ++reader) {
    for (const CarriedRead& read : carried_reads(model, reader)) {
      if (read.maker < 0 || read.maker >= block) continue;
      if (std::find(makers.begin(), makers.end(), read.maker) != makers.end()) continue;
      makers.push_back(read.maker);
      sum += read.elements;
    }
  }
  return sum;
}

}  // namespace orrery::workloads
