// Runs the built program as a user does, and keeps what it says.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/paths.h"
#include "tests/tools/small_parent.h"

extern char** environ;

namespace orrery::tests {

namespace fs = std::filesystem;

inline std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// A folder of its own that goes away with the test.
class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = fs::temp_directory_path() / ("orrery-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return file(name);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Outcome {
  int status = -1;  // exit status; 128 + signal when it was killed
  std::string out, err;
};

/// Whether the program may run as a child of a test's process, which is the same code, without being loaded. Under
/// sanitizers loading it takes ten times as long as most of what tests ask of it. Not what finds its plug-ins beside
/// itself, is loaded behind a library that fails, or has another home than this process has read files from.
inline bool may_fork(const std::vector<std::string>& arguments) {
#if defined(__SANITIZE_ADDRESS__)
  return !arguments.empty() && arguments[0] != "calibrate" && std::getenv("LD_PRELOAD") == nullptr &&
         std::getenv("ORRERY_HOME") == nullptr;
#else
  static_cast<void>(arguments);
  return false;
#endif
}

/// The status of the program, run by itself, as waitpid gives it; -1 when it cannot be started.
inline int exec_orrery(std::vector<std::string> arguments, const std::string& out, const std::string& err) {
  std::string program = tests::kProgram;
  std::vector<char*> argv{program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  int status = -1;
  if (posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ) == 0) ::waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

/// `stdout_file`: where standard output goes instead of being captured (as in "/dev/full").
inline Outcome orrery(const std::vector<std::string>& arguments, const std::string& stdout_file = {}) {
  const Folder folder;
  const std::string out = stdout_file.empty() ? folder.file("out") : stdout_file, err = folder.file("err");
  const int status =
      may_fork(arguments) ? SmallParent::get().run({arguments, out, err}) : exec_orrery(arguments, out, err);
  Outcome outcome;
  if (status != -1) outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (stdout_file.empty()) outcome.out = read_file(out);
  outcome.err = read_file(err);
  return outcome;
}

/// Starts the program, or `program`, without waiting for it; what it prints is dropped. 0 when it cannot be started.
inline pid_t spawn_orrery(std::vector<std::string> arguments, std::string program = tests::kProgram) {
  std::vector<char*> argv{program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int descriptor : {1, 2}) {
    posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0);
  }
  pid_t child = 0;
  if (posix_spawnp(&child, program.c_str(), &actions, nullptr, argv.data(), environ) != 0) child = 0;
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

/// A small job on 16 GPUs that every room takes part in; `change` replaces text in it.
inline std::string small_scenario(const std::string& from = {}, const std::string& to = {}) {
  std::string text = R"(name: small
cluster: {device: h100-sxm-80gb, gpus: 16, gpus_per_node: 8, fabric: ndr-rail}
model: {kind: gpt, layers: 8, hidden: 2048, heads: 16, kv_heads: 16, ffn_hidden: 8192, vocab: 51200, seq: 2048}
parallelism: {tensor: 2, pipeline: 2, virtual_pipeline: 2, data: 4, sequence_parallel: true, sharding: optimizer}
batch: {global: 16, micro: 1}
precision: bf16
recompute: none
software: nemo-23.09
)";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace orrery::tests
