// From flags to a served scenario.
#include "tools/served_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "scenarios/served_models.h"
#include "scenarios/serving.h"
#include "sim/error.h"
#include "tools/import/known_devices.h"
#include "tools/question.h"
#include "tools/study/serving.h"

namespace orrery::tools {

namespace {

constexpr double kInput = 1024, kOutput = 256;  // tokens of a prompt and of an answer: a chat's
constexpr std::int64_t kUnderWay = 16;          // of a replica, in a closed loop
constexpr std::int64_t kRoom = 32;              // requests that a replica's cache holds
constexpr const char* kMinutes = "5 min";       // of an open loop

std::int64_t tokens_of(const char* flag, const std::string& text, double fallback) {
  return static_cast<std::int64_t>(text.empty() ? fallback : number_of_flag(flag, text, 1));
}

/// The question with replicas of so many tensor ranks.
sim::Settings document_of(const ServedQuestion& q, const std::vector<std::string>& sets, std::int64_t tensor,
                          const std::string& device) {
  std::string text =
      fmt::format("cluster: {{gpus: {}}}\nserving: {{pools: [{{replicas: {}, parallelism: {{tensor: {}}}}}]", q.gpus,
                  std::max<std::int64_t>(1, q.gpus / tensor), tensor);
  if (!q.ttft.empty() || !q.tpot.empty()) {
    text += ", slo: {percentile: 99";
    if (!q.ttft.empty()) text += ", ttft: " + q.ttft;
    if (!q.tpot.empty()) text += ", tpot: " + q.tpot;
    text += "}";
  }
  text += fmt::format("}}\ntraffic: {{input: {}, output: {}, ", tokens_of("--input", q.input, kInput),
                      tokens_of("--output", q.output, kOutput));
  const std::int64_t under_way =
      q.concurrency > 0 ? q.concurrency : kUnderWay * std::max<std::int64_t>(1, q.gpus / tensor);
  text += q.rate.empty() ? fmt::format("concurrency: {}}}\n", under_way)
                         : fmt::format("rate: {}, duration: {}}}\n", q.rate, kMinutes);
  if (!q.price.empty())
    text += fmt::format("cost: {{price_per_gpu_hour_usd: {}}}\n", number_of_flag("--price", q.price, 0));
  sim::Settings document = scenarios::parse_yaml(text, "the question");
  const auto put = [&](const char* key, const sim::Settings& value) { scenarios::apply(document, {key, value}); };
  put("name", sim::Settings::scalar(fmt::format("{}-{}-{}", q.model, q.device, q.gpus), {"--model", 0, 0}, true));
  put("cluster.device", reference_by_flag("--device", q.device, device));
  put("model", reference_by_flag("--model", q.model, named_by_flag("models", "--model", q.model).name));
  if (!q.fabric.empty())
    put("cluster.fabric", reference_by_flag("--fabric", q.fabric, named_by_flag("fabrics", "--fabric", q.fabric).name));
  if (!q.software.empty())
    put("software",
        reference_by_flag("--software", q.software, named_by_flag("engines", "--software", q.software).name));
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return document;
}

/// Whether a replica's cache holds as many requests as are usual; nothing: weights or layout do not fit.
std::optional<bool> has_room(const sim::Settings& document, double tokens_each) {
  try {
    const scenarios::ServingScenario scenario = scenarios::load_serving(document);
    const std::vector<PoolStudy> pools = served_pools(scenario);
    const double held = static_cast<double>(pools.front().blocks * scenario.limits.block_tokens);
    return held >= static_cast<double>(kRoom) * tokens_each;
  } catch (const sim::UserError&) {
    return std::nullopt;
  }
}

[[noreturn]] void refuse_two_ways() {
  throw sim::UserError("--concurrency: got it beside --rate, expected one of the two");
}

void check_asked(const ServedQuestion& q) {
  if (!q.asked())
    throw sim::UserError(
        "orrery: got no scenario, expected one, as in llama3.1-70b-serving-h100, or a question, as in --model "
        "llama3.1-70b --device h100 --gpus 8 --rate 4/s");
  for (const auto& [flag, given] : {std::pair("--model", !q.model.empty()), std::pair("--device", !q.device.empty()),
                                    std::pair("--gpus", q.gpus > 0)})
    if (!given)
      throw sim::UserError(
          fmt::format("orrery: got a question without {}, expected --model, --device and --gpus", flag));
  if (!q.rate.empty() && q.concurrency > 0) refuse_two_ways();
}

/// A scenario of its own, with what the flags say of it laid over, then `sets`.
sim::Settings changed_by(const ServedQuestion& q, const std::string& file, const std::vector<std::string>& sets) {
  sim::Settings document = scenarios::read_scenario(file, {});
  const auto lay = [&](const char* key, const char* flag, const std::string& text) {
    if (text.empty()) return;
    if (scenarios::serves_several(document))
      throw sim::UserError(
          fmt::format("{}: got it beside {}, which serves several models, expected --set "
                      "models[N].KEY=VALUE",
                      flag, file));
    scenarios::apply_set(document, fmt::format("{}=null", key));  // opens what a name stands for
    document.set_path(key, sim::Settings::scalar(text, {flag, 0, 0}));
  };
  const auto name = [&](const char* key, const char* kind, const char* flag, const std::string& text) {
    if (text.empty()) return;
    lay(key, flag, text);
    document.set_path(key, reference_by_flag(flag, text, named_by_flag(kind, flag, text).name));
  };
  name("cluster.fabric", "fabrics", "--fabric", q.fabric);
  name("software", "engines", "--software", q.software);
  lay("cost.price_per_gpu_hour_usd", "--price",
      q.price.empty() ? "" : fmt::format("{}", number_of_flag("--price", q.price, 0)));
  // One way of coming takes the place of another, with what only that has.
  std::vector<const char*> gone;
  if (!q.rate.empty() || q.concurrency > 0) gone = {"trace", "time_scale", "concurrency", "rate"};
  if (q.concurrency > 0) gone.insert(gone.end(), {"arrivals", "burstiness", "levels", "duration", "session"});
  for (const char* key : gone) {
    const std::string path = fmt::format("traffic.{}", key);
    if (document.find_path(path) != nullptr) scenarios::apply_set(document, path + "=null");
  }
  lay("traffic.rate", "--rate", q.rate);
  lay("traffic.concurrency", "--concurrency", q.concurrency > 0 ? std::to_string(q.concurrency) : "");
  if (!q.rate.empty() && document.find_path("traffic.duration") == nullptr) lay("traffic.duration", "--rate", kMinutes);
  const auto tokens = [](const char* flag, const std::string& text) {
    return text.empty() ? text : std::to_string(tokens_of(flag, text, 0));
  };
  lay("traffic.input", "--input", tokens("--input", q.input));
  lay("traffic.output", "--output", tokens("--output", q.output));
  lay("serving.slo.ttft", "--ttft", q.ttft);
  lay("serving.slo.tpot", "--tpot", q.tpot);
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return document;
}

}  // namespace

void declare_traffic_question(CommandOptions app, ServedQuestion& q) {
  app.add_option("--rate", q.rate, "requests that come, as in 4/s").type_name("RATE");
  app.add_option("--concurrency", q.concurrency, "requests under way, where no rate is given")
      .type_name("N")
      .check(Range(1, 10'000'000));
  app.add_option("--input", q.input, "tokens of a prompt (default: 1024)").type_name("N");
  app.add_option("--output", q.output, "tokens of an answer (default: 256)").type_name("N");
  app.add_option("--ttft", q.ttft, "promised time to first token, as in '500 ms'").type_name("TIME");
  app.add_option("--tpot", q.tpot, "promised time a token, as in '30 ms'").type_name("TIME");
}

std::string flags_of(const ServedQuestion& q) {
  std::string text = fmt::format("--model {} --device {} --gpus {}", q.model, q.device, q.gpus);
  if (q.concurrency > 0) text += fmt::format(" --concurrency {}", q.concurrency);
  for (const auto& [flag, value] :
       {std::pair("fabric", &q.fabric), std::pair("software", &q.software), std::pair("price", &q.price),
        std::pair("rate", &q.rate), std::pair("input", &q.input), std::pair("output", &q.output),
        std::pair("ttft", &q.ttft), std::pair("tpot", &q.tpot)}) {
    if (value->empty()) continue;
    text += value->find(' ') == std::string::npos ? fmt::format(" --{} {}", flag, *value)
                                                  : fmt::format(" --{} '{}'", flag, *value);
  }
  return text;
}

void declare_served_question(CommandOptions app, ServedQuestion& q) {
  app.add_option("--model", q.model, "without a scenario: the model, as in llama3.1-70b").type_name("NAME");
  app.add_option("--device", q.device, "its GPUs, as in h100").type_name("NAME");
  app.add_option("--gpus", q.gpus, "how many").type_name("N").check(Range(1, 1 << 20));
  app.add_option("--fabric", q.fabric, "what joins the nodes (default: as the device is sold)").type_name("NAME");
  app.add_option("--software", q.software, "the engine, as in vllm").type_name("NAME");
  app.add_option("--price", q.price, "dollars a GPU and hour").type_name("USD");
  declare_traffic_question(app, q);
  app.add_option("--out", q.out, "write the scenario, laid out, to FILE").type_name("FILE");
}

sim::Settings asked_service(const std::string& file, const ServedQuestion& question,
                            const std::vector<std::string>& sets, std::vector<std::string>& assumed) {
  if (!file.empty()) {
    if (question.asked()) refuse_beside_flags(file);
    if (!question.rate.empty() && question.concurrency > 0) refuse_two_ways();
    return changed_by(question, file, sets);
  }
  check_asked(question);
  ServedQuestion q = question;
  q.model = model_word(q.model, assumed);
  const scenarios::Resolved found = named_by_flag("devices", "--device", q.device);
  const std::string& device = found.name;
  named_by_flag("models", "--model", q.model);
  const sim::Settings* node = found.document.find_path("node.gpus");
  if (q.fabric.empty() && node != nullptr && q.gpus > node->as_int()) {
    q.fabric = usual_fabric(device);
    if (!is_set(sets, "cluster.fabric")) assumed.push_back(fmt::format("fabric {} (--fabric)", q.fabric));
  }
  if (q.software.empty() && !is_set(sets, "software")) assumed.emplace_back("the default engine (--software)");
  const std::int64_t input = tokens_of("--input", q.input, kInput), output = tokens_of("--output", q.output, kOutput);
  const auto open = [&](const char* key, const std::string& flag) { return flag.empty() && !is_set(sets, key); };
  if (open("traffic.input", q.input)) assumed.push_back(fmt::format("prompts of {} tokens (--input)", input));
  if (open("traffic.output", q.output)) assumed.push_back(fmt::format("answers of {} (--output)", output));
  const bool laid =
      std::any_of(sets.begin(), sets.end(), [](const std::string& set) { return set.starts_with("serving"); });
  const auto each = static_cast<double>(input + output);
  std::int64_t fits = 0;
  bool roomy = false;
  for (std::int64_t tensor = 1; !laid && !roomy && tensor <= q.gpus; tensor *= 2) {
    const std::optional<bool> room = has_room(document_of(q, sets, tensor, device), each);
    if (!room) continue;
    fits = tensor;
    roomy = *room;
  }
  const std::int64_t tensor = std::max<std::int64_t>(1, fits);
  if (fits > 0)
    assumed.push_back(fmt::format("{} replica{} of TP {}, the smallest whose cache holds {} requests", q.gpus / tensor,
                                  q.gpus / tensor == 1 ? "" : "s", tensor, roomy ? kRoom : 1));
  if (open("traffic.rate", q.rate) && q.concurrency == 0 && !is_set(sets, "traffic.concurrency"))
    assumed.push_back(fmt::format("{} requests under way a replica (--rate, --concurrency)", kUnderWay));
  if (!q.rate.empty() && !is_set(sets, "traffic.duration")) assumed.push_back(fmt::format("requests for {}", kMinutes));
  return document_of(q, sets, tensor, device);
}

}  // namespace orrery::tools
