// Does `orrery calibrate` measure, resume, stop and refuse as it should? A fake GPU module stands in for the device.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "calibration/measure/gpu_module.h"
#include "calibration/measure/journal.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/skipped.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"

using namespace orrery;
using tests::check_refused;
using tests::Folder;
using tests::Outcome;

namespace {

/// Set while it lives; the program inherits it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

Outcome calibrate(const Folder& folder, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"calibrate", "--module", tests::kFakeGpu,
                                     "--quick",   "--out",    folder.file("p.yaml")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return tests::orrery(arguments);
}

std::vector<std::string> file_lines(const std::string& file) {
  std::istringstream in(tests::read_file(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> rows_of(const std::string& file) {
  std::vector<std::string> rows = file_lines(file);
  std::erase_if(rows, [](const std::string& line) { return line.starts_with('#') || line.starts_with("class,"); });
  return rows;
}

}  // namespace

TEST_CASE("a run measures every class, names what it could not, and writes samples and profile") {
  const Folder folder;
  const Outcome outcome = calibrate(folder);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(outcome.err.empty());  // no progress where nobody watches
  CHECK(std::filesystem::exists(folder.file("p.yaml")));
  const std::vector<std::string> rows = rows_of(folder.file("p.csv"));
  for (const char* start :
       {"gemm,,bfloat16,tn,", "gemm,,fp8_e4m3,tn,", "gemm,,bfloat16,nn,", "gemm,accumulate,bfloat16,nt,",
        "attention,forward,", "attention,backward,", "streaming,layer_norm,", "host,launch_eager,", "host,copy_h2d,",
        "sustained,", "interference,gemm_beside_copy,"}) {
    INFO(start);
    CHECK(std::any_of(rows.begin(), rows.end(), [&](const std::string& row) { return row.starts_with(start); }));
  }
  // The fake device runs out of memory with one kernel and has no collectives.
  CHECK(std::none_of(rows.begin(), rows.end(), [](const std::string& row) { return row.starts_with("collective,"); }));
  CHECK(outcome.out.find("out of memory") != std::string::npos);
  CHECK(outcome.out.find("libnccl.so.2 not found") != std::string::npos);
  // One list says where every section comes from.
  const auto listed = [&](const std::string& title) {
    const std::size_t from = outcome.out.find("\n  " + title + ": ");
    if (from == std::string::npos) return std::string();
    std::size_t to = from + 1;
    do to = outcome.out.find('\n', to + 1);
    while (to != std::string::npos && outcome.out.compare(to, 5, "\n    ") == 0);
    return outcome.out.substr(from, to - from);
  };
  for (const char* section : {"gemm.bf16", "attention", "interference"})
    CHECK(listed("measured here").find(section) != std::string::npos);
  for (const char* section : {"streaming", "power", "node (host_link)"})
    CHECK(listed("measured here in part").find(section) != std::string::npos);
  for (const char* section : {"collectives", "experts", "sparse"})
    CHECK(listed("inherited from h200-sxm-141gb").find(section) != std::string::npos);
  // 8192^3: 10 us and 1.0995 PFLOP at 500 TFLOP/s, within the fake's 1 %; half of the range 1.00 to 1.01 is the spread.
  const auto row = std::find_if(rows.begin(), rows.end(), [](const std::string& r) {
    return r.starts_with("gemm,,bfloat16,tn,8192,8192,8192,1,");
  });
  REQUIRE(row != rows.end());
  std::vector<std::string> fields;
  std::istringstream in(*row);
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  REQUIRE(fields.size() >= 22);  // the last, what limited it, is empty
  CHECK(std::stod(fields[16]) == Approx(10e-6 + 2.0 * 8192 * 8192 * 8192 / 500e12).epsilon(0.0101));
  CHECK(std::stod(fields[17]) == Approx(0.5).epsilon(1e-3));
  CHECK(fields[18] == "5");
  CHECK(fields[20] == "1755");
}

TEST_CASE("a device that vanishes ends the run cleanly; resuming measures the rest and nothing twice") {
  const Folder folder;
  {
    const Environment lost("ORRERY_FAKE_LOST", "31");
    const Outcome cut = calibrate(folder);  // which had said on standard output what it measured until then
    INFO(cut.err);
    CHECK(cut.status == 2);
    CHECK(std::count(cut.err.begin(), cut.err.end(), '\n') == 1);
    CHECK(cut.err.find("30 measurements are kept") != std::string::npos);
  }
  CHECK(!std::filesystem::exists(folder.file("p.yaml")));
  const std::vector<std::string> first = rows_of(folder.file("p.csv"));
  CHECK(first.size() == 30);
  check_refused(calibrate(folder), "--resume");  // without it, nothing is overwritten
  CHECK(rows_of(folder.file("p.csv")) == first);
  // A row that a power cut left half written.
  std::ofstream(folder.file("p.csv"), std::ios::app) << "gemm,,bfloat16,tn,81";
  REQUIRE(calibrate(folder, {"--resume"}).status == 0);
  std::vector<std::string> all = rows_of(folder.file("p.csv"));
  CHECK(std::equal(first.begin(), first.end(), all.begin()));
  const Folder fresh;
  REQUIRE(calibrate(fresh).status == 0);
  CHECK(all == rows_of(fresh.file("p.csv")));
  // Samples of another GPU are not mixed in: the fake's second one has another driver.
  check_refused(calibrate(folder, {"--resume", "--device", "1"}), "p.csv:2:1");
}

TEST_CASE("what engines run, the host and traffic become sections of the profile, and are checked as others are") {
  const Folder folder;
  REQUIRE(calibrate(folder).status == 0);
  const std::string profile = tests::read_file(folder.file("p.yaml"));
  INFO(profile);
  CHECK(profile.find("launch: 10.000 us") != std::string::npos);
  CHECK(profile.find("\ninterference:") != std::string::npos);
  CHECK(profile.find("traffic: [800.0 GB/s, 2000.0 GB/s, 4000.0 GB/s]") != std::string::npos);  // of 4 TB/s
  // 1.2 with the product's noise of a percent, the same beside each.
  const double beside = std::stod(profile.substr(profile.find("products: [") + 11));
  CHECK(beside == Approx(1.2).epsilon(0.0101));
  CHECK(profile.find(fmt::format("products: [{0:.3f}, {0:.3f}, {0:.3f}]", beside)) != std::string::npos);
  // An H200's kernels of engines ship but for sampling; the vendor's products are those that engines run.
  for (const char* name : {"\nserving:", "sampling:", "product:"}) CHECK(profile.find(name) != std::string::npos);
  CHECK(profile.find("decode-attention:") == std::string::npos);
  CHECK(profile.find("vllm decode-attention bf16") != std::string::npos);  // named among what stays
  const Outcome check =
      tests::orrery({"calibrate", "--check", folder.file("p.yaml"), folder.file("p.csv"), "--json", "-"});
  INFO(check.err);
  REQUIRE(check.status == 0);
  const nlohmann::json kernels = nlohmann::json::parse(check.out).at("kernels");
  for (const char* name : {"served product bf16", "served sampling bf16", "gemm bf16"})
    CHECK(kernels.at(name).at("all").at("median_ape_pct").get<double>() < 5);
}

TEST_CASE(
    "scans are measured as Python runs them; what it does not have is named, and resuming measures nothing twice") {
  if (std::system("python3 -c '' >/dev/null 2>&1") != 0) return tests::skipped("no python3");
  const Folder folder;
  const std::string packages = std::string(tests::kSourceDir) + "/tests/emulated/python";
  const Environment path("PYTHONPATH", packages.c_str()), clean("PYTHONDONTWRITEBYTECODE", "1");
  const Outcome outcome = calibrate(folder);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  INFO(outcome.out);
  CHECK(outcome.out.find("Python found: torch 9.9") != std::string::npos);
  CHECK(outcome.out.find("not measured: 4 scan: No module named 'fla.ops.simple_gla'") != std::string::npos);
  // The packages of tests/emulated/python: 5 us and 2 ps an element of a value (of channels, of a convolution).
  const std::vector<std::string> rows = rows_of(folder.file("p.csv"));
  const auto seconds = [&](const std::string& start) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.starts_with(start); });
    if (row == rows.end()) return 0.0;
    std::istringstream in(*row);
    std::string field;
    for (int i = 0; i < 17; ++i) std::getline(in, field, ',');
    return std::stod(field);
  };
  const double delta = 5e-6 + 2e-12 * 8192 * 32 * 128;
  CHECK(seconds("scan,gated_delta_forward,bfloat16,,,,128,1,8192,32,32,128,") == Approx(delta));
  CHECK(seconds("scan,kda_backward,bfloat16,,,,128,1,8192,32,32,128,") == Approx(3 * delta));
  CHECK(seconds("scan,mamba2_forward,bfloat16,,,,128,1,256,128,8,64,") == Approx(5e-6 + 2e-12 * 256 * 128 * 64));
  CHECK(seconds("scan,convolution_forward,bfloat16,,,8192,4,1,256,") == Approx(5e-6 + 2e-12 * 256 * 8192));
  CHECK(seconds("scan,rwkv7_backward,bfloat16,,,,64,1,8192,40,40,64,") == Approx(3 * (5e-6 + 2e-12 * 8192 * 40 * 64)));
  CHECK(seconds("scan,lightning_forward") == 0);
  // Of sparse attention queries are the first argument, and scores of the choice.
  const double positions = 8192;
  CHECK(seconds("sparse,index_forward,fp8_e4m3,,2048,1,128,1,8192,64,1,1,") ==
        Approx(5e-6 + 2e-12 * positions * 64 * 128));
  CHECK(seconds("sparse,choice_forward,float32,,2048,1,1,1,8192,1,1,1,") ==
        Approx(5e-6 + 2e-12 * positions * positions));
  CHECK(seconds("sparse,attention_forward,bfloat16,,2048,1,576,1,8192,128,1,512,") ==
        Approx(5e-6 + 2e-12 * positions * 128 * 576));
  CHECK(seconds("sparse,block_attention_backward,bfloat16,,1024,64,128,1,8192,64,4,128,") ==
        Approx(3 * (5e-6 + 2e-12 * positions * 64 * 128)));
  CHECK(outcome.out.find("deep_gemm 2.9") != std::string::npos);
  const std::string profile = tests::read_file(folder.file("p.yaml"));
  INFO(profile);
  const std::size_t section = profile.find("\nscans:\n  provenance: 'as Python runs them: convolution,");
  REQUIRE(section != std::string::npos);
  CHECK(profile.find("; at the rates of these together: lightning'", section) != std::string::npos);
  for (const char* kind : {"  chunks: {", "  mamba2: {", "  gated_delta: {", "  kda: {", "  rwkv7: {"}) {
    INFO(kind);
    CHECK(profile.find(kind, section) != std::string::npos);
  }
  CHECK(profile.find("\nsparse:\n  provenance: 'as Python runs them: attention, block_attention, block_attention "
                     "backward, choice, index'") != std::string::npos);
  CHECK(profile.find("not measured: 4 scan") != std::string::npos);
  const Outcome check =
      tests::orrery({"calibrate", "--check", folder.file("p.yaml"), folder.file("p.csv"), "--json", "-"});
  REQUIRE(check.status == 0);
  // A convolution is a launch and bytes, two passes of two rates: within their distance.
  CHECK(nlohmann::json::parse(check.out).at("kernels").contains("scan gated_delta, backward"));
  CHECK(nlohmann::json::parse(check.out).at("kernels").contains("sparse index"));
  REQUIRE(calibrate(folder, {"--resume"}).status == 0);
  CHECK(rows_of(folder.file("p.csv")) == rows);
}

