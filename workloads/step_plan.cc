// Instances and communicators of a step. See step_plan.h.
#include "workloads/step_plan.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <optional>

#include "sim/error.h"
#include "workloads/schedules/chunk_map.h"
#include "workloads/step_cache.h"

namespace orrery::workloads {

namespace {

using sim::CommunicatorId;
using sim::RouteId;

GroupShape worse(const GroupShape& a, const GroupShape& b) {
  GroupShape w = a;
  w.nodes = std::max(a.nodes, b.nodes);
  w.per_node = std::max(a.per_node, b.per_node);
  w.rails = std::min(a.rails, b.rails);
  w.top = std::max(a.top, b.top);
  w.hop = std::max(a.hop, b.hop);
  return w;
}

/// The data-parallel groups of one tensor and pipeline coordinate, as ranks.
struct DataGroups {
  std::vector<std::vector<std::int64_t>> shards;    // neighbours share out a state
  std::vector<std::vector<std::int64_t>> replicas;  // the same part in every group of shards
};

/// Of the first `tensors` tensor coordinates.
std::vector<DataGroups> data_groups(const Job& job, const RankMap& ranks, std::int64_t tensors) {
  const Parallelism& p = job.parallelism;
  const bool mirrored = ChunkMap(job).order() == ChunkOrder::both_ways;  // both stages of a pair are in one group
  const auto share = static_cast<std::size_t>(job.shard_ranks());
  std::vector<DataGroups> all;
  Coordinates at;
  for (at.pipeline = 0; at.pipeline < (mirrored ? p.pipeline / 2 : p.pipeline); ++at.pipeline) {
    for (at.tensor = 0; at.tensor < tensors; ++at.tensor) {
      const std::vector<std::int64_t> members = ranks.replicas(at);
      DataGroups groups;
      groups.shards.resize(members.size() / share);
      groups.replicas.resize(share);
      for (std::size_t i = 0; i < members.size(); ++i) {
        groups.shards[i / share].push_back(members[i]);
        groups.replicas[i % share].push_back(members[i]);
      }
      all.push_back(std::move(groups));
    }
  }
  return all;
}

std::vector<std::int64_t> gpus_of(const std::vector<std::int64_t>& members, const RankMap& ranks) {
  std::vector<std::int64_t> gpus;
  gpus.reserve(members.size());
  for (const std::int64_t rank : members) gpus.push_back(ranks.gpu_of(rank));
  return gpus;
}

/// Shapes of the data-parallel groups, the worst of each kind.
void add_data_shapes(const Job& job, const RankMap& ranks, const topology::Cluster& cluster, GroupShapes& shapes) {
  bool first = true;
  const auto take = [&](GroupShape& worst, const std::vector<std::int64_t>& members, bool begins) {
    const GroupShape shape = shape_of(gpus_of(members, ranks), cluster);
    worst = begins ? shape : worse(worst, shape);
  };
  for (const DataGroups& groups : data_groups(job, ranks, job.parallelism.tensor)) {
    for (std::size_t i = 0; i < groups.shards.size(); ++i) take(shapes.data, groups.shards[i], first && i == 0);
    if (groups.shards.size() > 1) {
      for (std::size_t i = 0; i < groups.replicas.size(); ++i)
        take(shapes.replicate, groups.replicas[i], first && i == 0);
    }
    first = false;
  }
}

/// Makes the communicators of a job, one per group, and hands each rank its own by what it is for.
///
/// Where the ranks of a tensor group are alike (the turn of topology::Cluster::link_orbits is a symmetry of job and
/// machine), only those with tensor coordinate 0 are made, which stand for the others too. The orbit of one of their
/// communicators puts on a link of orbit o what the one would put on it, times tensor / o.
class Communicators {
 public:
  /// `orbits`: by link, where the ranks of a tensor group are alike; else empty.
  Communicators(const Job& job, const RankMap& ranks, const topology::Cluster& cluster, const GroupShapes& shapes,
                const std::vector<std::int32_t>& orbits, Groups& out)
      : job_(job),
        ranks_(ranks),
        cluster_(cluster),
        shapes_(shapes),
        orbits_(orbits),
        alike_(orbits.empty() ? 1 : job.parallelism.tensor),
        out_(out),
        of_(kPeers * static_cast<std::size_t>(ranks.ranks() / alike_), kNobody) {}

