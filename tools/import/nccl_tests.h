// What nccl-tests and rccl-tests print, as samples of a network. Rows are those of `orrery collective`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery::tools {

/// One size of one collective.
struct NcclTestsRow {
  double bytes = 0;    // of the whole buffer
  double seconds = 0;  // out of place; in place where that alone was run
};

struct NcclTests {
  std::string operation;  // "all_reduce", as the programs are called; empty: the output does not say
  std::int64_t gpus = 0;  // that its lines name; 0: none
  std::vector<NcclTestsRow> rows;
};

/// Reads the output of one program of nccl-tests (doc/PERFORMANCE.md there), whatever else stands around its lines.
/// Throws sim::UserError: no row, a row that is cut off or whose bandwidth is not its bytes over its time, several
/// programs one after the other.
NcclTests read_nccl_tests(const std::string& text, const std::string& file);

}  // namespace orrery::tools
