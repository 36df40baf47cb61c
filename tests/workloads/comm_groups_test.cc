// Who is in which group, and do the members of every communicator agree on it?
#include "workloads/groups/comm_groups.h"

#include <map>
#include <set>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/job/step_plan.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// Layouts with every way to lay chunks on stages, and every way to share states out.
std::vector<GroupLayout> layouts() {
  std::vector<GroupLayout> all;
  for (const std::int64_t tensor : {1, 2}) {
    for (const std::int64_t context : {1, 2}) {
      for (const std::int64_t pipeline : {1, 2, 4}) {
        for (const bool shards : {false, true}) {
          GroupLayout layout;
          layout.dims = Dims({tensor, context, 4, pipeline});
          layout.shards = shards;
          layout.ties_ends = pipeline > 1;
          layout.shard_ranks = shards ? 2 : 4 * context;
          all.push_back(layout);
          layout.around = true;
          all.push_back(layout);
          layout.around = false;
          layout.returns = true;
          layout.ties_ends = false;
          all.push_back(layout);
          if (pipeline == 1) continue;
          layout.mirrored = true;
          layout.shard_ranks = shards ? 2 : 8 * context;
          all.push_back(layout);
        }
      }
    }
  }
  for (GroupLayout& layout : all) layout.weight_ranks = layout.gradient_ranks = layout.shard_ranks;
  // Groups inside those that share out a state, and a tensor group in two dimensions.
  for (std::size_t i = 0, plain = all.size(); i < plain; ++i) {
    GroupLayout layout = all[i];
    layout.weight_ranks = layout.secondary_ranks = std::max<std::int64_t>(1, layout.shard_ranks / 4);
    layout.gradient_ranks = layout.shard_ranks / 2;
    if (layout.dims.size(Dim::tensor) % 2 == 0) layout.tensor_in = 2;
    all.push_back(layout);
  }
  return all;
}

/// What members of a group have in common, said in words of coordinates alone: equal keys are one communicator.
std::vector<std::int64_t> key_of(const GroupLayout& layout, const CommGroup& group, const Coordinates& at) {
  const std::int64_t stages = layout.dims.size(Dim::pipeline), stage = at[Dim::pipeline];
  const std::int64_t contexts = layout.dims.size(Dim::context);
  const std::int64_t lower = layout.mirrored ? std::min(stage, stages - 1 - stage) : stage;
  const std::int64_t replica = at[Dim::context] + contexts * (at[Dim::data] + (stage == lower ? 0 : 4));
  if (group == CommGroup::tensor) return {at[Dim::context], at[Dim::data], stage};
  if (group == CommGroup::context) return {at[Dim::tensor], at[Dim::data], stage};
  if (group == CommGroup::data) return {at[Dim::tensor], lower, replica / layout.shard_ranks};
  if (group == CommGroup::replicate) return {at[Dim::tensor], lower, replica % layout.shard_ranks};
  const auto part = [&](std::int64_t ranks) {
    return std::vector<std::int64_t>{at[Dim::tensor], lower, replica / ranks};
  };
  const auto across = [&](std::int64_t ranks) {
    return std::vector<std::int64_t>{at[Dim::tensor], lower, replica / layout.shard_ranks, replica % ranks};
  };
  if (group == CommGroup::weights) return part(layout.weight_ranks);
  if (group == CommGroup::new_weights) return across(layout.weight_ranks);
  if (group == CommGroup::partial_gradients) return part(layout.gradient_ranks);
  if (group == CommGroup::gradient_parts) return across(layout.gradient_ranks);
  if (group == CommGroup::secondary_weights) return part(layout.secondary_ranks);
  const std::int64_t over = at[Dim::tensor];
  if (group == CommGroup::tensor_in) return {at[Dim::context], at[Dim::data], stage, over / layout.tensor_in};
  if (group == CommGroup::tensor_out) return {at[Dim::context], at[Dim::data], stage, over % layout.tensor_in};
  if (group == CommGroup::embedding) return {at[Dim::tensor], at[Dim::context], at[Dim::data]};
  if (layout.shards) return {};
  return {at[Dim::context], at[Dim::data]};  // the norm of one replica
}

}  // namespace

