// See megatron_site.h. Left out: what a cluster's own names of partitions and features mean.
#include "tools/import/megatron_site.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim/error.h"
#include "tools/import/known_devices.h"

namespace orrery::tools {

using sim::UserError;

std::string take_device(const Launch& launch, Draft& draft) {
  std::string unknown;
  for (const char* variable : {"SBATCH_CONSTRAINT", "SBATCH_GRES", "SBATCH_PARTITION"}) {
    const std::string text = launch.text_of_variable(variable);
    if (const KnownDevice* named = device_in(text); named != nullptr) {
      draft.set("cluster.device", std::string(named->device));
      draft.assumed("cluster.device", fmt::format("{}, as #SBATCH asks for {}", named->device, text));
      return std::string(named->device);
    }
    if (!text.empty() && variable != std::string("SBATCH_PARTITION")) unknown += (unknown.empty() ? "" : ", ") + text;
  }
  if (const KnownDevice* named = device_in(launch.file_name()); named != nullptr) {
    draft.set("cluster.device", std::string(named->device));
    draft.assumed("cluster.device", fmt::format("{}, by the script's name", named->device));
    return std::string(named->device);
  }
  draft.set("cluster.device", std::string("h100-sxm-80gb"));
  draft.assumed("cluster.device", "h100-sxm-80gb; --set cluster.device=NAME, cluster.fabric=NAME for another machine");
  if (!unknown.empty())
    draft.ignored("#SBATCH asks for " + unknown, "no board that is known by that name, if it is one");
  return "h100-sxm-80gb";
}

void take_environment(const Launch& launch, Draft& draft) {
  if (launch.text_of_variable("CUDA_LAUNCH_BLOCKING") == "1") {
    const bool others = draft.has("software.features");
    if (!others) draft.apply("software.features=[blocking-launches]");
    draft.first(fmt::format("CUDA_LAUNCH_BLOCKING=1: the host waits for every kernel{}",
                            others ? "; not simulated" : ", as is simulated"));
  }
  const bool no_fused = launch.text_of_variable("NVTE_FUSED_ATTN") == "0",
             no_flash = launch.text_of_variable("NVTE_FLASH_ATTN") == "0";
  if (no_fused && no_flash && !launch.has("attention-backend")) draft.set("attention", std::string("unfused"));
  if (no_fused != no_flash)
    draft.ignored(no_fused ? "NVTE_FUSED_ATTN=0" : "NVTE_FLASH_ATTN=0",
                  "attention in one kernel, of the other library");
  std::vector<std::string> exchanges;
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SHM_DISABLE", "NCCL_ALGO", "NCCL_PROTO",
                           "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_NVLS_ENABLE", "NCCL_NET_GDR_LEVEL"}) {
    const std::string text = launch.text_of_variable(name);
    const bool usual = text.empty() || (std::string(name).ends_with("_DISABLE") && text == "0");
    if (!usual) exchanges.push_back(fmt::format("{}={}", name, text));
  }
  if (!exchanges.empty())
    draft.ignored(fmt::format("{}", fmt::join(exchanges, ", ")), "exchanges run as NCCL chooses by itself here");
}

void remark_on_reinforcement(const Launch& launch, Draft& draft) {
  static constexpr std::array<const char*, 4> kMarks{"rollout-batch-size", "num-rollout", "perform-rl-step",
                                                     "grpo-prompts-per-step"};
  const auto mark = std::find_if(kMarks.begin(), kMarks.end(), [&](const char* flag) { return launch.has(flag); });
  if (mark == kMarks.end()) return;
  if (!launch.has("seq-length") && !launch.has("encoder-seq-length") && !launch.is_set("model.seq"))
    throw UserError(launch.place(*mark), fmt::format("--{}", *mark),
                    "starts a step of reinforcement learning, whose lengths no flag says, expected --set model.seq=N "
                    "for its training alone, or a scenario with a section rl: (orrery help rl)");
  draft.first(
      fmt::format("--{}: of a step of reinforcement learning the training alone is simulated; generation is a "
                  "section rl: of a scenario (orrery help rl)",
                  *mark));
}

}  // namespace orrery::tools
