// What a profile says of the machine that it was measured on, where a framework's numbers are made: generations' host
// times at the pace of that host, and what kernels lose beside a collective as it was measured. A collective of data
// parallelism moves each byte that it sends three times through the device's memory: the received part and the own one
// are read, their sum is written.
#include <fmt/format.h>

#include "calibration/device/measured_host.h"
#include "calibration/framework/serving_engine.h"
#include "calibration/framework/software.h"
#include "scenarios/load.h"

namespace orrery::scenarios {
namespace {

using calibration::HostCosts;
using sim::Duration;
using workloads::Job;

constexpr double kTimesThroughMemory = 3;

/// What the scenario itself says of its software.
sim::Settings said_of_software(const sim::Settings& document) {
  const sim::Settings* software = document.find("software");
  return software != nullptr ? calibration::with_present_keys(*software) : sim::Settings{};
}

/// But for what the scenario itself says.
void at_pace(HostCosts& host, double pace, const sim::Settings& said) {
  const auto slow = [&](const char* key, Duration& time) {
    if (said.find_path(fmt::format("host.{}", key)) == nullptr) time = sim::seconds(pace * sim::to_seconds(time));
  };
  slow("kernel_issue", host.kernel_issue);
  slow("operation_host", host.operation_host);
  slow("microbatch_host", host.microbatch_host);
  slow("transfer_issue", host.transfer_issue);
  slow("tensor_call", host.calls.tensor);
  slow("checked_call_per_rank", host.calls.per_rank);
  slow("checked_call_per_node", host.calls.per_node);
  slow("expert_layer_host", host.expert_layer_host);
  slow("expert_dispatch_host", host.expert_dispatch_host);
  slow("expert_host", host.expert_host);
  slow("expert_quantisers_host", host.expert_quantisers_host);
  slow("expert_overlap_host", host.expert_overlap_host);
  slow("step_begin_host", host.step_begin_host);
  slow("step_host", host.step_host);
  slow("evaluation_host", host.evaluation_host);
}

std::string pace_text(const calibration::MeasuredHost& host, const std::string& whose) {
  return fmt::format(
      "Host times are {:.2f} of those of {}: an empty kernel takes this host {:.2f} us to launch (host.launch of the "
      "profile), and took the usual one {:.2f} us.",
      host.pace(), whose, host.launch * 1e6, calibration::kUsualLaunch * 1e6);
}

}  // namespace

void take_measured_host(const sim::Settings& document, Job& job) {
  const calibration::MeasuredHost host = calibration::measured_host(job.machine.device);
  const sim::Settings software = said_of_software(document);
  if (host.launch > 0) {
    at_pace(job.software.host, host.pace(), software);
    job.assumptions.push_back(pace_text(host, job.software.name));
  }
  const sim::Settings* said = software.find_path("slowdowns.compute_slowdown_under_collective");
  if (host.beside.empty() || said != nullptr) return;
  const workloads::Machine& m = job.machine;
  // Data parallelism leaves the node where the job does.
  const bool nodes = m.gpus > m.gpus_per_node;
  const double rate =
      nodes ? m.fabric.nic_rate.value() * static_cast<double>(m.fabric.nics) / static_cast<double>(m.node.gpus)
            : m.node.rate.value();
  const double traffic = kTimesThroughMemory * rate;
  double& factor = job.software.overlap.compute_slowdown_under_collective;
  const double measured = host.slowdown(traffic);
  job.assumptions.push_back(fmt::format(
      "Kernels beside a data-parallel collective take {:.2f} times as long, as measured beside the {:.0f} GB/s that it "
      "moves through memory (interference of the profile; {:.2f} at {:.0f} GB/s), not {:.2f} times as {} has it.",
      measured, traffic / 1e9, host.beside.back().product, host.beside.back().traffic / 1e9, factor,
      job.software.name));
  factor = measured;
}

void take_measured_host(const calibration::DeviceProfile& device, calibration::ServingEngine& engine,
                        std::vector<std::string>& assumptions) {
  const calibration::MeasuredHost host = calibration::measured_host(device);
  if (!(host.launch > 0)) return;
  using Host = calibration::ServingEngine::Host;
  for (double Host::*time : {&Host::iteration, &Host::sequence, &Host::gap, &Host::layer, &Host::kernel, &Host::request,
                             &Host::token, &Host::exchange})
    engine.host.*time *= host.pace();
  assumptions.push_back(pace_text(host, engine.name));
}

}  // namespace orrery::scenarios
