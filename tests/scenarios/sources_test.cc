// Are records of published tables completed and corrected by what they cite, aloud, and only where a table is read?
#include "scenarios/sources.h"

#include <algorithm>

#include "tests/catch.h"
#include "tests/scenarios/expect.h"

using namespace orrery::scenarios;
using orrery::sim::Settings;
namespace workloads = orrery::workloads;

namespace {

constexpr const char* kZeroBubble = "source: Zero Bubble PP Table 4 (2401.10241)\n";
constexpr const char* kMtNlg = "source: MT-NLG (Smith et al.) (2201.11990), read\n";

struct Read {
  Settings record;
  std::vector<std::string> notes;
  Scenario scenario;
};

/// As a list of records is read.
Read read(const std::string& more) {
  Read out;
  out.record = as_published(parse_yaml(small_scenario() + more, "t.yaml"), out.notes);
  out.scenario = load_scenario(out.record);
  return out;
}

std::size_t corrections(const Read& read) {
  return static_cast<std::size_t>(std::count_if(read.notes.begin(), read.notes.end(),
                                                [](const std::string& note) { return note.starts_with(kCorrected); }));
}

bool mentions(const std::vector<std::string>& sentences, const std::string& text) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& s) { return s.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("a pattern is the text itself, or its beginning before a star") {
  CHECK(matches("table 1", "table 1"));
  CHECK_FALSE(matches("table 12", "table 1"));
  CHECK(matches("table 12", "table 1*"));
  CHECK(matches("table 1", "table 1*"));
  CHECK_FALSE(matches("a table 1", "table 1*"));
  CHECK(matches("", "*"));
}

TEST_CASE("what a source says beyond its record fills what the record leaves open, and nothing else") {
  for (const char* open : {"", "attention: unknown\n", "attention: null\n"}) {
    const Read filled = read(std::string(kZeroBubble) + open);
    CHECK(filled.scenario.job.method.attention == workloads::AttentionKind::unfused);
    CHECK(mentions(filled.notes, "attention is not given: unfused, by its source"));
    CHECK_FALSE(filled.scenario.measured.has_value());
  }
  const Read said = read(std::string(kZeroBubble) + "attention: flash\n");
  CHECK(said.scenario.job.method.attention == workloads::AttentionKind::flash);
  CHECK_FALSE(mentions(said.notes, "attention is not given"));
  // Only of a section that the record has.
  const std::string memory = "measured: {memory_gb: 3}\n";
  CHECK(read(kZeroBubble + memory).scenario.measured->memory.kind == "allocated");
  CHECK(read("source: a table of my own\n" + memory).scenario.measured->memory.kind == "device");
  CHECK(read(memory).notes.empty());
}

TEST_CASE("what its source contradicts in a record is corrected aloud") {
  // The record names the family of its software; MT-NLG ran in DeepSpeed's pipeline engine.
  const Read wrong = read(kMtNlg);
  CHECK(wrong.scenario.job.software.name == "megatron-deepspeed-2022");
  REQUIRE(corrections(wrong) == 1);
  CHECK(mentions(wrong.notes, "software is megatron-2023 in the record and megatron-deepspeed-2022 by its source"));
  std::string text = small_scenario() + kMtNlg;
  text.replace(text.find("software: megatron-2023"), 23, "software: megatron-deepspeed-2022");
  CHECK(beyond_record(parse_yaml(text, "t.yaml")).empty());
  // What was not the record's own word stands, and of a generation changed in places the name is corrected.
  Settings set = parse_yaml(small_scenario() + kMtNlg, "t.yaml");
  apply_set(set, "software=megatron-2022");
  CHECK(beyond_record(set).empty());
  Settings changed = parse_yaml(small_scenario() + kMtNlg, "t.yaml");
  apply_set(changed, "software.kernel_issue=7 us");
  std::vector<std::string> notes;
  const Scenario slower = load_scenario(as_published(changed, notes));
  CHECK(mentions(notes, "software.inherits is megatron-2023 in the record"));
  CHECK(slower.job.software.host.kernel_issue.value() == 7'000'000);
  CHECK(slower.job.software.gradients.all_reduces_shards);  // as megatron-deepspeed-2022 does
  // Once is enough: what was corrected is right.
  CHECK(beyond_record(wrong.record).empty());
}

TEST_CASE("an entry on some rows of a table names values of theirs, one or a list, and may correct a list") {
  const auto shares = [](const std::string& gpus) {
    const std::string row =
        "source: HF nanotron Ultra-Scale Playbook\n"
        "model: {layers: 16}\nparallelism: {tensor: 1, pipeline: 2, stage_layers: [11, 5]}\ncluster: {gpus: " +
        gpus + "}\n";
    for (const Beyond& beyond : beyond_record(parse_yaml(row, "t.yaml"))) {
      if (beyond.path == "parallelism.stage_layers") return beyond.was + " " + beyond.said();
    }
    return std::string("as given");
  };
  CHECK(shares("8") == "[11, 5] [10, 6]");
  CHECK(shares("256") == "[11, 5] [10, 6]");
  CHECK(shares("512") == "as given");
}

TEST_CASE("other ways in which a table's jobs ran change the keys that they name, and no others") {
  const auto ways = [](const std::string& pipeline, const std::string& gpus) {
    std::vector<std::string> notes;
    const std::string row =
        "source: HF nanotron Ultra-Scale Playbook\n"
        "model: {layers: 16}\nsoftware: nanotron-2025\n"
        "parallelism: {tensor: 4, pipeline: " +
        pipeline + ", stage_layers: [11, 5]}\ncluster: {gpus: " + gpus + "}\n";
    return other_ways(as_published(parse_yaml(row, "t.yaml"), notes));
  };
  CHECK(ways("1", "8").empty());
  CHECK(ways("1", "64").size() == 1);
  const std::vector<OtherWay> two = ways("2", "64");
  REQUIRE(two.size() == 3);
  CHECK(two[0].record.find("software")->text() == "nanotron-2024-12");
  CHECK(two[0].record.find_path("parallelism.stage_layers")->items()[0].text() == "11");  // as written in the list
  CHECK(two[1].record.find_path("parallelism.stage_layers")->items()[0].text() == "10");
  CHECK(two[2].record.find_path("software.checked_calls")->text() == "never");
  CHECK(two[2].record.find_path("parallelism.tensor")->text() == "4");
  CHECK(two[0].sentence.find("software nanotron-2024-12, parallelism.stage_layers [11, 5]: ") == 0);
  CHECK(other_ways(parse_yaml("source: a table of my own\n", "t.yaml")).empty());
}

TEST_CASE("BigScience's rows are in fp16 up to line 899 of its chronicles, where the bf16 optimizer came") {
  for (const auto& [line, precision] : {std::pair{"725", "fp16"}, {"892", "fp16"}, {"906", "bf16"}, {"957", "bf16"}}) {
    INFO(line);
    const Read row = read(std::string("source: bigscience tr11 chronicles line ") + line + "\n");
    CHECK(name_of(row.scenario.job.method.precision.matmul) == precision);
    CHECK(row.scenario.job.model.vocab == 250880);
  }
}

TEST_CASE("a record that is run as a scenario is taken at its word, and the run says what its source says") {
  const Scenario taken = load_text(small_scenario() + kZeroBubble);
  CHECK(taken.job.software.name == "megatron-2023");
  CHECK(taken.job.model.vocab == 51200);
  CHECK(taken.job.method.attention == workloads::AttentionKind::flash);
  CHECK(mentions(taken.job.assumptions, "model.vocab stays 51200 as in the record; orrery validate takes 32000"));
  CHECK(mentions(taken.job.assumptions, "attention stays open as in the record; orrery validate takes unfused"));
  const Scenario own = load_text(small_scenario() + "id: zb-1.5B\n");
  CHECK_FALSE(mentions(own.job.assumptions, "as in the record"));
}

TEST_CASE("a source can speak of some rows of a table alone") {
  const std::string table = "source: NVIDIA-NeMo/Megatron-Bridge docs/performance-summary.md\n";
  const auto factor_with = [&](const std::string& label) {
    Settings record = parse_yaml(small_scenario() + table, "t.yaml");
    apply_set(record, "model.label=" + label);
    const std::vector<Beyond> beyond = beyond_record(record);
    const auto factor =
        std::find_if(beyond.begin(), beyond.end(), [](const Beyond& b) { return b.path == "model.rotary_factor"; });
    return factor == beyond.end() ? "" : factor->value.text();
  };
  CHECK(factor_with("GPT-OSS 120B") == "1.3466");
  CHECK(factor_with("Llama 3.1 8B").empty());
}
