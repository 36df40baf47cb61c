// Enumeration of layouts. It only leaves out what cannot divide; whether a layout runs is the loader's to say, so that
// the rules of the language have one place. Left out: batch sizes and placements.
#include "tools/study/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "sim/error.h"

namespace orrery::tools {

namespace {

constexpr std::int64_t kMostGpus = 1'048'576;

std::int64_t whole_number(const std::string& key, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > kMostGpus) {
    throw sim::UserError({"--vary", 0, 0}, key,
                         fmt::format("got {}, expected a whole number from 1 to {}", text, kMostGpus));
  }
  return value;
}

}  // namespace

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> small, large;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    small.push_back(d);
    if (d * d != n) large.push_back(n / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

std::vector<std::int64_t> chunk_counts(std::int64_t layers, std::int64_t pipeline) {
  std::vector<std::int64_t> chunks{1};
  const std::int64_t cells = layers + 2;
  for (std::int64_t n = 2; pipeline > 1 && n * pipeline <= cells; ++n) {
    const std::int64_t parts = n * pipeline;
    if (layers % parts == 0 || cells % parts == 0) chunks.push_back(n);
  }
  return chunks;
}

std::vector<std::pair<std::string, std::string>> settings_of(const Layout& layout) {
  const auto text = [](std::int64_t n) { return fmt::format("{}", n); };
  std::vector<std::pair<std::string, std::string>> settings{
      {"cluster.gpus", text(layout.gpus)},
      {"parallelism.tensor", text(layout.tensor)},
      {"parallelism.pipeline", text(layout.pipeline)},
      {"parallelism.virtual_pipeline", text(layout.chunks)},
      {"parallelism.data", text(layout.data)},
      {"batch.micro", text(layout.micro)},
      {"parallelism.sequence_parallel", layout.sequence_parallel ? "true" : "false"},
      {"parallelism.sharding", layout.sharding},
      {"recompute", layout.recompute},
      {"parallelism.schedule", layout.schedule}};
  if (layout.expert > 0) settings.emplace_back("parallelism.expert", text(layout.expert));
  if (layout.expert_tensor > 0) settings.emplace_back("parallelism.expert_tensor", text(layout.expert_tensor));
  if (!layout.dispatcher.empty()) settings.emplace_back("experts.dispatcher", layout.dispatcher);
  if (layout.tensor_in > 0) settings.emplace_back("parallelism.tensor_in", text(layout.tensor_in));
  if (layout.shard_group > 0) settings.emplace_back("parallelism.shard_group", text(layout.shard_group));
  return settings;
}

workloads::Job layoutless_job(const sim::Settings& document) {
  try {
    return scenarios::load_scenario(document).job;
  } catch (const sim::UserError&) {
    sim::Settings lone = document;
    const sim::Place place{"layout", 0, 0};
    try {
      lone.set_path("cluster.gpus", sim::Settings::scalar("1", place));
      lone.set_path("parallelism", sim::Settings::mapping(place));
      lone.set_path("batch.micro", sim::Settings::scalar("1", place));
      workloads::Job job = scenarios::load_scenario(lone).job;
      job.machine.gpus = document.at("cluster").at("gpus").as_int(1, kMostGpus);
      return job;
    } catch (const sim::UserError&) {
    }
    throw;
  }
}

LayoutSpace::LayoutSpace(sim::Settings document, const std::vector<Variation>& variations, const Reach& reach)
    : document_(std::move(document)), offers_(offers_of(document_)), reach_(reach) {
  const workloads::Job base = layoutless_job(document_);
  model_ = base.model;
  global_ = base.batch.global;
  others_ = base.parallelism.context;
  std::vector<std::string> keys;
  Layout any;
  if (model_.experts.any()) {
    any.expert = any.expert_tensor = 1;
    any.dispatcher = "alltoall";
  }
  any.tensor_in = any.shard_group = 1;
  for (const auto& [key, value] : settings_of(any)) keys.push_back(key);
  for (const Variation& variation : variations) {
    if (std::find(keys.begin(), keys.end(), variation.key) == keys.end()) {
      throw sim::UserError(
          {"--vary", 0, 0}, variation.key,
          fmt::format("is no key of a layout, expected {}, or --set for one value", fmt::join(keys, ", ")));
    }
    if (!given_.emplace(variation.key, variation.texts).second) {
      throw sim::UserError({"--vary", 0, 0}, variation.key, "is given a second time, expected once");
    }
  }
  for (const std::int64_t gpus : numbers("cluster.gpus", {base.machine.gpus})) enumerate(gpus);
}

std::vector<std::int64_t> LayoutSpace::numbers(const char* key, std::vector<std::int64_t> otherwise) const {
  const auto found = given_.find(key);
  if (found == given_.end()) return otherwise;
  std::vector<std::int64_t> values;
  for (const std::string& text : found->second) values.push_back(whole_number(key, text));
  return values;
}

std::vector<std::string> LayoutSpace::words(const char* key, std::vector<std::string> otherwise) const {
  const auto found = given_.find(key);
  return found == given_.end() ? otherwise : found->second;
}

void LayoutSpace::enumerate(std::int64_t gpus) {
  Layout layout;
  layout.gpus = gpus;
  if (gpus % others_ != 0) return;
  const std::vector<std::int64_t> one{1};
  std::vector<std::int64_t> tensors = offers_.tensor ? divisors(gpus / others_) : one;
  if (reach_.tensor > 0) std::erase_if(tensors, [&](std::int64_t ranks) { return ranks > reach_.tensor; });
  for (const std::int64_t tensor : numbers("parallelism.tensor", tensors)) {
    if (gpus % (tensor * others_) != 0 || model_.attention.heads % tensor != 0) continue;
    layout.tensor = tensor;
    const std::int64_t left = gpus / (tensor * others_);
    for (const std::int64_t pipeline : numbers("parallelism.pipeline", offers_.pipeline ? divisors(left) : one)) {
      if (left % pipeline != 0 || pipeline > model_.layers + 2) continue;
      layout.pipeline = pipeline;
      layout.data = left / pipeline;
      const std::vector<std::int64_t> data = numbers("parallelism.data", {layout.data});
      if (std::find(data.begin(), data.end(), layout.data) == data.end() || global_ % layout.data != 0) continue;
      enumerate_experts(layout);
    }
  }
}

void LayoutSpace::enumerate_experts(Layout layout) {
  const workloads::Experts& experts = model_.experts;
  if (!experts.any()) return enumerate_rest(layout);
  const std::int64_t ranks = layout.tensor * layout.data * others_;
  std::vector<std::int64_t> parts{1};
  if (layout.tensor > 1) parts.push_back(layout.tensor);
  for (const std::int64_t expert : numbers("parallelism.expert", divisors(std::gcd(experts.count, ranks)))) {
    for (const std::int64_t tensor : numbers("parallelism.expert_tensor", parts)) {
      if (ranks % (expert * tensor) != 0 || experts.ffn_hidden % tensor != 0) continue;
      layout.expert = expert;
      layout.expert_tensor = tensor;
      enumerate_rest(layout);
    }
  }
}

void LayoutSpace::enumerate_rest(Layout layout) {
  const std::vector<std::string> all_sharding{"none", "optimizer", "gradients", "parameters"};
  const bool replicated = layout.data * others_ > 1;
  const std::vector<std::string> sharding =
      words("parallelism.sharding",
            replicated ? offers_.sharding_of(all_sharding, layout.pipeline > 1) : std::vector<std::string>{"none"});
  const std::vector<std::string> truths{"true", "false"};
  const std::vector<std::string> sequence =
      words("parallelism.sequence_parallel", layout.tensor == 1   ? std::vector<std::string>{"false"}
                                             : reach_.in_sequence ? std::vector<std::string>{"true"}
                                                                  : std::vector<std::string>{"false", "true"});
  std::vector<std::int64_t> micros = divisors(global_ / layout.data);
  if (reach_.pass_tokens > 0)
    std::erase_if(micros, [&](std::int64_t n) { return n > 1 && n * model_.seq > reach_.pass_tokens; });
  for (const std::int64_t n : numbers("parallelism.virtual_pipeline", chunk_counts(model_.layers, layout.pipeline))) {
    layout.chunks = n;
    for (const std::int64_t micro : numbers("batch.micro", micros)) {
      layout.micro = micro;
      for (const std::string& with : sequence) {
        if (std::find(truths.begin(), truths.end(), with) == truths.end()) {
          throw sim::UserError({"--vary", 0, 0}, "parallelism.sequence_parallel",
                               fmt::format("got {}, expected true or false", with));
        }
        layout.sequence_parallel = with == "true";
        for (const std::string& what : sharding) {
          layout.sharding = what;
          for (const std::string& again : words("recompute", offers_.recompute_of({"none", "selective", "full"}))) {
            layout.recompute = again;
            const std::string usual(workloads::usual_schedule(n).name);
            const bool offered = n == 1 || offers_.has_schedule(usual);
            for (const std::string& schedule : words(
                     "parallelism.schedule", offered ? std::vector<std::string>{usual} : std::vector<std::string>{})) {
              layout.schedule = schedule;
              enumerate_groups(layout);
            }
          }
        }
      }
    }
  }
}

void LayoutSpace::enumerate_groups(Layout layout) {
  // Only where asked for: few programs cut a tensor group in two dimensions, or states over less than all ranks, and a
  // training framework has the dispatchers that it has.
  for (const std::int64_t in : numbers("parallelism.tensor_in", {0})) {
    if (in > 0 && layout.tensor % in != 0) continue;
    layout.tensor_in = in;
    for (const std::int64_t group : numbers("parallelism.shard_group", {0})) {
      if (group > 0 && (layout.data * others_) % group != 0) continue;
      layout.shard_group = group;
      // Ranks that share no experts out send no tokens, by whatever dispatcher.
      const std::vector<std::string> dispatchers = words("experts.dispatcher", {""});
      const std::size_t apart = layout.expert > 1 ? dispatchers.size() : std::min<std::size_t>(1, dispatchers.size());
      for (std::size_t i = 0; i < apart; ++i) {
        layout.dispatcher = dispatchers[i];
        layouts_.push_back(layout);
      }
    }
  }
}

LayoutSpace::Laid LayoutSpace::laid_out(const Layout& layout) {
  Laid laid;
  {
    const std::lock_guard lock(mutex_);
    if (!laid_.empty()) {
      laid = std::move(laid_.back());
      laid_.pop_back();
    }
  }
  if (laid.settings.empty()) laid.document = document_;
  auto settings = settings_of(layout);  // the same keys in the same order for all layouts of the space
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const auto& [key, value] = settings[i];
    if (i < laid.settings.size() && laid.settings[i].second == value) continue;
    laid.document.set_path(key, sim::Settings::scalar(value, {"layout", 0, 0}));
  }
  laid.settings = std::move(settings);
  return laid;
}

