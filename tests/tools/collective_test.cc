// Are the rows of `orrery collective` those of nccl-tests, whichever algorithm runs, and are bad options refused?
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"

using namespace orrery;
using nlohmann::json;
using tests::check_refused;
using tests::Folder;
using tests::Outcome;

namespace {

/// Rows of one operation on the fabric ndr-rail with H100s.
json rows_of(const std::string& op, int gpus, std::vector<std::string> more = {}) {
  const std::vector<std::string> head{"collective", "ndr-rail",           "--op",   op,
                                      "--gpus",     std::to_string(gpus), "--json", "-"};
  more.insert(more.begin(), head.begin(), head.end());
  const Outcome outcome = tests::orrery(more);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out)["rows"];
}

}  // namespace

TEST_CASE("columns are those of nccl-tests: algorithm bandwidth is size over time, bus bandwidth what a GPU sends") {
  for (const int n : {2, 8, 16, 64}) {
    const double share = (n - 1.0) / n;
    const std::vector<std::pair<std::string, double>> factors{{"all_reduce", 2 * share}, {"all_gather", share},
                                                              {"reduce_scatter", share}, {"all_to_all", share},
                                                              {"broadcast", 1.0},        {"send_receive", 1.0}};
    for (const auto& [op, factor] : factors) {
      INFO(op << " over " << n);
      const json rows = rows_of(op, n, {"--sizes", "1MB:1GB:4"});
      REQUIRE(rows.size() == 5);  // 1, 4, 16, 64 and 256 MB
      double bytes = 1e6, before = 0;
      for (const json& row : rows) {
        CHECK(row["bytes"] == bytes);
        const double time = row["time_us"], algbw = row["algbw_gbs"], busbw = row["busbw_gbs"];
        CHECK(time > before);
        CHECK(algbw == Approx(bytes / time * 1e-3).epsilon(1e-9));
        CHECK(busbw == Approx(algbw * factor).epsilon(1e-9));
        before = time;
        bytes *= 4;
      }
    }
  }
}

TEST_CASE("no GPU sends faster than its way out allows") {
  // ndr-rail gives each H100 a NIC of 400 Gb/s, 50 GB/s. Rings cross nodes over eight NICs side by side; an exchange
  // and a circle of sends leave every GPU its own. On 16 nodes 120 of the 127 others are behind the NIC.
  const auto largest = [](const std::string& op) {
    const json rows = rows_of(op, 128, {"--sizes", "8GB"});
    REQUIRE(rows.size() == 1);
    return rows[0]["busbw_gbs"].get<double>();
  };
  const double gather = largest("all_gather"), exchange = largest("all_to_all"), circle = largest("send_receive");
  CHECK(gather < 8 * 50.0);
  CHECK(gather > 0.7 * 8 * 50.0);
  CHECK(exchange < 50.0 * 127 / 120);
  CHECK(exchange > 0.7 * 50.0);
  CHECK(circle < 50.0);
  CHECK(circle > 0.7 * 50.0);
}

TEST_CASE("auto is one of the algorithms, each of which can be asked for, with or without its protocol") {
  const std::vector<std::string> names{"ring LL",    "ring LL128",  "ring Simple", "tree LL",
                                       "tree LL128", "tree Simple", "nvls_tree",   "sharp"};
  const json best = rows_of("all_reduce", 64, {"--sizes", "1KB:1GB:1000"});
  std::vector<json> forced;
  for (const std::string& name : names) {
    forced.push_back(rows_of("all_reduce", 64, {"--sizes", "1KB:1GB:1000", "--algorithm", name}));
  }
  for (std::size_t i = 0; i < best.size(); ++i) {
    const std::string chosen = best[i]["algorithm"];
    const auto at = std::find(names.begin(), names.end(), chosen);
    REQUIRE(at != names.end());
    CHECK(best[i] == forced[static_cast<std::size_t>(at - names.begin())][i]);
    for (std::size_t k = 0; k < names.size(); ++k) CHECK(forced[k][i]["algorithm"] == names[k]);
  }
  const json tree = rows_of("all_reduce", 64, {"--sizes", "1KB", "--algorithm", "tree"});
  CHECK(tree[0]["algorithm"].get<std::string>().substr(0, 4) == "tree");
  // Latency decides small buffers, bandwidth large ones.
  CHECK(forced[0][0]["time_us"] < forced[2][0]["time_us"]);
  CHECK(forced[0].back()["time_us"] > forced[2].back()["time_us"]);
}

