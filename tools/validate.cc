// `orrery validate`: every record of lists of measured scenarios, on all cores. No row is dropped: what cannot be
// loaded or simulated is a row that says why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/parallel.h"
#include "tools/report/output.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "tools/validation.h"

namespace orrery::tools {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct ValidateOptions {
  std::vector<std::string> paths;
  std::string json;
  unsigned jobs = 0;
};

struct Record {
  std::string list;
  sim::Settings settings;
};

/// Files as given; of a folder, its *.yaml and *.yml in the order of their names.
std::vector<std::string> list_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code failed;
    if (!fs::is_directory(path, failed)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, failed)) {
      const std::string suffix = entry.path().extension().string();
      if (suffix == ".yaml" || suffix == ".yml") found.push_back(entry.path().string());
    }
    if (failed) throw sim::UserError(fmt::format("{}: the folder cannot be read: {}", path, failed.message()));
    if (found.empty()) throw sim::UserError(fmt::format("{}: the folder holds no *.yaml file, expected lists", path));
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::vector<Record> read_lists(const std::vector<std::string>& paths) {
  std::vector<Record> records;
  for (const std::string& file : list_files(paths)) {
    for (sim::Settings& record : scenarios::read_records(file)) {
      records.push_back({fs::path(file).stem().string(), std::move(record)});
    }
  }
  return records;
}

std::vector<double> errors_of(const std::vector<ValidationRow>& rows, const std::string& list) {
  std::vector<double> errors;
  for (const ValidationRow& row : rows) {
    if (row.error_pct && (list.empty() || row.list == list)) errors.push_back(*row.error_pct);
  }
  return errors;
}

std::vector<std::string> lists_of(const std::vector<ValidationRow>& rows) {
  std::vector<std::string> lists;
  for (const ValidationRow& row : rows) {
    if (std::find(lists.begin(), lists.end(), row.list) == lists.end()) lists.push_back(row.list);
  }
  return lists;
}

std::size_t count_of(const std::vector<ValidationRow>& rows, const std::string& list, RowStatus status) {
  return static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [&](const ValidationRow& row) {
    return row.status == status && (list.empty() || row.list == list);
  }));
}

std::vector<double> memory_errors(const std::vector<ValidationRow>& rows, const std::string& list) {
  std::vector<double> errors;
  for (const ValidationRow& row : rows) {
    if (!list.empty() && row.list != list) continue;
    if (row.measured_memory_gb && row.predicted_memory_gb && *row.measured_memory_gb > 0) {
      errors.push_back(100 * (*row.predicted_memory_gb / *row.measured_memory_gb - 1));
    }
  }
  return errors;
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
  json["corrected"] = row.corrected;
  json["status"] = name_of(row.status);
  json["list"] = row.list;
  if (!row.message.empty()) json["message"] = row.message;
  if (row.predicted_memory_gb) {
    json["memory_gb"] = {{"measured", optional_json(row.measured_memory_gb)}, {"predicted", *row.predicted_memory_gb}};
    json["oom"] = {{"measured", row.measured_oom ? ordered_json(*row.measured_oom) : ordered_json(nullptr)},
                   {"predicted", row.predicted_oom}};
  }
  return json;
}

ordered_json summary_json(const ErrorSummary& summary) {
  ordered_json json;
  json["n"] = summary.n;
  json["mape_pct"] = summary.mape_pct;
  json["median_ape_pct"] = summary.median_ape_pct;
  json["max_ape_pct"] = summary.max_ape_pct;
  json["bias_pct"] = summary.bias_pct;
  return json;
}

