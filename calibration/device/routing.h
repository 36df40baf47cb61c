// How many tokens each expert of a rank is given, under distributions of routing that measurements are made with.
//
// `balanced`: the collector's assignment of token t's choice i to expert (t + i * ceil(experts / top_k)) modulo
// experts, with fewer tokens spread over the same cycle. `power_law`: loads of the experts are drawn independently from
// a density ~ x^-alpha between 1 and 0.8 tokens (0.01 and 2 where there are fewer choices than experts), scaled to
// tokens * top_k and rounded; the rank with the largest sum is looked at. A token cannot choose an expert twice: what
// an expert was dealt beyond one of each token goes to others (Beyond).
// Source: NVIDIA ai-dynamo/aiconfigurator, collector/helper.py (balanced_logits, power_law_logits_v3); 1.01 is what it
// says of DeepSeek-R1's routing and 1.2 of Qwen3-235B's. Draws are hashes of their place, the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery::calibration {

/// Which of its experts a token may go to. With groups it may go only to experts of `top_groups` of the `groups` that
/// they are dealt into in order (DeepSeek-V2, arXiv 2405.04434, section 2.1.3, "device-limited routing"; DeepSeek-V3,
/// arXiv 2412.19437, section 2.1.2).
struct TokenChoice {
  std::int64_t top_k = 1, experts = 1;
  std::int64_t groups = 1, top_groups = 1;
  bool operator==(const TokenChoice&) const = default;
};

/// Probability that one of `parts` equal sets of experts, dealt out in order, has one of those that a token goes to,
/// every expert and every set of groups being as likely. Sets that cut across groups are taken as if there were none.
double reaches(const TokenChoice& choice, double parts);

/// Where what the power law deals an expert beyond one of each token goes.
enum class Beyond : std::uint8_t {
  all_ranks,  // to each rank's expert of the fewest tokens, the ranks in turn, ahead of the look for the fullest
  own_rank,   // to the first experts with room of the rank that is the fullest before, as the collector once did
};

struct Routing {
  std::int64_t tokens = 1;  // of all ranks that share the experts
  std::int64_t top_k = 1, experts = 1;
  std::int64_t ranks = 1;  // that the experts are dealt out to; divides them
  double alpha = 0;        // exponent of the power law; 0: balanced
  Beyond beyond = Beyond::all_ranks;
};

/// Tokens of each expert of the rank that is looked at: the most loaded one under a power law, the first else. `draw`
/// tells random draws apart. Errors: SIM_CHECK that ranks divide experts and top_k is at most experts.
std::vector<std::int64_t> tokens_of_experts(const Routing& routing, std::uint64_t draw);

/// Tokens that an expert has where each of `tokens` comes to it by chance, with the probability `share`: the middles of
/// equal parts of all experts, rising.
std::vector<double> tokens_by_chance(std::int64_t tokens, double share);

/// What each rank is given over the mean of all, by one draw: 1 in the mean. An expert that was dealt more than one of
/// each token passes the rest on to the next ones that have room. Errors as above.
std::vector<double> loads_of_ranks(const Routing& routing, std::uint64_t draw);

/// What the most loaded rank is given over the mean, in the mean over many draws: 1 where routing is balanced.
double busiest_rank(const Routing& routing);

}  // namespace orrery::calibration
