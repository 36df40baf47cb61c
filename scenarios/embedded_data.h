// The shipped documents inside the program, for a program that is one file: unpacked once into the user's cache.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

namespace orrery::scenarios {

/// Writes the files of a gzipped tar archive (POSIX.1-1988 ustar, GNU's numbers: regular files and folders, names up to
/// 255 bytes) below `folder`. What is no such archive, or names a place outside of the folder, is our bug:
/// sim::InternalError. Throws std::filesystem::filesystem_error where nothing can be written.
void unpack(std::span<const char> archive, const std::filesystem::path& folder);

/// Whether every file of the archive lies below `folder` in its size.
bool is_unpacked(std::span<const char> archive, const std::filesystem::path& folder);

/// `archive` below `cache`, in a folder named by the archive's own sum; unpacked there unless it is. Two programs at a
/// time do not disturb each other. Throws std::filesystem::filesystem_error where nothing can be written.
std::filesystem::path unpacked_in(const std::filesystem::path& cache, std::span<const char> archive);

/// Where the documents lie that this program holds: below $XDG_CACHE_HOME/orrery or ~/.cache/orrery, or, where nothing
/// can be written there, in a temporary folder that goes away with the program. Nothing for a program without any.
std::optional<std::filesystem::path> embedded_data();

}  // namespace orrery::scenarios
