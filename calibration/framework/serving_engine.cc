// The keys of an engine's release, and their reader.
#include "calibration/framework/serving_engine.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "calibration/framework/choice.h"
#include "sim/key_rows.h"

namespace orrery::calibration {

namespace {

using sim::Settings;

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kEngines; ++i) names.emplace_back(name_of(static_cast<Engine>(i)));
  return names;
}

const std::vector<std::string>& overlap_names() {
  static const std::vector<std::string> kNames{"none", "schedule"};
  return kNames;
}

constexpr std::int64_t kMostTokens = 1'048'576;
constexpr std::size_t kMostGraphs = 4096;

/// "1 2 4 8:256:8": sizes, and ranges from, to and by.
std::vector<std::int64_t> served_sizes_of(const Settings& value) {
  constexpr const char* kForm = "sizes and ranges of tokens, as in \"1 2 4 8:256:8\"";
  std::vector<std::int64_t> sizes;
  const std::string& text = value.text();
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    std::array<std::int64_t, 3> range{0, 0, 1};
    std::size_t parts = 0;
    for (;;) {
      const auto [next, error] = std::from_chars(at, end, range[parts]);
      if (error != std::errc() || range[parts] < 1 || range[parts] > kMostTokens) value.expected(kForm);
      ++parts;
      at = next;
      if (at == end || *at != ':' || parts == range.size()) break;
      ++at;
    }
    if (at < end && *at != ' ') value.expected(kForm);
    if (parts == 1) range[1] = range[0];
    for (std::int64_t size = range[0]; size <= range[1]; size += range[2]) {
      sizes.push_back(size);
      if (sizes.size() > kMostGraphs) value.expected("at most 4096 sizes");
    }
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

double served_seconds_at(const Settings* section, std::string_view key) {
  return section != nullptr ? sim::to_seconds(section->get_duration(key, sim::Duration{})) : 0;
}

double bytes_at(const Settings* section, std::string_view key) {
  const Settings* value = section != nullptr ? section->find(key) : nullptr;
  return value != nullptr ? static_cast<double>(value->as_bytes().value()) : 0;
}

}  // namespace

std::int64_t ServingEngine::padded(std::int64_t tokens) const {
  const auto size = std::lower_bound(graph_sizes.begin(), graph_sizes.end(), tokens);
  return size != graph_sizes.end() ? *size : 0;
}

