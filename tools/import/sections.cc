// Sections of configurations in other forms. See sections.h.
#include "tools/import/sections.h"

#include <fmt/format.h>

#include "scenarios/yaml.h"

namespace orrery::tools {

using sim::Settings;

namespace {
/// Digits with single underscores between them (YAML 1.1, section int).
bool is_grouped(const std::string& text) {
  const bool digits = text.find_first_not_of("0123456789_") == std::string::npos && !text.empty();
  return digits && text.find('_') != std::string::npos && text.front() != '_' && text.back() != '_' &&
         text.find("__") == std::string::npos;
}

Settings with_plain_numbers(const Settings& read) {
  if (read.is_scalar() && is_grouped(read.text())) {
    std::string digits = read.text();
    std::erase(digits, '_');
    return Settings::scalar(digits, read.place());
  }
  if (read.is_sequence()) {
    Settings list = Settings::sequence(read.place(), read.path());
    for (const Settings& item : read.items()) list.append(with_plain_numbers(item));
    return list;
  }
  if (read.is_mapping()) {
    Settings mapping = Settings::mapping(read.place(), read.path());
    for (const auto& [key, value] : read.members()) mapping.set(key, with_plain_numbers(value));
    return mapping;
  }
  return read;
}
}  // namespace

Settings read_python_yaml(const std::string& file) {
  return with_plain_numbers(scenarios::parse_yaml_of_others(read_text(file), file));
}

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
