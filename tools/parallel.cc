// A counter shared by threads: the simplest pool that keeps all cores busy when rows differ a hundredfold in cost. The
// order of results is the caller's (row i writes slot i), so output does not depend on timing.
#include "tools/parallel.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>

#include "sim/processors.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

// A signal handler reaches nothing but statics.
std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

std::atomic<bool> quiet{false};  // the --quiet of this process

extern "C" void ask_to_stop(int) { stop_asked.store(true); }

}  // namespace

void silence() { quiet.store(true); }
bool silenced() { return quiet.load(); }

Progress::Progress(std::string what)
    : what_(std::move(what)),
      shown_(!what_.empty() && !silenced() && isatty(STDERR_FILENO) == 1),
      begin_(Clock::now()) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void Progress::show(std::size_t done, std::size_t count, std::size_t resumed) {
  if (!shown_ || done <= resumed) return;
  const Clock::time_point now = Clock::now();
  // A terminal is slower than a simulated point: ten lines a second are enough.
  if (done < count && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  const double spent = std::chrono::duration<double>(now - begin_).count();
  const double left = spent / static_cast<double>(done - resumed) * static_cast<double>(count - done);
  fmt::print(stderr, "\r\033[K{}/{} {}, about {:.0f} s left", done, count, what_, left);
  std::fflush(stderr);
}

InterruptGuard::InterruptGuard() {
  stop_asked.store(false);
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, nullptr);
}

InterruptGuard::~InterruptGuard() { ::signal(SIGINT, SIG_DFL); }

bool InterruptGuard::interrupted() { return stop_asked.load(); }

unsigned default_jobs() { return sim::processors(); }

std::vector<char> for_each_parallel(std::size_t count, unsigned jobs, const std::string& what,
                                    const std::function<void(std::size_t)>& work) {
  std::vector<char> finished(count, 0);
  std::atomic<std::size_t> next{0};
  std::size_t done = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  Progress progress(what);
  const auto worker = [&] {
    for (std::size_t i = next.fetch_add(1); i < count && !InterruptGuard::interrupted(); i = next.fetch_add(1)) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next.store(count);
        return;
      }
      const std::lock_guard lock(mutex);
      finished[i] = 1;
      progress.show(++done, count);
    }
  };
  std::vector<std::thread> threads;
  const std::size_t wanted = std::min<std::size_t>(std::max(1u, jobs), std::max<std::size_t>(count, 1));
  for (std::size_t t = 1; t < wanted; ++t) threads.emplace_back(worker);
  worker();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return finished;
}

}  // namespace orrery::tools