  void make(const std::array<bool, kPeers>& used) {
    const Parallelism& p = job_.parallelism;
    const auto use = [&](Peer peer) { return used[static_cast<std::size_t>(peer)]; };
    if (use(Peer::tensor)) {
      for (std::int64_t rank = 0; rank < ranks_.ranks(); rank += p.tensor) {
        const Coordinates at = ranks_.coordinates_of(rank);
        const auto gpus = ranks_.tensor_group(at);
        if (alike_ > 1) {
          assign(Peer::tensor, rank, add(1, add_route_of_one(gpus), 1));
          continue;
        }
        const CommunicatorId id = group(gpus, shapes_.tensor, true);
        for (std::int64_t t = 0; t < p.tensor; ++t) assign(Peer::tensor, rank + t, id);
      }
    }
    if (use(Peer::context)) make_context_groups();
    if (use(Peer::data)) make_data_groups(use(Peer::replicate));
    if (use(Peer::next_activation)) {
      make_pipeline_pairs({Peer::next_activation, Peer::previous_activation, Peer::next_gradient,
                           Peer::previous_gradient, true, use(Peer::next_gradient)});
    }
    if (use(Peer::return_activation_out)) {
      make_pipeline_pairs({Peer::return_gradient_out, Peer::return_gradient_in, Peer::return_activation_in,
                           Peer::return_activation_out, use(Peer::return_gradient_out), true});
    }
    if (use(Peer::embedding)) make_embedding_pairs();
    if (use(Peer::world)) make_norm_groups();
  }

  CommunicatorId of(Peer peer, std::int64_t rank) const {
    const std::uint32_t id = of_[slot(peer, rank)];
    SIM_CHECK(id != kNobody, "rank {} has no communicator for peer {}", rank, static_cast<int>(peer));
    return CommunicatorId{id};
  }

 private:
  static constexpr std::uint32_t kNobody = 0xffffffff;
  std::size_t slot(Peer peer, std::int64_t rank) const {
    return static_cast<std::size_t>(rank / alike_) * kPeers + static_cast<std::size_t>(peer);
  }
  void assign(Peer peer, std::int64_t rank, CommunicatorId id) { of_[slot(peer, rank)] = sim::index(id); }

  CommunicatorId add(std::uint32_t members, RouteId first, std::uint32_t patterns) {
    return out_.plan.communicators.push_back({members, first, patterns, out_.plan.communicators.size()});
  }

  /// A tensor group's ring as one of its GPUs sees it: its own link out and its own link in.
  RouteId add_route_of_one(const std::vector<std::int64_t>& gpus) {
    std::vector<sim::WeightedLink> links;
    const topology::Path out = cluster_.path(gpus[0], gpus[1]), in = cluster_.path(gpus.back(), gpus[0]);
    append_path(links, {{out.links.front(), in.links.back()}, {}, {}}, 1.0, cluster_);
    return out_.network.add_route(links, {});
  }

  /// The routes from `first` on, which one communicator loads, as its whole orbit loads them.
  RouteId of_all_alike(RouteId first) {
    if (alike_ == 1) return first;
    for (std::size_t at = out_.network.route_begin[sim::index(first)]; at < out_.network.route_links.size(); ++at) {
      sim::WeightedLink& link = out_.network.route_links[at];
      link.weight *= static_cast<double>(alike_ / orbits_[sim::index(link.link)]);
    }
    return first;
  }

