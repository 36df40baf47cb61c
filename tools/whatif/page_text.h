// The what-if page as `orrery page` hands it out.
#pragma once

#include <string>

namespace orrery::tools {

/// The page in one piece, without an engine of its own. Throws sim::UserError where the program was built without
/// Chart.js.
std::string whatif_page();

}  // namespace orrery::tools
