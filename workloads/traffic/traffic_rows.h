// The rows of a closed form of the communication table, as they are added up.
#pragma once

#include <string>
#include <vector>

#include "workloads/traffic/traffic.h"

namespace orrery::workloads {

class TrafficRows {
 public:
  /// `calls`: over all groups, of buffers of `bytes`, in each of which all of the group's ranks send the operation's
  /// share. `per_layer`: calls a layer and micro-batch; 0 where they are not per layer. Rows of no bytes are left out.
  void add(const CommGroup& among, CollectiveOp op, const std::string& what, std::int64_t group, double bytes,
           double calls, double per_layer) {
    const double n = static_cast<double>(group), share = (n - 1) / n;
    const double sent =
        op == CollectiveOp::send_receive ? bytes : n * bytes * share * (op == CollectiveOp::all_reduce ? 2 : 1);
    add_sent(among, op, what, group, bytes, calls * sent, per_layer);
  }
  /// `sent`: bytes of all calls and ranks.
  void add_sent(const CommGroup& among, CollectiveOp op, const std::string& what, std::int64_t group, double bytes,
                double sent, double per_layer) {
    TrafficRow row;
    row.among = among;
    row.dimension = among.name;
    row.operation = calibration::name_of(op);
    row.what = what;
    row.group = group;
    row.bytes_per_call = bytes;
    row.calls_per_layer = per_layer;
    row.closed_form_bytes = sent;
    if (sent > 0) rows.push_back(row);
  }

  std::vector<TrafficRow> rows;
};

}  // namespace orrery::workloads
