// Is what nccl-tests and rccl-tests print read whatever their version, and laid beside the prediction?
#include "tools/import/nccl_tests.h"

#include <nlohmann/json.hpp>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"

using namespace orrery;
using tests::Folder;

namespace {

constexpr const char* kTestsHead =
    "# Collective test starting: ./build/all_reduce_perf\n# nThread 1 nGpus 1 minBytes 8 maxBytes 8388608\n"
    "#  Rank  0 Group  0 Pid 20 on n1 device  0 [0009:01:00] NVIDIA H100\n"
    "#  Rank  1 Group  0 Pid 21 on n1 device  1 [0019:01:00] NVIDIA H100\nNCCL version 2.20.5+cuda12.4\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n";

std::string refused_tests(const std::string& text) {
  try {
    tools::read_nccl_tests(text, "perf.txt");
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a row gives its bytes and its time out of place, whichever columns a version prints") {
  // 8,000,000 bytes in 100 us are 80 GB/s.
  const char* forms[] = {
      "  8000000  2000000  float  sum  -1  100.0  80.00  80.00  0  101.0  79.21  79.21  0\n",      // with root
      "  8000000  2000000  float  sum  100.0  80.00  80.00  0e+00  101.0  79.21  79.21  0e+00\n",  // before 2.10
      "  8000000  2000000  float  none  -1  100.0  80.00  80.00  0  101.0  79.21  79.21  N/A\n",   // not checked
      "  8000000  2000000  float  sum  -1  100.0  80.00  80.00  101.0  79.21  79.21\n",            // -c 0
      "  8000000  2000000  half  100.0  80.00  80.00  0  101.0  79.21  79.21  0\n",                // no reduction
      "  8000000  2.0e+6  float  sum  -1  100.0  80.00  80.00  0  101.0  79.21  79.21  0\n",       // shortened
      "  8e+06  2000000  float  sum  -1  100.0  80.00  80.00  0  101.0  79.21  79.21  0\n",
      "  8000000  2000000  float  sum  -1  100.0  80.00  80.00\n",  // one group of times alone
      "  8000000  2000000  float  sum  100.0  80.00  80.00  0\n"};
  for (const char* row : forms) {
    INFO(row);
    const tools::NcclTests read = tools::read_nccl_tests(
        std::string(kTestsHead) + "   0  0  float  sum  -1  5.0  0.00  0.00  0  5.0  0.00  0.00  0\n" + row +
            "# Avg bus bandwidth    : 80\n",
        "perf.txt");
    CHECK(read.operation == "all_reduce");
    CHECK(read.gpus == 2);
    REQUIRE(read.rows.size() == 1);  // the one of no bytes says nothing of a network
    CHECK(read.rows[0].bytes == 8e6);
    CHECK(read.rows[0].seconds == Approx(100e-6));
  }
  CHECK(tools::read_nccl_tests("8 2 float none -1 1.0 0.01 0.01 0 1.0 0.01 0.01 0\n", "x").operation.empty());
}

TEST_CASE("what is no such output is refused in one line") {
  const std::string row = "  8000000  2000000  float  sum  -1  100.0  80.00  80.00  0  101.0  79.21  79.21  0\n";
  CHECK(refused_tests("").find("holds no row") != std::string::npos);
  CHECK(refused_tests(kTestsHead).find("holds no row") != std::string::npos);
  CHECK(refused_tests(kTestsHead + row.substr(0, 45)).find("perf.txt:7:1") != std::string::npos);  // cut off
  CHECK(refused_tests("8000000 2000000 float sum -1 100.0 90.00 90.00 0 101.0 79.21 79.21 0\n").find("over time") !=
        std::string::npos);
  CHECK(refused_tests(kTestsHead + row + kTestsHead + row).find("another collective") != std::string::npos);
}

TEST_CASE("measured times stand beside predicted ones, with the error of each and the median") {
  const Folder folder;
  const std::string text = std::string(kTestsHead) +
                           "  1000000  250000  float  sum  -1  40.0  25.00  25.00  0  41.0  24.39  24.39  0\n"
                           "  8000000  2000000  float  sum  -1  100.0  80.00  80.00  0  101.0  79.21  79.21  0\n";
  const std::string file = folder.write("perf.txt", text);
  const tests::Outcome outcome = tests::orrery({"collective", "ndr-rail", "--measured", file, "--json", "-"});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const nlohmann::json made = nlohmann::json::parse(outcome.out);
  CHECK(made["op"] == "all_reduce");
  CHECK(made["gpus"] == 2);
  REQUIRE(made["rows"].size() == 2);
  double sum = 0;
  for (const auto& row : made["rows"]) {
    const double error = row["error_pct"], time = row["time_us"], measured = row["measured_us"];
    CHECK(error == Approx(100 * (time / measured - 1)));
    sum += std::abs(error);
  }
  CHECK(made["median_ape_pct"] == Approx(sum / 2));
  CHECK(made["rows"][1]["measured_us"] == Approx(100));
  // Asked for, the number of GPUs is that of the option; an output without a name wants --op.
  CHECK(nlohmann::json::parse(
            tests::orrery({"collective", "ndr-rail", "--measured", file, "--gpus", "4", "--json", "-"}).out)["gpus"] ==
        4);
  const std::string nameless = folder.write("nameless.txt", text.substr(text.find("#  Rank")));
  tests::check_refused(tests::orrery({"collective", "ndr-rail", "--measured", nameless}), {"--op"});
  tests::check_refused(tests::orrery({"collective", "ndr-rail"}), {"--op"});
}
