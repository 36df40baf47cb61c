// `orrery import topology`: what tools of a cluster print of its wiring, as a fabric (between nodes) or the inside of a
// node. nvidia-smi topo -m: a matrix of NV# (so many NVLinks), PIX, PXB, PHB, NODE and SYS (PCIe); rocm-smi
// --showtopo: a matrix of XGMI and PCIE. Left out: which NIC hangs on which PCIe switch, which the simulator takes for
// shared out evenly.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/import.h"
#include "tools/import/unread_lines.h"
#include "tools/import/wires.h"
#include "topology/cluster.h"

namespace orrery::tools {

using sim::UserError;

namespace {

std::string quoted(const std::string& name) {
  std::string out = "'";
  for (const char c : name) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

std::string comments(const std::vector<std::string>& remarks) {
  std::string out;
  for (const std::string& remark : remarks) out += "# " + remark + ".\n";
  return out;
}

/// Hosts whose NICs are not as many as those of most: front ends and storage.
std::vector<std::pair<std::string, std::vector<std::string>>> computing_hosts(Wires& wires) {
  std::map<std::size_t, std::size_t> counts;
  for (const auto& [host, switches] : wires.hosts) ++counts[switches.size()];
  std::size_t usual = 0;
  for (const auto& [nics, hosts] : counts) {
    if (usual == 0 || hosts >= counts[usual]) usual = nics;
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> out;
  std::vector<std::string> others;
  for (const auto& [host, switches] : wires.hosts) {
    if (switches.size() == usual)
      out.emplace_back(host, switches);
    else
      others.push_back(host);
  }
  if (!others.empty()) {
    others.resize(std::min<std::size_t>(others.size(), 8));
    wires.remarks.push_back(fmt::format("left out, since they do not have the {} NICs of most: {} and more like them",
                                        usual, fmt::join(others, ", ")));
  }
  return out;
}

std::string fabric_text(Wires wires, const std::string& file, const ClusterFacts& facts) {
  const auto hosts = computing_hosts(wires);
  if (hosts.empty()) throw UserError({file, 1, 1}, "", "names no host, expected the switches that hosts are joined to");
  if (wires.nic_gbps <= 0) {
    wires.nic_gbps = gigabits(facts.nic_rate, {"--nic-rate", 0, 0});
    wires.remarks.push_back(fmt::format("the file says no rates: NICs of {} (--nic-rate)", facts.nic_rate));
  }
  if (wires.nic_rates.size() > 1) {
    std::vector<std::string> rates;
    for (const double rate : wires.nic_rates) rates.push_back(rate > 0 ? fmt::format("{:g}", rate) : "not known");
    wires.remarks.push_back(
        fmt::format("NICs differ in their rates ({} Gb/s): the highest is taken for all", fmt::join(rates, ", ")));
  }
  const bool listed = hosts.front().second.size() > 1;
  const auto nics = listed ? static_cast<std::int64_t>(hosts.front().second.size()) : facts.nics;
  std::string out = fmt::format("# {} hosts, imported from {} by orrery import topology.\n", hosts.size(),
                                std::filesystem::path(file).filename().string());
  out += comments(wires.remarks);
  std::set<std::string> leaves;
  for (const auto& [host, switches] : hosts) leaves.insert(switches.begin(), switches.end());
  out += fmt::format("kind: {}\nnics: {}\nnic_rate: {:.6g} Gb/s\nprovenance: the cluster's own tools\n",
                     leaves.size() == 1 && wires.links.empty() ? "single_switch" : "graph", nics, wires.nic_gbps);
  if (wires.links.empty()) {
    if (leaves.size() == 1) return out;
    throw UserError({file, 1, 1}, "links",
                    fmt::format("joins none of the {} switches of hosts to another, expected links between switches "
                                "(for rails apart: a fabric of kind rail_only)",
                                leaves.size()));
  }
  out += "links:\n";
  for (const auto& [ends, cable] : wires.links) {
    const double gbps = cable.gbps > 0 ? cable.gbps : wires.nic_gbps;
    out += fmt::format("- {{ends: [{}, {}], lanes: {}, rate: {:.6g} Gb/s}}\n", quoted(ends.first), quoted(ends.second),
                       cable.lanes, gbps);
  }
  out += "attach:\n";
  for (const auto& [host, switches] : hosts) {
    std::vector<std::string> names;
    for (const std::string& name : switches) names.push_back(quoted(name));
    out += fmt::format("- [{}]  # {}\n", fmt::join(names, ", "), host);
  }
  return out;
}

/// The matrix of a node's GPUs: cell by row and column, as printed.
struct Matrix {
  std::vector<std::vector<std::string>> cells;  // GPUs by GPUs
  std::int64_t nics = 0;
  std::vector<std::string> remarks;
};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool is_gpu(const std::string& word) {
  return word.starts_with("GPU") && word.size() > 3 && std::isdigit(static_cast<unsigned char>(word[3])) != 0;
}

/// Without the escapes that nvidia-smi underlines its head with.
std::string without_escapes(const std::string& line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b')
      i = std::min(line.find('m', i), line.size() - 1);
    else
      plain += line[i];
  }
  return plain;
}

/// Ways between two GPUs that tools print: links, and PCIe by what it crosses.
bool is_way(const std::string& cell) {
  static const std::set<std::string> kWays{"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "XGMI", "PCIE", "-", "0"};
  const bool links = cell.starts_with("NV") && cell.size() > 2 && cell.size() < 6;
  return kWays.contains(cell) ||
         (links && std::all_of(cell.begin() + 2, cell.end(), [](unsigned char c) { return std::isdigit(c) != 0; }));
}

/// What of a matrix's other lines is known: its legend, rows of NICs, titles of rocm-smi's other tables.
bool known_beside(const std::string& line) {
  static const std::vector<std::string> kKnown{"Legend", "X ",  "SYS", "NODE", "PHB", "PXB", "PIX", "NV#",
                                               "NIC",    "mlx", "=",   "GPU",  "SOC", "ib",  "-"};
  const std::size_t begin = line.find_first_not_of(" \t\r");
  return begin == std::string::npos || std::any_of(kKnown.begin(), kKnown.end(), [&](const std::string& word) {
           return line.compare(begin, word.size(), word) == 0;
         });
}

/// Rows that begin with GPU<n>, below a line that names the columns; from the line that holds `title` on. `ways`:
/// whether its cells are ways, and not counts.
Matrix read_matrix(const std::string& text, const std::string& file, const std::string& title, bool ways = true) {
  Matrix matrix;
  const std::size_t start = title.empty() ? 0 : text.find(title);
  std::int64_t number = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(start), '\n');
  std::istringstream lines(text.substr(start));
  std::size_t gpus = 0;
  std::vector<std::string> columns;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string plain = without_escapes(line);
    const std::vector<std::string> words = words_of(plain);
    if (words.empty()) {
      if (!matrix.cells.empty()) break;
      continue;
    }
    if (!is_gpu(words[0])) continue;
    if (gpus == 0) {
      gpus = static_cast<std::size_t>(std::count_if(words.begin(), words.end(), is_gpu));
      matrix.nics = std::count_if(words.begin(), words.end(), [](const std::string& word) {
        return word.starts_with("NIC") || word.starts_with("mlx5_") || word.starts_with("ib");
      });
      std::copy_if(words.begin(), words.end(), std::back_inserter(columns), [](const auto& w) { return !is_gpu(w); });
      // A head names two columns or more; a node of one GPU has nothing to be wired.
      if (words.size() > 1 && is_gpu(words[1])) continue;
    }
    if (words.size() < gpus + 1) break;
    matrix.cells.emplace_back(words.begin() + 1, words.begin() + 1 + static_cast<std::ptrdiff_t>(gpus));
    for (const std::string& cell : matrix.cells.back()) {
      if (ways && !is_way(cell))
        throw UserError({file, static_cast<int>(number), 1}, words[0],
                        fmt::format("got {}, expected NV#, XGMI, PIX, PXB, PHB, NODE, SYS or X", cell));
    }
    if (matrix.cells.size() == gpus) break;
  }
  if (gpus < 2 || matrix.cells.size() != gpus)
    throw UserError({file, 1, 1}, "GPU0", "expected a matrix with a row and a column for each of the node's GPUs");
  if (!columns.empty())
    matrix.remarks.push_back(
        fmt::format("columns {}: not taken over; NICs and processors are shared out evenly over the GPUs",
                    fmt::join(columns, " ")));
  return matrix;
}

/// Lines around the matrices that are none of theirs.
void remark_on_lines_beside(Matrix& matrix, const std::string& text) {
  UnreadLines unread;
  std::istringstream lines(text);
  std::int64_t number = 0;
  std::set<std::string> titles;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = without_escapes(line);
    if (!known_beside(line)) unread.add(number, line);
    const std::size_t from = line.find_first_not_of("= "), to = line.find_last_not_of("= \r");
    const bool title =
        line.starts_with("=") && from != std::string::npos && line.find(" two GPUs") != std::string::npos;
    if (title && line.find("Link Type") == std::string::npos && line.find("Hops") == std::string::npos)
      titles.insert(line.substr(from, to - from + 1));
  }
  if (!titles.empty()) matrix.remarks.push_back(fmt::format("tables not taken over: {}", fmt::join(titles, ", ")));
  if (!unread.empty()) matrix.remarks.push_back(unread.remark());
  std::set<std::string> ways;
  for (const auto& row : matrix.cells) {
    for (const std::string& cell : row) {
      if (cell.starts_with("P") || cell == "NODE" || cell == "SYS" || cell == "SOC") ways.insert(cell);
    }
  }
  if (ways.size() > 1)
    matrix.remarks.push_back(fmt::format("ways over PCIe by {}: one rate is taken for all", fmt::join(ways, ", ")));
}

/// Links between two GPUs that a cell counts: NV18 is 18, XGMI one, PCIe none.
std::int64_t links_of(const std::string& cell) {
  if (cell == "XGMI") return 1;
  if (!cell.starts_with("NV")) return 0;
  std::int64_t links = 0;
  for (const char c : cell.substr(2)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 || links > 1000) return 0;
    links = 10 * links + (c - '0');
  }
  return links;
}

