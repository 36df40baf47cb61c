// Do layers say what their papers say, and do the folds over them derive what was meant? Expectations are written from
// the papers' figures, on a block whose sizes tell its tensors apart.
#include <algorithm>
#include <memory>
#include <sstream>

#include "tests/calibration/support.h"
#include "tests/catch.h"
#include "workloads/model/families/families.h"
#include "workloads/model/kept.h"
#include "workloads/model/passes.h"
#include "workloads/model/products.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// Hidden 1024 in 8 heads of 128, 2 with keys and values, 4096 inside the MLP, 512 positions; two tensor ranks.
Model small() {
  Model m;
  m.layers = 3;
  m.hidden = 1024;
  m.attention.heads = 8;
  m.attention.kv_heads = 2;
  m.mlp.hidden = 4096;
  m.vocab = 2560;
  m.seq = 512;
  return m;
}

Split two_ranks(bool sequence_parallel) {
  Split split;
  split.tensor = 2;
  split.sequence_parallel = sequence_parallel;
  return split;
}

/// Names of the streaming kernels left out: what a block computes and exchanges.
std::string skeleton(const Layer& layer) {
  std::string names;
  std::istringstream lines(text(layer));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  * ")) names += line.substr(4) + "\n";
  }
  return names;
}

/// "G" a product, "A" attention, "s" anything bound by memory; exchanges by their operation, pieces apart.
std::string outline(const Pieces& pieces) {
  std::string out;
  for (const Piece& piece : pieces) {
    if (piece.is_comm()) out += std::string(calibration::name_of(piece.op));
    bool streams = false;
    for (const Kernel& kernel : piece.kernels) {
      const bool attention = kernel.name.starts_with("attention ") && kernel.flops > 0 && !kernel.matmul;
      const bool stream = kernel.flops == 0;
      if (!stream) out += attention ? "A" : "G";
      if (stream && !streams) out += "s";
      streams = stream;
    }
    out += " ";
  }
  return out;
}

std::shared_ptr<const calibration::Recipe> recipe(calibration::RecipePart part, const char* variant) {
  return scenarios::recipe_book().read(part, sim::Settings::scalar(variant, {"test", 1, 1}));
}

/// As frameworks compute that say nothing.
Computation usual() {
  Computation computation;
  for (std::size_t i = 0; i < calibration::kRecipeParts; ++i)
    computation.style.recipes.set(scenarios::recipe_book().usual(static_cast<calibration::RecipePart>(i)));
  return computation;
}

calibration::DeviceProfile a100() { return calibration_test::profile("a100-sxm-80gb"); }

}  // namespace

TEST_CASE("the adjoint of an exchange is its own inverse, and turns gathers into reductions") {
  for (const Exchange e : {Exchange::copy, Exchange::all_gather, Exchange::reduce_scatter, Exchange::all_reduce})
    CHECK(adjoint(adjoint(e)) == e);
  // Megatron-LM (arXiv 1909.08053, figure 3): f copies forward and adds up backward, g the other way round; with
  // sequence parallelism (arXiv 2205.05198, figure 5) they gather and scatter.
  CHECK(adjoint(Exchange::copy) == Exchange::all_reduce);
  CHECK(adjoint(Exchange::all_gather) == Exchange::reduce_scatter);
}

TEST_CASE("a block is two column-parallel and two row-parallel layers around attention, split over the tensor group") {
  // q, k and v of 4 + 2 x 1 heads of 128 on a rank; 2048 of the MLP's 4096.
  CHECK(skeleton(gpt(small(), two_ranks(true), {}).layer(1)) ==
        "all_gather of the input, tensor: 524288\n"
        "qkv: [768, 1024] on [512, 1024], bf16\n"
        "fused attention: 1 x 512 positions, 4 heads over 1 of 128\n"
        "attention projection: [1024, 512] on [512, 512], bf16\n"
        "reduce_scatter, tensor: 524288\n"
        "all_gather of the input, tensor: 524288\n"
        "mlp up: [2048, 1024] on [512, 1024], bf16\n"
        "mlp down: [1024, 2048] on [512, 2048], bf16\n"
        "reduce_scatter, tensor: 524288\n");
  CHECK(skeleton(gpt(small(), {}, {}).layer(1)) ==
        "qkv: [1536, 1024] on [512, 1024], bf16\n"
        "fused attention: 1 x 512 positions, 8 heads over 2 of 128\n"
        "attention projection: [1024, 1024] on [512, 1024], bf16\n"
        "mlp up: [4096, 1024] on [512, 1024], bf16\n"
        "mlp down: [1024, 4096] on [512, 4096], bf16\n");
}

