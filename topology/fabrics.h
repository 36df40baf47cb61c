// The catalogue of fabrics. A new kind is a file with its row, a declaration and a line of the list here, and its test:
// whoever wants to know something about a kind asks its row.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "topology/wiring.h"

namespace orrery::topology {

struct FabricKind {
  std::string_view name;  // as documents spell it
  /// Writes the switches and links. Throws UserError through `where` when `nodes` do not fit.
  FabricWiring (*make)(const FabricSpec& spec, std::int64_t nodes, const Settings& where);
  /// Keys that several kinds have, of those in fabric_spec.cc, by name; what all networks have goes without saying.
  std::span<const std::string_view> shares{};
  /// The rows of the keys that it alone has; null: none.
  std::vector<sim::Key> (*keys)() = nullptr;
  /// Reads both, after what all networks have; null: nothing. `device` is the profile's name, for read_rate. Throws
  /// UserError.
  void (*read)(const Settings& fabric, std::string_view device, FabricSpec& spec) = nullptr;
  bool networked = true;  // there is a network
  bool routed = true;     // its routing can be chosen
  /// No tree: routes follow shortest paths, of which hashing without a seed has no expectation.
  bool shortest_paths = false;
};

namespace fabrics {
extern const FabricKind single_switch, fat_tree, rail_only;
extern const FabricKind dragonfly, torus, graph, slim_fly;
}  // namespace fabrics

/// All kinds, in the order in which lists show them.
inline constexpr std::array kFabricKinds{
    &fabrics::none,      &fabrics::single_switch, &fabrics::fat_tree, &fabrics::rail_only,
    &fabrics::dragonfly, &fabrics::torus,         &fabrics::graph,    &fabrics::slim_fly,
};

/// From Ethernet of 1 Gb/s to a hundred times the fastest ports that have been announced (1.6 Tb/s).
inline constexpr sim::Bounds kLinkRate{"1 Gb/s", "100 Tb/s"};
/// A rate, or the one that a mapping gives for the device's family.
Bandwidth read_rate(const Settings& value, std::string_view device);
/// The rate of `key`; that of the NICs where it is left out.
Bandwidth read_link_rate(const Settings& fabric, std::string_view key, std::string_view device, const FabricSpec& spec);

}  // namespace orrery::topology
