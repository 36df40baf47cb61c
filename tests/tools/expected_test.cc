// Small files in the form in which people have them, each with what should come of it: further cases of those that
// reports_test.cc, import_forms_test.cc, import_shell_test.cc and import_topology_test.cc hold. Sizes are made up, all
// measured figures are those of public reports.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/skipped.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "tools/import/import.h"
#include "tools/import/wires.h"
#include "tools/replay/chakra.h"
#include "workloads/step/step.h"

using namespace orrery;
using nlohmann::json;
using tests::check_refused;
using tests::Folder;
using tests::Outcome;

namespace {

/// A field of a protobuf message that has a length; all lengths here are under 128.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value % 128 + 128);
  return out + static_cast<char>(value);
}
std::string with_length(const std::string& message) { return varint(message.size()) + message; }

/// The execution trace of a rank that makes one all-to-all of so many bytes and names no group (Chakra's et_def.proto:
/// a node's name is 2, its type 3, an attribute 10; of an attribute an int64 is 9, a bool 27).
std::string exchange_alone(std::uint64_t bytes) {
  const auto attribute = [](const std::string& name, const std::string& value) {
    return field(10, field(1, name) + value);
  };
  const std::string node = field(2, "c") + "\x18\x07" + attribute("is_cpu_op", std::string("\xd8\x01\x00", 3)) +
                           attribute("comm_type", "\x48\x06") + attribute("comm_size", "\x48" + varint(bytes));
  return with_length(field(1, "0.0.4")) + with_length(node);
}

constexpr const char* kEight =
    "name: eight\ncluster: {device: h100-sxm-80gb, gpus: 8, fabric: single-node}\nmodel: llama3.1-8b\n"
    "batch: {global: 8, micro: 1}\n";

std::string launch(const std::string& last) {
  return "torchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py --num-layers 24 --hidden-size 2048 "
         "--num-attention-heads 16 --seq-length 2048 --vocab-size 32000 --tensor-model-parallel-size 2 "
         "--micro-batch-size 1 --global-batch-size 64 --bf16 " +
         last + "\n";
}

}  // namespace

TEST_CASE("traces of an all-to-all that names no group replay as the collective by itself takes") {
  if (!tools::has_chakra()) {
    tests::skipped("a build without libprotobuf");
    return;
  }
  const Folder folder;
  const std::string scenario = folder.write("eight.yaml", kEight);
  for (const auto& [ranks, bytes] : {std::pair(4, 1 << 20), std::pair(8, 1 << 26)}) {
    const std::filesystem::path traces = folder.path() / fmt::format("et-{}", ranks);
    std::filesystem::create_directories(traces);
    for (int rank = 0; rank < ranks; ++rank)
      std::ofstream(traces / fmt::format("x.{}.et", rank), std::ios::binary)
          << exchange_alone(static_cast<std::uint64_t>(bytes));
    const Outcome replayed = tests::orrery({"replay", traces.string(), "--scenario", scenario, "--json", "-"});
    INFO(replayed.err);
    REQUIRE(replayed.status == 0);
    const json calls = json::parse(replayed.out)["calls"];
    REQUIRE(calls.size() == 1);
    CHECK(calls[0]["group_ranks"] == ranks);
    const Outcome alone = tests::orrery({"collective", scenario, "--op", "all_to_all", "--gpus", std::to_string(ranks),
                                         "--sizes", std::to_string(bytes), "--json", "-"});
    REQUIRE(alone.status == 0);
    const double time = json::parse(alone.out)["rows"][0]["time_us"];
    CHECK(json::parse(replayed.out)["replayed_s"].get<double>() * 1e6 == Approx(time).epsilon(1e-3));
  }
}

TEST_CASE("scripts whose branches choose logs, their own folder or an option that is off are imported at their GPUs") {
  const Folder folder;
  const auto yaml = [&](const std::string& script) {
    const Outcome outcome = tests::orrery({"import", "megatron", folder.write("run.sh", script)});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return outcome.out;
  };
  const std::string logs =
      "NNODES=4\nif [ -n \"$WANDB\" ]; then\n  LOG=\"--log-interval 1 --tensorboard-dir a\"\nelse\n"
      "  LOG=\"--log-interval 100 --tensorboard-dir b\"\nfi\n";
  CHECK(yaml(logs + launch("$LOG")).find("gpus: 32\n") != std::string::npos);
  const std::string own = "HERE=\"$( cd \"$( dirname \"$0\" )\" && pwd )\"\nNNODES=4\n";
  CHECK(yaml(own + launch("")).find("gpus: 32\n") != std::string::npos);
  CHECK(yaml("export RUN=${RUN:-\"${MODEL}-bench\"}\nNNODES=4\n" + launch("")).find("gpus: 32\n") != std::string::npos);
  const std::string chosen =
      "NNODES=4\nif [ $SP = true ]; then\n  ARG=\"--sequence-parallel\"\nelif [ $SP = false ]; then\n  ARG=\"\"\nfi\n" +
      launch("$ARG");
  CHECK(yaml("SP=false\n" + chosen).find("sequence_parallel: false\n") != std::string::npos);
  CHECK(yaml("SP=true\n" + chosen).find("sequence_parallel: true\n") != std::string::npos);
}

