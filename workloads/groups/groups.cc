// Instances and communicators of a step. See groups.h.
#include "workloads/groups/groups.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <unordered_map>
#include <utility>
#include <variant>

#include "calibration/device/routing.h"
#include "sim/error.h"
#include "topology/fabrics.h"
#include "workloads/groups/loaded_links.h"

namespace orrery::workloads {

namespace {

using sim::CommunicatorId;
using sim::RouteId;

/// Makes the communicators of a job, one per group, and hands each rank its own by slot.
///
/// Where the ranks of a tensor group are alike (the turn of topology::Cluster::link_orbits is a symmetry of job and
/// machine), only those with tensor coordinate 0 are made, which stand for the others too. The orbit of one of their
/// communicators puts on a link of orbit o what the one would put on it, times tensor / o.
class Communicators {
 public:
  /// `orbits`: by link, where the ranks of a tensor group are alike; else empty.
  /// `own_routes`: GroupCalls::own.
  Communicators(const RankMap& ranks, const topology::Cluster& cluster, const topology::LinkOrbits& orbits,
                const calibration::CollectiveAlgorithms& own_routes, Groups& out)
      : ranks_(ranks),
        dims_(ranks.dims()),
        cluster_(cluster),
        orbits_(orbits),
        alike_(orbits.empty() ? 1 : dims_.size(Dim::tensor)),
        own_routes_(own_routes),
        out_(out),
        made_(made_ranks(dims_, alike_, out.replicas)) {
    for (const auto& slots : out.slots) most_slots_ = std::max(most_slots_, slots.size());
    of_.assign(most_slots_ * made_.size(), kNobody);
  }

  /// Groups of the same blocks, or of the same pairs, are made block by block. A communicator's number is the key of
  /// its noise, so this order is part of a perturbed job's answer.
  void make() {
    const std::span<const JobGroup> all(out_.list);
    for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
      while (end < all.size() && share_blocks(all[begin], all[end])) ++end;
      if (const auto* kind = std::get_if<SubGroup>(&all[begin].members))
        make_blocks(all.subspan(begin, end - begin), *kind);
      else
        make_pairs(all.subspan(begin, end - begin), std::get<StagePairs>(all[begin].members));
    }
  }

  /// Lets every communicator keep one rate (settled_rates.h).
  void settle() { settle_rates(out_.plan, kind_of_, in_step_, out_.network); }

  /// Of a rank, by slot.
  std::vector<CommunicatorId> of(std::int64_t rank) const {
    std::vector<CommunicatorId> ids;
    ids.reserve(slots_of(rank).size());
    for (std::size_t s = 0; s < slots_of(rank).size(); ++s) {
      const std::uint32_t id = of_[row(rank) + s];
      SIM_CHECK(id != kNobody, "rank {} has no communicator for {}", rank, slots_of(rank)[s].group.name);
      ids.push_back(CommunicatorId{id});
    }
    return ids;
  }

 private:
  static constexpr std::uint32_t kNobody = 0xffffffff;

  bool is_made(std::int64_t rank) const { return rank % alike_ == 0 && out_.replicas.makes(dims_, rank); }

  static bool share_blocks(const JobGroup& a, const JobGroup& b) {
    if (a.carries != b.carries) return false;
    const auto *x = std::get_if<SubGroup>(&a.members), *y = std::get_if<SubGroup>(&b.members);
    if (x != nullptr && y != nullptr) return x->over == y->over && x->mirrored == y->mirrored;
    return a.members == b.members;
  }

  const std::vector<GroupSlot>& slots_of(std::int64_t rank) const {
    return out_.slots[static_cast<std::size_t>(dims_.place(rank, Dim::pipeline))];
  }
  std::size_t row(std::int64_t rank) const {
    if (!out_.replicas.any()) return most_slots_ * static_cast<std::size_t>(rank / alike_);
    const auto place = std::lower_bound(made_.begin(), made_.end(), rank);
    SIM_CHECK(place != made_.end() && *place == rank, "rank {} is not made", rank);
    return most_slots_ * static_cast<std::size_t>(place - made_.begin());
  }
  void assign(const JobGroup& group, End end, std::int64_t rank, CommunicatorId id) {
    const std::vector<GroupSlot>& slots = slots_of(rank);
    const auto slot = std::find_if(slots.begin(), slots.end(),
                                   [&](const GroupSlot& s) { return s.group == group.group && s.end == end; });
    SIM_CHECK(slot != slots.end(), "rank {} has no slot for {}", rank, group.group.name);
    of_[row(rank) + static_cast<std::size_t>(slot - slots.begin())] = sim::index(id);
  }

  /// Of the communicator made last, whose first member is `rank`.
  void note(const JobGroup& group, std::int64_t rank) {
    kind_of_.push_back(group.group.order);
    in_step_.push_back(dims_.moved(rank, Dim::tensor, 0));
  }