TEST_CASE("without a Python that has PyTorch, scans stay the shipped profile's, and the profile says why") {
  const Folder folder;
  const Environment none("ORRERY_PYTHON", "/no/such/python");
  const Outcome outcome = calibrate(folder);
  REQUIRE(outcome.status == 0);
  CHECK(outcome.out.find("not measured: 24 scan: /no/such/python: ") != std::string::npos);
  CHECK(outcome.out.find("not measured: 10 sparse: /no/such/python: ") != std::string::npos);
  const std::string profile = tests::read_file(folder.file("p.yaml"));
  CHECK(profile.find("/no/such/python") != std::string::npos);
  CHECK(profile.find("\nscans:") == std::string::npos);
  // A program that is no Python answers nothing.
  const Folder other;
  const Environment silent("ORRERY_PYTHON", "/bin/true");
  const Outcome mute = calibrate(other);
  REQUIRE(mute.status == 0);
  CHECK(mute.out.find("/bin/true ended before its answers") != std::string::npos);
}

TEST_CASE("the power that a board draws under kernels becomes its profile's, and no factor on clocks beside it") {
  const Folder folder;
  REQUIRE(calibrate(folder).status == 0);
  const std::string profile = tests::read_file(folder.file("p.yaml"));
  INFO(profile);
  // The fake device: 100 W at rest, limited to 700.
  CHECK(profile.find("limit: 700 W") != std::string::npos);
  CHECK(profile.find("standing: 100 W") != std::string::npos);
  CHECK(profile.find("sustained: {matmul: 1.0,") != std::string::npos);
}

