// Are traces of profilers read as they were meant, by whichever of them, and refused where they are no traces?
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/skipped.h"
#include "tests/tools/program.h"
#include "tests/workloads/example.h"
#include "tools/learn/decompose.h"
#include "tools/learn/kernel_names.h"
#include "tools/learn/predicted.h"
#include "tools/report/page_parts.h"
#include "tools/report/trace.h"

#ifdef ORRERY_SQLITE
#include <sqlite3.h>
#endif

using namespace orrery;
using tests::Folder;
using tools::OpClass;
using tools::Phase;

namespace {

/// Two steps of a job that launches a product forward, one backward with a reduction behind it, and its optimizer.
/// Absolute times, as Kineto wrote them before 2024; correlation ids go on from step to step.
std::string kineto() {
  std::string events;
  const auto add = [&](const std::string& event) { events += (events.empty() ? "" : ",\n") + event; };
  add(R"({"ph":"M","name":"process_name","pid":7,"tid":0,"ts":1,"args":{"name":"python3"}})");
  for (int step = 0; step < 2; ++step) {
    const auto at = [&](int us) { return fmt::format("{}.125", 1'695'835'535'000'000LL + 1000 * step + us); };
    const int id = 10 * step;
    const auto host = [&](const char* cat, const std::string& name, int tid, int from, int length, int correlation) {
      add(fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":7,"tid":{},"ts":{},"dur":{},"args":{{{}}}}})", cat,
                      name, tid, at(from), length,
                      correlation > 0 ? fmt::format("\"External id\":3,\"correlation\":{}", correlation) : ""));
    };
    const auto device = [&](const std::string& name, int stream, int from, int length, int correlation,
                            const std::string& more = "") {
      add(fmt::format(R"({{"ph":"X","cat":"kernel","name":"{}","pid":0,"tid":{},"ts":{},"dur":{},)"
                      R"("args":{{"stream":{},"correlation":{},"grid":[1,2,3]{}}}}})",
                      name, stream, at(from), length, stream, correlation, more));
    };
    host("user_annotation", fmt::format("ProfilerStep#{}", step), 1, 0, 1000, 0);
    host("cpu_op", "aten::mm", 1, 10, 20, 0);
    host("cuda_runtime", "cudaLaunchKernel", 1, 15, 5, id + 1);
    host("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 2, 100, 60, 0);
    host("cpu_op", "aten::mm", 2, 105, 20, 0);
    host("cuda_runtime", "cudaLaunchKernel", 2, 110, 5, id + 2);
    host("cuda_runtime", "cudaLaunchKernelExC", 2, 140, 5, id + 3);
    host("user_annotation", "Optimizer.step#AdamW.step", 1, 300, 100, 0);
    host("cuda_runtime", "cudaLaunchKernel", 1, 310, 5, id + 4);
    device("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", 7, 50, 100, id + 1);
    device("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT", 7, 200, 200, id + 2);
    device("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 350, 150, id + 3,
           R"(,"Collective name":"_reduce_scatter_base","In msg nelems":4096,"Out msg nelems":512,"dtype":"BFloat16",)"
           R"("Group size":8,"Process Group Name":"1","Process Group Description":"mesh_dp_shard")");
    device("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>", 7, 550, 50, id + 4);
  }
  return R"({"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":3,"world_size":8},"traceEvents":[)" + events +
         "]}\n";
}

std::string gzipped(const Folder& folder, const std::string& text) {
  const std::string file = folder.file("trace.json.gz");
  gzFile out = gzopen(file.c_str(), "wb");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
  return file;
}

}  // namespace

TEST_CASE("a trace of PyTorch's profiler, gzipped or not: who launched what, when, in which phase") {
  const Folder folder;
  for (const std::string& file : {folder.write("trace.json", kineto()), gzipped(folder, kineto())}) {
    const std::vector<tools::Trace> traces = tools::read_trace(file);
    REQUIRE(traces.size() == 1);
    const tools::Trace& trace = traces.front();
    CHECK(trace.rank == 3);
    CHECK(trace.world_size == 8);
    CHECK(trace.steps.size() == 2);
    REQUIRE(trace.device.size() == 8);
    const OpClass classes[] = {OpClass::matmul, OpClass::matmul, OpClass::reduce_scatter, OpClass::optimizer};
    const Phase phases[] = {Phase::forward, Phase::backward, Phase::backward, Phase::optimizer};
    const tools::Nanoseconds launched[] = {20'000, 115'000, 145'000, 315'000};
    for (std::size_t i = 0; i < 4; ++i) {
      INFO(i);
      CHECK(trace.device[i].what == classes[i]);
      CHECK(trace.device[i].phase == phases[i]);
      CHECK(trace.device[i].launched == launched[i]);
      CHECK(trace.device[i + 4].start == trace.device[i].start + 1'000'000);
    }
    CHECK(trace.device[0].start == 50'000);  // since the first event; the eighths of a microsecond cancel
    CHECK(trace.name(trace.device[0].caller) == "aten::mm");
    const tools::CollectiveFacts& facts = trace.collectives.front();
    CHECK(facts.bytes == 4096 * 2);  // the whole buffer: a reduce-scatter's input, 2 bytes each
    CHECK(facts.group_size == 8);
    CHECK(trace.name(facts.group) == "mesh_dp_shard");
  }
}

TEST_CASE("the parts of a step add up to it, and what computing hides is not counted twice") {
  const Folder folder;
  const tools::Trace trace = tools::read_trace(folder.write("trace.json", kineto())).front();
  const tools::Decomposition d = tools::decompose(trace);
  CHECK(d.step_s == Approx(1e-3));
  const auto seconds = [&](const tools::Part& part) { return d.parts.at(part).seconds; };
  // 200 to 400 us is a product, 350 to 500 the reduction: 100 us of its 150 are exposed.
  const tools::Part reduction{Phase::other, true, false, OpClass::reduce_scatter};
  CHECK(seconds(reduction) == Approx(100e-6));
  CHECK(d.parts.at(reduction).busy_s == Approx(150e-6));
  CHECK(seconds({Phase::backward, false, false, OpClass::matmul}) == Approx(200e-6));
  CHECK(seconds({Phase::backward, true, true, OpClass::unknown}) == Approx(50e-6));   // 150 to 200
  CHECK(seconds({Phase::optimizer, true, true, OpClass::unknown}) == Approx(50e-6));  // 500 to 550
  double sum = 0;
  for (const auto& [part, tally] : d.parts) sum += tally.seconds;
  CHECK(sum == Approx(d.step_s));
  CHECK(d.unnamed_s == 0);
}

TEST_CASE("the program's own trace, written and read, is the trace of its timeline") {
  const workloads::Job job = tests::small_job();
  workloads::Question options;
  options.timelines = {0, 8};
  const workloads::StepReport report = workloads::simulate_step(job, options);
  const Folder folder;
  std::ostringstream text;
  tools::write_trace(
      text, {"small", report.timelines, tools::process_names(job.parallelism.dims(), report.timelines), {}, {}});
  const std::vector<tools::Trace> read = tools::read_trace(folder.write("own.json", text.str()));
  REQUIRE(read.size() == 2);
  for (std::size_t r = 0; r < 2; ++r) {
    const tools::Trace made = tools::trace_of(report.timelines[r]);
    CHECK(read[r].rank == options.timelines->at(r));
    REQUIRE(read[r].device.size() == made.device.size());
    REQUIRE(read[r].host.size() == made.host.size());
    for (std::size_t i = 0; i < made.device.size(); ++i) {
      const tools::DeviceEvent &a = read[r].device[i], &b = made.device[i];
      CHECK(a.start == b.start);
      CHECK(a.end == b.end);
      // Of a file all are told apart, of one timeline they count from 1.
      CHECK(a.correlation - b.correlation == read[r].device[0].correlation - made.device[0].correlation);
      CHECK(a.launched == b.launched);
      CHECK(a.what == b.what);
      CHECK(a.phase == b.phase);
    }
  }
}

TEST_CASE("what is no trace is refused in one line that names the file") {
  const Folder folder;
  const std::string whole = kineto();
  const std::string scenario = folder.write("small.yaml", tests::small_scenario());
  const std::string of_eight = folder.write("eight.json", whole);
  std::string gz = tests::read_file(gzipped(folder, whole));
  // A kernel whose time is no time must not drop out of the step in silence. The place is that behind the event.
  const auto timed = [](const std::string& times) {
    return R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,)" + times + "}]}";
  };
  std::string other_rank = whole;
  other_rank.replace(other_rank.find("\"rank\":3,\"world_size\":8"), 23, "\"rank\":99,\"world_size\":16");
  struct Case {
    std::string name, text, says;
  };
  const Case cases[] = {
      {"empty.json", "", "empty"},
      {"cut.json", whole.substr(0, whole.size() / 2), "cut off"},
      {"cut.json.gz", gz.substr(0, gz.size() / 2), "cut off"},
      {"foreign.json", "{\"model\": {\"layers\": 3}}\n", "traceEvents"},
      {"text.txt", "not a trace at all\n", "no JSON"},
      {"host.json", R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":2}]})", "no kernel"},
      {"ended.json", timed(R"("ts":5,"dur":-2)"), ":1:88: dur: got -2 for gemm"},
      {"text.json", timed(R"("ts":5,"dur":"long")"), "dur: got no number for gemm"},
      {"endless.json", timed(R"("ts":5)"), "dur: got no number for gemm"},
      {"never.json", timed(R"("dur":5)"), "ts: got no number for gemm"},
      {"rank.json", other_rank, "0 to 15"},
      {"broken.sqlite", std::string("SQLite format 3\0", 16) + "garbage", "SQLite"},
      {"world.json", whole, "expected the 16"}};
  for (const Case& c : cases) {
    INFO(c.name);
    const std::string file = folder.write(c.name, c.text);
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"diff", file, scenario}, {"learn", file, "--scenario", scenario}}) {
      const tests::Outcome outcome = tests::orrery(command);
      CHECK(outcome.status == 2);
      CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
      CHECK(outcome.err.find(c.name) != std::string::npos);
      if (c.name != "broken.sqlite") CHECK(outcome.err.find(c.says) != std::string::npos);
    }
  }
  CHECK(tests::orrery({"diff", folder.file("nothing"), scenario}).status == 2);
  CHECK(tests::orrery({"diff", folder.path().string(), scenario}).status == 2);
  CHECK(tests::orrery({"diff", scenario}).status == 2);
  // Ranks of stage 0 alone, and a rank twice.
  const std::string own = folder.file("own.json");
  REQUIRE(tests::orrery({"run", scenario, "--trace", own, "--trace-ranks", "0,1"}).status == 0);
  CHECK(tests::orrery({"diff", own, scenario}).err.find("stage 1") != std::string::npos);
  const std::string one = folder.file("one.json");
  REQUIRE(tests::orrery({"run", scenario, "--trace", one, "--trace-ranks", "0"}).status == 0);
  CHECK(tests::orrery({"diff", one, scenario}).status == 0);
  CHECK(tests::orrery({"diff", one, one, scenario}).err.find("twice") != std::string::npos);
}

