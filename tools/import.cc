// `orrery import hf|megatron|nemo|...`: writes what was read as a scenario. The loader reads it first, so that what is
// written runs; then it is written whole or not at all. Remarks go to standard error and into the file.
#include "tools/import/import.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "tools/command_options.h"
#include "tools/commands.h"
#include "tools/import/wires.h"
#include "tools/parallel.h"
#include "tools/report/output.h"

namespace orrery::tools {

using sim::UserError;

namespace {

struct ImportOptions {
  std::string file, out, recipe;
  std::vector<std::string> sets, arguments;
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

int write_draft(Draft draft, const ImportOptions& options) {
  for (const std::string& set : options.sets) draft.apply(set);
  scenarios::load_scenario(draft.document());  // what it refuses is not written
  write_text(draft.yaml(), options);
  if (!silenced()) {  // they are in the file as well
    std::cerr << remarks("not taken over:", draft.ignored(), "")
              << remarks("not said there, to be checked:", draft.assumed(), "");
  }
  return kDone;
}

/// A script, or the arguments themselves, as one quoted text or as many.
LaunchLine launch_line(const ImportOptions& options) {
  const std::vector<std::string>& words = options.arguments;
  std::error_code error;
  if (words.empty())
    throw UserError("orrery: import megatron: got no arguments, expected a launch script or its flags");
  if (words.size() == 1 && !words[0].starts_with("-") && words[0].find(" --") == std::string::npos)
    return read_launch_line(read_text(words[0]), words[0]);
  if (words.size() == 1) return read_launch_line(words[0], "arguments");
  std::string text;
  for (const std::string& word : words) {
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
    const bool plain = word.find_first_of(" \t\n'\"\\$`#()") == std::string::npos;
    text += (text.empty() ? "" : " ") + (plain ? word : quoted + "'");
  }
  return read_launch_line(text, "arguments");
}

void declare_common(CommandOptions sub, const std::shared_ptr<ImportOptions>& options) {
  sub.add_option("--out", options->out, "write the scenario to FILE; without it, to standard output")
      .type_name("SCENARIO.yaml");
  sub.add_option("--set", options->sets, "key.path=value, laid over what was read (cluster.gpus=1024); may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
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

}  // namespace

Action declare_import(CommandOptions app) {
  const auto options = std::make_shared<ImportOptions>();
  app.require_subcommand();
  CommandOptions hf = app.add_subcommand("hf", "a model's config.json of Hugging Face transformers");
  hf.add_option("file", options->file, "config.json of the model").required().type_name("CONFIG.json");
  CommandOptions megatron =
      app.add_subcommand("megatron", "a launch script of Megatron-LM, or its arguments: import megatron FILE|ARGS");
  megatron.allow_extras();
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
  CommandOptions accelerate =
      app.add_subcommand("accelerate", "a configuration of Hugging Face Accelerate; --set model=NAME says the model");
  accelerate.add_option("file", options->file, "the configuration").required().type_name("FILE.yaml");
  CommandOptions torchtitan = app.add_subcommand("torchtitan", "a training configuration of TorchTitan (TOML)");
  torchtitan.add_option("file", options->file, "the configuration").required().type_name("FILE.toml");
  CommandOptions deepspeed =
      app.add_subcommand("deepspeed", "a configuration of DeepSpeed; --set model=NAME says the model");
  deepspeed.add_option("file", options->file, "the configuration").required().type_name("FILE.json");
  for (CommandOptions sub : {torchtitan, deepspeed}) {
    sub.add_option("--gpus", options->gpus, "GPUs of the job (default 8); the file does not say")
        .check(Range(1, 1 << 20));
  }
  CommandOptions mllog = app.add_subcommand("mllog", "the result log of an MLPerf run, as a measured record");
  mllog.add_option("file", options->file, "the log").required().type_name("FILE");
  for (CommandOptions sub : {hf, megatron, nemo, bridge, torchtitan, deepspeed, accelerate, mllog})
    declare_common(sub, options);
  CommandOptions topology = declare_topology_import(app, options);
  return [options, hf, megatron, nemo, bridge, torchtitan, deepspeed, accelerate, mllog, topology] {
    if (!options->out.empty()) check_writable(options->out);
    if (topology.parsed()) {
      write_text(import_topology(options->file, options->cluster), *options);
      return static_cast<int>(kDone);
    }
    if (hf.parsed()) return write_draft(import_hf(options->file), *options);
    if (nemo.parsed() && options->file.ends_with(".py"))
      return write_draft(import_nemo_recipe(options->file, options->recipe_gpus, options->recipe), *options);
    if (nemo.parsed()) {
      Draft draft = import_nemo(options->file);
      if (options->recipe_gpus > 0) draft.set("cluster.gpus", options->recipe_gpus);
      return write_draft(std::move(draft), *options);
    }
    if (bridge.parsed()) {
      return write_draft(import_bridge(options->file, options->recipe_gpus, options->recipe, bridge.remaining()),
                         *options);
    }
    if (accelerate.parsed()) return write_draft(import_accelerate(options->file, options->sets), *options);
    if (torchtitan.parsed()) return write_draft(import_torchtitan(options->file, options->gpus), *options);
    if (deepspeed.parsed()) return write_draft(import_deepspeed(options->file, options->gpus, options->sets), *options);
    if (mllog.parsed()) return write_draft(import_mllog(options->file), *options);
    options->arguments = megatron.remaining();
    return write_draft(import_megatron(launch_line(*options)), *options);
  };
}

}  // namespace orrery::tools
