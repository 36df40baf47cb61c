// A table of flows as `orrery flows` reads it: each flow's start, its bytes and the links it crosses, by name. A file
// of its own because tables have a hundred thousand rows and commands are not optimised.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/network.h"

namespace orrery::tools {

struct FlowTable {
  std::vector<std::string_view> id;  // parts of the text that was read
  std::vector<double> bytes, start_s;
  sim::Network network;                  // a link for each name, a route for each flow
  std::vector<std::uint32_t> crossings;  // of every link, how often flows cross it
};

/// Reads `text`, the contents of `file` (CSV, columns id,src,dst,bytes,start_s,links in any order); `text` must stay
/// where it is. Every link carries `capacity`. Throws UserError with line and column, also where the flows would take
/// longer than the clock runs.
FlowTable read_flow_table(const std::string& file, std::string_view text, sim::Bandwidth capacity);

struct SharedFlows {
  std::vector<std::int64_t> end;  // ps, in the order of the table
  std::uint64_t solves = 0;       // instants at which links had to be shared anew
};

SharedFlows share(const FlowTable& table);

/// `id,end_s` for each flow, with the twelve digits that picoseconds have.
std::string ends_csv(const FlowTable& table, const SharedFlows& shared);

}  // namespace orrery::tools