  CommunicatorId add(std::size_t members, RouteId first, std::uint32_t patterns) {
    return out_.plan.communicators.push_back(
        {static_cast<std::uint32_t>(members), first, patterns, out_.plan.communicators.size()});
  }

  /// A tensor group's ring as one of its GPUs sees it: its own link out and its own link in.
  RouteId add_route_of_one(const std::vector<std::int64_t>& gpus) {
    std::vector<sim::WeightedLink> links;
    const topology::Path out = cluster_.path(gpus[0], gpus[1]), in = cluster_.path(gpus.back(), gpus[0]);
    append_links(links, std::array{out.links.front(), in.links.back()}, 1.0, cluster_);
    return out_.network.add_route(links, {});
  }

  /// The routes from `first` on, which one communicator loads, as its whole orbit loads them.
  RouteId of_all_alike(RouteId first) {
    if (alike_ == 1) return first;
    for (std::size_t at = out_.network.route_begin[sim::index(first)]; at < out_.network.route_links.size(); ++at) {
      sim::WeightedLink& link = out_.network.route_links[at];
      link.weight *= static_cast<double>(alike_ / orbits_[link.link]);
    }
    return first;
  }

  /// Costs choose patterns for the worst group of a kind, so all groups of the kind get as many routes as that one
  /// needs.
  /// `scales`: no member stands for others of the group. Else it has whole orbits of ranks, so that it is an orbit by
  /// itself. `participants`: members that are made.
  CommunicatorId add_collective(const JobGroup& group, const std::vector<std::int64_t>& members, bool scales,
                                std::size_t participants) {
    const std::vector<std::int64_t> gpus = ranks_.gpus_of(members);
    if (group.exchange) {
      const RouteId route = add_exchange_route(out_.network, gpus, cluster_, out_.shapes[group.group].exchange);
      return add(participants, scales ? of_all_alike(route) : route, 1);
    }
    const GroupShape shape = shape_of(gpus, cluster_);
    const GroupCalls calls{group.all_reduces, own_routes_};
    const std::uint32_t patterns = patterns_of(out_.shapes[group.group], calls);
    const std::span<const std::uint32_t> of_node = out_.replicas.of_node;
    const RouteId first = add_group_routes(out_.network, gpus, shape, calls, cluster_, of_node);
    for (std::uint32_t have = patterns_of(shape, calls); have < patterns; ++have) {
      add_group_routes(out_.network, gpus, shape, {}, cluster_, of_node);
    }
    if (scales) of_all_alike(first);
    return add(participants, first, patterns);
  }

  void make_blocks(std::span<const JobGroup> groups, const SubGroup& kind) {
    for (const std::int64_t rank : made_) {
      if (dims_.first_of_block(rank, kind) != rank) continue;
      for (const JobGroup& group : groups) {
        const auto& own = std::get<SubGroup>(group.members);
        if (group.carries == JobGroup::Carries::signals && own.size == 0 && kind.over.has(Dim::data)) {
          make_signals(group, made_of_block(rank, own));
          continue;
        }
        for (const std::int64_t first : dims_.first_members_of_block(rank, own)) {
          if (out_.replicas.makes(dims_, first)) make_group(group, dims_.members_of(first, own));
        }
      }
    }
  }

  std::vector<std::int64_t> made_of_block(std::int64_t first, const SubGroup& kind) const {
    std::vector<std::int64_t> made;
    std::copy_if(made_.begin(), made_.end(), std::back_inserter(made),
                 [&](std::int64_t rank) { return dims_.first_of_block(rank, kind) == first; });
    return made;
  }

  void make_signals(const JobGroup& group, const std::vector<std::int64_t>& made) {
    const CommunicatorId id = add(made.size(), out_.network.add_route({}, out_.shapes[group.group].hop), 1);
    note(group, made.front());
    for (const std::int64_t rank : made) assign(group, End::member, rank, id);
  }

  void make_group(const JobGroup& group, const std::vector<std::int64_t>& members) {
    std::vector<std::int64_t> made;
    std::copy_if(members.begin(), members.end(), std::back_inserter(made),
                 [&](std::int64_t rank) { return is_made(rank); });
    if (made.empty()) return;  // an orbit's other group
    if (group.carries == JobGroup::Carries::signals) return make_signals(group, made);
    const auto orbits = static_cast<std::size_t>(
        std::count_if(members.begin(), members.end(), [&](std::int64_t rank) { return rank % alike_ == 0; }));
    const bool whole_orbits = orbits * static_cast<std::size_t>(alike_) == members.size();
    SIM_CHECK(orbits == members.size() || whole_orbits,
              "the ranks of group {} that are made cannot stand for the others", group.group.name);
    CommunicatorId id{};
    if (orbits == 1 && members.size() > 1)
      id = add(1, add_route_of_one(ranks_.gpus_of(members)), 1);
    else
      id = add_collective(group, members, orbits == members.size(), made.size());
    note(group, members.front());
    for (const std::int64_t rank : made) assign(group, End::member, rank, id);
  }

