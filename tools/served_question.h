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
};

void declare_served_question(CommandOptions app, ServedQuestion& question);

/// The scenario of `file`, or of the question, with `sets` laid over it and replicas laid out. `assumed`: what the
/// question left open, and how it was taken. Throws sim::UserError: for neither, for both, for a question without
/// model, device or GPUs, where nothing fits.
sim::Settings asked_service(const std::string& file, const ServedQuestion& question,
                            const std::vector<std::string>& sets, std::vector<std::string>& assumed);

}  // namespace orrery::tools
