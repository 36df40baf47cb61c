// Does a step that is replayed from its trace end when it ended, and over another network when it would end there?
#include "tools/replay/replay.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/measured_pipelines.h"
#include "tests/skipped.h"
#include "tests/tools/program.h"
#include "tools/learn/predicted.h"
#include "tools/replay/chakra.h"
#include "tools/replay/from_trace.h"
#include "tools/replay/step_graph.h"
#include "tools/report/trace.h"
#include "workloads/job/job_values.h"
#include "workloads/schedules/catalogue.h"
#include "workloads/schedules/chunk_map.h"

using namespace orrery;
using tests::Folder;
using tools::GraphNode;
using tools::NodeKind;
using tools::RankGraph;

namespace {

scenarios::Scenario small(const std::vector<std::string>& sets = {}) {
  sim::Settings document = scenarios::parse_yaml(tests::small_scenario(), "small.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document);
}

/// A cluster whose references stay valid.
struct Network {
  explicit Network(const scenarios::Scenario& scenario)
      : job(scenario.job),
        cluster(workloads::cluster_of(workloads::site_of(job), sim::Settings::scalar("cluster", {"test", 0, 0}))) {}
  tools::ReplayNetwork on() const { return {cluster, job.machine.device, job.software, {}}; }
  workloads::Job job;
  topology::Cluster cluster;
};

/// From the first kernel to the last: a step, less what the host does behind it.
double makespan(const workloads::Job& job) {
  workloads::Question options;
  options.timelines.emplace();
  std::int64_t last = 0;
  for (const workloads::Timeline& timeline : workloads::simulate_step(job, options).timelines) {
    for (const auto& span : timeline.spans) last = std::max(last, span.finish.value());
  }
  return sim::to_seconds(sim::Duration(last));
}

std::vector<std::int64_t> all_ranks(const workloads::Job& job) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(job.machine.gpus));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

GraphNode compute(std::int64_t us, std::vector<std::uint32_t> waits = {}, std::int64_t gap_us = 0) {
  GraphNode node;
  node.duration = sim::Duration(us * 1'000'000);
  node.gap = sim::Duration(gap_us * 1'000'000);
  node.waits = std::move(waits);
  return node;
}

GraphNode message(NodeKind kind, std::int64_t peer, std::int64_t us, std::vector<std::uint32_t> waits) {
  GraphNode node;
  node.kind = kind;
  node.lane = 1;
  node.peer = peer;
  node.op = calibration::CollectiveOp::send_receive;
  node.bytes = 1e6;
  node.duration = sim::Duration(us * 1'000'000);
  node.waits = std::move(waits);
  return node;
}

/// Rank 0 computes for 100 us and sends, idles 10 us more and computes for 50; rank 1 computes for 30 us, receives,
/// and computes for 20.
std::vector<RankGraph> pair_of_ranks() {
  std::vector<RankGraph> graphs(2);
  for (std::size_t r = 0; r < 2; ++r) {
    graphs[r].rank = static_cast<std::int64_t>(r);
    graphs[r].file = fmt::format("rank {}", r);
    graphs[r].lanes = {"compute", "messages"};
  }
  graphs[0].nodes = {compute(100), message(NodeKind::send, 1, 7, {0}), compute(50, {}, 10)};
  graphs[1].nodes = {compute(30), message(NodeKind::receive, 0, 80, {0}), compute(20, {1})};
  return graphs;
}

}  // namespace

