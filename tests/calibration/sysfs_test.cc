// Are links, slots and clocks read as Linux lists them? A folder laid out like /sys stands in for it.
#include "calibration/kernels/sysfs.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery::calibration;

namespace {

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

}  // namespace

TEST_CASE("addresses of runtimes become those of sysfs") {
  CHECK(sysfs_bus("00000000:C1:00.0") == "0000:c1:00.0");
  CHECK(sysfs_bus("0000:0b:1f.1") == "0000:0b:1f.1");
  CHECK(sysfs_bus("nonsense").empty());
}

TEST_CASE("a slot's rate is lanes times what of a transfer is data") {
  const orrery::tests::Folder folder;
  const auto slot = [&](const char* bus, const char* speed, const char* lanes) {
    write(folder.path() / "bus/pci/devices" / bus / "max_link_speed", speed);
    write(folder.path() / "bus/pci/devices" / bus / "max_link_width", lanes);
    return sysfs_pcie_bandwidth(folder.path().string(), bus);
  };
  CHECK(slot("0000:01:00.0", "32.0 GT/s PCIe\n", "16\n") == Approx(16 * 32e9 * 128 / 130 / 8));
  CHECK(slot("0000:02:00.0", "5.0 GT/s PCIe\n", "8\n") == Approx(8 * 5e9 * 0.8 / 8));
  CHECK(slot("0000:03:00.0", "Unknown\n", "255\n") == 0);  // as a virtual machine may say
  CHECK(sysfs_pcie_bandwidth(folder.path().string(), "0000:04:00.0") == 0);
}

TEST_CASE("xGMI links of a GPU are added up, and those to processors are not among them") {
  const orrery::tests::Folder folder;
  const std::filesystem::path nodes = folder.path() / "class/kfd/kfd/topology/nodes";
  write(nodes / "0/properties", "cpu_cores_count 96\nsimd_count 0\nlocation_id 0\ndomain 0\n");
  for (int gpu = 1; gpu <= 3; ++gpu)  // at 0000:c1:00.0, 0000:c2:00.0, 0000:c3:00.0
    write(nodes / std::to_string(gpu) / "properties",
          "simd_count 1216\nlocation_id " + std::to_string((0xc0 + gpu) << 8) + "\ndomain 0\n");
  write(nodes / "1/io_links/0/properties", "type 2\nnode_from 1\nnode_to 0\nmin_bandwidth 312\nmax_bandwidth 64000\n");
  write(nodes / "1/io_links/1/properties",
        "type 11\nnode_from 1\nnode_to 2\nmin_bandwidth 50000\nmax_bandwidth 50000\n");
  write(nodes / "1/io_links/2/properties",
        "type 11\nnode_from 1\nnode_to 3\nmin_bandwidth 50000\nmax_bandwidth 200000\n");  // four links
  const SysfsLinks links = sysfs_links(folder.path().string(), "0000:c1:00.0");
  CHECK(links.bandwidth == Approx(250e9));
  CHECK(links.count == 5);
  CHECK(links.peers == 2);
  CHECK(sysfs_links(folder.path().string(), "0000:d1:00.0").peers == 0);
}

TEST_CASE("an AMD device's clock and what it is set to") {
  const orrery::tests::Folder folder;
  const std::filesystem::path device = folder.path() / "bus/pci/devices/0000:c1:00.0";
  write(device / "hwmon/hwmon3/freq1_input", "2100000000\n");
  write(device / "power_dpm_force_performance_level", "manual\n");
  CHECK(sysfs_clock_mhz(folder.path().string(), "0000:c1:00.0") == 2100);
  CHECK(sysfs_clocks_set(folder.path().string(), "0000:c1:00.0") == "manual");
  write(device / "power_dpm_force_performance_level", "auto\n");
  CHECK(sysfs_clocks_set(folder.path().string(), "0000:c1:00.0").empty());
}
