// See steady_clock.h.
#include "workloads/step/steady_clock.h"

#include <algorithm>

#include "sim/real.h"
#include "workloads/collectives/collective.h"

namespace orrery::workloads {

using sim::real;

namespace {

void add_pieces(calibration::Duty& duty, const Pieces& pieces, const calibration::DeviceProfile& device,
                std::int64_t tensor_in_node) {
  for (const Piece& piece : pieces) {
    for (const Kernel& kernel : piece.kernels) add(duty, kernel);
    if (!piece.is_comm() || !(piece.group == CommGroup::tensor) || tensor_in_node <= 1) continue;
    duty.sent += wire_bytes(piece.op, tensor_in_node, piece.bytes);
    if (piece.overlap != CommOverlap::none) continue;
    const sim::Bytes bytes(static_cast<std::int64_t>(piece.bytes));
    duty.exchanges += sim::to_seconds(device.node_collective(piece.op, tensor_in_node, bytes).total());
  }
}

}  // namespace

void add(calibration::Duty& duty, const Kernel& kernel) {
  (kernel.attention     ? duty.attention
   : kernel.flops > 0   ? duty.products
   : kernel.by_elements ? duty.elements
                        : duty.streaming) += sim::to_seconds(kernel.time);
  (kernel.attention ? duty.attention_flops : duty.flops)[static_cast<std::size_t>(kernel.type)] += kernel.flops;
  duty.bytes += kernel.bytes;
}

calibration::Duty duty_of(const LayerPasses& passes, const calibration::DeviceProfile& device,
                          std::int64_t tensor_in_node) {
  calibration::Duty duty;
  add_pieces(duty, passes.forward, device, tensor_in_node);
  add_pieces(duty, passes.backward, device, tensor_in_node);
  return duty;
}

calibration::Duty duty_of(const Network& network, const KernelTimes& times, std::int64_t tensor_in_node) {
  std::vector<double> layers(network.kinds.size());
  for (const std::uint8_t kind : network.layers) layers[kind] += 1;
  calibration::Duty sum;
  for (std::size_t kind = 0; kind < network.kinds.size(); ++kind) {
    sum += duty_of(passes_of(network.kinds[kind], times, false), times.device, tensor_in_node) * layers[kind];
  }
  return sum;
}

Job at_steady_clock(Job job) {
  const std::int64_t tensor = job.parallelism.tensor;
  PowerTerms& terms = job.power;
  terms.pace_spread = terms.cooled_k = 0;
  terms.rows.clear();
  double mean_k = 0;  // over the rows of the machine's own device, which are the last to be looked at
  const auto steady = [&](const calibration::DeviceProfile& any) {
    const calibration::DeviceProfile device = any.at_clock(1);
    const calibration::PowerModel& own = device.power();
    terms.cooled_k = 0;
    double limit = terms.limit_of(own);
    if (!own.known() || (!own.governs && limit == own.limit)) return device;
    const calibration::Duty duty = duty_of(network_of(job), {device, job.software.layers.linear.rates},
                                           tensor <= job.machine.gpus_per_node ? tensor : 1);
    // Factors that were measured under a limit of the device's own hold what that one leaves.
    const double held = own.governs ? 1 : calibration::clock_within_limit(own, duty);
    if (terms.cooling.known()) {
      calibration::PowerModel capped = own;
      capped.limit = limit;
      terms.rows = warm_rows(terms.cooling, capped, own.limit, terms.leakage_per_k, terms.warmer_k, duty);
      const double reference = reference_temperature_c(own.limit);
      const WarmRow& slowest = *std::min_element(terms.rows.begin(), terms.rows.end(),
                                                 [](const WarmRow& a, const WarmRow& b) { return a.clock < b.clock; });
      mean_k = 0;
      for (const WarmRow& row : terms.rows) mean_k += (row.temperature_c - reference) / real(terms.rows.size());
      terms.cooled_k = slowest.temperature_c - reference;  // the others wait for it
      limit = slowest.limit_w;
    }
    const auto board_of = [&](double kelvin) {
      calibration::PowerModel board = terms.at_temperature(own, kelvin);
      board.limit = limit;
      return board;
    };
    if (const double sigma = terms.temperature_spread_k; sigma > 0) {
      // Half of what kernels take longer on a board one standard deviation above the mean than on one as far below.
      const auto seconds = [&](double kelvin) {
        const calibration::PowerModel board = board_of(kelvin);
        return calibration::seconds_at(board, duty, calibration::clock_within_limit(board, duty));
      };
      terms.pace_spread = std::max(terms.pace_spread, (seconds(sigma) - seconds(-sigma)) / 2 / seconds(0));
    }
    return device.at_clock(calibration::clock_within_limit(board_of(0), duty) / held);
  };
  for (OtherKind& other : job.machine.mixture.others) other.device = steady(other.device);
  mean_k = 0;
  terms.rows.clear();
  job.machine.device = steady(job.machine.device);
  terms.cooled_k = mean_k;
  return job;
}

Job SteadyClocks::of(Job job) {
  if (job.machine.mixed()) return at_steady_clock(std::move(job));
  Key key{split_of(job), computation_of(job), job.model};
  const Split& split = key.split;
  const Number number{split.tensor,      split.context,           split.expert,
                      split.micro_batch, split.sequence_parallel, key.computation.recompute};
  const auto same = [&](const auto& known) { return known.first == key; };
  {
    const std::lock_guard lock(mutex_);
    const auto& alike = known_[number];
    if (const auto found = std::find_if(alike.begin(), alike.end(), same); found != alike.end()) {
      job.machine.device = found->second.device;
      job.power = found->second.power;
      return job;
    }
  }
  job = at_steady_clock(std::move(job));
  const std::lock_guard lock(mutex_);  // two threads that miss the same one both add it
  known_[number].emplace_front(std::move(key), Steady{job.machine.device, job.power});
  return job;
}

}  // namespace orrery::workloads
