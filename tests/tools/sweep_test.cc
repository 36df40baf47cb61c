// Is every point of a sweep what `orrery run` says of it, is the table the same whatever the threads, the order and the
// kills, and is everything refused that cannot be swept?
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/catch.h"
#include "tests/thinned.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"

using namespace orrery;
using nlohmann::json;
using tests::check_refused;
using tests::Folder;
using tests::Outcome;
using tests::read_file;
using tests::small_scenario;

namespace {

/// The small scenario with its data-parallel degree left open, as sweeps of other degrees need it.
std::string open_scenario() { return small_scenario("data: 4, ", ""); }

std::vector<std::string> sweep(const std::string& scenario, std::vector<std::string> more) {
  more.insert(more.begin(), {"sweep", scenario, "--vary", "parallelism.tensor=1,2,3", "--vary", "batch.micro=1:4:2"});
  return more;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("a sweep's points are the cross product, and each is what run says of it") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", open_scenario());
  const Outcome outcome = tests::orrery(sweep(scenario, {"--json", "-"}));
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const json result = json::parse(outcome.out);
  CHECK(result["points"] == 9);
  REQUIRE(result["rows"].size() == 9);
  std::size_t index = 0;
  for (const char* tensor : {"1", "2", "3"}) {
    for (const char* micro : {"1", "2", "4"}) {
      const json& row = result["rows"][index];
      INFO(row.dump());
      CHECK(row["index"] == index++);
      CHECK(row["values"]["parallelism.tensor"] == tensor);
      CHECK(row["values"]["batch.micro"] == micro);
      const Outcome run = tests::orrery({"run", scenario, "--set", fmt::format("parallelism.tensor={}", tensor),
                                         "--set", fmt::format("batch.micro={}", micro), "--json", "-"});
      if (run.status != 0) {
        CHECK(row["status"] == "infeasible");
        CHECK_FALSE(row["reason"].get<std::string>().empty());
        CHECK(row["iteration_s"].is_null());
        continue;
      }
      const json alone = json::parse(run.out);
      CHECK(row["status"] == "ok");
      CHECK(row["iteration_s"] == alone["iteration_time_s"]);
      CHECK(row["tokens_per_s"] == alone["tokens_per_s"]);
      CHECK(row["mfu_pct"] == alone["mfu_pct"]);
      CHECK(row["peak_memory_gb"].get<double>() == Approx(alone["memory"]["peak_bytes"].get<double>() / 1e9));
    }
  }
}

TEST_CASE("what needs the whole loader is the same as what does not") {
  // Varying the fabric too loads every document again; varying the layout alone does not.
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", open_scenario());
  const json slow =
      json::parse(tests::orrery(sweep(scenario, {"--vary", "cluster.fabric=ndr-rail,roce-4x200g", "--json", "-"})).out);
  const json fast = json::parse(tests::orrery(sweep(scenario, {"--json", "-"})).out);
  REQUIRE(slow["rows"].size() == 18);
  for (std::size_t i = 0; i < 9; ++i) CHECK(slow["rows"][2 * i]["iteration_s"] == fast["rows"][i]["iteration_s"]);
  CHECK(slow["rows"][1]["iteration_s"] != fast["rows"][0]["iteration_s"]);
}

TEST_CASE("a tied key follows from the others in every point, and where it cannot the point says so") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", open_scenario());
  const json tied = json::parse(
      tests::orrery({"sweep", scenario, "--set", "parallelism.data=null", "--vary", "parallelism.tensor=1,2,3", "--tie",
                     "pipeline=gpus/tensor/parallelism.data/8", "--vary", "parallelism.data=1,2", "--json", "-"})
          .out);
  REQUIRE(tied["rows"].size() == 6);
  for (const json& row : tied["rows"]) {
    const int tensor = std::stoi(row["values"]["parallelism.tensor"].get<std::string>());
    const int data = std::stoi(row["values"]["parallelism.data"].get<std::string>());
    INFO(row.dump());
    if (16 % (tensor * data * 8) != 0) {
      CHECK(row["status"] == "infeasible");
      CHECK(row["reason"].get<std::string>().find("parallelism.pipeline") != std::string::npos);
      continue;
    }
    const Outcome run =
        tests::orrery({"run", scenario, "--set", "parallelism.data=" + std::to_string(data), "--set",
                       "parallelism.tensor=" + std::to_string(tensor), "--set",
                       "parallelism.pipeline=" + std::to_string(16 / tensor / data / 8), "--json", "-"});
    if (run.status != 0)
      CHECK(row["status"] == "infeasible");
    else
      CHECK(row["iteration_s"] == json::parse(run.out)["iteration_time_s"]);
  }
  for (const char* tie : {"pipeline", "pipeline=", "=gpus", "pipeline=gpus//2", "pipline=gpus", "pipeline=pipeline/2",
                          "pipeline=gpus/0", "pipeline=gpus/tensr"}) {
    const Outcome refused =
        tests::orrery({"sweep", scenario, "--vary", "parallelism.tensor=1,2", "--tie", tie, "--json", "-"});
    INFO(tie << ": " << refused.err);
    CHECK(refused.status == 2);
    CHECK(refused.err.find("--tie") != std::string::npos);
  }
}

