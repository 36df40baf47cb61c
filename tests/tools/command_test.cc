// Do the commands print what the contract promises? They run the built program, as users and scripts do.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "tests/tools/trace_check.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tests::Outcome;
using tests::small_scenario;

namespace {

json json_of(const Outcome& outcome) {
  INFO("stderr: " << outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out);
}

json run_json(const std::string& scenario, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"run", scenario, "--json", "-"});
  return json_of(tests::orrery(more));
}

void check_width(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 100);
  }
}

}  // namespace

TEST_CASE("run --json has every key of the contract, and the parts sum to the whole") {
  const Folder folder;
  const std::string text = small_scenario() + "evaluation: {every_steps: 10, sequences: 64}\n";
  const json result = run_json(folder.write("small.yaml", text));
  for (const char* key : {"scenario",
                          "gpus",
                          "ranks_simulated",
                          "events",
                          "wall_s",
                          "iteration_time_s",
                          "tokens_per_s",
                          "tokens_per_s_per_gpu",
                          "model_tflops_per_gpu",
                          "hardware_tflops_per_gpu",
                          "aggregate_pflops",
                          "mfu_pct",
                          "mfu_causal_pct",
                          "hfu_pct",
                          "iteration_time_with_evaluation_s",
                          "tokens_per_s_with_evaluation",
                          "breakdown_s",
                          "memory",
                          "traffic",
                          "assumptions",
                          "provenance"}) {
    INFO(key);
    CHECK(result.contains(key));
  }
  const double step = result["iteration_time_s"];
  CHECK(result["scenario"] == "small");
  CHECK(result["gpus"] == 16);
  double sum = 0;
  for (const char* part : {"compute", "tensor_comm", "pipeline_comm", "data_comm", "context_comm", "expert_comm",
                           "table_comm", "bubble", "optimizer", "host", "other", "host_copy"}) {
    const double seconds = result["breakdown_s"].at(part);
    CHECK(seconds >= 0);
    sum += seconds;
  }
  CHECK(result["breakdown_s"].size() == 14);
  CHECK(std::abs(sum - step) <= 1e-9 * step);
  // 16 sequences of 2048 tokens per step.
  CHECK(result["tokens_per_s"].get<double>() == Approx(16 * 2048 / step));
  CHECK(result["tokens_per_s_per_gpu"].get<double>() == Approx(2048 / step));
  CHECK(result["aggregate_pflops"].get<double>() == Approx(result["model_tflops_per_gpu"].get<double>() * 16 / 1000));
  CHECK(result["iteration_time_with_evaluation_s"].get<double>() > step);
  for (const auto& stage : result["memory"]["stages"]) {
    double total = 0;
    for (const char* part : {"parameters", "gradients", "optimizer", "activations", "buffers"}) {
      total += stage.at(part).get<double>();
    }
    CHECK(stage.at("total").get<double>() == Approx(total));
    CHECK(stage.at("total").get<double>() <= result["memory"]["peak_bytes"].get<double>() * (1 + 1e-12));
  }
  CHECK(result["memory"]["stages"].size() == 2);
  REQUIRE_FALSE(result["traffic"].empty());
  for (const auto& row : result["traffic"]) {
    for (const char* key : {"dimension", "operation", "calls", "bytes_per_call", "bytes_per_rank"}) {
      CHECK(row.contains(key));
    }
  }
  CHECK(result["provenance"]["device_profile"] == "h100-sxm-80gb");
  CHECK(result["provenance"]["fabric"] == "ndr-rail");
}

