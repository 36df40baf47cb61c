// Hybrids of Megatron-LM: a letter a block (--hybrid-layer-pattern, before 2026 --hybrid-override-pattern).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/import/import.h"

namespace orrery::tools {

/// The letters of the decoder: M Mamba-2, * attention, - an MLP, E experts. Throws sim::UserError at others.
std::string hybrid_letters(const sim::Settings& pattern);
/// Turns the sizes of the draft's model into those of blocks. `mamba`: members of the mixer.
void put_hybrid(const std::string& letters, Draft& draft,
                const std::vector<std::pair<std::string, std::int64_t>>& mamba);

}  // namespace orrery::tools
