// Tables of measured serving, row by row beside a prediction. Each row becomes a scenario of the language, as text,
// which `orrery serving` runs to the same digit; what a table leaves open takes the engine's defaults.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace orrery::tools {

class TableFile;

struct ServingRow {
  std::string id, group, status = "ok", message;  // status: ok, error, suspect (run, and left out of means)
  std::map<std::string, double> measured, predicted;
  std::string scenario;  // as YAML
  /// In per cent; of rates that of the time, so that slower is positive everywhere.
  std::optional<double> error_pct(const std::string& metric) const;
};

/// The rows of a table, each filled in by `predict`; its user's errors are the row's message, and rows that the table
/// itself suspects are marked.
std::vector<ServingRow> rows_of_table(const TableFile& table, unsigned jobs,
                                      const std::function<void(std::size_t, ServingRow&)>& predict);
/// Whether the file is a table of measured serving, by its name and header.
bool is_serving_table(const std::string& file);
/// The profile that ships of a device, by its name in a table; nothing where none does.
std::optional<std::string> served_device_here(const std::string& name);
/// Throws sim::UserError where the table cannot be read; rows that cannot be run say why.
std::vector<ServingRow> validate_serving(const std::string& file, unsigned jobs);
nlohmann::ordered_json serving_rows_json(const std::vector<ServingRow>& rows);
void write_serving_rows(std::ostream& out, const std::vector<ServingRow>& rows);

}  // namespace orrery::tools
