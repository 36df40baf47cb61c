// `orrery import megatron LOG`: what a training of Megatron-LM's, or of Megatron-DeepSpeed's, prints as it begins:
// every argument with its value (megatron/training/arguments.py, _print_args: "  num_layers .......... 32"), whatever
// stands ahead of it on the line. Arguments are flags by other names: one that is True is there, one that is False or
// None is not, but for those that a flag turns off. The time of a step is the median of what the log prints of
// iterations, the first ones left out. Left out: what else a log holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "sim/error.h"
#include "tools/import/import.h"

namespace orrery::tools {

namespace {

constexpr std::size_t kWarmUp = 3;  // iterations that load kernels and fill caches

/// "  num_layers .......... 32", with or without a rank's name ahead.
std::optional<std::pair<std::string, std::string>> argument_of(const std::string& line) {
  const std::size_t dots = line.find(" ..");
  if (dots == std::string::npos || dots == 0) return std::nullopt;
  std::size_t begin = dots;
  const auto of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  while (begin > 0 && of_name(line[begin - 1])) --begin;
  std::size_t end = dots + 1;
  while (end < line.size() && line[end] == '.') ++end;
  const bool alone = begin < dots && (begin == 0 || line[begin - 1] == ' ' || line[begin - 1] == ':');
  if (!alone || end >= line.size() || line[end] != ' ') return std::nullopt;
  std::string value = line.substr(end + 1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())) != 0) value.pop_back();
  return std::pair(line.substr(begin, dots - begin), value);
}

/// Flags that turn off what an argument of another name says.
const std::map<std::string, std::string>& turned_off_by() {
  static const std::map<std::string, std::string> kFlags{
      {"add_bias_linear", "disable-bias-linear"},
      {"add_position_embedding", "no-position-embedding"},
      {"overlap_p2p_comm", "no-overlap-p2p-communication"},
      {"apply_rope_fusion", "no-rope-fusion"},
      {"masked_softmax_fusion", "no-masked-softmax-fusion"},
      {"bias_gelu_fusion", "no-bias-gelu-fusion"},
      {"bias_swiglu_fusion", "no-bias-swiglu-fusion"},
      {"bias_dropout_fusion", "no-bias-dropout-fusion"},
      {"gradient_accumulation_fusion", "no-gradient-accumulation-fusion"},
      {"persist_layer_norm", "no-persist-layer-norm"}};
  return kFlags;
}

/// What is left of other arguments, or means something only beside one that is not there.
bool follows(const std::string& name, const std::map<std::string, std::string>& all) {
  const auto is = [&](const char* other, const char* value) {
    const auto found = all.find(other);
    return found != all.end() && found->second == value;
  };
  static const std::set<std::string> kDerived{"rank",
                                              "local_rank",
                                              "data_parallel_size",
                                              "params_dtype",
                                              "iteration",
                                              "transformer_pipeline_model_parallel_size",
                                              "consumed_train_samples",
                                              "consumed_valid_samples",
                                              "skipped_train_samples",
                                              "overlap_p2p_comm",
                                              "variable_seq_lengths",
                                              "start_weight_decay",
                                              "end_weight_decay",
                                              "perform_initialization",
                                              "deprecated_use_mcore_models",
                                              "dist_url"};
  if (kDerived.contains(name)) return true;
  if (name == "num_query_groups") return !is("group_query_attention", "True");
  if (name == "encoder_seq_length") return all.contains("seq_length") && !is("seq_length", "None");
  if (name == "encoder_num_layers") return all.contains("num_layers") && !all.contains("decoder_num_layers");
  if (name == "virtual_pipeline_model_parallel_size")
    return all.contains("num_layers_per_virtual_pipeline_stage") ||
           all.contains("num_virtual_stages_per_pipeline_rank");
  const bool of_experts = name.starts_with("moe_") || name.starts_with("expert_");
  if (of_experts) return !all.contains("num_experts") || is("num_experts", "None");
  const bool latent = name == "q_lora_rank" || name == "kv_lora_rank" || name.starts_with("qk_head") ||
                      name.starts_with("qk_pos_emb") || name == "v_head_dim";
  if (latent) return !is("multi_latent_attention", "True");
  return false;
}

