// Recipes: what ships is read and evaluated line by line, bad ones are refused with their place, and a variant that is
// taken over from another is that one.
#include "calibration/framework/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::scenarios::parse_yaml;
using orrery::scenarios::recipe_book;
using orrery::sim::Settings;
using orrery::sim::UserError;

std::vector<RecipePart> parts_with_recipes() {
  std::vector<RecipePart> parts;
  for (std::size_t i = 0; i < kRecipeParts; ++i) parts.push_back(static_cast<RecipePart>(i));
  return parts;
}

/// A value for each size of a part, 0 or 1 for the flags among them: primes, so that sums tell their terms apart.
RecipeSizes sizes_with(RecipePart part, double flag) {
  static const std::vector<std::string> kFlags{
      "factor", "gated", "squared", "bias", "bias_in_gemm", "group",  "mask",    "shards",   "rms",    "residual",
      "fused",  "adam",  "lamb",    "sgd",  "fp16",         "narrow", "moments", "momentum", "adagrad"};
  static constexpr std::array kPrimes{2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0, 29.0, 31.0, 37.0};
  RecipeSizes sizes(part);
  std::size_t next = 0;
  for (const SizeName& size : sizes_of(part)) {
    const bool is_flag = std::find(kFlags.begin(), kFlags.end(), size.name) != kFlags.end();
    sizes.set(size.name, is_flag ? flag : kPrimes.at(next++));
  }
  return sizes;
}

