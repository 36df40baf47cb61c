// Do optimizer states in the host's memory take from the device what they weigh, and from the step what copies and the
// host's update take? Expectations are bytes over rates.
#include <algorithm>
#include <cmath>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/job/job_values.h"
#include "workloads/memory/memory.h"
#include "workloads/step/account.h"
#include "workloads/step/step_bound.h"

using namespace orrery;
using namespace orrery::workloads;
using tests::small_job;
using Sets = std::vector<std::string>;

namespace {

/// 16 GPUs that share out states; hosts of 1 TB at 400 GB/s, four links of 20 GB/s to the eight GPUs of a node.
Sets host_sharing(const Sets& more = {}) {
  Sets sets{"parallelism.pipeline=1",
            "parallelism.tensor=1",
            "parallelism.data=16",
            "parallelism.sharding=optimizer",
            "software.overlap_parameters=false",
            "cluster.device={inherits: a100-sxm-80gb, node: {host_memory: 1 TB, host_memory_rate: 400 GB/s, "
            "host_link: 20 GB/s, host_links: 4}}",
            "software.host_update_share=0.5"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}
Sets and_with(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}
const char* const kStatesAway = "offload={optimizer: true}";
const char* const kStatesInPieces = "offload={optimizer: true, optimizer_overlap: true}";

double step_seconds(const Sets& sets) { return sim::to_seconds(simulate_step(small_job(sets)).iteration); }
double part_of_step(const StepReport& report, Category category) {
  return report.breakdown_s[static_cast<std::size_t>(category)];
}

/// Parameters that a rank of the one stage holds.
double held_of_rank(const Job& job) {
  const LayerSplit split = split_layers(job);
  return StageLayout{split, job.parallelism.chunk_map(), 0}.parameters(HeldPart::but_experts);
}

const TrafficRow* host_row(const StepReport& report, std::string_view what) {
  const auto found =
      std::find_if(report.traffic.begin(), report.traffic.end(), [&](const TrafficRow& r) { return r.what == what; });
  return found == report.traffic.end() ? nullptr : &*found;
}

/// All rows that a host has a part in: what is counted is what the formula says.
void check_host_counts(const StepReport& report) {
  for (const TrafficRow& row : report.traffic) {
    INFO(row.what);
    CHECK(row.simulated_bytes == Approx(row.closed_form_bytes).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("the device is spared the states' bytes and no other, and the hosts have them with a gradient") {
  const auto memory = [](const Sets& sets) {
    const Job job = small_job(sets);
    return stage_memory(job, split_layers(job)).front();
  };
  const StageMemory here = memory(host_sharing());
  const double share = held_of_rank(small_job(host_sharing())) / 16;
  // Adam's master weight and two moments in fp32.
  CHECK(here.optimizer == Approx(12 * share));
  CHECK(here.host == 0);
  for (const double fraction : {1.0, 0.5, 0.25}) {
    const StageMemory away =
        memory(host_sharing({"offload={optimizer: true, optimizer_fraction: " + std::to_string(fraction) + "}"}));
    CHECK(here.optimizer - away.optimizer == Approx(12 * share * fraction));
    CHECK(away.total - away.optimizer == Approx(here.total - here.optimizer));
    CHECK(away.host == Approx(16 * share * fraction));  // and a gradient in fp32
  }
  CHECK(memory(host_sharing({kStatesAway, "optimizer=sgd"})).host == Approx(12 * share));
  // DeepSpeed's copies of weights in 16 bits; gradients leave in every pass, and none stay.
  const Sets zero = host_sharing({"software=megatron-deepspeed-2023", "parallelism.sharding=gradients"});
  const StageMemory left = memory(and_with(zero, {kStatesAway}));
  CHECK(left.host == Approx(18 * share));
  CHECK(left.gradients == 0);
  CHECK(memory(zero).gradients > 0);
  // Shards of weights too.
  const Sets units = host_sharing({"software=torchtitan-2025.06", "parallelism.sharding=parameters"});
  CHECK(memory(and_with(units, {"offload={optimizer: true, parameters: true}"})).parameters == 0);
  CHECK(memory(and_with(units, {kStatesAway})).parameters > 0);
}

TEST_CASE("what a node's hosts hold is checked where their memory is known") {
  const auto report = [](const std::string& memory) {
    return simulate_step(small_job(host_sharing({kStatesAway, "cluster.device.node.host_memory=" + memory})));
  };
  // Of eight ranks, in pinned buffers: a power of two each, 4/3 of what is asked for in the mean.
  const double need = 8 * 16 * held_of_rank(small_job(host_sharing())) / 16 * 4 / 3;
  const StepReport fits = report("1 TB"), lacks = report("1 GB"), unknown = report("null");
  CHECK(fits.memory.host.peak_bytes == Approx(need));
  CHECK(need > 1e9);
  CHECK(fits.memory.fits);
  CHECK_FALSE(lacks.memory.fits);
  CHECK(lacks.memory.peak_bytes < lacks.memory.capacity_bytes);
  CHECK(unknown.memory.fits);
  CHECK(std::any_of(unknown.assumptions.begin(), unknown.assumptions.end(), [](const std::string& line) {
    return line.find("does not say how much memory its hosts have") != std::string::npos;
  }));
}

TEST_CASE("behind the passes gradients go, the host updates, weights come: one after the other, or piece by piece") {
  const Job job = small_job(host_sharing());
  const double n = held_of_rank(job) / 16;
  // Two GPUs share a link of 20 GB/s, eight the memory, of whose 400 GB/s the update reaches half. It reads and writes
  // master weight and moments, reads a gradient and casts: 24 + 4 + 6 bytes.
  const double down = 4 * n / 10e9, up = 2 * n / 10e9, update = 34 * n / 25e9;
  const StepReport one = simulate_step(small_job(host_sharing({kStatesAway})));
  CHECK(part_of_step(one, Category::optimizer) + part_of_step(one, Category::host_copy) >= down + up + update);
  CHECK(part_of_step(one, Category::host_copy) <= Approx(down + up));
  CHECK(part_of_step(one, Category::optimizer) >= update);
  // Nothing but the copies' launches is added, and the device's own update is gone.
  const double without = step_seconds(host_sharing());
  const StepReport plain = simulate_step(job);
  const double gone = part_of_step(plain, Category::optimizer);
  CHECK(step_seconds(host_sharing({kStatesAway})) > without - gone + down + up + update);
  CHECK(step_seconds(host_sharing({kStatesAway})) < without + down + up + update + 1e-3);
  // In as many pieces as layers, eight: the first goes down and the last comes up beside nothing.
  const double pieces = step_seconds(host_sharing({kStatesInPieces}));
  CHECK(pieces < step_seconds(host_sharing({kStatesAway})));
  CHECK(pieces > without - gone + update + down / 8 + up / 8);
  CHECK(pieces < without + update + down / 8 + up / 8 + 1e-3);
}

TEST_CASE("links and memory are shared by the ranks of a node, and a step is never below their bytes") {
  const Job base = small_job(host_sharing());
  const double n = held_of_rank(base) / 16;
  for (const char* link : {"1 GB/s", "100 GB/s"}) {
    for (const int links : {1, 4, 8}) {
      for (const char* memory : {"50 GB/s", "1000 GB/s"}) {
        const Sets sets = host_sharing({kStatesInPieces, std::string("cluster.device.node.host_link=") + link,
                                        "cluster.device.node.host_links=" + std::to_string(links),
                                        std::string("cluster.device.node.host_memory_rate=") + memory});
        const Job job = small_job(sets);
        const double each = job.machine.node.host.link.value() / (8.0 / links);
        const double bytes = job.machine.node.host.memory_rate.value() / 8 / 2;
        INFO(link << " x " << links << ", " << memory);
        CHECK(step_seconds(sets) > std::max(4 * n / each, 34 * n / bytes));
        StepBound bounds;
        CHECK(bounds.of(job) <= simulate_step(job).iteration);
        CHECK(sim::to_seconds(bounds.of(job)) > std::max(4 * n / each, 34 * n / bytes));
      }
    }
  }
  // A rank alone on its node has all of the memory and a link for itself.
  const Job alone = small_job({"cluster.gpus=1", "parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=1",
                               "batch.global=2", kStatesAway});
  const HostCopies host = host_copies_of(alone.method, alone.software.optimizer, alone.machine);
  CHECK(host.rates.link == Approx(alone.machine.node.host.link.value()));
  CHECK(host.rates.memory ==
        Approx(alone.software.optimizer.host_update_share * alone.machine.node.host.memory_rate.value()));
}

TEST_CASE("gradients leave with the backward pass: DeepSpeed's sums come back, FSDP's are added up by the host") {
  // 32 sequences of 16 ranks: two micro-batches.
  const double p = held_of_rank(small_job(host_sharing()));
  const Sets zero = host_sharing({"software=megatron-deepspeed-2023", "parallelism.sharding=gradients", kStatesAway});
  const StepReport two = simulate_step(small_job(zero));
  check_host_counts(two);
  REQUIRE(host_row(two, "gradients, to the host") != nullptr);
  CHECK(host_row(two, "gradients, to the host")->simulated_bytes == Approx(p * (2 + 2 + 4)));
  REQUIRE(host_row(two, "gradients, back from the host") != nullptr);
  CHECK(host_row(two, "gradients, back from the host")->simulated_bytes == Approx(p * 2));
  CHECK(host_row(two, "parameters, from the host")->simulated_bytes == Approx(p * 2));
  const StepReport one = simulate_step(small_job(and_with(zero, {"batch.global=16"})));
  check_host_counts(one);
  CHECK(host_row(one, "gradients, to the host")->simulated_bytes == Approx(p * 4));
  CHECK(host_row(one, "gradients, back from the host") == nullptr);

  const Sets units = host_sharing({"software=torchtitan-2025.06", "parallelism.sharding=parameters",
                                   "offload={optimizer: true, parameters: true}"});
  const StepReport added = simulate_step(small_job(units));
  check_host_counts(added);
  const double q = held_of_rank(small_job(units));
  CHECK(host_row(added, "gradients, to the host")->simulated_bytes == Approx(q * 2 * 4));
  // In fp32, ahead of the gathers of both passes of two micro-batches.
  CHECK(host_row(added, "parameters, from the host")->simulated_bytes == Approx(q * 2 * 2 * 4));
}

TEST_CASE("copies beside the backward pass hide where the link keeps up with it") {
  const Sets zero =
      host_sharing({"software=megatron-deepspeed-2023", "parallelism.sharding=gradients", "batch.global=16"});
  const double n = held_of_rank(small_job(zero)) / 16;
  const auto exposed = [&](const std::string& link) {
    const StepReport report =
        simulate_step(small_job(and_with(zero, {kStatesAway, "cluster.device.node.host_link=" + link})));
    return part_of_step(report, Category::host_copy);
  };
  // At 200 GB/s what is left to see is what comes up, and the last layer's way down.
  CHECK(exposed("200 GB/s") < (2 * n + 4 * n / 4) / 100e9);
  CHECK(exposed("200 GB/s") >= 2 * n / 100e9 * (1 - 1e-9));
  CHECK(exposed("200 MB/s") > 2 * n / 100e6);
}

TEST_CASE("a rank without replicas sends each layer's gradients as they are made") {
  const Sets alone{"cluster.gpus=1",     "parallelism.tensor=1", "parallelism.pipeline=1",
                   "parallelism.data=1", "batch.global=2",       "software=megatron-deepspeed-2023",
                   kStatesAway};
  const Job job = small_job(alone);
  const StepReport report = simulate_step(job);
  check_host_counts(report);
  const double p = held_of_rank(job);
  CHECK(host_row(report, "gradients, to the host")->simulated_bytes == Approx(p * 8));
  CHECK(host_row(report, "gradients, to the host")->calls == 3 * 10);  // layers and ends: two sums and one in fp32
  CHECK(report.memory.stages.front().gradients == 0);
}

TEST_CASE("a backward pass beside another micro-batch's forward pass sends its gradients as it does alone") {
  // A rank of each expert has no replicas: of two micro-batches the sums come back for the second alone.
  const Sets sets{"cluster.gpus=4",
                  "model={kind: moe, layers: 2, hidden: 512, heads: 8, vocab: 1000, seq: 64, experts: 8, top_k: 1, "
                  "expert_ffn_hidden: 1024, gated_mlp: true}",
                  "parallelism={tensor: 1, pipeline: 1, data: 4, expert: 4, sharding: optimizer}",
                  "batch={global: 8, micro: 1}",
                  kStatesAway,
                  "software=bigscience-2022"};
  for (const char* beside : {"false", "true"}) {
    INFO(beside);
    const StepReport report = simulate_step(small_job(and_with(sets, {std::string("overlap.experts=") + beside})));
    const TrafficRow* back = host_row(report, "gradients, back from the host");
    REQUIRE(back != nullptr);
    CHECK(back->calls == 2);  // a layer each
    check_host_counts(report);
  }
}

TEST_CASE("a share of the states stays with the device, which updates beside the host") {
  const double all = step_seconds(host_sharing({kStatesAway}));
  const double half = step_seconds(host_sharing({"offload={optimizer: true, optimizer_fraction: 0.5}"}));
  const double none = step_seconds(host_sharing({"offload={optimizer: true, optimizer_fraction: 0}"}));
  CHECK(half < all);
  CHECK(none == step_seconds(host_sharing()));
  CHECK(step_seconds(host_sharing({"offload={optimizer: false}"})) == none);
}

TEST_CASE("folded and full agree on time, breakdown and bytes, with states in the host's memory") {
  const std::vector<Sets> layouts{
      host_sharing({kStatesAway}),
      host_sharing({kStatesInPieces, "parallelism.tensor=2", "parallelism.pipeline=2", "parallelism.data=4"}),
      host_sharing({"software=megatron-deepspeed-2023", "parallelism.sharding=gradients", kStatesAway}),
      host_sharing({"software=torchtitan-2025.06", "parallelism.sharding=parameters",
                    "offload={optimizer: true, parameters: true}", "overlap={gradients: true, parameters: true}"}),
      host_sharing({"software=deepspeed-zero3-2021", "parallelism.sharding=parameters",
                    "offload={optimizer: true, parameters: true}"}),
      host_sharing({"parallelism.sharding=none", "parallelism.tensor=4", "parallelism.data=4", kStatesAway})};
  for (const Sets& sets : layouts) {
    const Job job = small_job(sets);
    Question options;
    const StepReport folded = simulate_step(job, options);
    options.ranks = Question::Ranks::every;
    const StepReport full = simulate_step(job, options);
    INFO(job.software.name);
    CHECK(folded.iteration == full.iteration);
    double sum = 0;
    for (std::size_t c = 0; c < kCategories; ++c) {
      CHECK(folded.breakdown_s[c] == Approx(full.breakdown_s[c]).margin(1e-12));
      sum += folded.breakdown_s[c];
    }
    CHECK(sum == Approx(sim::to_seconds(folded.iteration)));
    check_host_counts(folded);
    StepBound bounds;
    CHECK(bounds.of(job) <= folded.iteration);
  }
}

TEST_CASE("a trace shows the copies and the host's update on streams of their own") {
  Question options;
  options.timelines.emplace();
  const StepReport report = simulate_step(small_job(host_sharing({kStatesAway})), options);
  std::vector<std::string> seen;
  for (const Timeline::Span& span : report.timelines.front().spans) {
    if (span.stream == Stream::to_host || span.stream == Stream::from_host || span.stream == Stream::host_update)
      seen.push_back(span.name);
  }
  CHECK(seen ==
        std::vector<std::string>{"gradients, to the host", "states, updated by the host", "parameters, from the host"});
}

TEST_CASE("what no states in the host's memory go with is refused") {
  const auto refusal = [](const Sets& sets) -> std::string {
    try {
      small_job(sets);
    } catch (const sim::UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal({kStatesAway, "optimizer=lamb"}).find("got true with optimizer: lamb, expected false or adam") !=
        std::string::npos);
  CHECK(refusal({"offload={optimizer: true, parameters: true}"}).find("offload.parameters: got true, expected false") !=
        std::string::npos);
  CHECK(refusal({"offload={optimizer_fraction: 0.5}"}).find("got 0.5 without optimizer: true") != std::string::npos);
  CHECK(refusal({"offload={parameters: true}"}).find("got true without optimizer: true") != std::string::npos);
  CHECK(refusal({"offload={optimizer: true, optimizer_fraction: 1.5}"}).find("offload.optimizer_fraction") !=
        std::string::npos);
  CHECK(refusal({kStatesAway, "parallelism.schedule=zb_h1", "parallelism.optimizer_post_validation=true"})
            .find("optimizer_post_validation") != std::string::npos);
}
