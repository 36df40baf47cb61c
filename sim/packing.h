// Numbers and texts one behind the other, as packed documents and tables hold them (sim/packed_settings.h).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "sim/error.h"

namespace orrery::sim {

class Packing {
 public:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }
  void difference(std::int64_t value) {
    number(value < 0 ? (~static_cast<std::uint64_t>(value) << 1U) | 1U : static_cast<std::uint64_t>(value) << 1U);
  }
  void text(std::string_view text) {
    number(text.size());
    bytes_ += text;
  }
  void append(std::string_view bytes) { bytes_ += bytes; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacked {
 public:
  explicit Unpacked(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }
  const char* at() const { return at_; }
  void skip(std::uint64_t bytes) {
    check(bytes);
    at_ += bytes;
  }
  /// The next number, where it is one of seven bits; it stays.
  std::uint64_t peek() const {
    check(1);
    return static_cast<unsigned char>(*at_);
  }
  std::uint64_t number() {
    const std::uint64_t value = peek();
    ++at_;
    return value < 0x80 ? value : long_number(value & 0x7fU);
  }
  std::int64_t difference() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>((value & 1U) != 0 ? ~(value >> 1U) : value >> 1U);
  }
  std::string_view text() {
    const std::uint64_t size = number();
    const char* begin = at_;
    skip(size);
    return {begin, static_cast<std::size_t>(size)};
  }

 private:
  /// The rest of a number whose lowest seven bits are `value`.
  std::uint64_t long_number(std::uint64_t value) {
    for (unsigned shift = 7; shift < 64; shift += 7) {
      const std::uint64_t next = peek();
      ++at_;
      value |= (next & 0x7fU) << shift;
      if (next < 0x80) return value;
    }
    SIM_CHECK(false, "packed bytes hold a number of more than 64 bits");
  }
  void check(std::uint64_t bytes) const {
    SIM_CHECK(bytes <= static_cast<std::uint64_t>(end_ - at_), "packed bytes end early");
  }

  const char* at_;
  const char* end_;
};

/// A sum over a text, of eight bytes at a time in four rows side by side: that of two texts that differ is another, but
/// by a chance of 2^-64 or so (multiplication and rotation as in Fowler, Noll and Vo's and wyhash). A check against
/// change, not against an adversary.
inline std::uint64_t sum_of(std::string_view text) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15U;
  const auto with = [](std::uint64_t sum, std::uint64_t word) { return std::rotl((sum ^ word) * kFactor, 29); };
  const auto word_at = [](const char* at) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    return word;
  };
  const char* at = text.data();
  std::size_t left = text.size();
  std::uint64_t a = text.size() * kFactor, b = a + 1, c = a + 2, d = a + 3;
  for (; left >= 32; at += 32, left -= 32) {
    a = with(a, word_at(at));
    b = with(b, word_at(at + 8));
    c = with(c, word_at(at + 16));
    d = with(d, word_at(at + 24));
  }
  std::uint64_t sum = with(with(with(a, b), c), d);
  for (; left >= 8; at += 8, left -= 8) sum = with(sum, word_at(at));
  std::uint64_t word = 0;
  if (left > 0) std::memcpy(&word, at, left);
  sum = (sum ^ word) * kFactor;
  return sum ^ (sum >> 32U);
}

}  // namespace orrery::sim
