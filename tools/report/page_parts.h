// The files of tools/report/page/ and Chart.js, as they were when the program was built.
#pragma once

#include <string_view>

namespace orrery::tools {

/// The text of a part by its file name ("style.css"; Chart.js is "chart.js"); empty where the build had none.
std::string_view page_part(std::string_view name);

}  // namespace orrery::tools
