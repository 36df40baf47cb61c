// Puts the page together from its parts, as tools/whatif/assemble.mjs does for the page that stands by itself: a line
// `<!-- insert:KIND:NAME -->` of index.html becomes the part of that name.
#include "tools/whatif/page_text.h"

#include <string_view>

#include "sim/error.h"
#include "tools/report/page.h"
#include "tools/report/page_parts.h"

namespace orrery::tools {

namespace {

constexpr std::string_view kBegin = "<!-- insert:", kEnd = " -->";

void insert(std::string& page, std::string_view asked) {
  const std::size_t colon = asked.find(':');
  if (colon == std::string_view::npos) return;  // the engine, which here is this program
  const std::string_view kind = asked.substr(0, colon), part = page_part(asked.substr(colon + 1));
  if (part.empty() && asked.substr(colon + 1).starts_with("codemirror")) return;  // the editor does without
  SIM_CHECK(!part.empty(), "the page has no part {}", asked);
  page.append("<").append(kind).append(">\n").append(part).append("</").append(kind).append(">\n");
}

}  // namespace

std::string whatif_page() {
  require_charts();
  std::string page;
  std::string_view rest = page_part("index.html");
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (line.starts_with(kBegin) && line.ends_with(kEnd)) {
      insert(page, line.substr(kBegin.size(), line.size() - kBegin.size() - kEnd.size()));
    } else {
      page.append(line).append("\n");
    }
  }
  return page;
}

}  // namespace orrery::tools
