// Paths and units as in the Linux kernel's documentation: ABI/testing/sysfs-bus-pci (max_link_speed, "32.0 GT/s PCIe";
// max_link_width, lanes), gpu/amdgpu/thermal (hwmon freq1_input, hertz;
// power_dpm_force_performance_level) and the topology that amdkfd lists below
// class/kfd (io_links: type 11 is xGMI, min_bandwidth of one link and max_bandwidth of all between two nodes, in MB/s).
#include "calibration/kernels/sysfs.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace orrery::calibration {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kXgmi = 11;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Lines of a name and a number.
std::map<std::string, std::int64_t> properties_of(const fs::path& file) {
  std::map<std::string, std::int64_t> out;
  std::ifstream in(file);
  std::string name;
  std::int64_t value = 0;
  while (in >> name >> value) out[name] = value;
  return out;
}

std::int64_t at(const std::map<std::string, std::int64_t>& properties, const char* name) {
  const auto found = properties.find(name);
  return found == properties.end() ? 0 : found->second;
}

/// Bytes/s of a lane and direction that carry data, from transfers a second: PCIe 1 and 2 send 10 bits for 8, PCIe 3 to
/// 5 130 for 128, PCIe 6 flits of 256 bytes for 236 of data.
double lane_rate(double transfers) {
  const double coded = transfers < 6e9 ? 0.8 : transfers < 50e9 ? 128.0 / 130 : 236.0 / 256;
  return transfers * coded / 8;
}

template <class Visit>
void each_folder(const fs::path& folder, const Visit& visit) {
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    visit(entry->path());
}

}  // namespace

std::string sysfs_bus(const std::string& bus) {
  unsigned domain = 0, number = 0, slot = 0, function = 0;
  if (std::sscanf(bus.c_str(), "%x:%x:%x.%x", &domain, &number, &slot, &function) < 3) return {};
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, number & 0xffu, slot & 0x1fu, function & 7u);
  return text;
}

double sysfs_pcie_bandwidth(const std::string& root, const std::string& bus) {
  if (bus.empty()) return 0;
  const fs::path device = fs::path(root) / "bus/pci/devices" / bus;
  const double transfers = 1e9 * std::strtod(first_line(device / "max_link_speed").c_str(), nullptr);
  const double lanes = std::strtod(first_line(device / "max_link_width").c_str(), nullptr);
  // A device that a virtual machine sees may state 0 or 255 lanes.
  return transfers > 0 && lanes >= 1 && lanes <= 32 ? lanes * lane_rate(transfers) : 0;
}

double sysfs_clock_mhz(const std::string& root, const std::string& bus) {
  if (bus.empty()) return 0;
  double hertz = 0;
  each_folder(fs::path(root) / "bus/pci/devices" / bus / "hwmon", [&](const fs::path& monitor) {
    hertz = std::max(hertz, std::strtod(first_line(monitor / "freq1_input").c_str(), nullptr));
  });
  return hertz * 1e-6;
}

std::string sysfs_clocks_set(const std::string& root, const std::string& bus) {
  if (bus.empty()) return {};
  const std::string level = first_line(fs::path(root) / "bus/pci/devices" / bus / "power_dpm_force_performance_level");
  return level == "auto" ? std::string() : level;
}

SysfsLinks sysfs_links(const std::string& root, const std::string& bus) {
  SysfsLinks links;
  unsigned domain = 0, number = 0, slot = 0, function = 0;
  if (std::sscanf(bus.c_str(), "%x:%x:%x.%x", &domain, &number, &slot, &function) != 4) return links;
  const auto location = static_cast<std::int64_t>((number << 8) | (slot << 3) | function);
  const fs::path nodes = fs::path(root) / "class/kfd/kfd/topology/nodes";
  std::map<std::int64_t, bool> is_gpu;
  fs::path own;
  each_folder(nodes, [&](const fs::path& node) {
    const auto properties = properties_of(node / "properties");
    const bool gpu = at(properties, "simd_count") > 0;
    is_gpu[std::strtoll(node.filename().c_str(), nullptr, 10)] = gpu;
    if (gpu && at(properties, "location_id") == location && at(properties, "domain") == domain) own = node;
  });
  if (own.empty()) return links;
  each_folder(own / "io_links", [&](const fs::path& link) {
    const auto properties = properties_of(link / "properties");
    const double one = static_cast<double>(at(properties, "min_bandwidth")),
                 all = static_cast<double>(at(properties, "max_bandwidth"));
    if (at(properties, "type") != kXgmi || !is_gpu[at(properties, "node_to")] || !(all > 0)) return;
    links.bandwidth += 1e6 * all;
    links.count += one > 0 ? static_cast<int>(all / one) : 1;
    ++links.peers;
  });
  return links;
}

}  // namespace orrery::calibration
