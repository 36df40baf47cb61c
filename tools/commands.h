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

/// Exit statuses of the contract; 3: what the user made a condition (--require-fit, --strict) does not hold, beside
/// which everything is done and written; 130 is the shell's convention for "stopped by Ctrl-C".
enum ExitStatus : int { kDone = 0, kBug = 1, kUserError = 2, kUnmet = 3, kInterrupted = 130 };

/// What a command does once its options are parsed; returns the exit status. Throws sim::UserError for the user's
/// mistakes.
using Action = std::function<int()>;

struct Command {
  std::string_view name;
  std::string_view summary;
  Action (*declare)(CLI::App& app);
};

Action declare_run(CLI::App& app);
Action declare_reproduce(CLI::App& app);
Action declare_validate(CLI::App& app);
Action declare_fit(CLI::App& app);
Action declare_sweep(CLI::App& app);
Action declare_search(CLI::App& app);
Action declare_advise(CLI::App& app);
Action declare_campaign(CLI::App& app);
Action declare_place(CLI::App& app);
Action declare_queue(CLI::App& app);
Action declare_plan(CLI::App& app);
Action declare_traffic(CLI::App& app);
Action declare_flops(CLI::App& app);
Action declare_topology(CLI::App& app);
Action declare_collective(CLI::App& app);
Action declare_flows(CLI::App& app);
Action declare_calibrate(CLI::App& app);
Action declare_compare(CLI::App& app);
Action declare_learn(CLI::App& app);
Action declare_diff(CLI::App& app);
Action declare_replay(CLI::App& app);
Action declare_import(CLI::App& app);
Action declare_export(CLI::App& app);
Action declare_list(CLI::App& app);
Action declare_serve(CLI::App& app);
Action declare_schema(CLI::App& app);
Action declare_help(CLI::App& app);
Action declare_completion(CLI::App& app);
Action declare_man(CLI::App& app);

/// All commands, in the order in which help lists them.
const std::vector<Command>& commands();

/// The whole command line on `app`: its options and every command; parsing sets `chosen` to what the named one does.
void declare_program(CLI::App& app, Action& chosen);

/// Parses the arguments, runs one command and turns every exception into an exit status and one line on stderr.
int run_command_line(int argc, const char* const* argv);

}  // namespace orrery::tools
