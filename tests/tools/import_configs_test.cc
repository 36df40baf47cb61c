// Do configurations of TorchTitan and DeepSpeed and logs of MLPerf become the scenarios that they mean?
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"

using namespace orrery;
using tests::Folder;

namespace {

constexpr const char* kTitan = R"([job]
dump_folder = "./outputs"
[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[optimizer]
name = "AdamW"
[training]
local_batch_size = 2
seq_len = 8192
compile = true
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = -1
tensor_parallel_degree = 4
[activation_checkpoint]
mode = "full"
[float8]
recipe_name = "rowwise"
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

workloads::Job job_of(const tools::Draft& draft) { return scenarios::load_scenario(draft.document()).job; }

}  // namespace

TEST_CASE("a configuration of TorchTitan: degrees, FSDP, batches, precision") {
  const Folder folder;
  const workloads::Job job = job_of(tools::import_torchtitan(folder.write("run.toml", kTitan), 64));
  CHECK(job.model.layers == 32);
  CHECK(job.model.hidden == 4096);
  CHECK(job.model.seq == 8192);
  CHECK(job.parallelism.tensor == 4);
  CHECK(job.parallelism.sequence_parallel);
  CHECK(job.parallelism.data == 16);  // 64 / 4; shards are what the two copies leave of it
  CHECK(job.parallelism.sharding == workloads::Sharding::parameters);
  CHECK(job.batch.micro == 2);
  CHECK(job.batch.global == 32);  // 2 for each of 16
  CHECK(job.software.name == "torchtitan-2025.06");
  // Keys and values of a context group are gathered unless the file has them sent round (TorchTitan's job_config.py).
  const auto cut = [&](const std::string& more) {
    return job_of(tools::import_torchtitan(
        folder.write("cut.toml",
                     replaced(kTitan, "[activation", "context_parallel_degree = 4\n" + more + "[activation")),
        64));
  };
  CHECK(job.parallelism.context == 1);
  CHECK(cut("").parallelism.context == 4);
  CHECK(cut("").parallelism.context_method == workloads::ContextMethod::all_gather);
  CHECK(cut("context_parallel_rotate_method = \"alltoall\"\n").parallelism.context_method ==
        workloads::ContextMethod::ring);
  // Checkpointing operation by operation keeps every second product.
  const std::string by_op = replaced(kTitan, "mode = \"full\"", "mode = \"selective\"\nselective_ac_option = \"op\"");
  const workloads::Job spared = job_of(tools::import_torchtitan(folder.write("op.toml", by_op), 64));
  CHECK(spared.method.recompute == workloads::Recompute::selective);
  CHECK(spared.method.recomputed.every_second_product);
  CHECK_FALSE(spared.method.recomputed.core_attention);
  // With a pipeline FSDP keeps what it gathered, and a micro-batch is one sequence.
  const std::string pipelined = replaced(kTitan, "tensor_parallel_degree = 4",
                                         "tensor_parallel_degree = 4\npipeline_parallel_degree = 4\n"
                                         "pipeline_parallel_schedule = \"Interleaved1F1B\"");
  const std::string enough = replaced(pipelined, "local_batch_size = 2", "local_batch_size = 8");
  const workloads::Job staged = job_of(tools::import_torchtitan(folder.write("pipe.toml", enough), 64));
  CHECK(staged.parallelism.pipeline == 4);
  CHECK(staged.parallelism.virtual_pipeline == 2);
  CHECK(staged.parallelism.sharding == workloads::Sharding::gradients);
  CHECK(staged.batch.micro == 1);
  CHECK(staged.batch.global == 8 * 4);
  // What the loader refuses of a value that follows from several keys names the file, not "scenario".
  try {
    job_of(tools::import_torchtitan(folder.write("few.toml", pipelined), 64));
    FAIL("2 micro-batches over 4 stages are too few to interleave");
  } catch (const sim::UserError& error) {
    const std::string line = error.what();
    INFO(line);
    CHECK(line.find("few.toml:") != std::string::npos);
    CHECK(line.find("batch.global: gives 2 micro-batches") != std::string::npos);
  }
}

TEST_CASE("what TorchTitan and DeepSpeed keep in the host's memory is imported, and disks are refused") {
  const Folder folder;
  const std::string titan = replaced(kTitan, "[training]\n", "[training]\nenable_cpu_offload = true\n");
  CHECK(job_of(tools::import_torchtitan(folder.write("run.toml", titan), 64)).method.host_states ==
        workloads::HostStates{1, true, false});
  const auto zero = [&](const std::string& parts, std::int64_t gpus = 16) {
    const std::string text = R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1,
        "bf16": {"enabled": true}, "zero_optimization": {"stage": 3, )" +
                             parts + "}}";
    tools::Draft draft = tools::import_deepspeed(folder.write("ds.json", text), gpus, {"model=llama2-7b"});
    draft.apply("model=llama2-7b");
    return job_of(draft).method.host_states;
  };
  const std::string states = R"("offload_optimizer": {"device": "cpu", "ratio": 0.25})";
  const std::string all = R"("offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"})";
  CHECK(zero(states) == workloads::HostStates{0.25, false, false});
  CHECK(zero(all) == workloads::HostStates{1, true, false});
  CHECK(zero(R"("offload_param": {"device": "cpu"})") == workloads::HostStates{});
  try {
    zero(R"("offload_optimizer": {"device": "nvme"})");
    FAIL("takes NVMe");
  } catch (const sim::UserError& error) {
    const std::string what = error.what();
    CHECK(what.find("ds.json:") != std::string::npos);
    CHECK(what.find("offload_optimizer.device: got nvme, expected cpu or none") != std::string::npos);
  }
}

TEST_CASE("a configuration of DeepSpeed runs DeepSpeed of today, with ZeRO++ and the type of sums where it says so") {
  const Folder folder;
  const auto job = [&](const std::string& zero, const std::string& more = "") {
    const std::string text = R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, )" + more +
                             R"("bf16": {"enabled": true}, "zero_optimization": {)" + zero + "}}";
    tools::Draft draft = tools::import_deepspeed(folder.write("ds.json", text), 16, {"model=llama2-7b"});
    draft.apply("model=llama2-7b");
    return job_of(draft);
  };
  const std::string quantised =
      R"("zero_quantized_weights": true, "zero_quantized_gradients": true, "zero_hpz_partition_size": 8)";
  for (const int stage : {0, 1, 2, 3}) {
    const workloads::Job plain = job(fmt::format("\"stage\": {}", stage));
    CHECK(plain.software.name == "deepspeed-2026");
    CHECK(plain.method.precision.gradients == workloads::DataType::bf16);
    CHECK(plain.overlap.gradients == (stage == 3));
    CHECK(plain.overlap.parameters == (stage == 3));
    const workloads::Job plus = job(fmt::format("\"stage\": {}, {}", stage, quantised));
    CHECK(plus.software.fetches.quantised_fetches() == (stage == 3));
    CHECK(plus.software.fetches.quantised_reductions() == (stage == 3));
    CHECK(plus.parallelism.inside.secondary == (stage == 3 ? 8 : 0));
  }
  const std::string wide = R"("data_types": {"grad_accum_dtype": "fp32"}, )";
  CHECK(job("\"stage\": 2", wide).method.precision.gradients == workloads::DataType::fp32);
}

