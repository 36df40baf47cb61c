// What a framework of reinforcement learning does around the steps that it is made of, read from
// calibration/rl/<name>.yaml: which trainer and which engine it drives, how it packs answers into micro-batches, what
// it computes again, how weights get from the trainer to the engine, what moves between a GPU and its host where both
// share it, and what its controller spends. How long a pass or a collective takes is no part of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/keys.h"
#include "sim/settings.h"

namespace orrery::calibration {

/// How answers become micro-batches: one each, or several up to a number of tokens, the longest first to where they fit
/// best.
enum class Packing : std::uint8_t { none, packed };
/// What a micro-batch is padded to: nothing, the most that it may hold where a pipeline passes it on, or always that.
enum class Padding : std::uint8_t { none, in_pipelines, always };
/// Who gives the log-probabilities that a ratio is taken to: a pass of the trainer, the engine as it samples, or
/// nobody, where a batch is trained on once.
enum class OldLogprobs : std::uint8_t { trainer, rollout, none };
/// How weights get over. gather: every GPU of the trainer gets each tensor whole and hands its engine's share over in
/// its own memory. broadcast: gathered by the trainer, then sent to all engines. point_to_point: every GPU of an engine
/// is sent its share by those that hold it.
enum class WeightRoute : std::uint8_t { gather, broadcast, point_to_point };
/// Whether a bucket is filled, sent and taken out before the next, or the host fills one while another is on its way:
/// with two, or with calls that nobody waits for, the slower of host and network says how long all take.
enum class Buffers : std::uint8_t { one, two };
/// What an engine does with requests under way when weights come: it ends them first, breaks them off and computes
/// their caches again, or goes on with the caches that it has.
enum class AtUpdate : std::uint8_t { drain, interrupt, resume };
/// What leaves the GPU for the host while the engine generates on it.
enum class Offloaded : std::uint8_t { nothing, optimizer, everything };
/// Where the reference model lies: on its GPUs, or with the host, from where it takes the policy's place for its pass.
enum class ReferencePlace : std::uint8_t { resident, swapped };
/// What is dealt out to replicas: prompts with all their samples, or samples one by one.
enum class Dealing : std::uint8_t { prompts, samples };

struct RlFramework {
  std::string name, provenance;
  sim::Settings trainer;  // a reference to training software, where a scenario has none
  std::string engine;     // likewise the name of an inference engine
  double memory_utilization = 0.9, memory_utilization_apart = 0.9;  // on the trainer's GPUs; on its own
  Packing packing = Packing::packed;
  Padding padding = Padding::none;
  OldLogprobs old_logprobs = OldLogprobs::trainer;
  AtUpdate at_update = AtUpdate::drain;
  Dealing dealing = Dealing::prompts;
  ReferencePlace reference = ReferencePlace::resident;
  struct Weights {
    WeightRoute colocated = WeightRoute::gather, separate = WeightRoute::broadcast;
    double bucket = 0;  // bytes of one call; 0: a tensor
    Buffers buffers = Buffers::one;
    double tensor = 0;  // seconds of the host for each tensor of the published checkpoint
  } weights;
  struct Swap {
    Offloaded offloads = Offloaded::nothing;
    double efficiency = 1;  // of the rate of a GPU's link to its host
    double seconds = 0;     // to wake an engine and to put it to sleep, beyond what is moved
  } swap;
  struct Host {
    double step = 0;    // seconds of the controller in each step
    double sample = 0;  // more for each answer: detokenised, judged, put into tensors, sent to the trainer
  } host;

  /// Throws sim::UserError.
  static RlFramework load(const sim::Settings& document);
};

/// Every key of such a file.
const sim::KeyTable& rl_framework_keys();

std::string_view name_of(WeightRoute route);
std::string_view name_of(AtUpdate update);
std::string_view name_of(OldLogprobs old);
const std::vector<std::string>& weight_route_names();
const std::vector<std::string>& at_update_names();
const std::vector<std::string>& old_logprobs_names();

}  // namespace orrery::calibration
