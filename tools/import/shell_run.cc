// Lists, conditions, loops, functions and the shell's own commands, over all ways at once; see shell_run.h. Ways that
// have come to the same variables and commands are one again, so that a condition that changes nothing costs nothing.
#include "tools/import/shell_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "tools/import/shell_expansion.h"
#include "tools/import/shell_test.h"
#include "tools/import/shell_ways.h"

namespace orrery::tools {

namespace {

using Status = ShellState::Status;
using Flow = ShellState::Flow;
using States = std::vector<ShellState>;
using Known = ShellChar::Known;

constexpr int kMostSteps = 100'000;  // commands
constexpr int kMostRounds = 1000;    // of a loop
constexpr int kDeepestCall = 32;     // functions, scripts within scripts
constexpr std::size_t kMostWays = 64;

class Shell : ShellExpansion {
 public:
  explicit Shell(const ShellGiven& given) : ShellExpansion(given) {}

  ShellRuns whole(const std::string& text, const std::string& file,
                  const std::vector<std::pair<std::string, std::string>>& start) {
    const ShellChar first = place_of({file, 1, 1});
    ShellState state;
    for (const auto& [name, value] : start) assign(name, text_at(value, first), state);
    state.script = file;
    state.arguments_known = given_.arguments_known;
    for (const std::string& argument : given_.arguments)
      state.arguments.push_back(text_at(argument, place_of({"--", 1, 1})));
    States states = run(parse_shell(text, {file, 1, 1}), {state});
    // A way that ends before anything is run is a complaint of the script's own.
    if (std::any_of(states.begin(), states.end(), [](const ShellState& each) { return !each.runs.empty(); }))
      std::erase_if(states, [](const ShellState& each) { return each.runs.empty(); });
    for (ShellState& each : states) each.flow = Flow::on;
    merge(states);
    ShellRuns all;
    for (ShellState& each : states)
      all.ways.push_back(
          shell_way(std::move(each), given_.environment, [this](const ShellChar& c) { return place(c); }));
    all.unset.assign(unset_.begin(), unset_.end());
    all.remarks = std::move(remarks_);
    return all;
  }

 private:
  void remark(const sim::Place& at, const std::string& what) {
    const std::string line = fmt::format("line {}: {}", at.line, what);
    if (std::find(remarks_.begin(), remarks_.end(), line) == remarks_.end()) remarks_.push_back(line);
  }

  // Ways.

  /// No more ways than can be looked at: those first that a bare environment takes.
  void bound(States& states) {
    merge(states);
    if (states.size() <= kMostWays) return;
    std::erase_if(states, [](const ShellState& state) {
      return std::any_of(state.decisions.begin(), state.decisions.end(),
                         [](const ShellDecision& each) { return each.usual && *each.usual != each.holds; });
    });
    if (states.size() <= kMostWays && !states.empty()) return;
    const sim::Place at = states.empty() ? sim::Place{files_.at(0), 1, 1} : states.back().decisions.back().place;
    const std::string how = states.empty() ? "" : how_to_decide(states.back().decisions);
    throw sim::UserError(at, "if",
                         fmt::format("the script has more than {} ways through conditions that it does not decide, "
                                     "expected {}",
                                     kMostWays, how.empty() ? "--env NAME=VALUE for its variables" : how));
  }
  static ShellState decided(const ShellState& state, bool holds) {
    ShellState next = state;
    next.question.holds = holds;
    next.decisions.push_back(next.question);
    next.status = holds ? Status::success : Status::failure;
    return next;
  }
  void enter(const sim::Place& place) {
    if (++deep_ > kDeepestCall) throw sim::UserError(place, "", fmt::format("calls deeper than {}", kDeepestCall));
  }

