// What `orrery serving` prints: text for people, JSON by the names of `vllm bench serve`, tables of requests and of
// time.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "tools/study/serving_study.h"

namespace orrery::tools {

/// Sections: what is served, rates, latencies, the cache, where time goes, energy and cost, assumptions. Fits 100
/// columns.
void write_serving(std::ostream& out, const ServingStudy& study);
nlohmann::ordered_json serving_json(const ServingStudy& study);
/// Data of the HTML report.
nlohmann::ordered_json serving_page(const ServingStudy& study);
/// A row a request.
void write_requests_csv(std::ostream& out, const ServingStudy& study);
/// A row an instant: what runs, waits and is cached, of each replica.
void write_timeline_csv(std::ostream& out, const ServingStudy& study);

}  // namespace orrery::tools
