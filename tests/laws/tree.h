// The source tree as the laws see it: text files, without what is built or hidden.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/paths.h"

namespace orrery::laws {

namespace fs = std::filesystem;

struct SourceFile {
  std::string path;  // relative to the root
  std::string suffix;
  std::string text;
  std::vector<std::string> lines;
  bool is_code() const { return suffix == ".h" || suffix == ".cc" || suffix == ".cu"; }
  std::string room() const { return path.substr(0, path.find('/')); }
};

/// Every text file of the rooms and of the root, in the order of their paths.
inline std::vector<SourceFile> source_files() {
  std::vector<SourceFile> files;
  const fs::path root = tests::kSourceDir;
  const auto add = [&](const fs::path& path) {
    SourceFile file;
    file.path = fs::relative(path, root).generic_string();
    file.suffix = path.extension().string();
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    file.text = text.str();
    std::istringstream in(file.text);
    for (std::string line; std::getline(in, line);) file.lines.push_back(line);
    files.push_back(std::move(file));
  };
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    // In a second work tree of a repository .git is a file.
    if (entry.is_regular_file() && entry.path().filename() != ".git") add(entry.path());
  }
  for (const char* room :
       {"sim", "topology", "calibration", "workloads", "scenarios", "tools", "tests", "docs", ".ci"}) {
    if (!fs::is_directory(root / room)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / room)) {
      if (entry.is_regular_file()) add(entry.path());
    }
  }
  std::sort(files.begin(), files.end(), [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

/// Characters, not bytes: continuation bytes of UTF-8 do not count.
inline std::size_t width_of(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace orrery::laws
