// A software generation as a scenario may write it: by name, by path, in place, with features and blocks; and who asks
// which document decides a key.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "scenarios/library.h"
#include "scenarios/origin.h"
#include "scenarios/other_names.h"
#include "tests/catch.h"
#include "tests/scenarios/expect.h"

using namespace orrery::scenarios;
using orrery::calibration::Generation;
using orrery::sim::microseconds;
using orrery::sim::Settings;
namespace fs = std::filesystem;

namespace {

orrery::calibration::Software software(const std::string& line) {
  return load_text(with_line(20, "software: " + line)).job.software;
}

Settings scenario(const std::string& line) { return parse_yaml(with_line(20, "software: " + line), "t.yaml"); }

std::string error_at_software(const std::string& line) {
  return user_error([&] { software(line); });
}

/// A folder of its own for documents of a user, gone at the end.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / "orrery_software_test") { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("features, blocks and flat keys change a generation in place") {
  const auto base = software("megatron-2023");
  const auto changed = software(
      "{inherits: megatron-2023, features: [cuda-graphs], without: [flash-attention], host: {step_host: 7 ms}, "
      "fitted: {pipeline_slowdown: 1.1}, dropout: false}");
  CHECK(changed.host.kernel_issue == microseconds(1));
  CHECK(changed.defaults.attention == orrery::calibration::AttentionKind::unfused);
  CHECK(changed.host.step_host == microseconds(7000));
  CHECK(changed.overlap.pipeline_slowdown == 1.1);
  CHECK_FALSE(changed.layers.dropout);
  CHECK(changed.host.transfer_issue == base.host.transfer_issue);
  // The same keys without a name beside them, which is a generation of its own.
  CHECK(software("{features: [cuda-graphs]}").host.kernel_issue == microseconds(1));
  CHECK(software("{features: [cuda-graphs]}").name == "inline");
}

TEST_CASE("fine-tuning by adapters takes the generation that another names for it") {
  using orrery::calibration::AttentionKernel;
  const auto software_of = [](const std::string& line, bool tunes) {
    Settings document = scenario(line);
    if (tunes) apply_set(document, "finetune={kind: lora, rank: 16}");
    return load_scenario(document).job.software;
  };
  CHECK(software_of("nemo-25.09", false).name == "nemo-25.09");
  CHECK(software_of("nemo-25.09", true).name == "nemo-25.09-lora");
  CHECK(software_of("nemo-25.09", true).attention_style.attention_kernel == AttentionKernel::fused_fp8);
  // What changes the one changes the other.
  const auto changed = software_of("{inherits: nemo-25.09, host: {step_host: 7 ms}}", true);
  CHECK(changed.host.step_host == microseconds(7000));
  CHECK(changed.attention_style.attention_kernel == AttentionKernel::fused_fp8);
  // Later releases run another trainer, and say so.
  CHECK(software_of("nemo-25.11", true).attention_style.attention_kernel == AttentionKernel::fused);
  CHECK_THROWS_AS(software_of("{inherits: nemo-25.09, adapters: nemo-25.99}", true), orrery::sim::UserError);
  CHECK_THROWS_AS(software_of("{inherits: nemo-25.09, adapters: [a]}", true), orrery::sim::UserError);
}

TEST_CASE("--set changes a key where it is written, flat or in a block") {
  const auto set_in = [](const std::string& line, const std::string& assignment) {
    Settings document = scenario(line);
    apply_set(document, assignment);
    return load_scenario(document).job.software.host.step_host;
  };
  CHECK(set_in("{inherits: megatron-2023, host: {step_host: 7 ms}}", "software.step_host=9 ms") == microseconds(9000));
  CHECK(set_in("{inherits: megatron-2023, step_host: 7 ms}", "software.host.step_host=9 ms") == microseconds(9000));
  CHECK(set_in("{inherits: megatron-2023, fitted: {step_host: 7 ms}}", "software.step_host=9 ms") ==
        microseconds(9000));
  CHECK(set_in("megatron-2023", "software.host.step_host=9 ms") == microseconds(9000));
  CHECK(set_in("megatron-2023", "software.step_host=9 ms") == microseconds(9000));
}

