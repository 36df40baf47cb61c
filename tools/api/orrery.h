// orrery as a C++ library: load a scenario, plan it, run it, read the result. Only the standard library is in sight
// here; link orrery::orrery after find_package(orrery).
//
//   const orrery::Scenario scenario = orrery::load("eos-gpt3-175b", {"parallelism.tensor=8", "parallelism.data=168"});
//   const orrery::Result result = orrery::run(orrery::plan(scenario));
//   std::cout << result.iteration_time_s << " s, " << result.mfu_pct << " %\n";
//
// Everything is a value; nothing is shared between threads but files that were read, which are kept behind a lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace orrery {

/// The user's input is wrong; what() is one line: `FILE:LINE:COLUMN: key: got what was read, expected what would be
/// right`.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A validated job on a cluster.
class Scenario {
 public:
  const std::string& name() const;
  std::int64_t gpus() const;
  /// Parameters of the model, in elements.
  double parameters() const;
  /// Which defaults were taken for what the scenario leaves open, one sentence each.
  const std::vector<std::string>& assumptions() const;

  struct Data;  // complete inside the library alone

 private:
  explicit Scenario(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
  friend Scenario load(const std::string&, const std::vector<std::string>&);
  friend Scenario parse(const std::string&, const std::vector<std::string>&);
  friend class Plan;
  friend class Runner;
};

/// Reads a scenario: a YAML file, the name of a shipped one, or FILE#ID for one record of a list; then lays `sets`
/// ("key.path=value") over it, in order. Throws Error.
Scenario load(const std::string& file_or_name, const std::vector<std::string>& sets = {});
/// The same for YAML text. Throws Error.
Scenario parse(const std::string& yaml, const std::vector<std::string>& sets = {});

/// A scenario compiled for the engine: the machine, the operations of every pipeline stage, and the ranks that need a
/// simulation of their own. What run() runs.
class Plan {
 public:
  explicit Plan(const Scenario& scenario);
  std::int64_t ranks() const;
  /// Ranks that are simulated: one for every class of ranks that nothing can tell apart.
  std::int64_t ranks_simulated() const;
  /// Pipeline stages, each with its own list of operations.
  std::int64_t stages() const;
  /// Operations of all stages' lists together.
  std::int64_t operations() const;
  /// The operations of a stage, a line each, as `orrery plan` prints them: of the first `passes` passes, or where that
  /// is 0 of the first pass of each kind. Throws Error where there is no such stage.
  std::string text(std::int64_t stage, std::int64_t passes = 0) const;
  const Scenario& scenario() const { return scenario_; }

  struct Data;  // complete inside the library alone

 private:
  Scenario scenario_;
  std::shared_ptr<const Data> data_;
  friend class Runner;
};
/// Throws Error for what only planning can find out.
Plan plan(const Scenario& scenario);

/// Bytes of one GPU of a pipeline stage at its fullest moment; the parts sum to `total`.
struct StageMemory {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0, total = 0;
};

/// One row of the communication table.
struct Traffic {
  std::string dimension, operation, what, level;
  std::int64_t group = 1;     // ranks
  double calls = 0;           // of one rank in a step
  double bytes_per_call = 0;  // the whole buffer, as in nccl-tests
  double bytes = 0;           // sent in a step, all ranks together
};

/// One training step. Seconds, bytes, tokens per second; FLOP rates in TFLOP/s.
struct Result {
  std::int64_t gpus = 0, ranks_simulated = 0;
  double iteration_time_s = 0, iteration_time_with_evaluation_s = 0;
  double tokens_per_s = 0, tokens_per_s_per_gpu = 0;
  double model_tflops_per_gpu = 0, hardware_tflops_per_gpu = 0;
  double mfu_pct = 0, hfu_pct = 0;            // of the device's dense bf16 peak
  double mfu_causal_pct = 0;                  // as mfu_pct, attention counted as a causal kernel does it
  std::map<std::string, double> breakdown_s;  // exposed time of the busiest rank by cause; sums to the step
  struct Memory {
    bool fits = true;  // whether the busiest stage fits the device's memory
    double peak_bytes = 0, capacity_bytes = 0;
    std::vector<StageMemory> stages;
  } memory;
  std::vector<Traffic> traffic;
  std::vector<std::string> assumptions;
};
struct RunOptions {
  bool every_rank = false;  // simulate each rank instead of one per class; the same times, for longer
};
/// Simulates the plan; where every rank is asked for, their instances and communicators are made first.
Result run(const Plan& plan, const RunOptions& options = {});

/// The version, as in "0.3.0".
std::string version();
/// The folder that names are looked up in: $ORRERY_HOME, else beside and above the program, else where it was
/// installed.
std::string data_directory();

}  // namespace orrery
