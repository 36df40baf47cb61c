// Do mixtures of experts compute, hold and exchange what their papers say? Expectations are derived from sizes.
#include <fmt/format.h>

#include <map>
#include <sstream>

#include "scenarios/library.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/workloads/example.h"
#include "workloads/job/job_values.h"
#include "workloads/memory/memory.h"
#include "workloads/model/families/families.h"
#include "workloads/model/kept.h"
#include "workloads/model/passes.h"
#include "workloads/schedules/catalogue.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// 8 experts of 512, two for each token, over a hidden state of 1024.
Model mixture() {
  Model m;
  m.layers = 4;
  m.hidden = 1024;
  m.attention.heads = 8;
  m.attention.kv_heads = 2;
  m.mlp = {2048, true, Activation::swiglu};
  m.vocab = 2560;
  m.seq = 512;
  m.norm = Norm::rms_norm;
  m.biases = Biases::none;
  m.positions = Positions::rotary;
  m.tied_embeddings = false;
  m.experts = {.count = 8, .top_k = 2, .ffn_hidden = 512};
  return m;
}

Job mixture_job(const std::vector<std::string>& sets = {}) {
  static const char* const text = R"(
name: mixture
cluster: {device: h100-sxm-80gb, gpus: 32, fabric: ndr-rail}
model: {kind: moe, layers: 4, hidden: 1024, heads: 8, kv_heads: 4, vocab: 2560, seq: 512, gated_mlp: true,
        tied_embeddings: false, positions: rotary, norm: rms_norm, biases: none,
        experts: 16, top_k: 4, expert_ffn_hidden: 512}
parallelism: {tensor: 1, pipeline: 2, expert: 8, sequence_parallel: false, sharding: optimizer}
batch: {global: 64, micro: 1}
precision: bf16
recompute: none
attention: flash
overlap: {tensor: false, pipeline: false, gradients: true, parameters: true}
# Layers this small would wait for the host alone, and say nothing of what is computed and exchanged.
software: {inherits: megatron-core-0.16, kernel_issue: 4 us, operation_host: 0 us, expert_layer_host: 0 us,
           expert_dispatch_host: 0 us, expert_host: 0 us, expert_quantisers_host: 0 us, expert_overlap_host: 0 us}
)";
  sim::Settings document = scenarios::parse_yaml(text, "mixture.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document).job;
}

double mixture_seconds(const std::vector<std::string>& sets) {
  return sim::to_seconds(simulate_step(mixture_job(sets)).iteration);
}

/// Products and exchanges of a layer, in order.
std::string skeleton(const Layer& layer) {
  std::string names;
  std::istringstream lines(text(layer));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  * ")) names += line.substr(4) + "\n";
  }
  return names;
}

const std::vector<std::string> kLatent{"model.attention_kind=mla", "model.kv_lora=128",    "model.q_lora=256",
                                       "model.qk_nope_dim=64",     "model.qk_rope_dim=32", "model.v_dim=64"};

}  // namespace

TEST_CASE("a rank of an expert group sends its tokens' copies and computes those that come") {
  Split split;
  split.expert = 4;
  // 512 tokens, two copies each; as many come back from four ranks to the two experts here.
  CHECK(skeleton(moe(mixture(), split, {}).layer(1)) ==
        "qkv: [1536, 1024] on [512, 1024], bf16\n"
        "fused attention: 1 x 512 positions, 8 heads over 2 of 128\n"
        "attention projection: [1024, 1024] on [512, 1024], bf16\n"
        "router: [8, 1024] on [512, 1024], bf16\n"
        "all_gather, expert: 32\n"
        "all_to_all, expert: 1048576\n"
        "all_to_all, expert: 1024\n"
        "expert up: 2 x [1024, 1024] on [1024, 1024], bf16\n"
        "expert down: 2 x [1024, 512] on [1024, 512], bf16\n"
        "all_to_all, expert: 1048576\n");
}

TEST_CASE("an expert cut over two ranks sees the tokens of both") {
  Split split;
  split.expert = 4;
  split.expert_tensor = 2;
  const std::string lines = skeleton(moe(mixture(), split, {}).layer(1));
  CHECK(lines.find("expert up: 2 x [512, 1024] on [2048, 1024], bf16\n") != std::string::npos);
  CHECK(lines.find("all_gather, expert_tensor: 2097152\n") != std::string::npos);
  CHECK(lines.find("reduce_scatter, expert_tensor: 2097152\n") != std::string::npos);
}

TEST_CASE("one expert that every token goes to is a dense MLP with a router") {
  Model dense = mixture();
  dense.experts = {};
  dense.mlp.hidden = 512;
  Model one = dense;
  one.experts = {.count = 1, .top_k = 1, .ffn_hidden = 512};
  const double router = 4.0 * 1024;
  CHECK(parameter_count(one) == parameter_count(dense) + router);
  // Forward and backward of one product of [1, hidden] on every token of a sequence, in every layer.
  CHECK(model_flops(one, 1) == model_flops(dense, 1) + 3 * 2 * 512 * router);
}

TEST_CASE("a token meets its experts' parameters alone") {
  const Model m = mixture();
  const double expert = 3.0 * 1024 * 512 * 4;  // of all layers
  CHECK(parameter_count(m) - active_parameter_count(m) == Approx((8 - 2) * expert));
}

