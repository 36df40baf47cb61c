// What `orrery run` prints: one training step as text for people and as the JSON of the contract.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scenarios/scenario.h"
#include "workloads/step/step.h"

namespace orrery::tools {

/// "12288 x a100-sxm-80gb on tomahawk4-200g, gpt3-175b, TP 8 PP 8x6 DP 192, batch 6144 x 2048, bf16".
std::string scenario_line(const workloads::Job& job);

/// Sections: scenario, time and rates, breakdown, memory per stage, assumptions. Fits 100 columns.
/// `sure`: lines below the rates that say how sure the step is.
void write_report(std::ostream& out, const scenarios::Scenario& scenario, const workloads::StepReport& report,
                  const std::string& sure = "");

/// Model FLOPs as a causal kernel does them (workloads/model/causal_flops.h) over the same peak as mfu_pct, in per
/// cent.
double causal_mfu_pct(const workloads::Model& model, std::int64_t global_batch, const workloads::StepReport& report);

/// Whose dense peak utilisation is of: bf16, or fp16 where the device has no other type of 16 bits.
calibration::DataType utilisation_type(const calibration::DeviceProfile& device);

/// "stage 3 takes 103.1 GB of 85.90 GB": what does not fit, of the fullest stage.
std::string shortage_text(const workloads::StepReport& report);

/// Keys and nesting of the contract ("JSON of run"), times in seconds, sizes in bytes; what the contract does not name
/// is added, never renamed.
nlohmann::ordered_json report_json(const scenarios::Scenario& scenario, const workloads::StepReport& report);

/// One JSON object per traffic row. `bytes_per_rank`: what the rank that calls most sends in one step.
nlohmann::ordered_json traffic_json(const workloads::TrafficRow& row);

/// Bytes of the step by the highest tier that they cross.
nlohmann::ordered_json tier_bytes_json(const workloads::StepReport& report);

/// Bytes that each rank of a group of n sends for one call on a buffer of one byte (bandwidth-optimal algorithms):
/// all-reduce 2(n-1)/n, all-gather, reduce-scatter and all-to-all (n-1)/n, send/receive and broadcast 1
/// (Thakur, Rabenseifner, Gropp 2005). A group of one sends nothing.
double sent_share(const std::string& operation, std::int64_t group);

/// Indented JSON with a final line break; bytes that are not UTF-8 are replaced, since file names may hold any.
void write_json(std::ostream& out, const nlohmann::ordered_json& json);

}  // namespace orrery::tools
