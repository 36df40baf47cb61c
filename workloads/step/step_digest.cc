// Two chains fed the same words, each a bijection of what it was for every word (a product with an odd number, turned;
// the constants are MurmurHash3's, Appleby, 2011): what both would forget, the lengths of columns, is fed too. See
// step_digest.h.
#include "workloads/step/step_digest.h"

#include <bit>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "sim/hash.h"

namespace orrery::workloads {

namespace {

class Chains {
 public:
  void add(std::uint64_t word) {
    digest_.one = std::rotl((digest_.one ^ word) * 0xff51afd7ed558ccdu, 29);
    digest_.other = std::rotl((digest_.other + word) * 0xc4ceb9fe1a85ec53u, 31);
  }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  void add(std::int64_t value) { add(static_cast<std::uint64_t>(value)); }

  /// A column of numbers, eight bytes at a time.
  template <class T>
  void add_column(const std::vector<T>& column) {
    static_assert(std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>);
    const std::size_t bytes = column.size() * sizeof(T);
    add(std::uint64_t{bytes});
    const auto* data = reinterpret_cast<const unsigned char*>(column.data());
    std::size_t at = 0;
    for (; at + sizeof(std::uint64_t) <= bytes; at += sizeof(std::uint64_t)) add_word(data + at, sizeof(std::uint64_t));
    if (at < bytes) add_word(data + at, bytes - at);
  }

  StepDigest digest() const { return {sim::mix64(digest_.one), sim::mix64(digest_.other)}; }

 private:
  void add_word(const unsigned char* data, std::size_t bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, bytes);
    add(word);
  }

  StepDigest digest_{0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu};
};

// Every member is bound by name: one that a structure gains later does not compile until it stands here too.

void digest(const sim::Stretch& stretch, Chains& chains) {
  chains.add(std::uint64_t{stretch.items.size()});
  for (const auto& [transfer, transfers, pattern, issue, duration, issue_bound, work, rate_cap] : stretch.items) {
    for (const std::uint64_t number : {std::uint64_t{transfer}, std::uint64_t{transfers}, std::uint64_t{pattern}})
      chains.add(number);
    for (const std::int64_t time : {issue, duration, issue_bound}) chains.add(time);
    chains.add(work);
    chains.add(rate_cap);
  }
}

void digest(const sim::Program& program, Chains& chains) {
  const auto& [kind, stream, category, host_waits, issue, duration, issue_bound, slot, pattern, work, rate_cap, loaded,
               waits_begin, waits, stretches] = program;
  const auto columns = [&](const auto&... column) { (chains.add_column(column), ...); };
  columns(kind, stream, category, host_waits, issue, duration, issue_bound, slot, pattern, work, rate_cap, loaded,
          waits_begin, waits);
  for (const sim::Stretch& stretch : stretches) digest(stretch, chains);
}

void digest(const sim::Instance& instance, Chains& chains) {
  const auto& [program, slowdown, noise_key, load_group, load_place] = instance;
  chains.add(std::uint64_t{sim::index(program)});
  chains.add(slowdown);
  for (const std::uint64_t number : {noise_key, load_group, std::uint64_t{load_place}}) chains.add(number);
}

void digest(const sim::Communicator& communicator, Chains& chains) {
  const auto& [members, first_route, patterns, noise_key] = communicator;
  for (const std::uint64_t number :
       {std::uint64_t{members}, std::uint64_t{sim::index(first_route)}, std::uint64_t{patterns}, noise_key})
    chains.add(number);
}

void digest(const sim::Noise& noise, Chains& chains) {
  const auto& [sigma, seed] = noise;
  chains.add(sigma);
  chains.add(seed);
}

/// `programs` apart: those of a step that is cut short are not the plan's.
void digest(const sim::Plan& plan, Chains& chains) {
  const auto& [streams, programs, instances, slots_begin, slots, communicators, noise, message_noise, loads] = plan;
  chains.add(std::uint64_t{streams});
  for (const sim::Instance& instance : instances) digest(instance, chains);
  chains.add_column(slots_begin);
  chains.add_column(slots);
  for (const sim::Communicator& communicator : communicators) digest(communicator, chains);
  digest(noise, chains);
  digest(message_noise, chains);
  const auto& [places, factors, seed] = loads;
  chains.add(std::uint64_t{places});
  chains.add_column(factors);
  chains.add(seed);
}

void digest(const sim::Network& network, Chains& chains) {
  const auto& [capacity, route_begin, route_links, route_latency] = network;
  chains.add_column(capacity.rows());
  chains.add_column(route_begin);
  for (const auto& [link, weight] : route_links) {
    chains.add(std::uint64_t{sim::index(link)});
    chains.add(weight);
  }
  for (const sim::Duration latency : route_latency) chains.add(latency.value());
}

}  // namespace

StepDigest digest_of(const StepPlan& step, const Jump* jump, bool longest_at_work) {
  Chains chains;
  chains.add(std::uint64_t{longest_at_work});
  chains.add(std::uint64_t{step.groups->alone});
  const Jump none;
  const Jump& j = jump != nullptr ? *jump : none;
  for (const std::int64_t number : {j.microbatches, j.period, j.periods, j.first, j.window}) chains.add(number);
  digest(step.groups->folded.plan, chains);
  digest(step.groups->folded.network, chains);
  for (const sim::Program& program : step.stages.programs) digest(program, chains);
  if (jump == nullptr) return chains.digest();
  for (const std::vector<OpNote>& notes : step.stages.notes) {
    chains.add(std::uint64_t{notes.size()});
    for (const OpNote& note : notes) {
      chains.add(static_cast<std::int64_t>(note.microbatch));
      chains.add(static_cast<std::int64_t>(note.chunk));
    }
  }
  return chains.digest();
}

}  // namespace orrery::workloads
