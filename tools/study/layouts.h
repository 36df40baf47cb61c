// The layouts of a job that a search goes through: every tensor x pipeline x data x micro-batch x chunks x recompute x
// sharding x sequence-parallel choice that uses all GPUs of a cluster of a given size.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/scenario.h"
#include "tools/study/offers.h"
#include "tools/study/variation.h"
#include "workloads/job/result.h"
#include "workloads/step/steady_clock.h"
#include "workloads/step/step_cache.h"

namespace orrery::tools {

struct Layout {
  std::int64_t gpus = 1, tensor = 1, pipeline = 1, chunks = 1, data = 1, micro = 1;
  std::int64_t expert = 0, expert_tensor = 0;   // 0: the model has no experts
  std::int64_t tensor_in = 0, shard_group = 0;  // 0: as the scenario says
  bool sequence_parallel = false;
  std::string sharding, recompute, schedule;  // as the language spells them
  std::string dispatcher;                     // likewise; empty: as the scenario says
};

/// The keys that a layout decides, with their values as text: what --set needs to run it again. All layouts of a space
/// have the same keys.
std::vector<std::pair<std::string, std::string>> settings_of(const Layout& layout);

/// Divisors of a whole number above 0, in order.
std::vector<std::int64_t> divisors(std::int64_t n);
/// Chunks per stage that cut the layers of a model, or layers, embedding and head, into equal parts; one chunk always.
std::vector<std::int64_t> chunk_counts(std::int64_t layers, std::int64_t pipeline);

/// What a scenario says beside its layout. Where the layout that it has cannot run, one GPU can tell; where that cannot
/// run either, the scenario's own complaint is the one that is thrown, a sim::UserError.
workloads::Job layoutless_job(const sim::Settings& document);

/// How far a search goes where no variation says so; 0: as far as layouts divide.
struct Reach {
  std::int64_t tensor = 0;       // ranks of a tensor group
  std::int64_t pass_tokens = 0;  // tokens of a micro-batch; one sequence always
  bool in_sequence = false;      // tensor groups with sequence parallelism alone
  bool any() const { return tensor > 0 || pass_tokens > 0; }
};

class LayoutSpace {
 public:
  /// `document`: the scenario. `variations` replace the values that are tried of a key; one of any other key than those
  /// of settings_of() is refused with a sim::UserError.
  LayoutSpace(sim::Settings document, const std::vector<Variation>& variations, const Reach& reach = {});

  /// What is tried without a variation: every divisor of the GPUs for tensor, pipeline and data; micro-batches that
  /// divide a replica's batch; one chunk per stage, or as many as cut the layers (or layers, embedding and head) into
  /// equal parts; every number of expert ranks that divides the experts and the ranks of a stage, with whole experts or
  /// experts cut over the tensor group; 1f1b, and interleaved_1f1b for more than one chunk; no sharding where nothing
  /// is replicated, and no sequence parallelism in a tensor group of one; and of all this, what the scenario's software
  /// offers. The order is that of Layout's fields, the
  /// first slowest.
  const std::vector<Layout>& layouts() const { return layouts_; }

  /// The scenario laid out so, without evaluation passes. Throws sim::UserError where the language refuses it. For any
  /// number of threads.
  scenarios::Scenario load(const Layout& layout);
  /// What simulated layouts share.
  workloads::StepCache& cache() { return cache_; }
  const Offers& offers() const { return offers_; }

  /// Where the time of a step goes, and what is assumed of it.
  struct Detail {
    std::array<double, workloads::kCategories> breakdown_s{};
    std::vector<std::string> assumptions;
  };
  /// From now on the first layouts that are simulated are asked for their details, which a choice among the best needs:
  /// a search that simulates few has simulated these, and need not do it again.
  void keep_details() { keeps_details_ = true; }
  bool wants_detail();
  void keep(std::size_t layout, const workloads::StepReport& report);
  /// Nothing where it was not kept.
  const Detail* detail_of(std::size_t layout) const;

 private:
  void enumerate(std::int64_t gpus);
  void enumerate_experts(Layout layout);
  void enumerate_groups(Layout layout);
  void enumerate_rest(Layout layout);
  std::vector<std::int64_t> numbers(const char* key, std::vector<std::int64_t> otherwise) const;
  std::vector<std::string> words(const char* key, std::vector<std::string> otherwise) const;

  /// The scenario as a layout changed it: a search goes through layouts that differ from the last in a key or two.
  struct Laid {
    sim::Settings document;
    std::vector<std::pair<std::string, std::string>> settings;
  };
  Laid laid_out(const Layout& layout);

  static constexpr std::size_t kMostDetails = 16;
  static constexpr std::size_t kMostCached = 256;  // of 12,288 ranks, folded: about as many megabytes

  sim::Settings document_;
  Offers offers_;
  Reach reach_;
  std::map<std::string, std::vector<std::string>> given_;
  workloads::Model model_;
  std::int64_t global_ = 1, others_ = 1;  // sequences per step; ranks per layer beside tensor, pipeline and data
  std::vector<Layout> layouts_;
  workloads::StepCache cache_{kMostCached};
  /// What load_variant needs.
  struct Loaded {
    scenarios::Scenario scenario;
    workloads::SteadyClocks clocks;
  };
  std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<Loaded>> machines_;  // by GPUs
  std::vector<Laid> laid_;                                    // one for each thread that has none in use
  bool keeps_details_ = false;
  std::map<std::size_t, Detail> details_;  // by layout
};

}  // namespace orrery::tools
