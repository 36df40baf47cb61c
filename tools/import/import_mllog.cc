// `orrery import mllog`: the result log of an MLPerf training run (lines that hold ":::MLLOG {json}",
// mlcommons/logging) as a measured record for validate and fit. The step's time is that of the logged statistics
// (tracked_stats. train_step_time), else the median over blocks of the time from block_start to block_stop over the
// steps between, else what the rate over the run says, evaluations and all. A log that is cut down to its statistics
// names no benchmark: a rate alone is taken as GPT-3's tokens a second, and said so. Left out: the layout, which the
// log does not say (--set parallelism...), evaluations, runs of other benchmarks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/error.h"
#include "sim/real.h"
#include "sim/text_file.h"
#include "tools/import/import.h"
#include "tools/import/known_devices.h"
#include "tools/import/logged_configuration.h"
#include "tools/import/parse_json.h"
#include "tools/import/unread_lines.h"

namespace orrery::tools {

using nlohmann::json;
using sim::Place;
using sim::real;
using sim::UserError;

namespace {

constexpr std::size_t kMostBeside = 1000;
constexpr std::size_t kLargestLog = std::size_t{256} << 20;

/// The benchmarks of MLPerf Training that are language models in one piece.
const std::map<std::string, std::string>& models() {
  static const std::map<std::string, std::string> kModels = {{"gpt3", "gpt3-175b"},
                                                             {"llama31_405b", "llama3.1-405b"},
                                                             {"llama31_8b", "llama3.1-8b"},
                                                             {"llama2_70b_lora", "llama2-70b"},
                                                             {"dlrm_dcnv2", "dlrm-dcnv2"}};
  return kModels;
}

struct Log {
  std::map<std::string, std::pair<json, Place>> values;  // the last of each key that says something once
  std::set<std::string> keys;                            // all that are logged
  std::vector<double> step_times;                        // as logged, seconds
  std::vector<double> block_steps;                       // of blocks, seconds per step
  std::vector<double> rates;                             // over a run: sequences a second, GPT-3's tokens
  std::vector<double> epochs;                            // seconds of all steps and evaluations
  std::map<std::string, std::string> system;             // of the machine, as its own line has it (:::SYSJSON)
  std::set<std::string> beside;                          // statistics and metadata that nothing here reads
  LoggedConfiguration configuration;                     // where the run prints it
  UnreadLines other_lines;
};

double number_of(const json& value, double fallback) { return value.is_number() ? value.get<double>() : fallback; }

/// What an event's metadata says under a key; -1: nothing.
double metadata_of(const json& event, const char* key) {
  const auto metadata = event.find("metadata");
  if (metadata == event.end() || !metadata->is_object()) return -1;
  const auto count = metadata->find(key);
  return count == metadata->end() ? -1 : number_of(*count, -1);
}

/// The time of a step that statistics state, whatever they call it; 0: none.
double step_time_of(const json& statistics) {
  for (const char* key : {"train_step_time", "train_step_timing in s", "train_step_timing", "step_time"}) {
    if (const auto found = statistics.find(key); found != statistics.end()) return number_of(*found, 0);
  }
  return 0;
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
      if (mark == std::string::npos) {
        if (take_system(line) || log_.configuration.take(line)) continue;
        if (line.find_first_not_of(" \t\r") != std::string::npos) log_.other_lines.add(number, line);
        continue;
      }
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

  /// What a line says of the machine, where it is one that does; those that a shell echoed end otherwise.
  bool take_system(const std::string& line) {
    constexpr std::string_view kMark = ":::SYSJSON {";
    const std::size_t mark = line.find(kMark), end = line.rfind('}');
    if (mark == std::string::npos || end == std::string::npos || line.substr(0, mark).find("echo") != std::string::npos)
      return false;
    try {
      const json system = parse_json(line.substr(mark + kMark.size() - 1, end + 2 - mark - kMark.size()));
      for (const auto& [name, value] : system.items())
        if (value.is_string()) log_.system[name] = value.get<std::string>();
      return true;
    } catch (const JsonProblem&) {
      return false;
    }
  }

  void take(const json& event, const Place& place) {
    const std::string key = event["key"].is_string() ? event["key"].get<std::string>() : "";
    const json value = event.contains("value") ? event["value"] : json();
    const double time_s = event.contains("time_ms") ? number_of(event["time_ms"], 0) / 1e3 : 0;
    log_.keys.insert(key);
    note(event, key, value);
    if (key == "global_batch_size") global_ = number_of(value, 0);
    if (key == "max_sequence_length") seq_ = number_of(value, 0);
    if (key == "tracked_stats" && value.is_object()) {
      if (const double step = step_time_of(value); step > 0) log_.step_times.push_back(step);
      const auto add = [&](const char* name, std::vector<double>& to) {
        const auto found = value.find(name);
        const double said = found == value.end() ? 0 : number_of(*found, 0);
        if (said > 0 && said < 1e15) to.push_back(said);
      };
      add("throughput", log_.rates);
      add("train_epoch_timing", log_.epochs);
    }
    if (key == "block_start") {
      begun_s_ = time_s;
      before_ = std::max(0.0, metadata_of(event, "samples_count"));
    }
    if (key == "block_stop" && begun_s_ > 0) {
      const double steps = steps_of(event);
      if (steps > 0 && time_s > begun_s_) log_.block_steps.push_back((time_s - begun_s_) / steps);
      begun_s_ = 0;
    }
    if (!value.is_null() && key != "tracked_stats") log_.values[key] = {value, place};
  }

  void note(const json& event, const std::string& key, const json& value) {
    static const std::set<std::string> kStatistics{"train_step_time",   "train_step_timing in s",
                                                   "train_step_timing", "step_time",
                                                   "throughput",        "train_epoch_timing"};
    static const std::set<std::string> kMetadata{"file", "lineno", "samples_count", "epoch_count"};
    if (key == "tracked_stats" && value.is_object()) {
      for (const auto& [name, said] : value.items()) {
        if (!kStatistics.contains(name) && log_.beside.size() < kMostBeside) log_.beside.insert(key + "." + name);
      }
    }
    const auto metadata = event.find("metadata");
    if (metadata == event.end() || !metadata->is_object()) return;
    for (const auto& [name, said] : metadata->items()) {
      if (!kMetadata.contains(name) && log_.beside.size() < kMostBeside) log_.beside.insert("metadata." + name);
    }
  }

  /// Of the block that an event ends: by its samples, or by epoch_count, which counts sequences in some logs and tokens
  /// in others (GPT-3's): whole steps of tokens are far too many to be sequences.
  double steps_of(const json& event) const {
    if (global_ <= 0) return 0;
    const double samples = metadata_of(event, "samples_count") - before_, epoch = metadata_of(event, "epoch_count");
    if (metadata_of(event, "samples_count") > 0) return samples / global_;
    const bool tokens = seq_ > 0 && epoch >= seq_ * global_;
    return epoch > 0 ? epoch / (tokens ? seq_ * global_ : global_) : 0;
  }

  const std::string& file_;
  Log log_;
  double global_ = 0, seq_ = 2048, begun_s_ = 0, before_ = 0;  // sequences of GPT-3, where the log says none
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Returns the GPUs.
std::int64_t take_machine(const Log& log, Draft& draft) {
  const auto platform = log.values.find("submission_platform");
  const std::string text = platform == log.values.end() || !platform->second.first.is_string()
                               ? ""
                               : platform->second.first.get<std::string>();
  const auto logged = [&](std::initializer_list<const char*> keys) -> std::int64_t {
    for (const char* key : keys) {
      const auto at = log.values.find(key);
      if (at != log.values.end() && number_of(at->second.first, 0) >= 1 && number_of(at->second.first, 0) <= 1e6)
        return static_cast<std::int64_t>(at->second.first.get<double>());
      const auto said = log.system.find(key);
      const std::int64_t count = said == log.system.end() ? 0 : std::atoll(said->second.c_str());
      if (count >= 1 && count <= 1'000'000) return count;
    }
    return 0;
  };
  const KnownDevice* board = device_in(text);
  const auto accelerator = log.system.find("accelerator_model_name");
  if (board == nullptr && accelerator != log.system.end()) board = device_in(accelerator->second);
  std::int64_t nodes = logged({"number_of_nodes", "num_nodes"}),
               each = logged({"accelerators_per_node", "gpus_per_node"});
  const std::int64_t said = std::atoll(text.c_str());
  if (nodes == 0) nodes = said >= 1 && said <= 100'000 ? said : 1;
  if (each == 0) each = board != nullptr ? board->per_node : 8;
  const std::int64_t run = log.configuration.gpus();
  const std::int64_t gpus =
      run > 0 ? std::min<std::int64_t>(run, 1 << 20) : std::min<std::int64_t>(nodes * each, 1 << 20);
  if (run > 0 && run != nodes * each)
    draft.first(
        fmt::format("cluster.gpus: {}, as the configuration that the log prints says; of submission_platform "
                    "\"{}\" they would be {}",
                    run, text, nodes * each));
  const std::string device = board != nullptr ? board->device : "h100-sxm-80gb";
  draft.set("cluster.device", device);
  draft.set("cluster.gpus", gpus);
  if (gpus > each) draft.set("cluster.fabric", std::string(usual_fabric(device)));
  if (board == nullptr)
    draft.assumed("cluster.device", fmt::format("h100-sxm-80gb: submission_platform \"{}\" names no device; --set "
                                                "cluster.device=NAME",
                                                text));
  draft.assumed("cluster",
                fmt::format("{} nodes of {} GPUs, by submission_platform \"{}\"; --set cluster...", nodes, each, text));
  return gpus;
}

/// The rank of the benchmark's adapters (MLPerf Training, llama2_70b_lora, reference implementation).
constexpr std::int64_t kRankOfBenchmark = 16;

void take_adapter(const Log& log, Draft& draft, const std::string& benchmark) {
  const auto rank = log.values.find("lora_rank");
  if (rank == log.values.end() && benchmark.find("lora") == std::string::npos) return;
  draft.set("finetune.kind", std::string("lora"));
  const bool said =
      rank != log.values.end() && number_of(rank->second.first, 0) >= 1 && number_of(rank->second.first, 0) <= 1e5;
  draft.set("finetune.rank", said ? static_cast<std::int64_t>(rank->second.first.get<double>()) : kRankOfBenchmark);
  if (!said)
    draft.assumed("finetune.rank", fmt::format("{}, that of the benchmark: the log says none", kRankOfBenchmark));
  draft.assumed("sequences",
                "packed to the full length, as the benchmark's data are; --set batch.document_tokens=N for shorter "
                "documents");
}

std::int64_t set_number(const std::vector<std::string>& sets, const std::string& key) {
  for (const std::string& set : sets) {
    if (set.starts_with(key + "="))
      return std::clamp<std::int64_t>(std::atoll(set.c_str() + key.size() + 1), 1, 1 << 20);
  }
  return 1;
}

/// The sequences of a micro-batch, as the accumulated steps leave them; the layout is the user's to say.
void take_micro(const Log& log, Draft& draft, const std::string& file, const std::vector<std::string>& sets,
                std::int64_t gpus, std::int64_t global) {
  const std::int64_t layout = set_number(sets, "parallelism.tensor") * set_number(sets, "parallelism.pipeline") *
                              set_number(sets, "parallelism.context");
  const std::int64_t replicas = gpus / std::max<std::int64_t>(1, layout);
  const auto accumulated = log.values.find("gradient_accumulation_steps");
  const double steps = accumulated == log.values.end() ? 0 : number_of(accumulated->second.first, 0);
  if (replicas >= 1 && global % replicas != 0) {
    throw UserError({file, 1, 1}, "parallelism",
                    fmt::format("got {} sequences in a step on {} GPUs, which {}, expected the layout, which the log "
                                "does not say: --set parallelism.tensor=N, parallelism.pipeline=N or "
                                "parallelism.context=N",
                                global, gpus,
                                global < replicas ? "are too few for a replica each" : "do not share them out evenly"));
  }
  std::int64_t micro = 1;
  const double each =
      steps >= 1 && replicas >= 1 ? static_cast<double>(global) / static_cast<double>(replicas) / steps : 1;
  if (each > 1 && each == std::floor(each) && each < 1e6) micro = static_cast<std::int64_t>(each);
  draft.set("batch.micro", micro);
  if (steps >= 1 && each != std::floor(each))
    draft.assumed("gradient_accumulation_steps",
                  fmt::format("{:g}, which {} replicas of {} sequences contradict: the layout is another", steps,
                              replicas, global));
}

void remark_on_keys(const Log& log, Draft& draft) {
  static const std::set<std::string> kTaken{"submission_benchmark",
                                            "submission_org",
                                            "submission_platform",
                                            "global_batch_size",
                                            "gradient_accumulation_steps",
                                            "max_sequence_length",
                                            "lora_rank",
                                            "tracked_stats",
                                            "block_start",
                                            "block_stop",
                                            "number_of_nodes",
                                            "num_nodes",
                                            "accelerators_per_node",
                                            "accelerator_model_name",
                                            "gpus_per_node"};
  static const std::set<std::string> kWithout{"submission_division",
                                              "submission_status",
                                              "submission_poc_name",
                                              "submission_poc_email",
                                              "seed",
                                              "cache_clear",
                                              "init_start",
                                              "init_stop",
                                              "run_start",
                                              "run_stop",
                                              "epoch_start",
                                              "epoch_stop",
                                              "eval_start",
                                              "eval_stop",
                                              "eval_accuracy",
                                              "eval_samples",
                                              "train_samples",
                                              "lora_alpha",
                                              "max_steps",
                                              "target_accuracy",
                                              "run_duration",
                                              "initial_checkpoint",
                                              "init_checkpoint_step",
                                              "number_of_ranks"};
  std::vector<std::string> without, unknown;
  for (const std::string& key : log.keys) {
    if (kTaken.contains(key) || key.empty()) continue;
    (kWithout.contains(key) || key.starts_with("opt_") ? without : unknown).push_back(key);
  }
  if (!without.empty())
    draft.ignored(fmt::format("{}", fmt::join(without, ", ")), "changes no work of a step that is modelled");
  if (!unknown.empty()) draft.ignored(fmt::format("{}", fmt::join(unknown, ", ")), "not known to orrery");
  if (!log.beside.empty()) draft.ignored(fmt::format("{}", fmt::join(log.beside, ", ")), "not read");
  std::vector<std::string> of_system;
  for (const auto& [name, value] : log.system)
    if (!kTaken.contains(name)) of_system.push_back(name);
  if (!of_system.empty()) draft.ignored(fmt::format(":::SYSJSON: {}", fmt::join(of_system, ", ")), "not read");
  if (!log.other_lines.empty()) draft.ignored("lines without :::MLLOG", log.other_lines.remark());
}

/// Of a step of `global` sequences, and where it is from.
double take_step(const Log& log, Draft& draft, const std::string& benchmark, double sequence, double global) {
  const auto say = [&](const std::string& text) { draft.assumed("measured.iteration_s", text); };
  if (!log.step_times.empty()) {
    const double step = median(log.step_times);
    say(fmt::format("the median of {} logged steps", log.step_times.size()));
    const double block = log.block_steps.empty() ? step : median(log.block_steps);
    if (block > 1.2 * step || step > 1.2 * block)
      say(fmt::format("blocks say {:.4g} s, logged steps {:.4g} s", block, step));
    return step;
  }
  if (!log.block_steps.empty()) {
    say(fmt::format("the median of {} blocks", log.block_steps.size()));
    return median(log.block_steps);
  }
  const bool tokens = benchmark == "gpt3";
  const bool samples = benchmark.starts_with("dlrm");  // whose rate is of training alone
  say(fmt::format("as the logged rate of {:.10g} {} a second has it{}", median(log.rates),
                  tokens    ? "tokens"
                  : samples ? "samples"
                            : "sequences",
                  samples ? "" : ", evaluations and all"));
  return global * (tokens ? sequence : 1) / median(log.rates);
}

/// Statistics alone, of a log that names no benchmark: its rate, how long it ran, and so its tokens.
Draft statistics_alone(const Log& log, const std::string& file) {
  Draft draft(fmt::format("{} (MLPerf, statistics alone)", std::filesystem::path(file).filename().string()),
              {file, 1, 1});
  const double rate = median(log.rates);
  draft.set("id", fmt::format("mlperf-{}", std::filesystem::path(file).stem().string()));
  draft.set("source", std::string("MLPerf Training, statistics of a log"));
  draft.set("cluster.device", std::string("h100-sxm-80gb"));
  draft.set("cluster.gpus", std::int64_t{8});
  draft.set("model", std::string("gpt3-175b"));
  draft.set("batch.global", std::int64_t{8});
  draft.set("batch.micro", std::int64_t{1});
  draft.set("measured.tokens_per_s", fmt::format("{:.10g}", rate));
  draft.first(
      "names no benchmark, machine, batch or layout: --set model=NAME, cluster.device=NAME, cluster.gpus=N, "
      "batch.global=N, parallelism.tensor=N...");
  draft.assumed("model", "gpt3-175b, whose logs count tokens; 8 GPUs and 8 sequences stand for what is not said");
  draft.assumed("measured.tokens_per_s", fmt::format("{:.10g}, the logged throughput, evaluations and all", rate));
  if (!log.epochs.empty()) {
    const double seconds = median(log.epochs);
    draft.assumed("train_epoch_timing", fmt::format("{:.6g} s ({:.4g} minutes), at that rate {:.5g} tokens", seconds,
                                                    seconds / 60, rate * seconds));
  }
  remark_on_keys(log, draft);
  return draft;
}

}  // namespace

Draft import_mllog(const std::string& file, const std::vector<std::string>& sets) {
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
  if (benchmark.empty() && !log.rates.empty()) return statistics_alone(log, file);
  const auto model = models().find(benchmark);
  if (model == models().end()) {
    std::vector<std::string> names;
    for (const auto& [name, ours] : models()) names.push_back(name);
    throw UserError({file, 1, 1}, "submission_benchmark",
                    fmt::format("got \"{}\", expected one of {}", benchmark, fmt::join(names, ", ")));
  }
  if (log.step_times.empty() && log.block_steps.empty() && log.rates.empty())
    throw UserError({file, 1, 1}, "block_stop", "says nowhere how many samples a block took, nor tracked_stats a step");
  Draft draft(fmt::format("{} (MLPerf)", std::filesystem::path(file).filename().string()), {file, 1, 1});
  draft.set("id", fmt::format("mlperf-{}-{}", benchmark, std::filesystem::path(file).stem().string()));
  draft.set("source",
            fmt::format("MLPerf Training, {} on {}", text_of("submission_org"), text_of("submission_platform")));
  const std::int64_t gpus = take_machine(log, draft);
  draft.set("model", model->second);
  if (log.values.contains("max_sequence_length"))
    draft.apply(fmt::format("model.seq={}", count_of("max_sequence_length")));
  const std::int64_t global = count_of("global_batch_size");
  draft.set("batch.global", global);
  if (model->second.starts_with("dlrm")) {
    draft.set("precision", std::string("fp16"));
    draft.set("software", std::string("hugectr"));
    draft.assumed("precision, software", "fp16 and hugectr, with which the benchmark is run; the log does not say");
  } else {
    std::vector<std::string> laid = sets;  // the user's first, which hold
    if (log.configuration.lays_out()) {
      for (const std::string& degree : log.configuration.degrees()) laid.push_back(degree);
      log.configuration.lay(draft);
    }
    take_micro(log, draft, file, laid, gpus, global);
    if (const std::int64_t micro = log.configuration.micro_batch(); micro > 0) draft.set("batch.micro", micro);
    take_adapter(log, draft, benchmark);
    if (log.configuration.lays_out())
      draft.assumed("software", "the log does not say it; --set software=NAME");
    else
      draft.assumed("parallelism, batch.micro, precision, software",
                    "the log does not say them: one GPU a replica is taken; --set parallelism.tensor=...");
  }
  const double sequence = log.values.contains("max_sequence_length") ? real(count_of("max_sequence_length")) : 2048;
  draft.set("measured.iteration_s", fmt::format("{:.6g}", take_step(log, draft, benchmark, sequence, real(global))));
  remark_on_keys(log, draft);
  return draft;
}

}  // namespace orrery::tools
