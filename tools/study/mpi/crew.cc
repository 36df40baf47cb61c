// The crew of several MPI ranks: rank 0 runs the study, hands tasks out and works too; the others work. Tasks go out a
// few at a time as ranks come free (guided self-scheduling; Polychronopoulos and Kuck, 1987), each result comes back at
// once. Rank 0 does a silent rank's tasks itself, as MapReduce's backup tasks (Dean and Ghemawat, 2004), so that a rank
// that dies cannot hold up a study that mpirun lets live. Left out: detecting why a rank is silent, and going on when
// rank 0 dies; the table on disk has all that was finished.
#include "tools/study/crew.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace orrery::tools {

namespace {

using Clock = std::chrono::steady_clock;

enum Tag : int { kTasks = 1, kResult = 2, kEnd = 3, kBye = 4, kAllThere = 5, kSomeLost = 6 };

// Between two looks for messages: short beside a task, long beside a look.
constexpr auto kPause = std::chrono::microseconds(100);
// A rank is silent when it has sent nothing for so long, and for ten times the longest task.
constexpr double kSilentSeconds = 2;
constexpr double kGoodbyeSeconds = 5;
constexpr std::size_t kMostAtOnce = 16;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A message that has arrived, of any tag, from `source` or anyone.
bool receive(int source, int& from, int& tag, std::string& text) {
  int arrived = 0;
  MPI_Status status;
  MPI_Iprobe(source, MPI_ANY_TAG, MPI_COMM_WORLD, &arrived, &status);
  if (arrived == 0) return false;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  text.resize(static_cast<std::size_t>(bytes));
  from = status.MPI_SOURCE;
  tag = status.MPI_TAG;
  MPI_Recv(text.data(), bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return true;
}

void send(int to, int tag, const std::string& text) {
  MPI_Send(text.data(), static_cast<int>(text.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

std::string packed(const std::vector<std::uint64_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::uint64_t)};
}

std::uint64_t number_at(const std::string& text, std::size_t i) {
  std::uint64_t number = 0;
  std::memcpy(&number, text.data() + i * sizeof number, sizeof number);
  return number;
}

/// A rank above 0.
class Worker : public Crew {
 public:
  /// MPI_Finalize waits for all ranks: where one is lost, or rank 0 says nothing any more, the others leave without it.
  ~Worker() override {
    send(0, kBye, {});
    int from = 0, tag = 0;
    const Clock::time_point begin = Clock::now();
    for (std::string text; tag != kAllThere && tag != kSomeLost && seconds_since(begin) < 2 * kGoodbyeSeconds;) {
      if (!receive(0, from, tag, text)) std::this_thread::sleep_for(kPause);
    }
    if (tag == kAllThere) MPI_Finalize();
  }
  bool alone() const override { return false; }
  bool serves() const override { return true; }
  std::size_t hands() const override { return 1; }
  bool run(const std::vector<std::size_t>&, const Work&, const Keep&, const std::function<bool()>&) override {
    return false;
  }
  void serve(const Work& work) override {
    int from = 0, tag = 0;
    for (std::string text;;) {
      if (!receive(0, from, tag, text)) {
        std::this_thread::sleep_for(kPause);
        continue;
      }
      if (tag == kEnd) break;
      for (std::size_t i = 0; i < text.size() / sizeof(std::uint64_t); ++i) {
        const std::uint64_t task = number_at(text, i);
        send(0, kResult, packed({task}) + work(static_cast<std::size_t>(task)));
      }
    }
  }
};

/// What threads of rank 0 share during a run.
struct Board {
  std::mutex mutex;
  std::deque<std::size_t> open;                              // nobody has them
  std::set<std::size_t> missing;                             // not kept yet
  std::deque<std::size_t> silent;                            // of ranks that say nothing
  std::vector<std::pair<std::size_t, std::string>> results;  // of threads of rank 0
  std::atomic<bool> over{false};
  double longest_s = 0;
};

class Master : public Crew {
 public:
  Master(int ranks, unsigned jobs) : threads_(std::max(1u, jobs)), ranks_(static_cast<std::size_t>(ranks)) {}
  ~Master() override { part(); }
  bool alone() const override { return false; }
  std::size_t hands() const override { return threads_ + ranks_.size() - 1; }

  bool run(const std::vector<std::size_t>& tasks, const Work& work, const Keep& keep,
           const std::function<bool()>& stopped) override {
    Board board;
    board.open.assign(tasks.begin(), tasks.end());
    board.missing.insert(tasks.begin(), tasks.end());
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < threads_; ++t) threads.emplace_back([&] { toil(board, work, stopped); });
    std::exception_ptr failure;
    try {
      while (!board.missing.empty() && !stopped()) {
        if (!look(board, keep)) std::this_thread::sleep_for(kPause);
        if (!stopped()) hand_out(board);
      }
    } catch (...) {
      failure = std::current_exception();
    }
    board.over = true;
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    keep_own(board, keep);
    return board.missing.empty();
  }

 private:
  struct Rank {
    std::deque<std::size_t> holds;
    Clock::time_point heard = Clock::now();
    bool silent = false;
  };

  /// A thread of rank 0: open tasks, then those of silent ranks.
  static void toil(Board& board, const Work& work, const std::function<bool()>& stopped) {
    while (!board.over && !stopped()) {
      std::size_t task = 0;
      {
        const std::lock_guard lock(board.mutex);
        std::deque<std::size_t>& from = board.open.empty() ? board.silent : board.open;
        if (from.empty()) {
          task = SIZE_MAX;
        } else {
          task = from.front();
          from.pop_front();
        }
      }
      if (task == SIZE_MAX) {
        std::this_thread::sleep_for(kPause);
        continue;
      }
      const Clock::time_point begin = Clock::now();
      std::string result = work(task);
      const std::lock_guard lock(board.mutex);
      board.longest_s = std::max(board.longest_s, seconds_since(begin));
      board.results.emplace_back(task, std::move(result));
    }
  }

  bool keep_own(Board& board, const Keep& keep) {
    std::vector<std::pair<std::size_t, std::string>> results;
    {
      const std::lock_guard lock(board.mutex);
      results.swap(board.results);
    }
    for (const auto& [task, result] : results) {
      if (board.missing.erase(task) > 0) keep(task, result);
    }
    return !results.empty();
  }

  /// Keeps what has arrived; false when nothing had.
  bool look(Board& board, const Keep& keep) {
    bool any = keep_own(board, keep);
    int from = 0, tag = 0;
    for (std::string text; receive(MPI_ANY_SOURCE, from, tag, text); any = true) {
      if (tag != kResult) continue;
      Rank& rank = ranks_[static_cast<std::size_t>(from)];
      rank.heard = Clock::now();
      rank.silent = false;
      const auto task = static_cast<std::size_t>(number_at(text, 0));
      std::erase(rank.holds, task);
      // A task of a silent rank may be kept already, or belong to a run that is over.
      if (board.missing.erase(task) > 0) keep(task, text.substr(sizeof(std::uint64_t)));
    }
    return any;
  }

  void hand_out(Board& board) {
    const std::lock_guard lock(board.mutex);
    for (std::size_t r = 1; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      const bool late =
          !rank.holds.empty() && seconds_since(rank.heard) > std::max(kSilentSeconds, 10 * board.longest_s);
      if (late && !rank.silent) {
        rank.silent = true;
        for (const std::size_t task : rank.holds) {
          if (board.missing.contains(task)) board.silent.push_back(task);
        }
      }
      if (rank.silent || rank.holds.size() > 1 || board.open.empty()) continue;
      if (rank.holds.empty()) rank.heard = Clock::now();
      const std::size_t share = board.open.size() / (4 * hands());
      std::vector<std::uint64_t> tasks;
      for (std::size_t n = std::clamp<std::size_t>(share, 1, kMostAtOnce); n > 0 && !board.open.empty(); --n) {
        tasks.push_back(board.open.front());
        rank.holds.push_back(board.open.front());
        board.open.pop_front();
      }
      send(static_cast<int>(r), kTasks, packed(tasks));
    }
  }

  /// Ends the ranks.
  void part() {
    for (std::size_t r = 1; r < ranks_.size(); ++r) {
      if (!ranks_[r].silent) send(static_cast<int>(r), kEnd, {});
    }
    std::vector<int> there;
    int from = 0, tag = 0;
    const Clock::time_point begin = Clock::now();
    for (std::string text; there.size() + 1 < ranks_.size() && seconds_since(begin) < kGoodbyeSeconds;) {
      if (!receive(MPI_ANY_SOURCE, from, tag, text)) {
        std::this_thread::sleep_for(kPause);
      } else if (tag == kBye) {
        there.push_back(from);
      }
    }
    const std::size_t lost = ranks_.size() - 1 - there.size();
    for (const int rank : there) send(rank, lost == 0 ? kAllThere : kSomeLost, {});
    if (lost == 0) {
      MPI_Finalize();
    } else {
      std::fprintf(stderr, "orrery: %zu of %zu ranks are lost; rank 0 has done their tasks\n", lost, ranks_.size());
    }
  }

  unsigned threads_;
  std::vector<Rank> ranks_;  // [0] is this one
};

}  // namespace

}  // namespace orrery::tools

/// The plug-in's one symbol; see load_ranks in tools/study/crew.cc.
extern "C" __attribute__((visibility("default"))) orrery::tools::Crew* orrery_mpi_crew(unsigned jobs) {
  int granted = 0, ranks = 1, rank = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &granted);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) return new orrery::tools::Master(ranks, jobs);
  return new orrery::tools::Worker();
}
