// See served_figures.h. Rates of prompts and answers are those of the nodes of the pool that computes them.
#include "tools/study/served_figures.h"

#include <fmt/format.h>

#include "scenarios/serving.h"
#include "tools/study/serving_study.h"

namespace orrery::tools {

namespace {

struct ServedFigure {
  const char *name, *unit, *title;
  double (*predicted)(const ServingStudy& study);
};

double per_node(const ServingStudy& study, const PoolStudy& pool, double count) {
  const double nodes =
      static_cast<double>(pool.pool.gpus()) / static_cast<double>(study.scenario.machine.gpus_per_node);
  return study.duration_s > 0 ? count / study.duration_s / nodes : 0;
}

constexpr ServedFigure kServedFigures[] = {
    {"input_tokens_per_s_per_node", "tokens/s", "read/s/node",
     [](const ServingStudy& s) { return per_node(s, s.pools.front(), s.input_tokens); }},
    {"output_tokens_per_s_per_node", "tokens/s", "written/s/node",
     [](const ServingStudy& s) { return per_node(s, s.pools.back(), s.output_tokens); }},
    {"tokens_per_s_per_user", "tokens/s", "tokens/s/user",
     [](const ServingStudy& s) { return s.tpot.mean > 0 ? 1 / s.tpot.mean : 0; }}};

}  // namespace

std::vector<std::string> served_figure_names() {
  std::vector<std::string> names;
  for (const ServedFigure& figure : kServedFigures) names.emplace_back(figure.name);
  return names;
}

void predict_served(const sim::Settings& scenario, const sim::Settings& published, RecordRow& row) {
  const ServingStudy study = study_serving(scenarios::load_serving(scenario));
  row.gpus = study.gpus();
  std::vector<std::string> pools;
  for (const PoolStudy& pool : study.pools)
    pools.push_back(fmt::format("{} x EP{} DP{}", pool.pool.replicas, pool.pool.replica.layout.expert,
                                pool.pool.replica.layout.attention_data));
  row.layout = fmt::format("{}", fmt::join(pools, " + "));
  for (const ServedFigure& figure : kServedFigures) {
    if (const sim::Settings* given = published.find(figure.name))
      row.cells.push_back({figure.name, figure.title, figure.unit, given->as_number(), figure.predicted(study)});
  }
}

}  // namespace orrery::tools