TEST_CASE("first layers are dense, and of those behind them the last of every few has experts") {
  Experts experts{.count = 8, .top_k = 2, .ffn_hidden = 512};
  experts.dense_layers = 3;
  experts.every = 2;
  std::string drawn;
  for (std::int64_t i = 0; i < 9; ++i) drawn += experts.in_layer(i) ? 'e' : 'd';
  CHECK(drawn == "ddddedede");
}

TEST_CASE("latent attention weighs and computes what its equations say") {
  // DeepSeek-V2 (arXiv 2405.04434), equations 9 to 19: down and up projections of queries and of keys with values, a
  // rotated part that all heads' keys share, and the output's projection; norms of the two compressed vectors.
  Model m = mixture();
  const double before = parameter_count(m);
  const double h = 1024, heads = 8, q = 256, kv = 128, nope = 64, rope = 32, v = 64;
  m.attention.latent = {128, 256, 64, 32, 64};
  const double usual = (heads + 2 * 2) * 128 * h + heads * 128 * h;
  const double latent =
      q * h + heads * (nope + rope) * q + (kv + rope) * h + heads * (nope + v) * kv + heads * v * h + q + kv;
  CHECK(parameter_count(m) - before == 4 * (latent - usual));
  // Attention: queries with keys over nope + rope, scores with values over v; both of s^2 for each head, twice.
  double attention = 0;
  for (const Layer& layer : moe(m, {}, {}).kinds) attention += forward_flops(layer).attention;
  CHECK(attention == 2 * 512.0 * 512 * heads * (nope + rope + v));
}

TEST_CASE("a layer that predicts a second token stands with the head on the last stage") {
  const Job job = mixture_job({"model.mtp_layers=1", "parallelism.pipeline=4"});
  const LayerSplit split = split_layers(job);
  CHECK(split.network.size() == 1 + 4 + 2);
  CHECK(split.of(0, 3, 4).end == 7);
  // Its projection of two hidden states to one, three norms, and a block like the last.
  const Model one = job.model;
  Model none = one;
  none.experts.mtp_layers = 0;
  double block = 0;
  const Network without = network(none, {}, {});
  for (const Weights& weights : without.layer(4).weights) block += weights.elements;
  CHECK(parameter_count(one) - parameter_count(none) == Approx(2.0 * 1024 * 1024 + 3 * 1024 + block));
}

TEST_CASE("an all-to-all sends all but a rank's own part; once a node, less the more experts a token has") {
  GroupShape shape;
  shape.ranks = 16;
  shape.nodes = 2;
  shape.per_node = 8;
  CHECK(exchange_load(shape).inside == Approx(7.0 / 16));
  CHECK(exchange_load(shape).between == Approx(8.0 / 16));
  // One expert a token: nothing to save, but that what crosses arrives at the sender's place and goes on from there.
  shape.exchange = {true, {1, 16}};
  CHECK(exchange_load(shape).between == Approx(0.5));
  CHECK(exchange_load(shape).inside == Approx(7.0 / 8));
  // All 16 experts: to the other node once, and from both nodes' ranks at its place to the seven beside them.
  shape.exchange = {true, {16, 16}};
  CHECK(exchange_load(shape).between == Approx(1.0 / 16));
  CHECK(exchange_load(shape).inside == Approx(14.0 / 16));
}

TEST_CASE("an exchange of a library takes its kernels' time, the mean of dispatch and combine") {
  const auto cost_of = [](const Job& job, double bytes, CollectiveCost& cost) {
    const GroupLayout layout = group_layout_of(job);
    const topology::Cluster cluster(job.machine.node, job.machine.fabric, 16, 8, sim::Settings());
    GroupShape shape;
    shape.ranks = shape.per_node = 8;
    shape.exchange = layout.experts.exchange;
    cost = collective_cost(CollectiveOp::all_to_all, bytes, shape, job.machine.device, job.software, cluster);
    return shape.exchange;
  };
  const Job job = mixture_job({"experts.dispatcher=deepep", "experts.dispatcher_sms=24"});
  // Rows of 1024 elements in 16 bits; what a rank sends is `top_k` copies of each.
  const double tokens = static_cast<double>(job.batch.micro * job.rank_seq()), row = 2048, k = 4;
  CollectiveCost cost;
  const ExchangeStyle style = cost_of(job, tokens * k * row, cost);
  REQUIRE(style.library.kernels != nullptr);
  CHECK(style.tokens == tokens);
  auto exchange = calibration::even_exchange(tokens, row, k, static_cast<double>(job.model.experts.count), 8, 1);
  exchange.processors = 24;
  double expected = 0;
  for (const auto pass : {calibration::ExchangePass::dispatch, calibration::ExchangePass::combine}) {
    const auto* kernel = style.library.kernels->kernel(job.machine.device.name(), pass, false);
    REQUIRE(kernel != nullptr);
    expected += kernel->alone(exchange, job.machine.node.rate.value()) / 2;
  }
  CHECK(sim::to_seconds(cost.latency) + cost.work / cost.rate_cap == Approx(expected).epsilon(1e-6));
  // Fewer SMs move rows for longer; NCCL's exchange knows none.
  CollectiveCost fewer;
  cost_of(mixture_job({"experts.dispatcher=deepep", "experts.dispatcher_sms=4"}), tokens * k * row, fewer);
  CHECK(fewer.work / fewer.rate_cap > cost.work / cost.rate_cap);
  CHECK(cost_of(mixture_job({}), tokens * k * row, fewer).library.kernels == nullptr);
  CHECK_THROWS_AS(mixture_job({"experts.dispatcher_sms=24"}), sim::UserError);
}

