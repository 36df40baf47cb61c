// Members of groups by name, and by slot.
#include "tools/replay/members.h"

#include <algorithm>
#include <variant>

#include "sim/error.h"
#include "tools/learn/observe.h"

namespace orrery::tools {

using workloads::Dim;
using workloads::End;
using workloads::JobGroup;
using workloads::StagePairs;
using workloads::SubGroup;

Members::Members(const workloads::GroupLayout& layout) : dims_(layout.dims), groups_(workloads::comm_groups(layout)) {}

std::vector<workloads::GroupSlot> Members::slots(std::int64_t rank) const {
  return workloads::slots_of_stage(groups_, dims_, dims_.place(rank, Dim::pipeline));
}

std::vector<std::int64_t> Members::of_slot(std::int64_t rank, const workloads::GroupSlot& slot) const {
  const JobGroup* group = workloads::find_group(groups_, slot.group);
  SIM_CHECK(group != nullptr, "the job has no group {}", slot.group.name);
  if (const auto* kind = std::get_if<SubGroup>(&group->members)) return dims_.members_of(rank, *kind);
  const auto& pairs = std::get<StagePairs>(group->members);
  const std::int64_t stage = dims_.place(rank, Dim::pipeline);
  for (std::int64_t first = 0; first < pairs.pairs; ++first) {
    const std::int64_t second = workloads::second_stage(pairs, first, dims_);
    const bool is_first = stage == first && workloads::end_of(*group, true) == slot.end;
    const bool is_second = stage == second && workloads::end_of(*group, false) == slot.end;
    if (!is_first && !is_second) continue;
    const std::int64_t a = dims_.moved(rank, Dim::pipeline, first), b = dims_.moved(rank, Dim::pipeline, second);
    if (group->carries == JobGroup::Carries::messages && group->upwards) return {b, a};
    return {a, b};
  }
  SIM_CHECK(false, "rank {} has no end of the group {}", rank, slot.group.name);
  return {};
}

std::optional<std::vector<std::int64_t>> Members::named(std::int64_t rank, const std::string& name,
                                                        std::int64_t size) const {
  const std::string role = role_of_group(name, size);
  if (rank < 0 || rank >= dims_.ranks()) return {};
  for (const bool exactly : {true, false}) {
    for (const workloads::GroupSlot& slot : slots(rank)) {
      if (exactly ? slot.group.name != name : slot.group.name != role) continue;
      const JobGroup* group = workloads::find_group(groups_, slot.group);
      if (group == nullptr || group->carries == JobGroup::Carries::messages) continue;
      std::vector<std::int64_t> ranks = of_slot(rank, slot);
      if (static_cast<std::int64_t>(ranks.size()) == size) return ranks;
    }
  }
  return {};
}

}  // namespace orrery::tools
