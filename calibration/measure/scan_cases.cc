// Cases and process of scan_cases.h.
#include "calibration/measure/scan_cases.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "calibration/measure/statistics.h"

extern char** environ;

namespace orrery::calibration {
namespace {

std::string kind_name(const Scan& s) {
  return std::string(s.kernel == MixerKernel::convolution ? name_of(s.kernel) : s.kind->name);
}

std::string kind_name(const SparseKernel& s) { return std::string(name_of(s.kernel)); }

std::string_view class_name(const Scan&) { return "scan"; }
std::string_view class_name(const SparseKernel&) { return "sparse"; }

template <class Shape>
std::string pass_name(const Shape& s) {
  return s.pass == ScanPass::backward ? "backward" : "forward";
}

template <class Shape>
std::string full_name(const Shape& s) {
  return kind_name(s) + "_" + pass_name(s);
}

/// Heads, keys' heads, keys and values of a model's mixer on one GPU.
struct MixerWidth {
  const ScanKind* kind;
  std::int64_t heads, key_heads, key_dim, value_dim;
};
// Nemotron-H and Nemotron 3 Nano, Qwen3-Next, Kimi Linear, MiniMax-01, RWKV-7 of 2.9 billion parameters, by their
// configurations; then a quarter of each.
constexpr MixerWidth kWidths[]{{&kMamba2Scan, 128, 8, 128, 64},     {&kGatedDeltaScan, 32, 32, 128, 128},
                               {&kKdaScan, 32, 32, 128, 128},       {&kLightningScan, 64, 64, 128, 128},
                               {&kRwkv7Scan, 40, 40, 64, 64},       {&kMamba2Scan, 32, 2, 128, 64},
                               {&kGatedDeltaScan, 8, 8, 128, 128},  {&kKdaScan, 8, 8, 128, 128},
                               {&kLightningScan, 16, 16, 128, 128}, {&kRwkv7Scan, 10, 10, 64, 64}};
constexpr std::size_t kKindsOfWidths = kScanKinds;

void add_passes(std::vector<ScanCase>& out, Scan shape) {
  for (const ScanPass pass : {ScanPass::forward, ScanPass::backward}) {
    shape.pass = pass;
    out.push_back({shape});
  }
}

/// Of DeepSeek-V3.2 and GLM-5 with their indexers (arXiv 2512.02556; 64 and 32 heads of them), and of MiniMax-M3's
/// blocks of 128 keys as 16 of 64, which public kernels take. There is no public backward pass of an indexer's scores,
/// a choice has none, and FlashMLA has one of dense attention alone.
void add_sparse(std::vector<ScanCase>& out, std::int64_t positions, bool quick) {
  constexpr std::int64_t kChosen = 2048;
  SparseKernel s;
  s.positions = positions;
  s.chosen = std::min(kChosen, positions);
  for (const std::int64_t heads : {64, 32}) {
    if (quick && heads < 64) continue;
    s.heads = heads;
    s.query_dim = 128;
    s.kernel = MixerKernel::index;
    s.dtype = DataType::fp8;
    out.push_back({s});
    s.dtype = DataType::bf16;
    s.kernel = MixerKernel::attention;
    s.heads = 2 * heads;
    s.query_dim = 576;
    s.value_dim = 512;
    out.push_back({s});
    s.value_dim = 1;
  }
  s.kernel = MixerKernel::choice;
  s.heads = s.query_dim = 1;
  s.dtype = DataType::fp32;
  out.push_back({s});
  s.kernel = MixerKernel::block_attention;
  s.dtype = DataType::bf16;
  s.heads = 64;
  s.key_heads = 4;
  s.query_dim = s.value_dim = 128;
  s.block = 64;
  s.chosen = 16 * s.block;
  for (const ScanPass pass : {ScanPass::forward, ScanPass::backward}) {
    s.pass = pass;
    out.push_back({s});
  }
}

/// Both ends of a process: its input is written whole, its output read line by line.
class PythonProcess {
 public:
  PythonProcess(const std::string& program, int device) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0) return;
    if (::pipe2(out, O_CLOEXEC) != 0) {
      ::close(in[0]);
      ::close(in[1]);
      return;
    }
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    std::string name = program, command = "-c", text = kScanProgram, number = std::to_string(device);
    char* arguments[] = {name.data(), command.data(), text.data(), number.data(), nullptr};
    failed_ = ::posix_spawnp(&child_, program.c_str(), &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    output_ = out[0];
  }
  ~PythonProcess() {
    close_input();
    if (output_ >= 0) ::close(output_);
    if (failed_ != 0) return;
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  int failed() const { return failed_; }
  /// A program that ends without reading is no mistake of ours.
  void tell(const std::string& text) {
    struct sigaction ignore = {}, before = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &before);
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t n = ::write(input_, text.data() + at, text.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
    ::sigaction(SIGPIPE, &before, nullptr);
    close_input();
  }
  enum class Heard { line, end, late };
  Heard hear(std::string& line, double seconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (true) {
      if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return Heard::line;
      }
      const double left = std::chrono::duration<double>(until - std::chrono::steady_clock::now()).count();
      if (left <= 0) return Heard::late;
      pollfd waits{output_, POLLIN, 0};
      constexpr double kSlice = 0.2;  // seconds: an interrupt ends a wait
      const int ready = ::poll(&waits, 1, static_cast<int>(1000 * std::min(left, kSlice)) + 1);
      if (ready < 0) return Heard::late;
      if (ready == 0) continue;
      char chunk[4096];
      const ssize_t n = ::read(output_, chunk, sizeof chunk);
      if (n <= 0) return Heard::end;
      buffer_.append(chunk, static_cast<std::size_t>(n));
    }
  }

