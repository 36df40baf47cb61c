// Does --explain move what a user's --set would move, and is its interval what the known rows and stated errors say?
#include "tools/explain/explain.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;

namespace {

double step_of(const std::vector<std::string>& sets) {
  sim::Settings document = scenarios::parse_yaml(tests::small_scenario(), "small.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return sim::to_seconds(workloads::simulate_step(scenarios::load_scenario(document).job).iteration);
}

tools::Features some_features() {
  tools::Features f;
  f.device = "h100-sxm-80gb";
  f.software = "nemo-23.09";
  f.fabric = "ndr-rail";
  f.recompute = "none";
  f.schedule = "1f1b";
  f.gpus = 16;
  f.sizes.tensor = 2;
  f.sizes.micro_batch = 1;
  f.sizes.hidden = 2048;
  f.sizes.seq = 2048;
  f.exposed_s[0] = 1;
  return f;
}

}  // namespace

TEST_CASE("an elasticity is what two runs with --set say, and rates make a step shorter") {
  const sim::Settings document = scenarios::parse_yaml(tests::small_scenario(), "small.yaml");
  const tools::SensitivityStudy study = tools::sensitivities(document, 0.05, 1);
  std::map<std::string, tools::Sensitivity> inputs;
  for (const auto& input : study.inputs) inputs[input.key] = input;
  CHECK(study.tried > 30);
  CHECK(study.simulations > study.inputs.size());
  for (std::size_t i = 1; i < study.inputs.size(); ++i) {
    CHECK(std::abs(study.inputs[i - 1].elasticity) >= std::abs(study.inputs[i].elasticity));
  }
  // As a user would find out.
  const std::string key = "cluster.device.streaming.efficiency.gelu_backward";
  REQUIRE(inputs.count(key) == 1);
  const double value = std::stod(inputs[key].value);
  const double up = step_of({fmt::format("{}={:.9g}", key, value * 1.05)});
  const double down = step_of({fmt::format("{}={:.9g}", key, value / 1.05)});
  CHECK(inputs[key].elasticity == Approx(std::log(up / down) / (2 * std::log(1.05))).epsilon(1e-6));
  CHECK(inputs[key].elasticity < 0);
  CHECK(inputs[key].spread > 0);
  // No single input does more than all of the step.
  for (const auto& [name, input] : inputs) {
    INFO(name << " " << input.elasticity);
    CHECK(std::abs(input.elasticity) < 1.05);
    CHECK(name.find("provenance") == std::string::npos);
    if (name.find("latency") != std::string::npos || name.find("_issue") != std::string::npos) {
      CHECK(input.elasticity > -0.01);
    }
    if (name.find("bandwidth") != std::string::npos || name.ends_with("rate")) CHECK(input.elasticity < 0.01);
  }
}

TEST_CASE("quantiles over rows like one, worked out by hand") {
  // 100 rows of one list, alike, of which row i was measured at exp((i - 50) / 100) of the prediction: as many
  // independent rows as there are. 16 % less the correction (1 + 1 / 100) is 15.66 %: the 16th row from below, i = 15.
  std::vector<tools::KnownRow> rows;
  for (int i = 0; i < 100; ++i) rows.push_back({"list", fmt::format("row-{}", i), some_features(), (i - 50) / 100.0});
  const auto like = tools::like_rows(some_features(), rows);
  REQUIRE(like.has_value());
  CHECK(like->rows == Approx(100));
  CHECK(std::log(like->low68) == Approx(-0.35));
  CHECK(std::log(like->high68) == Approx(0.34));  // 84.34 %: the 85th
  CHECK(std::log(like->low90) == Approx(-0.46));  // 4.55 %: the 5th
  CHECK(like->nearest.size() == 3);
  CHECK_FALSE(tools::like_rows(some_features(), {}).has_value());
  const std::vector<tools::KnownRow> one{rows[0]};
  CHECK_FALSE(tools::like_rows(some_features(), one, &one[0]).has_value());
}

TEST_CASE("rows that are nothing like it hardly count, and a long list counts as the root of its rows") {
  tools::Features far = some_features();
  far.device = "a100-sxm-80gb";
  far.software = "megatron-2021";
  far.gpus = 16384;
  far.sizes.hidden = 65536;
  CHECK(tools::distance_squared(some_features(), some_features()) == 0);
  CHECK(tools::distance_squared(some_features(), far) > 10);
  CHECK(tools::distance_squared(some_features(), far) == tools::distance_squared(far, some_features()));
  std::vector<tools::KnownRow> rows;
  for (int i = 0; i < 20; ++i) rows.push_back({"near", fmt::format("near-{}", i), some_features(), 0.01});
  for (int i = 0; i < 20; ++i) rows.push_back({"far", fmt::format("far-{}", i), far, 1.0});
  const auto like = tools::like_rows(some_features(), rows);
  REQUIRE(like.has_value());
  CHECK(std::log(like->high68) == Approx(0.01));
  CHECK(like->nearest.front().starts_with("near"));
  // 16 rows of a list weigh as 4 of lists of their own: 4 to 1 against one row, so that one row holds a fifth.
  std::vector<tools::KnownRow> two;
  for (int i = 0; i < 16; ++i) two.push_back({"long", fmt::format("long-{}", i), some_features(), 0.0});
  two.push_back({"short", "short", some_features(), 0.5});
  CHECK(std::log(tools::like_rows(some_features(), two)->high90) == Approx(0.5));
  CHECK(std::log(tools::like_rows(some_features(), two)->low68) == Approx(0.0));
}

TEST_CASE("a mixture's interval comes from mixtures, however many dense rows of its software there are") {
  tools::Features mixture = some_features();
  mixture.work = "mixture";
  mixture.device = "h200-sxm-141gb";
  std::vector<tools::KnownRow> rows;
  for (int i = 0; i < 100; ++i) rows.push_back({"dense", fmt::format("dense-{}", i), some_features(), 0.01});
  for (int i = 0; i < 9; ++i) rows.push_back({"mixtures", fmt::format("mixture-{}", i), mixture, 0.3});
  tools::Features asked = mixture;
  asked.device = "h100-sxm-80gb";
  // Weights: exp(-1 / 2) + 0.002 = 0.609 for a mixture on another device, exp(-9 / 2) + 0.002 = 0.0131 for a dense
  // row; a list weighs the root of its sum, 2.340 against 1.145, so that dense rows, the lower ones, hold 33 %. Kish's
  // count is 3.485^2 / (2.340^2 / 9 + 1.145^2 / 100) = 19.5.
  const auto like = tools::like_rows(asked, rows);
  REQUIRE(like.has_value());
  CHECK(like->rows == Approx(19.5).epsilon(0.005));
  CHECK(like->nearest.front().starts_with("mixture"));
  CHECK(std::log(like->high68) == Approx(0.3));
  CHECK(std::log(like->low68) == Approx(0.01));  // 16 % less the correction lie below
  asked.work = "dense";
  CHECK(std::log(tools::like_rows(asked, rows)->high68) == Approx(0.01));
}

TEST_CASE("what no row has is new: a framework, its generation, a device, a kind of work, a size") {
  tools::Features known = some_features(), asked = some_features();
  const std::vector<tools::KnownRow> rows{{"list", "row", known, 0.0}};
  CHECK(tools::newness_of(asked, rows) == tools::Newness{});
  CHECK(tools::text_of(tools::newness_of(asked, rows), asked).empty());
  asked.software = "nemo-25.04";
  CHECK(tools::newness_of(asked, rows).framework == tools::Seen::kin);
  asked.software = "axonn-2024";
  CHECK(tools::newness_of(asked, rows).framework == tools::Seen::none);
  asked.device = "gb300";
  asked.work = "mixture";
  asked.gpus = 33;  // more than twice the 16 of the only row
  const tools::Newness all = tools::newness_of(asked, rows);
  CHECK(all == tools::Newness{tools::Seen::none, true, true, true});
  CHECK(tools::text_of(all, asked).find("framework axonn unknown, device gb300 unknown") == 0);
  asked.exposed_s[static_cast<std::size_t>(workloads::Category::host)] = 1;  // half of the step
  CHECK(tools::text_of(all, asked).find("eager framework axonn unknown") == 0);
  asked.gpus = 32;
  CHECK_FALSE(tools::newness_of(asked, rows).size);
  CHECK(tools::newness_of(known, rows, &rows[0]) == tools::Newness{tools::Seen::none, true, true, true});
  for (std::size_t i = 0; i < tools::kNewnesses; ++i) CHECK(tools::index_of(tools::newness_at(i)) == i);
}

TEST_CASE("a framework that is left out asks for what it misses by, worked out by hand") {
  // Nine frameworks of one row each at 0, 0.1, ... 0.8. The eight others give a row the range that they span: the first
  // and the last lie 0.1 outside of it, the others 0.1 to 0.4 inside. Of nine, 90 % are all: 0.1. 68 % are seven, and
  // the seventh lies 0.1 inside: the interval is narrowed by that. A framework's own row has no part in it: of eight
  // others 90 % are all, one of them 0.1 outside, which holds the first and the last exactly; 68 % leave those two out.
  std::vector<tools::KnownRow> rows;
  for (int i = 0; i < 9; ++i) {
    tools::Features f = some_features();
    f.software = fmt::format("framework{}-2024", i);
    rows.push_back({fmt::format("list-{}", i), fmt::format("row-{}", i), f, i / 10.0});
  }
  const tools::WidthStudy study = tools::study_widths(rows);
  const auto& entry = study.widenings.at[tools::index_of({tools::Seen::none, false, false, false})];
  CHECK(entry.rows == 9);
  CHECK(entry.groups == 9);
  CHECK(entry.widening.at68 == Approx(-0.1));
  CHECK(entry.widening.at90 == Approx(0.1));
  bool framework = false;
  for (const tools::Held& held : study.held) {
    if (held.left_out != "framework") continue;
    framework = true;
    CHECK(held.groups == 9);
    CHECK(held.at68 == Approx(100 * 7 / 9.0));
    CHECK(held.at90 == Approx(100));
    CHECK(held.each90 == Approx(100));
  }
  CHECK(framework);
  // What is new besides never narrows an interval, though no row tells of it.
  CHECK(study.widenings.at[tools::index_of({tools::Seen::none, true, false, false})].widening.at90 == Approx(0.1));
  CHECK(study.widenings.at[tools::index_of({})].widening.at90 == 0);
  tools::Features asked = some_features();
  asked.software = "another-2025";
  const auto fresh = tools::step_interval(asked, rows, study.widenings);
  REQUIRE(fresh.has_value());
  CHECK(std::log(fresh->like.high90) == Approx(0.9));
  const auto seen = tools::step_interval(rows[8].features, rows, study.widenings, &rows[8]);
  REQUIRE(seen.has_value());
  CHECK(std::log(seen->like.high90) == Approx(0.7));  // by the other eight, nothing added
}

TEST_CASE("values that fall take the mean of their neighbours by weight, worked out by hand") {
  // 3 and 2 by 1 and 3 are 2.25, above 0: with it (3 + 6 + 0) / 5.
  const std::vector<double> out = tools::nowhere_falling({1, 3, 2, 0}, {1, 1, 3, 1});
  REQUIRE(out.size() == 4);
  CHECK(out[0] == 1);
  for (std::size_t i = 1; i < 4; ++i) CHECK(out[i] == Approx(1.8));
  CHECK(tools::nowhere_falling({1, 2, 2}, {1, 1, 1}) == std::vector<double>{1, 2, 2});
  CHECK(tools::nowhere_falling({}, {}).empty());
}

TEST_CASE("an interval that is narrowed by more than half of it is its middle, and never turns around") {
  tools::LikeRows like;
  like.low68 = 0.9;
  like.high68 = 0.9 * std::exp(0.04);
  like.low90 = 0.8;
  like.high90 = 1.25;
  const tools::LikeRows out = tools::widened(like, {-0.03, -0.05});
  CHECK(std::log(out.low68 / 0.9) == Approx(0.02));
  CHECK(out.high68 == Approx(out.low68));
  CHECK(std::log(out.low90 / 0.8) == Approx(0.05));
  CHECK(std::log(out.high90 / 1.25) == Approx(-0.05));
}

TEST_CASE("rows of which nobody knows how they ran are no evidence, and are counted apart") {
  std::vector<tools::KnownRow> rows;
  for (int i = 0; i < 9; ++i) {
    tools::Features f = some_features();
    f.software = fmt::format("framework{}-2024", i);
    rows.push_back({fmt::format("list-{}", i), fmt::format("row-{}", i), f, 0.0});
  }
  tools::KnownRow odd{"odd", "odd", some_features(), 2.0};
  odd.state_unknown = true;
  rows.push_back(odd);
  for (const tools::Held& held : tools::study_widths(rows).held) {
    if (held.left_out != "framework") continue;
    CHECK(held.rows == 9);
    CHECK(held.at90 == Approx(100));
    CHECK(held.with_unknown90 == Approx(90));
  }
}

TEST_CASE("rows that a number was fitted on are no evidence of how far predictions are off") {
  std::vector<tools::KnownRow> rows;
  for (int i = 0; i < 10; ++i)
    rows.push_back({"list", fmt::format("fitted-{}", i), some_features(), 0.0, "iteration_s", 1.0, true});
  CHECK_FALSE(tools::like_rows(some_features(), rows).has_value());
  rows.push_back({"list", "free", some_features(), 0.3});
  const auto like = tools::like_rows(some_features(), rows);
  REQUIRE(like.has_value());
  CHECK(like->rows == Approx(1));
  CHECK(std::log(like->low90) == Approx(0.3));
}

TEST_CASE("a spread may be of the number of one document alone, wherever it is inherited and not set anew") {
  const auto spread = [](const std::string& fabric, const std::string& key) {
    return tools::input_spread(scenarios::parse_yaml("cluster: {fabric: " + fabric + "}", "x.yaml"), key);
  };
  const double measured = spread("ndr-rail", "cluster.fabric.efficiency");
  CHECK(measured > 0);
  const double fitted = spread("tomahawk4-200g", "cluster.fabric.efficiency");  // to eleven steps
  CHECK(fitted > measured);
  CHECK(spread("tomahawk4-unsplit", "cluster.fabric.efficiency") == fitted);
  CHECK(spread("{inherits: tomahawk4-200g, efficiency: 0.9}", "cluster.fabric.efficiency") == measured);
  CHECK(spread("tomahawk4-200g", "cluster.fabric.nics") == 0);
}

TEST_CASE("the JSON of run --explain holds the inputs and intervals around the step") {
  const tests::Folder folder;
  const std::string file = folder.write("small.yaml", tests::small_scenario());
  const tests::Outcome outcome = tests::orrery({"run", file, "--explain", "--json", "-", "--jobs", "1"});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const nlohmann::json result = nlohmann::json::parse(outcome.out);
  const nlohmann::json& explain = result["explain"];
  CHECK(explain["inputs"].size() > 10);
  CHECK(result["interval"]["iteration_time_90_s"][0] <= result["interval"]["iteration_time_68_s"][0]);
  CHECK(result["interval"]["iteration_time_68_s"][0] >= explain["iteration_time_68_s"][0]);  // the wider of two
  const double step = result["iteration_time_s"], spread = explain["spread"];
  CHECK(spread == Approx(std::hypot(explain["kernel_spread"].get<double>(), explain["input_spread"].get<double>())));
  // The interval is at least what kernels and inputs say, and 90 % holds 68 %.
  CHECK(explain["iteration_time_68_s"][0] <= step * std::exp(-spread) * (1 + 1e-9));
  CHECK(explain["iteration_time_68_s"][1] >= step * std::exp(spread) * (1 - 1e-9));
  CHECK(explain["iteration_time_90_s"][0] <= explain["iteration_time_68_s"][0]);
  CHECK(explain["iteration_time_90_s"][1] >= explain["iteration_time_68_s"][1]);
  const tests::Outcome text = tests::orrery({"run", file, "--explain", "--jobs", "1"});
  CHECK(text.out.find("What the step hangs on") != std::string::npos);
  CHECK(text.out.find("How sure the answer is") != std::string::npos);
  CHECK(tests::orrery({"run", file, "--explain", "--explain-share", "0"}).status == 2);
}

TEST_CASE("a feature is worth what the same run gives without it, and the table begins with the largest") {
  const tests::Folder folder;
  const std::string file = folder.write("small.yaml", tests::small_scenario());
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"run", file, "--set", "attention=null", "--set", "software=nemo-24.04"};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--json", "-", "--jobs", "1"});
    const tests::Outcome outcome = tests::orrery(words);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return nlohmann::json::parse(outcome.out);
  };
  const nlohmann::json whole = run({"--explain"});
  const nlohmann::json& features = whole["explain"]["features"];
  REQUIRE(features.size() > 3);
  CHECK(whole["explain"]["features_tried"] > features.size());  // some move nothing here
  bool graphs = false;
  double last = 1e9;
  for (const nlohmann::json& one : features) {
    INFO(one.dump());
    const double without = one["step_without_s"], change = one["change_pct"];
    CHECK(change == Approx(100 * (without / whole["iteration_time_s"].get<double>() - 1)));
    CHECK(std::abs(change) <= last);
    last = std::abs(change);
    if (one["name"] != "cuda-graphs") continue;
    graphs = true;
    CHECK(one["of"] == "nemo-24.04");
    CHECK(change > 0);
    CHECK(without == Approx(run({"--set", "software.without=[cuda-graphs]"})["iteration_time_s"].get<double>()));
  }
  CHECK(graphs);
  // What set a number is said too; what was fitted apart.
  const auto set_by = [](const nlohmann::json& result, const std::string& key) {
    for (const nlohmann::json& input : result["explain"]["inputs"]) {
      if (input["key"] == key) return input["set_by"].get<std::string>();
    }
    return std::string();
  };
  CHECK(set_by(whole, "software.host.kernel_issue") == "feature cuda-graphs");
  const nlohmann::json zero = run({"--set", "software=zero-bubble-2023", "--explain"});
  CHECK(set_by(zero, "software.slowdowns.pipeline_slowdown") == "fitted, zero-bubble-2023");
}

