// `autoscale` and `failures`, of the section `serving` or of a pool.
#include "scenarios/load_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "scenarios/load.h"
#include "sim/long_time.h"

namespace orrery::scenarios {

using sim::Settings;

namespace {

serving::Time time_of(const Settings& section, const char* key, double fallback_s) {
  const Settings* value = given(&section, key);
  return static_cast<serving::Time>(1e12 * (value != nullptr ? sim::as_long_time(*value) : fallback_s));
}

/// What the number of replicas follows, and how much of it each has.
void load_target(const Settings& scale, serving::Autoscale& a) {
  using serving::ScaleBy;
  const std::string by = scale.get_choice("by", "under_way", {"under_way", "waiting", "cache", "ttft", "itl"});
  for (const auto b : {ScaleBy::under_way, ScaleBy::waiting, ScaleBy::cache, ScaleBy::ttft, ScaleBy::itl})
    if (name_of(b) == by) a.by = b;
  const char* other = is_mean(a.by) ? "target" : "target_time";
  if (const Settings* wrong = given(&scale, other); wrong != nullptr)
    wrong->fail(fmt::format("does not go with by: {}, expected {}", by,
                            is_mean(a.by) ? "target_time, as in 400 ms" : "target, a number for each replica"));
  a.target = is_mean(a.by) ? sim::as_long_time(required(scale, "target_time"))
                           : required(scale, "target").as_number(0.001, 1e6);
  if (is_mean(a.by) && !(a.target > 0)) fail_at(scale, "target_time", "is 0, expected a time");
  if (a.by == ScaleBy::cache && a.target > 1)
    fail_at(scale, "target", fmt::format("got {:g}, expected a share of the cache, at most 1", a.target));
}

/// `pool`: null where nothing is said of it. `apart`: beside another, so that it has to say how far it may grow.
void load_autoscale(const Settings& scale, const Settings* pool, ServingScenario& s, ServedPool& p, bool apart) {
  if (!scale.is_mapping()) scale.expected("a mapping, as in {target: 32, most: 8, start_up: 2 min}");
  serving::Autoscale& a = p.autoscale.emplace();
  load_target(scale, a);
  const std::int64_t room = s.share.gpus / p.replica.layout.gpus();
  if (apart) required(scale, "most");
  a.least = integer(&scale, "least", 1);
  a.most = integer(&scale, "most", room);
  if (a.most > room) fail_at(scale, "most", fmt::format("got {}, but {} GPUs for {}", a.most, owner_of(s), room));
  if (a.least > a.most)
    fail_at(scale, "least", fmt::format("got {}, expected at most the {} of most", a.least, a.most));
  a.tolerance = number(&scale, "tolerance", 0.1);
  a.every = time_of(scale, "every", 15);
  a.lag = time_of(scale, "lag", 30);
  required(scale, "start_up");
  a.start = time_of(scale, "start_up", 0);
  a.hold = time_of(scale, "hold", 300);
  if (pool == nullptr || given(pool, "replicas") == nullptr) {
    p.replicas = a.least;
    s.assumptions.push_back(fmt::format("The {} begins with the fewest replicas, {}.",
                                        apart ? fmt::format("pool {}", p.pool) : "fleet", p.replicas));
  }
  if (p.replicas < a.least || p.replicas > a.most)
    scale.fail(fmt::format("begins with {} replicas, expected {} to {} of them", p.replicas, a.least, a.most));
  p.most_replicas = a.most;
}

void load_replica_failures(const Settings& failures, ServedPool& p) {
  if (!failures.is_mapping()) failures.expected("a mapping, as in {at: 2 min, restart: 3 min}");
  serving::Failures& f = p.failures.emplace();
  const Settings *mean = given(&failures, "mean_time"), *at = given(&failures, "at");
  if ((mean != nullptr) == (at != nullptr)) failures.fail("expected exactly one of mean_time and at");
  if (at == nullptr && given(&failures, "replicas") != nullptr)
    failures.at("replicas").fail("is of failures at a time that is given, expected no such key beside mean_time");
  f.mean_s = mean != nullptr ? sim::as_long_time(*mean) : 0;
  f.at = time_of(failures, "at", 0);
  f.replicas = integer(&failures, "replicas", 1);
  if (at != nullptr && f.replicas > p.replicas)
    fail_at(failures, "replicas", fmt::format("got {}, expected at most the fleet's {}", f.replicas, p.replicas));
  f.noticed = time_of(failures, "noticed", 30);
  required(failures, "restart");
  f.restart = time_of(failures, "restart", 0);
  const std::string requests = failures.get_choice("requests", "migrate", {"migrate", "again", "lost"});
  for (const auto what : {serving::AtFailure::migrate, serving::AtFailure::again, serving::AtFailure::lost})
    if (name_of(what) == requests) f.requests = what;
  f.seed = static_cast<std::uint64_t>(integer(&failures, "seed", 1));
}

}  // namespace

std::string_view owner_of(const ServingScenario& s) {
  return s.share.gpus < s.machine.gpus ? "the model's share of the cluster has" : "the cluster has";
}

void load_changes(const Settings& pool, ServingScenario& s, ServedPool& p, bool apart) {
  if (const Settings* scale = given(&pool, "autoscale"); scale != nullptr) load_autoscale(*scale, &pool, s, p, apart);
  if (const Settings* failures = given(&pool, "failures"); failures != nullptr) load_replica_failures(*failures, p);
  if (const Settings* rate = given(&pool, "weights_rate"); rate != nullptr)
    p.weights_rate = rate->as_bandwidth().value();
}

void load_changes_of_all(const Settings& section, ServingScenario& s) {
  if (const Settings* scale = given(&section, "autoscale"); scale != nullptr) {
    if (s.answers)
      scale->fail(
          "is of one pool, expected it in each pool that is scaled, as in pools: [{role: prefill, autoscale: "
          "{by: ttft, target_time: 400 ms, ...}}, ...]");
    if (s.autoscale) scale->fail("is said of the pool too, expected it once");
    const Settings* pools = given(&section, "pools");
    load_autoscale(*scale, pools != nullptr ? &pools->items()[0] : nullptr, s, s, false);
  }
  const Settings* failures = given(&section, "failures");
  if (failures == nullptr) return;
  if (s.answers && failures->is_mapping() && given(failures, "at") != nullptr)
    failures->fail("at a time are of one pool, expected them in the pool that fails, or mean_time for both");
  for (ServedPool* pool : {static_cast<ServedPool*>(&s), s.answers ? &*s.answers : nullptr}) {
    if (pool == nullptr) continue;
    if (pool->failures) failures->fail("are said of a pool too, expected them once");
    load_replica_failures(*failures, *pool);
  }
}

}  // namespace orrery::scenarios
