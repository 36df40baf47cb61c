// The catalogue of commands, and the one place where exceptions become exit statuses: 2 and one line on stderr for the
// user's mistakes, 1 for ours.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <regex>
#include <string>
#include <string_view>
#include <utility>

#include "scenarios/synonyms.h"
#include "sim/error.h"
#include "sim/settings.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/parallel.h"
#include "tools/terminal.h"
#include "tools/written_files.h"

namespace orrery::tools {

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = {
      {"run", "simulate one training step of a scenario", declare_run},
      {"reproduce", "a published table beside its prediction, with the error of every cell", declare_reproduce},
      {"validate", "simulate lists of measured scenarios; per-row and summary error", declare_validate},
      {"fit", "fit parameters on measured steps; how well each is determined, errors on rows held out", declare_fit},
      {"sweep", "the cross product of the values of some keys, every point simulated", declare_sweep},
      {"search", "the best layouts of a job on its GPUs, or the smallest cluster for a deadline", declare_search},
      {"advise", "what to change about a job: what-ifs around its layout, each simulated, the best first",
       declare_advise},
      {"campaign", "weeks of training: failures, checkpoints, restarts, spares; goodput and time to train over seeds",
       declare_campaign},
      {"serving", "requests served by replicas of a model: latencies, throughput, energy and cost", declare_serving},
      {"rl", "a step of reinforcement learning: answers, scores, updates, weights to the engine", declare_rl},
      {"place", "several jobs on the nodes of one cluster: what each placement costs their steps", declare_place},
      {"queue", "a trace of jobs replayed on a cluster: utilisation and waits by policy, what placement costs",
       declare_queue},
      {"plan", "the compiled program of a pipeline stage, operation by operation, as text", declare_plan},
      {"flops", "parameters and FLOPs of a model, a step and a training; milestones beside published estimates",
       declare_flops},
      {"traffic", "the communication table: closed form beside simulated bytes", declare_traffic},
      {"topology", "counts, tiers, bisection and path lengths of a cluster; the graph as a picture", declare_topology},
      {"collective", "bus and algorithm bandwidth of one collective by size, as in nccl-tests", declare_collective},
      {"flows", "max-min sharing alone: when each flow of a table ends", declare_flows},
      {"calibrate", "measure the local GPU into a profile, or a profile's error on measured kernels",
       declare_calibrate},
      {"compare", "speedup, memory efficiency and FLOPs utilization of one scenario over another", declare_compare},
      {"learn", "a software generation from profiler traces of a job: what each number rests on", declare_learn},
      {"diff", "a profiler's traces beside the prediction, part by part of the step", declare_diff},
      {"replay", "traces of ranks over another network: their own times of computing, calls timed anew",
       declare_replay},
      {"import", "a scenario, a fabric or a measured row from the files of other tools", declare_import},
      {"page", "the what-if page in a browser, with this program behind it", declare_page, "serve"},
      {"export", "the launch line of a scenario's layout, or its step as execution traces", declare_export},
      {"list", "what ships by name: devices, fabrics, models, schedules and more, one line each", declare_list},
      {"schema", "JSON Schema of the scenario language", declare_schema},
      {"help", "meaning, unit and default of a scenario key, or meaning and unit of a column", declare_help},
      {"completion", "completion of commands, options and keys for bash, zsh or fish", declare_completion},
      {"man", "manual pages, in roff, of the program and its commands", declare_man},
  };
  return kCommands;
}

