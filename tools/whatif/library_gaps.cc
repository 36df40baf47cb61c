// std::from_chars of doubles for libc++ 14. Device profiles hold thousands of numbers, and strtod of musl reads each in
// 128-bit arithmetic, which WebAssembly has to do in software: more than half of a step's time went there. Nearly all
// have few digits: a whole number below 2^53 times or over a power of ten that a double holds exactly is rounded once,
// and so correctly (Clinger, How to read floating point numbers accurately, PLDI 1990). The others go to strtod, which
// rounds correctly too; the module sets no locale.
#include "tools/whatif/library_gaps.h"

#ifndef __cpp_lib_to_chars

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

constexpr int kExactPowers = 22;  // 10^22 = 2^22 x 5^22, and 5^22 < 2^53
constexpr double kPowers[kExactPowers + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int kExactDigits = 15;      // 10^15 < 2^53
constexpr int kLargestExponent = 99;  // as far as exponents are counted: beyond, strtod reads them

/// A decimal number, taken apart.
struct Decimal {
  bool negative = false;
  std::uint64_t digits = 0;  // without the point; worth something up to kExactDigits of them
  int count = 0;             // of digits, without zeros ahead
  int exponent = 0;          // of the last digit
  const char* end = nullptr;
};

bool is_digit(const char* at, const char* last) { return at != last && *at >= '0' && *at <= '9'; }

const char* read_digits(const char* at, const char* last, int per_digit, Decimal& number) {
  for (; is_digit(at, last); ++at) {
    if (number.count < kExactDigits) number.digits = 10 * number.digits + static_cast<std::uint64_t>(*at - '0');
    if (number.count > 0 || *at != '0') ++number.count;
    number.exponent += per_digit;
  }
  return at;
}

/// The number at the front; `end` stays null where there is none.
Decimal take_apart(const char* first, const char* last) {
  Decimal number;
  number.negative = first != last && *first == '-';
  const char* begin = number.negative ? first + 1 : first;
  const char* at = read_digits(begin, last, 0, number);
  bool any = at != begin;
  if (at != last && *at == '.') {
    const char* after = read_digits(at + 1, last, -1, number);
    any = any || after != at + 1;
    at = after;
  }
  if (!any) return number;
  number.end = at;
  if (at == last || (*at != 'e' && *at != 'E')) return number;
  ++at;
  const bool below = at != last && *at == '-';
  if (at != last && (*at == '-' || *at == '+')) ++at;
  if (!is_digit(at, last)) return number;
  int exponent = 0;
  for (; is_digit(at, last); ++at) exponent = exponent > kLargestExponent ? exponent : 10 * exponent + (*at - '0');
  number.exponent += below ? -exponent : exponent;
  number.end = at;
  return number;
}

}  // namespace

std::from_chars_result std::from_chars(const char* first, const char* last, double& value) {
  const Decimal number = take_apart(first, last);
  if (number.end == nullptr) return {first, errc::invalid_argument};
  if (number.count <= kExactDigits && number.exponent >= -kExactPowers && number.exponent <= kExactPowers) {
    const auto digits = static_cast<double>(number.digits);
    const double size = number.exponent < 0 ? digits / kPowers[-number.exponent] : digits * kPowers[number.exponent];
    value = number.negative ? -size : size;
    return {number.end, errc{}};
  }
  errno = 0;
  const double read = strtod(string(first, number.end).c_str(), nullptr);
  const bool lost = read == 0 || std::isinf(read);  // the smallest numbers lose digits alone
  if (errno == ERANGE && lost) return {number.end, errc::result_out_of_range};
  value = read;
  return {number.end, errc{}};
}

#endif
