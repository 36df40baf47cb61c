// A key's default stands in its row, which help and the JSON Schema print, and once more in the loader that reads it.
// The two are the same: a scenario that gives a key its documented default is the one that leaves it out.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "scenarios/schema.h"
#include "tests/catch.h"
#include "tests/scenarios/expect.h"
#include "workloads/step/step.h"

using namespace orrery::scenarios;
using orrery::sim::Settings;

namespace {

/// Whether the default is a value, and not a rule in words.
bool is_value(const Key& key) {
  if (key.fallback.empty() || key.path.find_first_of("[*") != std::string::npos) return false;
  if (key.type == "boolean") return key.fallback == "true" || key.fallback == "false";
  if (key.type == "choice") return std::count(key.choices.begin(), key.choices.end(), key.fallback) > 0;
  if (key.type == "integer" || key.type == "number")
    return key.fallback.find_first_not_of("0123456789.e-") == std::string::npos && key.fallback != "-";
  return key.type == "quantity" && std::isdigit(static_cast<unsigned char>(key.fallback.front())) != 0 &&
         key.fallback.find(' ') == key.fallback.rfind(' ');
}

/// Keys whose default is that of a mapping which is there: without one nothing is computed again.
const std::set<std::string> kOfMappings{"recompute.kind"};

/// Whether a document of another file is asked first: cluster.device is a name, which cluster.device.memory lies below.
bool lies_in_a_file(const Settings& document, const std::string& path) {
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
    const Settings* above = document.find_path(path.substr(0, dot));
    if (above != nullptr && above->is_scalar()) return true;
  }
  return false;
}

/// Whatever a scenario's answer hangs on, in numbers.
struct Meaning {
  orrery::workloads::Model model;
  orrery::workloads::Parallelism parallelism;
  orrery::calibration::Software software;
  double seconds = 0, peak_bytes = 0, evaluation_s = 0;
  bool operator==(const Meaning&) const = default;
};

Meaning meaning_of(const Settings& document) {
  const orrery::workloads::Job job = load_scenario(document).job;
  const orrery::workloads::StepReport step = orrery::workloads::simulate_step(job);
  return {job.model,
          job.parallelism,
          job.software,
          orrery::sim::to_seconds(step.iteration),
          step.memory.peak_bytes,
          step.evaluation.seconds};
}

}  // namespace

TEST_CASE("a key's documented default is what a scenario without the key means") {
  std::set<std::string> same;
  const std::string mixture = "kind: moe\n  experts: 8\n  top_k: 2\n  expert_ffn_hidden: 512\n  layers: 24";
  const std::string latent = mixture + "\n  kv_lora: 512\n  qk_nope_dim: 128\n  qk_rope_dim: 64\n  v_dim: 128";
  for (const std::string& text : {small_scenario(), with_line(7, "  " + mixture), with_line(7, "  " + latent),
                                  with_line(20, "software: pytorch-fsdp2-2026\nfinetune: {kind: lora, rank: 16}")}) {
    const Settings document = parse_yaml(text, "t.yaml");
    const Meaning without = meaning_of(document);
    for (const Key& key : schema()) {
      if (!is_value(key) || kOfMappings.contains(key.path) || document.find_path(key.path) != nullptr ||
          lies_in_a_file(document, key.path))
        continue;
      Settings with = document;
      Meaning given;
      try {
        apply_set(with, key.path + "=" + key.fallback);
        given = meaning_of(with);
      } catch (const orrery::sim::UserError&) {
        continue;  // of another kind of scenario
      }
      INFO(key.path << "=" << key.fallback << " in\n" << text);
      CHECK(given == without);
      same.insert(key.path);
    }
  }
  CHECK(same.size() > 45);
}