TEST_CASE("--minutes begins nothing that would end later, fits what there is, and the rest can follow") {
  const Folder folder;
  const Environment slow("ORRERY_FAKE_SLOW_MS", "2");
  const Outcome first = calibrate(folder, {"--minutes", "0.05"});  // 3 s by the plan's estimates
  INFO(first.err);
  REQUIRE(first.status == 0);
  CHECK(first.out.find("cases left") != std::string::npos);
  CHECK(std::filesystem::exists(folder.file("p.yaml")));
  const std::size_t some = rows_of(folder.file("p.csv")).size();
  const Outcome rest = calibrate(folder, {"--resume"});
  CHECK(rest.status == 0);
  CHECK(rows_of(folder.file("p.csv")).size() > some);
  check_refused(calibrate(folder, {"--minutes", "0"}), {"--minutes"});
}

TEST_CASE("Ctrl-C keeps what is finished") {
  const Folder folder;
  const Environment slow("ORRERY_FAKE_SLOW_MS", "20");
  std::string program = tests::kProgram, module = tests::kFakeGpu, out = folder.file("p.yaml");
  std::string words[] = {"calibrate", "--module", "--quick", "--out"};
  char* argv[] = {program.data(),  words[0].data(), words[1].data(), module.data(),
                  words[2].data(), words[3].data(), out.data(),      nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, folder.file("err").c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, program.c_str(), &actions, nullptr, argv, environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  const auto measured = [&] {
    return std::filesystem::exists(folder.file("p.csv")) && rows_of(folder.file("p.csv")).size() > 2;
  };
  for (int look = 0; look < 60'000 && !measured(); ++look) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 130));
  CHECK(tests::read_file(folder.file("err")).find("--resume continues") != std::string::npos);
  CHECK(rows_of(folder.file("p.csv")).size() >= 3);
  CHECK(tests::read_file(folder.file("p.csv")).back() == '\n');
}

TEST_CASE("--verify checks each kernel and prints its error") {
  const Outcome outcome = tests::orrery({"calibrate", "--module", tests::kFakeGpu, "--verify"});
  CHECK(outcome.status == 1);  // the fake runs out of memory with lamb
  CHECK(outcome.out.find("attention backward bfloat16") != std::string::npos);
  CHECK(outcome.out.find("1.00e-03") != std::string::npos);
  CHECK(outcome.out.find("streaming lamb") != std::string::npos);
}

TEST_CASE("what measuring refuses") {
  const Folder folder;
  check_refused(calibrate(folder, {"--device", "2"}), "--device: got 2, expected 0 to 1");
  check_refused(tests::orrery({"calibrate", "--module", tests::kFakeGpu, "--out", folder.file("no/p.yaml")}), "p.yaml");
  check_refused(tests::orrery({"calibrate", "--module", tests::kFakeGpu, "--out", folder.file("p.txt")}), ".yaml");
  check_refused(tests::orrery({"calibrate", "--module", folder.write("m.so", "no"), "--out", folder.file("p.yaml")}),
                "cannot be loaded");
  const Environment none("ORRERY_FAKE_NONE", "1");
  check_refused(calibrate(folder), "there is none");
  CHECK(!std::filesystem::exists(folder.file("p.csv")));
}

TEST_CASE("the modules of this build load, and say so where there is no GPU") {
  std::vector<std::string> modules;
  if (tests::kCudaModule != nullptr) {
    modules.emplace_back(tests::kCudaModule);
  } else {
    tests::skipped("built without nvcc, so the CUDA module is neither compiled nor loaded");
  }
  if (tests::kHipModule != nullptr) {
    modules.emplace_back(tests::kHipModule);
  } else {
    tests::skipped("built without hipcc, so the HIP module is neither compiled nor loaded");
  }
  for (const std::string& path : modules) {
    INFO(path);
    const Folder folder;
    calibration::GpuModule module(path);
    if (module.devices() > 0) continue;  // a machine with a GPU: loading is all that is asked here
    CHECK(!module.message().empty());
    check_refused(tests::orrery({"calibrate", "--module", path, "--out", folder.file("p.yaml")}), "no GPU");
    CHECK(!std::filesystem::exists(folder.file("p.csv")));
  }
}
