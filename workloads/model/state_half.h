// A mixer with a state as the half of a block, on one rank: products around a scan (scan_op.h), cut by heads over the
// tensor group as Megatron-Core cuts them (megatron/core/ssm/mamba_mixer.py, gated_delta_net.py).
#pragma once

#include "workloads/model/halves.h"
#include "workloads/model/mixers/mixers.h"

namespace orrery::workloads {

class StateHalf {
 public:
  StateHalf(LayerWriter& writer, const StateMixer& mixer);

  /// All of it, from norm to residual sum.
  void write();
  /// Between norm and residual sum.
  void mix();
  /// `reads`: whose norm, and with it whose input and dropout, it has.
  void keep(Layer& layer, Reads reads) const;
  void weigh(Layer& layer, Reads reads) const;
  std::vector<MatMul> products() const;

 private:
  double of(std::int64_t whole_width) const { return z_.shared(whole_width); }
  void write_lines(const std::vector<MixerLine>& lines, double tokens);
  void open_gates();
  /// Elements of a token that context ranks hand back behind the scan: what its norm reads, the scan's output and the
  /// gate, or what is normalised already.
  std::int64_t handed_back() const { return (parts_.normed_behind_exchange ? 2 : 1) * mixer_.values(); }
  std::int64_t made() const { return made_by(mixer_, parts_); }
  /// So many elements of a token, positions for heads over the context group, or heads for positions.
  void exchange_heads(const char* what, const char* what_backward, std::int64_t whole_width, bool ahead);
  /// Of all context ranks to each: states behind their positions.
  void hand_states_on();
  void gate_output();

  LayerWriter& w_;
  const StateMixer& mixer_;
  MixerParts parts_;
  const Sizes& z_;
  double e_;  // bytes of an activation
};

}  // namespace orrery::workloads
