// A job as the values that the compiler takes: each says what one part of it has to know, and no part sees the job.
#pragma once

#include "workloads/compile/layer_split.h"
#include "workloads/compile/stage_program.h"
#include "workloads/groups/groups.h"
#include "workloads/job/job.h"

namespace orrery::workloads {

/// The layers of a job: its schedule says where blocks lie, parallelism.stage_layers how many layers each holds.
LayerSplit split_layers(const Job& job);
DataParallelism data_parallelism_of(const Job& job);
/// Bytes/s of a node's memory where its document says none: two processors of eight channels of DDR4-2666 would have
/// 341 GB/s, one of six 128; the default of node.host_memory_rate.
inline constexpr double kHostMemoryRate = 200e9;
/// What of its states lies with the host and how it gets there: nothing where the job says nothing.
HostCopies host_copies_of(const Method& method, const calibration::OptimizerStyle& style, const Machine& machine);
/// Data parallelism of what goes another way than the rest. Routed experts, which the ranks of `owners` hold alike:
/// nothing where the model has none, or only adapters are trained. Frozen weights beside adapters, which are gathered
/// for every pass and never reduced: nothing where every rank holds them all; routed ones are told apart where expert
/// ranks share them out.
struct DataApart {
  std::optional<DataParallelism> experts, frozen, frozen_experts;
};
DataApart data_apart_of(const DataParallelism& data, const Job& job);
MessageStyle message_style_of(const Job& job);
ProgramInputs program_inputs_of(const Job& job, const Workload& workload);
/// Whether every pass ends in an all-reduce of the scales of fp8 tensors among tensor and data ranks.
bool reduces_scales(const calibration::GradientReduction& reduction, DataType matmul, std::int64_t replicas);
/// Standard deviation of GPUs' pace, over the mean: the fleet's own and that of their temperatures, independent.
double pace_spread_of(const Machine& machine, const PowerTerms& power);
/// The pace of the ranks that wait for each other in a step of so many micro-batches, over that of a GPU of the mean
/// (slowest.h).
double slowest_of(double spread, const Parallelism& parallelism, std::int64_t microbatches);
GroupLayout group_layout_of(const Job& job);
GroupInputs group_inputs_of(const Job& job);

}  // namespace orrery::workloads