  States run(const ShellList& list, States states) {
    for (const ShellStep& step : list) {
      States next;
      for (ShellState& state : states) {
        const bool success = step.joint == ShellStep::Joint::after_success;
        if (state.flow != Flow::on ||
            (step.joint != ShellStep::Joint::always && state.status == (success ? Status::failure : Status::success))) {
          next.push_back(std::move(state));
          continue;
        }
        if (step.joint != ShellStep::Joint::always && state.status == Status::unknown) {
          if (!state.tested && success) {  // commands mostly work
          } else if (!state.tested) {
            next.push_back(std::move(state));
            continue;
          } else {
            next.push_back(decided(state, !success));
            state = decided(state, success);
          }
        }
        for (ShellState& each : run(step.pipeline, std::move(state))) next.push_back(std::move(each));
      }
      states = std::move(next);
      if (states.size() > 1) bound(states);
    }
    return states;
  }

  States run(const ShellPipeline& pipeline, ShellState state) {
    if (pipeline.commands.empty()) return alone(std::move(state));
    States states;
    if (pipeline.commands.size() == 1) {
      states = run(pipeline.commands[0], std::move(state));
    } else if (!calculates(pipeline, state)) {
      const ShellText printed = state.output;
      states.push_back(std::move(state));
      for (const ShellCommand& command : pipeline.commands) {
        States next;
        for (ShellState& each : states) {
          for (ShellState& after : run(command, std::move(each))) next.push_back(std::move(after));
        }
        states = std::move(next);
      }
      for (ShellState& each : states) {
        each.output = printed;
        each.output_known = false;
        each.status = Status::unknown;
        each.tested = false;
        each.question = {
            pipeline.commands.back().place, pipeline.commands[0].source + " | ...", {}, false, std::nullopt};
      }
    } else {
      states.push_back(std::move(state));
    }
    for (ShellState& each : states) each.output_known = each.output_known || printing_ == 0;
    if (!pipeline.negated) return states;
    for (ShellState& each : states) {
      if (each.status != Status::unknown)
        each.status = each.status == Status::success ? Status::failure : Status::success;
      if (each.status == Status::unknown && each.question.usual) each.question.usual = !*each.question.usual;
      if (each.status == Status::unknown) each.question.condition = "! " + each.question.condition;
    }
    return states;
  }
  /// echo SUM | bc, whose output is known.
  bool calculates(const ShellPipeline& pipeline, ShellState& state) {
    if (pipeline.commands.size() != 2 || pipeline.commands[1].words.empty()) return false;
    const ShellCommand &first = pipeline.commands[0], &second = pipeline.commands[1];
    ShellState inner = state;
    const std::vector<ShellText> name = fields(second.words[0], inner);
    if (first.words.empty() || name.size() != 1 || plain(name[0]) != "bc") return false;
    const std::vector<ShellText> words = fields(first.words, inner);
    if (words.size() < 2 || plain(words[0]) != "echo") return false;
    std::string expression;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (!is_known(words[i])) return false;
      expression += plain(words[i]) + " ";
    }
    const std::optional<std::int64_t> value = sum_of(expression, inner);
    if (!value) return false;
    const ShellText text = text_at(std::to_string(*value), place_of(first.place));
    state.output.insert(state.output.end(), text.begin(), text.end());
    state.status = Status::success;
    return true;
  }

  States run(const ShellCommand& command, ShellState state) {
    using Kind = ShellCommand::Kind;
    if (++steps_ > kMostSteps)
      throw sim::UserError(command.place, "", fmt::format("takes more than {} commands to follow", kMostSteps));
    switch (command.kind) {
      case Kind::simple:
        return simple(command, std::move(state));
      case Kind::test: {
        std::vector<ShellOperand> operands;
        for (const ShellWord& word : command.words)
          operands.push_back({joined(word, state), word.pieces.size() == 1 && !word.pieces[0].quoted &&
                                                       word.pieces[0].kind == ShellPiece::Kind::text});
        ask(operands, true, command, state);
        return alone(std::move(state));
      }
      case Kind::arithmetic: {
        const ShellText expression = joined(command.words.at(0), state);
        const auto value = is_known(expression) ? sum_of(plain(expression), state) : std::nullopt;
        answer({value ? std::optional<bool>(*value != 0) : std::nullopt, std::nullopt}, shell_names_in(command.source),
               command, state);
        return alone(std::move(state));
      }
      case Kind::group:
        return run(*command.body, alone(std::move(state)));
      case Kind::subshell:
        return within(state, [&](ShellState inner) { return run(*command.body, alone(std::move(inner))); });
      case Kind::branch:
        return branch(command, std::move(state));
      case Kind::choice:
        return choice(command, std::move(state));
      case Kind::for_each:
        return for_each(command, std::move(state));
      case Kind::for_sum:
        return for_sum(command, std::move(state));
      case Kind::repeat:
        return repeat(command, std::move(state));
      case Kind::function:
        state.functions[command.name] = command.body;
        state.status = Status::success;
        return alone(std::move(state));
    }
    return alone(std::move(state));
  }