TEST_CASE("a scenario is a cluster too, and sizes have several spellings") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", tests::small_scenario());
  const Outcome outcome = tests::orrery({"collective", file, "--op", "all_reduce", "--gpus", "16", "--sizes", "1024"});
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  for (const char* word : {"bytes", "time_us", "algbw_gbs", "busbw_gbs", "1024"}) {
    INFO(word);
    CHECK(outcome.out.find(word) != std::string::npos);
  }
  CHECK(rows_of("all_gather", 8, {"--sizes", "1 KiB"}) == rows_of("all_gather", 8, {"--sizes", "1024"}));
  CHECK(rows_of("all_gather", 8, {"--sizes", "1KB:8KB"}).size() == 4);
  check_refused(tests::orrery({"collective", file, "--op", "all_reduce", "--gpus", "17"}), {"--gpus", "16"});
}

TEST_CASE("a file that says its cluster and nothing of what runs there is that cluster") {
  const Folder folder;
  const std::string file =
      folder.write("cluster.yaml", "cluster: {device: h100-sxm-80gb, gpus: 32, fabric: ndr-rail}\n");
  const auto rows = [](const std::string& cluster) {
    const Outcome outcome = tests::orrery(
        {"collective", cluster, "--op", "all_reduce", "--gpus", "16", "--sizes", "1MB:1GB:10", "--json", "-"});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out)["rows"];
  };
  const json named = rows("ndr-rail");
  CHECK(rows(file) == named);
  // Without a number of GPUs it has those that take part, and --set is of the cluster.
  CHECK(rows(folder.write("open.yaml", "cluster: {device: h100-sxm-80gb, fabric: ndr-rail}\n")) == named);
  const Outcome topology = tests::orrery({"topology", file});
  INFO(topology.err);
  CHECK(topology.status == 0);
  CHECK(topology.out.find("32 x h100-sxm-80gb on ndr-rail") != std::string::npos);
  check_refused(tests::orrery({"collective", file, "--op", "all_reduce", "--gpus", "64"}), {"--gpus", "32"});
  check_refused(tests::orrery({"run", file}), {"cluster.yaml", "model"});
}

TEST_CASE("options of a collective that make no sense") {
  const auto run = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"collective", "ndr-rail"});
    return tests::orrery(more);
  };
  check_refused(run({"--op", "all_redcue", "--gpus", "8"}), {"--op", "all_reduce"});
  check_refused(run({"--gpus", "8"}), {"--op"});
  check_refused(run({"--op", "all_reduce"}), {"--gpus"});
  check_refused(run({"--op", "all_reduce", "--gpus", "1"}), {"--gpus"});
  check_refused(run({"--op", "all_reduce", "--gpus", "16", "--algorithm", "magic"}),
                {"magic", "auto", "ring LL128", "tree"});
  check_refused(run({"--op", "all_gather", "--gpus", "16", "--algorithm", "tree"}), {"'tree'", "ring Simple"});
  check_refused(run({"--op", "all_reduce", "--gpus", "8", "--algorithm", "tree"}), {"'tree'", "node"});
  check_refused(
      tests::orrery({"collective", "tomahawk4-200g", "--op", "all_reduce", "--gpus", "16", "--algorithm", "sharp"}),
      {"'sharp'", "ring Simple"});  // Ethernet switches do not add
  for (const char* sizes : {"1GB:1MB:2", "1MB:1GB:1", "1MB:1GB:0.5", "1MB:1GB:nan", "1MB:1GB:2:2", "1 MB:1 parsec", "",
                            "0", "-1MB", "1MB:1GB:1.000001", "1MB:900PB"}) {
    INFO(sizes);
    check_refused(run({"--op", "all_reduce", "--gpus", "8", "--sizes", sizes}), {"--sizes"});
  }
  check_refused(tests::orrery({"collective", "ndr-rial", "--op", "all_reduce", "--gpus", "8"}), {"ndr-rail"});
}

TEST_CASE("a fabric's key is set by its own name, and by its path in a scenario") {
  for (const std::string set : {"nics=4", "cluster.fabric.nics=4"}) {
    INFO(set);
    CHECK(rows_of("all_reduce", 64, {"--sizes", "1GB:1GB:2", "--set", set}) !=
          rows_of("all_reduce", 64, {"--sizes", "1GB:1GB:2"}));
  }
}
