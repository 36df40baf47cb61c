// A network as its own tools list it: hosts, switches and cables, on the way to a fabric of kind graph.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

/// What the files of a cluster do not say.
struct ClusterFacts {
  std::int64_t nics = 8;              // of a host, where the file does not list them
  std::string nic_rate = "400 Gb/s";  // likewise
  std::string link_rate = "25 GB/s";  // of one NVLink or XGMI link per direction
};

/// Names in the order in which people count: node2 before node10.
struct ByNumbers {
  bool operator()(const std::string& a, const std::string& b) const;
};

/// Links per pair of switches: how many, and the rate of one.
struct Cable {
  std::int64_t lanes = 0;
  double gbps = 0;
};

struct Wires {
  std::map<std::string, std::vector<std::string>, ByNumbers> hosts;  // to the switch of each NIC, in the NICs' order
  std::map<std::pair<std::string, std::string>, Cable> links;
  double nic_gbps = 0;         // the highest that is named
  std::set<double> nic_rates;  // all of them
  std::vector<std::string> remarks;

  void nic_of(double gbps);

  void join(const std::string& a, const std::string& b, double gbps, std::int64_t lanes = 1);
};

// Each reads the text of one form; `file` for messages. Throws sim::UserError for lines that are none of it.
Wires read_ibnetdiscover(const std::string& text, const std::string& file);
Wires read_slurm_topology(const std::string& text, const std::string& file, const ClusterFacts& facts);
Wires read_iblinkinfo(const std::string& text, const std::string& file);
Wires read_edge_table(const std::string& text, const std::string& file);

/// "tux[0-3,07-09],login" as names. Throws sim::UserError at `place`.
std::vector<std::string> expand_hosts(const std::string& list, const sim::Place& place);
/// "400 Gb/s" as 400.
double gigabits(const std::string& rate, const sim::Place& place);

}  // namespace orrery::tools