ordered_json validation_json(const std::vector<ValidationRow>& rows, std::size_t records) {
  ordered_json json;
  json["rows"] = ordered_json::array();
  for (const ValidationRow& row : rows) json["rows"].push_back(row_json(row));
  json["summary"] = summary_json(summarize(errors_of(rows, "")));
  json["summary"]["records"] = records;
  json["summary"]["oom"] = count_of(rows, "", RowStatus::oom);
  json["summary"]["errors"] = count_of(rows, "", RowStatus::error);
  json["memory_summary"] = summary_json(summarize(memory_errors(rows, "")));
  json["lists"] = ordered_json::object();
  for (const std::string& list : lists_of(rows)) json["lists"][list] = summary_json(summarize(errors_of(rows, list)));
  return json;
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
      table.add_row(
          {shortened(row.id, kIdWidth), row.metric, row.measured ? number_text(*row.measured) : "-",
           row.predicted ? number_text(*row.predicted) : "-", row.error_pct ? error_text(*row.error_pct) : "-",
           std::string(name_of(row.status)) + (row.fitted ? ", fitted" : "") + (row.corrected ? ", corrected" : "")});
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

/// Peak memory against measured.memory_gb, by list.
void write_memory_summary(std::ostream& out, const std::vector<ValidationRow>& rows,
                          const std::vector<ValidationRow>& unfitted) {
  TextTable table({{"list", Align::left}, {"n"}, {"mean |error|"}, {"median"}, {"largest"}, {"bias"}});
  const auto add = [&](const std::string& name, const ErrorSummary& s) {
    if (s.n == 0) return;
    table.add_row({name, fmt::format("{}", s.n), fmt::format("{:.2f} %", s.mape_pct),
                   fmt::format("{:.2f} %", s.median_ape_pct), fmt::format("{:.2f} %", s.max_ape_pct),
                   error_text(s.bias_pct)});
  };
  for (const std::string& list : lists_of(rows)) add(list, summarize(memory_errors(rows, list)));
  const ErrorSummary all = summarize(memory_errors(rows, ""));
  if (all.n == 0) return;
  table.add_note();
  add("all", all);
  if (unfitted.size() < rows.size()) add("all but fitted rows", summarize(memory_errors(unfitted, "")));
  out << "\nPeak memory, where measured\n";
  table.write(out);
}

void write_summary(std::ostream& out, const std::vector<ValidationRow>& rows, std::size_t records) {
  TextTable table(
      {{"list", Align::left}, {"n"}, {"mean |error|"}, {"median"}, {"largest"}, {"bias"}, {"oom"}, {"errors"}});
  const auto add = [&](const std::string& name, const ErrorSummary& s, const std::string& list) {
    table.add_row({name, fmt::format("{}", s.n), fmt::format("{:.2f} %", s.mape_pct),
                   fmt::format("{:.2f} %", s.median_ape_pct), fmt::format("{:.2f} %", s.max_ape_pct),
                   error_text(s.bias_pct), fmt::format("{}", count_of(rows, list, RowStatus::oom)),
                   fmt::format("{}", count_of(rows, list, RowStatus::error))});
  };
  for (const std::string& list : lists_of(rows)) add(list, summarize(errors_of(rows, list)), list);
  table.add_note();
  add("all", summarize(errors_of(rows, "")), "");
  std::vector<ValidationRow> unfitted;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(unfitted),
               [](const ValidationRow& r) { return !r.fitted; });
  if (unfitted.size() < rows.size()) add("all but fitted rows", summarize(errors_of(unfitted, "")), "");
  out << "Summary\n";
  table.write(out);
  write_memory_summary(out, rows, unfitted);
  if (rows.size() < records) out << fmt::format("\nInterrupted: {} of {} records are done.\n", rows.size(), records);
}

int validate(const ValidateOptions& options) {
  check_writable(options.json);
  const std::vector<Record> records = read_lists(options.paths);
  const std::vector<std::string> fitted = fitted_records();
  std::vector<ValidationRow> all(records.size());
  const InterruptGuard guard;
  const std::vector<char> finished =
      for_each_parallel(records.size(), options.jobs > 0 ? options.jobs : default_jobs(), "records",
                        [&](std::size_t i) { all[i] = validate_record(records[i].list, records[i].settings, fitted); });
  std::vector<ValidationRow> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (finished[i] != 0) rows.push_back(std::move(all[i]));
  }
  if (!options.json.empty()) {
    write_output(options.json, [&](std::ostream& out) { write_json(out, validation_json(rows, records.size())); });
  }
  if (options.json != "-") {
    write_rows(std::cout, rows);
    write_summary(std::cout, rows, records.size());
  }
  if (rows.size() < records.size()) return kInterrupted;
  const bool bug = std::any_of(rows.begin(), rows.end(), [](const ValidationRow& row) { return row.internal; });
  return bug ? kBug : kDone;
}

}  // namespace

Action declare_validate(CLI::App& app) {
  const auto options = std::make_shared<ValidateOptions>();
  app.add_option("lists", options->paths, "lists of measured scenarios, or folders of them")->required();
  app.add_option("--json", options->json, "write rows and summary as JSON to FILE, or to standard output for -")
      ->type_name("FILE");
  app.add_option("--jobs", options->jobs, "simulations at a time (default: one per core)")->check(CLI::Range(1, 1024));
  return [options] { return validate(*options); };
}

}  // namespace orrery::tools
