// A few threads that do one thing after another together: what one run shares out among its parts, thousands of times.
// Who waits does so on its processor for up to a millisecond, then asleep; after some microseconds where threads
// outnumber processors, or where to wait so long was in vain.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace orrery::sim {

class Team {
 public:
  /// `members`, of whom the caller is one.
  explicit Team(std::uint32_t members);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Calls work(member) for each member at a time, and returns when all have. What is written before is seen by all,
  /// and what they write by the caller. Throws what the first of them threw.
  template <class Work>
  void run(const Work& work) {
    run_on_all([](const void* what, std::uint32_t member) { (*static_cast<const Work*>(what))(member); }, &work);
  }

 private:
  using Call = void (*)(const void*, std::uint32_t);

  /// Somebody sleeps until a number changes, unless this is soon.
  struct Bell {
    explicit Bell(int most_looks) : patience(most_looks), looks(most_looks) {}
    const int patience;      // looks at the number before sleep, at most
    std::atomic<int> looks;  // as many as were worth it of late
    std::atomic<std::uint32_t> count{0};
    std::atomic<std::uint32_t> asleep{0};
    std::mutex mutex;
    std::condition_variable rung;
    void ring();
    template <class Done>
    void wait(Done done);
  };

  void run_on_all(Call call, const void* work);
  void serve(std::uint32_t member);
  void do_share(std::uint32_t member);

  Call call_ = nullptr;
  const void* work_ = nullptr;
  bool over_ = false;
  Bell begun_, done_;
  std::vector<std::exception_ptr> thrown_;  // by member
  std::vector<std::thread> threads_;
};

}  // namespace orrery::sim
