// `orrery calibrate --check`: how far the kernel-time model of a device profile is from a table of measured kernels, by
// kernel and size class. Tables hold short benchmarks, so the profile answers at the clocks of a cool board. Measuring
// is in calibrate_measure.cc.
#include "tools/commands/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "calibration/device/dispatcher.h"
#include "calibration/device/expert_layer.h"
#include "calibration/device/profile.h"
#include "calibration/device/serving_model.h"
#include "calibration/device/uncertainty.h"
#include "calibration/measure/samples.h"
#include "calibration/measure/serving_samples.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/cluster.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/report/output.h"
#include "tools/report/report.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;

struct CalibrateOptions {
  std::string check, samples, json;
  MeasureOptions measure;
  LearnDeviceOptions learn;
  bool verify = false;
};

using calibration::kByBytes;
using calibration::kByFlops;
using calibration::SizeClasses;
constexpr const char* kAll = "all";

/// predicted / measured - 1 of the samples, by kernel and size class; classes in the order of their sizes, all first.
struct Errors {
  std::map<std::string, std::array<std::vector<double>, 4>> by_kernel;
  std::map<std::string, const SizeClasses*> classes;
  std::map<std::string, std::size_t> left_out;  // samples of what the profile does not hold
  std::vector<std::string> unread;              // columns that decide nothing here

  void add(const std::string& kernel, const SizeClasses& by, double size, sim::Duration predicted, double measured) {
    const double relative = sim::to_seconds(predicted) / measured - 1;
    classes[kernel] = &by;
    by_kernel[kernel][0].push_back(relative);
    by_kernel[kernel][1 + by.of(size)].push_back(relative);
  }
};

/// Layers whose products a library may have run without their tuning stand apart: their time says nothing of the
/// device.
void add_experts(const calibration::Samples& samples, const calibration::DeviceProfile& device, Errors& errors) {
  for (const calibration::ExpertSample& sample : samples.experts) {
    const std::string name = fmt::format("experts {}", name_of(sample.shape.dtype));
    if (!device.has(sample.shape.dtype)) {
      ++errors.left_out[name];
      continue;
    }
    const sim::Duration predicted = device.served_experts(sample.shape);
    errors.add(sample.tuned ? name : name + ", perhaps untuned", kByFlops,
               calibration::ExpertWork(sample.shape).flops(), predicted, sample.seconds);
  }
  if (samples.faster_twins > 0) errors.left_out["experts, the faster of two kernels"] = samples.faster_twins;
}

/// GPUs of the measured clusters had a NIC of 400 Gb/s each.
constexpr double kMeasuredNic = 50e9;

/// `links`: bytes/s of a GPU's links within a node, one direction; 0: the profile does not say.
void add_exchanges(const calibration::Samples& samples, const calibration::DeviceProfile& device, double links,
                   Errors& errors) {
  std::map<std::string, calibration::Dispatcher> dispatchers;
  for (const calibration::ExchangeSample& sample : samples.exchange) {
    auto known = dispatchers.find(sample.library);
    if (known == dispatchers.end())
      known =
          dispatchers.emplace(sample.library, calibration::Dispatcher::load(document_of("dispatchers", sample.library)))
              .first;
    const bool network = sample.shape.nodes > 1;
    const auto* kernel = known->second.measured(device.name(), sample.pass, network);
    if (!device.name().starts_with(sample.device) || kernel == nullptr || (!network && !(links > 0))) {
      ++errors.left_out[fmt::format("exchanges on {}", sample.device)];
      continue;
    }
    const bool combine = sample.pass == calibration::ExchangePass::combine;
    errors.add(fmt::format("{} {}{}", sample.library, combine ? "combine" : "dispatch", network ? ", nodes" : ""),
               kByBytes, sample.shape.tokens * sample.shape.copies * sample.shape.row_bytes,
               sim::seconds(kernel->alone(sample.shape, network ? kMeasuredNic : links)), sample.seconds);
  }
  if (samples.other_exchanges > 0)
    errors.left_out["exchanges in NVFP4, by two kernels without a name, and their preparation"] =
        samples.other_exchanges;
}

/// By the measured time.
constexpr SizeClasses kByTime{{20, 200}, {"below 20 us", "20 to 200 us", "from 200 us"}};

