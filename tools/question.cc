// From flags to a scenario, and from its step to days and dollars.
#include "tools/question.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <ostream>
#include <string_view>
#include <tuple>
#include <utility>

#include "scenarios/library.h"
#include "scenarios/synonyms.h"
#include "scenarios/yaml_text.h"
#include "sim/error.h"
#include "sim/written_out.h"
#include "tools/explain/newness.h"
#include "tools/import/import.h"
#include "tools/import/known_devices.h"
#include "tools/import/published_models.h"
#include "tools/report/output.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "tools/study/best_first.h"
#include "tools/study/variation.h"
#include "workloads/step/training_cost.h"

namespace orrery::tools {

namespace {

constexpr double kBatchTokens = 4e6;  // as runs of hundreds of GPUs and more train on

}  // namespace

bool is_set(const std::vector<std::string>& sets, const std::string& key) {
  return std::any_of(sets.begin(), sets.end(), [&](const std::string& set) {
    const std::string said = scenarios::parse_assignment(set).key;
    return said == key || key.starts_with(said + ".") || said.starts_with(key + ".");
  });
}

double number_of_flag(const char* flag, const std::string& text, double least) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= least) || !(value <= 1e18))
    throw sim::UserError(
        fmt::format("{}: got '{}', expected a number from {:g}{}", flag, text, least, sim::written_out(text)));
  return value;
}

scenarios::Resolved named_by_flag(const char* kind, const char* flag, const std::string& name) {
  return scenarios::resolve(scenarios::shelf_of(kind), sim::Settings::scalar(name, {flag, 0, 0}));
}

sim::Settings reference_by_flag(const std::string& flag, const std::string& text, const std::string& name) {
  const bool file = scenarios::is_path(text);
  return sim::Settings::scalar(file ? std::filesystem::absolute(text).string() : name, {flag, 0, 0}, true);
}

std::string model_word(const std::string& typed, std::vector<std::string>& assumed) {
  const std::size_t slash = typed.find('/');
  const bool hub = slash != std::string::npos && slash > 0 && slash == typed.rfind('/') && typed[0] != '.' &&
                   typed[0] != '~' && !typed.ends_with(".yaml") && !typed.ends_with(".yml");
  std::error_code unreadable;
  const std::string word = hub && !std::filesystem::exists(typed, unreadable) ? typed.substr(slash + 1) : typed;
  const std::vector<std::string> names = scenarios::shipped("models");
  if (scenarios::is_path(word) || std::find(names.begin(), names.end(), word) != names.end() ||
      !scenarios::name_meant("models", word, names).empty())
    return word;
  const PublishedModel published = published_model(typed);
  if (published.ships.empty() || !published.inferred.empty()) return word;
  assumed.push_back(fmt::format("model {}, whose sizes {} has{}", published.ships, typed,
                                published.beside.empty() ? "" : fmt::format(", without its {}", published.beside)));
  return published.ships;
}

