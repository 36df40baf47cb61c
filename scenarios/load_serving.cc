// Settings -> ServingScenario.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "scenarios/library.h"
#include "scenarios/load.h"
#include "scenarios/load_changes.h"
#include "scenarios/load_sampling.h"
#include "scenarios/load_served_model.h"
#include "scenarios/schema.h"
#include "scenarios/schema_serving.h"
#include "scenarios/serving.h"
#include "scenarios/shipped_only.h"
#include "sim/long_time.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::WeightType;

namespace {

constexpr const char* kDefaultEngine = "vllm-0.15";

void assumed(ServingScenario& s, std::string_view key, std::string_view value, std::string_view why) {
  s.assumptions.push_back(fmt::format("{} is not given: {}, {}.", key, value, why));
}

bool has_states(const workloads::Model& model) {
  const std::vector<workloads::Model::Block>& kinds = model.pattern.kinds;
  return std::any_of(kinds.begin(), kinds.end(), [](const workloads::Model::Block& b) { return b.state.any(); });
}

WeightType type_of(const Settings& value) {
  const std::string name = value.as_choice(served_type_names());
  const auto at = std::find(served_type_names().begin(), served_type_names().end(), name);
  return static_cast<WeightType>(at - served_type_names().begin());
}

/// What lies in 16 bits is bf16 where the device has it, else fp16, which takes as much room and time.
void take_half_precision(const Settings* section, ServingScenario& s) {
  const Settings* type = section != nullptr && section->is_mapping() ? given(section, "activations") : nullptr;
  const std::string said = type != nullptr ? type->as_choice({"bf16", "fp16"}) : "";
  if (s.machine.device.has(calibration::DataType::bf16)) return;
  if (said == "bf16")
    type->fail(fmt::format("got bf16, which {} has no arithmetic for, expected fp16", s.machine.device.name()));
  if (said.empty())
    assumed(s, "precision.activations", "fp16",
            fmt::format("as {} has no bf16; weights and caches of 16 bits are fp16 too", s.machine.device.name()));
}

void load_served_precision(const Settings& document, ServingScenario& s) {
  const Settings* section = given(&document, "precision");
  take_half_precision(section, s);
  workloads::ServedPrecision& precision = s.replica.precision;
  if (section != nullptr && section->is_scalar()) {
    precision.weights = precision.attention = precision.experts = type_of(*section);
    return;
  }
  for (const char* key : {"matmul", "gradients", "parameters"}) {
    if (const Settings* other = given(section, key); other != nullptr)
      other->fail("is of training, expected weights, experts, kv_cache or activations where a model is served");
  }
  const bool said = given(section, "weights") != nullptr;
  const Settings model = resolve(shelf_of("models"), required(document, "model")).document;
  const auto taken = [&](const char* key, WeightType fallback) {
    if (const Settings* type = given(section, key); type != nullptr) return type_of(*type);
    const Settings* published = said ? nullptr : model.find_path(fmt::format("served.{}", key));
    const WeightType type = published != nullptr ? type_of(*published) : fallback;
    if (published != nullptr || std::string_view(key) == "weights")
      assumed(s, fmt::format("precision.{}", key), name_of(type), "as the model was published");
    return type;
  };
  precision.weights = taken("weights", WeightType::bf16);
  precision.attention = taken("attention", precision.weights);
  precision.experts = taken("experts", precision.weights);
  const Settings* cache = given(section, "kv_cache");
  if (cache == nullptr) assumed(s, "precision.kv_cache", "bf16", "engines' default");
  precision.kv_bytes = cache != nullptr && cache->as_choice({"bf16", "fp8"}) == "fp8" ? 1 : 2;
  if (const Settings* states = given(section, "states"); states != nullptr) {
    if (!has_states(s.replica.model))
      states->fail(
          fmt::format("is of mixers with a state, which {} has not, expected no such key", s.replica.model.name));
    precision.state_bytes = states->as_choice({"bf16", "fp32"}) == "bf16" ? 2 : 4;
  }
}

/// What the model's published implementation computes otherwise than most, and what the scenario says instead.
void load_implementation(const Settings& document, ServingScenario& s) {
  using workloads::QkNorm;
  using workloads::RouterType;
  workloads::ServedPrecision& precision = s.replica.precision;
  const Settings model = resolve(shelf_of("models"), required(document, "model")).document;
  const Settings* served = given(&model, "served");
  if (served != nullptr && !served->is_mapping()) served->expected("a mapping, as in {router: fp32}");
  const auto take_router = [&](const Settings* key) {
    if (key == nullptr) return;
    const std::vector<std::string> names{"bf16", "fp32", "tf32"};
    const auto at = std::find(names.begin(), names.end(), key->as_choice(names));
    precision.router = static_cast<RouterType>(at - names.begin());
  };
  take_router(given(served, "router"));
  const Settings* section = given(&document, "precision");
  if (const Settings* router = section != nullptr && !section->is_scalar() ? given(section, "router") : nullptr) {
    if (!s.replica.model.experts.any())
      router->fail(
          fmt::format("is of models with experts, which {} has not, expected no such key", s.replica.model.name));
    take_router(router);
  }
  precision.routing_power = number(served, "routing_power", 0);
  if (const Settings* norm = given(served, "qk_norm_over"); norm != nullptr)
    precision.qk_norm = norm->as_choice({"head", "all_heads"}) == "head" ? QkNorm::of_heads : QkNorm::of_all;
}

/// Heads of a block's mixers over the tensor ranks; those of keys that are fewer than ranks have copies.
void check_block(const Settings& pool, const workloads::Model::Block& block, const workloads::ServedLayout& layout) {
  const auto check = [&](std::int64_t heads, std::int64_t of_keys) {
    if (heads % layout.tensor != 0 || (of_keys % layout.tensor != 0 && layout.tensor % of_keys != 0))
      fail_at(
          pool, "parallelism.tensor",
          fmt::format("got {}, expected what divides the {} heads of a block, and divides or is a multiple of its {} "
                      "of keys",
                      layout.tensor, heads, of_keys));
  };
  if (block.attends) check(block.attention.heads, block.attention.kv_heads);
  if (block.state.any()) check(block.state.heads, block.state.key_heads);
}

void check_layout(const Settings& pool, const ServingScenario& s, const workloads::ServedLayout& layout) {
  const workloads::Model& model = s.replica.model;
  const auto refuse = [&](const char* key, const std::string& message) {
    fail_at(pool, fmt::format("parallelism.{}", key), message);
  };
  if (model.attention.heads % layout.tensor != 0)
    refuse("tensor",
           fmt::format("got {}, expected a divisor of the model's {} heads", layout.tensor, model.attention.heads));
  if (model.attention.kv_heads % layout.tensor != 0 && layout.tensor % model.attention.kv_heads != 0)
    refuse("tensor", fmt::format("got {}, expected a divisor or a multiple of the model's {} heads of keys",
                                 layout.tensor, model.attention.kv_heads));
  for (const workloads::Model::Block& block : model.pattern.kinds) check_block(pool, block, layout);
  if (layout.tensor > s.machine.gpus_per_node && layout.tensor % s.machine.gpus_per_node != 0)
    refuse("tensor", fmt::format("got {}, expected at most the {} GPUs of a node or a multiple of them", layout.tensor,
                                 s.machine.gpus_per_node));
  if (layout.pipeline > model.layers)
    refuse("pipeline", fmt::format("got {}, expected at most the model's {} layers", layout.pipeline, model.layers));
  if (!layout.experts_apart() && layout.stage_gpus() % layout.expert != 0)
    refuse("expert", fmt::format("got {}, expected a divisor of tensor x attention_data = {}", layout.expert,
                                 layout.stage_gpus()));
  if (layout.expert > 1 && !model.experts.any())
    refuse("expert", fmt::format("got {}, but {} has no experts, expected 1", layout.expert, model.name));
  if (model.experts.any() && layout.expert > model.experts.count)
    refuse("expert",
           fmt::format("got {}, expected at most the model's {} experts", layout.expert, model.experts.count));
}

/// Experts on GPUs of their own, where answers are written.
void check_experts_apart(const Settings& pool, const ServingScenario& s, const workloads::ServedLayout& layout) {
  if (!layout.experts_apart()) {
    if (layout.micro_batches > 1)
      fail_at(pool, "parallelism.micro_batches", "are of experts on GPUs of their own, expected expert_gpus beside it");
    return;
  }
  const auto refuse = [&](const std::string& message) { fail_at(pool, "parallelism.expert_gpus", message); };
  const workloads::Model& model = s.replica.model;
  if (!model.experts.any()) refuse(fmt::format("got {}, but {} has no experts", layout.expert_gpus, model.name));
  if (layout.pipeline > 1) refuse("is of a replica without stages, expected pipeline: 1");
  if (layout.expert < 2 || layout.expert_gpus % layout.expert != 0)
    refuse(fmt::format("got {}, expected a multiple of expert, which is {} and has to be at least 2",
                       layout.expert_gpus, layout.expert));
  const Settings* role = given(&pool, "role");
  if (role == nullptr || role->text() != "decode")
    refuse("is of pools that write answers, expected role: decode, and a pool of role prefill beside");
}

/// `apart`: of two pools, each of which says how many replicas it has.
void load_pool_layout(const Settings& pool, ServingScenario& s, ServedPool& p, bool apart) {
  const Settings* section = given(&pool, "parallelism");
  workloads::ServedLayout& layout = p.replica.layout;
  layout.tensor = integer(section, "tensor", 1);
  layout.pipeline = integer(section, "pipeline", 1);
  layout.expert = integer(section, "expert", 1);
  layout.attention_data = integer(section, "attention_data", 1);
  layout.redundant_experts = integer(&pool, "redundant_experts", 0);
  layout.expert_gpus = integer(section, "expert_gpus", 0);
  layout.micro_batches = integer(section, "micro_batches", layout.experts_apart() ? 3 : 1);
  check_layout(pool, s, layout);
  check_experts_apart(pool, s, layout);
  const std::int64_t each = layout.gpus();
  const std::int64_t room = s.share.gpus;
  if (each > room)
    fail_at(pool, "parallelism", fmt::format("takes {} GPUs a replica, but {} {}", each, owner_of(s), room));
  p.replicas = integer(&pool, "replicas", apart ? 1 : room / each);
  if (given(&pool, "replicas") == nullptr)
    assumed(s, "serving.pools[].replicas", std::to_string(p.replicas),
            apart ? "one of each role" : "as many as the cluster's GPUs make");
  if (p.replicas * each > room)
    fail_at(pool, "replicas", fmt::format("got {} of {} GPUs, but {} {} GPUs", p.replicas, each, owner_of(s), room));
}

/// What a prompt's beginning leaves in a state is gone behind its next token, so that engines look nothing up unless
/// they are told to keep copies.
void say_prefixes_of_states(const Settings& pool, ServingScenario& s, const ServedPool& p) {
  if (given(&pool, "prefix_caching") == nullptr)
    assumed(s, "serving.pools[].prefix_caching", "false", "engines' default for mixers with a state");
  else if (p.prefix_caching)
    s.assumptions.emplace_back(
        "serving.pools[].prefix_caching: copies of states at the ends of shared blocks take no memory here.");
}

void load_limits(const Settings& pool, ServingScenario& s, ServedPool& p) {
  // As --enforce-eager of vLLM: every kernel is launched by the host, and no graph takes memory.
  p.captures_graphs = pool.get_choice("graphs", "default", {"default", "none"}) == "default";
  if (!p.captures_graphs) p.replica.engine.graph_sizes.clear();
  const calibration::ServingEngine& engine = p.replica.engine;
  const auto& defaults = engine.defaults;
  const bool excepted = !defaults.large_except.empty() && s.machine.device.name().starts_with(defaults.large_except);
  const bool large = defaults.large_memory > 0 && !excepted &&
                     static_cast<double>(s.machine.device.memory().value()) >= defaults.large_memory;
  const auto taken = [&](const char* key, std::int64_t fallback) {
    if (given(&pool, key) != nullptr) return integer(&pool, key, fallback);
    assumed(s, fmt::format("serving.pools[].{}", key), std::to_string(fallback),
            fmt::format("the default of {}", engine.name));
    return fallback;
  };
  p.limits.max_sequences = taken("max_sequences", large ? defaults.large_max_sequences : defaults.max_sequences);
  p.limits.max_batched_tokens =
      taken("max_batched_tokens", large ? defaults.large_max_batched_tokens : defaults.max_batched_tokens);
  p.limits.block_tokens = integer(&pool, "block_tokens", defaults.block_tokens);
  const bool encodes = workloads::answers_with_states(p.replica.model);
  p.limits.memory_utilization = number(&pool, "memory_utilization", defaults.memory_utilization);
  p.chunked_prefill = boolean(&pool, "chunked_prefill", defaults.chunked_prefill && !encodes);
  p.prefix_caching =
      boolean(&pool, "prefix_caching", defaults.prefix_caching && !encodes && !has_states(p.replica.model));
  if (has_states(p.replica.model)) say_prefixes_of_states(pool, s, p);
  if (p.limits.max_batched_tokens < p.limits.max_sequences) {
    if (given(&pool, "max_sequences") == nullptr)
      p.limits.max_sequences = p.limits.max_batched_tokens;  // nobody asked for more
    else
      fail_at(pool, "max_batched_tokens",
              fmt::format("got {}, expected at least max_sequences = {}: every sequence has a token an iteration",
                          p.limits.max_batched_tokens, p.limits.max_sequences));
  }
  p.batching = serving::find_batching(text(&pool, "batching", engine.batching));
  if (p.batching == nullptr) given(&pool, "batching")->as_choice(serving::batching_names());
}

/// When prompts are taken in: how often the scheduler looks, and what it waits for.
void load_waits(const Settings& pool, ServedPool& p) {
  p.polls_every = integer(&pool, "polls_every", 1);
  const std::string order = pool.get_choice("order", "arrival", {"arrival", "priority"});
  p.order = order == "priority" ? serving::Order::priority : serving::Order::arrival;
  p.max_waiting = integer(&pool, "max_waiting", 0);
  p.max_cache_tokens = integer(&pool, "max_cache_tokens", 0);
  if (p.max_cache_tokens > 0 && p.max_cache_tokens < p.limits.block_tokens)
    fail_at(pool, "max_cache_tokens",
            fmt::format("got {}, expected at least the {} of a block", p.max_cache_tokens, p.limits.block_tokens));
  const Settings* section = given(&pool, "gather");
  if (section == nullptr) return;
  if (!section->is_mapping()) section->expected("a mapping, as in {iterations: 20, fill: 0.9}");
  p.gather = {required(*section, "iterations").as_int(), integer(section, "prompts", 0), number(section, "fill", 0)};
  if (p.gather.prompts == 0 && p.gather.fill == 0)
    section->fail("says not what prompts wait for, expected fill or prompts");
}

/// Drafts: tokens that a further layer proposes, and how many of them are taken in the mean.
void load_speculation(const Settings& pool, ServedPool& p) {
  const Settings* section = given(&pool, "speculative");
  if (section == nullptr) return;
  if (!section->is_mapping()) section->expected("a mapping, as in {method: mtp, tokens: 1, accepted: 0.8}");
  section->get_choice("method", "mtp", {"mtp"});
  p.replica.speculation.tokens = integer(section, "tokens", 1);
  p.replica.speculation.accepted = required(*section, "accepted").as_number(0, 100);
  if (p.replica.speculation.accepted > static_cast<double>(p.replica.speculation.tokens))
    fail_at(pool, "speculative.accepted",
            fmt::format("got {:g}, expected at most the {} tokens that are drafted", p.replica.speculation.accepted,
                        p.replica.speculation.tokens));
}

/// Two pools: what hands the cache over between them.
void load_transfer(const Settings& section, ServingScenario& s) {
  const Settings* transfer = given(&section, "kv_transfer");
  if (!s.answers) {
    if (transfer != nullptr)
      transfer->fail("is between two pools, expected one of role prefill and one of role decode");
    return;
  }
  s.transfer.first_token = static_cast<serving::FirstToken>(s.replica.engine.first_token);
  if (transfer == nullptr) {
    assumed(s, "serving.kv_transfer", "a prompt's cache flows once it is computed", "at the network's rate");
    return;
  }
  if (transfer->get_choice("mode", "whole", {"whole", "layer_by_layer"}) == "layer_by_layer")
    s.transfer.handing = serving::Handing::layer_by_layer;
  s.transfer.latency_s = sim::to_seconds(transfer->get_duration("latency", sim::Duration{}));
  if (const Settings* first = given(transfer, "first_token"); first != nullptr) {
    const std::string name = first->as_choice({"prefill", "transfer", "decode"});
    s.transfer.first_token = name == "prefill"  ? serving::FirstToken::prefill
                             : name == "decode" ? serving::FirstToken::decode
                                                : serving::FirstToken::transfer;
  }
}

/// Tiers of the cache below the GPUs.
void load_tiers(const Settings& pool, ServedPool& p) {
  constexpr std::size_t kMost = 8;
  const Settings *list = given(&pool, "cache_tiers"), *write = given(&pool, "tier_write");
  if (list == nullptr) {
    if (write != nullptr) write->fail("is of tiers below the cache, expected cache_tiers beside it");
    return;
  }
  if (!list->is_sequence() || list->items().empty() || list->items().size() > kMost)
    list->expected(fmt::format("a list of 1 to {} tiers, as in [{{capacity: 400 GB, read_rate: 100 GB/s}}]", kMost));
  if (!p.prefix_caching) list->fail("holds beginnings of prompts, expected prefix_caching: true");
  for (const Settings& item : list->items()) {
    if (!item.is_mapping()) item.expected("a tier, as in {name: host, capacity: 400 GB, read_rate: 100 GB/s}");
    ServedPool::Tier tier;
    tier.name = text(&item, "name", fmt::format("tier {}", p.tiers.size() + 1));
    tier.bytes = static_cast<double>(required(item, "capacity").as_bytes().value());
    tier.rate = required(item, "read_rate").as_bandwidth().value();
    tier.latency_s = sim::to_seconds(item.get_duration("latency", sim::Duration{}));
    p.tiers.push_back(tier);
  }
  if (write != nullptr && write->as_choice({"on_eviction", "through"}) == "through")
    p.tier_write = serving::TierWrite::through;
}

void load_one_pool(const Settings& pool, ServingScenario& s, ServedPool& p, bool apart) {
  if (!pool.is_mapping()) pool.expected("a pool: a mapping of keys");
  load_pool_layout(pool, s, p, apart);
  load_limits(pool, s, p);
  load_waits(pool, p);
  load_speculation(pool, p);
  load_tiers(pool, p);
  load_changes(pool, s, p, apart);
  if (const Settings* slow = given(&pool, "slow"); slow != nullptr) {
    if (!slow->is_mapping()) slow->expected("a mapping, as in {replicas: 1, factor: 1.5}");
    p.slow = integer(slow, "replicas", 1);
    p.slow_factor = required(*slow, "factor").as_number(1, 1000);
    if (p.slow > p.replicas)
      fail_at(pool, "slow.replicas", fmt::format("got {}, expected at most the pool's {}", p.slow, p.replicas));
    s.assumptions.push_back(fmt::format("{} of {} replicas take {:g} times as long for every iteration.", p.slow,
                                        p.replicas, p.slow_factor));
  }
}

/// The pools by their roles: the one of prompts first.
void load_pools(const Settings& section, ServingScenario& s) {
  const Settings* pools = given(&section, "pools");
  const Settings alone = Settings::mapping(section.place(), "serving.pools[0]");
  if (pools != nullptr && (!pools->is_sequence() || pools->items().empty())) pools->expected("a list of pools");
  const auto role_of = [](const Settings& pool) {
    if (!pool.is_mapping()) pool.expected("a pool: a mapping of keys");
    const Settings* role = given(&pool, "role");
    return role != nullptr ? role->as_choice({"both", "prefill", "decode"}) : std::string("both");
  };
  if (pools == nullptr || pools->items().size() == 1) {
    const Settings& pool = pools != nullptr ? pools->items()[0] : alone;
    if (const std::string role = role_of(pool); role != "both")
      pool.at("role").fail(fmt::format("got {} alone, expected both, or a second pool of the other role", role));
    s.pool = text(&pool, "name", "all");
    load_one_pool(pool, s, s, false);
  } else {
    if (pools->items().size() > 2) pools->items()[2].fail("is a third pool, expected one of prefill and one of decode");
    const Settings *first = &pools->items()[0], *second = &pools->items()[1];
    if (role_of(*first) == "decode") std::swap(first, second);
    if (role_of(*first) != "prefill" || role_of(*second) != "decode")
      second->fail(fmt::format("is of the role {} beside one of {}, expected one of prefill and one of decode",
                               role_of(*second), role_of(*first)));
    s.answers = static_cast<const ServedPool&>(s);
    s.pool = text(first, "name", "prefill");
    s.answers->pool = text(second, "name", "decode");
    load_one_pool(*first, s, s, true);
    load_one_pool(*second, s, *s.answers, true);
    s.answers->prefix_caching = false;  // nothing is looked for there
  }
  const std::int64_t used = s.all_gpus();
  if (used > s.share.gpus)
    pools->items()[1].fail(
        fmt::format("makes {} GPUs with the other pool, but {} {}", used, owner_of(s), s.share.gpus));
  if (used < s.share.gpus && given(&section, "autoscale") == nullptr && !s.scales())
    s.assumptions.push_back(fmt::format("{} of the {} {} GPUs serve nobody.", s.share.gpus - used,
                                        s.share.gpus < s.machine.gpus ? "model's" : "cluster's", s.share.gpus));
}

void load_pool(const Settings& document, ServingScenario& s) {
  const Settings& section = document.at("serving");
  if (!section.is_mapping()) section.expected("a mapping, as in {pools: [{parallelism: {tensor: 4}}]}");
  load_pools(section, s);
  load_changes_of_all(section, s);
  load_transfer(section, s);
  const std::string router =
      section.get_choice("router", "round_robin", {"round_robin", "least_loaded", "prefix_aware"});
  for (const auto r : {serving::Router::round_robin, serving::Router::least_loaded, serving::Router::prefix_aware}) {
    if (name_of(r) == router) s.router = r;
  }
  s.router_looks_every_s = sim::to_seconds(section.get_duration("router_looks_every", sim::Duration{}));
  if (s.router_looks_every_s > 0 && s.router == serving::Router::round_robin)
    section.at("router_looks_every").fail("is of a router that looks, expected router: least_loaded or prefix_aware");
  s.front_ends = integer(&section, "front_ends", 1);
  if (s.front_ends > 1 && s.router != serving::Router::round_robin)
    section.at("front_ends").fail("deal in turn, expected router: round_robin");
  if (s.answers && s.answers->max_waiting > 0)
    section.at("pools").fail("has max_waiting where answers are written, expected it where prompts are computed");
  if (s.answers && !s.answers->tiers.empty())
    section.at("pools").fail("has cache_tiers where answers are written, expected them where prompts are computed");
  if (const Settings* slo = given(&section, "slo"); slo != nullptr) {
    s.slo.ttft_s = sim::to_seconds(slo->get_duration("ttft", sim::Duration{}));
    s.slo.tpot_s = sim::to_seconds(slo->get_duration("tpot", sim::Duration{}));
    s.slo.percentile = slo->get_number("percentile", 99);
    s.slo.window_s = sim::to_seconds(slo->get_duration("window", sim::seconds(s.slo.window_s)));
  }
}

serving::Length load_length(const Settings& traffic, const char* key, double ratio) {
  const Settings& value = required(traffic, key);
  serving::Length length;
  if (value.is_scalar()) {
    length.mean = static_cast<double>(value.as_int());
    if (ratio < 1) {
      length.spread = serving::Spread::uniform;
      length.low = std::max(1.0, std::floor(ratio * length.mean));
      length.high = length.mean;
      length.mean = (length.low + length.high) / 2;
    }
    return length;
  }
  if (!value.is_mapping()) value.expected("a number of tokens, or {mean: 512, distribution: lognormal}");
  const std::string spread = value.get_choice("distribution", "constant", {"constant", "uniform", "lognormal"});
  if (const Settings* most = given(&value, "max"); most != nullptr) length.most = most->as_number();
  if (spread == "uniform") {
    length.spread = serving::Spread::uniform;
    length.low = static_cast<double>(integer(&value, "min", 1));
    length.high = static_cast<double>(required(value, "max").as_int());
    if (length.high < length.low) value.at("max").fail("is below min, expected the longest length");
    length.mean = (length.low + length.high) / 2;
    return length;
  }
  length.mean = required(value, "mean").as_number();
  if (spread == "lognormal") {
    length.spread = serving::Spread::lognormal;
    length.variation = number(&value, "variation", 1);
  }
  return length;
}

/// "10/s", "3.5/min", "200/h".
double rate_of(const Settings& value) {
  constexpr const char* kForm = "requests a time, from 1e-6 to 1e9, as in 10/s, 90/min or 5000/h";
  const std::string& text = value.text();
  const std::size_t slash = text.find('/');
  if (!value.is_scalar() || slash == std::string::npos) value.expected(kForm);
  const std::string unit = text.substr(slash + 1);
  const double seconds = unit == "s" ? 1 : unit == "min" ? 60 : unit == "h" ? 3600 : 0;
  if (seconds == 0) value.expected(kForm);
  double count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + slash, count);
  if (error != std::errc() || end != text.data() + slash || !(count >= 1e-6 && count <= 1e9)) value.expected(kForm);
  return count / seconds;
}