/// The kernels of engines on the device of that name, or what is assumed of them.
Errors serving_errors(const std::string& file, const calibration::DeviceProfile& device) {
  const auto& shipped = scenarios::shipped("serving");
  const bool known = std::find(shipped.begin(), shipped.end(), device.name()) != shipped.end();
  const sim::Settings document = known ? document_of("serving", device.name()) : sim::Settings();
  std::vector<calibration::ServingKernels> engines;
  for (std::size_t e = 0; e < calibration::kEngines; ++e)
    engines.emplace_back(device, static_cast<calibration::Engine>(e), known ? &document : nullptr);
  const calibration::ServingSamples samples = calibration::read_serving_samples(file);
  Errors errors;
  for (const calibration::ServingSample& s : samples.rows) {
    const calibration::ServingFamily& family = *calibration::serving_families()[s.asked.family];
    const double predicted = engines[static_cast<std::size_t>(s.engine)].model().seconds(s.asked);
    errors.add(fmt::format("{} {} {}", name_of(s.engine), family.name, family.variants[s.asked.variant]), kByTime,
               s.seconds * 1e6, sim::seconds(predicted), s.seconds);
  }
  for (const calibration::WholeSample& s : samples.whole) {
    const std::optional<double> predicted = calibration::seconds_of(s, engines[static_cast<std::size_t>(s.engine)]);
    if (predicted)
      errors.add(s.name, kByTime, s.seconds * 1e6, sim::seconds(*predicted), s.seconds);
    else
      ++errors.left_out[s.name + ", which the device does not multiply"];
  }
  for (const auto& [why, count] : samples.left_out) errors.left_out[why] += count;
  errors.unread = samples.unread;
  return errors;
}

/// What engines run, where the profile itself says how long it takes there.
void add_served(const calibration::Samples& samples, const calibration::DeviceProfile& device, Errors& errors) {
  const sim::Settings* said = calibration::served_by_profile(device);
  for (const calibration::ServedSample& sample : samples.served) {
    const calibration::ServingFamily& family = *calibration::serving_families()[sample.asked.family];
    const std::string_view variant = family.variants[sample.asked.variant];
    const std::string name = fmt::format("served {} {}", family.name, variant);
    std::optional<calibration::Engine> engine;
    for (std::size_t e = 0; e < calibration::kEngines && !engine; ++e) {
      const auto one = static_cast<calibration::Engine>(e);
      if (said != nullptr &&
          said->find_path(fmt::format("engines.{}.{}.{}", name_of(one), family.name, variant)) != nullptr)
        engine = one;
    }
    if (!engine || sample.cast_bytes > 0) {
      ++errors.left_out[name];
      continue;
    }
    const calibration::ServingKernels kernels(device, *engine, said);
    errors.add(name, kByTime, sample.seconds * 1e6, sim::seconds(kernels.model().seconds(sample.asked)),
               sample.seconds);
  }
}

Errors errors_of(const calibration::Samples& samples, const calibration::DeviceProfile& device, double links) {
  const auto d = [](std::int64_t count) { return static_cast<double>(count); };
  Errors errors;
  for (const calibration::GemmSample& sample : samples.gemm) {
    const calibration::Gemm& g = sample.shape;
    if (!device.has(g.dtype)) {
      ++errors.left_out[fmt::format("gemm {}", name_of(g.dtype))];
      continue;
    }
    errors.add(fmt::format("gemm {}{}", name_of(g.dtype), sample.limited ? ", below its clock" : ""), kByFlops,
               2 * d(g.m) * d(g.n) * d(g.k), device.gemm(g), sample.seconds);
  }
  for (const calibration::GroupedSample& sample : samples.grouped) {
    const calibration::GroupedGemm& g = sample.shape;
    const std::int64_t tokens = std::accumulate(g.tokens.begin(), g.tokens.end(), std::int64_t{0});
    errors.add(fmt::format("experts {}, {}", name_of(g.dtype), name_of(g.kernel)), kByFlops,
               2 * d(tokens) * d(g.out) * d(g.in), device.grouped_gemm(g), sample.seconds);
  }
  for (const calibration::AttentionSample& sample : samples.attention) {
    const calibration::Attention& a = sample.shape;
    if (is_quantised(a.dtype)) {  // a profile holds the kernel for 16 bit
      ++errors.left_out["attention fp8"];
      continue;
    }
    // Two products of queries x keys x head dimension, half of each masked.
    const double flops = 2 * d(a.batch) * d(a.heads) * d(a.queries) * d(a.keys) * d(a.head_dim);
    errors.add("attention", kByFlops, flops, device.attention(a), sample.seconds);
  }
  for (const calibration::ScanSample& sample : samples.scans) {
    const calibration::Scan& s = sample.shape;
    const bool convolution = s.kernel == calibration::MixerKernel::convolution;
    errors.add(fmt::format("scan {}{}", convolution ? name_of(s.kernel) : s.kind->name,
                           s.pass == calibration::ScanPass::backward ? ", backward" : ""),
               kByTime, sample.seconds * 1e6, device.scan(s), sample.seconds);
  }
  for (const calibration::SparseSample& sample : samples.sparse) {
    const calibration::SparseKernel& s = sample.shape;
    errors.add(
        fmt::format("sparse {}{}", name_of(s.kernel), s.pass == calibration::ScanPass::backward ? ", backward" : ""),
        kByTime, sample.seconds * 1e6, device.mixer(s.kernel, work_of(s), s.dtype), sample.seconds);
  }
  add_experts(samples, device, errors);
  add_served(samples, device, errors);
  add_exchanges(samples, device, links, errors);
  for (const calibration::CollectiveSample& sample : samples.collective) {
    if (!device.name().starts_with(sample.device)) {
      ++errors.left_out[fmt::format("collectives on {}", sample.device)];
      continue;
    }
    errors.add(std::string(name_of(sample.op)), kByBytes, d(sample.bytes.value()),
               device.node_collective(sample.op, sample.gpus, sample.bytes).total(), sample.seconds);
  }
  return errors;
}