/// Pairs of which a table of hops says that the way leads over a third GPU have no link, whatever the type of the way.
void drop_detours(Matrix& matrix, const Matrix& hops) {
  for (std::size_t a = 0; a < matrix.cells.size() && a < hops.cells.size(); ++a) {
    for (std::size_t b = 0; b < matrix.cells.size() && b < hops.cells.size(); ++b) {
      const std::string& count = hops.cells[a][b];
      if (matrix.cells[a][b] == "XGMI" && count != "0" && count != "1") matrix.cells[a][b] = "-";
    }
  }
}

/// The island of GPUs that links join, of each GPU.
std::vector<std::size_t> islands_of(const Matrix& matrix) {
  const std::size_t n = matrix.cells.size();
  std::vector<std::size_t> island(n);
  for (std::size_t a = 0; a < n; ++a) island[a] = a;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (links_of(matrix.cells[a][b]) > 0 && island[a] != island[b])
        std::replace(island.begin(), island.end(), std::max(island[a], island[b]), std::min(island[a], island[b]));
    }
  }
  return island;
}

/// Through switch chips every pair shares all links of a GPU; direct links would need (n - 1) times as many.
constexpr std::int64_t kMostDirectLinks = 4;

constexpr const char* kPcieRate = "20 GB/s";  // of one way over PCIe 4; measured ones differ

