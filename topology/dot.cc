// A cluster as Graphviz text: node 0 with its internals, a few more nodes as boxes, their leaves, and of every larger
// group of twins the first members; the title says how much of what is drawn. Colours tell kinds apart, the weight of a
// line how many lanes it stands for.
#include <algorithm>
#include <array>
#include <map>
#include <ostream>
#include <set>

#include "topology/fabrics.h"
#include "topology/state.h"

namespace orrery::topology {

namespace {

constexpr std::int32_t kMembersDrawn = 4;
constexpr std::int64_t kNodesDrawn = 4;
constexpr std::size_t kMeshDrawn = 8;       // leaves of a dragonfly group
constexpr std::size_t kSwitchesDrawn = 64;  // of a torus or a list of edges

struct Style {
  const char* shape;
  const char* fill;
};

Style style_of(VertexKind kind) {
  static constexpr std::array<Style, kVertexKinds> kStyles{{{"box", "#a5d6a7"},
                                                            {"box", "#66bb6a"},
                                                            {"box", "#e0e0e0"},
                                                            {"box", "#ffe082"},
                                                            {"box", "#90caf9"},
                                                            {"box", "#5c9ded"},
                                                            {"box", "#b39ddb"},
                                                            {"box", "#ffffff"},
                                                            {"box", "#ffffff"},
                                                            {"box", "#bcaaa4"}}};
  return kStyles[static_cast<std::size_t>(kind)];
}

const char* colour_of(Tier tier) {
  static constexpr std::array<const char*, 6> kColours{"#2e7d32", "#8d6e63", "#f9a825",
                                                       "#1565c0", "#4527a0", "#ad1457"};
  return kColours[static_cast<std::size_t>(tier)];
}

std::string rate_text(Bandwidth rate) { return fmt::format("{:.4g} Gb/s", rate.value() * 8e-9); }

/// Which nodes and switches are drawn.
struct Excerpt {
  std::set<std::int64_t> nodes;
  std::set<std::uint32_t> vertices;          // switches, and the inside of node 0
  std::map<std::int32_t, std::int32_t> cut;  // group -> members not drawn
};

Excerpt choose(const Cluster::State& s, const Graph& graph) {
  Excerpt e;
  if (s.nodes <= kNodesDrawn) {
    for (std::int64_t n = 0; n < s.nodes; ++n) e.nodes.insert(n);
  } else {
    e.nodes = {0, 1, s.nodes - 1};  // a neighbour, and the farthest
  }
  std::set<std::int32_t> sets;
  for (const std::int64_t n : e.nodes) {
    for (std::int64_t i = 0; i < s.inside.nics; ++i) {
      for (std::uint32_t g = s.leaf_of(n, i); g != kNoGroup; g = s.outside.groups[g].parent) {
        sets.insert(static_cast<std::int32_t>(g));
      }
    }
  }
  // In a dragonfly the other switches of a drawn group belong to the picture.
  std::map<std::uint32_t, std::size_t> siblings;
  for (std::uint32_t g = 0; g < s.outside.groups.size(); ++g) {
    const std::uint32_t parent = s.outside.groups[g].parent;
    if (parent == kNoGroup || s.outside.groups[parent].mesh_links == 0 || s.outside.groups[g].mesh_links > 0) continue;
    if (sets.contains(static_cast<std::int32_t>(parent)) && siblings[parent]++ < kMeshDrawn)
      sets.insert(static_cast<std::int32_t>(g));
  }
  for (std::uint32_t g = 0; !s.outside.tree && g < std::min(s.outside.groups.size(), kSwitchesDrawn); ++g)
    sets.insert(static_cast<std::int32_t>(g));
  for (std::uint32_t v = 0; v < graph.vertices.size(); ++v) {
    const Graph::Vertex& vertex = graph.vertices[v];
    if (vertex.node == 0) e.vertices.insert(v);
    if (vertex.node >= 0 || !sets.contains(vertex.set)) continue;
    const FabricWiring::Group& group = s.outside.groups[static_cast<std::size_t>(vertex.set)];
    std::int32_t step = 1;  // of core planes the first member each, so that the spines drawn meet the core drawn
    for (const Bundle& b : s.outside.bundles) {
      if (static_cast<std::int32_t>(b.high) == vertex.set)
        step = group.members / std::max(1, b.planes) * (b.planes > 1) + (b.planes == 1);
      if (static_cast<std::int32_t>(b.high) == vertex.set) break;
    }
    const bool few = group.members <= kMembersDrawn;
    if (few || (vertex.member % step == 0 && vertex.member / step < kMembersDrawn))
      e.vertices.insert(v);
    else
      ++e.cut[vertex.set];
  }
  return e;
}

/// A row of one rank, from left to right in the order given; the lines that keep the order are not seen.
void write_row(std::ostream& out, const std::vector<std::string>& row, const char* indent) {
  out << indent << "{ rank=same; " << fmt::format("{}", fmt::join(row, " -- ")) << " [style=invis, weight=8]; }\n";
}

/// Of HTML-like labels: the name of a fabric is the user's.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else
      safe += c;
  }
  return safe;
}