TEST_CASE("a run out of memory is an answer, with what would make it fit") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario());
  const json fits = run_json(file);
  CHECK(fits["memory"]["fits"] == true);
  CHECK(fits["memory"]["would_fit"].empty());
  for (const auto& stage : fits["memory"]["stages"]) {
    double buffers = 0;
    for (const auto& [name, bytes] : stage["buffers_of"].items()) buffers += bytes.get<double>();
    CHECK(stage["buffers"].get<double>() == Approx(buffers));
    CHECK(stage["allocated"] <= stage["total"]);
    CHECK(stage["counted_activations"] >= stage["activations"]);
  }
  // 64 micro-batches' worth of activations in one: 1024 sequences of 2048 tokens.
  const std::vector<std::string> sets{"--set", "batch.micro=256", "--set", "batch.global=4096"};
  const json full = run_json(file, sets);
  CHECK(full["memory"]["fits"] == false);
  REQUIRE_FALSE(full["memory"]["would_fit"].empty());
  for (const auto& remedy : full["memory"]["would_fit"]) {
    std::vector<std::string> more = sets;
    for (const auto& change : remedy["set"]) more.insert(more.end(), {"--set", change.get<std::string>()});
    const json now = run_json(file, more);
    CHECK(now["memory"]["fits"] == true);
    CHECK(now["memory"]["peak_bytes"].get<double>() == Approx(remedy["peak_bytes"].get<double>()));
  }
  std::vector<std::string> command{"run", file};
  command.insert(command.end(), sets.begin(), sets.end());
  const std::string text = tests::orrery(command).out;
  check_width(text);
  CHECK(text.starts_with("OUT OF MEMORY: stage "));  // ahead of all numbers
  const std::string first = full["memory"]["would_fit"][0]["set"][0];
  CHECK(text.find(first) < text.find("iteration time"));
}

TEST_CASE("--require-fit makes a step that does not fit exit status 3, with everything written") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario());
  CHECK(tests::orrery({"run", file, "--require-fit"}).status == 0);
  const Outcome full = tests::orrery(
      {"run", file, "--require-fit", "--set", "batch.micro=256", "--set", "batch.global=4096", "--json", "-"});
  CHECK(full.status == 3);
  CHECK(full.err.empty());
  CHECK(json::parse(full.out)["memory"]["fits"] == false);
}

TEST_CASE("validate --strict exits with 3 for rows that err, that do not fit and that are beyond the bound") {
  const Folder folder;
  const json step = run_json(folder.write("small.yaml", small_scenario()));
  const double seconds = step["iteration_time_s"];
  // Measured a quarter longer: the prediction is off by 1 / 1.25 - 1 = -20 %.
  const auto list = [&](const std::string& name, const std::string& more, const std::string& from = {},
                        const std::string& to = {}) {
    std::istringstream lines(small_scenario(from, to));
    std::string text;
    for (std::string line; std::getline(lines, line);) text += (text.empty() ? "- " : "  ") + line + "\n";
    return folder.write(name, text + fmt::format("  measured: {{iteration_s: {}{}}}\n", 1.25 * seconds, more));
  };
  const std::string off = list("off.yaml", "");
  CHECK(tests::orrery({"validate", off}).status == 0);
  CHECK(tests::orrery({"validate", off, "--strict"}).status == 0);
  CHECK(tests::orrery({"validate", off, "--strict", "--bound", "20.1"}).status == 0);
  const Outcome beyond = tests::orrery({"validate", off, "--strict", "--bound", "19.9"});
  CHECK(beyond.status == 3);
  CHECK(beyond.err == "validate: small: the step is off by -20.0 %, beyond 19.9 %\n");
  const std::string broken = list("broken.yaml", "", "tensor: 2", "tensor: 3");
  const std::string both = folder.write("both.yaml", tests::read_file(off) + tests::read_file(broken));
  CHECK(tests::orrery({"validate", both}).status == 0);
  CHECK(tests::orrery({"validate", both, "--strict"}).status == 3);
  CHECK(tests::orrery({"validate", broken, "--strict"}).status == 2);  // none could be run
  const std::string large = list("large.yaml", "", "{global: 16, micro: 1}", "{global: 4096, micro: 256}");
  CHECK(tests::orrery({"validate", large, "--strict"}).status == 3);
  const std::string ran_out =
      list("ran_out.yaml", ", oom: true", "{global: 16, micro: 1}", "{global: 4096, micro: 256}");
  CHECK(tests::orrery({"validate", ran_out, "--strict"}).status == 0);
  tests::check_refused(tests::orrery({"validate", off, "--bound", "5"}), "--strict");
}

TEST_CASE("folded and full agree to the picosecond, and --set is obeyed") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario());
  const json folded = run_json(file), full = run_json(file, {"--ranks", "full"});
  CHECK(folded["iteration_time_s"] == full["iteration_time_s"]);
  CHECK(folded["ranks_simulated"] < full["ranks_simulated"]);
  CHECK(full["ranks_simulated"] == 16);
  // Twice the sequences on the same GPUs cannot take less time.
  const json twice = run_json(file, {"--set", "batch.global=32", "--set", "name=twice"});
  CHECK(twice["scenario"] == "twice");
  CHECK(twice["iteration_time_s"] > folded["iteration_time_s"]);
}

