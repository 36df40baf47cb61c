// `orrery import hf|megatron|nemo|...`: writes what was read as a scenario. The loader reads it first, so that what is
// written runs; then it is written whole or not at all. Remarks go to standard error and into the file.
#include "tools/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "scenarios/serving.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/import/kubernetes.h"
#include "tools/import/launch_commands.h"
#include "tools/import/serving_flags.h"
#include "tools/import/trace_graph.h"
#include "tools/import/wires.h"
#include "tools/parallel.h"
#include "tools/replay/chakra.h"
#include "tools/report/output.h"

namespace orrery::tools {

using sim::UserError;

namespace {

struct ImportOptions {
  std::string file, out, recipe;
  std::vector<std::string> sets, arguments, environment, script_arguments, cuts;
  std::int64_t gpus = 8, recipe_gpus = 0;
  ClusterFacts cluster;
};

/// To the file asked for, or to standard output.
void write_text(const std::string& text, const ImportOptions& options) {
  if (options.out.empty() || options.out == "-") {
    std::cout << text;
  } else {
    write_output(options.out, [&](std::ostream& stream) { stream << text; });
  }
}

/// What the user gives is no longer assumed; of a device and a fabric that were assumed together the fabric still is.
void forget_given(Draft& draft, const std::string& set) {
  const std::string key = set.substr(0, set.find('='));
  draft.forget(key);
  if (key != "cluster.device") return;
  const bool together = std::any_of(draft.assumed().begin(), draft.assumed().end(),
                                    [](const std::string& line) { return line.starts_with("cluster: H100"); });
  if (!together) return;
  draft.forget("cluster");
  const sim::Settings* fabric = draft.document().find_path("cluster.fabric");
  if (fabric != nullptr && fabric->is_scalar())
    draft.assumed("cluster.fabric", fabric->text() + "; --set cluster.fabric=NAME for another");
}

int write_draft(Draft draft, const ImportOptions& options) {
  for (const bool device : {true, false}) {  // which says the fabric by itself, ahead of the fabric
    for (const std::string& set : options.sets)
      if (set.starts_with("cluster.device=") == device) forget_given(draft, set);
  }
  for (const std::string& set : options.sets) {
    // A model that the importer has laid what the file says over stays as it is.
    const sim::Settings* base = draft.document().find_path("model.inherits");
    const bool laid = base != nullptr && base->is_scalar() && set == "model=" + base->text();
    if (!laid) draft.apply(set);
  }
  draft.settle_batch();
  // What the loader refuses is not written.
  if (draft.has("serving"))
    scenarios::load_serving(draft.document());
  else
    scenarios::load_scenario(draft.document());
  write_text(draft.yaml(), options);
  if (!silenced()) {  // they are in the file as well
    std::cerr << remarks("not taken over:", draft.ignored(), "")
              << remarks("not said there, to be checked:", draft.assumed(), "");
  }
  return kDone;
}

/// The text of a file that a script reads in; no pipe, no device.
std::optional<std::string> beside(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  return read_text(file);
}

ShellGiven given_to_script(const ImportOptions& options) {
  ShellGiven given;
  for (const std::string& each : options.environment) {
    const std::size_t equals = each.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw UserError(fmt::format("orrery: import: --env: got \"{}\", expected NAME=VALUE", each));
    given.environment[each.substr(0, equals)] = each.substr(equals + 1);
  }
  given.arguments = options.script_arguments;
  given.arguments_known = !options.script_arguments.empty();
  given.read = beside;
  return given;
}

/// A script, or the arguments themselves, as one quoted text or as many.
LaunchScript launch_line(const ImportOptions& options) {
  const std::vector<std::string>& words = options.arguments;
  const ShellGiven given = given_to_script(options);
  if (words.empty())
    throw UserError("orrery: import megatron: got no arguments, expected a launch script or its flags");
  if (words.size() == 1 && !words[0].starts_with("-") && words[0].find(" --") == std::string::npos)
    return read_launch_line(read_text(words[0]), words[0], given);
  if (words.size() == 1) return read_launch_line(words[0], "arguments", given);
  std::string text;
  for (const std::string& word : words) {
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
    const bool plain = word.find_first_of(" \t\n'\"\\$`#()<>|&;{}*?!") == std::string::npos;
    text += (text.empty() ? "" : " ") + (plain ? word : quoted + "'");
  }
  return read_launch_line(text, "arguments", given);
}

/// Names of a script's arguments by their numbers, as NAME=$4 and export NAME="${10}" have them.
std::map<int, std::string> argument_names(const std::string& script) {
  std::map<int, std::string> names;
  std::istringstream lines(script);
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    std::size_t begin = equals, at = equals + 1;
    while (begin > 0 && is_word(line[begin - 1])) --begin;
    if (at < line.size() && (line[at] == '"' || line[at] == '\'')) ++at;
    if (begin == equals || at >= line.size() || line[at] != '$') continue;
    if (line[++at] == '{') ++at;
    int number = 0;
    const auto [behind, error] = std::from_chars(line.data() + at, line.data() + line.size(), number);
    const bool ends = behind == line.data() + line.size() || !is_word(*behind);
    if (error == std::errc{} && ends && number > 0 && number < 100)
      names.emplace(number, line.substr(begin, equals - begin));
  }
  return names;
}

/// SWIFT's options are Megatron-LM's, around a model that is named.
Draft import_swift(LaunchScript script, const std::vector<std::string>& sets) {
  LaunchLine line = script.ways.front();
  const std::string model = swift_as_megatron(line);
  Draft draft = import_with_idle_options(line, model, sets);
  if (script.ways.size() > 1) draft.first("of the script's ways through conditions that it does not decide: the first");
  draft.assumed("options that are not there", "as Megatron-LM has them, bf16");
  return draft;
}

/// Where a script needs arguments that were not given, that is the question, by the names that it gives them.
Draft import_script(const ImportOptions& options) {
  const std::string file = options.arguments.size() == 1 ? options.arguments[0] : "";
  std::error_code missing;
  if (std::filesystem::is_regular_file(file, missing) && is_megatron_log(read_text(file)))
    return import_megatron_log(file, options.sets);
  LaunchScript script;
  try {
    script = launch_line(options);
    const std::string text =
        std::filesystem::is_regular_file(file, missing) ? read_text(file) : options.arguments.front();
    if (starts_swift(text)) return import_swift(script, options.sets);
    return import_megatron(script, options.sets);
  } catch (const UserError& error) {
    std::error_code none;
    const std::string said = error.what();
    // Scripts end where what they need is not set.
    if (said.find("no training of Megatron-LM's is started") != std::string::npos && !script.unset.empty())
      throw UserError(fmt::format("{}; not assigned in it, and taken as unset: {}; --env NAME=VALUE says it", said,
                                  fmt::join(script.unset, ", ")));
    const bool open = said.find("ARGUMENT") != std::string::npos || said.find(" ways ") != std::string::npos ||
                      said.find("which the script does not assign") != std::string::npos;
    if (!open || !std::filesystem::is_regular_file(file, none)) throw;
    const std::map<int, std::string> names = argument_names(read_text(file));
    const std::size_t given = options.script_arguments.size();
    if (names.size() < 2 || static_cast<int>(given) >= names.rbegin()->first) throw;
    std::string usage;
    for (int i = 1; i <= names.rbegin()->first; ++i) {
      const auto named = names.find(i);
      usage += " " + (named != names.end() ? named->second : std::to_string(i));
    }
    throw UserError({file, 1, 1}, fmt::format("${}", given + 1),
                    fmt::format("got {} arguments of the {} that the script reads, expected them behind the file: --{}",
                                given, names.rbegin()->first, usage));
  }
}

/// Operators of a trace with the tensors that they read and make.
Draft import_chakra(const ImportOptions& options) {
  std::vector<TracedOperation> operations;
  for (ChakraOperation& one : read_chakra_operations(options.file))
    operations.push_back({one.id,
                          one.inside,
                          std::move(one.name),
                          {std::move(one.in.values), std::move(one.in.shapes), std::move(one.in.types)},
                          {std::move(one.out.values), std::move(one.out.shapes), std::move(one.out.types)}});
  return import_graph(options.file, graph_of_trace(options.file, std::move(operations)), options.cuts);
}

Draft draft_of_kind(const std::string& kind, const ImportOptions& options, const std::vector<std::string>& overrides) {
  const std::string& file = options.file;
  if (kind == "hf") return import_hf(file);
  if (kind == "graph" && (file.ends_with(".et") || file.ends_with(".et.gz"))) return import_chakra(options);
  if (kind == "graph") return import_graph(file, options.cuts);
  if (kind == "nemo" && file.ends_with(".py"))
    return import_nemo_recipe(file, options.recipe_gpus, options.recipe, options.sets);
  if (kind == "nemo" && read_text(file).find("nemo llm ") != std::string::npos)
    return import_nemo_recipe(file, options.recipe_gpus, options.recipe, options.sets);
  if (kind == "nemo") return import_nemo(file);
  if (kind == "bridge") return import_bridge(file, options.recipe_gpus, options.recipe, overrides, options.sets);
  if (kind == "accelerate") return import_accelerate(file, options.sets);
  if (kind == "torchtitan") return import_torchtitan(file, options.gpus, options.recipe, overrides);
  if (kind == "deepspeed") return import_deepspeed(file, options.gpus, options.sets);
  if (kind == "nanotron") return import_nanotron(file);
  if (kind == "primus") return import_primus(file, options.gpus, options.sets);
  if (kind == "axolotl") return import_axolotl(file, options.gpus, options.sets);
  if (kind == "llamafactory") return import_llamafactory(file, options.gpus, options.sets);
  if (kind == "mllog") return import_mllog(file, options.sets);
  if (kind == "kubernetes") return import_kubernetes(file, options.sets, given_to_script(options));
  if (kind == "vllm" || kind == "sglang" || kind == "trtllm")
    return import_server(kind, options.arguments, options.gpus, options.sets, given_to_script(options));
  return import_script(options);
}

/// Where a kind that was named does not fit, the one that the file's words say.
Draft draft_or_hint(const std::string& kind, const ImportOptions& options, const std::vector<std::string>& overrides) {
  try {
    return draft_of_kind(kind, options, overrides);
  } catch (const UserError& error) {
    std::error_code none;
    const std::string file = kind != "megatron"              ? options.file
                             : options.arguments.size() == 1 ? options.arguments[0]
                                                             : "";
    std::string other;
    try {
      if (std::filesystem::is_regular_file(file, none)) other = import_kind(file);
    } catch (const UserError& other_form) {
      // What it is, where that is known and nothing imports it.
      const std::string what = other_form.what();
      const std::size_t begin = what.find("got "), end = what.find(", expected a file to be imported");
      if (begin != std::string::npos && end != std::string::npos)
        throw UserError(fmt::format("{}; it is {}", error.what(), what.substr(begin + 4, end - begin - 4)));
      other = kind;  // no better word
    }
    if (other.empty() || other == kind) throw;
    throw UserError(
        fmt::format("{}; the file looks like one of another kind: orrery import {} FILE", error.what(), other));
  }
}

void declare_common(CommandOptions sub, const std::shared_ptr<ImportOptions>& options) {
  sub.add_option("--out", options->out, "write the scenario to FILE; without it, to standard output")
      .type_name("SCENARIO.yaml");
  sub.add_option("--set", options->sets, "key.path=value, laid over what was read (cluster.gpus=1024); may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
}

void declare_script(CommandOptions sub, const std::shared_ptr<ImportOptions>& options) {
  sub.add_option("--env", options->environment, "a variable of the script's environment; may be repeated")
      .allow_extra_args(false)
      .type_name("NAME=VALUE");
  sub.add_option("--argument", options->script_arguments,
                 "an argument of the script ($1, then $2); they may stand behind -- as well")
      .allow_extra_args(false)
      .type_name("VALUE");
}

CommandOptions declare_topology_import(CommandOptions app, const std::shared_ptr<ImportOptions>& options) {
  CommandOptions topology = app.add_subcommand(
      "topology",
      "the wiring of a cluster or a node: ibnetdiscover, Slurm's topology.conf, nvidia-smi topo -m, rocm-smi "
      "--showtopo, or a table a,b,rate,lanes,kind");
  topology.add_option("file", options->file, "what the tool printed").required().type_name("FILE");
  topology.add_option("--out", options->out, "write the fabric to FILE; without it, to standard output")
      .type_name("FABRIC.yaml");
  topology.add_option("--nics", options->cluster.nics, "NICs of a host, where the file does not list them (default 8)")
      .check(Range(1, 1024));
  topology
      .add_option("--nic-rate", options->cluster.nic_rate,
                  "rate of a NIC, where the file does not say it (default '400 Gb/s')")
      .type_name("RATE");
  topology
      .add_option("--link-rate", options->cluster.link_rate,
                  "rate of one NVLink or XGMI link per direction (default '25 GB/s')")
      .type_name("RATE");
  return topology;
}

/// Recipes in Python, of NeMo 2 and of Megatron-Bridge.
std::pair<CommandOptions, CommandOptions> declare_recipe_imports(CommandOptions app,
                                                                 const std::shared_ptr<ImportOptions>& options) {
  CommandOptions nemo = app.add_subcommand("nemo", "a recipe of NeMo 2 (Python), or a configuration of NeMo 1 (YAML)");
  nemo.add_option("file", options->file, "the recipe or the configuration").required().type_name("FILE.py|FILE.yaml");
  CommandOptions bridge = app.add_subcommand(
      "bridge",
      "a recipe of Megatron-Bridge (Python, or the YAML of its ConfigContainer): import bridge FILE [OVERRIDE]...");
  bridge.add_option("file", options->file, "the recipe").required().type_name("FILE.py|FILE.yaml");
  bridge.allow_extras();
  for (CommandOptions sub : {nemo, bridge}) {
    sub.add_option("--recipe", options->recipe, "the function whose recipe is meant, where a file has several")
        .type_name("FUNCTION");
    sub.add_option("--gpus", options->recipe_gpus, "GPUs of the job, in place of what the recipe says")
        .check(Range(1, 1 << 20));
  }
  return {nemo, bridge};
}

CommandOptions declare_graph_import(CommandOptions app, const std::shared_ptr<ImportOptions>& options) {
  CommandOptions graph = app.add_subcommand("graph",
                                            "the graph of a forward pass, of a model or of one layer: as "
                                            "tools/print_graph writes what torch.export has, or an "
                                            "execution trace of Chakra's");
  graph.add_option("file", options->file, "the graph, or a trace (.json, .et)").required().type_name("GRAPH");
  graph
      .add_option("--cut", options->cuts,
                  "how tensor ranks cut the weights whose names end so: WEIGHT=out, in or none; their part of a block "
                  "then runs by its operators; may be repeated")
      .allow_extra_args(false)
      .type_name("WEIGHT=CUT");
  return graph;
}

using Kinds = std::vector<std::pair<std::string, CommandOptions>>;

/// Launch lines of inference servers, by their engines.
Kinds declare_server_imports(CommandOptions app, const std::shared_ptr<ImportOptions>& options) {
  Kinds kinds;
  for (const auto& [name, what] :
       {std::pair("vllm",
                  "a launch line of vLLM, vllm serve MODEL ..., or a file that holds it: import vllm FILE|ARGS"),
        {"sglang", "a launch line of SGLang, python -m sglang.launch_server ...: import sglang FILE|ARGS"},
        {"trtllm", "a launch line of TensorRT-LLM, trtllm-serve MODEL ...: import trtllm FILE|ARGS"}}) {
    CommandOptions sub = app.add_subcommand(name, what);
    sub.allow_extras();
    sub.add_option("--gpus", options->gpus, "GPUs of the cluster, at least (default 8)").check(Range(1, 1 << 20));
    declare_script(sub, options);
    declare_common(sub, options);
    kinds.emplace_back(name, sub);
  }
  return kinds;
}

/// `kind`: of the subcommand; empty: what the file says. `overrides`: of a recipe.
int import_file(std::string kind, ImportOptions& options, const std::vector<std::string>& overrides) {
  if (!options.out.empty()) check_writable(options.out);
  if (kind.empty()) {
    if (options.file.empty())
      throw UserError(
          "orrery: import: got no file, expected one, as in orrery import config.json; orrery import --help "
          "lists what is read");
    kind = import_kind(options.file);
    if (options.recipe_gpus > 0) options.gpus = options.recipe_gpus;
    if (kind == "megatron" || kind == "vllm" || kind == "sglang" || kind == "trtllm")
      options.arguments = {options.file};
  }
  if (kind == "topology") {
    write_text(import_topology(options.file, options.cluster), options);
    return static_cast<int>(kDone);
  }
  Draft draft = draft_or_hint(kind, options, overrides);
  // Launch lines of servers count on so many at least.
  if (options.recipe_gpus > 0 && !draft.has("serving")) draft.set("cluster.gpus", options.recipe_gpus);
  return write_draft(std::move(draft), options);
}

}  // namespace

Action declare_import(CommandOptions app) {
  const auto options = std::make_shared<ImportOptions>();
  app.add_option("file", options->file, "a file, whose words say which of the kinds below it is").type_name("FILE");
  declare_common(app, options);
  declare_script(app, options);
  app.add_option("--gpus", options->recipe_gpus,
                 "GPUs of the job, where the file does not say, or in place of what it says")
      .check(Range(1, 1 << 20));
  app.add_option("--recipe", options->recipe, "the function whose recipe is meant, where a file in Python has several")
      .type_name("FUNCTION");
  CommandOptions hf = app.add_subcommand("hf", "a model's config.json of Hugging Face transformers");
  hf.add_option("file", options->file,
                fmt::format("config.json of the model; model_type is one of {}", fmt::join(known_model_types(), ", ")))
      .required()
      .type_name("CONFIG.json");
  CommandOptions graph = declare_graph_import(app, options);
  CommandOptions megatron =
      app.add_subcommand("megatron", "a launch script of Megatron-LM, or its arguments: import megatron FILE|ARGS");
  megatron.allow_extras();
  declare_script(megatron, options);
  const auto [nemo, bridge] = declare_recipe_imports(app, options);
  CommandOptions accelerate =
      app.add_subcommand("accelerate", "a configuration of Hugging Face Accelerate; --set model=NAME says the model");
  accelerate.add_option("file", options->file, "the configuration").required().type_name("FILE.yaml");
  CommandOptions torchtitan =
      app.add_subcommand("torchtitan",
                         "a training configuration of TorchTitan (TOML, or a config_registry.py): import torchtitan "
                         "FILE [--SECTION.KEY VALUE]...");
  torchtitan.add_option("file", options->file, "the configuration").required().type_name("FILE.toml|FILE.py");
  torchtitan.allow_extras();
  torchtitan
      .add_option("--recipe", options->recipe, "the function whose configuration is meant, where a file has several")
      .type_name("FUNCTION");
  CommandOptions deepspeed =
      app.add_subcommand("deepspeed", "a configuration of DeepSpeed; --set model=NAME says the model");
  deepspeed.add_option("file", options->file, "the configuration").required().type_name("FILE.json");
  for (CommandOptions sub : {torchtitan, deepspeed}) {
    sub.add_option("--gpus", options->gpus, "GPUs of the job (default 8); the file does not say")
        .check(Range(1, 1 << 20));
  }
  CommandOptions nanotron = app.add_subcommand("nanotron", "a configuration of Hugging Face's nanotron (YAML)");
  nanotron.add_option("file", options->file, "the configuration").required().type_name("FILE.yaml");
  CommandOptions primus = app.add_subcommand("primus", "an experiment of AMD's Primus over Megatron-LM (YAML)");
  primus.add_option("file", options->file, "the experiment").required().type_name("FILE.yaml");
  CommandOptions axolotl = app.add_subcommand("axolotl", "a configuration of Axolotl (YAML)");
  axolotl.add_option("file", options->file, "the configuration").required().type_name("FILE.yaml");
  CommandOptions factory = app.add_subcommand("llamafactory", "a configuration of LLaMA-Factory (YAML)");
  factory.add_option("file", options->file, "the configuration").required().type_name("FILE.yaml");
  for (CommandOptions sub : {primus, axolotl, factory}) {
    sub.add_option("--gpus", options->gpus, "GPUs of the job (default 8); the file does not say")
        .check(Range(1, 1 << 20));
  }
  CommandOptions mllog = app.add_subcommand("mllog", "the result log of an MLPerf run, as a measured record");
  mllog.add_option("file", options->file, "the log").required().type_name("FILE");
  CommandOptions kubernetes = app.add_subcommand(
      "kubernetes", "a manifest of Kubernetes around a server or a training: vllm serve in a Deployment, a PyTorchJob");
  kubernetes.add_option("file", options->file, "the manifest").required().type_name("FILE.yaml");
  declare_script(kubernetes, options);
  for (CommandOptions sub : {hf, graph, megatron, nemo, bridge, torchtitan, deepspeed, accelerate, nanotron, primus,
                             axolotl, factory, mllog, kubernetes})
    declare_common(sub, options);
  Kinds kinds{{"hf", hf},
              {"graph", graph},
              {"megatron", megatron},
              {"nemo", nemo},
              {"bridge", bridge},
              {"torchtitan", torchtitan},
              {"deepspeed", deepspeed},
              {"accelerate", accelerate},
              {"nanotron", nanotron},
              {"primus", primus},
              {"axolotl", axolotl},
              {"llamafactory", factory},
              {"mllog", mllog},
              {"kubernetes", kubernetes},
              {"topology", declare_topology_import(app, options)}};
  for (const auto& server : declare_server_imports(app, options)) kinds.push_back(server);
  return [options, kinds] {
    std::string kind;
    for (const auto& [name, sub] : kinds) {
      if (!sub.parsed()) continue;
      kind = name;
      options->arguments = sub.remaining();
    }
    return import_file(kind, *options,
                       kind == "bridge" || kind == "torchtitan" ? options->arguments : std::vector<std::string>{});
  };
}

}  // namespace orrery::tools
