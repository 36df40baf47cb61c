// Slim Fly (Besta, Hoefler, SC 2014): about as many switches as a network of diameter two can have for their ports,
// wired as the graphs of McKay, Miller and Siran (J. Combin. Theory B 74, 1998) in the form of Hafner (Algebras and
// Combinatorics, 2004). For a prime q = 4 w + d, d = 1 or -1, there are 2 q^2 switches (s, x, y), s of {0, 1}, x and y
// of the numbers modulo q, with (3 q - d) / 2 neighbours each:
//   (0, x, y) and (0, x, z)  where y - z is in X
//   (1, m, c) and (1, m, e)  where c - e is in X'
//   (0, x, y) and (1, m, c)  where y = m x + c
// For a generator g of the numbers modulo q, X is g^0, g^2, ..., g^(q-3) and X' g^1, g^3, ..., g^(q-2) where d = 1;
// where d = -1, X is g^0, g^2, ..., g^(2w-2) and g^(2w-1), g^(2w+1), ..., g^(4w-3), and X' is X times g. Nodes sit on
// the switches in the order of their numbers.
//
// Left out: powers of primes; Valiant's detours, so that traffic between two switches keeps to its shortest paths,
// which here is one for most pairs.
#include <array>
#include <set>

#include "topology/fabrics.h"

namespace orrery::topology {

namespace {

struct SlimFly {
  std::int64_t q = 5;
  std::int64_t nodes_per_switch = 1;
  std::int64_t links = 1;  // between each two neighbours
  bool operator==(const SlimFly&) const = default;
};

constexpr std::array<std::string_view, 3> kSlimFlyShares{"uplink_rate", "nodes_per_switch", "local_links"};

std::vector<sim::Key> keys() {
  return {{"q", "integer", "", "", {}, "A prime: a Slim Fly has 2 q^2 switches.", {"3", "101"}}};
}

bool is_prime(std::int64_t n) {
  for (std::int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n > 1;
}

void read(const Settings& fabric, std::string_view device, FabricSpec& spec) {
  SlimFly shape;
  shape.q = fabric.at("q").as_int();
  if (shape.q == 2 || !is_prime(shape.q))
    fabric.at("q").fail(fmt::format("got {}, expected an odd prime, such as 5, 7, 11 or 13", shape.q));
  shape.nodes_per_switch = fabric.get_int("nodes_per_switch", 1);
  shape.links = fabric.get_int("local_links", 1);
  spec.switches.uplink_rate = read_link_rate(fabric, "uplink_rate", device, spec);
  spec.shape = FabricShape(shape);
}

/// g^0, g^1, ..., g^(q-2) of the least g whose powers are all numbers but 0.
std::vector<std::int64_t> powers_of_generator(std::int64_t q) {
  for (std::int64_t g = 2;; ++g) {
    std::vector<std::int64_t> powers{1};
    for (std::int64_t p = g % q; p != 1; p = p * g % q) powers.push_back(p);
    if (static_cast<std::int64_t>(powers.size()) == q - 1) return powers;
  }
}

/// X, or `turned` X'.
std::set<std::int64_t> differences(std::int64_t q, bool turned) {
  const std::vector<std::int64_t> powers = powers_of_generator(q);
  const auto power = [&](std::int64_t i) {
    return powers[static_cast<std::size_t>(i + (turned ? 1 : 0)) % powers.size()];
  };
  std::set<std::int64_t> out;
  if (q % 4 == 1) {
    for (std::int64_t i = 0; i <= q - 3; i += 2) out.insert(power(i));
    return out;
  }
  const std::int64_t w = (q + 1) / 4;
  for (std::int64_t i = 0; i <= 2 * w - 2; i += 2) out.insert(power(i));
  for (std::int64_t i = 2 * w - 1; i <= 4 * w - 3; i += 2) out.insert(power(i));
  return out;
}

void check(const FabricSpec& spec, const SlimFly& shape, std::int64_t nodes, const Settings& where) {
  const std::int64_t q = shape.q, switches = 2 * q * q, neighbours = (3 * q - (q % 4 == 1 ? 1 : -1)) / 2;
  if (nodes > switches * shape.nodes_per_switch) {
    where.fail(fmt::format("got {} nodes, expected at most {}: fabric {} has {} switches of {} nodes", nodes,
                           switches * shape.nodes_per_switch, spec.name, switches, shape.nodes_per_switch));
  }
  const std::int64_t ports = shape.nodes_per_switch * spec.nics + neighbours * shape.links;
  if (ports > spec.switches.radix) {
    where.fail(fmt::format("got switches of {} ports, expected {} for fabric {}: {} NICs and {} links",
                           spec.switches.radix, ports, spec.name, shape.nodes_per_switch * spec.nics,
                           neighbours * shape.links));
  }
}

FabricWiring make(const FabricSpec& spec, std::int64_t nodes, const Settings& where) {
  const SlimFly& shape = spec.shape.as<SlimFly>();
  check(spec, shape, nodes, where);
  const std::int64_t q = shape.q;
  FabricWiring wiring;
  wiring.tree = false;
  for (std::int64_t s = 0; s < 2 * q * q; ++s) {
    wiring.groups.push_back(
        {.kind = VertexKind::leaf, .name = fmt::format("switch {} {} {}", s / (q * q), s / q % q, s % q)});
  }
  const auto join = [&](std::int64_t a, std::int64_t b) {
    wiring.bundles.push_back({static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b),
                              static_cast<std::int32_t>(shape.links), spec.switches.uplink_rate, Tier::spine});
  };
  for (const bool turned : {false, true}) {
    const std::set<std::int64_t> apart = differences(q, turned);
    for (std::int64_t x = 0; x < q; ++x) {
      const std::int64_t first = (turned ? q * q : 0) + x * q;
      for (std::int64_t y = 0; y < q; ++y) {
        for (std::int64_t z = y + 1; z < q; ++z) {
          if (apart.contains(z - y)) join(first + y, first + z);
        }
      }
    }
  }
  for (std::int64_t x = 0; x < q; ++x) {
    for (std::int64_t m = 0; m < q; ++m) {
      for (std::int64_t c = 0; c < q; ++c) join(x * q + (m * x + c) % q, q * q + m * q + c);
    }
  }
  for (std::int64_t node = 0; node < nodes; ++node) {
    wiring.leaf_of_nic.insert(wiring.leaf_of_nic.end(), static_cast<std::size_t>(spec.nics),
                              static_cast<std::uint32_t>(node / shape.nodes_per_switch));
  }
  return wiring;
}

}  // namespace

constinit const FabricKind fabrics::slim_fly{
    .name = "slim_fly",
    .make = make,
    .shares = kSlimFlyShares,
    .keys = keys,
    .read = read,
    .shortest_paths = true,
};

}  // namespace orrery::topology