/// What a session may come to be.
void check_session(const Settings& session, const ServingScenario& s) {
  const serving::Traffic& t = s.traffic;
  const double turns = t.session.turns.mean, each = t.input.mean + t.output.mean;
  constexpr double kMost = 1e6;
  if (turns * each > kMost)
    session.fail(fmt::format("comes to {:.3g} tokens in the mean, expected at most {:g}", turns * each, kMost));
}

/// Requests that an open loop comes to.
void check_count(const Settings& traffic, const serving::Traffic& t) {
  double level = t.levels.empty() ? 1 : 0;
  for (const double one : t.levels) level += one / static_cast<double>(t.levels.size());
  const double expected = t.requests > 0 ? static_cast<double>(t.requests) : level * t.rate * t.duration;
  if (expected > 0.9 * static_cast<double>(serving::kMostRequests))
    traffic.fail(fmt::format("comes to {:.3g} requests, expected at most {}", expected, serving::kMostRequests));
}

/// Shares of requests by priority.
void load_priorities(const Settings& section, serving::Traffic& traffic) {
  constexpr std::size_t kMost = 100;
  const Settings* list = given(&section, "priorities");
  if (list == nullptr) return;
  if (!list->is_sequence() || list->items().size() < 2 || list->items().size() > kMost)
    list->expected("a list of shares of requests, of the most urgent first, as in [0.2, 0.8]");
  double sum = 0;
  for (const Settings& share : list->items()) {
    traffic.priorities.push_back(share.as_number(0, 1000));
    sum += traffic.priorities.back();
  }
  if (!(sum > 0)) list->fail("are all 0, expected one above");
}

