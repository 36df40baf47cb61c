// `orrery reproduce` of tables whose rows are scenarios of their own, with whatever figures were published of them:
// rates, watts, or what one row gains over another.
#pragma once

#include <string>

#include "sim/settings.h"
#include "tools/study/record_table.h"

namespace orrery::tools {

/// Reads and simulates a table: {title, source, scenario, figures, notes}, each of `figures` {name, scenario, set,
/// over, published}. A row's scenario is a shipped one's name or a mapping; rows without one take the table's.
/// `published` has any of iteration_s, tokens_per_s, model_tflops_per_gpu, hardware_tflops_per_gpu, aggregate_pflops,
/// mfu_pct, bubble_pct (idle over the work of the busiest rank), gpu_w, node_w (at the plug), node_dc_w (behind the
/// supplies), energy_per_token_j, and gain: tokens/s over those of the row before that `over` names. Throws
/// sim::UserError; stops early, with no rows, after Ctrl-C.
RecordTable simulate_figures(const std::string& name, const sim::Settings& document, unsigned jobs);

}  // namespace orrery::tools
