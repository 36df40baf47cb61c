// How the blocks of a model lie on the cells (stage, chunk) of a pipeline, and where data goes from each.
//  - loop: block c p + s on chunk c of stage s, the last stage handing on to the first (1F1B, interleaved 1F1B);
//  - vee: two chunks, down the stages and back (ZB-V): blocks s and 2p-1-s on stage s, both ends on stage 0;
//  - both_ways: two copies of the model, one from each end (DualPipe): blocks s and p-1-s on stage s.
#pragma once

#include <cstdint>
#include <optional>

namespace orrery::workloads {

enum class ChunkOrder : std::uint8_t { loop, vee, both_ways };

struct Cell {
  std::int64_t stage = 0, chunk = 0;
  friend bool operator==(const Cell&, const Cell&) = default;
};

class ChunkMap {
 public:
  /// `chunks` on each of the `stages`.
  ChunkMap(ChunkOrder order, std::int64_t stages, std::int64_t chunks)
      : order_(order), stages_(stages), chunks_(chunks) {}

  ChunkOrder order() const { return order_; }
  std::int64_t stages() const { return stages_; }
  std::int64_t chunks() const { return chunks_; }
  /// Blocks that the model is cut into.
  std::int64_t blocks() const { return order_ == ChunkOrder::both_ways ? stages_ : stages_ * chunks_; }
  std::int64_t block_of(Cell cell) const;
  /// Where the activations of a cell go to and come from; nothing at the ends of the model. May be the same stage.
  std::optional<Cell> next(Cell cell) const;
  std::optional<Cell> previous(Cell cell) const;
  /// Boundaries between two stages that the activations of one micro-batch cross.
  std::int64_t crossings() const;
  /// Whether embedding and LM head lie on one stage, so that tied weights need no exchange.
  bool ends_meet() const { return stages_ == 1 || order_ != ChunkOrder::loop; }
  /// Whether a chunk's activations travel from the last stage towards the first.
  bool returns(std::int64_t chunk) const { return order_ != ChunkOrder::loop && chunk == 1; }

 private:
  ChunkOrder order_;
  std::int64_t stages_, chunks_;
};

}  // namespace orrery::workloads
