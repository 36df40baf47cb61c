// Do scenario files, lists of records and --set become the documents that they mean?
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/scenarios/expect.h"

using namespace orrery::scenarios;
using orrery::sim::Settings;

namespace {

Settings set_in(const std::string& text, const std::string& assignment) {
  Settings document = parse_yaml(text, "t.yaml");
  apply_set(document, assignment);
  return document;
}

std::string set_error(const std::string& text, const std::string& assignment) {
  return user_error([&] { set_in(text, assignment); });
}

struct ScratchFolder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / "orrery_document_test";
  ScratchFolder() { std::filesystem::create_directories(path); }
  ~ScratchFolder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

}  // namespace

TEST_CASE("--set replaces, adds and reads its value as YAML") {
  CHECK(set_in("cluster: {gpus: 8}", "cluster.gpus=16").at("cluster").at("gpus").as_int() == 16);
  CHECK(set_in("cluster: {gpus: 8}", "batch.global=4").at("batch").at("global").as_int() == 4);
  const Settings list = set_in("a: 1", "placement.order=[data, tensor]");
  CHECK(list.at("placement").at("order").items().at(1).text() == "tensor");
  CHECK(set_in("a: 1", "b={c: 'x=y'}").at("b").at("c").text() == "x=y");
  // Null means absent, so an assignment of nothing takes a value away.
  CHECK(set_in("a: 1\nb: 2", "b=").find("b") == nullptr);
  CHECK(set_in("a: 1\nb: 2", "b=null").find("b") == nullptr);
}

TEST_CASE("--set below a name inherits the name") {
  const std::string text = "cluster: {device: d1, fabric: f1}\nsoftware: s1\nmodel: m1\n";
  for (const auto& [key, name] : {std::pair{"cluster.device", "d1"}, std::pair{"cluster.fabric", "f1"},
                                  std::pair{"software", "s1"}, std::pair{"model", "m1"}}) {
    const Settings document = set_in(text, std::string(key) + ".some_key=7");
    const Settings* node = &document;
    for (std::string rest = key; !rest.empty();) {
      const std::size_t dot = rest.find('.');
      node = &node->at(rest.substr(0, dot));
      rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
    }
    CHECK(node->at("inherits").text() == name);
    CHECK(node->at("some_key").as_int() == 7);
  }
  // Twice changes two keys of one name, and an absent software is the default one.
  Settings twice = set_in(text, "software.kernel_issue=3 us");
  apply_set(twice, "software.step_host=1 ms");
  CHECK(twice.at("software").members().size() == 2);
  CHECK(twice.at("software").at("host").members().size() == 2);
  CHECK(set_in("a: 1", "software.kernel_issue=3 us").at("software").at("inherits").text() == "megatron-core-0.16");
}

TEST_CASE("--set below a word keeps what the word says") {
  const auto below = [](const std::string& text, const std::string& assignment, const std::string& section) {
    const Settings document = set_in(text, assignment);
    std::string keys;
    for (const auto& [key, value] : document.at(section).members()) keys += key + "=" + value.text() + " ";
    return keys;
  };
  CHECK(below("precision: fp8", "precision.gradients=bf16", "precision") == "matmul=fp8 gradients=bf16 ");
  CHECK(below("precision: bf16", "precision.matmul=fp8", "precision") == "matmul=fp8 ");
  CHECK(below("recompute: full", "recompute.layers=2", "recompute") == "kind=full layers=2 ");
  CHECK(below("{serving: {}, precision: fp8}", "precision.kv_cache=fp8", "precision") == "weights=fp8 kv_cache=fp8 ");
  CHECK(below("precision: {matmul: fp8}", "precision.gradients=bf16", "precision") == "matmul=fp8 gradients=bf16 ");
}

TEST_CASE("--set says what is wrong, and where") {
  CHECK(set_error("a: 1", "nonsense").starts_with("--set: got \"nonsense\", expected key.path=value"));
  CHECK(set_error("a: 1", "=3").starts_with("--set: got"));
  CHECK(set_error("a: 1", "a.b=3").starts_with("--set: a.b: expected a to be a mapping"));
  CHECK(set_error("a: 1", "b='open").starts_with("--set: b: the value is not YAML"));
  CHECK(set_error("a: 1", "b..c=1").starts_with("--set: "));
  CHECK(set_in("a: {b: 1}", "a.c=oops").at("a").at("c").place().file == "--set");
}

TEST_CASE("a file is one scenario, or a list of records") {
  const ScratchFolder folder;
  const std::string one = folder.write("one.yaml", "name: x\ncluster: {gpus: 8}\n");
  CHECK(read_scenario(one).at("name").text() == "x");
  CHECK(read_scenario(one, {"cluster.gpus=9", "cluster.gpus=10"}).at("cluster").at("gpus").as_int() == 10);
  const std::string single = folder.write("single.yaml", "- id: only\n  cluster: {gpus: 8}\n");
  CHECK(read_scenario(single).at("cluster").at("gpus").path() == "cluster.gpus");
  const std::string two = folder.write("two.yaml", "- id: first\n- id: second\n");
  CHECK(read_records(two).size() == 2);
  CHECK(user_error([&] { read_scenario(two); }) == two + ": holds 2 records, expected one scenario, or " + two + "#ID");
  CHECK(read_scenario(two + "#second").at("id").text() == "second");
  CHECK(user_error([&] { read_scenario(two + "#secnd"); }) ==
        two + ": holds no record \"secnd\"; did you mean \"second\"?");
  CHECK(user_error([&] { read_records(folder.write("text.yaml", "hello")); }).find("expected a scenario") !=
        std::string::npos);
  CHECK(user_error([&] { read_records(folder.write("empty.yaml", "")); }).ends_with("is empty, expected a scenario"));
  CHECK(user_error([&] { read_records(folder.write("items.yaml", "- 1\n- 2\n")); }).find("expected a scenario") !=
        std::string::npos);
}

TEST_CASE("a shipped scenario is found by its name") {
  CHECK(read_scenario("eos-gpt3-175b").at("cluster").at("gpus").as_int() == 10752);
  CHECK(user_error([] { read_scenario("eos-gpt3-175"); }) ==
        "eos-gpt3-175: there is no such file; did you mean the shipped scenario \"eos-gpt3-175b\"?");
  CHECK(user_error([] { read_scenario("llama2-70b"); }).starts_with("llama2-70b: got a model, expected a scenario: "));
  CHECK(user_error([] { read_scenario("nothing-like-it"); }).ends_with("; orrery list scenarios names them"));
  CHECK(user_error([] { read_scenario("folder/none.yaml"); }).starts_with("folder/none.yaml: cannot be read"));
}