TEST_CASE("what a generation names and there is not is refused with the nearest name") {
  CHECK(
      error_at_software("{inherits: megatron-2023, features: [cuda-grafs]}") ==
      "t.yaml:20:48: software.features[0]: there is no software feature \"cuda-grafs\"; did you mean \"cuda-graphs\"?");
  CHECK(error_at_software("{inherits: megatron-2023, without: [flash-atention]}")
            .find("did you mean \"flash-attention\"?") != std::string::npos);
  CHECK(error_at_software("{inherits: megatron-2023, without: [cuda-graphs]}").find("is not inherited") !=
        std::string::npos);
  CHECK(error_at_software("{inherits: megatron-2023, collectives: nccl-2.8}").find("did you mean \"nccl-2.18\"?") !=
        std::string::npos);
  CHECK(error_at_software("{inherits: megatron-2023, host: {kernel_isue: 1 us}}") ==
        "t.yaml:20:44: software.host.kernel_isue: unknown key; did you mean \"kernel_issue\"?");
  CHECK(error_at_software("{inherits: megatron-2023, feature: [cuda-graphs]}") ==
        "t.yaml:20:37: software.feature: unknown key; did you mean \"features\"?");
  CHECK(error_at_software("{inherits: megatron-2023, host: {kernel_issue: fast}}")
            .find("t.yaml:20:44: software.host.kernel_issue") == 0);
}

TEST_CASE("a release that changes nothing is another name of the one before it") {
  const Settings parent = parse_yaml("software: nemo-26.06", "t.yaml"),
                 other = parse_yaml("software: nemo-26.08", "t.yaml");
  const Generation before = resolve_software(parent.at("software")), after = resolve_software(other.at("software"));
  CHECK(before.document.at("name").text() == "nemo-26.06");
  CHECK(after.document.at("name").text() == "nemo-26.08");
  CHECK(after.document.at("provenance").text().ends_with("as nemo-26.06 in everything"));
  // Every key has the source of the other's, a document further down its chain.
  REQUIRE(after.sources.size() == before.sources.size());
  for (const auto& source : before.sources) {
    INFO(source.key);
    CHECK(text(*after.source_of(source.key)) == text(source));
    CHECK(after.source_of(source.key)->document == source.document + 1);
  }
  orrery::calibration::Software named = software("nemo-26.08");
  CHECK(named.name == "nemo-26.08");
  const orrery::calibration::Software whole = software("nemo-26.06");
  named.name = whole.name;
  named.provenance = whole.provenance;
  CHECK(named == whole);
  CHECK(software("{inherits: nemo-26.08, dropout: true}").layers.dropout);
  CHECK(about("software", "nemo-26.08").find("Megatron-Bridge") != std::string::npos);
  const std::vector<std::string> names = shipped("software");
  CHECK(std::count(names.begin(), names.end(), "nemo-26.08") == 1);
  CHECK(error_at_software("nemo-26.80").find("nemo-26.08") != std::string::npos);
  // What does not ship is named by its path alone.
  CHECK(error_at_software("{inherits: nemo-26.06, also_called: {mine: mine}}").find("also_called") !=
        std::string::npos);
}

TEST_CASE("no document that ships adds nothing but a name to another") {
  for (const Shelf& shelf : shelves()) {
    for (const std::string& name : shipped(shelf.kind)) {
      // Tables of engines' kernels are transferred from device to device, which is a fact of each.
      if (shelf.kind == "scenarios" || shelf.kind == "serving" || other_names(shelf).contains(name)) continue;
      const Settings document = chain_of(shelf, Settings::scalar(name, {"t.yaml", 1, 1}, true)).front().read;
      if (document.find("inherits") == nullptr) continue;
      INFO(shelf.kind << " " << name);
      bool adds = false;
      for (const auto& [key, value] : document.members())
        adds = adds ||
               (key != "name" && key != "inherits" && key != "provenance" && key != "facts" && key != "description");
      CHECK(adds);
    }
  }
}

TEST_CASE("a user's own generation, feature and library stand beside each other") {
  const Folder folder;
  folder.write("quiet.yaml", "name: quiet\nmeaning: Launches cost little.\nsets: {kernel_issue: 2 us}\n");
  folder.write("lib.yaml", "name: lib\ncollective_base: 3 us\n");
  const std::string mine = folder.write("mine.yaml",
                                        "name: mine\ninherits: megatron-2023\nfeatures: [./quiet.yaml]\n"
                                        "collectives: ./lib.yaml\n");
  CHECK(software(mine).host.kernel_issue == microseconds(2));
  CHECK(software(mine).library.collective_base == microseconds(3));
  CHECK(software(mine).library.collective_step_ring == microseconds(14));  // of the library that is inherited
  CHECK(software("{inherits: '" + mine + "', without: ['" + fs::path(mine).parent_path().string() + "/quiet.yaml']}")
            .host.kernel_issue == microseconds(5));
  const Generation whole = referred_software(scenario(mine));
  CHECK(whole.features.back().name == "quiet");
  CHECK(whole.features.back().generation == "mine");
}

