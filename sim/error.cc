// Texts of errors: one line each, whatever the user's input holds.
#include "sim/error.h"

namespace orrery::sim {

namespace {
std::string place_text(const Place& place) {
  std::string text = place.file.empty() ? "scenario" : place.file;
  if (place.line > 0) text += fmt::format(":{}:{}", place.line, place.column);
  return text;
}

/// The contract promises one line; a value that the user wrote may hold line breaks or control characters.
std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == '\t')
      line += ' ';
    else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)
      line += c;
  }
  constexpr std::size_t kLongest = 600;
  if (line.size() > kLongest) line = line.substr(0, kLongest) + "...";
  return line;
}
}  // namespace

UserError::UserError(const Place& place, const std::string& key, const std::string& message)
    : std::runtime_error(
          one_line(fmt::format("{}: {}{}{}", place_text(place), key, key.empty() ? "" : ": ", message))) {}

UserError::UserError(const std::string& message) : std::runtime_error(one_line(message)) {}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: {} does not hold: {}", file, line, condition, message));
}

}  // namespace orrery::sim
