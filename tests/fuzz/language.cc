// The language below documents: YAML, units, changes from the command line, values written back.
#include <cmath>

#include "scenarios/scenario.h"
#include "scenarios/yaml_text.h"
#include "tests/fuzz/target.h"
#include "tools/fit/step_fit.h"
#include "tools/report/csv.h"
#include "tools/study/variation.h"

namespace orrery::fuzz {

using sim::Settings;

namespace {

const Settings& small_job() {
  static const Settings kJob = scenarios::parse_yaml(
      "cluster: {device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}\n"
      "model: {layers: 4, hidden: 512, heads: 8, vocab: 1024, seq: 256}\n"
      "parallelism: {tensor: 2, pipeline: 2, data: 4}\nbatch: {global: 16, micro: 1}\n",
      "base");
  return kJob;
}

/// What was read and written is read and written as the same.
void read_yaml(const std::string& text) {
  const Settings document = scenarios::parse_yaml(text, "input");
  if (!document.is_mapping()) return;
  const std::string once = scenarios::yaml_text(document);
  expect(scenarios::yaml_text(scenarios::parse_yaml(once, "again")) == once, "YAML that does not come back");
}

template <class Read>
void tried(Read read) {
  try {
    read();
  } catch (const sim::UserError&) {
  }
}

void read_units(const std::string& text) {
  const Settings value = Settings::scalar(text, {"input", 1, 1}, true);
  tried([&] { expect(value.as_bytes().value() >= 0, "bytes below zero"); });
  tried([&] {
    const double rate = value.as_bandwidth().value();
    expect(std::isfinite(rate) && rate > 0, "a bandwidth that is none");
  });
  tried([&] {
    const double rate = value.as_flop_rate().value();
    expect(std::isfinite(rate) && rate > 0, "a rate of FLOPs that is none");
  });
  tried([&] { expect(value.as_duration().value() >= 0, "a time below zero"); });
  tried([&] { expect(std::isfinite(value.as_watts()), "watts that are no number"); });
  tried([&] { expect(std::isfinite(value.as_joules()), "joules that are no number"); });
  tried([&] {
    const double number = value.as_number(-1e300, 1e300);
    expect(number >= -1e300 && number <= 1e300, "a number beyond its bounds");
  });
  tried([&] {
    const std::int64_t number = value.as_int(-1'000'000, 1'000'000);
    expect(number >= -1'000'000 && number <= 1'000'000, "an integer beyond its bounds");
  });
  tried([&] { value.as_bool(); });
  value.as_choice({"alpha", "beta"});
}

void read_csv_line(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  std::vector<std::string> cells;
  try {
    cells = tools::csv_cells(line);
  } catch (const std::invalid_argument&) {
    return;  // what its callers make a refusal of, with their place
  }
  for (const std::string& cell : cells) {
    if (cell.find_first_of("\r\n") != std::string::npos) return;
  }
  expect(tools::csv_cells(tools::csv_line(cells)) == cells, "cells that do not come back");
}

void read_set(const std::string& text) {
  Settings document = small_job();
  scenarios::apply_set(document, text);
  scenarios::load_scenario(document);
}

void read_vary(const std::string& text) {
  std::vector<tools::Variation> variations;
  variations.push_back(tools::parse_variation(text));
  const tools::Product product(std::move(variations), 1000);
  expect(product.size() > 0 && product.size() <= 1000, "a product beyond its limit");
  Settings document = small_job();
  product.apply(product.size() - 1, document);
  scenarios::load_scenario(document);
}

/// The key on the first line is given a value in the document behind it, which must then say so.
void read_write_value(const std::string& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) throw sim::UserError("got one line, expected a key and a document");
  const std::string key = text.substr(0, end);
  const std::string changed = tools::with_value(text.substr(end + 1), "input", key, "3 us");
  const Settings document = scenarios::parse_yaml(changed, "changed");
  const Settings* value = document.find_path(key);
  expect(value != nullptr && value->text() == "3 us", "a value that was not written");
}

std::vector<std::string> yaml_seeds() {
  std::vector<std::string> seeds = shipped_texts("scenarios", ".yaml");
  seeds.emplace_back(
      "a: 'it''s'\nb: \"\\u00e9\\t\"\nc: |\n  text\n  more\nd: >-\n  folded\n  text\ne: [1, [2, {f: g}]]\n");
  return seeds;
}
std::vector<std::string> unit_seeds() {
  return {"80 GB",  "80 GiB",  "512 MB", "4096 B", "400 Gb/s", "3.35 TB/s", "989 TFLOP/s", "5 us",  "130 ns",
          "1.2 ms", "14 days", "20 min", "2 h",    "700 W",    "1.2 kW",    "0.9 pJ",      "12 nJ", "1e9",
          "0x10",   "true",    "alpha",  "1_000",  "-3",       "nan",       "inf"};
}
std::vector<std::string> csv_seeds() { return {"a,b,c", "\"a,b\",\"say \"\"so\"\"\",", "'=1+1,,-2,@x", "\"\"", ","}; }
std::vector<std::string> set_seeds() {
  return {"parallelism.tensor=1",
          "parallelism.data=null",
          "perturb.slow_gpus=[{gpu: 0, slowdown: 4}]",
          "cluster.fabric.nic_rate='4000 Gb/s'",
          "software.step_host='100 s'",
          "model={layers: 8, hidden: 1024, heads: 8, vocab: 1000, seq: 128}",
          "recompute={kind: selective, modules: [mlp]}",
          "batch.global=32"};
}
std::vector<std::string> vary_seeds() {
  return {"parallelism.tensor=8,4,1,2",
          "batch.micro=1:4:2",
          "model.layers=4:64:+4",
          "recompute=none,full",
          "cluster.fabric={inherits: ndr-rail, nic_rate: 200 Gb/s},ndr-rail",
          "precision='bf16',\"fp8\""};
}
std::vector<std::string> write_value_seeds() {
  std::vector<std::string> seeds{"a.b\na:\n  b: 1 us  # why\n  c: 2\n", "x\n# comment\ny: [1, 2]\nx: 'text'\n"};
  for (const std::string& text : shipped_texts("calibration/software", ".yaml")) seeds.push_back("host.step\n" + text);
  return seeds;
}

}  // namespace

std::vector<Target> language_targets() {
  return {{"yaml", "any YAML", read_yaml, yaml_seeds},
          {"units", "a quantity", read_units, unit_seeds},
          {"csv", "a line of a table", read_csv_line, csv_seeds},
          {"set", "--set", read_set, set_seeds},
          {"vary", "--vary", read_vary, vary_seeds},
          {"write-value", "a document to be changed in one place", read_write_value, write_value_seeds}};
}

}  // namespace orrery::fuzz
