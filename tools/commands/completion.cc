// `orrery completion bash|zsh|fish`: commands, options, their choices, shipped scenarios, and the keys of the scenario
// language with their values where there are few or they ship, from the table of commands and that of keys. A script is
// complete in itself and asks the program nothing when it runs.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "tools/command_options.h"
#include "tools/command_tree.h"
#include "tools/commands/commands.h"

namespace orrery::tools {

namespace {

enum class Takes { nothing, choices, keys, scenario, file };

Takes takes(const OptionDoc& option) {
  if (!option.choices.empty()) return Takes::choices;
  if (option.positional == "key" || option.value.starts_with("KEY=")) return Takes::keys;
  if (option.positional.starts_with("scenario") || option.positional == "cluster") return Takes::scenario;
  return option.value.empty() && option.positional.empty() ? Takes::nothing : Takes::file;
}

/// In single quotes of every shell here.
std::string single_quoted(const std::string& text, const char* quote = "'\\''") {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string(quote) : std::string(1, c);
  return out + "'";
}

std::string spaced(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::vector<std::string> keys() {
  std::vector<std::string> paths;
  for (const scenarios::Key& key : scenarios::schema()) {
    if (key.path.find('[') == std::string::npos && key.path.find('*') == std::string::npos) paths.push_back(key.path);
  }
  return paths;
}

struct KeyValues {
  std::string key;
  std::vector<std::string> values;
};

/// The keys whose values can be listed: choices, yes or no, and names of documents that ship.
std::vector<KeyValues> key_values() {
  std::vector<KeyValues> all;
  for (const std::string& path : keys()) {
    const scenarios::Key& key = *scenarios::schema().find(path);
    if (!key.choices.empty()) {
      all.push_back({path, key.choices});
    } else if (key.type == "boolean") {
      all.push_back({path, {"true", "false"}});
    } else if (key.type == "name") {
      for (const scenarios::Shelf& shelf : scenarios::shelves()) {
        if (shelf.key == path) all.push_back({path, scenarios::shipped(shelf.kind)});
      }
    }
  }
  return all;
}

/// "orrery run"|"orrery import hf": the pattern of every command below the program.
std::string paths_pattern(const std::vector<CommandDoc>& docs, const char* mark) {
  std::vector<std::string> names;
  for (const CommandDoc& doc : docs) {
    if (!doc.path.empty()) names.push_back(mark + doc.name() + mark);
  }
  return fmt::format("{}", fmt::join(names, "|"));
}

const OptionDoc* positional_of(const CommandDoc& doc) {
  for (const OptionDoc& option : doc.options) {
    if (!option.positional.empty()) return &option;
  }
  return nullptr;
}

std::string bash_values(const OptionDoc& option) {
  switch (takes(option)) {
    case Takes::choices:
      return fmt::format("COMPREPLY=($(compgen -W {} -- \"$current\"))", single_quoted(spaced(option.choices)));
    case Takes::keys:
      return "COMPREPLY=($(compgen -W \"$_orrery_keys\" -- \"$current\"))" +
             std::string(option.positional.empty() ? "; compopt -o nospace 2>/dev/null" : "");
    case Takes::scenario:
      return "COMPREPLY=($(compgen -W \"$_orrery_scenarios\" -- \"$current\") $(compgen -f -- \"$current\"))";
    default:
      return "COMPREPLY=($(compgen -f -- \"$current\"))";
  }
}

std::string bash_script(const std::vector<CommandDoc>& docs) {
  std::string out = "# Completion of orrery for bash; made by `orrery completion bash`.\n";
  out += fmt::format("_orrery_keys={}\n", single_quoted(spaced(keys())));
  out += fmt::format("_orrery_scenarios={}\n", single_quoted(spaced(scenarios::shipped("scenarios"))));
  out += "_orrery_values() {\n  case \"$1\" in\n";
  for (const KeyValues& key : key_values())
    out += fmt::format("    {}) echo {} ;;\n", key.key, single_quoted(spaced(key.values)));
  out += "  esac\n}\n";
  out +=
      "_orrery() {\n  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  local at=orrery i\n  for ((i = 1; i < COMP_CWORD; i++)); do\n    case \"$at ${COMP_WORDS[i]}\" in\n";
  out += fmt::format("      {}) at=\"$at ${{COMP_WORDS[i]}}\" ;;\n    esac\n  done\n  COMPREPLY=()\n",
                     paths_pattern(docs, "\""));
  // The shell takes KEY=VALUE for three words, unless COMP_WORDBREAKS lacks the sign.
  out += R"sh(  local key= value= whole=
  case "$current" in
    -*) ;;
    ?*=*) key="${current%%=*}" value="${current#*=}" whole="$key=" ;;
    =) key="$previous" ;;
    *) if [ "$previous" = = ]; then key="${COMP_WORDS[COMP_CWORD-2]}" value="$current"; fi ;;
  esac
  if [ -n "$key" ] && [ "${key#-}" = "$key" ]; then
    COMPREPLY=($(compgen -P "$whole" -W "$(_orrery_values "$key")" -- "$value"))
    return
  fi
)sh";
  out += "  case \"$at $previous\" in\n";
  for (const CommandDoc& doc : docs) {
    for (const OptionDoc& option : doc.options) {
      if (option.names.empty() || takes(option) == Takes::nothing) continue;
      std::vector<std::string> names;
      for (const std::string& name : option.names) names.push_back(fmt::format("\"{} {}\"", doc.name(), name));
      out += fmt::format("    {}) {}; return ;;\n", fmt::join(names, "|"), bash_values(option));
    }
  }
  out += "  esac\n  case \"$at\" in\n";
  for (const CommandDoc& doc : docs) {
    std::vector<std::string> words = doc.subcommands, names;
    for (const OptionDoc& option : doc.options) names.insert(names.end(), option.names.begin(), option.names.end());
    const OptionDoc* positional = positional_of(doc);
    const std::string rest =
        !words.empty() ? fmt::format("COMPREPLY=($(compgen -W {} -- \"$current\"))", single_quoted(spaced(words)))
        : positional != nullptr ? bash_values(*positional)
                                : "COMPREPLY=($(compgen -f -- \"$current\"))";
    out += fmt::format(
        "    \"{}\")\n      case \"$current\" in\n        -*) COMPREPLY=($(compgen -W {} -- \"$current\")) ;;\n        "
        "*) {} ;;\n      esac ;;\n",
        doc.name(), single_quoted(spaced(names)), rest);
  }
  return out + "  esac\n}\ncomplete -F _orrery orrery\n";
}

