// Reads `offers` of the generation that a scenario names; the nearest document of its chain that has them counts whole.
#include "tools/study/offers.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/origin.h"

namespace orrery::tools {

namespace {

using Words = std::vector<std::string>;

const Words& shardings() {
  static const Words all{"none", "optimizer", "gradients", "parameters"};
  return all;
}
const Words& recomputes() {
  static const Words all{"none", "selective", "full"};
  return all;
}

std::optional<Words> words_at(const sim::Settings& offers, const char* key) {
  const sim::Settings* list = offers.find(key);
  if (list == nullptr) return std::nullopt;
  if (!list->is_sequence() || list->items().empty()) list->expected("a list of names");
  Words out;
  for (const sim::Settings& item : list->items()) out.push_back(item.text());
  return out;
}

bool has(const std::optional<Words>& words, const std::string& word) {
  return !words || std::find(words->begin(), words->end(), word) != words->end();
}

Words kept(const Words& all, const std::optional<Words>& words) {
  Words out;
  std::copy_if(all.begin(), all.end(), std::back_inserter(out), [&](const std::string& w) { return has(words, w); });
  return out;
}

}  // namespace

Words Offers::sharding_of(const Words& all, bool stages) const {
  return kept(kept(all, sharding), stages ? with_pipeline : std::nullopt);
}
Words Offers::recompute_of(const Words& all) const { return kept(all, recompute); }
bool Offers::has_schedule(const std::string& name) const { return has(schedule, name); }

std::string Offers::missing_text() const {
  Words parts;
  const auto add = [&](const char* what, const Words& all, const std::optional<Words>& words) {
    Words missing;
    std::copy_if(all.begin(), all.end(), std::back_inserter(missing),
                 [&](const std::string& w) { return !has(words, w); });
    if (!missing.empty()) parts.push_back(fmt::format("{} {}", what, fmt::join(missing, " and ")));
  };
  add("sharding", shardings(), sharding);
  add("beside stages sharding", kept(shardings(), sharding), with_pipeline);
  add("recompute", recomputes(), recompute);
  add("schedule", {"1f1b", "interleaved_1f1b"}, schedule);
  if (!tensor) parts.emplace_back("tensor parallelism");
  if (!pipeline) parts.emplace_back("pipeline parallelism");
  return fmt::format("{}", fmt::join(parts, ", "));
}

Offers offers_of(const sim::Settings& document) {
  Offers out;
  const calibration::Generation generation = scenarios::referred_software(document);
  const sim::Settings* offers = generation.document.find("offers");
  if (offers == nullptr) return out;
  offers->refuse_unknown({"sharding", "with_pipeline", "recompute", "schedule", "tensor", "pipeline", "source"});
  out.software = generation.document.get_text("name", "this software");
  out.sharding = words_at(*offers, "sharding");
  out.with_pipeline = words_at(*offers, "with_pipeline");
  out.recompute = words_at(*offers, "recompute");
  out.schedule = words_at(*offers, "schedule");
  if (const sim::Settings* one = offers->find("tensor")) out.tensor = one->as_bool();
  if (const sim::Settings* one = offers->find("pipeline")) out.pipeline = one->as_bool();
  return out;
}

}  // namespace orrery::tools
