// A recommender (recommender.h) as layers of one rank: embedding tables shared out over ranks, everything else repeated
// on each of them.
//
// Its layers, in order: the tables; the bottom MLP with the tables that every rank holds whole; one layer for each
// cross layer, the first of which puts vectors and dense features together; the top MLP with the loss.
//
// Vectors travel once the rank of a table has added up the rows of a sample, and gradients of these sums come back the
// same way, beside the bottom MLP (and the tables that every rank holds), which needs neither. Where ranks exchange
// among nodes, each node's GPUs hold a part of the rows of its tables: their sums are reduced inside the node to the
// GPU at the receiver's place, which sends them on (HugeCTR's hierarchical exchange).
#pragma once

#include "workloads/model/gpt.h"

namespace orrery::workloads {

/// `split.expert` ranks (or nodes, of `split.expert_tensor` GPUs each) exchange vectors; one rank holds all tables
/// whole. A micro-batch is the rank's part of the batch.
Network dlrm(const Model& model, const Split& split, const Computation& computation);

}  // namespace orrery::workloads