/// A load that rises and falls.
void load_levels(const Settings& section, serving::Traffic& traffic) {
  constexpr std::size_t kMost = 100'000;
  const Settings* levels = given(&section, "levels");
  if (levels == nullptr) return;
  if (!levels->is_sequence() || levels->items().empty() || levels->items().size() > kMost)
    levels->expected("a list of numbers, as in [0.5, 1, 2, 1]");
  if (traffic.duration == 0) levels->fail("are parts of the duration, expected duration beside them");
  double sum = 0;
  for (const Settings& level : levels->items()) {
    traffic.levels.push_back(level.as_number(0, 1000));
    sum += traffic.levels.back();
  }
  if (!(sum > 0)) levels->fail("are all 0, expected one above");
}

void load_traffic(const Settings& document, ServingScenario& s) {
  const Settings& section = document.at("traffic");
  if (!section.is_mapping()) section.expected("a mapping, as in {concurrency: 64, input: 1024, output: 1024}");
  serving::Traffic& traffic = s.traffic;
  const Settings *trace = given(&section, "trace"), *rate = given(&section, "rate"),
                 *concurrency = given(&section, "concurrency");
  if ((trace != nullptr) + (rate != nullptr) + (concurrency != nullptr) != 1) {
    std::string named;
    for (const auto& [key, value] : {std::pair{"trace", trace}, {"rate", rate}, {"concurrency", concurrency}})
      if (value != nullptr) named += (named.empty() ? "has " : " and ") + std::string(key);
    section.fail(
        fmt::format("{}, expected exactly one of trace, rate and concurrency; on the command line --set "
                    "'traffic={{trace: FILE}}' replaces all of it",
                    named.empty() ? "has none" : named));
  }
  const Settings* requests = given(&section, "requests");
  if (trace != nullptr) {
    if (only_shipped()) trace->fail("is a file of requests: files are read on the command line alone");
    for (const char* key : {"input", "output", "prefix", "arrivals", "burstiness", "duration", "levels", "warmup",
                            "length_ratio", "priorities"})
      if (const Settings* other = given(&section, key); other != nullptr)
        other->fail("is the trace's to say, expected no such key beside trace");
    const std::filesystem::path file(trace->text());
    const std::filesystem::path beside = std::filesystem::path(trace->place().file.text()).parent_path();
    s.trace_file = (file.is_absolute() ? file : beside / file).lexically_normal().string();
    s.time_scale = number(&section, "time_scale", 1);
    if (requests != nullptr) s.most_requests = requests->as_int();
    return;
  }
  traffic.seed = static_cast<std::uint64_t>(integer(&section, "seed", 1));
  const double ratio = number(&section, "length_ratio", 1);
  traffic.input = load_length(section, "input", ratio);
  traffic.output = load_length(section, "output", ratio);
  if (const Settings* prefix = given(&section, "prefix"); prefix != nullptr) {
    traffic.prefix.tokens = required(*prefix, "tokens").as_int();
    traffic.prefix.groups = integer(prefix, "groups", 1);
    if (traffic.prefix.tokens / s.limits.block_tokens * traffic.prefix.groups > 100'000'000)
      prefix->fail("holds more than 100000000 blocks of the cache, expected fewer or shorter prefixes");
  }
  if (const Settings* session = given(&section, "session"); session != nullptr) {
    if (concurrency != nullptr) session->fail("is of an open loop, expected no such key beside concurrency");
    if (!session->is_mapping()) session->expected("a mapping, as in {turns: 5, gap: 30 s}");
    traffic.session.turns = load_length(*session, "turns", 1);
    traffic.session.gap = sim::to_seconds(required(*session, "gap").as_duration());
    if (!(traffic.session.gap > 0)) fail_at(*session, "gap", "is 0, expected a time from one question to the next");
    check_session(*session, s);
  }
  load_priorities(section, traffic);
  traffic.warm_up = integer(&section, "warmup", 0);
  if (concurrency != nullptr) {
    for (const char* key : {"arrivals", "burstiness", "duration", "levels"})
      if (const Settings* other = given(&section, key); other != nullptr)
        other->fail("is of an open loop, expected no such key beside concurrency");
    if (s.max_waiting > 0)
      concurrency->fail("has no request come before another ends, expected rate or trace beside max_waiting");
    return take_under_way(document, s);
  }
  traffic.rate = rate_of(*rate);
  const std::string arrivals = section.get_choice("arrivals", "poisson", {"poisson", "gamma", "constant"});
  traffic.arrivals = arrivals == "gamma"      ? serving::Arrivals::gamma
                     : arrivals == "constant" ? serving::Arrivals::constant
                                              : serving::Arrivals::poisson;
  traffic.burstiness = number(&section, "burstiness", 1);
  traffic.duration = sim::to_seconds(section.get_duration("duration", sim::Duration{}));
  if (requests != nullptr) traffic.requests = requests->as_int() + traffic.warm_up;
  load_levels(section, traffic);
  if (traffic.duration == 0 && requests == nullptr)
    section.fail("says not how long requests come, expected duration or requests");
  check_count(section, traffic);
}