TEST_CASE("a replay keeps times, dependencies and idle time, and peers wait for each other") {
  const std::vector<RankGraph> graphs = pair_of_ranks();
  // As traced: the receiver's 80 us are waiting for the most part; the message takes the sender's 7.
  const tools::Replayed same = tools::replay(graphs, nullptr);
  REQUIRE(same.ranks.size() == 2);
  CHECK(same.ranks[0].replayed_s == Approx(160e-6));  // 100 + 10 + 50
  CHECK(same.ranks[1].replayed_s == Approx(127e-6));  // 100 + 7 + 20
  CHECK(same.calls.front().replayed_s == Approx(7e-6));
  // Over a network: latency and rate of a message inside a node, as the collective's model has them.
  const Network network(small());
  const tools::ReplayNetwork on = network.on();
  const workloads::CollectiveCost cost = workloads::send_cost(1e6, true, on.device, on.software);
  const tools::Replayed moved = tools::replay(graphs, &on);
  const double latency = sim::to_seconds(cost.latency + network.cluster.path(0, 1).latency);
  CHECK(moved.calls.front().replayed_s >= latency + cost.work / (cost.rate_cap > 0 ? cost.rate_cap : 450e9) - 1e-9);
  CHECK(moved.ranks[0].replayed_s == Approx(160e-6));
  CHECK(moved.ranks[1].replayed_s == Approx(120e-6 + moved.calls.front().replayed_s));
}

TEST_CASE("a group that only exchanges is replayed, and as long as one that makes other calls as well") {
  const Network network(small());
  const tools::ReplayNetwork on = network.on();
  const auto replayed = [&](const std::vector<calibration::CollectiveOp>& ops, const tools::ReplayNetwork* to) {
    std::vector<RankGraph> graphs(4);
    for (std::size_t r = 0; r < graphs.size(); ++r) {
      graphs[r].rank = static_cast<std::int64_t>(r);
      graphs[r].lanes = {"calls"};
      graphs[r].groups = {{"world", {0, 1, 2, 3}, 4}};
      for (const calibration::CollectiveOp op : ops) {
        GraphNode call;
        call.kind = NodeKind::collective;
        call.op = op;
        call.bytes = 1 << 20;
        graphs[r].nodes.push_back(call);
      }
    }
    return tools::replay(graphs, to);
  };
  const auto exchange = [](const tools::Replayed& all) {
    for (const tools::ReplayedCalls& row : all.calls)
      if (row.operation == "all_to_all") return row.replayed_s;
    return 0.0;
  };
  using Op = calibration::CollectiveOp;
  const tools::Replayed alone = replayed({Op::all_to_all}, &on);
  CHECK(alone.calls.size() == 1);
  CHECK(alone.calls.front().ranks == 4);
  CHECK(exchange(alone) > 1e-6);
  CHECK(exchange(alone) == exchange(replayed({Op::all_reduce, Op::all_to_all}, &on)));
  CHECK(exchange(alone) == exchange(replayed({Op::all_to_all, Op::all_gather}, &on)));
  for (const Op op : {Op::all_reduce, Op::all_gather, Op::reduce_scatter, Op::broadcast})
    CHECK(replayed({op}, &on).replayed_s > 1e-6);
  CHECK(replayed({Op::all_to_all}, nullptr).calls.size() == 1);
}

TEST_CASE("traces of ranks that do not belong together are refused") {
  const Network network(small());
  const tools::ReplayNetwork on = network.on();
  std::vector<RankGraph> graphs = pair_of_ranks();
  graphs[1].rank = 0;
  CHECK_THROWS_WITH(tools::replay(graphs, nullptr), ContainsSubstring("got 0 twice"));
  graphs = pair_of_ranks();
  graphs[0].nodes[1].peer = 99;
  CHECK_THROWS_WITH(tools::replay(graphs, &on), ContainsSubstring("got rank 99, expected 0 to 15"));
  graphs = pair_of_ranks();
  graphs[1].nodes.push_back(message(NodeKind::receive, 0, 1, {}));  // that nobody sends
  CHECK_THROWS_WITH(tools::replay(graphs, nullptr), ContainsSubstring("as call 2 of rank 1"));
  // Each waits for what the other sends later.
  graphs = pair_of_ranks();
  graphs[0].nodes = {message(NodeKind::receive, 1, 1, {}), message(NodeKind::send, 1, 1, {})};
  graphs[1].nodes = {message(NodeKind::receive, 0, 1, {}), message(NodeKind::send, 0, 1, {})};
  CHECK_THROWS_WITH(tools::replay(graphs, nullptr), ContainsSubstring("wait for each other"));
}

