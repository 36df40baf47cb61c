// What a mixer with a state says, in place of attention: its kind, which has a file of mixers/, and its widths.
#pragma once

#include <array>
#include <cstdint>

namespace orrery::workloads {

struct MixerKind;

struct StateMixer {
  const MixerKind* kind = nullptr;
  std::int64_t heads = 0;      // of values, each with a state; 0: there is none
  std::int64_t key_heads = 1;  // of queries and keys; Mamba-2's groups
  std::int64_t key_dim = 1;    // Mamba-2's state
  std::int64_t value_dim = 1;
  std::int64_t conv = 4;  // taps of the convolution; 0: none
  std::int64_t chunk = 64;
  bool normed = true;                 // what it makes is normalised by head, times a gate
  std::array<std::int64_t, 4> own{};  // widths that its kind alone has, in the order of its file

  bool any() const { return heads > 0; }
  std::int64_t values() const { return heads * value_dim; }
  std::int64_t keys() const { return key_heads * key_dim; }
  /// Channels that the convolution goes over: queries, keys and values (Mamba-2's C, B and x).
  std::int64_t channels() const { return conv > 0 ? values() + 2 * keys() : 0; }
  bool operator==(const StateMixer&) const = default;
};

}  // namespace orrery::workloads