/// One class of one kernel.
struct Figure {
  std::size_t n = 0;
  double median_ape_pct = 0, p90_ape_pct = 0, bias_pct = 0;
};

/// Of sorted values, between neighbours by straight line.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// As in `validate`: the median of an even number lies between two, the bias is the mean.
Figure figure_of(const std::vector<double>& relative) {
  const double sum = std::accumulate(relative.begin(), relative.end(), 0.0);
  std::vector<double> absolute;
  for (const double error : relative) absolute.push_back(std::abs(error));
  std::sort(absolute.begin(), absolute.end());
  return {relative.size(), 100 * quantile(absolute, 0.5), 100 * quantile(absolute, 0.9),
          100 * sum / static_cast<double>(relative.size())};
}

template <class Visit>
void each_class(const Errors& errors, const std::string& kernel, const Visit& visit) {
  const auto& classes = errors.by_kernel.at(kernel);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (!classes[i].empty()) visit(i == 0 ? kAll : errors.classes.at(kernel)->names[i - 1], figure_of(classes[i]));
  }
}

void write_errors(std::ostream& out, const Errors& errors) {
  TextTable table({{"kernel", Align::left},
                   {"size", Align::left},
                   {"samples"},
                   {"median\n|error| %"},
                   {"90th\n|error| %"},
                   {"bias %"}});
  for (const auto& [kernel, unused] : errors.by_kernel) {
    each_class(errors, kernel, [&, name = kernel](const char* size, const Figure& figure) {
      table.add_row({size == kAll ? name : "", size, fmt::format("{}", figure.n),
                     fmt::format("{:.2f}", figure.median_ape_pct), fmt::format("{:.2f}", figure.p90_ape_pct),
                     fmt::format("{:+.2f}", figure.bias_pct)});
    });
  }
  table.write(out);
  for (const auto& [what, count] : errors.left_out) out << fmt::format("left out: {} samples of {}\n", count, what);
  if (!errors.unread.empty())
    out << fmt::format("columns that no kernel's time goes by here: {}\n", fmt::join(errors.unread, ", "));
}

ordered_json errors_json(const CalibrateOptions& options, const std::string& device, const Errors& errors) {
  ordered_json json;
  json["profile"] = device;
  json["samples"] = options.samples;
  for (const auto& [kernel, unused] : errors.by_kernel) {
    ordered_json& node = json["kernels"][kernel];
    each_class(errors, kernel, [&](const char* size, const Figure& figure) {
      node[size] = {{"n", figure.n},
                    {"median_ape_pct", figure.median_ape_pct},
                    {"p90_ape_pct", figure.p90_ape_pct},
                    {"bias_pct", figure.bias_pct}};
    });
  }
  return json;
}

Errors checked(const std::string& profile, const std::string& samples) {
  const sim::Settings document = document_of("devices", profile);
  const auto device = calibration::DeviceProfile::load(document);
  const sim::Settings* node = document.find("node");
  const sim::Settings* rate = node == nullptr ? nullptr : node->find("rate");
  return calibration::is_serving_table(samples) ? serving_errors(samples, device.isolated())
                                                : errors_of(calibration::read_samples(samples), device.isolated(),
                                                            rate == nullptr ? 0 : rate->as_bandwidth().value());
}

