// LLaMA-Factory takes its arguments as --key value, as --flag, or from a file (hparams/parser.py, read_args). Left out:
// a script that starts one of several trainings by a condition, of which the first is read.
#include "tools/import/trainer_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/sections.h"
#include "tools/import/shell_run.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// A file as the script names it, beside the script or in a folder above it, where such scripts are run.
std::string trainer_file(const std::string& name, const std::string& script) {
  std::error_code none;
  const std::filesystem::path whole = std::filesystem::absolute(script);
  for (std::filesystem::path folder = whole.parent_path();; folder = folder.parent_path()) {
    if (std::filesystem::is_regular_file(folder / name, none)) return (folder / name).string();
    if (folder == folder.parent_path()) return {};
  }
}

/// The words behind `train`: a file, with what the script's words say over it, --key value, --flag, or key=value.
Settings settings_of_words(const std::vector<ShellField>& words, std::size_t first, const std::string& script) {
  Settings document = Settings::mapping(words[first - 1].place);
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json")) {
      const std::string named = trainer_file(word, script);
      if (named.empty())
        throw sim::UserError(
            words[i].place, "llamafactory-cli train",
            fmt::format("got {}, which is not there; orrery import llamafactory reads such a file", word));
      const Settings read = read_python_yaml(named);
      for (const auto& [key, value] : read.members()) document.set(key, value);
      continue;
    }
    const bool flag = word.starts_with("--");
    const std::size_t equals = word.find('='), begin = flag ? 2 : 0;
    std::string value = "true";  // of a flag, or of a word that nobody knows, which is named then
    if (equals != std::string::npos)
      value = word.substr(equals + 1);
    else if (flag && i + 1 < words.size() && !words[i + 1].text.starts_with("--"))
      value = words[++i].text;
    document.set(word.substr(begin, equals == std::string::npos ? equals : equals - begin),
                 Settings::scalar(value, words[i].place));
  }
  return document;
}

}  // namespace

Settings trainer_command(const std::string& text, const std::string& file) {
  const ShellRuns runs = run_shell(text, file, {}, {});
  for (const ShellRun& run : runs.ways.front().runs) {
    const auto starts = std::find_if(run.words.begin(), run.words.end(), [](const ShellField& word) {
      return word.text == "llamafactory-cli" || word.text.ends_with("/llamafactory-cli");
    });
    if (starts == run.words.end() || starts + 1 == run.words.end() || (starts + 1)->text != "train") continue;
    return settings_of_words(run.words, static_cast<std::size_t>(starts - run.words.begin()) + 2, file);
  }
  throw sim::UserError({file, 1, 1}, "llamafactory-cli train", "is not started here, expected a script that does");
}

}  // namespace orrery::tools
