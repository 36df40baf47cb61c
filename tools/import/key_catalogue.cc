// See key_catalogue.h.
#include "tools/import/key_catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

namespace orrery::tools {

using sim::Settings;

namespace {

bool is_off(const Settings* value) {
  return value == nullptr || value->is_null() ||
         (value->is_scalar() && (value->text() == "false" || value->text() == "False"));
}

/// Whether a value is the default that the catalogue has of its key: "auto", "1.0" and 1, "[]", AttnBackend.auto.
bool is_usual(const Settings* value, const std::string& usual) {
  if (value->is_sequence()) return usual == "[]" && value->items().empty();
  if (!value->is_scalar()) return false;
  const std::string& text = value->text();
  return text == usual || text + ".0" == usual || text == usual + ".0" || text.ends_with("." + usual);
}

/// A key of the same section that a misprint may stand for.
std::string near_path(const std::string& path, const std::vector<std::string>& candidates) {
  const std::size_t end = path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1;
  const std::string section = path.substr(0, end);
  std::vector<std::string> names;
  for (const std::string& each : candidates)
    if (each.starts_with(section) && each.find('.', end) == std::string::npos) names.push_back(each.substr(end));
  const std::string near = sim::nearest_word(path.substr(end), names);
  return near.empty() ? "" : section + near;
}

}  // namespace

KeyCatalogue::KeyCatalogue(std::span<const NamedKeys> of_weight, std::span<const NamedKeys> without_effect) {
  add(of_weight, true);
  add(without_effect, false);
}

void KeyCatalogue::add(std::span<const NamedKeys> groups, bool weighs) {
  for (const NamedKeys& group : groups) {
    std::istringstream words(group.keys);
    for (std::string key; words >> key;) {
      if (const std::size_t equals = key.find('='); equals != std::string::npos) {
        whole_.emplace(key.substr(0, equals), Reason{group.why, weighs, key.substr(equals + 1)});
        continue;
      }
      if (key.ends_with("*"))
        begun_.emplace_back(key.substr(0, key.size() - 1), Reason{group.why, weighs, {}});
      else
        whole_.emplace(key, Reason{group.why, weighs, {}});
    }
  }
}

KeyCatalogue::Reason KeyCatalogue::of(const std::string& path) const {
  for (std::string part = path; !part.empty();) {
    if (const auto found = whole_.find(part); found != whole_.end()) return found->second;
    const std::size_t dot = part.rfind('.');
    part = dot == std::string::npos ? "" : part.substr(0, dot);
  }
  for (const auto& [beginning, reason] : begun_)
    if (path.starts_with(beginning)) return reason;
  return {};
}

void KeyCatalogue::tell(Sections& config, Draft& draft) const {
  std::map<std::string, std::vector<std::string>> by_reason;
  std::vector<std::string> weigh;  // in the order of the file
  std::vector<std::string> candidates(config.asked_paths().begin(), config.asked_paths().end());
  for (const auto& [key, reason] : whole_) candidates.push_back(key);
  for (const std::string& path : config.unasked()) {
    const Settings* value = config.document().find_path(path);
    const Reason reason = of(path);
    if (reason.why == nullptr) {
      const std::string near = near_path(path, candidates);
      if (near.empty()) continue;
      config.find(path);
      draft.ignored(path, fmt::format("not known to orrery; did you mean {}?", near));
      continue;
    }
    config.find(path);
    const bool off = is_off(value) || (!reason.usual.empty() && is_usual(value, reason.usual));
    if (reason.weighs && !off) {
      if (by_reason[reason.why].empty()) weigh.emplace_back(reason.why);
      by_reason[reason.why].push_back(value->is_scalar() ? fmt::format("{} = {}", path, value->text()) : path);
    } else {
      by_reason[!reason.weighs                          ? reason.why
                : is_off(value) || reason.usual.empty() ? "turned off"
                                                        : "as it is by default"]
          .push_back(path);
    }
  }
  for (auto why = weigh.rbegin(); why != weigh.rend(); ++why) {
    draft.first(fmt::format("{}: {}", fmt::join(by_reason[*why], ", "), *why));
    by_reason.erase(*why);
  }
  for (const auto& [why, keys] : by_reason) draft.ignored(fmt::format("{}", fmt::join(keys, ", ")), why);
}

}  // namespace orrery::tools