int check(const CalibrateOptions& options) {
  if (options.samples.empty()) {
    throw sim::UserError("orrery: calibrate: --check needs a table of measurements, as in --check PROFILE SAMPLES.csv");
  }
  check_writable(options.json);
  const Errors errors = checked(options.check, options.samples);
  const std::string name = document_of("devices", options.check).at("name").text();
  if (errors.by_kernel.empty() && !errors.left_out.empty()) {
    std::string why;
    for (const auto& [what, count] : errors.left_out)
      why += fmt::format("{}{} of {}", why.empty() ? "" : ", ", count, what);
    throw sim::UserError(
        fmt::format("{}: holds no sample that the profile has a kernel for: {}", options.samples, why));
  }
  if (errors.by_kernel.empty()) {
    throw sim::UserError(fmt::format(
        "{}: holds no sample that a profile can be checked on, expected a table of gemm (dtype,m,n,k,ms), attention "
        "(batch,seq,heads,kv_heads,head_dim,ms), experts (dtype,tokens,hidden,expert_ffn,top_k,experts,moe_tp,moe_ep,"
        "distribution,ms), exchanges (as DeepEP's or one-sided ones are tabled), nccl (op,gpus,bytes,us) or an "
        "engine's kernels (engine,...,us)",
        options.samples));
  }
  if (!options.json.empty()) {
    write_output(options.json, [&](std::ostream& out) { write_json(out, errors_json(options, name, errors)); });
  }
  if (options.json != "-") {
    std::cout << wrapped(fmt::format("{} against {}", name, options.samples), "", "  ");
    write_errors(std::cout, errors);
  }
  return kDone;
}

int calibrate(const CalibrateOptions& options) {
  if (!options.check.empty()) return check(options);
  if (!options.samples.empty())
    throw sim::UserError(
        fmt::format("orrery: calibrate: got '{}', expected --check PROFILE before a table", options.samples));
  if (!options.learn.traces.empty()) {
    LearnDeviceOptions learn = options.learn;
    learn.out = options.measure.out;
    return learn_device(learn);
  }
  return options.verify ? verify_device(options.measure) : measure_device(options.measure);
}

}  // namespace

std::vector<std::string> far_off(const std::string& profile, const std::string& samples) {
  const Errors errors = checked(profile, samples);
  std::vector<std::string> lines;
  for (const auto& [kernel, unused] : errors.by_kernel) {
    each_class(errors, kernel, [&, name = kernel](const char* size, const Figure& figure) {
      if (figure.median_ape_pct > kFarOffPct)
        lines.push_back(fmt::format(
            "The profile is {:.0f} % off in the median of {} samples of {}{}: do not rely on it "
            "there.",
            figure.median_ape_pct, figure.n, name, size == kAll ? std::string() : fmt::format(", {}", size)));
    });
  }
  return lines;
}

Action declare_calibrate(CommandOptions app) {
  const auto options = std::make_shared<CalibrateOptions>();
  app.add_option("--check", options->check, "device profile to check: a shipped name or a file").type_name("PROFILE");
  app.add_option("samples", options->samples, "table of measured kernels (CSV)");
  app.add_option("--json", options->json, "write the errors as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  MeasureOptions& measure = options->measure;
  app.add_option("--device", measure.device, "GPU to measure");
  app.add_flag("--quick", measure.quick, "measure fewer shapes: under 2 minutes, else under 20");
  app.add_option("--minutes", measure.minutes,
                 "begin no case that would end later, and fit what there is (default: all)")
      .check(MoreThanZero{});
  app.add_option("--out", measure.out, "profile to write; its samples go beside it, as .csv").type_name("PROFILE.yaml");
  app.add_flag("--resume", measure.resume, "continue the samples file of an earlier run");
  app.add_flag("--verify", options->verify, "check the result of every kernel once, time nothing");
  app.add_option("--learn", options->learn.traces,
                 "take what cannot be run here from traces of your own job (as `orrery learn` reads), with --scenario; "
                 "classes of kernels that the scenario's device was measured for stay")
      .type_name("TRACE...");
  app.add_option("--scenario", options->learn.scenario, "the scenario that the traces were taken of (YAML)")
      .type_name("SCENARIO");
  app.add_option("--set", options->learn.sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--module", measure.module, "GPU module to load in place of those beside the program")
      .type_name("FILE");
  return [options] { return calibrate(*options); };
}

}  // namespace orrery::tools
