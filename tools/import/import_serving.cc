// A launch line of an inference server as a scenario: `vllm serve`, `python -m sglang.launch_server`, `trtllm-serve`.
// Each engine has its table of flags: those that a scenario has a key for, and those that change no time; every other
// one is named as not taken over. The line does not say devices, nor traffic unless a benchmark of it follows
// (benchmark_flags.h); they are assumed and said. Sources: vLLM
// v0.15 (vllm/engine/arg_utils.py), SGLang v0.5 (python/sglang/srt/server_args.py), TensorRT-LLM v1.0
// (tensorrt_llm/commands/serve.py). A script around it is read as Megatron-LM's are (shell_run.h). Left out: what
// variables of the environment change, configuration files that a flag names.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/import/benchmark_flags.h"
#include "tools/import/checkpoint_types.h"
#include "tools/import/idle_keys.h"
#include "tools/import/import.h"
#include "tools/import/launch_ways.h"
#include "tools/import/parse_json.h"
#include "tools/import/published_models.h"
#include "tools/import/serving_flags.h"

namespace orrery::tools {

namespace {

using sim::Settings;

struct Word {
  std::string text;
  sim::Place place;
  std::string unknown;  // how to say what of it the script does not; empty: it is known
};

/// Words that start a server in other ways than its usual one: a module, an image whose arguments are the server's, a
/// command with a word behind it that is none of its flags.
struct OtherStart {
  std::string_view engine, word, behind;
};
constexpr OtherStart kOtherStarts[] = {{"vllm", "vllm.entrypoints.openai.api_server", ""},
                                       {"vllm", "vllm.entrypoints.api_server", ""},
                                       {"vllm", "vllm/vllm-openai", ""},
                                       {"sglang", "sglang", "serve"},
                                       {"trtllm", "trtllm-serve", "serve"}};

/// Where in a command the words that start the server end; nothing where it starts none.
std::optional<std::size_t> first_flag(const ServerFlags& server, const std::vector<Word>& words) {
  const auto at = [&](std::size_t i, std::string_view text) { return i < words.size() && words[i].text == text; };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    for (const OtherStart& other : kOtherStarts) {
      const bool image = other.word.find('/') != std::string_view::npos;  // of any version: vllm/vllm-openai:v0.11
      const bool here = image ? word.substr(0, word.rfind(':')).ends_with(other.word) : word == other.word;
      if (other.engine == server.engine && here && (other.behind.empty() || at(i + 1, other.behind)))
        return i + (other.behind.empty() ? 1 : 2);
    }
    const bool here = word == server.command || word.ends_with("/" + std::string(server.command));
    if (here && (server.subcommand.empty() || at(i + 1, server.subcommand)))
      return i + (server.subcommand.empty() ? 1 : 2);
  }
  return std::nullopt;
}

/// The command that starts the server, on one way through a script, and what is left of that way.
struct ServerCommand {
  std::vector<Word> words;  // behind those that start it
  std::vector<std::pair<std::string, std::string>> ignored;
};

std::vector<Word> words_of(const ShellRun& run) {
  std::vector<Word> words;
  for (const ShellField& field : run.words) {
    if (!field.known || field.text.find('$') != std::string::npos)
      words.push_back({field.text, field.place, how_to_give(field.text, "")});
    else
      words.push_back({field.text, field.place, ""});
  }
  return words;
}

ServerCommand command_of(const ServerFlags& server, const ShellWay& way, const sim::Place& place) {
  ServerCommand command;
  std::vector<std::string> others;
  bool found = false;
  const bool flags_alone =
      way.runs.size() == 1 && !way.runs[0].words.empty() && way.runs[0].words[0].text.starts_with("-");
  for (const ShellRun& run : way.runs) {
    std::vector<Word> words = words_of(run);
    const std::optional<std::size_t> flags = flags_alone ? std::optional<std::size_t>(0) : first_flag(server, words);
    if (!flags && is_benchmark(run)) continue;  // says what comes (benchmark_flags.h)
    if (!flags || found) {
      const std::string what = words.empty() ? "" : words[0].text;
      others.push_back(fmt::format("{} (line {})", flags ? "another start of the server" : what, run.place.line));
      continue;
    }
    found = true;
    std::vector<std::string> ahead;
    for (std::size_t i = 0; i < *flags; ++i) {
      const std::string& word = words[i].text;
      const bool starts =
          word == "-m" || word.starts_with("python") || word == server.subcommand || word.ends_with(server.command);
      if (!starts) ahead.push_back(word);
    }
    if (!ahead.empty())
      command.ignored.emplace_back(fmt::format("{}", fmt::join(ahead, " ")), "stands ahead of the server's command");
    command.words.assign(words.begin() + static_cast<std::ptrdiff_t>(*flags), words.end());
  }
  if (!found)
    throw sim::UserError(place, std::string(server.line), "starts in no command, expected a launch line of it");
  if (!others.empty())
    command.ignored.emplace_back(fmt::format("{}", fmt::join(others, ", ")), "other commands, which are not read");
  std::vector<std::string> variables;
  for (const auto& [name, value] : way.variables) variables.push_back(name + "=" + value);
  if (!variables.empty())
    command.ignored.emplace_back(fmt::format("{}", fmt::join(variables, ", ")),
                                 "variables, which the server may read too; taken where its flags name them alone");
  return command;
}

/// What flags come to, ahead of the scenario.
struct ServerLine {
  std::map<ServerKey, Word> values;
  std::map<ServerKey, std::string> flags;  // as they are written
  std::optional<Word> model;
  std::vector<std::pair<std::string, std::string>> ignored;
};

/// The flag that a misprint may stand for, as the end of a remark.
std::string meant_flag(const ServerFlags& server, const std::string& name) {
  std::vector<std::string> names;
  for (const ServerFlag& flag : server.flags) {
    for (std::size_t from = 0; from < flag.names.size();) {
      const std::size_t end = std::min(flag.names.find(' ', from), flag.names.size());
      names.emplace_back(flag.names.substr(from, end - from));
      from = end + 1;
    }
  }
  const std::string near = sim::nearest_word(name, names);
  return near.empty() ? "" : "; did you mean --" + near + "?";
}

void take_value(ServerLine& line, ServerKey key, const Word& value, const std::string& shown) {
  if (const auto before = line.flags.find(key); before != line.flags.end() && before->second != shown)
    line.ignored.emplace_back(before->second, shown + " follows, and of the same flag the last holds");
  line.values[key] = value;
  line.flags[key] = shown;
}

/// Keys of a file of options as the flags that they stand for: `a: {b: 1}` is --a.b 1, `c: false` --no-c.
void add_option_words(const Settings& node, const std::string& path, std::vector<Word>& words) {
  for (const auto& [key, value] : node.members()) {
    std::string name = path.empty() ? key : path + "." + key;
    std::replace(name.begin(), name.end(), '_', '-');
    if (value.is_mapping()) {
      add_option_words(value, name, words);
      continue;
    }
    const std::string text = value.is_scalar() ? value.text() : value.is_sequence() ? "[...]" : "null";
    const bool yes = text == "true" || text == "True", no = text == "false" || text == "False";
    words.push_back({(no ? "--no-" : "--") + name, value.place(), ""});
    if (!yes && !no) words.push_back({text, value.place(), ""});
  }
}

/// The words of the file of options that a line names: of the file beside the script, else of what the script writes.
/// Nothing where neither is there.
std::optional<std::vector<Word>> option_words(const ServerFlags& server, const Word& file, const ShellWay& way) {
  std::vector<std::string> texts;
  std::error_code none;
  const std::filesystem::path beside = std::filesystem::path(file.place.file.text()).parent_path() / file.text;
  for (const std::filesystem::path& path : {std::filesystem::path(file.text), beside})
    if (texts.empty() && std::filesystem::is_regular_file(path, none)) texts.push_back(read_text(path.string()));
  if (texts.empty()) texts = way.documents;
  std::optional<std::vector<Word>> found;
  for (const std::string& text : texts) {
    std::vector<Word> words;
    try {
      const Settings read = scenarios::parse_yaml(text, file.place.file.text());
      if (read.is_mapping()) add_option_words(read, "", words);
    } catch (const sim::UserError&) {
      continue;  // another document
    }
    const bool known = std::any_of(words.begin(), words.end(), [&](const Word& word) {
      const ServerFlag* flag = word.text.starts_with("--") ? server.find(flag_name(word.text)) : nullptr;
      return flag != nullptr;
    });
    if (!known) continue;
    if (!found) found.emplace();
    found->insert(found->end(), words.begin(), words.end());  // what is added to a file with >>
  }
  return found;
}

ServerLine line_of(const ServerFlags& server, ServerCommand command, const ShellWay& way, bool inside = false);

/// Options of a file under those of the line; those of TensorRT-LLM's over them (llmapi/llm_args.py,
/// update_llm_args_with_extra_dict).
void take_options(const ServerFlags& server, const Word& file, const ShellWay& way, ServerLine& line) {
  const auto words = option_words(server, file, way);
  if (!words) {
    line.ignored.insert(line.ignored.begin(),
                        {"the options in " + file.text, "the file is not there, and what it sets is not taken over"});
    return;
  }
  const ServerLine of_file = line_of(server, {*words, {}}, way, true);
  line.ignored.insert(line.ignored.end(), of_file.ignored.begin(), of_file.ignored.end());
  if (!line.model) line.model = of_file.model;
  for (const auto& [key, shown] : of_file.flags) {
    if (server.engine == "trtllm" || !line.values.contains(key))
      take_value(line, key, of_file.values.at(key), shown);
    else
      line.ignored.emplace_back(shown, "of " + file.text + ": " + line.flags[key] + " of the line holds");
  }
}

ServerLine line_of(const ServerFlags& server, ServerCommand command, const ShellWay& way, bool inside) {
  ServerLine line;
  line.ignored = std::move(command.ignored);
  std::vector<Word> words = command.words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    Word word = words[i];
    if (!word.text.starts_with("-") || word.text.find_first_not_of('-') == std::string::npos) {
      if (line.model || word.text == "&" || word.text == ";")
        line.ignored.emplace_back(word.text, "stands alone, and is no flag's value");
      else if (!word.unknown.empty())
        throw sim::UserError(word.place, "model", word.unknown);
      else
        line.model = word;
      continue;
    }
    std::optional<Word> value;
    if (const std::size_t equals = word.text.find('='); equals != std::string::npos) {
      value = Word{word.text.substr(equals + 1), word.place, word.unknown};
      word.text.resize(equals);
    }
    const std::string name = flag_name(word.text);
    const ServerFlag* flag = server.find(name);
    if (flag == nullptr && name.starts_with("no-")) {  // the opposite of what changes nothing here
      flag = server.find(name.substr(3));
      if (flag != nullptr && flag->key != ServerKey::none) flag = nullptr;
    }
    const bool switches = flag != nullptr && flag->form == ServerFlag::Form::switches;
    if (!value && !switches && i + 1 < words.size() && !words[i + 1].text.starts_with("--")) {
      const bool known = flag != nullptr || !line.model || i + 2 >= words.size() || words[i + 2].text.starts_with("-");
      if (known) value = words[++i];
    }
    const std::string shown = word.text + (value ? " " + value->text : std::string());
    if (flag == nullptr) {
      line.ignored.emplace_back(shown, "is no flag that is known here" + meant_flag(server, name));
    } else if (flag->key == ServerKey::none) {
      line.ignored.emplace_back(shown, std::string(flag->why));
    } else if (flag->key == ServerKey::unmodelled) {
      line.ignored.insert(line.ignored.begin(), {shown, std::string(flag->why)});
    } else if (inside && value && value->text == "null") {
      line.ignored.emplace_back(shown, "says nothing");
    } else {
      if (!switches && !value) throw sim::UserError(word.place, word.text, "got no value, expected one");
      Word taken = value ? *value : Word{"true", word.place, ""};
      if (!taken.unknown.empty()) throw sim::UserError(taken.place, word.text, taken.unknown);
      if (switches && value && value->text != "true" && value->text != "false")
        throw sim::UserError(word.place, word.text, fmt::format("got {}, expected no value", value->text));
      if (flag->key == ServerKey::options && !inside)
        take_options(server, taken, way, line);
      else if (flag->key == ServerKey::model)
        line.model = taken;
      else
        take_value(line, flag->key, taken, shown);
    }
  }
  return line;
}