ServingEngine ServingEngine::load(const Settings& document) {
  serving_engine_keys().check(document);
  ServingEngine engine;
  engine.name = document.get_text("name", "inline");
  engine.provenance = document.get_text("provenance", "");
  engine.batching = document.at("batching").text();
  const std::string kernels = document.at("engine").as_choice(engine_names());
  for (std::size_t i = 0; i < kEngines; ++i) {
    if (name_of(static_cast<Engine>(i)) == kernels) engine.kernels = static_cast<Engine>(i);
  }
  Defaults& defaults = engine.defaults;
  defaults.max_sequences = document.get_int("max_sequences", defaults.max_sequences);
  defaults.max_batched_tokens = document.get_int("max_batched_tokens", defaults.max_batched_tokens);
  defaults.large_max_sequences = defaults.max_sequences;
  defaults.large_max_batched_tokens = defaults.max_batched_tokens;
  if (const Settings* large = document.find("large"); large != nullptr) {
    defaults.large_memory = bytes_at(large, "memory");
    defaults.large_except = large->get_text("except", "");
    defaults.large_max_sequences = large->get_int("max_sequences", defaults.max_sequences);
    defaults.large_max_batched_tokens = large->get_int("max_batched_tokens", defaults.max_batched_tokens);
  }
  defaults.block_tokens = document.get_int("block_tokens", defaults.block_tokens);
  defaults.memory_utilization = document.get_number("memory_utilization", defaults.memory_utilization);
  defaults.chunked_prefill = document.get_bool("chunked_prefill", defaults.chunked_prefill);
  defaults.prefix_caching = document.get_bool("prefix_caching", defaults.prefix_caching);
  if (const Settings* sizes = document.find("graph_sizes"); sizes != nullptr)
    engine.graph_sizes = served_sizes_of(*sizes);
  const Settings* host = document.find("host");
  engine.host = {served_seconds_at(host, "iteration"),
                 served_seconds_at(host, "sequence"),
                 served_seconds_at(host, "gap"),
                 served_seconds_at(host, "layer"),
                 served_seconds_at(host, "kernel"),
                 served_seconds_at(host, "request"),
                 served_seconds_at(host, "token"),
                 served_seconds_at(host, "exchange"),
                 HostOverlap::none,
                 Plans::at_once};
  if (host != nullptr && host->get_choice("overlap", "none", overlap_names()) == "schedule")
    engine.host.overlap = HostOverlap::schedule;
  engine.host.plans = choice_at(host, "plans", Plans{}, {"at_once", "ahead"});
  const Settings* habits = document.find("kernels");
  engine.habits = {InputCasts::found_scales,
                   choice_at(habits, "norms", Norms{}, {"own_kernels", "fused"}),
                   choice_at(habits, "shared_experts", SharedExperts{}, {"in_line", "beside"}),
                   choice_at(habits, "experts", ExpertKernels{}, {"grouped", "least_latency", "marlin"}),
                   choice_at(habits, "micro_batches", MicroBatches{}, {"one", "overlapped"}),
                   habits != nullptr ? habits->get_text("exchanges", "deepep") : std::string("deepep"),
                   habits != nullptr ? habits->get_number("few_rows", 256) : 256,
                   choice_at(habits, "latent", LatentCore{}, {"measured", "flash_mla"}),
                   choice_at(habits, "few_ranks", FewRanks{}, {"exchange", "gather"}),
                   choice_at(habits, "sums", Sums{}, {"own_kernels", "in_products"}),
                   choice_at(habits, "products", ProductKernels{}, {"unasked", "searched"})};
  const Settings* sampler = document.find("sampler");
  engine.sampler = {choice_at(sampler, "defaults", SamplingDefaults{}, {"model", "own", "greatest"}),
                    choice_at(sampler, "truncation", Truncation{}, {"sorted", "by_row", "rejection"})};
  const std::vector<std::string> shown{"prefill", "transfer", "decode"};
  if (document.get_choice("sequences_of", "replica", {"replica", "stage"}) == "stage")
    engine.sequences_of = SequencesOf::stage;
  const std::string first = document.get_choice("first_token", "transfer", shown);
  engine.first_token = static_cast<FirstShown>(std::find(shown.begin(), shown.end(), first) - shown.begin());
  if (habits != nullptr) {
    const std::vector<std::string> casts{"found_scales", "known_scales", "fused"};
    const std::string name = habits->get_choice("casts", casts.front(), casts);
    engine.habits.casts = static_cast<InputCasts>(std::find(casts.begin(), casts.end(), name) - casts.begin());
  }
  const Settings* reserve = document.find("reserve");
  engine.reserve = {
      bytes_at(reserve, "context"), bytes_at(reserve, "per_gpu"), 0, 0, bytes_at(reserve, "per_graph"), false};
  if (reserve != nullptr) {
    engine.reserve.per_logit = reserve->get_number("per_logit", 0);
    engine.reserve.per_activation = reserve->get_number("per_activation", 0);
    engine.reserve.of_free = reserve->get_choice("share_of", "total", {"total", "free"}) == "free";
  }
  return engine;
}

