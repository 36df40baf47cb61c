// The distributions of routing.h.
#include "calibration/device/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>
#include <span>

#include "sim/error.h"
#include "sim/real.h"

namespace orrery::calibration {
namespace {

using sim::real;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// SplitMix64's finaliser.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

std::vector<std::int64_t> balanced(const Routing& r) {
  std::vector<std::int64_t> loads(at(r.experts), 0);
  const std::int64_t stride = (r.experts + r.top_k - 1) / r.top_k;
  if (r.tokens >= stride) {
    // Choice i takes `tokens` experts in turn, from i * stride on: whole rounds, and one more for the first of the
    // rest.
    for (std::int64_t i = 0; i < r.top_k; ++i)
      for (std::int64_t e = 0; e < r.experts; ++e) {
        const std::int64_t place = (e - i * stride % r.experts + r.experts) % r.experts;
        loads[at(e)] += r.tokens / r.experts + (place < r.tokens % r.experts ? 1 : 0);
      }
  } else {
    for (std::int64_t t = 0; t < r.tokens; ++t)
      for (std::int64_t i = 0; i < r.top_k; ++i) ++loads[at((t * stride / r.tokens + i * stride) % r.experts)];
  }
  return loads;
}

/// Loads scaled to all choices and rounded.
std::vector<std::int64_t> rounded(const Routing& r, std::uint64_t draw) {
  const auto choices = static_cast<double>(r.tokens * r.top_k);
  const bool few = r.tokens * r.top_k <= r.experts;
  const double low = few ? 0.01 : 1.0, high = few ? 2.0 : std::max(1.001, 0.8 * static_cast<double>(r.tokens));
  const double power = 1 - r.alpha;
  const std::uint64_t seed = mixed(mixed(draw) ^ static_cast<std::uint64_t>(r.tokens * 1000003 + r.experts));
  std::vector<double> weight(at(r.experts));
  const double a = std::pow(low, power), b = std::pow(high, power);
  for (std::size_t e = 0; e < weight.size(); ++e) {
    const double u = static_cast<double>(mixed(seed + e) >> 11) * 0x1p-53;
    weight[e] = std::abs(power) < 1e-9 ? low * std::pow(high / low, u) : std::pow((b - a) * u + a, 1 / power);
  }
  const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
  std::vector<std::int64_t> loads;
  loads.reserve(weight.size());
  for (const double w : weight) loads.push_back(std::llround(w / sum * choices));
  return loads;
}

/// Rounded loads that sum to all choices: what rounding left over goes to the largest, what it made is taken from the
/// smallest.
std::vector<std::int64_t> drawn(const Routing& r, std::uint64_t draw) {
  std::vector<std::int64_t> loads = rounded(r, draw);
  std::int64_t left = r.tokens * r.top_k - std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
  std::vector<std::size_t> order(loads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return loads[a] > loads[b]; });
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++loads[order[i]];
  for (std::size_t i = order.size(); left < 0; i = i == 1 ? order.size() : i - 1) {
    if (loads[order[i - 1]] == 0) continue;
    --loads[order[i - 1]];
    ++left;
  }
  return loads;
}

void check(const Routing& r) {
  SIM_CHECK(r.tokens >= 1 && r.top_k >= 1 && r.experts >= r.top_k && r.ranks >= 1 && r.experts % r.ranks == 0,
            "{} tokens that choose {} of {} experts on {} ranks", r.tokens, r.top_k, r.experts, r.ranks);
}

}  // namespace

std::vector<double> loads_of_ranks(const Routing& r, std::uint64_t draw) {
  check(r);
  if (r.alpha <= 0) return std::vector<double>(at(r.ranks), 1.0);
  std::vector<std::int64_t> loads = drawn(r, draw);
  std::int64_t beyond = 0;
  // Twice round, so that what the last expert passes on finds those in front of it.
  for (int round = 0; round < 2; ++round)
    for (std::int64_t& tokens : loads) {
      const std::int64_t all = tokens + beyond;
      tokens = std::min(all, r.tokens);
      beyond = all - tokens;
    }
  const std::int64_t each = r.experts / r.ranks;
  const double mean = static_cast<double>(r.tokens * r.top_k) / static_cast<double>(r.ranks);
  std::vector<double> out;
  for (auto rank = loads.begin(); rank != loads.end(); rank += each)
    out.push_back(static_cast<double>(std::accumulate(rank, rank + each, std::int64_t{0})) / mean);
  return out;
}

