// Every key of a campaign counts: each moves what comes out, as it must, or is refused. A key that is missing here
// fails the test, so that none can be added, read and ignored.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "scenarios/campaign.h"
#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "tests/catch.h"
#include "workloads/runs/campaign/distribution.h"

using namespace orrery;
using namespace orrery::campaign;

namespace {

sim::Settings document(const std::vector<std::string>& sets) {
  sim::Settings root = scenarios::parse_yaml(R"(
campaign:
  steps: 200000
  failures:
    observed: {window: 10 days, devices: 1024}
    causes:
      gpu: {per: device, mtbf: 20000 h, loses: node, repair: 12 h}
      slow: {per: node, mtbf: 2000 h, effect: slow, slowdown: 1.5, loses: node, repair: 12 h}
      hang: {per: job, mtbf: 200 h, effect: hang}
      rack: {per: group, group: 8, mtbf: 20000 h, loses: group, repair: 1 h}
  checkpoint:
    every_steps: 20
    tiers: [{to: neighbour}, {to: storage, one_in: 10}]
  repair: {spares: 2}
)",
                                             "t.yaml");
  for (const std::string& set : sets) scenarios::apply_set(root, set);
  return root;
}

/// 1,024 GPUs in 128 nodes, a replica of 64; steps of 6 s, of 9 s with something slow, of half a second more with a
/// replica missing.
Plan plan_of(const std::vector<std::string>& sets) {
  const std::optional<Spec> spec = scenarios::load_campaign(document(sets));
  Machine machine;
  machine.gpus = 1024;
  machine.nodes = 128;
  machine.gpus_per_node = machine.nics_per_node = 8;
  machine.replicas = 16;
  machine.replica_gpus = 64;
  machine.global = 512;
  machine.seq = 4096;
  machine.pcie = 25e9;
  machine.state_bytes = 2e12;
  machine.rank_bytes = 30e9;
  Prices prices;
  prices.slow = 1;
  for (const Cause& cause : spec->fleet.causes) prices.slow += cause.effect == Effect::slow ? 1 : 0;
  prices.levels =
      spec->elastic.on ? static_cast<std::size_t>(std::max<std::int64_t>(1, 17 - spec->elastic.min_replicas)) : 1;
  for (std::size_t phase = 0; phase <= spec->ramp.size(); ++phase) {
    const bool usual = phase == spec->ramp.size();
    for (std::size_t level = 0; level < prices.levels; ++level) {
      for (std::size_t slow = 0; slow < prices.slow; ++slow)
        prices.step.push_back(sim::seconds((usual ? 6 : 4) + 0.5 * static_cast<double>(level) + (slow > 0 ? 3 : 0)));
    }
  }
  return compile(*spec, machine, prices);
}

/// Means over seeds; of a plan that is given up, what came of it.
struct Answer {
  double wall_s = 0, goodput = 0, failures = 0, steps = 0;
  Shares shares{};
};
Answer answer(const std::vector<std::string>& sets) {
  const Plan plan = plan_of(sets);
  Answer mean;
  constexpr int kSeeds = 40;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Outcome outcome = run(plan, seed);
    REQUIRE(sum(outcome.shares) == outcome.wall);
    mean.wall_s += wall_s(outcome) / kSeeds;
    mean.goodput += goodput(outcome) / kSeeds;
    mean.failures += static_cast<double>(outcome.failures) / kSeeds;
    mean.steps += static_cast<double>(outcome.steps) / kSeeds;
    for (std::size_t s = 0; s < kShares; ++s) mean.shares[s] += outcome.shares[s];
  }
  return mean;
}

