// Folding by colour refinement (1-dimensional Weisfeiler-Leman on the incidence structure of instances, communicators
// and links; Paige & Tarjan, Three partition refinement algorithms, 1987, for the theory of coarsest stable
// partitions). Colours are 64-bit hashes; in every round each vertex hashes its own colour with the multiset of its
// neighbours' (a sum of mixed words, so no sorting), until no kind of vertex gains a class. A collision would need
// two of some 10^5 hashes to agree: about one chance in 10^9. Left out: symmetries that exchange slots, and those
// that need more than one dimension.
#include "sim/fold.h"

#include <algorithm>
#include <bit>

#include "sim/error.h"
#include "sim/hash.h"

namespace orrery::sim {

namespace {

constexpr std::uint32_t kNone = 0xffffffff;
using Colours = std::vector<std::uint64_t>;

/// Numbers words densely in order of first appearance: an open-addressing table at most half full, which starts small,
/// since there are few classes however many ranks.
class Numbering {
 public:
  std::uint32_t number(std::uint64_t word) {
    const std::size_t at = place(word);
    if (numbers_[at] != kNone) return numbers_[at];
    numbers_[at] = size_;
    words_[at] = word;
    if (2 * std::size_t{++size_} > mask_) grow();
    return size_ - 1;
  }
  std::uint32_t size() const { return size_; }

 private:
  std::size_t place(std::uint64_t word) const {
    std::size_t at = mix64(word) & mask_;
    while (numbers_[at] != kNone && words_[at] != word) at = (at + 1) & mask_;
    return at;
  }
  void grow() {
    Numbering larger;
    larger.mask_ = 2 * mask_ + 1;
    larger.words_.resize(larger.mask_ + 1);
    larger.numbers_.assign(larger.mask_ + 1, kNone);
    for (std::size_t at = 0; at <= mask_; ++at) {
      if (numbers_[at] == kNone) continue;
      const std::size_t to = larger.place(words_[at]);
      larger.numbers_[to] = numbers_[at];
      larger.words_[to] = words_[at];
    }
    larger.size_ = size_;
    *this = std::move(larger);
  }

  static constexpr std::size_t kFirstSize = 256;
  std::size_t mask_ = kFirstSize - 1;
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(kFirstSize);
  std::vector<std::uint32_t> numbers_ = std::vector<std::uint32_t>(kFirstSize, kNone);
  std::uint32_t size_ = 0;
};

/// One kind of vertex, its colours replaced by class numbers.
struct Classes {
  std::vector<std::uint32_t> class_of;
  std::vector<std::uint32_t> representative;  // the lowest member
  std::uint32_t size() const { return static_cast<std::uint32_t>(representative.size()); }
};

std::uint32_t count(const Colours& colours) {
  Numbering numbering;
  for (const std::uint64_t c : colours) numbering.number(c);
  return numbering.size();
}

Classes classes_of(const Colours& colours) {
  Classes classes;
  Numbering numbering;
  classes.class_of.reserve(colours.size());
  for (std::uint32_t v = 0; v < colours.size(); ++v) {
    classes.class_of.push_back(numbering.number(colours[v]));
    if (classes.class_of.back() == classes.representative.size()) classes.representative.push_back(v);
  }
  return classes;
}

/// The links that some communicator's routes use, numbered densely; folding never looks at the others.
struct UsedLinks {
  std::vector<std::uint32_t> number;  // link -> dense number or kNone
  std::vector<std::uint32_t> link;
};

struct Incidence {
  std::uint32_t link = 0;            // dense
  std::uint64_t pattern_weight = 0;  // hash of pattern and weight
};

class Refinement {
 public:
  Refinement(const Plan& plan, const Network& network, const Copies& copies) : plan_(plan), network_(network) {
    list_incidences();
    list_copies(copies);
    first_colours();
  }
  void run();

  UsedLinks used;
  Colours instances, communicators, links;

 private:
  void list_incidences();
  void list_copies(const Copies& copies);
  void first_colours();
  void refine();