TEST_CASE("nccl-tests behind a launcher's label or time stamp gives its rows") {
  const Folder folder;
  const std::vector<std::string> lines{
      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 2(factor)",
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong",
      "1048576        262144     float     sum      -1    354.9    2.95    5.76      0    345.7    3.03    5.92      "
      "0"};
  for (const char* label : {"0: ", "Thu Jul 18 15:00:00 2024<stdout>:", "[1,0]<stdout>:", ""}) {
    INFO(label);
    std::string text;
    for (const std::string& line : lines) text += label + line + "\n";
    const Outcome outcome =
        tests::orrery({"collective", "gt-roce-400", "--set", "nics=4", "--op", "all_reduce", "--gpus", "40",
                       "--measured", folder.write("nccl.txt", text), "--json", "-"});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    const json rows = json::parse(outcome.out)["rows"];
    REQUIRE(rows.size() == 1);
    CHECK(rows[0]["bytes"] == 1048576);
    CHECK(rows[0]["measured_us"] == Approx(354.9));
  }
}

TEST_CASE("TorchTitan: an eager model is slower, experts' tensor ranks are taken, configurations in Python are read") {
  const Folder folder;
  const auto draft = [&](const std::string& more, std::int64_t gpus) {
    return tools::import_torchtitan(folder.write("t.toml", "[training]\nlocal_batch_size = 1\nseq_len = 4096\n" + more),
                                    gpus);
  };
  const auto step = [&](const std::string& compile) {
    const std::string text = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[compile]\n" + compile;
    return workloads::simulate_step(scenarios::load_scenario(draft(text, 8).document()).job).iteration;
  };
  CHECK(step("enable = false\n") > step("enable = true\ncomponents = [\"model\", \"loss\"]\n"));
  const tools::Draft mixture = draft(
      "[model]\nname = \"deepseek_v3\"\nflavor = \"16B\"\n[parallelism]\ntensor_parallel_degree = 4\n"
      "expert_parallel_degree = 2\nexpert_tensor_parallel_degree = 4\n",
      16);
  CHECK(mixture.document().find_path("parallelism.expert_tensor")->text() == "4");
  const std::string python = folder.write(
      "config.py",
      "from torchtitan.config import ParallelismConfig, TrainingConfig\nfrom torchtitan.trainer import Trainer\n"
      "from torchtitan.models.llama3 import model_registry\n\n"
      "def small() -> Trainer.Config:\n    return Trainer.Config(model_spec=model_registry('8B'),\n"
      "        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=8192, max_context_length=4096),\n"
      "        parallelism=ParallelismConfig(tensor_parallel_degree=2))\n");
  const workloads::Job job = scenarios::load_scenario(tools::import_torchtitan(python, 64).document()).job;
  CHECK(job.model.layers == 32);
  CHECK(job.model.seq == 4096);
  CHECK(job.parallelism.tensor == 2);
  CHECK(job.batch.micro == 2);
}

TEST_CASE("a file of another kind is told its own, and NCCL's file of one GPU what to do") {
  const Folder folder;
  const std::string nanotron = folder.write(
      "nanotron.yaml",
      "model:\n  model_config: {hidden_size: 1024, num_hidden_layers: 8, num_attention_heads: 8, vocab_size: 32000}\n"
      "parallelism: {dp: 8, pp: 1, tp: 1}\ntokens: {micro_batch_size: 1, sequence_length: 1024}\n");
  check_refused(tests::orrery({"import", "nemo", nanotron}), {"orrery import nanotron FILE"});
  const std::string nccl = folder.write(
      "topo.xml",
      "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:10:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"80\">"
      "<nvlink target=\"0000:20:00.0\" count=\"12\" tclass=\"0x068000\"/></gpu></pci></cpu></system>\n");
  check_refused(tests::orrery({"import", "topology", nccl}), {"NCCL's topology file", "cluster.device.node"});
}

