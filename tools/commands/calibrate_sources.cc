// Where the numbers of a measured profile come from, in one list: what was measured on this machine, wholly or in part,
// what follows from that, and what was neither and is as another profile has it. Read from the profile as it was
// written, so that the list cannot say what the file does not.
#include <fmt/format.h>

#include <array>
#include <map>

#include "scenarios/scenario.h"
#include "sim/settings.h"
#include "tools/cluster.h"
#include "tools/commands/calibrate.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

using sim::Settings;

enum class Source : std::uint8_t { measured, in_part, learnt, transferred, inherited, assumed, follows };

/// A section that says where its numbers come from, itself or by its parts.
bool says(const Settings& section) {
  if (!section.is_mapping()) return false;
  for (const auto& [key, value] : section.members())
    if (key == "provenance" || (key != "serving" && says(value))) return true;
  return false;
}

/// What `text` goes on with behind a beginning; nothing: it has another.
bool begins(std::string_view text, std::string_view beginning, std::string& rest) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  while (!text.empty() && (text.front() == ';' || text.front() == ',' || text.front() == ' ')) text.remove_prefix(1);
  rest = text;
  return true;
}

class Sources {
 public:
  Sources(const Settings& own, const Settings& whole) {
    if (const Settings* base = own.find("inherits")) base_ = base->text();
    visit("", &own, whole);
    for (const char* section : {"scans", "sparse"})
      if (whole.find(section) == nullptr) add(Source::assumed, section, "as an H100's");
  }
  std::string text() const {
    const std::array<std::string, 7> titles{"measured here",
                                            "measured here in part",
                                            "learnt from traces, the rest as inherited",
                                            "transferred",
                                            base_.empty() ? "inherited" : "inherited from " + base_,
                                            "assumed",
                                            "follows from the above"};
    std::string out;
    for (const auto& [source, parts] : parts_)
      out += wrapped(fmt::format("{}: {}", titles[static_cast<std::size_t>(source)], fmt::join(parts, "; ")), "  ",
                     "    ");
    return out;
  }

 private:
  void add(Source source, const std::string& part, const std::string& remark) {
    parts_[source].push_back(remark.empty() ? part : fmt::format("{} ({})", part, remark));
  }
  void say(const std::string& part, std::string_view provenance) {
    std::string rest;
    if (begins(provenance, "measured here", rest))
      add(rest.empty() ? Source::measured : Source::in_part, part, rest);
    else if (begins(provenance, "learnt", rest))
      add(Source::learnt, part, "");
    else if (begins(provenance, "transferred", rest))
      add(Source::transferred, part, rest);
    else if (begins(provenance, "assumed", rest))
      add(Source::assumed, part, rest);
    else if (begins(provenance, "as ", rest))
      add(Source::inherited, part, base_ == rest ? "" : rest);
    else
      add(Source::follows, part, std::string(provenance));
  }
  /// `own`: what the profile itself says there; null: nothing.
  void visit(const std::string& at, const Settings* own, const Settings& whole) {
    for (const auto& [key, section] : whole.members()) {
      if (!says(section)) continue;
      const std::string part = at.empty() ? key : at + "." + key;
      const Settings* said = own == nullptr ? nullptr : own->find(key);
      const Settings* provenance = said == nullptr || !said->is_mapping() ? nullptr : said->find("provenance");
      bool parts = false;  // that say it for themselves
      if (said != nullptr && said->is_mapping() && key != "serving")
        for (const auto& [name, value] : said->members()) parts = parts || says(value);
      if (said == nullptr) {
        add(Source::inherited, part, "");
      } else if (parts) {
        visit(part, said, section);
      } else if (provenance != nullptr) {
        say(part, provenance->text());
      } else {
        std::string keys;
        if (said->is_mapping())
          for (const auto& [name, value] : said->members())
            if (!value.is_null()) keys += fmt::format("{}{}", keys.empty() ? "" : ", ", name);
        // What is but taken away, another section stands in for.
        if (!keys.empty()) add(Source::in_part, part, keys);
      }
    }
  }
  std::string base_;
  std::map<Source, std::vector<std::string>> parts_;
};

}  // namespace

std::string sources_text(const std::string& profile) {
  return Sources(scenarios::read_yaml(profile), document_of("devices", profile)).text();
}

}  // namespace orrery::tools
