// A time that no step of a job can undercut, without planning it: for searches that need not simulate what cannot win.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "topology/cluster.h"
#include "workloads/job.h"
#include "workloads/pass_template.h"

namespace orrery::workloads {

/// Bounds for jobs that differ in the number of GPUs and in what scenarios::load_variant reads; remembers what they
/// share. Not for several threads at a time.
class StepBound {
 public:
  /// At most the simulated iteration time; see step_bound.cc for the derivation. Zero for jobs with perturbations.
  sim::Duration of(const Job& job);

 private:
  /// What one rank does at least, for one micro-batch or more, in picoseconds by resource.
  struct Load {
    double compute = 0;  // the compute stream, with the collectives that it must wait for
    double tensor = 0;   // the stream of tensor collectives
    double issue = 0;    // the host
    Load& operator+=(const Load& other);
    Load operator*(double times) const;
  };
  /// Forward and backward passes, by row of Network::kinds.
  struct LayerCosts {
    std::vector<Load> kinds;
    Load of(const Network& network, const LayerRange& range) const;
  };
  struct Costs {
    LayerCosts whole;  // the backward pass in one piece
    LayerCosts split;  // cut in two, where the schedule does so
    Load batch;        // what starts every forward pass
  };
  /// How the groups of a layout lie on the cluster.
  struct Places {
    GroupShapes shapes;
    double tensor_rate = 0, data_rate = 0;  // bytes/s that a rank of a group across nodes sends at most
  };
  static Load load_of(const std::vector<PassItem>& items, const Job& job, const GroupShape& group, double across_nodes,
                      bool by_unit);
  const topology::Cluster& cluster_of(const Job& job);
  const Places& places_of(const Job& job);
  const Costs& costs_of(const Job& job, const Network& network);
  /// All passes of a stage.
  Load stage_load(const Job& job, const Costs& costs, const LayerSplit& split, std::int64_t stage) const;
  struct DataLoad {
    double beside = 0;  // ps of the data stream, beside the passes
    double within = 0;  // ps between passes, which wait
    double reduce = 0;  // ps after the passes, before the optimizer
    double gather = 0;  // ps after the optimizer
  };
  /// Of a stage that holds so many layers and parameters, `layer` of them each.
  DataLoad data_load(const Job& job, double layers, double layer, double parameters);

  std::map<std::int64_t, std::unique_ptr<topology::Cluster>> clusters_;
  std::map<std::string, Places> places_;
  std::map<std::string, Costs> costs_;
};

}  // namespace orrery::workloads
