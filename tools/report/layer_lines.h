// What the layers of a pipeline's stage run in a step, kernel by kernel: how often, with how many launches, bytes and
// FLOPs, how long, and from which recipe. Counted off the compiled program, so that the lines add up to its compute.
// Left out: the optimizer step, and what collectives take (`orrery traffic`).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/compile/program_notes.h"
#include "workloads/model/layer.h"

namespace orrery::tools {

/// One kernel of a kind of layer in a kind of pass.
struct LayerLine {
  std::string layer;  // "block", "head", "block 2" where there are several kinds; empty: of no layer
  std::string pass;   // "forward", "backward", ...
  std::string kernel;
  std::int64_t calls = 0;                       // in a step, on the stage
  std::int64_t launches = 0;                    // of these, by the host
  double bytes = 0, flops = 0, seconds = 0;     // of all of them
  const calibration::Recipe* recipe = nullptr;  // null: a product, attention, or what no recipe decides
};

struct LayerLines {
  std::vector<LayerLine> lines;
  double seconds = 0;  // the stage's compute in a step
};

/// `programs`: not folded, so that passes stand in them operation by operation. The lines point into `network`.
LayerLines layer_lines(const workloads::StagePrograms& programs, const workloads::Network& network, std::int64_t stage);
std::string text(const LayerLines& lines);
nlohmann::ordered_json to_json(const LayerLines& lines);

}  // namespace orrery::tools
