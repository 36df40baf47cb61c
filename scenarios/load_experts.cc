// Mixtures of experts: the model's keys beyond a dense decoder's, how ranks share out its experts, and the section
// `experts`, which says how tokens come to them. What is left open there is the training software's default.
#include "scenarios/load_experts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "calibration/device/routing.h"
#include "scenarios/library.h"
#include "scenarios/load.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::Job;

namespace {

const std::vector<std::string> kDispatcherNames{"alltoall", "allgather", "deepep", "hybridep"};

workloads::LatentAttention load_latent(const Settings& section) {
  workloads::LatentAttention latent;
  latent.kv_rank = required(section, "kv_lora").as_int();
  latent.q_rank = integer(&section, "q_lora", 0);
  latent.nope_dim = required(section, "qk_nope_dim").as_int();
  latent.rope_dim = required(section, "qk_rope_dim").as_int();
  latent.v_dim = required(section, "v_dim").as_int();
  return latent;
}

}  // namespace

void check_expert_counts(const Settings& section, const workloads::Model& model) {
  const workloads::Experts& experts = model.experts;
  if (experts.top_k > experts.count)
    section.at("top_k").fail(
        fmt::format("got {}, expected at most model.experts, which is {}", experts.top_k, experts.count));
  if (experts.count % experts.groups != 0)
    section.at("expert_groups")
        .fail(fmt::format("got {}, expected a divisor of model.experts, which is {}", experts.groups, experts.count));
  if (experts.top_groups > experts.groups)
    section.at("top_groups")
        .fail(fmt::format("got {}, expected at most model.expert_groups, which is {}", experts.top_groups,
                          experts.groups));
  if (experts.top_k > experts.count / experts.groups * experts.top_groups)
    section.at("top_groups")
        .fail(fmt::format("got {} of {} groups, expected enough for {} experts of {}", experts.top_groups,
                          experts.groups, experts.top_k, experts.count));
  if (experts.dense_layers >= model.layers)
    section.at("dense_layers")
        .fail(fmt::format("got {}, expected less than model.layers, which is {}", experts.dense_layers, model.layers));
  if (model.parallel_block)
    section.at("parallel_block").fail("got true, expected false: experts stand behind attention");
}

workloads::Experts load_routed(const Settings& section) {
  workloads::Experts experts;
  experts.count = required(section, "experts").as_int();
  experts.top_k = required(section, "top_k").as_int();
  experts.groups = integer(&section, "expert_groups", 1);
  experts.top_groups = integer(&section, "top_groups", experts.groups);
  experts.ffn_hidden = required(section, "expert_ffn_hidden").as_int();
  experts.latent = integer(&section, "expert_latent", 0);
  experts.shared = integer(&section, "shared_experts", 0);
  experts.shared_ffn_hidden = integer(&section, "shared_expert_ffn_hidden", experts.ffn_hidden);
  experts.shared_gate = boolean(&section, "shared_gate", false);
  experts.activation_clamp = number(&section, "activation_clamp", 0);
  return experts;
}

void load_mixture(const Settings& section, Job& job) {
  workloads::Model& model = job.model;
  const Settings* kind = given(&section, "kind");
  const bool mixture = kind != nullptr && kind->as_choice({"gpt", "moe", "dlrm"}) == "moe";
  const std::string attention = text(&section, "attention_kind", "usual");
  if (!mixture) {
    for (const char* key :
         {"experts", "top_k", "expert_groups", "top_groups", "expert_ffn_hidden", "expert_latent", "shared_experts",
          "shared_expert_ffn_hidden", "shared_gate", "dense_layers", "moe_every", "attention_kind", "q_lora", "kv_lora",
          "qk_nope_dim", "qk_rope_dim", "v_dim", "activation_clamp"}) {
      if (const Settings* member = given(&section, key); member != nullptr)
        member->fail("got a key of mixtures of experts, expected model.kind: moe beside it");
    }
    model.experts.mtp_layers = integer(&section, "mtp_layers", 0);
    return;
  }
  workloads::Experts& experts = model.experts;
  experts = load_routed(section);
  experts.dense_layers = integer(&section, "dense_layers", 0);
  experts.every = integer(&section, "moe_every", 1);
  model.experts.mtp_layers = integer(&section, "mtp_layers", 0);
  if (attention != "usual") section.at("attention_kind").as_choice({"usual", "mla"});
  if (attention == "mla") model.attention.latent = load_latent(section);
  check_expert_counts(section, model);
}

