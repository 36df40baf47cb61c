// Kernels of a compiled program, added up by layer, pass and name. See layer_lines.h.
#include "tools/report/layer_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "calibration/framework/recipe.h"
#include "tools/report/text.h"
#include "workloads/groups/streams.h"

namespace orrery::tools {

namespace {

using workloads::Kernel;
using workloads::LayerKind;
using workloads::OpNote;

std::string_view name_of(workloads::PassKind pass) {
  static constexpr std::array<std::string_view, 4> kNames{"forward", "backward", "input gradient", "weight gradient"};
  return kNames[static_cast<std::size_t>(pass)];
}

/// Kinds of blocks are numbered where a network has several.
std::vector<std::string> names_of_kinds(const workloads::Network& network) {
  std::vector<std::string> names;
  const auto blocks = std::count_if(network.kinds.begin(), network.kinds.end(),
                                    [](const workloads::Layer& layer) { return layer.kind == LayerKind::block; });
  int block = 0;
  for (const workloads::Layer& layer : network.kinds) {
    names.emplace_back(workloads::name_of(layer.kind));
    if (layer.kind == LayerKind::block && blocks > 1) names.back() += fmt::format(" {}", ++block);
  }
  return names;
}

std::string origin(const LayerLine& line) {
  return line.recipe != nullptr ? fmt::format("{}: {}", calibration::name_of(line.recipe->part), line.recipe->variant)
                                : "";
}

class LineWriter {
 public:
  LineWriter(const workloads::StagePrograms& programs, const workloads::Network& network, std::int64_t stage)
      : programs_(programs),
        network_(network),
        program_(programs.programs[static_cast<std::size_t>(stage)]),
        notes_(programs.notes[static_cast<std::size_t>(stage)]),
        kinds_(names_of_kinds(network)) {}

  LayerLines write() {
    for (std::uint32_t op = 0; op < program_.size(); ++op) {
      const bool computes = program_.kind[op] == sim::OpKind::compute &&
                            program_.category[op] == static_cast<std::uint8_t>(workloads::Category::compute);
      if (computes && notes_[op].whole == workloads::kNoWholePass) add(op);
    }
    return std::move(out_);
  }

 private:
  /// Kernels of an operation take what it takes: those beside a collective are slower than they are alone.
  void add(std::uint32_t op) {
    const OpNote& note = notes_[op];
    const std::vector<Kernel>& kernels = programs_.runs[note.run];
    double alone = 0;
    for (const Kernel& kernel : kernels) alone += sim::to_seconds(kernel.time);
    const double takes = sim::to_seconds(sim::Duration(program_.duration[op]));
    out_.seconds += takes;
    for (const Kernel& kernel : kernels) {
      LayerLine& line = line_of(note, kernel);
      ++line.calls;
      line.launches += kernel.launches;
      line.bytes += kernel.bytes;
      line.flops += kernel.flops;
      line.seconds += alone > 0 ? takes * sim::to_seconds(kernel.time) / alone : 0;
    }
  }

  LayerLine& line_of(const OpNote& note, const Kernel& kernel) {
    const int kind = note.layer < 0 ? -1 : network_.layers[static_cast<std::size_t>(note.layer)];
    const auto [at, fresh] = places_.try_emplace({kind, note.kind, kernel.name}, out_.lines.size());
    if (fresh) {
      LayerLine& line = out_.lines.emplace_back();
      line.layer = kind < 0 ? "" : kinds_[static_cast<std::size_t>(kind)];
      line.pass = name_of(note.kind);
      line.kernel = kernel.name;
      line.recipe = kernel.recipe;
    }
    return out_.lines[at->second];
  }

  const workloads::StagePrograms& programs_;
  const workloads::Network& network_;
  const sim::Program& program_;
  const std::vector<OpNote>& notes_;
  std::vector<std::string> kinds_;
  std::map<std::tuple<int, workloads::PassKind, std::string>, std::size_t> places_;
  LayerLines out_;
};

}  // namespace

LayerLines layer_lines(const workloads::StagePrograms& programs, const workloads::Network& network,
                       std::int64_t stage) {
  LayerLines out = LineWriter(programs, network, stage).write();
  // A layer's lines of a pass stand together, where the program runs the first of them.
  std::map<std::pair<std::string, std::string>, std::size_t> begins;
  for (std::size_t i = 0; i < out.lines.size(); ++i) begins.try_emplace({out.lines[i].layer, out.lines[i].pass}, i);
  const auto begin_of = [&](const LayerLine& line) { return begins.at({line.layer, line.pass}); };
  std::stable_sort(out.lines.begin(), out.lines.end(),
                   [&](const LayerLine& a, const LayerLine& b) { return begin_of(a) < begin_of(b); });
  return out;
}

std::string text(const LayerLines& lines) {
  std::ostringstream out;
  TextTable table({{"kernel", Align::left},
                   {"calls"},
                   {"launches"},
                   {"bytes\na call"},
                   {"FLOPs\na call"},
                   {"time\na call"},
                   {"time\na step"},
                   {"recipe", Align::left}});
  std::string heading;
  std::set<std::string> sources;
  for (const LayerLine& line : lines.lines) {
    const std::string here = fmt::format("{}{}{}", line.layer, line.layer.empty() ? "" : ", ", line.pass);
    if (here != heading) table.add_note(here);
    heading = here;
    const auto calls = static_cast<double>(line.calls);
    table.add_row({shortened(line.kernel, 32), count_text(calls), count_text(static_cast<double>(line.launches)),
                   line.bytes > 0 ? bytes_text(line.bytes / calls) : "",
                   line.flops > 0 ? si_text(line.flops / calls, "") : "", time_text(line.seconds / calls),
                   time_text(line.seconds), origin(line)});
    if (line.recipe != nullptr) sources.insert(fmt::format("{}: {}", origin(line), line.recipe->source));
  }
  table.write(out);
  out << fmt::format("\nCompute of the stage in a step: {}.\n", time_text(lines.seconds));
  if (!sources.empty()) out << "\nRecipes (calibration/recipes)\n";
  for (const std::string& source : sources) out << wrapped(source, "  ", "    ");
  return out.str();
}

nlohmann::ordered_json to_json(const LayerLines& lines) {
  nlohmann::ordered_json json;
  json["compute_s"] = lines.seconds;
  json["layer_lines"] = nlohmann::ordered_json::array();
  for (const LayerLine& line : lines.lines) {
    nlohmann::ordered_json row{{"layer", line.layer},      {"pass", line.pass},         {"line", line.kernel},
                               {"line_calls", line.calls}, {"launches", line.launches}, {"line_bytes", line.bytes},
                               {"line_flops", line.flops}, {"line_s", line.seconds},    {"recipe", nullptr},
                               {"recipe_source", nullptr}};
    if (line.recipe != nullptr) {
      row["recipe"] = origin(line);
      row["recipe_source"] = line.recipe->source;
    }
    json["layer_lines"].push_back(std::move(row));
  }
  return json;
}

}  // namespace orrery::tools
