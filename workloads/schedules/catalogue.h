// The catalogue of pipeline schedules. A new schedule is a file with its row, a declaration and a line of the list
// here, and its test.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

namespace schedules {
extern const Schedule gpipe, one_f_one_b, eager_1f1b, interleaved_1f1b;
extern const Schedule zb_h1, zb_h2, zb_v, v_half, v_min;
extern const Schedule dualpipe;
}  // namespace schedules

/// All schedules, in the order in which lists show them.
inline constexpr std::array kSchedules{
    &schedules::gpipe, &schedules::one_f_one_b, &schedules::eager_1f1b, &schedules::interleaved_1f1b,
    &schedules::zb_h1, &schedules::zb_h2,       &schedules::zb_v,       &schedules::v_half,
    &schedules::v_min, &schedules::dualpipe,
};

/// The schedule of that name; null where there is none.
const Schedule* schedule_named(std::string_view name);

/// The names of the schedules for which `holds` does, in the order of the list.
std::vector<std::string> schedule_names(bool (*holds)(const Schedule& schedule));
/// All names.
std::vector<std::string> schedule_names();

}  // namespace orrery::workloads