/// "['core_attn', 'mlp']" is two words, "AttnBackend.auto" its last.
std::vector<std::string> words_of(std::string value) {
  const bool list = value.starts_with('[') && value.ends_with(']');
  if (!list) {
    const std::size_t dot = value.rfind('.');
    const bool name = dot != std::string::npos && std::isalpha(static_cast<unsigned char>(value[0])) != 0 &&
                      value.find_first_of("/ '\"") == std::string::npos;
    return {name ? value.substr(dot + 1) : value};
  }
  for (char& c : value)
    if (c == '[' || c == ']' || c == '\'' || c == '"' || c == ',') c = ' ';
  std::istringstream text(value);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

std::optional<double> iteration_of(const std::string& line) {
  static const std::string kMark = "elapsed time per iteration (ms): ";
  const std::size_t at = line.find(kMark);
  if (at == std::string::npos) return std::nullopt;
  std::istringstream text(line.substr(at + kMark.size()));
  double milliseconds = 0;
  if (!(text >> milliseconds) || !(milliseconds > 0)) return std::nullopt;
  return milliseconds / 1000;
}

}  // namespace

bool is_megatron_log(const std::string& text) {
  return text.find("end of arguments ---") != std::string::npos || text.find("--- arguments ---") != std::string::npos;
}

Draft import_megatron_log(const std::string& file, const std::vector<std::string>& sets) {
  const std::string text = read_text(file);
  std::istringstream lines(text);
  std::map<std::string, std::string> all;
  std::map<std::string, int> where;
  std::vector<double> steps;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (const auto argument = argument_of(line)) {
      all.insert_or_assign(argument->first, argument->second);
      where[argument->first] = number;
    } else if (const auto seconds = iteration_of(line)) {
      steps.push_back(*seconds);
    }
  }
  LaunchLine line;
  line.place = {file, 1, 1};
  line.program = "pretrain_gpt.py";
  std::vector<std::string> off, derived;
  for (const auto& [name, value] : all) {
    const sim::Place place{file, where[name], 1};
    std::string flag = name == "fp8" ? "fp8-format" : name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    const auto negative = turned_off_by().find(name);
    if (negative != turned_off_by().end()) {
      if (value == "False") line.options.push_back({negative->second, {}, place});
    } else if (value == "None" || value == "False" || value == "[]" || value.empty()) {
      off.push_back(name);
    } else if (follows(name, all)) {
      derived.push_back(name);
    } else {
      LaunchOption option{flag, {}, place};
      if (value != "True") option.values = words_of(value);
      line.options.push_back(std::move(option));
    }
  }
  if (line.options.empty())
    throw sim::UserError({file, 1, 1}, "arguments",
                         "are not there, expected a log with lines such as \"num_layers ... 32\"");
  Draft draft = import_with_idle_options(line, "", sets);
  draft.set("name", std::filesystem::path(file).stem().string());
  if (!derived.empty())
    draft.ignored(fmt::format("{}", fmt::join(derived, ", ")),
                  "follow from other arguments, or are of a part that is off");
  if (!off.empty())
    draft.ignored(fmt::format("{} arguments that are False or None", off.size()), "as they are by default");
  if (steps.size() > 2 * kWarmUp) steps.erase(steps.begin(), steps.begin() + kWarmUp);
  if (!steps.empty()) {
    const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
    std::nth_element(steps.begin(), middle, steps.end());
    draft.set("measured.iteration_s", fmt::format("{:.6g}", *middle));
    draft.assumed("measured.iteration_s",
                  fmt::format("the median of the {} iterations that the log prints", steps.size()));
  }
  return draft;
}

}  // namespace orrery::tools
