// The report of a campaign as data of a page.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tools/study/campaign_study.h"

namespace orrery::tools {

/// Kind "campaign", drawn by tools/report/page/campaign.js.
nlohmann::ordered_json campaign_page(const CampaignStudy& study);

}  // namespace orrery::tools
