// How time and memory grow: one step of GPT-3 175B on Eos' fabric, with more GPUs, more micro-batches and more layers,
// each run in a process of its own, so that its CPU time and its peak memory are its own (getrusage of the child). The
// last column is the exponent between two rows: 1 means linear growth.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "workloads/step/step.h"

namespace {

using namespace orrery;

struct Cost {
  double cpu_s = 0, peak_mb = 0;
};

/// Runs one step in a child process; the child's exit status is checked.
Cost cost_of(const std::vector<std::string>& sets, bool full) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string file = std::string(ORRERY_SOURCE_DIR) + "/scenarios/eos-gpt3-175b.yaml";
    const auto scenario = scenarios::load_scenario(scenarios::read_scenario(file, sets));
    workloads::Question options;
    if (full) options.ranks = workloads::Question::Ranks::every;
    workloads::simulate_step(scenario.job, options);
    _exit(0);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) {
    std::fprintf(stderr, "growth: a run failed\n");
    std::exit(1);
  }
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {seconds(used.ru_utime) + seconds(used.ru_stime), static_cast<double>(used.ru_maxrss) / 1024};
}

void row(const char* what, long size, const std::vector<std::string>& sets, bool full, long& last_size, Cost& last) {
  const Cost cost = cost_of(sets, full);
  std::printf("%-24s %8ld  %9.3f s  %9.1f MB", what, size, cost.cpu_s, cost.peak_mb);
  if (last_size > 0) {
    std::printf("  exponent %5.2f", std::log(cost.cpu_s / last.cpu_s) / std::log(double(size) / double(last_size)));
  }
  std::printf("\n");
  std::fflush(stdout);
  last_size = size;
  last = cost;
}

std::string set(const char* key, long value) { return std::string(key) + "=" + std::to_string(value); }

void grow_gpus(bool full) {
  long size = 0;
  Cost last;
  for (long data = 21; data <= 336; data *= 2) {
    const long gpus = 32 * data;
    row(full ? "GPUs, every rank" : "GPUs, folded", gpus,
        {set("cluster.gpus", gpus), set("parallelism.data", data), set("batch.global", 8 * data)}, full, size, last);
  }
}

void grow_microbatches(bool full) {
  long size = 0;
  Cost last;
  for (long m = 8; m <= 128; m *= 2) {
    row(full ? "micro-batches, every rank" : "micro-batches, folded", m,
        {"cluster.gpus=672", "parallelism.data=21", set("batch.global", 21 * m)}, full, size, last);
  }
}

void grow_layers(bool full) {
  long size = 0;
  Cost last;
  for (long layers = 96; layers <= 768; layers *= 2) {
    row(full ? "layers, every rank" : "layers, folded", layers,
        {"cluster.gpus=672", "parallelism.data=21", "batch.global=168", set("model.layers", layers)}, full, size, last);
  }
}

}  // namespace

int main() {
  std::printf("%-24s %8s  %11s  %12s  %s\n", "what grows", "size", "CPU", "peak memory", "time ~ size^exponent");
  for (const bool full : {false, true}) {
    grow_gpus(full);
    grow_microbatches(full);
    grow_layers(full);
  }
}
