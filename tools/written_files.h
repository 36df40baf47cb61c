// Files that a command line names twice: what is written must not be what is read, nor what else is written.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace orrery::tools {

/// Whether the option of that name, as in "--json", takes a file that its command writes.
bool writes_file(const std::string& option);

/// Refuses a parsed command line that would write over a file that it reads, or twice over one. Files are compared by
/// what they are, not by how they are written. Throws sim::UserError. Left out: files that a scenario names.
void refuse_overwriting(const CLI::App& app);

}  // namespace orrery::tools
