// Settings -> RlScenario. The engine's and the trainer's scenarios are put together as documents and read by those who
// read such scenarios, so that a key means here what it means there, and is refused with its own place in the file.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "scenarios/library.h"
#include "scenarios/load.h"
#include "scenarios/rl.h"
#include "scenarios/schema.h"
#include "scenarios/schema_rl.h"
#include "scenarios/yaml_text.h"

namespace orrery::scenarios {

using calibration::Padding;
using sim::Settings;

namespace {

constexpr const char* kDefaultFramework = "verl-0.7";
constexpr std::int64_t kMostAnswers = 1'000'000;

/// A choice that stands by itself or as a member `kind` beside others.
std::string choice_of(const Settings& section, std::string_view key, const std::string& fallback,
                      const std::vector<std::string>& choices) {
  const Settings* value = given(&section, key);
  if (value == nullptr) return fallback;
  if (value->is_mapping()) return value->get_choice("kind", fallback, choices);
  return value->as_choice(choices);
}

const Settings* mapping_at(const Settings& section, std::string_view key) {
  const Settings* value = given(&section, key);
  return value != nullptr && value->is_mapping() ? value : nullptr;
}

template <class Choice>
Choice named(const std::string& name, const std::vector<std::string>& names) {
  return static_cast<Choice>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::vector<std::pair<double, double>> load_percentiles(const Settings& section) {
  std::vector<std::pair<double, double>> rows;
  for (const auto& [name, value] : section.members()) {
    const std::string_view digits = std::string_view(name).substr(name.starts_with('p') ? 1 : 0);
    double percent = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), percent);
    if (error != std::errc() || end != digits.data() + digits.size() || !(percent > 0 && percent <= 100))
      value.fail("expected a per cent above 0 and up to 100, as in p99");
    const double tokens = value.as_number(1, 1e6);
    if (!rows.empty() && (percent <= rows.back().first || tokens < rows.back().second))
      value.fail("does not rise, expected per cents and tokens in rising order");
    rows.emplace_back(percent, tokens);
  }
  if (rows.empty()) section.expected("at least one, as in {p50: 900, p99: 8000}");
  return rows;
}

rl::Lengths load_rl_length(const Settings& rl, const char* key) {
  const Settings& value = required(rl, key);
  rl::Lengths length;
  if (value.is_scalar()) {
    length.mean = static_cast<double>(value.as_int(0, 1'000'000));
    length.most = std::max(1.0, length.mean);
    return length;
  }
  if (!value.is_mapping()) value.expected("a number of tokens, or {mean: 3000, variation: 0.8, max: 8192}");
  const Settings *mean = given(&value, "mean"), *percentiles = given(&value, "percentiles");
  if ((mean == nullptr) == (percentiles == nullptr)) value.fail("expected exactly one of mean and percentiles");
  if (percentiles != nullptr) {
    if (!percentiles->is_mapping()) percentiles->expected("a mapping, as in {p50: 900, p99: 8000}");
    length.percentiles = load_percentiles(*percentiles);
    length.most = static_cast<double>(integer(&value, "max", std::llround(length.percentiles.back().second)));
    return length;
  }
  length.mean = mean->as_number(0, 1e6);
  length.variation = number(&value, "variation", 1);
  constexpr double kFar = 16;  // times the mean, where nothing says how long the longest may be
  const std::int64_t far = std::max<std::int64_t>(1, std::llround(kFar * length.mean));
  length.most = static_cast<double>(integer(&value, "max", std::min<std::int64_t>(1'000'000, far)));
  if (length.mean > 0 && length.mean >= length.most && length.variation > 0)
    mean->fail(fmt::format("got {}, expected less than max = {}, as answers scatter", mean->text(), length.most));
  return length;
}

void load_counts(const Settings& rl, RlScenario& s) {
  rl::BatchSpec& batch = s.spec.batch;
  batch.prompts = required(rl, "prompts").as_int();
  batch.samples = integer(&rl, "samples_per_prompt", 1);
  batch.prompt = load_rl_length(rl, "prompt");
  batch.answer = load_rl_length(rl, "answer");
  batch.seed = static_cast<std::uint64_t>(integer(&rl, "seed", 1));
  if (batch.count() > kMostAnswers)
    required(rl, "prompts").fail(fmt::format("comes to {} answers, expected at most {}", batch.count(), kMostAnswers));
  if (const Settings* dynamic = given(&rl, "dynamic_sampling"); dynamic != nullptr) {
    batch.accepted = required(*dynamic, "acceptance").as_number(0.01, 1);
    batch.round = integer(dynamic, "prompts", batch.prompts);
    const double answers = static_cast<double>(batch.count()) / batch.accepted;
    if (answers > kMostAnswers)
      dynamic->fail(fmt::format("comes to {:.3g} answers, expected at most {}", answers, kMostAnswers));
    if (static_cast<double>(batch.prompts) / batch.accepted > 0.5 * static_cast<double>(rl::kMostRounds * batch.round))
      dynamic->fail("takes more than 500 rounds, expected more prompts a round");
    if (batch.round * batch.samples > kMostAnswers)
      dynamic->fail(
          fmt::format("comes to {} answers a round, expected at most {}", batch.round * batch.samples, kMostAnswers));
  }
  s.mini_batch = integer(&rl, "mini_batch", batch.count());
  s.epochs = integer(&rl, "epochs", 1);
  if (batch.count() % s.mini_batch != 0)
    required(rl, "mini_batch")
        .fail(fmt::format("got {}, expected a divisor of the {} answers of a step", s.mini_batch, batch.count()));
  s.spec.oversampling = number(&rl, "oversampling", 1);
  if (s.spec.oversampling > 1 && batch.accepted < 1)
    required(rl, "oversampling").fail("stands beside dynamic_sampling, expected one of them");
  if (s.spec.oversampling * static_cast<double>(batch.count()) > kMostAnswers)
    required(rl, "oversampling").fail(fmt::format("comes to more than {} answers, expected fewer", kMostAnswers));
}

void load_scores(const Settings& rl, RlScenario& s) {
  s.algorithm = rl.get_choice("algorithm", "grpo", {"grpo", "dapo", "ppo", "reinforce"});
  s.reward = choice_of(rl, "reward", "rule", {"rule", "model"}) == "model" ? RlReward::model : RlReward::rule;
  if (const Settings* reward = mapping_at(rl, "reward"); reward != nullptr)
    s.reward_seconds = sim::to_seconds(reward->get_duration("seconds", sim::Duration{}));
  s.reference = rl.get_choice("reference", s.algorithm == "dapo" ? "none" : "policy", {"policy", "none"}) == "policy";
  s.critic = rl.get_choice("critic", s.algorithm == "ppo" ? "policy" : "none", {"policy", "none"}) == "policy";
  const std::vector<std::string>& names = calibration::old_logprobs_names();
  s.old_logprobs = named<calibration::OldLogprobs>(
      rl.get_choice("old_logprobs", std::string(name_of(s.framework.old_logprobs)), names), names);
}

void load_rl_placement(const Settings& rl, RlScenario& s) {
  const std::vector<std::string> kinds{"colocated", "separate", "asynchronous"};
  s.spec.placement = named<rl::Placement>(choice_of(rl, "placement", "colocated", kinds), kinds);
  const Settings* section = mapping_at(rl, "placement");
  const bool asynchronous = s.spec.placement == rl::Placement::asynchronous,
             colocated = s.spec.placement == rl::Placement::colocated;
  for (const char* key : {"staleness", "at_update", "order"})
    if (const Settings* other = given(section, key); other != nullptr && !asynchronous)
      other->fail("is of an asynchronous placement, expected none where engine and trainer wait for each other");
  s.spec.staleness = asynchronous ? integer(section, "staleness", 1) : 0;
  const std::vector<std::string>& updates = calibration::at_update_names();
  const std::string at_update =
      asynchronous && section != nullptr
          ? section->get_choice("at_update", std::string(name_of(s.framework.at_update)), updates)
          : std::string(name_of(s.framework.at_update));
  s.spec.under_way = asynchronous ? named<rl::UnderWay>(at_update, updates) : rl::UnderWay::drain;
  if (asynchronous && section != nullptr && section->get_choice("order", "batch", {"batch", "first"}) == "first")
    s.spec.order = rl::Order::first;
  if (asynchronous && s.spec.oversampling > 1)
    required(rl, "oversampling").fail("is of steps that do not overlap, expected none with an asynchronous placement");
  s.spec.steps = integer(&rl, "steps", asynchronous ? 4 : 1);
  s.rollout_gpus = s.training_gpus = s.gpus;
  if (const Settings* own = given(section, "rollout_gpus"); own != nullptr && colocated)
    own->fail("is of an engine with GPUs of its own, expected none where it shares the trainer's");
  if (!colocated) {
    const Settings* own = given(section, "rollout_gpus");
    s.rollout_gpus = own != nullptr ? own->as_int() : s.gpus / 2;
    if (own == nullptr)
      s.assumptions.push_back(
          fmt::format("rl.placement.rollout_gpus is not given: {}, half of the GPUs.", s.rollout_gpus));
    if (s.rollout_gpus >= s.gpus)
      fail_at(rl, "placement.rollout_gpus",
              fmt::format("got {} of {} GPUs, expected some for the trainer", s.rollout_gpus, s.gpus));
    s.training_gpus = s.gpus - s.rollout_gpus;
  }
  const std::vector<std::string>& routes = calibration::weight_route_names();
  const auto fallback = colocated ? s.framework.weights.colocated : s.framework.weights.separate;
  s.route =
      named<calibration::WeightRoute>(rl.get_choice("weight_transfer", std::string(name_of(fallback)), routes), routes);
  if (!colocated && s.route == calibration::WeightRoute::gather)
    required(rl, "weight_transfer")
        .fail("got gather, which ends on the trainer's own GPUs, expected broadcast or point_to_point");
}

Settings rl_whole(std::int64_t value, const sim::Place& place) {
  return Settings::scalar(std::to_string(value), place);
}

/// The cluster with so many GPUs of it.
Settings cluster_with(const Settings& document, std::int64_t gpus) {
  Settings cluster = document.at("cluster");
  if (!cluster.is_mapping()) cluster.expected("a mapping, as in {device: h100-sxm-80gb, gpus: 64, fabric: ndr-rail}");
  cluster.set("gpus", rl_whole(gpus, cluster.at("gpus").place()));
  return cluster;
}

/// The engine's scenario: requests are the step's own, so that its traffic says nothing but that there is some.
Settings rollout_document(const Settings& document, const Settings& rl, const RlScenario& s) {
  const sim::Place place = rl.place();
  Settings own = Settings::mapping(place);
  own.set("name", Settings::scalar(s.id + "-rollout", place, true));
  own.set("cluster", cluster_with(document, s.rollout_gpus));
  own.set("model", document.at("model"));
  const Settings* section = given(&rl, "rollout");
  if (section != nullptr && !section->is_mapping())
    section->expected("a mapping, as in {pools: [{parallelism: {tensor: 4}}]}");
  const Settings *software = given(section, "software"), *precision = given(section, "precision"),
                 *pools = given(section, "pools"), *router = given(section, "router");
  own.set("software", software != nullptr ? *software : Settings::scalar(s.framework.engine, place));
  Settings types = precision != nullptr ? *precision : Settings::mapping(place);
  if (types.is_mapping() && types.find("weights") == nullptr)  // as the trainer hands them over, not as published
    types.set("weights", Settings::scalar("bf16", types.place()));
  own.set("precision", types);
  Settings pool = Settings::mapping(section != nullptr ? section->place() : place);
  if (pools != nullptr) {
    if (!pools->is_sequence() || pools->items().size() != 1 || !pools->items()[0].is_mapping())
      pools->expected("a list of one pool, as in [{parallelism: {tensor: 4}}]");
    pool = pools->items()[0];
  }
  if (pool.find("memory_utilization") == nullptr)
    pool.set("memory_utilization", Settings::scalar(fmt::format("{}", s.spec.placement == rl::Placement::colocated
                                                                          ? s.framework.memory_utilization
                                                                          : s.framework.memory_utilization_apart),
                                                    pool.place()));
  Settings list = Settings::sequence(pool.place());
  list.append(pool);
  Settings serving = Settings::mapping(pool.place());
  serving.set("pools", list);
  if (router != nullptr) serving.set("router", *router);
  own.set("serving", serving);
  Settings traffic = Settings::mapping(place);
  for (const auto& [key, value] :
       {std::pair<const char*, std::int64_t>("concurrency", std::min<std::int64_t>(1'000'000, s.rollout_gpus)),
        {"requests", 1},
        {"input", 1},
        {"output", 1}})
    traffic.set(key, rl_whole(value, place));
  Settings sampling = Settings::mapping(place);  // as trainers sample: from all tokens, with what each was worth
  sampling.set("temperature", rl_whole(1, place));
  sampling.set("top_p", rl_whole(1, place));
  for (const char* key : {"top_k", "logprobs"}) sampling.set(key, rl_whole(0, place));
  sampling.set("repetition_penalty", rl_whole(1, place));
  traffic.set("sampling", sampling);
  own.set("traffic", traffic);
  return own;
}

/// What the trainer's micro-batches hang on.
struct Trainer {
  std::int64_t ranks = 1, pipeline = 1, context = 1, unit = 64;
  bool interleaved = false;
};

Trainer trainer_of(const Settings& rl, const RlScenario& s) {
  const Settings* training = given(&rl, "training");
  if (training != nullptr && !training->is_mapping()) training->expected("a mapping, as in {parallelism: {tensor: 4}}");
  const Settings* layout = given(training, "parallelism");
  const std::int64_t tensor = std::max<std::int64_t>(1, integer(layout, "tensor", 1)),
                     context = std::max<std::int64_t>(1, integer(layout, "context", 1));
  Trainer trainer;
  trainer.pipeline = std::max<std::int64_t>(1, integer(layout, "pipeline", 1));
  constexpr std::int64_t kMost = 1'048'576;
  trainer.context = std::min(context, kMost);
  const std::int64_t model = std::min(tensor, kMost) * std::min(context, kMost);
  trainer.ranks =
      std::max<std::int64_t>(1, s.training_gpus / std::min(kMost, model) / std::min(kMost, trainer.pipeline));
  trainer.interleaved = integer(layout, "virtual_pipeline", 1) > 1;
  // Sequences are cut over tensor and context ranks, twice over the latter; kernels like multiples of 64.
  const std::int64_t cut = 2 * std::min(kMost, model);
  trainer.unit = cut * std::max<std::int64_t>(1, (64 + cut - 1) / cut);
  return trainer;
}

/// Of an answer with its prompt: context ranks hold two blocks of each, of whole documents in a sequence.
std::int64_t document_tokens(std::int64_t seq, const Trainer& trainer, double mean) {
  if (trainer.context == 1) return std::clamp<std::int64_t>(std::llround(mean), 1, seq);
  for (std::int64_t n = std::max<std::int64_t>(1, std::llround(static_cast<double>(seq) / mean)); n > 1; --n)
    if (seq % n == 0 && seq / n % (2 * trainer.context) == 0) return seq / n;
  return seq;
}

/// A training step of the trainer on micro-batches of these answers.
Settings training_document(const Settings& document, const Settings& rl, const RlScenario& s, const Trainer& trainer,
                           const rl::Packed& packed, std::int64_t most, bool scores) {
  const sim::Place place = rl.place();
  Settings own = Settings::mapping(place);
  own.set("name", Settings::scalar(s.id + (scores ? "-score" : "-update"), place, true));
  own.set("cluster", cluster_with(document, s.training_gpus));
  const bool pads =
      s.framework.padding == Padding::always || (s.framework.padding == Padding::in_pipelines && trainer.pipeline > 1);
  const double tokens = std::max({pads ? static_cast<double>(most) : packed.tokens, packed.document, 1.0});
  const std::int64_t seq =
      (static_cast<std::int64_t>(std::ceil(tokens)) + trainer.unit - 1) / trainer.unit * trainer.unit;
  const Settings& reference = document.at("model");
  Settings model = reference;
  if (reference.is_scalar()) {
    model = Settings::mapping(reference.place());
    model.set("inherits", reference);
  }
  model.set("seq", rl_whole(seq, reference.place()));
  own.set("model", model);
  const Settings* training = given(&rl, "training");
  own.set("software", s.framework.trainer);
  if (training != nullptr)
    for (const auto& [name, value] : training->members()) own.set(name, value);
  std::int64_t each = packed.each;
  if (trainer.interleaved) each = (each + trainer.pipeline - 1) / trainer.pipeline * trainer.pipeline;
  Settings batch = Settings::mapping(place);
  batch.set("global", rl_whole(each * trainer.ranks, place));
  batch.set("micro", rl_whole(1, place));
  batch.set("document_tokens", rl_whole(document_tokens(seq, trainer, packed.document), place));
  own.set("batch", batch);
  if (scores) {
    Settings evaluation = Settings::mapping(place);
    evaluation.set("every_steps", rl_whole(1, place));
    evaluation.set("sequences", rl_whole(each * trainer.ranks, place));
    own.set("evaluation", evaluation);
  }
  return own;
}

void load_trainer(const Settings& document, const Settings& rl, RlScenario& s) {
  const rl::BatchSpec& spec = s.spec.batch;
  const auto longest = static_cast<std::int64_t>(
      spec.prompt.most +
      std::max(0.0, spec.answer.mean > 0 || !spec.answer.percentiles.empty() ? spec.answer.most : 0.0));
  const std::int64_t micro = integer(&rl, "micro_batch_tokens", longest), score = integer(&rl, "score_tokens", micro);
  const Trainer trainer = trainer_of(rl, s);
  const rl::Batch batch = draw_batch(spec, 0);
  const bool several = s.framework.packing == calibration::Packing::packed;
  const auto first = static_cast<std::size_t>(s.mini_batch);
  s.packed_update =
      pack(std::span(batch.trained).first(std::min(first, batch.trained.size())), micro, trainer.ranks, several);
  s.packed_score = pack(batch.trained, score, trainer.ranks, several);
  const auto load = [&](const rl::Packed& packed, std::int64_t most, bool scores) {
    Settings own = training_document(document, rl, s, trainer, packed, most, scores);
    if (!scores) s.update_yaml = yaml_text(own);
    return load_scenario(own).job;
  };
  s.update = load(s.packed_update, micro, false);
  s.score = load(s.packed_score, score, true);
  s.assumptions.insert(s.assumptions.end(), s.update.assumptions.begin(), s.update.assumptions.end());
}

}  // namespace