TEST_CASE("a simulated step that is replayed ends when it ended, and on another fabric when it ends there") {
  // A trace keeps the pace of the GPUs that it was taken on, so all of these fleets are even.
  const auto even = [](const std::string& fabric) {
    return small({"cluster.fabric={inherits: " + fabric + ", gpu_spread: 0}"});
  };
  const scenarios::Scenario here = even("ndr-rail");
  const std::vector<RankGraph> graphs = tools::graphs_of_step(here, all_ranks(here.job));
  const double traced = makespan(here.job);
  for (const char* fabric : {"ndr-rail", "gt-roce-400", "ndr-rail, nic_rate: 50 Gb/s"}) {
    INFO(fabric);
    const scenarios::Scenario there = even(fabric);
    const Network network(there);
    const tools::ReplayNetwork on = network.on();
    const tools::Replayed replayed = tools::replay(graphs, &on);
    CHECK(replayed.traced_s == Approx(traced).epsilon(1e-6));
    CHECK(replayed.replayed_s == Approx(makespan(there.job)).epsilon(0.01));
  }
}

TEST_CASE("a profiler's trace of a step is replayed from launches, streams and times alone") {
  const scenarios::Scenario here = small();
  const std::vector<std::int64_t> ranks = all_ranks(here.job);
  const std::set<std::int64_t> traced(ranks.begin(), ranks.end());
  const tools::Members members(workloads::group_layout_of(here.job));
  std::vector<RankGraph> graphs, alone;
  const std::vector<tools::Trace> traces = tools::predict(here, ranks);
  for (std::size_t r = 0; r < ranks.size(); ++r)
    graphs.push_back(tools::graph_of_trace(traces[r], ranks[r], traced, &members));
  alone.push_back(tools::graph_of_trace(traces[0], 0, {0}, &members));
  const Network network(here);
  const tools::ReplayNetwork on = network.on();
  CHECK(tools::replay(graphs, &on).replayed_s == Approx(makespan(here.job)).epsilon(0.01));
  // One rank alone has waited for its peers as long as the trace says.
  const tools::Replayed one = tools::replay(alone, &on);
  CHECK(one.replayed_s == Approx(one.traced_s).epsilon(0.01));
  CHECK(one.assumptions.size() == 1);
}

namespace {

/// The pipeline as graphs: passes in the schedule's order, messages between stages, and the idle time that neither the
/// pass before nor a message explains.
class PipelineGraphs {
 public:
  PipelineGraphs(const tests::MeasuredPipeline& trace, std::int64_t chunks)
      : schedule_(workloads::usual_schedule(chunks)),
        map_(schedule_.map(8, chunks)),
        orders_(workloads::paper_orders(schedule_, {8, static_cast<std::int32_t>(chunks), 16})),
        message_(std::max(0.0, tests::message_ms(trace))) {
    for (std::size_t stage = 0; stage < trace.size(); ++stage) {
      std::size_t forwards = 0, backwards = 0;
      for (const workloads::Pass& pass : orders_[stage]) {
        const bool back = pass.kind != workloads::PassKind::forward;
        spans_[{static_cast<std::int64_t>(stage), pass.chunk, pass.microbatch, back}] =
            back ? trace[stage].backward[backwards++] : trace[stage].forward[forwards++];
      }
    }
  }

  std::vector<RankGraph> make() const {
    std::vector<RankGraph> graphs(orders_.size());
    for (std::size_t stage = 0; stage < graphs.size(); ++stage) {
      graphs[stage].rank = static_cast<std::int64_t>(stage);
      graphs[stage].file = fmt::format("rank {}", stage);
      graphs[stage].lanes = {"compute"};
      tools::GraphWriter writer(graphs[stage]);
      double before = 0;
      for (const workloads::Pass& pass : orders_[stage]) before = add(writer, graphs[stage].rank, pass, before);
    }
    return graphs;
  }

 private:
  static std::int64_t tag_of(const workloads::Cell& sender, bool back) { return 2 * sender.chunk + (back ? 1 : 0); }

