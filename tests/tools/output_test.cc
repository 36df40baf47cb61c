// Does an output file appear whole or not at all, and is an unwritable one the user's error?
#include "tools/report/output.h"

#include <signal.h>
#include <sys/stat.h>

#include <ostream>
#include <sstream>
#include <stdexcept>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "tools/command_tree.h"
#include "tools/terminal.h"
#include "tools/written_files.h"

using namespace orrery;
using tests::Folder;

namespace {
std::size_t files_in(const Folder& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : tests::fs::directory_iterator(folder.path())) ++count;
  return count;
}
}  // namespace

TEST_CASE("an output replaces the old file, and a symbolic link stays one") {
  const Folder folder;
  const std::string file = folder.write("out.json", "old"), link = folder.file("link.json");
  tests::fs::create_symlink(file, link);
  tools::write_output(link, [](std::ostream& out) { out << "new"; });
  CHECK(tests::read_file(file) == "new");
  CHECK(tests::fs::is_symlink(link));
  CHECK(files_in(folder) == 2);
}

TEST_CASE("when the writer fails the old file is untouched and nothing is left beside it") {
  const Folder folder;
  const std::string file = folder.write("out.json", "old");
  CHECK_THROWS_AS(tools::write_output(file,
                                      [](std::ostream& out) {
                                        out << "half";
                                        throw std::runtime_error("stop");
                                      }),
                  std::runtime_error);
  CHECK(tests::read_file(file) == "old");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("a full device, a folder and a missing folder are the user's errors") {
  const Folder folder;
  const auto write = [](std::ostream& out) { out << std::string(1 << 20, 'x'); };
  CHECK_THROWS_AS(tools::write_output("/dev/full", write), sim::UserError);
  CHECK_THROWS_AS(tools::write_output(folder.path().string(), write), sim::UserError);
  CHECK_THROWS_AS(tools::write_output(folder.file("missing/out.json"), write), sim::UserError);
  CHECK_THROWS_AS(tools::check_writable(folder.file("missing/out.json")), sim::UserError);
  CHECK_NOTHROW(tools::check_writable("-"));
  CHECK_NOTHROW(tools::write_output("/dev/null", write));
}

TEST_CASE("a file that is replaced keeps its permissions; a new one has those of the mask") {
  const Folder folder;
  const std::string secret = folder.write("secret.json", "old"), fresh = folder.file("new.json");
  tests::fs::permissions(secret, tests::fs::perms::owner_read | tests::fs::perms::owner_write);
  const auto write = [](std::ostream& out) { out << "new"; };
  tools::write_output(secret, write);
  CHECK(tests::fs::status(secret).permissions() == (tests::fs::perms::owner_read | tests::fs::perms::owner_write));
  CHECK(tests::read_file(secret) == "new");
  const mode_t mask = ::umask(027);
  tools::write_output(fresh, write);
  ::umask(mask);
  CHECK(static_cast<unsigned>(tests::fs::status(fresh).permissions()) == 0640U);
}

TEST_CASE("a program that is killed while it writes leaves the old file and nothing beside it") {
  const Folder folder;
  const std::string file = folder.write("out.json", "old");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    tools::write_output(file, [](std::ostream& out) {
      out << std::string(1 << 20, 'x') << std::flush;
      ::kill(::getpid(), SIGKILL);
    });
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(tests::read_file(file) == "old");
  const int unnamed = ::open(folder.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (unnamed >= 0) {
    ::close(unnamed);
    CHECK(files_in(folder) == 1);
  }
  tools::write_output(file, [](std::ostream& out) { out << "new"; });  // elsewhere the next one clears up
  CHECK(tests::read_file(file) == "new");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("what reaches a terminal is text; a file gets every byte") {
  std::stringbuf shown;
  {
    const auto filter = tools::printable_lines(shown);
    std::ostream out(filter.get());
    out << "a\x1b[31mb\xc2"
        << "\x9b"
        << "c\n"
        << "\xe2\x80\xae"
        << "d" << std::flush << "\xc2\xb5s";
  }
  CHECK(shown.str() == "a[31mbc\nd\xc2\xb5s");
}

TEST_CASE("no command writes over what it reads, or two outputs to one file") {
  const Folder folder;
  const std::string text = tests::small_scenario(), file = folder.write("s.yaml", text), link = folder.file("l.yaml"),
                    hard = folder.file("h.yaml"), odd = folder.file("./s.yaml"), fresh = folder.file("new"),
                    list = folder.write("list.yaml", "- " + file);
  tests::fs::create_symlink(file, link);
  tests::fs::create_hard_link(file, hard);
  for (const std::string& written : {file, link, hard, odd}) {
    INFO(written);
    const std::vector<std::vector<std::string>> uses{
        {"run", file, "--json", written},
        {"run", file + "#small", "--json", written},
        {"run", "eos-gpt3-175b", "--set", "model=" + file, "--trace", written},
        {"compare", "eos-gpt3-175b", file, "--report", written},
        {"traffic", file, "--json", written},
        {"topology", file, "--dot", written},
        {"sweep", file, "--vary", "batch.micro=1", "--csv", written},
        {"search", file, "--json", written},
        {"export", "megatron", file, "--out", written},
        {"import", "hf", file, "--out", written},
        {"validate", folder.path().string(), "--json", written},
        {"replay", "trace.et", "--scenario", file, "--json", written}};
    for (const std::vector<std::string>& words : uses) {
      INFO(words[0]);
      tests::check_refused(tests::orrery(words), "reads, expected another file");
      CHECK(tests::read_file(file) == text);
    }
  }
  tests::check_refused(tests::orrery({"run", file, "--json", fresh, "--trace", folder.file("./new")}),
                       "writes as well, expected another file");
  tests::check_refused(tests::orrery({"run", file, "--json", "-", "--trace", "-"}), "got standard output");
  CHECK_FALSE(tests::fs::exists(fresh));
  CHECK(tests::orrery({"run", file, "--json", fresh, "--trace", folder.file("other")}).status == 0);
  CHECK(tests::orrery({"run", file, "--json", fresh}).status == 0);  // what was written before is replaced
  CHECK(tests::orrery({"run", file, "--json", "/dev/null", "--trace", "/dev/null"}).status == 0);
}

TEST_CASE("every option that writes a file is known as such") {
  std::size_t writing = 0;
  for (const tools::CommandDoc& command : tools::command_docs()) {
    for (const tools::OptionDoc& option : command.options) {
      const bool says = option.meaning.starts_with("write") || option.meaning.starts_with("draw") ||
                        option.meaning.find("to write") != std::string::npos;
      if (option.names.empty() || option.value.empty() || !says) continue;
      INFO(command.name() << " " << option.names.front() << ": " << option.meaning);
      CHECK(tools::writes_file(option.names.front()));
      ++writing;
    }
  }
  CHECK(writing > 30);
}

TEST_CASE("help and version that cannot be written are the user's error, as results are") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"},
                                                {"--version"},
                                                {"run", "--help"},
                                                {"import", "hf", "--help"},
                                                {"list", "models"}})
    CHECK(tests::orrery(words, "/dev/full").status == 2);
  CHECK(tests::orrery({"--help"}).status == 0);
}

TEST_CASE("a scenario comes from standard input where it is called -") {
  const Folder folder;
  const std::string file = folder.write("s.yaml", tests::small_scenario());
  for (const char* command : {"run - --json -", "traffic -", "plan -", "compare eos-gpt3-175b - --json -"}) {
    INFO(command);
    const std::string out = folder.file("out");
    const std::string line = std::string("'") + ORRERY_BINARY + "' " + command + " > '" + out + "'";
    CHECK(std::system(("cat '" + file + "' | " + line).c_str()) == 0);
    CHECK_FALSE(tests::read_file(out).empty());
    CHECK(std::system((line + " 2> /dev/null < /dev/null").c_str()) == 2 << 8);
  }
}
