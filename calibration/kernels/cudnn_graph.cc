// cuDNN is loaded at run time; descriptors are its untyped objects, set attribute by attribute.
#include "calibration/kernels/cudnn_graph.h"

#include "calibration/kernels/library.h"

namespace orrery::calibration::gpu {
namespace {

struct Cudnn {
  Library library{{"libcudnn.so.9", "libcudnn.so"}};
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnGetErrorString) error_text = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
  decltype(&cudnnBackendCreateDescriptor) make = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy = nullptr;
  decltype(&cudnnBackendSetAttribute) set = nullptr;
  decltype(&cudnnBackendGetAttribute) get = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
  bool ready = false;

  Cudnn() {
    ready = library.get(version, "cudnnGetVersion") && library.get(create, "cudnnCreate") &&
            library.get(set_stream, "cudnnSetStream") && library.get(error_text, "cudnnGetErrorString") &&
            library.get(last_error, "cudnnGetLastErrorString") && library.get(make, "cudnnBackendCreateDescriptor") &&
            library.get(destroy, "cudnnBackendDestroyDescriptor") && library.get(set, "cudnnBackendSetAttribute") &&
            library.get(get, "cudnnBackendGetAttribute") && library.get(finalize, "cudnnBackendFinalize") &&
            library.get(execute, "cudnnBackendExecute");
  }
};

Cudnn& dnn() {
  static Cudnn library;
  return library;
}

void check_dnn(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char detail[256] = {};
  dnn().last_error(detail, sizeof detail);
  for (char& c : detail)
    if (c == '\n') c = ' ';
  // 3000 to 3999 are the ways of saying that something is not supported.
  const bool unsupported = status >= CUDNN_STATUS_NOT_SUPPORTED && status < 4000;
  throw Failure{unsupported ? GpuStatus::unavailable : GpuStatus::failed,
                std::string(what) + ": " + dnn().error_text(status) + " " + detail};
}

cudnnHandle_t handle() {
  static cudnnHandle_t made = nullptr;
  if (made == nullptr) check_dnn(dnn().create(&made), "starting cuDNN");
  return made;
}

}  // namespace

bool cudnn_found() { return dnn().ready; }
const std::string& cudnn_problem() { return dnn().library.problem(); }
std::size_t cudnn_version() { return dnn().version(); }

struct CudnnGraph::Descriptor {
  cudnnBackendDescriptor_t value = nullptr;

  explicit Descriptor(cudnnBackendDescriptorType_t type) { check_dnn(dnn().make(type, &value), "making a descriptor"); }
  ~Descriptor() {
    if (value != nullptr) static_cast<void>(dnn().destroy(value));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* data) {
    check_dnn(dnn().set(value, name, type, count, data), "setting an attribute");
  }
  void set_number(cudnnBackendAttributeName_t name, std::int64_t number) { set(name, CUDNN_TYPE_INT64, 1, &number); }
  void set_flag(cudnnBackendAttributeName_t name, bool flag) { set(name, CUDNN_TYPE_BOOLEAN, 1, &flag); }
  void set_type(cudnnBackendAttributeName_t name, cudnnDataType_t type) { set(name, CUDNN_TYPE_DATA_TYPE, 1, &type); }
  void set_part(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t part) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
  }
  void finalize(const char* what) { check_dnn(dnn().finalize(value), what); }
};

CudnnGraph::CudnnGraph() {
  if (!cudnn_found()) throw Failure{GpuStatus::unavailable, "cuDNN: " + cudnn_problem()};
}
CudnnGraph::~CudnnGraph() = default;

CudnnGraph::Node CudnnGraph::add(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type, bool in_memory,
                                 bool by_value) {
  auto d = std::make_shared<Descriptor>(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto node = static_cast<Node>(tensors_.size());
  const auto rank = static_cast<std::int64_t>(sizes.size());
  d->set_type(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  d->set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, sizes.data());
  d->set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides.data());
  d->set_number(CUDNN_ATTR_TENSOR_UNIQUE_ID, node + 1);
  d->set_number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
  d->set_flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL, !in_memory);
  if (by_value) d->set_flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  d->finalize("describing a tensor");
  tensors_.push_back({std::move(d), sizes, strides});
  return node;
}

CudnnGraph::Node CudnnGraph::tensor(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type) {
  return add(sizes, strides, type, true, false);
}
CudnnGraph::Node CudnnGraph::between(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type) {
  return add(sizes, strides, type, false, false);
}
CudnnGraph::Node CudnnGraph::constant(float value) {
  const Node node = add({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, true, true);
  constants_[node] = std::make_unique<float>(value);
  return node;
}

cudnnBackendDescriptor_t CudnnGraph::of(Node n) const {
  return tensors_[static_cast<std::size_t>(n)].descriptor->value;
}

CudnnGraph::Descriptor& CudnnGraph::operation(cudnnBackendDescriptorType_t type) {
  operations_.push_back(std::make_shared<Descriptor>(type));
  return *operations_.back();
}

void CudnnGraph::pointwise(const Pointwise& what, Node x, Node b, Node t, Node y) {
  parts_.push_back(std::make_shared<Descriptor>(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
  Descriptor& mode = *parts_.back();
  mode.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &what.mode);
  mode.set_type(CUDNN_ATTR_POINTWISE_MATH_PREC, what.compute);
  if (what.axis >= 0) mode.set_number(CUDNN_ATTR_POINTWISE_AXIS, what.axis);
  mode.finalize("describing a pointwise operation");
  Descriptor& o = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  o.set_part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode.value);
  o.set_part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
  if (b >= 0) o.set_part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(b));
  if (t >= 0) o.set_part(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(t));
  o.set_part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
  o.finalize("adding a pointwise operation");
}