scenarios::Scenario LayoutSpace::load(const Layout& layout) {
  const auto give_back = [this](Laid* laid) {
    const std::lock_guard lock(mutex_);
    laid_.push_back(std::move(*laid));
  };
  Laid laid = laid_out(layout);
  const std::unique_ptr<Laid, decltype(give_back)> lent(&laid, give_back);  // layouts that are refused give it back too
  const sim::Settings& document = laid.document;
  std::shared_ptr<Loaded> machine;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = machines_.find(layout.gpus); found != machines_.end()) machine = found->second;
  }
  scenarios::Scenario scenario = machine ? scenarios::load_variant(machine->scenario, document, &machine->clocks)
                                         : scenarios::load_scenario(document);
  scenario.job.evaluation = {};
  if (!machine) {
    const std::lock_guard lock(mutex_);
    if (auto& loaded = machines_[layout.gpus]; !loaded) {
      loaded = std::make_shared<Loaded>();
      loaded->scenario = scenario;
    }
  }
  return scenario;
}

bool LayoutSpace::wants_detail() {
  const std::lock_guard lock(mutex_);
  return keeps_details_ && details_.size() < kMostDetails;
}

void LayoutSpace::keep(std::size_t layout, const workloads::StepReport& report) {
  const std::lock_guard lock(mutex_);
  details_.insert_or_assign(layout, Detail{report.breakdown_s, report.assumptions});
}

const LayoutSpace::Detail* LayoutSpace::detail_of(std::size_t layout) const {
  const auto found = details_.find(layout);
  return found != details_.end() ? &found->second : nullptr;
}

}  // namespace orrery::tools