std::string title(const Cluster::State& s, const Graph& graph, const Excerpt& e) {
  std::string text =
      fmt::format("{}{}{} GPUs in {} node{} of {}", escaped(s.fabric.name), s.fabric.name.empty() ? "" : ": ", s.gpus,
                  s.nodes, s.nodes == 1 ? "" : "s", s.inside.gpus);
  std::array<std::int64_t, kVertexKinds> all{}, drawn{};
  for (std::uint32_t v = 0; v < graph.vertices.size(); ++v) {
    if (graph.vertices[v].node >= 0) continue;
    ++all[static_cast<std::size_t>(graph.vertices[v].kind)];
    if (e.vertices.contains(v)) ++drawn[static_cast<std::size_t>(graph.vertices[v].kind)];
  }
  std::string parts;
  const auto nodes_drawn = static_cast<std::int64_t>(e.nodes.size());
  if (nodes_drawn < s.nodes) parts = fmt::format("{} of {} nodes", nodes_drawn, s.nodes);
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (drawn[k] == all[k]) continue;
    parts += fmt::format("{}{} of {} {}es", parts.empty() ? "" : ", ", drawn[k], all[k],
                         name_of(static_cast<VertexKind>(k)));
  }
  if (!parts.empty()) text += "\\nAn excerpt: " + parts + ", and the links between them";
  std::string legend;
  std::map<Tier, std::pair<double, double>> rates;  // of one lane: least, most
  for (const Graph::Edge& edge : graph.edges) {
    const double rate = edge.rate.value();
    auto& [least, most] = rates.try_emplace(edge.tier, rate, rate).first->second;
    least = std::min(least, rate);
    most = std::max(most, rate);
  }
  for (const auto& [tier, range] : rates) {
    const std::string text_of_range =
        (range.first < range.second ? fmt::format("{:.4g} to ", range.first * 8e-9) : "") +
        rate_text(Bandwidth(range.second));
    legend += fmt::format("<td><font color=\"{}\">{}{}: {}</font></td>", colour_of(tier), name_of(tier),
                          tier == Tier::nic ? " (PCIe)" : "", text_of_range);
  }
  std::size_t at = 0;
  std::string rows;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find("\\n", at), text.size());
    rows += fmt::format("<tr><td colspan=\"9\">{}</td></tr>", text.substr(at, end - at));
    at = end + 2;
  }
  return fmt::format("<<table border=\"0\" cellspacing=\"6\">{}<tr>{}</tr></table>>", rows, legend);
}

void write_vertex(std::ostream& out, std::uint32_t v, const Graph::Vertex& vertex, const char* indent) {
  const Style style = style_of(vertex.kind);
  std::string label = vertex.name;
  if (vertex.node >= 0) label = label.substr(label.find(' ') + 1);
  out << indent << fmt::format("v{} [label=\"{}\", shape={}, fillcolor=\"{}\"];\n", v, label, style.shape, style.fill);
}

/// GPUs of a mesh in two rows, the dies of a package above each other.
void write_mesh_rows(std::ostream& out, const std::vector<std::string>& gpus) {
  std::array<std::vector<std::string>, 2> rows;
  for (std::size_t g = 0; g < gpus.size(); ++g) rows[g % 2].push_back(gpus[g]);
  for (const std::vector<std::string>& row : rows) {
    if (!row.empty()) write_row(out, row, "    ");
  }
  for (std::size_t g = 0; g + 1 < gpus.size(); g += 2) {
    out << fmt::format("    {} -- {} [style=invis];\n", gpus[g], gpus[g + 1]);
  }
}

