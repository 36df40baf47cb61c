// Looking rows up in the list of schedules. See catalogue.h.
#include "workloads/schedules/catalogue.h"

#include <algorithm>

namespace orrery::workloads {

const Schedule* schedule_named(std::string_view name) {
  const auto found =
      std::find_if(kSchedules.begin(), kSchedules.end(), [&](const Schedule* s) { return s->name == name; });
  return found == kSchedules.end() ? nullptr : *found;
}

std::vector<std::string> schedule_names(bool (*holds)(const Schedule& schedule)) {
  std::vector<std::string> names;
  for (const Schedule* schedule : kSchedules) {
    if (holds(*schedule)) names.emplace_back(schedule->name);
  }
  return names;
}

std::vector<std::string> schedule_names() {
  return schedule_names([](const Schedule&) { return true; });
}

const Schedule& usual_schedule(std::int64_t chunks) {
  return chunks > 1 ? schedules::interleaved_1f1b : schedules::one_f_one_b;
}

}  // namespace orrery::workloads
