// FLOPs of a model by hand, and of milestone systems beside what was published.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tests::Outcome;

namespace {

json flops(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "flops");
  arguments.insert(arguments.end(), {"--json", "-"});
  const Outcome outcome = tests::orrery(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out);
}

}  // namespace

TEST_CASE("FLOPs of GPT-3 175B are those of the papers' formulas, of a model and of a scenario") {
  const double l = 96, h = 12288, s = 2048;
  const auto parameters = [&](double vocab) {
    return 12 * l * h * h * (1 + 13 / (12 * h) + (vocab + s) / (12 * l * h));
  };
  // Of the square of a sequence a causal mask leaves half; attention is s/6h of it all.
  const auto flops_of_token = [&](double keys, double vocab) {
    return 72 * l * h * h * (1 + keys / (6 * h) + vocab / (12 * l * h));
  };
  const auto check = [&](const json& row, double tokens, double vocab) {
    INFO(row.dump());
    CHECK(row["tokens"].get<double>() == Approx(tokens));
    CHECK(row["square"].get<double>() == Approx(flops_of_token(s, vocab) * tokens).epsilon(1e-6));
    CHECK(row["causal"].get<double>() == Approx(flops_of_token(s / 2, vocab) * tokens).epsilon(1e-6));
    CHECK(row["six_n"].get<double>() == Approx(6 * parameters(vocab) * tokens).epsilon(1e-6));
  };
  const json model = flops({"gpt3-175b", "--tokens", "300e9"});
  CHECK(model["parameters"].get<double>() == Approx(parameters(50257)).epsilon(1e-6));
  REQUIRE(model["rows"].size() == 2);
  check(model["rows"][0], 1, 50257);
  check(model["rows"][1], 300e9, 50257);
  const json scenario = flops({"megatron-gpt3-175b-12288", "--tokens", "300e9"});  // with 64,000 tokens
  REQUIRE(scenario["rows"].size() == 3);
  check(scenario["rows"][0], 1, 64000);
  check(scenario["rows"][1], 6144 * 2048, 64000);
  check(scenario["rows"][2], 300e9, 64000);
}

TEST_CASE("a window leaves causal attention w (s - w/2) pairs, and experts count where a token meets them") {
  const Folder folder;
  const std::string file = folder.write("m.yaml",
                                        "kind: gpt\nlayers: 2\nhidden: 64\nheads: 4\nkv_heads: 4\nffn_hidden: 256\n"
                                        "vocab: 1000\nseq: 32\nattention_window: 8\n");
  const json row = flops({file})["rows"][0];
  // Forward and backward are three forward passes; scores and values are two products of 2 x hidden each.
  const double all = 3.0 * 2 * 4 * 64 * 8, pairs = 8 * (32 - 8 / 2.0);
  CHECK(row["square"].get<double>() - row["causal"].get<double>() == Approx(all * (1 - pairs / (32.0 * 8))));
  const json mixture = flops({"mixtral-8x7b"});
  CHECK(mixture["active_parameters"].get<double>() < 0.3 * mixture["parameters"].get<double>());
  CHECK(mixture["rows"][0]["six_n"].get<double>() == Approx(6 * mixture["active_parameters"].get<double>()));
}

TEST_CASE("milestones are within ten per cent of published estimates, or the table says why not") {
  const json table = flops({"--milestones"});
  std::size_t compared = 0;
  for (const json& row : table["rows"]) {
    INFO(row.dump());
    CHECK(row["source"].get<std::string>().size() > 10);
    if (row["error_pct"].is_null()) continue;
    ++compared;
    const bool timed = row["name"].get<std::string>().starts_with("Transformer");  // printed from time
    if (!timed) CHECK(std::abs(row["error_pct"].get<double>()) < 10);
    if (timed) CHECK(row["error_pct"].get<double>() < -10);
  }
  CHECK(compared >= 15);
  const json again = json::parse(tests::orrery({"reproduce", "milestones", "--json", "-"}).out);
  CHECK(again["rows"] == table["rows"]);
}

TEST_CASE("the chart of milestones has a dot for each that is counted and a ring for each that was published") {
  const tests::Folder folder;
  const std::string file = folder.file("milestones.svg");
  const json table = flops({"--milestones", "--plot", file});
  const std::string svg = tests::read_file(file);
  std::size_t counted = 0, published = 0;
  for (const json& row : table["rows"]) {
    counted += row["six_n"].is_null() ? 0 : 1;
    published += row["published"].is_null() ? 0 : 1;
  }
  const auto times = [&](const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = svg.find(part, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  CHECK(times("r=\"3.2\"") == counted);
  CHECK(times("r=\"6\"") == published);
  CHECK(svg.find(">2017<") != std::string::npos);
  CHECK(tests::orrery({"flops", "gpt3-6.7b", "--plot", file}).status == 2);
}

TEST_CASE("formulas stand beside what is counted") {
  const Outcome outcome =
      tests::orrery({"run", "megatron-gpt3-175b-12288", "--formulas", "--set", "training.tokens=300e9", "--json", "-"});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const json run = json::parse(outcome.out);
  std::size_t exact = 0;
  for (const json& f : run["formulas"]) {
    INFO(f.dump());
    const double ratio = f["by_formula"].get<double>() / f["counted"].get<double>();
    // The parameters of 12 l h^2 count the model's own; a formula of six or eight for each leaves attention out.
    if (f["formula"].get<std::string>().find("l h^2") != std::string::npos) {
      CHECK(ratio == Approx(1).epsilon(1e-6));
      ++exact;
    }
    // Gradients that are added up in fp32 take 2 bytes more of about 4.
    CHECK(ratio > 0.6);
    CHECK(ratio < 1.3);
  }
  CHECK(exact >= 2);
  CHECK(run["formulas"].back()["quantity"] == "time to train");
}

TEST_CASE("recomputed blocks that stop ahead of their last product have a formula that says so") {
  for (const char* software : {"megatron-2023", "torchtitan-2024.12"}) {
    const Outcome outcome = tests::orrery({"run", "megatron-gpt3-175b-12288", "--formulas", "--set", "recompute=full",
                                           "--set", std::string("software=") + software, "--json", "-"});
    INFO(software << ": " << outcome.err);
    REQUIRE(outcome.status == 0);
    const json run = json::parse(outcome.out);
    const auto hardware = std::find_if(run["formulas"].begin(), run["formulas"].end(),
                                       [](const json& f) { return f["quantity"] == "hardware FLOPs of a step"; });
    REQUIRE(hardware != run["formulas"].end());
    CHECK((*hardware)["by_formula"].get<double>() == Approx((*hardware)["counted"].get<double>()).epsilon(1e-6));
    const bool early = (*hardware)["formula"].get<std::string>().ends_with(" - 8 B s l h^2");
    CHECK(early == (std::string(software) != "megatron-2023"));
  }
}

TEST_CASE("what flops cannot read is refused in one line") {
  const Folder folder;
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"flops"},
                                                    {"flops", "no-such-model"},
                                                    {"flops", folder.write("x.yaml", "[1]\n")},
                                                    {"flops", folder.write("y.yaml", "hidden: 3\n")},
                                                    {"flops", "gpt3-175b", "--tokens", "-1"},
                                                    {"flops", "gpt3-175b", "--format", "csv"}}) {
    const Outcome outcome = tests::orrery(arguments);
    INFO(outcome.err);
    CHECK(outcome.status == 2);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  }
}
