// Widths that several kinds of mixers with a state have.
#pragma once

#include <array>

#include "workloads/model/mixers/mixers.h"

namespace orrery::workloads {

inline constexpr std::array<MixerWidth, 2> kHeadsOfKeys{
    {{"key_heads", "heads", "heads", "Heads of queries and keys, of gated_delta.", "1", "1000000",
      [](StateMixer& m) -> std::int64_t& { return m.key_heads; }, [](const StateMixer& m) { return m.heads; }},
     {"key_dim", "elements", "head_dim", "Size of a head of keys, of delta rules.", "1", "65536",
      [](StateMixer& m) -> std::int64_t& { return m.key_dim; }, [](const StateMixer& m) { return m.value_dim; }}}};

}  // namespace orrery::workloads
