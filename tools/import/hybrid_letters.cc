// See hybrid_letters.h. Left out: stages of a pattern, which are shared out as evenly as can be; G, D and + (gated
// delta nets, sparse and latent attention), whose sizes other flags say.
#include "tools/import/hybrid_letters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "sim/printable.h"
#include "workloads/model/mixers/mixers.h"

namespace orrery::tools {

using sim::Settings;
using workloads::Model;

namespace {

/// Parts of a text between marks.
std::vector<std::string> parts_between(const std::string& text, char mark) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == mark)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// The names that blocks give them: M, A, F, E.
std::vector<std::string> words_of(const Settings& pattern, const std::string& letters) {
  std::vector<std::string> words;
  for (const char letter : letters) {
    if (letter == '|') continue;
    const std::string_view known = "M*-E";
    const std::size_t at = known.find(letter);
    if (at == std::string_view::npos)
      pattern.fail(fmt::format("got the letter {}, expected M, *, -, E, | or /: others are not taken over",
                               sim::printable(std::string(1, letter))));
    words.emplace_back(1, "MAFE"[at]);
  }
  return words;
}

void put_predictions(Draft& draft, const Settings& pattern, const std::vector<std::string>& parts) {
  if (parts.size() < 2) return;
  for (const std::string& part : parts) {
    if (&part != &parts[0] && part != parts[1])
      pattern.fail(fmt::format("got {} behind {} ahead of further predictions, expected the same blocks for each",
                               sim::printable(part), sim::printable(parts[1])));
  }
  const std::vector<std::string> words = words_of(pattern, parts[1]);
  const bool channel =
      words.size() == 2 && (words[1] == "F" || words[1] == "E") && (words[0] == "M" || words[0] == "A");
  if (words.size() != 1 && !channel)
    pattern.fail(fmt::format(
        "got {} ahead of a further prediction, expected a mixer, a channel, or one behind the other", parts[1]));
  draft.set("model.mtp_layers", static_cast<std::int64_t>(parts.size() - 1), pattern.place());
  draft.set("model.mtp_block", fmt::format("{}", fmt::join(words, "+")));
}

bool of_usual_kind(const Model::Attention& a) {
  return !a.latent.any() && !a.sparse.any() && !a.output_gate && !a.key_is_value && a.value_width == 0 && a.window == 0;
}

}  // namespace

std::int64_t layers_of_letters(const std::string& letters) {
  const std::string main = letters.substr(0, letters.find('/'));
  return static_cast<std::int64_t>(main.size()) - std::count(main.begin(), main.end(), '|');
}

void put_letters(Draft& draft, const Settings& pattern, const MambaSizes& sizes, std::int64_t hidden) {
  const std::vector<std::string> parts = parts_between(pattern.text(), '/');
  const std::vector<std::string> words = words_of(pattern, parts[0]);
  if (words.empty()) pattern.fail("got a pattern of no layers, expected letters as in M-M*-");
  if (parts[0].find('|') != std::string::npos)
    draft.ignored("stages of --hybrid-layer-pattern (|)", "layers are shared out as evenly as can be");
  const auto has = [&](const char* word) { return pattern.text().find(word) != std::string::npos; };
  if (has("M")) {
    const std::int64_t heads = sizes.heads > 0 ? sizes.heads : std::max<std::int64_t>(1, 2 * hidden / sizes.head_dim);
    draft.set("model.mixers.M.kind", std::string("mamba2"));
    draft.set("model.mixers.M.heads", heads);
    draft.set("model.mixers.M.head_dim", sizes.head_dim);
    draft.set("model.mixers.M.state", sizes.state);
    draft.set("model.mixers.M.groups", sizes.groups);
    draft.set("model.mixers.M.chunk", std::int64_t{128});  // megatron/core/ssm/mamba_mixer.py, chunk_size
  }
  if (has("*")) draft.set("model.mixers.A.kind", std::string("attention"));
  if (has("-")) draft.set("model.channels.F.kind", std::string("mlp"));
  if (has("E")) draft.set("model.channels.E.kind", std::string("moe"));
  put_predictions(draft, pattern, parts);
  draft.set("model.blocks", fmt::format("{}", fmt::join(words, " ")));
}

Letters letters_of(const Model& model) {
  Letters out;
  const Model::Block *mamba = nullptr, *attends = nullptr, *dense = nullptr;
  const auto add = [&](const Model::Block& block) -> const char* {
    if (block.attends && block.state.any()) return "mixers side by side";
    if (block.operators.any()) return "operators of a graph";
    if (block.state.any()) {
      if (block.state.kind->name != "mamba2" || !block.state.normed) return "mixers other than Mamba-2";
      if (mamba != nullptr && !(mamba->state == block.state)) return "Mamba-2 of several sizes";
      mamba = &block;
      out.letters += 'M';
    }
    if (block.attends) {
      if (!of_usual_kind(block.attention)) return "attention other than the usual";
      if (attends != nullptr && !(attends->attention == block.attention)) return "attention of several sizes";
      attends = &block;
      out.letters += '*';
    }
    if (block.channel == Model::Block::Channel::mlp) {
      if (dense != nullptr && dense->mlp.hidden != block.mlp.hidden) return "MLPs of several widths";
      dense = &block;
      out.letters += '-';
    }
    if (block.channel == Model::Block::Channel::experts) out.letters += 'E';
    return nullptr;
  };
  const std::int64_t further = model.experts.mtp_layers;
  for (std::int64_t layer = 0; layer < model.layers + further; ++layer) {
    if (layer >= model.layers) out.letters += '/';
    if (const char* why = add(model.pattern.at(layer)); why != nullptr) return {"", why, {}};
  }
  if (mamba != nullptr)
    out.mamba = {mamba->state.heads, mamba->state.value_dim, mamba->state.key_dim, mamba->state.key_heads};
  return out;
}

}  // namespace orrery::tools
