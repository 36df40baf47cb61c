// Predicted against measured as SVG, and the rows as CSV. The plot is drawn by hand: axes in powers of ten, bands in
// the logarithm of the ratio, a symbol and colour per list (Okabe and Ito's colours, which the colour-blind can tell
// apart). Left out: labels of single points; hovering over one shows its id.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include "tools/report/csv.h"
#include "tools/report/scoreboard.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

constexpr double kLeft = 76, kTop = 44, kSide = 560, kWidth = 930, kHeight = 670;
constexpr std::array<const char*, 8> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#56b4e9", "#000000", "#8c6d1f"};

/// A row as seconds per step: of a rate, the step that it stands for.
struct Dot {
  const ValidationRow* row = nullptr;
  double measured = 0, predicted = 0;
};

std::vector<Dot> dots_of(const std::vector<ValidationRow>& rows) {
  std::vector<Dot> dots;
  for (const ValidationRow& row : rows) {
    double step = 0;
    for (const double part : row.features.exposed_s) step += part;
    if (!row.measured || !row.predicted || *row.measured <= 0 || *row.predicted <= 0 || step <= 0) continue;
    if (row.metric == "iteration_s") {
      dots.push_back({&row, *row.measured, *row.predicted});
    } else {
      dots.push_back({&row, step * *row.predicted / *row.measured, step});
    }
  }
  return dots;
}

struct Axes {
  double low = 0, high = 1;  // powers of ten, the same on both axes
  double x(double value) const { return kLeft + kSide * (std::log10(value) - low) / (high - low); }
  double y(double value) const { return kTop + kSide - kSide * (std::log10(value) - low) / (high - low); }
};

/// One of four shapes around (x, y).
std::string symbol(std::size_t list, double x, double y, bool hollow) {
  const char* colour = kColours[list % kColours.size()];
  const std::string paint = hollow ? fmt::format("fill=\"#fff\" stroke=\"{}\" stroke-width=\"1.4\"", colour)
                                   : fmt::format("fill=\"{}\" fill-opacity=\"0.75\"", colour);
  switch ((list + list / kColours.size()) % 4) {
    case 0:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.6\" {}/>", x, y, paint);
    case 1:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"6.6\" height=\"6.6\" {}/>", x - 3.3, y - 3.3, paint);
    case 2:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l4.2 7.4h-8.4z\" {}/>", x, y - 4.6, paint);
    default:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l4.4 4.4l-4.4 4.4l-4.4 -4.4z\" {}/>", x, y - 4.4, paint);
  }
}

/// Between the lines predicted = measured x (1 - share) and x (1 + share).
void write_band(std::ostream& out, const Axes& axes, double share, const char* colour) {
  const double a = std::pow(10, axes.low), b = std::pow(10, axes.high);
  out << fmt::format(
      "<path clip-path=\"url(#area)\" fill=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} "
      "{:.1f}z\"/>\n",
      colour, axes.x(a), axes.y(a * (1 + share)), axes.x(b), axes.y(b * (1 + share)), axes.x(b),
      axes.y(b * (1 - share)), axes.x(a), axes.y(a * (1 - share)));
}

void write_axes(std::ostream& out, const Axes& axes) {
  for (int power = static_cast<int>(axes.low); power <= static_cast<int>(axes.high); ++power) {
    const double value = std::pow(10, power), x = axes.x(value), y = axes.y(value);
    const std::string text = power >= -3 && power <= 4 ? fmt::format("{:g} s", value) : fmt::format("1e{} s", power);
    out << fmt::format("<path stroke=\"#d5d5d5\" d=\"M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {4:.1f}H{5:.1f}\"/>\n", x, kTop,
                       kTop + kSide, kLeft, y, kLeft + kSide);
    out << fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x, kTop + kSide + 18,
                       text);
    out << fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8, y + 4, text);
  }
  const double a = std::pow(10, axes.low), b = std::pow(10, axes.high);
  out << fmt::format("<path stroke=\"#777\" fill=\"none\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", axes.x(a), axes.y(a),
                     axes.x(b), axes.y(b));
  out << fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#333\"/>\n", kLeft,
                     kTop, kSide, kSide);
  out << fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"14\">measured seconds per step</text>\n",
      kLeft + kSide / 2, kTop + kSide + 42);
  out << fmt::format(
      "<text transform=\"translate(20 {}) rotate(-90)\" text-anchor=\"middle\" font-size=\"14\">predicted "
      "seconds per step</text>\n",
      kTop + kSide / 2);
}

