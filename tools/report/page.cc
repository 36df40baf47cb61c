// Puts a page together from its parts. Left out: compression (a browser could unpack it, but not every one that people
// have), and printing.
#include "tools/report/page.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/error.h"
#include "tools/report/output.h"
#include "tools/report/page_parts.h"

namespace orrery::tools {

namespace {

/// Text for the body of an element.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// JSON that no parser of HTML can take for markup: "<" only ever stands inside strings.
std::string embedded(const nlohmann::ordered_json& data) {
  const std::string text = data.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

}  // namespace

void require_charts() {
  if (!page_part("chart.js").empty()) return;
  throw sim::UserError(
      "--report: this program was built without Chart.js; install the package libjs-chart.js, then configure and build "
      "again");
}

void check_report(const std::string& path) {
  if (path.empty()) return;
  require_charts();
  check_writable(path);
}

void write_page(std::ostream& out, const nlohmann::ordered_json& data) {
  const std::string kind = data.at("kind");
  out << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      << "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      << "<meta name=\"generator\" content=\"orrery\">\n<title>" << escaped(data.at("title")) << "</title>\n<style>\n"
      << page_part("style.css") << "</style>\n</head>\n<body>\n"
      << "<noscript>This report is drawn by JavaScript, which is switched off.</noscript>\n"
      << "<main id=\"page\"></main>\n<script type=\"application/json\" id=\"data\">" << embedded(data) << "</script>\n";
  for (const char* part : {"elements.js", "base.js", "chart.js", "charts.js", "canvas.js", "table.js"})
    out << "<script>\n" << page_part(part) << "</script>\n";
  if (kind == "compare") out << "<script>\n" << page_part("timeline.js") << "</script>\n";
  if (kind == "serving") out << "<script>\n" << page_part("served_charts.js") << "</script>\n";
  if (kind == "rl") out << "<script>\n" << page_part("rl_charts.js") << "</script>\n";
  if (kind == "sheet" && data.contains("rank_map")) out << "<script>\n" << page_part("rank_map.js") << "</script>\n";
  if (kind == "run") {
    for (const char* part : {"timeline.js", "advice.js", "explain.js", "rank_map.js"})
      out << "<script>\n" << page_part(part) << "</script>\n";
  }
  out << "<script>\n" << page_part(kind + ".js") << "</script>\n</body>\n</html>\n";
}

}  // namespace orrery::tools