/// An attribute of a tag: busid="0000:0f:00.0".
std::string attribute(const std::string& tag, const std::string& name) {
  const std::size_t at = tag.find(" " + name + "=\"");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 3;
  return tag.substr(begin, tag.find('"', begin) - begin);
}

/// What NCCL's file says beside GPUs and their links, by names: known ones, and such that nobody knows.
class XmlNames {
 public:
  void add(const std::string& tag) {
    static const std::set<std::string> kTags{"system", "cpu", "pci", "gpu", "nvlink",
                                             "xgmi",   "nic", "net", "c2c", "pcilink"};
    static const std::set<std::string> kRead{"pci.busid", "nvlink.target", "nvlink.count", "nvlink.tclass", "gpu.dev"};
    const std::string name = tag.substr(1, tag.find_first_of(" \t\r\n/", 1) - 1);
    if (name.empty() || name[0] == '!' || name[0] == '?') return;
    if (!kTags.contains(name)) unknown_.insert("<" + name.substr(0, 40) + ">");
    for (std::size_t at = tag.find('='); at != std::string::npos; at = tag.find('=', tag.find('"', at + 2))) {
      const std::size_t begin = tag.find_last_of(" \t\r\n", at) + 1;
      const std::string attribute = name + "." + tag.substr(begin, std::min<std::size_t>(at - begin, 40));
      if (!kRead.contains(attribute)) not_read_.insert(attribute);
      if (tag.find('"', at + 2) == std::string::npos) break;
    }
  }
  std::vector<std::string> remarks() const {
    std::vector<std::string> out;
    if (!unknown_.empty()) out.push_back(fmt::format("tags not known to orrery: {}", fmt::join(unknown_, ", ")));
    if (!not_read_.empty())
      out.push_back(
          fmt::format("not taken over, as PCIe and NICs are shared out evenly: {}", fmt::join(not_read_, ", ")));
    return out;
  }

