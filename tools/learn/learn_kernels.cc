// Factors on a device's rates. See learn_kernels.h.
#include "tools/learn/learn_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "calibration/device/keys.h"
#include "scenarios/library.h"
#include "scenarios/origin.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/learn/decompose.h"
#include "tools/learn/predicted.h"
#include "tools/report/text.h"
#include "workloads/model/mixers/mixers.h"

namespace orrery::tools {

using sim::Settings;

namespace {

constexpr int kRounds = 4;          // a factor on products moves the clock by a third of itself at most
constexpr double kSettled = 2e-4;   // factors closer to 1 than this change nothing that can be seen
constexpr std::size_t kFewest = 4;  // kernels, below which a class tells nothing
constexpr double kProbe = 0.9;      // a factor that shows whether a rate is one that the job's kernels run at
constexpr double kMoves = 0.01;     // what a class's time changes by at least where it is

struct Row {
  const char* what;
  OpClass of;
  std::optional<Phase> phase;
  std::vector<std::string> keys;
};

const std::vector<Row>& rows() {
  static const std::string kShare = "streaming.efficiency.", kFlash1 = "attention_kernels.flash_1.",
                           kFlash2 = "attention_kernels.flash_2.";
  static const std::vector<Row> kRows = {
      {"matrix products", OpClass::matmul, {}, {"sustained.matmul", "sustained.fp8"}},
      {"attention", OpClass::attention, {}, {"sustained.attention"}},
      {"attention", OpClass::attention, Phase::forward, {kFlash2 + "forward", kFlash2 + "forward_64"}},
      {"attention, backward", OpClass::attention, Phase::backward, {kFlash2 + "backward", kFlash2 + "backward_64"}},
      {"attention", OpClass::attention, Phase::forward, {kFlash1 + "forward"}},
      {"attention, backward", OpClass::attention, Phase::backward, {kFlash1 + "backward"}},
      {"norms", OpClass::norm, Phase::forward, {kShare + "layer_norm"}},
      {"norms, backward", OpClass::norm, Phase::backward, {kShare + "layer_norm_backward"}},
      {"look-ups", OpClass::look_up, Phase::forward, {kShare + "embedding"}},
      {"look-ups, backward", OpClass::look_up, Phase::backward, {kShare + "embedding_backward"}},
      {"elementwise",
       OpClass::elementwise,
       Phase::forward,
       {kShare + "gelu", kShare + "bias_dropout_residual", kShare + "dropout"}},
      {"elementwise, backward",
       OpClass::elementwise,
       Phase::backward,
       {kShare + "gelu_backward", kShare + "accumulate"}},
      {"optimizer", OpClass::optimizer, Phase::optimizer, {kShare + "optimizer"}},
      {"scans", OpClass::scan, {}, {"scans.chunks.bandwidth", "scans.chunks.rate"}},
      {"short convolutions", OpClass::convolution, {}, {"scans.convolution.bandwidth"}},
      {"index scores", OpClass::index_scores, {}, {"sparse.index.bandwidth", "sparse.index.rate"}},
      {"choice of keys", OpClass::key_choice, {}, {"sparse.choice.bandwidth"}},
      {"sparse attention", OpClass::sparse_attention, {}, {"sparse.attention.bandwidth", "sparse.attention.rate"}},
  };
  return kRows;
}

/// Keys of a row for a job: scans of one kind have rates of their own, and so has attention to blocks.
std::vector<std::string> keys_of(const Row& row, const workloads::Model& model) {
  std::set<std::string_view> kinds;
  bool blocks = false;
  for (const workloads::Model::Block& block : model.pattern.kinds) {
    if (block.state.any()) kinds.insert(block.state.kind->scan->name);
    blocks = blocks || block.attention.sparse.block > 1;
  }
  std::string kernel;
  if (row.of == OpClass::scan && kinds.size() == 1)
    kernel = fmt::format("scans.{}", *kinds.begin());
  else if (row.of == OpClass::sparse_attention && blocks)
    kernel = "sparse.block_attention";
  if (kernel.empty()) return row.keys;
  return {kernel + ".bandwidth", kernel + ".rate"};
}

struct Times {
  double seconds = 0;  // a step's
  std::size_t kernels = 0;
};

Times times_of(const std::vector<Trace>& traces, const Row& row) {
  Times times;
  for (const Trace& trace : traces) {
    const auto steps = static_cast<double>(std::max<std::size_t>(1, trace.steps.size()));
    for (const DeviceEvent& event : within_steps(trace)) {
      if (event.what != row.of || (row.phase && event.phase != *row.phase)) continue;
      times.seconds += static_cast<double>(event.end - event.start) * 1e-9 / steps;
      ++times.kernels;
    }
  }
  return times;
}

/// The document of the scenario's device, inheritance resolved.
Settings device_of(const Settings& document) {
  const Settings* device = document.at("cluster").find("device");
  SIM_CHECK(device != nullptr, "a scenario without a device was loaded");
  return scenarios::resolve(scenarios::shelf_of("devices"), *device).document;
}

/// Nothing where the document leaves it out.
std::optional<double> value_of(const Settings& device, const std::string& key) {
  const Settings* at = &device;
  for (std::size_t from = 0; at != nullptr && from < key.size();) {
    const std::size_t dot = std::min(key.find('.', from), key.size());
    at = at->find(key.substr(from, dot - from));
    from = dot + 1;
  }
  if (at != nullptr) return at->as_number();
  // What a kind of scan, or attention to blocks, lacks is as of all scans, or of single keys.
  const std::string last = key.substr(key.rfind('.') + 1);
  if (key.starts_with("sparse.block_attention.")) return value_of(device, "sparse.attention." + last);
  if (key.starts_with("scans.") && !key.starts_with("scans.c")) return value_of(device, "scans.chunks." + last);
  if (!key.starts_with("sustained.")) return {};
  // Rates of fp8 and attention are those of products where a document leaves them out.
  return key == "sustained.matmul" ? 1.0 : value_of(device, "sustained.matmul");
}

/// Within the bounds that the device's table of keys has.
double bounded(const std::string& key, double value) {
  const sim::Key* known = calibration::profile_keys().find(key);
  SIM_CHECK(known != nullptr && known->bounds.given(), "no device has the key {} with bounds", key);
  const sim::Place place{"bounds", 0, 0};
  const double low = Settings::scalar(std::string(known->bounds.low), place).as_number();
  const double high = Settings::scalar(std::string(known->bounds.high), place).as_number();
  return std::clamp(value, low, high);
}

}  // namespace

Settings with_kernels(Settings document, const std::vector<LearntKernels>& kernels) {
  for (const LearntKernels& row : kernels) {
    for (std::size_t k = 0; k < row.keys.size(); ++k)
      scenarios::apply_set(document, fmt::format("cluster.device.{}={:.6g}", row.keys[k], row.values[k]));
  }
  return document;
}

Settings with_software(Settings document, const Learnt& learnt) {
  for (const std::string& feature : learnt.without) document = scenarios::without_feature(document, feature);
  if (!learnt.features.empty())
    scenarios::apply_set(document, fmt::format("software.features=[{}]", fmt::join(learnt.features, ", ")));
  for (const LearntNumber& number : learnt.numbers) {
    if (!number.determined) continue;
    scenarios::apply_set(document, fmt::format("software.{}={:.6g}{}{}", number.key, number.value,
                                               number.unit.empty() ? "" : " ", number.unit));
  }
  return document;
}

std::vector<LearntKernels> learn_kernels(const Settings& document, const std::vector<Trace>& measured) {
  const scenarios::Scenario before = scenarios::load_scenario(document);
  const std::vector<std::int64_t> ranks = ranks_of(measured, before.job.parallelism, before.job.machine.gpus);
  const Settings device = device_of(document);
  std::vector<LearntKernels> found;
  std::vector<const Row*> of;
  const std::vector<Trace> first = predict(before, ranks);
  for (const Row& row : rows()) {
    const Times seen = times_of(measured, row), now = times_of(first, row);
    if (seen.kernels < kFewest || now.kernels < kFewest || !(seen.seconds > 0) || !(now.seconds > 0)) continue;
    LearntKernels one{row.what, {}, {}, {}, seen.seconds, now.seconds, seen.kernels, false};
    for (const std::string& key : keys_of(row, before.job.model)) {
      const auto value = value_of(device, key);
      if (!value) continue;
      one.keys.push_back(key);
      one.inherited.push_back(*value);
      one.values.push_back(bounded(key, kProbe * *value));
    }
    if (one.keys.empty()) continue;
    const auto probed = predict(scenarios::load_scenario(with_kernels(document, {one})), ranks);
    if (times_of(probed, row).seconds < (1 + kMoves) * now.seconds) continue;
    one.values = one.inherited;
    found.push_back(std::move(one));
    of.push_back(&row);
  }
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Trace> now =
        round == 0 ? first : predict(scenarios::load_scenario(with_kernels(document, found)), ranks);
    double most = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double factor = times_of(now, *of[i]).seconds / found[i].measured_s;
      most = std::max(most, std::abs(factor - 1));
      found[i].at_bound = false;
      for (std::size_t k = 0; k < found[i].keys.size(); ++k) {
        const double wanted = found[i].values[k] * factor;
        found[i].values[k] = bounded(found[i].keys[k], wanted);
        found[i].at_bound |= std::abs(found[i].values[k] - wanted) > 1e-3 * wanted;
      }
    }
    if (most < kSettled) break;
  }
  return found;
}