  /// Costs choose patterns for the worst group of a kind, so all groups of the kind get as many routes as that one
  /// needs.
  CommunicatorId group(const std::vector<std::int64_t>& gpus, const GroupShape& worst, bool all_reduces) {
    const GroupShape shape = shape_of(gpus, cluster_);
    const std::uint32_t patterns = patterns_of(worst, all_reduces);
    const RouteId first = add_group_routes(out_.network, gpus, shape, all_reduces, cluster_);
    for (std::uint32_t have = patterns_of(shape, all_reduces); have < patterns; ++have) {
      add_group_routes(out_.network, gpus, shape, false, cluster_);
    }
    of_all_alike(first);
    return add(static_cast<std::uint32_t>(gpus.size()), first, patterns);
  }

  void make_context_groups() {
    for (std::int64_t rank = 0; rank < ranks_.ranks(); rank += alike_) {
      Coordinates at = ranks_.coordinates_of(rank);
      if (at.context != 0) continue;
      const CommunicatorId id = group(ranks_.context_group(at), shapes_.context, false);
      for (; at.context < job_.parallelism.context; ++at.context) assign(Peer::context, ranks_.rank_of(at), id);
    }
  }

  void make_data_groups(bool replicate) {
    const Parallelism& p = job_.parallelism;
    const bool reduces = p.sharding == Sharding::none ||
                         (p.sharding != Sharding::parameters && job_.software.gradients.all_reduces_shards);
    for (const DataGroups& groups : data_groups(job_, ranks_, job_.parallelism.tensor / alike_)) {
      for (const auto& members : groups.shards) assign_group(Peer::data, members, shapes_.data, reduces);
      if (!replicate) continue;
      for (const auto& members : groups.replicas) assign_group(Peer::replicate, members, shapes_.replicate, true);
    }
  }

  void assign_group(Peer peer, const std::vector<std::int64_t>& members, const GroupShape& worst, bool all_reduces) {
    const CommunicatorId id = group(gpus_of(members, ranks_), worst, all_reduces);
    for (const std::int64_t rank : members) assign(peer, rank, id);
  }

  /// Which ends of the messages between a stage and the one after it: with the stream's direction, and against it.
  struct PairPeers {
    Peer down_out, down_in, up_in, up_out;
    bool down = true, up = true;
  };

  void make_pipeline_pairs(const PairPeers& peers) {
    const Parallelism& p = job_.parallelism;
    // With one chunk per stage nothing goes from the last stage round to the first, nor where chunks turn back.
    const bool around = p.virtual_pipeline > 1 && ChunkMap(job_).order() == ChunkOrder::loop;
    const std::int64_t senders = around ? p.pipeline : p.pipeline - 1;
    for (std::int64_t rank = 0; rank < ranks_.ranks(); rank += alike_) {
      Coordinates at = ranks_.coordinates_of(rank);
      if (at.pipeline >= senders) continue;
      at.pipeline = (at.pipeline + 1) % p.pipeline;
      const std::int64_t next = ranks_.rank_of(at);
      const std::int64_t from = ranks_.gpu_of(rank), to = ranks_.gpu_of(next);
      if (peers.down) {
        const CommunicatorId down = add(2, of_all_alike(add_pair_route(out_.network, from, to, cluster_)), 1);
        assign(peers.down_out, rank, down);
        assign(peers.down_in, next, down);
      }
      if (peers.up) {
        const CommunicatorId up = add(2, of_all_alike(add_pair_route(out_.network, to, from, cluster_)), 1);
        assign(peers.up_in, rank, up);
        assign(peers.up_out, next, up);
      }
    }
  }

  void make_embedding_pairs() {
    const Parallelism& p = job_.parallelism;
    for (std::int64_t rank = 0; rank < ranks_.ranks(); rank += alike_) {
      Coordinates at = ranks_.coordinates_of(rank);
      if (at.pipeline != 0) continue;
      at.pipeline = p.pipeline - 1;
      const std::int64_t last = ranks_.rank_of(at);
      const std::vector<std::int64_t> gpus{ranks_.gpu_of(rank), ranks_.gpu_of(last)};
      const CommunicatorId id = group(gpus, shapes_.embedding, true);
      assign(Peer::embedding, rank, id);
      assign(Peer::embedding, last, id);
    }
  }

