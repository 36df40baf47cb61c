// The scoreboard as text, Markdown and JSON. Left out: weights; every row counts once.
#include "tools/report/scoreboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/report/text.h"

namespace orrery::tools {

using nlohmann::ordered_json;

std::vector<ListNote> list_notes() {
  const std::string file = scenarios::data_directory() + "/scenarios/published/notes.yaml";
  std::vector<ListNote> notes;
  if (!std::filesystem::exists(file)) return notes;
  const sim::Settings document = scenarios::read_yaml(file);
  if (!document.is_sequence()) document.fail("expected a list of notes");
  for (const sim::Settings& item : document.items()) {
    item.refuse_unknown({"list", "title", "others", "note", "looked_at", "alike_to_gpus"});
    ListNote& note = notes.emplace_back();
    note.list = item.at("list").text();
    note.title = item.get_text("title", "");
    note.others = item.get_text("others", "");
    note.note = item.get_text("note", "");
    if (item.find("alike_to_gpus") != nullptr) note.alike_to_gpus = item.at("alike_to_gpus").as_int(1);
    const std::string looked_at = item.get_text("looked_at", "developed");
    if (looked_at != "developed" && looked_at != "never") item.at("looked_at").expected("developed or never");
    note.looked_at = looked_at == "never" ? LookedAt::never : LookedAt::developed;
  }
  return notes;
}

std::vector<std::string> lists_of(const std::vector<ValidationRow>& rows) {
  std::vector<std::string> lists;
  for (const ValidationRow& row : rows) {
    if (std::find(lists.begin(), lists.end(), row.list) == lists.end()) lists.push_back(row.list);
  }
  return lists;
}

ErrorSummary summary_of(const std::vector<ValidationRow>& rows, const std::string& list, bool with_fitted) {
  std::vector<double> errors;
  for (const ValidationRow& row : rows) {
    if (row.error_pct && (list.empty() || row.list == list) && (with_fitted || !row.fitted)) {
      errors.push_back(*row.error_pct);
    }
  }
  return summarize(std::move(errors));
}

std::vector<double> memory_errors(const std::vector<ValidationRow>& rows, const std::string& list) {
  std::vector<double> errors;
  for (const ValidationRow& row : rows) {
    if (!list.empty() && row.list != list) continue;
    if (row.memory.measured_gb && row.memory.predicted_gb && *row.memory.measured_gb > 0) {
      errors.push_back(100 * (*row.memory.predicted_gb / *row.memory.measured_gb - 1));
    }
  }
  return errors;
}

namespace {

std::size_t count_of(const std::vector<ValidationRow>& rows, const std::string& list, RowStatus status) {
  return static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [&](const ValidationRow& row) {
    return row.status == status && (list.empty() || row.list == list);
  }));
}

std::vector<double> energy_errors(const std::vector<ValidationRow>& rows, const std::string& list,
                                  std::optional<double> ValidationRow::Energy::*measured,
                                  std::optional<double> ValidationRow::Energy::*predicted) {
  std::vector<double> errors;
  for (const ValidationRow& row : rows) {
    if (!list.empty() && row.list != list) continue;
    const auto &was = row.energy.*measured, &is = row.energy.*predicted;
    if (was && is && *was > 0) errors.push_back(100 * (*is / *was - 1));
  }
  return errors;
}
std::vector<double> power_errors(const std::vector<ValidationRow>& rows, const std::string& list) {
  return energy_errors(rows, list, &ValidationRow::Energy::measured_w, &ValidationRow::Energy::predicted_w);
}
std::vector<double> step_energy_errors(const std::vector<ValidationRow>& rows, const std::string& list) {
  return energy_errors(rows, list, &ValidationRow::Energy::measured_j, &ValidationRow::Energy::predicted_j);
}

