// The lists of `orrery list` and the table of the language, as data for the page's menus and their explanations.
#include "tools/whatif/catalogue.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "sim/text_file.h"
#include "tools/whatif/served.h"
#include "workloads/schedules/catalogue.h"

namespace orrery::tools {

using nlohmann::ordered_json;

namespace {

ordered_json documents(const std::string& kind) {
  ordered_json list = ordered_json::array();
  for (const std::string& name : scenarios::shipped(kind))
    list.push_back({{"name", name}, {"about", scenarios::about(kind, name)}});
  return list;
}

ordered_json shipped_scenarios() {
  struct Shelf {
    const char *kind, *folder;
    QuestionKind asks;
  };
  constexpr std::array kShelves{Shelf{"scenarios", "scenarios", QuestionKind::train},
                                Shelf{"served", "scenarios/serving", QuestionKind::serve},
                                Shelf{"trained", "scenarios/rl", QuestionKind::rl}};
  ordered_json list = ordered_json::array();
  for (const Shelf& shelf : kShelves) {
    for (const std::string& name : scenarios::shipped(shelf.kind)) {
      const auto file = std::filesystem::path(scenarios::data_directory()) / shelf.folder / (name + ".yaml");
      list.push_back({{"name", name},
                      {"kind", name_of(shelf.asks)},
                      {"about", scenarios::about(shelf.kind, name)},
                      {"text", sim::read_text(file.string(), "a YAML file")}});
    }
  }
  return list;
}

ordered_json keys() {
  ordered_json list = ordered_json::array();
  for (const scenarios::Key& key : scenarios::schema()) {
    list.push_back({{"path", key.path},
                    {"type", key.type},
                    {"unit", key.unit},
                    {"default", key.fallback},
                    {"choices", key.choices},
                    {"meaning", key.meaning}});
  }
  return list;
}

}  // namespace

ordered_json catalogue_json() {
  ordered_json out;
  out["version"] = ORRERY_VERSION;
  for (const char* kind : {"devices", "fabrics", "models", "software", "engines", "rl"})
    out["lists"][kind] = documents(kind);
  out["lists"]["schedules"] = ordered_json::array();
  for (const workloads::Schedule* schedule : workloads::kSchedules) {
    out["lists"]["schedules"].push_back(
        {{"name", schedule->name}, {"about", fmt::format("{} ({})", schedule->meaning, schedule->paper)}});
  }
  out["scenarios"] = shipped_scenarios();
  out["keys"] = keys();
  return out;
}

}  // namespace orrery::tools
