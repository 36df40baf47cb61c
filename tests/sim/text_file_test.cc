// Is every read bounded, whatever the name stands for?
#include "sim/text_file.h"

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;
using tests::Folder;

namespace {
std::string complaint(const std::string& file, std::size_t most = sim::kLargestText) {
  try {
    sim::read_text(file, "a table", most);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "";
}
}  // namespace

TEST_CASE("a file comes back byte for byte, up to the size that is allowed") {
  const Folder folder;
  std::string text(200'000, 'x');
  text[77] = '\n';
  const std::string file = folder.write("a.txt", text);
  CHECK(sim::read_text(file, "a table") == text);
  CHECK(sim::read_text(folder.write("empty", ""), "a table").empty());
  CHECK(complaint(file, 199'999).find("expected a table") != std::string::npos);
  CHECK(complaint(file, 200'000).empty());
}

TEST_CASE("what is no text of a size is refused at once: a folder, a device without an end, a NUL byte, nothing") {
  const Folder folder;
  CHECK(complaint(folder.path().string()) == folder.path().string() + ": is a folder, expected a table");
  CHECK(complaint("/dev/zero") == "/dev/zero:1:1: got the byte 0x00, expected text (a table)");
  CHECK(complaint(folder.write("nul", std::string("ab\ncd\0e", 7))).find("nul:2:3: got the byte 0x00") !=
        std::string::npos);
  CHECK(complaint(folder.file("none")).find("cannot be read: No such file") != std::string::npos);
  CHECK(sim::read_text("/dev/null", "a table").empty());
}

TEST_CASE("a pipe is read to its end, also where its writer comes late") {
  const Folder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::ofstream out(pipe);
    out << "first " << std::flush;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    out << "second";
  });
  CHECK(sim::read_text(pipe, "a table") == "first second");
  writer.join();
}