  void make_pairs(std::span<const JobGroup> groups, const StagePairs& pairs) {
    for (const std::int64_t rank : made_) {
      const std::int64_t stage = dims_.place(rank, Dim::pipeline);
      if (stage >= pairs.pairs) continue;
      const std::int64_t other = dims_.moved(rank, Dim::pipeline, second_stage(pairs, stage, dims_));
      for (const JobGroup& group : groups) {
        const CommunicatorId id = group.carries == JobGroup::Carries::messages
                                      ? add_message(group.upwards ? other : rank, group.upwards ? rank : other)
                                      : add_collective(group, {rank, other}, true, 2);
        note(group, rank);
        assign(group, end_of(group, true), rank, id);
        assign(group, end_of(group, false), other, id);
      }
    }
  }

  CommunicatorId add_message(std::int64_t from, std::int64_t to) {
    return add(2, of_all_alike(add_pair_route(out_.network, ranks_.gpu_of(from), ranks_.gpu_of(to), cluster_)), 1);
  }

  const RankMap& ranks_;
  const Dims& dims_;
  const topology::Cluster& cluster_;
  const topology::LinkOrbits& orbits_;
  std::int64_t alike_;  // tensor ranks that one stands for
  calibration::CollectiveAlgorithms own_routes_;
  Groups& out_;
  std::vector<std::int64_t> made_;  // ranks
  std::size_t most_slots_ = 0;
  std::vector<std::uint32_t> of_;                // by rank that is made, and slot
  std::vector<std::int64_t> kind_of_, in_step_;  // by communicator: as settle_rates() takes them
};

/// What the ranks of an expert group are given, over the mean: so many rows that a step of thousands of passes meets no
/// pattern, few enough to draw at once.
sim::Loads loads_of(const Perturbation::Routing& routing, const ExpertLayout& experts) {
  constexpr std::uint64_t kRows = 256;
  sim::Loads loads;
  if (routing.skew <= 0 || !experts.any || experts.expert == 1) return loads;
  const calibration::Routing drawn{routing.tokens, routing.top_k, routing.experts, experts.expert, routing.skew};
  loads.places = static_cast<std::uint32_t>(experts.expert);
  loads.seed = routing.seed;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    const std::vector<double> factors = calibration::loads_of_ranks(drawn, routing.seed * kRows + row);
    loads.factors.insert(loads.factors.end(), factors.begin(), factors.end());
  }
  return loads;
}

/// Groups of experts lie in a stage's ranks one after the other, the ranks that an expert is cut over next to each
/// other.
void place_among_experts(const GroupLayout& layout, std::int64_t rank, sim::Instance& instance) {
  const ExpertLayout& experts = layout.experts;
  const Dims& dims = layout.dims;
  std::int64_t place = 0, ranks = 1;  // in the stage
  for (const Dim dim : {Dim::tensor, Dim::context, Dim::data}) {
    place += ranks * dims.place(rank, dim);
    ranks *= dims.size(dim);
  }
  const std::int64_t group = place / (experts.expert * experts.tensor);
  instance.load_group = static_cast<std::uint64_t>(dims.place(rank, Dim::pipeline) * ranks + group);
  instance.load_place = static_cast<std::uint32_t>(place / experts.tensor % experts.expert);
}

/// Nothing is slower than it should be, and nothing is drawn.
bool tells_nobody_apart(const Perturbation& perturbed) {
  return perturbed.slow_gpus.empty() && perturbed.slow_nics.empty() && perturbed.jitter_sigma == 0 &&
         perturbed.message_sigma == 0 && perturbed.routing.skew == 0;
}

/// Where few ranks may be alike, so that every communicator keeps one rate. A torus' rows of switches end where no
/// stage does, so that the ways from stage to stage all differ.
bool keeps_rates(const GroupInputs& inputs, const topology::Cluster& cluster) {
  const topology::FabricSpec& fabric = cluster.fabric_spec();
  return inputs.placement.kind != Placement::Kind::order || fabric.routes.ecmp_seed.has_value() ||
         fabric.kind == &topology::fabrics::torus || cluster.gpus() != inputs.layout.dims.ranks();
}

