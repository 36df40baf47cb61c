// Reading and writing of serving_sections.h, and the keys of the documents, which follow from the families.
#include "calibration/device/serving_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "calibration/device/serving_families.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

using sim::Settings;
using Unit = ServingFamily::Parameter::Unit;

double parameter_at(const Settings& section, const ServingFamily::Parameter& p) {
  const Settings& value = section.at(p.name);
  switch (p.unit) {
    case Unit::seconds:
      return sim::to_seconds(value.as_duration());
    case Unit::rate:
      return value.as_bandwidth().value();
    case Unit::plain:
      break;
  }
  return value.as_number(1e-4, 1e9);
}

/// Thousandths, separated by spaces: a list of scalars would take a reader ten times as long.
std::vector<double> thousandths(const Settings& text, std::size_t expected) {
  std::vector<double> out;
  const std::string& all = text.text();
  const char* at = all.data();
  const char* const end = at + all.size();
  while (at != end) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || std::abs(value) > 5000) text.expected("whole numbers of up to 5000, between spaces");
    out.push_back(value * 1e-3);
    at = next;
  }
  if (out.size() != expected)
    text.expected(fmt::format("{} numbers, one for each knot, and not {}", expected, out.size()));
  return out;
}

Correction::Grid grid_at(const Settings& section, const ServingFamily& family) {
  Correction::Grid out;
  // Values lie in the order in which the document names the sizes.
  for (const auto& [name, knots] : section.members()) {
    const auto& sizes = family.sizes_of_correction;
    const auto size = std::find(sizes.begin(), sizes.end(), name);
    if (size == sizes.end()) continue;
    Correction::Axis own{static_cast<std::size_t>(size - sizes.begin()), {}};
    if (!knots.is_sequence() || knots.items().empty()) knots.expected("a list of sizes");
    if (knots.items().size() > 100) knots.expected("at most 100 sizes");
    for (const Settings& item : knots.items()) {
      own.knots.push_back(item.as_number(1e-3, 1e12));
      if (own.knots.size() > 1 && !(own.knots.back() > own.knots[own.knots.size() - 2]))
        item.expected("more than the one before it");
    }
    out.axes.push_back(own);
    if (out.axes.size() > kMostAxes) section.expected(fmt::format("at most {} sizes", kMostAxes));
  }
  if (out.knots() > 100000) section.expected("at most 100000 knots");
  out.value = thousandths(section.at("per_mille"), out.knots());
  return out;
}

ServingKernel kernel_at(const Settings& section, const ServingFamily& family) {
  ServingKernel out{&family, {}, {}};
  for (const ServingFamily::Parameter& p : family.parameters) out.parameters.push_back(parameter_at(section, p));
  if (const Settings* grids = section.find("correction")) {
    if (!grids->is_sequence() || grids->items().size() > kMostGrids)
      grids->expected(fmt::format("a list of up to {} grids", kMostGrids));
    for (const Settings& grid : grids->items()) out.correction.grids.push_back(grid_at(grid, family));
  }
  return out;
}

std::string number_list(const std::vector<double>& values) {
  std::string out = "[";
  for (const double v : values) out += fmt::format("{}{:.6g}", out.size() > 1 ? ", " : "", v);
  return out + "]";
}

}  // namespace

std::shared_ptr<const ServingKernels::Model> load_serving(const DeviceProfile& device, Engine engine,
                                                          const sim::Settings* document) {
  auto out = std::make_shared<ServingKernels::Model>();
  out->facts = facts_of(device);
  out->provenance = "assumed: structures at common shares of the data sheet";
  for (const ServingFamily* family : serving_families()) {
    out->fitted.emplace_back(family->variants.size());
    out->assumed.push_back(assumed_kernel(*family));
  }
  if (document == nullptr) return out;
  if (!document->is_mapping()) document->expected("kernels of engines: a mapping of keys");
  serving_keys().check(*document);
  out->provenance = document->get_text("provenance", out->provenance);
  const Settings& engines = document->at("engines");
  for (const auto& [name, unused] : engines.members())
    if (name != name_of(Engine::trtllm) && name != name_of(Engine::vllm) && name != name_of(Engine::sglang))
      engines.fail(fmt::format("got {}, expected trtllm, vllm or sglang", name));
  if (const Settings* tiles = document->find("query_tiles"); tiles != nullptr && engine == Engine::vllm)
    out->tiles = {tiles->at("rate").as_number(), sim::to_seconds(tiles->at("setup").as_duration()),
                  tiles->at("bandwidth").as_number()};
  if (const Settings* searched = document->find("searched"); searched != nullptr)
    out->searched = searched->at("nvfp4").as_number();
  const Settings* own = engines.find(name_of(engine));
  if (own == nullptr) return out;
  for (std::size_t f = 0; f < serving_families().size(); ++f) {
    const ServingFamily& family = *serving_families()[f];
    const Settings* section = own->find(family.name);
    if (section == nullptr) continue;
    for (const auto& [key, value] : section->members()) {
      const auto variant = std::find(family.variants.begin(), family.variants.end(), key);
      if (variant == family.variants.end()) value.expected(fmt::format("one of the variants of {}", family.name));
      out->fitted[f][static_cast<std::size_t>(variant - family.variants.begin())] = kernel_at(value, family);
    }
  }
  return out;
}

