// The lines of a batch script in which it asks Slurm for nodes and GPUs.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace orrery::tools {

/// What Slurm sets for a job that these lines ask for, as variables of the environment: SLURM_NNODES and
/// SLURM_JOB_NUM_NODES, SLURM_GPUS_ON_NODE, SLURM_NTASKS_PER_NODE, SLURM_NTASKS (sbatch(1), "output environment
/// variables"). Only `#SBATCH` lines ahead of the first command count, as for Slurm; a later line replaces an earlier
/// one.
/// Left out: ranges of nodes, `--gpus` of the whole job, options that say neither.
std::vector<std::pair<std::string, std::string>> batch_variables(const std::string& script);

}  // namespace orrery::tools
