// The scoreboard as Markdown, for documents: lists by how much they were looked at, since an error on rows that nobody
// had seen is the one that a user will meet.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <ostream>
#include <set>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/report/scoreboard.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

using Rows = std::vector<ValidationRow>;

template <typename Keep>
Rows some_of(const Rows& rows, Keep keep) {
  Rows out;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(out), keep);
  return out;
}

Rows unfitted(const Rows& rows) {
  return some_of(rows, [](const ValidationRow& row) { return !row.fitted; });
}

const ListNote* note_of(const Beside& beside, const std::string& list) {
  const auto found =
      std::find_if(beside.notes.begin(), beside.notes.end(), [&](const ListNote& n) { return n.list == list; });
  return found == beside.notes.end() ? nullptr : &*found;
}

std::string title_of(const Beside& beside, const std::string& list) {
  const ListNote* note = note_of(beside, list);
  return markdown_cell(note != nullptr && !note->title.empty() ? note->title : list);
}

/// Rows that are said to run out of memory, of those that ran and of those that did not finish.
std::string memory_verdicts(const Rows& rows) {
  std::array<std::size_t, 2> said{}, all{};  // ran, did not
  for (const ValidationRow& row : rows) {
    if (row.status == RowStatus::error) continue;
    const std::size_t ended = row.memory.measured_oom.value_or(false) || row.measured_failed ? 1 : 0;
    ++all[ended];
    said[ended] += row.memory.predicted_oom ? 1 : 0;
  }
  return (all[0] > 0 ? fmt::format("{}/{}", said[0], all[0]) : "") +
         (all[1] > 0 ? fmt::format("{}{}/{} failed", all[0] > 0 ? ", " : "", said[1], all[1]) : "");
}

std::string memory_of(const Rows& rows) {
  const ErrorSummary s = summarize(memory_errors(rows, ""));
  return s.n > 0 ? fmt::format("{}, {:.1f} %", s.n, s.mape_pct) : "";
}

std::string held_in(const Beside& beside, const std::string& list) {
  const auto held = beside.held.find(list);
  return held == beside.held.end() ? "" : fmt::format("{:.0f}, {:.0f} %", held->second.at68, held->second.at90);
}

void write_line(std::ostream& out, const std::string& name, const Rows& rows, const std::string& looked,
                const std::string& held, const std::string& others) {
  const Rows fitted = some_of(rows, [](const ValidationRow& row) { return row.fitted; });
  const ErrorSummary s = summary_of(rows, "", false), f = summary_of(fitted, "", true);
  const std::string in_fit = f.n > 0 ? fmt::format("{}, {:.1f} %", f.n, f.mape_pct) : "";
  const std::string errors = s.n == 0
                                 ? "0 | | | | |"
                                 : fmt::format("{} | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:+.1f} %", s.n,
                                               s.mape_pct, s.median_ape_pct, s.p90_ape_pct, s.max_ape_pct, s.bias_pct);
  out << fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name, looked, errors, memory_of(unfitted(rows)),
                     memory_verdicts(rows), held, in_fit, others);
}

Rows without_unknown(const Rows& rows, const Beside& beside) {
  const std::set<std::string> unknown(beside.state_unknown.begin(), beside.state_unknown.end());
  return some_of(rows, [&](const ValidationRow& row) { return unknown.count(row.id) == 0; });
}

void write_list(std::ostream& out, const std::string& list, const Rows& rows, const Beside& beside) {
  const ListNote* note = note_of(beside, list);
  const std::string title = title_of(beside, list);
  const std::string looked(name_of(looked_at(rows, list, beside.notes)));
  // Utilisations are read off another table of the source than steps.
  const auto is_share = [](const ValidationRow& row) { return row.metric == "mfu_pct"; };
  const Rows steps = some_of(rows, [&](const ValidationRow& row) { return row.list == list && !is_share(row); });
  const Rows shares = some_of(rows, [&](const ValidationRow& row) { return row.list == list && is_share(row); });
  if (!steps.empty()) write_line(out, title, steps, looked, held_in(beside, list), note != nullptr ? note->others : "");
  if (!shares.empty()) write_line(out, title + ", MFU", shares, looked, "", "");
  const Rows known = without_unknown(steps, beside);
  if (known.size() < steps.size())
    write_line(out, fmt::format("{}, without {} of unknown state", title, steps.size() - known.size()), known, looked,
               "", "");
}