std::string refusal(const std::vector<std::string>& sets) {
  try {
    plan_of(sets);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "";
}

enum class Moves { longer, shorter, fewer_steps, same_wall_other_shares, refused };
struct Case {
  const char* key;
  Moves how;
  std::vector<std::string> after;  // laid over both, the later ones over this alone
  std::vector<std::string> before = {};
};

std::vector<Case> cases() {
  using enum Moves;
  const std::string ramp = "campaign.ramp=[{until_tokens: 1e11, global: 256}]";
  const std::vector<std::string> tokens{"campaign.steps=null", "campaign.tokens=4e11"};
  const std::string tiers = "campaign.checkpoint.tiers=[{{to: neighbour}}, {{to: storage, one_in: 10{}}}]";
  const auto storage = [&](const std::string& more) { return fmt::format(fmt::runtime(tiers), more); };
  return {
      {"tokens", longer, {"campaign.tokens=6e11"}, tokens},
      {"steps", longer, {"campaign.steps=250000"}},
      {"window", fewer_steps, {"campaign.steps=null", "campaign.window=5 days"}},
      {"limit", fewer_steps, {"campaign.limit=5 days"}},
      {"ramp[].until_tokens",
       longer,
       {"campaign.ramp=[{until_tokens: 2e11, global: 256}]"},
       {"campaign.steps=null", "campaign.tokens=4e11", ramp}},
      {"ramp[].global",
       longer,
       {"campaign.ramp=[{until_tokens: 1e11, global: 128}]"},
       {"campaign.steps=null", "campaign.tokens=4e11", ramp}},
      {"step_excess", longer, {"campaign.step_excess=0.05"}},
      {"data_loading.per_step", longer, {"campaign.data_loading.per_step=0.2 s"}},
      {"data_loading.at_restart", longer, {"campaign.data_loading.at_restart=10 min"}},
      {"failures", shorter, {"campaign.failures=null"}},
      {"maintenance.every",
       longer,
       {"campaign.maintenance.every=3 days"},
       {"campaign.maintenance={every: 6 days, for: 5 h}"}},
      {"maintenance.for", longer, {"campaign.maintenance.for=9 h"}, {"campaign.maintenance={every: 6 days, for: 5 h}"}},
      {"elastic.min_replicas",
       longer,
       {"campaign.elastic.min_replicas=16"},
       {"campaign.elastic={min_replicas: 8}", "campaign.repair.spares=0"}},
      {"elastic.regrow",
       same_wall_other_shares,
       {"campaign.elastic.regrow=false"},
       {"campaign.elastic={min_replicas: 8}", "campaign.repair.spares=0"}},
      {"checkpoint.every_steps", longer, {"campaign.checkpoint.every_steps=2000"}},
      {"checkpoint.every", longer, {"campaign.checkpoint={every: 5 h}"}, {"campaign.checkpoint={every: 30 min}"}},
      {"checkpoint.bytes", longer, {"campaign.checkpoint.bytes=200 TB"}},
      {"checkpoint.snapshot", longer, {"campaign.checkpoint.snapshot=10 MB/s"}},
      {"checkpoint.tiers[].to",
       longer,
       {"campaign.checkpoint.tiers=[{to: host}, {to: storage, one_in: 100}]"},
       {"campaign.checkpoint.tiers=[{to: neighbour}, {to: storage, one_in: 100}]"}},
      {"checkpoint.tiers[].one_in",
       longer,
       {"campaign.checkpoint.tiers=[{to: host}, {to: storage, one_in: 1000}]"},
       {"campaign.checkpoint.tiers=[{to: host}, {to: storage, one_in: 10}]"}},
      {"checkpoint.tiers[].mode", longer, {storage(", mode: blocking")}},
      {"checkpoint.tiers[].write", longer, {storage(", write: 5 MB/s, read: 1 GB/s")}},
      {"checkpoint.tiers[].read",
       longer,
       {"campaign.checkpoint.tiers=[{to: storage, read: 10 MB/s}]"},
       {"campaign.checkpoint.tiers=[{to: storage, read: 1 GB/s}]"}},
      {"checkpoint.tiers[].total", longer, {storage(", total: 100 MB/s")}},
      {"repair.detection", longer, {"campaign.repair.detection=30 min"}},
      {"repair.hang_detection", longer, {"campaign.repair.hang_detection=3 h"}},
      {"repair.slow_detection", longer, {"campaign.repair.slow_detection=12 h"}},
      {"repair.diagnosis", longer, {"campaign.repair.diagnosis=1 h"}},
      {"repair.swap", longer, {"campaign.repair.swap=20 min"}},
      {"repair.scheduler", longer, {"campaign.repair.scheduler=20 min"}},
      {"repair.container", longer, {"campaign.repair.container=20 min"}},
      {"repair.initialisation", longer, {"campaign.repair.initialisation=20 min"}},
      {"repair.initialisation_per_rank", longer, {"campaign.repair.initialisation_per_rank=1 s"}},
      {"first_start", longer, {"campaign.first_start=cold"}},
      {"repair.warm_up_steps", longer, {"campaign.repair.warm_up_steps=200"}},
      {"repair.warm_up", longer, {"campaign.repair.warm_up=20 min"}},
      {"repair.spares", shorter, {"campaign.repair.spares=30"}},
  };
}

/// Below campaign.failures.
std::vector<Case> fleet_cases() {
  using enum Moves;
  const auto cause = [](const std::string& body) {
    return "campaign.failures={observed: {window: 10 days, devices: 1024}, causes: {one: {" + body + "}}}";
  };
  return {
      {"causes.*.per", longer, {cause("per: device, mtbf: 20000 h")}, {cause("per: node, mtbf: 20000 h")}},
      {"causes.*.mtbf", longer, {cause("mtbf: 5000 h")}, {cause("mtbf: 20000 h")}},
      {"causes.*.count", longer, {cause("count: 50")}, {cause("count: 10")}},
      {"causes.*.shape", longer, {cause("mtbf: 20000 h, shape: 0.7")}, {cause("mtbf: 20000 h")}},
      {"causes.*.age", longer, {cause("mtbf: 20000 h, shape: 2, age: 5000 h")}, {cause("mtbf: 20000 h, shape: 2")}},
      {"causes.*.effect", longer, {cause("mtbf: 5000 h, effect: hang")}, {cause("mtbf: 5000 h")}},
      {"causes.*.loses",
       longer,
       {cause("mtbf: 5000 h, loses: node, repair: 1 day")},
       {cause("mtbf: 5000 h, repair: 1 day")}},
      {"causes.*.group",
       longer,
       {cause("per: node, mtbf: 5000 h, loses: group, group: 16, repair: 1 day")},
       {cause("per: node, mtbf: 5000 h, loses: group, group: 1, repair: 1 day")}},
      {"causes.*.detection", longer, {cause("mtbf: 5000 h, detection: 1 h")}, {cause("mtbf: 5000 h")}},
      {"causes.*.diagnosis", longer, {cause("mtbf: 5000 h, diagnosis: 1 h")}, {cause("mtbf: 5000 h")}},
      {"causes.*.repair",
       longer,
       {cause("mtbf: 5000 h, loses: node, repair: 3 days")},
       {cause("mtbf: 5000 h, loses: node, repair: 1 h")}},
      {"causes.*.slowdown", refused, {cause("mtbf: 5000 h, slowdown: 2")}},    // a price of the step simulator's
      {"causes.*.nic_rate", refused, {cause("mtbf: 5000 h, nic_rate: 0.5")}},  // likewise
      {"causes.*.outage", refused, {cause("mtbf: 5000 h, outage: 1 s, outage_every: 10 s")}},
      {"causes.*.outage_every", refused, {cause("mtbf: 5000 h, effect: slow, outage: 10 s, outage_every: 5 s")}},
      {"causes.*.outage_rate", refused, {cause("mtbf: 5000 h, effect: slow, nic_rate: 0.5, outage_rate: 0.2")}},
      {"observed.window",
       shorter,
       {"campaign.failures={observed: {window: 50 days, devices: 1024}, causes: {one: {count: 10}}}"},
       {cause("count: 10")}},
      {"observed.devices",
       shorter,
       {"campaign.failures={observed: {window: 10 days, devices: 8192}, causes: {one: {count: 10}}}"},
       {cause("count: 10")}},
      {"observed.devices_per_node",
       longer,
       {"campaign.failures={observed: {window: 10 days, devices: 1024, devices_per_node: 32}, causes: {one: {count: "
        "10, per: node}}}"},
       {cause("count: 10, per: node")}},
      {"observed.nics_per_node",
       longer,
       {"campaign.failures={observed: {window: 10 days, devices: 1024, nics_per_node: 2}, causes: {one: {count: 10, "
        "per: nic}}}"},
       {cause("count: 10, per: nic")}},
  };
}

void check(const Case& c) {
  INFO(c.key);
  std::vector<std::string> sets = c.before;
  const Answer before = c.how == Moves::refused ? Answer{} : answer(sets);
  sets.insert(sets.end(), c.after.begin(), c.after.end());
  if (c.how == Moves::refused) {
    CHECK_FALSE(refusal(sets).empty());
    return;
  }
  const Answer after = answer(sets);
  INFO(before.wall_s << " s -> " << after.wall_s << " s, " << before.steps << " -> " << after.steps << " steps");
  if (c.how == Moves::longer) CHECK(after.wall_s > before.wall_s);
  if (c.how == Moves::shorter) CHECK(after.wall_s < before.wall_s);
  if (c.how == Moves::fewer_steps) CHECK(after.steps < before.steps);
  if (c.how == Moves::same_wall_other_shares) CHECK_FALSE(after.shares == before.shares);
}

}  // namespace

