// Libraries that a module can do without: found at run time, so that one build serves machines with and without them.
#pragma once

#include <string>
#include <vector>

namespace orrery::calibration::gpu {

class Library {
 public:
  /// Looks for each name where the loader looks, then in the folders of ORRERY_GPU_LIBRARY_PATH, of CUDA_HOME and
  /// ROCM_PATH, beside nvcc and hipcc, and where toolkits are installed by default.
  explicit Library(const std::vector<std::string>& names);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  bool found() const { return handle_ != nullptr; }
  /// Why not, in a few words.
  const std::string& problem() const { return problem_; }

  /// Sets a function pointer; false, and the library counts as not found, when it lacks the symbol.
  template <class Function>
  bool get(Function*& function, const char* symbol) {
    function = reinterpret_cast<Function*>(address(symbol));
    return function != nullptr;
  }

 private:
  void* address(const char* symbol);

  void* handle_ = nullptr;  // never closed: libraries keep threads and device state
  std::string problem_;
};

}  // namespace orrery::calibration::gpu
