// An operation graph of cuDNN's backend interface, built tensor by tensor and turned into the plan that its heuristic
// puts first. Reference: NVIDIA cuDNN backend documentation. A plan can be made for a device that is only described
// (cuDNN 9.8 and later), which is how the tests check the graphs of attention where there is no GPU.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "calibration/kernels/device_state.h"

namespace orrery::calibration::gpu {

bool cudnn_found();
const std::string& cudnn_problem();
std::size_t cudnn_version();

using Sizes = std::vector<std::int64_t>;

class CudnnGraph {
 public:
  using Node = int;  // a tensor
  CudnnGraph();
  ~CudnnGraph();
  CudnnGraph(const CudnnGraph&) = delete;
  CudnnGraph& operator=(const CudnnGraph&) = delete;

  /// In memory; the caller passes its address to run(), under the number that comes back.
  Node tensor(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type);
  /// Inside the fused kernel.
  Node between(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  /// A number that the graph holds itself.
  Node constant(float value);

  struct Pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    std::int64_t axis = -1;  // of CUDNN_POINTWISE_GEN_INDEX
  };
  /// `b` and `t` as the mode asks for; -1: none.
  void pointwise(const Pointwise& what, Node x, Node b, Node t, Node y);
  void matmul(Node a, Node b, Node c);
  void reduce(cudnnReduceTensorOp_t operation, Node x, Node y);
  void reshape(Node x, Node y);

  /// Makes the plan. `device_json` empty: for the current device, else for the device that cuDNN's JSON describes.
  /// Throws Failure with unavailable where no engine supports the graph.
  void build(const std::string& device_json = {});
  std::int64_t workspace_bytes() const { return workspace_; }

  /// `pointers` of the tensors in memory.
  void run(const std::map<Node, void*>& pointers, void* workspace, Stream stream);

  const Sizes& sizes(Node n) const { return tensors_[static_cast<std::size_t>(n)].sizes; }
  const Sizes& strides(Node n) const { return tensors_[static_cast<std::size_t>(n)].strides; }

 private:
  struct Descriptor;
  struct Held {
    std::shared_ptr<Descriptor> descriptor;
    Sizes sizes, strides;
  };
  Node add(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type, bool in_memory, bool by_value);
  Descriptor& operation(cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t of(Node n) const;

  std::vector<Held> tensors_;
  std::map<Node, std::unique_ptr<float>> constants_;
  std::vector<std::shared_ptr<Descriptor>> parts_, operations_;
  std::shared_ptr<Descriptor> graph_, plan_;
  std::int64_t workspace_ = 0;
};

}  // namespace orrery::calibration::gpu