  const Plan& plan_;
  const Network& network_;
  std::vector<std::uint32_t> begin_{0};  // compressed rows: communicator -> incidences
  std::vector<Incidence> incidences_;
  std::vector<std::uint32_t> copies_;       // by instance; empty: one of each
  std::vector<std::uint32_t> link_copies_;  // likewise, by dense link
};

void Refinement::list_incidences() {
  used.number.assign(network_.capacity.size(), kNone);
  incidences_.reserve(network_.route_links.size());
  begin_.reserve(plan_.communicators.size() + 1);
  for (const Communicator& c : plan_.communicators) {
    for (std::uint32_t p = 0; p < c.patterns; ++p) {
      for (const WeightedLink& l : network_.links_of(RouteId{index(c.first_route) + p})) {
        std::uint32_t& number = used.number[index(l.link)];
        if (number == kNone) {
          number = static_cast<std::uint32_t>(used.link.size());
          used.link.push_back(index(l.link));
        }
        incidences_.push_back({number, hash_pair(p, std::bit_cast<std::uint64_t>(l.weight))});
      }
    }
    begin_.push_back(static_cast<std::uint32_t>(incidences_.size()));
  }
}

void Refinement::list_copies(const Copies& copies) {
  if (copies.instances.empty()) return;
  SIM_CHECK(copies.instances.size() == plan_.instances.size(), "{} copies of {} instances", copies.instances.size(),
            plan_.instances.size());
  copies_ = copies.instances;
  SIM_CHECK(copies.links.size() == network_.capacity.size(), "{} copies of {} links", copies.links.size(),
            network_.capacity.size());
  for (const std::uint32_t l : used.link) link_copies_.push_back(copies.links[l]);
}

void Refinement::first_colours() {
  instances.reserve(plan_.instances.size());
  for (const Instance& i : plan_.instances) {
    std::uint64_t colour = hash_pair(index(i.program), std::bit_cast<std::uint64_t>(i.slowdown));
    if (plan_.noise.sigma > 0) colour = hash_pair(colour, i.noise_key);
    if (plan_.loads.any()) colour = hash_pair(hash_pair(colour, i.load_group), i.load_place);
    instances.push_back(colour);
  }
  communicators.reserve(plan_.communicators.size());
  for (const Communicator& c : plan_.communicators) {
    std::uint64_t colour = hash_pair(c.patterns, c.members);
    for (std::uint32_t p = 0; p < c.patterns; ++p) {
      const Duration latency = network_.route_latency[index(c.first_route) + p];
      colour = hash_pair(colour, static_cast<std::uint64_t>(latency.value()));
    }
    if (plan_.message_noise.sigma > 0) colour = hash_pair(colour, c.noise_key);
    communicators.push_back(colour);
  }
  links.reserve(used.link.size());
  for (const std::uint32_t l : used.link)
    links.push_back(mix64(std::bit_cast<std::uint64_t>(network_.capacity.rows()[l])));
}

/// One round: every vertex sees the colours that its neighbours had before the round.
void Refinement::refine() {
  Colours next_communicators(communicators.size());
  Colours next_links(links.size());
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    std::uint64_t sum = 0;
    const std::uint64_t own = communicators[c];
    std::uint64_t pattern_weight = 0, onto_link = mix64(own);
    for (std::uint32_t at = begin_[c]; at < begin_[c + 1]; ++at) {
      const Incidence& incidence = incidences_[at];
      if (incidence.pattern_weight != pattern_weight) {  // mostly the same as for the link before
        pattern_weight = incidence.pattern_weight;
        onto_link = mix64(own ^ pattern_weight);
      }
      const std::uint64_t seen = mix64(links[incidence.link] ^ pattern_weight);
      sum += link_copies_.empty() ? seen : seen * link_copies_[incidence.link];
      next_links[incidence.link] += onto_link;
    }
    next_communicators[c] = sum;
  }
  Colours next_instances(instances.size());
  for (std::uint32_t i = 0; i < instances.size(); ++i) {
    std::uint64_t hash = instances[i];
    const auto slots = plan_.slots_of(InstanceId{i});
    for (std::uint32_t s = 0; s < slots.size(); ++s) {
      const std::uint32_t c = index(slots[s]);
      hash = mix64(hash ^ (communicators[c] + s));
      const std::uint64_t seen = mix64(instances[i] ^ ((s + 1) * 0xd6e8feb86659fd93u));
      next_communicators[c] += copies_.empty() ? seen : seen * copies_[i];
    }
    next_instances[i] = hash;
  }
  for (std::size_t c = 0; c < communicators.size(); ++c)
    communicators[c] = hash_pair(communicators[c], next_communicators[c]);
  for (std::size_t l = 0; l < links.size(); ++l) links[l] = hash_pair(links[l], next_links[l]);
  instances.swap(next_instances);
}

void Refinement::run() {
  std::uint32_t before[3] = {count(instances), count(communicators), count(links)};
  while (true) {
    refine();
    const std::uint32_t after[3] = {count(instances), count(communicators), count(links)};
    if (std::equal(before, before + 3, after)) return;
    std::copy(after, after + 3, before);
  }
}

/// Routes of the quotient: for each communicator class and pattern, what the class puts on one link of each link class.
void add_routes(const Plan& plan, const Network& network, const UsedLinks& used, const Classes& communicators,
                const Classes& links, Folded& folded) {
  std::vector<std::uint32_t> first_route(communicators.size());
  std::uint32_t routes = 0;
  for (std::uint32_t k = 0; k < communicators.size(); ++k) {
    first_route[k] = routes;
    routes += plan.communicators.rows()[communicators.representative[k]].patterns;
  }
  struct Load {
    std::uint32_t route, link_class;
    double weight;
  };
  std::vector<Load> loads;  // one per route and link class
  Numbering numbering;
  for (std::uint32_t c = 0; c < plan.communicators.size(); ++c) {
    const Communicator& communicator = plan.communicators.rows()[c];
    for (std::uint32_t p = 0; p < communicator.patterns; ++p) {
      for (const WeightedLink& l : network.links_of(RouteId{index(communicator.first_route) + p})) {
        const std::uint32_t link = used.number[index(l.link)];
        const std::uint32_t link_class = links.class_of[link];
        if (links.representative[link_class] != link) continue;
        const std::uint32_t route = first_route[communicators.class_of[c]] + p;
        const std::uint32_t n = numbering.number((std::uint64_t{route} << 32) | link_class);
        if (n == loads.size()) loads.push_back({route, link_class, 0});
        loads[n].weight += l.weight;
      }
    }
  }
  std::sort(loads.begin(), loads.end(), [](const Load& x, const Load& y) {
    return x.route != y.route ? x.route < y.route : x.link_class < y.link_class;
  });
  // Written without Network::add_route: a sum of weights must stay exact, not be rounded once more.
  Network& quotient = folded.network;
  std::size_t at = 0;
  for (std::uint32_t k = 0; k < communicators.size(); ++k) {
    const Communicator& communicator = plan.communicators.rows()[communicators.representative[k]];
    for (std::uint32_t p = 0; p < communicator.patterns; ++p) {
      for (; at < loads.size() && loads[at].route == first_route[k] + p; ++at)
        quotient.route_links.push_back({LinkId{loads[at].link_class}, loads[at].weight});
      quotient.route_begin.push_back(static_cast<std::uint32_t>(quotient.route_links.size()));
      quotient.route_latency.push_back(network.route_latency[index(communicator.first_route) + p]);
    }
  }
  folded.plan.communicators.reserve(communicators.size());
  for (std::uint32_t k = 0; k < communicators.size(); ++k) {
    const Communicator& one = plan.communicators.rows()[communicators.representative[k]];
    folded.plan.communicators.push_back({0, RouteId{first_route[k]}, one.patterns, one.noise_key});
  }
}

}  // namespace