TEST_CASE("what is no configuration of TorchTitan is refused where it stands") {
  const Folder folder;
  const auto message = [&](const std::string& text, std::int64_t gpus = 64) {
    try {
      tools::import_torchtitan(folder.write("run.toml", text), gpus);
    } catch (const sim::UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message("[model\n").find("run.toml:1:") != std::string::npos);
  CHECK(message("key = 1\n").find("training") != std::string::npos);
  CHECK(message(replaced(kTitan, "\"8B\"", "\"9B\"")).find("run.toml:5:") != std::string::npos);
  CHECK(message(kTitan, 12).find("multiple of tensor 4") != std::string::npos);
  CHECK(message(replaced(kTitan, "\"full\"", "\"most\"")).find("none, selective or full") != std::string::npos);
  CHECK(message(std::string(100'000, '[')).find("deep") != std::string::npos);
}

TEST_CASE("a configuration of DeepSpeed: stages of ZeRO, buckets, the batch from two of three") {
  const Folder folder;
  const std::string text =
      R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8, "bf16": {"enabled": true},
          "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 5e8,
                                "offload_optimizer": {"device": "cpu"}}, "steps_per_print": 10})";
  tools::Draft draft = tools::import_deepspeed(folder.write("ds.json", text), 16, {"model=llama2-7b"});
  draft.apply("model=llama2-7b");
  const workloads::Job job = job_of(draft);
  CHECK(job.parallelism.data == 16);
  CHECK(job.parallelism.sharding == workloads::Sharding::gradients);
  CHECK(job.batch.micro == 4);
  CHECK(job.batch.global == 4 * 8 * 16);
  CHECK(job.method.host_states == workloads::HostStates{1, false, false});
  CHECK(job.software.buckets.gradient_bucket.value() == 1'000'000'000);  // elements of 2 bytes
  CHECK(std::any_of(draft.ignored().begin(), draft.ignored().end(),
                    [](const std::string& remark) { return remark.find("steps_per_print") != std::string::npos; }));
  const std::string scenario = folder.file("out.yaml");
  const tests::Outcome run = tests::orrery(
      {"import", "deepspeed", folder.file("ds.json"), "--gpus", "16", "--set", "model=llama2-7b", "--out", scenario});
  CHECK(run.status == 0);
  CHECK(tests::orrery({"run", scenario}).status == 0);
  CHECK(tests::orrery({"import", "deepspeed", folder.file("ds.json")}).err.find("--set model=NAME") !=
        std::string::npos);
  CHECK(tests::orrery({"import", "deepspeed", folder.write("x.json", "{\"a\": 1}")}).status == 2);
  // More than the language has: the product of all three would not fit 64 bits.
  const std::string large = R"({"train_micro_batch_size_per_gpu": 1e9, "gradient_accumulation_steps": 2147483648})";
  const tests::Outcome refused = tests::orrery(
      {"import", "deepspeed", folder.write("large.json", large), "--gpus", "16", "--set", "model=llama2-7b"});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("train_micro_batch_size_per_gpu: expected an integer from 1 to 1000000") != std::string::npos);
}

TEST_CASE("a log of MLPerf: the step from its blocks, or as it was logged") {
  const Folder folder;
  std::string log = "0: some other line\n";
  const auto add = [&](std::int64_t time_ms, const std::string& key, const std::string& value,
                       const std::string& metadata = "{}") {
    log += fmt::format(
        "0: :::MLLOG {{\"namespace\": \"\", \"time_ms\": {}, \"event_type\": \"POINT_IN_TIME\", \"key\": "
        "\"{}\", \"value\": {}, \"metadata\": {}}}\n",
        time_ms, key, value, metadata);
  };
  add(1000, "submission_benchmark", "\"llama31_8b\"");
  add(1000, "submission_org", "\"NVIDIA\"");
  add(1000, "submission_platform", "\"4xNVIDIA DGX H100\"");
  add(1000, "global_batch_size", "64");
  add(1000, "max_sequence_length", "8192");
  // Blocks of 10 steps that take 20 s, 10 s and 30 s: the median step is 2 s.
  std::int64_t now = 10'000, samples = 0;
  for (const int seconds : {20, 10, 30}) {
    add(now, "block_start", "null", fmt::format("{{\"samples_count\": {}}}", samples));
    now += 1000 * seconds;
    samples += 640;
    add(now, "block_stop", "null", fmt::format("{{\"samples_count\": {}}}", samples));
  }
  const tools::Draft draft = tools::import_mllog(folder.write("run.log", log));
  const scenarios::Scenario scenario = scenarios::load_scenario(draft.document());
  CHECK(scenario.measured->iteration_s == Approx(2.0));
  CHECK(scenario.job.machine.gpus == 32);
  CHECK(scenario.job.batch.global == 64);
  CHECK(scenario.job.model.seq == 8192);
  add(now, "tracked_stats", "{\"train_step_time\": 1.5}");
  CHECK(scenarios::load_scenario(tools::import_mllog(folder.write("run.log", log)).document()).measured->iteration_s ==
        Approx(1.5));
  for (const std::string& wrong :
       {std::string(), std::string("no mark\n"), std::string(":::MLLOG {\n"), replaced(log, "llama31_8b", "resnet")}) {
    CHECK_THROWS_AS(tools::import_mllog(folder.write("wrong.log", wrong)), sim::UserError);
  }
}

TEST_CASE("a log of MLPerf that prints its configuration says layout, types and recomputation") {
  const Folder folder;
  const auto event = [](const std::string& key, const std::string& value, const std::string& metadata = "{}") {
    return fmt::format(R"( 0: :::MLLOG {{"time_ms": 1000, "key": "{}", "value": {}, "metadata": {}}})"
                       "\n",
                       key, value, metadata);
  };
  const std::string ahead = event("submission_benchmark", "\"llama31_8b\"") + event("submission_org", "\"Someone\"") +
                            event("submission_platform", "\"18xGB300\"") + event("global_batch_size", "36") +
                            event("max_sequence_length", "8192") +
                            event("tracked_stats", R"({"train_step_time": 0.5})", R"({"step": 1})");
  const std::string configuration =
      " 0:     model:\n 0:       micro_batch_size: 1\n 0:       tensor_model_parallel_size: 1\n"
      " 0:       pipeline_model_parallel_size: 1\n 0:       virtual_pipeline_model_parallel_size: null\n"
      " 0:       context_parallel_size: 2\n 0:       sequence_parallel: false\n 0:       fp8: true\n"
      " 0:       fp8_recipe: tensorwise\n 0:       fp8_param_gather: true\n"
      " 0:       activations_checkpoint_granularity: null\n 0:         use_distributed_optimizer: true\n"
      " 0:         overlap_grad_reduce: true\n 0:       enable_cuda_graph: 1\n"
      " 0:       cuda_graph_scope: full_iteration\n 0:     trainer:\n 0:       devices: 4\n 0:       num_nodes: 18\n";
  const tools::Draft draft = tools::import_mllog(folder.write("run.txt", configuration + ahead));
  const workloads::Job job = job_of(draft);
  CHECK(job.parallelism.context == 2);
  CHECK(job.parallelism.data == 36);  // 72 GPUs, two to a sequence
  CHECK(job.parallelism.sharding == workloads::Sharding::optimizer);
  CHECK(job.batch.micro == 1);
  CHECK(draft.document().find_path("precision.matmul")->text() == "fp8");
  CHECK(draft.document().find_path("precision.parameters")->text() == "fp8");
  CHECK(draft.document().find_path("software.features")->items()[0].text() == "cuda-graphs");
  CHECK(job.method.recompute == workloads::Recompute::none);
  // Without it a replica of one GPU leaves sequences that do not go round, which is asked about as ever.
  CHECK_THROWS_AS(tools::import_mllog(folder.write("bare.txt", ahead)), sim::UserError);
  // What the user lays over it holds.
  const tools::Draft other =
      tools::import_mllog(folder.write("run.txt", configuration + ahead), {"parallelism.context=4"});
  CHECK(other.document().find_path("batch.micro")->text() == "1");
}
