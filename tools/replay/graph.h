// What one rank did, as a graph: nodes of the host, of computing and of communication, each with the nodes that it
// waits for and the lane (a host, a stream) on which it runs in turn. Every format of traces that can be replayed is
// read into it: profilers' traces, whose dependencies follow from launches, streams and times (from_trace.h), and
// Chakra's, which name them (chakra.h). Times are picoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "calibration/device/profile.h"
#include "sim/units.h"

namespace orrery::tools {

inline constexpr std::int64_t kNoTime = -1;
inline constexpr std::int64_t kNoPeer = -1;

enum class NodeKind : std::uint8_t { host, compute, collective, send, receive };

struct GraphNode {
  NodeKind kind = NodeKind::compute;
  std::int32_t lane = 0;
  std::uint32_t name = 0;            // of RankGraph::names
  sim::Duration duration{};          // its own; of communication what the trace says, nothing where it does not say
  sim::Duration gap{};               // idle time of its own, after all that it waits for
  std::int64_t traced = kNoTime;     // when it began, picoseconds
  std::vector<std::uint32_t> waits;  // earlier nodes, beside the one before it on its lane
  // Communication.
  calibration::CollectiveOp op{};
  double bytes = 0;             // of the whole buffer, as nccl-tests count; of a message all of it
  std::uint32_t group = 0;      // collectives: of RankGraph::groups
  std::int64_t peer = kNoPeer;  // messages: the other rank
  std::int64_t tag = 0;         // messages: of the same two ranks and direction, those of a tag meet in order

  bool communicates() const { return kind >= NodeKind::collective; }
};

/// The ranks of a collective. Two groups of the same name and ranks are one, whichever rank's graph names them.
struct RankGroup {
  std::string name;
  std::vector<std::int64_t> ranks;  // in ring order; empty: not known
  std::int64_t size = 0;            // how many, also where they are not known
  bool operator==(const RankGroup&) const = default;
};

struct RankGraph {
  std::string file;  // or what else it comes from, for messages
  std::int64_t rank = 0;
  std::vector<std::string> names{""}, lanes;
  std::vector<RankGroup> groups;
  std::vector<GraphNode> nodes;    // every one behind what it waits for, and in the order of its lane
  sim::Duration traced{};          // from the first beginning to the last end; nothing where times are not known
  std::vector<std::string> notes;  // what was taken for granted
};

/// Numbers names and lanes of a graph as they come.
class GraphWriter {
 public:
  explicit GraphWriter(RankGraph& graph) : graph_(graph) {}
  std::uint32_t name(const std::string& text);
  std::int32_t lane(const std::string& text);
  std::uint32_t group(const RankGroup& group);
  /// Appends it; its number.
  std::uint32_t add(GraphNode node);

 private:
  RankGraph& graph_;
  std::unordered_map<std::string, std::uint32_t> names_;
};

/// Lanes that a graph may have: streams of the engine.
inline constexpr std::size_t kMostLanes = 200;

}  // namespace orrery::tools