namespace {

std::vector<sim::Key> kernel_keys() {
  return {
      sim::key_row("kernels", "mapping", "", "-", {}, "How it puts kernels together."),
      sim::key_row(
          "kernels.casts", "choice", "", "found_scales", {"found_scales", "known_scales", "fused"},
          "Of activations to fp8 and nvfp4: by kernels that find scales, in one pass, or by the kernels ahead."),
      sim::key_row("kernels.norms", "choice", "", "own_kernels", {"own_kernels", "fused"},
                   "fused: the norm behind an all-reduce is part of it."),
      sim::key_row("kernels.sums", "choice", "", "own_kernels", {"own_kernels", "in_products"},
                   "in_products: an all-reduce is part of the product ahead of it."),
      sim::key_row("kernels.products", "choice", "", "unasked", {"unasked", "searched"},
                   "searched: a builder has timed all kernels of products in nvfp4, where the device's document says "
                   "what that gains."),
      sim::key_row("kernels.shared_experts", "choice", "", "in_line", {"in_line", "beside"},
                   "beside: while the routed ones run, where an iteration is captured."),
      sim::key_row("kernels.experts", "choice", "", "grouped", {"grouped", "least_latency", "marlin"},
                   "Which kernels run experts: TensorRT-LLM's for least latency, where attention is not data-parallel; "
                   "vLLM's Marlin, for weights of 4 bits."),
      sim::key_row(
          "kernels.micro_batches", "choice", "", "one", {"one", "overlapped"},
          "overlapped: where experts lie on many ranks, half of a batch computes while rows of the other half travel."),
      sim::key_row(
          "kernels.latent", "choice", "", "measured", {"measured", "flash_mla"},
          "Core of latent attention where sequences decode: as it was measured, or by FlashMLA's published rates."),
      sim::key_row("kernels.few_ranks", "choice", "", "exchange", {"exchange", "gather"},
                   "gather: where experts lie on no more ranks than a token has experts, all ranks gather all rows."),
      sim::key_row("kernels.exchanges", "text", "", "deepep", {},
                   "Library that sends tokens to experts of other ranks: a file of calibration/dispatchers."),
      sim::key_row("kernels.few_rows", "number", "rows", "256", {},
                   "Of a rank, up to which DeepEP's low-latency kernels run.", {"1", "65536"}),
  };
}

std::vector<sim::Key> sampler_keys() {
  return {
      {"sampler", "mapping", "", "-", {}, "How it comes from logits to tokens."},
      {"sampler.defaults",
       "choice",
       "",
       "model",
       {"model", "own", "greatest"},
       "Of what requests leave open: the model's generation_config, a draw from all tokens, or, whatever they ask for, "
       "the greatest logit."},
      {"sampler.truncation",
       "choice",
       "",
       "sorted",
       {"sorted", "by_row", "rejection"},
       "How top-p and top-k leave tokens out: PyTorch's sort, a Triton program for each row, FlashInfer's rejection."},
  };
}

std::vector<sim::Key> host_and_memory_keys() {
  return {
      sim::key_row("host", "mapping", "", "-", {}, "What the host spends."),
      sim::key_row("host.iteration", "quantity", "time", "0 s", {}, "Around each iteration.", {"0 s", "1 s"}),
      sim::key_row("host.sequence", "quantity", "time", "0 s", {}, "More for each sequence in it.", {"0 s", "1 s"}),
      sim::key_row("host.gap", "quantity", "time", "0 s", {}, "That the device stands still between iterations.",
                   {"0 s", "1 s"}),
      sim::key_row("host.layer", "quantity", "time", "0 s", {}, "To launch a layer between captured pieces.",
                   {"0 s", "1 s"}),
      sim::key_row("host.kernel", "quantity", "time", "0 s", {}, "To run an operation that is not captured.",
                   {"0 s", "1 s"}),
      sim::key_row("host.request", "quantity", "time", "0 s", {},
                   "From a request's arrival to the scheduler, and its first token's way back.", {"0 s", "10 s"}),
      sim::key_row("host.token", "quantity", "time", "0 s", {},
                   "Of a prompt, to make it of text, one request after the other.", {"0 s", "1 ms"}),
      sim::key_row("host.exchange", "quantity", "time", "0 s", {},
                   "That an all-reduce of a tensor group takes beyond its kernel.", {"0 s", "1 ms"}),
      sim::key_row("first_token", "choice", "", "transfer", {"prefill", "transfer", "decode"},
                   "Where prompts are computed apart: when the first token is shown, behind the prompt, when its cache "
                   "has arrived, or computed where the answer is."),
      sim::key_row(
          "sequences_of", "choice", "", "replica", {"replica", "stage"},
          "Whose number max_sequences is: the replica's, or that of each of the micro-batches on its pipeline stages."),
      sim::key_row("host.overlap", "choice", "", "none", overlap_names(),
                   "schedule: the next iteration is prepared while the device runs this one."),
      sim::key_row("host.plans", "choice", "", "at_once", {"at_once", "ahead"},
                   "ahead: an iteration is put together when the one before it begins, so that what comes meanwhile "
                   "waits for it."),
      sim::key_row("reserve", "mapping", "", "-", {}, "Memory that is neither weights nor cache."),
      sim::key_row("reserve.context", "quantity", "bytes", "0 B", {}, "Context and libraries.", {"0 B", "100 GB"}),
      sim::key_row("reserve.per_gpu", "quantity", "bytes", "0 B", {}, "Buffers for each further GPU of a tensor group.",
                   {"0 B", "10 GB"}),
      sim::key_row("reserve.per_logit", "number", "bytes", "0", {},
                   "The sampler's, for each token of the vocabulary and sequence.", {"0", "1000"}),
      sim::key_row("reserve.per_activation", "number", "bytes", "0", {},
                   "Held for each element of the hidden state of the largest batch.", {"0", "1000"}),
      sim::key_row("reserve.per_graph", "quantity", "bytes", "0 B", {}, "Of a captured size.", {"0 B", "10 GB"}),
      sim::key_row("reserve.share_of", "choice", "", "total", {"total", "free"},
                   "What memory_utilization is a share of: all memory, or what is free once weights are loaded."),
  };
}

}  // namespace

