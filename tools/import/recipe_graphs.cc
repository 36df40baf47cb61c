// See recipe_graphs.h. Megatron-Core captures a layer's modules by a list of scopes, newer `cuda_graph_modules`, older
// `cuda_graph_scope` (NVIDIA/Megatron-LM, megatron/core/transformer/cuda_graphs.py, _layer_is_graphable;
// transformer_layer.py): attn, a layer's attention with its norm and residual sum; mamba, a whole Mamba layer;
// moe_router, its norm, router and, unless they run beside the dispatch, shared experts; moe_preprocess, the counts of
// tokens behind these; an empty list, every layer whole. `full_iteration` replays a step as one graph.
//
// Left out: mlp and moe, which capture dense MLPs and experts filled to a capacity.
#include "tools/import/recipe_graphs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace orrery::tools {

namespace {

using sim::Settings;

/// CudaGraphScope.attn and attn are one.
std::string scope_of(const std::string& word) {
  const std::size_t dot = word.rfind('.');
  return dot == std::string::npos ? word : word.substr(dot + 1);
}

}  // namespace

std::set<std::string> graph_scopes(const std::string& text) {
  std::set<std::string> scopes;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(", +[]", at), text.size());
    if (end > at) scopes.insert(scope_of(text.substr(at, end - at)));
    at = end + 1;
  }
  return scopes;
}

namespace {

/// A list, a text, or nothing.
std::set<std::string> scopes_of(const Settings* value) {
  std::set<std::string> scopes;
  if (value == nullptr) return scopes;
  if (value->is_sequence()) {
    for (const Settings& item : value->items())
      if (item.is_scalar()) scopes.insert(scope_of(item.text()));
    return scopes;
  }
  return value->is_scalar() ? graph_scopes(value->text()) : scopes;
}

}  // namespace

void take_recipe_graphs(Sections& config, Draft& draft, const std::string& at, bool mixture) {
  const std::string implementation = config.word({at + ".cuda_graph_impl"}, "none");
  const Settings* listed = config.any({at + ".cuda_graph_modules", at + ".cuda_graph_scope"});
  put_graphs(draft, implementation, scopes_of(listed), mixture, "cuda_graph_impl");
}

void put_graphs(Draft& draft, const std::string& implementation, const std::set<std::string>& scopes, bool mixture,
                const std::string& named) {
  if (implementation == "none") return;
  const auto has = [&](const char* scope) { return scopes.contains(scope); };
  if (implementation == "full_iteration" || has("full_iteration") || (scopes.empty() && !mixture))
    return draft.apply("software.features=[cuda-graphs]");
  const bool routes = has("moe_router") || has("moe_preprocess");
  std::set<std::string> left = scopes;
  if (routes || !mixture) {
    const bool mixers = has("mamba") || (!mixture && has("attn"));
    const char* graphs = mixers ? "mixers" : has("attn") ? "ahead_of_counts" : routes ? "router" : "none";
    draft.apply(fmt::format("software.graphs={}", graphs));
    for (const char* taken : {"mamba", "attn", "moe_router", "moe_preprocess"}) left.erase(taken);
  }
  if (!left.empty() || scopes.empty())
    draft.ignored(fmt::format("{} {} of {}", named, implementation,
                              left.empty() ? "every layer" : fmt::format("{}", fmt::join(left, ", "))),
                  "--set software.features=[cuda-graphs] replays all of a step");
}

}  // namespace orrery::tools
