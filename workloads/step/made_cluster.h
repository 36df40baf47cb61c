// The cluster of a site, made once. Loading a scenario makes it, to see whether it can be wired, and simulating its
// step asks for the same: of a million GPUs each time takes as long as everything else. A memo, not state: what a site
// comes to hangs on the site alone. Left out: sites before the last one, which studies keep in a StepCache of theirs.
#pragma once

#include <memory>

#include "workloads/job/job.h"

namespace orrery::workloads {

/// As cluster_of(), for several threads at a time; what throws is not remembered.
std::shared_ptr<const topology::Cluster> made_cluster(const Site& site, const sim::Settings& where = {});

}  // namespace orrery::workloads
