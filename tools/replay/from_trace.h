// A profiler's trace of a rank as a graph. What waits for what, a trace does not say: a kernel waits for the call that
// launched it (its correlation) and for the kernel before it on its stream; where it begins later than both, it waits
// for the kernel of another stream that ended last before, if that was just before, as an event between streams makes
// it; calls of the host follow one another, and one that blocks (its name says so) waits for what the device ended
// while it did. What still lies between is idle time of its own. So does Lumos (Liang et al., MLSys 2025, section 3).
// Left out: threads of the host that run at the same time, which take turns here.
#pragma once

#include <cstdint>
#include <set>

#include "tools/learn/trace.h"
#include "tools/replay/graph.h"
#include "tools/replay/members.h"

namespace orrery::tools {

/// `traced`: the ranks of all traces. A call of a group of which no other rank was traced waited for its peers as long
/// as it took beyond the quickest call of its kind: that is kept as idle time. `members`: by the layout of the job;
/// null: groups are known where the trace says their ranks.
RankGraph graph_of_trace(const Trace& trace, std::int64_t rank, const std::set<std::int64_t>& traced,
                         const Members* members);

}  // namespace orrery::tools
