// Several models on one cluster, run: each model's answer, and what they come to together.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "scenarios/served_models.h"
#include "tools/study/served_search.h"
#include "tools/study/serving_study.h"

namespace orrery::tools {

struct ServedModelsStudy {
  scenarios::ServedModels scenario;
  std::vector<ServingStudy> models;

  /// Of all models. Each has its own duration, so that sums are of rates.
  struct Totals {
    std::int64_t gpus = 0;
    double requests_per_s = 0, good_per_s = 0, output_per_s = 0, tokens_per_s = 0;
    double mean_gpus = 0;
    double watts = 0, joules = 0;  // of all nodes; 0: unknown
    double gpu_hours = 0, usd = 0, usd_per_hour = 0;
    std::int64_t promised = 0, kept = 0;  // models that promise something, and keep it
    double usd_per_million() const { return output_per_s > 0 ? usd_per_hour / 3600 / output_per_s * 1e6 : 0; }
    double joules_per_token() const { return output_per_s > 0 ? watts / output_per_s : 0; }
  };
  Totals totals() const;
};

/// Throws sim::UserError.
ServedModelsStudy study_served_models(const scenarios::ServedModels& scenario);

/// A table of the models, their sums, and then each model as write_serving() has it.
void write_served_models(std::ostream& out, const ServedModelsStudy& study);
nlohmann::ordered_json served_models_json(const ServedModelsStudy& study);
/// Data of the HTML report.
nlohmann::ordered_json served_models_page(const ServedModelsStudy& study);
/// As write_requests_csv() and write_timeline_csv(), behind a column of the model.
void write_models_requests_csv(std::ostream& out, const ServedModelsStudy& study);
void write_models_timeline_csv(std::ostream& out, const ServedModelsStudy& study);

/// Each model searched by itself, on all of the cluster's GPUs; of those that seek the fewest GPUs then all together.
struct ServedModelsSearch {
  std::string scenario;
  std::vector<ServedSearch> models;
  std::int64_t gpus = 0, cluster_gpus = 0;  // gpus: of the best of each; 0 where one has none, or all ask for fronts
  std::vector<std::string> sets;            // that make the scenario the best of each
  bool together = false;                    // whether all promises are kept where these share the cluster
  std::string refusal;                      // why they were not simulated together
};
/// Throws sim::UserError.
ServedModelsSearch search_served_models(const sim::Settings& document, std::size_t top, unsigned jobs);
void write_served_models_search(std::ostream& out, const ServedModelsSearch& search, const std::string& command);
nlohmann::ordered_json served_models_search_json(const ServedModelsSearch& search);

}  // namespace orrery::tools
