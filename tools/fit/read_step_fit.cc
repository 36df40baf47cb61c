// The document of a fit:
//
//   description: host costs of Megatron-LM of 2021
//   parameters:
//   - {document: megatron-2021, key: software.kernel_issue, low: 1 us, high: 20 us, meaning: host time of a launch}
//   rows:
//   - {list: measured.yaml, records: [first-*, second-07], except: [first-3]}
//   target: step        # or memory
//   loss: squares       # or robust: errors beyond 5 % count linearly; heavy_tailed: beyond some 10 % hardly at all
//   weigh: rows         # or lists: every list counts alike
//   hold_out: {by: rows, folds: 5}  # or by: lists
//   ridge: 1            # weight of each parameter's prior, which is how far from its start it is expected to lie
//   starts: 2           # descents, from the present values, the middle of the bounds, and points spread over them
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "sim/error.h"
#include "tools/fit/step_fit.h"
#include "tools/validation.h"

namespace orrery::tools {

using sim::Settings;

namespace {

constexpr std::size_t kMostParameters = 30;

struct Amount {
  double value = 0;
  std::string unit;
};

/// A number and the unit behind it, as written.
Amount amount_of(const Settings& s) {
  if (!s.is_scalar()) s.fail("expected a number, with its unit where it has one");
  const std::size_t end = std::min(s.text().find_first_not_of("+-.0123456789eE"), s.text().size());
  const std::size_t unit = std::min(s.text().find_first_not_of(' ', end), s.text().size());
  const Settings number = Settings::scalar(s.text().substr(0, end), s.place());
  try {
    return {number.as_number(), s.text().substr(unit)};
  } catch (const sim::UserError&) {
    s.fail(fmt::format("got \"{}\", expected a number, with its unit where it has one", s.text()));
  }
}

/// In the base unit of whatever it is: seconds, bytes, bytes/s, FLOP/s, or a plain number.
std::optional<double> magnitude(const Settings& s) {
  const auto attempt = [](const auto& read) -> std::optional<double> {
    try {
      return read();
    } catch (const sim::UserError&) {
      return std::nullopt;
    }
  };
  if (const auto v = attempt([&] { return s.as_number(); })) return v;
  if (const auto v = attempt([&] { return sim::to_seconds(s.as_duration()); })) return v;
  if (const auto v = attempt([&] { return static_cast<double>(s.as_bytes().value()); })) return v;
  if (const auto v = attempt([&] { return s.as_bandwidth().value(); })) return v;
  return attempt([&] { return s.as_flop_rate().value(); });
}

/// What the document holds now, in `unit`.
std::optional<double> present_value(const FitParameter& p) {
  const Settings document = scenarios::whole_document(p.key.kind, p.file);
  const Settings* value = document.find_path(p.key.key);
  Settings fallback;
  if (value == nullptr) {
    const std::string place = p.key.kind == "software" ? "software." + p.key.key : p.path;
    for (const scenarios::Key& key : scenarios::schema()) {
      if (key.path == place) fallback = Settings::scalar(key.fallback, {"schema", 0, 0});
    }
    value = &fallback;
  }
  if (!value->is_scalar()) return std::nullopt;
  const auto now = magnitude(*value);
  const auto one = magnitude(Settings::scalar(p.unit.empty() ? "1" : "1 " + p.unit, {"unit", 0, 0}));
  if (!now || !one || *one == 0) return std::nullopt;
  return *now / *one;
}

FitParameter read_parameter(const Settings& s) {
  s.refuse_unknown({"document", "key", "low", "high", "start", "prior", "meaning"});
  FitParameter p;
  p.path = s.at("key").text();
  p.key = scenarios::document_key(s.at("key"));
  p.document = s.at("document").text();
  p.file = scenarios::document_file(p.key.kind, s.at("document"));
  p.meaning = s.get_text("meaning", "");
  const Amount low = amount_of(s.at("low")), high = amount_of(s.at("high"));
  if (high.unit != low.unit) {
    s.at("high").fail(fmt::format("got \"{}\", expected the unit of low, \"{}\"", high.unit, low.unit));
  }
  if (high.value <= low.value) s.at("high").fail(fmt::format("got {}, expected more than low", high.value));
  p.unit = low.unit;
  p.low = low.value;
  p.high = high.value;
  if (const Settings* start = s.find("start")) {
    const Amount read = amount_of(*start);
    if (read.unit != p.unit) start->fail(fmt::format("got \"{}\", expected the unit of the bounds", read.unit));
    if (read.value < p.low || read.value > p.high) start->fail("lies outside of the bounds, expected within");
    p.start = read.value;
  } else {
    const std::optional<double> now = present_value(p);
    if (!now) s.at("key").fail("its present value is no number in the unit of the bounds, expected start: VALUE");
    p.start = std::clamp(*now, p.low, p.high);
  }
  if (const Settings* prior = s.find("prior")) {
    const Amount read = amount_of(*prior);
    if (read.unit != p.unit) prior->fail(fmt::format("got \"{}\", expected the unit of the bounds", read.unit));
    if (read.value <= 0) prior->fail(fmt::format("got {}, expected more than 0", read.value));
    p.prior = read.value;
  }
  return p;
}

bool any_matches(const Settings* patterns, const std::string& id) {
  if (patterns == nullptr) return false;
  return std::any_of(patterns->items().begin(), patterns->items().end(),
                     [&](const Settings& p) { return matches(id, p.text()); });
}

/// Records of a list, as their sources have them.
void read_rows(StepFit& fit, const Settings& s) {
  s.refuse_unknown({"list", "records", "except"});
  const std::filesystem::path named(s.at("list").text());
  const std::filesystem::path beside = std::filesystem::path(s.place().file.text()).parent_path();
  const std::string file = named.is_absolute() ? named.string() : (beside / named).lexically_normal().string();
  const Settings* wanted = s.find("records");
  std::size_t found = 0;
  for (const ListedRecord& listed : read_lists({file})) {
    const std::string id = record_id(listed.settings);
    if (wanted != nullptr && !any_matches(wanted, id)) continue;
    if (any_matches(s.find("except"), id)) continue;
    const Settings* measured = listed.settings.find("measured");
    if (fit.memory && (measured == nullptr || measured->find("memory_gb") == nullptr)) continue;
    fit.rows.push_back({listed.list, id, listed.settings, {}});
    ++found;
  }
  if (found == 0) s.at("list").fail(fmt::format("{} holds no such record, expected ids or prefixes with *", file));
}

/// Refuses a bound with which the document would not load, before any time is spent.
void check_bound(const FitParameter& p, const FitRow& row, const Settings& bound) {
  Settings record = row.record;
  scenarios::apply(record, {p.path, Settings::scalar(bound.text(), bound.place())});
  try {
    scenarios::load_scenario(record);
  } catch (const sim::UserError& error) {
    bound.fail(fmt::format("is no value of {}: {}", p.path, error.what()));
  }
}

void find_affected(StepFit& fit, const Settings& parameters) {
  for (std::size_t p = 0; p < fit.parameters.size(); ++p) {
    std::size_t readers = 0;
    const FitRow* first = nullptr;
    for (FitRow& row : fit.rows) {
      row.affected.push_back(scenarios::reads_from(row.record, fit.parameters[p].key, fit.parameters[p].file) ? 1 : 0);
      if (row.affected.back() == 0) continue;
      ++readers;
      if (first == nullptr) first = &row;
    }
    if (readers == 0) {
      parameters.items()[p].fail(fmt::format("no row reads {} from {}, expected rows that do", fit.parameters[p].path,
                                             fit.parameters[p].document));
    }
    for (const char* bound : {"low", "high"}) check_bound(fit.parameters[p], *first, parameters.items()[p].at(bound));
  }
}

}  // namespace

std::string FitParameter::text_of(double value) const {
  return unit.empty() ? fmt::format("{:.6g}", value) : fmt::format("{:.6g} {}", value, unit);
}

StepFit read_step_fit(const std::string& file) { return step_fit_of(scenarios::read_yaml(file), file); }

StepFit step_fit_of(const Settings& document, const std::string& file) {
  if (!document.is_mapping()) document.fail("expected a fit: a mapping with parameters and rows");
  document.refuse_unknown(
      {"description", "parameters", "rows", "target", "loss", "weigh", "hold_out", "starts", "ridge"});
  StepFit fit;
  fit.file = file;
  fit.description = document.get_text("description", "");
  fit.memory = document.get_choice("target", "step", {"step", "memory"}) == "memory";
  const std::string loss = document.get_choice("loss", "squares", {"squares", "robust", "heavy_tailed"});
  if (loss == "robust") fit.loss = RowLoss::robust;
  if (loss == "heavy_tailed") fit.loss = RowLoss::heavy_tailed;
  fit.by_list = document.get_choice("weigh", "rows", {"rows", "lists"}) == "lists";
  fit.ridge = document.get_number("ridge", 0, 0, 1000);
  fit.starts = static_cast<int>(document.get_int("starts", 2, 1, 100));
  if (const Settings* held = document.find("hold_out")) {
    held->refuse_unknown({"by", "folds"});
    fit.hold_lists = held->get_choice("by", "rows", {"rows", "lists"}) == "lists";
    fit.folds = static_cast<int>(held->get_int("folds", 5, 0, 1000));
  }
  const Settings& parameters = document.at("parameters");
  if (!parameters.is_sequence() || parameters.items().empty()) parameters.fail("expected a list of parameters");
  if (parameters.items().size() > kMostParameters) {
    parameters.fail(fmt::format("lists {}, expected at most {}", parameters.items().size(), kMostParameters));
  }
  for (const Settings& p : parameters.items()) {
    fit.parameters.push_back(read_parameter(p));
    for (std::size_t i = 0; i + 1 < fit.parameters.size(); ++i) {
      if (fit.parameters[i].path == fit.parameters.back().path && fit.parameters[i].file == fit.parameters.back().file)
        p.fail("this key of this document is listed twice");
    }
  }
  const Settings& rows = document.at("rows");
  if (!rows.is_sequence() || rows.items().empty()) rows.fail("expected a list of {list: FILE, records: [ID, ...]}");
  for (const Settings& s : rows.items()) read_rows(fit, s);
  if (fit.ridge == 0 && fit.rows.size() < fit.parameters.size()) {
    rows.fail(fmt::format("are {} records, expected at least as many as the {} parameters", fit.rows.size(),
                          fit.parameters.size()));
  }
  find_affected(fit, parameters);
  return fit;
}

}  // namespace orrery::tools
