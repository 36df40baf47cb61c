// Files that a command writes. A file appears whole or not at all: it is written beside its place and renamed.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

namespace orrery::tools {

/// Calls `body` with a stream whose contents become the file `path`; "-" is standard output. Devices and pipes are
/// written in place. Throws sim::UserError when the file cannot be created, written or renamed (permissions, a missing
/// folder, a full disk); the old file, if any, is then untouched.
void write_output(const std::string& path, const std::function<void(std::ostream&)>& body);

/// Refuses a path that write_output could not create, before a long simulation is spent on it. Throws sim::UserError.
void check_writable(const std::string& path);

}  // namespace orrery::tools