RlScenario load_rl(const Settings& document) {
  if (!document.is_mapping()) document.expected("a scenario: a mapping of keys");
  refuse_other_document(document);
  check_keys(document);
  const Settings* section = given(&document, "rl");
  if (section == nullptr || !section->is_mapping())
    document.fail("has no section rl, expected one, as in rl: {prompts: 512, samples_per_prompt: 16, ...}");
  for (const char* key :
       {"serving", "traffic", "workload", "parallelism", "batch", "precision", "software", "recompute", "optimizer",
        "offload", "overlap", "finetune", "evaluation", "training", "placement", "perturb", "attention", "measured"})
    if (const Settings* other = given(&document, key); other != nullptr)
      other->fail("stands beside rl, expected it below rl.training or rl.rollout, or not at all");
  RlScenario s;
  s.id = text(&document, "id", text(&document, "name", ""));
  if (s.id.empty()) s.id = std::filesystem::path(document.place().file.text()).stem().string();
  s.description = text(&document, "description", "");
  const Settings* framework = given(section, "framework");
  if (framework == nullptr)
    s.assumptions.push_back(fmt::format("rl.framework is not given: {}, the default framework.", kDefaultFramework));
  s.framework = calibration::RlFramework::load(
      resolve(shelf_of("rl"), framework != nullptr ? *framework : Settings::scalar(kDefaultFramework, section->place()))
          .document);
  s.gpus = required(document.at("cluster"), "gpus").as_int(1, 1'048'576);
  load_counts(*section, s);
  load_scores(*section, s);
  load_rl_placement(*section, s);
  s.rollout = load_serving(rollout_document(document, *section, s));
  const Settings* rollout = given(section, "rollout");
  s.concurrency = integer(rollout, "concurrency", 0);
  load_trainer(document, *section, s);
  const Settings* types = document.find_path("rl.rollout.precision");
  if (types == nullptr || (types->is_mapping() && types->find("weights") == nullptr))
    s.assumptions.emplace_back("rl.rollout.precision.weights is not given: bf16, as the trainer hands them over.");
  for (const std::string& text : s.rollout.assumptions)
    if (std::find(s.assumptions.begin(), s.assumptions.end(), text) == s.assumptions.end())
      s.assumptions.push_back(text);
  return s;
}

}  // namespace orrery::scenarios
