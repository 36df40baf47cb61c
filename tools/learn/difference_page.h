// The page of a difference: `orrery diff --report`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/learn/difference.h"

namespace orrery::tools {

/// `measured` and `predicted`: of the rank whose timelines are drawn.
nlohmann::ordered_json difference_page(const Difference& difference, const Trace& measured, const Trace& predicted,
                                       const std::string& title);

}  // namespace orrery::tools