TEST_CASE("members of a collective's communicator are those with the same coordinates in all that it does not span") {
  for (const GroupLayout& layout : layouts()) {
    const std::vector<JobGroup> groups = comm_groups(layout);
    for (const JobGroup& group : groups) {
      if (group.carries == JobGroup::Carries::messages) continue;
      std::map<std::int64_t, std::set<std::vector<std::int64_t>>> keys_of;  // communicator -> keys of its members
      std::map<std::vector<std::int64_t>, std::set<std::int64_t>> numbers_of;
      for (std::int64_t rank = 0; rank < layout.dims.ranks(); ++rank) {
        const Coordinates at = layout.dims.coordinates_of(rank);
        const std::int64_t stages = layout.dims.size(Dim::pipeline), stage = at[Dim::pipeline];
        const auto slots = slots_of_stage(groups, layout.dims, stage);
        const bool has = std::any_of(slots.begin(), slots.end(), [&](const auto& s) { return s.group == group.group; });
        const bool at_an_end = stage == 0 || stage == stages - 1;
        CHECK(has == (at_an_end || !(group.group == CommGroup::embedding)));
        if (!has) continue;
        const std::int64_t number = communicator_of(group, layout.dims, rank, End::member);
        keys_of[number].insert(key_of(layout, group.group, at));
        numbers_of[key_of(layout, group.group, at)].insert(number);
      }
      INFO(group.group.name);
      for (const auto& [number, keys] : keys_of) CHECK(keys.size() == 1);
      for (const auto& [key, numbers] : numbers_of) CHECK(numbers.size() == 1);
    }
  }
}

TEST_CASE("what a stage sends, the stage where the activations or gradients go receives") {
  for (const GroupLayout& layout : layouts()) {
    const Dims& dims = layout.dims;
    const std::int64_t stages = dims.size(Dim::pipeline);
    const std::vector<JobGroup> groups = comm_groups(layout);
    std::map<std::int64_t, std::vector<std::int64_t>> senders, receivers;  // by communicator: ranks
    for (std::int64_t rank = 0; rank < dims.ranks(); ++rank) {
      for (const GroupSlot& slot : slots_of_stage(groups, dims, dims.place(rank, Dim::pipeline))) {
        if (slot.end == End::member) continue;
        const std::int64_t number = communicator_of(*find_group(groups, slot.group), dims, rank, slot.end);
        (slot.end == End::sends ? senders : receivers)[number].push_back(rank);
        CHECK(slot.stream.sends == (slot.end == End::sends));
      }
    }
    REQUIRE(senders.size() == receivers.size());
    std::size_t messages = 0;
    for (const auto& [number, from] : senders) {
      REQUIRE(from.size() == 1);
      REQUIRE(receivers[number].size() == 1);
      const std::int64_t to = receivers[number].front(), stage = dims.place(from.front(), Dim::pipeline);
      const std::int64_t down = dims.moved(from.front(), Dim::pipeline, (stage + 1) % stages);
      const std::int64_t up = dims.moved(from.front(), Dim::pipeline, (stage + stages - 1) % stages);
      CHECK((to == down || to == up));
      ++messages;
    }
    // Activations and gradients over every boundary that chunks cross, once for each way that chunks run.
    const std::int64_t boundaries = stages == 1 ? 0 : layout.around ? stages : stages - 1;
    CHECK(messages == static_cast<std::size_t>(2 * boundaries * (layout.returns ? 2 : 1) * dims.ranks() / stages));
  }
}

TEST_CASE("directions: activations go down the stages, gradients up, and the other way round for returning chunks") {
  GroupLayout layout;
  layout.dims = Dims({1, 1, 1, 4});
  layout.returns = true;
  const std::vector<JobGroup> groups = comm_groups(layout);
  const auto has = [&](std::int64_t stage, const CommGroup& group, End end) {
    const auto slots = slots_of_stage(groups, layout.dims, stage);
    return std::any_of(slots.begin(), slots.end(), [&](const auto& s) { return s.group == group && s.end == end; });
  };
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    CHECK(has(stage, CommGroup::activations, End::sends) == (stage < 3));
    CHECK(has(stage, CommGroup::activations, End::receives) == (stage > 0));
    CHECK(has(stage, CommGroup::gradients, End::sends) == (stage > 0));
    CHECK(has(stage, CommGroup::gradients, End::receives) == (stage < 3));
    CHECK(has(stage, CommGroup::return_activations, End::sends) == (stage > 0));
    CHECK(has(stage, CommGroup::return_activations, End::receives) == (stage < 3));
    CHECK(has(stage, CommGroup::return_gradients, End::sends) == (stage < 3));
    CHECK(has(stage, CommGroup::return_gradients, End::receives) == (stage > 0));
  }
}