void write_node_zero(std::ostream& out, const Graph& graph, const Excerpt& e) {
  out << "  subgraph cluster_node0 {\n    label=\"node 0\"; labeljust=l; style=\"rounded,filled\"; color=\"#b0bec5\"; "
         "fillcolor=\"#fafafa\";\n";
  std::map<VertexKind, std::vector<std::string>> by_kind;
  for (const std::uint32_t v : e.vertices) {
    if (graph.vertices[v].node != 0) continue;
    write_vertex(out, v, graph.vertices[v], "    ");
    by_kind[graph.vertices[v].kind].push_back(fmt::format("v{}", v));
  }
  for (const auto& [kind, row] : by_kind) {
    if (kind == VertexKind::gpu && !by_kind.contains(VertexKind::nvswitch) &&
        !by_kind.contains(VertexKind::host_bridge)) {
      write_mesh_rows(out, row);
      continue;
    }
    write_row(out, row, "    ");
  }
  out << "  }\n";
}

/// The switches of a dragonfly's group in two rows, so that its links do not lie on each other.
void write_mesh_groups(std::ostream& out, const Cluster::State& s, const Graph& graph, const Excerpt& e) {
  std::map<std::uint32_t, std::vector<std::string>> groups;
  for (const std::uint32_t v : e.vertices) {
    const Graph::Vertex& vertex = graph.vertices[v];
    if (vertex.node >= 0) continue;
    groups[s.outside.groups[static_cast<std::size_t>(vertex.set)].parent].push_back(fmt::format("v{}", v));
  }
  for (const auto& [group, switches] : groups) {
    if (group == kNoGroup) continue;
    out << fmt::format("  subgraph cluster_group{} {{\n    label=\"{}\"; style=rounded; color=\"#b0bec5\";\n", group,
                       s.outside.groups[group].name);
    const auto half = switches.begin() + static_cast<std::ptrdiff_t>((switches.size() + 1) / 2);
    const std::vector<std::string> lower(switches.begin(), half), upper(half, switches.end());
    write_row(out, lower, "    ");
    if (!upper.empty()) {
      write_row(out, upper, "    ");
      out << "    " << upper.front() << " -- " << lower.front() << " [style=invis];\n";
    }
    out << "  }\n";
  }
}

/// The switches of a torus, row by row of its first dimension.
void write_torus_rows(std::ostream& out, const Cluster::State& s, const std::vector<std::string>& switches) {
  const auto length = static_cast<std::size_t>(s.fabric.torus.dimensions[0]);
  std::string above;
  for (std::size_t first = 0; first < switches.size(); first += length) {
    const auto begin = switches.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = switches.begin() + static_cast<std::ptrdiff_t>(std::min(first + length, switches.size()));
    write_row(out, {begin, end}, "  ");
    if (!above.empty()) out << "  " << above << " -- " << *begin << " [style=invis, weight=8];\n";
    above = *begin;
  }
}

void write_switches(std::ostream& out, const Cluster::State& s, const Graph& graph, const Excerpt& e) {
  std::map<VertexKind, std::vector<std::string>> ranks;
  for (const std::uint32_t v : e.vertices) {
    const Graph::Vertex& vertex = graph.vertices[v];
    if (vertex.node >= 0) continue;
    write_vertex(out, v, vertex, "  ");
    ranks[vertex.kind].push_back(fmt::format("v{}", v));
  }
  for (const auto& [set, missing] : e.cut) {
    const FabricWiring::Group& group = s.outside.groups[static_cast<std::size_t>(set)];
    out << fmt::format("  more{} [label=\"{}: {} more\", shape=box, style=\"rounded,dashed\", color=\"#78909c\"];\n",
                       set, group.name, missing);
    ranks[group.kind].push_back(fmt::format("more{}", set));
  }
  for (const auto& [kind, row] : ranks) {
    if (s.outside.tree && s.fabric.kind != &fabrics::dragonfly) write_row(out, row, "  ");
  }
  if (s.fabric.kind == &fabrics::torus) write_torus_rows(out, s, ranks[VertexKind::leaf]);
  if (s.fabric.kind == &fabrics::dragonfly) write_mesh_groups(out, s, graph, e);
}

