// Numbers as tables write most of them, in a few instructions a digit: "-0.129", "7168". What has no more than fifteen
// digits is a whole number that a double holds, divided by a power of ten that it holds too, so that one division
// rounds it as std::from_chars does (Clinger, How to read floating point numbers accurately, PLDI 1990). Left out:
// exponents, and more digits.
#pragma once

#include <optional>
#include <string_view>

namespace orrery::sim {

/// The value of digits that may have a minus ahead of them and a point among them; nothing for any other text.
std::optional<double> plain_number(std::string_view text);

}  // namespace orrery::sim
