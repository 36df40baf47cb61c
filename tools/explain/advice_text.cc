// Text and JSON of advice. Left out: what was tried and is worse, which a sweep or a search lists.
#include "tools/explain/advice_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tools/report/text.h"

namespace orrery::tools {

using nlohmann::ordered_json;

namespace {

constexpr std::size_t kBrief = 3;

/// As a shell takes it.
std::string quoted(const std::string& word) {
  const bool plain = std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_./=,:+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain && !word.empty()) return word;
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'')
      text += "'\\''";
    else
      text += c;
  }
  return text + "'";
}

std::string saved_text(const Suggestion& suggestion) { return fmt::format("{:.1f} %", 100 * suggestion.saved); }

/// What was gone through, in a sentence.
std::string counts_text(const Advice& advice) {
  const Advice::Counts& c = advice.counts;
  std::string text = fmt::format(
      "{} changes in {}: {} simulated, {} do not fit the memory, {} cannot run, {} are far "
      "slower by a bound.",
      c.tried, time_text(advice.wall_s), c.simulated, c.too_large, c.infeasible, c.slower);
  if (c.errors > 0) text += fmt::format(" {} internal errors, please report them with the scenario.", c.errors);
  if (advice.interrupted) text += " Interrupted: this is what was found until then.";
  return text;
}

void write_suggestion(std::ostream& out, std::size_t rank, const Suggestion& s, double peak_bytes,
                      const std::string& command) {
  out << wrapped(fmt::format("{}. {}: saves {}, step {}, memory {} (was {})", rank, s.what_if.kind, saved_text(s),
                             time_text(s.step_s), bytes_text(s.peak_bytes), bytes_text(peak_bytes)),
                 "", "   ");
  if (!s.reason.empty()) out << wrapped(fmt::format("Why: {}.", s.reason), "   ", "   ");
  const std::string error =
      s.error68 > 0 ? fmt::format(" (two in three such ratios are right to {:.1f} %)", 100 * std::expm1(s.error68))
                    : "";
  out << wrapped(fmt::format("How sure: {}{}.", text_of(s.confidence), error), "   ", "   ");
  if (!s.what_if.needs.empty())
    out << wrapped(fmt::format("Needs a framework that has {}.", s.what_if.needs), "   ", "   ");
  if (s.what_if.numerics) out << "   Changes what training computes: whether it converges is not modelled.\n";
  out << wrapped(command, "   ", "     ");
}

void write_brief(std::ostream& out, const Advice& advice, const std::string& scenario,
                 const std::vector<std::string>& sets) {
  out << "\nWhat to change (`orrery advise` says why)\n";
  const std::size_t shown = std::min(kBrief, advice.suggestions.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Suggestion& s = advice.suggestions[i];
    out << wrapped(fmt::format("{}: saves {}: {}", s.what_if.kind, saved_text(s), command_of(scenario, sets, s)), "  ",
                   "    ");
  }
  if (shown == 0) out << "  Nothing tried saves a thousandth of the step.\n";
}

ordered_json suggestion_json(const Suggestion& s, const std::string& command) {
  ordered_json json;
  json["kind"] = s.what_if.kind;
  json["set"] = ordered_json::object();
  for (const std::string& change : s.set) {
    const std::size_t equals = change.find('=');
    json["set"][change.substr(0, equals)] = change.substr(equals + 1);
  }
  json["iteration_time_s"] = s.step_s;
  json["saved_pct"] = 100 * s.saved;
  json["peak_bytes"] = s.peak_bytes;
  json["breakdown_s"] = ordered_json::object();
  for (std::size_t c = 0; c < workloads::kCategories; ++c)
    json["breakdown_s"][std::string(workloads::name_of(static_cast<workloads::Category>(c)))] = s.exposed_s[c];
  json["reason"] = s.reason;
  json["confidence"] = name_of(s.confidence);
  json["ratio_error_pct"] = 100 * std::expm1(s.error68);
  json["changes_numerics"] = s.what_if.numerics;
  json["needs"] = s.what_if.needs.empty() ? ordered_json(nullptr) : ordered_json(s.what_if.needs);
  json["command"] = command;
  return json;
}

}  // namespace