namespace {

/// Sequences of a batch: near the tokens asked for, a power of two where the GPUs divide it or are more, else a
/// multiple of the GPUs, so that every number of replicas divides it.
std::int64_t batch_of(double tokens, std::int64_t seq, std::int64_t gpus) {
  const double sequences = std::max(1.0, tokens / static_cast<double>(seq));
  const auto even = static_cast<std::int64_t>(std::exp2(std::round(std::log2(sequences))));
  const double unit = static_cast<double>(gpus);
  if (sequences < unit || even % gpus == 0) return even;
  return static_cast<std::int64_t>(std::round(sequences / unit) * unit);
}

/// What a question trains in, and what else its device could: types that its data sheet gives a rate of products in.
struct Arithmetic {
  std::string_view usual, other;
};

/// bf16 and fp8, or the next two that the device has.
Arithmetic arithmetic_of(const sim::Settings& device) {
  std::vector<std::string_view> has;
  for (const std::string_view type : {"bf16", "fp8", "fp16", "fp32"}) {
    const sim::Settings* peak = device.find_path(fmt::format("peak.{}", type));
    if (peak != nullptr && !peak->is_null()) has.push_back(type);
  }
  has.resize(2, "fp32");
  return {has[0], has[1]};
}

/// Of batch and precision, what neither a flag nor one of `sets` says.
void say_open(const sim::Settings& document, const FirstQuestion& question, const Arithmetic& types,
              const std::vector<std::string>& sets, std::vector<std::string>& assumed) {
  const sim::Settings *seq = document.find_path("model.seq"), *batch = document.find_path("batch.global");
  if (seq != nullptr && batch != nullptr && !is_set(sets, "batch.global"))
    assumed.push_back(fmt::format("{} sequences of {} tokens a step{}", batch->text(), seq->text(),
                                  question.batch_tokens.empty() ? " (--batch-tokens)" : ""));
  else if (seq != nullptr && question.seq.empty() && !is_set(sets, "model.seq"))
    assumed.push_back(fmt::format("sequences of {} tokens (--seq)", seq->text()));
  if (!is_set(sets, "precision.matmul"))
    assumed.push_back(fmt::format("{} (--set precision={})", types.usual, types.other));
}

/// A question that lacks a flag: with that flag, as it may be typed.
void refuse_open(const FirstQuestion& question) {
  for (const auto& [flag, given, example, kind] :
       {std::tuple("--model", !question.model.empty(), "llama3.1-70b", "; orrery list models"),
        {"--device", !question.device.empty(), "h100", "; orrery list devices"},
        {"--gpus", question.gpus > 0, "64", ""}}) {
    if (!given)
      throw sim::UserError(
          fmt::format("orrery: got a question without {0}, expected --model, --device and --gpus, as in {0} {1}{2}",
                      flag, example, kind));
  }
}

/// A scenario of its own, with what the flags say of it laid over, then `sets`.
sim::Settings changed_by(const FirstQuestion& question, const std::string& file, const std::vector<std::string>& sets) {
  if (!question.batch_tokens.empty())
    throw sim::UserError("--batch-tokens: is of a question without a scenario, expected --set batch.global=N beside " +
                         file);
  const auto number = [](const char* flag, const std::string& text, double least) {
    return text.empty() ? text : fmt::format("{}", number_of_flag(flag, text, least));
  };
  sim::Settings document = scenarios::read_scenario(file, {});
  for (const auto& [key, flag, text] :
       {std::tuple<const char*, const char*, std::string>("cluster.fabric", "--fabric", question.fabric),
        {"software", "--software", question.software},
        {"cost.price_per_gpu_hour_usd", "--price", number("--price", question.price, 0)},
        {"training.tokens", "--tokens", number("--tokens", question.tokens, 1)},
        {"model.seq", "--seq", number("--seq", question.seq, 1)}}) {
    if (text.empty()) continue;
    scenarios::apply_set(document, fmt::format("{}={}", key, "null"));  // opens what a name stands for
    const std::string_view path = key;
    const char* kind = path == "cluster.fabric" ? "fabrics" : path == "software" ? "software" : nullptr;
    document.set_path(key, kind != nullptr ? reference_by_flag(flag, text, named_by_flag(kind, flag, text).name)
                                           : sim::Settings::scalar(text, {flag, 0, 0}));
  }
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return document;
}

}  // namespace

void declare_question(CommandOptions app, FirstQuestion& question, bool tokens) {
  app.add_option("--model", question.model, "without a scenario: the model, as in llama3.1-70b").type_name("NAME");
  app.add_option("--device", question.device, "its GPUs, as in h100").type_name("NAME");
  app.add_option("--gpus", question.gpus, "how many").type_name("N").check(Range(1, 1 << 20));
  app.add_option("--fabric", question.fabric, "what joins the nodes (default: as the device is sold)")
      .type_name("NAME");
  app.add_option("--software", question.software, "the training framework, as in megatron").type_name("NAME");
  app.add_option("--price", question.price, "dollars a GPU and hour").type_name("USD");
  app.add_option("--batch-tokens", question.batch_tokens, "tokens a step (default: about 4e6)").type_name("N");
  app.add_option("--seq", question.seq, "tokens a sequence (default: the model's)").type_name("N");
  app.add_option("--out", question.out, "write the scenario, laid out, to FILE").type_name("FILE");
  if (tokens) app.add_option("--tokens", question.tokens, "tokens to train on").type_name("N");
}

