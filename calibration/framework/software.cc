// Reads a software generation by the table of its keys.
#include "calibration/framework/software.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "calibration/framework/software_rows.h"
#include "sim/error.h"

namespace orrery::calibration {

using sim::Settings;

namespace {

std::vector<std::string> block_names(SoftwareBlock block) {
  std::vector<std::string> names;
  for (const SoftwareRow& row : software_rows()) {
    if (row.kind == SoftwareRow::Kind::form || row.is_block()) continue;
    const bool number = row.doc.type == "number" || row.doc.type == "quantity";
    if ((block == SoftwareBlock::all) || (block == SoftwareBlock::fitted && number) ||
        (block == SoftwareBlock::host && row.doc.path.starts_with("host.")) ||
        (block == SoftwareBlock::collectives && row.kind == SoftwareRow::Kind::library))
      names.push_back(row.doc.path);
  }
  return names;
}

/// Throws UserError for what may not stand in a resolved document.
void refuse_unknown_keys(const Settings& document) {
  const std::vector<std::string>& names = software_keys().names_below("");
  const auto is_known = [&](const auto& member) {
    return std::find(names.begin(), names.end(), member.first) != names.end();
  };
  if (std::all_of(document.members().begin(), document.members().end(), is_known)) return;
  std::vector<std::string> all = names;  // whatever was meant, with its block or without
  for (const SoftwareRow& row : software_rows()) all.push_back(row.doc.path);
  refuse_other_keys(document, all);
}

}  // namespace

const sim::KeyTable& software_keys() {
  static const sim::KeyTable keys = [] {
    std::vector<sim::Key> out;
    out.reserve(software_rows().size());
    for (const SoftwareRow& row : software_rows()) out.push_back(row.doc);
    return sim::KeyTable(std::move(out));
  }();
  return keys;
}

const std::vector<std::string>& keys_of(SoftwareBlock block) {
  static const std::array<std::vector<std::string>, 4> names{
      block_names(SoftwareBlock::all), block_names(SoftwareBlock::host), block_names(SoftwareBlock::fitted),
      block_names(SoftwareBlock::collectives)};
  return names[static_cast<std::size_t>(block)];
}

Software Software::load(const sim::Settings& written, const RecipeBook& book) {
  if (!written.is_mapping()) written.expected("a software generation: a mapping of keys");
  const Settings document = with_present_keys(written);
  refuse_unknown_keys(document);
  software_keys().check(document);
  Software out;
  for (const SoftwareRow& row : software_rows())
    if (const Settings* value = document.find_path(row.doc.path)) row.read(out, *value);
  for (std::size_t i = 0; i < kRecipeParts; ++i) {
    const auto part = static_cast<RecipePart>(i);
    const Settings* reference = document.find_path(fmt::format("recipe.{}", name_of(part)));
    auto recipe = reference != nullptr ? book.read(part, *reference) : book.usual(part);
    if (recipe == nullptr) continue;
    if (part == RecipePart::optimizer) out.optimizer.recipe = recipe;
    out.layers.recipes.set(std::move(recipe));
  }
  if (out.name.empty()) document.fail("got no name, expected name: <the generation>");
  return out;
}

}  // namespace orrery::calibration
