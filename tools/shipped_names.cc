// See shipped_names.h.
#include "tools/shipped_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "scenarios/scenario.h"
#include "scenarios/synonyms.h"
#include "tools/report/text.h"
#include "workloads/collectives/catalogue.h"
#include "workloads/schedules/catalogue.h"

namespace orrery::tools {

namespace {

constexpr std::string_view kSchedules = "schedules", kCollectives = "collectives";

/// Of a kind: what one of it is called, and how it is asked for, {} standing for the name.
struct KindOfNames {
  std::string_view kind, noun, use;
};
constexpr std::array kKinds{
    KindOfNames{"devices", "device", "cluster: {{device: {}, ...}}"},
    KindOfNames{"fabrics", "fabric", "cluster: {{fabric: {}, ...}}; orrery topology {}"},
    KindOfNames{"models", "model", "model: {}; orrery flops {}"},
    KindOfNames{"software", "generation of training software", "software: {}"},
    KindOfNames{kSchedules, "pipeline schedule", "parallelism: {{schedule: {}, ...}}"},
    KindOfNames{kCollectives, "algorithm of a collective", "orrery collective CLUSTER --algorithm {}"},
    KindOfNames{"scenarios", "scenario", "orrery run {}"},
    KindOfNames{"tables", "published table", "orrery reproduce {}"},
    KindOfNames{"failures", "table of failures", "campaign: {{failures: {}, ...}}"},
    KindOfNames{"engines", "inference engine", "software: {}, with a section serving"},
    KindOfNames{"rl", "framework of reinforcement learning", "rl: {{framework: {}, ...}}"},
    KindOfNames{"served", "scenario that is served", "orrery serving {}"},
    KindOfNames{"trained", "scenario of reinforcement learning", "orrery rl {}"},
};

bool has_documents(std::string_view kind) { return kind != kSchedules && kind != kCollectives; }

std::vector<std::string> names_of(const std::string& kind) {
  if (has_documents(kind)) return scenarios::shipped(kind);
  std::vector<std::string> names;
  for (const ShippedName& line : shipped_names(kind)) names.push_back(line.name);
  return names;
}

std::string describe(const KindOfNames& kind, const std::string& name) {
  std::string about;
  if (has_documents(kind.kind)) {
    about = scenarios::about(std::string(kind.kind), name);
  } else {
    for (const ShippedName& line : shipped_names(std::string(kind.kind))) {
      if (line.name == name) about = line.about;
    }
  }
  std::string text = wrapped(fmt::format("{} ({}): {}", name, kind.noun, about), "", "  ");
  const std::string of = scenarios::other_name_of(kind.kind, name);
  if (!of.empty()) text += fmt::format("  another name of {}: nothing in the step is known to differ\n", of);
  std::string use(kind.use);
  for (std::size_t at = use.find("{}"); at != std::string::npos; at = use.find("{}", at + name.size()))
    use.replace(at, 2, name);
  for (const auto& [from, to] : {std::pair("{{", "{"), std::pair("}}", "}")}) {
    for (std::size_t at = use.find(from); at != std::string::npos; at = use.find(from)) use.replace(at, 2, to);
  }
  return text + fmt::format("  as in: {}\n", use);
}

}  // namespace

const std::vector<std::string>& shipped_kinds() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> kinds;
    for (const KindOfNames& kind : kKinds) kinds.emplace_back(kind.kind);
    return kinds;
  }();
  return all;
}

std::vector<ShippedName> shipped_names(const std::string& kind) {
  std::vector<ShippedName> lines;
  if (kind == kSchedules) {
    for (const workloads::Schedule* schedule : workloads::kSchedules)
      lines.push_back({std::string(schedule->name), fmt::format("{} ({})", schedule->meaning, schedule->paper)});
  } else if (kind == kCollectives) {
    for (const workloads::Algorithm& algorithm : workloads::algorithms())
      lines.push_back({std::string(algorithm.name), std::string(algorithm.meaning)});
  } else {
    for (const std::string& name : scenarios::shipped(kind)) lines.push_back({name, scenarios::about(kind, name)});
  }
  return lines;
}

std::string about_shipped(const std::string& word) {
  std::string exact, meant;
  for (const KindOfNames& kind : kKinds) {
    const std::vector<std::string> names = names_of(std::string(kind.kind));
    if (std::find(names.begin(), names.end(), word) != names.end()) {
      exact += describe(kind, word);
      continue;
    }
    std::vector<std::string> several;
    const std::string name = scenarios::name_meant(kind.kind, word, names, &several);
    if (!name.empty())
      meant += describe(kind, name);
    else if (several.size() > 1)
      meant +=
          wrapped(fmt::format("{} may be short for, of orrery list {}: {}", word, kind.kind, fmt::join(several, ", ")),
                  "", "  ");
    if (!name.empty() || !several.empty()) continue;
    for (const std::string& longer : names) {
      if (longer.starts_with(word + ' ')) meant += describe(kind, longer);  // ring of "ring LL"
    }
  }
  return exact.empty() ? meant : exact;
}

}  // namespace orrery::tools
