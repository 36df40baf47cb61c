// What could be changed about how a job is laid out and computed: one thing at a time, everything else as it is, or two
// of them together. What hangs on a change follows it: the data-parallel degree uses all GPUs, a micro-batch divides
// what a replica has to do, a schedule has chunks as it needs them. The job does not change: model, GPUs, batch.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace orrery::tools {

/// Of a scenario, what its what-ifs follow from.
struct Arrangement {
  std::int64_t gpus = 1;
  workloads::Model model;
  workloads::Parallelism layout;
  workloads::Batch batch;
  workloads::Method method;
  workloads::Overlap overlap;
  bool balances_layers = false;
  std::string swapped_kinds;  // cluster.others with the stages of two kinds of nodes changed about; empty: one kind
  calibration::HostCosts host;
  bool names_features = false;  // the scenario lists features of its software, which a list of ours would replace
};
Arrangement arrangement_of(const scenarios::Scenario& scenario);

struct WhatIf {
  std::string kind;                        // what is changed, as in "micro-batch"; of two together "a and b"
  std::map<std::string, std::string> set;  // dotted keys and values, without what follows from them
  bool numerics = false;                   // what training computes changes, not only how
  std::string needs = {};                  // what the training framework has to be able to do; empty: the usual
};

/// All single changes that could run, most of them worse than what it has: every value of a degree that
/// divides the GPUs, not only the next one, as the best may lie behind worse ones.
std::vector<WhatIf> what_ifs(const Arrangement& here);

/// Both changes together; nothing where they are of the same kind or change the same key.
std::optional<WhatIf> joined(const WhatIf& a, const WhatIf& b);

/// "key.path=value" for everything that the change lays over the job's scenario, what follows from it included; nothing
/// where the degrees do not divide the GPUs, or no micro-batch divides the batch.
std::optional<std::vector<std::string>> assignments(const Arrangement& here, const WhatIf& what_if);

}  // namespace orrery::tools
