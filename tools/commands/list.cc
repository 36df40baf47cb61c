// `orrery list KIND`: what there is to name in a scenario or on the command line, and what each is, one line each.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/report/text.h"
#include "workloads/collectives/catalogue.h"
#include "workloads/schedules/catalogue.h"

namespace orrery::tools {

namespace {

struct Line {
  std::string name, about;
};
using Lines = std::vector<Line>;

Lines schedules() {
  Lines lines;
  for (const workloads::Schedule* schedule : workloads::kSchedules)
    lines.push_back({std::string(schedule->name), fmt::format("{} ({})", schedule->meaning, schedule->paper)});
  return lines;
}

Lines collectives() {
  Lines lines;
  for (const workloads::Algorithm& algorithm : workloads::algorithms())
    lines.push_back({std::string(algorithm.name), std::string(algorithm.meaning)});
  return lines;
}

Lines documents(const std::string& kind) {
  Lines lines;
  for (const std::string& name : scenarios::shipped(kind)) lines.push_back({name, scenarios::about(kind, name)});
  return lines;
}

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> all{"devices",     "fabrics",   "models",  "software", "schedules",
                                            "collectives", "scenarios", "tables",  "failures", "engines",
                                            "rl",          "served",    "trained", "keys"};
  return all;
}

void write_keys() {
  std::size_t width = 0;
  for (const scenarios::Key& key : scenarios::schema()) width = std::max(width, key.path.size());
  std::cout << "Keys of the scenario language; `orrery help KEY` says more, `orrery --help` lists the commands.\n";
  for (const scenarios::Key& key : scenarios::schema()) {
    std::string head = "  " + key.path;
    head.resize(width + 3, ' ');
    std::cout << wrapped(key.meaning, head + ' ', std::string(width + 4, ' '));
  }
}

Lines lines_of(const std::string& kind) {
  if (kind == "schedules") return schedules();
  if (kind == "collectives") return collectives();
  return documents(kind);
}

}  // namespace

Action declare_list(CommandOptions app) {
  const auto kind = std::make_shared<std::string>();
  app.add_option("kind", *kind, "what to list").check(OneOf(kinds()));
  return [kind] {
    if (kind->empty()) {
      std::cout << "What ships by name; `orrery list KIND` lists it:\n";
      for (const std::string& one : kinds())
        std::cout << fmt::format("  {:<12} {}\n", one,
                                 one == "keys" ? scenarios::schema().size() : lines_of(one).size());
      return static_cast<int>(kDone);
    }
    if (*kind == "keys") {
      write_keys();
      return static_cast<int>(kDone);
    }
    const Lines lines = lines_of(*kind);
    std::size_t width = 0;
    for (const Line& line : lines) width = std::max(width, line.name.size());
    for (const Line& line : lines) std::cout << fmt::format("{:<{}}  {}\n", line.name, width, line.about);
    return static_cast<int>(kDone);
  };
}

}  // namespace orrery::tools
