// Does `orrery calibrate --check` report the model's error, class by class, and refuse what it cannot do?
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "calibration/device/profile.h"
#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "tools/cluster.h"

using namespace orrery;
using nlohmann::json;
using tests::check_refused;
using tests::Folder;
using tests::Outcome;

namespace {

calibration::DeviceProfile profile() {
  return calibration::DeviceProfile::load(tools::document_of("devices", "h100-sxm-80gb")).isolated();
}

json check(const Folder& folder, const std::string& csv, const std::string& name = "h100-sxm-80gb") {
  const Outcome outcome =
      tests::orrery({"calibrate", "--check", name, folder.write("samples.csv", csv), "--json", "-"});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out)["kernels"];
}

}  // namespace

TEST_CASE("samples that the model itself made, some scaled, have the errors that they were given") {
  const Folder folder;
  // Measured = predicted / (1 + e): the relative error of the prediction is e.
  std::string csv = "dtype,m,n,k,ms\n";
  const auto add = [&](std::int64_t size, double error) {
    calibration::Gemm g;
    g.m = g.n = g.k = size;
    csv += fmt::format("bfloat16,{0},{0},{0},{1:.12g}\n", size, sim::to_seconds(profile().gemm(g)) * 1e3 / (1 + error));
  };
  add(1024, 0.10);   // 2.1 GFLOP: small
  add(4096, -0.02);  // 137 GFLOP: medium
  add(4096, 0.04);
  add(4096, 0.00);
  const json gemm = check(folder, csv).at("gemm bf16");
  CHECK(gemm.size() == 3);
  const auto figure = [&](const std::string& size, int n, double median, double p90, double bias) {
    INFO(size);
    CHECK(gemm.at(size).at("n") == n);
    CHECK(gemm.at(size).at("median_ape_pct").get<double>() == Approx(median).margin(1e-6));
    CHECK(gemm.at(size).at("bias_pct").get<double>() == Approx(bias).margin(1e-6));
    CHECK(gemm.at(size).at("p90_ape_pct").get<double>() == Approx(p90).margin(1e-6));
  };
  figure("below 10 GFLOP", 1, 10, 10, 10);
  // Absolute errors 0, 2, 4: nine tenths of the way is 0.8 of the last step.
  figure("10 GFLOP to 1 TFLOP", 3, 2, 2 + 0.8 * 2, (-2.0 + 4.0 + 0.0) / 3);
  // 0, 2, 4, 10: the median lies between 2 and 4, nine tenths of three steps are 0.7 of the last.
  figure("all", 4, 3, 4 + 0.7 * 6, (10.0 - 2.0 + 4.0 + 0.0) / 4);
}

TEST_CASE("attention and collectives are checked by size as well; a profile may be a file") {
  const Folder folder;
  const std::string file = scenarios::data_directory() + "/calibration/profiles/h100-sxm-80gb.yaml";
  const json attention = check(folder, "batch,seq,heads,kv_heads,head_dim,ms\n1,2048,16,16,128,0.1\n", file);
  CHECK(attention.at("attention").at("all").at("n") == 1);
  const double predicted =
      sim::to_seconds(profile().node_collective(calibration::CollectiveOp::all_reduce, 8, sim::Bytes(1 << 28)).total());
  const json nccl = check(
      folder, fmt::format("op,gpus,bytes,us\nall_reduce,8,{},{:.12g}\nalltoall,8,1024,10\n", 1 << 28, predicted * 1e6));
  CHECK(nccl.at("all_reduce").at("from 64 MiB").at("median_ape_pct").get<double>() == Approx(0).margin(1e-6));
  CHECK(nccl.at("all_to_all").at("below 1 MiB").at("n") == 1);
  const Outcome text = tests::orrery(
      {"calibrate", "--check", "h100-sxm-80gb", folder.write("t.csv", "op,gpus,bytes,us\nall_reduce,8,9,9\n")});
  CHECK(text.status == 0);
  CHECK(text.out.find("all_reduce") != std::string::npos);
}