/// Above the leaves the higher end comes first, so that Graphviz puts the core on top and the GPUs below.
void write_edges(std::ostream& out, const Cluster::State& s, const Graph& graph, const Excerpt& e) {
  const bool mesh_fabric = s.fabric.kind == &fabrics::dragonfly || s.fabric.kind == &fabrics::torus;
  std::map<std::pair<std::uint32_t, std::int64_t>, std::int32_t> to_boxes;
  for (const Graph::Edge& edge : graph.edges) {
    const Graph::Vertex& low = graph.vertices[edge.a];
    if (edge.tier == Tier::leaf && low.node > 0 && e.nodes.contains(low.node)) {
      to_boxes[{edge.b, low.node}] += edge.lanes;
      continue;
    }
    if (!e.vertices.contains(edge.a) || !e.vertices.contains(edge.b)) continue;
    const bool direct = edge.tier == Tier::node && low.kind == VertexKind::gpu && !s.inside.switched &&
                        graph.vertices[edge.b].kind == VertexKind::gpu;
    const bool meshed = edge.tier == Tier::node ? direct : mesh_fabric && low.node < 0;
    if (meshed) {
      // A wider link of a mesh is a thicker line.
      const double width = edge.tier == Tier::node ? edge.rate.value() / 50e9 : edge.lanes;
      out << fmt::format("  v{} -- v{} [color=\"{}\", penwidth={:.1f}, constraint=false];\n", edge.a, edge.b,
                         colour_of(edge.tier), 0.6 + 0.5 * std::min(width, 6.0));
      continue;
    }
    // GPUs stand between their NICs and their NVSwitches; over PCIe all is below the host bridges.
    const bool gpu_on_top = edge.tier == Tier::node && s.inside.nic_routes.empty() && s.inside.switched;
    const std::uint32_t top = gpu_on_top ? edge.a : edge.b, bottom = gpu_on_top ? edge.b : edge.a;
    const bool nic_on_top = edge.tier == Tier::nic && low.kind == VertexKind::nic;
    out << fmt::format("  v{} -- v{} [color=\"{}\", penwidth={:.1f}];\n", nic_on_top ? edge.a : top,
                       nic_on_top ? edge.b : bottom, colour_of(edge.tier), 0.6 + 0.4 * std::min(edge.lanes, 8));
  }
  for (const auto& [ends, lanes] : to_boxes) {
    out << fmt::format("  v{} -- box{} [color=\"{}\", penwidth={:.1f}];\n", ends.first, ends.second,
                       colour_of(Tier::leaf), 0.6 + 0.4 * std::min(lanes, 8));
  }
  for (const std::int64_t node : e.nodes) {
    if (node == 0) continue;
    out << fmt::format(
        "  box{} [label=\"node {}\\n{} GPUs\\n{} NICs\", shape=box, style=\"rounded,filled\", "
        "fillcolor=\"#e8f5e9\"];\n",
        node, node, s.inside.gpus, s.inside.nics);
  }
}

}  // namespace

void Cluster::write_dot(std::ostream& out) const {
  const State& s = *state_;
  const Graph all = graph();
  const Excerpt excerpt = choose(s, all);
  out << "graph cluster {\n  label=" << title(s, all, excerpt) << ";\n";
  const bool exchanges = s.fabric.kind == &fabrics::dragonfly || s.node.kind == NodeSpec::Kind::mesh;
  const bool round = !s.outside.tree || s.node.kind == NodeSpec::Kind::pcie;  // ways round what stands between
  out << "  labelloc=t; rankdir=TB; ranksep=0.9; nodesep=0.12; splines="
      << (round       ? "true"
          : exchanges ? "curved"
                      : "line")
      << ";\n";
  out << "  fontname=\"Helvetica\"; node [fontname=\"Helvetica\", fontsize=10, style=\"rounded,filled\", "
         "height=0.3];\n";
  write_node_zero(out, all, excerpt);
  write_switches(out, s, all, excerpt);
  write_edges(out, s, all, excerpt);
  out << "}\n";
}

}  // namespace orrery::topology