/// Rows of jobs that ran in one environment.
Rows alike(const Rows& rows, const Beside& beside) {
  return some_of(rows, [&](const ValidationRow& row) {
    const ListNote* note = note_of(beside, row.list);
    return note == nullptr || note->alike_to_gpus == 0 || row.features.gpus <= note->alike_to_gpus;
  });
}

void write_choices(std::ostream& out, const Rows& rows, const Beside& beside) {
  const std::vector<LayoutGroup> groups = layout_groups(rows);
  const std::vector<ChangedPair> pairs = changed_pairs(rows);
  out << "\n| decisions | groups | pairs in order | regret: mean, median, p90 | measured as search says: layouts, "
         "regret: mean, p90 | chosen step off: mean, median | within "
         "10 % "
         "| one key changed: pairs | sign right | size off: median, p90 |\n|---|---|---|---|---|---|---|---|---|---|\n";
  const auto add = [&](const std::string& name, const Decisions& d, const PairSummary& p) {
    if (d.groups == 0 && p.n == 0) return;
    const std::string choice =
        d.groups == 0 ? "0 | | | | |"
                      : fmt::format(
                            "{} | {:.1f} % of {} | {:.1f}, {:.1f}, {:.1f} % | {:.1f}, {:.1f}, {:.1f} % | {:+.1f}, "
                            "{:.1f} % | {:.0f} %",
                            d.groups, d.ordered_right_pct, d.pairs, d.regret_mean_pct, d.regret_median_pct,
                            d.regret_p90_pct, d.to_measure_mean, d.measured_regret_mean_pct, d.measured_regret_p90_pct,
                            d.chosen_off_mean_pct, d.chosen_off_median_pct, d.chosen_within_10_pct);
    const std::string change = p.n == 0 ? "0 | |"
                                        : fmt::format("{} | {:.1f} % | {:.1f}, {:.1f} points", p.n, p.sign_right_pct,
                                                      p.size_off_median_points, p.size_off_p90_points);
    out << fmt::format("| {} | {} | {} |\n", name, choice, change);
  };
  for (const std::string& list : lists_of(rows))
    add(title_of(beside, list), decisions_of(groups, list), summary_of(pairs, list));
  const auto add_all = [&](const std::string& name, const Rows& of) {
    add(name, decisions_of(layout_groups(of), ""), summary_of(changed_pairs(of), ""));
  };
  add_all("all", rows);
  for (const ListNote& note : beside.notes) {
    if (note.alike_to_gpus == 0) continue;
    const Rows some = alike(rows, beside), known = without_unknown(some, beside);
    if (some.size() == rows.size()) continue;
    const std::string name = fmt::format("all, {} to {} GPUs", note.list, note.alike_to_gpus);
    add_all(name, some);
    add_all(fmt::format("{}, without {} of unknown state", name, some.size() - known.size()), known);
  }
}

void write_first(std::ostream& out, const Beside& beside) {
  if (beside.first.empty()) return;
  out << "\n| as first predicted | taken in | n | mean | median | p90 |\n|---|---|---|---|---|---|\n";
  for (const FirstFigures& first : beside.first)
    out << fmt::format("| {} | {} | {} | {:.1f} % | {:.1f} % | {:.1f} % |\n", title_of(beside, first.list), first.taken,
                       first.rows, first.mean_pct, first.median_pct, first.p90_pct);
}

sim::Settings published(const char* file) {
  const std::string path = scenarios::data_directory() + "/scenarios/published/" + file;
  return std::filesystem::exists(path) ? scenarios::read_yaml(path) : sim::Settings{};
}

}  // namespace

