// Do the lines in which a batch script asks Slurm for nodes and GPUs say how many a launch has?
#include "tools/import/batch_lines.h"

#include "tests/catch.h"
#include "tools/import/import.h"

using namespace orrery;

namespace {

std::string value(const std::string& script, const std::string& name) {
  for (const auto& [key, text] : tools::batch_variables(script)) {
    if (key == name) return text;
  }
  return "none";
}

constexpr const char* kModel =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --vocab-size 51200 --bf16\n";

}  // namespace

TEST_CASE("every spelling of sbatch's options is read, the later of two holds, and commands end the lines") {
  CHECK(value("#!/bin/bash\n#SBATCH --nodes=4\n", "SLURM_NNODES") == "4");
  CHECK(value("#SBATCH --nodes 4\n", "SLURM_JOB_NUM_NODES") == "4");
  CHECK(value("#SBATCH -N 4\n", "SLURM_NNODES") == "4");
  CHECK(value("#SBATCH -N4 --gpus-per-node=h100:8 # comment\n", "SLURM_GPUS_ON_NODE") == "8");
  CHECK(value("#SBATCH --gres=gpu:a100:4\n", "SLURM_GPUS_ON_NODE") == "4");
  CHECK(value("#SBATCH --gres=gpu:4\n", "SLURM_GPUS_ON_NODE") == "4");
  CHECK(value("#SBATCH --ntasks-per-node=8\n", "SLURM_NTASKS_PER_NODE") == "8");
  CHECK(value("#SBATCH -N 2\n\n# words\n#SBATCH -N 3\n", "SLURM_NNODES") == "3");
  CHECK(value("#SBATCH -N 2\necho\n#SBATCH -N 3\n", "SLURM_NNODES") == "2");
}

TEST_CASE("what is no number of nodes or GPUs is left alone") {
  for (const char* line : {"#SBATCH --nodes=4-8\n", "#SBATCH --nodes=\n", "#SBATCH --nodes\n", "# SBATCH --nodes=4\n",
                           "#SBATCH --nodes=99999999999999999999\n", "#SBATCH --gres=nic:4\n", "#SBATCH\n", ""}) {
    INFO(line);
    CHECK(tools::batch_variables(line).empty());
  }
}

TEST_CASE("a launch takes its GPUs from them, unless the script says so itself") {
  const auto gpus = [](const std::string& script) {
    const tools::Draft draft = tools::import_megatron(tools::read_launch_line(script, "job.sh"));
    return draft.document().find_path("cluster.gpus")->text();
  };
  const std::string asks = "#SBATCH --nodes=16\n#SBATCH --gres=gpu:4\n";
  CHECK(gpus(asks + "srun python pretrain_gpt.py " + kModel) == "64");
  CHECK(gpus(asks + "torchrun --nnodes $SLURM_NNODES --nproc-per-node 8 pretrain_gpt.py " + kModel) == "128");
  CHECK(gpus(asks + "NNODES=2\nsrun python pretrain_gpt.py " + kModel) == "8");
}
