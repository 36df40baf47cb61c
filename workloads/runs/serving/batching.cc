// The catalogue of policies.
#include "workloads/runs/serving/batching.h"

#include <array>

namespace orrery::serving {

std::span<const Batching* const> batching_policies() {
  static constexpr std::array<const Batching*, 5> kPolicies{
      &policies::vllm_v1, &policies::sglang, &policies::sglang_mixed, &policies::no_evict, &policies::max_utilization};
  return kPolicies;
}

const Batching* find_batching(std::string_view name) {
  for (const Batching* policy : batching_policies()) {
    if (policy->name == name) return policy;
  }
  return nullptr;
}

std::vector<std::string> batching_names() {
  std::vector<std::string> names;
  for (const Batching* policy : batching_policies()) names.emplace_back(policy->name);
  return names;
}

}  // namespace orrery::serving