TEST_CASE("the human report fits 100 columns and names its sections") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario());
  for (const std::string command : {"run", "traffic", "topology"}) {
    const Outcome outcome = tests::orrery({command, file});
    INFO(command << ": " << outcome.err);
    CHECK(outcome.status == 0);
    check_width(outcome.out);
    CHECK(outcome.out.find("small") == 0);
  }
  const std::string report = tests::orrery({"run", file}).out;
  for (const char* section : {"Time and rates", "Where the time goes", "Memory per GPU"}) {
    CHECK(report.find(section) != std::string::npos);
  }
  CHECK(tests::orrery({"traffic", file}).out.find("differs") == std::string::npos);
}

TEST_CASE("plan prints the program of a stage, and refuses what is none") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario());
  const Outcome first = tests::orrery({"plan", file}), last = tests::orrery({"plan", file, "--stage", "1"});
  CHECK(first.status == 0);
  CHECK(first.out.find("small: 16 x h100-sxm-80gb") == 0);
  CHECK(first.out.find("stage 0 of 2: ") != std::string::npos);
  CHECK(first.out.find("  embedding  ") != std::string::npos);
  CHECK(last.out.find("stage 1 of 2: ") != std::string::npos);
  CHECK(last.out.find("lm head data gradient") != std::string::npos);  // the last stage has the head
  CHECK(first.out.find("lm head") == std::string::npos);
  // Short, unless all is asked for; with kernels longer still.
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  CHECK(lines(first.out) < 200);
  const Outcome all = tests::orrery({"plan", file, "--passes", "1000"});
  CHECK(lines(all.out) > lines(first.out));
  CHECK(all.out.find(" operations)") == std::string::npos);
  CHECK(lines(tests::orrery({"plan", file, "--passes", "1000", "--kernels"}).out) > lines(all.out));
  const Outcome none = tests::orrery({"plan", file, "--stage", "2"});
  CHECK(none.status == 2);
  CHECK(none.err == "--stage: got 2, expected 0 to 1, the stages of the scenario\n");
  CHECK(tests::orrery({"plan", file, "--passes", "0"}).status == 2);
}

TEST_CASE("a trace of a real step parses, nests and has one process per stage") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario()), out = folder.file("trace.json");
  REQUIRE(tests::orrery({"run", file, "--trace", out}).status == 0);
  const json trace = json::parse(tests::read_file(out));
  const tests::TraceCheck check = tests::check_trace(trace);
  CHECK(check.problems == std::vector<std::string>{});
  CHECK(check.slices > 0);
  CHECK(check.deepest == 2);
  std::size_t processes = 0;
  double last = 0;
  for (const auto& event : trace["traceEvents"]) {
    processes += event["name"] == "process_name" ? 1u : 0u;
    if (event["ph"] == "X") last = std::max(last, event["ts"].get<double>() + event["dur"].get<double>());
  }
  CHECK(processes >= 2);
  CHECK(last * 1e-6 <= run_json(file)["iteration_time_s"].get<double>() * (1 + 1e-6));
}

TEST_CASE("reproduce prints every cell of the table with its error") {
  const Outcome outcome = tests::orrery({"reproduce"});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  check_width(outcome.out);
  for (const char* word :
       {"MegaScale: A100 + Tomahawk4 200G, 12288 GPUs, 1536 nodes, TP 8, PP 8, DP 192, batch 6144", "Megatron-LM",
        "Eos: Xeon + H100 + IB NDR 400G, 10752 GPUs, 1344 nodes, TP 4, PP 8, DP 336, batch 2688", "minutes per",
        "8 N D,", "days", " min", "Sources"}) {
    CHECK(outcome.out.find(word) != std::string::npos);
  }
  const json table = json_of(tests::orrery({"reproduce", "megascale-eos", "--json", "-"}));
  REQUIRE(table["rows"].size() == 4);
  for (const auto& row : table["rows"]) {
    const auto& cells = row["cells"];
    CHECK(cells.size() == (row["system"] == "Eos + validation" ? 6 : 5));
    CHECK(row["nodes"].get<double>() * 8 == row["gpus"].get<double>());
    for (const auto& cell : cells) {
      const double published = cell["published"], predicted = cell["predicted"];
      CHECK(cell["error_pct"].get<double>() == Approx(100 * (predicted - published) / published));
    }
    // Both columns obey tokens = rate x time, published figures within their rounding.
    const double tokens = row["batch"].get<double>() * 2048;
    for (const char* side : {"published", "predicted"}) {
      const double rate = cells["tokens_per_s"][side], step = cells["iteration_time_s"][side];
      CHECK(rate * step == Approx(tokens).epsilon(0.001));
      CHECK(cells["minutes_per_billion_tokens"][side].get<double>() == Approx(1e9 / rate / 60).epsilon(0.001));
    }
  }
}

