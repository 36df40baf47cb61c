// Does the reader of plain YAML read what the parser of the whole language reads, and leave everything else to it?
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/yaml.h"
#include "sim/error.h"
#include "sim/hash.h"
#include "sim/text_file.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/scenarios/expect.h"
#include "tests/scenarios/told.h"

using namespace orrery;
using orrery::scenarios::parse_plain_yaml;
using orrery::scenarios::parse_whole_yaml;
using orrery::sim::Settings;
using orrery::tests::told;

namespace {

/// What the parser of the whole language makes of a text; its complaint where it refuses it.
std::string whole(const std::string& text) {
  try {
    return told(parse_whole_yaml(text, "t.yaml"));
  } catch (const sim::UserError& error) {
    return std::string("refused: ") + error.what();
  }
}

std::vector<std::string> shipped() {
  std::vector<std::string> files;
  for (const char* folder : {"scenarios", "calibration"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(tests::kSourceDir) / folder)) {
      if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Pieces that decide how YAML is read, to be put where they may not belong.
constexpr std::array kPieces{"\n",   " ",     "  ",     "\n  ",   ":",    ": ",       "-",  "- ", "#",  " #",
                             ",",    "[",     "]",      "{",      "}",    "\"",       "'",  "''", "\\", "&a",
                             "*a",   "!t",    "|",      ">",      ">-",   ">-\n",     "?",  "? ", "~",  "null",
                             "---",  "---\n", "...\n",  "%",      "<<:",  "@",        "\t", "\r", "a",  "a: b",
                             "a:\n", "- a\n", "[a, b]", "{a: 1}", "\n\n", "\xc3\xa9", "`",  "0"};

/// A text with one to four changes, by chance.
std::string changed(std::string text, std::uint64_t seed) {
  std::uint64_t random = sim::mix64(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>((random = sim::mix64(random)) % n); };
  for (std::size_t times = 1 + below(4); times > 0; --times) {
    const std::size_t at = below(text.size() + 1);
    switch (below(3)) {
      case 0:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 1:
        text.erase(at, 1 + below(3));
        break;
      default:
        text.insert(at, text.substr(below(text.size() + 1), 1 + below(12)));
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("plain documents are read as the whole language's parser reads them") {
  std::size_t plain = 0, all = 0;
  for (const std::string& file : shipped()) {
    const std::string text = sim::read_text(file, "a YAML file");
    const std::optional<Settings> read = parse_plain_yaml(text, "t.yaml");
    ++all;
    if (!read) {
      UNSCOPED_INFO("not plain: " << file);
      continue;
    }
    ++plain;
    INFO(file);
    CHECK(told(*read) == whole(text));
  }
  // A start-up reads dozens of them: most have to be plain for it to be quick.
  CHECK(10 * plain >= 9 * all);
}

TEST_CASE("what a chance change leaves plain is read alike") {
  std::vector<std::string> texts{
      "a: 1\nb:\n  c: [x, 'null', ~]\n  d: {e: \"two words\"}\n",
      "# first\nlist:\n  - a: 1  # one\n    b: {c: 2, d: [3, 4]}\n  - e\n  - [f, g]\n  -\n    h: i\nlast:\n",
      "text: >-\n  one line\n  and another: with, marks [in] it\n\nmore:\n  deep:\n    deeper: -1.5\n  x: 'a: b'\n",
      "flow: {a: 1,\n  b: [1, 2,\n    3], c: {}}\nempty: []\nurl: https://a.b/c#d\ntime: 10:20\nnot: -x\n",
      "- one\n- two: 2\n- >-\n  three\n  lines\n- four: >-\n    five\n  six: 7\n",
      "a: some\n  more (words\n  in) lines\nb:\n  - an item\n    of two lines\n  - other\nc:\n- as far\n- left: 1\n  "
      "as:\n  - its\n  - key\nd: 2\n"};
  std::size_t kept = 0;
  for (std::uint64_t seed = 0; seed < 40'000; ++seed) {
    const std::string text = changed(texts[seed % texts.size()], seed);
    const std::optional<Settings> read = parse_plain_yaml(text, "t.yaml");
    if (!read) continue;
    ++kept;
    if (told(*read) == whole(text)) continue;
    FAIL(text << "\nplain:\n" << told(*read) << "whole:\n" << whole(text));
  }
  CHECK(kept > 1000);  // else nothing was compared
}

TEST_CASE("a plain reader takes nothing that is wrong") {
  for (const char* text : {"a: 1\na: 2\n",
                           "a: [1, 2\n",
                           "a: 'b\n",
                           "a: b: c\n",
                           "a:\n  b: 1\n c: 2\n",
                           "{a: 1\n}\n x",
                           "a: &x 1\n",
                           "a: !t 1\n",
                           "a: *x\n",
                           "? a\n: b\n",
                           "a: >-\n  b\n    c\n",
                           "a: b\n  c: d\n",
                           "a: b  # c\n  d\n",
                           "--- \na: 1\n",
                           "%YAML 1.2\n",
                           "a:\t1\n",
                           "<<: {a: 1}\n",
                           "",
                           "a",
                           "[a]\n"}) {
    INFO(text);
    CHECK_FALSE(parse_plain_yaml(text, "t.yaml"));
  }
}