 private:
  void close_input() {
    if (input_ >= 0) ::close(input_);
    input_ = -1;
  }
  pid_t child_ = 0;
  int failed_ = EAGAIN, input_ = -1, output_ = -1;
  std::string buffer_;
};

std::string line_of(std::size_t number, const Scan& s) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {}\n", number, kind_name(s), pass_name(s), s.batch, s.positions,
                     s.heads, s.key_heads, s.key_dim, s.value_dim, s.channels, s.taps);
}

std::string line_of(std::size_t number, const SparseKernel& s) {
  return fmt::format("{} {} {} 1 {} {} {} {} {} {} {}\n", number, kind_name(s), pass_name(s), s.positions, s.heads,
                     s.key_heads, s.query_dim, s.value_dim, s.chosen, s.block);
}

std::string key_of_shape(const Scan& s) {
  if (s.kernel == MixerKernel::convolution)
    return fmt::format("scan,{},bfloat16,,,{},{},{},{},,,,,,,", full_name(s), s.channels, s.taps, s.batch, s.positions);
  return fmt::format("scan,{},bfloat16,,,,{},{},{},{},{},{},,,,", full_name(s), s.key_dim, s.batch, s.positions,
                     s.heads, s.key_heads, s.value_dim);
}

std::string key_of_shape(const SparseKernel& s) {
  const char* type = s.dtype == DataType::fp8 ? "fp8_e4m3" : s.dtype == DataType::fp32 ? "float32" : "bfloat16";
  return fmt::format("sparse,{},{},,{},{},{},1,{},{},{},{},,,,", full_name(s), type, s.chosen, s.block, s.query_dim,
                     s.positions, s.heads, s.key_heads, s.value_dim);
}

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == ',') c = ' ';
  return text;
}

}  // namespace

