// How a generation is resolved: what stands above what, what is refused, and what is said to have set a key. Features
// and libraries are made up here, so that every expectation can be read off the documents beside it.
#include "calibration/framework/generation.h"

#include <map>

#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"

namespace {

using namespace orrery::calibration;
using orrery::scenarios::parse_yaml;
using orrery::sim::Settings;
using orrery::sim::UserError;

const std::map<std::string, std::string>& documents() {
  static const std::map<std::string, std::string> all{
      {"fast", "name: fast\nsets: {kernel_issue: 1 us}\n"},
      {"slow", "name: slow\nsets: {kernel_issue: 9 us}\n"},
      {"faster", "name: faster\noverrides: [fast]\nsets: {kernel_issue: 500 ns, transfer_issue: 1 us}\n"},
      {"fused", "name: fused\nsets: {recipe.activation: fused}\nabsent: {recipe.activation: bias_apart}\n"},
      {"mistaken", "name: mistaken\nsets: {kernel_isue: 1 us}\n"},
      {"idle", "name: idle\nsets: {}\n"},
      {"lib", "name: lib\nsource: none\ncollective_base: 8 us\ncollective_step_ring: 14 us\n"},
      {"odd", "name: odd\nkernel_issue: 8 us\n"}};
  return all;
}

Settings look_up(const Settings& reference) {
  const auto at = documents().find(reference.text());
  if (at == documents().end()) reference.fail("there is none of that name");
  return parse_yaml(at->second, at->first + ".yaml");
}

/// The nearest document first; all but a nearest "" are files of the names n0, n1, ...
Generation resolved(const std::vector<std::string>& yaml) {
  std::vector<WrittenGeneration> chain;
  for (const std::string& text : yaml) {
    const std::string name = "n" + std::to_string(chain.size());
    chain.push_back({parse_yaml(text, name + ".yaml"), name});
  }
  return resolve_generation(chain, look_up, look_up);
}

std::string value(const Generation& generation, const char* key) {
  const Settings* found = generation.document.find_path(present_key(key));
  return found != nullptr ? found->text() : "";
}

std::string set_by(const Generation& generation, const char* key) {
  const KeySource* source = generation.source_of(present_key(key));
  return source != nullptr ? text(*source) : "";
}

std::string refusal(const std::vector<std::string>& yaml) {
  try {
    resolved(yaml);
  } catch (const UserError& error) {
    return error.what();
  }
  return "(no error)";
}

bool says(const std::string& text, const std::string& part) {
  UNSCOPED_INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("within a document: the library, then features, then its own keys, then what was fitted") {
  const auto issue = [](const std::string& yaml) { return value(resolved({yaml}), "kernel_issue"); };
  CHECK(issue("features: [fast]\n") == "1 us");
  CHECK(issue("kernel_issue: 5 us\nfeatures: [fast]\n") == "5 us");
  CHECK(issue("host: {kernel_issue: 5 us}\nfeatures: [fast]\n") == "5 us");
  CHECK(issue("fitted: {kernel_issue: 7 us}\nfeatures: [fast]\n") == "7 us");
  const Generation both = resolved({"collectives: lib\ncollective_base: 2 us\n"});
  CHECK(value(both, "collective_base") == "2 us");
  CHECK(value(both, "collective_step_ring") == "14 us");
  CHECK(both.document.find("host") == nullptr);
  CHECK(both.document.find("source") == nullptr);
}

TEST_CASE("between documents the nearer stands above all of the older, whatever block it is written in") {
  CHECK(value(resolved({"features: [fast]\n", "fitted: {kernel_issue: 7 us}\n"}), "kernel_issue") == "1 us");
  CHECK(value(resolved({"host: {kernel_issue: 3 us}\n", "fitted: {kernel_issue: 7 us}\n"}), "kernel_issue") == "3 us");
  CHECK(value(resolved({"step_host: 1 ms\n", "features: [fast]\n"}), "kernel_issue") == "1 us");
  CHECK(value(resolved({"collectives: lib\n", "collective_base: 2 us\n"}), "collective_base") == "8 us");
}

TEST_CASE("a feature that is dropped uncovers what lies below it, and what its absence means below that") {
  CHECK(value(resolved({"without: [fast]\n", "features: [fast]\n", "kernel_issue: 4 us\n"}), "kernel_issue") == "4 us");
  CHECK(value(resolved({"without: [fast]\n", "features: [fast]\n"}), "kernel_issue").empty());
  CHECK(value(resolved({"without: [fused]\n", "features: [fused]\n"}), "recipe.activation") == "bias_apart");
  // Said to be lacking where nothing has it, and taken up by a younger generation.
  CHECK(value(resolved({"without: [fused]\n"}), "recipe.activation") == "bias_apart");
  CHECK(value(resolved({"features: [fused]\n", "without: [fused]\n"}), "recipe.activation") == "fused");
  CHECK(value(resolved({"without: [fused]\n", "recipe: {activation: fused}\n"}), "recipe.activation") == "fused");
  // Dropped, and taken up again above a key that was set meanwhile.
  const Generation again =
      resolved({"features: [fast]\n", "without: [fast]\nkernel_issue: 6 us\n", "features: [fast]\n"});
  CHECK(value(again, "kernel_issue") == "1 us");
  REQUIRE(again.features.size() == 1);
  CHECK(again.features.front().generation == "n0");
}

TEST_CASE(
    "of two features that contradict each other the overriding one stands, in whatever order; else they are refused") {
  for (const char* order : {"features: [fast, faster]\n", "features: [faster, fast]\n"}) {
    CHECK(value(resolved({order}), "kernel_issue") == "500 ns");
    CHECK(value(resolved({order}), "transfer_issue") == "1 us");
  }
  CHECK(value(resolved({"features: [fast]\n", "features: [faster]\n"}), "kernel_issue") == "500 ns");
  const std::string two = refusal({"features: [fast, slow]\n"});
  CHECK(says(two, "n0.yaml:1:"));
  CHECK(says(two, "\"slow\", which sets host.kernel_issue to 9 us where \"fast\" sets it to 1 us"));
  CHECK(says(two, "without: [fast]"));
  // The nearer document is the one that can be changed.
  CHECK(says(refusal({"features: [fast]\n", "features: [slow]\n"}), "n0.yaml:1:"));
  CHECK(value(resolved({"features: [fast]\nwithout: [slow]\n", "features: [slow]\n"}), "kernel_issue") == "1 us");
  // A key of the document's own does not settle it: the features still contradict each other.
  CHECK(says(refusal({"features: [fast, slow]\nkernel_issue: 2 us\n"}), "\"slow\""));
}

TEST_CASE("every key says what set it") {
  const Generation g = resolved({"fitted: {backward_issue_share: 0.5}\nwithout: [fused]\n",
                                 "features: [fast]\ncollectives: lib\nhost: {step_host: 1 ms}\ndropout: false\n"});
  CHECK(set_by(g, "backward_issue_share") == "fitted, n0");
  CHECK(set_by(g, "kernel_issue") == "feature fast");
  CHECK(set_by(g, "collective_base") == "lib");
  CHECK(set_by(g, "step_host") == "n1");
  CHECK(set_by(g, "dropout") == "n1");
  CHECK(set_by(g, "recipe.activation") == "without fused");
  CHECK(set_by(g, "transfer_issue").empty());
  CHECK(g.source_of("host.kernel_issue")->document == 1);
  const Generation changed = resolve_generation({{parse_yaml("kernel_issue: 2 us\n", "s.yaml"), ""}}, look_up, look_up);
  CHECK(set_by(changed, "kernel_issue") == "the scenario");
}

TEST_CASE("name, provenance and facts are the nearest document's") {
  const Generation g = resolved({"name: young\n", "name: old\nprovenance: somewhere\nfacts: [one]\n"});
  CHECK(value(g, "name") == "young");
  CHECK(value(g, "provenance") == "somewhere");
  CHECK(g.document.at("facts").items().size() == 1);
}

TEST_CASE("what cannot be resolved is refused in one line at its place") {
  CHECK(says(refusal({"features: [quick]\n"}), "n0.yaml:1:12: features[0]: there is none of that name"));
  CHECK(says(refusal({"features: fast\n"}), "expected a list of features"));
  CHECK(says(refusal({"features: [fast, fast]\n"}), "got \"fast\" twice"));
  CHECK(says(refusal({"features: [fused]\nwithout: [fused]\n"}), "`without` lists too"));
  CHECK(says(refusal({"without: [faster]\n", "features: [fast]\n"}), "not inherited; did you mean \"fast\"?"));
  CHECK(says(refusal({"features: [mistaken]\n"}),
             "mistaken.yaml:2:8: sets.kernel_isue: unknown key; did you mean \"kernel_issue\"?"));
  CHECK(says(refusal({"features: [idle]\n"}), "sets nothing"));
  CHECK(says(refusal({"collectives: odd\n"}), "odd.yaml:2:1: kernel_issue: unknown key"));
  CHECK(says(refusal({"host: {kernel_isue: 1 us}\n"}),
             "n0.yaml:1:8: host.kernel_isue: unknown key; did you mean \"kernel_issue\"?"));
  // Only numbers are fitted, and only the host's keys are the host's.
  CHECK(says(refusal({"fitted: {dropout: false}\n"}), "fitted.dropout: unknown key"));
  CHECK(says(refusal({"host: {pipeline_slowdown: 1.1}\n"}), "host.pipeline_slowdown: unknown key"));
  CHECK(says(refusal({"host: {kernel_issue: 1 us}\nkernel_issue: 2 us\n"}), "given twice, first in line 1"));
  CHECK(says(refusal({"kernel_issue: 2 us\nfitted: {kernel_issue: 1 us}\n"}), "given twice, first in line 1"));
  CHECK(says(refusal({"host: {kernel_issue: 2 us}\nfitted: {kernel_issue: 1 us}\n"}), "given twice, first in line 1"));
}

TEST_CASE("a feature's absence may say only what the feature says") {
  const auto complaint = [](const std::string& yaml) {
    try {
      read_feature(parse_yaml(yaml, "f.yaml"));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(complaint("name: f\nsets: {dropout: true}\nabsent: {dropout: false}\n").empty());
  CHECK(says(complaint("name: f\nsets: {dropout: true}\nabsent: {kernel_issue: 1 us}\n"),
             "absent.host.kernel_issue: unknown key"));
  CHECK(says(complaint("sets: {dropout: true}\n"), "name"));
  CHECK(says(complaint("name: f\nset: {dropout: true}\n"), "did you mean \"sets\"?"));
}