TEST_CASE("in a mesh an exchange's kernels reach a share of all links of a GPU") {
  const Job job = mixture_job({"experts.dispatcher=deepep", "cluster.device=mi355x", "cluster.fabric=amd-400g-rail"});
  const topology::Cluster cluster(job.machine.node, job.machine.fabric, 16, 8, sim::Settings());
  GroupShape shape;
  shape.ranks = shape.per_node = 8;
  shape.exchange = group_layout_of(job).experts.exchange;
  const double tokens = static_cast<double>(job.batch.micro * job.rank_seq()), row = 2048;
  const auto k = static_cast<double>(job.model.experts.top_k);
  const CollectiveCost cost =
      collective_cost(CollectiveOp::all_to_all, tokens * k * row, shape, job.machine.device, job.software, cluster);
  auto exchange = calibration::even_exchange(tokens, row, k, static_cast<double>(job.model.experts.count), 8, 1);
  exchange.processors = shape.exchange.library.processors;
  double moving = 0;
  for (const auto pass : {calibration::ExchangePass::dispatch, calibration::ExchangePass::combine}) {
    const auto* kernel = shape.exchange.library.kernels->kernel("mi355x", pass, false);
    REQUIRE(kernel != nullptr);
    CHECK(kernel->device == "mi355x");
    moving += (kernel->alone(exchange, 7 * 76.8e9) - kernel->latency(exchange)) / 2;
  }
  CHECK(cost.work / cost.rate_cap == Approx(moving).epsilon(1e-6));
}

TEST_CASE("while passes take turns, an exchange's SMs are lost to the kernels beside it") {
  const std::vector<std::string> sets{"parallelism.virtual_pipeline=2", "overlap.experts=true", "overlap.pipeline=true",
                                      "experts.dispatcher=deepep"};
  const auto compute = [&](const char* processors) {
    std::vector<std::string> with = sets;
    with.emplace_back(processors);
    return simulate_step(mixture_job(with)).breakdown_s[static_cast<std::size_t>(Category::compute)];
  };
  // 64 of 132 SMs at once, so that kernels beside an exchange take up to 1.94 times as long; half is the most.
  CHECK(compute("experts.dispatcher_sms=64") > compute("experts.dispatcher_sms=20"));
  CHECK(compute("experts.dispatcher_sms=20") > 0);
}

TEST_CASE("groups of experts lie inside tensor, context and data ranks, parts of an expert next to each other") {
  // Megatron-Core, parallel_state.py: of 8 ranks of a stage, expert_tensor 2 and expert 2 make {0 1} the parts of an
  // expert, {0 2} and {1 3} those who share the experts out, {0 4} the replicas.
  const Job job = mixture_job({"cluster.gpus=16", "parallelism.tensor=2", "parallelism.sequence_parallel=true",
                               "parallelism.expert=2", "parallelism.expert_tensor=2"});
  const std::vector<JobGroup> groups = comm_groups(group_layout_of(job));
  const Dims dims = job.parallelism.dims();
  const auto members = [&](const CommGroup& group, std::int64_t rank) {
    return dims.members_of(rank, std::get<SubGroup>(find_group(groups, group)->members));
  };
  using Ranks = std::vector<std::int64_t>;
  CHECK(members(CommGroup::expert_tensor, 0) == Ranks{0, 1});
  CHECK(members(CommGroup::expert, 1) == Ranks{1, 3});
  CHECK(members(CommGroup::expert_data, 2) == Ranks{2, 6});
  CHECK(members(CommGroup::expert_data, 11) == Ranks{11, 15});
}

TEST_CASE("every layout of experts moves the bytes of its closed form, folded or not") {
  const std::vector<std::vector<std::string>> layouts{
      {},
      {"experts.dispatcher=allgather"},
      {"experts.dispatcher=deepep", "parallelism.expert=16"},
      {"experts.dispatcher=deepep", "parallelism.expert=16", "model.expert_groups=4", "model.top_groups=2"},
      {"experts.dispatcher=hybridep", "parallelism.expert=4", "model.expert_groups=8", "model.top_groups=3"},
      {"experts.dispatcher=hybridep", "recompute=full"},
      {"parallelism.expert=1"},
      {"parallelism.expert=16", "model.top_k=1"},
      {"parallelism.tensor=2", "parallelism.sequence_parallel=true"},
      {"parallelism.tensor=2", "parallelism.sequence_parallel=true", "parallelism.expert_tensor=2",
       "parallelism.expert=4"},
      {"parallelism.tensor=4", "parallelism.sequence_parallel=true", "parallelism.expert=2"},
      {"parallelism.sharding=none", "model.shared_experts=2"},
      {"parallelism.sharding=parameters", "parallelism.pipeline=1"},
      {"model.dense_layers=1", "model.moe_every=2", "model.mtp_layers=1"},
      {"recompute={kind: selective, modules: [moe, norms]}", "model.shared_experts=1"},
      {"experts.overlap_shared=true", "model.shared_experts=1"},
      {"experts.capacity_factor=1.5", "experts.pad_to_capacity=true"},
      {"parallelism.schedule=dualpipe", "overlap.gradients=false"},
      {"parallelism.virtual_pipeline=2", "overlap.experts=true", "overlap.pipeline=true"},
  };
  for (const std::vector<std::string>& sets : layouts) {
    INFO((sets.empty() ? std::string("as it is") : sets.front()));
    const Job job = mixture_job(sets);
    const StepReport folded = simulate_step(job);
    CHECK(tests::contradiction(folded) == "");
    Question full;
    full.ranks = Question::Ranks::every;
    CHECK(tests::comparable(simulate_step(job, full)) == tests::comparable(folded));
  }
}