void write_legend(std::ostream& out, const std::vector<ValidationRow>& rows, bool fitted) {
  const double x = kLeft + kSide + 24;
  double y = kTop + 12;
  const auto text = [&](double at, const std::string& words, const char* style = "") {
    out << fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", at, y, style, markup_text(words));
  };
  text(x, "list: rows, mean error", " font-weight=\"bold\"");
  const std::vector<std::string> lists = lists_of(rows);
  for (std::size_t l = 0; l < lists.size(); ++l) {
    y += 21;
    const ErrorSummary s = summary_of(rows, lists[l], true);
    out << symbol(l, x + 5, y - 4, false) << '\n';
    text(x + 18, fmt::format("{}: {}, {:.1f} %", shortened(lists[l], 24), s.n, s.mape_pct));
  }
  y += 27;
  const ErrorSummary all = summary_of(rows, "", true), blind = summary_of(rows, "", false);
  text(x, fmt::format("all: {}, {:.1f} %", all.n, all.mape_pct));
  if (fitted) {
    y += 21;
    text(x, fmt::format("nothing fitted on: {}, {:.1f} %", blind.n, blind.mape_pct));
    y += 21;
    text(x, "hollow: a parameter was fitted on it");
  }
  y += 21;
  text(x, "bands: 10 % and 25 %");
}

}  // namespace

void write_scatter(std::ostream& out, const std::vector<ValidationRow>& rows) {
  const std::vector<Dot> dots = dots_of(rows);
  Axes axes;
  if (!dots.empty()) {
    double low = 1e300, high = 0;
    for (const Dot& dot : dots) {
      low = std::min({low, dot.measured, dot.predicted});
      high = std::max({high, dot.measured, dot.predicted});
    }
    axes.low = std::floor(std::log10(low));
    axes.high = std::max(axes.low + 1, std::ceil(std::log10(high)));
  }
  out << fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n",
      kWidth, kHeight);
  out << "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  out << fmt::format("<clipPath id=\"area\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n", kLeft,
                     kTop, kSide, kSide);
  out << fmt::format(
      "<text x=\"{}\" y=\"26\" font-size=\"16\">Training steps, predicted against measured: {} rows</text>\n", kLeft,
      dots.size());
  write_band(out, axes, 0.25, "#eef3f8");
  write_band(out, axes, 0.10, "#d9e6f2");
  write_axes(out, axes);
  const std::vector<std::string> lists = lists_of(rows);
  bool fitted = false;
  for (const Dot& dot : dots) {
    const auto list = std::find(lists.begin(), lists.end(), dot.row->list) - lists.begin();
    fitted = fitted || dot.row->fitted;
    out << fmt::format(
        "<g><title>{}: measured {} s, predicted {} s ({})</title>{}</g>\n", markup_text(dot.row->id),
        number_text(dot.measured), number_text(dot.predicted), error_text(100 * (dot.predicted / dot.measured - 1)),
        symbol(static_cast<std::size_t>(list), axes.x(dot.measured), axes.y(dot.predicted), dot.row->fitted));
  }
  write_legend(out, rows, fitted);
  out << "</svg>\n";
}

void write_rows_csv(std::ostream& out, const std::vector<ValidationRow>& rows) {
  std::vector<std::string> head{"list",
                                "id",
                                "metric",
                                "measured",
                                "predicted",
                                "error_pct",
                                "fitted",
                                "status",
                                "device",
                                "gpus",
                                "fabric",
                                "software",
                                "tensor",
                                "pipeline",
                                "virtual_pipeline",
                                "data",
                                "context",
                                "schedule",
                                "sharding",
                                "recompute",
                                "attention",
                                "precision",
                                "work",
                                "layers",
                                "hidden",
                                "seq",
                                "global_batch",
                                "micro_batch",
                                "measured_memory_gb",
                                "predicted_memory_gb"};
  for (std::size_t c = 0; c < workloads::kCategories; ++c) {
    head.push_back(std::string(workloads::name_of(static_cast<workloads::Category>(c))) + "_s");
  }
  head.insert(head.end(), {"source", "message"});
  out << csv_line(head) << '\n';
  const auto optional = [](const std::optional<double>& v) { return v ? fmt::format("{:.6g}", *v) : std::string(); };
  for (const ValidationRow& row : rows) {
    const Features& f = row.features;
    std::vector<std::string> cells{row.list,
                                   row.id,
                                   row.metric,
                                   optional(row.measured),
                                   optional(row.predicted),
                                   row.error_pct ? fmt::format("{:.3f}", *row.error_pct) : "",
                                   row.fitted ? "1" : "0",
                                   std::string(name_of(row.status)),
                                   f.device};
    for (const auto& text :
         {std::to_string(f.gpus), f.fabric, f.software, std::to_string(f.sizes.tensor),
          std::to_string(f.sizes.pipeline), std::to_string(f.sizes.virtual_pipeline), std::to_string(f.sizes.data),
          std::to_string(f.sizes.context), f.schedule, f.sharding, f.recompute, f.attention, f.precision, f.work,
          std::to_string(f.sizes.layers), std::to_string(f.sizes.hidden), std::to_string(f.sizes.seq),
          std::to_string(f.sizes.global_batch), std::to_string(f.sizes.micro_batch)}) {
      cells.push_back(text);
    }
    cells.push_back(optional(row.memory.measured_gb));
    cells.push_back(optional(row.memory.predicted_gb));
    for (const double part : f.exposed_s) cells.push_back(fmt::format("{:.6g}", part));
    cells.push_back(row.source);
    cells.push_back(row.message);
    for (std::string& cell : cells) std::replace(cell.begin(), cell.end(), '\n', ' ');
    out << csv_line(cells) << '\n';
  }
}

}  // namespace orrery::tools
