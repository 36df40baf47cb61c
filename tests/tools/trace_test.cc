// Does a trace parse, name its processes and threads, and nest when read the way Perfetto reads it?
#include "tools/report/trace.h"

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/thinned.h"
#include "tests/tools/trace_check.h"
#include "tests/workloads/example.h"
#include "tools/report/run_page.h"
#include "workloads/schedules/catalogue.h"

using namespace orrery;
using workloads::Category;
using workloads::Stream;
using workloads::Timeline;

namespace {

Timeline::Span span(const std::string& name, Stream stream, std::int64_t ready, std::int64_t start,
                    std::int64_t finish) {
  Timeline::Span s;
  s.name = name;
  s.stream = stream;
  s.category = stream == Stream::compute ? Category::compute : Category::data_comm;
  s.ready = sim::SimTime(ready);
  s.start = sim::SimTime(start);
  s.finish = sim::SimTime(finish);
  return s;
}

nlohmann::json trace_of(const std::vector<Timeline>& timelines) {
  std::ostringstream out;
  tools::write_trace(out, {"a \"quoted\" name\n", timelines, {}, {}, {}});
  return nlohmann::json::parse(out.str());
}

}  // namespace

TEST_CASE("microseconds come back as the nanoseconds that went in, by cutting off") {
  // 1001 is the classic: 1.001 * 1000 is 1000.9999999999999 in doubles.
  CHECK(static_cast<std::int64_t>(1.001 * 1000.0) == 1000);
  for (std::int64_t ns = 0; ns < 200000; ++ns) {
    const std::string text = tools::trace_microseconds(ns);
    REQUIRE(static_cast<std::int64_t>(std::strtod(text.c_str(), nullptr) * 1000.0) == ns);
  }
  for (std::int64_t ns = 987654321000; ns < 987654322000; ++ns) {
    REQUIRE(static_cast<std::int64_t>(std::strtod(tools::trace_microseconds(ns).c_str(), nullptr) * 1000.0) == ns);
  }
}

TEST_CASE("processes and threads are named, and an escaped name survives") {
  Timeline timeline;
  timeline.rank = 96;
  timeline.ranks = 1344;
  timeline.stage = 3;
  timeline.spans = {span("F0", Stream::compute, 0, 0, 5'000'000)};
  const nlohmann::json trace = trace_of({timeline});
  CHECK(trace["otherData"]["scenario"] == "a \"quoted\" name\n");
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["args"].contains("name")) names[event["name"]].push_back(event["args"]["name"]);
  }
  CHECK(names["process_name"] == std::vector<std::string>{"rank 96: stage 3"});
  // Streams, and the gaps between kernels.
  CHECK(names["thread_name"] == std::vector<std::string>{std::string(Stream::compute.name), "no kernel runs"});
}

TEST_CASE("a step of every kind of pass and stream nests, and names its passes") {
  std::size_t of = 0;
  for (const workloads::Schedule* schedule : workloads::kSchedules) {
    if (!orrery::tests::tried(of++, 0, 3)) continue;
    INFO(schedule->name);
    std::vector<std::string> sets = tests::sets_for(*schedule);
    sets.insert(sets.end(),
                {"parallelism.context=2", "parallelism.data=2", "parallelism.pipeline=4", "parallelism.tensor=1"});
    const workloads::Job job = tests::small_job(sets);
    const workloads::StepReport report = workloads::simulate_step(job, {.timelines = std::vector<std::int64_t>{}});
    std::set<std::string> letters;
    for (const Timeline& timeline : report.timelines) {
      for (const Timeline::Span& s : timeline.spans)
        letters.insert(s.name.substr(0, s.name.find_first_of("0123456789")));
    }
    CHECK(letters.contains("F"));
    CHECK(letters.contains("B") == (schedule->backward != workloads::BackwardPasses::cut));
    for (const char* letter : {"b", "W"}) CHECK(letters.contains(letter) == schedule->splits_backward());
    const tests::TraceCheck check = tests::check_trace(trace_of(report.timelines));
    CHECK(check.problems == std::vector<std::string>{});
    CHECK(check.arrows > 0);
  }
}

