// Copies between device and host as operations of a program. See host_copies.h.
#include "workloads/compile/host_copies.h"

#include <algorithm>
#include <utility>

#include "sim/real.h"

namespace orrery::workloads {

double HostCopies::least_seconds(double updated) const {
  if (!any()) return 0;
  const double n = updated * states.optimizer;
  const double down = in_backward ? 0 : n * bytes.gradient / rates.link;
  const double up = states.parameters ? 0 : n * bytes.parameter / rates.link;
  const double update = n * bytes.update / rates.memory;
  return states.overlaps ? std::max({down, up, update}) : down + up + update;
}

HostCopies::Widths host_widths(OptimizerKind optimizer, const Precision& precision,
                               const calibration::OptimizerStyle& style, bool parameters) {
  const double element = calibration::bytes_of(precision.activations);
  const bool follow = style.follows_weights(), own = follow || precision.activations == calibration::DataType::fp32;
  const double master = follow ? element : 4;
  const double moment = follow ? element : style.states == calibration::OptimizerStates::moments_16bit ? 2 : 4;
  const double moments = optimizer == OptimizerKind::sgd ? moment : state_bytes(optimizer, precision, style).of_others;
  HostCopies::Widths bytes;
  bytes.gradient = master;
  bytes.sum = element;
  bytes.states = (own ? 0 : master) + moments;
  // Weights of FSDP are the master weights, which the device casts; others are cast ahead, into a buffer.
  const bool casts = !own && !style.host_adds();
  bytes.parameter = casts ? element : master;
  bytes.update = 2 * (master + moments) + bytes.gradient + (casts ? master + element : 0);
  // The norm reads gradients that lie with the host, and clipping reads and writes them
  // (pytorch/pytorch, torch/nn/utils/clip_grad.py).
  if (style.host_adds()) bytes.update += 3 * bytes.gradient;
  // States, gradients, and what is copied in 16 bits, or the weights that are updated as they are.
  const bool keeps = casts && (style.leaves_in_passes() || parameters);
  bytes.held = bytes.states + bytes.gradient + (keeps || own ? element : 0);
  return bytes;
}

std::vector<Kernel> device_update(OptimizerKind optimizer, const Precision& precision,
                                  const calibration::OptimizerStyle& style, const HostCopies& host,
                                  const calibration::DeviceProfile& device, UpdatedWeights weights) {
  const double share = 1 - host.states.optimizer;
  if (host.any()) weights.updated *= share;
  std::vector<Kernel> kernels = optimizer_kernels(optimizer, precision, style, device, weights);
  if (host.any() && share <= 0)
    kernels.resize(style.clears_gradients() ? 1 : 0);  // gradients are cleared, where they were added up
  if (kernels.empty()) {  // what follows the passes needs an operation to follow, of no launch and no time
    Kernel nothing{"no states on the device"};
    nothing.launches = 0;
    kernels.push_back(std::move(nothing));
  }
  return kernels;
}

std::uint32_t HostLane::copy(const CommGroup& group, double bytes, const char* what,
                             std::span<const std::uint32_t> waits, bool host_waits) {
  ProgramWriter::Transfer t{group};
  t.cost.work = bytes;
  t.cost.rate_cap = copies_.rates.link;
  t.host_waits = host_waits;
  t.traffic = library_.traffic({group, CollectiveOp::send_receive, what, 1, bytes, bytes});
  return writer_.transfer(t, waits);
}

/// The host thread itself is at work: it issues nothing meanwhile.
std::uint32_t HostLane::run(double bytes, const char* what, std::span<const std::uint32_t> waits) {
  ProgramWriter::Transfer t{CommGroup::host};
  t.cost.work = bytes;
  t.cost.rate_cap = copies_.rates.memory;
  t.host_waits = true;
  t.issue = sim::Duration{};
  t.traffic = library_.traffic({CommGroup::host, CollectiveOp::send_receive, what, 1, bytes, 0});
  return writer_.transfer(t, waits);
}

std::uint32_t HostLane::gradients(double parameters, bool first, bool last, std::span<const std::uint32_t> waits) {
  const double n = parameters * copies_.states.optimizer;
  if (copies_.adds_up) {
    const std::uint32_t sent =
        copy(CommGroup::to_host, n * copies_.bytes.gradient, "gradients, to the host", waits, !first);
    return first ? sent : run(n * 3 * copies_.bytes.gradient, "gradients, added up by the host", {&sent, 1});
  }
  if (first && last) return copy(CommGroup::to_host, n * copies_.bytes.gradient, "gradients, to the host", waits);
  std::uint32_t op = 0;
  if (!first) {
    op = copy(CommGroup::from_host, n * copies_.bytes.sum, "gradients, back from the host", waits);
    waits = {&op, 1};
  }
  const std::uint32_t sum = copy(CommGroup::to_host, n * copies_.bytes.sum, "gradients, to the host", waits);
  if (!last) return sum;
  return copy(CommGroup::to_host, n * copies_.bytes.gradient, "gradients, to the host", {&sum, 1});
}

std::uint32_t HostLane::weights(double parameters, std::span<const std::uint32_t> waits) {
  return copy(CommGroup::from_host, parameters * copies_.bytes.parameter, "parameters, from the host", waits);
}

std::uint32_t HostLane::frozen_weights(double bytes, std::span<const std::uint32_t> waits) {
  return copy(CommGroup::from_host, bytes, "frozen parameters, from the host", waits);
}

void HostLane::send_gradients(double parameters, std::int64_t pieces) {
  const double n = parameters * copies_.states.optimizer / sim::real(pieces);
  const std::span<const std::uint32_t> ready = writer_.ready_to_compute();
  const std::vector<std::uint32_t> waits(ready.begin(), ready.end());
  for (std::int64_t i = 0; i < pieces; ++i)
    sent_.push_back(copy(CommGroup::to_host, n * copies_.bytes.gradient, "gradients, to the host", waits));
}

std::uint32_t HostLane::update(double parameters, std::int64_t pieces, std::span<const std::uint32_t> left) {
  const double n = parameters * copies_.states.optimizer / sim::real(pieces);
  std::uint32_t last = 0;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const bool sent = !sent_.empty();
    const std::span<const std::uint32_t> waits =
        sent ? std::span<const std::uint32_t>(&sent_[static_cast<std::size_t>(i)], 1) : left;
    last = run(n * copies_.bytes.update, "states, updated by the host", waits);
    if (copies_.states.parameters) continue;
    last = copy(CommGroup::from_host, n * copies_.bytes.parameter, "parameters, from the host", {&last, 1});
  }
  sent_.clear();
  return last;
}

}  // namespace orrery::workloads
