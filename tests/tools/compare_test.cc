// Are the three ratios of `orrery compare` those of the contract, and is what runs out of memory said to be OOM?
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tests::Outcome;
using tests::small_scenario;

namespace {

json json_of(const std::vector<std::string>& arguments) {
  const Outcome outcome = tests::orrery(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out);
}

}  // namespace

TEST_CASE("ratios are those of the two runs, and above 1 where the target is better") {
  const Folder folder;
  const std::string one = folder.write("one.yaml", small_scenario());
  const std::string other = folder.write("other.yaml", small_scenario("recompute: none", "recompute: full"));
  const json a = json_of({"run", one, "--json", "-"}), b = json_of({"run", other, "--json", "-"});
  const json c = json_of({"compare", one, other, "--json", "-"});
  const auto ratio = [](const json& above, const json& below) { return above.get<double>() / below.get<double>(); };
  CHECK(c["oom"] == false);
  CHECK(c["ThroughputSpeedup"].get<double>() == Approx(ratio(a["tokens_per_s"], b["tokens_per_s"])).epsilon(1e-12));
  CHECK(c["MemoryUsageEfficiency"].get<double>() ==
        Approx(ratio(b["memory"]["peak_bytes"], a["memory"]["peak_bytes"])).epsilon(1e-12));
  CHECK(c["FLOPsUtilization"].get<double>() == Approx(ratio(a["mfu_pct"], b["mfu_pct"])).epsilon(1e-12));
  // On one device both readings of how well FLOPs are used are one ratio; they part where peaks differ.
  CHECK(c["FLOPsUsage"].get<double>() ==
        Approx(ratio(a["model_tflops_per_gpu"], b["model_tflops_per_gpu"])).epsilon(1e-12));
  CHECK(c["FLOPsUsage"].get<double>() == Approx(c["FLOPsUtilization"].get<double>()));
  // Recomputing costs time and saves memory.
  CHECK(c["ThroughputSpeedup"] > 1);
  CHECK(c["MemoryUsageEfficiency"] < 1);
  CHECK(c["FLOPsUtilization"] > 1);
  const json same = json_of({"compare", one, one, "--json", "-"});
  for (const char* name : {"ThroughputSpeedup", "MemoryUsageEfficiency", "FLOPsUtilization"}) CHECK(same[name] == 1.0);
  const std::string text = tests::orrery({"compare", one, other}).out;
  for (const char* word : {"step time", "tokens per second", "MFU", "peak memory", "ThroughputSpeedup"}) {
    INFO(word);
    CHECK(text.find(word) != std::string::npos);
  }
  CHECK(text.find("OOM") == std::string::npos);
}

TEST_CASE("one scenario is compared, changed by --set, with itself; several are all changed") {
  const Folder folder;
  const std::string one = folder.write("one.yaml", small_scenario());
  const std::string other = folder.write("other.yaml", small_scenario("recompute: none", "recompute: full"));
  const json changed = json_of({"compare", one, "--set", "recompute=full", "--json", "-"});
  const json written = json_of({"compare", other, one, "--json", "-"});
  for (const char* name : {"ThroughputSpeedup", "MemoryUsageEfficiency", "FLOPsUtilization", "FLOPsUsage"})
    CHECK(changed[name] == written[name]);
  const json both = json_of({"compare", one, other, "--set", "recompute=none", "--json", "-"});
  CHECK(both["ThroughputSpeedup"] == 1.0);
  const json faster = json_of({"compare", one, "--set", "cluster.device=b200-sxm-180gb", "--json", "-"});
  CHECK(faster["FLOPsUsage"].get<double>() > faster["FLOPsUtilization"].get<double>());
  const Outcome wrong = tests::orrery({"compare", one, "--set", "recompute=half"});
  CHECK(wrong.status == 2);
  CHECK(wrong.err.find("recompute") != std::string::npos);
}

