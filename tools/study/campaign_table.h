// Published failures and effective training times beside campaigns: what `orrery reproduce` prints of a table that has
// `campaigns`.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/report/grid.h"
#include "tools/study/campaign_study.h"

namespace orrery::tools {

struct CampaignRow {
  std::string name, source, notes;
  std::optional<double> failures, ettr_pct;  // published
  bool at_least = false;                     // of ettr_pct
  campaign::Summary summary;
  /// By the formula of Kokolis et al. (campaign/closed_form.h), with the campaign's interval, stall, mean time to
  /// repair and failure rate.
  double formula_pct = 0;
};

/// Simulates all campaigns of a table, in order; nothing after Ctrl-C. Throws UserError.
std::vector<CampaignRow> simulate_campaigns(const sim::Settings& document, unsigned jobs);
void write_campaign_rows(std::ostream& out, const std::string& title, const std::vector<CampaignRow>& rows);
nlohmann::ordered_json campaign_rows_json(const std::string& table, const std::vector<CampaignRow>& rows);

Grid grid_of(const std::string& title, const std::vector<CampaignRow>& rows);

}  // namespace orrery::tools
