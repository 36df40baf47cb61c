// Who works on a study: threads of this process, or the ranks that mpirun started. Work is a function from a task's
// number to a line of text, so that it can cross processes; what comes back is kept by one thread of one process.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace orrery::tools {

/// The interface is header-only and free of this program's symbols, because the MPI crew is a plug-in: only a process
/// that mpirun started pays for loading MPI.
class Crew {
 public:
  /// Called for one task at a time per thread; must not throw.
  using Work = std::function<std::string(std::size_t task)>;
  /// Called for one result at a time.
  using Keep = std::function<void(std::size_t task, const std::string& result)>;

  Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  virtual ~Crew() = default;
  /// Whether this process only works for another: it then calls serve() instead of run().
  virtual bool serves() const { return false; }
  /// Whether no other process works on the study: one may then be given up for another.
  virtual bool alone() const { return true; }
  /// Works until the process that runs the study has no more tasks.
  virtual void serve(const Work&) {}
  /// How many tasks are worked on at a time.
  virtual std::size_t hands() const = 0;
  /// Works on all tasks, in any order of completion; `stopped` is asked before each is begun. What Keep throws ends the
  /// run and is thrown again. False: stopped before all were kept.
  virtual bool run(const std::vector<std::size_t>& tasks, const Work& work, const Keep& keep,
                   const std::function<bool()>& stopped) = 0;
};

/// The ranks of mpirun when it started this process as one of several, else `jobs` threads (0: one per core). Throws
/// sim::UserError when several ranks were started and this build has no MPI.
std::unique_ptr<Crew> make_crew(unsigned jobs);

}  // namespace orrery::tools
