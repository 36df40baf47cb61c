// Reading of text files, bounded in size and in time: what a user names may be a folder, a device without an end, or a
// pipe that nobody writes to.
#pragma once

#include <cstddef>
#include <string>

namespace orrery::sim {

inline constexpr std::size_t kLargestText = std::size_t{64} << 20;

/// The contents of `file`. `wanted` says what it should be, as in "a YAML file". Throws UserError where it cannot be
/// read, is a folder, holds a NUL byte or more than `most` bytes (of a pipe or a device, than kLargestText), or is a
/// pipe from which nothing comes for 10 s. "-" is standard input, for which it waits as long as it takes.
std::string read_text(const std::string& file, const std::string& wanted, std::size_t most = kLargestText);

}  // namespace orrery::sim
