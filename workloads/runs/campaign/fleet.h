// What fails in a fleet of machines, how often, and what a failure takes with it: calibration/reliability/<fleet>.yaml
// or a mapping of a scenario's own.
//
// A cause strikes each of its components (GPUs, nodes, NICs, groups of nodes, or the job as a whole) after times that
// are exponential, or that follow Weibull's hazard (k/theta) (t/theta)^(k-1) of the component's age t. What fails is
// mended and goes on at its age ("as bad as old": Crow, Reliability analysis for complex repairable systems, 1974), so
// that the failures of all components together are one Poisson process in time, whose next event has a closed form.
// Left out: a component whose history differs from the others' (a lemon node), repairs that make it new.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/keys.h"
#include "sim/settings.h"

namespace orrery::campaign {

/// What a failure does to the job: it ends it at once; it lets it hang until a timeout; it slows it down, unseen.
enum class Effect : std::uint8_t { crash, hang, slow };
/// What is gone with it: the job's processes alone; a node; a group of nodes (a rack, those of a leaf switch).
enum class Loses : std::uint8_t { process, node, group };
/// What the rate counts.
enum class Per : std::uint8_t { device, node, nic, group, job };

std::string_view name_of(Effect effect);
std::string_view name_of(Loses loses);
std::string_view name_of(Per per);

/// The least share of its rate that the step simulator takes for a slow NIC (perturb.slow_nics[].rate).
inline constexpr double kLeastNicShare = 0.001;

/// A NIC that flaps, away for `length_s` every `every_s`; 0: none does. All ranks of a step wait for the one whose
/// messages are sent again until the link is back.
struct Outage {
  double length_s = 0, every_s = 0;
  double rate = 0;  // share of its rate that the NIC has left meanwhile: a port of two
  /// Factor on a step's time of what leaves nothing.
  double stall() const { return length_s > 0 ? every_s / (every_s - length_s) : 1; }
};

struct Cause {
  std::string name;
  Per per = Per::device;
  double mtbf_h = 0;       // hours that one component runs between two failures, in the mean; of Weibull: theta
  double shape = 1;        // Weibull's k; 1: exponential
  double age_h = 0;        // of the components when the campaign begins
  std::int64_t group = 1;  // nodes of a group
  Effect effect = Effect::crash;
  Loses loses = Loses::process;
  double detection_s = -1, diagnosis_s = -1;  // below zero: those of the campaign's repair section
  double repair_s = 0;                        // until a lost node is back in the pool
  double slowdown = 1;                        // slow: factor on the compute times of one GPU
  double nic_rate = 1;                        // slow: share of its rate that one NIC has left
  Outage outage;                              // slow: one NIC that flaps
};

struct Fleet {
  std::string name, description, source;
  std::vector<Cause> causes;
};

/// The keys of a fleet's document.
const sim::KeyTable& fleet_keys();
/// Reads a fleet. A rate is given as `mtbf`, or as `count` of what happened in the `observed` window: the window's
/// component-hours over the count. Throws UserError.
Fleet load_fleet(const sim::Settings& document);

}  // namespace orrery::campaign