TEST_CASE("ranks are named by the coordinates that the job has") {
  const workloads::Job job = tests::small_job();  // TP2 PP2 DP4, tensor fastest, then data, then pipeline
  Timeline timeline;
  timeline.rank = 1 + 2 * (3 + 4 * 1);
  timeline.ranks = 2;
  CHECK(tools::process_names(job.parallelism.dims(), {timeline}) ==
        std::vector<std::string>{"rank 15: stage 1, data 3, tensor 1, stands for 2 ranks"});
}

TEST_CASE("every rank's transfers join those of its peers, in every kind of parallelism", "[full-size]") {
  struct Case {
    std::vector<std::string> sets;
    std::int64_t ranks;
  };
  // Between them: tensor, context, data, shard groups, both directions of the pipeline, chunks that return, embeddings.
  std::vector<Case> cases = {
      {{}, 16},
      {{"parallelism.virtual_pipeline=2", "parallelism.sharding=optimizer"}, 16},
      {{"parallelism.context=2", "parallelism.data=2"}, 16},
      {{"parallelism.sharding=parameters", "parallelism.pipeline=1", "parallelism.data=8", "parallelism.shard_group=4"},
       16}};
  for (const workloads::Schedule* schedule : workloads::kSchedules) {
    cases.push_back({tests::sets_for(*schedule), 4});
    cases.back().sets.insert(cases.back().sets.end(), {"cluster.gpus=4", "parallelism.tensor=1",
                                                       "parallelism.pipeline=4", "parallelism.data=1"});
  }
  for (const Case& c : cases) {
    std::vector<std::string> sets{"batch.global=8"};
    sets.insert(sets.end(), c.sets.begin(), c.sets.end());
    const workloads::Job job = tests::small_job(sets);
    workloads::Question options;
    options.timelines.emplace();
    for (std::int64_t rank = 0; rank < c.ranks; ++rank) options.timelines->push_back(rank);
    const workloads::StepReport report = workloads::simulate_step(job, options);
    REQUIRE(report.timelines.size() == static_cast<std::size_t>(c.ranks));
    // With every rank in the trace, every transfer of a group of two or more is joined: an arrow per group and turn.
    std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> members;
    std::int64_t shortest = 1'000'000;
    for (const Timeline& timeline : report.timelines) {
      for (const Timeline::Span& s : timeline.spans) {
        if (s.meeting.communicator == workloads::kNoCommunicator) continue;
        ++members[{s.meeting.communicator, s.meeting.turn}];
        shortest = std::min(shortest, (s.finish.value() / 1000 - s.start.value() / 1000));
      }
    }
    REQUIRE(shortest >= 2);  // nanoseconds; else arrows would be left out
    for (const auto& [transfer, count] : members) CHECK(count >= 2);
    const tests::TraceCheck check = tests::check_trace(trace_of(report.timelines));
    CHECK(check.problems == std::vector<std::string>{});
    CHECK(check.arrows == members.size());
  }
}

TEST_CASE("a traced rank has the times of the rank itself, simulated in full") {
  const workloads::Job job = tests::small_job({"perturb={slow_gpus: [{gpu: 5, slowdown: 1.5}]}"});
  workloads::Question folded;
  folded.timelines = {0, 5, 6, 15};
  workloads::Question full = folded;
  full.ranks = workloads::Question::Ranks::every;
  const auto a = workloads::simulate_step(job, folded).timelines, b = workloads::simulate_step(job, full).timelines;
  REQUIRE(a.size() == 4);
  REQUIRE(b.size() == 4);
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].rank == folded.timelines->at(i));
    REQUIRE(a[i].spans.size() == b[i].spans.size());
    for (std::size_t s = 0; s < a[i].spans.size(); ++s) {
      CHECK(a[i].spans[s].start == b[i].spans[s].start);
      CHECK(a[i].spans[s].finish == b[i].spans[s].finish);
      CHECK(a[i].spans[s].meeting == b[i].spans[s].meeting);
    }
  }
}