  /// What runs in a shell of its own leaves its commands, and nothing else.
  template <typename Body>
  States within(const ShellState& state, Body body) {
    States after;
    for (ShellState& each : body(state)) {
      ShellState next = state;
      next.runs = std::move(each.runs);
      next.decisions = std::move(each.decisions);
      next.output = std::move(each.output);
      next.output_known = each.output_known;
      next.status = Status::unknown;
      next.tested = false;
      next.question = each.question;
      after.push_back(std::move(next));
    }
    bound(after);
    return after;
  }

  // Conditions.

  void answer(const ShellAnswer& answer, std::vector<std::string> names, const ShellCommand& command,
              ShellState& state) {
    state.tested = true;
    state.status = !answer.holds ? Status::unknown : *answer.holds ? Status::success : Status::failure;
    state.question = {command.place, command.source, std::move(names), false, answer.usual};
  }
  void ask(const std::vector<ShellOperand>& operands, bool patterns, const ShellCommand& command, ShellState& state) {
    std::string open;
    for (const ShellOperand& operand : operands) {
      for (const ShellChar& c : operand.text) {
        if (c.known != Known::known) open += c.c;
      }
      open += ' ';
    }
    const auto sum = [&](const std::string& text) { return sum_of(text, state); };
    const auto is_set = [&](const std::string& name) -> std::optional<bool> {
      if (given_.environment.contains(name) || variable(name, state) != nullptr) return true;
      return std::nullopt;
    };
    answer(shell_test(operands, patterns, sum, is_set), shell_names_in(open), command, state);
  }

  States branch(const ShellCommand& command, ShellState state) {
    States open{std::move(state)}, done;
    for (const ShellClause& clause : command.clauses) {
      States taken;
      if (clause.condition.empty()) {  // else
        taken = std::move(open);
        open.clear();
      } else {
        States next;
        for (ShellState& each : run(clause.condition, std::move(open))) {
          if (each.flow != Flow::on) {
            done.push_back(std::move(each));
          } else if (each.status == Status::unknown) {
            taken.push_back(decided(each, true));
            next.push_back(decided(each, false));
          } else {
            (each.status == Status::success ? taken : next).push_back(std::move(each));
          }
        }
        open = std::move(next);
      }
      for (ShellState& each : run(clause.body, std::move(taken))) done.push_back(std::move(each));
    }
    for (ShellState& each : open) {
      each.status = Status::success;
      done.push_back(std::move(each));
    }
    for (ShellState& each : done) {
      if (each.flow == Flow::on) each.status = Status::success;
    }
    bound(done);
    return done;
  }

  States choice(const ShellCommand& command, ShellState state) {
    const ShellText word = joined(command.words.at(0), state);
    States done;
    for (const ShellClause& clause : command.clauses) {
      bool fits = false, all = false;
      std::string pattern;
      for (const ShellWord& each : clause.pattern) {
        const ShellText text = joined(each, state);
        fits = fits || (is_known(word) && is_known(text) && shell_matches(word, text));
        all = all || (plain(text) == "*" && !text[0].quoted);
        pattern += (pattern.empty() ? "" : "|") + plain(text);
      }
      if (is_known(word)) {
        if (!fits) continue;
        for (ShellState& each : run(clause.body, alone(std::move(state)))) done.push_back(std::move(each));
        return done;
      }
      state.question = {command.place, fmt::format("{} {})", command.source, pattern), shell_names_in(plain(word)),
                        false, std::nullopt};
      ShellState taken = decided(state, true);
      for (ShellState& each : run(clause.body, alone(std::move(taken)))) done.push_back(std::move(each));
      if (all) {
        bound(done);
        return done;
      }
      state = decided(state, false);
    }
    state.status = Status::success;
    done.push_back(std::move(state));
    bound(done);
    return done;
  }