TEST_CASE("stages that wait for what they send, and whose hosts wait for the counts of experts, do not lock up") {
  for (const Schedule* schedule : kSchedules) {
    for (const std::int64_t stages : {2, 4}) {
      for (const char* software : {"megatron-core-0.16", "bigscience-2022"}) {  // the latter's wait for messages too
        std::vector<std::string> sets = tests::sets_for(*schedule);
        sets.insert(sets.end(), {"model.layers=16", "overlap.pipeline=false", std::string("software=") + software,
                                 fmt::format("parallelism.pipeline={}", stages)});
        INFO(schedule->name << ", " << stages << " stages, " << software);
        const Job job = mixture_job(sets);
        Question full;
        full.ranks = Question::Ranks::every;
        CHECK(simulate_step(job).iteration == simulate_step(job, full).iteration);
      }
    }
  }
}

TEST_CASE("experts whose groups lie some in a node and some across two are simulated, folded as in full") {
  // 32 ranks in pairs, placed at random over four nodes.
  const Job job = mixture_job({"parallelism.expert=2", "placement={random_seed: 1}"});
  Question full;
  full.ranks = Question::Ranks::every;
  CHECK(simulate_step(job).iteration == simulate_step(job, full).iteration);
}

TEST_CASE("latent attention's exchanges move the bytes of their closed form") {
  std::vector<std::string> sets = kLatent;
  sets.insert(sets.end(), {"parallelism.tensor=2", "parallelism.sequence_parallel=true", "model.kv_heads=8",
                           "recompute={kind: selective, modules: [mla_up_proj]}", "model.mtp_layers=1"});
  CHECK(tests::contradiction(simulate_step(mixture_job(sets))) == "");
  sets.emplace_back("model.q_lora=0");
  CHECK(tests::contradiction(simulate_step(mixture_job(sets))) == "");
}

TEST_CASE("of every part of a pipeline the first layers run again, dense ones and those with experts") {
  // One dense layer, then five with experts and one that predicts: 0 to 2 and 3 to 5 with the prediction on two stages.
  std::vector<std::string> sets{"model.layers=6",
                                "model.dense_layers=1",
                                "model.ffn_hidden=2048",
                                "model.mtp_layers=1",
                                "model.shared_experts=1",
                                "parallelism.tensor=2",
                                "parallelism.sequence_parallel=true"};
  const auto with = [&](const char* recompute, std::vector<std::string> more = {}) {
    std::vector<std::string> all = sets;
    all.emplace_back(recompute);
    all.insert(all.end(), more.begin(), more.end());
    return mixture_job(all);
  };
  for (const char* recompute : {"recompute={kind: full, layers: 1}", "recompute={kind: full, layers: 2}"}) {
    for (const char* dispatcher : {"experts.dispatcher=alltoall", "experts.dispatcher=allgather"}) {
      INFO(recompute << ", " << dispatcher);
      const Job job = with(recompute, {dispatcher});
      const StepReport folded = simulate_step(job);
      CHECK(tests::contradiction(folded) == "");
      Question full;
      full.ranks = Question::Ranks::every;
      CHECK(tests::comparable(simulate_step(job, full)) == tests::comparable(folded));
    }
  }
  // As many as a part has is all of them.
  const StepReport all = simulate_step(with("recompute=full"));
  CHECK(tests::comparable(simulate_step(with("recompute={kind: full, layers: 7}"))) == tests::comparable(all));
  // FLOPs beyond the model's own are those of the layers that run again: of the first stage a dense one, then one with
  // experts too.
  const StepReport none = simulate_step(with("recompute=none"));
  const StepReport first = simulate_step(with("recompute={kind: full, layers: 1}"));
  const StepReport second = simulate_step(with("recompute={kind: full, layers: 2}"));
  const LayerSplit split = split_layers(with("recompute={kind: full, layers: 1}"));
  double dense = 0, experts = 0;
  for (std::int64_t i = 1; i < split.network.size(); ++i) {
    if (!split.network.layer(i).recomputed) continue;
    const ForwardFlops f = forward_flops(split.network.layer(i));
    (i == 1 ? dense : experts) += f.linear + f.attention;
  }
  const auto done = [](const StepReport& report) {
    return report.rates.hardware_tflops_per_gpu * sim::to_seconds(report.iteration);
  };
  const auto again = [&](const StepReport& report) { return done(report) - done(none); };
  CHECK(dense > 0);
  CHECK(experts > 0);
  CHECK(again(second) / again(first) == Approx((dense + 3 * experts) / (dense + experts)));
}

TEST_CASE("what products read is kept in their type, of experts too, to the byte") {
  // 512 tokens of 1024, 2048 rows for experts of 512; in fp8 with a scale each a byte an element.
  const double tokens = 512.0 * 1024, rows = 2048.0 * 1024, inside = 2048.0 * 512, shared = 512.0 * 512;
  const auto kept = [](std::vector<std::string> sets) {
    const LayerSplit split = split_layers(mixture_job(sets));
    return bytes_of(split.block()).kept;
  };
  const std::string fp8 = "precision=fp8", beside = "model.shared_experts=1";
  const double bf16 = kept({});
  // Attention keeps its input in one byte, and one more of its output beside the 16-bit one.
  CHECK(bf16 - kept({fp8}) == rows + inside + tokens - tokens);
  CHECK(kept({fp8}) - kept({fp8, "software.fp8_activation_input=true"}) == 2 * inside);
  // The router's product keeps 16 bits of what the shared expert keeps a byte of.
  CHECK(kept({beside}) - bf16 == 2.0 * 3 * shared);
  CHECK(kept({fp8, beside}) - kept({fp8}) == (2 * 2 + 1) * shared + tokens);
}

