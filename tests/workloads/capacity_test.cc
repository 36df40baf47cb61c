// What does a router do where experts have room for so many tokens only? Expectations are derived from sizes.
#include <string_view>
#include <variant>

#include "tests/catch.h"
#include "workloads/model/families/families.h"

using namespace orrery::workloads;

TEST_CASE("experts with a capacity choose among all tokens, and weights of those that go are taken out") {
  Model model;
  model.layers = 2;
  model.hidden = 1024;
  model.attention.heads = model.attention.kv_heads = 8;
  model.mlp = {2048, true, Activation::swiglu};
  model.vocab = 2560;
  model.seq = 512;
  model.experts = {.count = 8, .top_k = 2, .ffn_hidden = 512};
  const auto moved = [&](double capacity, std::string_view name) {
    Computation computation;
    computation.experts.router_fp32 = computation.experts.fused_router = true;
    computation.experts.capacity_factor = capacity;
    double sum = 0;
    const Network network = moe(model, Split{}, computation);
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream != nullptr && name == stream->name) sum += stream->elements * stream->bytes_each;
    }
    return sum;
  };
  const double scores = 512 * 8;
  CHECK(moved(1, "tokens that experts keep") == scores * 4);
  // Weights in fp32 are read and written beside a byte of the map, there and back.
  CHECK(moved(1, "kept weights") == scores * (4 + 1 + 4));
  CHECK(moved(1, "kept weights backward") == scores * (4 + 1 + 4));
  for (const char* name : {"tokens that experts keep", "map of kept tokens", "kept weights", "kept weights backward"})
    CHECK(moved(0, name) == 0);
}