  // Loops.

  static void end_loop(ShellState& state) {
    if (state.flow == Flow::breaks || state.flow == Flow::continues) state.flow = Flow::on;
  }
  States for_each(const ShellCommand& command, ShellState state) {
    std::vector<ShellText> list = fields(command.words, state);
    if (command.over_arguments) list = state.arguments;
    States states{std::move(state)};
    for (const ShellText& item : list) {
      if (list.size() > static_cast<std::size_t>(kMostRounds))
        throw sim::UserError(command.place, "for", fmt::format("has more than {} rounds", kMostRounds));
      States next;
      for (ShellState& each : states) {
        if (each.flow != Flow::on) {
          next.push_back(std::move(each));
          continue;
        }
        assign(command.name, item, each);
        for (ShellState& after : run(*command.body, alone(std::move(each)))) {
          if (after.flow == Flow::continues) after.flow = Flow::on;
          next.push_back(std::move(after));
        }
      }
      states = std::move(next);
      bound(states);
    }
    for (ShellState& each : states) end_loop(each);
    return states;
  }
  States for_sum(const ShellCommand& command, ShellState state) {
    const std::string text = plain(joined(command.words.at(0), state));
    const std::size_t first = std::min(text.find(';'), text.size()),
                      second = std::min(text.find(';', first + 1), text.size());
    const std::string condition = first < second ? text.substr(first + 1, second - first - 1) : "";
    const std::string then = second < text.size() ? text.substr(second + 1) : "";
    sum_of(text.substr(0, first), state);
    States states{std::move(state)};
    for (int round = 0; round < kMostRounds; ++round) {
      const auto goes_on = sum_of(condition, states[0]);
      if (goes_on && *goes_on == 0) break;
      if (states[0].flow != Flow::on) break;
      States next;
      for (ShellState& each : states) {
        for (ShellState& after : run(*command.body, alone(std::move(each)))) {
          if (after.flow == Flow::continues) after.flow = Flow::on;
          sum_of(then, after);
          next.push_back(std::move(after));
        }
      }
      states = std::move(next);
      bound(states);
      if (!goes_on) break;  // once for all
    }
    for (ShellState& each : states) end_loop(each);
    return states;
  }
  /// while and until. Where the condition is not known the body is followed once, and what waits for ever once too.
  States repeat(const ShellCommand& command, ShellState state) {
    const ShellClause& clause = command.clauses.at(0);
    States open{std::move(state)}, done;
    for (int round = 0; round < kMostRounds && !open.empty(); ++round) {
      States next;
      for (ShellState& each : run(clause.condition, std::move(open))) {
        const bool known = each.status != Status::unknown;
        const bool usual = each.question.usual.value_or(!command.until);
        const bool holds = known ? each.status == Status::success : usual;
        if (each.flow != Flow::on || holds == command.until) {
          each.status = Status::success;
          done.push_back(std::move(each));
          continue;
        }
        const std::size_t before = each.runs.size();
        for (ShellState& after : run(clause.body, alone(std::move(each)))) {
          if (after.flow == Flow::continues) after.flow = Flow::on;
          const bool again = known && after.flow == Flow::on && after.runs.size() == before;
          (again ? next : done).push_back(std::move(after));
        }
      }
      open = std::move(next);
      bound(open);
    }
    for (ShellState& each : open) done.push_back(std::move(each));
    for (ShellState& each : done) end_loop(each);
    bound(done);
    return done;
  }

  // Commands.

