// Does the critical path lead from a step's end to its beginning through what was waited for?
#include "tools/report/critical_path.h"

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "tools/report/trace.h"
#include "workloads/schedules/catalogue.h"

using namespace orrery;
using tools::PathPart;
using workloads::Category;
using workloads::Stream;
using workloads::Timeline;

namespace {

Timeline::Span span(Stream stream, std::int64_t ready, std::int64_t start, std::int64_t finish) {
  Timeline::Span s;
  s.stream = stream;
  s.ready = sim::SimTime(ready);
  s.start = sim::SimTime(start);
  s.finish = sim::SimTime(finish);
  if (stream == Stream::compute) s.kernels = {{"kernel", sim::Duration(finish - start)}};
  return s;
}

Timeline::Span message(Stream stream, std::int64_t ready, std::int64_t start, std::int64_t finish) {
  Timeline::Span s = span(stream, ready, start, finish);
  s.meeting.communicator = 7;
  return s;
}

using Part = std::tuple<std::size_t, std::size_t, std::int64_t, std::int64_t>;
std::vector<Part> parts(const std::vector<Timeline>& timelines) {
  std::vector<Part> out;
  for (const PathPart& part : tools::critical_path(timelines))
    out.emplace_back(part.timeline, part.span, part.from.value(), part.to.value());
  return out;
}

}  // namespace

TEST_CASE("the path goes through the rank that a message was waited for") {
  // Rank 1 is ready to receive at 0 and waits for rank 0's kernel, which ends at 10; the message moves until 12, and
  // behind it rank 1 computes until 20. Rank 0's second kernel, until 18, is not on the path.
  Timeline sender, receiver;
  sender.spans = {span(Stream::compute, 0, 0, 10), message(Stream::pipeline_send, 10, 10, 12),
                  span(Stream::compute, 10, 10, 18)};
  receiver.spans = {message(Stream::pipeline_receive, 0, 10, 12), span(Stream::compute, 12, 12, 20)};
  CHECK(parts({sender, receiver}) == std::vector<Part>{{0, 0, 0, 10}, {1, 0, 10, 12}, {1, 1, 12, 20}});
  // Where nobody recorded the sender, nothing is known of the time in which it was waited for.
  CHECK(parts({receiver}) == std::vector<Part>{{0, PathPart::kNone, 0, 10}, {0, 0, 10, 12}, {0, 1, 12, 20}});
}

TEST_CASE("a gap that nothing ends in is on the path as the host's, and operations without length are passed over") {
  Timeline timeline;
  timeline.spans = {span(Stream::compute, 0, 3, 10), span(Stream::compute, 10, 10, 10),
                    span(Stream::compute, 10, 10, 10), span(Stream::compute, 14, 14, 20)};
  CHECK(parts({timeline}) ==
        std::vector<Part>{{0, PathPart::kNone, 0, 3}, {0, 0, 3, 10}, {0, PathPart::kNone, 10, 14}, {0, 3, 14, 20}});
  CHECK(parts({}).empty());
}

TEST_CASE("of what ends in one instant the same stream's is taken") {
  Timeline timeline;
  timeline.spans = {span(Stream::compute, 0, 0, 10), span(Stream::data, 0, 4, 10), span(Stream::data, 10, 10, 30)};
  CHECK(parts({timeline}) == std::vector<Part>{{0, PathPart::kNone, 0, 4}, {0, 1, 4, 10}, {0, 2, 10, 30}});
}

TEST_CASE("in steps of every schedule the path is as long as the step, and gaps are what the breakdown books") {
  for (const workloads::Schedule* schedule : workloads::kSchedules) {
    INFO(schedule->name);
    workloads::Question options;
    options.timelines.emplace();
    const workloads::StepReport report =
        workloads::simulate_step(tests::small_job(tests::sets_for(*schedule)), options);
    sim::SimTime at{}, end{}, known{};
    for (const Timeline& timeline : report.timelines) {
      for (const Timeline::Span& s : timeline.spans) end = std::max(end, s.finish);
    }
    for (const PathPart& part : tools::critical_path(report.timelines)) {
      REQUIRE(part.from == at);
      at = part.to;
      if (part.span == PathPart::kNone) continue;
      const Timeline::Span& s = report.timelines[part.timeline].spans[part.span];
      CHECK(s.start <= part.from);
      CHECK(s.finish == part.to);
      known = sim::SimTime(known.value() + (part.to - part.from).value());
    }
    CHECK(at == end);
    // The host holds a small model up, but most of the path is known.
    CHECK(2 * known.value() > end.value());
    for (const Timeline& timeline : report.timelines) {
      std::array<double, workloads::kCategories> booked{};
      sim::SimTime last{};
      for (const Timeline::Gap& gap : timeline.gaps) {
        CHECK(gap.from >= last);
        CHECK(gap.to > gap.from);
        last = gap.to;
        booked[static_cast<std::size_t>(gap.category)] += sim::to_seconds(gap.to - gap.from);
      }
      // Of these nothing is booked inside kernels.
      for (const Category waiting : {Category::bubble, Category::partner_wait, Category::pipeline_comm}) {
        const auto c = static_cast<std::size_t>(waiting);
        CHECK(booked[c] == Approx(timeline.breakdown_s[c]).margin(1e-12));
      }
    }
  }
}