 private:
  std::set<std::string> unknown_, not_read_;
};

/// NCCL_TOPO_DUMP_FILE's XML: PCI devices with GPUs in them, NVLinks by what they lead to (src/graph/xml.cc of NCCL):
/// another GPU, or (class 0x068000) a switch, through which all GPUs see each other. Read tag by tag, as NCCL does.
Matrix read_nccl_topology(const std::string& text, const std::string& file) {
  struct Gpu {
    std::string bus, dev;
    std::map<std::string, std::int64_t> peers;
    std::int64_t switched = 0;
  };
  std::vector<Gpu> gpus;
  Matrix matrix;
  std::string bus;
  XmlNames names;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::string tag = text.substr(at, text.find('>', at) - at);
    if (!tag.starts_with("</")) names.add(tag);
    if (tag.starts_with("<pci ")) bus = attribute(tag, "busid");
    if (tag.starts_with("<gpu ")) gpus.push_back({bus, attribute(tag, "dev"), {}, 0});
    if (tag.starts_with("<net ")) ++matrix.nics;
    if (!tag.starts_with("<nvlink ") || gpus.empty()) continue;
    const std::string links = attribute(tag, "count");
    const std::int64_t count = links.empty() || links.size() > 3 ? 0 : std::atoll(links.c_str());
    if (attribute(tag, "tclass") == "0x068000")
      gpus.back().switched += count;
    else
      gpus.back().peers[attribute(tag, "target")] += count;
  }
  matrix.remarks = names.remarks();
  constexpr std::size_t kMostInNode = 64;
  if (gpus.empty() || gpus.size() > kMostInNode)
    throw UserError({file, 1, 1}, "gpu",
                    fmt::format("got {} of them, expected a node of 1 to {}", gpus.size(), kMostInNode));
  if (gpus.size() == 1)
    throw UserError({file, 1, 1}, "gpu",
                    "got one in NCCL's topology file, and a node of one GPU has nothing to be wired, expected two or "
                    "more; leave cluster.device.node out");
  // By what a link leads to; files that people write name a GPU by its number.
  const auto leads = [](const std::string& target, const Gpu& gpu) {
    return target == gpu.bus || (!gpu.dev.empty() && target == gpu.dev);
  };
  std::set<std::string> nowhere;
  for (const Gpu& a : gpus) {
    std::vector<std::string> row;
    for (const Gpu& b : gpus) {
      std::int64_t links = std::min(a.switched, b.switched);
      for (const auto& [target, count] : a.peers) links += leads(target, b) ? count : 0;
      row.push_back(&a == &b ? "X" : links > 0 ? fmt::format("NV{}", links) : "SYS");
    }
    for (const auto& [target, count] : a.peers) {
      const bool found =
          std::any_of(gpus.begin(), gpus.end(), [&, &led = target](const Gpu& b) { return leads(led, b); });
      if (!found) nowhere.insert(target);
    }
    matrix.cells.push_back(std::move(row));
  }
  if (!nowhere.empty())
    matrix.remarks.push_back(
        fmt::format("NVLinks that lead to no GPU of the file are left out: {}", fmt::join(nowhere, ", ")));
  return matrix;
}

