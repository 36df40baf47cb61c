// One run, request by request. See request_tables.h.
#include "tools/study/request_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "scenarios/scenario.h"
#include "scenarios/serving.h"
#include "sim/error.h"
#include "tools/study/serving_study.h"

namespace orrery::tools {

namespace {

/// What the name of a table says of its run.
struct NamedRun {
  std::string device, model;
  std::int64_t tensor = 1;
};

NamedRun run_of(const std::string& file) {
  std::string stem = std::filesystem::path(file).filename().string();
  stem = stem.substr(0, stem.find(".csv"));
  constexpr std::string_view kEnd = "-requests";
  const std::size_t dash = stem.find('-');
  if (!stem.ends_with(kEnd) || dash == std::string::npos || dash + kEnd.size() >= stem.size())
    throw sim::UserError(fmt::format(
        "{}: says not what it was measured on, expected a name such as rtx4090-llama3.1-8b-requests.csv", file));
  stem = stem.substr(0, stem.size() - kEnd.size());
  NamedRun run;
  if (const std::size_t tp = stem.rfind("-tp"); tp != std::string::npos && tp > dash) {
    const char *begin = stem.data() + tp + 3, *end = stem.data() + stem.size();
    const auto [after, error] = std::from_chars(begin, end, run.tensor);
    if (error == std::errc() && after == end && run.tensor >= 1 && run.tensor <= 64)
      stem.resize(tp);
    else
      run.tensor = 1;
  }
  // Names of devices have dashes too.
  for (std::size_t cut = stem.find('-'); cut != std::string::npos; cut = stem.find('-', cut + 1)) {
    const auto device = served_device_here(stem.substr(0, cut));
    if (!device) continue;
    run.device = *device;
    run.model = stem.substr(cut + 1);
  }
  if (run.model.empty()) throw sim::UserError(fmt::format("{}: no device of that name ships", file));
  return run;
}

/// The device, or with the link between its two that the source states for that machine (LLMServingSim,
/// bench/examples/RTXPRO6000/Qwen3-32B/config.json: 16 GB/s, 20 us), of which its kernels' tables know another.
std::string device_of_run(const NamedRun& run) {
  if (run.device != "rtx-pro-6000-96gb" || run.tensor == 1) return run.device;
  constexpr const char* kLink =
      "{launch: 20 us, peer: 1 ns, one_rate: 16 GB/s, second: 10 ns, two_rate: 16 GB/s, library: 10 ns, large_rate: 16 "
      "GB/s}";
  return fmt::format("{{inherits: {}, serving: {{engines: {{vllm: {{all-reduce: {{graph: {}, eager: {}}}}}}}}}}}",
                     run.device, kLink, kLink);
}

/// vLLM's defaults of the runs that are published: vLLM 0.19, 2048 tokens an iteration, 128 sequences, 256 on one card.
std::string yaml_of_run(const NamedRun& run, const std::string& file) {
  return fmt::format(
      "name: requests\ncluster: {{device: {}, gpus: {}}}\nmodel: {}\nprecision: {{weights: bf16, kv_cache: bf16}}\n"
      "software: vllm-0.17\nserving:\n  pools:\n  - {{replicas: 1, parallelism: {{tensor: {}}}, max_sequences: {}, "
      "max_batched_tokens: 2048}}\ntraffic: {{trace: '{}', sampling: greedy}}\n",
      device_of_run(run), run.tensor, run.model, run.tensor, run.device == "rtx-4090-24gb" ? 256 : 128,
      std::filesystem::absolute(file).string());
}

}  // namespace

bool is_request_table(const TableFile& table) {
  return table.has("queued_s") && table.has("first_token_s") && table.has("last_token_s");
}

std::vector<ServingRow> validate_requests(const TableFile& table) {
  const NamedRun run = run_of(table.file());
  const std::string yaml = yaml_of_run(run, table.file());
  const ServingStudy study = study_serving(scenarios::load_serving(scenarios::parse_yaml(yaml, "requests")));
  if (study.outcome.requests.size() != table.rows())
    throw sim::UserError(fmt::format("{}: has {} rows, of which {} are requests", table.file(), table.rows(),
                                     study.outcome.requests.size()));
  constexpr double kMs = 1e3, kPicosecondsAMs = 1e9;
  std::vector<ServingRow> rows(table.rows());
  double before = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ServingRow& row = rows[i];
    const double queued = table.needed(i, "queued_s");
    // The trace is in order of arrival; so must the rows be, to stand beside it.
    if (queued < before) table.fail(i, "queued_s", "expected rows in the order in which requests came");
    before = queued;
    row.id = table.text(i, "request");
    row.group = fmt::format("requests {} {}", run.device, run.model);
    row.measured["ttft_ms"] = kMs * (table.needed(i, "first_token_s") - queued);
    row.measured["e2e_ms"] = kMs * (table.needed(i, "last_token_s") - queued);
    const auto outputs = table.needed(i, "output_tokens");
    if (outputs > 1) row.measured["tpot_ms"] = (row.measured["e2e_ms"] - row.measured["ttft_ms"]) / (outputs - 1);
    const serving::Served& served = study.outcome.requests[i];
    if (served.refused) {
      row.status = "error";
      row.message = "needs more than the whole cache";
      continue;
    }
    row.predicted["ttft_ms"] = static_cast<double>(served.first - served.arrival) / kPicosecondsAMs;
    row.predicted["e2e_ms"] = static_cast<double>(served.last - served.arrival) / kPicosecondsAMs;
    if (outputs > 1)
      row.predicted["tpot_ms"] = static_cast<double>(served.last - served.first) / kPicosecondsAMs / (outputs - 1);
    if (i == 0) row.scenario = yaml;
  }
  return rows;
}

