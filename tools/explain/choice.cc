// The text of a choice, and what goes into it.
#include "tools/explain/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "tools/parallel.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

constexpr std::size_t kWeighed = 12;

/// An assumption without its figures, which differ between layouts.
std::string kind_of(const std::string& assumption) {
  std::string out;
  for (const char c : assumption) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.';
    if (!digit) out += c;
  }
  return out;
}

std::vector<std::string> of_the_first_alone(const std::vector<std::vector<std::string>>& assumptions,
                                            const std::vector<Chance>& chances) {
  std::set<std::string> elsewhere;
  bool any = false;
  for (std::size_t i = 1; i < assumptions.size(); ++i) {
    if (i < chances.size() && !chances[i].tied) continue;
    any = true;
    for (const std::string& one : assumptions[i]) elsewhere.insert(kind_of(one));
  }
  std::vector<std::string> out;
  if (!any) return out;
  for (const std::string& one : assumptions.front()) {
    if (!elsewhere.contains(kind_of(one))) out.push_back(one);
  }
  return out;
}

}  // namespace

Choice weigh_best(LayoutSpace& space, const SearchResult& result, unsigned jobs) {
  Choice out;
  const auto errors = shipped_pair_errors();
  if (!errors || result.best.empty()) return out;
  const std::size_t weighed = std::min(kWeighed, result.best.size());
  std::vector<Candidate> candidates(weighed);
  std::vector<std::vector<std::string>> assumptions(weighed);
  const std::vector<char> done = for_each_parallel(weighed, jobs, "", [&](std::size_t i) {
    const double step_s = result.best[i].result.iteration_s;
    if (const LayoutSpace::Detail* known = space.detail_of(result.best[i].layout)) {
      candidates[i] = {step_s, shares_of(known->breakdown_s)};
      assumptions[i] = known->assumptions;
      return;
    }
    workloads::Question question;
    question.cache = &space.cache();
    const workloads::StepReport report =
        workloads::simulate_step(space.load(space.layouts()[result.best[i].layout]).job, question);
    candidates[i] = {step_s, shares_of(report.breakdown_s)};
    assumptions[i] = report.assumptions;
  });
  if (std::find(done.begin(), done.end(), 0) != done.end()) return out;  // after a Ctrl-C
  out.chances = chances_of(*errors, candidates);
  out.measure = worth_measuring(*errors, candidates);
  for (std::size_t& place : out.measure) ++place;
  if (candidates.size() > 1) out.error68 = errors->at68(candidates[0].shares, candidates[1].shares);
  out.flattered = of_the_first_alone(assumptions, out.chances);
  return out;
}

void write_choice(std::ostream& out, const Choice& choice, double step_s) {
  if (choice.chances.empty()) return;
  const Chance& first = choice.chances.front();
  const auto tied = std::count_if(choice.chances.begin(), choice.chances.end(), [](const Chance& c) { return c.tied; });
  std::string text;
  if (tied > 0)
    text =
        fmt::format("{} {} within the error of such pairs of the first ({:.1f} % between the first two): measure {}. ",
                    tied, tied == 1 ? "is" : "are", 100 * std::expm1(choice.error68), fmt::join(choice.measure, ", "));
  else if (choice.chances.size() > 1)
    text = fmt::format("The first is ahead of the second by more than such pairs err ({:.1f} %). ",
                       100 * std::expm1(choice.error68));
  text += fmt::format(
      "The chance that it is the fastest of these is {:.0f} %; its step is expected to take {} ({} predicted: the best "
      "of many predictions is the one that errors flatter most).",
      100 * first.best, time_text(first.expected_s), time_text(step_s));
  out << wrapped(text, "", "  ");
  for (const std::string& one : choice.flattered)
    out << wrapped(fmt::format("Of these it alone rests on this: {}", one), "", "  ");
}

void add_chance(nlohmann::ordered_json& row, const Choice& choice, std::size_t place) {
  if (place >= choice.chances.size()) return;
  const Chance& chance = choice.chances[place];
  row["chance_best"] = chance.best;
  row["expected_s"] = chance.expected_s;
  row["tied"] = chance.tied || place == 0;
}

}  // namespace orrery::tools
