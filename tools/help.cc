// `orrery help KEY`: one key of the scenario language; without a key, all of them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "scenarios/schema.h"
#include "tools/commands.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

void list_keys() {
  std::size_t width = 0;
  for (const scenarios::Key& key : scenarios::schema()) width = std::max(width, key.path.size());
  std::cout << "Keys of the scenario language; `orrery help KEY` says more, `orrery --help` lists the commands.\n";
  for (const scenarios::Key& key : scenarios::schema()) {
    std::string head = "  " + key.path;
    head.resize(width + 3, ' ');
    std::cout << wrapped(key.meaning, head + ' ', std::string(width + 4, ' '));
  }
}

}  // namespace

Action declare_help(CLI::App& app) {
  const auto key = std::make_shared<std::string>();
  app.add_option("key", *key, "dotted path, as in parallelism.tensor");
  return [key] {
    if (key->empty()) {
      list_keys();
      return static_cast<int>(kDone);
    }
    std::string text = scenarios::help(*key);
    if (text.empty() || text.back() != '\n') text += '\n';
    std::cout << text;
    return static_cast<int>(kDone);
  };
}

}  // namespace orrery::tools
