// What a training framework lets its user choose: the ways of sharding, recomputing and scheduling that a generation's
// document lists under `offers`, with their source. A search offers no layout that the named software does not have.
// Left out: sizes that a framework refuses for a reason of its own, as heads that do not divide.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

struct Offers {
  std::string software;  // whose they are; empty: nothing is known, and everything is offered
  /// As the language spells them; nothing: not known.
  std::optional<std::vector<std::string>> sharding, with_pipeline, recompute, schedule;
  bool tensor = true, pipeline = true;  // whether it has such parallelism at all

  /// Of `all`, what it has. `stages`: more than one.
  std::vector<std::string> sharding_of(const std::vector<std::string>& all, bool stages) const;
  std::vector<std::string> recompute_of(const std::vector<std::string>& all) const;
  bool has_schedule(const std::string& name) const;
  /// What of these a search leaves out, in a clause; empty: nothing.
  std::string missing_text() const;
};
/// `document`: a scenario, whose software may be a name or a mapping. Throws sim::UserError.
Offers offers_of(const sim::Settings& document);

}  // namespace orrery::tools