  void print(const ShellText& text, ShellState& state, const sim::Place& at) {
    if (printing_ == 0) return;
    spend(text.size(), at);
    state.output.insert(state.output.end(), text.begin(), text.end());
    spend(state.output.size(), at);
  }
  static States worked(ShellState state) {
    state.status = Status::success;
    return alone(std::move(state));
  }

  States simple(const ShellCommand& command, ShellState state) {
    for (const ShellAssignment& assignment : command.assignments) assign(assignment, state);
    if (command.words.empty()) return worked(std::move(state));
    std::vector<ShellText> words = fields(command.words, state);
    while (!words.empty() && is_unset(words[0])) words.erase(words.begin());
    if (words.empty()) return worked(std::move(state));
    const std::string name = plain(words[0]);
    if (const auto function = state.functions.find(name); function != state.functions.end())
      return call(*function->second, command, words, std::move(state));
    if (std::optional<States> own = builtin(name, words, command, state)) return *std::move(own);
    return external(words, command, std::move(state));
  }

  States call(const ShellList& body, const ShellCommand& command, const std::vector<ShellText>& words,
              ShellState state) {
    enter(command.place);
    const std::vector<ShellText> outer = state.arguments;
    const bool known = state.arguments_known;
    const std::shared_ptr<ShellList> held = state.functions.at(plain(words[0]));  // should it define itself anew
    state.arguments.assign(words.begin() + 1, words.end());
    state.arguments_known = true;
    States states = run(body, alone(std::move(state)));
    for (ShellState& each : states) {
      if (each.flow == Flow::returns) each.flow = Flow::on;
      each.arguments = outer;
      each.arguments_known = known;
    }
    --deep_;
    return states;
  }

  /// Nothing where it is none of the shell's own, nor one whose output is known.
  std::optional<States> builtin(const std::string& name, const std::vector<ShellText>& words,
                                const ShellCommand& command, ShellState& state) {
    const auto text = [&](std::size_t at) { return at < words.size() ? plain(words[at]) : std::string(); };
    if (name == "[" || name == "test") {
      std::vector<ShellOperand> operands;
      for (std::size_t i = 1; i < words.size(); ++i) {
        const bool bare = std::none_of(words[i].begin(), words[i].end(), [](const ShellChar& c) { return c.quoted; });
        operands.push_back({words[i], bare});
      }
      if (name == "[" && !operands.empty() && text(words.size() - 1) == "]") operands.pop_back();
      ask(operands, false, command, state);
      return States{std::move(state)};
    }
    if (name == "true" || name == ":" || name == "false") {
      state.status = name == "false" ? Status::failure : Status::success;
      return States{std::move(state)};
    }
    if (name == "exit" || name == "return" || name == "break" || name == "continue") {
      state.flow = name == "exit"     ? Flow::ends
                   : name == "return" ? Flow::returns
                   : name == "break"  ? Flow::breaks
                                      : Flow::continues;
      const std::string code = text(1);
      if (name == "exit" || name == "return")
        state.status = code.empty() || code == "0" ? Status::success : Status::failure;
      return States{std::move(state)};
    }
    if (name == "export" || name == "declare" || name == "local" || name == "readonly" || name == "typeset") {
      const bool keyed =
          std::any_of(words.begin(), words.end(), [](const ShellText& each) { return plain(each) == "-A"; });
      if (keyed) declare_keyed(words, command, state);
      for (std::size_t i = 1; i < words.size(); ++i) {
        if (!is_known(words[i])) remark(command.place, fmt::format("{}: what it sets is not known", command.source));
      }
      return worked(std::move(state));
    }
    if (name == "unset") {
      for (std::size_t i = 1; i < words.size(); ++i) state.variables.erase(text(i));
      return worked(std::move(state));
    }
    if (name == "shift") {
      const std::size_t count = std::min<std::size_t>(state.arguments.size(), text(1) == "2" ? 2 : 1);
      state.status = state.arguments.empty() && state.arguments_known ? Status::failure : Status::success;
      state.arguments.erase(state.arguments.begin(), state.arguments.begin() + static_cast<std::ptrdiff_t>(count));
      return States{std::move(state)};
    }
    if (name == "set") {
      const auto marks =
          std::find_if(words.begin(), words.end(), [](const ShellText& each) { return plain(each) == "--"; });
      if (marks != words.end()) {
        state.arguments.assign(marks + 1, words.end());
        state.arguments_known = true;
      }
      return worked(std::move(state));
    }
    if (name == "let") {
      for (std::size_t i = 1; i < words.size(); ++i) sum_of(text(i), state);
      return worked(std::move(state));
    }
    if (name == "read" || name == "mapfile" || name == "readarray") {
      for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string variable = text(i);
        const bool is_name =
            !variable.empty() && (std::isalpha(static_cast<unsigned char>(variable[0])) != 0 || variable[0] == '_');
        if (!is_name) continue;
        ShellChar where = place_of(command.place);
        where.known = Known::opaque;
        assign(variable, command.here.empty() ? text_at("$" + variable, where) : joined(*command.here[0], state),
               state);
      }
      return worked(std::move(state));
    }
    if (name == "source" || name == ".") return sourced(words, command, std::move(state));
    if (name == "eval") {
      const ShellText all = with_spaces(words, 1);
      if (!is_known(all)) remark(command.place, fmt::format("{}: some of what it runs is not known", command.source));
      return of_text(all, command.place, std::move(state));
    }
    return printed(name, words, command, state);
  }