TEST_CASE("every key of a campaign moves it as it must") {
  for (const Case& c : cases()) check(c);
}

TEST_CASE("every key of a table of failures moves a campaign as it must, or is refused") {
  for (const Case& c : fleet_cases()) check(c);
}

TEST_CASE("no key of a campaign is missing from the walk") {
  std::set<std::string> walked;
  for (const Case& c : cases()) walked.insert(c.key);
  for (const sim::Key& key : campaign_keys()) {
    INFO(key.path);
    const bool container = key.type == "mapping" || key.path == "ramp" || key.path == "checkpoint.tiers";
    CHECK((container || walked.contains(key.path)));
    CHECK(scenarios::schema().find("campaign." + key.path) != nullptr);
  }
  walked.clear();
  for (const Case& c : fleet_cases()) walked.insert(c.key);
  const std::set<std::string> text{"inherits", "description", "source", "observed", "causes"};
  for (const sim::Key& key : fleet_keys()) {
    INFO(key.path);
    CHECK((text.contains(key.path) || walked.contains(key.path)));
  }
}

TEST_CASE("mistakes in a campaign are one line that says where, what was read and what was expected") {
  struct Mistake {
    std::vector<std::string> sets;
    const char* says;
  };
  for (const Mistake& mistake : {
           Mistake{{"campaign.tokens=1e9"}, "campaign: has more than one of tokens, steps and window"},
           Mistake{{"campaign.steps=null"}, "campaign: says not how long it trains"},
           Mistake{{"campaign.stps=3"}, "did you mean \"steps\"?"},
           Mistake{{"campaign.failures=llama3-2025"}, "did you mean \"llama3-2024\"?"},
           Mistake{{"campaign.repair.diagnosis=5"},
                   "campaign.repair.diagnosis: got \"5\", expected a time with a unit"},
           Mistake{{"campaign.repair.diagnosis=-5 min"}, "expected a time with a unit"},
           Mistake{{"campaign.repair.diagnosis=nan s"}, "expected a time with a unit"},
           Mistake{{"campaign.repair.diagnosis=20 years"}, "got 20 years, expected 0 s to 10 years"},
           Mistake{{"campaign.repair.spares=-1"}, "got -1, expected 0 to 1048576"},
           Mistake{{"campaign.checkpoint.every=3 h"}, "campaign.checkpoint.every: is given beside every_steps"},
           Mistake{{"campaign.checkpoint.tiers=[]"}, "expected a list of tiers"},
           Mistake{{"campaign.checkpoint.tiers=[{to: storage}, {to: host}]"}, "got host behind storage"},
           Mistake{{"campaign.checkpoint.tiers=[{to: host, one_in: 2}, {to: storage, one_in: 3}]"},
                   "expected a multiple of 2"},
           Mistake{{"campaign.checkpoint.tiers=[{to: tape}]"}, "tape"},
           Mistake{{"campaign.maintenance={every: 1 h, for: 2 h}"}, "expected less than every, which is 1 h"},
           Mistake{{"campaign.ramp=[{until_tokens: 5, global: 1}, {until_tokens: 4, global: 2}]"},
                   "expected more than the 5"},
           Mistake{{"campaign.failures={causes: {a: {per: device}}}"}, "got none of mtbf and count"},
           Mistake{{"campaign.failures={causes: {a: {mtbf: 1 h, count: 2}}}"}, "got both of mtbf and count"},
           Mistake{{"campaign.failures={causes: {a: {count: 2}}}"}, "needs the observed window"},
           Mistake{{"campaign.failures={causes: {a: {mtbf: 1 h, effect: slow}}}"}, "expected a slowdown above 1"},
           Mistake{{"campaign.failures={causes: {a: {mtbf: 1 h, loses: group}}}"}, "needs group"},
           Mistake{{"campaign.failures={causes: [a]}"}, "expected a mapping from names to causes"},
           Mistake{{"campaign.failures={causes: {a: 3}}"}, "expected a mapping, as in"},
       }) {
    // As load_scenario does: the table first.
    const std::string error = [&]() -> std::string {
      try {
        const sim::Settings root = document(mistake.sets);
        scenarios::schema().check(root);
        scenarios::load_campaign(root);
      } catch (const sim::UserError& refused) {
        return refused.what();
      }
      return "";
    }();
    INFO(mistake.says);
    INFO(error);
    CHECK(error.find(mistake.says) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  }
}

TEST_CASE("what ships as tables of failures loads, and strikes as often as its source counted") {
  // 419 interruptions in 54 days on 16,384 GPUs of 2,048 nodes.
  std::size_t tables = 0;
  for (const std::string& name : scenarios::shipped("failures")) {
    INFO(name);
    const sim::Settings root = scenarios::parse_yaml("campaign: {steps: 1, failures: " + name + "}", "t.yaml");
    const std::optional<Spec> spec = scenarios::load_campaign(root);
    CHECK_FALSE(spec->fleet.causes.empty());
    CHECK(spec->fleet.source.size() > 10);
    ++tables;
    if (name != "llama3-2024") continue;
    Machine machine;
    machine.gpus = 16384;
    machine.nodes = 2048;
    machine.gpus_per_node = machine.nics_per_node = 8;
    Prices prices;
    prices.step = {sim::seconds(6)};
    CHECK(failure_rate(compile(*spec, machine, prices)) * 54 * 86'400 == Approx(419));
  }
  CHECK(tables >= 7);
}
