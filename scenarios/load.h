// Internal to the room: the parts of load_scenario, one per section of the language, and the readers that they share.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/settings.h"
#include "workloads/job/job.h"

namespace orrery::calibration {
struct ServingEngine;
}

namespace orrery::scenarios {

/// Seconds. Times are integer picoseconds up to about 9e6 s; a step whose ideal takes this long leaves room for a bad
/// efficiency.
inline constexpr double kLongestIdealStep = 1e5;

/// The member of a section, or nullptr when the section or the member is absent, null or `unknown`: all three mean the
/// documented default. Throws UserError when the section is no mapping.
const sim::Settings* given(const sim::Settings* section, std::string_view key);
/// As given, but the language has no default: absent, null and `unknown` are the user's error.
const sim::Settings& required(const sim::Settings& section, std::string_view key);

std::int64_t integer(const sim::Settings* section, std::string_view key, std::int64_t fallback);
double number(const sim::Settings* section, std::string_view key, double fallback);
bool boolean(const sim::Settings* section, std::string_view key, bool fallback);
std::string text(const sim::Settings* section, std::string_view key, std::string fallback);

/// Throws UserError at the member where it was given, else at its section, always naming the member's whole path.
[[noreturn]] void fail_at(const sim::Settings& document, std::string_view path, const std::string& message);

/// Notes which default was taken: "KEY is not given: VALUE, WHY."
void assume(workloads::Job& job, std::string_view key, std::string_view value, std::string_view why);

/// The profile that `document` says, which is what `reference` stands for: read once where files alone say it.
calibration::DeviceProfile device_of(const sim::Settings& reference, const sim::Settings& document);

// Sections, in the order in which they depend on each other. Each throws UserError.
void load_software(const sim::Settings& document, workloads::Job& job);
void load_cluster(const sim::Settings& document, workloads::Job& job);
/// What the profile says of its own machine's host, in place of what software assumes; behind both of them.
void take_measured_host(const sim::Settings& document, workloads::Job& job);
void take_measured_host(const calibration::DeviceProfile& device, calibration::ServingEngine& engine,
                        std::vector<std::string>& assumptions);
void load_model(const sim::Settings& document, workloads::Job& job);
void load_layout(const sim::Settings& document, workloads::Job& job);   // parallelism and batch
void load_offload(const sim::Settings& document, workloads::Job& job);  // of load_options
void load_options(const sim::Settings& document,
                  workloads::Job& job);  // precision, recompute, attention, overlap, optimizer
void load_placement(const sim::Settings& document, workloads::Job& job);
/// Nodes of other kinds (cluster.others), once the first kind and the fabric are known. `fabric`: its document.
void load_other_nodes(const sim::Settings& cluster, const sim::Settings& fabric, workloads::Job& job);
/// Once the layout and the placement are known: which stage lies on which kind of nodes, in the order of nodes that
/// this asks for; and layers balanced over them.
void place_kinds(const sim::Settings& document, workloads::Job& job);
void load_perturbation(const sim::Settings& document, workloads::Job& job);
/// Adds to the assumptions what is perturbed, and a placement that is not in order.
void say_situation(workloads::Job& job);
void load_evaluation(const sim::Settings& document, workloads::Job& job);
void load_training(const sim::Settings& document, workloads::Job& job);  // training and cost
/// After the cluster, before its clock is known.
void load_power(const sim::Settings& document, workloads::Job& job);
/// Says of a measured record which of its facts are not modelled.
void note_extra(const sim::Settings& document, workloads::Job& job);
/// `gpus`: of the job; `seq`: tokens of a sequence.
std::optional<Measured> load_measured(const sim::Settings& document, std::int64_t gpus, std::int64_t seq);

/// What holds between sections: divisibility, chunks and layers, schedules, sizes that a plan can hold.
void check_job(const sim::Settings& document, workloads::Job& job);
/// Refuses a document of another kind by its keys (document.cc): says what it is, and what to do with it.
void refuse_other_document(const sim::Settings& document);
/// Says what of a software's habits and a fabric's reach moves the answer (moving.cc).
void note_what_moves(workloads::Job& job);
/// Whether the fabric has the ports for this many nodes: only its wiring tells. Building it costs a millisecond or two.
/// `algorithms`: of the collective library, some of which ask something of the switches.
void check_wiring(const sim::Settings& document, const workloads::Site& site,
                  const calibration::CollectiveAlgorithms& algorithms);

}  // namespace orrery::scenarios