std::string to_yaml(const ServingKernel& kernel, const ServingError& error, const std::string& provenance, int indent) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  std::string out;
  if (!provenance.empty()) out += pad + "provenance: " + provenance + "\n";
  out += fmt::format(
      "{}error: {{samples: {}, median_pct: {:.2f}, p90_pct: {:.2f}, held_out: {}, held_out_median_pct: {:.2f}, "
      "held_out_p90_pct: {:.2f}}}\n",
      pad, error.all.samples, error.all.median_ape, error.all.p90_ape, error.held_out.samples,
      error.held_out.median_ape, error.held_out.p90_ape);
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const ServingFamily::Parameter& p = kernel.family->parameters[i];
    const double v = kernel.parameters[i];
    const std::string text = p.unit == Unit::seconds ? fmt::format("{:.6f} us", v * 1e6)
                             : p.unit == Unit::rate  ? fmt::format("{:.4g} GB/s", v * 1e-9)
                                                     : fmt::format("{:.4g}", v);
    out += fmt::format("{}{}: {}\n", pad, p.name, text);
  }
  if (kernel.correction.grids.empty()) return out;
  out += pad + "correction:\n";
  for (const Correction::Grid& grid : kernel.correction.grids) {
    const char* begin = "- ";
    for (const Correction::Axis& axis : grid.axes) {
      out += fmt::format("{}{}{}: {}\n", pad, begin, kernel.family->sizes_of_correction[axis.size],
                         number_list(axis.knots));
      begin = "  ";
    }
    out += fmt::format("{}  per_mille: >-\n", pad);
    std::string line;
    for (const double v : grid.value) {
      line += fmt::format("{}{}", line.empty() ? "" : " ", std::lround(v * 1e3));
      if (line.size() < 100) continue;
      out += fmt::format("{}    {}\n", pad, line);
      line.clear();
    }
    if (!line.empty()) out += fmt::format("{}    {}\n", pad, line);
  }
  return out;
}

const sim::KeyTable& serving_keys() {
  static const sim::KeyTable table = [] {
    std::vector<sim::Key> rows{
        {"name", "text", "", "", {}, "Name of the device's profile."},
        {"provenance", "text", "", "-", {}, "What was measured, fitted or transferred."},
        {"query_tiles",
         "mapping",
         "",
         "-",
         {},
         "Of vLLM's attention by FlashAttention 2, where decodes beside prompts take a tile of queries a head."},
        {"query_tiles.provenance", "text", "", "-", {}, "Where its numbers come from."},
        {"query_tiles.rate", "number", "", "", {}, "Share of the 16-bit peak that a tile computes at.", {"0.01", "1"}},
        {"query_tiles.setup", "quantity", "s", "", {}, "Beginning and end of a tile.", {"0 s", "1 ms"}},
        {"query_tiles.bandwidth", "number", "", "", {}, "Share of memory's rate that tiles reach.", {"0.01", "1"}},
        {"searched", "mapping", "", "-", {}, "Products of many rows by the kernels that a search finds."},
        {"searched.provenance", "text", "", "-", {}, "Where its numbers come from."},
        {"searched.nvfp4", "number", "", "", {}, "How much quicker than by those taken unasked.", {"1", "4"}},
        {"engines", "mapping", "", "", {}, "Kernels by engine: trtllm, vllm, sglang."},
        {"engines.*", "mapping", "", "-", {}, "Kernels of one engine."},
    };
    for (const ServingFamily* family : serving_families()) {
      const std::string of = fmt::format("engines.*.{}", family->name);
      const std::string one = of + ".*.";
      rows.push_back({of, "mapping", "", "-", {}, fmt::format("By variant: {}.", family->meaning)});
      rows.push_back({of + ".*", "mapping", "", "-", {}, "One kernel."});
      rows.push_back({one + "provenance", "text", "", "-", {}, "Where its numbers come from."});
      rows.push_back({one + "error", "mapping", "", "-", {}, "How far it is from what it was fitted to, in percent."});
      for (const char* key :
           {"samples", "median_pct", "p90_pct", "held_out", "held_out_median_pct", "held_out_p90_pct"})
        rows.push_back({one + "error." + key, "number", "", "-", {}, "Of all samples, and of those held out."});
      for (const ServingFamily::Parameter& p : family->parameters)
        rows.push_back({one + std::string(p.name),
                        p.unit == Unit::plain ? "number" : "quantity",
                        p.unit == Unit::seconds ? "s"
                        : p.unit == Unit::rate  ? "bytes/s"
                                                : "",
                        "",
                        {},
                        fmt::format("{}{}.", static_cast<char>(std::toupper(p.meaning[0])), p.meaning.substr(1))});
      rows.push_back({one + "correction", "list", "", "-", {}, "ln(time / structure), a sum of grids between knots."});
      for (const std::string_view size : family->sizes_of_correction)
        rows.push_back({fmt::format("{}correction[].{}", one, size), "list", "", "-", {}, "Knots."});
      rows.push_back({one + "correction[].per_mille", "text", "", "", {}, "Thousandths, row-major."});
    }
    return sim::KeyTable(std::move(rows));
  }();
  return table;
}

}  // namespace orrery::calibration
