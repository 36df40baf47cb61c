// Does YAML arrive as it was written, and is everything else refused without harm?
#include "scenarios/yaml.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/scenarios/expect.h"

using orrery::scenarios::parse_yaml;
using orrery::scenarios::read_yaml;
using orrery::scenarios::user_error;
using orrery::sim::Settings;

namespace {

std::string error_of(const std::string& text) {
  return user_error([&] { parse_yaml(text, "t.yaml"); });
}

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

/// A file that is gone when the test ends.
class ScratchFile {
 public:
  ScratchFile(const std::string& name, const std::string& content)
      : path_(std::filesystem::temp_directory_path() / name) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~ScratchFile() {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("values, places and paths") {
  const Settings root = parse_yaml("a: 1\nb:\n  c: [x, 'null', ~]\n  d: {e: \"two words\"}\n", "t.yaml");
  REQUIRE(root.is_mapping());
  CHECK(root.at("a").text() == "1");
  const Settings& list = root.at("b").at("c");
  REQUIRE(list.items().size() == 3);
  CHECK(list.items()[0].text() == "x");
  CHECK(list.items()[1].is_scalar());  // quoted: the word, not nothing
  CHECK(list.items()[2].is_null());
  CHECK(list.items()[1].path() == "b.c[1]");
  CHECK(root.at("b").at("d").at("e").text() == "two words");
  CHECK(root.at("b").at("d").at("e").path() == "b.d.e");
  // Members are placed at their keys, items at themselves; lines and columns count from 1.
  CHECK(root.at("b").at("c").place().line == 3);
  CHECK(root.at("b").at("c").place().column == 3);
  CHECK(list.items()[0].place().column == 7);
  CHECK(root.at("b").at("d").at("e").place().line == 4);
  CHECK(root.at("b").at("d").at("e").place().column == 7);
  CHECK(root.at("a").place().file == "t.yaml");
}

TEST_CASE("an empty document is null") {
  CHECK(parse_yaml("", "t.yaml").is_null());
  CHECK(parse_yaml("# nothing\n", "t.yaml").is_null());
}

TEST_CASE("broken YAML names its place") {
  CHECK(error_of("a: [1, 2\nb: 3\n").starts_with("t.yaml:2:"));
  CHECK(error_of("a: 'open").starts_with("t.yaml:1:"));
  CHECK(error_of("a: b: c\n").find("is not YAML") != std::string::npos);
}

TEST_CASE("what the language leaves out is refused") {
  CHECK(error_of("a: 1\nb: 2\na: 3\n") == "t.yaml:3:1: a: given twice, first in line 1");
  CHECK(error_of("x: {a: 1, a: 2}\n").starts_with("t.yaml:1:11: a: given twice"));
  CHECK(error_of("a: &x 1\nb: *x\n").find("anchor") != std::string::npos);
  CHECK(error_of("a: !!binary aGk=\n").find("tag") != std::string::npos);
  CHECK(error_of("a: {<<: {b: 1}}\n").find("merge key") != std::string::npos);
  CHECK(error_of("? [1]\n: 2\n").find("as a key") != std::string::npos);
  CHECK(error_of("~: 2\n").find("empty key") != std::string::npos);
  CHECK(error_of("a: 1\n---\nb: 2\n").find("more than one YAML document") != std::string::npos);
  // Nine times ten aliases of ten aliases would stand for a billion values.
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c <= 'i'; ++c) {
    const std::string above{'*', static_cast<char>(c - 1), ','};
    bomb.append(1, c).append(": &").append(1, c).append(" [").append(repeated(above, 10)).append("]\n");
  }
  CHECK(error_of(bomb).find("anchor") != std::string::npos);
}

TEST_CASE("files of others may repeat values, within the limits of any text") {
  const auto read = [](const std::string& text) { return orrery::scenarios::parse_yaml_of_others(text, "t.yaml"); };
  const auto refused = [&](const std::string& text) { return user_error([&] { read(text); }); };
  const Settings twice = read("a: &x {k: 1, l: [2, 3]}\nb: *x\nc: [*x, &y word, *y]\n");
  CHECK(twice.at("b").at("l").items()[1].text() == "3");
  CHECK(twice.at("b").at("l").place().line == 2);  // where it is repeated
  CHECK(twice.at("b").at("l").path() == "b.l");
  CHECK(twice.at("c").items()[0].at("k").text() == "1");
  CHECK(twice.at("c").items()[2].text() == "word");
  // Own members hold over merged ones, and of those the first's.
  const Settings merged = read("x: &x {k: 1, l: 2}\ny: &y {l: 3, m: 4}\nz: {<<: [*x, *y], k: 5}\nw:\n  <<: *y\n");
  CHECK(merged.at("z").at("k").text() == "5");
  CHECK(merged.at("z").at("l").text() == "2");
  CHECK(merged.at("z").at("m").text() == "4");
  CHECK(merged.at("z").members().size() == 3);
  CHECK(merged.at("w").members().size() == 2);
  CHECK(read("a: {\"\": 0}\n").at("a").members()[0].first == "\"\"");  // transformers' way to name one device
  CHECK(refused("a: {<<: 3}\n").find("a.<<: expected a mapping") != std::string::npos);
  CHECK(refused("a: &x [*x]\n").find("inside of what it stands for") != std::string::npos);
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c <= 'i'; ++c) {
    const std::string above{'*', static_cast<char>(c - 1), ','};
    bomb.append(1, c).append(": &").append(1, c).append(" [").append(repeated(above, 10)).append("]\n");
  }
  CHECK(refused(bomb).find("more than 200000 values") != std::string::npos);
}

TEST_CASE("bytes that are no text are refused with their place") {
  CHECK(error_of(std::string("a: 1\nb: \0\n", 10)).starts_with("t.yaml:2:4: got the byte 0x00"));
  CHECK(error_of("a: \xff\n").starts_with("t.yaml:1:4: got the byte 0xff"));
  CHECK(error_of("a: \xc0\xaf\n").find("0xc0") != std::string::npos);      // overlong form
  CHECK(error_of("a: \xed\xa0\x80\n").find("0xed") != std::string::npos);  // surrogate
  CHECK(error_of("\x7f"
                 "ELF\x01\x02")
            .find("0x7f") != std::string::npos);
  CHECK(error_of("a: \"x\\0y\"\n").find("control character") != std::string::npos);
  CHECK(parse_yaml("a: \xc2\xb5s\n", "t.yaml").at("a").text() == "\xc2\xb5s");
}

TEST_CASE("nesting is cut at 64, however it is written and however deep it goes") {
  const std::string deeper = "nested deeper than 64";
  for (const int depth : {65, 10'000, 150'000}) {
    CHECK(error_of(repeated("[", depth) + repeated("]", depth)).find(deeper) != std::string::npos);
    CHECK(error_of(repeated("{a: ", depth) + repeated("}", depth)).find(deeper) != std::string::npos);
    CHECK(error_of(repeated("- ", depth) + "x").find(deeper) != std::string::npos);
    CHECK(error_of(repeated("[\n", depth) + repeated("]", depth)).find(deeper) != std::string::npos);
    // Never closed: broken, one way or another.
    CHECK(error_of(repeated("[", depth)).starts_with("t.yaml:"));
    CHECK(error_of(repeated("{a: ", depth)).starts_with("t.yaml:"));
    CHECK(error_of(repeated("[\n", depth)).starts_with("t.yaml:"));
  }
  for (const int depth : {65, 2'000}) {
    std::string block;
    for (int i = 0; i < depth; ++i) block += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
    CHECK(error_of(block).find(deeper) != std::string::npos);
    CHECK(error_of(repeated("? ", depth) + "x").starts_with("t.yaml:"));
    CHECK(error_of(repeated("[\"", depth)).starts_with("t.yaml:"));
  }
  // 64 levels are the limit, not 63.
  CHECK(parse_yaml(repeated("[", 64) + repeated("]", 64), "t.yaml").is_sequence());
  CHECK(error_of(repeated("[", 65) + repeated("]", 65)).find(deeper) != std::string::npos);
  // Brackets in quotes nest nothing.
  CHECK(parse_yaml("a: '" + repeated("[", 10'000) + "'", "t.yaml").at("a").text().size() == 10'000);
}

TEST_CASE("flow collections are counted before they are taken apart") {
  // The parser keeps all tokens of a collection until it ends: these took gigabytes.
  for (const char* part : {",", "a,", "[", "{a: ,", "a: b, ", "]"}) {
    INFO(part);
    const std::string text = "x: [" + repeated(part, 6'000'000);
    CHECK(error_of(text).find("brackets, commas and colons") != std::string::npos);
  }
  CHECK(error_of("a: 1\nb: [" + repeated(",", 8'000'000)).starts_with("t.yaml:2:"));
}

TEST_CASE("marks that make a terminal or a reader see other text than there is are refused") {
  CHECK(error_of("a: x\xe2\x80\xaey\n").starts_with("t.yaml:1:5: got the bytes 0xe280ae"));
  CHECK(error_of("a: x\xc2\x9by\n").starts_with("t.yaml:1:5: got the bytes 0xc29b"));
  CHECK(error_of("a: \"x\\u202Ey\"\n").find("control character") != std::string::npos);
  CHECK(error_of("a: \"x\\u009by\"\n").find("control character") != std::string::npos);
}

TEST_CASE("sizes are bounded") {
  std::string keys;
  for (int i = 0; i < 5000; ++i) keys.append("k").append(std::to_string(i)).append(": 1\n");
  CHECK(error_of(keys).find("more than 4096 keys") != std::string::npos);
  CHECK(error_of(std::string(300, 'k') + ": 1\n").find("300 characters") != std::string::npos);
  CHECK(error_of(repeated("[", 1) + repeated("1,", 200'001) + "]").find("more than 200000 values") !=
        std::string::npos);
  std::string wide;
  for (int i = 0; i < 60; ++i) wide.append("{").append(250, 'k').append(": ");
  CHECK(error_of(wide + "[" + repeated("1,", 190'000) + "]" + repeated("}", 60)).find("below long keys") !=
        std::string::npos);
}

TEST_CASE("files: missing, directory, unreadable") {
  CHECK(user_error([] { read_yaml("/no/such/file.yaml"); }) ==
        "/no/such/file.yaml: cannot be read: No such file or directory");
  CHECK(user_error([] { read_yaml("/"); }) == "/: is a folder, expected a YAML file");
  const ScratchFile file("orrery_yaml_test.yaml", "a: [\n");
  CHECK(user_error([&] { read_yaml(file.path()); }).starts_with(file.path() + ":"));
  const ScratchFile binary("orrery_yaml_test.bin", std::string("\x7f"
                                                               "ELF\0\0",
                                                               6));
  CHECK(user_error([&] { read_yaml(binary.path()); }).find("got the byte 0x") != std::string::npos);
  CHECK(user_error([] { read_yaml("/dev/zero"); }) == "/dev/zero:1:1: got the byte 0x00, expected text (a YAML file)");
}
