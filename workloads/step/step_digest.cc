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
    static_assert(std::has_unique_object_representations_v<T> || std::is_same_v<T, double>);
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

void add(const sim::Program& program, Chains& chains) {
  chains.add_column(program.kind);
  chains.add_column(program.stream);
  chains.add_column(program.category);
  chains.add_column(program.host_waits);
  chains.add_column(program.issue);
  chains.add_column(program.duration);
  chains.add_column(program.issue_bound);
  chains.add_column(program.slot);
  chains.add_column(program.pattern);
  chains.add_column(program.work);
  chains.add_column(program.rate_cap);
  chains.add_column(program.waits_begin);
  chains.add_column(program.waits);
}

void add(const sim::Plan& plan, Chains& chains) {
  chains.add(std::uint64_t{plan.streams});
  for (const sim::Instance& instance : plan.instances) {
    chains.add(std::uint64_t{sim::index(instance.program)});
    chains.add(instance.slowdown);
    chains.add(instance.noise_key);
  }
  chains.add_column(plan.slots_begin);
  chains.add_column(plan.slots);
  for (const sim::Communicator& communicator : plan.communicators) {
    chains.add(std::uint64_t{communicator.members});
    chains.add(std::uint64_t{sim::index(communicator.first_route)});
    chains.add(std::uint64_t{communicator.patterns});
    chains.add(communicator.noise_key);
  }
  for (const sim::Noise& noise : {plan.noise, plan.message_noise}) {
    chains.add(noise.sigma);
    chains.add(noise.seed);
  }
}

void add(const sim::Network& network, Chains& chains) {
  chains.add_column(network.capacity.rows());
  chains.add_column(network.route_begin);
  for (const sim::WeightedLink& l : network.route_links) {
    chains.add(std::uint64_t{sim::index(l.link)});
    chains.add(l.weight);
  }
  for (const sim::Duration latency : network.route_latency) chains.add(latency.value());
}

}  // namespace

StepDigest digest_of(const StepPlan& step, const Jump* jump, bool longest_at_work) {
  Chains chains;
  chains.add(std::uint64_t{longest_at_work});
  const Jump none;
  const Jump& j = jump != nullptr ? *jump : none;
  for (const std::int64_t number : {j.microbatches, j.period, j.periods, j.first, j.window}) chains.add(number);
  add(step.groups->folded.plan, chains);
  add(step.groups->folded.network, chains);
  for (const sim::Program& program : step.stages.programs) add(program, chains);
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