ordered_json optional_json(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json row_json(const ValidationRow& row) {
  ordered_json json;
  json["id"] = row.id;
  json["metric"] = row.metric.empty() ? ordered_json(nullptr) : ordered_json(row.metric);
  json["measured"] = optional_json(row.measured);
  json["predicted"] = optional_json(row.predicted);
  json["error_pct"] = optional_json(row.error_pct);
  json["fitted"] = row.fitted;
  json["status"] = name_of(row.status);
  json["list"] = row.list;
  if (!row.message.empty()) json["message"] = row.message;
  const auto beside = [&](const char* name, const std::optional<double>& measured,
                          const std::optional<double>& predicted) {
    if (measured) json[name] = {{"measured", *measured}, {"predicted", optional_json(predicted)}};
  };
  beside("power_w", row.energy.measured_w, row.energy.predicted_w);
  beside("energy_j", row.energy.measured_j, row.energy.predicted_j);
  if (row.memory.predicted_gb) {
    json["memory_gb"] = {{"measured", optional_json(row.memory.measured_gb)}, {"predicted", *row.memory.predicted_gb}};
    json["oom"] = {
        {"measured", row.memory.measured_oom ? ordered_json(*row.memory.measured_oom) : ordered_json(nullptr)},
        {"predicted", row.memory.predicted_oom}};
  }
  return json;
}

ordered_json summary_json(const ErrorSummary& summary) {
  ordered_json json;
  json["n"] = summary.n;
  json["mape_pct"] = summary.mape_pct;
  json["median_ape_pct"] = summary.median_ape_pct;
  json["p90_ape_pct"] = summary.p90_ape_pct;
  json["max_ape_pct"] = summary.max_ape_pct;
  json["bias_pct"] = summary.bias_pct;
  return json;
}

ordered_json decisions_json(const Decisions& d) {
  return {{"groups", d.groups},
          {"pairs", d.pairs},
          {"ordered_right_pct", d.ordered_right_pct},
          {"regret_mean_pct", d.regret_mean_pct},
          {"regret_median_pct", d.regret_median_pct},
          {"regret_p90_pct", d.regret_p90_pct},
          {"to_measure_mean", d.to_measure_mean},
          {"measured_regret_mean_pct", d.measured_regret_mean_pct},
          {"measured_regret_p90_pct", d.measured_regret_p90_pct},
          {"chosen_off_mean_pct", d.chosen_off_mean_pct},
          {"chosen_off_median_pct", d.chosen_off_median_pct},
          {"chosen_within_10_pct", d.chosen_within_10_pct}};
}

ordered_json pairs_json(const PairSummary& p) {
  return {{"n", p.n},
          {"sign_right_pct", p.sign_right_pct},
          {"size_off_median_points", p.size_off_median_points},
          {"size_off_p90_points", p.size_off_p90_points}};
}

/// Groups of layouts, and pairs one key apart, by list.
void write_decisions(std::ostream& out, const std::vector<ValidationRow>& rows) {
  const std::vector<LayoutGroup> groups = layout_groups(rows);
  const std::vector<ChangedPair> pairs = changed_pairs(rows);
  TextTable choice({{"list", Align::left},
                    {"groups"},
                    {"pairs"},
                    {"in order"},
                    {"regret mean"},
                    {"median"},
                    {"p90"},
                    {"measured"},
                    {"regret mean"},
                    {"p90"},
                    {"chosen off"},
                    {"within 10 %"}});
  TextTable change({{"list", Align::left}, {"pairs"}, {"sign right"}, {"size off, median"}, {"p90"}});
  std::vector<std::string> lists = lists_of(rows);
  lists.push_back("");
  for (const std::string& list : lists) {
    const Decisions d = decisions_of(groups, list);
    const std::string name = list.empty() ? "all" : list;
    if (list.empty()) choice.add_note();
    if (d.groups > 0) {
      choice.add_row({name, fmt::format("{}", d.groups), fmt::format("{}", d.pairs),
                      fmt::format("{:.1f} %", d.ordered_right_pct), fmt::format("{:.1f} %", d.regret_mean_pct),
                      fmt::format("{:.1f} %", d.regret_median_pct), fmt::format("{:.1f} %", d.regret_p90_pct),
                      fmt::format("{:.1f}", d.to_measure_mean), fmt::format("{:.1f} %", d.measured_regret_mean_pct),
                      fmt::format("{:.1f} %", d.measured_regret_p90_pct), error_text(d.chosen_off_mean_pct),
                      fmt::format("{:.0f} %", d.chosen_within_10_pct)});
    }
    const PairSummary p = summary_of(pairs, list);
    if (list.empty()) change.add_note();
    if (p.n > 0) {
      change.add_row({name, fmt::format("{}", p.n), fmt::format("{:.1f} %", p.sign_right_pct),
                      fmt::format("{:.1f} points", p.size_off_median_points),
                      fmt::format("{:.1f} points", p.size_off_p90_points)});
    }
  }
  if (!groups.empty()) {
    out << "\nDecisions: groups of three rows and more that differ in layout alone (pairs: more than 5 % apart; "
           "regret:\n"
           "of the layout predicted the fastest, and of the fastest of those that search says to measure)\n";
    choice.write(out);
  }
  if (!pairs.empty()) {
    out << "\nChanges: rows that differ in one key, and by more than 3 % in their step\n";
    change.write(out);
  }
}

void write_rows(std::ostream& out, const std::vector<ValidationRow>& rows) {
  constexpr std::size_t kIdWidth = 38;
  for (const std::string& list : lists_of(rows)) {
    out << list << '\n';
    TextTable table({{"id", Align::left},
                     {"metric", Align::left},
                     {"measured"},
                     {"predicted"},
                     {"error"},
                     {"status", Align::left}});
    for (const ValidationRow& row : rows) {
      if (row.list != list) continue;
      table.add_row({shortened(row.id, kIdWidth), row.metric, row.measured ? number_text(*row.measured) : "-",
                     row.predicted ? number_text(*row.predicted) : "-",
                     row.error_pct ? error_text(*row.error_pct) : "-",
                     std::string(name_of(row.status)) + (row.fitted ? ", fitted" : "")});
      if (!row.message.empty()) {
        std::string message = wrapped(row.message, "      ", "      ");
        message.pop_back();
        table.add_note(message);
      }
    }
    table.write(out);
    out << '\n';
  }
}

using ErrorsOf = std::vector<double> (*)(const std::vector<ValidationRow>& rows, const std::string& list);

/// Something that is measured beside the step, by list.
void write_beside(std::ostream& out, const char* title, ErrorsOf errors_of, const std::vector<ValidationRow>& rows,
                  const std::vector<ValidationRow>& unfitted) {
  TextTable table({{"list", Align::left}, {"n"}, {"mean |error|"}, {"median"}, {"largest"}, {"bias"}});
  const auto add = [&](const std::string& name, const ErrorSummary& s) {
    if (s.n == 0) return;
    table.add_row({name, fmt::format("{}", s.n), fmt::format("{:.2f} %", s.mape_pct),
                   fmt::format("{:.2f} %", s.median_ape_pct), fmt::format("{:.2f} %", s.max_ape_pct),
                   error_text(s.bias_pct)});
  };
  for (const std::string& list : lists_of(rows)) add(list, summarize(errors_of(rows, list)));
  const ErrorSummary all = summarize(errors_of(rows, ""));
  if (all.n == 0) return;
  table.add_note();
  add("all", all);
  if (unfitted.size() < rows.size()) add("all but fitted rows", summarize(errors_of(unfitted, "")));
  out << fmt::format("\n{}, where measured\n", title);
  table.write(out);
}

void write_summary(std::ostream& out, const std::vector<ValidationRow>& rows) {
  TextTable table(
      {{"list", Align::left}, {"n"}, {"mean |error|"}, {"median"}, {"largest"}, {"bias"}, {"oom"}, {"errors"}});
  const auto add = [&](const std::string& name, const ErrorSummary& s, const std::string& list) {
    table.add_row({name, fmt::format("{}", s.n), fmt::format("{:.2f} %", s.mape_pct),
                   fmt::format("{:.2f} %", s.median_ape_pct), fmt::format("{:.2f} %", s.max_ape_pct),
                   error_text(s.bias_pct), fmt::format("{}", count_of(rows, list, RowStatus::oom)),
                   fmt::format("{}", count_of(rows, list, RowStatus::error))});
  };
  for (const std::string& list : lists_of(rows)) add(list, summary_of(rows, list, true), list);
  table.add_note();
  add("all", summary_of(rows, "", true), "");
  std::vector<ValidationRow> unfitted;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(unfitted),
               [](const ValidationRow& r) { return !r.fitted; });
  if (unfitted.size() < rows.size()) add("all but fitted rows", summary_of(rows, "", false), "");
  out << "Summary\n";
  table.write(out);
  write_decisions(out, rows);
  write_beside(out, "Peak memory", memory_errors, rows, unfitted);
  write_beside(out, "Mean power of a GPU", power_errors, rows, unfitted);
  write_beside(out, "Energy of a step", step_energy_errors, rows, unfitted);
}