  std::optional<States> printed(const std::string& name, const std::vector<ShellText>& words,
                                const ShellCommand& command, ShellState& state) {
    const ShellChar where = place_of(command.place);
    const auto text = [&](std::size_t at) { return at < words.size() ? plain(words[at]) : std::string(); };
    const bool all_known = std::all_of(words.begin(), words.end(), is_known);
    const std::size_t format = text(1) == "-v" ? 3 : 1;
    if (const auto out = name == "printf" && all_known ? formatted_words(words, format) : std::nullopt) {
      if (format == 3) assign(text(2), text_at(*out, where), state);
      if (format == 1) print(text_at(*out, where), state, command.place);
      return worked(std::move(state));
    }
    if (name == "echo" || name == "printf") {
      std::size_t first = 1;
      while (first < words.size() && (text(first) == "-n" || text(first) == "-e" || text(first) == "-ne")) ++first;
      if (name == "printf") state.output_known = false;
      print(with_spaces(words, first), state, command.place);
      print(text_at("\n", where), state, command.place);
      return worked(std::move(state));
    }
    if (name == "cd" || name == "pushd") {
      const std::size_t at = words.size() - 1;  // behind options, as in cd -- FOLDER
      const std::filesystem::path to = at > 0 && is_known(words[at]) ? text(at) : std::string();
      if (to.empty())
        state.folder.clear();
      else
        state.folder = (to.is_absolute() ? to : std::filesystem::path(state.folder) / to).lexically_normal().string();
      return worked(std::move(state));
    }
    if (name == "pwd") {
      print(text_at(state.folder.empty() ? "." : state.folder, where), state, command.place);
      return worked(std::move(state));
    }
    const bool path = name == "dirname" || name == "basename" || name == "realpath" || name == "readlink";
    if (path && words.size() > 1 && all_known) {
      const bool suffix = name == "basename" && words.size() > 2;
      print(text_at(path_word(name, text(suffix ? 1 : words.size() - 1), suffix ? text(2) : ""), where), state,
            command.place);
      return worked(std::move(state));
    }
    if (name == "seq" && words.size() > 1 && words.size() < 5 && all_known) {
      const auto last = sum_of(text(words.size() - 1), state), from = words.size() > 2 ? sum_of(text(1), state) : 1;
      const auto by = words.size() > 3 ? sum_of(text(2), state) : 1;
      if (last && from && by && *by > 0 && (*last - *from) / *by < kMostRounds) {
        for (std::int64_t i = *from; i <= *last; i += *by)
          print(text_at(std::to_string(i) + "\n", where), state, command.place);
        return worked(std::move(state));
      }
    }
    if (name == "expr" && std::all_of(words.begin() + 1, words.end(), is_known)) {
      if (const auto value = sum_of(plain(with_spaces(words, 1)), state)) {
        print(text_at(std::to_string(*value), where), state, command.place);
        return worked(std::move(state));
      }
    }
    if ((name == "cat" || name == "tee") && !command.here.empty()) {
      for (const auto& here : command.here) print(joined(*here, state), state, command.place);
      return in_here(command, std::move(state));
    }
    if (changes_no_launch(name)) {
      state.output_known = false;
      return worked(std::move(state));
    }
    return std::nullopt;
  }

