// The table of inputs and what each must do to the answer, shared by the files that fill it.
#pragma once

#include <string>
#include <vector>

namespace orrery::tests {

using Sets = std::vector<std::string>;

/// What a changed key must do.
enum class Effect {
  slower,
  faster,
  differs,
  more_memory,
  more_capacity,
  lower_mfu,
  longer_evaluation,
  longer_training,
  dearer,
  refused
};

struct Case {
  std::string key;
  Effect effect;
  std::string value;  // of the key
  Sets base;          // laid over both runs
  std::string other;  // value of the key in the base run; empty: as the document has it
};

inline const Sets kManyNodes{"cluster.gpus=128", "parallelism.data=32", "batch.global=256"};
inline const Sets kSharded{"parallelism.sharding=optimizer"};
inline const Sets kOverlapped{"parallelism.sharding=optimizer", "parallelism.sequence_parallel=true",
                              "overlap={tensor: true, pipeline: true, gradients: true, parameters: true}"};
inline const Sets kFp8{"cluster.device=h100-sxm-80gb", "precision=fp8"};
inline Sets plus(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Runs the base with the key's other value and with its value, and compares the answers.
void check(const Case& c);

/// A case for every key of mixtures of experts.
std::vector<Case> mixture_cases();

/// A case for every key of recommenders.
std::vector<Case> recommender_cases();

/// A case for every key of a software generation.
std::vector<Case> software_cases();

}  // namespace orrery::tests
