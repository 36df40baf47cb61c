// Three lists of cables. ibnetdiscover(8) of infiniband-diags: a paragraph for each switch with a line for each port,
// `[1] "H-0002c9..."[1](...) # "node01 mlx5_0" lid 3 4xNDR`. Slurm's topology.conf(5), plugin topology/tree:
// `SwitchName=s1 Switches=s[2-3]`, `SwitchName=s2 Nodes=tux[0-15]`, without rates: links up take all that comes from
// below, as in a fabric without oversubscription; of topology/block `BlockName=b1 Nodes=tux[0-15]`, a switch each. A
// table of links with the columns a, b, rate, lanes, kind; kind nic: a is a host.
#include "tools/import/wires.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "sim/error.h"
#include "tools/import/unread_lines.h"

namespace orrery::tools {

using sim::Place;
using sim::UserError;

namespace {

constexpr std::size_t kMostHosts = 1'000'000;
constexpr std::size_t kLongestName = 255;          // of a host or a switch
constexpr std::size_t kMostRanges = 8;             // of one name: "rack[0-9]node[0-7]" has two
constexpr std::size_t kMostLevels = 64;            // of switches above each other
constexpr std::int64_t kMostNics = 1'000'000'000;  // below a switch

constexpr std::size_t kLongestLine = std::size_t{1} << 20;

/// Whether a line of Slurm's files goes on in the next; takes the sign away.
bool continues(std::string& line) {
  const std::size_t last = line.find_last_not_of(" \t\r");
  if (last == std::string::npos || line[last] != '\\') return false;
  line.resize(last);
  return true;
}

Place at_line(const std::string& file, std::int64_t line) { return {file, static_cast<int>(line), 1}; }

/// Gb/s of a port as infiniband-diags name it: "4xNDR", "2xHDR", "4x 106.25 Gbps"; 0: not said.
double port_rate(const std::string& text) {
  static const std::map<std::string, double> kLanes = {{"SDR", 2.5},  {"DDR", 5},   {"QDR", 10},
                                                       {"FDR10", 10}, {"FDR", 14},  {"EDR", 25},
                                                       {"HDR", 50},   {"NDR", 100}, {"XDR", 200}};
  static const std::regex kPort(R"((\d{1,3})x([A-Z]+\d*)\s*$)");
  std::smatch match;
  if (!std::regex_search(text, match, kPort)) return 0;
  const auto lane = kLanes.find(match[2]);
  return lane == kLanes.end() ? 0 : std::stod(match[1]) * lane->second;
}

std::int64_t number_in(std::string_view text) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : -1;
}

/// The first word of a name like "node01 mlx5_0".
std::string host_of(const std::string& name) { return name.substr(0, name.find_first_of(" \t:")); }

/// "[0-3,07]" in a name: numbers, written at least so wide.
struct HostRange {
  std::int64_t from = 0, to = 0;
  std::size_t width = 0;
};

/// What stands before each pair of brackets, the ranges in it, and what stands behind the last.
struct HostPattern {
  std::vector<std::string_view> before;
  std::vector<std::vector<HostRange>> ranges;
  std::string_view behind;
};

std::vector<HostRange> host_ranges(std::string_view text, const Place& place) {
  std::vector<HostRange> out;
  std::istringstream ranges{std::string(text)};
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t dash = range.find('-');
    const std::string low = range.substr(0, dash), high = dash == std::string::npos ? low : range.substr(dash + 1);
    const std::int64_t from = number_in(low), to = number_in(high);
    constexpr std::int64_t kLastHost = 1'000'000'000'000;
    if (from < 0 || to < from || to > kLastHost || to - from > static_cast<std::int64_t>(kMostHosts))
      throw UserError(place, "Nodes", fmt::format("got [{}], expected a range as in [0-15]", range));
    out.push_back({from, to, low.size()});
  }
  return out;
}

