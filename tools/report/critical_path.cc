// A walk backwards. Operations begin in the very picosecond in which the last of what they waited for ended, so that
// times alone tell what was waited for. See critical_path.h.
#include "tools/report/critical_path.h"

#include <algorithm>
#include <map>
#include <utility>

namespace orrery::tools {

namespace {

using workloads::Timeline;

class Walk {
 public:
  explicit Walk(const std::vector<Timeline>& timelines) : timelines_(timelines) {
    for (std::size_t i = 0; i < timelines.size(); ++i) {
      const std::vector<Timeline::Span>& spans = timelines[i].spans;
      std::vector<std::size_t> order(spans.size());
      for (std::size_t s = 0; s < spans.size(); ++s) order[s] = s;
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return spans[a].finish < spans[b].finish; });
      if (!order.empty() && spans[order.back()].finish > at_) {
        at_ = spans[order.back()].finish;
        here_ = i;
      }
      by_finish_.push_back(std::move(order));
      taken_.emplace_back(spans.size(), false);
      for (std::size_t s = 0; s < spans.size(); ++s) {
        if (spans[s].meeting.communicator != workloads::kNoCommunicator) meetings_[spans[s].meeting].push_back({i, s});
      }
    }
  }

  std::vector<PathPart> run() {
    while (at_ > sim::SimTime{}) {
      const std::size_t span = before();
      const sim::SimTime finish = span == PathPart::kNone ? sim::SimTime{} : span_at(span).finish;
      if (finish < at_) {
        go_to(PathPart::kNone, finish);
        continue;
      }
      taken_[here_][span] = true;
      behind_ = &span_at(span);
      go_to(span, std::max(sim::SimTime{}, behind_->start));
      if (behind_->kernels.empty()) follow_last_member(*behind_);
    }
    std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

 private:
  const Timeline::Span& span_at(std::size_t span) const { return timelines_[here_].spans[span]; }

  void go_to(std::size_t span, sim::SimTime from) {
    if (from < at_) parts_.push_back({here_, span, from, at_});
    at_ = from;
  }

  /// What ended last up to now on this rank: of several that of the stream of what comes next, then kernels.
  std::size_t before() const {
    const std::vector<std::size_t>& order = by_finish_[here_];
    auto it = std::upper_bound(order.begin(), order.end(), at_,
                               [&](sim::SimTime t, std::size_t span) { return t < span_at(span).finish; });
    std::size_t best = PathPart::kNone;
    while (it != order.begin()) {
      --it;
      const Timeline::Span& span = span_at(*it);
      if (best != PathPart::kNone && span.finish < span_at(best).finish) break;
      if (!taken_[here_][*it] && (best == PathPart::kNone || rank_of(span) > rank_of(span_at(best)))) best = *it;
    }
    return best;
  }

  int rank_of(const Timeline::Span& span) const {
    if (behind_ != nullptr && span.stream == behind_->stream) return 2;
    return span.kernels.empty() ? 0 : 1;
  }

  /// A transfer begins when its last member is there: the path goes on with that one.
  void follow_last_member(const Timeline::Span& transfer) {
    if (transfer.ready >= transfer.start || transfer.meeting.communicator == workloads::kNoCommunicator) return;
    for (const auto& [timeline, span] : meetings_.at(transfer.meeting)) {
      const Timeline::Span& member = timelines_[timeline].spans[span];
      if (member.ready < transfer.start) continue;
      here_ = timeline;
      taken_[timeline][span] = true;
      behind_ = &member;
      return;
    }
    go_to(PathPart::kNone, std::max(sim::SimTime{}, transfer.ready));
  }

  const std::vector<Timeline>& timelines_;
  std::vector<std::vector<std::size_t>> by_finish_;  // by timeline: spans in the order in which they end
  std::vector<std::vector<bool>> taken_;
  std::map<Timeline::Span::Meeting, std::vector<std::pair<std::size_t, std::size_t>>> meetings_;
  std::size_t here_ = 0;
  sim::SimTime at_{};
  const Timeline::Span* behind_ = nullptr;  // what was waiting
  std::vector<PathPart> parts_;
};

}  // namespace

std::vector<PathPart> critical_path(const std::vector<Timeline>& timelines) { return Walk(timelines).run(); }

}  // namespace orrery::tools
