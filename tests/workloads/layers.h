// Layers of a job for tests: their passes and the bytes that they keep.
#pragma once

#include "workloads/job/job.h"
#include "workloads/job/step_passes.h"
#include "workloads/memory/memory.h"
#include "workloads/model/kept.h"
#include "workloads/model/passes.h"
#include "workloads/traffic/closed_form_parameters.h"

namespace orrery::tests {

struct Layers {
  std::int64_t blocks = 0;
  bool embedding = false, head = false;
};

/// The passes over these layers, one after the other, in both forms of the backward pass.
inline workloads::LayerPasses passes_over(const workloads::Job& job, const Layers& layers) {
  using namespace workloads;
  const Network network = network_of(job);
  std::vector<LayerPasses> in_order;
  const auto add = [&](LayerKind kind, std::int64_t times) {
    for (const Layer& layer : network.kinds) {
      for (std::int64_t i = 0; layer.kind == kind && i < times; ++i)
        in_order.push_back(passes_of(layer, {job.machine.device, job.software.layers.linear.rates}, true));
    }
  };
  add(LayerKind::embedding, layers.embedding);
  add(LayerKind::block, layers.blocks);
  add(LayerKind::head, layers.head);
  LayerPasses all;
  const auto append = [](Pieces& to, const Pieces& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (auto layer = in_order.begin(); layer != in_order.end(); ++layer) append(all.forward, layer->forward);
  for (auto layer = in_order.rbegin(); layer != in_order.rend(); ++layer) {
    append(all.backward, layer->backward);
    append(all.input_gradient, layer->input_gradient);
    append(all.weight_gradient, layer->weight_gradient);
  }
  return all;
}

inline workloads::PassBytes block_bytes(const workloads::Job& job) {
  return workloads::bytes_of(workloads::network_of(job).layer(1));
}

/// By the closed form.
inline workloads::ShardParameters shard_parameters(const workloads::Job& job) {
  return workloads::shard_parameters(job.model, job.parallelism.tensor, job.software.layers.head.pads_vocabulary,
                                     job.parallelism.chunk_map().ends_meet());
}

/// What a stage holds at its high-water mark.
inline workloads::InFlight in_flight(const workloads::Job& job, const workloads::LayerSplit& split,
                                     std::int32_t stage) {
  const auto at = static_cast<std::size_t>(stage);
  const workloads::Schedule& schedule = *job.parallelism.schedule;
  const workloads::StageOrders orders = schedule.splits_backward()
                                            ? workloads::step_passes(job, split)
                                            : workloads::first_rounds(schedule, job.pipeline_shape());
  const workloads::ChunkMap map = job.parallelism.chunk_map();
  return workloads::in_flight({split, map, stage}, orders[at],
                              workloads::chunk_bytes(split, map, job.software.memory, job.method.precision)[at]);
}

}  // namespace orrery::tests
