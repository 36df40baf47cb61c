// Reads the files off a parsed command line. A file that is there is its device and number, so that links and other
// spellings of a path are the same file; one that is not there yet is its path in normal form. Folders stand for the
// lists in them. Devices and pipes lose nothing by being named twice.
#include "tools/written_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "sim/error.h"

namespace orrery::tools {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 14> kWriting{"--csv",      "--dot",  "--intervals", "--json",   "--kernels",
                                                    "--out",      "--plot", "--rows",      "--readme", "--report",
                                                    "--requests", "--svg",  "--timeline",  "--trace"};

/// What is read where it lies in a folder that was named.
constexpr std::array<std::string_view, 5> kListed{".yaml", ".yml", ".csv", ".et", ".gz"};

struct Named {
  std::string option, path;
  bool written = false;
};

bool same_file(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  const bool have_a = ::stat(a.c_str(), &first) == 0, have_b = ::stat(b.c_str(), &second) == 0;
  if (have_a != have_b) return false;
  if (have_a) return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  std::error_code failed;
  const fs::path here = fs::weakly_canonical(fs::absolute(a, failed), failed),
                 there = fs::weakly_canonical(fs::absolute(b, failed), failed);
  return !failed && here == there;
}

/// Whether `file`, which is there, is one that a command finds in the folder that it was given.
bool listed_in(const std::string& folder, const std::string& file) {
  std::error_code failed;
  if (!fs::is_directory(folder, failed) || !fs::is_regular_file(file, failed)) return false;
  const std::string suffix = fs::path(file).extension().string();
  if (std::find(kListed.begin(), kListed.end(), suffix) == kListed.end()) return false;
  const fs::path below = fs::weakly_canonical(file, failed).lexically_relative(fs::weakly_canonical(folder, failed));
  return !failed && !below.empty() && *below.begin() != "..";
}

/// A file without a name, as a variable leaves that a shell has not set: nothing would be written, and nobody told.
void refuse_empty(const CLI::App& app, const CLI::Option& option, const std::string& name) {
  const bool positional = option.get_lnames().empty() && option.get_snames().empty();
  if (!writes_file(name) && name != "--resume" && !(positional && option.get_required())) return;
  const std::vector<std::string>& values = option.results();
  if (std::none_of(values.begin(), values.end(), [](const std::string& value) { return value.empty(); })) return;
  throw sim::UserError(fmt::format("orrery: {}: {}: got an empty name, expected {}", app.get_name(), name,
                                   positional ? "one" : option.get_type_name()));
}

void add_files(const CLI::App& app, std::vector<Named>& files) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->get_items_expected_max() == 0) continue;
    const std::string name = option->get_name(option->get_lnames().empty());
    if (name == "--argument") continue;  // a word of a script that is read, whatever it is
    refuse_empty(app, *option, name);
    for (const std::string& value : option->results()) {
      std::error_code failed;
      const bool there = fs::exists(value, failed);
      // FILE#ID of a list, and KEY=FILE.
      const std::size_t hash = there ? std::string::npos : value.rfind('#');
      const std::size_t equals = there ? std::string::npos : value.find('=');
      files.push_back({name,
                       hash != std::string::npos     ? value.substr(0, hash)
                       : equals != std::string::npos ? value.substr(equals + 1)
                                                     : value,
                       writes_file(name)});
    }
  }
  for (const std::string& word : app.remaining()) files.push_back({"the command line", word, false});
  for (const CLI::App* sub : app.get_subcommands()) add_files(*sub, files);
}

/// A sweep goes on in the file that it resumes.
bool goes_on(const Named& written, const Named& other) {
  return written.option == "--csv" && other.option == "--resume";
}

}  // namespace

bool writes_file(const std::string& option) {
  return std::find(kWriting.begin(), kWriting.end(), option) != kWriting.end();
}

void refuse_overwriting(const CLI::App& app) {
  std::vector<Named> files;
  add_files(app, files);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Named& written = files[i];
    if (!written.written || written.path.empty()) continue;
    for (std::size_t j = 0; j < files.size(); ++j) {
      const Named& other = files[j];
      if (i == j || other.path.empty() || goes_on(written, other) || (other.written && j < i)) continue;
      if (written.path == "-" || other.path == "-") {
        if (written.path != other.path || !other.written) continue;
        throw sim::UserError(fmt::format("orrery: {}: got standard output, to which {} goes as well, expected a file",
                                         written.option, other.option));
      }
      if (!same_file(written.path, other.path) && !listed_in(other.path, written.path)) continue;
      throw sim::UserError(fmt::format("orrery: {}: got {}, which {} {}, expected another file", written.option,
                                       written.path, other.option, other.written ? "writes as well" : "reads"));
    }
  }
}

}  // namespace orrery::tools
