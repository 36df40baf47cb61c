// Mixers with a state: a file each, and a row of a catalogue. A file says its mixer's widths, products, kernels, what
// it keeps, weighs and hands on, in lists; state_half.cc writes a block's half from these, served_mixers.cc what
// engines run, traffic/ what ranks exchange. What the scan itself costs stands in calibration/device/scans/ where
// tables time it, else in the mixer's file.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "calibration/device/kernel.h"
#include "calibration/device/scan.h"
#include "workloads/model/state_mixer.h"

namespace orrery::workloads {

/// Two products in place of one, of which every tensor rank makes the inside whole, and its heads of the outside.
struct ThinProduct {
  const char* name;  // of the second
  std::int64_t inside, out;
};

/// A kernel bound by memory in both directions: so many elements of a token, which move as activations, so many each,
/// and as numbers in fp32, so many bytes each.
struct MixerLine {
  const char *forward, *backward;  // names
  calibration::Streaming forward_kernel, backward_kernel;
  std::int64_t width;
  double forward_moves, backward_moves;
  double forward_single = 0, backward_single = 0;
};

/// Elements of a token that stay for the backward pass.
struct MixerKept {
  const char* name;
  std::int64_t width;
  double bytes = 0;    // of an element; 0: an activation's
  bool whole = false;  // on every tensor rank
};

struct MixerWeight {
  const char* name;
  std::int64_t elements;
  bool whole = false;  // on every tensor rank
};

/// What a mixer is made of; widths are those of all its heads.
struct MixerParts {
  /// One product makes queries, keys, values, rates of heads, and the gate of the output unless thin products do; or,
  /// where each reads a mixture of its own of a token and the one ahead of it, as many products of a like size.
  std::int64_t rates = 0;
  bool makes_gate = true;
  std::int64_t mixtures = 1;
  std::vector<ThinProduct> thin;
  std::vector<MixerLine> mixes;     // ahead of the products, of hidden states
  std::vector<MixerLine> prepares;  // ahead of the scan
  std::vector<MixerLine> gates;     // behind it, ahead of the norm and the gate
  std::vector<MixerKept> kept;
  std::vector<MixerWeight> weights;  // beside the products and the convolution, whose channels have biases or not
  bool convolution_biases = false;
  /// Numbers in fp32 of a head that context ranks hand on, each scanning its own positions: the state that its
  /// positions leave, and of a delta rule also what becomes of one that comes in. 0: they exchange positions for heads.
  std::int64_t handed_on = 0;
  bool normed_behind_exchange = false;  // scan's output and gate are exchanged ahead of the norm
};

/// A width that a kind has beside heads, their width, and where it has one its convolution, as the scenario language
/// has it.
struct MixerWidth {
  const char *key, *unit, *fallback_text, *meaning, *least, *most;
  std::int64_t& (*of)(StateMixer& mixer);
  std::int64_t (*fallback)(const StateMixer& mixer);  // null: it has to be given
};

struct MixerKind {
  std::string_view name;  // in model.mixers
  const calibration::ScanKind* scan;
  std::span<const MixerWidth> widths;
  std::int64_t taps;      // of its convolution by default; -1: it has none
  bool may_leave_norm;    // has `gated_norm`
  bool as_many_keys;      // as many heads of keys as of values
  const char* key_heads;  // what they are called
  bool rates_apart;       // engines make rates by a product of their own in 16 bits
  MixerParts (*parts)(const StateMixer& mixer);
  /// Parameters in all but the norm ahead of it, as a closed form that is written independently of `parts`: of one of
  /// `ranks` of a tensor group, `hidden` the width of a token.
  double (*parameters)(const StateMixer& mixer, double hidden, double ranks);
};

/// All kinds, in the order in which they are listed.
std::span<const MixerKind* const> mixer_kinds();
/// Null: there is none of that name.
const MixerKind* find_mixer(std::string_view name);

// ---- shared by their files and by what reads them ----
/// What the products of the input make of a token, split by heads, without thin ones.
std::int64_t made_by(const StateMixer& mixer, const MixerParts& parts);
/// Elements inside the thin products, together.
std::int64_t thin_inside(const MixerParts& parts);
/// Whether context ranks hand states on.
inline bool passes_states(const MixerParts& parts) { return parts.handed_on > 0; }
/// Where there is no convolution, the activation of queries, keys and values is a kernel of its own.
void add_activation(const StateMixer& mixer, MixerParts& parts);

inline constexpr double kMixerSingle = 4;  // bytes of fp32

}  // namespace orrery::workloads
