// Traces of a cluster's queue as people have them: CSV with a header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/runs/queue/replay.h"

namespace orrery::tools {

/// The jobs of a trace, and what of it was left out.
struct QueueTrace {
  std::vector<queue::Request> jobs;  // by arrival; curve 0
  std::int64_t without_gpus = 0, without_time = 0, too_large = 0, elsewhere = 0;
  bool limits = false;  // the trace has a column of them; else a job's limit is its time
};

/// Reads `file`. Columns by name, others are passed over, of each the first name that is there:
///  - submit_s, submit_time, submitted_time or arrival: seconds, or YYYY-MM-DD HH:MM:SS (a zone behind it is passed
///    over);
///  - gpus, gpu_num, num_gpus or plan_gpu;
///  - duration_s, duration or runtime: seconds;
///  - limit_s, time_limit or walltime: seconds that the scheduler expects (optional);
///  - device or gpu_type: what the job asks for (optional), looked at where `device` is not empty: jobs that name
///    neither it nor its first word (a100, of a100-sxm-80gb, in any case) belong elsewhere, those that name none here.
/// These are the columns of Helios and Acme (Hu et al., SC 2021; NSDI 2024). Jobs without GPUs, without a time or
/// larger than `most_gpus`, and those that belong elsewhere, are counted and left out. Throws UserError with line and
/// column.
QueueTrace read_queue_trace(const std::string& file, std::int64_t most_gpus, const std::string& device = {});

}  // namespace orrery::tools