void load_expert_layout(const Settings& document, const Settings* section, Job& job) {
  workloads::Parallelism& layout = job.parallelism;
  layout.expert = integer(section, "expert", 1);
  layout.expert_tensor = integer(section, "expert_tensor", 1);
  const workloads::Experts& experts = job.model.experts;
  if (experts.any() && job.software.defaults.experts_follow_tensor && layout.expert_tensor != layout.tensor) {
    job.assumptions.push_back(fmt::format(
        "parallelism.expert_tensor {} is taken as {}: {} cuts experts over the tensor group like every other "
        "layer.",
        layout.expert_tensor, layout.tensor, job.software.name));
    layout.expert_tensor = layout.tensor;
  }
  for (const char* key : {"expert", "expert_tensor"}) {
    const Settings* degree = given(section, key);
    if (experts.any() || degree == nullptr || degree->as_int() == 1) continue;
    degree->fail(fmt::format("got {}, expected 1: model {} has no experts", degree->text(), job.model.name));
  }
  if (!experts.any()) return;
  if (experts.count % layout.expert != 0) {
    fail_at(document, "parallelism.expert",
            fmt::format("expected a divisor of model.experts, which is {}, got {}", experts.count, layout.expert));
  }
  if (experts.ffn_hidden % layout.expert_tensor != 0) {
    fail_at(document, "parallelism.expert_tensor",
            fmt::format("expected a divisor of model.expert_ffn_hidden, which is {}, got {}", experts.ffn_hidden,
                        layout.expert_tensor));
  }
  if (experts.shared_width() % layout.tensor != 0) {
    fail_at(document, "parallelism.tensor",
            fmt::format("expected a divisor of the shared experts' width, which is {}, got {}", experts.shared_width(),
                        layout.tensor));
  }
}

void check_experts(const Settings& document, const workloads::Experts& experts, const workloads::Parallelism& layout) {
  if (!experts.any()) return;
  const std::int64_t ranks = layout.tensor * layout.context * layout.data, group = layout.expert * layout.expert_tensor;
  if (ranks % group != 0) {
    fail_at(document, "parallelism.expert",
            fmt::format("expected a divisor of tensor {} x context {} x data {}{}, got {}", layout.tensor,
                        layout.context, layout.data,
                        layout.expert_tensor > 1 ? fmt::format(" / expert_tensor {}", layout.expert_tensor) : "",
                        layout.expert));
  }
  if (layout.tensor > 1 && !layout.sequence_parallel) {
    fail_at(document, "parallelism.sequence_parallel",
            fmt::format("got false, expected true: with tensor {} every rank of the group would route the same tokens",
                        layout.tensor));
  }
}