TEST_CASE("layers of a window and of all keys in turn: of every so many the last sees everything") {
  Model m = small();
  m.layers = 5;
  m.attention.window = 128;
  m.attention.window_every = 2;
  const Network network = gpt(m, {}, {});
  std::string seen;
  for (std::int64_t i = 1; i <= m.layers; ++i)
    seen += skeleton(network.layer(i)).find("window 128") != std::string::npos ? 'w' : 'f';
  CHECK(seen == "wfwfw");
  CHECK(network.layer(m.layers + 1).kind == LayerKind::head);
  m.attention.window_every = 6;  // as Gemma 3, whose depth six need not divide
  const Network sparse = gpt(m, {}, {});
  for (std::int64_t i = 1; i <= m.layers; ++i) CHECK(&sparse.layer(i) == &sparse.layer(1));
  m.attention.window = 512;  // as long as the sequence: no window
  CHECK(gpt(m, {}, {}).kinds.size() == 3);
}

TEST_CASE("a chunk is no window: layers say which of the two they have") {
  Model m = small();
  m.attention.window = 128;
  m.attention.chunked = true;
  CHECK(skeleton(gpt(m, {}, {}).layer(1)).find(", chunks of 128") != std::string::npos);
  m.attention.chunked = false;
  CHECK(skeleton(gpt(m, {}, {}).layer(1)).find(", window 128") != std::string::npos);
}

TEST_CASE("norms of queries and keys: a kernel for each and direction, their inputs kept, weights of a head") {
  Model m = small();
  Computation c;
  const Layer plain = gpt(m, two_ranks(false), c).layer(1);
  m.attention.qk_norm = true;
  m.norm = Norm::rms_norm;
  const Layer normed = gpt(m, two_ranks(false), c).layer(1);
  const auto bytes_of_streams = [](const Layer& layer, const char* name) {
    double bytes = 0;
    for (const LayerOp& op : layer.ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream != nullptr && std::string(stream->name) == name) bytes += stream->elements * stream->bytes_each;
    }
    return bytes;
  };
  // 512 positions; on a rank 4 heads of queries and 1 of keys, of 128: read and written; backward also their gradient.
  CHECK(bytes_of_streams(normed, "query norm") == 512 * 4 * 128 * (2 + 2));
  CHECK(bytes_of_streams(normed, "key norm") == 512 * 128 * (2 + 2));
  CHECK(bytes_of_streams(normed, "query norm backward") == 512 * 4 * 128 * (2 + 2 + 2));
  CHECK(bytes_of_streams(plain, "query norm") == 0);
  double kept = 0, weights = 0;
  for (const Kept& k : normed.kept) kept += k.bytes();
  for (const Kept& k : plain.kept) kept -= k.bytes();
  CHECK(kept == 512 * (4 + 1) * 128 * 2);
  weights = parameters(normed);
  m.attention.qk_norm = false;
  CHECK(weights - parameters(gpt(m, two_ranks(false), c).layer(1)) == 2 * 128);
}

