// Data of a campaign's page: the median campaign as a timeline, the distributions, the studies beside it. Left out:
// every seed's timeline.
#include "tools/study/campaign_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/report/report.h"
#include "tools/report/text.h"
#include "tools/study/campaign.h"

namespace orrery::tools {

using campaign::to_seconds;
using nlohmann::ordered_json;

namespace {

constexpr double kDay = 86'400;
/// Beyond these a timeline is a solid bar.
constexpr std::size_t kMostStops = 5000;

/// Of every stop: when, how long the work went back, how long the job was down, and why.
ordered_json timeline_json(const CampaignStudy& study) {
  ordered_json json{{"wall_s", to_seconds(study.median.wall)}, {"seed", study.summary.median + 1}};
  json["names"] = ordered_json::array();
  for (const campaign::Hazard& hazard : study.plan.hazards) json["names"].push_back(hazard.name);
  json["stops"] = ordered_json::array();
  for (std::size_t i = 0; i < std::min(kMostStops, study.median.stops.size()); ++i) {
    const campaign::Stop& stop = study.median.stops[i];
    const bool planned = stop.cause == campaign::Stop::kPlanned;
    json["stops"].push_back({to_seconds(stop.at), to_seconds(stop.until), to_seconds(stop.lost),
                             planned ? -1 : static_cast<std::int64_t>(stop.cause)});
  }
  json["more"] = study.median.stops.size() - json["stops"].size();
  return json;
}

/// Finishing times (of windows: goodputs, in per cent) in even classes.
ordered_json histogram_json(const CampaignStudy& study) {
  constexpr std::size_t kClasses = 30;
  std::vector<double> values;
  for (const campaign::Outcome& outcome : study.outcomes)
    values.push_back(study.plan.window ? 100 * campaign::goodput(outcome) : campaign::wall_s(outcome) / kDay);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double width = std::max((*high - *low) / kClasses, 1e-9 * std::max(1.0, std::abs(*high)));
  std::vector<std::int64_t> counts(kClasses, 0);
  for (const double value : values) ++counts[std::min(kClasses - 1, static_cast<std::size_t>((value - *low) / width))];
  return {{"from", *low}, {"width", width}, {"counts", counts}, {"unit", study.plan.window ? "goodput, %" : "days"}};
}

ordered_json facts_json(const CampaignStudy& study) {
  const campaign::Summary& summary = study.summary;
  const auto range = [](const campaign::Distribution& d, const auto& text) {
    return fmt::format("{} to {} in 90 % of seeds", text(d.p5), text(d.p95));
  };
  const auto share = [](double value) { return fmt::format("{:.2f} %", 100 * value); };
  const auto count = [](double value) { return number_text(value); };
  ordered_json facts = ordered_json::array();
  if (!study.plan.window)
    facts.push_back({"time to train", long_time_text(summary.wall_s.mean), range(summary.wall_s, long_time_text)});
  facts.push_back({"goodput", share(summary.goodput.mean), range(summary.goodput, share)});
  facts.push_back({"ETTR", share(summary.ettr.mean), "time of steps that count"});
  facts.push_back({"failures", count(summary.failures.mean), range(summary.failures, count)});
  facts.push_back({"MTTR", long_time_text(summary.mttr_s.mean), "from a failure to the next step"});
  if (const double usd = campaign_usd(study, summary.wall_s.mean); usd > 0)
    facts.push_back({"cost", si_text(usd, "USD"), "spare nodes included"});
  return facts;
}

}  // namespace

ordered_json campaign_page(const CampaignStudy& study) {
  const scenarios::Scenario& scenario = study.priced.scenario;
  ordered_json page = campaign_json(study);
  page["kind"] = "campaign";
  page["title"] = "Campaign of " + shortened(scenario.id, 120);
  page["subtitle"] = scenario_line(scenario.job);
  page["description"] = scenario.job.description;
  page["facts"] = facts_json(study);
  page["timeline"] = timeline_json(study);
  page["histogram"] = histogram_json(study);
  page["shares"] = ordered_json::array();
  for (std::size_t s = 0; s < campaign::kShares; ++s) {
    const auto share = static_cast<campaign::Share>(s);
    page["shares"].push_back({name_of(share), study.summary.shares_s[s].mean, meaning_of(share)});
  }
  return page;
}

}  // namespace orrery::tools
