// See load_stacks.h. With model.source_tokens the blocks ahead of the first of another kind of attention than
// bidirectional are an encoder's, which run on these tokens of model.seq; the others are a decoder's and run on the
// rest. Without it bidirectional attention is that of an encoder alone (BERT).
#include "scenarios/load_stacks.h"

#include <algorithm>

#include "scenarios/load.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::Job;
using workloads::Model;

namespace {

using Channel = Model::Block::Channel;

void load_source(const Settings& section, Model& model) {
  const Settings* source = given(&section, "source_tokens");
  const std::vector<Model::Block>& kinds = model.pattern.kinds;
  const auto crosses = [](const Model::Block& block) { return block.crosses; };
  if (source == nullptr) {
    if (std::any_of(kinds.begin(), kinds.end(), crosses))
      section.at("blocks").fail("got attention across without model.source_tokens, expected the tokens that it sees");
    return;
  }
  model.source = source->as_int(1, 100'000'000);
  if (model.source >= model.seq)
    source->fail(
        fmt::format("got {}, expected fewer than model.seq, which is {}: it counts those of encoder and decoder",
                    model.source, model.seq));
  bool decodes = false, encoded = false;
  for (const std::uint8_t kind : model.pattern.blocks) {
    const Model::Block& block = kinds[kind];
    const bool usual = block.attends && block.channel != Channel::experts && !block.state.any() &&
                       !block.operators.any() && !block.behind.any() && !block.attention.latent.any() &&
                       !block.attention.sparse.any();
    if (!usual)
      section.at("blocks").fail(
          "got blocks of other kinds beside model.source_tokens, expected attention and MLPs in every block");
    if (block.encodes() && (decodes || block.crosses))
      section.at("blocks").fail(
          "got bidirectional attention behind a decoder's block, or across from an encoder's, "
          "expected the encoder's blocks first");
    (block.encodes() ? encoded : decodes) = true;
  }
  if (!encoded || !decodes || std::none_of(kinds.begin(), kinds.end(), crosses))
    section.at("blocks").fail(
        "got model.source_tokens, expected blocks of bidirectional attention, and behind them "
        "blocks of attention with attention across");
  if (model.experts.mtp_layers > 0 || model.encoder.any())
    source->fail("got an encoder of text beside further predictions or an encoder of images, expected neither");
}

void load_layer_inputs(const Settings& section, Model& model) {
  const Settings* own = given(&section, "layer_inputs");
  if (own == nullptr) return;
  if (!own->is_mapping()) own->fail("got no mapping, expected width and vocab");
  model.layer_inputs.width = required(*own, "width").as_int();
  model.layer_inputs.vocab = integer(own, "vocab", model.vocab);
}

}  // namespace

void load_stacks(const Settings& section, Job& job) {
  Model& model = job.model;
  load_source(section, model);
  load_layer_inputs(section, model);
  if (model.source > 0)
    job.assumptions.push_back(fmt::format(
        "model.source_tokens: of a sequence's {} tokens the encoder reads {}, the decoder {}; a stage of a pipeline "
        "hands on both.",
        model.seq, model.source, model.target()));
}

void check_stacks(const Settings& document, const Model& model, const workloads::Parallelism& layout,
                  const workloads::Method& method) {
  const auto refuse = [&](const char* key, std::int64_t ranks, const char* why) {
    if (ranks > 1) fail_at(document, key, fmt::format("got {} with {}, expected 1", ranks, why));
  };
  const bool encodes = std::any_of(model.pattern.kinds.begin(), model.pattern.kinds.end(),
                                   [](const Model::Block& block) { return block.encodes(); });
  if (encodes) refuse("parallelism.context", layout.context, "bidirectional attention");
  if (model.source == 0) return;
  if (method.adapters.any())
    document.at("finetune").fail("got adapters of an encoder and a decoder, expected the whole model trained");
  if (model.attention.document > 0)
    document.at("batch").fail("got packed documents of an encoder and a decoder, expected none");
  if (layout.sequence_parallel && (model.source % layout.tensor != 0 || model.target() % layout.tensor != 0))
    fail_at(document, "parallelism.tensor",
            fmt::format("got {} with sequence_parallel, expected a divisor of the {} tokens of the encoder and the {} "
                        "of the decoder",
                        layout.tensor, model.source, model.target()));
}

}  // namespace orrery::scenarios