TEST_CASE(
    "casts of scaled types: twice the operand with its scales, after a look at the tensor where it has a scale too") {
  const auto cast_bytes = [](DataType type, bool fused, bool apart = false) {
    Computation c;
    c.precision.matmul = type;
    if (apart) c.style.rotated_columns = calibration::RotatedColumns::apart;
    c.style.casts = fused ? calibration::Casts::fused : calibration::Casts::apart;
    double each = 0;
    const Network network = gpt(small(), {}, c);
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream != nullptr && std::string(stream->name) == "cast activation") each += stream->bytes_each;
    }
    return each;
  };
  CHECK(cast_bytes(DataType::bf16, false) == 0);
  CHECK(cast_bytes(DataType::fp8, false) == 2 + 1 + 1);
  CHECK(cast_bytes(DataType::mxfp8, false) == 2 + 2 * (1 + 1.0 / 32));
  CHECK(cast_bytes(DataType::fp8_blockwise, false) == 2 + 2 * (1 + 4.0 / 128));
  CHECK(cast_bytes(DataType::nvfp4, false) == 2 + 2 + 2 * (0.5 + 1.0 / 16));
  // What makes a tensor can cast it, but not by scales of rows and of columns, nor by a scale of the whole of it.
  CHECK(cast_bytes(DataType::fp8, true) == 0);
  CHECK(cast_bytes(DataType::mxfp8, true) == cast_bytes(DataType::mxfp8, false));
  CHECK(cast_bytes(DataType::nvfp4, true) == cast_bytes(DataType::nvfp4, false));
  // Columns that are rotated by a kernel of their own are read once more, and those alone.
  CHECK(cast_bytes(DataType::nvfp4, false, true) == 3 * 2 + 2 * (0.5 + 1.0 / 16));
  CHECK(cast_bytes(DataType::mxfp8, false, true) == cast_bytes(DataType::mxfp8, false));
}

TEST_CASE(
    "ahead of experts the stream is cast for dense products that read it, its gradient for those that add to it") {
  const auto casts = [](std::int64_t shared, std::int64_t latent) {
    Model m = small();
    m.mlp = {2048, true, Activation::swiglu};
    m.experts = {.count = 8, .top_k = 2, .ffn_hidden = 512};
    m.experts.shared = shared;
    m.experts.shared_ffn_hidden = 512;
    m.experts.latent = latent;
    Computation c;
    c.precision.matmul = DataType::mxfp8;
    c.style.recipes.set(recipe(calibration::RecipePart::activation, "fused"));
    std::pair<double, double> elements;  // forward and backward, of what no router deals out
    bool experts = false;                // behind attention's half
    const Network network = moe(m, Split{}, c);
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* linear = std::get_if<LinearOp>(&op);
      experts = experts || (linear != nullptr && linear->part == LinearOp::Part::attention_out);
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (!experts || stream == nullptr || stream->routed || !std::string_view(stream->name).starts_with("cast "))
        continue;
      (stream->direction == Direction::forward ? elements.first : elements.second) += stream->elements;
    }
    return elements;
  };
  const double tokens = 512, stream = tokens * 1024, inside = tokens * 512, narrow = tokens * 256;
  // Of attention's half one gradient is left, that of the stream; experts cast what comes to them.
  CHECK(casts(0, 0).first == 0);
  CHECK(casts(0, 0).second == stream);
  // A shared expert reads the stream, its activation, and gradients of both halves of its gate and of its output.
  CHECK(casts(1, 0).first == stream + inside);
  CHECK(casts(1, 0).second == stream + 2 * inside + stream);
  // One product down to a latent width, one up: two inputs and two gradients.
  CHECK(casts(0, 256).first == stream + narrow);
  CHECK(casts(0, 256).second == stream + narrow + stream);
}

TEST_CASE("a backward pass is the forward pass from its end: two products for one, adjoints for exchanges") {
  const calibration::DeviceProfile device = a100();
  const auto outlines = [&](bool sequence_parallel, bool splits) {
    const Layer block = gpt(small(), two_ranks(sequence_parallel), usual()).layer(1);
    return passes_of(block, {device}, splits);
  };
  // Without sequence parallelism: one all-reduce after each half, forward behind the row-parallel product, backward
  // behind the gradient of the column-parallel layer's input and in front of that of its weights.
  const LayerPasses plain = outlines(false, true);
  CHECK(outline(plain.forward) == "sGsAG all_reduce sGsG all_reduce s ");
  CHECK(outline(plain.backward) == "sGGsG all_reduce G sGGAsG all_reduce G s ");
  CHECK(outline(plain.weight_gradient) == "GGGG ");
  // With it every exchange is half of one, and inputs of which a shard was kept are gathered once more.
  const LayerPasses cut = outlines(true, false);
  CHECK(outline(cut.forward) == "s all_gather GsAG reduce_scatter s all_gather GsG reduce_scatter s ");
  CHECK(outline(cut.backward) ==
        "s all_gather GGs all_gather G reduce_scatter G s all_gather GGAs all_gather G reduce_scatter G s ");
  CHECK(cut.input_gradient.empty());
}

