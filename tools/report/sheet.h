// A page of tables and charts: the HTML report of commands whose answer is a few tables (topology, collective, traffic,
// place, reproduce). A command fills its tables once, for the terminal and for the page.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/report/grid.h"
#include "tools/report/text.h"

namespace orrery::tools {

/// Values of one name, over the labels or the x values of their chart.
struct SheetSeries {
  std::string name;
  std::vector<double> values;
};

struct SheetChart {
  std::string title, x_title, y_title;
  std::vector<std::string> labels;  // of bars; empty: lines over `x`
  std::vector<double> x;            // on a logarithmic axis
  std::vector<SheetSeries> series;  // each as long as `labels` or `x`
};

/// A network by its levels, the highest first: what there is of each, and the links down to the next one.
struct SheetLevel {
  std::string what;
  std::int64_t count = 0;
  std::string links;       // in words; empty: none below
  double bytes_per_s = 0;  // of all of them, one direction
};

class Sheet {
 public:
  Sheet(std::string title, std::string subtitle);
  /// A figure in large print at the top; the note may be empty.
  void add_fact(std::string name, std::string value, std::string note = {});
  /// Sections in the order of the calls; `caption` may be empty.
  void add_table(const std::string& title, const std::string& caption, const TextTable& table);
  /// With the grid's notes below it.
  void add_grid(const std::string& title, const std::string& caption, const Grid& grid);
  void add_chart(const std::string& title, const std::string& caption, const SheetChart& chart);
  /// A drawing whose size hangs on the number of levels alone.
  void add_levels(const std::string& title, const std::string& caption, std::vector<SheetLevel> levels);
  /// Text as it stands, in letters of one width.
  void add_text(const std::string& title, const std::string& text);
  /// The page's data, of the kind "sheet".
  nlohmann::ordered_json page() const;

 private:
  struct Section {
    std::string title, caption;
    std::optional<TextTable> table;
    std::optional<SheetChart> chart;
    std::string text;
    std::vector<std::string> notes;
    std::vector<SheetLevel> levels = {};
  };

  std::string title_, subtitle_;
  std::vector<std::array<std::string, 3>> facts_;
  std::vector<Section> sections_;
};

}  // namespace orrery::tools
