// A question of serving without a file: `orrery serving --model llama3.1-70b --device h100 --gpus 8 --rate 4/s`. What
// the flags leave open is taken as most would and said: lengths, the engine, and the smallest replica whose cache holds
// what comes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/settings.h"
#include "tools/command_options.h"

namespace orrery::tools {

struct ServedQuestion {
  std::string model, device, fabric, software, price, rate, input, output, ttft, tpot, out;
  std::int64_t gpus = 0, concurrency = 0;
  bool asked() const { return !model.empty() || !device.empty() || gpus > 0; }
  /// Whether it says what comes, or what was promised.
  bool says_traffic() const {
    return concurrency > 0 || !(rate.empty() && input.empty() && output.empty() && ttft.empty() && tpot.empty());
  }
};

void declare_served_question(CommandOptions app, ServedQuestion& question);
/// Of its flags those that a question of training has not.
void declare_traffic_question(CommandOptions app, ServedQuestion& question);
/// The question as it is typed.
std::string flags_of(const ServedQuestion& question);

/// The scenario of `file`, which the flags that have a key change, or of the question with replicas laid out; with
/// `sets` laid over it. `assumed`: what the question left open, and how it was taken. Throws sim::UserError: for
/// neither, for both, for a question without model, device or GPUs, where nothing fits.
sim::Settings asked_service(const std::string& file, const ServedQuestion& question,
                            const std::vector<std::string>& sets, std::vector<std::string>& assumed);

}  // namespace orrery::tools