/// In an _arguments specification brackets, colons and backslashes have a meaning.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionDoc& option) {
  switch (takes(option)) {
    case Takes::choices:
      return fmt::format("({})", fmt::join(option.choices, " "));
    case Takes::keys:
      return option.positional.empty() ? "_orrery_assignments" : "_orrery_keys";
    case Takes::scenario:
      return "_orrery_scenarios";
    default:
      return "_files";
  }
}

std::string zsh_script(const std::vector<CommandDoc>& docs) {
  std::string out = "#compdef orrery\n# Completion of orrery for zsh; made by `orrery completion zsh`.\n";
  out += fmt::format("_orrery_keys() {{ compadd -- {}; }}\n", fmt::join(keys(), " "));
  out += "_orrery_assignments() {\n  if compset -P 1 '*='; then\n    case \"${IPREFIX%=}\" in\n";
  for (const KeyValues& key : key_values())
    out += fmt::format("      {}) compadd -- {} ;;\n", key.key, fmt::join(key.values, " "));
  out += fmt::format("    esac\n  else\n    compadd -S= -- {}\n  fi\n}}\n", fmt::join(keys(), " "));
  out += fmt::format("_orrery_scenarios() {{ compadd -- {}; _files; }}\n",
                     fmt::join(scenarios::shipped("scenarios"), " "));
  out += "_orrery() {\n  local at=orrery i\n  for ((i = 2; i < CURRENT; i++)); do\n    case \"$at $words[i]\" in\n";
  out += fmt::format("      {}) at=\"$at $words[i]\" ;;\n    esac\n  done\n  case \"$at\" in\n",
                     paths_pattern(docs, "\""));
  for (const CommandDoc& doc : docs) {
    std::string specs;
    for (const OptionDoc& option : doc.options) {
      for (const std::string& name : option.names) {
        std::string spec = (option.repeats ? "*" : "") + name + "[" + zsh_text(option.meaning) + "]";
        if (!option.value.empty()) spec += ":" + zsh_text(option.value) + ":" + zsh_action(option);
        specs += " \\\n        " + single_quoted(spec);
      }
    }
    if (!doc.subcommands.empty()) {
      std::string words;
      for (const CommandDoc& below : docs) {
        if (below.path.size() == doc.path.size() + 1 &&
            std::equal(doc.path.begin(), doc.path.end(), below.path.begin()))
          words += " " + single_quoted(zsh_text(below.path.back()) + ":" + zsh_text(below.summary));
      }
      out += fmt::format(
          "    \"{}\")\n      local -a commands=({})\n      _arguments{} \\\n        '*:command:{{ _describe command "
          "commands }}' ;;\n",
          doc.name(), words, specs);
      continue;
    }
    const OptionDoc* positional = positional_of(doc);
    const std::string rest = positional == nullptr
                                 ? "*:file:_files"
                                 : "*:" + zsh_text(positional->positional) + ":" + zsh_action(*positional);
    out += fmt::format("    \"{}\")\n      _arguments{} \\\n        {} ;;\n", doc.name(), specs, single_quoted(rest));
  }
  return out +
         "  esac\n}\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then _orrery \"$@\"; else compdef _orrery orrery; "
         "fi\n";
}

