// What leaving out tokens takes that top-p or top-k rule out, by how an engine does it. Times are those of vLLM's pull
// requests 40376 and 33538, which run all three ways on the same logits (64 to 512 rows of 32768 and 131072, on a
// device that they do not name; taken to be an H100, whose bandwidth the sort then has 62 % of):
//   sorted     PyTorch sorts all logits of every row, sums their softmax up, and scatters them back: 208 bytes a logit
//              by its passes (4 of 8 bits over keys and places, one over rows), behind 0.16 ms of some 25 launches;
//   by_row     a Triton program for each row looks for the threshold, in 0.165 ms and 2.3 ns a logit where top-p stands
//              alone, 0.066 ms and 1.8 ns behind top-k; rows beyond one for each multiprocessor wait for them.
//              Fewer than 8 rows are sorted;
//   rejection  FlashInfer draws and looks whether the draw stands: 29 us, 0.3 ns for each logit of a row, and 14 bytes
//              for each of all; twice as long where top-k and top-p are both asked for.
// Left out: that PyTorch changes its sort at 128 rows (it is 20 % slower there), and what of the logits decides.
#pragma once

#include <cstdint>

#include "calibration/device/profile.h"

namespace orrery::calibration {

enum class Truncation : std::uint8_t { sorted, by_row, rejection };

/// Which tokens may be drawn: those of the most probable so many, those that make up so much, or both.
enum class Cut : std::uint8_t { none, top_k, top_p, both };

/// Seconds beyond the draw itself, of which rejection has none. Nothing where there is no cut.
double truncation_seconds(const DeviceProfile& device, Truncation way, Cut cut, double rows, double logits);

}  // namespace orrery::calibration
