// Reads the `campaign` section. Where its defaults come from:
//  - detection 30 s and 10 min: inspections that run every few seconds find crashes within 10 to 30 s, hangs end with
//    the timeout of the collective library, 10 to 30 min (ByteRobust, arXiv 2509.16293, section 8); PyTorch's is 10
//    min.
//  - diagnosis 5 min: together with detection less than the 10 min of MegaScale (arXiv 2402.15627, section 6.3).
//  - scheduler, container, initialisation and load together are about the 5 min that Kokolis et al. take for a restart
//    (arXiv 2410.21680, section IV).
//  - initialisation 3 ms a rank: less than 30 s on more than 10,000 GPUs (MegaScale, section 3.5); before its changes
//    2,048 ranks took 1,047 s.
//  - storage 1 GB/s a node: 2 TB/s sustained for 2,048 nodes (Llama 3, arXiv 2407.21783, section 3.3.1).
//  - neighbour 10 GB/s a node: Gemini's (SOSP 2023) send the states of a node within seconds over idle 400 Gb/s of
//    network, of which this is a fifth.
#include "workloads/runs/campaign/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/long_time.h"

namespace orrery::campaign {

using sim::Settings;

namespace {

constexpr std::array<std::string_view, 3> kStores{"host", "neighbour", "storage"};
constexpr std::array<std::string_view, 3> kFirstStarts{"none", "cold", "load"};

/// The member, or nullptr when it or its section is absent or `unknown`.
const Settings* given(const Settings* section, std::string_view key) {
  const Settings* member = section != nullptr ? section->find(key) : nullptr;
  return member != nullptr && member->is_scalar() && member->text() == "unknown" ? nullptr : member;
}
double seconds_or(const Settings* section, std::string_view key, double fallback) {
  const Settings* value = given(section, key);
  return value != nullptr ? sim::as_long_time(*value) : fallback;
}
double rate_or(const Settings* section, std::string_view key, double fallback) {
  const Settings* value = given(section, key);
  return value != nullptr ? value->as_bandwidth().value() : fallback;
}
std::int64_t integer(const Settings* section, std::string_view key, std::int64_t fallback) {
  const Settings* value = given(section, key);
  return value != nullptr ? value->as_int() : fallback;
}

double default_write(Store store) {
  if (store == Store::host) return 0;
  return store == Store::neighbour ? 10e9 : 1e9;
}

Tier load_tier(const Settings& item) {
  Tier tier;
  const std::string word = item.at("to").as_choice({kStores.begin(), kStores.end()});
  tier.to = static_cast<Store>(std::find(kStores.begin(), kStores.end(), word) - kStores.begin());
  tier.one_in = integer(&item, "one_in", 1);
  tier.in_background = item.get_choice("mode", "background", {"background", "blocking"}) == "background";
  tier.write = rate_or(&item, "write", default_write(tier.to));
  tier.read = rate_or(&item, "read", tier.write);
  tier.total = rate_or(&item, "total", 0);
  return tier;
}

Checkpoint load_checkpoint(const Settings* section) {
  Checkpoint checkpoint;
  const Settings *steps = given(section, "every_steps"), *every = given(section, "every");
  if (steps != nullptr && every != nullptr) every->fail("is given beside every_steps, expected one of them");
  checkpoint.every_steps = steps != nullptr ? steps->as_int() : 0;
  checkpoint.every_s = every != nullptr ? sim::as_long_time(*every) : 0;
  if (const Settings* bytes = given(section, "bytes"); bytes != nullptr)
    checkpoint.bytes = static_cast<double>(bytes->as_bytes().value());
  checkpoint.snapshot = rate_or(section, "snapshot", 0);
  const Settings* tiers = given(section, "tiers");
  if (tiers == nullptr) {
    checkpoint.tiers.push_back(
        {Store::storage, 1, true, default_write(Store::storage), default_write(Store::storage), 0});
    return checkpoint;
  }
  if (!tiers->is_sequence() || tiers->items().empty()) tiers->expected("a list of tiers, as in [{to: storage}]");
  for (const Settings& item : tiers->items()) {
    const Tier tier = load_tier(item);
    if (!checkpoint.tiers.empty() && checkpoint.tiers.back().to >= tier.to)
      item.at("to").fail(fmt::format("got {} behind {}, expected host, neighbour, storage in this order, each once",
                                     name_of(tier.to), name_of(checkpoint.tiers.back().to)));
    if (!checkpoint.tiers.empty() && tier.one_in % checkpoint.tiers.back().one_in != 0)
      item.fail(fmt::format("takes one in {} checkpoints, expected a multiple of {}, what the tier before takes",
                            tier.one_in, checkpoint.tiers.back().one_in));
    checkpoint.tiers.push_back(tier);
  }
  return checkpoint;
}

Repair load_repair(const Settings* section) {
  Repair repair;
  repair.detection_s = seconds_or(section, "detection", 30);
  repair.hang_detection_s = seconds_or(section, "hang_detection", 600);
  repair.slow_detection_s = seconds_or(section, "slow_detection", 3600);
  repair.diagnosis_s = seconds_or(section, "diagnosis", 300);
  repair.swap_s = seconds_or(section, "swap", 0);
  repair.scheduler_s = seconds_or(section, "scheduler", 60);
  repair.container_s = seconds_or(section, "container", 90);
  repair.initialisation_s = seconds_or(section, "initialisation", 0);
  repair.initialisation_per_rank_s = seconds_or(section, "initialisation_per_rank", 3e-3);
  repair.warm_up_s = seconds_or(section, "warm_up", 0);
  repair.warm_up_steps = integer(section, "warm_up_steps", 0);
  repair.spares = integer(section, "spares", 0);
  return repair;
}

void load_ramp(const Settings* list, Spec& spec) {
  if (list == nullptr) return;
  if (!list->is_sequence()) list->expected("a list, as in [{until_tokens: 252e6, global: 1024}]");
  for (const Settings& item : list->items()) {
    const Ramp ramp{item.at("until_tokens").as_number(), item.at("global").as_int()};
    if (!spec.ramp.empty() && ramp.until_tokens <= spec.ramp.back().until_tokens)
      item.at("until_tokens")
          .fail(fmt::format("got {}, expected more than the {} of the item before", ramp.until_tokens,
                            spec.ramp.back().until_tokens));
    spec.ramp.push_back(ramp);
  }
}

}  // namespace

std::string_view name_of(Store store) { return kStores[static_cast<std::size_t>(store)]; }

Spec load_spec(const Settings& section, Fleet fleet) {
  if (!section.is_mapping()) section.expected("a mapping, as in {tokens: 15e12, failures: llama3-2024}");
  Spec spec;
  spec.fleet = std::move(fleet);
  const Settings *tokens = given(&section, "tokens"), *steps = given(&section, "steps"),
                 *window = given(&section, "window");
  if ((tokens != nullptr) + (steps != nullptr) + (window != nullptr) > 1)
    section.fail("has more than one of tokens, steps and window, expected one of them");
  if (tokens != nullptr) spec.tokens = tokens->as_number();
  if (steps != nullptr) spec.steps = steps->as_int();
  spec.window_s = seconds_or(&section, "window", 0);
  spec.limit_s = seconds_or(&section, "limit", 0);
  load_ramp(given(&section, "ramp"), spec);
  if (const Settings* excess = given(&section, "step_excess"); excess != nullptr)
    spec.step_excess = excess->as_number();
  const Settings* data = given(&section, "data_loading");
  spec.data_per_step_s = seconds_or(data, "per_step", 0);
  spec.data_at_restart_s = seconds_or(data, "at_restart", 0);
  const std::string start = section.get_choice("first_start", "none", {kFirstStarts.begin(), kFirstStarts.end()});
  spec.first_start =
      static_cast<FirstStart>(std::find(kFirstStarts.begin(), kFirstStarts.end(), start) - kFirstStarts.begin());
  spec.checkpoint = load_checkpoint(given(&section, "checkpoint"));
  spec.repair = load_repair(given(&section, "repair"));
  if (const Settings* elastic = given(&section, "elastic"); elastic != nullptr) {
    spec.elastic.on = true;
    spec.elastic.min_replicas = integer(elastic, "min_replicas", 1);
    spec.elastic.regrow = elastic->get_bool("regrow", true);
  }
  if (const Settings* maintenance = given(&section, "maintenance"); maintenance != nullptr) {
    spec.maintenance.every_s = sim::as_long_time(maintenance->at("every"));
    spec.maintenance.for_s = sim::as_long_time(maintenance->at("for"));
    if (spec.maintenance.for_s >= spec.maintenance.every_s)
      maintenance->at("for").fail(fmt::format("got {}, expected less than every, which is {}",
                                              maintenance->at("for").text(), maintenance->at("every").text()));
  }
  return spec;
}

}  // namespace orrery::campaign