std::string command_of(const std::string& scenario, const std::vector<std::string>& sets,
                       const Suggestion& suggestion) {
  std::string command = fmt::format("orrery run {}", scenario.starts_with("--") ? scenario : quoted(scenario));
  const auto key = [](const std::string& set) { return set.substr(0, set.find('=')); };
  for (const std::string& set : sets) {
    const bool replaced = std::any_of(suggestion.set.begin(), suggestion.set.end(),
                                      [&](const std::string& change) { return key(change) == key(set); });
    if (!replaced) command += fmt::format(" --set {}", quoted(set));
  }
  for (const std::string& change : suggestion.set) command += fmt::format(" --set {}", quoted(change));
  return command;
}

void write_advice(std::ostream& out, const Advice& advice, const std::string& scenario,
                  const std::vector<std::string>& sets, bool brief) {
  if (brief) return write_brief(out, advice, scenario, sets);
  const Advice::Now& now = advice.now;
  if (!now.fits) {
    out << wrapped(fmt::format("OUT OF MEMORY: the fullest GPU takes {} of {}. Ways out, the fastest first; what they "
                               "save is of {}, the step if it did fit.",
                               bytes_text(now.peak_bytes), bytes_text(now.capacity_bytes), time_text(now.step_s)),
                   "", "  ");
  } else {
    out << wrapped(fmt::format("{}: step {}, memory {} of {}. What would make it faster:", scenario,
                               time_text(now.step_s), bytes_text(now.peak_bytes), bytes_text(now.capacity_bytes)),
                   "", "  ");
  }
  out << '\n';
  if (advice.suggestions.empty())
    out << (now.fits ? "Nothing tried saves a thousandth of the step.\n" : "Nothing tried fits the memory.\n");
  std::size_t rank = 0;
  for (const Suggestion& s : advice.suggestions)
    write_suggestion(out, ++rank, s, now.peak_bytes, command_of(scenario, sets, s));
  if (!advice.numerics.empty()) {
    out << "\nOther numerics:\n";
    for (const Suggestion& s : advice.numerics)
      write_suggestion(out, ++rank, s, now.peak_bytes, command_of(scenario, sets, s));
  }
  out << '\n' << wrapped(counts_text(advice), "", "  ");
  if (advice.error) {
    out << wrapped(
        fmt::format("Ratios of two steps are as sure as their time goes alike: by {} pairs of published layouts in {} "
                    "groups, within {:.1f} % in two of three where it does.",
                    advice.error->pairs, advice.error->groups, 100 * std::expm1(advice.error->at68({}, {}))),
        "", "  ");
  }
}

ordered_json advice_json(const Advice& advice, const std::string& scenario, const std::vector<std::string>& sets) {
  const Advice::Now& now = advice.now;
  ordered_json json;
  json["scenario"] = scenario;
  json["iteration_time_s"] = now.step_s;
  json["memory"] = {{"fits", now.fits}, {"peak_bytes", now.peak_bytes}, {"capacity_bytes", now.capacity_bytes}};
  json["breakdown_s"] = ordered_json::object();
  for (std::size_t c = 0; c < workloads::kCategories; ++c)
    json["breakdown_s"][std::string(workloads::name_of(static_cast<workloads::Category>(c)))] = now.exposed_s[c];
  for (const auto& [name, list] :
       {std::pair("suggestions", &advice.suggestions), std::pair("numerics", &advice.numerics)}) {
    json[name] = ordered_json::array();
    for (const Suggestion& s : *list) json[name].push_back(suggestion_json(s, command_of(scenario, sets, s)));
  }
  const Advice::Counts& c = advice.counts;
  json["tried"] = c.tried;
  json["simulated"] = c.simulated;
  json["out_of_memory"] = c.too_large;
  json["infeasible"] = c.infeasible;
  json["slower_by_bound"] = c.slower;
  json["errors"] = c.errors;
  json["complete"] = !advice.interrupted;
  if (advice.error) {
    json["error_of_ratios"] = {{"pairs", advice.error->pairs},
                               {"pct_68", 100 * std::expm1(advice.error->at68({}, {}))},
                               {"pct_90", 100 * std::expm1(advice.error->at90({}, {}))}};
  }
  return json;
}

}  // namespace orrery::tools
