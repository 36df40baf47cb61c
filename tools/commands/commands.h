// The command line: an explicit catalogue of commands, one file each. A command declares its options on a CLI11
// subcommand and hands back what to run after parsing. Nothing registers itself; a new command is one file, one
// declaration here and one row of the catalogue in cli.cc.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace orrery::tools {

class CommandOptions;

/// Exit statuses of the contract; 3: what the user made a condition (--require-fit, --strict) does not hold, beside
/// which everything is done and written; 130 is the shell's convention for "stopped by Ctrl-C".
enum ExitStatus : int { kDone = 0, kBug = 1, kUserError = 2, kUnmet = 3, kInterrupted = 130 };

/// What a command does once its options are parsed; returns the exit status. Throws sim::UserError for the user's
/// mistakes.
using Action = std::function<int()>;

struct Command {
  std::string_view name;
  std::string_view summary;
  Action (*declare)(CommandOptions app);
  std::string_view earlier_name = {};  // which it goes by for one release more
};

Action declare_run(CommandOptions app);
Action declare_reproduce(CommandOptions app);
Action declare_validate(CommandOptions app);
Action declare_fit(CommandOptions app);
Action declare_sweep(CommandOptions app);
Action declare_search(CommandOptions app);
Action declare_advise(CommandOptions app);
Action declare_campaign(CommandOptions app);
Action declare_place(CommandOptions app);
Action declare_queue(CommandOptions app);
Action declare_plan(CommandOptions app);
Action declare_traffic(CommandOptions app);
Action declare_flops(CommandOptions app);
Action declare_topology(CommandOptions app);
Action declare_collective(CommandOptions app);
Action declare_flows(CommandOptions app);
Action declare_calibrate(CommandOptions app);
Action declare_compare(CommandOptions app);
Action declare_learn(CommandOptions app);
Action declare_diff(CommandOptions app);
Action declare_replay(CommandOptions app);
Action declare_import(CommandOptions app);
Action declare_export(CommandOptions app);
Action declare_list(CommandOptions app);
Action declare_page(CommandOptions app);
Action declare_serving(CommandOptions app);
Action declare_rl(CommandOptions app);
Action declare_schema(CommandOptions app);
Action declare_help(CommandOptions app);
Action declare_completion(CommandOptions app);
Action declare_man(CommandOptions app);

/// All commands, in the order in which help lists them.
const std::vector<Command>& commands();

/// The whole command line on `app`: its options and every command, or `only` the one of that name; parsing sets
/// `chosen` to what the named one does.
void declare_program(CLI::App& app, Action& chosen, std::string_view only = {});

/// Parses the arguments, runs one command and turns every exception into an exit status and one line on stderr.
int run_command_line(int argc, const char* const* argv);

}  // namespace orrery::tools
