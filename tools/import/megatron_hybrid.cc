// Blocks by letters (NVIDIA/Megatron-LM core_v0.16.0, megatron/core/ssm/mamba_hybrid_layer_allocation.py): bars cut the
// stages of a pipeline, and what stands behind a slash predicts further tokens. Left out: where the bars cut, and those
// layers.
#include "tools/import/megatron_hybrid.h"

#include <fmt/format.h>

#include <string_view>

#include "sim/printable.h"

namespace orrery::tools {

namespace {

using Members = std::vector<std::string_view>;

/// Members of the model become members of what stands at `at`, and of no other.
void move(Draft& draft, const std::string& at, const char* kind, bool used, const Members& members) {
  const sim::Settings model = draft.document().at("model");
  if (used) draft.set(fmt::format("model.{}.kind", at), std::string(kind));
  for (const std::string_view member : members) {
    const sim::Settings* value = model.find(member);
    if (value == nullptr) continue;
    if (used) draft.set(fmt::format("model.{}.{}", at, member), value->text(), value->place());
    draft.drop_of_model(member);
  }
}

}  // namespace

std::string hybrid_letters(const sim::Settings& pattern) {
  std::string letters;
  for (const char letter : pattern.text()) {
    if (letter == '/') break;
    if (letter == '|' || letter == ' ') continue;
    if (std::string_view("M*-E").find(letter) == std::string_view::npos)
      pattern.fail(fmt::format("got the letter {}, expected M, *, - or E", sim::printable(std::string(1, letter))));
    letters += letter;
  }
  constexpr std::size_t kMostLayers = 10'000;
  if (letters.empty() || letters.size() > kMostLayers)
    pattern.fail(fmt::format("got {} letters, expected 1 to {}", letters.size(), kMostLayers));
  return letters;
}

void put_hybrid(const std::string& letters, Draft& draft,
                const std::vector<std::pair<std::string, std::int64_t>>& mamba) {
  const auto has = [&](char letter) { return letters.find(letter) != std::string::npos; };
  std::string words;
  for (const char letter : letters) {
    if (!words.empty()) words += ' ';
    words += letter == '*' ? 'A' : letter == '-' ? 'F' : letter;
  }
  draft.set("model.blocks", words);
  if (has('M')) {
    draft.set("model.mixers.M.kind", std::string("mamba2"));
    for (const auto& [member, value] : mamba) draft.set(fmt::format("model.mixers.M.{}", member), value);
  }
  move(draft, "mixers.A", "attention", has('*'), {"heads", "kv_heads", "head_dim"});
  move(draft, "channels.F", "mlp", has('-'), {"ffn_hidden"});
  move(draft, "channels.E", "moe", has('E'),
       {"experts", "top_k", "expert_ffn_hidden", "shared_experts", "shared_expert_ffn_hidden", "shared_gate"});
  for (const char* member : {"kind", "layers", "moe_every", "dense_layers"}) draft.drop_of_model(member);
}

}  // namespace orrery::tools