namespace {
/// Probability that all of `chosen` different ones of `all` fall outside of `inside` of them.
double outside(double all, double inside, std::int64_t chosen) {
  const double others = all - inside;
  double none = 1;
  for (std::int64_t i = 0; i < chosen; ++i) none *= std::max(0.0, others - real(i)) / (all - real(i));
  return none;
}
}  // namespace

/// A set inside a group is open to a token with its group; one of several groups has so many of them open, with the
/// probabilities of drawing without putting back.
double reaches(const TokenChoice& c, double parts) {
  const double groups = real(c.groups), inside = real(c.experts) / parts;
  if (c.groups <= 1 || c.top_groups >= c.groups) return 1 - outside(real(c.experts), inside, c.top_k);
  const double each = real(c.experts) / groups, open = real(c.top_groups) * each;
  if (std::fmod(parts, groups) == 0) return real(c.top_groups) / groups * (1 - outside(open, inside, c.top_k));
  if (std::fmod(groups, parts) != 0) return 1 - outside(real(c.experts), inside, c.top_k);
  const std::int64_t of_set = std::llround(groups / parts),
                     least = std::max<std::int64_t>(0, of_set + c.top_groups - c.groups);
  double share = 0;
  double ways = 1;  // of opening `n` groups of the set, over those of opening `least`
  double all_ways = 0;
  for (std::int64_t n = least; n <= std::min(of_set, c.top_groups); ++n) {
    all_ways += ways;
    share += ways * (1 - outside(open, real(n) * each, c.top_k));
    ways *= real(of_set - n) * real(c.top_groups - n) / (real(n + 1) * real(c.groups - of_set - c.top_groups + n + 1));
  }
  return share / all_ways;
}

double busiest_rank(const Routing& r) {
  constexpr std::uint64_t kDraws = 256;
  if (r.alpha <= 0 || r.ranks == 1) return 1;
  double sum = 0;
  for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
    const std::vector<double> loads = loads_of_ranks(r, draw);
    sum += *std::max_element(loads.begin(), loads.end());
  }
  return sum / static_cast<double>(kDraws);
}

namespace {
using Loads = std::vector<std::int64_t>;

/// The first expert of the rank that has the most tokens, of ranks of so many experts.
Loads::const_iterator fullest(const Loads& loads, std::ptrdiff_t each) {
  auto first = loads.begin();
  std::int64_t most = -1;
  for (auto rank = loads.begin(); rank != loads.end(); rank += each)
    if (const std::int64_t sum = std::accumulate(rank, rank + each, std::int64_t{0}); sum > most) {
      most = sum;
      first = rank;
    }
  return first;
}

/// The experts of the rank that begins at `first`, no more than one of each token to any of them: what is dealt beyond,
/// to whomever, goes to the first that have room.
Loads of_rank(const Loads& loads, Loads::const_iterator first, const Routing& r) {
  Loads own(first, first + static_cast<std::ptrdiff_t>(r.experts / r.ranks));
  std::int64_t beyond = 0;
  for (const std::int64_t tokens : loads) beyond += std::max<std::int64_t>(0, tokens - r.tokens);
  for (std::int64_t& tokens : own) tokens = std::min(tokens, r.tokens);
  for (std::int64_t& tokens : own) {
    const std::int64_t more = std::min(beyond, r.tokens - tokens);
    tokens += more;
    beyond -= more;
  }
  return own;
}

/// Gives `more` tokens to the experts of a rank, one after another to the one that has the fewest, none more than
/// `most`. What finds no room is returned.
std::int64_t fill(std::span<std::int64_t> experts, std::int64_t more, std::int64_t most) {
  std::vector<std::int64_t*> order;
  for (std::int64_t& tokens : experts) order.push_back(&tokens);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return *a < *b; });
  for (std::size_t lowest = 1; more > 0 && lowest <= order.size(); ++lowest) {
    // The lowest rise together to the next one's level, or as far as the tokens go.
    const std::int64_t level = *order[lowest - 1], next = lowest < order.size() ? *order[lowest] : most;
    const auto count = static_cast<std::int64_t>(lowest);
    const std::int64_t step = std::min(more, (next - level) * count);
    for (std::int64_t i = 0; i < count; ++i) *order[at(i)] = level + step / count + (i < step % count ? 1 : 0);
    more -= step;
  }
  return more;
}

