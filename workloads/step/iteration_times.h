// What an iteration of an inference engine takes: the kernels of a forward pass (workloads/model/served_pass.h) at the
// batch's sizes, and the host. Tabulated on demand: layers by tokens, the head by sampled sequences, attention of
// decoding rows by sequences and keys, so that a loop of requests asks a table and no model.
//
// On a stream kernels follow each other, so an iteration is a sum of parts that go by different sizes. With several
// stages the batch is split over them and travels at a stage's pace; with several attention groups a batch is dealt out
// to them, and the fullest counts. Left out: exchanges between nodes inside a tensor group, two micro-batches
// overlapped, the skew of unequal caches.
#pragma once

#include <cstdint>
#include <vector>

#include "calibration/serving_engine.h"
#include "workloads/model/served_pass.h"
#include "workloads/model/tokens.h"
#include "workloads/runs/serving/outcome.h"
#include "workloads/runs/serving/step_times.h"

namespace orrery::workloads {

/// Seconds of GPU time by what they wait for.
struct UseOfTime {
  double compute = 0, memory = 0, communication = 0, host = 0, padding = 0;
  double sum() const { return compute + memory + communication + host + padding; }
  UseOfTime& operator+=(const UseOfTime& other);
  friend UseOfTime operator*(UseOfTime use, double times);
};

/// What a replica is.
struct ServedReplica {
  Model model;
  ServedLayout layout;
  ServedPrecision precision;
  calibration::ServingEngine engine;
  std::int64_t gpus_per_node = 8;
  double nic_rate = 50e9, nic_latency = 5e-6;  // bytes/s and seconds between stages on different nodes
};

class IterationTimes : public serving::StepTimes {
 public:
  IterationTimes(ServedReplica replica, calibration::ServingKernels kernels);

  serving::Segment decode(std::int64_t sequences, std::int64_t keys) override;
  serving::Time mixed(const serving::Mixed& batch) override;

  /// The same without tables, in seconds: what the tables are tested against.
  double seconds(const PassTokens& tokens) const;
  /// Of so many iterations that are alike in the mean.
  UseOfTime use_of(const serving::Work& work) const;
  /// FLOPs and bytes of memory of a GPU for them.
  struct Traffic {
    double flops = 0, bytes = 0;
  };
  Traffic traffic_of(const serving::Work& work) const;

  const ServedPass& pass() const { return pass_; }
  const ServedReplica& replica() const { return replica_; }
  const calibration::ServingKernels& kernels() const { return kernels_; }

 private:
  struct Node {
    serving::Time time = -1;
  };
  /// Rows of a rank and the sequences on it.
  double share_of(double count) const;
  UseOfTime layers(double rows, bool captured) const;
  UseOfTime head(double sampled) const;
  double attention(double sequences, double keys) const;
  double prompts(const std::vector<calibration::PromptPiece>& pieces) const;
  double host_bound(double gpu, double sequences, double rows, bool has_prompts) const;
  double layers_at(std::int64_t rows);
  double head_at(std::int64_t sampled);
  double attention_at(std::int64_t sequences, std::int64_t keys);
  double decode_seconds(std::int64_t sequences, double keys) const;
  double kernels_of_pass() const;

  ServedReplica replica_;
  calibration::ServingKernels kernels_;
  ServedPass pass_;
  double sustained_ = 1;            // products of many rows in a loaded device over those of a short benchmark
  std::vector<std::int64_t> grid_;  // of keys
  std::vector<std::vector<serving::Time>> decode_;  // by sequences and node of the grid; -1: not asked yet
  std::vector<double> layers_, layers_far_, head_;  // seconds; negative: not asked yet
  std::vector<std::vector<double>> attention_;      // by sequences and node
};

}  // namespace orrery::workloads