TEST_CASE("every group and every stream of a job has a number of its own") {
  for (const GroupLayout& layout : layouts()) {
    std::set<std::uint8_t> orders;
    for (const JobGroup& group : comm_groups(layout)) CHECK(orders.insert(group.group.order).second);
    CHECK(orders.count(CommGroup::scales.order) == 0);
    std::uint8_t highest = 0;
    for (const JobGroup& group : comm_groups(layout))
      highest = std::max({highest, group.stream.order, group.receives.order});
    CHECK(streams_of(comm_groups(layout)) > highest);
    CHECK(streams_of(comm_groups(layout)) <= all_streams().size());
  }
}

TEST_CASE("a job's schedule says which way its messages go") {
  const auto groups = [](const std::vector<std::string>& sets) {
    std::set<std::string> found;
    const std::vector<JobGroup> list = comm_groups(group_layout_of(tests::small_job(sets)));
    const auto note = [&](const char* name, const CommGroup& group) {
      const JobGroup* entry = find_group(list, group);
      if (entry == nullptr) return;
      const auto* pairs = std::get_if<StagePairs>(&entry->members);
      found.insert(pairs == nullptr ? name : fmt::format("{} {}", name, pairs->pairs));
    };
    note("down", CommGroup::activations);
    note("back", CommGroup::return_activations);
    note("ends", CommGroup::embedding);
    note("repeats", CommGroup::replicate);
    return found;
  };
  using Found = std::set<std::string>;
  CHECK(groups({"parallelism.pipeline=4", "parallelism.data=2"}) == Found{"down 3", "ends 1"});
  CHECK(groups({"parallelism.pipeline=4", "parallelism.data=2", "parallelism.virtual_pipeline=2"}) ==
        Found{"down 4", "ends 1"});
  CHECK(groups({"parallelism.pipeline=4", "parallelism.data=2", "model.tied_embeddings=false"}) == Found{"down 3"});
  CHECK(groups({"parallelism.schedule=zb_v"}) == Found{"down 1", "back 1"});
  CHECK(groups({"parallelism.pipeline=1", "parallelism.data=8"}) == Found{});
  CHECK(groups({"parallelism.pipeline=1", "parallelism.data=8", "parallelism.sharding=optimizer",
                "parallelism.shard_group=2"}) == Found{"repeats"});
}

TEST_CASE("communicators are numbered group after group, and block by block where groups share their blocks") {
  // The number is the key of a communicator's noise, so a perturbed job's answer hangs on it.
  const Job job =
      tests::small_job({"parallelism={tensor: 2, pipeline: 2, data: 4, sharding: optimizer, "
                        "shard_group: 2}"});
  const auto groups = make_groups(group_inputs_of(job), cluster_of(site_of(job)));
  const std::size_t ranks = groups->plan.instances.size();
  REQUIRE(ranks == 16);
  std::map<std::string, std::set<std::uint32_t>> ids;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<GroupSlot>& slots = groups->slots[rank / 8];
    const auto communicators = groups->plan.slots_of(sim::InstanceId{rank});
    REQUIRE(communicators.size() == slots.size());
    for (std::size_t s = 0; s < slots.size(); ++s)
      ids[std::string(slots[s].group.name)].insert(sim::index(communicators[s]));
  }
  // Eight tensor groups; for each of four blocks of data ranks two that share a state out and two that repeat it; for
  // each of eight pairs of ranks activations and gradients; as many embeddings; one norm.
  std::uint32_t next = 0;
  for (const auto& [name, count] : std::vector<std::pair<std::string, std::uint32_t>>{
           {"tensor", 8}, {"data", 4 * (2 + 2)}, {"pipeline", 8 * 2}, {"embedding", 8}, {"norm", 1}}) {
    INFO(name);
    CHECK(ids[name].size() == count);
    CHECK(*ids[name].begin() == next);
    CHECK(*ids[name].rbegin() == next + count - 1);
    next += count;
  }
  const auto of = [&](std::uint32_t rank, const CommGroup& group, End end) {
    const std::vector<GroupSlot>& slots = groups->slots[rank / 8];
    const auto slot =
        std::find_if(slots.begin(), slots.end(), [&](const auto& x) { return x.group == group && x.end == end; });
    return sim::index(groups->plan.slots_of(sim::InstanceId{rank})[static_cast<std::size_t>(slot - slots.begin())]);
  };
  for (std::uint32_t rank = 0; rank < 8; ++rank)  // what goes down between two ranks, then what comes up
    CHECK(of(rank, CommGroup::gradients, End::receives) == of(rank, CommGroup::activations, End::sends) + 1);
  CHECK(of(0, CommGroup::replicate, End::member) == of(0, CommGroup::data, End::member) + 2);
}
