// See megatron_stacks.h. Sizes, flags and defaults are those of Megatron-LM's pretrain_t5.py and pretrain_bert.py
// (megatron/training/arguments.py; megatron/core/models/T5), and of alibaba/Pai-Megatron-Patch
// (megatron_patch/model/qwen3_next: layer_specs.py, transformer_config.py). Left out: the heads beside BERT's loss,
// the last norm of T5's encoder.
#include "tools/import/megatron_stacks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

namespace orrery::tools {

using sim::Settings;

namespace {

/// The name of the program without the folders that lead to it.
bool starts(const Launch& launch, std::string_view what) {
  const std::string& program = launch.program();
  return program.find(what, program.rfind('/') == std::string::npos ? 0 : program.rfind('/')) != std::string::npos;
}

/// Layers of the encoder, and of the decoder: as many, unless it is said.
std::pair<std::int64_t, std::int64_t> layers_of_stacks(Launch& launch) {
  const std::optional<std::int64_t> own = launch.count("encoder-num-layers");
  const std::int64_t encoder = own ? *own : launch.need("num-layers");
  return {encoder, launch.count("decoder-num-layers").value_or(encoder)};
}

void put_mixer(Draft& draft, const std::string& letter, const char* kind) {
  const auto copy = [&](const char* key) {
    const Settings* size = draft.document().find_path(std::string("model.") + key);
    if (size != nullptr) draft.set(fmt::format("model.mixers.{}.{}", letter, key), size->text(), size->place());
  };
  draft.set(fmt::format("model.mixers.{}.kind", letter), std::string(kind));
  copy("heads");
  copy("head_dim");
}

}  // namespace

bool is_t5(Launch& launch) {
  return starts(launch, "t5") || launch.find("encoder-num-layers") != nullptr ||
         launch.find("decoder-seq-length") != nullptr;
}

bool is_bert(Launch& launch) { return starts(launch, "bert"); }

bool is_qwen3_next(const Launch& launch) { return starts(launch, "qwen3_next"); }

void take_stack_layers(Launch& launch) {
  const auto [encoder, decoder] = layers_of_stacks(launch);
  launch.stand_for("encoder-num-layers", encoder);
  launch.stand_for("decoder-num-layers", decoder);
  launch.stand_for("num-layers", encoder + decoder);
}

void take_stack_lengths(Launch& launch, Draft& draft) {
  const char* const of_source = launch.has("encoder-seq-length") ? "encoder-seq-length" : "seq-length";
  const std::int64_t source = launch.need(of_source), target = launch.need("decoder-seq-length");
  draft.set("model.source_tokens", source, launch.place(of_source));
  draft.set("model.seq", source + target, launch.place("decoder-seq-length"));
}

void put_stacks(Launch& launch, Draft& draft) {
  put_mixer(draft, "B", "bidirectional");
  const Settings width = *draft.document().find_path("model.ffn_hidden");
  draft.set("model.channels.F.kind", std::string("mlp"));
  draft.set("model.channels.F.ffn_hidden", width.text(), width.place());
  if (is_bert(launch)) {
    draft.apply(fmt::format("model.blocks={{pattern: B+F, repeat: {}}}", launch.need("num-layers")));
    draft.ignored(fmt::format("{}: the heads beside the loss", launch.program()),
                  "left out, with their loss; the product ahead of the vocabulary's too");
  } else {
    put_mixer(draft, "A", "attention");
    put_mixer(draft, "X", "cross");
    const auto [encoder, decoder] = layers_of_stacks(launch);
    draft.apply(
        fmt::format("model.blocks=[{{pattern: B+F, repeat: {}}}, {{pattern: A+X+F, repeat: {}}}]", encoder, decoder));
  }
  for (const char* key : {"kind", "layers", "heads", "kv_heads", "head_dim", "ffn_hidden"}) draft.drop_of_model(key);
}

void put_qwen3_next(const Settings& pattern, Draft& draft) {
  std::vector<std::string> words;
  for (const char letter : pattern.text()) {
    const std::string_view known = "M*-";
    const std::size_t at = known.find(letter);
    if (at == std::string_view::npos)
      pattern.fail(fmt::format("got \"{}\", expected letters of M, * and -, as Qwen3-Next has them", pattern.text()));
    words.emplace_back(1, "LAE"[at]);
  }
  // Its configuration has sizes of its own, which no flag changes.
  draft.set("model.mixers.L.kind", std::string("gated_delta"));
  draft.set("model.mixers.L.heads", std::int64_t{32});
  draft.set("model.mixers.L.head_dim", std::int64_t{128});
  draft.set("model.mixers.L.key_heads", std::int64_t{16});
  draft.set("model.mixers.L.key_dim", std::int64_t{128});
  draft.set("model.mixers.L.conv", std::int64_t{4});
  draft.set("model.mixers.A.kind", std::string("attention"));
  draft.set("model.mixers.A.output_gate", true);
  draft.set("model.channels.E.kind", std::string("moe"));
  draft.set("model.shared_gate", true);
  draft.set("model.blocks", fmt::format("{}", fmt::join(words, " ")));
}

}  // namespace orrery::tools