  /// The gradient norm's group: all ranks when gradients are sharded, else one replica of the model. Its route is
  /// empty.
  void make_norm_groups() {
    const Parallelism& p = job_.parallelism;
    const bool whole = p.sharding != Sharding::none;
    const std::int64_t groups = whole ? 1 : p.data * p.context;
    std::vector<CommunicatorId> ids;
    for (std::int64_t g = 0; g < groups; ++g) {
      ids.push_back(add(static_cast<std::uint32_t>(ranks_.ranks() / groups / alike_),
                        out_.network.add_route({}, shapes_.world.hop), 1));
    }
    for (std::int64_t rank = 0; rank < ranks_.ranks(); rank += alike_) {
      const Coordinates at = ranks_.coordinates_of(rank);
      assign(Peer::world, rank, ids[static_cast<std::size_t>(whole ? 0 : at.data * p.context + at.context)]);
    }
  }

  const Job& job_;
  const RankMap& ranks_;
  const topology::Cluster& cluster_;
  const GroupShapes& shapes_;
  const std::vector<std::int32_t>& orbits_;
  std::int64_t alike_;  // tensor ranks that one stands for
  Groups& out_;
  std::vector<std::uint32_t> of_;
};

/// Links in tier order carry what is left of their rate when a NIC is slow: every link between that NIC's GPUs and the
/// leaf.
void slow_down_nics(const Job& job, const topology::Cluster& cluster, sim::Network& network) {
  for (const auto& slow : job.perturbation.slow_nics) {
    for (const sim::LinkId link : cluster.nic_links(slow.node, slow.nic)) network.capacity[link] *= slow.rate;
  }
}

}  // namespace

GroupShapes group_shapes(const Job& job, const RankMap& ranks, const topology::Cluster& cluster) {
  const Parallelism& p = job.parallelism;
  GroupShapes shapes;
  shapes.tensor = shape_of(ranks.tensor_group({}), cluster);
  add_data_shapes(job, ranks, cluster, shapes);
  if (p.tensor > 1) {
    for (std::int64_t rank = 0; rank < ranks.ranks(); rank += p.tensor) {
      const auto gpus = ranks.tensor_group(ranks.coordinates_of(rank));
      const bool inside = std::all_of(gpus.begin(), gpus.end(),
                                      [&](std::int64_t g) { return cluster.node_of(g) == cluster.node_of(gpus[0]); });
      if (!inside || shapes.tensor.nodes > 1) shapes.tensor = worse(shapes.tensor, shape_of(gpus, cluster));
    }
  }
  if (p.context > 1) {
    shapes.context = shape_of(ranks.context_group({}), cluster);
    for (std::int64_t rank = 0; rank < ranks.ranks(); ++rank) {
      const Coordinates at = ranks.coordinates_of(rank);
      if (at.context == 0) shapes.context = worse(shapes.context, shape_of(ranks.context_group(at), cluster));
    }
  }
  // Stage by stage: one pair that crosses nodes makes all ranks of the stage send as if it did, so that both ends
  // agree.
  shapes.pipeline_same_node.assign(static_cast<std::size_t>(p.pipeline), true);
  for (std::int64_t rank = 0; rank < ranks.ranks(); ++rank) {
    Coordinates to = ranks.coordinates_of(rank);
    const auto stage = static_cast<std::size_t>(to.pipeline);
    to.pipeline = (to.pipeline + 1) % p.pipeline;
    if (cluster.node_of(ranks.gpu_of(rank)) != cluster.node_of(ranks.gpu_of(ranks.rank_of(to))))
      shapes.pipeline_same_node[stage] = false;
  }
  for (const std::int64_t data : {std::int64_t{0}, p.data - 1}) {  // the ends of the data dimension lie farthest apart
    for (std::int64_t stage = 0; stage + 1 < p.pipeline; ++stage) {
      const Coordinates from{0, 0, data, stage}, to{0, 0, data, stage + 1};
      const auto way = cluster.way(ranks.gpu_of(ranks.rank_of(from)), ranks.gpu_of(ranks.rank_of(to)));
      shapes.pipeline_top = std::max(shapes.pipeline_top, way.top);
    }
  }
  for (std::int64_t rank = 0; rank < ranks.ranks() / p.pipeline; ++rank) {
    Coordinates last = ranks.coordinates_of(rank);
    last.pipeline = p.pipeline - 1;
    const std::vector<std::int64_t> gpus{ranks.gpu_of(rank), ranks.gpu_of(ranks.rank_of(last))};
    if (rank == 0 || cluster.node_of(gpus[0]) != cluster.node_of(gpus[1])) shapes.embedding = shape_of(gpus, cluster);
    if (shapes.embedding.nodes > 1) break;
  }
  shapes.world.ranks = p.sharding != Sharding::none ? ranks.ranks() : p.tensor * p.pipeline;
  shapes.world.nodes = (shapes.world.ranks + cluster.gpus_per_node() - 1) / cluster.gpus_per_node();
  shapes.world.per_node = std::min(shapes.world.ranks, cluster.gpus_per_node());
  if (shapes.world.nodes > 1) {
    const auto way = cluster.way(0, cluster.gpus() - 1);
    shapes.world.hop = way.latency;
    shapes.world.top = way.top;
  }
  return shapes;
}

namespace {

/// What the ranks of a stage have communicators for.
std::vector<Peer> peers_of_stage(const Job& job, const GroupShapes& shapes, std::int64_t stage) {
  const Parallelism& p = job.parallelism;
  const ChunkMap map(job);
  std::vector<Peer> peers;
  const auto have = [&](bool is_so, std::initializer_list<Peer> which) {
    for (const Peer peer : which) {
      if (is_so && std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
    }
  };
  have(p.tensor > 1, {Peer::tensor});
  have(p.context > 1, {Peer::context});
  have(job.replicas() > 1, {Peer::data});
  have(job.shard_ranks() < job.replicas(), {Peer::replicate});
  for (std::int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
    const Cell cell{stage, chunk};
    const auto crosses = [&](const std::optional<Cell>& other) { return other && other->stage != stage; };
    const bool returns = map.returns(chunk), out = crosses(map.next(cell)), in = crosses(map.previous(cell));
    have(out && !returns, {Peer::next_activation, Peer::next_gradient});
    have(in && !returns, {Peer::previous_activation, Peer::previous_gradient});
    have(out && returns, {Peer::return_activation_out, Peer::return_gradient_in});
    have(in && returns, {Peer::return_activation_in, Peer::return_gradient_out});
  }
  have(!map.ends_meet() && job.model.tied_embeddings && (stage == 0 || stage == p.pipeline - 1), {Peer::embedding});
  have(shapes.world.ranks > 1, {Peer::world});
  return peers;
}

/// Streams that the job's programs can use; the rarest come last.
std::uint8_t streams_of(const Job& job) {
  if (job.parallelism.context > 1) return static_cast<std::uint8_t>(kStreams);
  const bool returns = ChunkMap(job).order() != ChunkOrder::loop;
  return static_cast<std::uint8_t>(returns ? Stream::return_receive_gradient : Stream::pipeline_receive_gradient) + 1;
}

}  // namespace

namespace {

/// The orbits of links where the ranks of a tensor group are alike: the group's GPUs are neighbours in a node, and
/// nothing sets one apart. Empty otherwise.
std::vector<std::int32_t> tensor_orbits(const Job& job, const topology::Cluster& cluster) {
  const Perturbation& perturbed = job.perturbation;
  const std::int64_t tensor = job.parallelism.tensor;
  const bool neighbours = job.placement.kind == Placement::Kind::order && job.placement.order.front() == "tensor" &&
                          job.gpus_per_node % tensor == 0;
  const bool plain = perturbed.slow_gpus.empty() && perturbed.slow_nics.empty() && perturbed.jitter_sigma == 0 &&
                     perturbed.message_sigma == 0;
  if (tensor == 1 || !neighbours || !plain) return {};
  return cluster.link_orbits(tensor);
}

}  // namespace

std::shared_ptr<const Groups> make_groups(const Job& job, const topology::Cluster& cluster, bool folded_only) {
  const auto made = std::make_shared<Groups>();
  Groups& out = *made;
  const RankMap ranks(job);
  out.shapes = group_shapes(job, ranks, cluster);

  for (const auto& link : cluster.links()) out.network.add_link(link.capacity);
  slow_down_nics(job, cluster, out.network);

  std::array<bool, kPeers> used{};
  for (std::int64_t stage = 0; stage < job.parallelism.pipeline; ++stage) {
    out.slots.push_back(peers_of_stage(job, out.shapes, stage));
    out.plan.programs.push_back({});
    for (const Peer peer : out.slots.back()) used[static_cast<std::size_t>(peer)] = true;
  }
  const auto orbits = folded_only ? tensor_orbits(job, cluster) : std::vector<std::int32_t>{};
  const std::int64_t alike = orbits.empty() ? 1 : job.parallelism.tensor;
  Communicators communicators(job, ranks, cluster, out.shapes, orbits, out);
  communicators.make(used);

  out.plan.streams = streams_of(job);
  out.plan.noise = {job.perturbation.jitter_sigma, job.perturbation.jitter_seed};
  out.plan.message_noise = {job.perturbation.message_sigma, job.perturbation.message_seed};
  std::vector<double> slowdown(static_cast<std::size_t>(ranks.ranks()), 1.0);
  for (const auto& slow : job.perturbation.slow_gpus) slowdown[static_cast<std::size_t>(slow.gpu)] = slow.slowdown;
  std::vector<CommunicatorId> by_slot;
  for (std::int64_t rank = 0; rank < ranks.ranks(); rank += alike) {
    const auto stage = static_cast<std::size_t>(ranks.coordinates_of(rank).pipeline);
    by_slot.clear();
    for (const Peer peer : out.slots[stage]) by_slot.push_back(communicators.of(peer, rank));
    sim::Instance instance;
    instance.program = sim::ProgramId{static_cast<std::uint32_t>(stage)};
    instance.slowdown = slowdown[static_cast<std::size_t>(ranks.gpu_of(rank))];
    instance.noise_key = static_cast<std::uint64_t>(rank);
    out.plan.add_instance(instance, by_slot);
  }
  out.folded = sim::fold(out.plan, out.network);
  for (sim::InstanceId& rank : out.folded.representative)
    rank = sim::InstanceId{sim::index(rank) * static_cast<std::uint32_t>(alike)};
  for (std::uint32_t& size : out.folded.class_size) size *= static_cast<std::uint32_t>(alike);
  out.tensor_rate_limit = tensor_rate_limit(job, out);
  if (folded_only) {
    out.plan = {};
    out.network = {};
    out.folded.class_of = {};
  }
  return made;
}

StepPlan make_plan(const Job& job, const topology::Cluster& cluster, std::shared_ptr<const Groups> groups,
                   const PlanOptions& options) {
  StepPlan out;
  out.split = split_layers(job);
  out.stages = compile_programs(job, out.split, groups->shapes, groups->slots, cluster,
                                options.compact ? groups->tensor_rate_limit : 0, options.evaluation);
  out.groups = std::move(groups);
  return out;
}

PlannedStep plan_step(const Job& job) {
  StepCache cache(1);
  PlannedStep planned;
  planned.cluster = cache.cluster_of(job);
  planned.plan = make_plan(job, *planned.cluster, cache.groups_of(job), {false, true});
  return planned;
}

}  // namespace orrery::workloads
