// The list of communication groups. See comm_groups.h.
#include "workloads/groups/comm_groups.h"

#include <algorithm>
#include <initializer_list>

namespace orrery::workloads {

namespace {

using Carries = JobGroup::Carries;

/// Messages between neighbouring stages: each payload has communicators and streams of its own, since two stages need
/// not see different messages in the same order.
void add_messages(const GroupLayout& layout, std::vector<JobGroup>& groups) {
  const std::int64_t stages = layout.dims.size(Dim::pipeline);
  if (stages == 1) return;
  const auto add = [&](const CommGroup& group, bool returning, bool upwards, const Stream& sends,
                       const Stream& receives) {
    const StagePairs pairs{layout.around ? stages : stages - 1, 1, returning};
    groups.push_back({group, pairs, Carries::messages, sends, receives, Category::pipeline_comm, false, upwards});
  };
  add(CommGroup::activations, false, false, Stream::pipeline_send, Stream::pipeline_receive);
  add(CommGroup::gradients, false, true, Stream::pipeline_send_gradient, Stream::pipeline_receive_gradient);
  if (!layout.returns) return;
  add(CommGroup::return_gradients, true, false, Stream::return_send_gradient, Stream::return_receive_gradient);
  add(CommGroup::return_activations, true, true, Stream::return_send, Stream::return_receive);
}

/// As groups of experts lie: of each node the ranks at one place, and the ranks of a node.
void add_table_groups(const ExpertLayout& tables, std::vector<JobGroup>& groups) {
  const auto add = [&](const CommGroup& group, std::int64_t stride, std::int64_t size) {
    const SubGroup members{{Dim::tensor, Dim::context, Dim::data}, false, stride, size};
    if (size > 1)
      groups.push_back({group, members, Carries::collectives, Stream::tables, Stream::tables, Category::table_comm});
  };
  add(CommGroup::tables, tables.tensor, tables.expert);
  if (tables.expert > 1) groups.back().exchange = ExchangeStyle{};
  add(CommGroup::tables_node, 1, tables.tensor);
}

/// All run over the same blocks, so that they are made together.
void add_expert_groups(const GroupLayout& layout, std::vector<JobGroup>& groups) {
  const ExpertLayout& experts = layout.experts;
  if (experts.tables) return add_table_groups(experts, groups);
  if (!experts.any) return;
  const std::int64_t ranks = experts.expert * experts.tensor;
  const DimSet over{Dim::tensor, Dim::context, Dim::data};
  const auto add = [&](const CommGroup& group, const SubGroup& members, const Stream& stream, Category category,
                       bool all_reduces) {
    groups.push_back({group, members, Carries::collectives, stream, stream, category, all_reduces, false});
  };
  if (experts.gathers && ranks > 1)
    add(CommGroup::expert, {over, false, 1, ranks}, Stream::expert, Category::expert_comm, false);
  if (!experts.gathers && experts.expert > 1) {
    add(CommGroup::expert, {over, false, experts.tensor, experts.expert}, Stream::expert, Category::expert_comm, false);
    groups.back().exchange = experts.exchange;
  }
  if (!experts.gathers && experts.tensor > 1)
    add(CommGroup::expert_tensor, {over, false, 1, experts.tensor}, Stream::expert, Category::expert_comm, false);
  const SubGroup all{over, layout.mirrored};
  const std::int64_t replicas = layout.dims.block_size(all) / ranks, repeats = replicas / experts.shard_ranks;
  const SubGroup shards{over, layout.mirrored, ranks, experts.shard_ranks};
  if (replicas > 1)
    add(CommGroup::expert_data, shards, Stream::expert_data, Category::data_comm, layout.all_reduces_gradients);
  const SubGroup same_part{over, layout.mirrored, ranks * experts.shard_ranks, repeats};
  if (repeats > 1) add(CommGroup::expert_replicate, same_part, Stream::expert_data, Category::data_comm, true);
}

/// Parts of the groups that share out a state, and what lies across them.
void add_groups_inside_shards(const GroupLayout& layout, const SubGroup& shards, std::vector<JobGroup>& groups) {
  const auto add = [&](const CommGroup& group, std::int64_t stride, std::int64_t size) {
    const SubGroup members{shards.over, shards.mirrored, stride, size};
    if (size > 1)
      groups.push_back({group, members, Carries::collectives, Stream::data, Stream::data, Category::data_comm});
  };
  const std::int64_t all = layout.shard_ranks;
  if (layout.weight_ranks < all) {
    add(CommGroup::weights, 1, layout.weight_ranks);
    add(CommGroup::new_weights, layout.weight_ranks, all / layout.weight_ranks);
  }
  if (layout.gradient_ranks < all) {
    add(CommGroup::partial_gradients, 1, layout.gradient_ranks);
    add(CommGroup::gradient_parts, layout.gradient_ranks, all / layout.gradient_ranks);
  }
  if (layout.secondary_ranks > 0) add(CommGroup::secondary_weights, 1, layout.secondary_ranks);
}

/// Every rank by itself: what it moves loads no link of the cluster.
void add_host(std::vector<JobGroup>& groups) {
  const SubGroup alone{{Dim::tensor}, false, 1, 1};
  const auto add = [&](const CommGroup& group, const Stream& stream, Category category) {
    groups.push_back({group, alone, Carries::signals, stream, stream, category});
  };
  add(CommGroup::to_host, Stream::to_host, Category::host_copy);
  add(CommGroup::from_host, Stream::from_host, Category::host_copy);
  add(CommGroup::host, Stream::host_update, Category::optimizer);
}

}  // namespace

std::vector<JobGroup> comm_groups(const GroupLayout& layout) {
  const Dims& dims = layout.dims;
  std::vector<JobGroup> groups;
  const auto add = [&](const CommGroup& group, const std::variant<SubGroup, StagePairs>& members, Carries carries,
                       const Stream& stream, Category category, bool all_reduces) {
    groups.push_back({group, members, carries, stream, stream, category, all_reduces, false});
  };
  const std::int64_t tensor = dims.size(Dim::tensor), inputs = layout.tensor_in;
  const auto add_tensor = [&](const CommGroup& group, std::int64_t stride, std::int64_t size) {
    if (size > 1)
      add(group, SubGroup{{Dim::tensor}, false, stride, size}, Carries::collectives, Stream::tensor,
          Category::tensor_comm, true);
  };
  if (inputs == 1 && tensor > 1)
    add(CommGroup::tensor, SubGroup{{Dim::tensor}}, Carries::collectives, Stream::tensor, Category::tensor_comm, true);
  if (inputs > 1) {
    add_tensor(CommGroup::tensor_in, 1, inputs);
    add_tensor(CommGroup::tensor_out, inputs, tensor / inputs);
  }
  if (dims.size(Dim::context) > 1) {
    add(CommGroup::context, SubGroup{{Dim::context}}, Carries::collectives, Stream::context, Category::context_comm,
        false);
  }
  SubGroup shards{{Dim::context, Dim::data}, layout.mirrored, 1, layout.shard_ranks};
  const std::int64_t replicas = dims.block_size(shards), repeats = replicas / layout.shard_ranks;
  if (replicas > 1)
    add(CommGroup::data, shards, Carries::collectives, Stream::data, Category::data_comm, layout.all_reduces_gradients);
  if (repeats > 1) {
    const SubGroup same_part{shards.over, shards.mirrored, layout.shard_ranks, repeats};
    add(CommGroup::replicate, same_part, Carries::collectives, Stream::data, Category::data_comm, true);
  }
  add_groups_inside_shards(layout, shards, groups);
  add_expert_groups(layout, groups);
  add_messages(layout, groups);
  if (layout.ties_ends) {
    const StagePairs ends{1, dims.size(Dim::pipeline) - 1};
    add(CommGroup::embedding, ends, Carries::collectives, Stream::data, Category::data_comm, true);
  }
  SubGroup normed{{Dim::tensor, Dim::pipeline}};
  if (layout.shards) normed.over = {Dim::tensor, Dim::context, Dim::data, Dim::pipeline};
  if (dims.block_size(normed) > 1) add(CommGroup::norm, normed, Carries::signals, Stream::data, Category::other, true);
  if (layout.reduces_scales) {
    const SubGroup scaled{{Dim::tensor, Dim::context, Dim::data}, layout.mirrored};
    add(CommGroup::scales, scaled, Carries::signals, Stream::tensor, Category::data_comm, true);
  }
  if (layout.offloads) add_host(groups);
  return groups;
}

const JobGroup* find_group(const std::vector<JobGroup>& groups, const CommGroup& group) {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const JobGroup& g) { return g.group == group; });
  return found == groups.end() ? nullptr : &*found;
}

