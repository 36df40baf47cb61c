// Who casts what products in fp8 read, and what does that move? Expectations are counted from operands' bytes: a cast
// reads 16 bits and writes 8 by rows and by columns.
#include <map>
#include <string>
#include <variant>

#include "scenarios/library.h"
#include "tests/catch.h"
#include "workloads/model/families/families.h"

using namespace orrery::workloads;
using orrery::calibration::Casts;
using orrery::calibration::DataType;

namespace {

Model small_gpt() {
  Model model;
  model.layers = 3;
  model.hidden = 1024;
  model.attention.heads = model.attention.kv_heads = 8;
  model.mlp = {4096, true, Activation::swiglu};
  model.vocab = 2560;
  model.seq = 512;
  return model;
}

Computation cast_by(Casts casts, DataType type = DataType::fp8) {
  Computation computation;
  for (std::size_t i = 0; i < orrery::calibration::kRecipeParts; ++i)
    computation.style.recipes.set(
        orrery::scenarios::recipe_book().usual(static_cast<orrery::calibration::RecipePart>(i)));
  computation.style.casts = casts;
  computation.precision.matmul = type;
  return computation;
}

/// Bytes that the kernels of a name move in a block, over the elements of its hidden states.
std::map<std::string, double> cast_traffic(const Layer& block, double hidden) {
  std::map<std::string, double> bytes;
  for (const LayerOp& op : block.ops) {
    if (const auto* stream = std::get_if<StreamingOp>(&op))
      bytes[stream->name] += stream->elements * stream->bytes_each / hidden;
  }
  return bytes;
}

std::map<std::string, double> cast_traffic(Casts casts, DataType type = DataType::fp8) {
  return cast_traffic(gpt(small_gpt(), {}, cast_by(casts, type)).layer(1), 512 * 1024);
}

}  // namespace

TEST_CASE("norms cast what they make, activations of Transformer Engine's MLP too, and nothing else does") {
  auto apart = cast_traffic(Casts::apart), norms = cast_traffic(Casts::by_norms),
       both = cast_traffic(Casts::by_norms_and_activations), all = cast_traffic(Casts::fused);
  // Two norms read and write 16 bit. Casting, they write 8 in their place, which is read and written once more by
  // columns.
  CHECK(apart["layer norm"] == 2 * (2 + 2));
  CHECK(norms["layer norm"] == 2 * (2 + 1 + 1 + 1));
  CHECK(apart["cast input"] == 2 * (2 + 1 + 1));
  CHECK(norms["cast input"] == 0);
  // Of four times the hidden size inside the MLP.
  CHECK(norms["swiglu"] == apart["swiglu"]);
  CHECK(both["swiglu"] - apart["swiglu"] == 4);
  CHECK(norms["cast activation"] == 4 * (2 + 1 + 1));
  CHECK(both["cast activation"] == 0);
  CHECK(both["cast attention output"] == 2 + 1 + 1);
  // Gradients: of queries, keys and values, of the outputs of both halves, and of both branches of the activation.
  CHECK(both["cast gradient"] == (3 + 2) * (2 + 1 + 1));
  CHECK(norms["cast gradient"] == (3 + 2 + 2 * 4) * (2 + 1 + 1));
  for (const char* name : {"cast input", "cast attention output", "cast activation", "cast gradient"})
    CHECK(all[name] == 0);
}

TEST_CASE("a scale of the whole tensor is looked for by norms, and by a pass of its own in what else is cast") {
  auto found = cast_traffic(Casts::scaled_by_makers);
  CHECK(found["layer norm"] == 2 * (2 + 2));
  CHECK(found["cast input"] == 2 * (2 + 1 + 1));
  CHECK(found["cast attention output"] == 2 + 2 + 1 + 1);
  CHECK(found["cast activation"] == 4 * (2 + 2 + 1 + 1));
}

TEST_CASE("products that read an operand by columns in place need no copy of it") {
  Computation computation = cast_by(Casts::by_norms);
  computation.style.linear.column_cast_traffic = 0;
  const auto bytes = [&] { return cast_traffic(gpt(small_gpt(), {}, computation).layer(1), 512 * 1024); };
  CHECK(bytes()["layer norm"] == 2 * (2 + 1));
  CHECK(bytes()["cast attention output"] == 2 + 1);
  computation.style.casts = Casts::scaled_by_makers;
  CHECK(bytes()["cast input"] == 2 * (2 + 1));
  CHECK(bytes()["cast attention output"] == 2 + 2 + 1);
}

TEST_CASE("products of frozen weights, which have no gradients, read no operand by columns") {
  Computation computation = cast_by(Casts::by_norms);
  computation.adapters.rank = 16;
  auto bytes = cast_traffic(gpt(small_gpt(), {}, computation).layer(1), 512 * 1024);
  CHECK(bytes["layer norm"] == 2 * (2 + 1));
  CHECK(bytes["cast attention output"] == 2 + 1);
}

TEST_CASE("scales of blocks are no norm's to know") {
  const double operand = 1 + 4.0 / 128;
  auto blocks = cast_traffic(Casts::by_norms, DataType::fp8_blockwise);
  CHECK(blocks["layer norm"] == 2 * (2 + 2));
  CHECK(blocks["cast input"] == 2 * (2 + 2 * operand));
}

TEST_CASE("what a norm cast travels so, and is read by columns when it is whole") {
  Split split;
  split.tensor = 2;
  split.sequence_parallel = true;
  Computation computation = cast_by(Casts::by_norms);
  computation.style.linear.gathers_quantised = true;
  auto bytes = cast_traffic(gpt(small_gpt(), split, computation).layer(1), 512 * 1024);
  // A rank's half: 16 bits read, 8 written; both halves are read and written by columns.
  CHECK(bytes["layer norm"] == 2 * (2 + 1) / 2.0);
  CHECK(bytes["transpose gathered input"] == 2 * (1 + 1));
  CHECK(bytes["transpose gathered gradient"] == 2 * (1 + 1));
}

TEST_CASE("a norm ahead of experts writes 16 bit, which their router reads") {
  Model model = small_gpt();
  model.experts = {.count = 8, .top_k = 2, .ffn_hidden = 512};
  auto bytes = cast_traffic(moe(model, {}, cast_by(Casts::by_norms)).layer(1), 512 * 1024);
  CHECK(bytes["layer norm"] == (2 + 1 + 1 + 1) + (2 + 2));
}
