// Does everything that is shipped load, and do published records?
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/scenarios/expect.h"
#include "tests/skipped.h"
#include "workloads/model/token_flops.h"

using namespace orrery::scenarios;
using orrery::sim::Settings;
namespace workloads = orrery::workloads;
namespace fs = std::filesystem;

namespace {

/// P = 12 l h^2 (1 + 13/12h + (V+s)/12lh): Narayanan et al., SC21 (arXiv 2104.04473), equation 2.
double parameters_of(const Settings& model) {
  const double l = model.at("layers").as_number(), h = model.at("hidden").as_number();
  const double v = model.at("vocab").as_number(), s = model.at("seq").as_number();
  return 12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h));
}

workloads::Model loaded_model(const std::string& name) {
  return load_text("cluster: {device: h100-sxm-80gb, gpus: 1}\nmodel: " + name + "\nbatch: {global: 1}\n").job.model;
}

Settings shipped_model(const std::string& name) {
  return read_yaml((fs::path(data_directory()) / "scenarios" / "models" / (name + ".yaml")).string());
}

}  // namespace

TEST_CASE("every shipped scenario loads, under its file's name") {
  const std::vector<std::string> names = shipped("scenarios");
  REQUIRE(names.size() >= 7);
  for (const std::string& name : names) {
    INFO(name);
    const Scenario scenario = load_scenario(read_scenario(name));
    CHECK(scenario.job.name == name);
    CHECK_FALSE(scenario.job.description.empty());
  }
}

TEST_CASE("the main scenarios say what their sources say") {
  const auto eos = load_scenario(read_scenario("eos-gpt3-175b")).job;
  CHECK(eos.machine.gpus == 10752);
  CHECK(eos.parallelism.tensor * eos.parallelism.pipeline * eos.parallelism.data == 10752);
  CHECK(eos.microbatches() == 2688 / 336);
  CHECK(eos.model.vocab == 51200);
  CHECK(eos.evaluation.sequences == 5660);
  const auto mega = load_scenario(read_scenario("megascale-gpt3-175b")).job;
  CHECK(mega.machine.gpus == 12288);
  CHECK(mega.microbatches() == 6144 / 192);
  CHECK(mega.model.parallel_block);
  CHECK(mega.model.attention.heads == 128);
}

TEST_CASE("every shipped model has the size of its name") {
  // Parameters in units of 1e9, as the names say; two digits are what a name promises.
  for (const std::string& name : shipped("models")) {
    INFO(name);
    const Settings model = shipped_model(name);
    if (model.find("parameters") != nullptr) continue;  // says more than its name; below
    const std::size_t digits = name.rfind('-') + 1;
    const double unit = name.back() == 't' ? 1e12 : 1e9;
    CHECK(parameters_of(model) == Approx(std::stod(name.substr(digits)) * unit).epsilon(0.03));
  }
}

TEST_CASE("every shipped model has the parameters that its source states") {
  std::size_t stated = 0;
  for (const std::string& name : shipped("models")) {
    INFO(name);
    const Settings model = shipped_model(name);
    const Settings* count = model.find("parameters");
    if (count == nullptr) continue;
    ++stated;
    const auto job =
        load_text("cluster: {device: h100-sxm-80gb, gpus: 1}\nmodel: " + name + "\nbatch: {global: 1}\n").job;
    // parameter_count leaves out the final norm, weights do not.
    const double all = orrery::workloads::parameter_count(job.model) + static_cast<double>(job.model.norm_parameters());
    // Of the two terms that its source rounds to a tenth of a billion each; and of cards that say whole billions, or
    // tenths of a trillion.
    const double rounding = name == "nemotron4-15b"       ? 0.1e9
                            : name == "deepseek-v4-flash" ? 0.5e9
                            : name == "deepseek-v4-pro"   ? 0.05e12
                                                          : 0;
    CHECK(std::abs(all - count->as_number()) <= 1e-3 * count->as_number() + rounding);
  }
  CHECK(stated >= 39);
}