namespace {

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

/// `near`, unless neither its first letters nor its last are those of the word: then another thing was meant.
std::string mistyped_for(std::string_view word, const std::string& near) {
  if (near.empty()) return near;
  const auto letters = [](std::string_view text) {
    return text.substr(std::min(text.find_first_not_of('-'), text.size()));
  };
  const std::string_view a = letters(word), b = letters(near);
  constexpr std::size_t kEnd = 3;
  const bool begins = !a.empty() && !b.empty() && a.front() == b.front();
  const bool ends = a.size() + 1 >= b.size() && b.size() + 1 >= a.size() && b.size() >= kEnd &&
                    a.ends_with(b.substr(b.size() - std::min(kEnd, b.size() - 1)));
  return begins || ends ? near : std::string();
}

/// What answers a question that is called otherwise elsewhere.
std::string_view command_for(std::string_view word) {
  constexpr std::array kInstead{
      std::pair("cost", "`orrery search ... --tokens 2e12 --price 2.5` says days and dollars"),
      std::pair("price", "`orrery search ... --tokens 2e12 --price 2.5` says days and dollars"),
      std::pair("memory", "`orrery run SCENARIO` says the memory of every stage"),
      std::pair("estimate", "`orrery run --model llama3.1-70b --device h100 --gpus 64` is one"),
      std::pair("predict", "`orrery run --model llama3.1-70b --device h100 --gpus 64` does"),
      std::pair("train", "`orrery run --model llama3.1-70b --device h100 --gpus 64` simulates a step of training"),
      std::pair("mfu", "`orrery run SCENARIO` says it, `orrery help mfu` what it is"),
      std::pair("explain", "`orrery run SCENARIO --explain` says on what a prediction rests"),
      std::pair("optimize", "`orrery search` finds the best layouts, `orrery advise SCENARIO` what to change"),
      std::pair("tune", "`orrery search` finds the best layouts, `orrery advise SCENARIO` what to change"),
      std::pair("finetune", "`orrery run SCENARIO --set finetune=lora` trains adapters"),
      std::pair("lora", "`orrery run SCENARIO --set finetune=lora` trains adapters"),
      std::pair("inference", "`orrery serving SCENARIO` does, `orrery list served` names some"),
      std::pair("infer", "`orrery serving SCENARIO` does, `orrery list served` names some"),
      std::pair("network", "`orrery topology FABRIC` says its counts, `orrery list fabrics` names some"),
      std::pair("version", "`orrery --version` says it")};
  for (const auto& [typed, instead] : kInstead) {
    if (word == typed) return instead;
  }
  return {};
}

/// A mistyped command deserves the nearest one; CLI11 alone would call it an unexpected argument.
void refuse_unknown_command(int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const std::string word = argv[1];
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    names.emplace_back(command.name);
    if (command.earlier_name == word) return;
  }
  if (std::find(names.begin(), names.end(), word) != names.end()) return;
  if (const std::string_view instead = command_for(word); !instead.empty())
    throw sim::UserError(fmt::format("orrery: '{}' is not a command: {}", word, instead));
  const std::string near = mistyped_for(word, sim::nearest_word(word, names));
  throw sim::UserError(fmt::format("orrery: '{}' is not a command{}; the commands are {}", word,
                                   near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                                   fmt::join(names, ", ")));
}

/// The options of the command that the line names, as they are typed.
std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> named = app.get_subcommands();
  return named.empty() ? app : innermost(*named.front());
}

/// "export megatron": a command below another by both names.
std::string path_of(const CLI::App& command) {
  const CLI::App* above = command.get_parent();
  const bool below = above != nullptr && above->get_parent() != nullptr;
  return below ? path_of(*above) + " " + command.get_name() : command.get_name();
}

std::vector<std::string> commands_below(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(below->get_name());
  return names;
}

/// CLI11's own sentences about values: "--set: 1 required KEY=VALUE missing", "Could not convert: --port = http".
std::string plain_text(const std::string& said) {
  static const std::regex missing("^(.+): [0-9]+ required (.+) missing$"), other("^Could not convert: (.+) = (.+)$");
  std::smatch parts;
  if (std::regex_match(said, parts, missing))
    return fmt::format("{}: got nothing, expected {}", parts.str(1), parts.str(2));
  if (std::regex_match(said, parts, other))
    return fmt::format("{}: got {}, expected a whole number", parts.str(1), parts.str(2));
  return said;
}

/// What CLI11 says of words that it cannot place, as the program says things: what was got, what would be right.
std::string mistake_text(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const bool named = command.get_parent() != nullptr;
  const std::string path = path_of(command);
  const std::string where = named ? "orrery: " + path : "orrery";
  const std::string help = named ? fmt::format("orrery {} --help", path) : "orrery --help";
  const std::string said = one_line(error.what());
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && named && !said.starts_with("A subcommand")) {
    const std::string what = said.substr(0, said.find(' '));
    return fmt::format("{}: got no {}, expected one; {} says how", where, what, help);
  }
  const std::vector<std::string> below = commands_below(command);
  const std::vector<std::string> extras = app.remaining(true);
  const std::string word = extras.empty() ? "" : extras.front();
  if (said.starts_with("A subcommand") && !below.empty())
    return fmt::format("{}: got {}, expected one of {}; {} says how", where,
                       word.empty() ? "none of its kinds" : "'" + word + "'", fmt::join(below, ", "), help);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return fmt::format("{}: {}", where, plain_text(said));
  if (!word.starts_with("--") && !below.empty())
    return fmt::format("{}: got '{}' behind what is none of its kinds, expected one of {}; {} says how", where, word,
                       fmt::join(below, ", "), help);
  if (!word.starts_with("--"))
    return fmt::format("{}: got '{}', expected nothing more; {} says what it takes", where, word, help);
  const std::string name = word.substr(0, word.find('='));
  const std::vector<std::string> options = options_of(command);
  const std::string near = mistyped_for(name, sim::nearest_word(name, options));
  const bool mistyped = !near.empty() && (near.starts_with(name) || name.starts_with(near));
  const std::string key = scenarios::key_meant(name.substr(2));
  const bool sets = std::find(options.begin(), options.end(), "--set") != options.end();
  if (key.find('.') != std::string::npos && sets && !mistyped) {
    const bool apart = word == name && extras.size() > 1;
    const std::string value = word != name ? word.substr(name.size() + 1) : apart ? extras[1] : "VALUE";
    return fmt::format("{}: got {}, which is no option; a key of the scenario is set by --set {}={}", where, name, key,
                       value);
  }
  const bool asks = name == "--model" || name == "--device" || name == "--gpus";
  if (asks && near.empty())
    return fmt::format(
        "{}: got {}, which is no option, expected a scenario: orrery run --model NAME --device NAME "
        "--gpus N --out FILE writes one",
        where, name);
  return fmt::format("{}: got {}, which is no option{}; {} lists them", where, name,
                     near.empty() ? "" : fmt::format(", did you mean {}?", near), help);
}

