// Documents of fleets.
#include "workloads/runs/campaign/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/key_rows.h"
#include "sim/long_time.h"

namespace orrery::campaign {

using sim::Settings;

namespace {

constexpr double kHour = 3600;
constexpr std::array<std::string_view, 3> kEffects{"crash", "hang", "slow"};
constexpr std::array<std::string_view, 3> kLosses{"process", "node", "group"};
constexpr std::array<std::string_view, 5> kPers{"device", "node", "nic", "group", "job"};

template <class Enum, std::size_t n>
Enum choice(const Settings& cause, std::string_view key, const std::array<std::string_view, n>& names) {
  const Settings* value = cause.find(key);
  if (value == nullptr) return Enum{};
  const std::string word = value->as_choice({names.begin(), names.end()});
  return static_cast<Enum>(std::find(names.begin(), names.end(), word) - names.begin());
}

double seconds_in(const Settings& section, std::string_view key, double fallback) {
  const Settings* value = section.find(key);
  return value != nullptr ? sim::as_long_time(*value) : fallback;
}

/// Component-hours of the window in which failures were counted.
double observed_hours(const Settings& document, const Settings& cause, const Cause& read) {
  const Settings& window = document.at("observed");
  const double hours = sim::as_long_time(window.at("window")) / kHour;
  const double devices = window.at("devices").as_number();
  const double nodes = devices / window.get_number("devices_per_node", 8);
  switch (read.per) {
    case Per::device:
      return hours * devices;
    case Per::node:
      return hours * nodes;
    case Per::nic:
      return hours * nodes * window.get_number("nics_per_node", 8);
    case Per::group:
      return hours * std::max(1.0, nodes / static_cast<double>(read.group));
    case Per::job:
      return hours;
  }
  cause.fail("has a rate per what no component is");
}

double hours_between(const Settings& document, const Settings& cause, const Cause& read) {
  const Settings *mtbf = cause.find("mtbf"), *count = cause.find("count");
  if ((mtbf == nullptr) == (count == nullptr)) {
    cause.fail(fmt::format("got {} of mtbf and count, expected one of them", mtbf != nullptr ? "both" : "none"));
  }
  if (mtbf != nullptr) {
    const double hours = sim::as_long_time(*mtbf) / kHour;
    if (!(hours > 0)) mtbf->fail(fmt::format("got {}, expected a time above zero", mtbf->text()));
    return hours;
  }
  if (document.find("observed") == nullptr) count->fail("needs the observed window that it was counted in");
  return observed_hours(document, cause, read) / count->as_number();
}

Cause load_cause(const Settings& document, const std::string& name, const Settings& given) {
  if (!given.is_mapping()) given.expected("a mapping, as in {per: device, mtbf: 50000 h}");
  Cause cause;
  cause.name = name;
  cause.per = choice<Per>(given, "per", kPers);
  cause.effect = choice<Effect>(given, "effect", kEffects);
  cause.loses = choice<Loses>(given, "loses", kLosses);
  cause.group = given.get_int("group", 1);
  cause.shape = given.get_number("shape", 1);
  cause.age_h = seconds_in(given, "age", 0) / kHour;
  cause.mtbf_h = hours_between(document, given, cause);
  cause.detection_s = seconds_in(given, "detection", -1);
  cause.diagnosis_s = seconds_in(given, "diagnosis", -1);
  cause.repair_s = seconds_in(given, "repair", 0);
  cause.slowdown = given.get_number("slowdown", 1);
  cause.nic_rate = given.get_number("nic_rate", 1);
  cause.outage.length_s = seconds_in(given, "outage", 0);
  cause.outage.every_s = seconds_in(given, "outage_every", 0);
  cause.outage.rate = given.get_number("outage_rate", 0);
  if ((cause.outage.length_s > 0) != (cause.outage.every_s > 0))
    given.fail("got one of outage and outage_every, expected both or none");
  if (cause.outage.length_s > 0 && cause.outage.length_s >= cause.outage.every_s) {
    given.find("outage")->fail(fmt::format("got {}, expected less than outage_every, {}", given.find("outage")->text(),
                                           given.find("outage_every")->text()));
  }
  if (cause.outage.rate > 0) {
    const Settings& left = *given.find("outage_rate");
    if (cause.outage.length_s <= 0)
      left.fail(fmt::format("got {} without an outage, expected outage too", left.text()));
    if (cause.outage.rate < kLeastNicShare || cause.outage.rate >= cause.nic_rate) {
      left.fail(fmt::format("got {}, expected 0, or {} to less than nic_rate, {}", left.text(), kLeastNicShare,
                            cause.nic_rate));
    }
  }
  const bool slow = cause.effect == Effect::slow;
  const bool slower = cause.slowdown > 1 || cause.nic_rate < 1 || cause.outage.length_s > 0;
  if (slow && !slower) given.fail("has effect slow, expected a slowdown above 1, a nic_rate below 1 or an outage");
  if (!slow && slower) given.fail(fmt::format("slows down, but has effect {}, expected slow", name_of(cause.effect)));
  const bool grouped = cause.loses == Loses::group || cause.per == Per::group;
  if (grouped && given.find("group") == nullptr) given.fail("needs group, the nodes that fail or are counted together");
  return cause;
}

/// A mean, a quantile and a rate say nothing of the times between: the shape does.
std::vector<sim::Key> cause_rows() {
  const std::vector<std::string> effects(kEffects.begin(), kEffects.end()), losses(kLosses.begin(), kLosses.end()),
      pers(kPers.begin(), kPers.end());
  return {
      sim::key_row("causes", "mapping", "", "", {}, "What fails, by name."),
      sim::key_row("causes.*.per", "choice", "", "device", pers, "The component that the rate is of."),
      sim::key_row(
          "causes.*.mtbf", "quantity", "time", "-", {},
          "Time that one component runs between two failures, in the mean; with a shape Weibull's scale theta.",
          {"1 s", "1e6 years"}),
      sim::key_row("causes.*.count", "number", "failures", "-", {}, "Failures in the observed window, for mtbf.",
                   {"1e-6", "1e9"}),
      sim::key_row(
          "causes.*.shape", "number", "", "1", {},
          "Weibull's shape: below 1 components fail less the older they are, above 1 they wear out; 1 is exponential.",
          {"0.1", "20"}),
      sim::key_row("causes.*.age", "quantity", "time", "0 s", {}, "Age of the components at the start.",
                   {"0 s", "100 years"}),
      sim::key_row("causes.*.effect", "choice", "", "crash", effects,
                   "What the job sees: its end, a hang, or a slower step."),
      sim::key_row("causes.*.loses", "choice", "", "process", losses, "What has to be replaced."),
      sim::key_row("causes.*.group", "integer", "nodes", "-", {},
                   "Nodes that fail together: of a rack, or below a leaf switch.", {"1", "1048576"}),
      sim::key_row("causes.*.detection", "quantity", "time", "that of the campaign", {},
                   "From the failure to the stop of the job.", {"0 s", "1 year"}),
      sim::key_row("causes.*.diagnosis", "quantity", "time", "that of the campaign", {},
                   "From the stop to knowing which nodes to leave out.", {"0 s", "1 year"}),
      sim::key_row("causes.*.repair", "quantity", "time", "0 s", {}, "Until a lost node is back.", {"0 s", "10 years"}),
      sim::key_row("causes.*.slowdown", "number", "", "1", {},
                   "Of effect slow: factor on the compute times of one GPU.", {"1", "1000"}),
      sim::key_row("causes.*.nic_rate", "number", "", "1", {},
                   "Of effect slow: share of its rate that one NIC has left.", {"0.001", "1"}),
      // NCCL gives up after 4.096 us x 2^NCCL_IB_TIMEOUT x NCCL_IB_RETRY_CNT, 30 s by default (its documentation of
      // environment variables: 20 and 7); a longer outage ends the job.
      sim::key_row("causes.*.outage", "quantity", "time", "0 s", {},
                   "Of effect slow: a NIC flaps and is away for so long, during which the whole job waits; a longer "
                   "outage than the transport's retries bear ends the job (effect crash).",
                   {"0 s", "30 s"}),
      sim::key_row("causes.*.outage_every", "quantity", "time", "-", {},
                   "Of effect slow: from one outage of the NIC to the next.", {"1 ms", "1 year"}),
      sim::key_row("causes.*.outage_rate", "number", "", "0", {},
                   "Of effect slow: share of its rate that the NIC has left during an outage, as when one of its two "
                   "ports is lost; at 0 the job waits.",
                   {"0", "1"}),
  };
}

std::vector<sim::Key> fleet_rows() {
  std::vector<sim::Key> rows{
      sim::key_row("inherits", "name", "", "-", {}, "A fleet; the other members of the mapping change it."),
      sim::key_row("description", "text", "", "-", {}, "What was observed, for people."),
      sim::key_row("source", "text", "", "-", {}, "Where it was published."),
      sim::key_row("observed", "mapping", "", "-", {}, "The window in which failures were counted."),
      sim::key_row("observed.window", "quantity", "time", "", {}, "Its length.", {"1 s", "100 years"}),
      sim::key_row("observed.devices", "number", "GPUs", "", {}, "GPUs that were watched.", {"1", "1e9"}),
      sim::key_row("observed.devices_per_node", "number", "GPUs", "8", {}, "GPUs of a node.", {"1", "1024"}),
      sim::key_row("observed.nics_per_node", "number", "NICs", "8", {}, "NICs of a node.", {"1", "1024"}),
  };
  for (sim::Key& row : cause_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

std::string_view name_of(Effect effect) { return kEffects[static_cast<std::size_t>(effect)]; }
std::string_view name_of(Loses loses) { return kLosses[static_cast<std::size_t>(loses)]; }
std::string_view name_of(Per per) { return kPers[static_cast<std::size_t>(per)]; }

const sim::KeyTable& fleet_keys() {
  static const sim::KeyTable keys(fleet_rows());
  return keys;
}

Fleet load_fleet(const Settings& document) {
  fleet_keys().check(document);
  Fleet fleet;
  fleet.description = document.get_text("description", "");
  fleet.source = document.get_text("source", "");
  const Settings& causes = document.at("causes");
  if (!causes.is_mapping()) causes.expected("a mapping from names to causes");
  for (const auto& [name, given] : causes.members()) {
    if (!given.is_null()) fleet.causes.push_back(load_cause(document, name, given));
  }
  return fleet;
}

}  // namespace orrery::campaign
