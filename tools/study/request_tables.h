// Tables of the requests of one measured run: when each came, began, had its first token and its last. The run is
// simulated whole, with the table as its trace, and every request stands beside its prediction. And tables of the
// seconds of such a run, which stand beside it: what ran, waited, was cached and was written.
#pragma once

#include <vector>

#include "tools/study/serving_tables.h"
#include "tools/study/table_file.h"

namespace orrery::tools {

bool is_request_table(const TableFile& table);
/// Which model, on which devices, the file's name says: DEVICE-MODEL[-tpN]-requests. Throws sim::UserError.
std::vector<ServingRow> validate_requests(const TableFile& table);

bool is_seconds_table(const TableFile& table);
/// The run is that of the table of requests whose name ends with -requests in place of -seconds. Throws sim::UserError.
std::vector<ServingRow> validate_seconds(const TableFile& table);

}  // namespace orrery::tools