  void declare_keyed(const std::vector<ShellText>& words, const ShellCommand& command, ShellState& state) {
    auto empty = std::make_shared<ShellValue>();
    empty->keyed = empty->array = true;
    for (const ShellText& word : words) {
      const std::string name = plain(word);
      if (!name.starts_with("-") && name != "declare" && name != "local" && name != "typeset")
        state.variables[name] = empty;
    }
    for (const ShellAssignment& assignment : command.assignments) {
      state.variables[assignment.name] = empty;
      assign(assignment, state);
    }
  }

  /// A text as a script of its own, where it is one.
  States of_text(const ShellText& text, const sim::Place& at, ShellState state) {
    enter(at);
    std::shared_ptr<ShellList> list;
    const sim::Place begin = text.empty() ? at : place(text[0]);
    try {
      spend(text.size(), at);
      list = std::make_shared<ShellList>(parse_shell(plain(text), begin));
    } catch (const sim::UserError& error) {
      remark(at, fmt::format("what it runs is no script ({})", error.what()));
      --deep_;
      return alone(std::move(state));
    }
    kept_.push_back(list);
    States states = run(*list, alone(std::move(state)));
    --deep_;
    return states;
  }
  /// A here-document that holds a launch of its own, as of `cat > job.sh <<EOF` and `bash <<EOF`.
  States in_here(const ShellCommand& command, ShellState state) {
    States states{std::move(state)};
    for (const auto& here : command.here) {
      States next;
      for (ShellState& each : states) {
        const ShellText text = joined(*here, each);
        if (plain(text).find("--") == std::string::npos) {
          each.documents.push_back(plain(text));
          next.push_back(std::move(each));
          continue;
        }
        for (ShellState& after :
             within(each, [&](ShellState inner) { return of_text(text, command.place, std::move(inner)); })) {
          after.output = each.output;
          after.output_known = each.output_known;
          next.push_back(std::move(after));
        }
      }
      states = std::move(next);
    }
    return states;
  }

  std::optional<std::string> read(const std::string& path, const ShellState& state, std::string& found) const {
    if (!given_.read || path.empty()) return std::nullopt;
    const std::filesystem::path given = path, beside = std::filesystem::path(files_.at(0)).parent_path();
    for (const std::filesystem::path& each : {given, beside / given, std::filesystem::path(state.folder) / given}) {
      std::optional<std::string> text = given_.read(each.string());
      if (!text) continue;
      found = each.string();
      return text;
    }
    return std::nullopt;
  }
  States sourced(const std::vector<ShellText>& words, const ShellCommand& command, ShellState state) {
    std::string file;
    const std::optional<std::string> text =
        words.size() > 1 && is_known(words[1]) ? read(plain(words[1]), state, file) : std::nullopt;
    if (!text) {
      remark(command.place, fmt::format("{}: is not there, what it sets is not known", command.source));
      return worked(std::move(state));
    }
    enter(command.place);
    const auto list = std::make_shared<ShellList>(parse_shell(*text, {file, 1, 1}));
    kept_.push_back(list);
    const std::string outer = state.script;
    const std::vector<ShellText> arguments = state.arguments;
    if (words.size() > 2) state.arguments.assign(words.begin() + 2, words.end());
    state.script = file;  // BASH_SOURCE; $0 stays in a shell, and few ask it in such a file
    States states = run(*list, alone(std::move(state)));
    for (ShellState& each : states) {
      each.script = outer;
      each.arguments = arguments;
      if (each.flow == Flow::returns) each.flow = Flow::on;
    }
    --deep_;
    return states;
  }

