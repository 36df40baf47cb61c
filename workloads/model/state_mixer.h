// What a mixer with a state says, in place of attention: Mamba-2 (arXiv 2405.21060), Gated DeltaNet (arXiv 2412.06464),
// Kimi Delta Attention (arXiv 2510.26692), lightning attention (arXiv 2501.08313).
#pragma once

#include <cstdint>

#include "calibration/device/scan.h"

namespace orrery::workloads {

using calibration::ScanKind;

struct StateMixer {
  ScanKind kind = ScanKind::mamba2;
  std::int64_t heads = 0;      // of values, each with a state; 0: there is none
  std::int64_t key_heads = 1;  // of queries and keys; Mamba-2's groups
  std::int64_t key_dim = 1;    // Mamba-2's state
  std::int64_t value_dim = 1;
  std::int64_t conv = 4;  // taps of the convolution; 0: none
  std::int64_t chunk = 64;
  bool normed = true;  // what it makes is normalised by head, times a gate

  bool any() const { return heads > 0; }
  std::int64_t values() const { return heads * value_dim; }
  std::int64_t keys() const { return key_heads * key_dim; }
  /// Channels that the convolution goes over: queries, keys and values (Mamba-2's C, B and x).
  std::int64_t channels() const { return conv > 0 ? values() + 2 * keys() : 0; }
  /// Whether decays and output gates come through two thin products, of a head's width inside (Kimi Linear).
  bool thin_gates() const { return kind == ScanKind::kda; }
  /// Numbers of a head that a token makes beside keys, values and gate: Mamba-2's step, a delta rule's rate and decay.
  std::int64_t rates() const {
    return kind == ScanKind::lightning ? 0 : kind == ScanKind::gated_delta ? 2 * heads : heads;
  }
  /// Whether context ranks hand states on, each scanning its own positions, in place of positions for heads.
  bool passes_states() const { return kind == ScanKind::kda || kind == ScanKind::lightning; }
  /// Numbers of a head that they hand on: the state that its positions leave, and of a delta rule also what becomes of
  /// one that comes in.
  std::int64_t handed_on() const { return key_dim * (value_dim + (kind == ScanKind::kda ? key_dim : 0)); }
  /// What one product makes of a token, split by heads: queries, keys, values, the gate unless that is thin, rates.
  std::int64_t made() const { return values() + 2 * keys() + (thin_gates() ? 0 : values()) + rates(); }
  bool operator==(const StateMixer&) const = default;
};

}  // namespace orrery::workloads
