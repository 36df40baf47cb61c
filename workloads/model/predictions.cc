// Blocks that predict further tokens. See predictions.h. Left out: that the last of a sequence's tokens have nothing
// further on to predict.
#include "workloads/model/predictions.h"

#include <utility>

#include "sim/real.h"
#include "workloads/model/halves.h"

namespace orrery::workloads {

namespace {
using calibration::Streaming;
using sim::real;
}  // namespace

Layer prediction(LayerWriter& writer, Layer layer) {
  const Model& model = writer.model();
  const Sizes& sizes = writer.sizes();
  const double e = writer.element();
  writer.backward("embedding backward", Streaming::embedding_backward, sizes.outside, 3 * e);
  writer.forward("embedding", Streaming::embedding, sizes.outside, 2 * e);
  writer.norm("hidden norm", "hidden norm backward");
  writer.norm("embedding norm", "embedding norm backward", false);
  writer.backward("take halves apart", Streaming::copy, 2 * sizes.outside, 2 * e);
  writer.forward("put halves together", Streaming::copy, 2 * sizes.outside, 2 * e);
  writer.cast(2 * sizes.outside, "cast input", Direction::forward);
  std::optional<InputExchange> input = writer.enter();
  if (input) input->elements = 2 * sizes.hidden;
  writer.column({writer.product("prediction projection", model.hidden / sizes.tensor, 2 * model.hidden)}, input);
  if (sizes.tensor > 1) {
    const Exchange out = sizes.sequence_parallel ? Exchange::reduce_scatter : Exchange::all_gather;
    writer.add(CommOp{CommGroup::tensor, out, sizes.hidden, e, "prediction, forward", "prediction gradients, backward",
                      CommOverlap::none, CommOverlap::none});
  }
  const std::vector<LayerOp> ahead = writer.take();
  layer.ops.insert(layer.ops.begin(), ahead.begin(), ahead.end());
  writer.norm("final layer norm", "final layer norm backward", false);
  const std::vector<LayerOp> behind = writer.take();
  layer.ops.insert(layer.ops.end(), behind.begin(), behind.end());
  layer.kept.push_back({"prediction's inputs", 4 * sizes.outside, e, kAttention});
  layer.weights.push_back({"prediction projection", 2 * real(model.hidden) * real(model.hidden) / sizes.parts(),
                           2 * real(model.hidden) / sizes.parts()});
  layer.weights.push_back({"prediction norms", 3 * real(model.norm_parameters())});
  return layer;
}

Layer heads(LayerWriter& writer) {
  Layer layer = head_layer(writer);
  for (std::int64_t i = 0; i < writer.model().experts.mtp_layers; ++i) {
    const Layer more = head_layer(writer);
    layer.ops.insert(layer.ops.end(), more.ops.begin(), more.ops.end());
    layer.kept.insert(layer.kept.end(), more.kept.begin(), more.kept.end());
  }
  return layer;
}

void end_with_head(Network& network, LayerWriter& writer) {
  network.layers.push_back(static_cast<std::uint8_t>(network.kinds.size()));
  network.kinds.push_back(head_layer(writer));
}

void predict_further(Network& network, LayerWriter& writer, Layer block) {
  const std::int64_t predicted = writer.model().experts.mtp_layers;
  network.layers.insert(network.layers.end(), static_cast<std::size_t>(predicted),
                        static_cast<std::uint8_t>(network.kinds.size()));
  network.kinds.push_back(prediction(writer, std::move(block)));
  network.layers.push_back(static_cast<std::uint8_t>(network.kinds.size()));
  network.kinds.push_back(heads(writer));
  network.behind = 1 + predicted;
}

}  // namespace orrery::workloads
