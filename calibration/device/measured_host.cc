// Reading of measured_host.h. The beginning of a straight line at no traffic leaves out that a collective's blocks hold
// processors while they wait.
#include "calibration/device/measured_host.h"

#include <algorithm>

#include "calibration/device/profile_model.h"
#include "sim/key_rows.h"

namespace orrery::calibration {

double MeasuredHost::slowdown(double traffic) const {
  Beside low;
  for (const Beside& high : beside) {
    if (traffic < high.traffic) {
      const double share = (traffic - low.traffic) / (high.traffic - low.traffic);
      return low.product + share * (high.product - low.product);
    }
    low = high;
  }
  return low.product;
}

MeasuredHost measured_host(const DeviceProfile& device) { return device.model().host; }

MeasuredHost load_measured_host(const sim::Settings& profile) {
  MeasuredHost out;
  if (const sim::Settings* host = profile.find("host"))
    if (const sim::Settings* launch = host->find("launch")) out.launch = sim::to_seconds(launch->as_duration());
  const sim::Settings* section = profile.find("interference");
  if (section == nullptr) return out;
  const sim::Settings &traffic = section->at("traffic"), &products = section->at("products");
  if (!traffic.is_sequence() || traffic.items().empty()) traffic.expected("a list of rates, rising");
  if (!products.is_sequence() || products.items().size() != traffic.items().size())
    products.expected("a list, one for each rate of traffic");
  for (std::size_t i = 0; i < traffic.items().size(); ++i) {
    MeasuredHost::Beside one{traffic.items()[i].as_bandwidth().value(), products.items()[i].as_number(1, 100)};
    if (!out.beside.empty() && !(one.traffic > out.beside.back().traffic))
      traffic.items()[i].expected("more than the one before it");
    out.beside.push_back(one);
  }
  return out;
}

void measured_host_keys(std::vector<sim::Key>& out) {
  out.push_back(sim::key_row("host", "mapping", "", "-", {}, "What the host of the machine that was measured takes."));
  out.push_back(sim::key_row("host.provenance", "text", "", "-", {}, "Where the numbers come from."));
  out.push_back(sim::key_row("host.launch", "quantity", "s", "-", {},
                             "Host time of launching an empty kernel, of many in a row: over 2.88 us, what "
                             "generations' host times are multiplied by.",
                             {"0.1 us", "1 ms"}));
  out.push_back(sim::key_row("host.graph_launch", "quantity", "s", "-", {},
                             "Of an empty kernel in a graph, on the device; for the reader.", {"0 s", "1 ms"}));
  out.push_back(sim::key_row("host.kernel_gap", "quantity", "s", "-", {},
                             "Between two kernels of a stream, on the device; for the reader.", {"0 s", "1 ms"}));
  out.push_back(
      sim::key_row("interference", "mapping", "", "-", {}, "What products lose beside traffic through memory."));
  out.push_back(sim::key_row("interference.provenance", "text", "", "-", {}, "Where the numbers come from."));
  out.push_back(
      sim::key_row("interference.traffic", "list", "bytes/s", "", {},
                   "Read and written by 24 blocks, as many as a collective has channels within a node; rising.",
                   {"1 MB/s", "100 TB/s"}));
  out.push_back(sim::key_row("interference.products", "list", "", "", {},
                             "Time of a product beside each, over its time alone; stands in for the generation's "
                             "compute_slowdown_under_collective.",
                             {"1", "100"}));
}

}  // namespace orrery::calibration