TEST_CASE("norms that run again leave nothing of what they make, ahead of latent attention as well") {
  const auto kept = [](const std::string& precision, const std::string& recompute) {
    const LayerSplit split = split_layers(
        mixture_job({"model.attention_kind=mla", "model.q_lora=256", "model.kv_lora=128", "model.qk_nope_dim=64",
                     "model.qk_rope_dim=32", "model.v_dim=64", precision, recompute}));
    return bytes_of(split.block()).kept;
  };
  const double tokens = 512.0 * 1024, output = 512.0 * 8 * 64;
  const std::string none = "recompute=none", norms = "recompute={kind: selective, modules: [norms]}";
  CHECK(kept("precision=bf16", none) - kept("precision=bf16", norms) == 2 * 2 * tokens);
  // Beside what experts keep less of, the projection keeps its input in a byte.
  CHECK(kept("precision=bf16", norms) - kept("precision=fp8", norms) == 2048.0 * (1024 + 512) - output);
}

TEST_CASE("experts are shared out: a rank holds its part of their states") {
  const auto states = [](const std::vector<std::string>& sets) {
    const StepReport report = simulate_step(mixture_job(sets));
    return report.memory.stages.front().parameters;
  };
  // 16 experts of 3 x 1024 x 512 in two layers, 2 bytes each.
  const double experts = 2.0 * 16 * 3 * 1024 * 512 * 2;
  CHECK(states({"parallelism.expert=1"}) - states({"parallelism.expert=8"}) == Approx(experts * 7 / 8));
}

TEST_CASE("experts' whole gradients stand beside their shards as well, in buckets of their own or layer by layer") {
  const auto gathered = [](const char* bucket) {
    const Job job = mixture_job({"parallelism.pipeline=1", "parallelism.sharding=gradients", "overlap.gradients=false",
                                 "software.gradient_reduction=every_pass", "precision={matmul: bf16, gradients: fp32}",
                                 fmt::format("software.gradient_bucket='{}'", bucket)});
    return stage_memory(job, split_layers(job)).front().parts.gathered;
  };
  CHECK(gathered("40 MB") == Approx(2 * 40e6));
  // Two experts of three matrices; queries, keys and values, the projection, the router and two norms. Each gradient in
  // 16 bits and, cast, in 32.
  const double experts = 2 * 3 * 1024.0 * 512, others = 1024.0 * (1024 + 2 * 512) + 1024 * 1024 + 16 * 1024 + 2 * 1024;
  CHECK(gathered("0 B") == Approx((2 + 4) * (experts + others)));
}

TEST_CASE("what costs more takes longer") {
  const double balanced = mixture_seconds({});
  CHECK(mixture_seconds({"experts.imbalance=1.5"}) > balanced);
  CHECK(mixture_seconds({"experts.capacity_factor=2", "experts.pad_to_capacity=true"}) > balanced);
  // No rank is given more than its experts have room for, and experts that pad compute just that.
  CHECK(mixture_seconds({"experts.imbalance=1.5", "experts.capacity_factor=1.25"}) ==
        mixture_seconds({"experts.imbalance=1.25", "experts.capacity_factor=1.25"}));
  const std::vector<std::string> padded{"experts.capacity_factor=1.25", "experts.pad_to_capacity=true"};
  std::vector<std::string> uneven = padded;
  uneven.emplace_back("experts.imbalance=1.5");
  CHECK(mixture_seconds(uneven) == mixture_seconds(padded));
  CHECK(mixture_seconds({"model.shared_experts=4"}) > balanced);
  CHECK(mixture_seconds({"recompute={kind: selective, modules: [moe]}"}) > balanced);
  // Tokens that cross nodes once are fewer than their copies; DeepEP's kernels want enough of them to pay.
  const std::vector<std::string> many{"parallelism.expert=16", "model.seq=8192", "model.hidden=4096"};
  std::vector<std::string> once = many;
  once.emplace_back("experts.dispatcher=deepep");
  CHECK(mixture_seconds(once) < mixture_seconds(many));
  CHECK(mixture_seconds({"parallelism.expert=16", "experts.dispatcher=hybridep"}) <
        mixture_seconds({"parallelism.expert=16"}));
}

TEST_CASE("an unfused permutation picks rows one way and adds them up the other, copy by copy") {
  const auto traffic = [](const ExpertStyle& style, calibration::Streaming kernel, Direction direction) {
    Computation computation;
    computation.experts = style;
    const Network network = moe(mixture(), Split{}, computation);
    double sum = 0;
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream == nullptr || stream->direction != direction) continue;
      const bool moves = std::string_view(stream->name).find("permute") != std::string_view::npos;
      if (moves && stream->kernel == kernel) sum += stream->elements * stream->bytes_each;
    }
    return sum;
  };
  using calibration::Streaming;
  // 512 tokens of 1024 elements in 16 bit, two copies of each.
  const double rows = 512 * 2 * 1024, once = rows + 512 * 1024;
  ExpertStyle fused, unfused, hybrid;
  unfused.fused_permutation = hybrid.fused_permutation = false;
  hybrid.dispatcher = Dispatcher::hybridep;  // permutes itself
  for (const auto& [direction, adds] :
       {std::pair{Direction::forward, Streaming::scatter_add}, std::pair{Direction::backward, Streaming::index_add}}) {
    CHECK(traffic(fused, Streaming::copy, direction) == 2 * once * 2);
    CHECK(traffic(fused, adds, direction) == 0);
    CHECK(traffic(unfused, Streaming::copy, direction) == rows * 4);
    CHECK(traffic(unfused, adds, direction) == rows * 6);
    CHECK(traffic(hybrid, adds, direction) == 0);
  }
}

