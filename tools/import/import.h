// What people already have, as scenarios: a model's config.json of Hugging Face, a Megatron-LM launch line, a NeMo
// configuration or recipe, a recipe of Megatron-Bridge, a training configuration of TorchTitan, DeepSpeed or
// Accelerate, a result log of MLPerf. An importer reads one form into a Draft: values of the scenario language, each
// placed where it was read, so that a complaint of the loader points into the user's own file, and remarks on what was
// left out and why.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/settings.h"

namespace orrery::tools {

/// A scenario in the making.
class Draft {
 public:
  /// `origin`: the source in words; `whole`: where what follows from several of its keys is said to stand.
  explicit Draft(std::string origin, const sim::Place& whole = {})
      : origin_(std::move(origin)), whole_(whole), document_(sim::Settings::mapping(whole)) {}

  /// Sets a key of the scenario language; a later value replaces an earlier one.
  void set(std::string_view key, std::string value, const sim::Place& place = {});
  void set(std::string_view key, std::int64_t value, const sim::Place& place = {});
  void set(std::string_view key, bool value, const sim::Place& place = {});
  /// Lays "key.path=value" over it.
  void apply(const std::string& assignment) { scenarios::apply_set(document_, assignment); }

  /// Something of the source that was not taken over.
  void ignored(const std::string& what, const std::string& why) { ignored_.push_back(what + ": " + why); }
  /// Something that the source does not say.
  void assumed(const std::string& what, const std::string& why) { assumed_.push_back(what + ": " + why); }

  /// Whether the key was set.
  bool has(std::string_view key) const;
  const sim::Settings& document() const { return document_; }
  const std::vector<std::string>& ignored() const { return ignored_; }
  const std::vector<std::string>& assumed() const { return assumed_; }
  /// The scenario as YAML, the remarks as comments above it.
  std::string yaml() const;

 private:
  std::string origin_;
  sim::Place whole_;
  sim::Settings document_;
  std::vector<std::string> ignored_, assumed_;
};

/// Lines under a title, each behind `mark`, as they stand in a file ("# ") or go to a terminal (""); empty for none.
std::string remarks(const std::string& title, const std::vector<std::string>& lines, const std::string& mark);

/// One option of a launch line: "--micro-batch-size 1" is the name without dashes and one value.
struct LaunchOption {
  std::string name;
  std::vector<std::string> values;
  sim::Place place;
};
/// A launch line or script, read as far as a launch script goes: comments, quotes, continued lines, variables, arrays
/// and sums of whole numbers; no loops, no commands that are run. Left out: what a variable of the environment holds.
struct LaunchLine {
  std::vector<LaunchOption> options;                           // in their order
  std::vector<std::pair<std::string, std::string>> variables;  // assigned in the script
  sim::Place place;                                            // of the whole
};
LaunchLine read_launch_line(const std::string& text, const std::string& file);

// Each reads one form. Throws sim::UserError for broken files, unknown architectures (with the nearest known),
// contradictory values, and models that orrery has no family for.
Draft import_hf(const std::string& file);
Draft import_nemo(const std::string& file);
Draft import_megatron(const LaunchLine& line);
/// `gpus`: of the job, which these files do not say. `sets`: what the user lays over it; one has to name the model.
Draft import_torchtitan(const std::string& file, std::int64_t gpus);
Draft import_deepspeed(const std::string& file, std::int64_t gpus, const std::vector<std::string>& sets);
/// A recipe of NeMo 2 in Python. `gpus`: of the job; 0: what the recipe says. `function`: whose recipe, where the file
/// holds several, else empty.
Draft import_nemo_recipe(const std::string& file, std::int64_t gpus, const std::string& function);
/// A recipe of Megatron-Bridge, in Python or as the YAML that it writes. `gpus`: of the job; 0: what the recipe's name
/// says, or a replica. `overrides`: as its scripts take them ("model.tensor_model_parallel_size=2").
Draft import_bridge(const std::string& file, std::int64_t gpus, const std::string& function,
                    const std::vector<std::string>& overrides);
Draft import_accelerate(const std::string& file, const std::vector<std::string>& sets);
Draft import_mllog(const std::string& file);

/// Of recomputation, where a configuration leaves it to the training script.
inline constexpr const char* kScriptSays =
    "the default of the software; the training script says whether: --set recompute=full or none";

struct ClusterFacts;
/// The wiring of a cluster or of a node as a document: a fabric, or what the key cluster.device.node holds. Throws
/// sim::UserError for text that is no form of it.
std::string import_topology(const std::string& file, const ClusterFacts& facts);

/// A TOML document. Throws sim::UserError where it is none.
sim::Settings read_toml(const std::string& file);

/// The launch arguments of Megatron-LM for a scenario: one flag a line, joined by backslashes. Throws sim::UserError
/// for what Megatron-LM has no flag for.
std::string megatron_arguments(const scenarios::Scenario& scenario);

/// The text of a file; throws sim::UserError when it cannot be read or holds more than 16 MiB.
std::string read_text(const std::string& file);

}  // namespace orrery::tools
