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
#include "tools/import/shell_run.h"

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
  void lay(std::string_view key, sim::Settings value) { document_.set_path(key, std::move(value)); }
  /// Takes back a member of the model.
  void drop_of_model(std::string_view key);
  /// Lays "key.path=value" over it.
  void apply(const std::string& assignment) { scenarios::apply_set(document_, assignment); }

  /// For sources that say nothing but the model: where it is trained, and on how much at a time, which is said.
  void assume_site();
  /// A batch that was assumed, and that nothing laid over it gave, follows the GPUs and the micro-batch.
  void settle_batch();

  /// Something of the source that was not taken over.
  void ignored(const std::string& what, const std::string& why) { ignored(what + ": " + why); }
  void ignored(const std::string& what) { ignored_.push_back(what); }
  /// Something that the source does not say.
  void assumed(const std::string& what, const std::string& why) { assumed_.push_back(what + ": " + why); }

  /// Takes back what was assumed of something.
  void forget(const std::string& what) {
    std::erase_if(assumed_, [&](const std::string& line) { return line.starts_with(what + ":"); });
  }
  /// Something that was not taken over and may matter more than the rest: it is said first.
  void first(const std::string& what) { ignored_.insert(ignored_.begin(), what); }

  /// Whether the key was set.
  bool has(std::string_view key) const;
  const sim::Settings& document() const { return document_; }
  const std::vector<std::string>& ignored() const { return ignored_; }
  const std::vector<std::string>& assumed() const { return assumed_; }
  /// Its values alone, as YAML.
  std::string values() const;
  /// The scenario as YAML, the remarks as comments above it.
  std::string yaml() const;

 private:
  std::string origin_;
  sim::Place whole_;
  sim::Settings document_;
  std::vector<std::string> ignored_, assumed_;
  std::int64_t assumed_batch_ = 0;  // 0: the source says it
};

/// Lines under a title, each behind `mark`, as they stand in a file ("# ") or go to a terminal (""); empty for none.
std::string remarks(const std::string& title, const std::vector<std::string>& lines, const std::string& mark);

/// One option of a launch line: "--micro-batch-size 1" is the name without dashes and one value.
struct LaunchOption {
  std::string name;
  std::vector<std::string> values;
  sim::Place place;
};
/// What one way through a launch script starts: the options of its training.
struct LaunchLine {
  std::vector<LaunchOption> options;                           // in their order
  std::vector<std::pair<std::string, std::string>> variables;  // as they are at the end
  sim::Place place;                                            // of the whole
  std::vector<ShellDecision> decisions;                        // that this way took
  std::vector<std::string> left_out;                           // words and commands of it that are not read
  std::string launcher = {};                                   // what starts it: "torchrun", "deepspeed"
  std::vector<std::string> documents = {};                     // that its script writes beside it
  std::string program = {};                                    // what is started: "pretrain_gpt.py"
};
/// A launch script, read as shells read it (shell_run.h); nothing is run.
struct LaunchScript {
  std::vector<LaunchLine> ways;      // at least one
  std::vector<std::string> unset;    // variables that it reads and nobody assigned
  std::vector<std::string> remarks;  // what was not followed
};
LaunchScript read_launch_line(const std::string& text, const std::string& file, const ShellGiven& given = {});

// Each reads one form. Throws sim::UserError for broken files, unknown architectures (with the nearest known),
// contradictory values, and models that orrery has no family for.
Draft import_hf(const std::string& file);
Draft import_nemo(const std::string& file);
/// The graph of a forward pass (model_graph.h). `cuts`: how tensor ranks cut weights, "mlp.up_proj.weight=out".
Draft import_graph(const std::string& file, const std::vector<std::string>& cuts);
struct ModelGraph;
/// Of a graph that was read from the file in another way.
Draft import_graph(const std::string& file, ModelGraph graph, const std::vector<std::string>& cuts);
/// `sets`: what the user lays over it, which stands for values that the script does not say.
Draft import_megatron(const LaunchScript& script, const std::vector<std::string>& sets = {});
/// A log whose first lines print the arguments of a training of Megatron-LM's.
bool is_megatron_log(const std::string& text);
Draft import_megatron_log(const std::string& file, const std::vector<std::string>& sets);
/// `gpus`: of the job, which these files do not say. `sets`: what the user lays over it; one has to name the model.
/// `function`: whose configuration, of a file in Python that has several. `overrides`: as its launches say them
/// ("--training.seq_len", "4096").
Draft import_torchtitan(const std::string& file, std::int64_t gpus, const std::string& function = "",
                        const std::vector<std::string>& overrides = {});
Draft import_deepspeed(const std::string& file, std::int64_t gpus, const std::vector<std::string>& sets);
/// A recipe of NeMo 2 in Python. `gpus`: of the job; 0: what the recipe says. `function`: whose recipe, where the file
/// holds several, else empty. `sets`: what the user lays over it, which may name the model.
Draft import_nemo_recipe(const std::string& file, std::int64_t gpus, const std::string& function,
                         const std::vector<std::string>& sets = {});
/// A recipe of Megatron-Bridge, in Python or as the YAML that it writes. `gpus`: of the job; 0: what the recipe's name
/// says, or a replica. `overrides`: as its scripts take them ("model.tensor_model_parallel_size=2").
Draft import_bridge(const std::string& file, std::int64_t gpus, const std::string& function,
                    const std::vector<std::string>& overrides, const std::vector<std::string>& sets = {});
Draft import_accelerate(const std::string& file, const std::vector<std::string>& sets);
Draft import_nanotron(const std::string& file);
/// A model that ships, with the options of a launch over it; an empty name: the options say the model.
Draft import_megatron_over(const LaunchLine& line, const std::string& model, const std::vector<std::string>& sets);
/// Likewise, with the options named that change nothing.
Draft import_with_idle_options(const LaunchLine& line, const std::string& model, const std::vector<std::string>& sets);
Draft import_primus(const std::string& file, std::int64_t gpus, const std::vector<std::string>& sets);
/// `gpus`: of the job. `sets`: which may name the model.
Draft import_axolotl(const std::string& file, std::int64_t gpus, const std::vector<std::string>& sets);
Draft import_llamafactory(const std::string& file, std::int64_t gpus, const std::vector<std::string>& sets);
/// The importer that a file is for: "hf", "topology", ... Throws sim::UserError with what would help where none is.
std::string import_kind(const std::string& file);
/// `sets`: what the user lays over it, of which the layout has to leave each rank a sequence.
Draft import_mllog(const std::string& file, const std::vector<std::string>& sets = {});
/// The values of model_type that import_hf() knows.
std::vector<std::string> known_model_types();

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
