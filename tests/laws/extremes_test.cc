// No number of any document ends in an internal error, in a step of no time, or in a wait: every number of every kind
// of device, fabric and generation, and every number of the language, is put to its extremes, and what comes of it is a
// step or a refusal in one line.
#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <ctime>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "scenarios/library.h"
#include "scenarios/origin.h"
#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "tests/catch.h"
#include "workloads/step/step.h"

using namespace orrery;
using sim::Settings;

namespace {

const sim::Place kPlace{"extreme", 0, 0};

Settings toy() {
  return scenarios::parse_yaml(
      "cluster: {device: h100-sxm-80gb, gpus: 32, fabric: ndr-rail}\n"
      "model: {layers: 4, hidden: 512, heads: 8, vocab: 1024, seq: 256}\n"
      "parallelism: {tensor: 2, pipeline: 2, data: 8, sharding: optimizer}\n"
      "batch: {global: 32, micro: 1}\n"
      "software: megatron-core-0.8\n",
      "toy.yaml");
}

// Under sanitizers, which take ten times as long, one extreme of so many is tried.
#ifdef __SANITIZE_ADDRESS__
constexpr int kOneExtremeOf = 25;
#else
constexpr int kOneExtremeOf = 1;
#endif

struct Extremes {
  int simulated = 0, refused = 0, seen = 0;
  std::vector<std::string> wrong;
};

/// Runs the scenario; notes what is neither a step of some time nor a refusal.
void run(const Settings& scenario, const std::string& what, Extremes& tally) {
  if (tally.seen++ % kOneExtremeOf != 0) return;
  const std::clock_t begin = std::clock();
  try {
    const workloads::Job job = scenarios::load_scenario(scenario).job;
    const workloads::StepReport report = workloads::simulate_step(job);
    const double step = sim::to_seconds(report.iteration);
    ++tally.simulated;
    if (!(step > 0 && step <= 1e6)) tally.wrong.push_back(fmt::format("{}: a step of {} s", what, step));
    if (!(report.rates.mfu_pct >= 0 && report.rates.mfu_pct <= 100)) tally.wrong.push_back(what + ": MFU above 100 %");
    if (!(report.memory.peak_bytes >= 0 && std::isfinite(report.memory.peak_bytes)))
      tally.wrong.push_back(what + ": memory");
  } catch (const sim::UserError& error) {
    ++tally.refused;
    if (std::string(error.what()).find('\n') != std::string::npos) tally.wrong.push_back(what + ": more than a line");
  } catch (const std::exception& error) {
    tally.wrong.push_back(fmt::format("{}: {}", what, error.what()));
  }
  // Slow by an order of magnitude on any machine, also under sanitizers; a step of the toy takes milliseconds.
  constexpr double kPatience = 20;  // of CPU time
  const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  if (took > kPatience) tally.wrong.push_back(fmt::format("{}: took {:.0f} s", what, took));
}

/// The unit behind the number of `text`; nothing where there is no number.
std::optional<std::string> unit_of(const std::string& text) {
  std::size_t end = 0;
  try {
    std::stod(text, &end);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  std::string unit = text.substr(end);
  unit.erase(0, unit.find_first_not_of(' '));
  const bool is_unit = unit.size() <= 7 && unit.find(' ') == std::string::npos;
  return is_unit ? std::optional(unit) : std::nullopt;
}

/// Paths of the numbers below `node`, one for each place of the table: of equal items of a list the first.
void numbers(const Settings& node, const std::string& path, std::map<std::string, std::string>& found) {
  if (node.is_scalar()) {
    if (const auto unit = unit_of(node.text())) found.emplace(path, *unit);
    return;
  }
  for (const auto& [name, member] : node.members()) {
    if (name != "provenance" && name != "facts" && name != "offers" && name != "name" && name != "description")
      numbers(member, path.empty() ? name : path + "." + name, found);
  }
  if (!node.items().empty()) numbers(node.items().front(), path + "[0]", found);
}

/// `node` with the number at `path` replaced.
Settings replaced(const Settings& node, std::string_view path, const std::string& text) {
  if (path.empty()) return Settings::scalar(text, kPlace);
  if (path.front() == '.') path.remove_prefix(1);
  if (path.starts_with("[0]")) {
    Settings list = Settings::sequence(kPlace);
    for (std::size_t i = 0; i < node.items().size(); ++i)
      list.append(i == 0 ? replaced(node.items()[i], path.substr(3), text) : node.items()[i]);
    return list;
  }
  const std::size_t end = std::min(path.find_first_of(".["), path.size());
  Settings mapping = Settings::mapping(kPlace);
  for (const auto& [name, member] : node.members())
    mapping.set(name, name == path.substr(0, end) ? replaced(member, path.substr(end), text) : member);
  return mapping;
}

const std::vector<std::string>& extremes() {
  static const std::vector<std::string> kValues{"0", "1e-300", "1e-6", "1e6", "1e300", "-1"};
  return kValues;
}

/// Sections for each type of data and each collective hold the same keys: one of them stands for all.
std::string alike(const std::string& path) {
  if (!path.starts_with("gemm.") && !path.starts_with("collectives.")) return path;
  const std::size_t first = path.find('.'), second = path.find('.', first + 1);
  return second == std::string::npos ? path : path.substr(0, first) + path.substr(second);
}

/// Puts the extremes to every number of the shipped documents of a kind, each key once in all of them.
Extremes try_documents(const std::string& kind, const std::string& key, const std::vector<std::string>& names) {
  Extremes tally;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    const Settings document =
        scenarios::whole_document(kind, scenarios::document_file(kind, Settings::scalar(name, kPlace)));
    std::map<std::string, std::string> found;
    numbers(document, "", found);
    const std::string shape = document.find("kind") != nullptr ? document.at("kind").text() : "";
    for (const auto& [path, unit] : found) {
      if (!seen.insert(shape + " " + alike(path)).second) continue;
      for (const std::string& value : extremes()) {
        const std::string text = unit.empty() ? value : value + " " + unit;
        Settings scenario = toy();
        scenario.set_path(key, replaced(document, path, text));
        run(scenario, fmt::format("{} {}.{} = {}", kind, name, path, text), tally);
      }
    }
  }
  return tally;
}

void check_tally(const Extremes& tally, int least_simulated, int least_refused) {
  for (const std::string& wrong : tally.wrong) FAIL_CHECK(wrong);
  const int part = kOneExtremeOf == 1 ? 1 : 2 * kOneExtremeOf;  // the few that are tried need not be a fair draw
  CHECK(tally.simulated >= least_simulated / part);
  CHECK(tally.refused >= least_refused / part);
}

}  // namespace

