// An encoder of images ahead of a decoder (ViT, arXiv 2010.11929, as Qwen3-VL has it, arXiv 2511.21631): patches are
// embedded, go through blocks whose attention sees all of their image, and so many side by side become one token of the
// decoder's sequence.
#pragma once

#include <cstdint>

namespace orrery::workloads {

struct Encoder {
  std::int64_t layers = 0;  // 0: there is none
  std::int64_t hidden = 1, heads = 1, ffn_hidden = 1;
  bool gated = false;          // an MLP with a gate and RMS norms, no biases but of queries, keys and values
  std::int64_t patch = 1;      // numbers of a patch: channels, frames and pixels
  std::int64_t positions = 0;  // rows of a learned table
  std::int64_t patches = 0;    // of all images of a sequence
  std::int64_t image = 1;      // of one image
  std::int64_t merge = 1;      // to a token
  std::int64_t mergers = 1;    // that make tokens: of the last block, and of blocks in between (DeepStack)

  bool any() const { return layers > 0; }
  bool operator==(const Encoder&) const = default;
};

}  // namespace orrery::workloads
