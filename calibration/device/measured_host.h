// What a profile says of the machine that it was measured on, beside its device: how long its host takes over a launch,
// and what products take beside traffic through the device's memory. Generations of software hold such numbers too,
// fitted or assumed for machines that nobody named; where a profile says them, they are of the machine at hand.
#pragma once

#include <vector>

#include "calibration/device/profile.h"
#include "sim/keys.h"
#include "sim/settings.h"

namespace orrery::calibration {

/// Seconds in which the host of calibration/measured/h200-sxm-141gb.csv launches an empty kernel: a server of 2024, as
/// those are on which generations' host times were fitted.
inline constexpr double kUsualLaunch = 2.88e-6;

struct MeasuredHost {
  double launch = 0;  // seconds of an empty kernel's, of many in a row; 0: not said
  /// Times of a product beside traffic, over its time alone; rising traffic, in bytes a second that are read or
  /// written by 24 blocks, as by the channels of a collective.
  struct Beside {
    double traffic = 0, product = 1;
  };
  std::vector<Beside> beside;

  /// The host's time for anything, over that of the usual one; 1 where nothing was measured.
  double pace() const { return launch > 0 ? launch / kUsualLaunch : 1; }
  /// Of a product beside so many bytes a second: by straight lines from 1 at none; 1 where nothing was measured.
  double slowdown(double traffic) const;
};

/// Sections `host` and `interference` of a profile; empty where it has neither.
MeasuredHost measured_host(const DeviceProfile& device);
/// Throws sim::UserError naming the place of what is wrong.
MeasuredHost load_measured_host(const sim::Settings& profile);
/// Their keys, added to `out`.
void measured_host_keys(std::vector<sim::Key>& out);

}  // namespace orrery::calibration
