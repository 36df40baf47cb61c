// See benchmark_flags.h. Sources: vLLM v0.15 (vllm/benchmarks/serve.py, datasets.py), SGLang v0.5 (bench_serving.py):
// lengths of `--dataset-name random` lie between 1 - r and 1 + r of what is given under vLLM, between r and 1 under
// SGLang and benchmark_serving.py; all three ask for temperature 0 where no flag says otherwise.
#include "tools/import/benchmark_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/error.h"
#include "tools/import/idle_keys.h"
#include "tools/import/serving_flags.h"

namespace orrery::tools {

namespace {

using sim::Settings;

enum class Client : std::uint8_t { none, bench_serve, older };

Client client_of(const ShellRun& run) {
  for (std::size_t i = 0; i < run.words.size(); ++i) {
    const std::string& word = run.words[i].text;
    if (word.ends_with("benchmark_serving.py") || word.ends_with("bench_serving") || word.ends_with("bench_serving.py"))
      return Client::older;
    if (word == "bench" && i + 1 < run.words.size() && run.words[i + 1].text == "serve") return Client::bench_serve;
  }
  return Client::none;
}

/// Flags by their names, each with the value behind it; switches have an empty one.
std::map<std::string, Settings> flags_of(const ShellRun& run, Draft& draft) {
  std::map<std::string, Settings> flags;
  const auto known = [&](const ShellField& field) {
    if (field.known && field.text.find('$') == std::string::npos) return true;
    draft.ignored(field.text, "of the benchmark, which the script does not say");
    return false;
  };
  for (std::size_t i = 0; i < run.words.size(); ++i) {
    const std::string& word = run.words[i].text;
    if (!word.starts_with("--") || word.size() < 3 || !known(run.words[i])) continue;
    if (const std::size_t equals = word.find('='); equals != std::string::npos)
      flags.insert_or_assign(flag_name(word.substr(0, equals)),
                             Settings::scalar(word.substr(equals + 1), run.words[i].place));
    else if (i + 1 == run.words.size() || run.words[i + 1].text.starts_with("--"))
      flags.insert_or_assign(flag_name(word), Settings::scalar("", run.words[i].place));
    else if (known(run.words[i + 1]))
      flags.insert_or_assign(flag_name(word), Settings::scalar(run.words[i + 1].text, run.words[i + 1].place));
  }
  return flags;
}

std::string shown_flag(const std::string& name, const Settings& value) {
  return value.text().empty() ? "--" + name : fmt::format("--{} {}", name, value.text());
}

class ClientDraft {
 public:
  ClientDraft(Client client, std::map<std::string, Settings> flags, Draft& draft)
      : client_(client), flags_(std::move(flags)), draft_(draft) {}

  void set() {
    const Settings* dataset = given({"dataset-name"});
    if (dataset == nullptr || dataset->text() != "random")
      draft_.assumed("traffic lengths", "1024 tokens in and 128 out where no flag says them; the data set is not read");
    set_length("input", {"random-input-len", "random-input"}, 1024);
    set_length("output", {"random-output-len", "random-output"}, 128);
    const std::int64_t prompts = count({"num-prompts"}, 1000);
    draft_.set("traffic.requests", prompts);
    if (const std::int64_t warm = count({"num-warmups", "warmup-requests"}, 0, 0); warm > 0)
      draft_.set("traffic.warmup", warm);
    const Settings* rate = given({"request-rate"});
    if (rate != nullptr && rate->text() != "inf") {
      draft_.set("traffic.rate", fmt::format("{:g}/s", rate->as_number(1e-6, 1e9)));
      if (given({"max-concurrency"}) != nullptr)
        draft_.ignored("--max-concurrency", "beside --request-rate, which is taken");
      if (const Settings* bursts = given({"burstiness"}); bursts != nullptr)
        draft_.apply(fmt::format("traffic.burstiness={:g}", bursts->as_number(0.01, 100)));
      if (const Settings* bursts = given({"burstiness"}); bursts != nullptr) draft_.apply("traffic.arrivals=gamma");
    } else {
      draft_.set("traffic.concurrency", std::min(prompts, count({"max-concurrency"}, prompts)));
    }
    set_sampling();
    // --ignore-eos says what holds here anyhow: an answer is as long as it is asked for.
    constexpr std::array<std::string_view, 21> kRead{"dataset-name",
                                                     "ignore-eos",
                                                     "random-input-len",
                                                     "random-input",
                                                     "random-output-len",
                                                     "random-output",
                                                     "num-prompts",
                                                     "num-warmups",
                                                     "warmup-requests",
                                                     "request-rate",
                                                     "max-concurrency",
                                                     "burstiness",
                                                     "temperature",
                                                     "top-p",
                                                     "top-k",
                                                     "min-p",
                                                     "frequency-penalty",
                                                     "presence-penalty",
                                                     "repetition-penalty",
                                                     "random-range-ratio",
                                                     "model"};
    for (const auto& [name, value] : flags_)
      if (std::find(kRead.begin(), kRead.end(), name) == kRead.end())
        draft_.ignored(shown_flag(name, value), "of the benchmark, and no key here");
  }

