// Many simulations on all cores, with progress on a terminal and a clean stop on Ctrl-C.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace orrery::tools {

/// While one lives, the first Ctrl-C only asks to stop; a second one ends the program as usual. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool interrupted();
};

/// The number of threads to use when the user names none: every core.
unsigned default_jobs();

/// From now on nothing but results and errors is printed: no progress, no remarks on standard error.
void silence();
bool silenced();

/// "done/count WHAT, about T left" on stderr, when that is a terminal; wiped away when it goes.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// `resumed`: of `done`, what was finished before this program began.
  void show(std::size_t done, std::size_t count, std::size_t resumed = 0);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool shown_;
  Clock::time_point begin_, last_{};
};

/// Calls work(i) for every i below `count`, in order of i as threads come free, on `jobs` threads, with Progress of
/// `what` (none when empty). After Ctrl-C nothing new is begun. Returns which i were finished.
/// An exception of `work` stops the rest and is thrown again here.
std::vector<char> for_each_parallel(std::size_t count, unsigned jobs, const std::string& what,
                                    const std::function<void(std::size_t)>& work);

}  // namespace orrery::tools
