// The data-parallel collectives of one stage for the parameters that one kind of group holds: those of routed experts
// belong to other groups than the rest, with buffers and buckets of their own.
#pragma once

#include <list>

#include "workloads/compile/data_collectives.h"
#include "workloads/compile/unit_collectives.h"
#include "workloads/compile/weight_collectives.h"

namespace orrery::workloads {

/// Its parts refer to each other and to the arguments, which must stay valid.
struct DataStream {
  DataStream(const DataParallelism& parallelism, const StageLayout& stage, const CollectivePrices& prices,
             TemplateLibrary& library, ProgramWriter& writer, const HostCopies& host, bool gathers)
      : data(parallelism),
        transfers(data, prices, library, writer, host),
        chunks(data, stage, transfers, writer, gathers),
        units(data, stage, prices, transfers, writer),
        weights(data, stage, prices, library, transfers, writer) {}
  DataStream(const DataStream&) = delete;
  DataStream& operator=(const DataStream&) = delete;

  const DataParallelism& data;
  DataTransfers transfers;
  DataCollectives chunks;
  UnitCollectives units;
  WeightCollectives weights;  // in place of `units` where data.by_weight.on
};

/// One for every kind of group that holds parameters; the first is that of all but experts.
using DataStreams = std::list<DataStream>;

}  // namespace orrery::workloads