TEST_CASE("out of memory, infeasible and priced points say so") {
  const Folder folder;
  const std::string scenario =
      folder.write("s.yaml", open_scenario() + "training: {tokens: 1.0e+9}\ncost: {price_per_gpu_hour_usd: 2}\n");
  const json result = json::parse(tests::orrery({"sweep", scenario, "--vary", "model.hidden=2048,32768", "--vary",
                                                 "parallelism.tensor=2,5", "--json", "-"})
                                      .out);
  const json &ok = result["rows"][0], &infeasible = result["rows"][1], &oom = result["rows"][2];
  CHECK(ok["status"] == "ok");
  // 16 GPUs for 1e9 tokens at this throughput, at 2 dollars per 3600 s.
  const double seconds = 1e9 / ok["tokens_per_s"].get<double>();
  CHECK(ok["time_to_train_s"].get<double>() == Approx(seconds));
  CHECK(ok["cost_usd"].get<double>() == Approx(seconds * 16 * 2 / 3600));
  CHECK(infeasible["status"] == "infeasible");
  CHECK(infeasible["reason"].get<std::string>().find("parallelism.tensor") != std::string::npos);
  CHECK(oom["status"] == "oom");
  CHECK(oom["peak_memory_gb"].get<double>() > 80);
  CHECK(oom["iteration_s"].is_null());
}

TEST_CASE("the table is the same whatever the threads, and is resumed to the same bytes from any cut") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", open_scenario());
  const std::string whole_file = folder.file("whole.csv"), cut_file = folder.file("cut.csv");
  REQUIRE(tests::orrery(sweep(scenario, {"--csv", whole_file, "--jobs", "1"})).status == 0);
  const std::string whole = read_file(whole_file);
  const std::vector<std::string> lines = lines_of(whole);
  REQUIRE(lines.size() == 10);
  REQUIRE(tests::orrery(sweep(scenario, {"--csv", cut_file, "--jobs", "4"})).status == 0);
  CHECK(read_file(cut_file) == whole);
  const Outcome printed = tests::orrery(sweep(scenario, {"--csv", "-"}));
  CHECK(printed.out == whole);
  // Every byte of the last row, under sanitizers every eighth, and the end of every other.
  const std::size_t last = whole.size() - lines.back().size() - 2, step = 8 / tests::thinned(8);
  std::vector<std::size_t> cuts{0, 3};
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] == '\n' || (i >= last && i % step == 0)) cuts.push_back(i + (whole[i] == '\n'));
  }
  for (const std::size_t cut : cuts) {
    INFO("cut after byte " << cut);
    folder.write("cut.csv", whole.substr(0, cut));
    CHECK(tests::orrery(sweep(scenario, {"--resume", cut_file})).status == 0);
    CHECK(read_file(cut_file) == whole);
  }
  // Into another file, the cut one stays as it was.
  folder.write("cut.csv", whole.substr(0, 300));
  const std::string other = folder.file("other.csv");
  CHECK(tests::orrery(sweep(scenario, {"--resume", cut_file, "--csv", other})).status == 0);
  CHECK(read_file(other) == whole);
  CHECK(read_file(cut_file) == whole.substr(0, 300));
}

TEST_CASE("a sweep that is killed keeps its finished rows, and one stopped by Ctrl-C says so") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", open_scenario()), file = folder.file("t.csv");
  // Long enough to be stopped: hundreds of points of a few milliseconds each.
  const std::vector<std::string> arguments{"sweep", scenario, "--vary", "batch.global=16:8000:+16",
                                           "--csv", file,     "--jobs", "1"};
  for (const int signal : {SIGKILL, SIGINT}) {
    INFO("signal " << signal);
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
    const pid_t child = tests::spawn_orrery(arguments);
    REQUIRE(child > 0);
    for (int look = 0; look < 60'000 && lines_of(read_file(file)).size() < 4; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK((signal == SIGKILL ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 130));
    const std::vector<std::string> kept = lines_of(read_file(file));
    CHECK(kept.size() >= 4);
    CHECK(kept.size() < 501);
  }
}