/// "meta-llama/Llama-3.1-70B-Instruct-FP8": the model that ships, and the type that the name says.
struct NamedModel {
  PublishedModel published;
  std::string type, experts, attention;  // experts, attention: where theirs is another
};
NamedModel model_named(const std::string& typed) {
  std::string name = typed.substr(typed.rfind('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  NamedModel named{published_model(typed), {}, {}, {}};
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kTypes{{{"-nvfp4", "nvfp4"},
                                                                                 {"-fp4", "nvfp4"},
                                                                                 {"-fp8", "fp8"},
                                                                                 {"-awq", "int4"},
                                                                                 {"-gptq", "int4"},
                                                                                 {"-int4", "int4"},
                                                                                 {"-w4a16", "int4"},
                                                                                 {"-bf16", "bf16"}}};
  for (const auto& [mark, type] : kTypes)
    if (name.find(mark) != std::string::npos && named.type.empty()) named.type = type;
  // nvidia/DeepSeek-R1-FP4 and R1-0528-NVFP4 leave attention as it was; the second version, which its card says to have
  // one product of it more, for the most part.
  if (named.published.ships == "deepseek-v3" && named.type == "nvfp4") named.attention = "bf16";
  // Trained to it from Thinking on (quantization_config of moonshotai/Kimi-K2.5: groups of 32, routed experts alone).
  if (named.type.empty() && (name.starts_with("kimi-k2-thinking") || name.starts_with("kimi-k2."))) {
    named.type = "bf16";
    named.experts = "int4";
  }
  // Published in blocks of 128 x 128 (quantization_config.weight_block_size of Qwen/Qwen3-*-FP8, Qwen3.5,
  // zai-org/GLM-*-FP8 and MiniMaxAI's).
  if (named.type == "fp8" && (name.starts_with("qwen3") || name.starts_with("glm-") || name.starts_with("minimax-")))
    named.type = "fp8-block";
  return named;
}

class ServerDraft {
 public:
  ServerDraft(const ServerFlags& server, ServerLine line, const std::string& file)
      : server_(server),
        line_(std::move(line)),
        draft_(fmt::format("a launch line of {}", server.engine), {file, 1, 1}) {}

  Draft made(const ServerPlace& place, const std::vector<std::string>& sets, const ShellWay& way) {
    const auto says = [&](std::string_view key) {
      return std::any_of(sets.begin(), sets.end(), [&](const std::string& set) { return set.starts_with(key); });
    };
    if (!line_.model && !says("model="))
      throw sim::UserError(fmt::format("orrery: import {}: got no model, expected one in the line, or --set model=NAME",
                                       server_.engine));
    draft_.set("name", fmt::format("{}-import", server_.engine));
    draft_.set("software", std::string(server_.release));
    NamedModel named;
    if (line_.model) {
      named = model_named(line_.model->text);
      if (!take_checkpoint(named)) set_model(named);
    }
    if (named.type.empty() && !checkpoint_weights_) take_published_types(named);
    set_precision(named.type);
    if (!named.experts.empty()) {
      if (!checkpoint_weights_) draft_.set("precision.weights", std::string("bf16"));
      draft_.set("precision.experts", named.experts);
    }
    if (!named.attention.empty()) draft_.set("precision.attention", named.attention);
    set_pools(place);
    draft_.set("cluster.device", std::string("h100-sxm-80gb"));
    draft_.assumed("cluster.device", "h100-sxm-80gb; the line does not say it: --set cluster.device=NAME");
    if (!set_traffic(way, draft_)) {
      for (const auto& [key, value] : {std::pair("concurrency", 64), {"input", 1024}, {"output", 1024}})
        draft_.set(fmt::format("traffic.{}", key), static_cast<std::int64_t>(value));
      draft_.assumed("traffic", "64 requests at a time of 1024 tokens in and out; the line does not say what comes");
      set_sampling();
    }
    for (const auto& [what, why] : line_.ignored) draft_.ignored(what, why);
    return std::move(draft_);
  }

 private:
  const Word* given(ServerKey key) const {
    const auto found = line_.values.find(key);
    return found != line_.values.end() ? &found->second : nullptr;
  }
  std::int64_t count(ServerKey key, std::int64_t fallback) const {
    const Word* word = given(key);
    return word != nullptr ? Settings::scalar(word->text, word->place).as_int(1, 1'000'000) : fallback;
  }
  bool on(ServerKey key) const {
    const Word* word = given(key);
    return word != nullptr && word->text == "true";
  }

  void set_model(const NamedModel& named) {
    const auto& [ships, beside, inferred] = named.published;
    const std::string& typed = line_.model->text;
    draft_.set("model", ships.empty() ? typed.substr(typed.rfind('/') + 1) : ships, line_.model->place);
    if (!inferred.empty()) draft_.assumed("model", fmt::format("{}, by the part {} of {}", ships, inferred, typed));
    if (!beside.empty()) draft_.first(beside + ": left out, with its tokens; the language model alone is simulated");
  }

  /// The types that a model which ships was published in.
  void take_published_types(NamedModel& named) {
    const Settings* model = draft_.document().find_path("model");
    const std::vector<std::string> all = scenarios::shipped("models");
    if (model == nullptr || !model->is_scalar() || std::find(all.begin(), all.end(), model->text()) == all.end())
      return;
    const Settings ships = scenarios::resolve(scenarios::shelf_of("models"), *model).document;
    const auto type = [&](const char* key, std::string& to) {
      const Settings* published = ships.find_path(fmt::format("served.{}", key));
      if (published == nullptr || !to.empty()) return;
      to = published->text();
      draft_.assumed(fmt::format("precision.{}", key), fmt::format("{}, in which {} was published", to, model->text()));
    };
    type("weights", named.type);
    type("attention", named.attention);
    type("experts", named.experts);
  }

  /// A folder with a config.json, as the line names it or beside the script: the model and its types are those that
  /// stand there. False where none is.
  bool take_checkpoint(NamedModel& named) {
    std::error_code none;
    std::filesystem::path folder = line_.model->text;
    if (!std::filesystem::is_regular_file(folder / "config.json", none))
      folder = std::filesystem::path(line_.model->place.file.text()).parent_path() / folder;
    if (!std::filesystem::is_regular_file(folder / "config.json", none)) return false;
    const Draft checkpoint = import_hf((folder / "config.json").string());
    draft_.lay("model", checkpoint.document().at("model"));
    for (const std::string& what : checkpoint.ignored()) draft_.ignored("config.json: " + what);
    const Settings config = scenarios::read_yaml((folder / "config.json").string());
    const bool apart = std::filesystem::is_regular_file(folder / "hf_quant_config.json", none);
    const Settings* layers = draft_.document().find_path("model.layers");
    const Settings* inside = config.find("quantization_config");
    if (layers == nullptr || (inside == nullptr && !apart)) return true;
    const Settings stored =
        inside != nullptr ? *inside : scenarios::read_yaml((folder / "hf_quant_config.json").string());
    if (const auto types = checkpoint_types(stored, layers->as_int(1, 100'000)); types) {
      named.type = types->weights == "bf16" ? "" : types->weights;
      named.experts = types->experts;
      named.attention = types->attention;
      checkpoint_weights_ = true;
      for (const std::string& each : types->told) draft_.ignored("of the checkpoint", each);
      if (!types->kv_cache.empty()) draft_.assumed("precision.kv_cache", types->kv_cache + " as the checkpoint says");
      checkpoint_cache_ = types->kv_cache;
    } else {
      draft_.first("quantization_config: a form that is not known; precision.weights says the type");
    }
    return true;
  }

  /// What requests leave open: the model's unless the line says otherwise.
  void set_sampling() {
    if (const Word* from = given(ServerKey::generation); from != nullptr) {
      if (from->text == "vllm" || from->text == "openai")
        draft_.apply("traffic.sampling={temperature: 1, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1}");
      else if (from->text != "auto" && from->text != "model")
        line_.ignored.emplace_back("--generation-config " + from->text,
                                   "a folder; traffic.sampling says what it holds");
    }
    const Word* over = given(ServerKey::generation_over);
    if (over == nullptr) return;
    nlohmann::json members;
    try {
      members = parse_json(over->text);
    } catch (const JsonProblem& problem) {
      throw sim::UserError(over->place, "--override-generation-config", problem.got + ", expected JSON");
    }
    if (!members.is_object())
      throw sim::UserError(over->place, "--override-generation-config",
                           fmt::format("got {}, expected keys in braces", over->text));
    for (const auto& [key, value] : members.items()) {
      if (value.is_number() && is_sampling_key(key))
        draft_.apply(fmt::format("traffic.sampling.{}={}", key, value.dump()));
      else
        line_.ignored.emplace_back("--override-generation-config " + key, "changes no time here");
    }
  }

  void set_precision(std::string type) {
    if (const Word* word = given(ServerKey::quantization); word != nullptr) {
      const std::string& name = word->text;
      if (name == "fp8" || name == "modelopt" || name == "compressed-tensors" || name == "w8a8_fp8")
        type = type == "fp8-block" ? type : "fp8";  // the checkpoint's own
      else if (name == "modelopt_fp4" || name == "nvfp4" || name == "petit_nvfp4")
        type = "nvfp4";
      else if (name.starts_with("awq") || name.starts_with("gptq") || name == "w4afp8")
        type = "int4";
      else if (name == "mxfp4")
        type = "mxfp4";
      else
        line_.ignored.emplace_back("--quantization " + name, "no type of weights here; precision.weights says it");
    }
    if (const Word* word = given(ServerKey::type); word != nullptr && word->text != "auto" &&
                                                   word->text != "bfloat16" && word->text != "float16" &&
                                                   word->text != "half")
      line_.ignored.emplace_back("--dtype " + word->text, "activations have 16 bits here");
    draft_.set("precision.weights", type.empty() ? std::string("bf16") : type);
    const Word* cache = given(ServerKey::cache_type);
    const bool own = cache == nullptr || cache->text == "auto";  // then the checkpoint's
    const bool small = own ? checkpoint_cache_ == "fp8" : cache->text.starts_with("fp8");
    if (!own && !small && cache->text != "bfloat16" && cache->text != "bf16")
      line_.ignored.emplace_back("the type of the cache " + cache->text, "no such type here; 16 bits are taken");
    draft_.set("precision.kv_cache", std::string(small ? "fp8" : "bf16"));
    if (const Word* states = given(ServerKey::state_type); states != nullptr && states->text != "auto")
      draft_.set("precision.states", std::string(states->text == "bfloat16" ? "bf16" : "fp32"), states->place);
  }

  void set_pools(const ServerPlace& place) {
    const std::int64_t gpus = place.gpus;
    std::int64_t tensor = count(ServerKey::tensor, 1), data = count(ServerKey::data, 1), attention = 1;
    // SGLang: with an exchange of its own between experts these lie on all tensor ranks, whatever --ep-size says
    // (server_args.py, _handle_a2a_moe).
    const Word* exchange = given(ServerKey::exchange);
    const bool exchanges = exchange != nullptr && exchange->text != "none";
    std::int64_t replicas = 1, expert = exchanges ? tensor : count(ServerKey::expert, 1);
    const std::int64_t pipeline = count(ServerKey::pipeline, 1);
    if (server_.engine == "trtllm" && on(ServerKey::attention_data)) data = tensor;  // a group is a rank there
    if (on(ServerKey::attention_data)) {  // SGLang: of the tensor ranks, so many groups
      const Word& word = *given(ServerKey::attention_data);
      if (tensor % data != 0)
        throw sim::UserError(word.place, "--dp-size",
                             fmt::format("got {}, expected a divisor of tp = {}", data, tensor));
      attention = data;
      tensor /= data;
    } else if (on(ServerKey::experts_apart)) {  // vLLM: experts over all ranks
      attention = data;
      expert = tensor * data;
    } else {
      replicas = data;
      if (data > 1)
        draft_.assumed("serving.pools[].replicas", fmt::format("{}, each with all weights, as data-parallel ranks of a "
                                                               "dense model are",
                                                               data));
    }
    replicas *= place.replicas;
    std::vector<std::string> pool{
        fmt::format("replicas: {}, parallelism: {{tensor: {}, pipeline: {}, expert: {}, attention_data: {}}}", replicas,
                    tensor, pipeline, expert, attention)};
    const auto add = [&](ServerKey key, const char* name) {
      if (const Word* word = given(key); word != nullptr)
        pool.push_back(fmt::format("{}: {}", name, Settings::scalar(word->text, word->place).as_int(1, 1'000'000)));
    };
    add(ServerKey::sequences, "max_sequences");
    // SGLang: a chunk of -1 tokens is a prompt whole.
    const Word* chunk = given(ServerKey::tokens);
    const bool whole = chunk != nullptr && chunk->text == "-1" && server_.engine == "sglang";
    if (whole) pool.emplace_back("chunked_prefill: false");
    if (!whole) add(ServerKey::tokens, "max_batched_tokens");
    add(ServerKey::block, "block_tokens");
    add(ServerKey::redundant, "redundant_experts");
    add(ServerKey::polls, "polls_every");
    if (const Word* word = given(ServerKey::memory); word != nullptr)
      pool.push_back(
          fmt::format("memory_utilization: {}", Settings::scalar(word->text, word->place).as_number(0.01, 1)));
    for (const auto& [key, text] : {std::pair(ServerKey::chunks, "chunked_prefill: true"),
                                    {ServerKey::no_chunks, "chunked_prefill: false"},
                                    {ServerKey::prefixes, "prefix_caching: true"},
                                    {ServerKey::no_prefixes, "prefix_caching: false"},
                                    {ServerKey::eager, "graphs: none"}})
      if (on(key)) pool.emplace_back(text);
    for (const auto& [key, flag] : {std::pair(ServerKey::experts_apart, "--enable-expert-parallel"),
                                    {ServerKey::attention_data, "--enable-dp-attention"},
                                    {ServerKey::exchange, "--moe-a2a-backend"}})
      if (given(key) != nullptr && std::max(expert, attention) == 1)
        line_.ignored.emplace_back(flag, "without effect: there is one rank of that kind");
    draft_.apply(fmt::format("serving={{pools: [{{{}}}]}}", fmt::join(pool, ", ")));
    const std::int64_t needed = replicas * tensor * pipeline * attention;
    const std::int64_t nodes = (std::max(needed, gpus) + 7) / 8;
    draft_.set("cluster.gpus", nodes > 1 ? nodes * 8 : std::max(needed, gpus));
    if (nodes > 1) draft_.set("cluster.fabric", std::string("ndr-rail"));
    if (nodes > 1) draft_.assumed("cluster.fabric", "ndr-rail; the line does not say it");
  }

  const ServerFlags& server_;
  ServerLine line_;
  Draft draft_;
  bool checkpoint_weights_ = false;  // its files say the types
  std::string checkpoint_cache_;
};

}  // namespace

std::string flag_name(std::string_view word) {
  std::string name(word.substr(word.find_first_not_of('-')));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

const ServerFlag* ServerFlags::find(std::string_view name) const {
  for (const ServerFlag& flag : flags) {
    for (std::size_t from = 0; from < flag.names.size();) {
      const std::size_t end = std::min(flag.names.find(' ', from), flag.names.size());
      const std::string_view each = flag.names.substr(from, end - from);
      if (each == name || (each.ends_with("*") && name.starts_with(each.substr(0, each.size() - 1)))) return &flag;
      from = end + 1;
    }
  }
  return nullptr;
}

namespace {

/// The script's commands; of one that takes too long to follow, as scripts do that wait for their server and measure
/// it, those up to the server's start.
ShellRuns runs_of(const ServerFlags& server, const std::string& text, const std::string& file,
                  const ShellGiven& script) {
  try {
    return run_shell(text, file, {}, script);
  } catch (const sim::UserError&) {
    ShellGiven shorter = script;
    shorter.ends = [&](const ShellRun& run) { return first_flag(server, words_of(run)).has_value(); };
    ShellRuns runs = run_shell(text, file, {}, shorter);
    runs.remarks.emplace_back("what follows the start of the server, which takes too long to follow");
    return runs;
  }
}

/// Variables of a script's own words that it assigns nowhere, in the order of its text, up to a dozen.
std::vector<std::string> never_assigned(const std::string& text, const ShellGiven& script) {
  std::vector<std::string> names;
  const auto is_name = [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = text.find('$'); at != std::string::npos && names.size() < 12; at = text.find('$', at + 1)) {
    const std::size_t begin = at + 1 + (at + 1 < text.size() && text[at + 1] == '{' ? 1 : 0);
    std::size_t end = begin;
    while (end < text.size() &&
           (is_name(text[end]) || (end > begin && std::isdigit(static_cast<unsigned char>(text[end])) != 0)))
      ++end;
    const std::string name = text.substr(begin, end - begin);
    const bool assigned = text.find(name + "=") != std::string::npos || script.environment.contains(name);
    const bool whole = end == text.size() || std::isalnum(static_cast<unsigned char>(text[end])) == 0;
    if (name.empty() || !whole || assigned || std::find(names.begin(), names.end(), name) != names.end()) continue;
    names.push_back(name);
  }
  return names;
}

/// A script that ends ahead of its server, as one does that looks first whether its variables are there.
void refuse_early_end(const ServerFlags& server, const std::string& text, const std::string& file,
                      const ShellGiven& script) {
  const std::vector<std::string> names = never_assigned(text, script);
  if (names.empty()) return;
  throw sim::UserError(
      {file, 1, 1}, std::string(server.line),
      fmt::format("starts in no command: the script ends ahead of it, and assigns nowhere {}; expected "
                  "--env NAME=VALUE for them",
                  fmt::join(names, ", ")));
}

}  // namespace

Draft import_server(const std::string& engine, const std::vector<std::string>& arguments, std::int64_t gpus,
                    const std::vector<std::string>& sets, const ShellGiven& script) {
  server_flags(engine);
  if (arguments.empty())
    throw sim::UserError(
        fmt::format("orrery: import {}: got no arguments, expected a launch line or a file that holds one", engine));
  std::string text, file = "arguments";
  std::error_code none;
  if (arguments.size() == 1 && std::filesystem::is_regular_file(arguments[0], none)) {
    file = arguments[0];
    text = read_text(file);
  } else if (arguments.size() == 1) {
    text = arguments[0];
  } else {
    for (const std::string& word : arguments) {
      std::string quoted = "'";
      for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
      text += quoted + "' ";
    }
  }
  return import_server_script(engine, text, file, {gpus, 1}, sets, script);
}

Draft import_server_script(const std::string& engine, const std::string& text, const std::string& file,
                           const ServerPlace& place, const std::vector<std::string>& sets, const ShellGiven& script) {
  const ServerFlags& server = server_flags(engine);
  const ShellRuns runs = runs_of(server, text, file, script);
  LaunchScript ways{{}, runs.unset, runs.remarks};
  // Ways on which the script ends ahead of the server are none of its own, unless all are.
  std::vector<const ShellWay*> starting;
  for (const ShellWay& way : runs.ways) {
    const bool starts = std::any_of(way.runs.begin(), way.runs.end(), [&](const ShellRun& run) {
      return !run.words.empty() && (run.words[0].text.starts_with("-") || first_flag(server, words_of(run)));
    });
    if (starts) starting.push_back(&way);
  }
  if (starting.empty() && text.find(server.command) != std::string::npos) refuse_early_end(server, text, file, script);
  if (starting.empty()) starting.push_back(&runs.ways.front());
  for (const ShellWay* way : starting) ways.ways.push_back({{}, {}, {file, 1, 1}, way->decisions, {}});
  return draft_of_ways(ways, [&](std::size_t way) {
    const ServerLine line = line_of(server, command_of(server, *starting[way], {file, 1, 1}), *starting[way]);
    const auto made = [&](const ServerLine& of) {
      return ServerDraft(server, of, file).made(place, sets, *starting[way]);
    };
    Draft draft = made(line);
    std::vector<SaidKey> said;
    std::vector<ServerKey> keys;
    for (const auto& [key, shown] : line.flags) {
      keys.push_back(key);
      said.push_back({{shown, shown.substr(0, shown.find(' '))}, shown});
    }
    tell_idle(draft, said, [&](std::size_t i) {
      ServerLine rest = line;
      rest.values.erase(keys[i]);
      return made(rest);
    });
    return draft;
  });
}

}  // namespace orrery::tools