TEST_CASE("a list of which no row could be run is the user's error, with its rows written") {
  const Folder folder;
  const std::string row = "- {id: a, measured: {iteration_s: 1}, cluster: {device: h100-sxm-80gb, gpus: 3}}\n";
  const std::string one = folder.write("one.yaml", row), json_file = folder.file("rows.json");
  const tests::Outcome outcome = tests::orrery({"validate", one, "--json", json_file});
  CHECK(outcome.status == 2);
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK(outcome.err.find("none of 1 rows could be run, the first: ") != std::string::npos);
  CHECK(json::parse(tests::read_file(json_file))["rows"][0]["status"] == "error");
}

TEST_CASE("validate keeps every row and says which failed and why") {
  const Folder folder;
  std::string list;
  const auto add = [&](const std::string& id, const std::string& change, const std::string& measured) {
    std::istringstream lines(small_scenario("name: small", "id: " + id));
    bool first = true;
    for (std::string line; std::getline(lines, line); first = false) {
      const std::string::size_type at = line.find("tensor: 2");
      if (!change.empty() && at != std::string::npos) line.replace(at, 9, change);
      list += (first ? "- " : "  ") + line + '\n';
    }
    list += "  measured: " + measured + '\n';
  };
  add("timed", "", "{iteration_s: 1.0}");
  add("broken", "tensor: 3", "{iteration_s: 1.0}");
  add("rated", "", "{mfu_pct: 40}");
  const std::string file = folder.write("list.yaml", list);
  const json result = json_of(tests::orrery({"validate", file, "--json", "-"}));
  REQUIRE(result["rows"].size() == 3);
  CHECK(result["rows"][0]["id"] == "timed");
  CHECK(result["rows"][0]["metric"] == "iteration_s");
  CHECK(result["rows"][0]["status"] == "ok");
  CHECK(result["rows"][1]["status"] == "error");
  CHECK(result["rows"][1]["predicted"].is_null());
  CHECK(result["rows"][1]["message"].get<std::string>().find("list.yaml:") != std::string::npos);
  CHECK(result["rows"][2]["metric"] == "mfu_pct");
  const double first = result["rows"][0]["error_pct"], third = result["rows"][2]["error_pct"];
  CHECK(result["summary"]["n"] == 2);
  CHECK(result["summary"]["mape_pct"].get<double>() == Approx((std::abs(first) + std::abs(third)) / 2));
  CHECK(result["summary"]["bias_pct"].get<double>() == Approx((first + third) / 2));
  for (const char* key : {"median_ape_pct", "max_ape_pct"}) CHECK(result["summary"].contains(key));
  // The same bytes whatever the number of threads, also for a folder.
  const std::string one = tests::orrery({"validate", folder.path().string(), "--jobs", "1"}).out;
  CHECK(one == tests::orrery({"validate", file, "--jobs", "8"}).out);
  check_width(one);
}

TEST_CASE("schema is JSON, help knows every key, topology writes a graph") {
  const json schema = json_of(tests::orrery({"schema"}));
  CHECK(schema.contains("$schema"));
  CHECK(tests::orrery({"help", "parallelism.tensor"}).out.find("parallelism.tensor") != std::string::npos);
  CHECK(tests::orrery({"list", "keys"}).out.find("batch.global") != std::string::npos);
  CHECK(tests::orrery({"--help"}).out.find("reproduce") != std::string::npos);
  const Folder folder;
  const std::string dot = folder.file("cluster.dot");
  const Outcome outcome = tests::orrery({"topology", "ndr-rail", "--gpus", "64", "--dot", dot});
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(tests::read_file(dot).find("graph") != std::string::npos);
}