TEST_CASE("a window keeps what overlaps it, whole, and the counters' values where it begins") {
  Timeline timeline;
  timeline.spans = {span("before", Stream::compute, 0, 0, 1'000'000),
                    span("across", Stream::compute, 1'000'000, 1'000'000, 3'000'000),
                    span("after", Stream::compute, 4'000'000, 4'000'000, 5'000'000)};
  timeline.memory = {{sim::SimTime(0), 1e9}, {sim::SimTime(1'500'000), 2e9}, {sim::SimTime(4'500'000), 3e9}};
  workloads::LinkLoad link;
  link.name = "a wire";
  link.capacity = 50e9;
  link.rates = {{sim::SimTime(0), 25e9}, {sim::SimTime(9'000'000), 0}};
  std::ostringstream out;
  tools::write_trace(out, {"", {timeline}, {}, {link}, {sim::SimTime(2'000'000), sim::SimTime(3'500'000)}});
  const nlohmann::json trace = nlohmann::json::parse(out.str());
  std::vector<std::string> slices;
  std::map<std::string, std::vector<std::pair<double, double>>> counters;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") slices.push_back(event["name"]);
    if (event["ph"] == "C") counters[event["name"]].push_back({event["ts"], event["args"].begin().value()});
  }
  CHECK(slices == std::vector<std::string>{"across"});
  CHECK(counters["memory"] == std::vector<std::pair<double, double>>{{2.0, 2.0}});
  CHECK(counters["a wire (node, 50 GB/s)"] == std::vector<std::pair<double, double>>{{2.0, 25.0}});
  CHECK(tests::check_trace(trace).problems == std::vector<std::string>{});
}

