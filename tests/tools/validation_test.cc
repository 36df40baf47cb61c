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

TEST_CASE("how a job ran is told by its step where its source leaves it open, and such a row counts as fitted") {
  const auto read = [](const std::string& more) {
    const tests::Folder folder;
    return tools::read_lists({folder.write("list.yaml", more)}).front();
  };
  const auto listed = [&](double measured, const std::string& source) {
    return read(
        "- id: a\n"
        "  source: " +
        source +
        "\n"
        "  cluster: {device: h100-sxm-80gb, gpus: 64, fabric: aws-p5-efa}\n"
        "  model: {layers: 32, hidden: 4096, heads: 32, vocab: 131072, seq: 4096}\n"
        "  parallelism: {tensor: 8, pipeline: 1, data: 8, sequence_parallel: true}\n"
        "  batch: {global: 64, micro: 1}\n"
        "  precision: bf16\n"
        "  software: nanotron-2025\n"
        "  measured: {iteration_s: " +
        fmt::format("{}", measured) + "}\n");
  };
  const std::string sweep = "HF nanotron Ultra-Scale Playbook";
  const auto predicted = [&](double measured, const std::string& source) {
    return tools::validate_record(listed(measured, source), {});
  };
  const double own = *predicted(1, "a table of my own").predicted;
  const tools::ListedRecord open = listed(1, sweep);
  REQUIRE(open.other_ways.size() == 1);
  CHECK(open.other_ways.front().sentence.starts_with("software.checked_calls always: "));
  tools::ListedRecord checked = open;
  checked.settings = open.other_ways.front().record;
  checked.other_ways.clear();
  const double other = *tools::validate_record(checked, {}).predicted;
  REQUIRE(other > 2 * own);  // 8 ranks, 204 us each, around every product
  CHECK(listed(1, "a table of my own").other_ways.empty());

  for (const double measured : {own, 1.2 * own, own / 1.2, 0.3 * own, 3 * other}) {
    INFO(measured / own);
    const tools::ValidationRow row = predicted(measured, sweep);
    CHECK(row.predicted == Approx(own));
    CHECK_FALSE(row.source.told_by_step);
    CHECK_FALSE(row.fitted);
  }
  for (const double measured : {other, 1.2 * other, other / 1.2}) {
    INFO(measured / own);
    const tools::ValidationRow row = predicted(measured, sweep);
    CHECK(row.predicted == Approx(other));
    CHECK(row.source.told_by_step);
    CHECK(row.fitted);
    REQUIRE_FALSE(row.source.says.empty());
    CHECK(row.source.says.back().starts_with("Told by its step: it ran with software.checked_calls always: "));
    CHECK_FALSE(predicted(measured, "a table of my own").source.told_by_step);
  }
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
