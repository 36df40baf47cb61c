// Facts of measured records, under `extra`, for which the language has keys: what is read there counts as if it stood
// under its key. What has none stays where it is, and load_scenario lists it as not modelled.
#pragma once

#include "sim/settings.h"

namespace orrery::scenarios {

/// The document with such facts moved to their keys, where these are not given; itself where it has none. Throws
/// UserError at a fact that cannot be read.
sim::Settings with_extras(const sim::Settings& document);

}  // namespace orrery::scenarios
