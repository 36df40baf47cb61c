// Sums over the stages of each kind of nodes. See kinds.h.
#include "tools/report/kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "tools/report/text.h"
#include "workloads/step/job_values.h"
#include "workloads/step/memory.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;

struct KindRow {
  std::string device;
  std::int64_t gpus = 0;
  std::vector<std::int64_t> stages, layers;  // layers: by stage
  double computing_s = 0;                    // of the busiest stage
  double peak_bytes = 0, capacity_bytes = 0;
};

std::vector<KindRow> kinds_of(const workloads::Job& job, const workloads::StepReport& report) {
  const workloads::Machine& machine = job.machine;
  if (!machine.mixed()) return {};
  const workloads::LayerSplit split = workloads::split_layers(job);
  std::vector<KindRow> rows;
  for (std::size_t kind = 0; kind < machine.mixture.kinds(); ++kind) {
    const calibration::DeviceProfile& device = machine.device_of_kind(kind);
    KindRow row{device.name(), machine.gpus_of_kind(kind), {}, {}, 0, 0, static_cast<double>(device.memory().value())};
    for (std::size_t stage = 0; stage < machine.mixture.kind_of_stage.size(); ++stage) {
      if (machine.mixture.kind_of_stage[stage] != kind) continue;
      const auto number = static_cast<std::int64_t>(stage);
      row.stages.push_back(number);
      row.layers.push_back(workloads::StageLayout{split, job.parallelism.chunk_map(), number}.blocks());
      if (stage < report.computing_s.size()) row.computing_s = std::max(row.computing_s, report.computing_s[stage]);
      if (stage < report.memory.stages.size())
        row.peak_bytes = std::max(row.peak_bytes, report.memory.stages[stage].total);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// "4", "3 to 5".
std::string range_text(const std::vector<std::int64_t>& numbers) {
  if (numbers.empty()) return "-";
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  return *least == *most ? fmt::format("{}", *least) : fmt::format("{} to {}", *least, *most);
}

}  // namespace

void write_kinds(std::ostream& out, const workloads::Job& job, const workloads::StepReport& report) {
  const std::vector<KindRow> rows = kinds_of(job, report);
  if (rows.empty()) return;
  TextTable table({{"kind of node", Align::left},
                   {"GPUs"},
                   {"stages"},
                   {"layers\nof a stage"},
                   {"kernels on\nthe busiest"},
                   {"of the\nstep"},
                   {"memory"},
                   {"of"}});
  for (const KindRow& row : rows) {
    table.add_row({row.device, fmt::format("{}", row.gpus), fmt::format("{}", row.stages.size()),
                   range_text(row.layers), time_text(row.computing_s),
                   fmt::format("{:.1f} %", 100 * row.computing_s / sim::to_seconds(report.iteration)),
                   bytes_text(row.peak_bytes), bytes_text(row.capacity_bytes)});
  }
  out << "\nBy kind of node\n";
  table.write(out);
}

ordered_json kinds_json(const workloads::Job& job, const workloads::StepReport& report) {
  ordered_json json = ordered_json::array();
  for (const KindRow& row : kinds_of(job, report)) {
    json.push_back({{"device", row.device},
                    {"gpus", row.gpus},
                    {"stages", row.stages},
                    {"layers", row.layers},
                    {"computing_s", row.computing_s},
                    {"peak_bytes", row.peak_bytes},
                    {"capacity_bytes", row.capacity_bytes}});
  }
  return json;
}

}  // namespace orrery::tools
