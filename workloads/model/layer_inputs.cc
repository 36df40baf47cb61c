// See layer_inputs.h. A table has a row for each word of as many elements as all layers take; a product of the embedded
// words makes as many, which are normalised by layer and added (huggingface/transformers, models/gemma4/
// modular_gemma4.py, get_per_layer_inputs, project_per_layer_inputs). Every tensor rank has all of it, for its own
// positions.
//
// Left out: that engines leave the table in the host's memory.
#include "workloads/model/layer_inputs.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "sim/real.h"

namespace orrery::workloads {

namespace {
using calibration::Streaming;
using sim::real;
}  // namespace

void put_layer_inputs(const LayerWriter& writer, Layer& embedding) {
  const Model& model = writer.model();
  LayerWriter w(model, writer.split(), writer.computation());
  const std::int64_t own = model.layer_inputs.width, all = own * model.layers;
  const double e = w.element(), tokens = w.sizes().outside / real(w.sizes().width), made = tokens * real(all);
  const double gradient = calibration::bytes_of(w.computation().precision.gradients);
  w.backward("layer input embedding backward", Streaming::embedding_backward, made, e + 2 * gradient);
  w.forward("layer input embedding", Streaming::embedding, made, 2 * e);
  MatMul p = w.product("layer inputs of the embedding", all, model.hidden);
  p.tokens = std::llround(tokens);
  w.column({std::move(p)}, {});
  w.backward("layer input norm backward", Streaming::layer_norm_backward, made, 3 * e);
  w.forward("layer input norm", Streaming::layer_norm, made, 2 * e);
  w.backward("layer input gradients", Streaming::copy, made, 2 * e);
  w.forward("add layer inputs", Streaming::accumulate, made, 3 * e);
  std::vector<LayerOp> ops = w.take();
  embedding.ops.insert(embedding.ops.end(), std::make_move_iterator(ops.begin()), std::make_move_iterator(ops.end()));
  embedding.kept.push_back({"layer inputs", made, e, 0});
  embedding.kept.push_back({"layer input norm input", made, e, 0});
  const double h = real(model.hidden);
  embedding.weights.push_back({"layer input embedding", real(model.layer_inputs.vocab * all)});
  embedding.weights.push_back({"layer input projection", real(all) * h, h});
  embedding.weights.push_back({"layer input norm", real(own)});
}

}  // namespace orrery::workloads
