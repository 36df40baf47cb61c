// The folds over a mixer's scan: kernels, FLOPs, text.
#pragma once

#include <string>

#include "workloads/model/piece_writer.h"

namespace orrery::workloads {

void scan_forward(const ScanOp& op, PieceWriter& writer);
void scan_backward(const ScanOp& op, PieceWriter& writer);
/// Of its forward pass, as one position after the other would do it.
double model_flops(const ScanOp& op);
std::string text(const ScanOp& op);

}  // namespace orrery::workloads