/// The iteration that `workload` asks for, of the traffic's mean lengths where it does not say its own.
void load_workload(const Settings& document, ServingScenario& s) {
  const Settings* section = given(&document, "workload");
  if (section == nullptr) return;
  const std::vector<std::string> kinds{"prefill", "decode"};
  const bool scalar = section->is_scalar();
  ServedWorkload& work = s.workload.emplace();
  work.decodes = (scalar ? section->as_choice(kinds) : section->get_choice("kind", "decode", kinds)) == "decode";
  const Settings* own = scalar ? nullptr : section;
  const auto whole = [](double tokens) { return std::max<std::int64_t>(1, std::llround(tokens)); };
  const double input = static_cast<double>(s.traffic.prefix.tokens) + s.traffic.input.mean,
               output = s.traffic.output.mean;
  const std::int64_t under_way = s.traffic.concurrency > 0 ? (s.traffic.concurrency + s.replicas - 1) / s.replicas
                                                           : std::min<std::int64_t>(64, s.limits.max_sequences);
  const auto taken = [&](const char* key, std::int64_t fallback) {
    if (given(own, key) == nullptr)
      assumed(s, fmt::format("workload.{}", key), std::to_string(fallback), "of the traffic");
    return integer(own, key, fallback);
  };
  work.sequences = taken("sequences", work.decodes ? under_way : 1);
  work.tokens = work.decodes ? integer(own, "tokens", 1) : taken("tokens", whole(input));
  work.cached = work.decodes ? taken("cached", whole(input + output / 2)) : integer(own, "cached", 0);
  if (work.decodes && work.tokens != 1)
    section->at("tokens").fail("is of prompts, expected 1: a sequence that decodes computes one token");
  if (work.decodes && work.cached < 1) section->at("cached").fail("is 0, expected a prompt that is decoded behind");
  constexpr double kMost = 1e9;
  const double keys = static_cast<double>(work.sequences) * static_cast<double>(work.cached + work.tokens);
  if (keys > kMost)
    section->fail(fmt::format("comes to {:.3g} tokens, expected at most {:.3g} in an iteration", keys, kMost));
}

}  // namespace

