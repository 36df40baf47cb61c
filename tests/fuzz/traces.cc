// Traces of profilers and execution traces, read, taken apart and replayed without a network.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/target.h"
#include "tools/learn/observe.h"
#include "tools/replay/chakra.h"
#include "tools/replay/from_trace.h"
#include "tools/replay/replay.h"

#ifdef ORRERY_SQLITE
#include <sqlite3.h>
#endif

namespace orrery::fuzz {

namespace {

/// Traces of thousands of events take their time; those that mutations make have few.
constexpr std::size_t kMostEvents = 20'000;

void check_graphs(const std::vector<tools::RankGraph>& graphs) {
  for (const tools::RankGraph& graph : graphs) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const std::uint32_t wait : graph.nodes[i].waits) expect(wait < i, "a node that waits for a later one");
    }
  }
  const tools::Replayed replayed = tools::replay(graphs, nullptr);
  expect(std::isfinite(replayed.replayed_s) && replayed.replayed_s >= 0, "a replay of no time");
}

void check_traces(const std::vector<tools::Trace>& traces) {
  std::vector<tools::RankGraph> graphs;
  for (const tools::Trace& trace : traces) {
    if (trace.device.size() + trace.host.size() > kMostEvents) return;
    for (const tools::DeviceEvent& event : trace.device) expect(event.end >= event.start, "an event that ends early");
    for (const auto& [name, seen] : tools::observe(trace)) expect(std::isfinite(seen.value), name + " is no number");
    const auto rank = static_cast<std::int64_t>(graphs.size());
    graphs.push_back(tools::graph_of_trace(trace, rank, {0}, nullptr));
  }
  check_graphs(graphs);
}

void read_kineto(const std::string& bytes) { check_traces(tools::read_trace(memory_file().with(bytes))); }

/// SQLite follows names to where they lead, and to a file in memory none does: one in the folder for such files, which
/// goes away with the process that asks for it first.
class DatabaseFile {
 public:
  DatabaseFile() {
    const std::filesystem::path memory = "/dev/shm";  // where there is such a folder no disk is written
    name_ = std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path();
    name_ /= fmt::format("orrery-fuzz-{}.sqlite", ::getpid());
  }
  ~DatabaseFile() { std::filesystem::remove(name_); }
  DatabaseFile(const DatabaseFile&) = delete;
  DatabaseFile& operator=(const DatabaseFile&) = delete;
  const std::filesystem::path& name() const { return name_; }

 private:
  std::filesystem::path name_;
};
const std::filesystem::path& database_file() {
  static const DatabaseFile file;
  return file.name();
}

void read_nsight(const std::string& bytes) {
  std::ofstream(database_file(), std::ios::binary | std::ios::trunc) << bytes;
  check_traces(tools::read_trace(database_file().string()));
}

void read_chakra(const std::string& bytes) {
  if (!tools::has_chakra()) throw sim::UserError("a build without libprotobuf");
  check_graphs({tools::read_chakra(memory_file().with(bytes), 0, 8, {{"0", {0, 1, 2, 3}}, {"1", {0, 4}}})});
}

void read_chakra_groups(const std::string& text) { tools::read_chakra_groups(memory_file().with(text)); }

