// What readers of configurations share whose blocks follow a pattern: mixers and channels go by letters: A attention, W
// attention in a window, M Mamba-2, L linear attention, E experts, F an MLP.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "tools/import/hf_config.h"

namespace orrery::tools {

std::int64_t number_of(Config& config, const char* key, std::int64_t fallback);
/// One member of a mixer or a channel, where the family's file says it or its class has a default.
void put(Draft& draft, const char* at, const char* key, std::int64_t value);
void put_kind(Draft& draft, const char* at, const char* kind);
/// Words in order, runs of the same whole period as it and its repeats where that is shorter.
void put_blocks(Draft& draft, const std::vector<std::string>& words);
/// The sizes of a whole model; what its blocks say for themselves is not the model's.
void take_whole(Config& config, Draft& draft, const char* positions);
/// Sizes of the model without those of its blocks.
void take_model(Config& config, Draft& draft, const char* positions);
void put_attention(Config& config, Draft& draft);
void put_experts(Config& config, Draft& draft, const std::vector<std::string>& counts, const char* width);
void put_shared_expert(Draft& draft, std::int64_t experts, std::int64_t width, bool gate);
void put_dense(Config& config, Draft& draft);

struct MambaNames {
  const char *heads, *width, *state, *groups, *conv, *chunk;
};
void put_mamba(Config& config, Draft& draft, const MambaNames& names);

/// Whether the layer is one of a list's that are called so; without a list, of the first `count`.
bool in_list_or_first(const Settings* list, std::int64_t layer, const char* called, std::int64_t count);

/// Which layers a list of their numbers or a text of them ("3,4,5") names.
std::vector<bool> named_layers(const Settings& listed, std::int64_t layers);

/// Layers that predict further tokens, `key` of them, each such a block.
void take_predictions(Config& config, Draft& draft, const char* key, const std::string& block);

}  // namespace orrery::tools
