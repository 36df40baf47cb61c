// Which of a script's commands starts the training, and its options; see import.h. The training is the command that has
// most of the flags that a scenario takes; a launcher around it (srun, mpirun) adds its own.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "tools/import/batch_lines.h"
#include "tools/import/import.h"
#include "tools/import/megatron_flags.h"

namespace orrery::tools {

namespace {

bool is_option(const std::string& word) {
  return word.size() > 2 && word.starts_with("--") && std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

/// torchrun takes both spellings of its own options.
std::string normal_name(std::string name) {
  name = name.substr(0, name.find('='));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool of_launcher(const std::string& name) {
  static const std::set<std::string> kLaunchers{"nnodes",          "nproc-per-node", "nodes",    "ntasks",
                                                "ntasks-per-node", "gpus-per-node",  "num-gpus", "num-nodes",
                                                "world-size",      "npernode"};
  return kLaunchers.contains(name);
}

/// A word that holds words of its own, as `"$GPT_ARGS"` does: its lines and words.
std::vector<ShellField> split_field(const ShellField& field) {
  const bool holds = field.text.find_first_of(" \t\n") != std::string::npos &&
                     (field.text.starts_with("--") || field.text.find(" --") != std::string::npos ||
                      field.text.find("\n--") != std::string::npos);
  if (!holds || !field.known) return {field};
  std::vector<ShellField> words;
  ShellField word{"", field.place, true};
  sim::Place at = field.place;
  for (const char c : field.text + " ") {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      if (word.text.empty()) word.place = at;
      word.text += c;
    } else if (!word.text.empty()) {
      if (word.text != "\\") words.push_back(word);
      word.text.clear();
    }
    at.column += 1;
    if (c == '\n') at = {at.file, at.line + 1, 1};
  }
  return words;
}

std::vector<ShellField> flat_words(const ShellRun& run) {
  std::vector<ShellField> words;
  for (const ShellField& field : run.words) {
    for (ShellField& each : split_field(field)) words.push_back(std::move(each));
  }
  return words;
}

/// How many flags of a training it has.
std::size_t flags_of(const std::vector<ShellField>& words) {
  std::size_t count = 0;
  for (const ShellField& word : words) {
    if (!is_option(word.text)) continue;
    const std::string name = normal_name(word.text.substr(2));
    if (!of_launcher(name) && taken_flags().contains(name)) ++count;
  }
  return count;
}

void take_words(const std::vector<ShellField>& words, LaunchLine& line) {
  bool open = false;  // words that follow are values of the last option
  for (const ShellField& word : words) {
    const std::size_t equals = word.text.find('=');
    if (is_option(word.text)) {
      LaunchOption next{word.text.substr(2, equals == std::string::npos ? equals : equals - 2), {}, word.place};
      if (equals != std::string::npos) next.values.push_back(word.text.substr(equals + 1));
      line.options.push_back(std::move(next));
      open = true;
    } else if (open && !word.text.empty()) {
      line.options.back().values.push_back(word.text);
    } else if (!word.known) {
      line.left_out.push_back(
          fmt::format("line {}: {}: what it holds is not known, taken as nothing", word.place.line, word.text));
    }
  }
}

/// Of a launcher around the training: its options, -N 4 and -n 32 by their long names, unless the training has them.
void take_launcher(const std::vector<ShellField>& words, LaunchLine& line) {
  static const std::map<std::string, std::string> kShort{
      {"-N", "--nodes"}, {"-n", "--ntasks"}, {"-G", "--gpus"}, {"-npernode", "--npernode"}};
  LaunchLine around;
  std::vector<ShellField> longer = words;
  for (ShellField& word : longer) {
    if (const auto found = kShort.find(word.text); found != kShort.end()) word.text = found->second;
  }
  take_words(longer, around);
  for (LaunchOption& option : around.options) {
    const std::string name = normal_name(option.name);
    const bool there = std::any_of(line.options.begin(), line.options.end(),
                                   [&](const LaunchOption& each) { return normal_name(each.name) == name; });
    if (!there && of_launcher(name)) line.options.push_back(std::move(option));
  }
}

LaunchLine launch_of(const ShellWay& way, const sim::Place& whole) {
  LaunchLine line;
  line.place = whole;
  line.decisions = way.decisions;
  line.documents = way.documents;
  line.variables.assign(way.variables.begin(), way.variables.end());
  std::vector<std::pair<std::vector<ShellField>, sim::Place>> trainings, others;
  std::size_t most = 0;
  for (const ShellRun& run : way.runs) {
    std::vector<ShellField> words = flat_words(run);
    const std::size_t flags = flags_of(words);
    most = std::max(most, flags);
    (flags > 0 ? trainings : others).emplace_back(std::move(words), run.place);
  }
  std::erase_if(trainings, [&](const auto& each) { return flags_of(each.first) < (most + 1) / 2; });
  if (trainings.empty()) {
    // A file that only defines what another passes on.
    for (const ShellRun& held : way.held) {
      const std::vector<ShellField> words = flat_words(held);
      if (flags_of(words) == 0) continue;
      take_words(words, line);
      line.left_out.emplace_back("the command: none starts a training; the options that variables hold are taken");
    }
    return line;
  }
  const auto chosen = std::max_element(trainings.begin(), trainings.end(), [](const auto& a, const auto& b) {
    return flags_of(a.first) < flags_of(b.first);
  });
  take_words(chosen->first, line);
  for (const ShellField& word : chosen->first) {
    const std::string name = word.text.substr(word.text.rfind('/') + 1);
    if (name == "deepspeed" || name == "torchrun") line.launcher = name;
    if (is_option(word.text)) break;
  }
  for (const ShellField& word : chosen->first) {
    if (line.program.empty() && word.text.ends_with(".py")) line.program = word.text.substr(word.text.rfind('/') + 1);
  }
  for (const auto& [words, place] : others) take_launcher(words, line);
  for (const auto& [words, place] : trainings) {
    const bool same = words.size() == chosen->first.size() &&
                      std::equal(words.begin(), words.end(), chosen->first.begin(),
                                 [](const ShellField& a, const ShellField& b) { return a.text == b.text; });
    if (same) continue;
    line.left_out.push_back(fmt::format("line {}: another training is started there; that of line {} is read",
                                        place.line, chosen->second.line));
  }
  return line;
}

}  // namespace

LaunchScript read_launch_line(const std::string& text, const std::string& file, const ShellGiven& given) {
  ShellGiven all = given;
  const auto asked = batch_variables(text);
  const ShellRuns runs = run_shell(text, file, asked, all);
  LaunchScript script{{}, runs.unset, runs.remarks};
  for (const ShellWay& way : runs.ways) {
    script.ways.push_back(launch_of(way, {file, 1, 1}));
    LaunchLine& line = script.ways.back();
    std::erase_if(line.variables, [&](const auto& each) {
      return std::any_of(asked.begin(), asked.end(), [&](const auto& one) { return one == each; });
    });
    line.variables.insert(line.variables.end(), asked.begin(), asked.end());  // what the script says itself is first
  }
  return script;
}

}  // namespace orrery::tools
