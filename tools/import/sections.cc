// Sections of configurations in other forms. See sections.h.
#include "tools/import/sections.h"

#include <fmt/format.h>

namespace orrery::tools {

void Sections::collect(const sim::Settings& node, const std::string& path, std::vector<std::string>& rest) const {
  if (asked_.contains(path)) return;
  if (!node.is_mapping()) {
    rest.push_back(path);
    return;
  }
  for (const auto& [key, member] : node.members()) collect(member, path.empty() ? key : path + "." + key, rest);
}

void Sections::remark_on_the_rest(Draft& draft, const std::set<std::string>& known, const std::string& why) const {
  for (const std::string& each : overruled_) draft.ignored(each);
  std::vector<std::string> rest, without_effect, unknown;
  collect(document_, "", rest);
  for (const std::string& path : rest) {
    const std::string section = path.substr(0, path.find('.'));
    (known.contains(section) || known.contains(path) ? without_effect : unknown).push_back(path);
  }
  if (!without_effect.empty()) draft.ignored(fmt::format("{}", fmt::join(without_effect, ", ")), why);
  if (!unknown.empty()) draft.ignored(fmt::format("{}", fmt::join(unknown, ", ")), "not known to orrery");
}

}  // namespace orrery::tools
