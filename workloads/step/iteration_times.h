// What an iteration of an inference engine takes: the kernels of a forward pass (workloads/model/served_pass.h) at the
// batch's sizes, and the host. Tabulated on demand: layers by tokens, the head by sampled sequences, attention of
// decoding rows by sequences and keys, so that a loop of requests asks a table and no model.
//
// On a stream kernels follow each other, so an iteration is a sum of parts that go by different sizes. With several
// stages the batch is split over them and travels at a stage's pace; with several attention groups a batch is dealt out
// to them, and the fullest counts. Where a further layer drafts tokens, an iteration computes them with the one that is
// known, and times of decoding are those of one token. Left out: the skew of unequal caches, what an exchange takes of
// the multiprocessors while it runs beside another batch's kernels. GPUs of experts apart count as busy, and draw, as
// those of attention do.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "calibration/framework/serving_engine.h"
#include "workloads/model/sampling.h"
#include "workloads/model/served_pass.h"
#include "workloads/model/tokens.h"
#include "workloads/runs/serving/outcome.h"
#include "workloads/runs/serving/step_times.h"
#include "workloads/step/gpu_work.h"
#include "workloads/step/sums_across.h"

namespace orrery::workloads {

/// Tokens that a further layer of the model proposes in every iteration (multi-token prediction), and how many of them
/// turn out to be what the model says, in the mean.
struct Speculation {
  std::int64_t tokens = 0;
  double accepted = 0;
};

/// What a replica is.
struct ServedReplica {
  Model model;
  ServedLayout layout;
  ServedPrecision precision;
  calibration::ServingEngine engine;
  std::int64_t gpus_per_node = 8;
  double nic_rate = 50e9, nic_latency = 5e-6;  // bytes/s and seconds between stages on different nodes
  double nvlink_rate = 450e9;                  // bytes/s of a GPU within a node or domain
  calibration::ExchangeLibrary exchanges;      // null: low-latency kernels for any number of rows
  Speculation speculation;
  Sampling sampling;
  ServedPower power;                         // nothing known: full clock
  std::shared_ptr<const SumsAcross> across;  // null: no group lies on several nodes
  double tokens_per_iteration() const { return 1 + speculation.accepted; }
};

class IterationTimes : public serving::StepTimes {
 public:
  IterationTimes(ServedReplica replica, calibration::ServingKernels kernels);

  serving::Segment decode(std::int64_t sequences, std::int64_t keys) override;
  serving::Time mixed(const serving::Mixed& batch) override;

  /// The same without tables, in seconds: what the tables are tested against.
  double seconds(const PassTokens& tokens) const;
  /// What that is the sum of, in the order of a layer.
  std::vector<PartOfIteration> parts(const PassTokens& tokens) const;
  /// Of so many iterations that are alike in the mean: a GPU's seconds at the clock that power leaves, and its duty.
  GpuWork work_of(const serving::Work& work) const;

  const ServedPass& pass() const { return pass_; }
  const ServedReplica& replica() const { return replica_; }
  const calibration::ServingKernels& kernels() const { return kernels_; }