/// Slurm's topology.yaml (slurm 25.05) as the lines of a topology.conf; `remarks`: on what is not taken over.
class SlurmYaml {
 public:
  SlurmYaml(const sim::Settings& document, std::vector<std::string>& remarks) : remarks_(remarks) {
    if (!document.is_sequence()) {
      take(document);
    } else {
      // The cluster's own, where there are several.
      const sim::Settings* own = nullptr;
      for (const sim::Settings& each : document.items()) {
        const sim::Settings* chosen = each.is_mapping() ? each.find("cluster_default") : nullptr;
        if (own == nullptr || (chosen != nullptr && chosen->as_bool())) own = &each;
      }
      for (const sim::Settings& each : document.items()) {
        if (&each == own) continue;
        std::vector<std::string> keys;
        if (each.is_mapping()) {
          for (const auto& [key, value] : each.members()) keys.push_back(key);
        }
        not_taken_.push_back(fmt::format("topology {} ({})", each.is_mapping() ? each.get_text("topology", "?") : "?",
                                         fmt::join(keys, ", ")));
      }
      if (own != nullptr) take(*own);
    }
    if (!not_taken_.empty()) remarks_.push_back(fmt::format("not taken over: {}", fmt::join(not_taken_, ", ")));
  }
  const std::string& lines() const { return lines_; }

 private:
  void take(const sim::Settings& topology) {
    if (!topology.is_mapping()) topology.expected("a mapping with tree or block");
    for (const auto& [key, value] : topology.members()) {
      if (key == "topology" || key == "cluster_default")
        remarks_.push_back(fmt::format("{}: {}", key, value.is_scalar() ? value.text() : "?"));
      else if (key == "tree")
        take_list(value, "tree", "switches", "switch", "SwitchName");
      else if (key == "block")
        take_list(value, "block", "blocks", "block", "BlockName");
      else
        not_taken_.push_back(key);
    }
  }

  void take_list(const sim::Settings& section, const std::string& at, const char* list, const char* name,
                 const char* line) {
    if (!section.is_mapping()) section.expected("a mapping");
    for (const auto& [key, items] : section.members()) {
      if (key != list) {
        not_taken_.push_back(at + "." + key);
        continue;
      }
      if (!items.is_sequence()) items.expected("a list");
      for (const sim::Settings& each : items.items()) take_one(each, name, line);
    }
  }

  void take_one(const sim::Settings& each, const char* name, const char* line) {
    if (!each.is_mapping()) each.expected("a mapping with a name and nodes");
    lines_ += std::string(line) + "=" + each.get_text(name, "");
    for (const auto& [key, value] : each.members()) {
      if (key == "children")
        lines_ += " Switches=" + each.get_text("children", "");
      else if (key == "nodes")
        lines_ += " Nodes=" + each.get_text("nodes", "");
      else if (key != name)
        not_taken_.push_back(fmt::format("{} of {}", key, each.get_text(name, "")));
    }
    lines_ += "\n";
  }

  std::vector<std::string>& remarks_;
  std::vector<std::string> not_taken_;
  std::string lines_;
};