void CudnnGraph::matmul(Node a, Node b, Node c) {
  parts_.push_back(std::make_shared<Descriptor>(CUDNN_BACKEND_MATMUL_DESCRIPTOR));
  Descriptor& mode = *parts_.back();
  mode.set_type(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  mode.finalize("describing a product");
  Descriptor& o = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  o.set_part(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a));
  o.set_part(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b));
  o.set_part(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(c));
  o.set_part(CUDNN_ATTR_OPERATION_MATMUL_DESC, mode.value);
  o.finalize("adding a product");
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t operation_kind, Node x, Node y) {
  parts_.push_back(std::make_shared<Descriptor>(CUDNN_BACKEND_REDUCTION_DESCRIPTOR));
  Descriptor& mode = *parts_.back();
  mode.set_type(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  mode.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operation_kind);
  mode.finalize("describing a reduction");
  Descriptor& o = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  o.set_part(CUDNN_ATTR_OPERATION_REDUCTION_DESC, mode.value);
  o.set_part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x));
  o.set_part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(y));
  o.finalize("adding a reduction");
}

void CudnnGraph::reshape(Node x, Node y) {
  Descriptor& o = operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  o.set_part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x));
  o.set_part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(y));
  o.finalize("adding a reshape");
}

void CudnnGraph::build(const std::string& device_json) {
  std::shared_ptr<Descriptor> described;
  if (!device_json.empty()) {
    described = std::make_shared<Descriptor>(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    described->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                   static_cast<std::int64_t>(device_json.size()), device_json.data());
    described->finalize("describing a device");
  }
  graph_ = std::make_shared<Descriptor>(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const auto& o : operations_) operations.push_back(o->value);
  graph_->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              static_cast<std::int64_t>(operations.size()), operations.data());
  if (described == nullptr) {
    const cudnnHandle_t own = handle();
    graph_->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &own);
  }
  graph_->finalize("making an operation graph");

  std::string problem = "cuDNN has no engine for this graph";
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      heuristic.set_part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_->value);
      heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
      if (described) heuristic.set_part(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, described->value);
      heuristic.finalize("asking cuDNN's heuristic");
      constexpr std::int64_t kMost = 8;
      std::vector<std::shared_ptr<Descriptor>> configurations;
      std::vector<cudnnBackendDescriptor_t> raw;
      for (std::int64_t i = 0; i < kMost; ++i) {
        configurations.push_back(std::make_shared<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
        raw.push_back(configurations.back()->value);
      }
      std::int64_t found = 0;
      check_dnn(dnn().get(heuristic.value, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, kMost, &found,
                          raw.data()),
                "asking cuDNN's heuristic");
      for (std::int64_t i = 0; i < found && i < kMost; ++i) {
        try {
          auto plan = std::make_shared<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
          plan->set_part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, raw[static_cast<std::size_t>(i)]);
          if (described) {
            plan->set_part(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, described->value);
          } else {
            const cudnnHandle_t own = handle();
            plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &own);
          }
          plan->finalize("making a plan");
          std::int64_t count = 0;
          check_dnn(dnn().get(plan->value, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                              &workspace_),
                    "reading the size of the workspace");
          parts_.push_back(configurations[static_cast<std::size_t>(i)]);
          plan_ = std::move(plan);
          return;
        } catch (const Failure& failure) {
          problem = failure.message;
        }
      }
    } catch (const Failure& failure) {
      problem = failure.message;
    }
  }
  throw Failure{GpuStatus::unavailable, problem};
}

void CudnnGraph::run(const std::map<Node, void*>& pointers, void* workspace, Stream stream) {
  std::vector<std::int64_t> numbers;
  std::vector<void*> addresses;
  for (const auto& [node, pointer] : pointers) {
    numbers.push_back(node + 1);
    addresses.push_back(pointer);
  }
  for (const auto& [node, value] : constants_) {
    numbers.push_back(node + 1);
    addresses.push_back(value.get());
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<std::int64_t>(numbers.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, numbers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finalize("passing tensors");
  check_dnn(dnn().set_stream(handle(), stream), "choosing a stream");
  check_dnn(dnn().execute(handle(), plan_->value, pack.value), "running attention");
}

}  // namespace orrery::calibration::gpu
