// Who the other ranks of a call are, by the layout of the job that was traced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/replay/graph.h"
#include "workloads/groups/comm_groups.h"

namespace orrery::tools {

class Members {
 public:
  explicit Members(const workloads::GroupLayout& layout);

  /// The ranks of a group that a framework calls `name` (learn/observe.h, role_of_group), of `size` ranks; nothing
  /// where the job has no such group of the rank's.
  std::optional<std::vector<std::int64_t>> named(std::int64_t rank, const std::string& name, std::int64_t size) const;
  /// Those of a slot of the rank's stage: of a message its sender and its receiver.
  std::vector<std::int64_t> of_slot(std::int64_t rank, const workloads::GroupSlot& slot) const;
  /// The slots of the rank's stage.
  std::vector<workloads::GroupSlot> slots(std::int64_t rank) const;

 private:
  workloads::Dims dims_;
  std::vector<workloads::JobGroup> groups_;
};

}  // namespace orrery::tools
