// The catalogue of targets and where their first inputs come from.
#include "tests/fuzz/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "scenarios/scenario.h"
#include "tests/paths.h"

namespace orrery::fuzz {

namespace fs = std::filesystem;

namespace {

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The files below a folder, in the order of their names; none where there is no such folder.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

void expect(bool holds, const std::string& what) {
  if (!holds) throw Finding(what);
}

const std::vector<Target>& targets() {
  static const std::vector<Target> kAll = [] {
    std::vector<Target> all;
    for (const auto& part : {document_targets(), language_targets(), study_targets(), table_targets(), import_targets(),
                             trace_targets()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return kAll;
}

const Target& target_of(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Target& target : targets()) {
    if (target.name == name) return target;
    names.push_back(target.name);
  }
  throw std::invalid_argument(fmt::format("got the target {}, expected one of {}", name, fmt::join(names, ", ")));
}

std::vector<std::string> inputs_of(const Target& target) {
  std::vector<std::string> inputs;
  for (const fs::path& file : files_below(fs::path(tests::kSourceDir) / "tests/fuzz/corpus" / target.name))
    inputs.push_back(contents(file));
  const std::vector<std::string> seeds = target.seeds();
  inputs.insert(inputs.end(), seeds.begin(), seeds.end());
  if (inputs.empty()) inputs.emplace_back();
  return inputs;
}

std::string shipped_text(const std::string& folder, const std::string& name) {
  const std::string text = contents(fs::path(scenarios::data_directory()) / folder / name);
  expect(!text.empty(), folder + "/" + name + " does not ship");
  return text;
}

std::vector<std::string> shipped_sections(const std::string& folder, const std::string& suffix) {
  std::vector<std::string> sections;
  for (const fs::path& file : files_below(fs::path(scenarios::data_directory()) / folder)) {
    if (file.extension() != suffix) continue;
    const std::string head = "inherits: " + file.stem().string() + "\n";
    std::istringstream lines(contents(file));
    std::string section;
    const auto keep = [&] {
      const bool inherits = section.starts_with("inherits:") || section.starts_with("provenance:");
      if (!section.empty() && !inherits && section.size() < 4096) sections.push_back(head + section);
      section.clear();
    };
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line.front() == '#') continue;
      if (line.front() != ' ' && line.front() != '-' && line.front() != '}') keep();
      section += line + "\n";
    }
    keep();
  }
  // Equal keys of many files are alike: a few hundred are enough, taken evenly.
  constexpr std::size_t kMost = 300;
  std::vector<std::string> some;
  const std::size_t step = sections.size() / kMost + 1;
  for (std::size_t i = 0; i < sections.size(); i += step) some.push_back(sections[i]);
  return some;
}

std::vector<std::string> shipped_texts(const std::string& folder, const std::string& suffix) {
  constexpr std::size_t kLargest = 16 << 10;
  std::vector<std::string> texts;
  for (const fs::path& file : files_below(fs::path(scenarios::data_directory()) / folder)) {
    if (file.extension() != suffix) continue;
    std::string text = contents(file);
    if (text.size() <= kLargest) texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace orrery::fuzz