  GraphNode message_with(NodeKind kind, const workloads::Cell& peer, std::int64_t tag,
                         tools::GraphWriter& writer) const {
    GraphNode node = message(kind, peer.stage, 0, {});
    node.duration = sim::Duration(std::llround(message_ * 1e9));
    node.lane = writer.lane(fmt::format("{} {} {}", kind == NodeKind::send ? "to" : "from", peer.stage, tag));
    node.tag = tag;
    return node;
  }

  /// Returns when the pass ended. `before`: when the one before it did.
  double add(tools::GraphWriter& writer, std::int64_t stage, const workloads::Pass& pass, double before) const {
    const bool back = pass.kind != workloads::PassKind::forward;
    const workloads::Cell cell{stage, pass.chunk};
    const auto source = back ? map_.next(cell) : map_.previous(cell),
               target = back ? map_.previous(cell) : map_.next(cell);
    const tests::MeasuredSpan& span = spans_.at({stage, pass.chunk, pass.microbatch, back});
    GraphNode node = compute(0);
    if (source) {
      const bool sent = source->stage != stage;
      if (sent)
        node.waits.push_back(writer.add(message_with(NodeKind::receive, *source, tag_of(*source, back), writer)));
      const double end = spans_.at({source->stage, source->chunk, pass.microbatch, back}).end;
      before = std::max(before, end + (sent ? message_ : 0));
    }
    node.gap = sim::Duration(std::llround(std::max(0.0, span.start - before) * 1e9));
    node.duration = sim::Duration(std::llround((span.end - span.start) * 1e9));
    const std::uint32_t done = writer.add(node);
    if (target && target->stage != stage) {
      GraphNode sent = message_with(NodeKind::send, *target, tag_of(cell, back), writer);
      sent.waits = {done};
      writer.add(sent);
    }
    return span.end;
  }

  using PassKey = std::tuple<std::int64_t, std::int64_t, std::int32_t, bool>;  // stage, chunk, micro-batch, backward
  const workloads::Schedule& schedule_;
  workloads::ChunkMap map_;
  workloads::StageOrders orders_;
  double message_;
  std::map<PassKey, tests::MeasuredSpan> spans_;
};

}  // namespace

TEST_CASE("a real pipeline's trace, replayed with its own idle time, ends within 1 % of when it ended") {
  if (!std::filesystem::exists(tests::measured_pipelines())) {
    tests::skipped("no measured pipeline trace beside the source tree");
    return;
  }
  const auto traces = tests::read_measured_pipelines();
  REQUIRE(traces.size() == 4);  // two variants, two iterations each
  for (const auto& [name, trace] : traces) {
    double last = 0;
    for (const tests::MeasuredPasses& rank : trace) last = std::max(last, rank.backward.back().end);
    const auto chunks = static_cast<std::int64_t>(trace[0].forward.size() / 16);
    const double replayed = tools::replay(PipelineGraphs(trace, chunks).make(), nullptr).replayed_s * 1e3;
    INFO(name << ": measured " << last << " ms, replayed " << replayed);
    CHECK(std::abs(replayed / last - 1) < 0.01);
  }
}