const sim::KeyTable& serving_engine_keys() {
  using sim::Key;
  static const sim::KeyTable kKeys = [] {
    std::vector<Key> all{
        sim::key_row("name", "text", "", "-", {}, "Of the release."),
        sim::key_row("provenance", "text", "", "-", {}, "Where its numbers come from."),
        sim::key_row("engine", "choice", "", "", engine_names(), "Whose kernels it runs."),
        sim::key_row("batching", "text", "", "", {}, "How it puts iterations together: a policy, by its name."),
        sim::key_row("max_sequences", "integer", "sequences", "256", {}, "Under way at a time.", {"1", "1000000"}),
        sim::key_row("max_batched_tokens", "integer", "tokens", "2048", {}, "Of an iteration.", {"1", "1000000"}),
        sim::key_row("large", "mapping", "", "-", {}, "Defaults on devices with much memory."),
        sim::key_row("large.memory", "quantity", "bytes", "", {}, "From so much on.", {"1 GB", "10 TB"}),
        sim::key_row("large.except", "text", "", "-", {}, "But not on devices whose names begin so."),
        sim::key_row("large.max_sequences", "integer", "sequences", "max_sequences", {}, "Under way at a time.",
                     {"1", "1000000"}),
        sim::key_row("large.max_batched_tokens", "integer", "tokens", "max_batched_tokens", {}, "Of an iteration.",
                     {"1", "1000000"}),
        sim::key_row("block_tokens", "integer", "tokens", "16", {}, "Of a block of the cache.", {"1", "4096"}),
        sim::key_row("memory_utilization", "number", "", "0.9", {}, "Share of memory that the engine takes.",
                     {"0.01", "1"}),
        sim::key_row("chunked_prefill", "boolean", "", "true", {},
                     "Prompts are cut to what an iteration has room for."),
        sim::key_row("prefix_caching", "boolean", "", "true", {}, "Beginnings of prompts are found in the cache."),
        sim::key_row("graph_sizes", "text", "tokens", "none", {},
                     "Sizes at which iterations are captured, and ranges from:to:by, as in \"1 2 4 8:256:8\"."),
    };
    for (const std::vector<Key>& keys : {kernel_keys(), sampler_keys(), host_and_memory_keys()})
      all.insert(all.end(), keys.begin(), keys.end());
    return sim::KeyTable(std::move(all));
  }();
  return kKeys;
}

}  // namespace orrery::calibration
