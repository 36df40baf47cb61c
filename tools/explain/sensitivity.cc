// One simulation up and one down for every number found in the documents. The moved scenario goes through the very
// loader that a user's --set goes through, so that what is refused there is not tried here.
#include "tools/explain/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "scenarios/origin.h"
#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "sim/error.h"
#include "tools/parallel.h"
#include "tools/validation.h"
#include "workloads/step/step.h"
#include "workloads/step/step_cache.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// A number in a document.
struct Input {
  std::string key, text;
};

/// The row of the schema that describes `key`; stars stand for free names.
const scenarios::Key* described(const std::string& key) {
  for (const scenarios::Key& row : scenarios::schema()) {
    if (row.path == key) return &row;
  }
  return nullptr;
}

/// What gives a key of the software its value; empty for the keys of other documents.
std::string set_by(const calibration::Generation& software, const std::string& key) {
  const std::string prefix = "software.";
  const calibration::KeySource* source =
      key.starts_with(prefix) ? software.source_of(std::string_view(key).substr(prefix.size())) : nullptr;
  return source != nullptr ? calibration::text(*source) : "";
}

/// Numbers below `node`, without lists (tables move as a whole through their factors) and what the fits say of
/// themselves.
void collect(const Settings& node, const std::string& key, std::vector<Input>& inputs) {
  if (node.is_mapping()) {
    for (const auto& [name, member] : node.members()) {
      if (name != "error" && name != "provenance" && name != "facts") collect(member, key + "." + name, inputs);
    }
    return;
  }
  if (!node.is_scalar()) return;
  const scenarios::Key* row = described(key);
  if (row != nullptr && row->type != "number" && row->type != "quantity") return;
  const char first = node.text().empty() ? 'x' : node.text().front();
  if (first >= '0' && first <= '9') inputs.push_back({key, node.text()});
}

/// The number of `text` times `factor`, with its unit; empty where there is no number or it is 0.
std::string scaled(const std::string& text, double factor) {
  std::size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    return {};
  }
  return value == 0 ? std::string() : fmt::format("{:.9g}{}", value * factor, text.substr(end));
}

/// The step of the scenario with an input at another value; nothing where that is refused.
std::optional<double> step_with(const Settings& document, const Input& input, double factor,
                                const workloads::Question& options) {
  const std::string text = scaled(input.text, factor);
  if (text.empty()) return std::nullopt;
  Settings changed = document;
  try {
    scenarios::apply(changed, {input.key, Settings::scalar(text, {"--explain", 0, 0})});
    return sim::to_seconds(workloads::simulate_step(scenarios::load_scenario(changed).job, options).iteration);
  } catch (const sim::UserError&) {
    return std::nullopt;
  }
}

}  // namespace

double input_spread(const Settings& scenario, const std::string& key) {
  struct Entry {
    std::string pattern;
    std::vector<Settings> documents;  // none: all
    double spread;
  };
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> read;
    const std::string file = scenarios::data_directory() + "/calibration/spreads.yaml";
    if (!std::filesystem::exists(file)) return read;
    const Settings document = scenarios::read_yaml(file);
    for (const Settings& item : document.items()) {
      item.refuse_unknown({"keys", "documents", "spread", "why"});
      std::vector<Settings> documents;
      if (const Settings* names = item.find("documents")) documents = names->items();
      for (const Settings& pattern : item.at("keys").items()) {
        read.push_back({pattern.text(), documents, item.at("spread").as_number(0, 2)});
      }
    }
    return read;
  }();
  const auto stands_in = [&](const Settings& name) {
    const scenarios::DocumentKey row = scenarios::document_key(Settings::scalar(key, name.place()));
    return scenarios::reads_from(scenario, row, scenarios::document_file(row.kind, name));
  };
  for (const Entry& entry : entries) {
    if (!matches(key, entry.pattern)) continue;
    if (entry.documents.empty() || std::any_of(entry.documents.begin(), entry.documents.end(), stands_in))
      return entry.spread;
  }
  return 0;
}

SensitivityStudy sensitivities(const Settings& document, double share, unsigned jobs) {
  std::vector<Input> inputs;
  const std::pair<const char*, const char*> kinds[] = {
      {"devices", "cluster.device"}, {"fabrics", "cluster.fabric"}, {"software", "software"}};
  for (const auto& [kind, key] : kinds) collect(scenarios::referred_document(document, kind), key, inputs);
  // What a profile leaves at 1: the rates of whole kinds of kernels.
  for (const char* key : {"cluster.device.sustained.matmul", "cluster.device.sustained.attention"}) {
    const bool there = std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) { return input.key == key; });
    if (!there) inputs.push_back({key, "1"});
  }
  workloads::StepCache cache;
  workloads::Question options;
  options.parts = workloads::Question::Parts::times;
  options.cache = &cache;
  const double here =
      sim::to_seconds(workloads::simulate_step(scenarios::load_scenario(document).job, options).iteration);
  std::vector<std::optional<double>> steps(2 * inputs.size());
  const std::vector<char> finished = for_each_parallel(steps.size(), jobs, "inputs moved", [&](std::size_t i) {
    steps[i] = step_with(document, inputs[i / 2], i % 2 == 0 ? 1 + share : 1 / (1 + share), options);
  });
  const calibration::Generation software = scenarios::referred_software(document);
  SensitivityStudy study;
  study.tried = inputs.size();
  study.interrupted = std::find(finished.begin(), finished.end(), 0) != finished.end();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto &up = steps[2 * i], &down = steps[2 * i + 1];
    study.simulations += (up ? 1U : 0U) + (down ? 1U : 0U);
    if (!up && !down) continue;
    const double width = (up && down ? 2 : 1) * std::log1p(share);
    const double elasticity = (std::log(up.value_or(here)) - std::log(down.value_or(here))) / width;
    if (std::abs(elasticity) < 1e-6) continue;
    const scenarios::Key* row = described(inputs[i].key);
    study.inputs.push_back({inputs[i].key, inputs[i].text, row != nullptr ? row->meaning : "",
                            set_by(software, inputs[i].key), elasticity, input_spread(document, inputs[i].key),
                            !(up && down)});
  }
  std::stable_sort(study.inputs.begin(), study.inputs.end(), [](const Sensitivity& a, const Sensitivity& b) {
    return std::abs(a.elasticity) > std::abs(b.elasticity);
  });
  return study;
}

}  // namespace orrery::tools
