// See megatron_newer.h. Letters of a layout: E the embedding, t a layer, m a layer that predicts a further token, L the
// loss, | between pieces, x*n and (...)*n repeats (NVIDIA/Megatron-LM, megatron/core/transformer/
// pipeline_parallel_layer_layout.py, parse_str_to_list). Linear attention: gpt/experimental_attention_variant_module_
// specs.py and TransformerConfig's sizes.
//
// Left out: sparse attention (dsa) by flags, whose layers are those of dense attention here, which is said.
#include "tools/import/megatron_newer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "tools/import/recipe_graphs.h"

namespace orrery::tools {

using sim::Settings;

namespace {

constexpr std::size_t kMostLetters = 100'000;

/// How often what stands ahead of text[at] is there: "*12" behind it, else once. Moves `at` behind it.
std::optional<std::size_t> times_at(const std::string& text, std::size_t& at) {
  if (at >= text.size() || text[at] != '*') return 1;
  std::size_t times = 0;
  const char *begin = text.data() + at + 1, *end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(begin, end, times);
  if (error != std::errc{} || times > kMostLetters) return std::nullopt;
  at = static_cast<std::size_t>(behind - text.data());
  return times;
}

/// Letters with their repeats written out; nothing where it is no layout.
std::optional<std::string> unrolled(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::string part(1, text[at]);
    if (part == "," || part == " ") {
      ++at;
      continue;
    }
    if (part == "(") {
      const std::size_t end = text.find(')', at);
      if (end == std::string::npos) return std::nullopt;
      const std::string inside = text.substr(at + 1, end - at - 1);
      if (inside.find('(') != std::string::npos) return std::nullopt;
      const std::optional<std::string> inner = unrolled(inside);
      if (!inner) return std::nullopt;
      part = *inner;
      at = end;
    } else if (std::string_view("EtmL|").find(part) == std::string_view::npos) {
      return std::nullopt;
    }
    const std::optional<std::size_t> times = times_at(text, ++at);
    if (!times || out.size() + *times * part.size() > kMostLetters) return std::nullopt;
    for (std::size_t i = 0; i < *times; ++i) out += part;
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> layers_of_letters_by_piece(const std::string& text) {
  const std::optional<std::string> letters = unrolled(text);
  if (!letters) return {};
  std::vector<std::int64_t> pieces{0};
  for (const char letter : *letters) {
    if (letter == '|') pieces.push_back(0);
    if (letter == 't') ++pieces.back();
  }
  return pieces;
}

std::optional<std::int64_t> take_layout_letters(Launch& launch, Draft& draft, std::int64_t layers,
                                                std::int64_t stages) {
  const char* const flag = "pipeline-model-parallel-layout";
  const std::optional<Settings> given = launch.value(flag);
  if (!given) return std::nullopt;
  const std::optional<std::string> letters = unrolled(given->text());
  if (!letters)
    launch.refuse(flag, fmt::format("got {}, expected letters E, t, m and L with | between stages, as in Et*3|(tt|)*6L",
                                    given->text()));
  const std::vector<std::int64_t> pieces = layers_of_letters_by_piece(given->text());
  const std::int64_t count = std::count(letters->begin(), letters->end(), 't'),
                     number = static_cast<std::int64_t>(pieces.size());
  if (count != layers)
    launch.refuse(flag, fmt::format("got {} layers (t), expected the {} of --num-layers", count, layers));
  if (number % stages != 0)
    launch.refuse(
        flag, fmt::format("got {} stages, expected a multiple of --pipeline-model-parallel-size {}", number, stages));
  if (letters->find('m') < letters->rfind('|') && letters->find('|') != std::string::npos)
    draft.ignored(fmt::format("m ahead of the last stage in --{}", flag),
                  "layers that predict further tokens stand in the last stage");
  if (number > 1) draft.apply(fmt::format("parallelism.stage_layers=[{}]", fmt::join(pieces, ", ")));
  return number / stages;
}

void take_graphs(Launch& launch, Draft& draft, bool mixture) {
  std::string implementation = "none", named = "--cuda-graph-impl";
  if (const std::optional<Settings> given = launch.value("cuda-graph-impl"))
    implementation = given->as_choice({"none", "local", "transformer_engine", "full_iteration"});
  for (const auto& [flag, means] :
       {std::pair{"enable-cuda-graph", "local"}, {"external-cuda-graph", "transformer_engine"}})
    if (launch.flag(flag)) {
      implementation = means;
      named = std::string("--") + flag;
    }
  std::set<std::string> scopes;
  for (const char* flag : {"cuda-graph-modules", "cuda-graph-scope"}) {
    for (const std::string& word : launch.words(flag))
      for (const std::string& scope : graph_scopes(word)) scopes.insert(scope);
  }
  scopes.erase("full");  // every layer whole, as no scope is
  scopes.erase("full_iteration_inference");
  put_graphs(draft, implementation, scopes, mixture, named);
}

namespace {

/// Whether a layer has linear attention: one in so many has the usual kind, the last, or a list says.
std::vector<bool> linear_layers(Launch& launch, std::int64_t layers) {
  const char* const flag = "linear-attention-freq";
  const std::optional<Settings> given = launch.value(flag);
  if (!given)
    throw sim::UserError(launch.place(), std::string("--") + flag,
                         "is not given, expected which layers have linear attention, as in 4");
  if (given->text().find('[') == std::string::npos) {
    const std::int64_t every = given->as_int(1, 100'000);
    std::vector<bool> all;
    for (std::int64_t i = 0; i < layers; ++i) all.push_back((i + 1) % every != 0);
    return all;
  }
  const std::optional<std::vector<bool>> list = tools::layers_of(given->text(), kMostLetters);
  if (!list || static_cast<std::int64_t>(list->size()) != layers)
    launch.refuse(flag,
                  fmt::format("got {}, expected a number, or a list of 0 and 1 of {} layers", given->text(), layers));
  return *list;
}

}  // namespace

void take_attention_variants(Launch& launch, Draft& draft, std::int64_t layers, bool mixture) {
  const std::optional<Settings> variant = launch.value("experimental-attention-variant");
  const bool gate = launch.flag("attention-output-gate");
  const bool linear = variant && (variant->text() == "gated_delta_net" || variant->text() == "gdn");
  if (variant && !linear)
    draft.first(fmt::format("--experimental-attention-variant {}: attention to all keys is simulated in its place",
                            variant->text()));
  if (!linear && !gate) return;
  if (launch.has("multi-latent-attention"))
    launch.refuse(linear ? "experimental-attention-variant" : "attention-output-gate",
                  "got it beside --multi-latent-attention, expected one");
  const std::vector<bool> linear_at =
      linear ? linear_layers(launch, layers) : std::vector<bool>(static_cast<std::size_t>(layers), false);
  if (linear) {
    const auto size = [&](const char* flag, const char* key, std::int64_t fallback) {
      draft.set(std::string("model.mixers.L.") + key, launch.count(flag).value_or(fallback));
    };
    draft.set("model.mixers.L.kind", std::string("gated_delta"));
    size("linear-num-value-heads", "heads", 32);
    size("linear-value-head-dim", "head_dim", 128);
    size("linear-num-key-heads", "key_heads", 16);
    size("linear-key-head-dim", "key_dim", 128);
    size("linear-conv-kernel-dim", "conv", 4);
  }
  const auto number = [&](const char* key, std::int64_t fallback) {
    const Settings* value = draft.document().find_path(key);
    return value != nullptr ? value->as_int() : fallback;
  };
  const std::int64_t dense = number("model.dense_layers", 0), every = number("model.moe_every", 1);
  std::vector<std::string> words;
  bool attends = false, plain = false;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool here = linear_at[static_cast<std::size_t>(i)];
    const bool experts = mixture && i >= dense && (i - dense) % every == every - 1;
    attends = attends || !here;
    plain = plain || !experts;
    words.push_back(fmt::format("{}+{}", here ? "L" : "A", experts ? "E" : "F"));
  }
  if (attends) draft.set("model.mixers.A.kind", std::string("attention"));
  if (attends && gate) draft.set("model.mixers.A.output_gate", true);
  if (mixture) draft.set("model.channels.E.kind", std::string("moe"));
  if (plain) draft.set("model.channels.F.kind", std::string("mlp"));
  for (const char* key : {"dense_layers", "moe_every"}) draft.drop_of_model(key);
  draft.set("model.blocks", fmt::format("{}", fmt::join(words, " ")));
}

void take_further_parts(Launch& launch, Draft& draft, bool mixture) {
  if (const auto predicted = launch.count("mtp-num-layers"))
    draft.set("model.mtp_layers", *predicted, launch.place("mtp-num-layers"));
  const auto streams = launch.count("mhc-num-residual-streams");
  if (launch.flag("enable-mhc-connections")) draft.set("model.residual_streams", streams.value_or(4));
  if (const auto layers = launch.count("cpu-offloading-num-layers", 0); layers.value_or(0) > 0)
    draft.set("offload.activation_layers", *layers, launch.place("cpu-offloading-num-layers"));
  if (!mixture) return;
  for (const char* flag : {"moe-deepep-num-sms", "moe-hybridep-num-sms", "moe-flex-dispatcher-num-sms"}) {
    const auto multiprocessors = launch.count(flag);
    const Settings* dispatcher = draft.document().find_path("experts.dispatcher");
    const bool theirs = dispatcher != nullptr && (dispatcher->text() == "deepep" || dispatcher->text() == "hybridep");
    if (multiprocessors && theirs) draft.set("experts.dispatcher_sms", *multiprocessors, launch.place(flag));
    if (multiprocessors && !theirs)
      draft.ignored(fmt::format("--{} {}", flag, *multiprocessors), "without effect: its dispatcher is not chosen");
  }
  if (launch.flag("moe-paged-stash")) draft.set("experts.paged_stash", true);
}

namespace {

/// Takes the flags of a list out of `rest`, a prefix where it ends with *, and returns them as they are written.
std::vector<std::string> taken_out(const std::vector<std::string>& flags, std::vector<std::string>& rest) {
  std::vector<std::string> here;
  for (const std::string& flag : flags) {
    const bool many = flag.ends_with('*');
    const std::string start = flag.substr(0, flag.size() - (many ? 1 : 0));
    std::erase_if(rest, [&](const std::string& each) {
      const bool found = many ? each.starts_with(start) : each == flag;
      if (found) here.push_back("--" + each);
      return found;
    });
  }
  return here;
}

}  // namespace

void remark_on_the_rest(const Launch& launch, Draft& draft, bool mixture) {
  std::vector<std::string> rest = launch.unasked();
  for (const auto& [why, flags] : unmodelled_flags()) {
    const std::vector<std::string> here = taken_out(flags, rest);
    if (!here.empty()) draft.first(fmt::format("{}: {}", fmt::join(here, ", "), why));
  }
  for (const auto& [why, flags] : skipped_flags()) {
    const std::vector<std::string> here = taken_out(flags, rest);
    if (!here.empty()) draft.ignored(fmt::format("{}", fmt::join(here, ", ")), why);
  }
  for (const std::string& flag : rest) {
    const bool counts = flag.find("num") != std::string::npos && flag.find("expert") != std::string::npos;
    if (!mixture && counts && !taken_flags().contains(flag))
      draft.first(fmt::format("--{}: not known to orrery; the model is simulated without experts", flag));
  }
  if (!mixture) {
    const std::vector<std::string> here = taken_out({"moe-*", "expert-tensor-parallel-size"}, rest);
    if (!here.empty()) draft.ignored(fmt::format("{}", fmt::join(here, ", ")), "without effect: no experts");
  }
  const std::vector<std::string> known(taken_flags().begin(), taken_flags().end());
  std::vector<std::string> idle;
  std::erase_if(rest, [&](const std::string& flag) {
    if (taken_flags().contains(flag)) idle.push_back("--" + flag);
    return taken_flags().contains(flag);
  });
  if (!idle.empty())
    draft.ignored(fmt::format("{}", fmt::join(idle, ", ")), "without effect beside the line's other flags");
  for (const std::string& flag : rest) {
    const std::string near = sim::nearest_word(flag, known);
    draft.ignored("--" + flag,
                  near.empty() ? "not known to orrery" : fmt::format("not known to orrery; --{} is", near));
  }
}

}  // namespace orrery::tools
