// A time that no step of a job can undercut, without planning it: for searches that need not simulate what cannot win.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "topology/cluster.h"
#include "workloads/job/job_values.h"

namespace orrery::workloads {

/// Bounds for jobs; remembers what several share. Not for several threads at a time.
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
  /// What the lie of a layout's groups on a cluster follows from. All fields of a key are compared.
  struct PlacesKey {
    GroupLayout layout;
    Placement placement;
    Site site;
    bool operator==(const PlacesKey&) const = default;
  };
  struct Places {
    std::shared_ptr<const topology::Cluster> cluster;
    GroupShapes shapes;
    double tensor_rate = 0, data_rate = 0, expert_rate = 0;  // bytes/s of a group across nodes, at most
  };
  /// What the costs of layers follow from.
  struct CostsKey {
    Split split;
    Computation computation;
    PassCosts passes;
    bool by_unit = false, takes_turns = false;
    PlacesKey places;
    Model model;
    calibration::DeviceProfile device;
    calibration::Software software;
    bool operator==(const CostsKey&) const = default;
  };

  /// What the layers of a job follow from.
  struct NetworkKey {
    Split split;
    Computation computation;
    Model model;
    bool operator==(const NetworkKey&) const = default;
  };
  /// And their places in its pipeline.
  struct SplitKey {
    NetworkKey layers;
    ChunkOrder order{};  // of the chunk map, with the two numbers that follow
    std::int64_t stages = 1, chunks = 1;
    calibration::LayerSharing sharing{};
    std::vector<std::int64_t> stage_layers;
    bool operator==(const SplitKey&) const = default;
  };

  static Load load_of(const std::vector<PassItem>& items, const Places& places, bool by_unit, bool takes_turns);
  static Load stage_load(const Schedule& schedule, const PipelineShape& shape, const StageLayout& stage,
                         const Costs& costs);
  std::shared_ptr<const topology::Cluster> cluster_of(const Site& site);
  const Network& network_of(const NetworkKey& key);
  const LayerSplit& split_at(const SplitKey& key);
  const Places& places_of(const PlacesKey& key);
  const Costs& costs_of(const CostsKey& key);

  /// Looked up by a number that keys of different layouts hardly share, then by comparing all of a key: a search knows
  /// thousands.
  template <class Key, class Value>
  using Known = std::unordered_map<std::size_t, std::list<std::pair<Key, Value>>>;
  Known<Site, std::shared_ptr<const topology::Cluster>> clusters_;
  Known<PlacesKey, Places> places_;
  Known<CostsKey, Costs> costs_;
  Known<NetworkKey, Network> networks_;
  std::list<std::pair<SplitKey, LayerSplit>> splits_;  // asked for last first
};

}  // namespace orrery::workloads
