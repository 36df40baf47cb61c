// `orrery schema`: the scenario language as JSON Schema, for editors.
#include "scenarios/schema.h"

#include <iostream>

#include "tools/command_options.h"
#include "tools/commands/commands.h"

namespace orrery::tools {

Action declare_schema(CommandOptions) {
  return [] {
    std::string text = scenarios::json_schema();
    if (text.empty() || text.back() != '\n') text += '\n';
    std::cout << text;
    return static_cast<int>(kDone);
  };
}

}  // namespace orrery::tools
