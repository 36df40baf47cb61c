// What a device draws, and the clock that its power limit leaves.
//
// A limiter holds the mean power over some tens of milliseconds, which is longer than a layer takes: so one clock goes
// with the mix of kernels that a job runs over and over, not one with every kernel. Power is
//
//   standing + clock^3 x (active while kernels run + energy per FLOP x FLOP/s) + energy per byte x bytes/s
//     + (energy per byte of a link + twice that of memory) x bytes/s sent to other devices of the node,
//
// where the voltage follows the clock, so that the energy of an operation goes with the clock's square (Rabaey, Digital
// Integrated Circuits, 2nd edition, chapter 5.5), and memory, links and leakage stand apart. Kernels of matrix units
// take longer as the clock falls, those bound by memory do not. Clocks are relative to those of a short benchmark on a
// cool board, which is what kernels were timed at.
//
// Beside the device stand what its bytes take on links and NICs, and the rest of the node: processors, memory, switches
// inside, fans, idle NICs and drives as a constant, and what power supplies lose.
//
// Left out: boards that differ (temperature: steady_clock.h), the data's own toggling, and what phases of seconds
// without work (a pipeline's idle time, a checkpoint) would allow afterwards.
#pragma once

#include <array>

#include "calibration/kernel.h"

namespace orrery::calibration {

/// Constants of a device, from its data sheet and fits; SI units.
struct PowerModel {
  double limit = 0;                           // W, of the board or package; 0: unknown, nothing follows
  double standing = 0;                        // W with no kernel running
  double active = 0;                          // W more while any kernel runs, at full clock
  std::array<double, kDataTypes> per_flop{};  // J, of products of the type, at full clock
  double per_byte = 0;                        // J, of device memory
  /// Whether a step's clock follows from the limit; where not, factors that were measured under it (DeviceProfile's
  /// sustained clocks) stand for what it leaves.
  bool governs = true;
  // What the rest of the machine takes; no clock follows from it.
  double per_link_byte = 0;  // J, sent from one device to another of its node
  double per_nic_byte = 0;   // J, through a NIC, in or out
  double host = 0;           // W, of the rest of the node, for each of its devices
  double conversion = 1;     // W behind the node's power supplies for each in front of them
  bool known() const { return limit > 0; }
};

/// What a device does over some stretch of time at full clock.
struct Duty {
  double clocked = 0;                      // seconds of kernels whose time goes with the clock
  double streaming = 0;                    // seconds of kernels bound by memory
  double waiting = 0;                      // seconds without a kernel
  std::array<double, kDataTypes> flops{};  // by type of operands
  double bytes = 0;                        // of device memory, by kernels
  double sent = 0;                         // bytes to other devices of the node, read from memory and written to theirs
  Duty& operator+=(const Duty& other);
  friend Duty operator*(Duty duty, double times);
};

/// Seconds that the stretch takes at a clock.
double seconds_at(const Duty& duty, double clock);
/// Joules that its exchanges with other devices of the node take, at any clock: a device reads as many bytes as it
/// writes.
double exchange_joules(const PowerModel& power, const Duty& duty);
/// Joules that the stretch takes at a clock.
double joules_at(const PowerModel& power, const Duty& duty, double clock);
/// The highest clock, of at most 1, at which the stretch draws no more than the limit on average; not below
/// kLowestClock, where a real limiter would have other means.
double clock_within_limit(const PowerModel& power, const Duty& duty);
inline constexpr double kLowestClock = 0.2;

}  // namespace orrery::calibration