HostPattern host_pattern(std::string_view item, const Place& place) {
  if (item.size() > kLongestName || std::count(item.begin(), item.end(), '[') > static_cast<int>(kMostRanges)) {
    throw UserError(place, "Nodes",
                    fmt::format("got a name of {} characters, expected at most {} with {} ranges in brackets",
                                item.size(), kLongestName, kMostRanges));
  }
  HostPattern out;
  std::size_t at = 0;
  for (std::size_t open = item.find('['); open != std::string_view::npos; open = item.find('[', at)) {
    const std::size_t close = item.find(']', open);
    if (close == std::string_view::npos)
      throw UserError(place, "Nodes", fmt::format("got {}, expected ] behind [", item));
    out.before.push_back(item.substr(at, open - at));
    out.ranges.push_back(host_ranges(item.substr(open + 1, close - open - 1), place));
    at = close + 1;
  }
  out.behind = item.substr(at);
  return out;
}

/// How many names; not told apart beyond the most.
std::size_t count_hosts(const HostPattern& pattern) {
  std::size_t all = 1;
  for (const std::vector<HostRange>& ranges : pattern.ranges) {
    std::size_t some = 0;
    for (const HostRange& range : ranges)
      some = std::min(kMostHosts + 1, some + static_cast<std::size_t>(range.to - range.from + 1));
    all = std::min(kMostHosts + 1, all * some);
  }
  return all;
}

/// Adds to `out` all names that begin with `name`, which ends before the brackets `at`; the last brackets go round
/// first.
void add_hosts(const HostPattern& pattern, std::size_t at, std::string& name, std::vector<std::string>& out) {
  if (at == pattern.ranges.size()) {
    out.push_back(name);
    out.back() += pattern.behind;
    return;
  }
  const std::size_t length = name.size();
  name += pattern.before[at];
  const std::size_t stem = name.size();
  for (const HostRange& range : pattern.ranges[at]) {
    for (std::int64_t n = range.from; n <= range.to; ++n) {
      const fmt::format_int digits(n);
      if (digits.size() < range.width) name.append(range.width - digits.size(), '0');
      name.append(digits.data(), digits.size());
      add_hosts(pattern, at + 1, name, out);
      name.resize(stem);
    }
  }
  name.resize(length);
}

}  // namespace

bool ByNumbers::operator()(const std::string& a, const std::string& b) const {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    const auto number = [&](const std::string& text, std::size_t& at) {
      while (at + 1 < text.size() && text[at] == '0' && digit(text[at + 1])) ++at;  // 007 is 7
      const std::size_t from = at;
      while (at < text.size() && digit(text[at])) ++at;
      return std::string_view(text).substr(from, at - from);
    };
    const std::string_view x = number(a, i), y = number(b, j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // node7 and node07 are two
}

void Wires::join(const std::string& a, const std::string& b, double gbps, std::int64_t lanes) {
  Cable& cable = links[std::minmax(a, b)];
  cable.lanes += lanes;
  cable.gbps = std::max(cable.gbps, gbps);
}

void Wires::nic_of(double gbps) {
  nic_gbps = std::max(nic_gbps, gbps);
  nic_rates.insert(gbps);
}

double gigabits(const std::string& rate, const Place& place) {
  return sim::Settings::scalar(rate, place).as_bandwidth().value() * 8 / 1e9;
}

std::vector<std::string> expand_hosts(const std::string& list, const Place& place) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  int open = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++open;
    if (i < list.size() && list[i] == ']') --open;
    if (i < list.size() && (list[i] != ',' || open > 0)) continue;
    if (i > begin) {
      const HostPattern pattern = host_pattern(std::string_view(list).substr(begin, i - begin), place);
      const std::size_t hosts = count_hosts(pattern);  // before any is made
      if (out.size() + hosts > kMostHosts) throw UserError(place, "Nodes", "lists more than a million hosts");
      std::string name;
      if (hosts > 0) add_hosts(pattern, 0, name, out);  // "[]" names none, whatever stands before it
    }
    begin = i + 1;
  }
  return out;
}

