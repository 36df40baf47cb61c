// A campaign over many seeds, beside the same with other intervals, other sizes of the machine and single improvements.
#pragma once

#include <string>
#include <vector>

#include "tools/study/campaign_prices.h"
#include "workloads/runs/campaign/distribution.h"

namespace orrery::tools {

struct CampaignOptions {
  std::int64_t seeds = 1000;
  unsigned jobs = 1;
  bool studies = true;  // what is beside it
};

/// The interval of checkpoints, in steps of the first tier.
struct IntervalStudy {
  struct Point {
    double steps = 0, goodput = 0, error = 0;  // error: half of the 95 % interval
  };
  std::vector<Point> points;
  double stall_s = 0;                              // of a checkpoint
  double used = 0, best = 0, young = 0, daly = 0;  // steps; the last two 0 where nothing fails
};

struct CampaignStudy {
  PricedCampaign priced;
  campaign::Plan plan;
  std::vector<campaign::Outcome> outcomes;  // by seed: 1, 2, ...
  campaign::Summary summary;
  campaign::Outcome median;  // with its stops
  IntervalStudy interval;
  struct Change {
    std::string what;
    double saved_s = 0, goodput = 0;  // mean of the whole run; of a window what the same work would have taken less
  };
  std::vector<Change> changes;  // the most worthwhile first
  struct Size {
    double gpus = 0, goodput = 0, error = 0;
  };
  std::vector<Size> sizes;  // as many failures and ranks as so many GPUs have, the step as it is
  bool interrupted = false;
};

/// The same bytes for any number of jobs. Throws UserError.
CampaignStudy study_campaign(const sim::Settings& document, const CampaignOptions& options);

}  // namespace orrery::tools
