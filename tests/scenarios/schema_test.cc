// Is the table of the language complete, and do schema and help show it?
#include "scenarios/schema.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

#include "tests/catch.h"
#include "tests/scenarios/expect.h"

using namespace orrery::scenarios;
using orrery::sim::Settings;

namespace {

/// The JSON value below "properties" along a dotted path. JSON is YAML, so the room's own reader parses it; descends
/// into the alternatives of "anyOf" and into list items.
const Settings* property(const Settings& node, std::string_view path) {
  if (path.empty()) return &node;
  const std::size_t dot = path.find('.');
  std::string name(path.substr(0, dot));
  if (name.ends_with("[]")) name.resize(name.size() - 2);
  const std::string_view rest = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  std::vector<const Settings*> objects{&node};
  if (const Settings* any = node.find("anyOf"); any != nullptr) {
    for (const Settings& alternative : any->items()) {
      objects.push_back(&alternative);
      if (const Settings* items = alternative.find("items"); items != nullptr) objects.push_back(items);
    }
  }
  for (const Settings* object : objects) {
    const Settings* properties = object->find("properties");
    const Settings* member = properties != nullptr ? properties->find(name) : nullptr;
    if (name == "*") member = object->find("additionalProperties");
    if (member != nullptr && member->is_mapping()) return property(*member, rest);
  }
  return nullptr;
}

}  // namespace

TEST_CASE("the JSON Schema lists every key with its meaning and choices") {
  const std::string json = json_schema();
  const Settings document = parse_yaml(json, "schema.json");
  CHECK(document.at("$schema").text() == "https://json-schema.org/draft/2020-12/schema");
  CHECK_FALSE(document.at("additionalProperties").as_bool());
  REQUIRE(schema().size() > 100);
  for (const Key& key : schema()) {
    INFO(key.path);
    const Settings* node = property(document, key.path);
    REQUIRE(node != nullptr);
    CHECK(node->at("description").text().starts_with(key.meaning));
    for (const std::string& choice : key.choices) CHECK(json.find('"' + choice + '"') != std::string::npos);
  }
  // Required are exactly the sections without a default.
  std::set<std::string> required;
  for (const Settings& item : document.at("required").items()) required.insert(item.text());
  CHECK(required == std::set<std::string>{"cluster", "model", "batch"});
}

TEST_CASE("the JSON Schema knows quantities by their units, and defaults where they are values") {
  const std::string json = json_schema();
  const Settings document = parse_yaml(json, "schema.json");
  const auto pattern_of = [&](const std::string& path) {
    for (const Settings& alternative : property(document, path)->at("anyOf").items()) {
      if (const Settings* pattern = alternative.find("pattern"); pattern != nullptr) return pattern->text();
    }
    return std::string();
  };
  const auto fits = [&](const std::string& path, const std::string& text) {
    return std::regex_match(text, std::regex(pattern_of(path)));
  };
  for (const char* text : {"400 Gb/s", "25 GB/s", "3.35 TB/s", "1e9 B/s"}) CHECK(fits("cluster.fabric.nic_rate", text));
  for (const char* text : {"400", "400 Gb", "5 us", "fast"}) CHECK_FALSE(fits("cluster.fabric.nic_rate", text));
  for (const char* text : {"80 GB", "80 GiB", "4096 B"}) CHECK(fits("cluster.device.memory", text));
  for (const char* text : {"5 us", "1.2 ms", "130 ns"}) CHECK(fits("software.kernel_issue", text));
  CHECK(fits("cluster.device.peak.bf16", "989 TFLOP/s"));
  int quantities = 0;
  for (const Key& key : schema()) {
    if (key.type != "quantity") continue;
    INFO(key.path << " " << key.fallback);
    // Defaults that are a number with a unit, not a rule in words.
    if (!key.fallback.empty() && std::isdigit(static_cast<unsigned char>(key.fallback[0])) != 0 &&
        key.fallback.find(' ') == key.fallback.rfind(' ')) {
      CHECK(fits(key.path, key.fallback));
      ++quantities;
    }
  }
  CHECK(quantities > 5);
  CHECK(property(document, "parallelism.tensor")->at("default").text() == "1");
  CHECK(property(document, "model.norm")->at("default").text() == "layer_norm");
  CHECK(property(document, "parallelism.data")->find("default") == nullptr);  // a rule
}

