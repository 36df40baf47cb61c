// The importers read files; what the page has is text, which goes through a file of its own that is removed again. Its
// folder's name is taken out of what they say. What they return need not run yet: a config.json names no cluster.
#include "tools/whatif/drafts.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/error.h"
#include "tools/import/import.h"

namespace orrery::tools {

namespace fs = std::filesystem;
using sim::UserError;

namespace {

constexpr std::size_t kLargest = std::size_t{16} << 20;  // as read_text of the importers

/// A folder that lives as long as this.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "orrery-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw UserError("import: there is no folder for temporary files");
    path_ = name;
  }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// A name without folders or anything else that a file system or a terminal could take amiss.
std::string plain_name(const std::string& file) {
  std::string name = fs::path(file).filename().string();
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return !(std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_'); }, '_');
  if (name.empty() || name.front() == '.' || name.size() > 100) return "configuration";
  return name;
}

std::string without(std::string text, const std::string& word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) text.erase(at, word.size());
  return text;
}

Draft draft_of(const std::string& form, const std::string& text, const std::string& file, const Folder& folder) {
  if (form == "megatron") return import_megatron(read_launch_line(text, file));
  const fs::path path = folder.path() / file;
  std::ofstream(path, std::ios::binary) << text;
  if (form == "hf") return import_hf(path.string());
  if (form == "nemo") return import_nemo(path.string());
  throw UserError(fmt::format("request: form: got \"{}\", expected hf, megatron or nemo", form));
}

}  // namespace

nlohmann::ordered_json draft_json(const std::string& form, const std::string& text, const std::string& file) {
  if (text.size() > kLargest) throw UserError(fmt::format("{}: got more than 16 MiB, expected a configuration", file));
  const Folder folder;
  const std::string prefix = folder.path().string() + "/";
  try {
    return {{"yaml", without(draft_of(form, text, plain_name(file), folder).yaml(), prefix)}};
  } catch (const UserError& error) {
    throw UserError(without(error.what(), prefix));
  }
}

}  // namespace orrery::tools