void refuse_beside_flags(const std::string& word) {
  constexpr std::array kFlags{std::pair("models", "--model"), std::pair("devices", "--device"),
                              std::pair("fabrics", "--fabric"), std::pair("software", "--software"),
                              std::pair("engines", "--software")};
  std::error_code unreadable;
  const auto ships = [&](const char* kind) {
    const std::vector<std::string> names = scenarios::shipped(kind);
    return std::find(names.begin(), names.end(), word) != names.end();
  };
  const bool own = word == "-" || std::filesystem::exists(word, unreadable) || ships("served") || ships("trained");
  const scenarios::Shelf* exact = own ? nullptr : scenarios::shelf_with(word);
  for (const auto& [kind, flag] : kFlags) {
    const scenarios::Shelf& shelf = scenarios::shelf_of(kind);
    const bool meant = exact != nullptr ? exact->kind == kind
                                        : !own && !scenarios::name_meant(kind, word, scenarios::shipped(kind)).empty();
    if (meant)
      throw sim::UserError(fmt::format("{}: got a {} where a scenario stands, expected {} {} beside the other flags",
                                       word, shelf.noun, flag, word));
  }
  throw sim::UserError(
      fmt::format("{}: got a scenario and --model, --device or --gpus, expected one of the two; --set "
                  "changes a scenario",
                  word));
}

std::string name_of(const std::string& file, const FirstQuestion& question) {
  if (!file.empty()) return file;
  return fmt::format("{}-{}-{}", question.model, question.device, question.gpus);
}

std::string typed(const std::string& file, const FirstQuestion& question) {
  if (!question.out.empty()) return question.out;
  return question.asked() ? flags_of(question) : file;
}

sim::Settings asked_scenario(const std::string& file, const FirstQuestion& question,
                             const std::vector<std::string>& sets, std::vector<std::string>& assumed) {
  if (!file.empty()) {
    if (question.asked()) refuse_beside_flags(file);
    return changed_by(question, file, sets);
  }
  if (!question.asked())
    throw sim::UserError(
        "orrery: got no scenario, expected one, as in eos-gpt3-175b, or a question, as in --model "
        "llama3.1-70b --device h100 --gpus 512");
  refuse_open(question);
  const std::string wanted_model = model_word(question.model, assumed);
  const scenarios::Resolved model = named_by_flag("models", "--model", wanted_model);
  const scenarios::Resolved device = named_by_flag("devices", "--device", question.device);
  std::string fabric = question.fabric, software = question.software;
  const auto open = [&](const char* key, const std::string& flag) { return flag.empty() && !is_set(sets, key); };
  if (open("cluster.fabric", fabric)) assumed.push_back(fmt::format("fabric {} (--fabric)", usual_fabric(device.name)));
  if (fabric.empty()) fabric = usual_fabric(device.name);
  if (software.empty()) {
    software = device.name.starts_with("mi") ? "primus-2026" : std::string(scenarios::kDefaultSoftware);
    if (open("software", {})) assumed.push_back(fmt::format("software {} (--software)", software));
  }
  const std::int64_t seq = question.seq.empty() ? model.document.get_int("seq", 2048)
                                                : static_cast<std::int64_t>(number_of_flag("--seq", question.seq, 1));
  const double wanted =
      question.batch_tokens.empty() ? kBatchTokens : number_of_flag("--batch-tokens", question.batch_tokens, 1);
  const Arithmetic types = arithmetic_of(device.document);
  std::string text = fmt::format(
      "cluster: {{gpus: {}}}\nmodel: {{seq: {}}}\nparallelism: {{}}\nbatch: {{global: {}}}\nprecision: {}\n",
      question.gpus, seq, batch_of(wanted, seq, question.gpus), types.usual);
  if (!question.tokens.empty())
    text += fmt::format("training: {{tokens: {}}}\n", number_of_flag("--tokens", question.tokens, 1));
  if (!question.price.empty())
    text += fmt::format("cost: {{price_per_gpu_hour_usd: {}}}\n", number_of_flag("--price", question.price, 0));
  sim::Settings document = scenarios::parse_yaml(text, "the question");
  const auto name = [](const std::string& flag, const std::string& value) {
    return sim::Settings::scalar(value, {flag, 0, 0}, true);
  };
  scenarios::apply(document, {"name", name("--model", name_of(file, question))});
  scenarios::apply(document, {"cluster.device", reference_by_flag("--device", question.device, device.name)});
  scenarios::apply(document, {"cluster.fabric", reference_by_flag("--fabric", fabric, fabric)});
  scenarios::apply(document, {"model.inherits", reference_by_flag("--model", wanted_model, model.name)});
  scenarios::apply(document, {"software", reference_by_flag("--software", software, software)});
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  say_open(document, question, types, sets, assumed);
  return document;
}