 private:
  const Settings* given(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const auto found = flags_.find(name); found != flags_.end()) return &found->second;
    return nullptr;
  }
  std::int64_t count(std::initializer_list<const char*> names, std::int64_t fallback, std::int64_t least = 1) const {
    const Settings* value = given(names);
    return value != nullptr ? value->as_int(least, 10'000'000) : fallback;
  }

  void set_length(const char* key, std::initializer_list<const char*> names, std::int64_t fallback) {
    const std::int64_t mean = count(names, fallback);
    const Settings* ratio = given({"random-range-ratio"});
    const double spread = ratio != nullptr ? ratio->as_number(0, 1) : client_ == Client::bench_serve ? 0 : 1;
    const auto real = static_cast<double>(mean);
    const bool around = client_ == Client::bench_serve;
    const auto whole = [](double tokens) { return std::max<std::int64_t>(1, std::llround(tokens)); };
    const std::int64_t low = whole(std::floor(real * (around ? 1 - spread : spread))),
                       high = around ? std::max(low, whole(real * (1 + spread))) : mean;
    if (low == high)
      draft_.set(fmt::format("traffic.{}", key), mean);
    else
      draft_.apply(fmt::format("traffic.{}={{distribution: uniform, min: {}, max: {}}}", key, low, high));
  }

  void set_sampling() {
    const Settings* temperature = given({"temperature"});
    const double taken = temperature != nullptr ? temperature->as_number(0, 10) : 0;
    if (taken == 0) {
      draft_.set("traffic.sampling", std::string("greedy"));
      return;
    }
    draft_.apply(fmt::format("traffic.sampling={{temperature: {:g}}}", taken));
    for (const char* name : {"top-p", "top-k", "min-p", "frequency-penalty", "presence-penalty", "repetition-penalty"})
      if (const Settings* value = given({name}); value != nullptr) {
        std::string key(name);
        std::replace(key.begin(), key.end(), '-', '_');
        draft_.apply(fmt::format("traffic.sampling.{}={}", key, value->text()));
      }
  }

  Client client_;
  std::map<std::string, Settings> flags_;
  Draft& draft_;
};

}  // namespace

bool is_sampling_key(std::string_view name) {
  constexpr std::array<std::string_view, 7> kKeys{
      "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty"};
  return std::find(kKeys.begin(), kKeys.end(), name) != kKeys.end();
}

bool is_benchmark(const ShellRun& run) { return client_of(run) != Client::none; }

bool set_traffic(const ShellWay& way, Draft& draft) {
  const ShellRun* last = nullptr;
  for (const ShellRun& run : way.runs)
    if (is_benchmark(run)) last = &run;
  if (last == nullptr) return false;
  const std::map<std::string, Settings> flags = flags_of(*last, draft);
  const Draft before = draft;
  const auto set = [&](const std::map<std::string, Settings>& given, Draft& into) {
    ClientDraft(client_of(*last), given, into).set();
  };
  set(flags, draft);
  std::vector<SaidKey> said;
  for (const auto& [name, value] : flags) said.push_back({{name}, shown_flag(name, value)});
  tell_idle(draft, said, [&](std::size_t i) {
    std::map<std::string, Settings> rest = flags;
    rest.erase(said[i].names[0]);
    Draft again = before;
    set(rest, again);
    return again;
  });
  return true;
}

}  // namespace orrery::tools
