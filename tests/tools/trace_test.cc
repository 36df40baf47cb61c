// Does a trace parse, name its processes and threads, and nest when read the way Perfetto reads it?
#include "tools/report/trace.h"

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/catch.h"
#include "tests/tools/trace_check.h"
#include "tests/workloads/example.h"

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
  std::map<std::string, std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["args"].contains("name")) names[event["name"]] = event["args"]["name"];
  }
  CHECK(names["process_name"] == "stage 3 (rank 96, stands for 1344 ranks)");
  CHECK(names["thread_name"] == std::string(workloads::name_of(Stream::compute)));
}

TEST_CASE("a step of every kind of pass and stream nests, and names its passes") {
  for (const char* schedule : {"zb_v", "dualpipe"}) {
    const workloads::Job job =
        tests::small_job({std::string("parallelism.schedule=") + schedule, "parallelism.context=2",
                          "parallelism.data=2", "parallelism.pipeline=4", "parallelism.tensor=1"});
    const workloads::StepReport report = workloads::simulate_step(job, {false, true});
    std::set<std::string> letters;
    for (const Timeline& timeline : report.timelines) {
      for (const Timeline::Span& s : timeline.spans)
        letters.insert(s.name.substr(0, s.name.find_first_of("0123456789")));
    }
    for (const char* letter : {"F", "b", "W"}) CHECK(letters.contains(letter));
    const tests::TraceCheck check = tests::check_trace(trace_of(report.timelines));
    CHECK(check.problems == std::vector<std::string>{});
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
  // Per timeline: 4 spans, 6 kernels, and the two microseconds that the transfer waited for its peers.
  CHECK(check.slices == 2 * (4 + 6 + 1));
  CHECK(check.deepest == 2);
}
