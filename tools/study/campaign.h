// What `orrery campaign` prints: text for people, and JSON.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/study/campaign_study.h"

namespace orrery::tools {

/// Four significant digits with the unit that fits, up to days: "54.00 days", "3.090 h", "12.00 s".
std::string long_time_text(double seconds);

/// Sections: run, distributions, where the time goes, causes, checkpoints, what to change first, assumptions. Fits 100
/// columns.
void write_campaign(std::ostream& out, const CampaignStudy& study);

/// Times in seconds; each distribution as {mean, error, p5, p50, p95}.
nlohmann::ordered_json campaign_json(const CampaignStudy& study);

/// Dollars of a run of so many seconds: all nodes, spares too; 0 without a price.
double campaign_usd(const CampaignStudy& study, double wall_s);

}  // namespace orrery::tools
