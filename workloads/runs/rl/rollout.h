// Answers as they are written by a fleet of replicas: requests in, their ends out, over the loop of requests
// (workloads/runs/serving). Each replica has requests of its own, dealt out as they are handed in, so it is run by
// itself: a fleet of thousands takes the memory of one. Samples of a prompt share what is cached of it.
// Left out: requests that move to another replica that is done sooner.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/runs/rl/batch.h"
#include "workloads/runs/serving/serve.h"

namespace orrery::rl {

struct Handed {
  Time at = 0;
  Sample sample;
};

struct Rollout {
  std::vector<serving::Served> served;  // as they were handed in
  Time busy = 0;                        // of all replicas, at work
  Time end = 0;                         // of the last
  std::int64_t written = 0, refused = 0, preemptions = 0;
};

struct Fleet {
  serving::Limits limits;
  std::int64_t replicas = 1;
  std::int64_t concurrency = 0;  // requests of a replica at a time, below its own limit; 0: that
  bool by_sample = false;        // what is dealt out: samples one by one, or prompts with all of theirs
};

/// `handed` by time. Samples without an answer are through as they come.
Rollout generate(std::span<const Handed> handed, const Fleet& fleet, serving::StepTimes& times);

/// When so many of these are through; their last where they are fewer.
Time time_of(std::vector<Time> ends, std::int64_t count);

}  // namespace orrery::rl