std::string complaint_of(const std::string& yaml) {
  try {
    RecipeBook book;
    book.add(parse_yaml(yaml, "r.yaml"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string with_line(const std::string& line) {
  return "part: rotary\nusual: one\nvariants:\n  one:\n    source: none\n    forward:\n      - rotate: " + line + "\n";
}

}  // namespace

TEST_CASE("every part has recipes with sources, whose lines come to something") {
  for (const RecipePart part : parts_with_recipes()) {
    INFO(name_of(part));
    REQUIRE(recipe_book().usual(part) != nullptr);
    CHECK(meaning_of(part).ends_with("."));
    for (const SizeName& size : sizes_of(part)) CHECK(!size.meaning.empty());
    for (const auto& recipe : recipe_book().variants(part)) {
      INFO(recipe->variant);
      CHECK(recipe->source.size() > 10);
      std::string table;
      for (const double flag : {0.0, 1.0}) {
        const RecipeSizes sizes = sizes_with(part, flag);
        for (const auto* lines : {&recipe->forward, &recipe->backward}) {
          for (const Line& line : *lines) {
            const double elements = line.elements.at(sizes), bytes = line.bytes_each.at(sizes);
            table +=
                fmt::format("{}{:<40} {:>8g} x {:g}\n", line.holds(sizes) ? "  " : "# ", line.name, elements, bytes);
            CHECK((!line.holds(sizes) || elements * bytes > 0));
          }
        }
        for (const auto* tensors : {&recipe->keeps, &recipe->works, &recipe->gaps})
          for (const KeptLine& line : *tensors) CHECK((!line.holds(sizes) || line.elements.at(sizes) > 0));
      }
      INFO(table);
      CHECK((recipe->forward.empty() || table.find("\n  ") != std::string::npos || table.starts_with("  ")));
    }
  }
}

TEST_CASE("no two variants of a part are the same kernels and tensors") {
  for (const RecipePart part : parts_with_recipes()) {
    const auto& variants = recipe_book().variants(part);
    for (auto a = variants.begin(); a != variants.end(); ++a) {
      for (auto b = std::next(a); b != variants.end(); ++b) {
        INFO(name_of(part) << ": " << (*a)->variant << ", " << (*b)->variant);
        Recipe other = **b;
        other.variant = (*a)->variant;
        other.source = (*a)->source;
        CHECK_FALSE(other == **a);
      }
    }
  }
}

TEST_CASE("a line is a kernel, elements, bytes and conditions; sums of products are what they say") {
  RecipeBook book;
  book.add(parse_yaml(with_line("strided 0.5q+3kv*e 4+2e+q if factor and not e"), "r.yaml"));
  const Line line = book.usual(RecipePart::rotary)->forward.front();
  const RecipeSizes sizes(RecipePart::rotary, {{"q", 10}, {"kv", 3}, {"e", 2}, {"factor", 1}, {"packed", 0}});
  CHECK(std::get<Streaming>(line.runs) == Streaming::strided);
  CHECK(line.elements.at(sizes) == 5 + 3 * 3 * 2);
  CHECK(line.bytes_each.at(sizes) == 4 + 2 * 2 + 10);
  CHECK_FALSE(line.holds(sizes));  // e is not 0
  CHECK(line.holds(RecipeSizes(RecipePart::rotary, {{"q", 10}, {"kv", 3}, {"e", 0}, {"factor", 1}, {"packed", 0}})));
  CHECK_FALSE(
      line.holds(RecipeSizes(RecipePart::rotary, {{"q", 10}, {"kv", 3}, {"e", 0}, {"factor", 0}, {"packed", 0}})));
}

TEST_CASE("a line may stand for several kernels, at least one") {
  RecipeBook book;
  book.add(parse_yaml(with_line("copy q 2e times 3kv+packed if factor"), "r.yaml"));
  const Line line = book.usual(RecipePart::rotary)->forward.front();
  const auto launches = [&](double kv) {
    return line.launches(
        RecipeSizes(RecipePart::rotary, {{"q", 1}, {"kv", kv}, {"e", 2}, {"factor", 1}, {"packed", 0}}));
  };
  CHECK(launches(4) == 12);
  CHECK(launches(0) == 1);
  CHECK(line.conditions.size() == 1);
}

TEST_CASE("where documents are packed another variant's kernels run in the place of its own") {
  const Settings name = Settings::scalar("fused_unless_packed", {"test", 1, 1});
  const auto recipe = recipe_book().read(RecipePart::rotary, name);
  const auto names = [&](const Recipe& of, double packed) {
    const RecipeSizes sizes(RecipePart::rotary, {{"q", 8}, {"kv", 2}, {"e", 2}, {"factor", 0}, {"packed", packed}});
    std::string out;
    for (const Line& line : of.forward) out += line.holds(sizes) ? line.name + ";" : "";
    return out;
  };
  const auto variant = [&](const char* of) {
    return recipe_book().read(RecipePart::rotary, Settings::scalar(of, {"test", 1, 1}));
  };
  CHECK(names(*recipe, 0) == names(*variant("fused"), 0));
  CHECK(names(*recipe, 5) == names(*variant("by_document"), 5));
}

TEST_CASE("recipes that cannot be read are refused where they stand") {
  const auto refuses = [](const std::string& line, const std::string& part) {
    const std::string message = complaint_of(with_line(line));
    INFO(line << ": " << message);
    CHECK(message.starts_with("r.yaml:7:"));
    CHECK(message.find(part) != std::string::npos);
  };
  refuses("copi q 2e", "did you mean \"copy\"?");
  refuses("copy qq 2e", "did you mean \"q\"?");
  refuses("copy", "elements");
  refuses("copy q", "bytes");
  refuses("copy q 2x", "size of rotary \"x\"");
  refuses("copy q+ 2e", "a sum of products");
  refuses("copy +q 2e", "a sum of products");
  refuses("copy q 2..5e", "a sum of products");
  refuses("copy q 2000000e", "at most 1e+06 times");
  refuses("copy q*q*q*q 2e", "at most 3 sizes");
  refuses("copy q 2e when factor", "expected \"if\"");
  refuses("copy q 2e if factor q", "expected \"and\"");
  refuses("copy q 2e if", "a size");
  refuses("copy q 2e times", "a number");
  refuses("[copy, q]", "a line");
  CHECK(complaint_of("part: rotari\nusual: a\nvariants: {}\n").find("did you mean \"rotary\"?") != std::string::npos);
  CHECK(complaint_of("part: rotary\nusual: b\nvariants: {a: {source: none}}\n").starts_with("r.yaml:2:"));
  CHECK(complaint_of("part: rotary\nusual: a\nvariants: {a: {source: none, forwards: []}}\n").find("forward") !=
        std::string::npos);
  // Of a variant that stands ahead alone, so that none can stand for itself.
  CHECK(complaint_of("part: rotary\nusual: a\nvariants: {a: {source: none, like: a}}\n").find("like") !=
        std::string::npos);
}

TEST_CASE("over a group another variant's kernels run in the place of a loss's own") {
  const auto names = [](double group) {
    const RecipeSizes sizes(RecipePart::loss,
                            {{"logits", 8}, {"tokens", 2}, {"e", 2}, {"group", group}, {"shards", group}});
    std::string out;
    const Settings kernel = Settings::scalar("kernel", {"test", 1, 1});
    for (const Line& line : recipe_book().read(RecipePart::loss, kernel)->forward)
      out += line.holds(sizes) ? line.name + ";" : "";
    return out;
  };
  CHECK(names(0) == "logits to fp32;softmax with cross entropy;");
  CHECK(names(1) ==
        "logits to fp32;logit maximum;loss;subtract maximum;loss;exponentials;sum of exponentials;loss;divide by sum;");
}

TEST_CASE("a mapping is a recipe of its own, and may be like one that ships") {
  const Settings own = parse_yaml("{source: a test, like: fused, forward: [rotate twice: copy 2q 2e]}", "r.yaml");
  const auto recipe = recipe_book().read(RecipePart::rotary, own);
  CHECK(recipe->forward.size() == 1);
  CHECK(recipe->backward == recipe_book().usual(RecipePart::rotary)->backward);
}

TEST_CASE("keys of former releases say what recipes say now, or name the key to set") {
  const auto now = [](const std::string& yaml) {
    return with_present_keys(parse_yaml(yaml, "s.yaml")).find_path("recipe.loss")->text();
  };
  CHECK(now("fused_cross_entropy: true") == "fused");
  CHECK(now("compiled_cross_entropy: false") == "in_steps");
  CHECK_THROWS_WITH(with_present_keys(parse_yaml("loss_copies: 4", "s.yaml")), ContainsSubstring("recipe.loss"));
}

TEST_CASE("a key stands in its block, with its name or without it, and a choice takes what were booleans") {
  const auto at = [](const std::string& yaml, const char* key) {
    const Settings now = with_present_keys(parse_yaml(yaml, "s.yaml"));
    const Settings* found = now.find_path(key);
    return found != nullptr ? found->text() : "";
  };
  for (const char* yaml : {"kernel_issue: 5 us", "host: {kernel_issue: 5 us}"})
    CHECK(at(yaml, "host.kernel_issue") == "5 us");
  CHECK(at("fitted: {kernel_issue: 7 us}", "fitted.host.kernel_issue") == "7 us");
  CHECK(at("sharding: optimizer", "defaults.parallelism.sharding") == "optimizer");
  CHECK(at("overlap_tensor: true", "defaults.overlap.tensor") == "true");
  // Of booleans that excluded each other the one that is true counts, in any order.
  for (const char* yaml :
       {"{frees_end_unit: true, keeps_last_unit: false}", "{keeps_last_unit: false, frees_end_unit: true}"})
    CHECK(at(yaml, "units_kept") == "none");
  const std::tuple<const char*, const char*, const char*> formers[] = {
      {"clears_gradients: false", "gradient_buffers", "on_demand"},
      {"allocates_gradients_late: true", "gradient_buffers", "on_demand"},
      {"gradient_buckets_by_weight: true", "buckets.bucket_cut", "by_weight"},
      {"holds_last_inputs: true", "received_buffers", "last_held"},
      {"receives_apart: true", "received_buffers", "every_micro_batch"},
      {"overlap_pipeline_warmup: false", "message_phases", "steady"},
      {"ends_slots: true", "message_phases", "slots"},
      {"keeps_last_unit: true", "units_kept", "ends_and_last"},
      {"repeats_keys: true", "key_copies", "repeated"},
      {"keeps_first_keys: true", "key_copies", "apart"},
      {"copies_units: true", "unit_gathers", "copied"},
      {"gathers_in_own_pool: true", "unit_gathers", "own_pool"},
      {"quantised_fetches: true", "fetched_as", "int8"},
      {"quantised_reductions: true", "reduced_as", "int4"},
      {"unfused_permutation: true", "defaults.experts.fused_permutation", "false"},
      {"weighs_activations: true", "recipe.expert-weights", "on_activations"},
      {"pads_experts: true", "recipe.expert-blocks", "copied"},
      {"reduces_amax: true", "amax_reduction", "every_pass"},
      {"gradient_dtype: bf16", "defaults.precision.gradients", "bf16"},
      {"parameter_gather_dtype: fp8", "defaults.precision.parameters", "fp8"},
      {"overlap_pipeline: of_chunks", "defaults.overlap.pipeline", "of_chunks"}};
  for (const auto& [yaml, key, now] : formers) {
    INFO(yaml);
    CHECK(at(yaml, key) == now);
    CHECK_NOTHROW(load_software(parse_yaml(std::string("name: x\n") + yaml, "s.yaml")));
  }
  CHECK_THROWS_WITH(with_present_keys(parse_yaml("host_read: 30 us", "s.yaml")), ContainsSubstring("attention_reads"));
  CHECK_THROWS_WITH(with_present_keys(parse_yaml("kernel_issue: 5 us\nhost: {kernel_issue: 6 us}", "s.yaml")),
                    ContainsSubstring("given twice"));
  CHECK(present_key("fitted.host.kernel_issue") == "host.kernel_issue");
  CHECK(present_key("kernel_isue") == "kernel_isue");
  const Settings written = parse_yaml("{inherits: vtrain, fitted: {kernel_issue: 7 us}, sharding: none}", "s.yaml");
  CHECK(spelled_in(written, "host.kernel_issue") == "fitted.kernel_issue");
  CHECK(spelled_in(written, "defaults.parallelism.sharding") == "sharding");
  CHECK(spelled_in(written, "transfer_issue").empty());
}
