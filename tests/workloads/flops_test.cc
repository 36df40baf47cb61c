// Do parameter and FLOP counts match the closed forms of the contract (Narayanan et al., arXiv 2104.04473, equations 2
// and 3)?
#include "tests/catch.h"
#include "workloads/model/causal_flops.h"
#include "workloads/step/step.h"

using namespace orrery::workloads;

namespace {
Model gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocab, std::int64_t seq) {
  Model m;
  m.layers = layers;
  m.hidden = hidden;
  m.attention.heads = m.attention.kv_heads = heads;
  m.mlp.hidden = 4 * hidden;
  m.vocab = vocab;
  m.seq = seq;
  return m;
}
}  // namespace

TEST_CASE("parameters are 12 l h^2 (1 + 13/12h + (V+s)/12lh)") {
  for (const Model& m : {gpt(96, 12288, 96, 51200, 2048), gpt(32, 4096, 32, 50257, 2048), gpt(2, 64, 4, 1000, 128)}) {
    const double l = static_cast<double>(m.layers), h = static_cast<double>(m.hidden), v = static_cast<double>(m.vocab),
                 s = static_cast<double>(m.seq);
    CHECK(parameter_count(m) == Approx(12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h))).epsilon(1e-12));
  }
}

TEST_CASE(
    "model FLOPs are 72 B s l h^2 (1 + s/6h + V/12lh); full recompute makes 96 B s l h^2 (1 + s/6h + V/16lh) of them") {
  for (const Model& m : {gpt(96, 12288, 96, 51200, 2048), gpt(24, 2304, 24, 51200, 2048)}) {
    const double l = static_cast<double>(m.layers), h = static_cast<double>(m.hidden), v = static_cast<double>(m.vocab),
                 s = static_cast<double>(m.seq);
    CHECK(model_flops(m, 512) ==
          Approx(72 * 512 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))).epsilon(1e-12));
    CHECK(hardware_flops(m, 512, Recompute::full) ==
          Approx(96 * 512 * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))).epsilon(1e-12));
    CHECK(hardware_flops(m, 512, Recompute::none) == model_flops(m, 512));
    // Selective recompute repeats the two attention products: 4 s^2 h of forward per layer and sequence.
    CHECK(hardware_flops(m, 512, Recompute::selective) - model_flops(m, 512) ==
          Approx(512 * l * 4 * s * s * h).epsilon(1e-9));
  }
}

TEST_CASE("a causal kernel does half of the square: 72 B s l h^2 (1 + s/12h + V/12lh)") {
  for (const Model& m : {gpt(96, 12288, 96, 51200, 2048), gpt(24, 2304, 24, 51200, 8192)}) {
    const double l = static_cast<double>(m.layers), h = static_cast<double>(m.hidden), v = static_cast<double>(m.vocab),
                 s = static_cast<double>(m.seq);
    CHECK(causal_model_flops(m, 512) ==
          Approx(72 * 512 * s * l * h * h * (1 + s / (12 * h) + v / (12 * l * h))).epsilon(1e-12));
  }
}

TEST_CASE("of a window a causal kernel does what its queries see") {
  Model m = gpt(10, 1024, 16, 32000, 4096);
  m.attention.window = 1024;
  // Query i sees min(i, 1024) keys: a triangle of 1024 x 1024 / 2, then 3072 rows of 1024. Counted are 4096 x 1024.
  const double seen = 1024.0 * 1024 / 2 + 3072.0 * 1024, counted = 4096.0 * 1024;
  CHECK(model_flops(m, 2) - causal_model_flops(m, 2) == Approx(3 * 2 * 10 * 4.0 * 1024 * (counted - seen)));
}

TEST_CASE("of chunks the squares count, and a causal kernel does half of each") {
  Model m = gpt(10, 1024, 16, 32000, 4096);
  const double base = model_flops(m, 2), causal = causal_model_flops(m, 2);
  m.attention.chunked = true;
  const auto pairs = [&](std::int64_t chunk, double counted) {
    m.attention.window = chunk;
    // Scores and values, 2 h FLOPs a pair each; forward and backward are three passes; two sequences, ten layers.
    const double flops = 3 * 2 * 10 * 4.0 * 1024;
    CHECK(base - model_flops(m, 2) == Approx(flops * (4096.0 * 4096 - counted)));
    CHECK(causal - causal_model_flops(m, 2) == Approx(flops * (4096.0 * 4096 - counted) / 2));
  };
  pairs(1024, 4 * 1024.0 * 1024);
  pairs(1000, 4 * 1000.0 * 1000 + 96.0 * 96);  // what is left over is a chunk too
  // As long as the sequence, or longer: whole, to the bit.
  for (const std::int64_t chunk : {4096, 8192}) {
    m.attention.window = chunk;
    CHECK(model_flops(m, 2) == base);
    CHECK(causal_model_flops(m, 2) == causal);
  }
  // Of four layers in turn the last sees all: of ten two.
  m.attention.window = 1024;
  m.attention.window_every = 4;
  CHECK(base - model_flops(m, 2) == Approx(3 * 2 * 8 * 4.0 * 1024 * (4096.0 * 4096 - 4 * 1024.0 * 1024)));
}

TEST_CASE("a window, grouped queries and a gated MLP change the FLOPs by what they cut or add") {
  Model m = gpt(10, 1024, 16, 32000, 4096);
  const double base = model_flops(m, 1);
  m.attention.window = 1024;
  CHECK(base - model_flops(m, 1) == Approx(3 * 10 * 4.0 * 4096 * (4096 - 1024) * 1024));
  m.attention.window = 0;
  m.attention.kv_heads = 4;
  CHECK(base - model_flops(m, 1) == Approx(3 * 10 * 2.0 * 4096 * 1024 * 2 * (1024 - 256)));
  m.attention.kv_heads = 16;
  m.mlp.gated = true;
  CHECK(model_flops(m, 1) - base == Approx(3 * 10 * 2.0 * 4096 * 1024 * 4096));
}
