// Facts of records as keys. See extras.h.
#include "scenarios/extras.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

#include "scenarios/load.h"

namespace orrery::scenarios {

using sim::Settings;

namespace {

struct Fact {
  const char *name, *key;
};
constexpr std::array kFacts{Fact{"dispatcher", "experts.dispatcher"},
                            Fact{"dispatcher_sms", "experts.dispatcher_sms"},
                            Fact{"grouped_gemm", "experts.grouped_gemm"},
                            Fact{"capacity_factor", "experts.capacity_factor"},
                            Fact{"pad_to_capacity", "experts.pad_to_capacity"},
                            Fact{"fused_expert_mlp", "experts.fused_mlp"},
                            Fact{"paged_stash", "experts.paged_stash"},
                            Fact{"fused_router", "experts.fused_router"},
                            Fact{"router_fp32", "experts.router_fp32"},
                            Fact{"routing_skew", "experts.skew"},
                            Fact{"a2a_overlap", "overlap.experts"},
                            Fact{"cpu_offload_layers", "offload.activation_layers"},
                            Fact{"context_exchange", "parallelism.context_method"},
                            Fact{"async_tp", "overlap.tensor"}};

/// How many times what stands at `at` is repeated: "t*4", "(t|)*29".
std::size_t times(const std::string& layout, std::size_t& at) {
  if (at >= layout.size() || layout[at] != '*') return 1;
  std::size_t count = 0;
  for (++at; at < layout.size() && std::isdigit(static_cast<unsigned char>(layout[at])) != 0; ++at)
    count = 10 * count + static_cast<std::size_t>(layout[at] - '0');
  return count;
}

/// The layout with its repetitions written out.
std::string spelled_out(const std::string& layout) {
  std::string out;
  for (std::size_t at = 0; at < layout.size();) {
    std::string part(1, layout[at]);
    if (layout[at] == '(') {
      const std::size_t end = layout.find(')', at);
      part = spelled_out(layout.substr(at + 1, end == std::string::npos ? end : end - at - 1));
      at = end == std::string::npos ? layout.size() : end + 1;
    } else {
      ++at;
    }
    for (std::size_t n = times(layout, at); n > 0; --n) out += part;
  }
  return out;
}

/// Megatron-Core's --pipeline-model-parallel-layout, as in "Et*4|(t*4|)*14tmL": of every piece of the pipeline, the
/// embedding (E), layers (t), layers that predict further tokens (m) and the loss (L). Returns the layers of each.
Settings stage_layers(const Settings& layout) {
  const std::string text = spelled_out(layout.text());
  Settings list = Settings::sequence(layout.place());
  std::size_t layers = 0;
  const auto end_piece = [&] {
    list.append(Settings::scalar(std::to_string(layers), layout.place()));
    layers = 0;
  };
  for (const char c : text) {
    if (c == '|') {
      end_piece();
    } else if (c == 't') {
      ++layers;
    } else if (c != 'E' && c != 'm' && c != 'L' && c != ',') {
      layout.expected("a layout of E, t, m and L with | between stages, as in 'Et*4|(t*4|)*14tmL'");
    }
  }
  end_piece();
  return list;
}

Settings selective(const Settings& modules) {
  Settings recompute = Settings::mapping(modules.place());
  recompute.set("kind", Settings::scalar("selective", modules.place()));
  recompute.set("modules", modules);
  return recompute;
}

/// Layers of each part of a pipeline that a record of full or partial recomputation counts (--recompute-method block),
/// as "2" or "1 layer of each virtual stage"; in other words they stay a note.
bool recompute_some(const Settings& fact, Settings& document) {
  const Settings* kind = document.find("recompute");
  const std::string& text = fact.text();
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string unit = text.substr(digits);
  const bool counted =
      digits > 0 && (unit.empty() || unit == " layer of each virtual stage" || unit == " layers of each virtual stage");
  if (!counted || kind == nullptr || !kind->is_scalar()) return false;
  if (kind->text() != "full" && kind->text() != "partial") return false;
  Settings recompute = Settings::mapping(fact.place());
  recompute.set("kind", Settings::scalar("full", fact.place()));
  recompute.set("layers", Settings::scalar(text.substr(0, digits), fact.place()));
  document.set("recompute", recompute);
  return true;
}

/// Experts that drop what they have no room for: NeMo's recipes set a factor of 1 and pad
/// (NVIDIA-NeMo/Megatron-Bridge, apply_moe_token_drop).
void drop_tokens(const Settings& fact, Settings& document) {
  if (!fact.as_bool()) return;
  if (document.find_path("experts.capacity_factor") == nullptr)
    document.set_path("experts.capacity_factor", Settings::scalar("1", fact.place()));
  if (document.find_path("experts.pad_to_capacity") == nullptr)
    document.set_path("experts.pad_to_capacity", Settings::scalar("true", fact.place()));
}

/// Sets a key of the software that the document names or changes already, unless it is set.
void set_software(Settings& document, const std::string& key, const Settings& value) {
  const Settings* software = document.find("software");
  if (software != nullptr && software->is_mapping() && software->find(key) != nullptr) return;
  if (software != nullptr && !software->is_mapping()) {
    Settings changed = Settings::mapping(software->place());
    changed.set("inherits", *software);
    document.set("software", std::move(changed));
  }
  document.set_path("software." + key, value);
}

/// Dropout at some rate: what it costs does not depend on the rate.
void drop_elements(const Settings& fact, Settings& document) {
  if (fact.as_number() > 0) set_software(document, "dropout", Settings::scalar("true", fact.place()));
}

/// Layers, or the whole step, replayed as CUDA graphs; or, of layers of experts, the parts whose sizes routing leaves
/// alone (Megatron-Core, --cuda-graph-scope).
bool replay_graphs(const Settings& fact, Settings& document) {
  const std::string& text = fact.text();
  if (text == "false") return true;
  const bool whole = text == "true" || text.ends_with("full_iteration");
  const bool routing = text.find("moe_router") != std::string::npos;
  if (!whole && !routing) return false;
  if (!whole) {  // what the host does around a layer of experts is what is replayed
    set_software(document, "expert_layer_host", Settings::scalar("0 us", fact.place()));
    return true;
  }
  Settings features = Settings::sequence(fact.place());
  features.append(Settings::scalar("cuda-graphs", fact.place()));
  set_software(document, "features", features);
  return true;
}

/// TorchTitan without its compiler: norm and activation as eager PyTorch runs them.
void run_eagerly(const Settings& fact, Settings& document) {
  if (fact.as_bool()) return;
  const auto set = [&](const char* key, const char* value) {
    set_software(document, key, Settings::scalar(value, fact.place()));
  };
  set("activation_in_steps", "true");
  set("fused_layer_norm", "false");
  set("compiled_blocks", "false");
}

void finetune(const char* key, const Settings& fact, Settings& document) {
  if (document.find_path(fmt::format("finetune.{}", key)) == nullptr)
    document.set_path(fmt::format("finetune.{}", key), fact);
}

/// Whether the fact has a key; then it stands there.
bool moved(const std::string& name, const Settings& fact, Settings& document) {
  for (const Fact& known : kFacts) {
    if (name != known.name) continue;
    if (document.find_path(known.key) == nullptr) document.set_path(known.key, fact);
    return true;
  }
  if (name == "packed_sequences" && fact.is_scalar() && std::isdigit(static_cast<unsigned char>(fact.text()[0])) != 0) {
    if (document.find_path("batch.document_tokens") == nullptr) document.set_path("batch.document_tokens", fact);
    return true;
  }
  if (name == "token_drop") {
    drop_tokens(fact, document);
    return true;
  }
  if (name == "finetune" || name == "lora_rank") {
    finetune(name == "finetune" ? "kind" : "rank", fact, document);
    return true;
  }
  if (name == "cuda_graph" && fact.is_scalar()) return replay_graphs(fact, document);
  if (name == "compile") {
    run_eagerly(fact, document);
    return true;
  }
  if (name == "dropout") {
    drop_elements(fact, document);
    return true;
  }
  if (name == "attention_kernel" || name == "gradient_dtype" || name == "z_loss") {
    set_software(document, name, fact);
    return true;
  }
  if (name == "fused_cross_entropy") {  // Megatron-Core's own, unless the software says otherwise
    set_software(document, "compiled_cross_entropy", fact);
    return true;
  }
  if (name == "fp8_param_gather") {
    if (fact.as_bool()) set_software(document, "parameter_gather_dtype", Settings::scalar("fp8", fact.place()));
    return true;
  }
  if (name == "recompute_modules" && fact.is_sequence()) {
    const Settings* recompute = document.find("recompute");
    if (recompute == nullptr || recompute->is_scalar()) document.set("recompute", selective(fact));
    return true;
  }
  if (name == "recompute_layers" && fact.is_scalar()) return recompute_some(fact, document);
  if (name == "selective_kind" && fact.is_scalar() && fact.text().starts_with("per op")) {
    Settings modules = Settings::sequence(fact.place());
    modules.append(Settings::scalar("every_second_product", fact.place()));
    const Settings* recompute = document.find("recompute");
    if (recompute == nullptr || recompute->is_scalar()) document.set("recompute", selective(modules));
    return true;
  }
  if (name == "pp_layout" && fact.is_scalar()) {
    if (document.find_path("parallelism.stage_layers") == nullptr)
      document.set_path("parallelism.stage_layers", stage_layers(fact));
    return true;
  }
  return name == "routing" && fact.is_scalar() && fact.text() == "balanced";  // which is the default
}

}  // namespace

Settings with_extras(const Settings& document) {
  const Settings* extra = document.find("extra");
  if (extra == nullptr || !extra->is_mapping() || document.find("measured") == nullptr) return document;
  Settings changed = document;
  Settings rest = Settings::mapping(extra->place());
  for (const auto& [name, fact] : extra->members()) {
    if (!moved(name, fact, changed)) rest.set(name, fact);
  }
  changed.set("extra", std::move(rest));
  return changed;
}

}  // namespace orrery::scenarios
