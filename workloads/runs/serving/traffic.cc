// Draws.
#include "workloads/runs/serving/traffic.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/error.h"
#include "sim/hash.h"

namespace orrery::serving {

namespace {

constexpr double kPicoseconds = 1e12;

enum class Drawn : std::uint64_t { arrival = 1, input, output, prefix, priority, turns, gap };

/// The draws of one request for one purpose: uniform in (0, 1).
class Draws {
 public:
  Draws(std::uint64_t seed, Drawn what, std::int64_t request)
      : key_(sim::hash_pair(sim::hash_pair(seed, static_cast<std::uint64_t>(what)),
                            static_cast<std::uint64_t>(request))) {}
  double uniform() {
    return (static_cast<double>(sim::mix64(key_ + 0xd1342543de82ef95u * ++drawn_) >> 11) + 0.5) * 0x1p-53;
  }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  /// Marsaglia and Tsang, A simple method for generating gamma variables, ACM TOMS 26 (2000); below 1 by their
  /// section 6.
  double gamma(double shape) {
    if (shape < 1) return gamma(shape + 1) * std::pow(uniform(), 1 / shape);
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = normal(), v = std::pow(1 + c * x, 3);
      if (v > 0 && std::log(uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
    }
  }

 private:
  std::uint64_t key_, drawn_ = 0;
};

std::int32_t length_of(const Length& length, Draws draws) {
  double tokens = length.mean;
  if (length.spread == Spread::uniform) {
    tokens = std::floor(length.low + draws.uniform() * (length.high - length.low + 1));
  } else if (length.spread == Spread::lognormal && length.variation > 0) {
    const double sigma2 = std::log(1 + length.variation * length.variation);
    tokens = std::exp(std::log(length.mean) - sigma2 / 2 + std::sqrt(sigma2) * draws.normal());
  }
  return static_cast<std::int32_t>(std::clamp(std::round(tokens), 1.0, length.most));
}

double gap_of(const Traffic& traffic, Draws draws) {
  switch (traffic.arrivals) {
    case Arrivals::constant:
      return 1 / traffic.rate;
    case Arrivals::poisson:
      return -std::log(draws.uniform()) / traffic.rate;
    case Arrivals::gamma:
      return draws.gamma(traffic.burstiness) / (traffic.burstiness * traffic.rate);
  }
  return 0;
}

/// When so much of the load has come that the rate alone brings in `at` seconds: arrivals of a rate that varies are
/// those of an even one in another time (Cinlar, Introduction to Stochastic Processes, 1975).
double varied(const Traffic& traffic, double at) {
  if (traffic.levels.empty()) return at;
  const double part = traffic.duration / static_cast<double>(traffic.levels.size());
  double from = 0;
  for (const double level : traffic.levels) {
    if (at <= level * part && level > 0) return from + at / level;
    at -= level * part;
    from += part;
  }
  return traffic.duration + 1;
}

std::int32_t priority_of(const std::vector<double>& shares, Draws draws) {
  double sum = 0;
  for (const double share : shares) sum += share;
  double left = draws.uniform() * sum;
  for (std::size_t i = 0; i + 1 < shares.size(); ++i) {
    left -= shares[i];
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(shares.size()) - 1;
}

/// Sessions by their beginnings; requests are put in order behind.
Trace sessions_of(const Traffic& traffic, std::int64_t block_tokens) {
  Trace trace;
  trace.warm_up = traffic.warm_up;
  trace.content_tokens = static_cast<std::int32_t>(block_tokens);
  const std::int64_t shared = traffic.prefix.tokens / block_tokens;
  trace.different = static_cast<std::int32_t>(shared * traffic.prefix.groups);
  Traffic begins = traffic;  // as many requests a second as are asked for, of all turns
  begins.rate = traffic.rate / std::max(1.0, traffic.session.turns.mean);
  const auto full = [&] { return traffic.requests > 0 && std::ssize(trace.requests) >= traffic.requests; };
  double at = 0;
  std::int64_t number = 0;
  for (std::int64_t s = 0; !full(); ++s) {
    at += gap_of(begins, Draws(traffic.seed, Drawn::arrival, s));
    double when = varied(begins, at);
    if (traffic.duration > 0 && when > traffic.duration) break;
    const auto group = static_cast<std::int64_t>(Draws(traffic.seed, Drawn::prefix, s).uniform() *
                                                 static_cast<double>(traffic.prefix.groups));
    const auto begin = static_cast<std::uint32_t>(trace.contents.size());
    for (std::int64_t b = 0; b < shared; ++b) trace.contents.push_back(static_cast<std::int32_t>(group * shared + b));
    std::int64_t said = traffic.prefix.tokens;
    const std::int32_t turns = length_of(traffic.session.turns, Draws(traffic.seed, Drawn::turns, s));
    const std::int32_t priority =
        traffic.priorities.empty() ? 0 : priority_of(traffic.priorities, Draws(traffic.seed, Drawn::priority, s));
    for (std::int32_t turn = 0; turn < turns && !full(); ++turn, ++number) {
      if (turn > 0) when += -std::log(Draws(traffic.seed, Drawn::gap, number).uniform()) * traffic.session.gap;
      if (traffic.duration > 0 && when > traffic.duration) break;
      said += length_of(traffic.input, Draws(traffic.seed, Drawn::input, number));
      const std::int32_t output = length_of(traffic.output, Draws(traffic.seed, Drawn::output, number));
      SIM_CHECK(said < INT32_MAX && std::ssize(trace.contents) < kMostContents && number < kMostRequests,
                "a session of {} tokens, {} blocks of all", said, trace.contents.size());
      while (std::ssize(trace.contents) - static_cast<std::int64_t>(begin) < said / block_tokens)
        trace.contents.push_back(trace.different++);
      trace.requests.push_back({static_cast<Time>(std::llround(when * kPicoseconds)), static_cast<std::int32_t>(said),
                                output, begin, static_cast<std::uint32_t>(said / block_tokens), priority});
      said += output;
    }
  }
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const Request& a, const Request& b) { return a.arrival < b.arrival; });
  return trace;
}

}  // namespace

Trace trace_of(const Traffic& traffic, std::int64_t block_tokens) {
  if (traffic.session.any()) return sessions_of(traffic, block_tokens);
  Trace trace;
  trace.concurrency = traffic.concurrency;
  trace.warm_up = traffic.warm_up;
  const std::int64_t blocks = traffic.prefix.tokens / block_tokens;
  if (blocks > 0) {
    trace.content_tokens = static_cast<std::int32_t>(block_tokens);
    trace.different = static_cast<std::int32_t>(blocks * traffic.prefix.groups);
    for (std::int32_t i = 0; i < trace.different; ++i) trace.contents.push_back(i);
  }
  double at = 0;
  for (std::int64_t i = 0; traffic.requests == 0 || i < traffic.requests; ++i) {
    Request request;
    if (traffic.concurrency == 0) {
      at += gap_of(traffic, Draws(traffic.seed, Drawn::arrival, i));
      const double when = varied(traffic, at);
      if (traffic.duration > 0 && when > traffic.duration) break;
      request.arrival = static_cast<Time>(std::llround(when * kPicoseconds));
    }
    request.input = static_cast<std::int32_t>(traffic.prefix.tokens) +
                    length_of(traffic.input, Draws(traffic.seed, Drawn::input, i));
    request.output = length_of(traffic.output, Draws(traffic.seed, Drawn::output, i));
    if (!traffic.priorities.empty())
      request.priority = priority_of(traffic.priorities, Draws(traffic.seed, Drawn::priority, i));
    if (blocks > 0) {
      const double draw = Draws(traffic.seed, Drawn::prefix, i).uniform();
      const auto group = static_cast<std::int64_t>(draw * static_cast<double>(traffic.prefix.groups));
      request.content = static_cast<std::uint32_t>(group * blocks);
      request.contents = static_cast<std::uint32_t>(blocks);
    }
    trace.requests.push_back(request);
    SIM_CHECK(i < kMostRequests, "more than {} requests", kMostRequests);
  }
  return trace;
}

}  // namespace orrery::serving