TEST_CASE("a layer that is recomputed runs its forward pass again ahead of its backward pass, and keeps its input") {
  const calibration::DeviceProfile device = a100();
  Computation full;
  full.recompute = Recompute::full;
  const Layer once = gpt(small(), two_ranks(false), {}).layer(1), again = gpt(small(), two_ranks(false), full).layer(1);
  const LayerPasses plain = passes_of(once, {device}, false), recomputed = passes_of(again, {device}, false);
  double forward = 0, backward = 0, both = 0;
  const auto flops = [](const Pieces& pieces) {
    double sum = 0;
    for (const Piece& piece : pieces) {
      for (const Kernel& kernel : piece.kernels) sum += kernel.flops;
    }
    return sum;
  };
  forward = flops(plain.forward);
  backward = flops(plain.backward);
  both = flops(recomputed.backward);
  CHECK(both == forward + backward);
  CHECK(bytes_of(again).kept == 2.0 * 512 * 1024);  // 16-bit hidden states
}

TEST_CASE("a chunk frees what later layers kept before earlier ones work") {
  const Network network = gpt(small(), {}, {});
  const PassBytes block = bytes_of(network.layer(1)), head = bytes_of(network.layer(4));
  CHECK(bytes_of(network, {1, 2}).working == block.working);
  CHECK(bytes_of(network, {1, 4}).kept == 3 * block.kept);
  CHECK(bytes_of(network, {1, 4}).working == block.working);  // of the last; the first works when two are freed
  CHECK(bytes_of(network, {3, 5}).working == std::max(head.working, block.working - head.kept));
}

TEST_CASE("of an activation in steps the last kernel writes what the next product reads, cast where kernels cast") {
  const auto bytes = [](bool gated, DataType type, const std::string& name) {
    Model m = small();
    m.mlp.gated = gated;
    m.mlp.activation = gated ? Activation::swiglu : Activation::gelu;
    Computation c;
    c.precision.matmul = type;
    c.style.casts = calibration::Casts::fused;
    c.style.recipes.set(recipe(calibration::RecipePart::activation, "in_steps"));
    double each = 0;
    const Network network = gpt(m, {}, c);
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream != nullptr && stream->name == name && stream->direction == Direction::forward)
        each = stream->bytes_each;
    }
    return each;
  };
  // The gate's product reads two halves of 16 bits and writes one, and the operand of a byte beside it.
  CHECK(bytes(true, DataType::bf16, "gate") == 3 * 2);
  CHECK(bytes(true, DataType::fp8, "gate") == 3 * 2 + 1);
}

TEST_CASE("of a ReLU the output alone is kept, unless the next product keeps it cast or it is made again") {
  const auto kept = [](Activation activation, const Computation& c) {
    Model m = small();
    m.mlp.activation = activation;
    return bytes_of(gpt(m, {}, c).layer(1)).kept;
  };
  Computation plain, cast, again;
  cast.precision.matmul = DataType::fp8;
  again.recompute = Recompute::selective;
  again.recomputed.core_attention = false;
  again.recomputed.activation = true;
  const double inside = 512.0 * 4096;  // elements between the MLP's products
  CHECK(kept(Activation::gelu, plain) - kept(Activation::relu, plain) == 2 * inside);
  CHECK(kept(Activation::gelu, cast) == kept(Activation::relu, cast));
  CHECK(kept(Activation::gelu, again) == kept(Activation::relu, again));
}