TEST_CASE("run says in which interval the step lies, and what of it nobody measured") {
  const tests::Folder folder;
  const std::string file = folder.write("small.yaml", tests::small_scenario());
  const tests::Outcome seen = tests::orrery({"run", file});
  REQUIRE(seen.status == 0);
  CHECK(seen.out.find("Of such steps 68 % take ") != std::string::npos);
  const tests::Outcome fresh = tests::orrery({"run", file, "--set", "software=axonn-2024"});
  INFO(fresh.out);
  REQUIRE(fresh.status == 0);
  CHECK(fresh.out.find("Nothing like this was measured: ") != std::string::npos);
  CHECK(fresh.out.find("framework axonn unknown") != std::string::npos);
}

TEST_CASE("rows that the program holds packed are those of the file, figure by figure") {
  const std::vector<tools::KnownRow> read = tools::shipped_known_rows();
  const tools::ShippedRows shipped;
  const std::vector<tools::RowView> views = tools::views_of(read);
  REQUIRE(shipped.all().size() == read.size());
  REQUIRE(read.size() > 1000);
  std::size_t no_evidence = 0;
  for (std::size_t i = 0; i < read.size(); ++i) {
    const tools::RowView &packed = shipped.all()[i], &view = views[i];
    INFO(read[i].list << " " << read[i].id);
    REQUIRE((packed.list == view.list && packed.id == view.id && packed.metric == view.metric));
    REQUIRE((packed.log_ratio == view.log_ratio && packed.measured == view.measured));
    REQUIRE(packed.evidence == view.evidence);
    no_evidence += packed.evidence ? 0 : 1;
    const tools::RowTraits &a = packed.traits, &b = view.traits;
    REQUIRE((a.work == b.work && a.device == b.device && a.software == b.software && a.fabric == b.fabric));
    REQUIRE((a.recompute == b.recompute && a.schedule == b.schedule && a.gpus == b.gpus && a.hidden == b.hidden));
    REQUIRE((a.micro_batch == b.micro_batch && a.seq == b.seq && a.tensor == b.tensor));
    REQUIRE((a.log_work == b.log_work && a.timed == b.timed && a.shares == b.shares));
  }
  CHECK(no_evidence > 50);
  // An answer by either is the same to the last digit.
  const auto by_file = tools::like_rows(some_features(), read),
             by_pack = tools::like_rows(some_features(), shipped.all(), nullptr);
  REQUIRE((by_file && by_pack));
  CHECK(by_file->nearest == by_pack->nearest);
  CHECK((by_file->rows == by_pack->rows && by_file->low90 == by_pack->low90 && by_file->high68 == by_pack->high68));
}