TEST_CASE("no extreme of a device's numbers ends in anything but a step or a refusal") {
  check_tally(try_documents("devices", "cluster.device", {"h100-sxm-80gb", "mi250x-gcd"}), 100, 200);
}

TEST_CASE("no extreme of a fabric's numbers ends in anything but a step or a refusal") {
  check_tally(try_documents("fabrics", "cluster.fabric", scenarios::shipped("fabrics")), 15, 100);
}

TEST_CASE("no extreme of a generation's numbers ends in anything but a step or a refusal") {
  check_tally(try_documents("software", "software", {"megatron-core-0.8", "paddle-2023"}), 40, 40);
}

TEST_CASE("no extreme of the language's own numbers, nor a bound of any, ends in anything but a step or a refusal") {
  Extremes tally;
  for (const scenarios::Key& key : scenarios::schema()) {
    const bool number = key.type == "integer" || key.type == "number" || key.type == "quantity";
    if (!number || key.path.find_first_of("[*") != std::string::npos) continue;
    const bool other_document = key.path.starts_with("cluster.device") || key.path.starts_with("cluster.fabric") ||
                                key.path.starts_with("software.");
    std::vector<std::string> values{std::string(key.bounds.low), std::string(key.bounds.high)};
    if (!other_document) values.insert(values.end(), extremes().begin(), extremes().end());
    for (const std::string& value : values) {
      if (value.empty()) continue;
      Settings scenario = toy();
      try {
        scenarios::apply(scenario, {key.path, Settings::scalar(value, kPlace)});
      } catch (const sim::UserError&) {
        continue;  // a member of what the toy gives by name
      }
      run(scenario, fmt::format("{} = {}", key.path, value), tally);
    }
  }
  check_tally(tally, 100, 100);
}

TEST_CASE("what used to be accepted, or to end in an internal error, is refused with its bounds") {
  const auto refusal = [](const std::vector<std::string>& sets) {
    Settings scenario = toy();
    for (const std::string& set : sets) scenarios::apply_set(scenario, set);
    try {
      workloads::simulate_step(scenarios::load_scenario(scenario).job);
    } catch (const sim::UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal({"cluster.fabric.nic_rate='400 b/s'"}).find("got 400 b/s, expected 1 Gb/s to 100 Tb/s") !=
        std::string::npos);
  CHECK(refusal({"cluster.fabric.nic_rate='1 PB/s'"}).find("got 1 PB/s, expected 1 Gb/s") != std::string::npos);
  CHECK(refusal({"cluster.device.streaming.efficiency.layer_norm=1e-12"}).find("expected 0.001 to 1") !=
        std::string::npos);
  // 5e6 parameters, 2 bytes each, in buckets of a byte were 41.8 million events.
  CHECK(refusal({"software.parameter_bucket='1 B'", "software.bucket_elements_per_rank=0", "overlap.parameters=true"})
            .find("software.buckets.parameter_bucket: got") != std::string::npos);
  CHECK(refusal({"software.parameter_bucket='1 MB'", "software.bucket_elements_per_rank=0", "overlap.parameters=true"})
            .empty());
  // Each within its bounds, together a step of weeks.
  CHECK(refusal({"software.step_host='100 s'"}).empty());
  CHECK(refusal({"cluster.fabric.nic_rate='1 Gb/s'", "cluster.fabric.efficiency=0.01", "model.hidden=65536",
                 "model.seq=65536", "batch.global=800", "perturb={background: {leaf: 0.99}}"})
            .find('\n') == std::string::npos);
}