TEST_CASE("ranks and experts change places by a copy with gaps where every expert is filled, fused or not") {
  const auto sorted = [](const ExpertStyle& style, calibration::Streaming kernel) {
    Computation computation;
    computation.experts = style;
    Split split;
    split.expert = 2;
    const Network network = moe(mixture(), split, computation);
    double sum = 0;
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream != nullptr && stream->kernel == kernel && std::string_view(stream->name).find("sort by") == 0)
        sum += stream->elements * stream->bytes_each;
    }
    return sum;
  };
  using calibration::Streaming;
  const double rows = 512 * 2 * 1024;  // read and written, there and back, forward and backward
  ExpertStyle drops, filled;
  filled.capacity_factor = drops.capacity_factor = 1;
  filled.pads_to_capacity = true;
  CHECK(sorted(drops, Streaming::copy) == 4 * rows * 4);
  CHECK(sorted(drops, Streaming::strided) == 0);
  for (const bool fused : {true, false}) {
    filled.fused_permutation = fused;
    CHECK(sorted(filled, Streaming::strided) == 4 * rows * 4);
    CHECK(sorted(filled, Streaming::copy) == 0);
  }
}

TEST_CASE("outputs of experts are cast to the type of the weights ahead of their sum over ranks, and back") {
  const auto cast = [](bool fp32, Dispatcher dispatcher, std::int64_t expert, std::int64_t parts) {
    Computation computation;
    computation.experts.router_fp32 = fp32;
    computation.experts.dispatcher = dispatcher;
    Split split;
    split.expert = expert;
    split.expert_tensor = parts;
    const Network network = moe(mixture(), split, computation);
    double sum = 0;
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream == nullptr) continue;
      const std::string_view name = stream->name;
      if (name.find("cast") == 0 && name.find("sum") != name.npos) sum += stream->elements * stream->bytes_each;
    }
    return sum;
  };
  const double tokens = 512 * 1024;
  CHECK(cast(true, Dispatcher::allgather, 4, 1) == (4 + 1) * tokens * 6 + 1 * tokens * 6);
  CHECK(cast(false, Dispatcher::allgather, 4, 1) == 0);
  CHECK(cast(true, Dispatcher::alltoall, 4, 1) == 0);
  CHECK(cast(true, Dispatcher::alltoall, 1, 2) > 0);
}

TEST_CASE("drawn loads: every rank its own, the same folded or not, and in the mean what is expected of the busiest") {
  const std::vector<std::string> wide{"parallelism.pipeline=1", "batch.global=256", "model.expert_ffn_hidden=4096",
                                      "experts.skew=1"};
  const auto drawn = [&](const char* seed) {
    std::vector<std::string> sets = wide;
    sets.push_back(std::string("experts.seed=") + seed);
    return mixture_job(sets);
  };
  const StepReport one = simulate_step(drawn("1")), other = simulate_step(drawn("2"));
  CHECK(one.iteration != other.iteration);
  CHECK(one.effort.ranks == 32);  // nothing is alike
  Question full;
  full.ranks = Question::Ranks::every;
  CHECK(simulate_step(drawn("1"), full).iteration == one.iteration);
  const StepReport expected = simulate_step(mixture_job(wide));
  CHECK(expected.effort.ranks < 32);
  // Ranks wait for the busiest of every exchange, and what a kernel takes is a line in its load, so the mean over draws
  // is what the mean of the busiest takes. Four layers over eight micro-batches, forward and backward, are 64 draws:
  // with the busiest spread by a quarter around its mean, that is known to 3 %.
  for (const StepReport& drawn_once : {one, other})
    CHECK(sim::to_seconds(drawn_once.iteration) == Approx(sim::to_seconds(expected.iteration)).epsilon(0.05));
  CHECK(mixture_seconds(wide) >
        mixture_seconds({"parallelism.pipeline=1", "batch.global=256", "model.expert_ffn_hidden=4096"}));
}

TEST_CASE("the host loses time behind the counts where sizes are new, and none where experts are filled") {
  const std::string slow = "software.expert_dispatch_host=20 ms";
  const std::vector<std::string> filled = {"experts.capacity_factor=1", "experts.pad_to_capacity=true"};
  // Four layers on two stages, and as many micro-batches as a rank has: forward each of them waits for it once.
  const double layers = 2, microbatches = 4;
  CHECK(mixture_seconds({slow}) - mixture_seconds({}) > 0.9 * layers * microbatches * 0.020);
  CHECK(mixture_seconds({filled[0], filled[1], slow}) == mixture_seconds(filled));
  // What each expert takes of the host it takes there too.
  CHECK(mixture_seconds({filled[0], filled[1], "software.expert_host=5 ms"}) > 1.1 * mixture_seconds(filled));
}

