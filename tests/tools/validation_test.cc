// Are predictions compared with the figure that the record names, and are the summaries the usual ones?
#include "tools/validation.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;
using tools::RowStatus;

namespace {

workloads::StepReport report() {
  workloads::StepReport r;
  r.iteration = sim::seconds(2.0);
  r.rates.tokens_per_s = 3000;
  r.rates.model_tflops_per_gpu = 100;
  r.rates.hardware_tflops_per_gpu = 130;
  r.rates.mfu_pct = 40;
  return r;
}

sim::Settings record(const std::string& measured) {
  return scenarios::parse_yaml(tests::small_scenario() + measured, "record.yaml");
}

}  // namespace

TEST_CASE("the first of iteration, tokens, FLOPs and MFU that was measured is compared") {
  scenarios::Measured m;
  CHECK(tools::compare(m, report()).name.empty());
  m.mfu_pct = 50;
  CHECK(tools::compare(m, report()).predicted == 40);
  m.tflops_per_gpu = 90;
  m.tflops_kind = "model (computed)";
  CHECK(tools::compare(m, report()).predicted == 100);
  m.tflops_kind = "hardware incl. recompute";
  CHECK(tools::compare(m, report()).predicted == 130);
  m.tflops_kind = "megatron_improved";
  CHECK(tools::compare(m, report()).predicted == 130);
  m.tokens_per_s = 2500;
  CHECK(tools::compare(m, report()).name == "tokens_per_s");
  CHECK(tools::compare(m, report()).predicted == 3000);
  m.iteration_s = 1.9;
  CHECK(tools::compare(m, report()).name == "iteration_s");
  CHECK(tools::compare(m, report()).predicted == Approx(2.0));
}

TEST_CASE("memory is compared with what the source read: allocated, reserved or the whole device") {
  const auto predicted = [](const std::string& kind) {
    const std::string text =
        tests::small_scenario("software: nemo-23.09", "software: {inherits: nemo-23.09, allocator_overhead: 0.2}") +
        "measured: {iteration_s: 1, memory_gb: 10, memory_kind: " + kind + "}\n";
    const auto row = tools::validate_record({"list", scenarios::parse_yaml(text, "record.yaml")}, {});
    INFO(row.message);
    REQUIRE(row.memory.predicted_gb.has_value());
    return *row.memory.predicted_gb;
  };
  // A fifth more is held than is allocated, and the context comes on top.
  CHECK(predicted("reserved") == Approx(1.2 * predicted("allocated")));
  CHECK(predicted("device") > predicted("reserved") + 0.4);
}

TEST_CASE("summaries of a list worked out by hand") {
  // Errors -1, +2, +3, -10: absolute 1, 2, 3, 10; mean 4; median (2 + 3) / 2; bias (-1 + 2 + 3 - 10) / 4.
  const tools::ErrorSummary s = tools::summarize({-1, 2, 3, -10});
  CHECK(s.n == 4);
  CHECK(s.mape_pct == Approx(4));
  CHECK(s.median_ape_pct == Approx(2.5));
  CHECK(s.max_ape_pct == Approx(10));
  CHECK(s.bias_pct == Approx(-1.5));
  CHECK(tools::summarize({-7}).median_ape_pct == Approx(7));
  CHECK(tools::summarize({}).n == 0);
}

TEST_CASE("a pattern is the text itself, or its beginning before a star") {
  CHECK(tools::matches("table 1", "table 1"));
  CHECK_FALSE(tools::matches("table 12", "table 1"));
  CHECK(tools::matches("table 12", "table 1*"));
  CHECK(tools::matches("table 1", "table 1*"));
  CHECK_FALSE(tools::matches("a table 1", "table 1*"));
  CHECK(tools::matches("", "*"));
}

TEST_CASE("a record that fails is a row that says why; one that runs has its error") {
  const std::string cited = "source: Table 1\nmeasured: {iteration_s: 1}\n";
  const tools::ValidationRow good = tools::validate_record({"list", record(cited)}, {"sma*"});
  CHECK(good.status == RowStatus::ok);
  CHECK(good.id == "small");
  CHECK(good.fitted);
  CHECK(good.metric == "iteration_s");
  // Measured one second: the error in percent is the prediction in percent of a second, less 100.
  REQUIRE(good.predicted.has_value());
  CHECK(*good.predicted > 0);
  CHECK(*good.error_pct == Approx(100 * *good.predicted - 100));
  // A rate that is predicted too high means a step that is too short: of twice the rate, by half.
  const tools::ValidationRow rate =
      tools::validate_record({"list", record("source: Table 1\nmeasured: {tokens_per_s: 1000}\n")}, {});
  REQUIRE(rate.error_pct.has_value());
  CHECK(*rate.error_pct == Approx(100 * (1000 / *rate.predicted - 1)));

  const tools::ValidationRow bad =
      tools::validate_record({"list", record("source: Table 1\nmeasured: {iteration_s: fast}\n")}, {"other"});
  CHECK(bad.status == RowStatus::error);
  CHECK_FALSE(bad.fitted);
  CHECK_FALSE(bad.internal);
  CHECK(bad.message.find("iteration_s") != std::string::npos);
  CHECK_FALSE(bad.error_pct.has_value());

  // A record of nobody's table took part in no fit, whatever it is called.
  CHECK_FALSE(tools::validate_record({"list", record("measured: {iteration_s: 1}\n")}, {"sma*"}).fitted);

  const tools::ValidationRow none = tools::validate_record({"list", record("")}, {});
  CHECK(none.status == RowStatus::error);
  CHECK(none.message.find("measured") != std::string::npos);
}