const ListNote* note_of(const std::vector<ListNote>& notes, const std::string& list) {
  const auto found = std::find_if(notes.begin(), notes.end(), [&](const ListNote& n) { return n.list == list; });
  return found == notes.end() ? nullptr : &*found;
}

void write_notes(std::ostream& out, const std::vector<ValidationRow>& rows, const std::vector<ListNote>& notes) {
  std::string text;
  for (const std::string& list : lists_of(rows)) {
    const ListNote* note = note_of(notes, list);
    if (note != nullptr && !note->note.empty()) text += wrapped(list + ": " + note->note, "  ", "    ");
  }
  if (!text.empty()) out << "\nWhy rows are missed\n" << text;
}

}  // namespace

ordered_json validation_json(const std::vector<ValidationRow>& rows, std::size_t records,
                             const std::vector<ListNote>& notes) {
  ordered_json json;
  json["rows"] = ordered_json::array();
  for (const ValidationRow& row : rows) json["rows"].push_back(row_json(row));
  json["summary"] = summary_json(summary_of(rows, "", true));
  json["summary"]["records"] = records;
  json["summary"]["oom"] = count_of(rows, "", RowStatus::oom);
  json["summary"]["errors"] = count_of(rows, "", RowStatus::error);
  json["memory_summary"] = summary_json(summarize(memory_errors(rows, "")));
  json["power_summary"] = summary_json(summarize(power_errors(rows, "")));
  json["energy_summary"] = summary_json(summarize(step_energy_errors(rows, "")));
  json["summary_without_fitted"] = summary_json(summary_of(rows, "", false));
  const std::vector<LayoutGroup> groups = layout_groups(rows);
  const std::vector<ChangedPair> pairs = changed_pairs(rows);
  json["decisions"] = decisions_json(decisions_of(groups, ""));
  json["pairs"] = pairs_json(summary_of(pairs, ""));
  json["lists"] = ordered_json::object();
  for (const std::string& list : lists_of(rows)) {
    json["lists"][list] = summary_json(summary_of(rows, list, true));
    json["lists"][list]["without_fitted"] = summary_json(summary_of(rows, list, false));
    json["lists"][list]["looked_at"] = name_of(looked_at(rows, list, notes));
    json["lists"][list]["decisions"] = decisions_json(decisions_of(groups, list));
    json["lists"][list]["pairs"] = pairs_json(summary_of(pairs, list));
  }
  json["notes"] = ordered_json::object();
  for (const ListNote& note : notes) {
    if (!note.note.empty()) json["notes"][note.list] = note.note;
  }
  return json;
}

void write_scoreboard(std::ostream& out, const std::vector<ValidationRow>& rows, std::size_t records,
                      const std::vector<ListNote>& notes) {
  write_rows(out, rows);
  write_summary(out, rows);
  write_notes(out, rows, notes);
  if (rows.size() < records) out << fmt::format("\nInterrupted: {} of {} records are done.\n", rows.size(), records);
}

std::string with_summary(const std::string& text, const std::string& file, const std::string& summary) {
  const std::string begin = std::string(kSummaryBegin) + "\n", end = kSummaryEnd;
  const std::size_t from = text.find(begin), to = text.find(end);
  const bool once = from != std::string::npos && to != std::string::npos && from < to &&
                    text.find(begin, from + 1) == std::string::npos && text.find(end, to + 1) == std::string::npos;
  if (!once) {
    throw sim::UserError(
        fmt::format("{}: holds no place for the summary, expected the lines \"{}\" and \"{}\", once each and "
                    "in this order",
                    file, kSummaryBegin, kSummaryEnd));
  }
  return text.substr(0, from + begin.size()) + summary + text.substr(to);
}

}  // namespace orrery::tools