TEST_CASE("diff writes numbers that add up, and a page with both timelines") {
  const Folder folder;
  const std::string scenario = folder.write("small.yaml", tests::small_scenario()), trace = folder.file("own.json");
  REQUIRE(tests::orrery({"run", scenario, "--trace", trace, "--trace-ranks", "0"}).status == 0);
  const std::string json = folder.file("diff.json"), page = folder.file("diff.html");
  const std::vector<std::string> command = {"diff",   trace, scenario, "--set", "software.kernel_issue=50 us",
                                            "--json", json};
  REQUIRE(tests::orrery(command).status == 0);
  const auto parts = nlohmann::json::parse(tests::read_file(json));
  double sum = 0;
  for (const auto& row : parts["rows"]) sum += row["difference_s"].get<double>();
  const double whole = parts["predicted_step_s"].get<double>() - parts["measured_step_s"].get<double>();
  CHECK(sum == Approx(whole).margin(1e-9));
  CHECK(whole > 0);  // launches of 50 us hold the device up
  CHECK(parts["rows"][0]["stream"] == "idle");
  CHECK(parts["explained_by_name_pct"] == 100.0);
  // One step and no more was traced, so that all that was read lies in it.
  double pieces = 0;
  for (const auto& row : parts["rows"]) {
    if (row["class"] != "idle") pieces += row["measured_count"].get<double>();
  }
  CHECK(parts["device_events"]["read"] == pieces);
  CHECK(parts["device_events"]["in_steps"] == pieces);
  if (tools::page_part("chart.js").empty()) {
    tests::skipped("built without Chart.js; install the package libjs-chart.js");
    return;
  }
  REQUIRE(tests::orrery({"diff", trace, scenario, "--report", page}).status == 0);
  const std::string text = tests::read_file(page);
  CHECK(text.find("\"kind\":\"diff\"") != std::string::npos);
  CHECK(text.find("timelines_section") != std::string::npos);
  CHECK(text.size() < 5'000'000);
}