std::vector<std::string> kineto_seeds() {
  std::string events =
      R"({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8}, "traceEvents": [)"
      "\n"
      R"({"ph":"M","name":"process_name","pid":7,"tid":0,"ts":1,"args":{"name":"python3"}})";
  for (int step = 0; step < 2; ++step) {
    const auto at = [&](int us) { return fmt::format("{}.125", 1'695'835'535'000'000LL + 1000 * step + us); };
    const auto host = [&](const char* cat, const std::string& name, int tid, int from, int length, int id) {
      events += fmt::format(
          ",\n{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":\"{}\",\"pid\":7,\"tid\":{},\"ts\":{},\"dur\":{},"
          "\"args\":{{\"External id\":3,\"correlation\":{}}}}}",
          cat, name, tid, at(from), length, 10 * step + id);
    };
    const auto device = [&](const std::string& name, int stream, int from, int length, int id, const char* more) {
      events += fmt::format(
          ",\n{{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"{}\",\"pid\":0,\"tid\":{},\"ts\":{},\"dur\":{},"
          "\"args\":{{\"stream\":{},\"device\":0,\"correlation\":{},\"grid\":[1,2,3]{}}}}}",
          name, stream, at(from), length, stream, 10 * step + id, more);
    };
    host("user_annotation", fmt::format("ProfilerStep#{}", step), 1, 0, 1000, 0);
    host("cpu_op", "aten::mm", 1, 10, 20, 0);
    host("cuda_runtime", "cudaLaunchKernel", 1, 15, 5, 1);
    host("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 2, 100, 60, 0);
    host("cuda_runtime", "cudaLaunchKernel", 2, 110, 5, 2);
    host("cuda_runtime", "cudaLaunchKernelExC", 2, 140, 5, 3);
    host("cuda_runtime", "cudaStreamSynchronize", 1, 200, 50, 5);
    device("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", 7, 20, 50, 1, "");
    device("void flash_fwd_kernel<x>", 7, 120, 30, 2, "");
    device("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 9, 150, 40, 3,
           R"(,"Collective name":"allreduce","In msg nelems":1024,"Out msg nelems":1024,"Group size":8,)"
           R"("dtype":"BFloat16","Process Group Name":"0","Process Group Description":"default_pg",)"
           R"("Process Group Ranks":"[0, 1, 2, 3, 4, 5, 6, 7]")");
  }
  return {events + "\n]}\n", "[" + events.substr(events.find('[') + 1) + "]"};
}

std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> nsight_seeds() {
#ifdef ORRERY_SQLITE
  const std::filesystem::path& file = database_file();
  std::filesystem::remove(file);
  sqlite3* database = nullptr;
  expect(sqlite3_open(file.c_str(), &database) == SQLITE_OK, "sqlite3_open fails");
  const int status = sqlite3_exec(
      database,
      "PRAGMA page_size = 512;"
      "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
      "INSERT INTO StringIds VALUES (1, 'nvjet_tst_128x256'), (2, 'cudaLaunchKernel_v7000'),"
      "  (3, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL'), (4, 'optimizer');"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,"
      "  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3000, 0, 7, 5, 0x1000000, 1, 1),"
      "  (3500, 4000, 0, 9, 6, 0x1000000, 3, 3), (1000, 2000, 1, 7, 5, 0x2000000, 1, 1);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,"
      "  correlationId INTEGER, nameId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (500, 600, 0x1000011, 5, 2), (700, 800, 0x1000011, 6, 2);"
      "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, text TEXT, textId INTEGER);"
      "INSERT INTO NVTX_EVENTS VALUES (450, 650, 0x1000011, 'backward', NULL), (660, 900, 0x1000011, NULL, 4);",
      nullptr, nullptr, nullptr);
  sqlite3_close(database);
  expect(status == SQLITE_OK, "the tables cannot be made");
  return {contents(file)};
#else
  return {"SQLite format 3"};
#endif
}

std::vector<std::string> chakra_seeds() {
  if (!tools::has_chakra()) return {""};
  tools::RankGraph graph;
  graph.names.emplace_back("kernel");
  graph.lanes = {"host", "stream 7", "stream 9"};
  graph.groups = {{"0", {0, 1, 2, 3}, 4}};
  tools::GraphNode host, kernel, call, message;
  host.kind = tools::NodeKind::host;
  host.duration = kernel.duration = call.duration = message.duration = sim::Duration(5'000'000);
  host.name = kernel.name = 1;
  kernel.lane = 1;
  kernel.waits = {0};
  call.kind = tools::NodeKind::collective;
  call.lane = 2;
  call.bytes = 1e6;
  call.waits = {1};
  message.kind = tools::NodeKind::send;
  message.op = calibration::CollectiveOp::send_receive;
  message.lane = 2;
  message.bytes = 4096;
  message.peer = 4;
  message.waits = {2};
  graph.nodes = {host, kernel, call, message};
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("orrery-fuzz-{}", ::getpid());
  tools::ChakraWriter writer(folder.string(), "seed");
  writer.write(graph);
  std::vector<std::string> seeds{contents(folder / "seed.0.et")};
  std::filesystem::remove_all(folder);
  return seeds;
}

std::vector<std::string> group_seeds() { return {"{\"0\": [0, 1, 2, 3], \"tensor\": [0, 4]}"}; }

}  // namespace

std::vector<Target> trace_targets() {
  return {{"kineto", "a trace of PyTorch's profiler, replayed", read_kineto, kineto_seeds},
          {"nsight", "an export of Nsight Systems, replayed", read_nsight, nsight_seeds},
          {"chakra", "an execution trace of Chakra, replayed", read_chakra, chakra_seeds},
          {"chakra-groups", "Chakra's groups", read_chakra_groups, group_seeds}};
}

}  // namespace orrery::fuzz