Reach reach_of(const workloads::Machine& machine) {
  constexpr std::int64_t kPassTokens = 32'768;
  return {machine.gpus_per_node, kPassTokens, true};
}

std::string reach_text(const Reach& reach) {
  return fmt::format("tensor groups of up to {} GPUs, in sequence too, and micro-batches of up to {} tokens",
                     reach.tensor, reach.pass_tokens);
}

std::string flags_of(const FirstQuestion& question) {
  std::string text = fmt::format("--model {} --device {} --gpus {}", question.model, question.device, question.gpus);
  for (const auto& [flag, value] :
       {std::pair("fabric", &question.fabric), std::pair("software", &question.software),
        std::pair("tokens", &question.tokens), std::pair("price", &question.price),
        std::pair("batch-tokens", &question.batch_tokens), std::pair("seq", &question.seq)}) {
    if (!value->empty()) text += fmt::format(" --{} {}", flag, *value);
  }
  return text;
}

void lay_out(sim::Settings& document, std::vector<std::string>& sets, unsigned jobs) {
  std::vector<Variation> fixed;
  for (const std::string& set : sets) {
    const std::string key = scenarios::parse_assignment(set).key;
    const auto settings = settings_of(Layout{});
    const bool of_layout =
        std::any_of(settings.begin(), settings.end(), [&](const auto& one) { return one.first == key; });
    const sim::Settings* value = document.find_path(key);
    if (of_layout && value != nullptr && value->is_scalar())
      fixed.push_back(parse_variation(key + "=" + value->text()));
  }
  const std::unique_ptr<Crew> crew = make_crew(jobs);
  SearchOptions options;
  options.top = 1;
  std::size_t layouts = 0;
  for (const Reach& reach :
       {reach_of(layoutless_job(document).machine), Reach{}}) {  // whatever there is, where none fits
    LayoutSpace space(document, fixed, reach);
    const SearchResult result = search_layouts(space, options, *crew, jobs);
    layouts = result.layouts;
    if (result.best.empty()) continue;
    for (const auto& [key, value] : settings_of(space.layouts()[result.best.front().layout])) {
      scenarios::apply_set(document, fmt::format("{}={}", key, value));
      if (key != "cluster.gpus" && !is_set(sets, key)) sets.push_back(fmt::format("{}={}", key, value));
    }
    return;
  }
  throw sim::UserError(
      fmt::format("orrery: none of {} layouts fits the memory, expected more GPUs, a smaller model or "
                  "software that shards more",
                  layouts));
}

