// Requests as they come to a fleet: when, how long their prompts and answers are, and which of the prompts' content
// others share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery::serving {

/// Picoseconds after the first request may come, as sim::SimTime counts them.
using Time = std::int64_t;
inline constexpr Time kNever = INT64_MAX;

struct Request {
  Time arrival = 0;
  std::int32_t input = 1, output = 1;  // tokens
  std::uint32_t content = 0;           // where its blocks of content begin in Trace::contents
  std::uint32_t contents = 0;          // how many of them its prompt begins with
  std::int32_t priority = 0;           // the least is the most urgent
};

struct Trace {
  std::vector<Request> requests;  // by arrival
  /// Names of blocks of content: equal numbers are equal tokens behind equal tokens (a hash of all up to its end).
  std::vector<std::int32_t> contents;
  std::int32_t content_tokens = 16;  // of one
  std::int32_t different = 0;        // names are below this
  /// Closed loop: so many requests are under way at any time, and the next comes when one ends; 0: by `arrival`.
  std::int64_t concurrency = 0;
  std::int64_t warm_up = 0;  // the first requests, which count for nothing

  std::span<const std::int32_t> contents_of(const Request& request) const {
    return {contents.data() + request.content, request.contents};
  }
};

}  // namespace orrery::serving
