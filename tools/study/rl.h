// What `orrery rl` prints: text for people, JSON, data of the HTML report.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <vector>

#include "tools/study/rl_study.h"

namespace orrery::tools {

void write_rl(std::ostream& out, const RlStudy& study);
void write_rl_splits(std::ostream& out, const std::vector<RlSplit>& splits);
nlohmann::ordered_json rl_json(const RlStudy& study);
nlohmann::ordered_json rl_splits_json(const std::vector<RlSplit>& splits);
nlohmann::ordered_json rl_page(const RlStudy& study);

}  // namespace orrery::tools