calibration::ServingKernels kernels_of(const calibration::DeviceProfile& device, calibration::Engine engine) {
  const std::vector<std::string> names = shipped("serving");
  const bool ships = std::find(names.begin(), names.end(), device.name()) != names.end();
  const Settings* said = calibration::served_by_profile(device);
  if (!ships && said == nullptr) return {device, engine};
  Settings document;
  if (ships) document = resolve(shelf_of("serving"), Settings::scalar(device.name(), {})).document;
  if (said != nullptr) document = ships ? sim::overlay(document, *said) : *said;
  const calibration::ServingKernels own{device, engine, &document};
  // Of TensorRT-LLM's kernels for the least latency, those of blocks of fp8 were measured where SGLang calls them.
  if (engine == calibration::Engine::trtllm) {
    const calibration::ServingKernels sglang{device, calibration::Engine::sglang, &document};
    const calibration::ServingKernels kernels =
        own.with_least_latency_of(sglang).with_triton_of({device, calibration::Engine::vllm, &document});
    // Its table of products in nvfp4 ran the kernel that it takes unasked, without the search that the engine begins
    // with (ai-dynamo/aiconfigurator, collector/trtllm/collect_gemm.py, against collect_moe.py beside it, which
    // searches): with few rows those take 1.5 times as long as SGLang's, whose table has the same work, the cast of
    // blocks too.
    return sglang.has_products(WeightType::nvfp4) ? kernels.with_products_of(sglang, WeightType::nvfp4) : kernels;
  }
  if (engine == calibration::Engine::sglang) return own;
  // Its table of experts in fp8 is of ModelOpt's checkpoints, with one scale a matrix, on kernels of FlashInfer that
  // reach a sixth of the memory's bandwidth. What most publish in fp8 has a scale a channel (compressed-tensors, or
  // made as it is loaded), and runs in grouped kernels of vLLM's own, as weights in blocks do
  // (fused_moe/oracle/fp8.py).
  const calibration::ServingKernels kernels = own.with_experts_as(WeightType::fp8, WeightType::fp8_block);
  // vLLM multiplies blocks of fp8 with DeepGEMM, as others do. Its own table has the casts ahead as eager operations of
  // PyTorch, 55 us on Hopper and 155 us on Blackwell whatever the size, which the engine compiles into a kernel.
  for (const calibration::Engine other : {calibration::Engine::sglang, calibration::Engine::trtllm}) {
    const calibration::ServingKernels theirs{device, other, &document};
    if (theirs.has_products(WeightType::fp8_block)) return kernels.with_products_of(theirs, WeightType::fp8_block);
  }
  return kernels;
}

