// HTML reports: one file that needs nothing else. The data go into the page as JSON, large columns as base64; what
// draws them is JavaScript under tools/report/page/, put into the program at build time together with Chart.js.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace orrery::tools {

/// Throws sim::UserError naming the package when the program was built without Chart.js.
void require_charts();

/// Refuses a report's path before a long simulation is spent on it, as check_writable and require_charts do; nothing
/// for an empty one. Throws sim::UserError.
void check_report(const std::string& path);

/// Writes a page that shows `data`, whose member "kind" is run, study, compare, validate, campaign, queue, serving,
/// rl, diff or sheet; "title" names it.
void write_page(std::ostream& out, const nlohmann::ordered_json& data);

/// Little-endian columns as base64 (RFC 4648), which the page reads back into typed arrays.
std::string base64(const void* bytes, std::size_t size);
template <class T>
std::string base64_of(const std::vector<T>& column) {
  return base64(column.data(), column.size() * sizeof(T));
}

}  // namespace orrery::tools
