// Times with long units. Left out: calendar dates, months.
#include "sim/long_time.h"

#include <cmath>
#include <cstdlib>
#include <string_view>

namespace orrery::sim {

namespace {

struct Unit {
  std::string_view name;
  double seconds;
};
// clang-format off
constexpr Unit kUnits[] = {
    {"ps", 1e-12},     {"ns", 1e-9},       {"us", 1e-6},      {"ms", 1e-3},     {"s", 1},           {"sec", 1},
    {"second", 1},     {"seconds", 1},     {"min", 60},       {"minute", 60},   {"minutes", 60},    {"h", 3600},
    {"hour", 3600},    {"hours", 3600},    {"d", 86'400},     {"day", 86'400},  {"days", 86'400},   {"week", 604'800},
    {"weeks", 604'800}, {"year", 31'536'000}, {"years", 31'536'000}};
// clang-format on
constexpr double kLongestTime = 1e14;

}  // namespace

double as_long_time(const Settings& value) {
  constexpr const char* kExpected = "a time with a unit, as in \"90 s\", \"3 h\" or \"54 days\"";
  if (!value.is_scalar()) value.expected(kExpected);
  const std::string& text = value.text();
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string_view rest(end);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  // strtod also takes nan, inf and hexadecimal numbers.
  const bool plain = end != text.c_str() && text.find_first_of("xXnN") >= static_cast<std::size_t>(end - text.c_str());
  for (const Unit& unit : kUnits) {
    if (!plain || unit.name != rest) continue;
    const double seconds = number * unit.seconds;
    if (!(seconds >= 0 && seconds <= kLongestTime)) break;
    return seconds;
  }
  value.expected(kExpected);
}

}  // namespace orrery::sim
