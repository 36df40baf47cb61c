// See milestones.h.
#include "tools/report/milestones.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "tools/report/text.h"
#include "workloads/model/token_flops.h"

namespace orrery::tools {

namespace {

/// Of "2017-06" the middle of that month, in years.
double year_of(const sim::Settings& month) {
  const std::string& text = month.text();
  int year = 0, of_year = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d%c", &year, &of_year, &rest) != 2 || year < 1940 || of_year < 1 || of_year > 12)
    month.expected("a month, as in 2017-06");
  return year + (of_year - 0.5) / 12;
}

Milestone read_milestone(const sim::Settings& row) {
  row.refuse_unknown({"name", "published_in", "model", "parameters", "tokens", "published", "by", "source", "notes"});
  Milestone m;
  m.name = row.at("name").text();
  m.source = row.at("source").text();
  m.notes = row.get_text("notes", "");
  m.by_square = row.at("by").as_choice({"6nd", "square"}) == "square";
  const auto number = [&](const char* key) -> std::optional<double> {
    const sim::Settings* member = row.find(key);
    return member != nullptr ? std::optional(member->as_number(1)) : std::nullopt;
  };
  m.tokens = number("tokens");
  m.published = number("published");
  if (const sim::Settings* month = row.find("published_in")) m.year = year_of(*month);
  std::optional<workloads::TokenFlops> flops;
  if (const sim::Settings* model = row.find("model"); model != nullptr) {
    const workloads::Model counted = model_of(*model);
    m.parameters = workloads::parameter_count(counted);
    m.active = workloads::active_parameter_count(counted);
    flops = workloads::token_flops(counted);
  } else {
    m.parameters = m.active = row.at("parameters").as_number(1);
    if (m.by_square) row.at("by").fail("got square, expected 6nd where no model is given");
  }
  if (!m.tokens) return m;
  m.six_n = 6 * m.active * *m.tokens;
  if (flops) {
    m.square = flops->training_square() * *m.tokens;
    m.causal = flops->training_causal() * *m.tokens;
  }
  return m;
}

std::string flops_text(const std::optional<double>& flops) { return flops ? fmt::format("{:.3g}", *flops) : "-"; }
std::string exact_text(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

}  // namespace

std::optional<double> Milestone::error_pct() const {
  const std::optional<double>& counted = by_square ? square : six_n;
  if (!published || !counted) return std::nullopt;
  return 100 * (*counted / *published - 1);
}

workloads::Model model_of(const sim::Settings& model) {
  // A model is checked as part of a job; one GPU and one sequence ask nothing of it.
  sim::Settings document = scenarios::parse_yaml(
      "cluster: {device: h100-sxm-80gb, gpus: 1}\nparallelism: {tensor: 1}\nbatch: {global: 1, micro: 1}\n",
      model.place().file.text());
  scenarios::apply(document, {"model", model});
  return scenarios::load_scenario(document).job.model;
}

std::vector<Milestone> milestones_of(const sim::Settings& document) {
  document.refuse_unknown({"title", "milestones"});
  std::vector<Milestone> milestones;
  for (const sim::Settings& row : document.at("milestones").items()) milestones.push_back(read_milestone(row));
  return milestones;
}

Grid milestones_grid(const std::string& title, const std::vector<Milestone>& milestones) {
  Grid grid;
  grid.title = title + ", FLOPs";
  const char* unit = "FLOP";
  grid.columns = {{"system", "name", true},
                  {"parameters", "parameters"},
                  {"tokens", "tokens"},
                  {"6 N D", "six_n", false, unit},
                  {"square", "square", false, unit},
                  {"causal", "causal", false, unit},
                  {"published", "published", false, unit},
                  {"error", "error_pct"}};
  for (const Milestone& m : milestones) {
    const auto error = m.error_pct();
    Grid::Row row;
    row.cells = {m.name,
                 si_text(m.active, ""),
                 m.tokens ? si_text(*m.tokens, "") : "-",
                 flops_text(m.six_n) + (m.published && !m.by_square ? "*" : " "),
                 flops_text(m.square) + (m.published && m.by_square ? "*" : " "),
                 flops_text(m.causal),
                 flops_text(m.published),
                 error ? error_text(*error) : "-"};
    row.exact = {m.name,
                 exact_text(m.active),
                 exact_text(m.tokens),
                 exact_text(m.six_n),
                 exact_text(m.square),
                 exact_text(m.causal),
                 exact_text(m.published),
                 exact_text(error)};
    grid.rows.push_back(std::move(row));
  }
  grid.notes.emplace_back(
      "* is what the published figure is compared with. Parameters are those that a token meets; square counts every "
      "product with attention over the whole square, causal the pairs that a causal mask leaves.");
  for (const Milestone& m : milestones)
    grid.notes.push_back(fmt::format("{}: {}.{}", m.name, m.source, m.notes.empty() ? "" : " " + m.notes));
  return grid;
}

nlohmann::ordered_json milestones_json(const std::string& table, const std::vector<Milestone>& milestones) {
  const auto value = [](const std::optional<double>& number) {
    return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json(nullptr);
  };
  nlohmann::ordered_json json;
  json["table"] = table;
  json["rows"] = nlohmann::ordered_json::array();
  for (const Milestone& m : milestones) {
    json["rows"].push_back({{"name", m.name},
                            {"parameters", m.parameters},
                            {"active_parameters", m.active},
                            {"tokens", value(m.tokens)},
                            {"six_n", value(m.six_n)},
                            {"square", value(m.square)},
                            {"causal", value(m.causal)},
                            {"published", value(m.published)},
                            {"error_pct", value(m.error_pct())},
                            {"source", m.source}});
  }
  return json;
}

}  // namespace orrery::tools
