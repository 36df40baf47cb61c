// With P parameters, n owners, w of them sharing weights, g gradients, s a second copy, m micro-batches and r groups of
// owners: a pass gathers P over w (backward over s, if there is a second copy), and scatters P over g; once a step
// ranks add up P / g over n / g, and hand out P / w over n / w new parameters (MiCS, arXiv 2205.00119; ZeRO++, arXiv
// 2306.10209; Xu et al., arXiv 2501.04266).
#include "workloads/traffic/sharded_traffic.h"

#include "sim/real.h"

namespace orrery::workloads {

namespace {
using sim::real;
constexpr double kScale = 4.0 / 2048;  // bytes of a scale over the elements of its block
}  // namespace

void add_frozen_rows(const CommGroup& among, const ShardedRanks& ranks, double bytes, double microbatches,
                     TrafficRows& rows) {
  const double passes = microbatches * real(ranks.replicas);
  const CommGroup first = ranks.weights < ranks.owners ? CommGroup::weights : among;
  rows.add(first, CollectiveOp::all_gather, "frozen parameters, forward", ranks.weights, bytes,
           passes / real(ranks.weights), 1);
  const bool second = ranks.secondary > 0;
  const std::int64_t backward = second ? ranks.secondary : ranks.weights;
  rows.add(second ? CommGroup::secondary_weights : first, CollectiveOp::all_gather, "frozen parameters, backward",
           backward, bytes, passes / real(backward), 1);
}

void add_sharded_rows(const CommGroup& among, const CommGroup& across, const ShardedRanks& ranks,
                      const ShardedElements& elements, const calibration::FetchStyle& style,
                      const ShardedPasses& passes, TrafficRows& rows) {
  const double m = passes.gather, all = real(ranks.replicas), n = real(ranks.owners);
  const double fetched = style.quantised_fetches() ? 1 + kScale : elements.parameter;
  const double exchanged = style.quantised_reductions() ? 0.5 + kScale : elements.gradient;
  const bool apart = ranks.weights < ranks.owners, in_parts = ranks.gradients < ranks.owners;
  rows.add(in_parts ? CommGroup::partial_gradients : among, CollectiveOp::reduce_scatter, "gradients, backward",
           ranks.gradients, elements.whole * exchanged, passes.reduce * all / real(ranks.gradients), 1);
  if (in_parts)
    rows.add(CommGroup::gradient_parts, CollectiveOp::reduce_scatter, "gradients, between their groups",
             ranks.owners / ranks.gradients, elements.whole * elements.gradient / real(ranks.gradients),
             all / (n / real(ranks.gradients)), 0);
  if (ranks.replicas > ranks.owners)
    rows.add(across, CollectiveOp::all_reduce, "gradients, between shard groups", ranks.replicas / ranks.owners,
             elements.whole * elements.gradient, style.reduces_groups_once() ? 1 : passes.reduce, 0);
  const CommGroup first = apart ? CommGroup::weights : among;
  rows.add(first, CollectiveOp::all_gather, "parameters, forward", ranks.weights, elements.gathered.forward * fetched,
           m * all / real(ranks.weights), 1);
  const bool second = ranks.secondary > 0;
  const std::int64_t backward = second ? ranks.secondary : ranks.weights;
  rows.add(second ? CommGroup::secondary_weights : first, CollectiveOp::all_gather, "parameters, backward", backward,
           elements.gathered.backward * fetched, m * all / real(backward), 1);
  rows.add(among, CollectiveOp::all_gather, "parameters, after the step", ranks.owners,
           elements.gathered.after_step * elements.parameter, all / n, 0);
  if (apart)
    rows.add(CommGroup::new_weights, CollectiveOp::all_gather, "new parameters, after the step",
             ranks.owners / ranks.weights, elements.whole * elements.parameter / real(ranks.weights),
             all / (n / real(ranks.weights)), 0);
}

}  // namespace orrery::workloads
