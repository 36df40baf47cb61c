// orrery_fit PROFILE.yaml --source TEXT [--gemm F.csv]... [--rows-of N] [--experts F.csv] [--attention F.csv]
//           [--nccl F.csv] [--in-switch-from N] [--also OTHER.yaml]...
// orrery_fit PROFILE.yaml --source TEXT --ragged F.csv
// Adds to the products that the profile holds what rows that fill no tiles take, and leaves all else of them.
// --rows-of leaves out products whose m is no multiple of N; of a table of several devices only the profile's rows
// count. Fits the kernel-time model of a device to tables of measurements and rewrites the fitted part of its profile,
// below the marker line, section by section: those without a table stay, and everything above is hand-written and
// kept. --nccl fits rates by a law of the group size where the node is one of switches, and else one for each size.
// --experts takes the launch from the products that the profile holds. --also writes the same fit into the
// profile of a sibling device.
// orrery_fit SERVING.yaml --source TEXT --serving F.csv...
// Fits the kernels of engines on the device whose profile the document names.
// orrery_fit DISPATCHER.yaml --source TEXT --exchanges F.csv
// Fits the kernels of a dispatcher, one for each device, pass and reach of the table, at the line rates that the
// devices' profiles state and NICs of 400 Gb/s.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "calibration/measure/fit_exchange.h"
#include "calibration/measure/fit_profile.h"
#include "calibration/measure/fit_serving.h"
#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "sim/text_file.h"

namespace {

using namespace orrery::calibration;
using orrery::sim::Settings;
using orrery::sim::UserError;

constexpr const char* kMarker = "# ---- written by orrery_fit from here on: edit above, or fit again ----";

struct Options {
  std::string profile, source, ragged, experts, exchanges, attention, nccl;
  std::vector<std::string> gemm, serving;
  std::int64_t rows_of = 1;
  double in_switch_from = 0;
  std::vector<std::string> also;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto next = [&]() -> std::string {
      if (i + 1 >= argc) throw UserError(word + ": wants a value");
      return argv[++i];
    };
    if (word == "--source")
      o.source = next();
    else if (word == "--gemm")
      o.gemm.push_back(next());
    else if (word == "--serving")
      o.serving.push_back(next());
    else if (word == "--rows-of")
      o.rows_of = std::max(1, std::atoi(next().c_str()));
    else if (word == "--ragged")
      o.ragged = next();
    else if (word == "--experts")
      o.experts = next();
    else if (word == "--exchanges")
      o.exchanges = next();
    else if (word == "--attention")
      o.attention = next();
    else if (word == "--nccl")
      o.nccl = next();
    else if (word == "--in-switch-from")
      o.in_switch_from = std::strtod(next().c_str(), nullptr);
    else if (word == "--also")
      o.also.push_back(next());
    else if (o.profile.empty() && !word.starts_with("--"))
      o.profile = word;
    else
      throw UserError(word + ": unknown option");
  }
  if (o.profile.empty() || o.source.empty())
    throw UserError("expected orrery_fit PROFILE.yaml --source TEXT --gemm F ...");
  return o;
}

/// A profile's text: what is written by hand, and the fitted sections by their keys.
struct Written {
  std::string head;
  std::map<std::string, std::string> sections;
};

/// Sections of fitted text: each from its key, which begins a line, to the next.
void take_sections(const std::string& text, std::map<std::string, std::string>& sections) {
  std::istringstream lines(text);
  std::string key;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    if (line[0] != ' ' && line[0] != '#') {
      key = line.substr(0, line.find(':'));
      sections[key].clear();
    }
    if (!key.empty()) sections[key] += line + "\n";
  }
}

Written written(const std::string& file) {
  const std::string text = orrery::sim::read_text(file, "a device profile");
  const std::size_t at = text.find(kMarker);
  if (at == std::string::npos) throw UserError(file + ": has no line '" + kMarker + "'");
  Written out{text.substr(0, at), {}};
  take_sections(text.substr(at + std::string(kMarker).size()), out.sections);
  return out;
}

/// Writes `fitted` over the sections that it has, and keeps the others.
void write(const std::string& file, Written to, const std::string& fitted) {
  take_sections(fitted, to.sections);
  std::ofstream out(file);
  out << to.head << kMarker << "\n";
  for (const char* key : {"gemm", "experts", "attention", "collectives", "kernels", "engines"})
    if (const auto section = to.sections.find(key); section != to.sections.end()) out << "\n" << section->second;
}

