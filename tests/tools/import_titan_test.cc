// Do configurations of TorchTitan, in TOML and since February 2026 in Python, become the scenarios that they mean?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"

using namespace orrery;
using tests::Folder;

namespace {

workloads::Job job_of(const tools::Draft& draft) { return scenarios::load_scenario(draft.document()).job; }

std::string remarks_of(const tools::Draft& draft) { return fmt::format("{}", fmt::join(draft.ignored(), "\n")); }

/// A registry as the package has one, with a configuration that changes another one.
constexpr const char* kRegistry = R"(from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.components.optimizer import default_adamw
from torchtitan.components.quantization import Float8LinearConverter
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.trainer import Trainer

from . import model_registry


def llama3_70b() -> Trainer.Config:
    spec = model_registry("70B", attn_backend="flex")
    return Trainer.Config(
        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config()),
        model_spec=spec,
        optimizer=default_adamw(lr=1.5e-4),
        training=TrainingConfig(
            num_tokens_per_microbatch_per_dp_rank=2 * 8192,
            max_context_length=8192,
            steps=1000,
        ),
        parallelism=ParallelismConfig(tensor_parallel_degree=8),
        compile=CompileConfig(enable=True),
        activation_checkpoint=FullAC.Config(),
    )


def llama3_70b_float8() -> Trainer.Config:
    config = llama3_70b()
    config.model_spec = model_registry(
        "70B", converters=[Float8LinearConverter.Config(filter_fqns=["lm_head"])]
    )
    config.training.disable_cuda_graphs = True
    config.activation_checkpoint = SelectiveAC.Config()
    config.parallelism.pipeline_parallel_degree = 2
    config.parallelism.num_pp_microbatches = 8
    return config


def sized() -> Trainer.Config:
    config = llama3_70b()
    config.training.num_tokens_per_train_step = 64 * 8192
    config.parallelism.enable_sequence_parallel = False
    config.activation_checkpoint = None
    return config
)";

}  // namespace

TEST_CASE(
    "a registry of TorchTitan's: a configuration by its function's name, batches in tokens, policies as classes") {
  const Folder folder;
  std::filesystem::create_directories(folder.path() / "torchtitan/models/llama3");
  folder.write("torchtitan/models/llama3/__init__.py",
               "def model_registry(flavor, attn_backend='flex'):\n"
               "    return ModelSpec(name='made up', flavor=flavor)\n");
  const std::string file = folder.write("torchtitan/models/llama3/config_registry.py", kRegistry);
  const tools::Draft whole = tools::import_torchtitan(file, 64, "llama3_70b");
  const workloads::Job job = job_of(whole);
  CHECK(job.model.layers == 80);  // of llama3, which the folder says
  CHECK(job.model.seq == 8192);
  CHECK(job.parallelism.tensor == 8);
  CHECK(job.parallelism.data == 8);
  CHECK(job.batch.micro == 2);
  CHECK(job.batch.global == 2 * 8);
  CHECK(job.method.recompute == workloads::Recompute::full);
  CHECK(whole.document().find_path("software.features")->items()[0].text() == "cuda-graphs");
  CHECK(remarks_of(whole).find("loss.num_chunks") != std::string::npos);
  // Passes of a pipeline have as many tokens each, and there are so many of them.
  const tools::Draft changed = tools::import_torchtitan(file, 64, "llama3_70b_float8");
  const workloads::Job staged = job_of(changed);
  CHECK(staged.batch.micro == 2);
  CHECK(staged.batch.global == 2 * 8 * 4);
  CHECK(changed.document().find_path("precision.matmul")->text() == "fp8-rowwise");
  CHECK(staged.method.recomputed.every_second_product);
  CHECK(changed.document().find_path("software")->is_scalar());
  CHECK(remarks_of(changed).find("filter_fqns") != std::string::npos);
  const workloads::Job sized = job_of(tools::import_torchtitan(file, 64, "sized"));
  CHECK(sized.batch.global == 64);
  CHECK_FALSE(sized.parallelism.sequence_parallel);
  CHECK(sized.method.recompute == workloads::Recompute::none);
  try {
    tools::import_torchtitan(file, 64);
    FAIL("takes one of three");
  } catch (const sim::UserError& error) {
    CHECK(std::string(error.what()).find("--recipe with one of llama3_70b, llama3_70b_float8, sized") !=
          std::string::npos);
  }
}

TEST_CASE("a configuration of TorchTitan's that another file makes is named by its function, and said to be open") {
  const Folder folder;
  const std::string file = folder.write("mine.py",
                                        "from torchtitan.models.qwen3.config_registry import qwen3_30b_a3b\n\n"
                                        "def mine():\n    config = qwen3_30b_a3b()\n"
                                        "    config.training.seq_len = 4096\n"
                                        "    config.training.local_batch_size = sizes.batch\n    return config\n");
  const tools::Draft draft = tools::import_torchtitan(file, 8);
  CHECK(draft.document().find_path("model.inherits")->text() == "qwen3-30b-a3b");
  CHECK(draft.document().find_path("model.seq")->text() == "4096");
  const std::string said = remarks_of(draft);
  INFO(said);
  CHECK(said.find("which is not in this file") != std::string::npos);
  CHECK(said.find("training.local_batch_size = sizes.batch") != std::string::npos);
}

