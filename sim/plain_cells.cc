// Commas are looked for in eight characters at a time; see plain_cells.h.
#include "sim/plain_cells.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace orrery::sim {

namespace {

constexpr std::uint64_t kOnes = 0x0101010101010101u;
constexpr std::size_t kWord = sizeof(std::uint64_t);

/// The highest bit of each byte that is a comma, and no other (Warren, Hacker's Delight, 6-1).
std::uint64_t commas_of(std::uint64_t word) {
  constexpr std::uint64_t kLow = 0x7f * kOnes;
  const std::uint64_t differs = word ^ ',' * kOnes;
  return ~(((differs & kLow) + kLow) | differs | kLow);
}

}  // namespace

std::size_t take_plain_cells(std::string_view line, std::vector<std::string_view>& cells) {
  const char* const text = line.data();
  const std::size_t size = line.size();
  std::size_t begin = 0;  // of the cell in hand
  const auto quoted = [&]() __attribute__((always_inline)) { return begin < size && text[begin] == '"'; };
  const auto take = [&](std::size_t end) __attribute__((always_inline)) {
    const std::size_t from = begin + (begin < end && text[begin] == '\'' ? 1 : 0);
    cells.emplace_back(text + from, end - from);
    begin = end + 1;
  };
  if (quoted()) return begin;
  std::size_t at = 0;
  if constexpr (std::endian::native == std::endian::little) {
    for (; at + kWord <= size; at += kWord) {
      std::uint64_t word = 0;
      std::memcpy(&word, text + at, kWord);
      for (std::uint64_t commas = commas_of(word); commas != 0; commas &= commas - 1) {
        take(at + static_cast<std::size_t>(std::countr_zero(commas)) / 8);
        if (quoted()) return begin;
      }
    }
  }
  for (; at < size; ++at) {
    if (text[at] != ',') continue;
    take(at);
    if (quoted()) return begin;
  }
  take(size);
  return begin;
}

}  // namespace orrery::sim
