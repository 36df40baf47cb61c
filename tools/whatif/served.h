// Scenarios of the what-if page that are served, or whose model learns from its own answers: what `orrery serving` and
// `orrery rl` report, what the page's controls show, points of a curve of loads.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/settings.h"

namespace orrery::tools {

/// What is asked of a scenario.
enum class QuestionKind : std::uint8_t { train, serve, rl };
std::string_view name_of(QuestionKind kind);
/// By its sections: rl, serving, or neither.
QuestionKind kind_of(const sim::Settings& document);

/// {"kind", "result", "layout", "yaml"} and, where they are asked for, "charts", as the answer to "run". Throws
/// UserError.
nlohmann::ordered_json answer_served(const sim::Settings& document, bool charts);
nlohmann::ordered_json answer_rl(const sim::Settings& document, bool charts);

/// A row of a table: what came of it in short, or its status and the reason.
nlohmann::ordered_json served_point(const sim::Settings& document);

/// What loading ends with, or a model that its GPUs cannot hold; empty: it can be run. Without a run.
std::string served_complaint(const sim::Settings& document);

}  // namespace orrery::tools