  /// The script that `words` from `at` on hand to a shell: -c TEXT, or FILE. Nothing where they do not.
  std::optional<States> shell_within(const std::vector<ShellText>& words, std::size_t at, const ShellCommand& command,
                                     const ShellState& state) {
    const std::string name = std::filesystem::path(plain(words[at])).filename().string();
    if (name != "bash" && name != "sh" && name != "zsh") return std::nullopt;
    std::size_t next = at + 1;
    bool text = false;
    for (; next < words.size() && plain(words[next]).starts_with("-"); ++next) {
      const std::string flag = plain(words[next]);
      text = text || (flag.size() > 1 && flag[1] != '-' && flag.find('c') != std::string::npos);
    }
    if (next >= words.size()) return std::nullopt;
    if (text) {
      return within(state, [&](ShellState inner) {
        inner.arguments.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(next + 2, words.size())),
                               words.end());
        inner.arguments_known = true;
        return of_text(words[next], command.place, std::move(inner));
      });
    }
    std::string file;
    const std::optional<std::string> script =
        is_known(words[next]) ? read(plain(words[next]), state, file) : std::nullopt;
    if (!script) return std::nullopt;
    return within(state, [&](ShellState inner) {
      enter(command.place);
      const auto list = std::make_shared<ShellList>(parse_shell(*script, {file, 1, 1}));
      kept_.push_back(list);
      inner.arguments.assign(words.begin() + static_cast<std::ptrdiff_t>(next) + 1, words.end());
      inner.arguments_known = true;
      inner.script = file;
      States states = run(*list, alone(std::move(inner)));
      --deep_;
      return states;
    });
  }

  States external(const std::vector<ShellText>& words, const ShellCommand& command, ShellState state) {
    state.output_known = false;
    state.status = Status::unknown;
    state.tested = false;
    state.question = {command.place, command.source, {}, false, std::nullopt};
    ShellRun made{{}, command.place};
    for (const ShellText& word : words) {
      const sim::Place at = word.empty() ? command.place : place(word[0]);
      made.words.push_back({plain(word), at, is_known(word)});
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (std::optional<States> inner = shell_within(words, i, command, state)) {
        for (ShellState& each : *inner) {
          if (i > 0)
            each.runs.push_back(
                ShellRun{{made.words.begin(), made.words.begin() + static_cast<std::ptrdiff_t>(i)}, command.place});
        }
        return *std::move(inner);
      }
    }
    state.runs.push_back(std::move(made));
    if (given_.ends && given_.ends(state.runs.back())) state.flow = Flow::ends;
    if (command.here.empty()) return alone(std::move(state));
    return in_here(command, std::move(state));
  }

  ShellText output_of(const ShellPiece& piece, ShellState& state) override {
    enter(piece.place);
    ShellState inner = state;
    inner.output.clear();
    inner.output_known = true;
    ++printing_;
    States states = run(*piece.commands, alone(std::move(inner)));
    --printing_;
    --deep_;
    const bool one = std::all_of(states.begin(), states.end(), [&](const ShellState& each) {
      return each.output_known && each.output == states[0].output;
    });
    if (!one || states.empty()) {
      ShellChar where = place_of(piece.place);
      where.known = Known::opaque;
      return text_at(piece.source, where);
    }
    ShellText text = std::move(states[0].output);
    while (!text.empty() && text.back().c == '\n') text.pop_back();
    return text;
  }

  int steps_ = 0, deep_ = 0, printing_ = 0;       // printing_: within $( )
  std::vector<std::shared_ptr<ShellList>> kept_;  // trees that functions may come from
  std::vector<std::string> remarks_;
};

}  // namespace

ShellRuns run_shell(const std::string& text, const std::string& file,
                    const std::vector<std::pair<std::string, std::string>>& start, const ShellGiven& given) {
  return Shell(given).whole(text, file, start);
}

}  // namespace orrery::tools
