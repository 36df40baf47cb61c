// Texts of errors: one line each, whatever the user's input holds.
#include "sim/error.h"

#include <algorithm>

#include "sim/printable.h"

namespace orrery::sim {

namespace {
std::string place_text(const Place& place) {
  std::string text = place.file.empty() ? "scenario" : place.file.text();
  if (place.line > 0) text += fmt::format(":{}:{}", place.line, place.column);
  return text;
}

/// The contract promises one line; a value that the user wrote may hold line breaks or control characters.
std::string one_line(const std::string& text) {
  std::string line = printable(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  constexpr std::size_t kLongest = 600;
  if (line.size() <= kLongest) return line;
  std::size_t end = kLongest;  // at the beginning of a character
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80U) --end;
  return line.substr(0, end) + "...";
}
}  // namespace

const std::string& FileName::text() const {
  static const std::string none;
  return name_ == nullptr ? none : *name_;
}

UserError::UserError(const Place& place, const std::string& key, const std::string& message)
    : std::runtime_error(
          one_line(fmt::format("{}: {}{}{}", place_text(place), key, key.empty() ? "" : ": ", message))) {}

UserError::UserError(const std::string& message) : std::runtime_error(one_line(message)) {}

void refuse_time(const std::string& what) {
  throw UserError(
      fmt::format("got {} that takes more than 11 days, expected rates, latencies and sizes of a machine", what));
}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: {} does not hold: {}", file, line, condition, message));
}

}  // namespace orrery::sim
