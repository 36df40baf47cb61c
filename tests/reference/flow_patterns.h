// Tables of flows for `orrery flows`, at any size: five patterns of traffic on a two-level fat tree without
// oversubscription (as many spines as hosts of a leaf), routed by destination modulo spines (Zahavi's D-mod-k). The
// names of links and columns are those that flow-level simulators write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::reference {

/// ring: i to i + 1, 100 MB each at once. perm: a derangement, 100 MB each at once. one: a derangement, 50 to 150 MB,
/// starts within 2 ms. grp: disjoint rings of 8, five rounds 8 ms apart, each ring's 50 to 100 MB at once. wave: five
/// overlapping derangements 2 ms apart, 50 to 150 MB.
inline constexpr std::string_view kFlowPatterns[] = {"ring", "perm", "one", "grp", "wave"};

/// Hosts of a leaf: the divisor of `hosts` nearest to its root from below.
std::uint32_t leaf_size(std::uint32_t hosts);

/// The table as CSV: id,src,dst,bytes,start_s,links. The same arguments give the same bytes. `hosts` is at least 2 and
/// a multiple of `hosts_per_leaf`, of 8 for grp. Throws std::invalid_argument otherwise and for unknown patterns.
std::string flow_table(std::string_view pattern, std::uint32_t hosts, std::uint32_t hosts_per_leaf, std::uint64_t seed);

}  // namespace orrery::reference
