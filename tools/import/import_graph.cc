// `orrery import graph`: the graph of a model's forward pass (model_graph.h) as a model. Blocks whose parts are known,
// attention and an MLP or experts, are those of the family; what else stands in a block is a mixer of operators. What
// the graph holds is then held against what the model comes to: parameters and FLOPs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "tools/import/graph_blocks.h"
#include "tools/import/graph_forms.h"
#include "tools/import/hf_blocks.h"
#include "tools/import/import.h"
#include "workloads/model/token_flops.h"

namespace orrery::tools {

using sim::Settings;
using sim::UserError;

namespace {

constexpr std::int64_t kStandInWords = 1024;

/// A block: the forms of its parts in order.
struct BlockForm {
  std::vector<PartForm> parts;
  bool plain() const {
    return parts.size() == 2 && parts[0].kind == PartKind::attention && parts[1].kind == PartKind::mlp;
  }
};

/// Names of mixers and channels by what they are.
class Names {
 public:
  /// The name of `what`, which begins with `letter`; whether it is new.
  std::pair<std::string, bool> of(const std::string& letter, const std::string& what) {
    const auto known = names_.find(letter + what);
    if (known != names_.end()) return {known->second, false};
    const int n = ++count_[letter];
    std::string name = n == 1 ? letter : letter + std::to_string(n);
    names_[letter + what] = name;
    return {name, true};
  }

 private:
  std::map<std::string, std::string> names_;
  std::map<std::string, int> count_;
};

class GraphImport {
 public:
  GraphImport(const std::string& file, ModelGraph graph, const std::vector<CutRule>& rules)
      : graph_(formed(std::move(graph))),
        model_(blocks_of_graph(graph_)),
        rules_(rules),
        draft_(fmt::format("{} (graph of a forward pass)", std::filesystem::path(file).filename().string()),
               {file, 1, 1}) {}

  Draft draft() {
    read_blocks();
    const std::string label = std::filesystem::path(graph_.file).stem().string();
    draft_.set("name", label);
    draft_.set("model.kind", std::string("gpt"));
    draft_.set("model.label", label);
    set("hidden", model_.hidden);
    set("vocab", model_.layer_alone ? kStandInWords : model_.vocab);
    set("seq", model_.seq);
    draft_.set("model.tied_embeddings", model_.tied || model_.layer_alone);
    if (model_.layer_alone)
      draft_.first(
          fmt::format("model.vocab: one layer has none, {} stands in; --set model.vocab=... and model.layers=... "
                      "(or model.blocks.repeat=...) make a model of it",
                      kStandInWords));
    take_features();
    const bool plain = std::all_of(blocks_.begin(), blocks_.end(), [&](const BlockForm& block) {
      return block.plain() && block.parts == blocks_[0].parts;
    });
    plain ? take_alike() : take_pattern();
    draft_.set("precision", std::string("bf16"));
    draft_.assumed("precision", "bf16, as such models are trained");
    draft_.assume_site();
    for (const CutRule& rule : rules_) {
      if (!rule.used)
        throw UserError(
            fmt::format("orrery: import graph: --cut: got {}, which ends the name of no weight of a "
                        "product, expected the end of one, as mlp.up_proj.weight",
                        rule.weights));
    }
    refuse_another_stream();
    say_sums();
    return std::move(draft_);
  }

 private:
  static ModelGraph formed(ModelGraph graph) {
    begin_at_layer_input(graph);
    fold_written_attention(graph);
    fold_single_experts(graph);
    return graph;
  }
  void set(const char* key, std::int64_t value) { draft_.set(fmt::format("model.{}", key), value); }

  /// Parts whose weights have one number in their names, and parts without weights behind them. Without names a block
  /// ends with its MLP or experts, and nothing but these follows another part.
  void read_blocks() {
    if (graph_.unnamed) return read_unnamed_blocks();
    std::string layer;
    for (const GraphPart& part : model_.parts) {
      const bool begins = blocks_.empty() || (!part.layer.empty() && part.layer != layer);
      if (!part.layer.empty()) layer = part.layer;
      if (begins) blocks_.emplace_back();
      blocks_.back().parts.push_back(form_of_part(graph_, model_, part, rules_));
    }
  }

  void read_unnamed_blocks() {
    const auto is_channel = [](const PartForm& form) {
      return form.kind == PartKind::mlp || form.kind == PartKind::experts;
    };
    for (const GraphPart& part : model_.parts) {
      PartForm form = form_of_part(graph_, model_, part, rules_);
      const bool follows = !blocks_.empty() && is_channel(form) && !is_channel(blocks_.back().parts.back());
      if (!follows) blocks_.emplace_back();
      blocks_.back().parts.push_back(std::move(form));
    }
  }

