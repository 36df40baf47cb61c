// See load_encoder.h.
#include "scenarios/load_encoder.h"

#include "scenarios/load.h"

namespace orrery::scenarios {

using sim::Settings;

void load_encoder(const Settings& section, workloads::Job& job) {
  const Settings* own = given(&section, "encoder");
  if (own == nullptr) return;
  if (!own->is_mapping()) own->fail("got no mapping, expected the encoder's keys");
  workloads::Model& model = job.model;
  workloads::Encoder& e = model.encoder;
  e.layers = required(*own, "layers").as_int();
  e.hidden = required(*own, "hidden").as_int();
  e.heads = required(*own, "heads").as_int();
  e.ffn_hidden = required(*own, "ffn_hidden").as_int();
  e.gated = boolean(own, "gated_mlp", false);
  e.patch = required(*own, "patch").as_int();
  e.positions = integer(own, "positions", 0);
  e.image = required(*own, "image_patches").as_int();
  e.patches = required(*own, "images").as_int() * e.image;
  e.merge = integer(own, "merge", 1);
  e.mergers = integer(own, "mergers", 1);
  if (e.hidden % e.heads != 0)
    own->at("heads").fail(fmt::format("got {} heads of hidden {}, expected a divisor", e.heads, e.hidden));
  if (e.image % e.merge != 0)
    own->at("image_patches").fail(fmt::format("got {}, expected a multiple of merge, which is {}", e.image, e.merge));
  if (e.patches / e.merge >= model.seq)
    own->at("images").fail(fmt::format("got images of {} tokens, expected fewer than model.seq, which is {}",
                                       e.patches / e.merge, model.seq));
  job.assumptions.push_back(fmt::format(
      "model.encoder: {} of a sequence's {} tokens are of images; the encoder is trained with the rest, whole on the "
      "first stage.",
      e.patches / e.merge, model.seq));
}

void check_encoder(const Settings& document, const workloads::Encoder& encoder, const workloads::Parallelism& layout,
                   const workloads::Method& method) {
  if (!encoder.any()) return;
  const auto refuse = [&](const char* key, std::int64_t ranks) {
    if (ranks > 1)
      fail_at(document, key,
              fmt::format("got {} with model.encoder, expected 1: the encoder is whole on every rank", ranks));
  };
  refuse("parallelism.tensor", layout.tensor);
  refuse("parallelism.context", layout.context);
  if (method.adapters.any())
    fail_at(document, "finetune", "got adapters with model.encoder, expected the whole model trained");
}

}  // namespace orrery::scenarios
