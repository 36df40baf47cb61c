// Tables of measured kernels, as CSV: the samples that a fit reads and a profile is checked against. The header line
// says which table it is: gemm (dtype,m,n,k,ms), attention (batch,seq,heads,kv_heads,head_dim,ms), nccl
// (op,gpus,bytes,us), kernels (device,kernel,m,n,k,us).
#pragma once

#include <string>
#include <vector>

#include "calibration/profile.h"

namespace orrery::calibration {

struct GemmSample {
  Gemm shape;
  double seconds = 0;
};
struct AttentionSample {
  Attention shape;
  double seconds = 0;
};
struct CollectiveSample {
  CollectiveOp op{};
  std::int64_t gpus = 1;
  sim::Bytes bytes{};
  double seconds = 0;
};
struct KernelSample {  // of a table that holds several devices; sizes that a kernel lacks are 0
  std::string device, kernel;
  std::int64_t m = 0, n = 0, k = 0;
  double seconds = 0;
};

struct Samples {
  std::vector<GemmSample> gemm;
  std::vector<AttentionSample> attention;
  std::vector<CollectiveSample> collective;
  std::vector<KernelSample> kernel;
};

/// Reads one table. Throws sim::UserError naming file, line, column and what would be right.
Samples read_samples(const std::string& file);

}  // namespace orrery::calibration
