// `orrery campaign`: weeks of training over many seeds.
#include "tools/study/campaign.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/parallel.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/study/campaign_page.h"
#include "tools/study/campaign_study.h"

namespace orrery::tools {

namespace {

struct CampaignFlags {
  std::string scenario, json, report;
  std::vector<std::string> sets;
  std::int64_t seeds = 1000;
  unsigned jobs = 0;
};

int campaign_command(const CampaignFlags& options) {
  check_writable(options.json);
  check_report(options.report);
  const sim::Settings document = scenarios::read_scenario(options.scenario, options.sets);
  const InterruptGuard guard;
  const CampaignStudy study =
      study_campaign(document, {options.seeds, options.jobs > 0 ? options.jobs : default_jobs(), true});
  if (study.interrupted) return kInterrupted;
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, campaign_json(study)); });
  if (!options.report.empty())
    write_output(options.report, [&](std::ostream& out) { write_page(out, campaign_page(study)); });
  if (options.json != "-" && options.report != "-") write_campaign(std::cout, study);
  return kDone;
}

}  // namespace

Action declare_campaign(CommandOptions app) {
  const auto options = std::make_shared<CampaignFlags>();
  app.add_option("scenario", options->scenario, "scenario with a campaign section, a file (YAML) or a name").required();
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--seeds", options->seeds, "campaigns to run, each with its own failures (default 1000)")
      .check(Range(1, 1'000'000));
  app.add_option("--jobs", options->jobs, "campaigns at a time (default: one per core)").check(Range(1, 1024));
  app.add_option("--json", options->json, "write the result as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write charts of the campaign as one HTML file that needs no network")
      .type_name("FILE");
  return [options] { return campaign_command(*options); };
}

}  // namespace orrery::tools
