// A list of models -> ServedModels. Shares of the cluster's GPUs lie one behind the other, in the order of the list;
// one begins where the largest of its replicas lies within a node, if it can. Left out: GPUs that pass from a model to
// another while requests come.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "scenarios/load.h"
#include "scenarios/schema.h"
#include "scenarios/served_models.h"

namespace orrery::scenarios {

using sim::Settings;

namespace {

constexpr std::size_t kMostModels = 64;

const Settings& models_of(const Settings& document) {
  const Settings& list = document.at("models");
  if (!list.is_sequence() || list.items().empty() || list.items().size() > kMostModels)
    list.expected(fmt::format(
        "a list of 1 to {} models, as in [{{name: chat, model: llama3.1-70b, gpus: 16, serving: ..., traffic: ...}}]",
        kMostModels));
  return list;
}

/// Of each model.
constexpr std::array<const char*, 2> kOfEach{"serving", "traffic"};

/// GPUs that an item's pools say they take; nothing where one leaves open how many replicas it has.
std::int64_t stated_gpus(const Settings& item, const ServingScenario& loaded) {
  const Settings* serving = given(&item, "serving");
  const Settings* pools = serving != nullptr ? given(serving, "pools") : nullptr;
  const auto open = [](const Settings& pool) {
    const Settings* scale = given(&pool, "autoscale");
    return given(&pool, "replicas") == nullptr || (scale != nullptr && given(scale, "most") == nullptr);
  };
  const bool stated =
      pools != nullptr && pools->is_sequence() && std::none_of(pools->items().begin(), pools->items().end(), open);
  const Settings* scale = serving != nullptr ? given(serving, "autoscale") : nullptr;
  return stated && (scale == nullptr || given(scale, "most") != nullptr) ? loaded.all_gpus() : 0;
}

/// The first GPU from `at` on that such replicas may begin at.
std::int64_t first_from(std::int64_t at, const ServingScenario& s) {
  const std::int64_t node = s.machine.gpus_per_node;
  std::int64_t largest = s.replica.layout.gpus();
  if (s.answers) largest = std::max(largest, s.answers->replica.layout.gpus());
  const std::int64_t unit = node % largest == 0 ? largest : node;
  const bool within = at % node + std::min(largest, node) <= node && largest <= node;
  if (unit == node && within) return at;
  return (at + unit - 1) / unit * unit;
}

}  // namespace

std::int64_t ServedModels::served_gpus() const {
  std::int64_t sum = 0;
  for (const ServingScenario& model : models) sum += model.all_gpus();
  return sum;
}

bool serves_several(const Settings& document) { return document.is_mapping() && given(&document, "models") != nullptr; }

std::vector<Settings> documents_of_models(const Settings& document) {
  std::vector<Settings> documents;
  const std::vector<Settings>& items = models_of(document).items();
  for (const char* key : kOfEach)
    if (const Settings* member = given(&document, key); member != nullptr)
      member->fail("is of each model, expected it in the list models");
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Settings& item = items[i];
    if (!item.is_mapping()) item.expected("a model that is served: a mapping of keys");
    Settings own = Settings::mapping(item.place());
    const auto is_name = [](std::string_view key) { return key == "name" || key == "id" || key == "description"; };
    for (const auto& [key, member] : document.members())
      if (key != "models" && !is_name(key)) own.set(key, member);
    for (const auto& [key, member] : item.members())
      if (key != "gpus") own.set(key, member);
    if (own.find("name") == nullptr)
      own.set("name", Settings::scalar(fmt::format("model {}", i + 1), item.place(), true));
    documents.push_back(std::move(own));
  }
  return documents;
}

ServedModels load_served_models(const Settings& document) {
  check_keys(document);
  const std::vector<Settings>& items = models_of(document).items();
  const std::vector<Settings> documents = documents_of_models(document);
  ServedModels all;
  all.id = text(&document, "id", text(&document, "name", ""));
  if (all.id.empty()) all.id = std::filesystem::path(document.place().file.text()).stem().string();
  all.description = text(&document, "description", "");
  std::int64_t next = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    GpuShare share{integer(&items[i], "gpus", 0), 0};
    ServingScenario model = load_serving(documents[i], share);
    if (model.machine.gpus < share.gpus)
      fail_at(items[i], "gpus", fmt::format("got {}, but the cluster has {}", share.gpus, model.machine.gpus));
    if (share.gpus == 0) {
      share.gpus = stated_gpus(documents[i], model);
      if (share.gpus == 0)
        items[i].fail("says neither its gpus nor how many replicas its pools have, expected one of the two");
    }
    share.first = first_from(next, model);
    next = share.first + share.gpus;
    model = load_serving(documents[i], share);
    if (std::any_of(all.models.begin(), all.models.end(), [&](const auto& other) { return other.id == model.id; }))
      items[i].fail(fmt::format("is the second of the name {}, expected names that differ", model.id));
    all.gpus = model.machine.gpus;
    if (next > all.gpus)
      items[i].fail(fmt::format("lies on GPUs {} to {}, but the cluster has {}", share.first, next - 1, all.gpus));
    all.models.push_back(std::move(model));
  }
  return all;
}

}  // namespace orrery::scenarios