namespace {

using HostNics = std::map<std::string, std::multimap<std::string, std::string, ByNumbers>>;  // host: NIC, its switch
using CableEnds = std::map<std::pair<std::string, std::string>, std::int64_t>;  // switches, and how often one lists it

/// Hosts by their NICs, and how many cables there are between switches.
void lay(const HostNics& nics, const CableEnds& cables, Wires& wires) {
  // Switches are listed as they are found, which is not the order of rails; NICs are called by theirs.
  for (const auto& [host, by_name] : nics) {
    for (const auto& [nic, leaf] : by_name) wires.hosts[host].push_back(leaf);
  }
  // Both ends list a cable; where one of them could not be read, the other still does.
  for (const auto& [ends, count] : cables) {
    Cable& cable = wires.links.at(std::minmax(ends.first, ends.second));
    cable.lanes = std::max(cable.lanes, count);
  }
}

}  // namespace

Wires read_ibnetdiscover(const std::string& text, const std::string& file) {
  static const std::regex kNode(R"re(^(Switch|Ca|Rt)\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)")re");
  static const std::regex kPort(R"re(^\[(\d+)\](?:\([0-9a-f]*\))?\s+"([^"]+)"\[\d+\][^#]*#\s*"([^"]*)"(.*)$)re");
  Wires wires;
  std::string current;
  HostNics nics;
  CableEnds cables;
  std::set<std::string> described;
  std::map<std::string, std::int64_t> named;  // switches at the other end of a cable, and the first line that does so
  std::istringstream lines(text);
  std::int64_t number = 0, ports = 0;
  UnreadLines unread;
  // Lines of adapters say what those of switches do; the others name machines by numbers alone.
  static const std::regex kKnown(
      R"re(^\s*($|#|\[|(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=|Initiated|DR path))re");
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.size() > 4096) throw UserError(at_line(file, number), "", "is longer than a line of ibnetdiscover");
    std::smatch match;
    if (std::regex_search(line, match, kNode)) {
      current = match[1] == "Switch" ? std::string(match[2]) : "";
      described.insert(match[2]);
    } else if (!current.empty() && std::regex_search(line, match, kPort)) {
      ++ports;
      const std::string peer = match[2], name = match[3];
      const double gbps = port_rate(match[4]);
      if (peer.starts_with("H-")) {
        if (name.find("Aggregation Node") != std::string::npos) continue;  // a switch's own, that reduces
        nics[host_of(name)].emplace(name, current);
        wires.nic_of(gbps);
      } else if (peer.starts_with("S-")) {
        ++cables[{current, peer}];
        named.emplace(peer, number);
        wires.join(current, peer, gbps, 0);
      } else {
        unread.add(number, line);
      }
    } else if (!std::regex_search(line, kKnown) || (!current.empty() && line.starts_with("["))) {
      unread.add(number, line);
    }
  }
  if (!unread.empty()) wires.remarks.push_back(unread.remark());
  if (ports == 0)
    throw UserError({file, 1, 1}, "Switch", "lists no port of a switch, expected the output of ibnetdiscover");
  for (const auto& [name, line] : named) {
    if (described.contains(name)) continue;
    throw UserError(at_line(file, line), "Switch",
                    fmt::format("names {}, which has no paragraph, expected the whole output of ibnetdiscover", name));
  }
  lay(nics, cables, wires);
  return wires;
}

namespace {

/// A line of topology.conf: what hangs on a switch, or lies in a block.
struct SlurmSwitch {
  std::vector<std::string> nodes, below;
  Place place;
};

/// The lines of a topology.conf by the names of their switches; those of blocks are listed in `blocks` too.
std::map<std::string, SlurmSwitch> slurm_switches(const std::string& text, const std::string& file,
                                                  std::vector<std::string>& blocks, UnreadLines& unread) {
  std::map<std::string, SlurmSwitch> switches;
  std::istringstream lines(text);
  std::int64_t number = 0;
  std::size_t named = 0;  // hosts and switches, of all lines
  for (std::string line; std::getline(lines, line);) {
    const Place place = at_line(file, ++number);
    line.resize(std::min(line.find('#'), line.size()));
    for (std::string more; line.size() < kLongestLine && continues(line) && std::getline(lines, more); ++number)
      line += more.substr(0, more.find('#'));
    std::istringstream words(line);
    std::string name;
    SlurmSwitch one{{}, {}, place};
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      std::string key = word.substr(0, equals);
      for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
      if (key == "switchname" || key == "blockname") name = value;
      if (key == "blockname") blocks.push_back(value);
      if (key == "nodes") one.nodes = expand_hosts(value, place);
      if (key == "switches") one.below = expand_hosts(value, place);
      if (key != "switchname" && key != "blockname" && key != "nodes" && key != "switches") unread.add(number, word);
    }
    if (name.empty()) {
      if (!one.nodes.empty() || !one.below.empty()) unread.add(number, line);
      continue;
    }
    if (name.size() > kLongestName)
      throw UserError(place, "SwitchName",
                      fmt::format("got {} characters, expected at most {}", name.size(), kLongestName));
    named += one.nodes.size() + one.below.size();
    if (named > 2 * kMostHosts) throw UserError(place, "Nodes", "lists more than a million hosts");
    if (!switches.emplace(name, one).second)
      throw UserError(place, "SwitchName", fmt::format("got {} twice, expected each switch once", name));
  }
  return switches;
}

}  // namespace

Wires read_slurm_topology(const std::string& text, const std::string& file, const ClusterFacts& facts) {
  std::vector<std::string> blocks;
  UnreadLines unread;
  std::map<std::string, SlurmSwitch> switches = slurm_switches(text, file, blocks, unread);
  if (switches.empty()) throw UserError({file, 1, 1}, "SwitchName", "is not there, expected a topology.conf of Slurm");
  Wires wires;
  if (!unread.empty()) wires.remarks.push_back(unread.remark());
  if (blocks.size() > 1) {
    constexpr const char* kAbove = "between blocks";
    switches.emplace(kAbove, SlurmSwitch{{}, blocks, {file, 1, 1}});
    wires.remarks.emplace_back("blocks of topology/block are taken for switches, all joined by one above them");
  }
  wires.nic_gbps = gigabits(facts.nic_rate, {"--nic-rate", 0, 0});
  std::map<std::string, std::int64_t> up;  // NICs below each switch
  std::set<std::string> open;
  const auto below = [&](const auto& self, const std::string& name) -> std::int64_t {
    if (const auto known = up.find(name); known != up.end()) return known->second;
    const auto at = switches.find(name);
    if (at == switches.end())
      throw UserError({file, 1, 1}, "Switches", fmt::format("names {}, which no line has", name));
    if (!open.insert(name).second)
      throw UserError(at->second.place, "Switches", fmt::format("leads from {} back to it, expected a tree", name));
    if (open.size() > kMostLevels)
      throw UserError(at->second.place, "Switches",
                      fmt::format("lies below more than {} levels, expected a tree of switches", kMostLevels));
    std::int64_t nics = static_cast<std::int64_t>(at->second.nodes.size()) * facts.nics;
    for (const std::string& next : at->second.below) {
      const std::int64_t more = self(self, next);
      nics += more;
      if (more > 0) wires.join(name, next, wires.nic_gbps, more);
      if (nics > kMostNics) {
        throw UserError(at->second.place, "Switches",
                        fmt::format("has more than {} NICs below {}, expected a tree", kMostNics, name));
      }
    }
    open.erase(name);
    return up[name] = nics;
  };
  for (const auto& [name, one] : switches) {
    below(below, name);
    for (const std::string& node : one.nodes) wires.hosts[node] = {name};
  }
  wires.remarks.emplace_back(fmt::format(
      "topology.conf has no rates: {} NICs of {} a host (--nics, --nic-rate), links up for all that comes from below",
      facts.nics, facts.nic_rate));
  return wires;
}

namespace {

/// A port of iblinkinfo(8) as its lines have it: in paragraphs of adapters and switches (Switch: 0x... NAME:), or
/// (-l) with the node's name in each. Without either the node is known by its number (LID), as far ends name it.
struct LinkedPort {
  std::string guid, name, lid;  // of the near end; empty where the line has none
  std::string peer, peer_lid, peer_port;
  double gbps = 0;
};

bool is_adapter(const std::string& name) {
  static const std::regex kAdapter(R"re( (HCA-\d+|mlx\d+_\w+|ibp\w+|ib\d+|roce\w+)$)re");
  return name.size() <= 255 && std::regex_search(name, kAdapter);
}

std::optional<LinkedPort> linked_port(const std::string& line) {
  // Gb/s of data by that of the wire: 64b/66b and forward error correction take their share.
  static constexpr std::pair<double, double> kData[] = {{2.5, 2},       {5.0, 4},     {10.0, 8},     {14.0625, 13.64},
                                                        {25.78125, 25}, {53.125, 50}, {106.25, 100}, {212.5, 200}};
  static const std::regex kNear(R"re(^ *(0x[0-9a-fA-F]{1,16})? *(?:"([^"]{1,255})")? *(\d{1,9}) +\d{1,9}\[)re");
  static const std::regex kFar(R"re(==\( *(\d{1,3})X +([0-9.]{1,12}) +Gbps.{0,80}==> +(?:0x[0-9a-fA-F]{1,16} +)?)re"
                               R"re((\d+) +(\d+)\[ *\] "([^"]{1,255})")re");
  if (line.size() > 512 || line.find("Down/") != std::string::npos || line.find("LinkDown") != std::string::npos)
    return std::nullopt;
  std::smatch near, far;
  if (!std::regex_search(line, far, kFar)) return std::nullopt;
  LinkedPort port;
  if (std::regex_search(line, near, kNear)) {
    port.guid = near[1];
    port.name = near[2];
    port.lid = near[3];
  }
  const double lane = std::stod(far[2]);
  for (const auto& [wire, data] : kData) {
    if (std::abs(lane - wire) < 0.01) port.gbps = data * std::stod(far[1]);
  }
  port.peer_lid = far[3];
  port.peer_port = far[4];
  port.peer = far[5];
  return port;
}

std::string switch_of(std::string line) {
  const std::size_t name = line.find(' ', line.find("0x"));
  line = name == std::string::npos ? line : line.substr(name + 1);
  while (!line.empty() && (line.back() == ':' || line.back() == '\r')) line.pop_back();
  return line;
}

}  // namespace

Wires read_iblinkinfo(const std::string& text, const std::string& file) {
  Wires wires;
  HostNics nics;
  CableEnds cables;
  std::set<std::string> switches;
  std::map<std::string, std::string> by_number;  // names by LID
  std::istringstream first(text);
  for (std::string line; std::getline(first, line);) {
    if (line.size() > kLongestLine) continue;
    if (line.starts_with("Switch:")) switches.insert(switch_of(line));
    if (const std::optional<LinkedPort> port = linked_port(line)) {
      by_number.emplace(port->peer_lid, port->peer);
      if (!port->name.empty() && !is_adapter(port->name)) switches.insert(port->name);
    }
  }
  std::istringstream lines(text);
  std::string paragraph;
  UnreadLines unread;
  std::int64_t number = 0, down = 0;
  bool adapter = false;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.size() > kLongestLine) {
      unread.add(number, line);
      continue;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.starts_with("Switch:") || line.starts_with("CA:")) {
      adapter = line.starts_with("CA:");  // whose ports stand among those of switches
      paragraph = adapter ? "" : switch_of(line);
      continue;
    }
    const bool listed = line.find("==(") != std::string::npos;
    if (line.find_first_not_of(" \t") == std::string::npos || (listed && adapter)) continue;
    const std::optional<LinkedPort> port = linked_port(line);
    std::string current = paragraph;
    if (port && current.empty() && !port->name.empty()) current = port->name;
    // Lines of an adapter's own begin with its number among all that were ever made; a switch has that in its heading.
    const bool own = port && current.empty() && !port->guid.empty();
    if (own || (port && current == port->name && is_adapter(current))) continue;
    if (port && current.empty() && by_number.contains(port->lid)) current = by_number.at(port->lid);
    if (current.empty() || !port) {
      if (listed && (!current.empty() || line.find('"') != std::string::npos))
        ++down;
      else
        unread.add(number, line);
      continue;
    }
    if (port->peer.starts_with("MF0;") || switches.contains(port->peer)) {
      ++cables[{current, port->peer}];
      wires.join(current, port->peer, port->gbps, 0);
    } else if (port->peer.find("Aggregation Node") == std::string::npos) {
      nics[host_of(port->peer)].emplace(port->peer + " " + port->peer_port, current);
      wires.nic_of(port->gbps);
    }
  }
  if (down > 0) wires.remarks.push_back(fmt::format("{} ports that are down, or lead to nothing, are left out", down));
  if (!unread.empty()) wires.remarks.push_back(unread.remark());
  if (nics.empty())
    throw UserError({file, 1, 1}, "Switch", "lists no port that leads to a host, expected the output of iblinkinfo");
  lay(nics, cables, wires);
  return wires;
}

Wires read_edge_table(const std::string& text, const std::string& file) {
  Wires wires;
  std::istringstream lines(text);
  std::map<std::string, std::size_t> columns;
  UnreadLines unread;
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const Place place = at_line(file, ++number);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> fields;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) {
      const std::size_t from = std::min(cell.find_first_not_of(" \t"), cell.size());
      fields.push_back(cell.substr(from, cell.find_last_not_of(" \t") + 1 - from));
    }
    if (columns.empty()) {
      for (std::size_t i = 0; i < fields.size(); ++i) columns[fields[i]] = i;
      for (const char* wanted : {"a", "b", "rate"}) {
        if (!columns.contains(wanted))
          throw UserError(place, wanted, "is no column, expected a line a,b,rate,lanes,kind above the links");
      }
      std::vector<std::string> unknown;
      for (const std::string& name : fields) {
        if (name != "a" && name != "b" && name != "rate" && name != "lanes" && name != "kind") unknown.push_back(name);
      }
      if (!unknown.empty())
        wires.remarks.push_back(fmt::format("columns not taken over: {}", fmt::join(unknown, ", ")));
      continue;
    }
    if (fields.size() > columns.size()) unread.add(number, fields.back() + ", a cell beyond the last column");
    const auto field = [&](const char* name) {
      const auto at = columns.find(name);
      return at == columns.end() || at->second >= fields.size() ? std::string() : fields[at->second];
    };
    const std::string a = field("a"), b = field("b"), kind = field("kind");
    if (a.empty() || b.empty() || a == b) throw UserError(place, "a", "expected the names of two ends");
    if (!kind.empty() && kind != "nic" && kind != "link")
      throw UserError(place, "kind", fmt::format("got {}, expected nic or link", kind));
    const double gbps = gigabits(field("rate"), place);
    const std::int64_t lanes = field("lanes").empty() ? 1 : number_in(field("lanes"));
    if (lanes < 1 || lanes > 1024)
      throw UserError(place, "lanes", fmt::format("got {}, expected 1 to 1024", field("lanes")));
    if (kind == "nic") {
      for (std::int64_t i = 0; i < lanes; ++i) wires.hosts[a].push_back(b);
      wires.nic_of(gbps);
    } else {
      wires.join(a, b, gbps, lanes);
    }
  }
  if (!unread.empty()) wires.remarks.push_back(unread.remark());
  if (wires.hosts.empty())
    throw UserError({file, 1, 1}, "kind", "says nic nowhere, expected a line for each host's NICs (kind nic)");
  return wires;
}

}  // namespace orrery::tools
