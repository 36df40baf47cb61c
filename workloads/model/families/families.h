// Families of models: a file each, and a row of a catalogue. What a family's layers are put together from stands a
// floor below, and is shared; what is laid over the layers of any family (more residual streams, adapters, a part
// recomputed) is a transformation of the network.
#pragma once

#include <string_view>
#include <vector>

#include "workloads/model/computation.h"

namespace orrery::workloads {

struct Family {
  std::string_view name;
  bool (*holds)(const Model& model);  // whether the model is one of it; of several the first of the catalogue
  /// Its layers on one rank of its groups. Of a recommender `split.expert` ranks (or nodes, of `split.expert_tensor`
  /// GPUs each) exchange vectors, one rank holds all tables whole, and a micro-batch is the rank's part of the batch.
  Network (*layers)(const Model& model, const Split& split, const Computation& computation);
};
/// The last of which holds every model.
const std::vector<Family>& families();

/// The layers of a model of any family, with what is laid over them.
Network network(const Model& model, const Split& split, const Computation& computation);

// Families, by their layers.
Network gpt(const Model& model, const Split& split, const Computation& computation);
Network moe(const Model& model, const Split& split, const Computation& computation);
Network hybrid(const Model& model, const Split& split, const Computation& computation);
Network dlrm(const Model& model, const Split& split, const Computation& computation);

/// The model of a pattern as a block of that kind sees it: with the block's attention and MLP in place of its own.
Model as_seen_by(const Model& model, const Model::Block& block);

}  // namespace orrery::workloads