#ifdef ORRERY_SQLITE
TEST_CASE("an export of Nsight Systems is read as the same trace") {
  const Folder folder;
  const std::string file = folder.file("report.sqlite");
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  // Two processes: thread ids hold the process in all but their low 24 bits.
  const std::string tables = R"(
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    INSERT INTO StringIds VALUES (1, 'nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT'), (2, 'cudaLaunchKernel_v7000'),
      (3, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)'), (4, 'optimizer');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
      correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3000, 0, 7, 5, 0x1000000, 1, 1),
      (3500, 4000, 0, 9, 6, 0x1000000, 3, 3), (1000, 2000, 1, 7, 5, 0x2000000, 1, 1);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
      correlationId INTEGER, globalPid INTEGER, copyKind INTEGER, bytes INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (100, 200, 0, 7, 4, 0x1000000, 1, 64);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER,
      nameId INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (500, 600, 0x1000011, 5, 2), (700, 800, 0x1000011, 6, 2),
      (550, 650, 0x2000022, 5, 2);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, text TEXT, textId INTEGER);
    INSERT INTO NVTX_EVENTS VALUES (450, 650, 0x1000011, 'backward', NULL), (660, 900, 0x1000011, NULL, 4);
  )";
  char* error = nullptr;
  CHECK(sqlite3_exec(database, tables.c_str(), nullptr, nullptr, &error) == SQLITE_OK);
  sqlite3_free(error);
  sqlite3_close(database);
  const std::vector<tools::Trace> traces = tools::read_trace(file);
  REQUIRE(traces.size() == 2);
  const tools::Trace& trace = traces.front();
  REQUIRE(trace.device.size() == 3);
  CHECK(trace.device[0].what == OpClass::memcpy);
  CHECK(trace.device[1].what == OpClass::matmul);
  CHECK(trace.device[1].launched == 500);  // 600 on the profiler's clock, and the first event is at 100
  CHECK(trace.device[1].phase == Phase::backward);
  CHECK(trace.device[2].what == OpClass::all_reduce);
  CHECK(trace.device[2].phase == Phase::optimizer);
  CHECK(traces[1].device.size() == 1);
  for (const char* times : {"NULL, NULL", "9000, 8000", "'a', 'b'", "-5, 7"}) {
    INFO(times);
    REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
    const std::string row = fmt::format(
        "DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY; INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({}, 0, 7, 4, 1, 1, 1)",
        times);
    CHECK(sqlite3_exec(database, row.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
    CHECK_THROWS_WITH(tools::read_trace(file),
                      ContainsSubstring("as start and end of a row of CUPTI_ACTIVITY_KIND_MEMCPY"));
  }
}

TEST_CASE("an export of Nsight Systems is a stranger's: its schema makes nothing up, its values have a length") {
  const Folder folder;
  const std::string kernels =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
      "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
      "VALUES (1, 2, 0, 7, 1, 1, 1);";
  const auto refusal = [&](const std::string& tables) -> std::string {
    const std::string file = folder.file("made.sqlite");
    tests::fs::remove(file);
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
    CHECK(sqlite3_exec(database, tables.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
    try {
      static_cast<void>(tools::read_trace(file));
    } catch (const sim::UserError& error) {
      return error.what();
    }
    return "(read)";
  };
  const std::string names = "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT";
  CHECK(refusal(kernels + names + "); INSERT INTO StringIds VALUES (1, 'k');") == "(read)");
  for (const char* kind : {"STORED", "VIRTUAL"}) {
    const std::string made = fmt::format(" GENERATED ALWAYS AS (hex(zeroblob(1000))) {});", kind);
    CHECK(refusal(kernels + names + made + "INSERT INTO StringIds (id) VALUES (1);").find("as an expression") !=
          std::string::npos);
  }
  // A name of 2 MB is none; 200 of 900 kB are more than a profile has.
  CHECK(refusal(kernels + names + "); INSERT INTO StringIds VALUES (1, hex(zeroblob(1000000)));").find("too big") !=
        std::string::npos);
  CHECK(refusal(kernels + names +
                "); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 200) INSERT INTO "
                "StringIds SELECT x, hex(zeroblob(450000)) FROM c;")
            .find("of names") != std::string::npos);
  // A view in a table's place is not looked at.
  CHECK(refusal("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 "
                "FROM c) SELECT x AS start FROM c;")
            .find("has no such table") != std::string::npos);
}
#endif
