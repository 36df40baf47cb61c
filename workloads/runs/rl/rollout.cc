// Dealing out, and one replica after the other.
#include "workloads/runs/rl/rollout.h"

#include <algorithm>
#include <unordered_map>

namespace orrery::rl {

namespace {

struct Share {
  serving::Trace trace;
  std::vector<std::size_t> from;  // of each request, its place among those that were handed in
  std::unordered_map<std::int64_t, std::uint32_t> prompts;  // where a prompt's content begins
};

void add_request(Share& share, const Handed& handed, std::size_t place, std::int64_t block_tokens, std::int64_t who) {
  serving::Request request;
  request.arrival = handed.at;
  request.input = handed.sample.input;
  request.output = handed.sample.output;
  serving::Trace& trace = share.trace;
  if (const std::int64_t blocks = (handed.sample.input - handed.sample.carried) / block_tokens; blocks > 0) {
    const auto begin = static_cast<std::uint32_t>(trace.contents.size());
    const auto [at, fresh] = share.prompts.emplace(who, begin);
    if (fresh)
      for (std::int64_t i = 0; i < blocks; ++i) trace.contents.push_back(trace.different++);
    request.content = at->second;
    request.contents = static_cast<std::uint32_t>(blocks);
  }
  trace.requests.push_back(request);
  share.from.push_back(place);
}

}  // namespace

Rollout generate(std::span<const Handed> handed, const Fleet& fleet, serving::StepTimes& times) {
  Rollout out;
  out.served.resize(handed.size());
  const std::int64_t block_tokens = fleet.limits.block_tokens;
  std::vector<Share> shares(static_cast<std::size_t>(fleet.replicas));
  for (Share& share : shares) share.trace.content_tokens = static_cast<std::int32_t>(block_tokens);
  std::int64_t dealt = -1, prompt = -1;
  for (std::size_t i = 0; i < handed.size(); ++i) {
    const Sample& sample = handed[i].sample;
    const bool next =
        fleet.by_sample || i == 0 || sample.prompt != handed[i - 1].sample.prompt || handed[i].at != handed[i - 1].at;
    // Prompts are told apart by where they were handed in: their numbers begin anew in every step.
    const auto own_input = [](const Sample& one) { return one.input - one.carried; };
    if (i == 0 || sample.prompt != handed[i - 1].sample.prompt || handed[i].at != handed[i - 1].at ||
        own_input(sample) != own_input(handed[i - 1].sample))
      ++prompt;
    if (next) ++dealt;
    if (sample.output == 0) {
      out.served[i] = {handed[i].at, handed[i].at, handed[i].at, handed[i].at, 0, 0, false};
      continue;
    }
    add_request(shares[static_cast<std::size_t>(dealt % fleet.replicas)], handed[i], i, block_tokens, prompt);
    out.written += sample.output;
  }
  serving::Fleet one;
  one.limits = fleet.limits;
  if (fleet.concurrency > 0) one.limits.sequences = std::min(one.limits.sequences, fleet.concurrency);
  for (std::size_t replica = 0; replica < shares.size(); ++replica) {
    Share& share = shares[replica];
    if (share.trace.requests.empty()) continue;
    const serving::Outcome outcome = serving::serve(share.trace, one, times);
    for (std::size_t i = 0; i < share.from.size(); ++i) {
      serving::Served served = outcome.requests[i];
      served.replica = static_cast<std::int32_t>(replica);
      if (served.refused) {
        ++out.refused;
        served.begun = served.first = served.last = served.arrival;
      }
      out.end = std::max(out.end, served.last);
      out.served[share.from[i]] = served;
    }
    out.busy += outcome.busy;
    out.preemptions += outcome.preemptions;
    share = {};
  }
  return out;
}

Time time_of(std::vector<Time> ends, std::int64_t count) {
  if (ends.empty()) return 0;
  const auto n = static_cast<std::size_t>(std::clamp<std::int64_t>(count, 1, static_cast<std::int64_t>(ends.size())));
  std::nth_element(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(n - 1), ends.end());
  return ends[n - 1];
}

}  // namespace orrery::rl