std::string fish_values(const OptionDoc& option) {
  switch (takes(option)) {
    case Takes::choices:
      return fmt::format(" -x -a {}", single_quoted(spaced(option.choices), "\\'"));
    case Takes::keys:
      return option.positional.empty() ? " -x -a '(__orrery_keys)= (__orrery_values)'" : " -f -a '(__orrery_keys)'";
    case Takes::scenario:
      return " -a '(__orrery_scenarios)'";
    case Takes::file:
      return " -r";
    default:
      return "";
  }
}

std::string fish_script(const std::vector<CommandDoc>& docs) {
  const auto text = [](const std::string& words) { return single_quoted(words, "\\'"); };
  std::string out = "# Completion of orrery for fish; made by `orrery completion fish`.\n";
  out += fmt::format("function __orrery_keys\n  string split ' ' -- {}\nend\n", text(spaced(keys())));
  out += "function __orrery_values\n";
  for (const KeyValues& key : key_values()) {
    out += "  printf '%s\\n'";
    for (const std::string& value : key.values) out += fmt::format(" {}={}", key.key, value);
    out += "\n";
  }
  out += "end\n";
  out += fmt::format("function __orrery_scenarios\n  string split ' ' -- {}\nend\n",
                     text(spaced(scenarios::shipped("scenarios"))));
  out +=
      "function __orrery_at\n  set -l at orrery\n  for word in (commandline -opc)[2..-1]\n    switch \"$at $word\"\n   "
      "   case";
  for (const CommandDoc& doc : docs) {
    if (!doc.path.empty()) out += " " + text(doc.name());
  }
  out += "\n        set at \"$at $word\"\n    end\n  end\n  test \"$at\" = \"$argv\"\nend\n";
  for (const CommandDoc& doc : docs) {
    const std::string at = fmt::format("complete -c orrery -n {}", text("__orrery_at " + doc.name()));
    for (const OptionDoc& option : doc.options) {
      std::string line = at;
      for (const std::string& name : option.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (option.names.empty() && fish_values(option) == " -r") continue;  // files, which fish offers by itself
      out += line + fish_values(option) + " -d " + text(option.meaning) + "\n";
    }
    for (const CommandDoc& below : docs) {
      const bool direct =
          below.path.size() == doc.path.size() + 1 && std::equal(doc.path.begin(), doc.path.end(), below.path.begin());
      if (direct) out += at + " -f -a " + text(below.path.back()) + " -d " + text(below.summary) + "\n";
    }
  }
  return out;
}

}  // namespace

Action declare_completion(CommandOptions app) {
  const auto shell = std::make_shared<std::string>();
  app.add_option("shell", *shell, "the shell, as in: eval \"$(orrery completion bash)\"")
      .required()
      .check(OneOf({"bash", "zsh", "fish"}));
  return [shell] {
    const std::vector<CommandDoc> docs = command_docs();
    std::cout << (*shell == "bash" ? bash_script(docs) : *shell == "zsh" ? zsh_script(docs) : fish_script(docs));
    return static_cast<int>(kDone);
  };
}

}  // namespace orrery::tools
