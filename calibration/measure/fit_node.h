// How the GPUs of a node reach each other, from what is known: the shipped profile of the same chip, what drivers and
// the system say of links, and what collectives measured. Measured rates are believed first, since a virtual machine
// may hide links that its collectives use, or have none where the data sheet has.
#pragma once

#include <cstdint>
#include <string>

#include "calibration/measure/fit.h"
#include "calibration/measure/fit_profile.h"

namespace orrery::calibration {

struct FittedNode {
  std::string yaml;      // the section with its key; empty: all of it is the base's
  double line_rate = 0;  // bytes/s and direction of a GPU, which no measured transfer exceeds
  std::int64_t gpus = 0;
  GroupRates rates = GroupRates::by_law;  // of collectives in groups of several sizes
};

FittedNode fit_node(const DeviceFacts& facts, const Samples& samples, const BaseProfile* base);

}  // namespace orrery::calibration
