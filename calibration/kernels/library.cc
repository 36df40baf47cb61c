// dlopen with a list of places, those of Python packages among them: PyTorch's wheels bring its library and NVIDIA's,
// each in a folder of its own. Left out: reading ld.so.conf; name what lies elsewhere in ORRERY_GPU_LIBRARY_PATH.
#include "calibration/kernels/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace orrery::calibration::gpu {
namespace {

std::vector<std::string> split(const char* paths) {
  std::vector<std::string> out;
  std::istringstream in(paths == nullptr ? "" : paths);
  for (std::string path; std::getline(in, path, ':');)
    if (!path.empty()) out.push_back(path);
  return out;
}

/// Folders of libraries of PyTorch's wheels and of those that these need, below a prefix that has a Python.
void add_packages(const std::string& prefix, std::vector<std::string>& out) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const char* lib : {"lib", "lib64"}) {
    for (fs::directory_iterator at(fs::path(prefix) / lib, ignored), end; !ignored && at != end;
         at.increment(ignored)) {
      if (at->path().filename().string().rfind("python3", 0) != 0) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        out.push_back((at->path() / packages / "torch/lib").string());
        std::error_code none;
        for (fs::directory_iterator part(at->path() / packages / "nvidia", none), last; !none && part != last;
             part.increment(none))
          out.push_back((part->path() / "lib").string());
      }
    }
  }
}

std::vector<std::string> folders() {
  namespace fs = std::filesystem;
  std::vector<std::string> out = split(std::getenv("ORRERY_GPU_LIBRARY_PATH"));
  for (const char* home : {"CUDA_HOME", "CUDA_PATH", "ROCM_PATH"}) {
    for (const std::string& path : split(std::getenv(home))) {
      out.push_back(path + "/lib64");
      out.push_back(path + "/lib");
    }
  }
  for (const std::string& path : split(std::getenv("PATH"))) {
    std::error_code ignored;
    for (const char* compiler : {"nvcc", "hipcc"}) {
      if (!fs::exists(fs::path(path) / compiler, ignored)) continue;
      const fs::path root = fs::canonical(fs::path(path) / compiler, ignored).parent_path().parent_path();
      out.push_back((root / "lib64").string());
      out.push_back((root / "lib").string());
    }
  }
  for (const char* path : {"/usr/local/cuda/lib64", "/opt/rocm/lib"}) out.emplace_back(path);
  for (const char* home : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    for (const std::string& path : split(std::getenv(home))) add_packages(path, out);
  for (const std::string& path : split(std::getenv("HOME"))) add_packages(path + "/.local", out);
  for (const char* prefix : {"/usr/local", "/usr", "/opt/venv", "/opt/conda"}) add_packages(prefix, out);
  return out;
}

}  // namespace

Library::Library(const std::vector<std::string>& names) {
  static const std::vector<std::string> kFolders = folders();
  for (const std::string& name : names) {
    handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    for (auto folder = kFolders.begin(); handle_ == nullptr && folder != kFolders.end(); ++folder) {
      std::error_code ignored;
      const std::string path = *folder + "/" + name;
      if (std::filesystem::exists(path, ignored)) handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (handle_ != nullptr) return;
  }
  problem_ = names.front() + " not found";
}

void* Library::address(const char* symbol) {
  if (handle_ == nullptr) return nullptr;
  void* const at = ::dlsym(handle_, symbol);
  if (at == nullptr) {
    handle_ = nullptr;
    problem_ = std::string("no ") + symbol + " in it";
  }
  return at;
}

}  // namespace orrery::calibration::gpu
