// Parses what ships while the program is built: pack_documents ROOT NAMES OUT reads the files below ROOT that the lines
// of NAMES name, and writes what scenarios/packed_documents.cc takes in. A file that is wrong is left out: the program
// parses it when it is asked for, and says what is wrong.
#include <algorithm>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "calibration/device/keys.h"
#include "calibration/device/profile.h"
#include "calibration/framework/generation.h"
#include "scenarios/packed_documents.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "sim/packed_settings.h"
#include "sim/packed_table.h"
#include "sim/text_file.h"
#include "tools/report/csv.h"

/// Of the program that packs: none.
std::optional<orrery::scenarios::PackedFile> orrery::scenarios::packed_file(std::string_view) { return std::nullopt; }

namespace {

using namespace orrery;

std::string packed_lines(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(tools::csv_cells(line));
  return sim::packed_table(lines);
}

/// What the file's document is right as, as who reads it would find: what is told here is not looked at again.
std::string checked_as(const std::string& name, const sim::Settings& document) {
  try {
    if (name.starts_with("calibration/profiles/") && document.find("inherits") == nullptr) {
      calibration::DeviceProfile::load(document);
      return calibration::kCheckedProfile;
    }
    if (name.starts_with("calibration/features/")) {
      calibration::read_feature(document);
      return calibration::kCheckedFeature;
    }
  } catch (const sim::UserError&) {  // who reads it says so
  }
  return "";
}

void add(scenarios::PackedArchive& archive, const std::string& root, const std::string& name) {
  const std::string text = sim::read_text(root + "/" + name, "a shipped file");
  try {
    if (name.ends_with(".csv")) return archive.add(text, {"", packed_lines(text)});
    const sim::Settings document = scenarios::parse_yaml(text, name);
    archive.add(text, {checked_as(name, document), sim::packed(document)});
  } catch (const sim::UserError&) {
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) {
    std::cerr << "pack_documents: expected ROOT NAMES OUT\n";
    return 2;
  }
  try {
    scenarios::PackedArchive archive;
    std::istringstream names(sim::read_text(words[2], "a list of names"));
    for (std::string name; std::getline(names, name);) add(archive, words[1], name);
    std::ofstream out(words[3], std::ios::binary);
    out << archive.bytes();
    out.close();
    if (!out) throw std::runtime_error(std::string(words[3]) + ": cannot be written");
  } catch (const std::exception& error) {
    std::cerr << "pack_documents: " << error.what() << '\n';
    return 1;
  }
}
