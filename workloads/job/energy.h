// What a step draws: joules by cause, and the watts of a GPU, a node, the job and its site that they make.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace orrery::workloads {

/// What energy of a step went into, over all nodes of the job.
enum class EnergyPart : std::uint8_t {
  standing,    // GPUs with nothing to do, all the time
  active,      // their processors, while kernels run
  products,    // operations of matrix products
  memory,      // bytes of device memory
  links,       // bytes sent between GPUs of a node
  network,     // bytes through NICs
  host,        // the rest of the nodes
  conversion,  // lost in power supplies
};
inline constexpr std::size_t kEnergyParts = 8;
std::string_view name_of(EnergyPart part);

struct Energy {
  bool known = false;                          // whether the device's document has a power model
  std::array<double, kEnergyParts> parts_j{};  // by EnergyPart
  double seconds = 0;                          // of the step
  double gpus = 1, gpus_per_node = 1;
  double host_w = 0, conversion = 1;  // of the rest of a node for each GPU; watts behind supplies over those before
  double busiest_gpu_w = 0;           // of the GPUs of the stage that draws most, while its passes run
  double pue = 1;                     // of the site
  double carbon_g_per_kwh = 0;        // of its grid; 0: not given

  /// Joules of one step at the nodes' plugs: the sum of the parts.
  double total_j() const;
  /// Of these, the GPUs' own: neither NICs nor the rest of the node, nor what supplies lose.
  double gpus_j() const;
  /// Mean power, in watts.
  double gpu_w() const { return gpus_j() / seconds / gpus; }
  double job_w() const { return total_j() / seconds; }
  double node_w() const { return job_w() / gpus * gpus_per_node; }
  /// A node whose GPUs all draw what those of the hungriest stage do.
  double node_peak_w() const { return gpus_per_node * (busiest_gpu_w + host_w) / conversion; }
  /// With the site's cooling and distribution.
  double site_j() const { return total_j() * pue; }
  double site_w() const { return job_w() * pue; }
  /// Grams of CO2 for so many joules of the site.
  double grams_of(double joules) const;
};

}  // namespace orrery::workloads