namespace {

constexpr double kPicosecondsASecond = 1e12;

/// Tokens written in each second of a run: those of a request behind its first evenly over its time.
std::vector<double> written_by_second(const ServingStudy& study, std::size_t seconds) {
  std::vector<double> written(seconds, 0);
  for (std::size_t i = 0; i < study.trace.requests.size(); ++i) {
    const serving::Served& served = study.outcome.requests[i];
    if (served.refused) continue;
    const double first = static_cast<double>(served.first) / kPicosecondsASecond,
                 last = static_cast<double>(served.last) / kPicosecondsASecond;
    const double rest = study.trace.requests[i].output - 1;
    for (std::size_t s = static_cast<std::size_t>(first); s < seconds; ++s) {
      const auto from = static_cast<double>(s);
      if (from > last) break;
      if (s == static_cast<std::size_t>(first)) written[s] += 1;
      const double within = std::min(last, from + 1) - std::max(first, from);
      if (last > first) written[s] += rest * within / (last - first);
    }
  }
  return written;
}

}  // namespace

bool is_seconds_table(const TableFile& table) {
  return table.has("t") && table.has("running") && table.has("waiting") && table.has("kv_cache_pct");
}

std::vector<ServingRow> validate_seconds(const TableFile& table) {
  constexpr std::string_view kSeconds = "-seconds.csv", kRequests = "-requests.csv";
  std::string file = table.file();
  const std::size_t end = file.rfind(kSeconds);
  if (end == std::string::npos)
    throw sim::UserError(
        fmt::format("{}: says not which run it is of, expected a name that ends with -seconds.csv "
                    "beside one with -requests.csv",
                    file));
  file.replace(end, kSeconds.size(), kRequests);
  const NamedRun run = run_of(file);
  const std::string yaml = yaml_of_run(run, file);
  const ServingStudy study = study_serving(scenarios::load_serving(scenarios::parse_yaml(yaml, "requests")));
  const std::vector<serving::Sample>& samples = study.outcome.samples.front();
  const std::vector<double> written = written_by_second(study, table.rows() + 2);
  std::vector<ServingRow> rows(table.rows());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ServingRow& row = rows[i];
    const double at = table.needed(i, "t");
    row.id = table.text(i, "t");
    row.group = fmt::format("seconds {} {}", run.device, run.model);
    if (i == 0) row.scenario = yaml;
    const auto sample =
        std::upper_bound(samples.begin(), samples.end(), at * kPicosecondsASecond,
                         [](double time, const serving::Sample& s) { return time < static_cast<double>(s.from); });
    const auto second = static_cast<std::size_t>(at);
    if (sample == samples.begin() || second < 1 || second > written.size() ||
        at > static_cast<double>(study.outcome.end) / kPicosecondsASecond) {
      row.status = "error";
      row.message = "nothing runs then";
      continue;
    }
    const serving::Sample& then = *std::prev(sample);
    const auto compare = [&](const char* metric, const char* column, double predicted) {
      const double measured = table.needed(i, column);
      if (!(measured > 0)) return;  // nothing to be off by
      row.measured[metric] = measured;
      row.predicted[metric] = predicted;
    };
    compare("running", "running", then.running);
    compare("waiting", "waiting", then.waiting);
    compare("kv_cache_pct", "kv_cache_pct", 100 * static_cast<double>(then.blocks) / static_cast<double>(study.blocks));
    compare("tokens_per_s", "gen_throughput", written[second - 1]);
  }
  return rows;
}

}  // namespace orrery::tools
