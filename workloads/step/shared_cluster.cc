// Each job is compiled on the whole cluster, with its ranks on the GPUs that it is given; then the tables are joined.
// As every job's network lists the cluster's links first and alike, a link of one is that link of all. Where nothing
// can disturb tensor collectives inside a node, a pass is one operation behind a meeting of its tensor group: ranks
// whose messages came at different times wait for each other before the pass and not at its first collective, which
// ends it at the same instant, since all of them compute equally long ahead of that. Left out: jobs whose steps drift
// against each other (every step begins when all others begin), rates settled ahead, perturbations.
#include "workloads/step/shared_cluster.h"

#include <algorithm>
#include <limits>

#include "sim/engine.h"
#include "sim/fold.h"
#include "workloads/groups/tensor_rate_limit.h"
#include "workloads/job/step_plan.h"

namespace orrery::workloads {

namespace {

/// As the job with its ranks on GPUs of the cluster.
GroupInputs inputs_on(const PlacedJob& placed, const topology::Cluster& cluster) {
  const Job& job = *placed.job;
  const std::int64_t per_node = job.machine.gpus_per_node;
  SIM_CHECK(per_node == cluster.gpus_per_node(), "nodes of {} GPUs on a cluster of {}", per_node,
            cluster.gpus_per_node());
  SIM_CHECK(static_cast<std::int64_t>(placed.nodes.size()) * per_node == job.machine.gpus, "{} nodes for {} GPUs",
            placed.nodes.size(), job.machine.gpus);
  GroupInputs inputs = group_inputs_of(job);
  const RankMap own(inputs.layout.dims, inputs.placement, per_node);
  Placement placement;
  placement.kind = Placement::Kind::list;
  for (std::int64_t rank = 0; rank < own.ranks(); ++rank) {
    const std::int64_t gpu = own.gpu_of(rank);
    placement.gpus.push_back(placed.nodes[static_cast<std::size_t>(gpu / per_node)] * per_node + gpu % per_node);
  }
  inputs.placement = std::move(placement);
  inputs.perturbation = {};
  return inputs;
}

/// The program with a meeting of the tensor group, which takes no time, ahead of every whole pass that has collectives.
sim::Program with_meetings(const sim::Program& program, const std::vector<OpNote>& notes,
                           const std::vector<WholePassNote>& whole_passes, const std::vector<GroupSlot>& slots) {
  const auto tensor =
      std::find_if(slots.begin(), slots.end(), [](const GroupSlot& slot) { return slot.group == CommGroup::tensor; });
  if (tensor == slots.end()) return program;
  sim::Op meeting;
  meeting.kind = sim::OpKind::transfer;
  meeting.slot = static_cast<std::uint32_t>(tensor - slots.begin());
  meeting.stream = tensor->stream.order;
  meeting.category = static_cast<std::uint8_t>(tensor->category);
  sim::Program out;
  std::vector<std::uint32_t> now(program.size()), waits;
  std::uint32_t last_compute = program.size();
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    waits.clear();
    for (const std::uint32_t before : program.waits_of(op)) waits.push_back(now[before]);
    const std::uint32_t whole = notes[op].whole;
    if (whole != kNoWholePass && !whole_passes[whole].transfers.empty()) {
      if (last_compute < program.size()) waits.push_back(now[last_compute]);
      waits.push_back(out.add(meeting, waits));
    }
    now[op] = out.add(program.op_at(op), waits);
    if (program.kind[op] == sim::OpKind::compute) last_compute = op;
  }
  return out;
}

/// The job's groups and programs on the cluster, passes as one operation each where nothing can disturb them.
StepPlan plan_on(const PlacedJob& placed, const topology::Cluster& cluster) {
  const auto groups = make_groups(inputs_on(placed, cluster), cluster, false, std::numeric_limits<std::size_t>::max());
  const auto met = std::make_shared<Groups>(*groups);
  met->whole_passes.sure_rate = tensor_rate_limit(met->plan, met->network, met->slots, false);
  StepPlan step = make_plan(*placed.job, cluster, met, {Workload::training_step, true});
  for (std::size_t stage = 0; stage < step.stages.programs.size(); ++stage) {
    step.stages.programs[stage] = with_meetings(step.stages.programs[stage], step.stages.notes[stage],
                                                step.stages.whole_passes, met->slots[stage]);
  }
  return step;
}

/// Adds a job's tables behind those that are there.
void append(const sim::Plan& plan, const sim::Network& network, std::vector<sim::Program>&& programs, SharedPlan& out) {
  const auto first_program = static_cast<std::uint32_t>(out.plan.programs.size());
  const auto first_communicator = static_cast<std::uint32_t>(out.plan.communicators.size());
  const auto first_route = static_cast<std::uint32_t>(out.network.routes());
  out.plan.streams = std::max(out.plan.streams, plan.streams);
  for (sim::Program& program : programs) out.plan.programs.push_back(std::move(program));
  for (std::uint32_t r = 0; r < network.routes(); ++r) {
    const sim::RouteId route{r};
    out.network.add_route(network.links_of(route), network.route_latency[r]);
  }
  for (sim::Communicator communicator : plan.communicators) {
    communicator.first_route = sim::RouteId{first_route + sim::index(communicator.first_route)};
    out.plan.communicators.push_back(communicator);
  }
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i) {
    const sim::InstanceId id{i};
    sim::Instance instance = plan.instances[id];
    instance.program = sim::ProgramId{first_program + sim::index(instance.program)};
    std::vector<sim::CommunicatorId> slots;
    for (const sim::CommunicatorId communicator : plan.slots_of(id))
      slots.push_back(sim::CommunicatorId{first_communicator + sim::index(communicator)});
    out.plan.add_instance(instance, slots);
  }
}

}  // namespace

SharedPlan share(std::span<const PlacedJob> jobs, const topology::Cluster& cluster) {
  SharedPlan out;
  std::vector<bool> taken(static_cast<std::size_t>(cluster.nodes()), false);
  for (const auto& link : cluster.links()) out.network.add_link(link.capacity);
  for (const PlacedJob& placed : jobs) {
    for (const std::int64_t node : placed.nodes) {
      SIM_CHECK(node >= 0 && node < cluster.nodes(), "node {} of {}", node, cluster.nodes());
      SIM_CHECK(!taken[static_cast<std::size_t>(node)], "node {} serves two jobs", node);
      taken[static_cast<std::size_t>(node)] = true;
    }
    StepPlan step = plan_on(placed, cluster);
    out.first_instance.push_back(static_cast<std::uint32_t>(out.plan.instances.size()));
    append(step.groups->plan, step.groups->network, std::move(step.stages.programs), out);
  }
  out.first_instance.push_back(static_cast<std::uint32_t>(out.plan.instances.size()));
  return out;
}

std::vector<sim::Duration> steps_together(std::span<const PlacedJob> jobs, const topology::Cluster& cluster) {
  const SharedPlan shared = share(jobs, cluster);
  const sim::Folded folded = sim::fold(shared.plan, shared.network);
  const sim::Result result = sim::run(folded.plan, folded.network);
  SIM_CHECK(result.outcome == sim::Outcome::finished, "the schedules of {} jobs lock up", jobs.size());
  std::vector<sim::Duration> steps(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (std::uint32_t i = shared.first_instance[j]; i < shared.first_instance[j + 1]; ++i) {
      const sim::SimTime finish = result.last_finish[folded.class_of[sim::InstanceId{i}]];
      steps[j] = std::max(steps[j], finish - sim::SimTime{});
    }
  }
  return steps;
}

}  // namespace orrery::workloads
