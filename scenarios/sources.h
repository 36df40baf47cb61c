// Internal to scenarios and to the comparison with measurements: what the sources of published records say beyond the
// records themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/settings.h"

namespace orrery::scenarios {

/// Whether a record's id is `pattern`, or begins with what stands before a trailing *.
bool is_record(std::string_view id, std::string_view pattern);

/// How the sentence on a corrected key begins.
inline constexpr std::string_view kCorrected = "Corrected: ";

/// `document` with the keys that it leaves open and that scenarios/published/sources.yaml knows for its id, and with
/// those that its source is known to contradict put right, where the record's own file says them; says which in
/// `notes`, one sentence each. A document without id is returned as it is. Throws UserError for a broken sources.yaml.
sim::Settings completed(const sim::Settings& document, std::vector<std::string>& notes);

}  // namespace orrery::scenarios