/// The same over all ranks, which take turns.
void spread(Loads& loads, const Routing& r, std::int64_t more) {
  const std::size_t each = loads.size() / at(r.ranks);
  const auto rank = [&](std::int64_t i) { return std::span(loads).subspan(at(i) * each, each); };
  for (std::int64_t before = -1; more > 0 && more != before;) {
    before = more;
    std::vector<std::int64_t> open;
    for (std::int64_t i = 0; i < r.ranks; ++i) {
      const auto its = rank(i);
      if (std::any_of(its.begin(), its.end(), [&](std::int64_t t) { return t < r.tokens; })) open.push_back(i);
    }
    if (open.empty()) return;
    const auto count = static_cast<std::int64_t>(open.size());
    std::int64_t left = 0;
    for (std::int64_t i = 0; i < count; ++i)
      left += fill(rank(open[at(i)]), more / count + (i < more % count ? 1 : 0), r.tokens);
    more = left;
  }
}

/// Takes one token from the fullest expert of a rank, the ranks in turn.
void take(Loads& loads, const Routing& r, std::int64_t less) {
  const std::size_t each = loads.size() / at(r.ranks);
  for (std::int64_t i = 0; less > 0; i = (i + 1) % r.ranks) {
    const auto rank = std::span(loads).subspan(at(i) * each, each);
    const auto most = std::max_element(rank.begin(), rank.end());
    if (*most == 0) continue;
    --*most;
    --less;
  }
}
}  // namespace

std::vector<std::int64_t> tokens_of_experts(const Routing& r, std::uint64_t draw) {
  check(r);
  const auto each = static_cast<std::ptrdiff_t>(r.experts / r.ranks);
  if (r.alpha <= 0) {
    const Loads loads = balanced(r);
    return of_rank(loads, loads.begin(), r);
  }
  if (r.beyond == Beyond::own_rank) {
    const Loads loads = drawn(r, draw);
    return of_rank(loads, fullest(loads, each), r);
  }
  Loads loads = rounded(r, draw);
  std::int64_t beyond = 0;
  for (std::int64_t& tokens : loads) {
    beyond += std::max<std::int64_t>(0, tokens - r.tokens);
    tokens = std::min(tokens, r.tokens);
  }
  spread(loads, r, beyond);
  const std::int64_t left = r.tokens * r.top_k - std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
  if (left > 0) spread(loads, r, left);
  if (left < 0) take(loads, r, -left);
  const auto first = fullest(loads, each);
  return {first, first + each};
}

std::vector<double> tokens_by_chance(std::int64_t tokens, double share) {
  constexpr std::size_t kParts = 8;
  const double all = real(tokens);
  if (share >= 1) return std::vector<double>(kParts, all);
  const double mean = all * share, spread = std::sqrt(mean * (1 - share));
  constexpr double kTail = 7;  // spreads below the mean that nobody is
  double n = std::max(0.0, std::floor(mean - kTail * spread));
  // The binomial law, from one number of tokens to the next.
  double p = std::exp(std::lgamma(all + 1) - std::lgamma(n + 1) - std::lgamma(all - n + 1) + n * std::log(share) +
                      (all - n) * std::log1p(-share));
  std::vector<double> out;
  for (double below = 0; out.size() < kParts && n <= all; ++n) {
    below += p;
    while (out.size() < kParts && (static_cast<double>(out.size()) + 0.5) / kParts < below) out.push_back(n);
    p *= (all - n) / (n + 1) * share / (1 - share);
  }
  out.resize(kParts, all);
  return out;
}

}  // namespace orrery::calibration
