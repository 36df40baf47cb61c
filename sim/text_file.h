// Reading of text files, bounded in size and in time: what a user names may be a folder, a device without an end, or a
// pipe that nobody writes to.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace orrery::sim {

inline constexpr std::size_t kLargestText = std::size_t{64} << 20;

/// The contents of `file`. `wanted` says what it should be, as in "a YAML file". Throws UserError where it cannot be
/// read, is a folder, holds a NUL byte or more than `most` bytes (of a pipe or a device, than kLargestText), or is a
/// pipe from which nothing comes for 10 s. "-" is standard input, for which it waits as long as it takes.
std::string read_text(const std::string& file, const std::string& wanted, std::size_t most = kLargestText);

/// The same, where it was read to: for what is looked at and let go.
class TextBlock {
 public:
  TextBlock(std::unique_ptr<const char[]> bytes, std::size_t size) : bytes_(std::move(bytes)), size_(size) {}
  std::string_view text() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<const char[]> bytes_;
  std::size_t size_;
};
TextBlock read_block(const std::string& file, const std::string& wanted, std::size_t most = kLargestText);

}  // namespace orrery::sim
