// What `orrery queue` prints: text for people, JSON, a page, and a table of the jobs.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "tools/study/queue_study.h"

namespace orrery::tools {

/// Policies, then of the best one where the GPUs' time goes and how far apart jobs lie. Fits 100 columns.
void write_queue(std::ostream& out, const QueueStudy& study);
/// Times in seconds, shares of the GPUs' time.
nlohmann::ordered_json queue_json(const QueueStudy& study);
/// Kind "queue", drawn by tools/report/page/queue.js.
nlohmann::ordered_json queue_page(const QueueStudy& study);

}  // namespace orrery::tools