TEST_CASE("what cannot be swept is refused before anything is simulated") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", open_scenario());
  const auto refused = [&](std::vector<std::string> more, const std::vector<std::string>& parts) {
    more.insert(more.begin(), {"sweep", scenario});
    check_refused(tests::orrery(more), parts);
  };
  refused({}, {"--vary"});
  refused({"--vary", "parallelism.tensr=1,2"}, {"parallelism.tensor"});
  refused({"--vary", "batch.micro=1:10000:+1", "--vary", "batch.global=1:10000:+1"}, {"1e+08", "--limit"});
  refused({"--vary", "batch.micro=1,2,3", "--limit", "2"}, {"--limit"});
  refused({"--vary", "batch.micro=1", "--csv", folder.file("no/such/folder.csv")}, {"no/such"});
  refused({"--vary", "batch.micro=1", "--csv", "/dev/full"}, {"/dev/full"});
  refused({"--vary", "batch.micro=1", "--resume", folder.file("missing.csv")}, {"missing.csv", "no such file"});
  const std::string table = folder.file("t.csv");
  REQUIRE(tests::orrery({"sweep", scenario, "--vary", "batch.micro=1", "--csv", table}).status == 0);
  const std::string before = read_file(table);
  refused({"--vary", "batch.micro=2", "--resume", table}, {"t.csv:2"});
  refused({"--vary", "batch.micro=1", "--set", "recompute=full", "--resume", table}, {"t.csv:2"});
  refused({"--vary", "batch.global=16", "--resume", table}, {"t.csv:1"});
  CHECK(read_file(table) == before);
  check_refused(tests::orrery({"sweep", folder.file("none.yaml"), "--vary", "batch.micro=1"}), {"none.yaml"});
}

TEST_CASE("a resumed sweep takes no row for what it is not: --resume believes its checks, not its cells") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", open_scenario()), file = folder.file("t.csv");
  REQUIRE(tests::orrery(sweep(scenario, {"--csv", file})).status == 0);
  const std::string whole = read_file(file);
  const std::vector<std::string> lines = lines_of(whole);
  const auto with = [&](const std::string& old, const std::string& changed) {
    std::string text = whole;
    const std::size_t at = text.find(old, lines[0].size());
    REQUIRE(at != std::string::npos);
    folder.write("t.csv", text.replace(at, old.size(), changed));
    check_refused(tests::orrery(sweep(scenario, {"--resume", file})),
                  {"t.csv:", "expected the file of this very sweep"});
  };
  const std::string ok = ",ok,";
  const std::size_t begin = whole.find(ok) + ok.size();
  const std::string number = whole.substr(begin, whole.find(',', begin) - begin);
  with(ok, ",great,");
  for (const char* value : {"inf", "-inf", "nan", "-1", "0", "1e999", "fast", ""}) with(ok + number, ok + value);
  folder.write("t.csv", whole + lines.back() + "\n");
  check_refused(tests::orrery(sweep(scenario, {"--resume", file})), {"a second time"});
  std::string zero = whole;
  zero[begin] = '\0';
  folder.write("t.csv", zero);
  check_refused(tests::orrery(sweep(scenario, {"--resume", file})), {"t.csv:", "0x00"});
}

TEST_CASE("limits are numbers above zero") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", open_scenario());
  for (const char* limit : {"-1", "0", "nan", "1e99", "x"})
    check_refused(tests::orrery({"sweep", scenario, "--vary", "batch.micro=1", "--limit", limit}), "--limit");
  for (const char* share : {"nan", "inf", "-5", "0", "51", "five"})
    check_refused(tests::orrery({"run", scenario, "--explain", "--explain-share", share}), "--explain-share");
  for (const char* time : {"nan days", "inf days", "-1 days", "0 days"})
    check_refused(tests::orrery({"search", scenario, "--tokens", "1e9", "--deadline", time}), "--deadline");
}

TEST_CASE("--top prints the fastest points") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", open_scenario());
  const json rows = json::parse(tests::orrery(sweep(scenario, {"--json", "-"})).out)["rows"];
  std::size_t best = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]["status"] == "ok" &&
        (rows[best]["status"] != "ok" || rows[i]["tokens_per_s"] > rows[best]["tokens_per_s"])) {
      best = i;
    }
  }
  const std::vector<std::string> lines = lines_of(tests::orrery(sweep(scenario, {"--top", "1"})).out);
  REQUIRE(lines.size() >= 2);
  CHECK(std::stoul(lines[1]) == best);
}

TEST_CASE("columns that would be called alike go by their whole keys") {
  const tests::Folder folder;
  const std::string file = folder.write("small.yaml", tests::small_scenario());
  const tests::Outcome alike =
      tests::orrery({"sweep", file, "--vary", "overlap.tensor=true,false", "--vary", "parallelism.tensor=2"});
  INFO(alike.err << alike.out);
  REQUIRE(alike.status == 0);
  CHECK(alike.out.find("overlap.tensor") != std::string::npos);
  CHECK(alike.out.find("parallelism.tensor") != std::string::npos);
  const tests::Outcome one = tests::orrery({"sweep", file, "--vary", "overlap.tensor=true,false"});
  REQUIRE(one.status == 0);
  CHECK(one.out.find("overlap.tensor") == std::string::npos);
}
