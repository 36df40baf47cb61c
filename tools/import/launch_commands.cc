// See launch_commands.h. NeMo's command takes a factory, with its arguments, and overrides by dotted names
// (NVIDIA/NeMo-Run, nemo_run/cli); SWIFT's takes Megatron-LM's options by their Python names (modelscope/ms-swift,
// swift/megatron/argument). Left out: factories of parts (model=..., data=...), and what SWIFT's own options change
// beyond lengths and adapters.
#include "tools/import/launch_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "sim/error.h"
#include "tools/import/known_recipes.h"

namespace orrery::tools {

namespace {

/// "pretrain" or "finetune" of a command that starts NeMo's.
std::optional<std::size_t> task_of(const ShellRun& run) {
  for (std::size_t i = 0; i + 2 < run.words.size(); ++i) {
    const bool here = run.words[i].text.ends_with("nemo") && run.words[i + 1].text == "llm";
    const std::string& task = run.words[i + 2].text;
    if (here && (task == "pretrain" || task == "finetune")) return i + 2;
  }
  return std::nullopt;
}

}  // namespace

std::string nemo_command_as_recipe(const std::string& text, const std::string& file) {
  const ShellRuns runs = run_shell(text, file, {}, {});
  for (const ShellRun& run : runs.ways.front().runs) {
    const std::optional<std::size_t> at = task_of(run);
    if (!at) continue;
    const std::string task = run.words[*at].text;
    std::string factory;
    std::vector<std::string> overrides;
    for (std::size_t i = *at + 1; i < run.words.size(); ++i) {
      const std::string& word = run.words[i].text;
      if ((word == "--factory" || word == "-f") && i + 1 < run.words.size())
        factory = run.words[++i].text;
      else if (word.starts_with("--factory="))
        factory = word.substr(10);
      else if (!word.starts_with("-") && word.find('=') != std::string::npos)
        overrides.push_back(word);
    }
    if (factory.empty()) break;
    const std::size_t open = factory.find('(');
    const std::string arguments = open == std::string::npos ? "()" : factory.substr(open);
    std::string recipe = fmt::format("from nemo.collections import llm\nrecipe = llm.{}.{}_recipe{}\n",
                                     factory.substr(0, open), task, arguments);
    for (const std::string& each : overrides) {
      const std::size_t equals = each.find('=');
      recipe += fmt::format("recipe.{} = {}\n", each.substr(0, equals), each.substr(equals + 1));
    }
    return recipe;
  }
  throw sim::UserError({file, 1, 1}, "nemo llm",
                       "starts no training by a factory, expected nemo llm pretrain --factory NAME [KEY=VALUE]...");
}

bool starts_swift(const std::string& text) {
  static constexpr std::array<const char*, 4> kTasks{"megatron sft", "megatron pt", "megatron rlhf",
                                                     "swift/cli/_megatron/"};
  return std::any_of(kTasks.begin(), kTasks.end(),
                     [&](const char* task) { return text.find(task) != std::string::npos; });
}

std::string swift_as_megatron(LaunchLine& line) {
  std::string model;
  std::vector<LaunchOption> options;
  for (LaunchOption option : line.options) {
    std::replace(option.name.begin(), option.name.end(), '_', '-');
    const std::string first = option.values.empty() ? "" : option.values[0];
    if (first == "false" || first == "False") continue;
    if (first == "true" || first == "True") option.values.clear();
    if (option.name == "model" || ((option.name == "load" || option.name == "mcore-model") && model.empty())) {
      std::string name = first.substr(first.rfind('/') + 1);
      for (const char* end : {"-mcore", "-Base", "-Instruct"})
        if (name.ends_with(end)) name.resize(name.size() - std::string(end).size());
      if (const std::string known = model_of_recipe(name); !known.empty()) model = known;
    }
    if (option.name == "max-length") option.name = "seq-length";
    options.push_back(std::move(option));
  }
  const bool precise = std::any_of(options.begin(), options.end(), [](const LaunchOption& each) {
    return each.name == "bf16" || each.name == "fp16" || each.name == "torch-dtype";
  });
  if (!precise) options.push_back({"bf16", {}, line.place});
  line.options = std::move(options);
  return model;
}

}  // namespace orrery::tools
