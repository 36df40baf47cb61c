// Files that are compressed by their name's ending.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

namespace orrery::tools {

/// Calls `body` with a stream whose contents reach `out` as one gzip member (RFC 1952), without a time stamp, so that
/// the same contents are the same bytes. Memory does not grow with them. What cannot be written shows in `out`'s state.
void write_gzip(std::ostream& out, const std::function<void(std::ostream&)>& body);

/// `body` as it is, or compressed where the path ends in .gz.
std::function<void(std::ostream&)> compressed_by_name(const std::string& path, std::function<void(std::ostream&)> body);

}  // namespace orrery::tools
