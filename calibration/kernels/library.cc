// dlopen with a list of places. Left out: reading ld.so.conf and the folders of Python packages; name those in
// ORRERY_GPU_LIBRARY_PATH.
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
