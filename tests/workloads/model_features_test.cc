// Do head width, positions, norms and biases count where they must, and nowhere else? Expectations are the sums of the
// matrices' sizes.
#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "tests/workloads/layers.h"
#include "workloads/model/causal_flops.h"
#include "workloads/model/families/families.h"
#include "workloads/step/step.h"
#include "workloads/traffic/closed_form_parameters.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// A Llama-like model on one rank; 1024 = 8 heads of 128, 2 of them with keys and values.
Job llama(const std::vector<std::string>& sets = {}) {
  std::vector<std::string> all{"model.hidden=1024",           "model.heads=8",        "model.kv_heads=2",
                               "model.ffn_hidden=2816",       "model.vocab=1280",     "model.gated_mlp=true",
                               "model.positions=rotary",      "model.norm=rms_norm",  "model.biases=none",
                               "model.tied_embeddings=false", "parallelism.tensor=1", "parallelism.data=null"};
  all.insert(all.end(), sets.begin(), sets.end());
  return tests::small_job(all);
}

std::size_t kernels_named(const Pieces& pieces, std::string_view name) {
  std::size_t count = 0;
  for (const Piece& piece : pieces) {
    for (const Kernel& kernel : piece.kernels) count += kernel.name == name ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("parameters of a Llama layer are its matrices and two norms") {
  const double h = 1024, kv = 2 * 128, f = 2816, l = 8, v = 1280;
  const double layer = h * h + 2 * h * kv + h * h + 3 * h * f + 2 * h;
  CHECK(parameter_count(llama().model) == l * layer + 2 * v * h);
  // Biases of q, k and v; of every linear layer; the shift of the norms; one row per position.
  CHECK(parameter_count(llama({"model.biases=qkv"}).model) - parameter_count(llama().model) == l * (h + 2 * kv));
  CHECK(parameter_count(llama({"model.biases=all"}).model) - parameter_count(llama().model) ==
        l * (h + 2 * kv + h + 2 * f + h));
  CHECK(parameter_count(llama({"model.norm=layer_norm"}).model) - parameter_count(llama().model) == l * 2 * h);
  CHECK(parameter_count(llama({"model.positions=learned"}).model) - parameter_count(llama().model) == 1024 * h);
  CHECK(parameter_count(llama({"model.positions=none"}).model) == parameter_count(llama().model));
  // Heads twice as wide double queries, keys, values and the projection.
  CHECK(parameter_count(llama({"model.head_dim=256"}).model) - parameter_count(llama().model) ==
        l * (2 * h * h + 2 * h * kv));
}

TEST_CASE("chunks take the time of as many sequences of their length, and of none where the sequence is no longer") {
  const auto seconds = [](std::vector<std::string> sets) {
    sets.insert(sets.end(), {"attention=flash", "batch.global=32"});
    return simulate_step(llama(sets)).iteration;
  };
  const sim::Duration whole = seconds({"model.seq=4096", "batch.micro=1"});
  const auto chunks = [&](const std::string& length) {
    return seconds(
        {"model.seq=4096", "batch.micro=1", "model.attention_window=" + length, "model.attention_window_kind=chunked"});
  };
  // Four sequences of 1024 in a micro-batch have the same tokens, and a kernel cannot tell whose they are.
  CHECK(chunks("1024") == simulate_step(llama({"model.seq=1024", "batch.micro=4", "batch.global=128"})).iteration);
  CHECK(chunks("4096") == whole);
  CHECK(chunks("8192") == whole);  // as a model's own chunk may be, of a shorter sequence
  // Half of the pairs that a window of that length leaves, and two kernels a layer for a rest.
  CHECK(chunks("1024") < seconds({"model.seq=4096", "batch.micro=1", "model.attention_window=1024"}));
  CHECK(chunks("3000") < whole);
  CHECK(chunks("3000") > chunks("1024"));
}

TEST_CASE("context ranks that exchange heads attend to chunks, and rings are refused") {
  const std::vector<std::string> sets{"model.seq=4096", "model.attention_window=1024",
                                      "model.attention_window_kind=chunked", "parallelism.context=2"};
  std::vector<std::string> heads = sets;
  heads.emplace_back("parallelism.context_method=all_to_all");
  std::vector<std::string> all{"model.seq=4096", "parallelism.context=2", "parallelism.context_method=all_to_all"};
  CHECK(simulate_step(llama(heads)).iteration < simulate_step(llama(all)).iteration);
  try {
    llama(sets);
    FAIL("takes a ring");
  } catch (const sim::UserError& error) {
    CHECK(std::string(error.what()).find("expected 1 or context_method: all_to_all") != std::string::npos);
  }
}

TEST_CASE("documents that a sequence is packed with attend to themselves alone, under any split of the sequence") {
  const std::vector<std::string> packed{"model.seq=4096", "batch.micro=1", "batch.global=32", "attention=flash"};
  const std::vector<std::string> apart{"model.seq=1024", "batch.micro=4", "batch.global=128", "attention=flash"};
  const auto with = [](std::vector<std::string> sets, std::initializer_list<const char*> more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return simulate_step(llama(sets));
  };
  // The same kernels and messages as of four sequences of 1024 in a micro-batch.
  for (const char* method : {"ring", "all_gather", "all_to_all"}) {
    INFO(method);
    const std::string by = std::string("parallelism.context_method=") + method;
    const auto split = [&](std::vector<std::string> sets, std::initializer_list<const char*> more) {
      sets.insert(sets.end(), {"parallelism.context=2", by});
      return with(sets, more);
    };
    const StepReport documents = split(packed, {"batch.document_tokens=1024"});
    const StepReport sequences = split(apart, {});
    CHECK(documents.iteration == sequences.iteration);
    CHECK(documents.rates.model_tflops_per_gpu == Approx(sequences.rates.model_tflops_per_gpu));
    CHECK(documents.iteration < split(packed, {}).iteration);
  }
  const StepReport documents = with(packed, {"batch.document_tokens=1024"});
  CHECK(documents.iteration == with(apart, {}).iteration);
  Model four = llama(packed).model;
  four.attention.document = 1024;
  CHECK(causal_model_flops(four, 32) == Approx(causal_model_flops(llama(apart).model, 128)));
  // One document is a sequence; a model's chunks and windows stay where they are shorter.
  CHECK(with(packed, {"batch.document_tokens=4096"}).iteration == with(packed, {}).iteration);
  const auto chunked = [&](const char* length, const char* document) {
    return with(packed, {"model.attention_window_kind=chunked", length, document}).iteration;
  };
  CHECK(chunked("model.attention_window=512", "batch.document_tokens=2048") ==
        with(packed, {"batch.document_tokens=512"}).iteration);
  CHECK(chunked("model.attention_window=2048", "batch.document_tokens=512") ==
        with(packed, {"batch.document_tokens=512"}).iteration);
  CHECK(with(packed, {"model.attention_window=128", "batch.document_tokens=512"}).iteration ==
        with(packed, {"model.attention_window=128"}).iteration);
  CHECK(with(packed, {"model.attention_window=1024", "batch.document_tokens=512"}).iteration ==
        with(packed, {"batch.document_tokens=512"}).iteration);
}

TEST_CASE("tensor ranks that are more than the heads of keys gather what their products make, and share heads") {
  const std::vector<std::string> sets{"model.kv_heads=2", "software=megatron-core-0.16", "parallelism.tensor=4",
                                      "parallelism.data=null", "batch.global=32"};
  const auto job = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = sets;
    all.insert(all.end(), more.begin(), more.end());
    return llama(all);
  };
  // Weights are shared out as ever; the product makes half a head of keys, attention has a whole one.
  const Job shared = job({});
  const Network network = gpt(shared.model, split_of(shared), {});
  const Layer& block = network.layer(1);
  std::int64_t out = 0, heads = 0, keys = 0;
  for (const LayerOp& op : block.ops) {
    if (const auto* linear = std::get_if<LinearOp>(&op); linear != nullptr && out == 0)
      out = linear->products.front().out;
    if (const auto* attention = std::get_if<AttentionOp>(&op)) {
      heads = attention->heads;
      keys = attention->kv_heads;
    }
  }
  CHECK(out == (shared.model.attention_width() + 2 * shared.model.kv_width()) / 4);
  CHECK(heads == shared.model.attention.heads / 4);
  CHECK(keys == 1);
  using Sets = std::vector<std::string>;
  const std::vector<Sets> ways{Sets{}, Sets{"recompute=full"}, Sets{"recompute={kind: selective, modules: [qkv]}"},
                               Sets{"parallelism.sequence_parallel=false"},
                               Sets{"model.seq=4096", "parallelism.context=2"}};
  for (const Sets& more : ways) {
    std::size_t gathers = 0;
    for (const TrafficRow& row : simulate_step(job(more)).traffic) {
      CHECK(row.closed_form_bytes == Approx(row.simulated_bytes));
      gathers += std::string(row.what).find("queries, keys and values") == 0 ? 1 : 0;
    }
    CHECK(gathers >= 1);
  }
  // As many ranks as heads gather nothing.
  for (const TrafficRow& row : simulate_step(job({"parallelism.tensor=2"})).traffic)
    CHECK(std::string(row.what).find("queries, keys") == std::string::npos);
  for (const char* refused : {"software=megatron-core-0.14", "software=nanotron-2025", "model.parallel_block=true",
                              "finetune={kind: lora, rank: 8}", "model.kv_heads=1"}) {
    INFO(refused);
    const bool one = std::string(refused) == "model.kv_heads=1";  // all four share it
    try {
      job({refused});
      CHECK(one);
    } catch (const sim::UserError& error) {
      CHECK_FALSE(one);
      CHECK(std::string(error.what()).find("a divisor of model.kv_heads, which is 2, got 4") != std::string::npos);
    }
  }
}

TEST_CASE("what the ranks hold adds up to the model, whatever its features") {
  for (const char* biases : {"all", "qkv", "none"}) {
    for (const char* norm : {"layer_norm", "rms_norm"}) {
      for (const char* positions : {"learned", "rotary"}) {
        const Job job = llama({std::string("model.biases=") + biases, std::string("model.norm=") + norm,
                               std::string("model.positions=") + positions, "model.head_dim=64"});
        const ShardParameters shard = tests::shard_parameters(job);
        // The closed form of the contract leaves out the final norm.
        const double final_norm = static_cast<double>(job.model.norm_parameters());
        CHECK(8 * shard.layer + shard.embedding + shard.head - final_norm == parameter_count(job.model));
        // The same of the layers' own lists.
        const Network network = network_of(job);
        CHECK(parameters(network.layer(0)) == shard.embedding);
        CHECK(parameters(network.layer(1)) == shard.layer);
        CHECK(parameters(network.layer(network.size() - 1)) == shard.head);
      }
    }
  }
}

TEST_CASE("wider heads cost attention and its projections, and the memory of queries and output") {
  const Model base = llama().model, wide = llama({"model.head_dim=256"}).model;
  const double s = 1024, h = 1024, a = 1024, kv = 256, l = 8;
  // Forward: twice the multiplications of the added columns; QK^T and PV over the added width; backward twice that.
  CHECK(model_flops(wide, 1) - model_flops(base, 1) ==
        Approx(3 * l * (2 * s * (2 * h * a + 2 * h * kv) + 4 * s * s * a)));
  const PassBytes before = tests::block_bytes(llama()), after = tests::block_bytes(llama({"model.head_dim=256"}));
  CHECK(after.kept - before.kept == 2 * s * (2 * a + 2 * kv));  // q, output, k, v in two bytes
}

TEST_CASE("a head width that is hidden / heads changes nothing") {
  const StepReport base = simulate_step(llama()), same = simulate_step(llama({"model.head_dim=128"}));
  CHECK(base.iteration == same.iteration);
  CHECK(base.memory.peak_bytes == same.memory.peak_bytes);
}

TEST_CASE("rotary positions run one kernel a layer and direction, biases their gradients") {
  const tests::Layers shape{3, false, false};
  const LayerPasses rotary = tests::passes_over(llama(), shape),
                    none = tests::passes_over(llama({"model.positions=none"}), shape);
  CHECK(kernels_named(rotary.forward, "rotate queries and keys") == 3);
  CHECK(kernels_named(rotary.backward, "rotate query and key gradients") == 3);
  CHECK(kernels_named(none.forward, "rotate queries and keys") == 0);
  CHECK(kernels_named(rotary.backward, "bias gradient") == 0);
  const LayerPasses biased = tests::passes_over(llama({"model.biases=all"}), shape);
  CHECK(kernels_named(biased.backward, "bias gradient") == 9);  // of the projection and both layers of the MLP
  CHECK(kernels_named(biased.backward, "qkv bias gradient") == 3);
  CHECK(kernels_named(tests::passes_over(llama({"model.biases=qkv"}), shape).forward, "add qkv bias") == 3);
}

TEST_CASE("kernels beside the products move what they read and write, to the byte") {
  // 1024 tokens in 16 bit; 8 + 2 heads of 128 are turned.
  const tests::Layers shape{1, false, false};
  const auto bytes = [&](const std::vector<std::string>& sets, const char* name, bool forward) {
    const LayerPasses passes = tests::passes_over(llama(sets), shape);
    double sum = 0;
    for (const Piece& piece : forward ? passes.forward : passes.backward) {
      for (const Kernel& kernel : piece.kernels) sum += kernel.name == name ? kernel.bytes : 0;
    }
    return sum;
  };
  const double turned = 1024.0 * (8 + 2) * 128;
  const std::vector<std::string> in_steps{"software.recipe.rotary=in_steps"};
  CHECK(bytes(in_steps, "queries and keys to fp32", true) == turned * (2 + 4));
  CHECK(bytes(in_steps, "rotate in fp32", true) == turned * (4 + 4));
  CHECK(bytes(in_steps, "gradients to fp32", false) == turned * (2 + 4));
  CHECK(bytes(in_steps, "rotate gradients in fp32", false) == turned * (4 + 4));
  CHECK(bytes(in_steps, "rotated gradients to 16 bit", false) == turned * (4 + 2));
  // Attention's output is transposed where there is more than one sequence, and once more for the gradient of the
  // projection's weights where the first copy is not kept.
  std::vector<std::string> copied{"software.output_copy=kept", "batch.micro=2"};
  CHECK(bytes(copied, "copy attention output", true) == 2 * 1024.0 * 1024 * (2 + 2));
  CHECK(bytes(copied, "copy attention output again", false) == 0);
  copied.emplace_back("software.output_copy=made_again");
  CHECK(bytes(copied, "copy attention output again", false) == 2 * 1024.0 * 1024 * (2 + 2));
  copied[1] = "batch.micro=1";
  CHECK(bytes(copied, "copy attention output", true) == 0);
  CHECK(bytes(copied, "copy attention output again", false) == 0);
}

TEST_CASE("ALiBi passes over the scores once more where attention is not fused, and has no parameters") {
  const tests::Layers shape{3, false, false};
  const Job unfused = llama({"model.positions=alibi", "attention=unfused", "model.biases=none"});
  const LayerPasses passes = tests::passes_over(unfused, shape);
  CHECK(kernels_named(passes.forward, "position bias") == 3);
  CHECK(kernels_named(passes.backward, "position bias") == 0);
  for (const Kernel& kernel : passes.forward.front().kernels) {
    // 8 heads of 1024 x 1024 scores of 2 bytes, written and read.
    if (kernel.name == "position bias") CHECK(kernel.bytes == 8.0 * 1024 * 1024 * 2 * 2);
  }
  CHECK(kernels_named(tests::passes_over(llama({"model.positions=alibi"}), shape).forward, "position bias") == 0);
  CHECK(parameter_count(unfused.model) == parameter_count(llama().model));
}

TEST_CASE("a test that takes heads for the length of a row lets the fused softmax run in larger blocks") {
  const auto fuses = [](int heads, int micro, bool by_heads) {
    const std::string count = std::to_string(heads);
    const Job job =
        llama({"attention=unfused", "model.heads=" + count, "model.kv_heads=" + count, "model.head_dim=64",
               "batch.global=128", "batch.micro=" + std::to_string(micro), "software.fused_softmax_matrices=4",
               std::string("software.fused_softmax_by_heads=") + (by_heads ? "true" : "false")});
    return kernels_named(tests::passes_over(job, {1, false, false}).forward, "scores to fp32") == 0;
  };
  for (const int heads : {4, 8, 14, 16, 28}) CHECK(fuses(heads, 2, false));
  CHECK_FALSE(fuses(14, 1, false));  // 14 matrices are not four at a time
  // 128 threads and two short rows a warp: 64 matrices of four heads a block, 32 of eight, 16 of sixteen, 8 of 32.
  CHECK_FALSE(fuses(4, 8, true));
  CHECK(fuses(4, 16, true));
  CHECK_FALSE(fuses(8, 2, true));
  CHECK(fuses(8, 4, true));
  CHECK(fuses(16, 1, true));
  CHECK_FALSE(fuses(14, 4, true));  // 56 matrices in blocks of 16, as 14 is rounded up
  CHECK(fuses(14, 8, true));
  CHECK(fuses(28, 2, true));  // 56 matrices in blocks of 8
}

TEST_CASE(
    "a vocabulary that is not padded is shared out as it is, and its products are slow where rows are not aligned") {
  const auto with = [](int tensor, const char* pads, const char* rate) {
    return tests::small_job({"model.vocab=50257", "parallelism.pipeline=1", "parallelism.data=null",
                             "parallelism.tensor=" + std::to_string(tensor),
                             std::string("software.pads_vocabulary=") + pads,
                             std::string("software.misaligned_gemm_rate=") + rate});
  };
  const auto padded = [&](int tensor, const char* pads) {
    const Job job = with(tensor, pads, "1");
    return padded_vocab(job.model.vocab, job.parallelism.tensor, job.software.layers.head.pads_vocabulary);
  };
  CHECK(padded(1, "true") == 50304);  // 393 x 128
  CHECK(padded(2, "true") == 50432);  // 197 x 256
  CHECK(padded(1, "false") == 50257);
  CHECK(padded(2, "false") == 50256);  // 25128 each, a multiple of eight
  // And the run says so, where anything is padded or cut.
  const auto says = [](const Job& job, const std::string& what) {
    return std::any_of(job.assumptions.begin(), job.assumptions.end(), [&](const std::string& a) {
      return a.find("model.vocab 50257 is " + what) != std::string::npos;
    });
  };
  CHECK(says(with(2, "true", "1"), "padded to 50432"));
  CHECK_FALSE(says(with(2, "false", "1"), "padded"));
  CHECK(says(with(2, "false", "1"), "cut to 50256"));
  CHECK_FALSE(says(with(1, "false", "1"), ""));
  const auto head_seconds = [](const Job& job) {
    double sum = 0;
    const LayerPasses passes = tests::passes_over(job, {0, false, true});
    for (const Pieces& pieces : {passes.forward, passes.backward}) {
      for (const Piece& piece : pieces) {
        for (const Kernel& kernel : piece.kernels) sum += kernel.flops > 0 ? sim::to_seconds(kernel.time) : 0;
      }
    }
    return sum;
  };
  // 50257 and 12564 = 50257 / 4 are no multiples of eight: all three products at half the rate take twice as long.
  for (const int tensor : {1, 4}) {
    CHECK(head_seconds(with(tensor, "false", "0.5")) ==
          Approx(2 * head_seconds(with(tensor, "false", "1"))).epsilon(1e-6));
  }
  CHECK(head_seconds(with(2, "false", "0.5")) == head_seconds(with(2, "false", "1")));
}
