// `orrery import mllog`: the result log of an MLPerf training run (lines that hold ":::MLLOG {json}",
// mlcommons/logging) as a measured record for validate and fit. The step's time is that of the logged statistics
// (tracked_stats. train_step_time), else the median over blocks of the time from block_start to block_stop over the
// steps between. Left out: the layout, which the log does not say (--set parallelism...), evaluations, runs of other
// benchmarks.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/error.h"
#include "sim/text_file.h"
#include "tools/import/import.h"
#include "tools/import/parse_json.h"

namespace orrery::tools {

using nlohmann::json;
using sim::Place;
using sim::UserError;

namespace {

constexpr std::size_t kLargestLog = std::size_t{256} << 20;

/// The benchmarks of MLPerf Training that are language models in one piece.
const std::map<std::string, std::string>& models() {
  static const std::map<std::string, std::string> kModels = {{"gpt3", "gpt3-175b"},
                                                             {"llama31_405b", "llama3.1-405b"},
                                                             {"llama31_8b", "llama3.1-8b"},
                                                             {"llama2_70b_lora", "llama2-70b"}};
  return kModels;
}

struct Log {
  std::map<std::string, std::pair<json, Place>> values;  // the last of each key that says something once
  std::vector<double> step_times;                        // as logged, seconds
  std::vector<double> block_steps;                       // of blocks, seconds per step
};

double number_of(const json& value, double fallback) { return value.is_number() ? value.get<double>() : fallback; }

/// Samples that an event says to have been trained on.
double samples_of(const json& event) {
  const auto metadata = event.find("metadata");
  if (metadata == event.end() || !metadata->is_object()) return -1;
  const auto count = metadata->find("samples_count");
  return count == metadata->end() ? -1 : number_of(*count, -1);
}

class LogReader {
 public:
  explicit LogReader(const std::string& file) : file_(file) {}

  Log read() {
    std::istringstream lines(sim::read_text(file_, "a log of MLPerf", kLargestLog));
    int number = 0;
    bool any = false;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const std::size_t mark = line.find(":::MLLOG");
      if (mark == std::string::npos) continue;
      const Place place{file_, number, static_cast<int>(std::min<std::size_t>(mark + 10, 1'000'000))};
      const json event = event_of(line.substr(mark + 8), place);
      if (!event.is_object() || !event.contains("key"))
        throw UserError(place, ":::MLLOG", "is not followed by a JSON object with a key");
      any = true;
      take(event, place);
    }
    if (!any) throw UserError({file_, 1, 1}, ":::MLLOG", "is in no line, expected the result log of an MLPerf run");
    return std::move(log_);
  }

 private:
  static json event_of(const std::string& text, Place place) {
    try {
      return parse_json(text);
    } catch (const JsonProblem& problem) {
      place.column += static_cast<int>(std::min<std::size_t>(problem.at, 1'000'000));
      throw UserError(place, ":::MLLOG", problem.got + ", expected a JSON object with a key");
    }
  }

  void take(const json& event, const Place& place) {
    const std::string key = event["key"].is_string() ? event["key"].get<std::string>() : "";
    const json value = event.contains("value") ? event["value"] : json();
    const double time_s = event.contains("time_ms") ? number_of(event["time_ms"], 0) / 1e3 : 0;
    if (key == "global_batch_size") global_ = number_of(value, 0);
    if (key == "tracked_stats" && value.is_object() && value.contains("train_step_time"))
      log_.step_times.push_back(number_of(value["train_step_time"], 0));
    if (key == "block_start") {
      begun_s_ = time_s;
      before_ = std::max(0.0, samples_of(event));
    }
    if (key == "block_stop" && begun_s_ > 0) {
      const double samples = samples_of(event) - before_;
      if (samples > 0 && global_ > 0 && time_s > begun_s_)
        log_.block_steps.push_back((time_s - begun_s_) * global_ / samples);
      begun_s_ = 0;
    }
    if (!value.is_null() && key != "tracked_stats") log_.values[key] = {value, place};
  }

  const std::string& file_;
  Log log_;
  double global_ = 0, begun_s_ = 0, before_ = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void take_machine(const Log& log, Draft& draft) {
  const auto platform = log.values.find("submission_platform");
  const std::string text = platform == log.values.end() || !platform->second.first.is_string()
                               ? ""
                               : platform->second.first.get<std::string>();
  draft.set("cluster.device", std::string(text.find("B200") != std::string::npos   ? "b200-sxm-180gb"
                                          : text.find("H200") != std::string::npos ? "h200-sxm-141gb"
                                          : text.find("A100") != std::string::npos ? "a100-sxm-80gb"
                                                                                   : "h100-sxm-80gb"));
  std::int64_t nodes = std::atoll(text.c_str());
  if (nodes < 1 || nodes > 100'000) nodes = 1;
  draft.set("cluster.gpus", 8 * nodes);
  if (nodes > 1) draft.set("cluster.fabric", std::string("ndr-rail"));
  draft.assumed("cluster", fmt::format("nodes of 8 GPUs, by submission_platform \"{}\"; --set cluster...", text));
}

}  // namespace

Draft import_mllog(const std::string& file) {
  const Log log = LogReader(file).read();
  const auto text_of = [&](const char* key) {
    const auto at = log.values.find(key);
    return at == log.values.end() || !at->second.first.is_string() ? std::string()
                                                                   : at->second.first.get<std::string>();
  };
  const auto count_of = [&](const char* key) -> std::int64_t {
    const auto at = log.values.find(key);
    if (at == log.values.end() || !at->second.first.is_number())
      throw UserError({file, 1, 1}, key, "is logged nowhere, expected a number");
    const double value = at->second.first.get<double>();
    if (!(value >= 1 && value <= 1e9)) throw UserError(at->second.second, key, "expected a number from 1 to 1e9");
    return static_cast<std::int64_t>(value);
  };
  const std::string benchmark = text_of("submission_benchmark");
  const auto model = models().find(benchmark);
  if (model == models().end()) {
    std::vector<std::string> names;
    for (const auto& [name, ours] : models()) names.push_back(name);
    throw UserError({file, 1, 1}, "submission_benchmark",
                    fmt::format("got \"{}\", expected one of {}", benchmark, fmt::join(names, ", ")));
  }
  if (log.step_times.empty() && log.block_steps.empty())
    throw UserError({file, 1, 1}, "block_stop", "says nowhere how many samples a block took, nor tracked_stats a step");
  Draft draft(fmt::format("{} (MLPerf)", std::filesystem::path(file).filename().string()), {file, 1, 1});
  draft.set("id", fmt::format("mlperf-{}-{}", benchmark, std::filesystem::path(file).stem().string()));
  draft.set("source",
            fmt::format("MLPerf Training, {} on {}", text_of("submission_org"), text_of("submission_platform")));
  take_machine(log, draft);
  draft.set("model", model->second);
  if (log.values.contains("max_sequence_length"))
    draft.apply(fmt::format("model.seq={}", count_of("max_sequence_length")));
  draft.set("batch.global", count_of("global_batch_size"));
  draft.set("batch.micro", std::int64_t{1});
  draft.assumed("parallelism, batch.micro, precision, software",
                "the log does not say them; --set parallelism.tensor=...");
  const bool logged = !log.step_times.empty();
  draft.set("measured.iteration_s", fmt::format("{:.6g}", median(logged ? log.step_times : log.block_steps)));
  draft.assumed("measured.iteration_s", logged ? fmt::format("the median of {} logged steps", log.step_times.size())
                                               : fmt::format("the median of {} blocks", log.block_steps.size()));
  return draft;
}

}  // namespace orrery::tools