/// Every command that runs something can be told to keep quiet, also those below another.
void add_quiet(CLI::App& app) {
  const std::vector<CLI::App*> below = app.get_subcommands([](CLI::App*) { return true; });
  for (CLI::App* sub : below) add_quiet(*sub);
  if (!below.empty() && app.get_require_subcommand_min() > 0) return;
  app.add_flag_callback("--quiet", silence, "no progress and no remarks on standard error; errors stay");
}

/// The words of a command line as CLI11 takes them, the last first. What stands behind `--` of an import is the
/// script's own, and would be looked for among the options.
std::vector<std::string> words_of(int argc, const char* const* argv) {
  std::vector<std::string> words;
  const bool import = argc > 1 && std::string_view(argv[1]) == "import";
  bool behind = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (import && !behind && word == "--")
      behind = true;
    else
      words.push_back(behind ? "--argument=" + word : word);
  }
  std::reverse(words.begin(), words.end());
  return words;
}

/// The command that the line names, where no other word of it could be taken for a command; else none.
std::string_view lone_command(int argc, const char* const* argv) {
  const auto is_command = [](std::string_view word) {
    return std::any_of(commands().begin(), commands().end(), [&](const Command& command) {
      return command.name == word || (!word.empty() && command.earlier_name == word);
    });
  };
  if (argc < 2 || !is_command(argv[1]) || std::any_of(argv + 2, argv + argc, is_command)) return {};
  return argv[1];
}

int parse_and_run(int argc, const char* const* argv) {
  CLI::App app;
  Action chosen;
  declare_program(app, chosen, lone_command(argc, argv));
  refuse_unknown_command(argc, argv);
  if (argc < 2)
    throw sim::UserError(
        "orrery: got no command, expected one, as in orrery run eos-gpt3-175b; orrery --help lists them");
  try {
    app.parse(words_of(argc, argv));
    refuse_overwriting(app);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw sim::UserError(mistake_text(app, error));
    chosen = [&app, help = error] { return app.exit(help); };  // --help and --version print themselves
  }
  const int status = chosen();
  errno = 0;
  std::cout.flush();
  if (!std::cout) {
    throw sim::UserError(fmt::format("orrery: standard output cannot be written: {}",
                                     errno != 0 ? std::strerror(errno) : "the disk is full or the pipe is closed"));
  }
  return status;
}

}  // namespace

void declare_program(CLI::App& app, Action& chosen, std::string_view only) {
  app.description("orrery: discrete-event simulator of large language model training on GPU clusters");
  app.name("orrery");
  app.set_help_flag("-h,--help", "print what the command does and its options, and exit");
  app.set_version_flag("--version", "orrery " ORRERY_VERSION, "print the version and exit");
  app.require_subcommand(1);
  for (const Command& command : commands()) {
    if (!only.empty() && command.name != only && command.earlier_name != only) continue;
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.summary));
    if (!command.earlier_name.empty()) sub->alias(std::string(command.earlier_name));
    Action action = command.declare(CommandOptions(*sub));
    sub->final_callback([&chosen, action] { chosen = action; });
    add_quiet(*sub);
  }
}

namespace {

constexpr const char* kOutOfMemory =
    "orrery: out of memory: got no more of it, expected a machine with more, a smaller scenario or fewer --jobs\n";

std::atomic<bool> memory_has_ended{false};

void note_end_of_memory() {
  memory_has_ended = true;
  throw std::bad_alloc();
}

/// Memory that ends where nothing may be thrown can be caught nowhere: destructors of JSON values take some to work off
/// their levels, and so does the walk through a folder. It is the machine's limit there too. A file that is being
/// written has no name yet, and goes with the process.
[[noreturn]] void end_of_memory_or_bug() {
  bool memory = memory_has_ended;
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      memory = true;
    } catch (...) {
      memory = false;
    }
  }
  std::fputs(memory ? kOutOfMemory : "orrery: internal error: an exception that nobody can catch\n", stderr);
  if (memory) std::_Exit(kUserError);
  std::abort();
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  std::set_new_handler(note_end_of_memory);
  std::set_terminate(end_of_memory_or_bug);
  const auto report_bug = [](const char* what) {
    std::cerr << "orrery: internal error: " << one_line(what) << ", please report this with the scenario\n";
    return kBug;
  };
  const TerminalGuard guard;
  try {
    return parse_and_run(argc, argv);
  } catch (const sim::UserError& error) {
    std::cerr << error.what() << '\n';
    return kUserError;
  } catch (const std::bad_alloc&) {  // the machine's limit, not a bug
    std::cerr << kOutOfMemory;
    return kUserError;
  } catch (const std::exception& error) {
    return report_bug(error.what());
  }
}

}  // namespace orrery::tools
