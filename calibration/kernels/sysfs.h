// What Linux says of a GPU where its driver's library does not: the PCIe slot, the clock of an AMD device and its links
// to others. Needs no other file of the modules, so that it is tested without one.
#pragma once

#include <string>

namespace orrery::calibration {

inline constexpr const char* kSysfs = "/sys";

/// A PCI address as sysfs names it, from any form that a runtime prints ("00000000:C1:00.0"): domain of four digits,
/// small letters.
std::string sysfs_bus(const std::string& bus);

/// Bytes/s and direction of the slot that the device sits in, at its fastest; 0 where unknown. `root`: kSysfs, or a
/// folder laid out alike.
double sysfs_pcie_bandwidth(const std::string& root, const std::string& bus);

/// The compute clock of an AMD device now; 0 where unknown.
double sysfs_clock_mhz(const std::string& root, const std::string& bus);

/// What an AMD device's clocks are set to ("high", "manual"); empty where the driver chooses them.
std::string sysfs_clocks_set(const std::string& root, const std::string& bus);

/// xGMI links of an AMD device to others of its machine.
struct SysfsLinks {
  double bandwidth = 0;  // bytes/s and direction, all together
  int count = 0, peers = 0;
};
SysfsLinks sysfs_links(const std::string& root, const std::string& bus);

}  // namespace orrery::calibration
