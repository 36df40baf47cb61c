// What a device draws, and the clock that its power limit leaves.
//
// A limiter holds the mean power over some tens of milliseconds, which is longer than a layer takes: so one clock goes
// with the mix of kernels that a job runs over and over, not one with every kernel. Power is
//
//   standing + speed^n x (active while kernels run + energy per FLOP x FLOP/s at full speed)
//     + clock^n x a share of active while nothing but a collective runs
//     + energy per byte x bytes/s
//     + (energy per byte of a link + twice that of memory) x bytes/s sent to other devices of the node.
//
// speed: of attention the clock over the highest one. Of products clock / product_clock, at most 1: a load of matrix
// units makes a device stretch its clock, so that the short benchmark that timed them saw no more than that share of
// it. Kernels that go by elements, which wait for instructions and the cache, have the clock's speed as attention has;
// those bound by memory, and collectives, take as long at any clock. A collective that kernels wait for is a kernel
// too, of a block for each of its channels: of what a device draws under any kernel it is taken to draw the share that
// these are of its processors. n is 3 where the voltage follows the clock, so that the energy of an operation goes with
// its square (Rabaey, Digital Integrated Circuits, 2nd edition, chapter 5.5), and less where the voltage cannot fall as
// far. Memory, links and leakage stand apart. Clocks are shares of the highest.
//
// Beside the device stand what its bytes take on links and NICs, and the rest of the node: processors, memory, switches
// inside, fans, idle NICs and drives as a constant, and what power supplies lose.
//
// Left out: what all of a device draws as soon as one processor works; boards that differ (temperature:
// steady_clock.h), the data's own toggling, and what phases of seconds without work (a pipeline's idle time, a
// checkpoint) would allow afterwards.
#pragma once

#include <algorithm>
#include <array>

#include "calibration/device/kernel.h"

namespace orrery::calibration {

/// Constants of a device, from its data sheet and fits; SI units.
struct PowerModel {
  double limit = 0;                           // W, of the board or package; 0: unknown, nothing follows
  double standing = 0;                        // W with no kernel running
  double active = 0;                          // W more while any kernel runs, at full clock
  std::array<double, kDataTypes> per_flop{};  // J, of products of the type, at full speed
  double attention = 1;      // energy of an operation of fused attention over a product's: it takes exponentials too
  double product_clock = 1;  // share of the highest clock beyond which products gain nothing
  double exponent = 3;       // power of activity and operations goes with their speed to this
  double per_byte = 0;       // J, of device memory
  double exchange = 0;       // share of `active` that a collective draws with no other kernel beside it
  /// Whether a step's clock follows from the limit; where not, factors that were measured under it (DeviceProfile's
  /// sustained clocks) stand for what it leaves.
  bool governs = true;
  // What the rest of the machine takes; no clock follows from it.
  double per_link_byte = 0;  // J, sent from one device to another of its node
  double per_nic_byte = 0;   // J, through a NIC, in or out
  double host = 0;           // W, of the rest of the node, for each of its devices
  double conversion = 1;     // W behind the node's power supplies for each in front of them
  bool known() const { return limit > 0; }
  double product_speed(double clock) const { return std::min(1.0, clock / product_clock); }
};

/// What a device does over some stretch of time at full clock.
struct Duty {
  double products = 0;                     // seconds of matrix products
  double attention = 0;                    // seconds of fused attention
  double elements = 0;                     // seconds of kernels that go by elements (Streaming)
  double streaming = 0;                    // seconds of kernels bound by memory
  double exchanges = 0;                    // seconds with a collective inside the node and no other kernel
  std::array<double, kDataTypes> flops{};  // of products, by type of operands
  std::array<double, kDataTypes> attention_flops{};
  double bytes = 0;  // of device memory, by kernels
  double sent = 0;   // bytes to other devices of the node, read from memory and written to theirs
  Duty& operator+=(const Duty& other);
  friend Duty operator*(Duty duty, double times);
};

/// The same at a clock: seconds of its kernels there.
Duty at_clock(Duty duty, const PowerModel& power, double clock);
/// Seconds that the stretch takes at a clock.
double seconds_at(const PowerModel& power, const Duty& duty, double clock);
/// Joules that its exchanges with other devices of the node take, at any clock: a device reads as many bytes as it
/// writes.
double exchange_joules(const PowerModel& power, const Duty& duty);
/// Joules beyond what stands, of kernels whose seconds are those at the clock.
struct Activity {
  double active = 0, products = 0, memory = 0;  // products: of attention too
  double sum() const { return active + products + memory; }
};
Activity activity_of(const PowerModel& power, const Duty& there, double clock);
/// Joules that the stretch takes at a clock.
double joules_at(const PowerModel& power, const Duty& duty, double clock);
/// The highest clock, of at most 1, at which the stretch draws no more than the limit on average; not below
/// kLowestClock, where a real limiter would have other means.
double clock_within_limit(const PowerModel& power, const Duty& duty);
inline constexpr double kLowestClock = 0.2;
/// Processors that a collective inside a node takes, one for each of its channels: a channel per NVLink, doubled, on 12
/// of them (NVIDIA/nccl, src/graph/connect.cc; software whose products run beside collectives names them too,
/// feature collective-channels). Left out: libraries and links that make other channels.
inline constexpr double kCollectiveProcessors = 24;

}  // namespace orrery::calibration