calibration::ServingEngine load_engine(const Settings& reference) {
  const Resolved resolved = resolve(shelf_of("engines"), reference);
  calibration::ServingEngine engine = calibration::ServingEngine::load(resolved.document);
  if (serving::find_batching(engine.batching) == nullptr)
    resolved.document.at("batching").as_choice(serving::batching_names());
  return engine;
}

ServingScenario load_serving(const Settings& document, GpuShare share) {
  if (!document.is_mapping()) document.expected("a scenario: a mapping of keys");
  refuse_other_document(document);
  check_keys(document);
  if (given(&document, "serving") == nullptr)
    document.fail("has no section serving, expected one, as in serving: {pools: [{parallelism: {tensor: 4}}]}");
  for (const char* key : {"parallelism", "batch", "recompute", "optimizer", "offload", "overlap", "finetune",
                          "campaign", "evaluation", "training", "placement", "perturb", "attention", "measured"})
    if (const Settings* other = given(&document, key); other != nullptr)
      other->fail("is of training, expected no such key where a model is served");
  ServingScenario s;
  workloads::Job job;
  s.id = text(&document, "id", text(&document, "name", ""));
  if (s.id.empty()) s.id = std::filesystem::path(document.place().file.text()).stem().string();
  s.description = text(&document, "description", "");
  const Settings* software = given(&document, "software");
  if (software == nullptr) assumed(s, "software", kDefaultEngine, "the default engine");
  s.replica.engine = load_engine(software != nullptr ? *software : Settings::scalar(kDefaultEngine, document.place()));
  load_cluster(document, job);
  load_model(document, job);
  if (job.model.recommender.any())
    document.at("model").fail("is a recommender, expected a model of layers that writes tokens");
  check_served_model(document, job.model);
  say_served_mixers(job);
  load_power(document, job);
  s.machine = job.machine;
  s.share = {share.gpus > 0 ? share.gpus : s.machine.gpus, share.first};
  take_measured_host(s.machine.device, s.replica.engine, s.assumptions);
  s.power = job.power;
  const calibration::PowerModel& own = job.machine.device.power();
  s.replica.power = {s.power.at_temperature(own), own.limit};
  s.replica.power.board.limit = s.power.limit_of(own);
  s.replica.model = job.model;
  s.replica.gpus_per_node = job.machine.gpus_per_node;
  if (const topology::FabricSpec& fabric = job.machine.fabric; job.machine.gpus > job.machine.gpus_per_node) {
    const double nics = static_cast<double>(fabric.nics) / static_cast<double>(job.machine.gpus_per_node);
    s.replica.nic_rate = nics * fabric.nic_rate.value() * fabric.efficiency;
    s.replica.nic_latency = sim::to_seconds(fabric.message.latency) + 3 * sim::to_seconds(fabric.switches.latency);
  }
  s.replica.nvlink_rate = job.machine.node.rate.value();
  if (const workloads::Machine& m = s.machine; m.gpus > m.gpus_per_node)
    s.replica.across = std::make_shared<const workloads::SumsAcross>(
        workloads::Site{m.node, m.fabric, m.gpus, m.gpus_per_node, {}}, m.device,
        calibration::Software::load(
            resolve(shelf_of("software"), Settings::scalar(kDefaultSoftware, document.place())).document,
            recipe_book()));
  s.replica.exchanges.kernels = std::make_shared<const calibration::Dispatcher>(calibration::Dispatcher::load(
      resolve(shelf_of("dispatchers"), Settings::scalar(s.replica.engine.habits.exchanges, document.place()))
          .document));
  load_served_precision(document, s);
  load_implementation(document, s);
  load_pool(document, s);
  load_traffic(document, s);
  check_answers(document, s);
  load_sampling(document, s);
  load_workload(document, s);
  if (const Settings* cost = given(&document, "cost"); cost != nullptr)
    s.price_per_gpu_hour_usd = number(cost, "price_per_gpu_hour_usd", 0);
  s.assumptions.insert(s.assumptions.begin(), job.assumptions.begin(), job.assumptions.end());
  return s;
}

