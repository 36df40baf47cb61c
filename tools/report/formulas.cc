// See formulas.h. What is counted comes from folds over layers and from the simulation, never from these formulas. Left
// out of them: what a formula's paper leaves out, so that a difference is the point.
#include "tools/report/formulas.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/real.h"
#include "tools/report/text.h"
#include "workloads/model/token_flops.h"

namespace orrery::tools {

namespace {

using sim::real;

/// Narayanan et al., equations 2 and 3: `passes` 72, or 96 with a forward pass more; the vocabulary once for three.
double plain_flops(const workloads::Model& m, std::int64_t global, bool recomputed) {
  const double l = real(m.layers), h = real(m.hidden), s = real(m.seq), vocab = real(m.vocab);
  const double passes = recomputed ? 96 : 72, of_head = recomputed ? 16 : 12;
  return passes * real(global) * s * l * h * h * (1 + s / (6 * h) + vocab / (of_head * l * h));
}

void add_plain_gpt(const scenarios::Scenario& scenario, std::vector<Formula>& out) {
  const workloads::Job& job = scenario.job;
  if (!workloads::is_plain_gpt(job.model)) return;
  out.push_back({"parameters P", "12 l h^2 (1 + 13/12h + (V+s)/12lh)", workloads::closed_form_parameters(job.model),
                 workloads::parameter_count(job.model), ""});
  out.push_back({"model FLOPs of a step", "72 B s l h^2 (1 + s/6h + V/12lh)",
                 plain_flops(job.model, job.batch.global, false), workloads::model_flops(job.model, job.batch.global),
                 "FLOP"});
  if (job.method.recompute == workloads::Recompute::full && job.method.recomputed_layers == 0) {
    const bool early =
        workloads::stops_ahead_of_last_product(job.model, job.software.layers.linear, job.method.adapters);
    const auto h = static_cast<double>(job.model.hidden);
    const double last = 8 * static_cast<double>(job.batch.global * job.model.seq * job.model.layers) * h * h;
    out.push_back({"hardware FLOPs of a step",
                   early ? "96 B s l h^2 (1 + s/6h + V/16lh) - 8 B s l h^2" : "96 B s l h^2 (1 + s/6h + V/16lh)",
                   plain_flops(job.model, job.batch.global, true) - (early ? last : 0),
                   workloads::hardware_flops(job.model, job.batch.global, job.method.recompute, workloads::Trained::all,
                                             {1, early}),
                   "FLOP"});
  }
}

/// Bytes of states that the ranks of one model replica hold, for each parameter.
std::pair<double, std::string> state_bytes(workloads::Sharding sharding, double shares) {
  switch (sharding) {
    case workloads::Sharding::none:
      return {16, "16 P"};
    case workloads::Sharding::optimizer:
      return {4 + 12 / shares, "(4 + 12/d) P"};
    case workloads::Sharding::gradients:
      return {2 + 14 / shares, "(2 + 14/d) P"};
    case workloads::Sharding::parameters:
      return {16 / shares, "16 P / d"};
  }
  return {16, "16 P"};
}

void add_states(const scenarios::Scenario& scenario, const workloads::StepReport& report, std::vector<Formula>& out) {
  const workloads::Job& job = scenario.job;
  if (report.memory.stages.empty() || job.model.experts.any()) return;
  const double all = workloads::parameter_count(job.model), d = real(job.shard_ranks());
  double weights = 0, gradients = 0, moments = 0;  // of a tensor rank of every stage
  for (const workloads::StageMemory& stage : report.memory.stages) {
    weights += stage.parameters;
    gradients += stage.gradients + stage.parts.accumulators;
    moments += stage.optimizer;
  }
  const double ranks = real(job.parallelism.tensor);
  const auto [bytes, text] = state_bytes(job.parallelism.sharding, d);
  Formula states{"states of a model replica", text, bytes * all, (weights + gradients + moments) * ranks, "B"};
  const bool shares = job.parallelism.sharding >= workloads::Sharding::gradients;
  states.note = fmt::format("Counted, in bytes a parameter: weights {:.3g}, gradients {:.3g}, optimizer {:.3g}.",
                            weights * ranks / all, gradients * ranks / all, moments * ranks / all);
  if (shares && gradients * ranks / all > 4 * 2 / d)
    states.note += fmt::format(
        " The formula shares gradients out among {} ranks, 2 bytes each; what runs adds micro-batches up in buffers "
        "that are whole until their reduction.",
        job.shard_ranks());
  out.push_back(std::move(states));
}

std::string value_text(const Formula& formula, double value) {
  if (formula.unit == "s") return fmt::format("{} days", number_text(value / 86'400));
  return si_text(value, formula.unit);
}

}  // namespace

std::vector<Formula> formulas_of(const scenarios::Scenario& scenario, const workloads::StepReport& report) {
  const workloads::Job& job = scenario.job;
  std::vector<Formula> out;
  if (job.model.recommender.any()) return out;  // all are of transformers
  if (job.method.adapters.any()) return out;    // none is of weights that are not trained
  add_plain_gpt(scenario, out);
  const double tokens = real(job.batch.global) * real(job.model.seq);
  out.push_back({"model FLOPs of a step", "6 N D", workloads::six_n(job.model) * tokens,
                 workloads::model_flops(job.model, job.batch.global), "FLOP"});
  add_states(scenario, report, out);
  if (job.training.tokens > 0) {
    out.push_back({"steps of the training", "T / (B s)", job.training.tokens / tokens,
                   std::ceil(job.training.tokens / tokens), ""});
    const bool again = job.method.recompute == workloads::Recompute::full;
    const double achieved = 1e12 * (again ? report.rates.hardware_tflops_per_gpu : report.rates.model_tflops_per_gpu);
    out.push_back({"time to train", again ? "8 T P / n X" : "6 T P / n X",
                   (again ? 8 : 6) * job.training.tokens * workloads::active_parameter_count(job.model) /
                       (real(job.machine.gpus) * achieved),
                   job.training.tokens / report.rates.tokens_per_s, "s"});
  }
  return out;
}

void write_formulas(std::ostream& out, const std::vector<Formula>& formulas) {
  TextTable table({{"", Align::left}, {"formula", Align::left}, {"by formula"}, {"counted"}, {"difference"}});
  for (const Formula& f : formulas) {
    table.add_row({f.name, f.formula, value_text(f, f.by_formula), value_text(f, f.counted),
                   error_text(100 * (f.by_formula / f.counted - 1))});
  }
  out << "\nFormulas\n";
  table.write(out);
  for (const Formula& f : formulas) {
    if (!f.note.empty()) out << wrapped(fmt::format("{}: {}", f.name, f.note), "", "  ");
  }
}

nlohmann::ordered_json formulas_json(const std::vector<Formula>& formulas) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Formula& f : formulas) {
    json.push_back({{"quantity", f.name},
                    {"formula", f.formula},
                    {"by_formula", f.by_formula},
                    {"counted", f.counted},
                    {"unit", f.unit}});
    if (!f.note.empty()) json.back()["note"] = f.note;
  }
  return json;
}

}  // namespace orrery::tools