std::int64_t second_stage(const StagePairs& pairs, std::int64_t first, const Dims& dims) {
  return (first + pairs.apart) % dims.size(Dim::pipeline);
}

namespace {
std::int64_t first_stage(const StagePairs& pairs, std::int64_t second, const Dims& dims) {
  const std::int64_t stages = dims.size(Dim::pipeline);
  return (second + stages - pairs.apart) % stages;
}
}  // namespace

End end_of(const JobGroup& group, bool first) {
  if (group.carries != Carries::messages) return End::member;
  return first != group.upwards ? End::sends : End::receives;
}

std::vector<GroupSlot> slots_of_stage(const std::vector<JobGroup>& groups, const Dims& dims, std::int64_t stage) {
  std::vector<GroupSlot> slots;
  for (const JobGroup& group : groups) {
    const auto add = [&](End end) {
      slots.push_back({group.group, end, end == End::receives ? group.receives : group.stream, group.category});
    };
    if (const auto* pairs = std::get_if<StagePairs>(&group.members)) {
      if (stage < pairs->pairs) add(end_of(group, true));
      if (first_stage(*pairs, stage, dims) < pairs->pairs) add(end_of(group, false));
    } else {
      add(End::member);
    }
  }
  return slots;
}

std::uint8_t streams_of(const std::vector<JobGroup>& groups) {
  std::uint8_t last = Stream::pipeline_send.order;  // where a norm runs that nobody waits for
  for (const JobGroup& group : groups) last = std::max({last, group.stream.order, group.receives.order});
  return static_cast<std::uint8_t>(last + 1);
}

std::int64_t communicator_of(const JobGroup& group, const Dims& dims, std::int64_t rank, End end) {
  constexpr std::int64_t kOrders = 256;
  std::int64_t first = rank;
  if (const auto* pairs = std::get_if<StagePairs>(&group.members)) {
    const std::int64_t stage = dims.place(rank, Dim::pipeline);
    const bool is_first = end == End::member ? stage < pairs->pairs : end == end_of(group, true);
    if (!is_first) first = dims.moved(rank, Dim::pipeline, first_stage(*pairs, stage, dims));
  } else {
    first = dims.members_of(rank, std::get<SubGroup>(group.members)).front();
  }
  return kOrders * first + group.group.order;
}

}  // namespace orrery::workloads
