// Is what is written under a name in .gz the very text, for contents shorter and longer than a buffer, and does a trace
// say what its kernels do?
#include "tools/report/gzip.h"

#include <zlib.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/trace_check.h"

using namespace orrery;

namespace {

/// By zlib's own reader of files.
std::string unpacked(const std::string& file) {
  const gzFile in = gzopen(file.c_str(), "rb");
  REQUIRE(in != nullptr);
  std::string text;
  char buffer[4096];
  for (int read = gzread(in, buffer, sizeof buffer); read > 0; read = gzread(in, buffer, sizeof buffer))
    text.append(buffer, static_cast<std::size_t>(read));
  CHECK(gzclose(in) == Z_OK);  // the checksum holds
  return text;
}

}  // namespace

TEST_CASE("gzip gives back every byte, and the same bytes for the same text") {
  const tests::Folder folder;
  for (const std::size_t size : {0, 1, 65'535, 65'536, 65'537, 1'000'000}) {
    std::string text;
    for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(i * i % 7919);
    text.resize(size);
    const auto body = [&](std::ostream& out) { out << text; };
    std::ostringstream packed, again;
    tools::write_gzip(packed, body);
    tools::write_gzip(again, body);
    CHECK(packed.str() == again.str());
    CHECK(unpacked(folder.write("packed.gz", packed.str())) == text);
    std::ostringstream plain;
    tools::compressed_by_name("trace.json", body)(plain);
    CHECK(plain.str() == text);
  }
}

TEST_CASE("a trace under a name in .gz is the trace, smaller; kernels carry rates, and idle time is what is left") {
  const tests::Folder folder;
  const std::string file = folder.write("small.yaml", tests::small_scenario());
  const std::string plain = folder.file("t.json"), packed = folder.file("t.json.gz");
  REQUIRE(tests::orrery({"run", file, "--trace", plain}).status == 0);
  REQUIRE(tests::orrery({"run", file, "--trace", packed}).status == 0);
  const std::string text = tests::read_file(plain);
  CHECK(unpacked(packed) == text);
  CHECK(tests::read_file(packed).size() < text.size() / 5);
  const nlohmann::json trace = nlohmann::json::parse(text);
  CHECK(tests::TraceReader(trace).result.problems.empty());
  std::size_t products = 0, passes = 0;
  double busy = 0, idle = 0, last = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] != 1) continue;
    const auto& arguments = event["args"];
    const double begin = event["ts"], length = event["dur"];
    passes += arguments.contains("microbatch") ? 1 : 0;
    if (event["cat"] == "idle") idle += length;
    if (arguments.contains("kernels")) {
      busy += length;
      last = std::max(last, begin + length);
    }
    if (!arguments.contains("flops")) continue;
    ++products;
    // 16-bit products of an H100: no faster than its data sheet's 989 TFLOP/s.
    CHECK(arguments["tflops"].get<double>() <= 989);
    CHECK(arguments["type"] == "bf16");
  }
  CHECK(products > 10);
  CHECK(passes > 10);
  // One compute stream: what runs and what is idle make up the time until the last kernel. A nanosecond is lost at each
  // edge at most.
  CHECK(idle > 0);
  CHECK(busy + idle == Approx(last).epsilon(1e-3));
}
