// Threads that work together; see team.h.
#include "sim/team.h"

#include <algorithm>
#include <utility>

#include "sim/processors.h"

namespace orrery::sim {

namespace {

constexpr int kLeastPatience = 50;

/// Looks at a number, some 50 ns each, before sleep: what an instant is shared out in takes up to a millisecond, and to
/// be woken may take a tenth of that. Where threads outnumber processors, who waits has the processor of one who works.
int patience_of(std::uint32_t members) { return members <= processors() ? 20000 : 400; }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

/// The number changes before anyone asleep is looked for, and who goes to sleep says so before looking at the number:
/// so one of the two sees the other.
void Team::Bell::ring() {
  count.fetch_add(1);
  if (asleep.load() == 0) return;
  const std::lock_guard lock(mutex);
  rung.notify_all();
}

/// Processors may be there and yet be busy with other work: then who is waited for does not run, and whoever has looked
/// in vain looks for a quarter as long the next time. A look that was worth it earns a few more: so what is spent in
/// vain is a few looks a wait, and where nobody waits in vain all are as patient as at first.
template <class Done>
void Team::Bell::wait(Done done) {
  constexpr int kEarned = 10;
  const int most = looks.load(std::memory_order_relaxed);
  for (int look = 0; look < most; ++look) {
    if (done(count.load())) {
      if (most < patience) looks.store(std::min(most + kEarned, patience), std::memory_order_relaxed);
      return;
    }
    pause();
  }
  looks.store(std::max(most / 4, kLeastPatience), std::memory_order_relaxed);
  std::unique_lock lock(mutex);
  asleep.fetch_add(1);
  rung.wait(lock, [&] { return done(count.load()); });
  asleep.fetch_sub(1);
}

Team::Team(std::uint32_t members) : begun_(patience_of(members)), done_(patience_of(members)), thrown_(members) {
  for (std::uint32_t member = 1; member < members; ++member) threads_.emplace_back([this, member] { serve(member); });
}

Team::~Team() {
  over_ = true;
  begun_.ring();
  for (std::thread& thread : threads_) thread.join();
}

void Team::do_share(std::uint32_t member) {
  try {
    call_(work_, member);
  } catch (...) {
    thrown_[member] = std::current_exception();
  }
}

void Team::serve(std::uint32_t member) {
  for (std::uint32_t seen = 0;; ++seen) {
    begun_.wait([seen](std::uint32_t begun) { return begun != seen; });
    if (over_) return;
    do_share(member);
    done_.ring();
  }
}

void Team::run_on_all(Call call, const void* work) {
  call_ = call;
  work_ = work;
  const std::uint32_t before = done_.count.load();
  const auto others = static_cast<std::uint32_t>(threads_.size());
  begun_.ring();
  do_share(0);
  done_.wait([&](std::uint32_t done) { return done - before == others; });
  for (std::exception_ptr& thrown : thrown_) {
    if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
  }
}

}  // namespace orrery::sim