TEST_CASE("every row is well formed and no path is listed twice") {
  const std::set<std::string> types{"integer",  "number", "boolean", "text", "choice",
                                    "quantity", "list",   "mapping", "name"};
  std::set<std::string> paths;
  for (const Key& key : schema()) {
    INFO(key.path);
    CHECK(types.contains(key.type));
    CHECK(key.meaning.ends_with("."));
    CHECK(paths.insert(key.path).second);
    // What is a number has bounds, a quantity both: nothing absurd gets past the table.
    if (key.type == "integer" || key.type == "number") CHECK_FALSE(key.bounds.low.empty());
    if (key.type == "quantity") CHECK((!key.bounds.low.empty() && !key.bounds.high.empty()));
    // Whatever is above a key is a key too, so that help can climb.
    const std::size_t dot = key.path.rfind('.');
    if (dot != std::string::npos) {
      std::string parent = key.path.substr(0, dot);
      if (parent.ends_with("[]") || parent.ends_with(".*")) parent.resize(parent.size() - 2);
      const bool listed = std::any_of(schema().begin(), schema().end(), [&](const Key& k) { return k.path == parent; });
      CHECK((listed || parent.starts_with("cluster.device") || parent.starts_with("cluster.fabric")));
    }
  }
}

TEST_CASE("a document is checked alike by the smaller table") {
  const orrery::sim::Place place{"t.yaml", 1, 1};
  for (const Key& key : schema()) {
    if (key.path.find_first_of("[*") != std::string::npos) continue;
    for (const char* below : {"", ".nobody"}) {
      Settings document = Settings::mapping(place);
      document.set_path(key.path + below, Settings::scalar("-1e30", place));
      INFO(key.path << below);
      CHECK(user_error([&] { check_keys(document); }) == user_error([&] { schema().check(document); }));
    }
  }
}

TEST_CASE("known keys are the members one level below") {
  CHECK(known_keys("batch") == std::vector<std::string>{"global", "micro", "document_tokens"});
  CHECK(known_keys("perturb.slow_nics[]") == std::vector<std::string>{"node", "nic", "rate"});
  CHECK(known_keys("perturb") == std::vector<std::string>{"slow_gpus", "gpu_spread", "slow_nics", "slow_links",
                                                          "lost_links", "lost_switches", "background", "jitter",
                                                          "message_jitter"});
  CHECK(known_keys("batch.global").empty());
}

TEST_CASE("help explains a key, by its path or its last part, and points at the nearest on a miss") {
  CHECK(help("parallelism.tensor").starts_with("parallelism.tensor: Tensor-parallel degree"));
  CHECK(help("virtual_pipeline").find("default: 1") != std::string::npos);
  CHECK(help("cluster.gpus").find("required") != std::string::npos);
  CHECK(help("batch").find("keys below: global, micro") != std::string::npos);
  CHECK(help("tensor").find("overlap.tensor") != std::string::npos);  // both keys of that name
  CHECK(help("tensor").find("parallelism.tensor") != std::string::npos);
  CHECK(user_error([] { help("parallelism.tensr"); }).find("did you mean \"parallelism.tensor\"?") !=
        std::string::npos);
  CHECK(user_error([] { help("virtual_pipline"); }).find("did you mean \"virtual_pipeline\"?") != std::string::npos);
  CHECK(user_error([] { help("zzzzzzzzzzzz"); }).find("there is no such key") != std::string::npos);
  for (const Key& key : schema()) CHECK(help(key.path).starts_with(key.path + ": "));
}