TEST_CASE("a registry of TorchTitan's that lies by itself is of the model that its functions are called after") {
  const Folder folder;
  const std::string file = folder.write("alone.py", kRegistry);
  const tools::Draft draft = tools::import_torchtitan(file, 64, "llama3_70b_float8");
  CHECK(draft.document().find_path("model.inherits")->text() == "llama3.1-70b");
  CHECK(fmt::format("{}", fmt::join(draft.assumed(), " ")).find("by the name of llama3_70b_float8") !=
        std::string::npos);
  CHECK_THROWS_AS(tools::import_torchtitan(file, 64, "sized"), sim::UserError);  // which says no model's name
}

TEST_CASE("what a launch of TorchTitan's says goes over its file") {
  const Folder folder;
  const std::string file = folder.write("t.toml",
                                        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 4096\n"
                                        "local_batch_size = 1\n[compile]\nenable = true\n");
  const tools::Draft draft =
      tools::import_torchtitan(file, 16, "",
                               {"--training.local-batch-size", "4", "--parallelism.tensor_parallel_degree=2",
                                "--compile.no-enable", "--training.enable_cpu_offload"});
  const workloads::Job job = job_of(draft);
  CHECK(job.batch.micro == 4);
  CHECK(job.parallelism.tensor == 2);
  CHECK(job.method.host_states.parameters);
  CHECK(draft.document().find_path("software")->text() == "torchtitan-2025.08-eager");
  CHECK_THROWS_AS(tools::import_torchtitan(file, 16, "", {"training=3"}), sim::UserError);
}

TEST_CASE(
    "TorchTitan's converters, types and recomputation: what each makes of the products, of the states, of a block") {
  const Folder folder;
  const auto draft = [&](const std::string& more, const std::string& flavor = "name = \"llama3\"\nflavor = \"8B\"\n") {
    return tools::import_torchtitan(folder.write("t.toml", "[model]\n" + flavor + more), 16);
  };
  const auto matmul = [&](const std::string& more) {
    return draft(more).document().find_path("precision.matmul")->text();
  };
  CHECK(matmul("") == "bf16");
  CHECK(matmul("converters = [\"quantize.linear.mx\"]\n") == "mxfp8");
  CHECK(matmul("converters = [\"mx\"]\n") == "mxfp8");
  CHECK(matmul("converters = [\"quantize.linear.float8\"]\n") == "fp8");
  CHECK(matmul("[training]\nmixed_precision_param = \"float32\"\n") == "fp32");
  // bf16 of everything is no fp32 copy; on a board without such types another one stands in.
  CHECK(draft("[training]\ndtype = \"bfloat16\"\n").document().find_path("precision.master")->text() == "none");
  CHECK(draft("converters = [\"mx\"]\n").document().find_path("cluster.device")->text() == "b200-sxm-180gb");
  const tools::Draft experts =
      draft("converters = [\"quantize.grouped_mm.float8\"]\n", "name = \"qwen3\"\nflavor = \"30B-A3B\"\n");
  CHECK(experts.document().find_path("precision.matmul")->text() == "bf16");
  CHECK(remarks_of(experts).starts_with("compile"));
  CHECK(remarks_of(experts).find("products of experts alone are quantised") != std::string::npos);
  CHECK(remarks_of(draft("converters = [\"zzz\"]\n")).find("zzz is not known") != std::string::npos);
  // One block in three: of the 32 blocks 10.
  const workloads::Job third = job_of(draft("[activation_checkpoint]\nselective_ac_option = \"3\"\n"));
  CHECK(third.method.recompute == workloads::Recompute::full);
  CHECK(draft("[activation_checkpoint]\nselective_ac_option = \"3\"\n")
            .document()
            .find_path("recompute.layers")
            ->text() == "10");
  const std::string budget =
      remarks_of(draft("[activation_checkpoint]\nmode = \"memory_budget\"\nmemory_budget = 0.3\n"));
  CHECK(budget.find("memory_budget = 0.3") != std::string::npos);
  // Evaluations of so many steps over 16 ranks of two sequences each.
  const tools::Draft evaluated = draft(
      "[training]\nlocal_batch_size = 2\n[validation]\nenable = true\nfreq = 100\nsteps = 5\nlocal_batch_size = 2\n");
  CHECK(evaluated.document().find_path("evaluation.sequences")->text() == "160");
  CHECK(evaluated.document().find_path("evaluation.every_steps")->text() == "100");
}

TEST_CASE("keys of TorchTitan that no scenario has are named by their reason, misprints with what they mean") {
  const Folder folder;
  const tools::Draft draft = tools::import_torchtitan(
      folder.write("t.toml",
                   "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[optimizer]\nlr = 1e-4\nimplementation = \"foreach\"\n"
                   "[training]\nseq_lenn = 4096\nmax_norm = 1.0\n[parallelism]\ndisable_loss_parallel = true\n"
                   "[fault_tolerance]\ngroup_size = 2\n[debug]\nunheard_of_this = 3\n"),
      8);
  const std::string said = remarks_of(draft);
  INFO(said);
  CHECK(said.find("training.seq_lenn: not known to orrery; did you mean training.seq_len?") != std::string::npos);
  CHECK(said.find("optimizer.implementation = foreach") != std::string::npos);
  CHECK(said.find("parallelism.disable_loss_parallel = true") != std::string::npos);
  CHECK(said.find("debug.unheard_of_this: not known to orrery") != std::string::npos);
  CHECK(said.find("fault_tolerance.group_size") != std::string::npos);
  CHECK(said.find("optimizer.lr, training.max_norm: changes values") != std::string::npos);
}
