// Bytes that activations take on one rank, for one micro-batch: what a layer, the embedding and the LM head keep for
// their backward pass, and what that backward pass needs beside it while it works.
#pragma once

#include "workloads/models/gpt.h"

namespace orrery::workloads {

/// One transformer layer. All in bytes, on one rank, for one micro-batch.
struct LayerBytes {
  double input = 0;                // the layer's input: all that full recompute keeps
  double attention = 0;            // kept by the attention half, scores excluded; holds the input
  double scores = 0;               // softmax, its dropout mask and output, where attention is not fused
  double mlp = 0;                  // kept by the feed-forward half
  double attention_gradients = 0;  // alive at once in the backward pass of the attention half
  double mlp_gradients = 0;        // likewise in the feed-forward half
  double between = 0;              // inputs and output gradients of the linear layers: what weight gradients need
  /// What stays between the forward and the backward pass.
  double kept(Recompute recompute) const;
  /// What the layer's backward pass needs beside what was kept, at its fullest: gradients, and what it recomputes.
  double working(Recompute recompute) const;
};
LayerBytes layer_bytes(const Job& job);

/// Embedding or LM head with loss.
struct EndBytes {
  double kept = 0, working = 0, between = 0;
};
EndBytes embedding_bytes(const Job& job);
EndBytes head_bytes(const Job& job);

/// What one pass over a chunk keeps, what its backward pass needs beside that at its fullest, and what is left between
/// the halves of a backward pass that is cut in two.
struct PassBytes {
  double kept = 0, working = 0, between = 0;
};
/// `last`: no stage follows the chunk, so its output is not kept for the message.
PassBytes pass_bytes(const Job& job, const ChunkShape& shape, bool last);

/// Bytes that one layer keeps for its backward pass, for one micro-batch on one rank.
double layer_activation_bytes(const Job& job);

/// Bytes of the hidden states of one micro-batch on one rank: whole, and as lies outside tensor-parallel regions (cut
/// over the tensor group by sequence parallelism).
double hidden_bytes(const Job& job);
double residual_bytes(const Job& job);

}  // namespace orrery::workloads
