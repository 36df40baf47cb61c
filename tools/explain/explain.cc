// Elasticities, stated kernel errors and known residuals put together.
#include "tools/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tools/report/text.h"
#include "workloads/model/products.h"

namespace orrery::tools {

using nlohmann::ordered_json;

namespace {

constexpr double kNinety = 1.645;  // standard deviations that hold 90 % of a normal distribution on both sides
constexpr std::size_t kShown = 15;
constexpr std::size_t kFeaturesShown = 8;

/// Elasticity of the step for the time of what `key` makes faster.
double time_elasticity(const SensitivityStudy& study, const std::string& key) {
  for (const Sensitivity& input : study.inputs) {
    if (input.key == key) return -input.elasticity;
  }
  return 0;
}

/// Stated errors of kernels that take part by their times, as independent: each shape errs in its own way.
class Errors {
 public:
  void add(double time, double ninety) {
    whole_ += time;
    squares_ += (time * ninety / kNinety) * (time * ninety / kNinety);
  }
  double spread() const { return whole_ > 0 ? std::sqrt(squares_) / whole_ : 0; }

 private:
  double whole_ = 0, squares_ = 0;
};

}  // namespace

std::vector<KernelPart> kernel_parts(const workloads::Job& job, const workloads::StepReport& report,
                                     const SensitivityStudy& study) {
  std::vector<KernelPart> parts;
  Errors products;
  const workloads::Network network = workloads::network_of(job);
  for (std::size_t kind = 0; kind < network.kinds.size(); ++kind) {
    const auto times = static_cast<double>(std::count(network.layers.begin(), network.layers.end(), kind));
    for (const calibration::Gemm& gemm : workloads::products(network.kinds[kind]))
      products.add(times * sim::to_seconds(job.machine.device.gemm(gemm)), job.machine.device.uncertainty(gemm));
  }
  const bool fp8 = calibration::is_quantised(job.method.precision.matmul);
  const double rate = time_elasticity(study, "cluster.device.sustained.matmul");
  parts.push_back({"matrix products", products.spread(),
                   fp8 ? rate + time_elasticity(study, "cluster.device.sustained.fp8") : rate});
  if (const auto attention = workloads::fused_attention(network.layer(1))) {
    parts.push_back({"fused attention", job.machine.device.uncertainty(*attention) / kNinety,
                     time_elasticity(study, "cluster.device.sustained.attention")});
  }
  const double step = sim::to_seconds(report.iteration);
  const double tensor = report.breakdown_s[static_cast<std::size_t>(workloads::Category::tensor_comm)];
  if (tensor > 0 && job.parallelism.tensor <= job.machine.gpus_per_node && step > 0) {
    const sim::Bytes buffer(2 * job.batch.micro * job.rank_seq() * job.model.hidden);
    const double ninety =
        job.machine.device.uncertainty(calibration::CollectiveOp::all_reduce, job.parallelism.tensor, buffer);
    parts.push_back({"collectives in the node", ninety / kNinety, tensor / step});
  }
  return parts;
}

double Explanation::spread() const { return std::hypot(kernel_spread, input_spread); }

Explanation explain(const sim::Settings& document, const scenarios::Scenario& scenario,
                    const workloads::StepReport& report, double share, unsigned jobs) {
  Explanation out;
  out.share = share;
  out.step_s = sim::to_seconds(report.iteration);
  out.study = sensitivities(document, share, jobs);
  out.features = feature_worths(document, jobs);
  out.kernels = kernel_parts(scenario.job, report, out.study);
  for (const KernelPart& part : out.kernels) {
    out.kernel_spread = std::hypot(out.kernel_spread, part.spread * part.elasticity);
  }
  for (const Sensitivity& input : out.study.inputs) {
    out.input_spread = std::hypot(out.input_spread, input.spread * input.elasticity);
  }
  out.known = interval_of_run(scenario, report);
  out.held = shipped_widths().held;
  const LikeRows like = out.known ? out.known->like : LikeRows{};
  const double one = std::exp(out.spread()), ninety = std::exp(kNinety * out.spread());
  out.low68_s = out.step_s * std::min(like.low68, 1 / one);
  out.high68_s = out.step_s * std::max(like.high68, one);
  out.low90_s = out.step_s * std::min(like.low90, 1 / ninety);
  out.high90_s = out.step_s * std::max(like.high90, ninety);
  return out;
}

namespace {

void write_features(std::ostream& out, const FeatureStudy& study) {
  if (study.tried == 0) return;
  out << fmt::format("\nWhat the software's features are worth ({} of {} move the step, each taken away alone)\n",
                     study.features.size(), study.tried);
  TextTable table({{"feature", Align::left}, {"of", Align::left}, {"step without it"}, {"change"}});
  for (std::size_t i = 0; i < std::min(kFeaturesShown, study.features.size()); ++i) {
    const FeatureWorth& one = study.features[i];
    table.add_row({one.name, one.generation.empty() ? "the scenario" : one.generation, time_text(one.step_s),
                   fmt::format("{:+.2f} %", 100 * one.change)});
  }
  if (!study.features.empty()) table.write(out);
  if (!study.refused.empty())
    out << wrapped(fmt::format("The scenario does not load without {}.", fmt::join(study.refused, ", ")), "  ", "  ");
  if (study.interrupted) out << "  Interrupted: not every feature was taken away.\n";
}

/// What of an interval is for what no row has.
std::string widening_text(const Widening& by) {
  if (by.at68 <= 0 && by.at90 <= 0) return "";
  return fmt::format(", of which {:.1f} and {:.1f} % on either side are for what no row has", 100 * std::expm1(by.at68),
                     100 * std::expm1(by.at90));
}

/// How many rows such intervals hold, by what was left out; the kinds that matter most.
std::string held_text(const std::vector<Held>& held) {
  std::string text;
  for (const Held& one : held) {
    if (one.left_out == "row")
      text +=
          fmt::format("Such intervals hold {:.0f} and {:.0f} % of the published rows in no fit", one.at68, one.at90);
    if (one.left_out == "framework" || one.left_out == "device")
      text += fmt::format("; {:.0f} and {:.0f} % where the row's {} is left out as a whole", one.at68, one.at90,
                          one.left_out);
  }
  return text.empty() ? text : text + ".";
}

}  // namespace

void write_explanation(std::ostream& out, const Explanation& e) {
  out << fmt::format("\nWhat the step hangs on ({} of {} inputs move it, each moved {:g} % up and down)\n",
                     e.study.inputs.size(), e.study.tried, 100 * e.share);
  TextTable table({{"input", Align::left}, {"value"}, {"elasticity"}, {"may be off"}, {"moves the step"}});
  std::vector<std::string> fitted;
  for (std::size_t i = 0; i < std::min(kShown, e.study.inputs.size()); ++i) {
    const Sensitivity& input = e.study.inputs[i];
    table.add_row({input.key, input.value, fmt::format("{:+.3f}{}", input.elasticity, input.one_sided ? "*" : ""),
                   input.spread > 0 ? fmt::format("{:.0f} %", 100 * input.spread) : "-",
                   input.spread > 0 ? fmt::format("{:.2f} %", 100 * input.spread * std::abs(input.elasticity)) : "-"});
    if (input.set_by.starts_with("fitted")) fitted.push_back(input.key);
  }
  table.write(out);
  out << "  Elasticity: per cent of the step for one per cent of the input; * moved to one side only.\n";
  if (!fitted.empty())
    out << wrapped(fmt::format("Moved by measured rows (`fitted:`): {}.", fmt::join(fitted, ", ")), "  ", "  ");
  if (e.study.interrupted) out << "  Interrupted: not every input was moved.\n";
  write_features(out, e.features);
  out << "\nHow sure the answer is (relative standard deviations of the step)\n";
  TextTable parts({{"", Align::left}, {""}, {"", Align::left}});
  for (const KernelPart& part : e.kernels) {
    parts.add_row({part.what, fmt::format("{:.2f} %", 100 * part.spread * std::abs(part.elasticity)),
                   fmt::format("their times {:.1f} %, elasticity {:.2f}", 100 * part.spread, part.elasticity)});
  }
  parts.add_row({"all inputs", fmt::format("{:.2f} %", 100 * e.input_spread), "spreads of calibration/spreads.yaml"});
  parts.add_row({"together", fmt::format("{:.2f} %", 100 * e.spread()), "as independent"});
  parts.write(out);
  if (e.known) {
    const LikeRows& like = e.known->like;
    out << wrapped(
        fmt::format("By published rows like this one, in no fit ({:.0f} independent ones by weight, nearest {}), 68 % "
                    "of such steps are measured at {:.2f} to {:.2f} of the prediction, 90 % at {:.2f} to {:.2f}{}.",
                    like.rows, fmt::join(like.nearest, ", "), like.low68, like.high68, like.low90, like.high90,
                    widening_text(e.known->widening)),
        "  ", "  ");
    out << wrapped(held_text(e.held), "  ", "  ");
  }
  out << wrapped(fmt::format("Step: 68 % from {} to {}, 90 % from {} to {}: the wider of the two on either side.",
                             time_text(e.low68_s), time_text(e.high68_s), time_text(e.low90_s), time_text(e.high90_s)),
                 "  ", "  ");
}

namespace {

ordered_json held_json(const Held& held) {
  return {{"left_out", held.left_out},
          {"rows", held.rows},
          {"groups", held.groups},
          {"of_68_pct", held.at68},
          {"of_90_pct", held.at90}};
}

}  // namespace

ordered_json explanation_json(const Explanation& e) {
  ordered_json json;
  json["moved_by"] = e.share;
  json["inputs_tried"] = e.study.tried;
  json["simulations"] = e.study.simulations;
  json["inputs"] = ordered_json::array();
  for (const Sensitivity& input : e.study.inputs) {
    json["inputs"].push_back({{"key", input.key},
                              {"value", input.value},
                              {"elasticity", input.elasticity},
                              {"one_sided", input.one_sided},
                              {"spread", input.spread},
                              {"set_by", input.set_by},
                              {"meaning", input.meaning}});
  }
  json["features_tried"] = e.features.tried;
  json["features"] = ordered_json::array();
  for (const FeatureWorth& one : e.features.features) {
    json["features"].push_back({{"name", one.name},
                                {"of", one.generation},
                                {"step_without_s", one.step_s},
                                {"change_pct", 100 * one.change},
                                {"meaning", one.meaning}});
  }
  json["features_needed"] = e.features.refused;
  json["kernels"] = ordered_json::array();
  for (const KernelPart& part : e.kernels) {
    json["kernels"].push_back({{"what", part.what}, {"spread", part.spread}, {"elasticity", part.elasticity}});
  }
  json["kernel_spread"] = e.kernel_spread;
  json["input_spread"] = e.input_spread;
  json["spread"] = e.spread();
  if (e.known) {
    const LikeRows& like = e.known->like;
    json["like_rows"] = {{"rows", like.rows},
                         {"nearest", like.nearest},
                         {"factor_68", {like.low68, like.high68}},
                         {"factor_90", {like.low90, like.high90}}};
    const Widening& by = e.known->widening;
    json["widened_pct"] = {{"at_68", 100 * std::expm1(by.at68)}, {"at_90", 100 * std::expm1(by.at90)}};
    json["held"] = ordered_json::array();
    for (const Held& held : e.held) json["held"].push_back(held_json(held));
  }
  json["iteration_time_68_s"] = {e.low68_s, e.high68_s};
  json["iteration_time_90_s"] = {e.low90_s, e.high90_s};
  return json;
}

}  // namespace orrery::tools
