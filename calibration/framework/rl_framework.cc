// The keys of a framework of reinforcement learning, and their reader.
#include "calibration/framework/rl_framework.h"

#include "calibration/framework/choice.h"

namespace orrery::calibration {

namespace {

using sim::Settings;
using Names = std::vector<std::string>;

const Names kPackings{"none", "packed"}, kPaddings{"none", "in_pipelines", "always"},
    kOffloads{"nothing", "optimizer", "everything"}, kDealings{"prompts", "samples"},
    kReferences{"resident", "swapped"}, kBuffers{"one", "two"};

double rl_seconds_at(const Settings* section, std::string_view key) {
  return section != nullptr ? sim::to_seconds(section->get_duration(key, sim::Duration{})) : 0;
}

}  // namespace

const Names& weight_route_names() {
  static const Names kNames{"gather", "broadcast", "point_to_point"};
  return kNames;
}

const Names& at_update_names() {
  static const Names kNames{"drain", "interrupt", "resume"};
  return kNames;
}

const Names& old_logprobs_names() {
  static const Names kNames{"trainer", "rollout", "none"};
  return kNames;
}

std::string_view name_of(WeightRoute route) { return weight_route_names()[static_cast<std::size_t>(route)]; }
std::string_view name_of(AtUpdate update) { return at_update_names()[static_cast<std::size_t>(update)]; }
std::string_view name_of(OldLogprobs old) { return old_logprobs_names()[static_cast<std::size_t>(old)]; }

RlFramework RlFramework::load(const Settings& document) {
  rl_framework_keys().check(document);
  RlFramework framework;
  framework.name = document.get_text("name", "inline");
  framework.provenance = document.get_text("provenance", "");
  framework.trainer = document.at("trainer");
  framework.engine = document.at("engine").text();
  framework.memory_utilization = document.get_number("memory_utilization", framework.memory_utilization);
  framework.memory_utilization_apart =
      document.get_number("memory_utilization_apart", framework.memory_utilization_apart);
  framework.packing = choice_at(&document, "packing", framework.packing, kPackings);
  framework.padding = choice_at(&document, "padding", framework.padding, kPaddings);
  framework.old_logprobs = choice_at(&document, "old_logprobs", framework.old_logprobs, old_logprobs_names());
  framework.at_update = choice_at(&document, "at_update", framework.at_update, at_update_names());
  framework.dealing = choice_at(&document, "dealing", framework.dealing, kDealings);
  framework.reference = choice_at(&document, "reference", framework.reference, kReferences);
  const Settings* weights = document.find("weights");
  framework.weights.colocated = choice_at(weights, "colocated", framework.weights.colocated, weight_route_names());
  framework.weights.separate = choice_at(weights, "separate", framework.weights.separate, weight_route_names());
  if (const Settings* bucket = weights != nullptr ? weights->find("bucket") : nullptr; bucket != nullptr)
    framework.weights.bucket = static_cast<double>(bucket->as_bytes().value());
  framework.weights.buffers = choice_at(weights, "buffers", framework.weights.buffers, kBuffers);
  framework.weights.tensor = rl_seconds_at(weights, "tensor");
  const Settings* swap = document.find("swap");
  framework.swap.offloads = choice_at(swap, "offloads", framework.swap.offloads, kOffloads);
  if (swap != nullptr) framework.swap.efficiency = swap->get_number("efficiency", 1);
  framework.swap.seconds = rl_seconds_at(swap, "seconds");
  const Settings* host = document.find("host");
  framework.host.step = rl_seconds_at(host, "step");
  framework.host.sample = rl_seconds_at(host, "sample");
  return framework;
}

const sim::KeyTable& rl_framework_keys() {
  static const sim::KeyTable kTable({
      {"name", "text", "", "inline", {}, "Of the framework and its release."},
      {"provenance", "text", "", "-", {}, "Where its numbers come from."},
      {"trainer",
       "name",
       "",
       "",
       {},
       "Training software: a file of calibration/software, or a mapping that may inherit one."},
      {"engine", "text", "", "", {}, "The inference engine that it drives: a file of calibration/engines."},
      {"memory_utilization", "number", "", "0.9", {}, "Of a GPU's memory, the engine's share.", {"0.01", "1"}},
      {"memory_utilization_apart", "number", "", "0.9", {}, "Likewise on GPUs of its own.", {"0.01", "1"}},
      {"packing", "choice", "", "packed", kPackings, "Answers of a micro-batch: one, or as many as have room."},
      {"padding", "choice", "", "none", kPaddings, "Whether a micro-batch is filled up to its most tokens."},
      {"old_logprobs", "choice", "", "trainer", old_logprobs_names(), "Who gives the old log-probabilities."},
      {"at_update", "choice", "", "drain", at_update_names(), "What becomes of requests under way as weights come."},
      {"dealing", "choice", "", "prompts", kDealings, "What is dealt out to replicas."},
      {"reference", "choice", "", "resident", kReferences, "Whether the reference model waits with the host."},
      {"weights", "mapping", "", "-", {}, "How weights get from the trainer to the engine."},
      {"weights.colocated", "choice", "", "gather", weight_route_names(), "On the same GPUs."},
      {"weights.separate", "choice", "", "broadcast", weight_route_names(), "To GPUs of their own."},
      {"weights.bucket", "quantity", "bytes", "a tensor", {}, "Of one call.", {"1 B", "1 TB"}},
      {"weights.buffers", "choice", "", "one", kBuffers,
       "two: the host's work on a bucket runs beside another's way over the network."},
      {"weights.tensor",
       "quantity",
       "time",
       "0 s",
       {},
       "Of the host for each tensor: names, shapes, calls, the engine's loader.",
       {"0 s", "10 s"}},
      {"swap", "mapping", "", "-", {}, "What happens where trainer and engine take turns on a GPU."},
      {"swap.offloads", "choice", "", "nothing", kOffloads, "What of the trainer goes to the host meanwhile."},
      {"swap.efficiency", "number", "", "1", {}, "Of the rate of the link to the host.", {"0.01", "1"}},
      {"swap.seconds", "quantity", "time", "0 s", {}, "Each time, to wake or put to sleep.", {"0 s", "1 h"}},
      {"host", "mapping", "", "-", {}, "What the controller spends."},
      {"host.step", "quantity", "time", "0 s", {}, "In each step.", {"0 s", "1 h"}},
      {"host.sample", "quantity", "time", "0 s", {}, "More for each answer.", {"0 s", "60 s"}},
  });
  return kTable;
}

}  // namespace orrery::calibration
