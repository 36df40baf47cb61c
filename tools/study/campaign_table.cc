// Rows of published campaigns.
#include "tools/study/campaign_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "tools/report/text.h"
#include "workloads/runs/campaign/closed_form.h"

namespace orrery::tools {

namespace {

constexpr std::int64_t kSeeds = 400;

double formula_of(const CampaignStudy& study) {
  const campaign::Save& save = study.plan.saves.front();
  const double step_s = static_cast<double>(study.plan.phases.back().step[0]) / sim::kPicosecondsPerSecond;
  const double interval_s = static_cast<double>(save.every) * step_s;
  return 100 * campaign::expected_ettr(interval_s, campaign::to_seconds(save.stall), study.summary.mttr_s.mean,
                                       1 / campaign::failure_rate(study.plan));
}

std::string published_ettr(const CampaignRow& row) {
  return row.ettr_pct ? fmt::format("{}{:.1f}", row.at_least ? "> " : "", *row.ettr_pct) : "-";
}

}  // namespace

std::vector<CampaignRow> simulate_campaigns(const sim::Settings& document, unsigned jobs) {
  document.refuse_unknown({"title", "campaigns"});
  std::vector<CampaignRow> rows;
  for (const sim::Settings& given : document.at("campaigns").items()) {
    given.refuse_unknown({"name", "scenario", "set", "source", "published", "notes"});
    CampaignRow row;
    row.name = given.at("name").text();
    row.source = given.at("source").text();
    row.notes = given.get_text("notes", "");
    if (const sim::Settings* published = given.find("published"); published != nullptr) {
      published->refuse_unknown({"failures", "ettr_pct", "at_least"});
      if (const sim::Settings* failures = published->find("failures"); failures != nullptr)
        row.failures = failures->as_number(0);
      if (const sim::Settings* ettr = published->find("ettr_pct"); ettr != nullptr)
        row.ettr_pct = ettr->as_number(0, 100);
      row.at_least = published->get_bool("at_least", false);
    }
    std::vector<std::string> sets;
    if (const sim::Settings* list = given.find("set"); list != nullptr) {
      for (const sim::Settings& set : list->items()) sets.push_back(set.text());
    }
    const std::string file = scenarios::data_directory() + "/scenarios/" + given.at("scenario").text();
    const CampaignStudy study = study_campaign(scenarios::read_scenario(file, sets), {kSeeds, jobs, false});
    if (study.interrupted) return {};
    row.summary = study.summary;
    row.formula_pct = formula_of(study);
    rows.push_back(std::move(row));
  }
  return rows;
}

void write_campaign_rows(std::ostream& out, const std::string& title, const std::vector<CampaignRow>& rows) {
  TextTable table({{"campaign", Align::left},
                   {"failures,\npublished"},
                   {"simulated"},
                   {"p5 to p95"},
                   {"ETTR %,\npublished"},
                   {"simulated"},
                   {"p5 to p95"},
                   {"by\nformula"}},
                  "");
  for (const CampaignRow& row : rows) {
    const campaign::Distribution &failures = row.summary.failures, &ettr = row.summary.ettr;
    table.add_row({row.name, row.failures ? fmt::format("{:.0f}", *row.failures) : "-",
                   fmt::format("{:.1f}", failures.mean), fmt::format("{:.0f} to {:.0f}", failures.p5, failures.p95),
                   published_ettr(row), fmt::format("{:.1f}", 100 * ettr.mean),
                   fmt::format("{:.1f} to {:.1f}", 100 * ettr.p5, 100 * ettr.p95),
                   fmt::format("{:.1f}", row.formula_pct)});
  }
  out << title << "\n\n";
  table.write(out);
  out << "\nformula: Kokolis et al. (arXiv 2410.21680), first order in failures; " << kSeeds << " seeds\n\nSources\n";
  for (const CampaignRow& row : rows)
    out << wrapped(fmt::format("{}: {}. {}", row.name, row.source, row.notes), "  - ", "    ");
}

nlohmann::ordered_json campaign_rows_json(const std::string& table, const std::vector<CampaignRow>& rows) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json json;
  json["table"] = table;
  json["rows"] = nlohmann::ordered_json::array();
  for (const CampaignRow& row : rows) {
    json["rows"].push_back({{"name", row.name},
                            {"published_failures", optional(row.failures)},
                            {"failures", row.summary.failures.mean},
                            {"failures_p5", row.summary.failures.p5},
                            {"failures_p95", row.summary.failures.p95},
                            {"published_ettr_pct", optional(row.ettr_pct)},
                            {"at_least", row.at_least},
                            {"ettr_pct", 100 * row.summary.ettr.mean},
                            {"formula_pct", row.formula_pct},
                            {"source", row.source}});
  }
  return json;
}

Grid grid_of(const std::string& title, const std::vector<CampaignRow>& rows) {
  Grid grid;
  grid.title = title;
  grid.columns = {{"campaign", "campaign", true},
                  {"figure", "figure", true},
                  {"published", "published", false, GridColumn::kOfRow},
                  {"simulated", "predicted", false, GridColumn::kOfRow},
                  {"p5", "p5", false, GridColumn::kOfRow},
                  {"p95", "p95", false, GridColumn::kOfRow},
                  {"error", "error_pct"}};
  for (const CampaignRow& row : rows) {
    bool first = true;
    // A bound that was published has no error.
    const auto add = [&](const char* figure, const std::optional<double>& published, const std::string& published_text,
                         bool bound, double times, const campaign::Distribution& simulated) {
      const double mean = times * simulated.mean, low = times * simulated.p5, high = times * simulated.p95;
      Grid::Row line;
      line.cells = {
          first ? row.name : "",       figure, published_text, fmt::format("{:.1f}", mean), fmt::format("{:.1f}", low),
          fmt::format("{:.1f}", high), "-"};
      line.exact = {row.name,
                    figure,
                    published ? fmt::format("{}", *published) : "",
                    fmt::format("{}", mean),
                    fmt::format("{}", low),
                    fmt::format("{}", high),
                    ""};
      if (published && !bound) {
        const double error = 100 * (mean / *published - 1);
        line.cells.back() = error_text(error);
        line.exact.back() = fmt::format("{}", error);
      }
      line.unit = times == 100 ? "%" : "";
      line.begins_group = first;
      first = false;
      grid.rows.push_back(std::move(line));
    };
    add("failures", row.failures, row.failures ? fmt::format("{:.0f}", *row.failures) : "-", false, 1,
        row.summary.failures);
    add("ETTR, %", row.ettr_pct, published_ettr(row), row.at_least, 100, row.summary.ettr);
    grid.notes.push_back(fmt::format("{}: {}. {} ETTR by the first-order formula: {:.1f} %.", row.name, row.source,
                                     row.notes, row.formula_pct));
  }
  return grid;
}

}  // namespace orrery::tools
