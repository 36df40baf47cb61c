// Execution traces of MLCommons Chakra (Sridharan et al., arXiv 2305.14516): what ASTRA-sim replays and PyTorch's
// execution traces are converted to, a protobuf file a rank. Attributes are those that Chakra's feeder knows
// (src/feeder/et_feeder_node.cpp): is_cpu_op, comm_type, comm_size, comm_src, comm_dst, comm_tag, pg_name.
// comm_size counts what a rank puts in, as the converter of PyTorch's traces has it: of an all-gather a
// rank's part, of everything else the whole buffer. A node's `tid` is the thread or stream that it runs on. One
// attribute of this program's own, duration_picos, keeps what the schema rounds; pg_desc says what a group is for. Left
// out: memory nodes as such (they take the time that they say), operations and bytes of a roofline (num_ops,
// tensor_size), lists.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/replay/graph.h"

namespace orrery::tools {

/// Whether this build reads and writes them (libprotobuf).
bool has_chakra();

/// Ranks of process groups by pg_name, as ASTRA-sim takes them (--comm-group-configuration): {"0": [0, 1, 2, 3]}.
using ChakraGroups = std::map<std::string, std::vector<std::int64_t>>;
inline constexpr const char* kChakraGroupsFile = "comm_groups.json";

/// Reads the file. Throws sim::UserError for another file than such an object of lists of ranks.
ChakraGroups read_chakra_groups(const std::string& file);

/// Reads the trace of a rank; the file may be gzipped. `world`: how many ranks there are, which are the members of
/// groups that `groups` does not name. Throws sim::UserError: no such file, cut off, another format, no nodes, nodes
/// that wait for each other, numbers that no trace has, a build without libprotobuf.
RankGraph read_chakra(const std::string& file, std::int64_t rank, std::int64_t world, const ChakraGroups& groups);

/// A node with the tensors that it reads and makes, as texts of lists (Chakra's IOInfo); empty where it says none.
struct ChakraOperation {
  std::uint64_t id = 0, inside = 0;  // the first of its ctrl_deps, the node that it ran in
  std::string name;
  struct Tensors {
    std::string values, shapes, types;
  } in, out;
};
/// All nodes of a trace, in the order of the file. Throws as read_chakra does.
std::vector<ChakraOperation> read_chakra_operations(const std::string& file);

/// The rank that a file's name ends in, as in step.12.et; kNoPeer where it ends in none.
std::int64_t rank_of_file(const std::string& file);

/// Numbers groups alike in the files of all ranks.
class ChakraWriter {
 public:
  /// Into the folder, which is made where it is not there: `name`.RANK.et. Throws sim::UserError where nothing can be
  /// written, and for a build without libprotobuf.
  ChakraWriter(std::string folder, std::string name);
  void write(const RankGraph& graph);
  /// The groups of all that was written.
  void write_groups() const;

 private:
  std::string folder_, name_;
  std::map<std::pair<std::string, std::vector<std::int64_t>>, std::size_t> groups_;
};

}  // namespace orrery::tools
