// A policy deals out the nodes of each kind by itself, since no node stands in for one of another kind. Left out:
// shares of the nodes tried one by one, which would have to be tried for all kinds together.
#include "tools/study/node_kinds.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::tools {

NodeKinds::NodeKinds(const std::vector<const workloads::Job*>& jobs, std::int64_t gpus)
    : per_node_(jobs.front()->machine.gpus_per_node), names_{jobs.front()->machine.device.name()}, wants_(1) {
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const workloads::Machine& machine = jobs[j]->machine;
    for (auto& wanted : wants_) wanted.resize(jobs.size(), 0);
    parts_.emplace_back();
    for (std::size_t kind = 0; kind < machine.mixture.kinds(); ++kind) {
      const std::string& name = machine.device_of_kind(kind).name();
      auto at = static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
      // A job may name its own device once more: those nodes are like the others.
      if (at == names_.size()) {
        names_.push_back(name);
        wants_.emplace_back(jobs.size(), 0);
        others_.push_back(machine.mixture.others[kind - 1].nodes);
        others_.back().nodes = 0;
      }
      const std::int64_t nodes = machine.gpus_of_kind(kind) / per_node_;
      wants_[at][j] += nodes;
      if (at > 0) others_[at - 1].nodes += nodes;
      parts_[j].push_back({at, nodes});
    }
  }
  std::int64_t rest = gpus / per_node_;
  for (const topology::OtherNodes& other : others_) rest -= other.nodes;
  begin_ = {0, rest};
  for (const topology::OtherNodes& other : others_) begin_.push_back(begin_.back() + other.nodes);
}

std::size_t NodeKinds::kind_of(std::int64_t node) const {
  return static_cast<std::size_t>(std::upper_bound(begin_.begin(), begin_.end(), node) - begin_.begin()) - 1;
}

std::string NodeKinds::text() const {
  std::string out;
  for (std::size_t kind = 0; kind < names_.size(); ++kind)
    out += fmt::format("{}{} x {}", kind > 0 ? " + " : "", (begin_[kind + 1] - begin_[kind]) * per_node_, names_[kind]);
  return out;
}

NodeLists NodeKinds::place_by(const std::string& policy, const std::vector<std::vector<std::int64_t>>& units,
                              std::uint64_t seed) const {
  std::vector<NodeLists> of_kind;
  for (std::size_t kind = 0; kind < wants_.size(); ++kind) {
    std::vector<std::vector<std::int64_t>> own;
    for (const std::vector<std::int64_t>& unit : units) {
      std::vector<std::int64_t> nodes;
      for (const std::int64_t node : unit)
        if (kind_of(node) == kind) nodes.push_back(node);
      if (!nodes.empty()) own.push_back(std::move(nodes));
    }
    of_kind.push_back(tools::place_by(policy, wants_[kind], own, seed));
  }
  NodeLists lists(parts_.size());
  for (std::size_t job = 0; job < lists.size(); ++job) {
    std::vector<std::ptrdiff_t> next(of_kind.size(), 0);
    for (const Part& part : parts_[job]) {
      const auto first = of_kind[part.kind][job].begin() + next[part.kind];
      lists[job].insert(lists[job].end(), first, first + part.nodes);
      next[part.kind] += part.nodes;
    }
  }
  return lists;
}

}  // namespace orrery::tools
