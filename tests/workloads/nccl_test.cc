// How far from measured NCCL? Published series of nccl-tests, inside a node and across nodes, beside what the
// collectives take here. The tables are not part of the project; where they lie beside it (../shared/measured) they are
// checked.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "calibration/measure/samples.h"
#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/skipped.h"
#include "tests/workloads/example.h"
#include "workloads/collectives/collective.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

std::filesystem::path measured(const std::string& file) {
  return std::filesystem::path(tests::kSourceDir) / ".." / "shared" / "measured" / file;
}

bool lacks(const std::string& file) {
  if (std::filesystem::exists(measured(file))) return false;
  tests::skipped("no measured " + file + " beside the source tree");
  return true;
}

/// One size of an all-reduce over nodes of eight.
struct Row {
  double bytes, seconds;
};
using Series = std::map<std::int64_t, std::vector<Row>>;  // by nodes

/// Bus bandwidth is 2 (n-1)/n x bytes / time.
double seconds_of_bus(double bytes, double gigabytes, std::int64_t nodes) {
  const double n = 8.0 * static_cast<double>(nodes);
  return 2 * (n - 1) / n * bytes / (gigabytes * 1e9);
}

/// Lines of numbers and words, without the header.
std::vector<std::vector<std::string>> lines_of(const std::string& file) {
  std::ifstream in(measured(file));
  std::vector<std::vector<std::string>> lines;
  std::string line, cell;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream cells(line);
    lines.emplace_back();
    while (std::getline(cells, cell, ',')) lines.back().push_back(cell);
  }
  return lines;
}

double median(std::vector<double> values) {
  REQUIRE(!values.empty());
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Median of |predicted / measured - 1|, and of the sizes from a megabyte up.
struct Errors {
  double all = 0, large = 0;
};

Errors errors_of(const Series& series, const std::string& fabric, const std::string& device) {
  std::vector<double> all, large;
  for (const auto& [nodes, rows] : series) {
    const Job job =
        tests::small_job({"cluster.fabric=" + fabric, "cluster.device=" + device, "software=megatron-core-0.8"});
    const topology::Cluster cluster(job.machine.node, job.machine.fabric, 8 * nodes, 8, sim::Settings());
    std::vector<std::int64_t> gpus(static_cast<std::size_t>(8 * nodes));
    std::iota(gpus.begin(), gpus.end(), 0);
    std::vector<double> sizes;
    for (const Row& row : rows) sizes.push_back(row.bytes);
    const auto timed =
        time_collective(CollectiveOp::all_reduce, sizes, gpus, cluster, job.machine.device, job.software);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double error = sim::to_seconds(timed[i].time) / rows[i].seconds - 1;
      all.push_back(std::abs(error));
      if (rows[i].bytes >= 1 << 20) large.push_back(std::abs(error));
      INFO(
          fmt::format("{} nodes, {:.0f} bytes: {:+.1f} % ({})", nodes, rows[i].bytes, 100 * error, timed[i].algorithm));
      CHECK(std::abs(error) < 1.0);
    }
  }
  return {median(all), median(large)};
}

}  // namespace

TEST_CASE("all-reduces over 2 to 16 nodes of A100 as on Azure") {
  const std::string file = "nccl-allreduce-a100-azure.csv";
  if (lacks(file)) return;
  Series series;
  for (const auto& cells : lines_of(file)) {
    const double seconds = std::min(std::stod(cells[3]), std::stod(cells[6])) * 1e-6;  // out of place, in place
    if (std::stoll(cells[0]) > 1) series[std::stoll(cells[0])].push_back({std::stod(cells[2]), seconds});
  }
  const Errors errors = errors_of(series, "azure-ndv4", "a100-sxm-40gb");
  WARN(fmt::format("{}: median {:.1f} %, from 1 MB {:.1f} %", file, 100 * errors.all, 100 * errors.large));
  CHECK(errors.all < 0.12);
  CHECK(errors.large < 0.12);
}

TEST_CASE("all-reduces over 4 to 1024 nodes of H100, by NVLS and trees") {
  for (const auto& [file, per_count] :
       {std::pair<std::string, std::int64_t>{"nccl-allreduce-h100-multinode-nvls.csv", 8},
        {"nccl-h100-4-512nodes.csv", 1}}) {
    if (lacks(file)) continue;
    Series series;
    for (const auto& cells : lines_of(file)) {
      const std::int64_t nodes = std::stoll(cells[0]) / per_count;
      series[nodes].push_back({std::stod(cells[1]), seconds_of_bus(std::stod(cells[1]), std::stod(cells[2]), nodes)});
    }
    const Errors errors = errors_of(series, "ndr-rail", "h100-sxm-80gb");
    WARN(fmt::format("{}: median {:.1f} %", file, 100 * errors.all));
    CHECK(errors.all < 0.12);
  }
}

TEST_CASE("collectives inside a node as fitted") {
  for (const auto& [file, device] : {std::pair<std::string, std::string>{"nccl-a100-sxm.csv", "a100-sxm-80gb"},
                                     {"nccl-h100-sxm.csv", "h100-sxm-80gb"},
                                     {"nccl-h200-sxm.csv", "h200-sxm-141gb"},
                                     {"nccl-b200-sxm.csv", "b200-sxm-180gb"}}) {
    if (lacks(file)) continue;
    const Job job = tests::small_job({"cluster.device=" + device});
    std::vector<double> small, large;
    for (const auto& sample : calibration::read_samples(measured(file).string()).collective) {
      const double seconds =
          sim::to_seconds(job.machine.device.node_collective(sample.op, sample.gpus, sample.bytes).total());
      (sample.bytes.value() >= 1 << 20 ? large : small).push_back(std::abs(seconds / sample.seconds - 1));
    }
    WARN(fmt::format("{}: median {:.1f} % from 1 MB, {:.1f} % below", file, 100 * median(large), 100 * median(small)));
    CHECK(median(large) < 0.06);
    CHECK(median(small) < 0.20);
  }
}