TEST_CASE("boards in pairs go at the bridge's pace in a pair and at the host's beyond, up to all eight") {
  const Folder folder;
  std::string matrix = "\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\n";
  for (int a = 0; a < 8; ++a) {
    matrix += fmt::format("GPU{}", a);
    for (int b = 0; b < 8; ++b)
      matrix += a == b ? "\t X " : a / 2 == b / 2 ? "\tNV12" : a / 4 == b / 4 ? "\tNODE" : "\tSYS";
    matrix += "\n";
  }
  const auto busbw = [&](const std::string& text, const std::string& op, int boards, int gpus) {
    std::string node;
    std::istringstream lines(tools::import_topology(folder.write("topo.txt", text), {}));
    for (std::string line; std::getline(lines, line);) node += "      " + line + "\n";
    const std::string cluster = folder.write(
        "node.yaml", fmt::format("cluster:\n  gpus: {}\n  fabric: single-node\n  device:\n    inherits: a100-sxm-80gb\n"
                                 "    node:\n{}",
                                 boards, node));
    const Outcome outcome = tests::orrery(
        {"collective", cluster, "--op", op, "--gpus", std::to_string(gpus), "--sizes", "8GB:8GB:2", "--json", "-"});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out)["rows"][0]["busbw_gbs"].get<double>();
  };
  const double pair = busbw(matrix, "all_reduce", 8, 2), three = busbw(matrix, "all_reduce", 8, 3);
  CHECK(pair == Approx(208).epsilon(0.15));  // measured
  CHECK(three == Approx(20).epsilon(0.15));  // measured
  CHECK(busbw(matrix, "all_reduce", 8, 8) <= three * 1.001);
  // Four boards with four links between any two, 25 GB/s each, of which 72 GB/s were measured.
  const std::string all =
      "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\nGPU0\t X \tNV4\tNV4\tNV4\tPXB\nGPU1\tNV4\t X \tNV4\tNV4\tSYS\n"
      "GPU2\tNV4\tNV4\t X \tNV4\tSYS\nGPU3\tNV4\tNV4\tNV4\t X \tSYS\nNIC0\tPXB\tSYS\tSYS\tSYS\t X \n";
  const double sent = busbw(all, "send_receive", 4, 2);
  CHECK(sent > 72 * 0.9);
  CHECK(sent < 100);
}

TEST_CASE("a model's twin of another release, and a log of many nodes, are known") {
  const Folder folder;
  const std::string file =
      folder.write("qwen2.py",
                   "from nemo.collections import llm\n\nrecipe = llm.qwen2_7b.pretrain_recipe(name=\"x\", num_nodes=1, "
                   "num_gpus_per_node=8)\n");
  const tools::Draft recipe = tools::import_nemo_recipe(file, 8, "");
  CHECK(recipe.document().find_path("model.inherits")->text() == "qwen2.5-7b");
  // 3072 sequences of 2048 tokens a step, five seconds each by the log's own statistics.
  const auto event = [](const std::string& key, const std::string& value) {
    return fmt::format(":::MLLOG {{\"time_ms\": 1000, \"key\": \"{}\", \"value\": {}, \"metadata\": {{}}}}\n", key,
                       value);
  };
  std::string log = event("submission_benchmark", "\"gpt3\"") + event("submission_platform", "\"384xPLATFORM\"") +
                    event("global_batch_size", "3072") + event("max_sequence_length", "2048");
  for (int i = 0; i < 3; ++i) log += event("tracked_stats", "{\"train_step_timing in s\": 5.0}");
  const tools::Draft draft =
      tools::import_mllog(folder.write("gpt3.log", log), {"parallelism.tensor=4", "parallelism.pipeline=8"});
  CHECK(draft.document().find_path("measured.iteration_s")->text() == "5");
  CHECK(draft.document().find_path("cluster.gpus")->text() == "3072");
}

TEST_CASE("a step whose kernels outlast the host's mark ends with them, and is idle for no less than nothing") {
  // Ten kernels of 1.4 ms follow each other; the profiler's mark of the step, the host's, is over after 10 ms.
  const Folder folder;
  std::string events =
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":1000.0,"dur":10000})";
  for (int i = 0; i < 10; ++i) {
    events +=
        fmt::format(R"(,{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{},"dur":5,)"
                    R"("args":{{"correlation":{}}}}})",
                    1050 + 50 * i, i + 1);
    events += fmt::format(
        R"(,{{"ph":"X","cat":"kernel","name":"ampere_bf16_s16816gemm_bf16_128x128_tn","pid":0,"tid":7,"ts":{},)"
        R"("dur":1400,"args":{{"correlation":{},"stream":7,"device":0}}}})",
        1100 + 1400 * i, i + 1);
  }
  const std::string trace = folder.write(
      "trace.json", fmt::format(R"({{"schemaVersion":1,"deviceProperties":[{{"id":0,"name":"NVIDIA H100 80GB HBM3"}}],)"
                                R"("distributedInfo":{{"rank":0,"world_size":8}},"traceEvents":[{}]}})",
                                events));
  const Outcome outcome = tests::orrery({"diff", trace, folder.write("eight.yaml", kEight), "--set", "model.layers=2",
                                         "--set", "model.seq=2048", "--json", "-"});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const json parts = json::parse(outcome.out);
  CHECK(parts["measured_step_s"].get<double>() == Approx(14e-3).epsilon(0.01));
  for (const json& row : parts["rows"]) CHECK(row["measured_s"].get<double>() >= 0);
}
