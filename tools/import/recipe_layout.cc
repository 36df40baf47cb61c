// See recipe_layout.h. Letters are those of Megatron-Core's pipeline_parallel_layer_layout.py.
#include "tools/import/recipe_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <vector>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "tools/import/megatron_newer.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// Of the model that ships, or that the recipe describes; 0: by blocks.
std::int64_t layers_of(const Settings& model) {
  const bool named = model.find("inherits") != nullptr && model.find("layers") == nullptr;
  if (!named) return model.get_int("layers", 0);
  return scenarios::resolve(scenarios::shelf_of("models"), model).document.get_int("layers", 0);
}

}  // namespace

std::int64_t take_layout_by_hand(Sections& config, Draft& draft, const std::string& at, std::int64_t stages) {
  const Settings* layout = config.find(at + "pipeline_model_parallel_layout");
  if (layout == nullptr) return 0;
  std::vector<std::int64_t> pieces;
  if (layout->is_sequence()) {
    for (const Settings& piece : layout->items()) {
      pieces.push_back(0);
      if (!piece.is_sequence()) continue;
      for (const Settings& layer : piece.items())
        if (layer.is_scalar() && layer.text() == "decoder") ++pieces.back();
    }
  } else if (layout->is_scalar()) {
    pieces = layers_of_letters_by_piece(layout->text());
  }
  const std::int64_t layers = layers_of(draft.document().at("model")),
                     sum = std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0}),
                     number = static_cast<std::int64_t>(pieces.size());
  if (number < 2 || number % stages != 0 || (layers > 0 && sum != layers)) {
    if (number != 1)
      draft.first(fmt::format(
          "pipeline_model_parallel_layout: got {} pieces of {} layers for {} stages of a model of {}; layers "
          "are shared out as evenly as can be",
          number, sum, stages, layers));
    return 0;
  }
  draft.apply(fmt::format("parallelism.stage_layers=[{}]", fmt::join(pieces, ", ")));
  return number / stages;
}

void take_uneven_ends(Sections& config, Draft& draft, const std::string& at, std::int64_t stages, std::int64_t chunks) {
  const std::int64_t first = config.count({at + "num_layers_in_first_pipeline_stage"}, 0, 0),
                     last = config.count({at + "num_layers_in_last_pipeline_stage"}, 0, 0),
                     layers = layers_of(draft.document().at("model"));
  if (first + last == 0) return;
  const std::int64_t others = stages - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0), rest = layers - first - last;
  if (chunks > 1 || others < 1 || rest < others || rest % others != 0)
    return draft.ignored("num_layers_in_first_pipeline_stage, num_layers_in_last_pipeline_stage",
                         "layers are shared out as evenly as can be");
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), rest / others);
  if (first > 0) split.front() = first;
  if (last > 0) split.back() = last;
  draft.apply(fmt::format("parallelism.stage_layers=[{}]", fmt::join(split, ", ")));
}

}  // namespace orrery::tools