std::vector<std::array<std::string, 3>> answer_cards(const sim::Settings& document) {
  const scenarios::Scenario scenario = scenarios::load_scenario(document);
  const workloads::StepReport report = workloads::simulate_step(scenario.job, {});
  const double step_s = sim::to_seconds(report.iteration);
  const auto interval = interval_of_run(scenario, report);
  const LikeRows like = interval ? interval->like : LikeRows{};
  std::vector<std::array<std::string, 3>> cards{
      {"the first", time_text(step_s) + " a step",
       fmt::format("{}, two in three; {}, MFU {:.1f} %, {} a GPU", range_text(step_s, like.low68, like.high68),
                   si_text(report.rates.tokens_per_s, "tokens/s"), report.rates.mfu_pct,
                   bytes_text(report.memory.peak_bytes))}};
  const workloads::TrainingCost cost =
      workloads::training_cost(scenario.job.training, scenario.job.machine.gpus, report.rates.tokens_per_s);
  const double days = cost.time_s / 86'400;
  if (cost.time_s > 0)
    cards.push_back({"its training", fmt::format("{:.1f} days", days),
                     fmt::format("{:.1f} to {:.1f}, without failures; {} tokens", days * like.low68, days * like.high68,
                                 si_text(scenario.job.training.tokens, ""))});
  if (cost.time_s > 0 && cost.usd > 0)
    cards.push_back({"its cost", count_text(cost.usd) + " USD",
                     fmt::format("{} to {}", count_text(cost.usd * like.low68), count_text(cost.usd * like.high68))});
  return cards;
}

void write_answer(std::ostream& out, const sim::Settings& document, const FirstQuestion& question,
                  const std::vector<std::string>& assumed) {
  const scenarios::Scenario scenario = scenarios::load_scenario(document);
  const workloads::StepReport report = workloads::simulate_step(scenario.job, {});
  const double step_s = sim::to_seconds(report.iteration);
  const auto interval = interval_of_run(scenario, report);
  const LikeRows like = interval ? interval->like : LikeRows{};
  out << '\n';
  out << wrapped(fmt::format("{}: step {} ({}), MFU {:.1f} %, {} of {} a GPU", scenario_line(scenario.job),
                             time_text(step_s), range_text(step_s, like.low68, like.high68), report.rates.mfu_pct,
                             bytes_text(report.memory.peak_bytes), bytes_text(report.memory.capacity_bytes)),
                 "", "  ");
  const workloads::TrainingCost cost =
      workloads::training_cost(scenario.job.training, scenario.job.machine.gpus, report.rates.tokens_per_s);
  if (cost.time_s > 0) {
    const double days = cost.time_s / 86'400;
    std::string text =
        fmt::format("{} tokens: {:.1f} days ({:.1f} to {:.1f}), without failures and restarts",
                    si_text(scenario.job.training.tokens, ""), days, days * like.low68, days * like.high68);
    if (cost.usd > 0)
      text += fmt::format("; {} USD ({} to {})", count_text(cost.usd), count_text(cost.usd * like.low68),
                          count_text(cost.usd * like.high68));
    out << wrapped(text, "", "  ");
  }
  if (interval && interval->newness.any())
    out << wrapped(fmt::format("Nothing like this was measured: {}.",
                               text_of(interval->newness, features_of(scenario.job, report))),
                   "", "  ");
  if (!assumed.empty()) out << wrapped(fmt::format("Assumed: {}.", fmt::join(assumed, ", ")), "", "  ");
  if (!question.out.empty()) {
    write_output(question.out, [&](std::ostream& file) { file << scenarios::yaml_text(document); });
    out << fmt::format("The scenario is in {}.\n", question.out);
  }
  try {
    out << "Launch line, for Megatron-LM:\n" << megatron_arguments(scenario);
  } catch (const sim::UserError& error) {
    out << wrapped(fmt::format("no launch line: {}", error.what()), "  ", "  ");
  }
}

}  // namespace orrery::tools
