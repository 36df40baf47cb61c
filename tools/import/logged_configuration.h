// What a log prints of the configuration of its run, as NeMo's trainings of MLPerf do ("0:   context_parallel_size:
// 8").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/import/import.h"

namespace orrery::tools {

class LoggedConfiguration {
 public:
  /// Whether a line is one of a configuration that is read here; of several of a key the first holds.
  bool take(const std::string& line);
  /// Whether it says how the run is laid out.
  bool lays_out() const { return values_.contains("tensor_model_parallel_size"); }
  /// GPUs of the run; 0: it does not say.
  std::int64_t gpus() const;
  std::int64_t micro_batch() const { return count("micro_batch_size", 0); }
  /// Its degrees as a user lays them: "parallelism.tensor=4".
  std::vector<std::string> degrees() const;
  /// Layout, types, recomputation and overlap.
  void lay(Draft& draft) const;

 private:
  std::int64_t count(const std::string& key, std::int64_t fallback) const;
  std::string word(const std::string& key) const;
  bool flag(const std::string& key) const;
  std::map<std::string, std::string> values_;
};

}  // namespace orrery::tools
