// A bare pipeline for tests: orders of passes with given times run on the engine, with messages of a fixed time that
// share nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "sim/engine.h"
#include "workloads/schedules/chunk_map.h"
#include "workloads/schedules/schedule.h"

namespace orrery::tests {

/// Times of the passes of every cell, in picoseconds.
struct PassPs {
  std::int64_t forward = 1, input_gradient = 1, weight_gradient = 1;
  std::int64_t all() const { return forward + input_gradient + weight_gradient; }
  std::int64_t of(workloads::PassKind kind) const {
    switch (kind) {
      case workloads::PassKind::forward:
        return forward;
      case workloads::PassKind::input_gradient:
        return input_gradient;
      case workloads::PassKind::weight_gradient:
        return weight_gradient;
      default:
        return input_gradient + weight_gradient;
    }
  }
};

struct Ran {
  bool finished = false;
  std::int64_t makespan = 0;  // ps
  std::int64_t longest = 0;   // the longest time from a stage's first pass to its last
};

/// Time of the n-th pass of a stage, in picoseconds.
using TimeOf = std::function<std::int64_t(std::size_t stage, std::size_t n, const workloads::Pass&)>;

/// Writes the program of one stage; each line (cell that sends, kind of message) is a communicator of its own.
class StageWriter {
 public:
  using Line = std::tuple<std::int64_t, std::int64_t, bool>;  // stage and chunk that send; gradient
  StageWriter(std::size_t stage, const workloads::ChunkMap& map)
      : stage_(static_cast<std::int64_t>(stage)), map_(map) {}

  void receive(const workloads::Pass& pass) {
    if (pass.kind == workloads::PassKind::weight_gradient) return;
    const bool gradient = pass.kind != workloads::PassKind::forward;
    const workloads::Cell cell{stage_, pass.chunk};
    const auto source = gradient ? map_.next(cell) : map_.previous(cell);
    if (source && source->stage != stage_) next_waits_.push_back(message({source->stage, source->chunk, gradient}, {}));
  }
  void compute(std::int64_t ps) {
    sim::Op op;
    op.duration = sim::Duration(ps);
    last_ = program.add(op, next_waits_);
    computes.push_back(last_);
    next_waits_.clear();
  }
  void send(const workloads::Pass& pass) {
    if (pass.kind == workloads::PassKind::weight_gradient) return;
    const bool gradient = pass.kind != workloads::PassKind::forward;
    const workloads::Cell cell{stage_, pass.chunk};
    const auto target = gradient ? map_.previous(cell) : map_.next(cell);
    if (target && target->stage != stage_) message({stage_, pass.chunk, gradient}, {last_});
  }

  sim::Program program;
  std::vector<Line> lines;  // by slot
  std::vector<std::uint32_t> computes;

 private:
  std::uint32_t message(const Line& line, const std::vector<std::uint32_t>& waits) {
    const auto at = std::find(lines.begin(), lines.end(), line);
    sim::Op op;
    op.kind = sim::OpKind::transfer;
    op.slot = static_cast<std::uint32_t>(at - lines.begin());
    op.stream = static_cast<std::uint8_t>(op.slot + 1);
    if (at == lines.end()) lines.push_back(line);
    return program.add(op, waits);
  }
  std::int64_t stage_;
  const workloads::ChunkMap& map_;
  std::uint32_t last_ = 0;
  std::vector<std::uint32_t> next_waits_;
};

inline Ran run_pipeline(const workloads::StageOrders& orders, const workloads::ChunkMap& map, const TimeOf& time,
                        std::int64_t message_ps = 0) {
  sim::Plan plan;
  sim::Network network;
  const sim::RouteId route = network.add_route({}, sim::Duration(message_ps));
  std::map<StageWriter::Line, sim::CommunicatorId> communicators;
  sim::RunOptions options;
  std::vector<std::vector<std::uint32_t>> computes;
  std::size_t streams = 1;
  for (std::size_t s = 0; s < orders.size(); ++s) {
    StageWriter writer(s, map);
    for (std::size_t n = 0; n < orders[s].size();) {
      const std::size_t together = orders[s][n].with_next ? 2 : 1;
      for (std::size_t i = n; i < n + together; ++i) writer.receive(orders[s][i]);
      for (std::size_t i = n; i < n + together; ++i) writer.compute(time(s, i, orders[s][i]));
      for (std::size_t i = n; i < n + together; ++i) writer.send(orders[s][i]);
      n += together;
    }
    std::vector<sim::CommunicatorId> slots;
    for (const auto& line : writer.lines) {
      if (!communicators.contains(line)) communicators[line] = plan.communicators.push_back({2, route, 1});
      slots.push_back(communicators[line]);
    }
    streams = std::max(streams, slots.size() + 1);
    const sim::ProgramId id = plan.programs.push_back(writer.program);
    options.record.push_back(plan.add_instance({id, 1.0, 0}, slots));
    computes.push_back(writer.computes);
  }
  plan.streams = static_cast<std::uint8_t>(streams);
  const sim::Result result = sim::run(plan, network, options);
  Ran ran;
  ran.finished = result.outcome == sim::Outcome::finished;
  ran.makespan = result.makespan.value();
  for (std::size_t s = 0; ran.finished && s < orders.size(); ++s) {
    const sim::Record& record = result.records[s];
    ran.longest =
        std::max(ran.longest, record.finish[computes[s].back()].value() - record.start[computes[s].front()].value());
  }
  return ran;
}

/// A pipeline of p stages and m micro-batches with the schedule's chunks, two where it takes any number.
inline workloads::PipelineShape shape_for(const workloads::Schedule& schedule, std::int32_t p, std::int32_t m) {
  return {p, schedule.chunks == workloads::kAnyChunks ? 2 : static_cast<std::int32_t>(schedule.chunks), m};
}

/// Most chunks whose activations a stage holds at once: from the forward pass to the last backward pass of each.
inline std::int64_t most_held(const workloads::StageOrders& orders) {
  std::int64_t most = 0;
  for (const auto& passes : orders) {
    std::int64_t held = 0;
    for (const workloads::Pass& pass : passes) {
      if (pass.kind == workloads::PassKind::forward) ++held;
      if (workloads::ends_microbatch(pass.kind)) --held;
      most = std::max(most, held);
    }
  }
  return most;
}

}  // namespace orrery::tests