TEST_CASE("what does not fit its memory is OOM, on either side") {
  const Folder folder;
  const std::string fits = folder.write("fits.yaml", small_scenario());
  // 12 x 8 x 32768^2 = 1e11 parameters over 4 GPUs of a replica: 16-bit weights alone need 52 GB, with fp32 gradients
  // 155 GB of the 80 GB.
  const std::string large =
      folder.write("large.yaml", small_scenario("hidden: 2048, heads: 16, kv_heads: 16, ffn_hidden: 8192",
                                                "hidden: 32768, heads: 256, kv_heads: 256, ffn_hidden: 131072"));
  for (const bool swapped : {false, true}) {
    const std::string &target = swapped ? fits : large, &baseline = swapped ? large : fits;
    const json c = json_of({"compare", target, baseline, "--json", "-"});
    const json &bad = c[swapped ? "baseline" : "target"], &good = c[swapped ? "target" : "baseline"];
    CHECK(c["oom"] == true);
    CHECK(bad["oom"] == true);
    CHECK(bad["iteration_time_s"].is_null());
    CHECK(bad["tokens_per_s"].is_null());
    CHECK(bad["peak_bytes"].get<double>() > bad["capacity_bytes"].get<double>());
    CHECK(good["oom"] == false);
    CHECK(good["iteration_time_s"].get<double>() > 0);
    for (const char* name : {"ThroughputSpeedup", "MemoryUsageEfficiency", "FLOPsUtilization"}) {
      CHECK(c[name].is_null());
    }
    CHECK(tests::orrery({"compare", target, baseline}).out.find("OOM") != std::string::npos);
  }
  CHECK(tests::orrery({"compare", fits}).status == 2);
  CHECK(tests::orrery({"compare", fits, folder.file("missing.yaml")}).status == 2);
}

TEST_CASE("several systems: the first over each of the others, or each over a given baseline, in any format") {
  const Folder folder;
  const std::string one = folder.write("one.yaml", small_scenario());
  const std::string two = folder.write("two.yaml", small_scenario("recompute: none", "recompute: full"));
  const std::string three = folder.write("three.yaml", small_scenario("micro: 1", "micro: 2"));
  const auto speedup = [](const std::string& target, const std::string& baseline) {
    return json_of({"compare", target, baseline, "--json", "-"})["ThroughputSpeedup"];
  };
  const json over = json_of({"compare", one, two, three, "--json", "-"})["comparisons"];
  REQUIRE(over.size() == 2);
  CHECK(over[0]["ThroughputSpeedup"] == speedup(one, two));
  CHECK(over[1]["ThroughputSpeedup"] == speedup(one, three));
  const json each = json_of({"compare", two, three, "--baseline", one, "--json", "-"})["comparisons"];
  REQUIRE(each.size() == 2);
  CHECK(each[0]["ThroughputSpeedup"] == speedup(two, one));
  CHECK(each[1]["ThroughputSpeedup"] == speedup(three, one));

  const auto table = [&](const char* format) {
    const Outcome outcome = tests::orrery({"compare", one, two, three, "--format", format});
    CHECK(outcome.status == 0);
    return outcome.out;
  };
  const std::string csv = table("csv"), markdown = table("markdown"), latex = table("latex");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 4);  // a header and three systems
  CHECK(csv.starts_with("group,system,gpus,"));
  CHECK(csv.find(over[0]["ThroughputSpeedup"].dump().substr(0, 12)) != std::string::npos);
  CHECK(std::count(markdown.begin(), markdown.end(), '\n') == 5);
  CHECK(latex.starts_with("\\begin{tabular}"));
  CHECK(latex.find("MFU, \\%") != std::string::npos);
  CHECK(tests::orrery({"compare", one, two, "--format", "word"}).status == 2);
  // A name that would run, end the cell, or be worked out: every format shows it as it is.
  const std::string evil = folder.write("evil.yaml", small_scenario("name: small", "name: '=\\input{x}|<b>~^'"));
  const auto row = [&](const char* format) { return tests::orrery({"compare", evil, two, "--format", format}).out; };
  CHECK(row("latex").find("=\\textbackslash{}input\\{x\\}|<b>\\textasciitilde{}\\textasciicircum{}") !=
        std::string::npos);
  CHECK(row("markdown").find("=\\\\input{x}\\|&lt;b>") != std::string::npos);
  CHECK(row("csv").find("'=\\input{x}|<b>") != std::string::npos);
}

TEST_CASE("the table of platforms has every platform in every layout, and OOM where 6.7B states do not fit") {
  const json table = json_of({"reproduce", "gpt3-6.7b-platforms", "--json", "-"});
  const json& rows = table["rows"];
  REQUIRE(rows.size() == 16);
  for (const json& row : rows) {
    INFO(row.dump());
    // 6.7e9 parameters take at least 16 bytes each when nothing is shared out: 107 GB, which only the MI300X holds.
    const bool unsharded = row["layout"].get<std::string>().find("all states") != std::string::npos;
    CHECK(row["target"]["oom"] == (unsharded && row["system"] != "MI300X"));
    if (row["system"] == table["baseline"] && !unsharded) CHECK(row["ThroughputSpeedup"] == 1.0);
    if (unsharded) CHECK(row["ThroughputSpeedup"].is_null());
  }
}