std::string node_text(const Matrix& matrix, const std::string& file, const ClusterFacts& facts) {
  const auto n = matrix.cells.size();
  std::int64_t least = 1000, most = 0;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      least = std::min(least, links_of(matrix.cells[a][b]));
      most = std::max(most, links_of(matrix.cells[a][b]));
    }
  }
  const double link = gigabits(facts.link_rate, {"--link-rate", 0, 0}) / 8;  // GB/s
  std::string out = fmt::format(
      "# The inside of a node of {} GPUs, imported from {} by orrery import topology:\n"
      "# the key cluster.device.node. A link of {} per direction (--link-rate).\n",
      n, std::filesystem::path(file).filename().string(), facts.link_rate);
  out += comments(matrix.remarks);
  if (matrix.nics > 0) out += fmt::format("# {} NICs: the fabric's nics.\n", matrix.nics);
  if (most == 0)
    return out + fmt::format("kind: pcie\ngpus: {}\nrate: {}  # PCIe alone; measure yours\n", n, kPcieRate);
  if (least == most && most > kMostDirectLinks) {
    const std::int64_t chips = most == 18 ? 4 : most == 12 ? 6 : 1;
    return out + fmt::format("kind: nvswitch\ngpus: {}\nswitches: {}\nlinks: {}\nrate: {:.6g} GB/s\n", n, chips, most,
                             link * static_cast<double>(most));
  }
  const std::vector<std::size_t> island = islands_of(matrix);
  out += fmt::format("kind: mesh\ngpus: {}\n", n);
  if (*std::max_element(island.begin(), island.end()) > 0)
    out += fmt::format(
        "host_rate: {}  # links join islands of GPUs, PCIe and the host lead from one to another; measure yours\n",
        kPcieRate);
  out += "mesh:\n";
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = a + 1; b < n; ++b) {
      const std::int64_t links = std::max(links_of(matrix.cells[a][b]), links_of(matrix.cells[b][a]));
      if (links > 0)
        out += fmt::format("- {{pair: [{}, {}], rate: {:.6g} GB/s}}\n", a, b, link * static_cast<double>(links));
    }
  }
  return out;
}

}  // namespace

std::string import_topology(const std::string& file, const ClusterFacts& facts) {
  const std::string text = read_text(file);
  const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
  std::string out;
  if (has("Link Type between two GPUs")) {
    Matrix matrix = read_matrix(text, file, "Link Type between two GPUs");
    if (constexpr const char* kHops = "Hops between two GPUs"; has(kHops))
      drop_detours(matrix, read_matrix(text, file, kHops, false));
    remark_on_lines_beside(matrix, text);
    out = node_text(matrix, file, facts);
  } else if (has("GPU0") && (has("NV") || has("SYS") || has("PIX") || has("PHB"))) {
    Matrix matrix = read_matrix(text, file, "");
    remark_on_lines_beside(matrix, text);
    out = node_text(matrix, file, facts);
  } else if (has("\"S-") && has("Switch")) {
    out = fabric_text(read_ibnetdiscover(text, file), file, facts);
  } else if (has("<system") && has("<gpu")) {
    out = node_text(read_nccl_topology(text, file), file, facts);
  } else if ((has("Active/") || has("LinkUp")) && has("==>")) {
    out = fabric_text(read_iblinkinfo(text, file), file, facts);
  } else if (has("topology:") && (has("switches:") || has("blocks:"))) {
    std::vector<std::string> remarks;
    const SlurmYaml read(scenarios::parse_yaml(text, file), remarks);
    Wires wires = read_slurm_topology(read.lines(), file, facts);
    wires.remarks.insert(wires.remarks.begin(), remarks.begin(), remarks.end());
    out = fabric_text(std::move(wires), file, facts);
  } else if (has("SwitchName=") || has("switchname=") || has("BlockName=")) {
    out = fabric_text(read_slurm_topology(text, file, facts), file, facts);
  } else if (has(",")) {
    out = fabric_text(read_edge_table(text, file), file, facts);
  } else {
    throw UserError(
        {file, 1, 1}, "",
        "got no form that is known, expected ibnetdiscover's or iblinkinfo's output, Slurm's topology.conf or "
        "topology.yaml, nvidia-smi topo -m, rocm-smi --showtopo, NCCL's topology file, or a table a,b,rate,lanes,kind");
  }
  if (out.find("\nkind: graph") != std::string::npos || out.find("\nkind: single") != std::string::npos)
    topology::load_fabric_spec(scenarios::parse_yaml(out, file));  // what it refuses is not written
  else
    topology::load_node_spec(scenarios::parse_yaml(out, file));
  return out;
}

}  // namespace orrery::tools