TEST_CASE("execution traces of Chakra are written and read back, and replay as the step that they are of") {
  if (!tools::has_chakra()) {
    tests::skipped("a build without libprotobuf");
    return;
  }
  const Folder folder;
  const std::string scenario = folder.write("small.yaml", tests::small_scenario()), out = folder.file("traces");
  REQUIRE(tests::orrery({"export", "chakra", scenario, "--out", out}).status == 0);
  const tools::ChakraGroups groups = tools::read_chakra_groups(out + "/comm_groups.json");
  const scenarios::Scenario here = small();
  const std::vector<std::int64_t> ranks = all_ranks(here.job);
  const std::vector<RankGraph> made = tools::graphs_of_step(here, ranks);
  std::vector<RankGraph> read;
  for (const std::int64_t rank : ranks)
    read.push_back(tools::read_chakra(fmt::format("{}/step.{}.et", out, rank), rank, 16, groups));
  const Network network(here);
  const tools::ReplayNetwork on = network.on();
  CHECK(tools::replay(read, &on).replayed_s == Approx(tools::replay(made, &on).replayed_s).epsilon(1e-4));
  for (std::size_t r = 0; r < read.size(); ++r) {
    REQUIRE(read[r].nodes.size() == made[r].nodes.size());
    double made_bytes = 0, read_bytes = 0;
    for (const GraphNode& node : made[r].nodes) made_bytes += node.bytes;
    for (const GraphNode& node : read[r].nodes) read_bytes += node.bytes;
    CHECK(read_bytes == Approx(made_bytes).epsilon(1e-6));
  }
  const tests::Outcome run = tests::orrery({"replay", out, "--scenario", scenario, "--fabric", "gt-roce-400"});
  CHECK(run.status == 0);
  CHECK(run.out.find("replayed 16 ranks") != std::string::npos);
  for (const char* lost : {"step.3.et", "step.5.et"}) std::filesystem::remove(std::filesystem::path(out) / lost);
  const tests::Outcome torn = tests::orrery({"replay", out, "--scenario", scenario});
  CHECK(torn.status == 2);
  CHECK(std::count(torn.err.begin(), torn.err.end(), '\n') == 1);
  CHECK(torn.err.find("which has no trace, expected traces of both ends of a message") != std::string::npos);
}

TEST_CASE("what is no execution trace, or not all of one, is refused in a line") {
  if (!tools::has_chakra()) {
    tests::skipped("a build without libprotobuf");
    return;
  }
  const Folder folder;
  const std::string scenario = folder.write("small.yaml", tests::small_scenario()), out = folder.file("traces");
  REQUIRE(tests::orrery({"export", "chakra", scenario, "--out", out, "--ranks", "0,8"}).status == 0);
  const std::string whole = tests::read_file(out + "/step.0.et");
  REQUIRE(whole.size() > 1000);
  const auto refused = [&](const std::string& file, const std::string& text) {
    INFO(file);
    const tests::Outcome run = tests::orrery({"replay", folder.write(file, text)});
    CHECK(run.status == 2);
    CHECK(run.err.find(file) != std::string::npos);
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  };
  refused("cut.0.et", whole.substr(0, whole.size() - 7));
  refused("empty.0.et", "");
  refused("foreign.0.et", R"({"traceEvents": [{"ph": "X"}]})");
  refused("noise.0.et", std::string(1000, '\xff'));
  refused("head.0.et", whole.substr(0, static_cast<std::size_t>(whole[0]) + 1));  // metadata and no node
  CHECK(tests::orrery({"replay", folder.file("nothing.et")}).status == 2);
  CHECK(tests::orrery({"replay", folder.path().string()}).status == 2);  // cut.0.et and others, of one rank
  std::filesystem::create_directory(folder.path() / "bare");
  CHECK(tests::orrery({"replay", folder.file("bare")}).err.find("without execution traces") != std::string::npos);
  CHECK(tests::orrery({"replay", out, "--groups", folder.write("groups.json", "{\"0\": [-1]}")}).status == 2);
  CHECK(tests::orrery({"replay", out, "--fabric", "ndr-rail"}).status == 2);
  CHECK(tests::orrery({"export", "chakra", scenario, "--out", out, "--ranks", "16"}).status == 2);
  CHECK(tests::orrery({"replay", out, "--scenario", scenario}).status == 0);  // of two ranks, one of each stage
  // Without the list of groups, two traces of sixteen would count as two ranks in all.
  std::filesystem::remove(std::filesystem::path(out) / tools::kChakraGroupsFile);
  const tests::Outcome alone = tests::orrery({"replay", out, "--scenario", scenario});
  CHECK(alone.status == 2);
  CHECK(alone.err.find("step.8.et") != std::string::npos);
  CHECK(alone.err.find("pg_name") != std::string::npos);
  CHECK(std::count(alone.err.begin(), alone.err.end(), '\n') == 1);
}