void take_under_way(const Settings& document, ServingScenario& s) {
  const Settings& section = document.at("traffic");
  const Settings &concurrency = section.at("concurrency"), *requests = given(&section, "requests");
  serving::Traffic& traffic = s.traffic;
  traffic.concurrency = concurrency.as_int();
  traffic.requests = requests != nullptr ? requests->as_int() : 10 * traffic.concurrency;
  if (requests == nullptr)
    assumed(s, "traffic.requests", std::to_string(traffic.requests), "ten rounds of those under way");
  traffic.requests += traffic.warm_up;
  check_count(section, traffic);
  if (traffic.concurrency < s.replicas)
    concurrency.fail(
        fmt::format("got {}, expected at least one for each of {} replicas", traffic.concurrency, s.replicas));
}

serving::Limits ServedPool::scheduler_limits(std::int64_t blocks) const {
  constexpr double kPicoseconds = 1e12;
  const calibration::ServingEngine& engine = replica.engine;
  const std::int64_t groups = replica.layout.attention_data, batches = groups * replica.layout.pipeline;
  const bool each = engine.sequences_of == calibration::SequencesOf::stage;
  serving::Limits out{limits.max_sequences * (each ? batches : groups),
                      limits.max_batched_tokens * batches,
                      blocks,
                      limits.block_tokens,
                      chunked_prefill,
                      prefix_caching,
                      batching,
                      static_cast<serving::Time>(engine.host.request * kPicoseconds),
                      engine.host.plans == calibration::Plans::ahead,
                      replica.tokens_per_iteration()};
  out.tier_write = tier_write;
  out.gather = {gather.iterations, std::llround(gather.fill * static_cast<double>(out.batched_tokens)), gather.prompts};
  out.polls_every = polls_every;
  out.order = order;
  out.waiting = max_waiting;
  out.front_token = static_cast<serving::Time>(engine.host.token * kPicoseconds);
  return out;
}

}  // namespace orrery::scenarios
