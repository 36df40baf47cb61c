// Threads, or the MPI plug-in orrery_mpi.so beside the program (tools/study/mpi/crew.cc), loaded only where Open MPI's
// mpirun has started several ranks: libmpi takes longer to load than a step to simulate.
#include "tools/study/crew.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "sim/error.h"
#include "tools/parallel.h"

namespace orrery::tools {

namespace {

class Threads : public Crew {
 public:
  explicit Threads(unsigned jobs) : jobs_(jobs > 0 ? jobs : default_jobs()) {}
  std::size_t hands() const override { return jobs_; }
  bool run(const std::vector<std::size_t>& tasks, const Work& work, const Keep& keep,
           const std::function<bool()>& stopped) override {
    std::mutex mutex;
    std::size_t kept = 0;
    for_each_parallel(tasks.size(), jobs_, "", [&](std::size_t i) {
      if (stopped()) return;
      const std::string result = work(tasks[i]);
      const std::lock_guard lock(mutex);
      keep(tasks[i], result);
      ++kept;
    });
    return kept == tasks.size();
  }

 private:
  unsigned jobs_;
};

std::size_t started_ranks() {
  const char* text = std::getenv("OMPI_COMM_WORLD_SIZE");
  return text != nullptr ? std::strtoul(text, nullptr, 10) : 1;
}

std::unique_ptr<Crew> load_ranks(unsigned jobs, std::size_t ranks) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string file = (program.parent_path() / "orrery_mpi.so").string();
  const std::filesystem::path installed = program.parent_path().parent_path() / "lib/orrery/orrery_mpi.so";
  if (!std::filesystem::exists(file, error) && std::filesystem::exists(installed, error)) file = installed.string();
  // Global: Open MPI loads components of its own that look for its symbols.
  void* plug_in = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (plug_in == nullptr) {
    throw sim::UserError(
        fmt::format("orrery: mpirun started {} ranks, but this build cannot use them ({}), expected a build with "
                    "libopenmpi-dev installed, or no mpirun",
                    ranks, ::dlerror()));
  }
  using Make = Crew* (*)(unsigned);
  const auto make = reinterpret_cast<Make>(::dlsym(plug_in, "orrery_mpi_crew"));
  SIM_CHECK(make != nullptr, "{} does not make crews", file);
  return std::unique_ptr<Crew>(make(jobs));
}

}  // namespace

std::unique_ptr<Crew> make_crew(unsigned jobs) {
  if (const std::size_t ranks = started_ranks(); ranks > 1) return load_ranks(jobs, ranks);
  return std::make_unique<Threads>(jobs);
}

}  // namespace orrery::tools
