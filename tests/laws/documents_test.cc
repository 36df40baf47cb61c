// Do the documents hang together? Links lead somewhere, sources name documents that there are, and nobody writes by
// hand how far off predictions are: tables do, which scripts write anew and other tests hold to what the program says.
#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/laws/tree.h"

using namespace orrery::laws;

namespace {

bool is_document(const SourceFile& file) {
  return file.suffix == ".md" && (file.path == "README.md" || file.room() == "docs");
}

/// Lines outside of code.
std::vector<std::string> prose_of(const std::vector<std::string>& all) {
  std::vector<std::string> lines;
  bool code = false;
  for (const std::string& line : all) {
    const bool fence = line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with("```");
    if (fence) code = !code;
    if (!fence && !code) lines.push_back(line);
  }
  return lines;
}

/// Lines that somebody wrote: without what stands between the lines that say which script writes it. Pages of
/// docs/evidence about lists are written whole (tools/evidence), from notes that count here in their place.
std::vector<std::string> by_hand(const SourceFile& file) {
  static const std::set<std::string> kPartsOfAStep{"docs/evidence/experts.md", "docs/evidence/hosts.md",
                                                   "docs/evidence/power.md", "docs/evidence/network.md",
                                                   "docs/evidence/memory.md"};
  if (file.path.starts_with("docs/evidence/") && !kPartsOfAStep.contains(file.path)) return {};
  std::vector<std::string> lines;
  bool written = false;
  for (const std::string& line : file.lines) {
    const bool ends = line.starts_with("<!-- end of") || line.starts_with("<!-- /");
    if (line.starts_with("<!--")) written = !ends;
    if (!written && !line.starts_with("<!--")) lines.push_back(line);
  }
  return lines;
}

/// Words of lines: what has a letter or a digit, so that rules of tables and dashes are none.
std::size_t words_of(const std::vector<std::string>& lines) {
  std::size_t count = 0;
  for (const std::string& line : lines) {
    std::istringstream in(line);
    for (std::string word; in >> word;)
      count += std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c) != 0; }) ? 1 : 0;
  }
  return count;
}

/// The anchor of a heading, as GitHub and the site make it.
std::string anchor_of(const std::string& heading) {
  std::string out;
  for (const char c : heading) {
    if (c == ' ') out += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

const std::vector<SourceFile>& tree() {
  static const std::vector<SourceFile> files = source_files();
  return files;
}

}  // namespace

TEST_CASE("links of the documents lead to files, and to headings that these have", "[tree]") {
  std::map<std::string, std::set<std::string>> anchors;
  for (const SourceFile& file : tree()) {
    if (!is_document(file)) continue;
    for (const std::string& line : prose_of(file.lines)) {
      const std::size_t text = line.find_first_not_of('#');
      if (line.starts_with("#") && text != std::string::npos)
        anchors[file.path].insert(anchor_of(line.substr(text + 1)));
    }
  }
  static const std::regex kLink(R"(\]\(([^)\s]+)\))");
  std::size_t links = 0;
  for (const SourceFile& file : tree()) {
    if (!is_document(file)) continue;
    for (const std::string& line : prose_of(file.lines)) {
      for (std::sregex_iterator at(line.begin(), line.end(), kLink), end; at != end; ++at) {
        const std::string target = (*at)[1].str();
        if (target.find(':') != std::string::npos) continue;
        const std::size_t hash = target.find('#');
        const fs::path folder = fs::path(file.path).parent_path();
        const std::string to =
            hash == 0 ? file.path : (folder / target.substr(0, hash)).lexically_normal().generic_string();
        INFO(file.path << ": " << target);
        CHECK(fs::exists(fs::path(orrery::tests::kSourceDir) / to));
        if (hash != std::string::npos) CHECK(anchors[to].contains(target.substr(hash + 1)));
        ++links;
      }
    }
  }
  CHECK(links > 100);
}

TEST_CASE("documents that sources name are there", "[tree]") {
  const std::set<std::string> kOfOthers{"docs/README_Hybrid-EP.md",    "docs/clusters/daint.md",
                                        "docs/running/slurm.md",       "docs/performance-summary-archive.md",
                                        "docs/performance-summary.md", "docs/releases/software-versions.md"};
  static const std::regex kDocument(R"(\bdocs/[\w/.-]+\.md\b)");
  std::size_t named = 0;
  for (const SourceFile& file : tree()) {
    if (file.path.starts_with("tests/fuzz/corpus/") || file.path.starts_with("tests/published/")) continue;
    if (file.suffix == ".csv" || file.path == "tests/laws/documents_test.cc") continue;  // sources of rows
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      for (std::sregex_iterator at(line.begin(), line.end(), kDocument), end; at != end; ++at) {
        if (kOfOthers.contains(at->str())) continue;
        INFO(file.path << ":" << i + 1 << ": " << at->str());
        CHECK(fs::exists(fs::path(orrery::tests::kSourceDir) / at->str()));
        ++named;
      }
    }
  }
  CHECK(named > 10);
}

TEST_CASE("how far off predictions are stands in tables that are written anew, and in no sentence", "[tree]") {
  // "12 % off", "4 to 9 % fast", "within 3 %": of predictions. What tools and sources say of themselves has no such
  // word.
  const std::regex kOff(std::string(R"([0-9] ?(?:%|points) (?:too|off|fast|slow|short|long|low|high)\b|)") +
                        R"(\b(?:off|within) (?:by )?[0-9][0-9.]* ?%)");
  std::size_t lines = 0;
  for (const SourceFile& file : tree()) {
    const bool notes = file.path.starts_with("scenarios/published/") && file.path.ends_with("notes.yaml");
    if (!notes && !is_document(file)) continue;
    std::string text;  // a sentence may go over lines
    for (const std::string& line : by_hand(file)) {
      ++lines;
      if (line.starts_with("|")) continue;  // tests hold tables of documents to the program, cell by cell
      text += line.substr(std::min(line.find_first_not_of(' '), line.size())) + " ";
    }
    for (std::sregex_iterator at(text.begin(), text.end(), kOff), end; at != end; ++at) {
      const std::size_t begin = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, at->position() - 60));
      INFO(file.path << ": ..." << text.substr(begin, 100));
      CHECK(at->str().empty());
    }
  }
  CHECK(lines > 1000);
}

TEST_CASE("documents have at most 25,000 words that somebody wrote beside code, accuracy.md 1,200 in all", "[tree]") {
  std::size_t words = 0;
  for (const SourceFile& file : tree()) {
    const bool notes = file.path.starts_with("scenarios/published/") && file.path.ends_with("notes.yaml");
    if (notes || is_document(file)) words += words_of(prose_of(by_hand(file)));
    if (file.path == "docs/accuracy.md") CHECK(words_of(file.lines) <= 1200);
  }
  INFO(words << " words");
  CHECK(words > 15000);  // the rule finds them
  CHECK(words <= 25000);
}
