// See carried_traffic.h. Counted by what is made, where the program counts it by what a message takes along.
#include "workloads/traffic/carried_traffic.h"

#include <map>
#include <optional>
#include <vector>

#include "workloads/model/carried.h"

namespace orrery::workloads {

namespace {

/// The first block of each chunk that takes its input from another stage, of one copy of the model.
std::vector<std::int64_t> begun_by_messages(const LayerSplit& split, const ChunkMap& map) {
  std::vector<std::int64_t> begins;
  const std::int64_t chunks = map.order() == ChunkOrder::both_ways ? 1 : map.chunks();
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
    for (std::int64_t stage = 0; stage < map.stages(); ++stage) {
      const std::optional<Cell> ahead = map.previous({stage, chunk});
      if (ahead && ahead->stage != stage) begins.push_back(split.of(chunk, stage, map.stages()).begin - 1);
    }
  return begins;
}

}  // namespace

double carried_elements(const Model& model, const LayerSplit& split, const ChunkMap& map) {
  if (!carries(model)) return 0;
  std::map<std::int64_t, CarriedRead> last;  // by what made it
  for (std::int64_t reader = 0; reader < model.layers; ++reader)
    for (const CarriedRead& read : carried_reads(model, reader))
      if (read.maker >= 0) last[read.maker] = read;
  double elements = 0;
  for (const std::int64_t begin : begun_by_messages(split, map))
    for (const auto& [maker, read] : last)
      if (maker < begin && begin <= read.reader) elements += read.elements;
  return elements;
}

}  // namespace orrery::workloads