/// The data sheet, from the hand-written part.
DeviceProfile::Model data_sheet(const Settings& head) {
  DeviceProfile::Model m;
  m.sheet.processors = head.at("processors").as_int(1);
  const Settings& peak = head.at("peak");
  m.sheet.peak.fill(peak.at(peak.find("bf16") != nullptr ? "bf16" : "fp16").as_flop_rate().value());
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const Settings* own = peak.find(data_type_names()[t]);
    const Settings* p = own == nullptr && is_quantised(static_cast<DataType>(t)) ? peak.find("fp8") : own;
    if (p != nullptr) m.sheet.peak[t] = p->as_flop_rate().value();
  }
  m.sheet.memory_bandwidth = head.at("memory_bandwidth").as_bandwidth().value();
  return m;
}

std::vector<GemmSample> gemm_samples(const Options& o) {
  std::vector<GemmSample> out;
  for (const std::string& file : o.gemm)
    for (const GemmSample& s : read_samples(file).gemm)
      if (s.shape.m % o.rows_of == 0) out.push_back(s);
  return out;
}

/// Of the kernel that a profile holds: 16 bit.
std::vector<AttentionSample> attention_samples(const std::string& file) {
  std::vector<AttentionSample> out = read_samples(file).attention;
  std::erase_if(out, [](const AttentionSample& s) { return bytes_of(s.shape.dtype) != 2; });
  return out;
}

/// Of the profile's device; of repeats of one measurement the median, so that no fold is judged on another's twin.
std::vector<CollectiveSample> collective_samples(const std::string& file, const std::string& profile) {
  std::map<std::tuple<CollectiveOp, std::int64_t, std::int64_t>, std::vector<CollectiveSample>> repeats;
  for (const CollectiveSample& s : read_samples(file).collective)
    if (profile.starts_with(s.device)) repeats[{s.op, s.gpus, s.bytes.value()}].push_back(s);
  std::vector<CollectiveSample> out;
  for (auto& [what, times] : repeats) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end(),
                     [](const CollectiveSample& a, const CollectiveSample& b) { return a.seconds < b.seconds; });
    out.push_back(*middle);
  }
  return out;
}

/// Bytes/s of the links of a GPU of the device: as the first of its profiles says.
double line_rate_of(const std::string& device) {
  const auto& shelf = orrery::scenarios::shelf_of("devices");
  for (const std::string& name : orrery::scenarios::shipped("devices"))
    if (name.starts_with(device)) {
      const Settings document =
          orrery::scenarios::resolve(shelf, Settings::scalar(name, {"orrery_fit", 1, 1})).document;
      return document.at("node").at("rate").as_bandwidth().value();
    }
  throw UserError(device + ": no device profile is called so");
}

int run_exchanges(const Options& o) {
  constexpr double kNic = 50e9;
  const Written text = written(o.profile);
  const std::string library = orrery::scenarios::parse_yaml(text.head, o.profile).at("name").text();
  std::map<std::tuple<bool, ExchangePass, std::string>, std::vector<ExchangeSample>> kinds;
  for (const ExchangeSample& s : read_samples(o.exchanges).exchange)
    if (s.library == library) kinds[{s.shape.nodes > 1, s.pass, s.device}].push_back(s);
  std::string out = "kernels:  # fitted to published measurements: " + o.source + "\n";
  for (const auto& [what, samples] : kinds) {
    const auto& [network, pass, device] = what;
    const ExchangeKind kind{device, pass, network, samples.front().shape.processors > 0,
                            network ? kNic : line_rate_of(device)};
    const FitError error = judge_exchange(kind, samples);
    std::cerr << device << (pass == ExchangePass::dispatch ? " dispatch" : " combine") << (network ? ", nodes" : "")
              << ": " << error.samples << " samples, " << error.median_ape << " / " << error.p90_ape << " %\n";
    out += to_yaml(fit_exchange(kind, samples), error);
  }
  write(o.profile, text, out);
  return 0;
}

int run_serving(const Options& o) {
  const Written text = written(o.profile);
  const Settings name = orrery::scenarios::parse_yaml(text.head, o.profile).at("name");
  const Settings device = orrery::scenarios::resolve(orrery::scenarios::shelf_of("devices"), name).document;
  std::vector<ServingSample> samples;
  for (const std::string& file : o.serving) {
    const ServingSamples read = read_serving_samples(file);
    for (const auto& [why, count] : read.left_out)
      std::cerr << file << ": " << count << " rows left out: " << why << "\n";
    samples.insert(samples.end(), read.rows.begin(), read.rows.end());
  }
  const FittedServing fitted = fit_serving(facts_of(DeviceProfile::load(device)), samples);
  std::cerr << fitted.summary;
  write(o.profile, text, fitted.yaml);
  return 0;
}

