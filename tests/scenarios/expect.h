// Shared by the tests of this room: the one line of a UserError, and a small scenario to change.
#pragma once

#include <string>

#include "scenarios/scenario.h"
#include "sim/error.h"

namespace orrery::scenarios {

/// What the UserError of `action` says; a text that no error begins with when there is none. Other exceptions escape.
template <class Action>
std::string user_error(Action action) {
  try {
    action();
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "(no error)";
}

/// 64 GPUs: tensor 4 x pipeline 2 x data 8; 16 micro-batches of 2 per rank. One key per line, so that places are lines.
inline std::string small_scenario() {
  return "name: small\n"               // 1
         "cluster:\n"                  // 2
         "  device: a100-sxm-80gb\n"   // 3
         "  gpus: 64\n"                // 4
         "  fabric: selene-hdr\n"      // 5
         "model:\n"                    // 6
         "  layers: 24\n"              // 7
         "  hidden: 2048\n"            // 8
         "  heads: 16\n"               // 9
         "  vocab: 51200\n"            // 10
         "  seq: 1024\n"               // 11
         "parallelism:\n"              // 12
         "  tensor: 4\n"               // 13
         "  pipeline: 2\n"             // 14
         "  data: 8\n"                 // 15
         "batch:\n"                    // 16
         "  global: 256\n"             // 17
         "  micro: 2\n"                // 18
         "precision: bf16\n"           // 19
         "software: megatron-2023\n";  // 20
}

/// small_scenario() with line `number` (from 1) replaced; `line` may hold several lines, or be empty.
inline std::string with_line(int number, const std::string& line) {
  std::string text = small_scenario(), out;
  int at = 1;
  for (std::size_t begin = 0; begin < text.size(); ++at) {
    const std::size_t end = text.find('\n', begin) + 1;
    out += at == number ? (line.empty() ? "" : line + "\n") : text.substr(begin, end - begin);
    begin = end;
  }
  return out;
}

inline Scenario load_text(const std::string& text) { return load_scenario(parse_yaml(text, "t.yaml")); }

}  // namespace orrery::scenarios