TEST_CASE("what calibrate refuses") {
  const Folder folder;
  const std::string good = folder.write("good.csv", "op,gpus,bytes,us\nall_reduce,8,1024,10\n");
  check_refused(tests::orrery({"calibrate"}), "--check");
  check_refused(tests::orrery({"calibrate", good}), "--check");
  check_refused(tests::orrery({"calibrate", "--check", "h100-sxm-80gb"}), "table");
  check_refused(tests::orrery({"calibrate", "--check", "h100-sxm-80bg", good}), "h100-sxm-80gb");
  check_refused(tests::orrery({"calibrate", "--check", folder.file("no.yaml"), good}), "no.yaml");
  check_refused(tests::orrery({"calibrate", "--check", "h100-sxm-80gb", folder.file("no.csv")}), "no.csv");
  const auto table = [&](const std::string& text) {
    return tests::orrery({"calibrate", "--check", "h100-sxm-80gb", folder.write("case.csv", text)});
  };
  check_refused(table("op,gpus,bytes,us\n"), "case.csv");
  check_refused(table("op,gpus,bytes,us\nall_reduce,8,1024,-1\n"), "case.csv:2:4: us: ");
  check_refused(table("op,gpus,bytes,us\nall_reduce,8,1e18,1\n"), "case.csv:2:3: bytes: ");
  check_refused(table("op,gpus\nall_reduce,8\n"), "case.csv:1:1: header: ");
  check_refused(table("device,kernel,m,n,k,us\na100,matmul,1,1,1,5\n"), "case.csv");
}

TEST_CASE("tables of engines name the columns that no time goes by, and why rows are left out") {
  const Folder folder;
  const std::string rows =
      "model,tp,tokens,activated_experts,us\nQwen3-30B-A3B-Instruct-2507,1,16,32,230\nMixtral-8x7B,1,16,4,230\n";
  const Outcome told = tests::orrery({"calibrate", "--check", "rtx-pro-6000-96gb", folder.write("e.csv", rows)});
  REQUIRE(told.status == 0);
  CHECK(told.out.find("left out: 1 samples of models whose widths are not known") != std::string::npos);
  CHECK(told.out.find("vllm experts by load") != std::string::npos);
  const std::string absorbed =
      "engine,version,op,kernel,dtype,tokens,heads,us\nvllm,1,mla_gen_pre,bmm,bfloat16,4,16,3\n";
  CHECK(tests::orrery({"calibrate", "--check", "h100-sxm-80gb", folder.write("a.csv", absorbed)})
            .out.find("columns that no kernel's time goes by here: version") != std::string::npos);
  check_refused(
      tests::orrery({"calibrate", "--check", "rtx-pro-6000-96gb",
                     folder.write("n.csv", "model,tp,tokens,activated_experts,us\nMixtral-8x7B,1,16,4,230\n")}),
      "1 of models whose widths are not known");
}

TEST_CASE("what cannot be run here comes from the user's own trace, and what was measured stays") {
  const Folder folder;
  const std::string scenario =
      folder.write("s.yaml",
                   "cluster: {device: h100-sxm-80gb, gpus: 1, gpus_per_node: 1}\nmodel: llama3.2-1b\n"
                   "parallelism: {tensor: 1, pipeline: 1, data: 1}\nbatch: {global: 2, micro: 1}\nprecision: bf16\n"
                   "software: nanotron-2025\n");
  REQUIRE(
      tests::orrery({"run", scenario, "--trace", folder.file("t.json"), "--set", "cluster.device.sustained.matmul=0.88",
                     "--set", "cluster.device.streaming.efficiency.layer_norm=0.5"})
          .status == 0);
  // The device's streaming kernels count as measured; its products do not.
  const std::string device =
      folder.write("device.yaml", "inherits: h100-sxm-80gb\nstreaming: {provenance: measured here}\n");
  const Outcome learnt = tests::orrery({"calibrate", "--learn", folder.file("t.json"), "--scenario", scenario, "--set",
                                        "cluster.device=" + device, "--out", folder.file("d.yaml")});
  INFO(learnt.err);
  REQUIRE(learnt.status == 0);
  const std::string profile = tests::read_file(folder.file("d.yaml"));
  INFO(profile);
  CHECK(profile.find("matmul: 0.88") != std::string::npos);
  CHECK(profile.find("layer_norm:") == std::string::npos);
  CHECK(learnt.out.find("as measured before: norms") != std::string::npos);
  check_refused(tests::orrery({"calibrate", "--learn", folder.file("t.json"), "--out", folder.file("e.yaml")}),
                "--scenario");
  check_refused(tests::orrery({"calibrate", "--learn", folder.file("t.json"), "--scenario", scenario}), "--out");
}

