// See megatron_forks.h. Left out: Megablocks' shared experts and widths cut over ranks, where there are more ranks than
// experts; zero bubbles with activations sent to the host.
#include "tools/import/megatron_forks.h"

#include <fmt/format.h>

#include <numeric>

namespace orrery::tools {

using sim::Settings;

bool is_slime(const Launch& launch) { return launch.has("actor-num-nodes"); }

bool is_megablocks(const Launch& launch) { return launch.has("moe-num-experts"); }

void take_megablocks(Launch& launch, Draft& draft) {
  draft.set("model.top_k", launch.count("moe-top-k").value_or(1), launch.place("moe-top-k"));
  draft.set("experts.dispatcher", std::string("alltoall"));
  draft.set("experts.grouped_gemm", true);
  const std::optional<Settings> room = launch.value("moe-capacity-factor");  // 0: none is dropped, as without it
  if (!room || room->as_number(0, 1e6) == 0) return;
  draft.set("experts.capacity_factor", room->text(), room->place());
  draft.set("experts.pad_to_capacity", true);
}

void take_megablocks_ranks(Launch& launch, Draft& draft, std::int64_t replicas) {
  if (!is_megablocks(launch) || !launch.flag("moe-expert-model-parallelism")) return;
  const std::int64_t experts = draft.document().at("model").get_int("experts", 1);
  draft.set("parallelism.expert", std::gcd(experts, std::max<std::int64_t>(1, replicas)));
}

void take_zero_bubble(Launch& launch, Draft& draft, std::int64_t stages) {
  const bool v = launch.flag("zero-bubble-v-schedule"), split = launch.flag("enable-zero-bubble");
  const std::optional<Settings> setup = launch.value("zero-bubble-v-schedule-mem-setup");
  const std::optional<Settings> limit = launch.value("zero-bubble-max-pending-backward");
  const bool validated = launch.flag("enable-optimizer-post-validation");
  if (!v && !split) return;
  if (stages == 1) return draft.ignored("--enable-zero-bubble", "without effect: there is one stage");
  if (v) {
    const std::string memory = setup ? setup->as_choice({"min", "half", "zb"}) : "zb";
    draft.set("parallelism.virtual_pipeline", std::int64_t{2});
    draft.set("parallelism.schedule", memory == "zb" ? std::string("zb_v") : "v_" + memory);
  } else {
    const bool counted = limit && limit->text().find_first_not_of("0123456789") == std::string::npos;
    const bool twice = counted && limit->as_int(0, 1'000'000'000) >= 2 * stages;
    draft.set("parallelism.schedule", std::string(twice ? "zb_h2" : "zb_h1"));
    if (limit && !counted)
      draft.ignored(fmt::format("--zero-bubble-max-pending-backward {}", limit->text()), "taken as one of each stage");
  }
  if (validated) draft.set("parallelism.optimizer_post_validation", true);
}

}  // namespace orrery::tools