TEST_CASE("Megatron's softmax kernel takes 16-bit scores alone; fp32 ones are masked and normalised, and not cast") {
  const auto bytes = [](DataType type, const std::string& name) {
    Computation c;
    c.attention = AttentionKind::unfused;
    c.attention_style.fused_softmax_matrices = 4;
    c.precision.activations = c.precision.matmul = type;
    const calibration::DeviceProfile device = calibration_test::profile("a100-sxm-80gb");
    double sum = 0;
    for (const Piece& piece : passes_of(gpt(small(), {}, c).layer(1), {device}, false).forward)
      for (const Kernel& kernel : piece.kernels) sum += kernel.name == name ? kernel.bytes : 0;
    return sum;
  };
  const double scores = 8.0 * 512 * 512;  // heads and a square of positions
  CHECK(bytes(DataType::bf16, "softmax") == 2 * 2 * scores);
  CHECK(bytes(DataType::bf16, "mask scores") == 0);
  CHECK(bytes(DataType::fp32, "softmax") == 8 * scores);
  CHECK(bytes(DataType::fp32, "mask scores") == 8 * scores);
  CHECK(bytes(DataType::fp32, "scores to fp32") == 0);
}

TEST_CASE(
    "small kernels of a layer are dealt out over its halves, both ways; biases of gated MLPs are of both halves") {
  const auto ops = [](bool gated, const std::string& name, Direction direction) {
    Model m = small();
    m.mlp.gated = gated;
    m.mlp.activation = gated ? Activation::swiglu : Activation::gelu;
    Computation c;
    c.style.extra_kernels_per_layer = 8;
    c.style.linear.bias_in_gemm = false;
    c.style.recipes.set(recipe(calibration::RecipePart::activation, "bias_apart"));
    std::vector<StreamingOp> found;
    const Network network = gpt(m, {}, c);
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream != nullptr && stream->name == name && stream->direction == direction) found.push_back(*stream);
    }
    return found;
  };
  CHECK(ops(false, "view", Direction::forward).size() == 8);
  CHECK(ops(false, "view", Direction::backward).size() == 8);
  for (const bool gated : {false, true}) {  // 512 tokens, 4096 wide
    const double elements = (gated ? 2 : 1) * 512.0 * 4096;
    const std::vector<StreamingOp> biases = ops(gated, "add bias", Direction::forward);
    CHECK(std::count_if(biases.begin(), biases.end(), [&](const auto& op) { return op.elements == elements; }) == 1);
  }
}

TEST_CASE("a norm behind attention and MLP is one kernel, its parameters and its input more for each") {
  Model post = small();
  post.post_norm = true;
  const Layer before = gpt(small(), {}, usual()).layer(1), after = gpt(post, {}, usual()).layer(1);
  CHECK(parameters(after) - parameters(before) == 2 * 2 * 1024);              // scale and shift
  CHECK(bytes_of(after).kept - bytes_of(before).kept == 2 * 2 * 512 * 1024);  // two 16-bit hidden states
  const calibration::DeviceProfile device = a100();
  const auto named = [&](const Layer& layer, const char* name) {
    int count = 0;
    const LayerPasses passes = passes_of(layer, {device}, false);
    for (const Pieces* pieces : {&passes.forward, &passes.backward}) {
      for (const Piece& piece : *pieces) {
        for (const Kernel& kernel : piece.kernels) count += kernel.name == name;
      }
    }
    return count;
  };
  CHECK(named(after, "post layer norm") == 2);
  CHECK(named(after, "post layer norm backward") == 2);
  CHECK(named(before, "post layer norm") == 0);
  // Nothing but the norms in front reads the residual stream.
  CHECK(named(after, "add residual gradient") == named(before, "add residual gradient"));
}

TEST_CASE("products of a split network are those of the whole, cut along one side") {
  const auto of = [](std::int64_t tensor) { return measured_kernels(small(), tensor); };
  const auto whole = of(1), half = of(2);
  REQUIRE(whole.products.size() == 5);  // qkv, projection, up, down, head
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& w = whole.products[i];
    const auto& h = half.products[i];
    CHECK(2 * h.out * h.in == w.out * w.in);
  }
  CHECK(half.heads == 4);
  CHECK(half.kv_heads == 1);
}
