// Counts as people write them, 64k or 2T or 1_000, which the language leaves out since k may be 1000 or 1024: how they
// are written in it.
#pragma once

#include <string>

namespace orrery::sim {

/// As the end of a complaint about `text`: "; write 64e3 for 64k"; empty where it is no such count.
std::string written_out(const std::string& text);

}  // namespace orrery::sim