/// The block of a type in a section's text: from its key to the next of the same indent.
std::pair<std::size_t, std::size_t> block_of(const std::string& section, std::string_view type) {
  const std::string key = "\n  " + std::string(type) + ":";
  const std::size_t begin = section.find(key);
  if (begin == std::string::npos) throw UserError("gemm: has no " + std::string(type));
  std::size_t end = begin + 1;
  do end = section.find("\n  ", end + 1);
  while (end != std::string::npos && section[end + 3] == ' ');
  return {begin + 1, end == std::string::npos ? section.size() : end + 1};
}

/// Without what an earlier run added.
std::string without_ragged(const std::string& block) {
  std::istringstream lines(block);
  std::string out, line;
  bool skips = false;
  while (std::getline(lines, line)) {
    const bool key = line.starts_with("    ") && line.size() > 4 && line[4] != ' ';
    if (key) skips = line.starts_with("    row_step:") || line.starts_with("    ragged:");
    if (!skips) out += line + "\n";
  }
  return out;
}

int run_ragged(const Options& o) {
  Written text = written(o.profile);
  const Settings name = orrery::scenarios::parse_yaml(text.head, o.profile).at("name");
  const Settings document = orrery::scenarios::resolve(orrery::scenarios::shelf_of("devices"), name).document;
  const DeviceProfile device = DeviceProfile::load(document);
  const std::vector<GemmSample> all = read_samples(o.ragged).gemm;
  std::string& section = text.sections["gemm"];
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    std::vector<GemmSample> samples;
    for (const GemmSample& s : all)
      if (s.shape.dtype == type) samples.push_back(s);
    if (samples.empty()) continue;
    GemmModel whole = device.model().gemm[t];
    whole.row_step = 1;
    whole.ragged = {};
    const GemmModel model = fit_ragged(whole, samples);
    if (model.ragged.value.empty()) continue;
    const FitError error = judge_ragged(whole, samples, kFolds).held_out;
    std::cerr << name_of(type) << ": " << error.samples << " samples, cross-validated " << error.median_ape << " / "
              << error.p90_ape << " %, steps of " << model.row_step << " rows\n";
    const auto [begin, end] = block_of(section, name_of(type));
    std::string added = ragged_yaml(model, 4);
    char judged[96];
    std::snprintf(judged, sizeof judged, "ragged:  # %zu samples, cross-validated %.2f / %.2f %%; ", error.samples,
                  error.median_ape, error.p90_ape);
    added.replace(added.find("ragged:  # "), std::strlen("ragged:  # "), judged);
    section.replace(begin, end - begin, without_ragged(section.substr(begin, end - begin)) + added);
  }
  write(o.profile, text, "");
  return 0;
}

int run(const Options& o) {
  if (!o.ragged.empty()) return run_ragged(o);
  if (!o.serving.empty()) return run_serving(o);
  if (!o.exchanges.empty()) return run_exchanges(o);
  const Written text = written(o.profile);
  const Settings settings = orrery::scenarios::parse_yaml(text.head, o.profile);
  const DeviceProfile::Model device = data_sheet(settings);
  const std::string provenance = "'fitted to published measurements: " + o.source + "'";
  std::string sections;
  const auto add = [&](const FittedSection& fitted) {
    sections += fitted.yaml;
    std::cerr << fitted.summary;
  };
  if (!o.gemm.empty()) {
    const std::vector<GemmSample> samples = gemm_samples(o);
    sections += "\ngemm:  # model: calibration/device/gemm_model.h; error: cross-validated over folds\n";
    for (std::size_t t = 0; t < kDataTypes; ++t)
      add(fit_gemm_section(samples, static_cast<DataType>(t), device, provenance));
  }
  if (!o.experts.empty()) {
    const Settings whole =
        orrery::scenarios::parse_yaml(orrery::sim::read_text(o.profile, "a device profile"), o.profile);
    add(fit_experts_section(read_samples(o.experts).experts, DeviceProfile::load(whole).model(), provenance));
  }
  if (!o.attention.empty()) {
    sections += "\n";
    add(fit_attention_section(attention_samples(o.attention), device, provenance));
  }
  if (!o.nccl.empty()) {
    const Settings& node = settings.at("node");
    const double line = node.at("rate").as_bandwidth().value() * node.at("efficiency").as_number(0, 1);
    sections += "\n";
    add(fit_collective_section(collective_samples(o.nccl, settings.at("name").text()), line, o.in_switch_from,
                               provenance, o.nccl,
                               node.at("kind").text() == "nvswitch" ? GroupRates::by_law : GroupRates::own));
  }
  write(o.profile, text, sections);
  for (const std::string& other : o.also) {
    std::string transferred = sections;
    const std::string from = settings.at("name").text();
    for (std::size_t at = 0; (at = transferred.find("'fitted to", at)) != std::string::npos; at += 8)
      transferred.replace(at, 1, "'transferred from " + from + ", there ");
    write(other, written(other), transferred);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const UserError& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