TEST_CASE("weights of tokens are in fp32 where DeepEP or HybridEP send them, whatever the router works in") {
  ExpertStyle style;
  CHECK(weights_in_fp32(style));
  style.router_fp32 = false;
  CHECK_FALSE(weights_in_fp32(style));
  style.dispatcher = Dispatcher::allgather;
  CHECK_FALSE(weights_in_fp32(style));
  for (const Dispatcher sends : {Dispatcher::deepep, Dispatcher::hybridep}) {
    style.dispatcher = sends;
    CHECK(weights_in_fp32(style));
  }
  // An expert's scaled bias: what is added up is twice as wide, and is cast back.
  Model biased = mixture();
  biased.biases = Biases::all;
  const auto scaled = [&](Dispatcher sends) {
    Computation computation;
    computation.experts.dispatcher = sends;
    computation.experts.router_fp32 = false;
    const Network network = moe(biased, Split{}, computation);
    double sum = 0;
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream != nullptr && std::string(stream->name).find("scale") == 0)
        sum += stream->elements * stream->bytes_each;
    }
    return sum;
  };
  CHECK(scaled(Dispatcher::deepep) == 2 * scaled(Dispatcher::alltoall));
}

TEST_CASE("a clamp, scaled biases and a factor beside the rotation cost the passes that their code makes") {
  Model plain = mixture();
  const auto bytes = [](const Model& model, const ExpertStyle& style, Direction direction) {
    Computation computation;
    computation.experts = style;
    computation.style.linear.bias_in_gemm = true;
    computation.style.recipes.set(scenarios::recipe_book().usual(calibration::RecipePart::rotary));
    const Network network = moe(model, Split{}, computation);
    double sum = 0;
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream != nullptr && stream->direction == direction)
        sum += stream->launches * stream->elements * stream->bytes_each;
    }
    return sum;
  };
  const double routed = 512 * 2, inside = routed * 512, outputs = routed * 1024;
  const auto more = [&](const Model& model, Direction direction) {
    return bytes(model, {}, direction) - bytes(plain, {}, direction);
  };
  Model clamped = plain;
  clamped.experts.activation_clamp = 7;
  // Forward each of two halves is read and written twice; backward compared, chosen and joined.
  CHECK(more(clamped, Direction::forward) == 2 * inside * (4 + 4));
  CHECK(more(clamped, Direction::backward) == 2 * inside * (11 + 4));
  // Halves of a row have gaps: two cut; three comparisons and two choices.
  const auto with_gaps = [&](const Model& model, Direction direction) {
    const Network network = moe(model, Split{}, {});
    double sum = 0;
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      const bool gaps = stream != nullptr && stream->kernel == calibration::Streaming::strided;
      if (gaps && stream->direction == direction) sum += stream->elements;
    }
    return sum;
  };
  CHECK(with_gaps(plain, Direction::forward) == 0);
  CHECK(with_gaps(clamped, Direction::forward) == 2 * inside);
  CHECK(with_gaps(clamped, Direction::backward) == 5 * inside);
  ExpertStyle fused;
  fused.fused_mlp = true;
  CHECK(bytes(clamped, fused, Direction::forward) == bytes(plain, fused, Direction::forward));
  // Weights in fp32: the bias times them written, added, joined and cast back.
  Model biased = plain;
  biased.biases = Biases::all;
  const double scaled = bytes(biased, {}, Direction::forward) - bytes(biased, fused, Direction::forward);
  CHECK(scaled == outputs * (4 + 10 + 8 + 6));
  // The first two expert by expert: a loop over the experts of the rank.
  double each = 0;
  const Network with_biases = moe(biased, Split{}, {});
  for (const LayerOp& op : with_biases.layer(1).ops)
    if (const auto* stream = std::get_if<StreamingOp>(&op);
        stream != nullptr && stream->name == std::string("scale bias"))
      each = stream->launches;
  CHECK(each == static_cast<double>(biased.experts.count));
  Model stretched = plain;
  stretched.attention.rotary_factor = 1.2;
  const double turned = 512 * (1024 + 2 * 128);  // queries and the keys of two groups
  CHECK(more(stretched, Direction::forward) == turned * ((4 + 6 + 4 + 6 + 4) - 4));
}