std::string_view name_of(LookedAt looked_at) {
  constexpr std::array<std::string_view, 3> kNames{"fitted", "developed on", "never"};
  return kNames[static_cast<std::size_t>(looked_at)];
}

LookedAt looked_at(const std::vector<ValidationRow>& rows, const std::string& list,
                   const std::vector<ListNote>& notes) {
  const bool fitted =
      std::any_of(rows.begin(), rows.end(), [&](const ValidationRow& row) { return row.list == list && row.fitted; });
  if (fitted) return LookedAt::fitted;
  const auto note = std::find_if(notes.begin(), notes.end(), [&](const ListNote& n) { return n.list == list; });
  return note == notes.end() ? LookedAt::never : note->looked_at;
}

std::vector<FirstFigures> first_figures() {
  std::vector<FirstFigures> out;
  const sim::Settings document = published("first_figures.yaml");
  if (document.is_null()) return out;
  for (const sim::Settings& item : document.items()) {
    item.refuse_unknown({"list", "taken", "rows", "mean_pct", "median_pct", "p90_pct"});
    FirstFigures& first = out.emplace_back();
    first.list = item.at("list").text();
    first.taken = item.at("taken").text();
    first.rows = item.at("rows").as_int();
    first.mean_pct = item.at("mean_pct").as_number();
    first.median_pct = item.at("median_pct").as_number();
    first.p90_pct = item.at("p90_pct").as_number();
  }
  return out;
}

std::vector<std::string> state_unknown() {
  std::vector<std::string> out;
  const sim::Settings document = published("state_unknown.yaml");
  if (document.is_null()) return out;
  document.refuse_unknown({"why", "ids"});
  for (const sim::Settings& id : document.at("ids").items()) out.push_back(id.text());
  return out;
}

FreeNumbers free_numbers(const std::vector<ValidationRow>& rows) {
  FreeNumbers out;
  const std::string file = scenarios::data_directory() + "/calibration/fitted.yaml";
  if (!std::filesystem::exists(file)) return out;
  std::set<std::string> numbers;
  const sim::Settings fits = scenarios::read_yaml(file);
  for (const sim::Settings& fit : fits.items()) {
    for (const sim::Settings& parameter : fit.at("parameters").items())
      numbers.insert(parameter.at("document").text() + " " + parameter.at("key").text());
  }
  out.numbers = numbers.size();
  out.rows = static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [](const ValidationRow& row) { return row.fitted; }));
  return out;
}

void write_markdown(std::ostream& out, const std::vector<ValidationRow>& rows, const Beside& beside) {
  out << "| rows | looked at | n | mean error | median | p90 | largest | bias | memory: n, mean | said not to fit, of "
         "those "
         "that ran | intervals of 68, 90 % hold | fitted rows: n, mean | other tools |\n"
         "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const std::string& list : lists_of(rows)) write_list(out, list, rows, beside);
  for (const LookedAt kind : {LookedAt::fitted, LookedAt::developed, LookedAt::never}) {
    std::set<std::string> lists;
    for (const std::string& list : lists_of(rows)) {
      if (looked_at(rows, list, beside.notes) == kind) lists.insert(list);
    }
    const Rows of = some_of(rows, [&](const ValidationRow& row) { return lists.count(row.list) > 0; });
    const std::string name(name_of(kind));
    if (!of.empty()) write_line(out, fmt::format("all of {} lists {}", lists.size(), name), of, name, "", "");
  }
  write_line(out, "all", rows, "", held_in(beside, ""), "");
  const Rows known = without_unknown(rows, beside);
  if (known.size() < rows.size())
    write_line(out, fmt::format("all, without {} of unknown state", rows.size() - known.size()), known, "", "", "");
  write_choices(out, rows, beside);
  write_first(out, beside);
  const FreeNumbers free = free_numbers(rows);
  if (free.rows > 0)
    out << fmt::format("\nFree numbers: {}, moved by {} of these rows (`calibration/fitted.yaml`).\n", free.numbers,
                       free.rows);
}

}  // namespace orrery::tools