std::vector<ScanCase> scan_cases(bool quick) {
  const std::vector<std::int64_t> lengths =
      quick ? std::vector<std::int64_t>{256, 8192} : std::vector<std::int64_t>{256, 4096, 16384, 65536};
  std::vector<ScanCase> out;
  for (const std::int64_t length : lengths)
    for (const std::int64_t channels : {8192, 2048}) {
      if (quick && channels < 8192) continue;
      Scan s;
      s.kernel = MixerKernel::convolution;
      s.positions = length;
      s.channels = channels;
      add_passes(out, s);
    }
  for (std::size_t w = 0; w < std::size(kWidths); ++w) {
    if (quick && w >= kKindsOfWidths) break;
    const MixerWidth& width = kWidths[w];
    for (const std::int64_t length : lengths) {
      Scan s;
      s.kind = width.kind;
      s.positions = length;
      s.heads = width.heads;
      s.key_heads = width.key_heads;
      s.key_dim = width.key_dim;
      s.value_dim = width.value_dim;
      s.chunk = width.kind->chunk;
      add_passes(out, s);
    }
  }
  // Scores of all pairs are held: 4.3 GB at the longest.
  for (const std::int64_t length :
       quick ? std::vector<std::int64_t>{2048, 8192} : std::vector<std::int64_t>{2048, 8192, 16384, 32768})
    add_sparse(out, length, quick);
  return out;
}

std::string_view class_of(const ScanCase& what) {
  return std::visit([](const auto& shape) { return class_name(shape); }, what.shape);
}

std::string name_of(const ScanCase& what) {
  return std::visit([](const auto& shape) { return full_name(shape); }, what.shape);
}

std::string key_of(const ScanCase& what) {
  return std::visit([](const auto& shape) { return key_of_shape(shape); }, what.shape);
}

std::string row_of(const ScanCase& what, const ScanTime& time) {
  return fmt::format("{},{:.9g},{:.4g},{},,,,", key_of(what), time.seconds, time.spread_pct, time.repeats);
}

std::string python_program() {
  const char* named = std::getenv("ORRERY_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

ScanRun run_scans(int device, const std::vector<ScanCase>& cases, double budget,
                  const std::function<bool(const ScanCase&, const ScanTime&)>& measured) {
  ScanRun out;
  if (cases.empty()) return out;
  const std::string program = python_program();
  PythonProcess python(program, device);
  if (python.failed() != 0) {
    for (const ScanCase& one : cases)
      ++out.problems[std::string(class_of(one))][program + ": " + std::strerror(python.failed())];
    return out;
  }
  std::string asked;
  for (std::size_t i = 0; i < cases.size(); ++i)
    asked += std::visit([i](const auto& shape) { return line_of(i, shape); }, cases[i].shape);
  python.tell(asked);
  std::vector<char> answered(cases.size(), 0);
  const auto begin = std::chrono::steady_clock::now();
  std::string why = program + " ended before its answers";
  for (std::string line;;) {
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const PythonProcess::Heard heard = python.hear(line, budget - spent);
    if (heard == PythonProcess::Heard::late) why = "the time did not last";
    if (heard != PythonProcess::Heard::line) break;
    if (line.starts_with("# ")) {
      out.libraries = printable(line.substr(2));
      continue;
    }
    std::istringstream words(line);
    std::size_t number = cases.size();
    std::string second;
    words >> number >> second;
    if (number >= cases.size() || answered[number] != 0) continue;  // what a package prints
    ScanTime time;
    if (second == "!") {
      std::string rest;
      std::getline(words >> std::ws, rest);
      ++out.problems[std::string(class_of(cases[number]))][printable(rest)];
    } else {
      const auto [end, error] = std::from_chars(second.data(), second.data() + second.size(), time.seconds);
      if (error != std::errc{} || !(time.seconds > 0) || !(time.seconds < 1e6)) continue;
      words >> time.spread_pct >> time.repeats;
      if (!measured(cases[number], time)) {
        answered[number] = 1;
        why = "stopped";
        break;
      }
    }
    answered[number] = 1;
  }
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (answered[i] == 0) ++out.problems[std::string(class_of(cases[i]))][why];
  return out;
}

}  // namespace orrery::calibration