std::string device_text(const std::vector<LearntKernels>& kernels, const Settings& document,
                        const std::vector<std::string>& files) {
  const Settings* device = document.at("cluster").find("device");
  SIM_CHECK(device != nullptr, "a scenario without a device was loaded");
  const Settings* base = device->is_scalar() ? device : device->find("inherits");
  if (base == nullptr || !base->is_scalar())
    throw sim::UserError(device->place(), "cluster.device",
                         "got a device that is written out, expected the name of one to inherit for --kernels");
  const std::string name = scenarios::resolve(scenarios::shelf_of("devices"), *base).document.at("name").text();
  std::string out = wrapped(
      fmt::format(
          "Learnt from {} by orrery learn --kernels: how fast this job's kernels run in its steps, class by class.",
          fmt::join(files, ", ")),
      "# ", "# ");
  // Fabrics know devices by the beginning of their names.
  out += fmt::format("name: {}-learnt\ninherits: {}\n", name, base->text());
  out += "provenance: rates learnt from profiler traces of the user's own job (orrery learn); the rest as inherited\n";
  std::map<std::string, std::string> blocks;
  for (const LearntKernels& row : kernels) {
    for (std::size_t k = 0; k < row.keys.size(); ++k) {
      const std::size_t dot = row.keys[k].rfind('.');
      const std::string block = row.keys[k].substr(0, dot), pad = block == "sustained" ? "  " : "    ";
      if (k == 0)
        blocks[block] += wrapped(
            fmt::format("{}: {} kernels, {} a step, {} predicted{}", row.what, row.samples, time_text(row.measured_s),
                        time_text(row.predicted_s), row.at_bound ? "; at its bound, and still not met" : ""),
            pad + "# ", pad + "#   ");
      blocks[block] += fmt::format("{}{}: {:.6g}\n", pad, row.keys[k].substr(dot + 1), row.values[k]);
    }
  }
  const char* provenance = "provenance: learnt (orrery learn --kernels), the rest as inherited";
  if (blocks.contains("sustained")) out += fmt::format("sustained:\n  {}\n{}", provenance, blocks["sustained"]);
  if (blocks.contains("streaming.efficiency"))
    out += fmt::format("streaming:\n  {}\n  efficiency:\n{}", provenance, blocks["streaming.efficiency"]);
  std::string kernels_of;
  for (const char* kind : {"flash_1", "flash_2"}) {
    const auto at = blocks.find(std::string("attention_kernels.") + kind);
    if (at != blocks.end()) kernels_of += fmt::format("  {}:\n    {}\n{}", kind, provenance, at->second);
  }
  if (!kernels_of.empty()) out += "attention_kernels:\n" + kernels_of;
  for (const std::string section : {"scans", "sparse"}) {
    std::string mixers;
    for (const auto& [block, lines] : blocks)
      if (block.starts_with(section + "."))
        mixers += fmt::format("  {}:\n    {}\n{}", block.substr(section.size() + 1), provenance, lines);
    if (!mixers.empty()) out += fmt::format("{}:\n{}", section, mixers);
  }
  return out;
}

}  // namespace orrery::tools