TEST_CASE("a token meets what is stated of a shipped mixture, but for the experts that it does not choose") {
  std::size_t mixtures = 0;
  for (const std::string& name : shipped("models")) {
    const Settings document = shipped_model(name);
    const Settings* count = document.find("parameters");
    if (count == nullptr || document.find("experts") == nullptr) continue;
    INFO(name);
    ++mixtures;
    const workloads::Model model = loaded_model(name);
    const workloads::Experts& experts = model.experts;
    double layers = 0;
    for (std::int64_t i = 0; i < model.layers; ++i) layers += experts.in_layer(i) ? 1 : 0;
    const auto h = static_cast<double>(model.hidden), f = static_cast<double>(experts.ffn_hidden);
    // Gate, up and down; with biases one of each of their results.
    const double expert = 3 * h * f + (model.biases == workloads::Biases::all ? 2 * f + h : 0);
    const double stated = count->as_number() - layers * static_cast<double>(experts.count - experts.top_k) * expert;
    CHECK(workloads::active_parameter_count(model) == Approx(stated).epsilon(1e-3));
  }
  CHECK(mixtures >= 13);
  // OpenAI, gpt-oss model card (arXiv 2508.10925), table 1: of active parameters the unembedding is one, the embedding
  // is not; two digits behind the point.
  for (const auto& [name, billions] : {std::pair{"gpt-oss-120b", 5.13}, {"gpt-oss-20b", 3.61}}) {
    const workloads::Model model = loaded_model(name);
    const double embedding = static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
    CHECK(std::abs(workloads::active_parameter_count(model) - embedding - 1e9 * billions) < 0.005e9);
  }
}

TEST_CASE("a token meets as many parameters as sources say that it does, to what they round") {
  std::size_t stated = 0;
  for (const std::string& name : shipped("models")) {
    const Settings document = shipped_model(name);
    const Settings* active = document.find("active_parameters");
    if (active == nullptr) continue;
    INFO(name);
    ++stated;
    const workloads::Model model = loaded_model(name);
    // Some count both embeddings, some one or none.
    const double embedding = static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
    const double all = workloads::active_parameter_count(model), said = active->as_number();
    CHECK(all > 0.95 * said);
    CHECK(all - 2 * embedding < 1.05 * said);
  }
  CHECK(stated >= 2);
}

TEST_CASE("a token of a shipped mixture takes the FLOPs that Megatron-Bridge counts") {
  // What its tables' TFLOP/s are over their tokens/s (NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md
  // of 26.06), in sequences of 4096, attention causal. Its formula leaves out the router, [experts, hidden] in each
  // layer that has one.
  struct Row {
    const char* name;
    double gflops, last_digit;
    const char* more;
  };
  for (const Row& row : {Row{"qwen3-235b-a22b", 148.035, 0.001, ""}, Row{"qwen3-30b-a3b", 23.006, 0.001, ""},
                         Row{"gpt-oss-120b", 32.6, 0.1, ""}, Row{"deepseek-v3", 260, 1, "mtp_layers"}}) {
    INFO(row.name);
    workloads::Model model = loaded_model(row.name);
    model.seq = 4096;
    if (*row.more != 0) model.experts.mtp_layers = 1;
    double routers = static_cast<double>(model.experts.mtp_layers);
    for (std::int64_t i = 0; i < model.layers; ++i) routers += model.experts.in_layer(i) ? 1 : 0;
    const double router = 6 * routers * static_cast<double>(model.experts.count) * static_cast<double>(model.hidden);
    const double counted = workloads::token_flops(model).training_causal() - router;
    CHECK(std::abs(counted - 1e9 * row.gflops) < 1e9 * std::max(1e-3 * row.gflops, row.last_digit / 2));
  }
}

TEST_CASE("every shipped device, fabric and software generation loads") {
  for (const std::string& device : shipped("devices")) {
    INFO(device);
    Settings document = parse_yaml(with_line(3, "  device: " + device), "t.yaml");
    if (device.starts_with("v100")) apply_set(document, "precision=fp16");
    CHECK(load_scenario(document).job.machine.device.name() == device);
  }
  for (const std::string& fabric : shipped("fabrics")) {
    INFO(fabric);
    if (fabric != "single-node")
      CHECK(load_text(with_line(5, "  fabric: " + fabric)).job.machine.fabric.name == fabric);
  }
  for (const std::string& software : shipped("software")) {
    INFO(software);
    CHECK(load_text(with_line(20, "software: " + software)).job.software.name == software);
  }
}

TEST_CASE("published records load; what is not known is refused in one line") {
  const fs::path folder = fs::path(orrery::tests::kSourceDir) / ".." / "shared" / "published";
  if (!fs::is_directory(folder)) {
    orrery::tests::skipped("no published records beside the source tree");
    return;
  }
  std::size_t loaded = 0, refused = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    for (const Settings& record : read_records(entry.path().string())) {
      const std::string error = user_error([&] {
        const Scenario scenario = load_scenario(record);
        CHECK(scenario.id == record.at("id").text());
        CHECK(scenario.measured);
      });
      INFO(error);
      const bool fine = error == "(no error)";
      ++(fine ? loaded : refused);
      if (!fine) {
        CHECK(error.find(entry.path().filename().string() + ":") != std::string::npos);
        CHECK(error.find('\n') == std::string::npos);
      }
    }
  }
  CHECK(loaded >= 449);
  if (refused > 0) WARN(loaded << " published records load, " << refused << " ask for what the language does not have");
}
