// Left out, because a trace of one layout cannot tell it: checked_call_per_rank (one size of group), pipeline_slowdown
// (the slowest of many GPUs), bucket_elements_per_rank, step_host (outside of the step), memory. Bounds leave room for
// hosts ten times slower than any generation that ships. Kernels per layer are shared out over its two halves, so that
// they count in twos.
#include "tools/learn/learnt_keys.h"

namespace orrery::tools {

const std::vector<LearntKey>& learnt_keys() {
  static const std::vector<LearntKey> kKeys = {
      {"kernel_issue", "us", 0, 100, {"host.forward", "host.optimizer"}},
      {"backward_issue_share", "", 0, 4, {"host.backward"}},
      {"microbatch_host", "us", 0, 50'000, {"host.forward_begin"}},
      {"step_begin_host", "us", 0, 500'000, {"host.step_begin"}},
      {"expert_layer_host", "us", 0, 50'000, {"host.experts."}},
      {"expert_dispatch_host", "us", 0, 50'000, {"host.experts."}},
      {"transfer_issue", "us", 0, 500, {"host.call.other"}},
      {"tensor_call", "us", 0, 2'000, {"host.call.tensor"}},
      {"extra_kernels_per_layer", "", 0, 100, {"count.forward", "count.backward"}, 2},
      {"qkv_copies", "", 0, 20, {"time.forward.copies"}},
      {"qkv_gradient_copies", "", 0, 20, {"time.backward.copies"}},
      {"training_metrics", "", 0, 10, {"time.forward.softmax"}, 1},
      {"compute_slowdown_under_collective", "", 1, 4, {"slow.data"}},
      {"tensor_overlap_slowdown", "", 1, 4, {"slow.tensor", "products."}},
      {"collective_base", "us", 0, 200, {"call."}},
      {"collective_step_ring", "us", 0, 100, {"call."}},
      {"collective_step_node", "us", 0, 50, {"call."}},
      {"collective_step_tree", "us", 0, 100, {"call."}},
      {"exchange_share", "", 0.05, 1, {"call.all-to-all"}},
  };
  return kKeys;
}

}  // namespace orrery::tools
