// Stages of a recipe's pipeline that do not have as many layers each.
#pragma once

#include <cstdint>
#include <string>

#include "tools/import/import.h"
#include "tools/import/sections.h"

namespace orrery::tools {

/// Pieces of the pipeline laid out by hand: letters as in "Et|(tt|)*30L", or a list of layers for each piece.
/// `at`: of the section that says it, with its dot. Returns the chunks of a stage; 0 where there is no layout.
std::int64_t take_layout_by_hand(Sections& config, Draft& draft, const std::string& at, std::int64_t stages);
/// First and last stages of other numbers of layers than the rest, which share evenly.
void take_uneven_ends(Sections& config, Draft& draft, const std::string& at, std::int64_t stages, std::int64_t chunks);

}  // namespace orrery::tools