TEST_CASE("scans come from the user's own trace as well, unless they were measured") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml",
                                            "cluster: {device: b200-sxm-180gb, gpus: 8}\nmodel: nemotron-h-8b\n"
                                            "parallelism: {tensor: 1, pipeline: 1, data: 8, sharding: optimizer}\n"
                                            "batch: {global: 8, micro: 1}\nprecision: bf16\nsoftware: nemo-25.09\n");
  // A B200's chunks reach 0.34 of its bandwidth, and convolutions 0.37.
  REQUIRE(tests::orrery({"run", scenario, "--trace", folder.file("t.json"), "--set",
                         "cluster.device.scans.chunks.bandwidth=0.25", "--set",
                         "cluster.device.scans.convolution.bandwidth=0.5"})
              .status == 0);
  const auto learnt = [&](const std::string& device) {
    const Outcome outcome = tests::orrery({"calibrate", "--learn", folder.file("t.json"), "--scenario", scenario,
                                           "--set", "cluster.device=" + device, "--out", folder.file("d.yaml")});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return tests::read_file(folder.file("d.yaml"));
  };
  const std::string profile = learnt("b200-sxm-180gb");
  INFO(profile);
  const auto number = [&](const std::string& section) {
    const std::size_t at = profile.find("bandwidth: ", profile.find("  " + section + ":\n", profile.find("\nscans:")));
    return at == std::string::npos ? 0.0 : std::stod(profile.substr(at + 11));
  };
  CHECK(number("mamba2") == Approx(0.25).epsilon(0.02));  // the kind alone
  CHECK(number("convolution") == Approx(0.5).epsilon(0.02));
  const std::string measured =
      folder.write("device.yaml", "inherits: b200-sxm-180gb\nscans: {provenance: measured here}\n");
  CHECK(learnt(measured).find("\nscans:") == std::string::npos);
}

TEST_CASE("sparse attention comes from the user's own trace as well, kernel by kernel") {
  const Folder folder;
  const std::string scenario = folder.write(
      "s.yaml",
      "cluster: {device: h100-sxm-80gb, gpus: 8}\n"
      "model: {hidden: 2048, vocab: 32000, seq: 16384, gated_mlp: true, positions: rotary, norm: rms_norm, biases: "
      "none,\n"
      "        ffn_hidden: 5632, blocks: [{pattern: A+mlp, repeat: 4}],\n"
      "        mixers: {A: {kind: dsa, heads: 16, q_lora: 512, kv_lora: 256, qk_nope_dim: 64, qk_rope_dim: 32,\n"
      "                     v_dim: 64, index_heads: 16, index_dim: 128, index_top_k: 2048}}}\n"
      "parallelism: {tensor: 1, pipeline: 1, data: 8, sharding: optimizer}\n"
      "batch: {global: 8, micro: 1}\nprecision: bf16\nsoftware: megatron-core-0.16\n");
  const Outcome run = tests::orrery(
      {"run", scenario, "--trace", folder.file("t.json"), "--set", "cluster.device.sparse.index.rate=0.4", "--set",
       "cluster.device.sparse.choice.bandwidth=0.06", "--set", "cluster.device.sparse.attention.rate=0.3"});
  INFO(run.err);
  REQUIRE(run.status == 0);
  const auto learnt = [&](const std::string& device) {
    const Outcome outcome = tests::orrery({"calibrate", "--learn", folder.file("t.json"), "--scenario", scenario,
                                           "--set", "cluster.device=" + device, "--out", folder.file("d.yaml")});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    CHECK(outcome.out.find("learnt from traces, the rest as inherited: ") != std::string::npos);
    return tests::read_file(folder.file("d.yaml"));
  };
  const std::string profile = learnt("h100-sxm-80gb");
  INFO(profile);
  const auto number = [&](const std::string& section, const std::string& key) {
    const std::size_t from = profile.find("  " + section + ":\n", profile.find("\nsparse:"));
    const std::size_t at = profile.find(key + ": ", from);
    return from == std::string::npos || at == std::string::npos ? 0.0 : std::stod(profile.substr(at + key.size() + 2));
  };
  CHECK(number("index", "rate") == Approx(0.4).epsilon(0.03));
  CHECK(number("choice", "bandwidth") == Approx(0.06).epsilon(0.03));
  CHECK(number("attention", "rate") == Approx(0.3).epsilon(0.03));
  CHECK(profile.find("block_attention") == std::string::npos);
  // What says that it was measured stays as it is.
  const std::string measured =
      folder.write("device.yaml", "inherits: h100-sxm-80gb\nsparse: {index: {rate: 0.5, provenance: measured here}}\n");
  const std::string rest = learnt(measured);
  CHECK(rest.find("\n  index:") == std::string::npos);
  CHECK(rest.find("\n  choice:") != std::string::npos);
}
