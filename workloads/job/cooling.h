// How warm the GPUs of a node get from what they draw, and what that takes from their clocks.
//
// A node's stream of air or coolant passes GPUs one behind the other: with eight on a board and air from the front, the
// four in the second row breathe what the first four have warmed. Of a row, once it is warm,
//
//   temperature = inlet + heating x watts of the GPUs ahead in its stream + resistance x its own watts,
//
// and what stands of a GPU's power grows with temperature (leakage), which its limit takes from the clock. A GPU that
// would pass its slowdown temperature lowers its clock until it does not, which is a lower limit of power. Temperature
// and watts follow from each other: the fixed point is found by repetition, since a kelvin leaks far less than the watt
// that makes it.
//
// Who waits for others goes at the pace of the warmest row: every data-parallel replica, and nearly every tensor group
// and pipeline, has GPUs of all rows (the imbalance that Go et al. measure, Characterizing the Efficiency of
// Distributed Training, arXiv 2509.10371).
//
// The device's constants hold at the temperature of the usual air-cooled node with every GPU at its limit. Where the
// scenario says no more: air, 25 C, two rows, 40 K from air to GPU at the board's limit, and 6.6 K from row to row: a
// DGX H100 of 10.2 kW moves 1105 CFM of air (its data sheet), which warms by 16 K; a row of four GPUs makes 27 % of the
// heat, in the two thirds of the air that are taken to pass the GPUs. Coolant: 30 C, one row, 22 K.
//
// Left out: neighbours in the rack, fans that answer to temperature, memory's own temperature, what colder rows draw
// less while they wait.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "calibration/device/power.h"

namespace orrery::workloads {

struct Cooling {
  enum class By : std::uint8_t { unstated, air, liquid } by = By::unstated;  // unstated: no temperature follows
  double inlet_c = 25;                                                       // of what enters the node
  double resistance = 0;                                                     // K/W, from the stream to the GPU
  double heating = 0;                                                        // K/W, of the stream behind a GPU
  std::int64_t rows = 1;        // GPUs that a stream passes one behind the other
  double slowdown_c = 87;       // above which a GPU lowers its clock (nvidia-smi -q, GPU Max Operating Temp of an H100)
  double time_constant_s = 30;  // after which 63 % of a change of power have become temperature
  bool known() const { return by != By::unstated; }
  bool operator==(const Cooling&) const = default;
};
std::string_view name_of(Cooling::By by);
/// What is usual for boards with this limit, in W.
Cooling usual_cooling(Cooling::By by, double limit_w);
/// Temperature at which constants of boards with this limit hold.
double reference_temperature_c(double limit_w);

/// The GPUs of a row, warm.
struct WarmRow {
  double temperature_c = 0, clock = 1, watts = 0;
  double limit_w = 0;      // what its board may draw: less than its own limit where it would pass the slowdown
  bool throttled = false;  // whether temperature alone sets that limit
};

/// By row, the one that the stream meets first ahead. `power`: of the device at its reference temperature, with the
/// limit that holds. `leakage_per_k`: how much more of what stands it draws for each kelvin; `warmer_k`: kelvin beside
/// those that cooling explains.
std::vector<WarmRow> warm_rows(const Cooling& cooling, const calibration::PowerModel& power, double own_limit_w,
                               double leakage_per_k, double warmer_k, const calibration::Duty& duty);
/// W that a GPU of the last row may draw without passing the slowdown, with all ahead of it at this limit.
double least_room_w(const Cooling& cooling, double limit_w);

}  // namespace orrery::workloads
