// The optimizer's states and the kernels of its step on one rank.
//
// Adam (arXiv 1412.6980), LAMB (1904.00962), SGD, Adagrad (JMLR 12, 2011), Lion (2302.06675: one moment), AdamW with
// moments of 8 bits by blocks (2110.02861), Adafactor (1804.04235: sums of rows and columns in place of the second
// moment, none of the first), Muon (Jordan et al., 2024; 2502.16982: one moment for matrices of blocks, whose updates
// are made orthogonal by Newton and Schulz's iteration; Adam for all else).
//
// Left out: what is gathered of a gradient where the share of a rank that updates by matrices ends inside one, which is
// two matrices at most; Adafactor's sums for embeddings, the head, norms and biases, under a thousandth of the rest.
#pragma once

#include <vector>

#include "workloads/model/computation.h"
#include "workloads/model/passes.h"

namespace orrery::workloads {

enum class OptimizerKind : std::uint8_t { adam, lamb, sgd, adagrad, muon, adamw_8bit, adafactor, lion };
std::string_view name_of(OptimizerKind optimizer);
/// By their names, in the order of OptimizerKind.
std::vector<std::string> optimizer_names();
/// Whether its step looks at matrices whole, not at parameters each by itself.
bool takes_matrices(OptimizerKind optimizer);

/// Bytes that an optimizer keeps beside the weights.
struct StateBytes {
  double of_matrices = 0;  // for each parameter of a linear layer in a block
  double of_others = 0;    // for each other parameter
  double of_sides = 0;     // for each row and each column of a linear layer's matrices
};
StateBytes state_bytes(OptimizerKind optimizer, const Precision& precision, const calibration::OptimizerStyle& style);

/// Matrices of one size on a rank; a share of one counts as that share.
struct SizedMatrices {
  double rows = 0, columns = 0, number = 0;
  bool operator==(const SizedMatrices&) const = default;
};

/// What a rank holds and updates, in elements.
struct UpdatedWeights {
  double held = 0, updated = 0;
  double matrices = 0;                    // of `updated`, those of linear layers in blocks
  std::vector<SizedMatrices> sizes = {};  // and these, where the optimizer takes matrices
  bool operator==(const UpdatedWeights&) const = default;
};

/// Which share of the parameters has its optimizer states with the host, and what else lies there.
struct HostStates {
  double optimizer = 0;     // share of the parameters, 0 to 1; 0: nothing lies there
  bool parameters = false;  // the shards of weights do
  bool overlaps = false;    // copies and updates go piece by piece, beside each other
  bool any() const { return optimizer > 0; }
  bool operator==(const HostStates&) const = default;
};

/// Kernels of the step (after the gradient norm) on one rank.
std::vector<Kernel> optimizer_kernels(OptimizerKind optimizer, const Precision& precision,
                                      const calibration::OptimizerStyle& style,
                                      const calibration::DeviceProfile& device, const UpdatedWeights& weights);

/// Bytes that its recipe has alive while it updates so many parameters, beside states, gradients and fp32 gradients.
double optimizer_temporaries(OptimizerKind optimizer, const Precision& precision,
                             const calibration::OptimizerStyle& style, double updated);

}  // namespace orrery::workloads
