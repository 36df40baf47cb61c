// Energy adds up whatever the order of things: so it is counted over the passes of every stage and the closed forms of
// traffic, and of the simulation takes the step's time alone, during which everything stands.
//
//   joules = GPUs x standing x time + sum over stages of what their kernels take beyond it
//            + bytes on links and through NICs, each read and written once at its ends + rest of the nodes x time,
//
// all over what leaves the power supplies for each watt that enters them (calibration/device/power.h has the device's
// part and its source). A GPU that waits for another draws what stands: so a node draws less, the more of a step is
// waiting. While its passes run, a board draws no more than its limit: what its constants would have it draw beyond
// that is taken off its activity.
//
// Left out: switches between nodes and their optics, storage and head nodes (a site's PUE may hold them), what
// evaluation passes and the host's work between steps draw, slow GPUs, repeated work after a failure.
#include "workloads/step/step_energy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/error.h"
#include "sim/real.h"
#include "workloads/model/optimizer_step.h"
#include "workloads/step/steady_clock.h"

namespace orrery::workloads {

namespace {

using sim::real;

std::size_t at(EnergyPart part) { return static_cast<std::size_t>(part); }

/// What one GPU does in a step.
struct Work {
  calibration::Duty passes, optimizer;
};

/// One micro-batch of every kind of layer.
std::vector<calibration::Duty> duties_of(const EnergyInputs& given, const Network& network,
                                         const calibration::DeviceProfile& device) {
  const KernelTimes times{device, given.programs.passes.gemm_rates};
  std::vector<calibration::Duty> kinds;
  for (const Layer& layer : network.kinds)
    kinds.push_back(duty_of(passes_of(layer, times, false), device, given.tensor_in_node));
  return kinds;
}

/// By stage. Kernels at the clock of the stage's device, so that their seconds are those of the step.
std::vector<Work> work_of(const EnergyInputs& given, const LayerSplit& split) {
  const ProgramInputs& inputs = given.programs;
  const auto update = [&](const DataParallelism& data, const calibration::DeviceProfile& device,
                          const StageLayout& stage, calibration::Duty& duty) {
    UpdatedWeights weights;
    add_weights(stage, data, inputs.update.optimizer, weights);
    if (inputs.update.host.in_backward) weights.held = 0;
    for (const Kernel& kernel : device_update(inputs.update.optimizer, inputs.update.precision, inputs.update.kernels,
                                              inputs.update.host, device, std::move(weights)))
      add(duty, kernel);
  };
  std::vector<Work> stages;
  std::vector<calibration::Duty> kinds;
  const calibration::DeviceProfile* of_kinds = nullptr;  // of the device before, mostly the same
  for (std::int64_t s = 0; s < inputs.map.stages(); ++s) {
    const StageLayout stage{split, inputs.map, s};
    const calibration::DeviceProfile& device = given.machine.device_of(s);
    if (of_kinds != &device) kinds = duties_of(given, split.network, device);
    of_kinds = &device;
    Work work;
    for (std::int64_t chunk = 0; chunk < stage.chunks(); ++chunk) {
      const LayerRange& range = stage.range(chunk);
      for (std::int64_t layer = range.begin; layer < range.end; ++layer)
        work.passes += kinds[split.network.layers[static_cast<std::size_t>(layer)]] * given.microbatches;
    }
    update(inputs.data, device, stage, work.optimizer);
    if (inputs.data_apart && !inputs.data_apart->is_frozen()) update(*inputs.data_apart, device, stage, work.optimizer);
    stages.push_back(work);
  }
  return stages;
}

double busy_seconds(const calibration::Duty& duty) {
  return duty.products + duty.attention + duty.elements + duty.streaming;
}
/// What a limiter takes the mean over: kernels, and what they wait for inside a pass.
double window_seconds(const calibration::Duty& duty) { return busy_seconds(duty) + duty.exchanges; }

/// `duty` in seconds at `clock`, within `limit`.
calibration::Activity within(const calibration::PowerModel& power, const calibration::Duty& duty, double clock,
                             double limit) {
  const calibration::Activity activity = activity_of(power, duty, clock);
  const double room = std::max(0.0, (limit - power.standing) * window_seconds(duty) - exchange_joules(power, duty));
  const double wanted = activity.sum();
  if (wanted <= room) return activity;
  const double share = room / wanted;
  return {activity.active * share, activity.products * share, activity.memory * share};
}

/// Bytes of a row that stay inside nodes: a ring of n ranks on k nodes sends n - k shares of n to a neighbour in its
/// node; messages between stages go where their stages are.
double share_in_nodes(const TrafficRow& row, const GroupShapes& shapes) {
  const bool pairs = row.operation == calibration::name_of(calibration::CollectiveOp::send_receive);
  if (pairs && row.among.across_stages && !shapes.pipeline_same_node.empty()) {
    const auto near = std::count(shapes.pipeline_same_node.begin(), shapes.pipeline_same_node.end(), true);
    return real(near) / static_cast<double>(shapes.pipeline_same_node.size());
  }
  const GroupShape& shape = shapes[row.among];
  if (shape.ranks <= 1) return row.level == topology::name_of(topology::Tier::node) ? 1 : 0;
  return shape.nodes <= 1 ? 1 : real(shape.ranks - shape.nodes) / real(shape.ranks);
}

}  // namespace

namespace {
/// What a GPU of the machine draws in the mean, whatever stage it is on; of several kinds the conversion is that of the
/// watts that they draw when they stand.
calibration::PowerModel mean_power(const Machine& machine, const PowerTerms& terms) {
  calibration::PowerModel mean = terms.at_temperature(machine.device.power());
  if (!machine.mixed()) return mean;
  double calibration::PowerModel::*const summed[] = {
      &calibration::PowerModel::standing, &calibration::PowerModel::host, &calibration::PowerModel::per_byte,
      &calibration::PowerModel::per_link_byte, &calibration::PowerModel::per_nic_byte};
  for (const auto part : summed) mean.*part = 0;
  double plugged = 0;
  for (std::size_t kind = 0; kind < machine.mixture.kinds(); ++kind) {
    const calibration::PowerModel power = terms.at_temperature(machine.device_of_kind(kind).power());
    const double share = real(machine.gpus_of_kind(kind)) / real(machine.gpus);
    for (const auto part : summed) mean.*part += share * power.*part;
    plugged += share * (power.standing + power.host) / power.conversion;
  }
  mean.conversion = (mean.standing + mean.host) / plugged;
  return mean;
}
}  // namespace

std::string_view name_of(EnergyPart part) {
  static constexpr std::array<std::string_view, kEnergyParts> kNames{
      "standing", "active", "products", "device_memory", "node_links", "network", "host", "conversion"};
  return kNames[at(part)];
}

double Energy::total_j() const { return std::accumulate(parts_j.begin(), parts_j.end(), 0.0); }

double Energy::gpus_j() const {
  return parts_j[at(EnergyPart::standing)] + parts_j[at(EnergyPart::active)] + parts_j[at(EnergyPart::products)] +
         parts_j[at(EnergyPart::memory)] + parts_j[at(EnergyPart::links)];
}

double Energy::grams_of(double joules) const {
  constexpr double kJoulesPerKilowattHour = 3.6e6;
  return joules / kJoulesPerKilowattHour * carbon_g_per_kwh;
}

EnergyInputs energy_inputs(const Machine& machine, const PowerTerms& terms, const Parallelism& layout,
                           std::int64_t microbatches, ProgramInputs programs) {
  return {machine, terms, std::move(programs), layout.tensor <= machine.gpus_per_node ? layout.tensor : 1,
          real(microbatches) / real(layout.schedule->copies())};
}

Energy step_energy(const EnergyInputs& inputs, const LayerSplit& split, double seconds,
                   const std::vector<TrafficRow>& traffic, const GroupShapes& shapes) {
  const calibration::PowerModel power = mean_power(inputs.machine, inputs.terms);
  Energy energy;
  energy.seconds = seconds;
  energy.gpus = real(inputs.machine.gpus);
  energy.gpus_per_node = real(inputs.machine.gpus_per_node);
  energy.pue = inputs.terms.pue;
  energy.carbon_g_per_kwh = inputs.terms.carbon_g_per_kwh;
  energy.known = inputs.machine.knows_power();
  if (!energy.known) return energy;
  SIM_CHECK(seconds > 0, "a step of {} s", seconds);
  energy.host_w = power.host;
  energy.conversion = power.conversion;
  const std::vector<Work> stages = work_of(inputs, split);
  const double ranks = energy.gpus / static_cast<double>(stages.size());
  auto& parts = energy.parts_j;
  parts[at(EnergyPart::standing)] = power.standing * seconds * energy.gpus;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const Work& work = stages[stage];
    const calibration::DeviceProfile& device = inputs.machine.device_of(static_cast<std::int64_t>(stage));
    const calibration::PowerModel own = inputs.terms.at_temperature(device.power());
    const double limit = inputs.terms.limit_of(own), clock = device.clock();
    const calibration::Activity passes = within(own, work.passes, clock, limit);
    const calibration::Activity optimizer = within(own, work.optimizer, clock, limit);
    parts[at(EnergyPart::active)] += (passes.active + optimizer.active) * ranks;
    parts[at(EnergyPart::products)] += (passes.products + optimizer.products) * ranks;
    parts[at(EnergyPart::memory)] += (passes.memory + optimizer.memory) * ranks;
    const double window = window_seconds(work.passes);
    const double busy = passes.sum() + calibration::exchange_joules(own, work.passes);
    if (window > 0) energy.busiest_gpu_w = std::max(energy.busiest_gpu_w, own.standing + busy / window);
  }
  for (const TrafficRow& row : traffic) {
    const double near = row.closed_form_bytes * share_in_nodes(row, shapes), far = row.closed_form_bytes - near;
    parts[at(EnergyPart::memory)] += 2 * power.per_byte * row.closed_form_bytes;
    parts[at(EnergyPart::links)] += power.per_link_byte * near;
    parts[at(EnergyPart::network)] += 2 * power.per_nic_byte * far;
  }
  energy.busiest_gpu_w = std::max(energy.busiest_gpu_w, energy.gpu_w());
  parts[at(EnergyPart::host)] = power.host * seconds * energy.gpus;
  parts[at(EnergyPart::conversion)] = energy.total_j() * (1 / power.conversion - 1);
  return energy;
}

}  // namespace orrery::workloads