Folded fold(const Plan& plan, const Network& network, const Copies& copies) {
  check(plan, network);
  Refinement refinement(plan, network, copies);
  refinement.run();
  const Classes instances = classes_of(refinement.instances);
  const Classes communicators = classes_of(refinement.communicators);
  const Classes links = classes_of(refinement.links);

  Folded folded;
  folded.plan.streams = plan.streams;
  folded.plan.programs = plan.programs;
  folded.plan.noise = plan.noise;
  folded.plan.message_noise = plan.message_noise;
  folded.plan.loads = plan.loads;
  for (const std::uint32_t l : links.representative) {
    folded.network.capacity.push_back(network.capacity.rows()[refinement.used.link[l]]);
    folded.link_representative.push_back(LinkId{refinement.used.link[l]});
  }
  add_routes(plan, network, refinement.used, communicators, links, folded);

  std::vector<CommunicatorId> slots;
  for (const std::uint32_t i : instances.representative) {
    slots.clear();
    for (const CommunicatorId c : plan.slots_of(InstanceId{i})) {
      slots.push_back(CommunicatorId{communicators.class_of[index(c)]});
      ++folded.plan.communicators[slots.back()].members;
    }
    folded.plan.add_instance(plan.instances[InstanceId{i}], slots);
    folded.representative.push_back(InstanceId{i});
  }
  folded.class_size.assign(instances.size(), 0);
  folded.class_of.reserve(plan.instances.size());
  for (std::uint32_t i = 0; i < instances.class_of.size(); ++i) {
    const std::uint32_t k = instances.class_of[i];
    folded.class_of.push_back(InstanceId{k});
    folded.class_size[k] += copies.instances.empty() ? 1 : copies.instances[i];
  }
  return folded;
}

}  // namespace orrery::sim
