// Does the journal keep every finished row, and refuse what does not belong together?
#include "calibration/measure/journal.h"

#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery::calibration;
using orrery::sim::UserError;
using orrery::tests::Folder;
using orrery::tests::read_file;

namespace {

Measurement gemm(std::int64_t size) {
  Measurement m;
  m.what.dtype = CaseType::bfloat16;
  m.what.form = CaseForm::tn;
  m.what.m = m.what.n = m.what.k = size;
  m.seconds = 1e-3;
  m.repeats = 7;
  return m;
}

std::string message_of(const std::string& file, const std::string& identity, bool resume) {
  try {
    Journal journal(file, identity, {}, resume);
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("rows are there at once, and a resumed journal knows them") {
  const Folder folder;
  const std::string file = folder.file("s.csv");
  {
    Journal journal(file, "gpu", {"a note"}, false);
    journal.append(gemm(512));
    journal.append(gemm(1024));
    CHECK(read_file(file) == "# orrery samples 1\n# of: gpu\n# a note\n" + std::string(kMeasuredColumns) + "\n" +
                                 row_of(gemm(512)) + "\n" + row_of(gemm(1024)) + "\n");
  }
  Journal journal(file, "gpu", {}, true);
  CHECK(journal.rows() == 2);
  CHECK(journal.has(gemm(512).what));
  CHECK(!journal.has(gemm(2048).what));
}

TEST_CASE("a cut last line is dropped, wherever it was cut") {
  const Folder folder;
  const std::string file = folder.file("s.csv");
  { Journal(file, "gpu", {"note"}, false).append(gemm(512)); }
  const std::string whole = read_file(file);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(file, std::ios::trunc) << whole.substr(0, length);
    {
      Journal journal(file, "gpu", {"note"}, true);
      CHECK(journal.rows() == 0);
      journal.append(gemm(512));
    }
    INFO(length);
    CHECK(read_file(file) == whole);
  }
}

TEST_CASE("what does not belong together is refused by name and place") {
  const Folder folder;
  const std::string file = folder.file("s.csv");
  { Journal(file, "gpu", {}, false).append(gemm(512)); }
  CHECK(message_of(file, "gpu", false).find("--resume") != std::string::npos);
  CHECK(message_of(file, "another", true).find("s.csv:2:1: samples: got '# of: gpu'") != std::string::npos);
  std::ofstream(file, std::ios::app) << "gemm,,bfloat16\n";
  CHECK(message_of(file, "gpu", true).find("s.csv:5:1: line") != std::string::npos);
  const std::string other = folder.write("t.csv", "dtype,m,n,k,ms\nbf16,1,1,1,1\n");
  CHECK(message_of(other, "gpu", true).find("t.csv:1:1: samples") != std::string::npos);
  CHECK(message_of(folder.file("no/s.csv"), "gpu", false).find("cannot be written") != std::string::npos);
}

TEST_CASE("a full disk costs the row that does not fit, no other") {
  const Folder folder;
  const std::string file = folder.file("s.csv");
  Journal journal(file, "gpu", {}, false);
  journal.append(gemm(512));
  const std::string before = read_file(file);
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  rlimit full = old;
  full.rlim_cur = before.size() + 10;  // room for a part of a row
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
  CHECK_THROWS_AS(journal.append(gemm(1024)), UserError);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
  CHECK(read_file(file) == before);
  CHECK(!journal.has(gemm(1024).what));
  journal.append(gemm(1024));
  CHECK(read_file(file) == before + row_of(gemm(1024)) + "\n");
}
