// The scenario language: YAML in, a validated Job out. The only room that knows YAML.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/settings.h"
#include "workloads/job/job.h"

namespace orrery::workloads {
class SteadyClocks;
}

namespace orrery::scenarios {

/// What was measured, when the scenario is a record of a measurement.
struct Measured {
  std::optional<double> iteration_s, tokens_per_s, tflops_per_gpu, mfu_pct, hfu_pct;
  std::optional<double> tokens_per_s_including_eval;  // evaluation passes counted in
  std::optional<double> iteration_wall_s;             // with the host's work outside the step timer
  std::optional<double> evaluation_s, power_w, energy_j;
  struct Memory {
    std::optional<double> peak_gb;
    std::string kind = "device";           // what peak_gb counts: allocated, reserved or device, as the schema says
    std::string rank = "fullest";          // whose it is: fullest, first or last, by stage
    std::optional<double> model_state_gb;  // of what stays allocated between steps
    std::optional<bool> oom;
  } memory;
  bool failed = false;           // crashed, or out of memory: the source does not say which
  std::string tflops_kind;       // as the source says: "model ...", "hardware ...", "megatron ..."
  std::string iteration_source;  // "printed", "derived from ..."
};

struct Scenario {
  workloads::Job job;
  std::string id;
  std::string source, notes;
  std::optional<Measured> measured;
};

/// Reads YAML text into Settings with places: a member is placed at its key, an item and the document at their
/// beginning. An empty document is null. Throws UserError for files that cannot be read, bytes that are not UTF-8 text,
/// broken YAML, nesting deeper than 64, more than 200,000 values or 64 MiB, keys given twice, and what the language
/// leaves out (anchors, aliases, merge keys, tags, several documents).
sim::Settings read_yaml(const std::string& file);
sim::Settings parse_yaml(const std::string& text, const std::string& file_name);

/// A change to a document.
struct Assignment {
  std::string key;  // the dotted path
  sim::Settings value;
};
/// Reads "key.path=value", the value as YAML. Throws UserError with the place `source`.
Assignment parse_assignment(const std::string& text, const std::string& source = "--set");
void apply(sim::Settings& document, const Assignment& assignment);
/// "key.path=value" laid over `document`; the value is YAML. Below a document that is given by name
/// ("software.step_host" where software is megatron-2023) the name becomes a mapping that inherits it. Throws
/// UserError with the place "--set".
void apply_set(sim::Settings& document, const std::string& assignment);

/// Reads a scenario: a file, "-" for standard input, the name of a shipped one, or FILE#ID for one record of a list; a
/// list of one record is that record. Then lays `sets` over it, in order. Throws UserError.
sim::Settings read_scenario(const std::string& file, const std::vector<std::string>& sets = {});
/// All records of a list (or the one scenario) in a file.
std::vector<sim::Settings> read_records(const std::string& file);

/// Settings -> Scenario. Resolves names (device, fabric, software, model) to files, fills defaults and says which,
/// refuses unknown keys, and checks that everything fits together. Every user error ends here.
Scenario load_scenario(const sim::Settings& document);

/// `base` with the sections of variant_sections() read again from `document`, which may hold nothing else: the readers
/// and checks of load_scenario without the documents that names stand for and without wiring the cluster, in
/// microseconds. Its assumptions are those of these sections. `clocks`: those of other variants of `base`. Throws
/// UserError.
Scenario load_variant(const Scenario& base, const sim::Settings& document, workloads::SteadyClocks* clocks = nullptr);
/// The sections that load_variant reads.
const std::vector<std::string>& variant_sections();

/// The folder that holds calibration/ and scenarios/: $ORRERY_HOME, else found upwards from the executable (there or in
/// share/orrery), else the source tree.
std::string data_directory();
/// Names of what the folder ships, sorted: "devices", "software", "models", "fabrics", "scenarios", "tables",
/// "features" and "collectives".
std::vector<std::string> shipped(const std::string& kind);
/// What a shipped document is, in one line: its `description` or `title`, else the first sentence of the comment that
/// its file opens with.
std::string about(const std::string& kind, const std::string& name);

}  // namespace orrery::scenarios