/// The orbits of links where the ranks of a tensor group are alike: the group's GPUs are neighbours in a node, and
/// nothing sets one apart. Empty otherwise.
topology::LinkOrbits tensor_orbits(const GroupInputs& inputs, const topology::Cluster& cluster) {
  const Perturbation& perturbed = inputs.perturbation;
  const Placement& placement = inputs.placement;
  const std::int64_t tensor = inputs.layout.dims.size(Dim::tensor);
  const bool neighbours = placement.kind == Placement::Kind::order && placement.order.front() == Dim::tensor &&
                          cluster.gpus_per_node() % tensor == 0;
  // The turn maps groups of experts onto each other where they have whole tensor groups, or one rank of each.
  const ExpertLayout& experts = inputs.layout.experts;
  const bool cut_alike = experts.tensor == tensor || (experts.tensor == 1 && experts.expert % tensor == 0);
  if (tensor == 1 || inputs.layout.tensor_in > 1 || !neighbours || !tells_nobody_apart(perturbed) ||
      (experts.any && !cut_alike))
    return {};
  return cluster.link_orbits(tensor);
}

}  // namespace

std::int64_t tensor_ranks_alike(const GroupInputs& inputs, const topology::Cluster& cluster) {
  return tensor_orbits(inputs, cluster).empty() ? 1 : inputs.layout.dims.size(Dim::tensor);
}

std::shared_ptr<const Groups> make_groups(const GroupInputs& inputs, const topology::Cluster& cluster, bool folded_only,
                                          std::size_t most_sharing) {
  const auto made = std::make_shared<Groups>();
  Groups& out = *made;
  const Dims& dims = inputs.layout.dims;
  const Perturbation& perturbed = inputs.perturbation;
  const RankMap ranks(dims, inputs.placement, cluster.gpus_per_node());
  out.list = comm_groups(inputs.layout);
  const auto orbits = folded_only ? tensor_orbits(inputs, cluster) : topology::LinkOrbits{};
  const std::int64_t alike = out.alike = orbits.empty() ? 1 : dims.size(Dim::tensor);
  if (folded_only && tells_nobody_apart(perturbed) && !keeps_rates(inputs, cluster))
    out.replicas = alike_replicas(inputs.layout, inputs.placement, out.list, cluster, alike);
  out.shapes = group_shapes(out.list, ranks, cluster, alike, out.replicas);

  if (!folded_only) add_all_links(out.network, cluster);
  for (std::int64_t stage = 0; stage < dims.size(Dim::pipeline); ++stage) {
    out.slots.push_back(slots_of_stage(out.list, dims, stage));
    out.plan.programs.push_back({});
  }
  Communicators communicators(ranks, cluster, orbits, inputs.layout.own_routes, out);
  communicators.make();
  const auto links = folded_only ? keep_loaded_links(out.network, cluster) : std::vector<sim::LinkId>{};
  slow_down_nics(perturbed, cluster, links, out.network);

  out.plan.streams = streams_of(out.list);
  out.plan.noise = {perturbed.jitter_sigma, perturbed.jitter_seed};
  out.plan.message_noise = {perturbed.message_sigma, perturbed.message_seed};
  out.plan.loads = loads_of(perturbed.routing, inputs.layout.experts);
  std::unordered_map<std::int64_t, double> slowdown;  // by GPU
  for (const auto& slow : perturbed.slow_gpus) slowdown[slow.gpu] = slow.slowdown;
  const std::vector<std::int64_t> made_here = made_ranks(dims, alike, out.replicas);
  sim::Copies copies;
  if (out.replicas.any()) copies.links = copies_of_links(links, cluster, out.replicas.of_node);
  for (const std::int64_t rank : made_here) {
    if (out.replicas.any()) copies.instances.push_back(out.replicas.copies_of(dims, rank));
    sim::Instance instance;
    instance.program = sim::ProgramId{static_cast<std::uint32_t>(dims.place(rank, Dim::pipeline))};
    if (const auto slow = slowdown.find(ranks.gpu_of(rank)); slow != slowdown.end()) instance.slowdown = slow->second;
    instance.noise_key = static_cast<std::uint64_t>(rank);
    if (out.plan.loads.any()) place_among_experts(inputs.layout, rank, instance);
    out.plan.add_instance(instance, communicators.of(rank));
  }
  out.folded = sim::fold(out.plan, out.network, copies);
  for (sim::LinkId& link : out.folded.link_representative) link = links.empty() ? link : links[sim::index(link)];
  if (keeps_rates(inputs, cluster) && out.folded.representative.size() > most_sharing) {
    communicators.settle();
    out.folded = sim::fold(out.plan, out.network);
    out.settled = true;
  }
  for (sim::InstanceId& rank : out.folded.representative)
    rank = sim::InstanceId{static_cast<std::uint32_t>(made_here[sim::index(rank)])};
  for (std::uint32_t& size : out.folded.class_size) size *= static_cast<std::uint32_t>(alike);
  out.in_step = runs_in_step(perturbed, out);
  out.whole_passes.sure_rate = tensor_rate_limit(perturbed, out);
  if (folded_only) {
    out.plan = {};
    out.network = {};
    out.folded.class_of = {};
  }
  return made;
}

}  // namespace orrery::workloads
