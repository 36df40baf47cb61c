// Embedding tables against the limits of the device. See recommender_text.h. The limit of a kernel is its bytes over
// the bandwidth on the data sheet; that of an exchange is what a rank sends over the line rate of NVLink, or of its
// share of the node's NICs.
#include "tools/report/recommender_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "tools/report/text.h"
#include "workloads/model/passes.h"

namespace orrery::tools {

namespace {

struct Part {
  double bytes = 0, seconds = 0;
};

Part sum_of(const workloads::Pieces& pieces) {
  Part part;
  for (const workloads::Piece& piece : pieces) {
    for (const workloads::Kernel& kernel : piece.kernels) {
      part.bytes += kernel.bytes;
      part.seconds += sim::to_seconds(kernel.time);
    }
  }
  return part;
}

std::string share_text(double limit, double seconds) {
  return seconds > 0 ? fmt::format("{:.0f} %", 100 * limit / seconds) : "";
}

}  // namespace

void write_tables(std::ostream& out, const scenarios::Scenario& scenario, const workloads::StepReport& report) {
  const workloads::Job& job = scenario.job;
  const workloads::Recommender& model = job.model.recommender;
  if (!model.any()) return;
  const workloads::Network network = workloads::network_of(job);
  const workloads::LayerPasses passes =
      workloads::passes_of(network.layer(0), {job.machine.device, job.software.layers.linear.rates}, false);
  TextTable table({{"", Align::left}, {"bytes"}, {"time"}, {"limit"}, {"of limit"}, {"", Align::left}});
  const auto add = [&](const char* name, const Part& part, const char* of, double rate) {
    const double limit = rate > 0 ? part.bytes / rate : 0;
    if (part.bytes > 0)
      table.add_row({name, bytes_text(part.bytes), part.seconds > 0 ? time_text(part.seconds) : "", time_text(limit),
                     share_text(limit, part.seconds), of});
  };
  const double memory = job.machine.device.memory_bandwidth().value();
  add("look-ups", sum_of(passes.forward), "memory", memory);
  add("updates", sum_of(passes.backward), "memory", memory);
  const auto gpus = static_cast<double>(job.machine.gpus);
  for (const workloads::TrafficRow& row : report.traffic) {
    if (row.dimension != workloads::CommGroup::tables.name) continue;
    const bool inside = row.level == topology::name_of(topology::Tier::node);
    const double nics = job.machine.fabric.nic_rate.value() * static_cast<double>(job.machine.fabric.nics) /
                        static_cast<double>(job.machine.gpus_per_node);
    add(row.what.c_str(), {row.simulated_bytes / gpus, 0}, inside ? "the node's links" : "the GPU's share of NICs",
        inside ? job.machine.node.rate.value() : nics);
  }
  out << "\nEmbedding tables, on the busiest GPU\n";
  table.write(out);
}

}  // namespace orrery::tools