TEST_CASE("rows that come to experts are cast by kernels of their own, padded into blocks and stashed") {
  const auto bytes = [](const ExpertStyle& style, DataType type, bool fuses, Direction direction, bool blocks) {
    Computation computation;
    computation.experts = style;
    computation.precision.matmul = type;
    computation.style.casts = fuses ? calibration::Casts::fused : calibration::Casts::apart;
    computation.style.recipes.set(scenarios::recipe_book().usual(calibration::RecipePart::activation));
    if (blocks) {
      constexpr auto kPart = calibration::RecipePart::expert_blocks;
      computation.style.recipes.set(
          scenarios::recipe_book().read(kPart, sim::Settings::scalar("copied", {"moe_test", 0, 0})));
    }
    const Network network = moe(mixture(), Split{}, computation);
    double sum = 0;
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* stream = std::get_if<StreamingOp>(&op);
      if (stream != nullptr && stream->routed && stream->direction == direction)
        sum += stream->elements * stream->bytes_each;
    }
    return sum;
  };
  const auto both = [&](const ExpertStyle& style, DataType type, bool fuses = true, bool blocks = false) {
    return std::pair{bytes(style, type, fuses, Direction::forward, blocks),
                     bytes(style, type, fuses, Direction::backward, blocks)};
  };
  const double routed = 512 * 2, inside = routed * 512, rows = routed * 1024;
  const auto plain = both({}, DataType::bf16), cast = both({}, DataType::fp8);
  // Read in 16 bit, written twice in 8: input and activation; gradients of outputs and of both halves of the gate.
  CHECK(cast.first - plain.first == (rows + inside) * (2 + 2));
  CHECK(cast.second - plain.second == (rows + 2 * inside) * (2 + 2));
  CHECK(both({}, DataType::fp8, false) == cast);  // a norm that casts is not what comes before
  // Copied into blocks of scales and back, reading and writing 16 bit.
  const auto padded = both({}, DataType::fp8, true, true);
  CHECK(both({}, DataType::bf16, true, true) == plain);
  CHECK(padded.first - cast.first == 2 * rows * (2 + 2));
  CHECK(padded.second - cast.second == 2 * rows * (2 + 2));
  ExpertStyle whole;
  whole.dispatcher = Dispatcher::hybridep;  // puts rows down in whole blocks
  CHECK(both(whole, DataType::fp8, true, true) == both(whole, DataType::fp8));
  // Kept: input and activation in 8 bit, both halves of the gate in 16; copied into pages, and out of them. In 8 bit
  // rows go by blocks of 1024 elements, of which the activation's 512 fill a half.
  ExpertStyle stashed;
  stashed.paged_stash = true;
  CHECK(both(stashed, DataType::fp8).first - cast.first == 2 * (rows + 2 * inside + 2 * inside * 2));
  CHECK(both(stashed, DataType::fp8).second - cast.second == 2 * (rows + 2 * inside + 2 * inside * 2));
  CHECK(both(stashed, DataType::bf16).first - plain.first == 2 * (rows + inside + 2 * inside) * 2);
  // One module: the product writes its activation twice in 8 bit; backward it reads both halves and writes their
  // gradients twice, and not the activation's. Without it 6 bytes of the activation and 4 of its cast, backward 10
  // and twice 4.
  ExpertStyle module;
  module.fused_mlp = true;
  CHECK(cast.first - both(module, DataType::fp8).first == inside * (6 + 4 - 2));
  CHECK(cast.second - both(module, DataType::fp8).second == inside * (10 + 8 - (2 * (2 + 2) - 2)));
}

TEST_CASE("products of fused experts take longer by the SMs that they leave free, gradients of weights do not") {
  const calibration::DeviceProfile device = mixture_job({"cluster.device=gb200"}).machine.device;
  const auto times = [&](double spares, bool fused, DataType type) {
    Computation computation;
    computation.experts.fused_mlp = fused;
    computation.experts.spare_processors = spares;
    computation.precision.matmul = type;
    const LayerPasses passes = passes_of(moe(mixture(), Split{}, computation).layer(1), {device}, false);
    std::map<std::string, std::pair<double, double>> found;  // time, and the share of it that makes up for SMs
    for (const Pieces* pass : {&passes.forward, &passes.backward})
      for (const Piece& piece : *pass)
        for (const Kernel& kernel : piece.kernels)
          if (kernel.flops > 0) found[kernel.name] = {sim::to_seconds(kernel.time), kernel.spared};
    return found;
  };
  const double all = static_cast<double>(device.processors());
  const auto none = times(0, true, DataType::mxfp8), some = times(16, true, DataType::mxfp8);
  REQUIRE(none.size() == some.size());
  for (const auto& [name, kernel] : some) {
    CAPTURE(name);
    const bool spares = name.starts_with("expert") && !name.ends_with("weight gradient");
    CHECK(kernel.first == Approx(none.at(name).first * (spares ? all / (all - 16) : 1)).epsilon(1e-6));
    CHECK(kernel.second == (spares ? 16 / all : 0));
  }
  // Nobody else's kernels know of it.
  CHECK(times(16, false, DataType::mxfp8) == times(0, false, DataType::mxfp8));
  CHECK(times(16, true, DataType::bf16) == times(0, true, DataType::bf16));
}

TEST_CASE("with a clamp the host waits once more in every layer of experts") {
  const auto waits = [](double clamp, bool fused) {
    Model model = mixture();
    model.experts.activation_clamp = clamp;
    Computation computation;
    computation.experts.fused_mlp = fused;
    const Network network = moe(model, Split{}, computation);
    std::int64_t n = 0;
    for (const LayerOp& op : network.layer(1).ops) {
      const auto* end = std::get_if<RunEnd>(&op);
      n += end != nullptr && end->host_waits;
    }
    return n;
  };
  CHECK(waits(0, false) == 1);  // for the counts of tokens
  CHECK(waits(7, false) == 2);
  CHECK(waits(7, true) == 1);
}

TEST_CASE("exchanges hide behind another micro-batch") {
  const std::vector<std::string> base{"parallelism.pipeline=1", "parallelism.expert=16", "model.seq=4096",
                                      "batch.global=256"};
  std::vector<std::string> overlapped = base;
  overlapped.emplace_back("overlap.experts=true");
  const StepReport plain = simulate_step(mixture_job(base)), beside = simulate_step(mixture_job(overlapped));
  const auto exposed = [](const StepReport& report) {
    return report.breakdown_s[static_cast<std::size_t>(Category::expert_comm)];
  };
  CHECK(beside.iteration < plain.iteration);
  CHECK(exposed(beside) < 0.7 * exposed(plain));
}