  std::vector<const PartForm*> known_parts() const {
    std::vector<const PartForm*> known;
    for (const BlockForm& block : blocks_)
      for (const PartForm& part : block.parts)
        if (part.kind != PartKind::other) known.push_back(&part);
    return known;
  }

  /// Norms, biases, positions and activation are of the whole model.
  void take_features() {
    const std::vector<const PartForm*> known = known_parts();
    const auto any = [&](auto holds) {
      return std::any_of(known.begin(), known.end(), [&](const PartForm* part) { return holds(*part); });
    };
    const bool rotary = any([](const PartForm& part) { return part.rotary; });
    draft_.set("model.positions", std::string(rotary ? "rotary" : model_.positions ? "learned" : "none"));
    bool shifts = false;  // of operators' norms too
    for (const BlockForm& block : blocks_)
      for (const PartForm& part : block.parts) shifts = shifts || part.layer_norm;
    draft_.set("model.norm", std::string(shifts ? "layer_norm" : "rms_norm"));
    const bool last = any([](const PartForm& part) { return part.last_bias; });
    const bool first = any([](const PartForm& part) { return part.first_bias; });
    draft_.set("model.biases", std::string(last ? "all" : first ? "qkv" : "none"));
    if (any([](const PartForm& part) { return part.norms == 2; })) draft_.set("model.post_norm", true);
    bool gated = true;
    std::string activation = "swiglu";
    for (const PartForm* part : known) {
      if (part->kind == PartKind::attention) continue;
      gated = part->gated;
      activation = part->activation;
      break;
    }
    draft_.set("model.gated_mlp", gated);
    if (activation != "swiglu") draft_.set("model.activation", activation);
    for (const PartForm* part : known) {
      if (part->kind != PartKind::attention && (part->gated != gated || part->activation != activation))
        throw UserError({graph_.file, 1, 1}, "nodes",
                        fmt::format("got MLPs of {} and of {}, expected one kind in a model: --cut of a weight of "
                                    "the others makes them operators",
                                    activation, part->activation));
    }
  }

  void take_alike() {
    set("layers", static_cast<std::int64_t>(blocks_.size()));
    for (const PartForm& part : blocks_[0].parts) {
      for (const auto& [key, value] : part.sizes) set(key.c_str(), value);
      if (part.qk_norm) draft_.set("model.qk_norm", true);
    }
  }

  std::string mixer_of(const PartForm& part) {
    std::string what = part.qk_norm ? "normed" : "";
    for (const auto& [key, value] : part.sizes) what += fmt::format(" {} {}", key, value);
    const auto [name, fresh] = names_.of("A", what);
    if (!fresh) return name;
    draft_.set(fmt::format("model.mixers.{}.kind", name), std::string("attention"));
    for (const auto& [key, value] : part.sizes) draft_.set(fmt::format("model.mixers.{}.{}", name, key), value);
    if (part.qk_norm) draft_.set(fmt::format("model.mixers.{}.qk_norm", name), true);
    return name;
  }
  std::string experts_of(const PartForm& part) {
    std::string what = part.shared_gate ? "gated" : "";
    for (const auto& [key, value] : part.sizes) what += fmt::format(" {} {}", key, value);
    const auto [name, fresh] = names_.of("E", what);
    if (!fresh) return name;
    draft_.set(fmt::format("model.channels.{}.kind", name), std::string("moe"));
    for (const auto& [key, value] : part.sizes) draft_.set(fmt::format("model.channels.{}.{}", name, key), value);
    if (part.shared_gate) draft_.set(fmt::format("model.channels.{}.shared_gate", name), true);
    return name;
  }
  std::string channel_of(const PartForm& part) {
    if (part.kind == PartKind::experts) return experts_of(part);
    const std::int64_t width = part.sizes.at("ffn_hidden");
    const auto [name, fresh] = names_.of("F", std::to_string(width));
    if (!fresh) return name;
    draft_.set(fmt::format("model.channels.{}.kind", name), std::string("mlp"));
    draft_.set(fmt::format("model.channels.{}.ffn_hidden", name), width);
    return name;
  }
  std::string operators_of(const std::vector<std::string>& lines) {
    const std::string list = fmt::format("[{}]", fmt::join(lines, ", "));
    const auto [name, fresh] = names_.of("U", list);
    if (!fresh) return name;
    draft_.set(fmt::format("model.mixers.{}.kind", name), std::string("operators"));
    draft_.apply(fmt::format("model.mixers.{}.run={}", name, list));
    return name;
  }