TEST_CASE("a document that a scenario names is that of its files as they are now") {
  const Folder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    const std::string file = folder.write(name, text);
    // Another time, however coarse the clock of the file system is.
    static auto later = fs::last_write_time(file);
    fs::last_write_time(file, later += std::chrono::seconds(2));
    return file;
  };
  const auto step_host = [](const std::string& file) { return software(file).host.step_host; };
  write("quiet.yaml", "name: quiet\nmeaning: Launches cost little.\nsets: {kernel_issue: 2 us}\n");
  write("lib.yaml", "name: lib\ncollective_base: 3 us\n");
  write("older.yaml", "name: older\ninherits: megatron-2023\nhost: {step_host: 3 ms}\n");
  const std::string mine =
      write("mine.yaml", "name: mine\ninherits: ./older.yaml\nfeatures: [./quiet.yaml]\ncollectives: ./lib.yaml\n");
  CHECK(step_host(mine) == microseconds(3000));
  CHECK(step_host(mine) == microseconds(3000));
  write("older.yaml", "name: older\ninherits: megatron-2023\nhost: {step_host: 4 ms}\n");
  CHECK(step_host(mine) == microseconds(4000));
  write("quiet.yaml", "name: quiet\nmeaning: Launches cost less.\nsets: {kernel_issue: 1 us}\n");
  CHECK(software(mine).host.kernel_issue == microseconds(1));
  write("lib.yaml", "name: lib\ncollective_base: 2 us\n");
  CHECK(software(mine).library.collective_base == microseconds(2));
  fs::remove(fs::path(mine).parent_path() / "older.yaml");
  CHECK(error_at_software(mine).find("older.yaml") != std::string::npos);

  const auto device = [&](const std::string& name) {
    return load_text(with_line(3, "  device: " + name)).job.machine.device;
  };
  const std::string card = write("card.yaml", "name: card\ninherits: a100-sxm-80gb\nmemory: 70 GB\n");
  CHECK(device(card).memory().value() == 70'000'000'000);
  CHECK(&device(card).model() == &device(card).model());  // read once, for as long as
  write("card.yaml", "name: card\ninherits: a100-sxm-80gb\nmemory: 60 GB\n");
  CHECK(device(card).memory().value() == 60'000'000'000);
}

TEST_CASE("a feature is taken away wherever it comes from") {
  const auto issue_without = [](const std::string& line) {
    return load_scenario(without_feature(scenario(line), "cuda-graphs")).job.software.host.kernel_issue;
  };
  const auto older = software("nemo-23.09").host.kernel_issue;
  CHECK(software("nemo-24.04").host.kernel_issue == microseconds(1));
  CHECK(issue_without("nemo-24.04") == older);
  CHECK(issue_without("{inherits: nemo-24.07, step_host: 1 ms}") == older);
  CHECK(issue_without("{inherits: nemo-23.09, features: [cuda-graphs]}") == older);
  CHECK(issue_without("{features: [cuda-graphs]}") == orrery::calibration::Software{}.host.kernel_issue);
  // What else the scenario changed stays.
  CHECK(load_scenario(without_feature(scenario("{inherits: nemo-24.07, step_host: 1 ms}"), "cuda-graphs"))
            .job.software.host.step_host == microseconds(1000));
}

TEST_CASE("a key is read from the nearest document that sets it, by a feature, a block or itself") {
  const Folder folder;
  const std::string old = folder.write("old.yaml", "name: old\nhost: {kernel_issue: 5 us}\n");
  const std::string graphs =
      folder.write("graphs.yaml", "name: graphs\ninherits: ./old.yaml\nfeatures: [cuda-graphs]\n");
  const std::string fitted =
      folder.write("fitted.yaml", "name: fitted\ninherits: ./old.yaml\nfitted: {kernel_issue: 6 us}\n");
  const auto reads = [](const std::string& line, const std::string& file) {
    return reads_from(scenario(line), {"software", "host.kernel_issue"}, file);
  };
  CHECK(reads(old, old));
  CHECK_FALSE(reads(graphs, old));
  CHECK(reads(graphs, graphs));
  CHECK(reads("{inherits: '" + graphs + "', without: [cuda-graphs]}", old));
  CHECK_FALSE(reads(fitted, old));
  CHECK(reads(fitted, fitted));
  CHECK_FALSE(reads("{inherits: '" + fitted + "', host: {kernel_issue: 1 us}}", fitted));
  // What nothing sets, any document of the chain could.
  CHECK(reads_from(scenario(graphs), {"software", "host.transfer_issue"}, old));
}

TEST_CASE("a key in a block is the key") {
  const auto key = [](const char* path) { return document_key(Settings::scalar(path, {"f.yaml", 1, 1})).key; };
  CHECK(key("software.kernel_issue") == "host.kernel_issue");
  CHECK(key("software.host.kernel_issue") == "host.kernel_issue");
  CHECK(key("software.fitted.kernel_issue") == "host.kernel_issue");
  CHECK_THROWS_AS(key("software.host.kernel_isue"), orrery::sim::UserError);
  CHECK_THROWS_AS(key("software.host"), orrery::sim::UserError);
}