TEST_CASE("lists of ranks and windows are read, and what is none is refused") {
  CHECK(tools::parse_trace_ranks("0,5,8:10,9", 16) == std::vector<std::int64_t>{0, 5, 8, 9, 10});
  for (const char* wrong :
       {"", ",", "0,", "a", "-1", "1.5", "3:1", "0:16", "16", "0:", ":3", "1:2:3", "99999999999999999999"})
    CHECK_THROWS_AS(tools::parse_trace_ranks(wrong, 16), sim::UserError);
  CHECK(tools::parse_trace_ranks("0:1023", 4096).size() == 1024);
  CHECK_THROWS_AS(tools::parse_trace_ranks("0:1024", 4096), sim::UserError);
  CHECK_THROWS_AS(tools::parse_trace_ranks("0:600,1000:1600", 4096), sim::UserError);
  CHECK(tools::parse_trace_window("0.1s:0.3s").from == sim::SimTime(100'000'000'000));
  CHECK(tools::parse_trace_window("5 ms:").to == tools::TraceWindow{}.to);
  CHECK(tools::parse_trace_window(":5 ms").to == sim::SimTime(5'000'000'000));
  for (const char* wrong : {"", ":", "1s", "2s:1s", "1s:2s:3s", "1:2", "-1s:2s", "x:y"})
    CHECK_THROWS_AS(tools::parse_trace_window(wrong), sim::UserError);
}

TEST_CASE("memory over time peaks where the memory model says, and links carry the bytes of their transfers") {
  for (const workloads::Schedule* schedule : workloads::kSchedules) {
    INFO(schedule->name);
    const workloads::Job job = tests::small_job(tests::sets_for(*schedule));
    workloads::Question options;
    options.stages = workloads::Question::Stages::timelines;
    const workloads::StepReport report = workloads::simulate_step(job, options);
    REQUIRE(report.busiest.timelines.size() == 2);
    for (const Timeline& timeline : report.busiest.timelines) {
      double most = 0, spent = 0;
      for (const Timeline::Memory& point : timeline.memory) most = std::max(most, point.bytes);
      CHECK(most == Approx(report.memory.stages[static_cast<std::size_t>(timeline.stage)].total).epsilon(1e-9));
      for (const double part : timeline.breakdown_s) spent += part;
      CHECK(spent == Approx(sim::to_seconds(report.iteration)).epsilon(1e-9));
    }
    REQUIRE(!report.links.empty());
    for (const workloads::LinkLoad& link : report.links) {
      double moved = 0;
      for (std::size_t i = 0; i + 1 < link.rates.size(); ++i) {
        moved += link.rates[i].bytes_per_s * sim::to_seconds(link.rates[i + 1].at - link.rates[i].at);
        CHECK(link.rates[i].bytes_per_s <= link.capacity * (1 + 1e-6));  // mean rates stay below what a link can
      }
      CHECK(moved == Approx(link.bytes).epsilon(1e-6));
      CHECK(link.rates.back().bytes_per_s == 0);
    }
  }
}

TEST_CASE("the pipeline drawn from whole passes is the one drawn from all their operations") {
  for (const workloads::Schedule* schedule : workloads::kSchedules) {
    INFO(schedule->name);
    sim::Settings document = scenarios::parse_yaml(R"(
cluster: {device: h100-sxm-80gb, gpus: 64, fabric: ndr-rail}
model: llama3-70b
parallelism: {tensor: 8, pipeline: 2, sequence_parallel: true, sharding: optimizer}
batch: {global: 32, micro: 1}
)",
                                                   "long.yaml");
    for (const std::string& set : tests::sets_for(*schedule)) scenarios::apply_set(document, set);
    const scenarios::Scenario scenario = scenarios::load_scenario(document);
    workloads::Question bars, whole;
    bars.stages = workloads::Question::Stages::bars;
    whole.stages = workloads::Question::Stages::timelines;
    const workloads::StepReport few = workloads::simulate_step(scenario.job, bars);
    const workloads::StepReport all = workloads::simulate_step(scenario.job, whole);
    CHECK(few.iteration == all.iteration);
    CHECK(few.breakdown_s == all.breakdown_s);
    REQUIRE(few.busiest.bars.size() == 2);
    CHECK(few.busiest.timelines.empty());
    CHECK(tools::pipeline_page(scenario, few) == tools::pipeline_page(scenario, all));
    std::size_t in_few = 0, in_all = 0;
    for (const workloads::StageBars& stage : few.busiest.bars) in_few += stage.bars.size();
    for (const workloads::StageBars& stage : all.busiest.bars) in_all += stage.bars.size();
    CHECK(in_few < in_all);
  }
}

TEST_CASE("kernels nest in their span, also when a slow span stretches or noise shrinks it") {
  Timeline timeline;
  // Odd picoseconds everywhere: every boundary is rounded.
  Timeline::Span exact = span("exact", Stream::compute, 0, 1'001'999, 7'003'501);
  exact.kernels = {{"a", sim::Duration(2'000'501)}, {"b", sim::Duration(4'001'001)}};
  Timeline::Span shrunk = span("shrunk", Stream::compute, 0, 7'003'501, 9'003'777);
  shrunk.kernels = {{"a", sim::Duration(2'000'501)}, {"b", sim::Duration(4'001'001)}};
  Timeline::Span stretched = span("stretched", Stream::compute, 0, 9'003'777, 90'003'777);
  stretched.kernels = exact.kernels;
  Timeline::Span transfer = span("reduce", Stream::data, 1'000'000, 3'000'000, 4'000'000);
  transfer.bytes = 1e6;
  timeline.spans = {exact, transfer, shrunk, stretched};
  const nlohmann::json trace = trace_of({timeline, timeline});
  const tests::TraceCheck check = tests::check_trace(trace);
  CHECK(check.problems == std::vector<std::string>{});
  // Per timeline: 4 spans, 6 kernels, the two microseconds that the transfer waited for its peers, and the gap ahead of
  // the first kernel.
  CHECK(check.slices == 2 * (4 + 6 + 1 + 1));
  CHECK(check.deepest == 2);
}

TEST_CASE("the FLOPs of all kernels are those of the step") {
  // Unfused attention computes every score, as the closed form counts them; 51200 words need no padding for TP2. GEMMs
  // that are cut to overlap with a collective do the same work in parts.
  for (const std::vector<std::string>& sets :
       std::vector<std::vector<std::string>>{{}, {"parallelism.sequence_parallel=true", "overlap={tensor: true}"}}) {
    workloads::Job job = tests::small_job(sets);
    job.method.attention = workloads::AttentionKind::unfused;
    workloads::Question options;
    options.stages = workloads::Question::Stages::timelines;
    const workloads::StepReport report = workloads::simulate_step(job, options);
    double flops = 0;
    for (const workloads::KernelUse& use : report.busiest.kernels) flops += use.flops * static_cast<double>(use.count);
    const auto ranks_of_a_stage = static_cast<double>(job.parallelism.tensor * job.parallelism.data);
    CHECK(flops * ranks_of_a_stage == Approx(workloads::model_flops(job.model, job.batch.global)).epsilon(1e-9));
  }
}
