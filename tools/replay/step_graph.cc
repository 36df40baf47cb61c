// Programs as graphs. The engine runs kernels k of an operation so that it finishes at max(t0 + sum d_k, h0 + max_k
// (c_k + sum_{j>=k} d_j)) with c_k the host's time up to the k-th launch: exactly what nodes give that wait for their
// launch and for the kernel before. Left out: slow GPUs and noise, which are the machine's and no part of a program.
#include "tools/replay/step_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/error.h"
#include "tools/replay/members.h"
#include "workloads/job/job_values.h"
#include "workloads/job/step_plan.h"
#include "workloads/step/step.h"
#include "workloads/step/step_cache.h"

namespace orrery::tools {

using workloads::Timeline;

namespace {

class StepGraph {
 public:
  StepGraph(const workloads::StepPlan& plan, const Members& members, const Timeline& timeline)
      : plan_(plan),
        members_(members),
        timeline_(timeline),
        program_(plan.stages.programs[static_cast<std::size_t>(timeline.stage)]),
        writer_(graph_) {
    graph_.rank = timeline.rank;
    graph_.file = fmt::format("rank {}", timeline.rank);
    host_ = writer_.lane("host");
  }

  RankGraph run() {
    SIM_CHECK(timeline_.spans.size() == program_.size(), "{} spans of {} operations", timeline_.spans.size(),
              program_.size());
    for (std::uint32_t op = 0; op < program_.size(); ++op) {
      if (program_.kind[op] == sim::OpKind::compute)
        add_kernels(op);
      else
        add_call(op);
      if (program_.host_waits[op] != 0) blocks_on_ = done_.back();
    }
    graph_.traced = sim::Duration(end_);
    return std::move(graph_);
  }

 private:
  std::uint32_t add_host(const std::string& name, sim::Duration time, std::int64_t at) {
    GraphNode node;
    node.kind = NodeKind::host;
    node.lane = host_;
    node.name = writer_.name(name);
    node.duration = time;
    node.traced = at;
    if (blocks_on_) node.waits.push_back(*blocks_on_);
    blocks_on_.reset();
    return writer_.add(std::move(node));
  }

  GraphNode device_node(std::uint32_t op, NodeKind kind) {
    const Timeline::Span& span = timeline_.spans[op];
    GraphNode node;
    node.kind = kind;
    node.lane = writer_.lane(std::string(span.stream.name));
    for (const std::uint32_t wait : program_.waits_of(op)) node.waits.push_back(done_[wait]);
    end_ = std::max(end_, span.finish.value());
    return node;
  }

  void add_kernels(std::uint32_t op) {
    const Timeline::Span& span = timeline_.spans[op];
    const sim::Duration issue(program_.issue[op]), whole(program_.duration[op]);
    sim::Duration launches{}, kernels{};
    for (const workloads::KernelSlice& kernel : span.kernels) launches += kernel.host + kernel.issue;
    const bool one_by_one = launches.value() > 0 && launches <= issue;
    std::int64_t host_at = span.host.from.value(), at = span.start.value();
    const auto host = [&](const std::string& name, sim::Duration time) {
      const std::uint32_t node = add_host(name, time, host_at);
      host_at += time.value();
      return node;
    };
    const auto device = [&](const std::string& name, sim::Duration time, std::uint32_t launch) {
      GraphNode node = device_node(op, NodeKind::compute);
      node.name = writer_.name(name);
      node.duration = time;
      node.traced = at;
      node.waits.push_back(launch);
      at += time.value();
      return writer_.add(std::move(node));
    };
    if (!one_by_one) {
      const sim::Duration before(std::clamp<std::int64_t>(program_.issue_bound[op] - whole.value(), 0, issue.value()));
      const std::uint32_t launch = host("launch", before);
      done_.push_back(device(span.kernels.front().name, whole, launch));
      if (issue > before) host("host work", issue - before);
      return;
    }
    if (issue > launches) host("host work", issue - launches);
    std::uint32_t last = 0;
    for (std::size_t k = 0; k < span.kernels.size(); ++k) {
      const workloads::KernelSlice& kernel = span.kernels[k];
      const bool is_last = k + 1 == span.kernels.size();
      const sim::Duration time = is_last ? whole - kernels : std::min(kernel.duration, whole - kernels);
      kernels += time;
      if (kernel.host > sim::Duration{}) host("host work", kernel.host);
      const std::uint32_t launch = host("launch", kernel.issue);
      last = device(kernel.name, time, launch);
    }
    done_.push_back(last);
  }

  void add_call(std::uint32_t op) {
    const Timeline::Span& span = timeline_.spans[op];
    const auto stage = static_cast<std::size_t>(timeline_.stage);
    const workloads::OpNote& note = plan_.stages.notes[stage][op];
    const workloads::TrafficKey& key = plan_.stages.traffic[note.traffic];
    const workloads::GroupSlot& slot = plan_.groups->slots[stage][program_.slot[op]];
    const std::vector<std::int64_t> ranks = members_.of_slot(timeline_.rank, slot);
    const std::uint32_t launch = add_host("launch", sim::Duration(program_.issue[op]), span.host.from.value());
    const bool message = slot.end != workloads::End::member;
    GraphNode node = device_node(op, !message                            ? NodeKind::collective
                                     : slot.end == workloads::End::sends ? NodeKind::send
                                                                         : NodeKind::receive);
    node.name = writer_.name(fmt::format("{} ({})", calibration::name_of(key.op), key.what));
    node.op = key.op;
    node.bytes = key.bytes * note.share;
    node.duration = span.finish - span.start;
    node.traced = span.start.value();
    node.waits.push_back(launch);
    if (message) {
      node.peer = slot.end == workloads::End::sends ? ranks.back() : ranks.front();
      node.tag = slot.group.order;
    } else {
      node.group = writer_.group({std::string(slot.group.name), ranks, static_cast<std::int64_t>(ranks.size())});
    }
    done_.push_back(writer_.add(std::move(node)));
  }

  const workloads::StepPlan& plan_;
  const Members& members_;
  const Timeline& timeline_;
  const sim::Program& program_;
  RankGraph graph_;
  GraphWriter writer_;
  std::int32_t host_ = 0;
  std::vector<std::uint32_t> done_;  // by operation: the node that ends it
  std::optional<std::uint32_t> blocks_on_;
  std::int64_t end_ = 0;
};

}  // namespace

std::vector<RankGraph> graphs_of_step(const scenarios::Scenario& scenario, const std::vector<std::int64_t>& ranks) {
  const auto& job = scenario.job;
  SIM_CHECK(ranks.size() <= kRanksAtOnce, "{} graphs at once", ranks.size());
  workloads::Question options;
  options.timelines = ranks;
  const workloads::StepReport report = workloads::simulate_step(job, options);
  workloads::StepCache cache(1);
  const auto cluster = cache.cluster_of(workloads::site_of(job));
  const workloads::StepPlan plan =
      workloads::make_plan(job, *cluster, cache.groups_of(cluster, workloads::group_inputs_of(job)));
  const Members members(workloads::group_layout_of(job));
  std::vector<RankGraph> graphs;
  for (const Timeline& timeline : report.timelines) graphs.push_back(StepGraph(plan, members, timeline).run());
  return graphs;
}

}  // namespace orrery::tools