namespace {

/// How evenly routing deals tokens out: as told, evenly, or by a power law; then the busiest rank in the mean stands
/// for all of a group, or with a seed every rank draws its own.
void load_routing(const Settings* section, Job& job) {
  workloads::ExpertStyle& style = job.method.experts;
  const Settings* imbalance = given(section, "imbalance");
  const double skew = number(section, "skew", 0);
  const Settings* seed = given(section, "seed");
  if (imbalance != nullptr && skew > 0)
    imbalance->fail(fmt::format("got {}, expected none beside experts.skew, which it follows from", imbalance->text()));
  if (seed != nullptr && skew == 0)
    seed->fail(fmt::format("got {}, expected none without experts.skew: routing is balanced", seed->text()));
  style.imbalance = style.busiest = number(section, "imbalance", 1);
  if (skew == 0) {
    if (imbalance == nullptr) assume(job, "experts.imbalance", "1", "that is balanced routing");
    return;
  }
  const workloads::Parallelism& layout = job.parallelism;
  const workloads::Experts& experts = job.model.experts;
  const std::int64_t tokens =
      std::max<std::int64_t>(1, job.batch.micro * job.model.seq * layout.expert * layout.expert_tensor /
                                    (layout.context * (layout.sequence_parallel ? layout.tensor : 1)));
  style.busiest = calibration::busiest_rank({tokens, experts.top_k, experts.count, layout.expert, skew});
  style.imbalance = style.busiest;
  job.assumptions.push_back(fmt::format(
      "experts.skew: the busiest of {} ranks is given {:.2f} of the mean, in the mean.", layout.expert, style.busiest));
  if (seed == nullptr) return;
  style.imbalance = 1;
  job.perturbation.routing = {skew, static_cast<std::uint64_t>(integer(section, "seed", 0)), tokens, experts.top_k,
                              experts.count};
}

/// Experts with room for so many tokens drop the rest, so that no rank is given more than its experts have room for,
/// however routing deals them out; one that pads computes just that (Megatron-Core, megatron/core/transformer/moe/
/// moe_utils.py, topk_softmax_with_capacity). Ranks that draw their own tokens stay as drawn.
void cap_routing(Job& job) {
  workloads::ExpertStyle& style = job.method.experts;
  if (style.capacity_factor == 0) return;
  const double most = style.pads_to_capacity ? 1 : std::max(1.0, style.capacity_factor);
  if (style.imbalance <= most) return;
  job.assumptions.push_back(fmt::format(
      "experts.capacity_factor: of the {:.2f} times the mean that the busiest rank is given, its experts have "
      "room for {:.2f}; the rest is dropped.",
      style.imbalance, most));
  style.imbalance = style.busiest = most;
}

/// Whose kernels carry out the exchanges, and the SMs that they take.
void load_exchange_library(const Settings* section, workloads::ExpertStyle& style) {
  const Settings* processors = given(section, "dispatcher_sms");
  if (!workloads::sends_once(style.dispatcher)) {
    if (processors != nullptr)
      processors->expected(
          fmt::format("none with dispatcher {}: deepep and hybridep take SMs", name_of(style.dispatcher)));
    return;
  }
  const Settings name = Settings::scalar(std::string(name_of(style.dispatcher)), {"experts.dispatcher", 0, 0});
  auto kernels = std::make_shared<const calibration::Dispatcher>(
      calibration::Dispatcher::load(resolve(shelf_of("dispatchers"), name).document));
  const double own = kernels->processors();
  style.library = {std::move(kernels), number(section, "dispatcher_sms", own)};
}

/// Models of Hugging Face's transformers, which DeepSpeed and Accelerate train as they are, loop over the experts that
/// got tokens (modeling_qwen3_moe.py, modeling_mixtral.py: a for loop over expert_hit, each expert a module). Here the
/// products of all experts are one call.
void say_looped_experts(Job& job) {
  const std::string& name = job.software.name;
  if (!name.starts_with("deepspeed") && !name.starts_with("accelerate")) return;
  const std::int64_t experts = job.model.experts.count / std::max<std::int64_t>(1, job.parallelism.expert);
  const bool sharded = job.parallelism.sharding == workloads::Sharding::parameters;
  job.assumptions.push_back(fmt::format(
      "experts: models of Hugging Face loop over their experts, {} in a layer of a rank, each with launches{} "
      "of its own, which the host takes far longer over; not simulated: such a step may take many times as "
      "long as this one, whose experts run in one call.",
      experts, sharded ? " and gathers" : ""));
}

}  // namespace

void load_expert_style(const Settings& document, Job& job) {
  const Settings* section = given(&document, "experts");
  if (section != nullptr && !job.model.experts.any())
    section->fail(fmt::format("got {}, expected none: model {} has no experts", "a section", job.model.name));
  workloads::ExpertStyle& style = job.method.experts;
  if (!job.model.experts.any()) return;
  if (const Settings* name = given(section, "dispatcher"); name != nullptr) {
    const std::string word = name->as_choice(kDispatcherNames);
    style.dispatcher = static_cast<workloads::Dispatcher>(
        std::find(kDispatcherNames.begin(), kDispatcherNames.end(), word) - kDispatcherNames.begin());
  } else {
    assume(job, "experts.dispatcher", name_of(style.dispatcher), fmt::format("the default of {}", job.software.name));
  }
  say_looped_experts(job);
  load_exchange_library(section, style);
  style.grouped = boolean(section, "grouped_gemm", style.grouped);
  style.fused_mlp = boolean(section, "fused_mlp", style.fused_mlp);
  style.fp8_dispatch = boolean(section, "fp8_dispatch", style.fp8_dispatch);
  style.overlaps_shared = boolean(section, "overlap_shared", style.overlaps_shared);
  style.capacity_factor = number(section, "capacity_factor", 0);
  style.pads_to_capacity = boolean(section, "pad_to_capacity", false);
  if (style.pads_to_capacity && style.capacity_factor == 0)
    section->at("pad_to_capacity").fail("got true, expected false, or a capacity_factor beside it");
  style.fused_permutation = boolean(section, "fused_permutation", job.software.defaults.fused_permutation);
  if (style.fused_mlp && job.overlap.experts) style.spare_processors = job.software.layers.experts.spare_processors;
  style.paged_stash = boolean(section, "paged_stash", false);
  style.fused_router = boolean(section, "fused_router", style.fused_router);
  style.router_fp32 = boolean(section, "router_fp32", style.router_fp32);
  load_routing(section, job);
  if (given(section, "seed") == nullptr) cap_routing(job);
}

}  // namespace orrery::scenarios
