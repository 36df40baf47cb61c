// The data sheet of a measured device, without a fit.
#include "calibration/fit_profile.h"

#include <fmt/format.h>

namespace orrery::calibration {

std::string fit_profile(const DeviceFacts& facts, const Samples&, const DeviceProfile*) {
  std::string text = fmt::format("name: {}\nprovenance: {}\n", facts.name, facts.description);
  for (const std::string& note : facts.notes) text += "# " + note + "\n";
  return text;
}

}  // namespace orrery::calibration