  /// Attention stands first in a block, and an MLP or experts last; what is between is operators.
  std::string word_of(const BlockForm& block) {
    std::vector<std::string> names, lines;
    std::size_t begin = 0, end = block.parts.size();
    if (block.parts.front().kind == PartKind::attention) names.push_back(mixer_of(block.parts[begin++]));
    const PartKind last = block.parts.back().kind;
    const bool channel = end > begin && (last == PartKind::mlp || last == PartKind::experts);
    if (channel) --end;
    for (std::size_t i = begin; i < end; ++i) {
      const PartForm& part = block.parts[i];
      if (part.kind != PartKind::other)
        throw UserError({graph_.file, 1, 1}, "nodes",
                        "got an attention or an MLP between other parts of a block, expected attention first and an "
                        "MLP last: --cut of one of its weights makes it operators");
      lines.insert(lines.end(), part.lines.begin(), part.lines.end());
      for (const std::string& remark : part.remarks)
        if (said_.insert(remark).second) draft_.first(remark);
    }
    if (!lines.empty()) names.push_back(operators_of(lines));
    if (channel) names.push_back(channel_of(block.parts[end]));
    return fmt::format("{}", fmt::join(names, "+"));
  }

  void take_pattern() {
    std::vector<std::string> words;
    for (const BlockForm& block : blocks_) words.push_back(word_of(block));
    put_blocks(draft_, words);
    const std::set<std::string> kinds(words.begin(), words.end());
    draft_.assumed("model.blocks", fmt::format("{} blocks of {} kinds; operators run one by one, as in the graph",
                                               words.size(), kinds.size()));
  }

  void refuse_another_stream() const {
    double left = 0;
    for (const std::string& weight : model_.left) {
      const auto known = graph_.parameters.find(weight);
      left += known == graph_.parameters.end() ? 0 : known->second.elements();
    }
    if (left > 0.01 * model_.parameters)
      throw UserError(
          {graph_.file, 1, 1}, "nodes",
          fmt::format("got weights of {:.3g} parameters behind the stream that begins at the embedding ({}, "
                      "...), expected one stream of hidden states: encoder-decoders are not read",
                      left, model_.left.front()));
  }

  void say_sums() {
    for (const std::string& weight : model_.left) draft_.ignored(weight, "behind the last block");
    const scenarios::Scenario scenario = scenarios::load_scenario(draft_.document());
    const workloads::Model& model = scenario.job.model;
    const double norm =
        static_cast<double>(model.norm == workloads::Norm::layer_norm ? 2 : 1) * static_cast<double>(model.hidden);
    const double ends = model_.layer_alone ? static_cast<double>(kStandInWords * model.hidden) : 0;
    const double parameters = workloads::parameter_count(model) + (model_.layer_alone ? -ends : norm);
    const double products = (workloads::token_flops(model).linear - 2 * ends) * model_.tokens;
    const auto off = [](double held, double come_to) { return 100 * (come_to - held) / held; };
    double held = model_.products;
    for (const BlockForm& block : blocks_)
      for (const PartForm& part : block.parts) held += part.routed + part.mixed;
    const double p = off(model_.parameters, parameters), f = off(held, products);
    const std::string text = fmt::format(
        "{:.0f} parameters in the graph, {:.0f} in the model ({:+.3f} %); products of {:.6g} FLOPs a forward "
        "pass in the graph, {:.6g} in the model ({:+.3f} %)",
        model_.parameters, parameters, p, held, products, f);
    if (std::abs(p) > 0.01 || std::abs(f) > 0.01)
      draft_.first(text);
    else
      draft_.assumed("model", text);
  }

  ModelGraph graph_;
  GraphModel model_;
  const std::vector<CutRule>& rules_;
  Draft draft_;
  std::vector<BlockForm> blocks_;
  Names names_;
  std::set<std::string> said_;
};

/// "mlp.up_proj.weight=out" as the user writes it.
CutRule rule_of(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  const std::string cut = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (equals == 0 || (cut != "none" && cut != "out" && cut != "in"))
    throw UserError(
        fmt::format("orrery: import graph: --cut: got \"{}\", expected WEIGHT=out, in or none, as in "
                    "mlp.up_proj.weight=out",
                    text));
  return {text.substr(0, equals), cut};
}

}  // namespace

/// Lists of operators come into the draft as values of --set do; what is wrong with them is the file's.
Draft import_graph(const std::string& file, ModelGraph graph, const std::vector<std::string>& cuts) {
  std::vector<CutRule> rules;
  for (const std::string& text : cuts) rules.push_back(rule_of(text));
  try {
    return GraphImport(file, std::move(graph), rules).draft();
  } catch (const UserError& error) {
    const std::string said = error.what();
    if (!said.starts_with("--set: ")) throw;
    throw UserError(fmt::format("{}:1:1: {}", file, said.substr(7)));
  }
}

Draft import_graph(const std::string& file, const std::vector<std::string>& cuts) {
  return import_graph(file, read_model_graph(file), cuts);
}

}  // namespace orrery::tools
