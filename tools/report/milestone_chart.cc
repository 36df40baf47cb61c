// Training compute over time as SVG: what was published of each system as a ring, what its layers and tokens count to
// as a dot, joined by a line; years along, powers of ten up. Left out: systems of which neither is known.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "tools/report/milestones.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

struct Frame {
  double left = 70, top = 46, width = 760, height = 480;
  double first = 0, last = 1;  // years
  double low = 0, high = 1;    // powers of ten
  double x(double year) const { return left + width * (year - first) / (last - first); }
  double y(double flops) const { return top + height - height * (std::log10(flops) - low) / (high - low); }
};

std::optional<double> counted_of(const Milestone& m) { return m.by_square ? m.square : m.six_n; }

std::vector<const Milestone*> drawn_of(const std::vector<Milestone>& milestones) {
  std::vector<const Milestone*> drawn;
  for (const Milestone& m : milestones)
    if (m.year && (m.published || counted_of(m))) drawn.push_back(&m);
  std::stable_sort(drawn.begin(), drawn.end(), [](const auto* a, const auto* b) { return *a->year < *b->year; });
  return drawn;
}

Frame frame_of(const std::vector<const Milestone*>& drawn) {
  Frame frame;
  double low = 1e300, high = 1, first = 1e9, last = 0;
  for (const Milestone* m : drawn) {
    first = std::min(first, *m->year);
    last = std::max(last, *m->year);
    for (const std::optional<double>& flops : {m->published, counted_of(*m)}) {
      if (!flops) continue;
      low = std::min(low, *flops);
      high = std::max(high, *flops);
    }
  }
  if (drawn.empty()) return frame;
  frame.first = std::floor(first);
  frame.last = std::max(frame.first + 1, std::ceil(last));
  frame.low = std::floor(std::log10(low));
  frame.high = std::max(frame.low + 1, std::ceil(std::log10(high)));
  return frame;
}

void write_frame(std::ostream& out, const Frame& frame) {
  for (double power = frame.low; power <= frame.high; ++power) {
    const double y = frame.y(std::pow(10, power));
    out << fmt::format("<path stroke=\"#ddd\" d=\"M{:.1f} {:.1f}h{:.1f}\"/>\n", frame.left, y, frame.width);
    out << fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">1e{:.0f}</text>\n", frame.left - 8, y + 4,
                       power);
  }
  for (double year = frame.first; year <= frame.last; ++year) {
    const double x = frame.x(year);
    out << fmt::format("<path stroke=\"#eee\" d=\"M{:.1f} {:.1f}v{:.1f}\"/>\n", x, frame.top, frame.height);
    out << fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.0f}</text>\n", x,
                       frame.top + frame.height + 18, year);
  }
  out << fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#333\"/>\n", frame.left,
                     frame.top, frame.width, frame.height);
}

void write_system(std::ostream& out, const Frame& frame, const Milestone& m) {
  const std::optional<double> counted = counted_of(m);
  const double x = frame.x(*m.year);
  out << fmt::format("<g><title>{}: {} published, {} counted</title>", markup_text(m.name),
                     m.published ? fmt::format("{:.3g}", *m.published) : "nothing",
                     counted ? fmt::format("{:.3g}", *counted) : "nothing");
  if (m.published && counted)
    out << fmt::format("<path stroke=\"#777\" d=\"M{0:.1f} {1:.1f}L{0:.1f} {2:.1f}\"/>", x, frame.y(*m.published),
                       frame.y(*counted));
  if (counted)
    out << fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\" fill=\"#0072b2\"/>", x, frame.y(*counted));
  if (m.published)
    out << fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" fill=\"none\" stroke=\"#d55e00\" stroke-width=\"1.6\"/>", x,
        frame.y(*m.published));
  // Right of its point, but left of it near the frame's right edge.
  const bool right = x < frame.left + 0.7 * frame.width;
  const double y = frame.y(m.published ? *m.published : *counted);
  out << fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"10\" text-anchor=\"{}\">{}</text></g>\n",
                     right ? x + 9 : x - 9, y + 3.5, right ? "start" : "end",
                     markup_text(m.name.substr(0, m.name.rfind(','))));
}

}  // namespace

void write_milestone_chart(std::ostream& out, const std::string& title, const std::vector<Milestone>& milestones) {
  const std::vector<const Milestone*> drawn = drawn_of(milestones);
  const Frame frame = frame_of(drawn);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"580\" viewBox=\"0 0 860 580\" "
         "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"#fff\"/>\n";
  out << fmt::format("<text x=\"{}\" y=\"26\" font-size=\"16\">{}, FLOPs: rings published, dots counted</text>\n",
                     frame.left, markup_text(title));
  write_frame(out, frame);
  for (const Milestone* m : drawn) write_system(out, frame, *m);
  out << "</svg>\n";
}

}  // namespace orrery::tools
