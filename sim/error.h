// Two kinds of wrong, kept apart: the user's input (UserError, exit status 2) and our own mistakes (SIM_CHECK, exit
// status 1). UserError is thrown while loading (refuse_time apart) and caught once, in tools/.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace orrery::sim {

/// The name of a file (or "--set") that a document was read from. Its copies share one text: every value of a document
/// remembers its place.
class FileName {
 public:
  FileName() = default;
  FileName(std::string name) : name_(std::make_shared<const std::string>(std::move(name))) {}
  FileName(const char* name) : FileName(std::string(name)) {}

  const std::string& text() const;
  bool empty() const { return text().empty(); }
  operator const std::string&() const { return text(); }
  friend bool operator==(const FileName& a, const FileName& b) { return a.text() == b.text(); }

 private:
  std::shared_ptr<const std::string> name_;  // null: no name
};

/// Where something was read: file (or "--set"), line and column from 1; 0 when there is none.
struct Place {
  FileName file;
  int line = 0;
  int column = 0;
};

/// The user's input is wrong. `what()` is the one line of the contract:
/// `FILE:LINE:COLUMN: key: got X, expected Y`.
class UserError : public std::runtime_error {
 public:
  UserError(const Place& place, const std::string& key, const std::string& message);
  /// For errors that belong to no place in a file (a missing file, an impossible option).
  explicit UserError(const std::string& message);
};

/// One of our own mistakes. Never caught below main.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Simulated time has passed what it counts (11 days, 1e18 ps): a rate, a latency or a size is far from any machine's.
/// Throws UserError, the only one from behind the loading: what no single value shows, their sum does.
[[noreturn]] void refuse_time(const std::string& what);

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace orrery::sim

/// On in every build: a wrong simulation is worse than a slow one.
#define SIM_CHECK(condition, ...)                                                              \
  do {                                                                                         \
    if (!(condition)) [[unlikely]]                                                             \
      ::orrery::sim::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