 private:
  using Part = PartOfIteration;
  using Use = PartOfIteration::Use;
  static constexpr double kAll = 1e9;  // more attention groups than a replica has
  /// Rows of an attention group in a pass of layers, whether they run as a captured graph, and how many groups have as
  /// many (at most all there are; the rest has none).
  struct PassRows {
    double each = 0;
    bool captured = false;
    double busy = kAll;
  };
  /// What a rank has of an iteration.
  struct Batch {
    std::vector<calibration::PromptPiece> pieces;
    double decodes = 0, here = 0, keys = 0;  // sequences of all, and this rank's with their keys
    double rows = 0, sampled = 0;
    PassRows computed;  // padded to a captured size
  };
  Batch batch_of(const PassTokens& tokens) const;
  /// Calls with each operation of the pass and how often it runs.
  template <class F>
  void each_op(F&& take) const {
    for (const ServedStack& stack : pass_.stacks) {
      for (const ServedOp& op : stack.ops) take(op, static_cast<double>(stack.layers));
    }
    for (const ServedOp& op : pass_.ends) take(op, 1);
  }
  Part of_rows(const ServedOp& op, const PassRows& pass) const;
  Part of_router(const ProductOp& op, double rows) const;
  Part of_sum(const SumOp& op, const PassRows& pass) const;
  /// `beside`: prompts of the same iteration.
  Part of_decodes(const ServedOp& op, double sequences, double keys,
                  std::span<const calibration::PromptPiece> beside = {}) const;
  double mixer_seconds(const StateOp& op, double sequences, double positions, calibration::ServedPhase phase) const;
  bool has_bends() const;
  Part of_prompts(const ServedOp& op, std::span<const calibration::PromptPiece> pieces) const;
  double sampling_seconds(double rows) const;
  double roofline(WeightType type, double flops, double bytes) const;
  double all_reduce(double gpus, double bytes, bool captured) const;
  double between_stages(double rows) const;
  double route(const RouteOp& op, const PassRows& pass) const;
  /// Whether all ranks see all rows, though experts are dealt out to them.
  bool gathers_all() const;
  double beside(const ServedStack& stack, const PassRows& rows) const;
  std::int64_t graph_of(double rows, bool has_prompts) const;
  double busy_groups(double all, double rows) const;
  /// Rows of a rank and the sequences on it.
  double share_of(double count) const;
  GpuWork layers(const PassRows& rows) const;
  GpuWork head(double sampled) const;
  GpuWork attention(double sequences, double keys, std::span<const calibration::PromptPiece> beside = {}) const;
  /// Of tokens that are drafted for so many sequences.
  GpuWork drafts(double sequences, double keys) const;
  /// Rows of sequences that decode: the token that is known, and those that are drafted.
  double checked() const { return 1 + as_real_tokens(replica_.speculation.tokens); }
  static double as_real_tokens(std::int64_t n) { return static_cast<double>(n); }
  /// What two halves of a batch save, of which one computes while rows of the other travel; or micro-batches that go to
  /// and fro between attention and experts, which may take longer than all at once (less than 0).
  double overlapped(const PassRows& rows, double sequences, double keys, double prompt_seconds) const;
  double to_and_fro(const PassRows& rows, double sequences, double keys, double prompt_seconds) const;
  GpuWork prompts(const std::vector<calibration::PromptPiece>& pieces) const;
  GpuWork work_of(const Batch& batch) const;
  double host_bound(double gpu, double sequences, double rows, bool has_prompts) const;
  const GpuWork& layers_at(const PassRows& rows);
  const GpuWork& head_at(std::int64_t sampled);
  GpuWork attention_at(std::int64_t sequences, std::int64_t keys);
  double decode_seconds(std::int64_t sequences, double keys) const;
  double kernels_of_pass() const;
  double iterations_of(const serving::Work& work) const;

  ServedReplica replica_;
  calibration::ServingKernels kernels_;
  ServedPass pass_;
  double sustained_ = 1;            // products of many rows in a loaded device over those of a short benchmark
  std::vector<std::int64_t> grid_;  // of keys
  std::vector<std::vector<serving::Time>> decode_;  // by sequences and node of the grid; -1: not asked yet
  // Nothing: not asked yet. By whether captured, busy groups (0: all) and rows; by sampled sequences; by sequences and
  // node.
  std::array<std::vector<std::vector<std::optional<GpuWork>>>, 2> layers_;
  std::vector<std::optional<GpuWork>> head_;
  struct Attended {
    double seconds = 0, flops = 0, bytes = 0;
  };
  static constexpr auto kAttended = static_cast<std::size_t>(calibration::DataType::bf16);  // what attention multiplies
  std::vector<std::vector<std::optional<Attended>>> attention_;
};

}  // namespace orrery::workloads
