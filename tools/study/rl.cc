// Text, JSON and the report of a step of reinforcement learning. See rl.h.
#include "tools/study/rl.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/report/text.h"

namespace orrery::tools {

using nlohmann::ordered_json;
using RlPart = rl::Part;

namespace {

constexpr double kRlPicoseconds = 1e12;

double rl_seconds(rl::Time time) { return static_cast<double>(time) / kRlPicoseconds; }

std::string rl_placement_text(const scenarios::RlScenario& s) {
  if (s.spec.placement == rl::Placement::colocated) return fmt::format("colocated on {} GPUs", s.gpus);
  const std::string gpus = fmt::format("{} GPUs write, {} train", s.rollout_gpus, s.training_gpus);
  if (s.spec.placement == rl::Placement::separate) return "separate: " + gpus;
  return fmt::format("asynchronous, up to {} step{} off: {}", s.spec.staleness, s.spec.staleness == 1 ? "" : "s", gpus);
}

std::string rl_engine_text(const scenarios::RlScenario& s) {
  const workloads::ServedLayout& layout = s.rollout.replica.layout;
  std::string text =
      fmt::format("{} replica{} of TP {}", s.rollout.replicas, s.rollout.replicas == 1 ? "" : "s", layout.tensor);
  if (layout.pipeline > 1) text += fmt::format(" PP {}", layout.pipeline);
  if (layout.attention_data > 1) text += fmt::format(" attention-DP {}", layout.attention_data);
  if (layout.expert > 1) text += fmt::format(" EP {}", layout.expert);
  return text + " under " + s.rollout.replica.engine.name;
}

std::string rl_trainer_text(const scenarios::RlScenario& s) {
  const workloads::Parallelism& layout = s.update.parallelism;
  std::string text = fmt::format("TP {} PP {} DP {}", layout.tensor, layout.pipeline, layout.data);
  if (layout.context > 1) text += fmt::format(" CP {}", layout.context);
  if (layout.expert > 1) text += fmt::format(" EP {}", layout.expert);
  return fmt::format("{} under {}; {} update{} of {} micro-batches of {} tokens a rank", text, s.update.software.name,
                     s.updates(), s.updates() == 1 ? "" : "s", s.update.microbatches(), s.update.model.seq);
}

/// Of answers' lengths, or of their ends.
template <class T>
T rl_at_share(std::vector<T> values, double share) {
  if (values.empty()) return T{};
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

double rl_mean_length(const RlStudy& study) {
  double sum = 0;
  for (const std::int32_t length : study.steps.lengths) sum += length;
  return study.steps.lengths.empty() ? 0 : sum / static_cast<double>(study.steps.lengths.size());
}

bool rl_overlaps(const RlStudy& study) { return study.scenario.spec.placement == rl::Placement::asynchronous; }

std::vector<std::pair<std::string, double>> rl_parts_of(const RlStudy& study) {
  std::vector<std::pair<std::string, double>> parts;
  const auto add = [&](RlPart part, const char* name) { parts.emplace_back(name, study.part_s(part)); };
  if (rl_overlaps(study))
    add(RlPart::wait, "wait for answers");
  else
    add(RlPart::generation, "generation");
  add(RlPart::reward, "reward");
  add(RlPart::logprob, "old log-probabilities");
  add(RlPart::reference, "reference model");
  add(RlPart::critic, "critic");
  add(RlPart::training, "training");
  add(RlPart::weight_transfer, "weight transfer");
  add(RlPart::swap, "swap to the host and back");
  add(RlPart::host, "controller");
  if (!rl_overlaps(study)) add(RlPart::wait, "wait for answers");
  std::erase_if(parts, [](const auto& part) { return part.second == 0; });
  return parts;
}

std::vector<std::string> rl_said_of(const RlStudy& study) {
  const scenarios::RlScenario& s = study.scenario;
  std::vector<std::string> all = s.assumptions;
  all.push_back(fmt::format("Framework {}: {}", s.framework.name, s.framework.provenance));
  all.push_back(fmt::format("Engine {}: {}.", s.rollout.replica.engine.name, s.rollout.replica.engine.provenance));
  all.push_back(fmt::format("Kernels of the engine: {}.", study.kernels));
  return all;
}

std::string rl_fit_text(const RlStudy& study) {
  return study.prices.fits ? ""
                           : fmt::format("Does not fit: the trainer takes {:.1f} GB of a GPU's {:.1f} GB.",
                                         study.prices.peak_bytes / 1e9, study.prices.capacity_bytes / 1e9);
}

}  // namespace

void write_rl(std::ostream& out, const RlStudy& study) {
  const scenarios::RlScenario& s = study.scenario;
  const rl::BatchSpec& batch = s.spec.batch;
  out << wrapped(fmt::format("{}: a step of {} of {}, {}, {}", s.id, s.algorithm, s.rollout.replica.model.name,
                             s.framework.name, rl_placement_text(s)),
                 "", "  ");
  if (!s.description.empty()) out << wrapped(s.description, "  ", "  ");
  if (const std::string fit = rl_fit_text(study); !fit.empty()) out << wrapped(fit, "  ", "  ");
  out << wrapped(fmt::format("{} prompts of {} answers: {:.0f} tokens in the mean, half of them up to {}, 99 of 100 up "
                             "to {}, the longest {}",
                             batch.prompts, batch.samples, rl_mean_length(study), rl_at_share(study.steps.lengths, 0.5),
                             rl_at_share(study.steps.lengths, 0.99), rl_at_share(study.steps.lengths, 1.0)),
                 "  ", "    ");
  out << wrapped("Engine: " + rl_engine_text(s), "  ", "    ")
      << wrapped("Trainer: " + rl_trainer_text(s), "  ", "    ");
  out << fmt::format("\n  {} a step, {} tokens/s/GPU trained on\n\n", time_text(study.step_s()),
                     number_text(study.tokens_per_s_per_gpu()));
  TextTable table({{"", Align::left}, {""}, {"share"}, {"", Align::left}});
  for (const auto& [name, value] : rl_parts_of(study))
    table.add_row({name, time_text(value), fmt::format("{:.1f} %", 100 * value / study.step_s()),
                   bar(value / study.step_s(), 40)});
  table.write(out);
  const double generation = rl_seconds(study.steps.generation), half = rl_seconds(study.steps.half);
  out << '\n'
      << wrapped(fmt::format(
                     "A batch is written in {}; half of its answers are through after {}, the rest is its tail. "
                     "Replicas are at work {:.0f} % of the time; {} preemptions.",
                     time_text(generation), time_text(half), 100 * study.steps.engine_busy, study.steps.preemptions),
                 "  ", "  ");
  const WeightTransfer& t = study.prices.transfer;
  out << wrapped(
      fmt::format("Weights: {:.1f} GB in {:.0f} tensors from {} GPUs to {} by {}: gather {}, send {}, copy {}, "
                  "host {}.",
                  t.bytes / 1e9, t.tensors, t.holders, t.receivers, name_of(s.route), time_text(t.gather_s),
                  time_text(t.send_s), time_text(t.copy_s), time_text(t.host_s)),
      "  ", "  ");
  out << "\nAssumptions\n";
  for (const std::string& text : rl_said_of(study)) out << wrapped(text, "  - ", "    ");
}

void write_rl_splits(std::ostream& out, const std::vector<RlSplit>& splits) {
  out << "\nSplits of the GPUs, the fastest first\n";
  TextTable table(
      {{"write"}, {"train"}, {"step"}, {"tokens/s/GPU"}, {"trainer waits"}, {"engine at work"}, {"", Align::left}});
  for (const RlSplit& split : splits) {
    const std::string write = std::to_string(split.rollout_gpus), trains = std::to_string(split.training_gpus);
    if (!split.reason.empty()) {
      table.add_row({write, trains, "", "", "", "", shortened(split.reason, 60)});
      continue;
    }
    table.add_row({write, trains, time_text(split.step_s), number_text(split.tokens_per_s_per_gpu),
                   time_text(split.wait_s), fmt::format("{:.0f} %", 100 * split.engine_busy),
                   split.fits ? "" : "does not fit"});
  }
  table.write(out);
}

ordered_json rl_json(const RlStudy& study) {
  const scenarios::RlScenario& s = study.scenario;
  ordered_json json;
  json["scenario"] = s.id;
  json["gpus"] = s.gpus;
  json["rollout_gpus"] = s.rollout_gpus;
  json["training_gpus"] = s.training_gpus;
  json["replicas"] = s.rollout.replicas;
  json["step_s"] = study.step_s();
  // Where nothing rl_overlaps, what the trainer sees of it, so that the parts sum to the step.
  json["generation_s"] = rl_overlaps(study) ? rl_seconds(study.steps.generation) : study.part_s(RlPart::generation);
  for (const RlPart part : {RlPart::reward, RlPart::logprob, RlPart::reference, RlPart::critic, RlPart::training,
                            RlPart::weight_transfer, RlPart::swap, RlPart::host, RlPart::wait})
    json[fmt::format("{}_s", name_of(part))] = study.part_s(part);
  json["half_s"] = rl_seconds(study.steps.half);
  json["tokens_per_s_per_gpu"] = study.tokens_per_s_per_gpu();
  json["answers"] = study.steps.trained;
  json["answer_tokens"] = {{"mean", rl_mean_length(study)},
                           {"p50", rl_at_share(study.steps.lengths, 0.5)},
                           {"p99", rl_at_share(study.steps.lengths, 0.99)},
                           {"max", rl_at_share(study.steps.lengths, 1.0)}};
  json["tokens_trained"] = study.steps.tokens;
  json["tokens_written"] = study.steps.written;
  json["engine_busy_pct"] = 100 * study.steps.engine_busy;
  json["preemptions"] = study.steps.preemptions;
  json["updates"] = s.updates();
  json["update_s"] = sim::to_seconds(study.prices.update);
  json["memory"] = {{"fits", study.prices.fits}, {"peak_bytes", study.prices.peak_bytes}};
  const WeightTransfer& t = study.prices.transfer;
  json["transfer"] = {{"route", name_of(s.route)}, {"bytes", t.bytes},     {"tensors", t.tensors},
                      {"gather_s", t.gather_s},    {"send_s", t.send_s},   {"copy_s", t.copy_s},
                      {"host_s", t.host_s},        {"holders", t.holders}, {"receivers", t.receivers}};
  json["assumptions"] = rl_said_of(study);
  return json;
}

ordered_json rl_splits_json(const std::vector<RlSplit>& splits) {
  ordered_json json = ordered_json::array();
  for (const RlSplit& split : splits) {
    ordered_json one{{"rollout_gpus", split.rollout_gpus}, {"training_gpus", split.training_gpus}};
    if (!split.reason.empty()) {
      one["reason"] = split.reason;
    } else {
      one["step_s"] = split.step_s;
      one["tokens_per_s_per_gpu"] = split.tokens_per_s_per_gpu;
      one["wait_s"] = split.wait_s;
      one["engine_busy_pct"] = 100 * split.engine_busy;
      one["fits"] = split.fits;
    }
    json.push_back(std::move(one));
  }
  return json;
}

ordered_json rl_page(const RlStudy& study) {
  const scenarios::RlScenario& s = study.scenario;
  ordered_json page = rl_json(study);
  page["kind"] = "rl";
  page["title"] = "A step of reinforcement learning: " + shortened(s.id, 100);
  page["subtitle"] = fmt::format("{} of {}, {}, {}", s.algorithm, s.rollout.replica.model.name, s.framework.name,
                                 rl_placement_text(s));
  page["description"] = s.description;
  page["load"] = rl_fit_text(study);
  page["engine"] = rl_engine_text(s);
  page["trainer"] = rl_trainer_text(s);
  page["facts"] = ordered_json::array();
  const auto fact = [&](const char* name, const std::string& value, const std::string& note) {
    page["facts"].push_back({name, value, note});
  };
  fact("step", time_text(study.step_s()), rl_placement_text(s));
  fact("tokens/s/GPU", number_text(study.tokens_per_s_per_gpu()), "trained on, prompts and answers");
  fact("answers", number_text(study.steps.trained), fmt::format("{:.0f} tokens in the mean", rl_mean_length(study)));
  fact("a batch is written in", time_text(rl_seconds(study.steps.generation)),
       "half after " + time_text(rl_seconds(study.steps.half)));
  fact("engine at work", fmt::format("{:.0f} %", 100 * study.steps.engine_busy), rl_engine_text(s));
  page["parts"] = rl_parts_of(study);
  page["spans"] = ordered_json::array();
  for (const rl::Span& span : study.steps.spans)
    page["spans"].push_back(
        {span.step, name_of(span.part), span.engine, rl_seconds(span.from), rl_seconds(span.until)});
  // Answers that are through by a time: a curve whose last stretch is the tail.
  std::vector<rl::Time> ends = study.steps.ends;
  std::sort(ends.begin(), ends.end());
  page["through"] = ordered_json::array();
  const std::size_t every = std::max<std::size_t>(1, ends.size() / 400);
  for (std::size_t i = 0; i < ends.size(); i += every)
    page["through"].push_back(
        {rl_seconds(ends[i]), 100.0 * static_cast<double>(i + 1) / static_cast<double>(ends.size())});
  if (!ends.empty()) page["through"].push_back({rl_seconds(ends.back()), 100.0});
  return page;
}

}  // namespace orrery::tools
