// What frameworks of interleaved pipelines do around passes: messages in warm-up and cool-down, collectives of a chunk
// on all stages at a time, and what fp8 adds to the first and to every pass.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/compile/pass_slots.h"
#include "workloads/job/step_plan.h"
#include "workloads/schedules/catalogue.h"

using namespace orrery;
using namespace orrery::workloads;
using Sets = std::vector<std::string>;

namespace {

Sets plus(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

/// Four stages of four chunks (a layer each) and eight micro-batches, everything overlapped, the host free of cost.
const Sets kInterleaved{"model.layers=16",
                        "parallelism={tensor: 1, pipeline: 4, virtual_pipeline: 4, data: 4, sharding: optimizer}",
                        "overlap={tensor: false, pipeline: true, gradients: true, parameters: true}",
                        "software={inherits: megascale, kernel_issue: 0 us, transfer_issue: 0 us}"};

StepReport step(const Sets& sets) {
  Question options;
  options.timelines.emplace();
  return simulate_step(tests::small_job(sets), options);
}

/// First start and last finish of a pass's kernels.
struct PassTime {
  char pass;
  std::int32_t chunk, microbatch;
  sim::SimTime start, finish;
};

std::vector<PassTime> passes_of(const Timeline& timeline) {
  std::vector<PassTime> passes;
  for (const Timeline::Span& span : timeline.spans) {
    if (span.kernels.empty() || span.microbatch < 0) continue;
    if (passes.empty() || passes.back().pass != span.pass || passes.back().chunk != span.chunk ||
        passes.back().microbatch != span.microbatch)
      passes.push_back({span.pass, span.chunk, span.microbatch, span.start, span.finish});
    passes.back().finish = span.finish;
  }
  return passes;
}

const Timeline::Span* message(const Timeline& timeline, const PassTime& of, bool sends) {
  const Stream wanted = of.pass == 'F' ? sends ? Stream::pipeline_send : Stream::pipeline_receive
                        : sends        ? Stream::pipeline_send_gradient
                                       : Stream::pipeline_receive_gradient;
  for (const Timeline::Span& span : timeline.spans) {
    if (span.stream == wanted && span.chunk == of.chunk && span.microbatch == of.microbatch) return &span;
  }
  return nullptr;
}

/// Messages between two passes of a kind that are under way while one of the two runs.
int hidden_messages(const StepReport& report) {
  int hidden = 0;
  for (const Timeline& timeline : report.timelines) {
    const std::vector<PassTime> passes = passes_of(timeline);
    for (std::size_t i = 0; i + 1 < passes.size(); ++i) {
      if (passes[i].pass != passes[i + 1].pass) continue;
      const Timeline::Span* sent = message(timeline, passes[i], true);
      const Timeline::Span* received = message(timeline, passes[i + 1], false);
      hidden += sent != nullptr && sent->finish > passes[i + 1].start;
      hidden += received != nullptr && received->start < passes[i].finish;
    }
  }
  return hidden;
}

std::vector<const Timeline::Span*> spans_of(const Timeline& timeline, const std::string& part) {
  std::vector<const Timeline::Span*> found;
  for (const Timeline::Span& span : timeline.spans) {
    if (span.name.find(part) != std::string::npos) found.push_back(&span);
  }
  return found;
}

}  // namespace

TEST_CASE("messages between two passes of a kind hide behind neither where the software waits for them") {
  CHECK(hidden_messages(step(plus(kInterleaved, {"software.overlap_pipeline_warmup=false"}))) == 0);
  CHECK(hidden_messages(step(plus(kInterleaved, {"software.overlap_pipeline_warmup=true"}))) > 0);
}

TEST_CASE("time slots of interleaved 1F1B are those that PyTorch's tables have") {
  // ScheduleInterleaved1F1B of two ranks, two stages each, four micro-batches: actions of a rank with idle slots as _.
  // F F F F _ _ F B F B F B F B _ B _ B _ B _ B  and  _ F F _ F B F B F B F B F B F B _ B _ B
  const Schedule& schedule = schedules::interleaved_1f1b;
  const PipelineShape shape{2, 2, 4, false};
  const auto slots = slots_of(schedule, schedule.map(2, 2), paper_orders(schedule, shape));
  const auto runs = [&](std::size_t stage) {
    std::vector<std::int64_t> of;
    for (const PassSlot& slot : slots[stage]) of.push_back(slot.runs);
    return of;
  };
  CHECK(runs(0) == std::vector<std::int64_t>{0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 15, 17, 19, 21});
  CHECK(runs(1) == std::vector<std::int64_t>{1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 19});
  // The first rank's third pass is the second chunk's first, whose input the other rank made in slot 1.
  CHECK(slots[0][0].sent == PassSlot::kNone);
  CHECK(slots[0][2].sent == 1);
  CHECK(slots[1][0].sent == 0);
}

TEST_CASE("an order that PyTorch's tables are not of has the first slots that it can have") {
  // All forward passes first, as Megatron-LM had them with one group of micro-batches.
  const Schedule& schedule = schedules::interleaved_1f1b;
  const StageOrders orders = paper_orders(schedule, {2, 2, 2, true});
  const auto slots = slots_of(schedule, schedule.map(2, 2), orders);
  CHECK(slots[1].front().runs == 1);
  CHECK(slots[1].back().runs - slots[1].front().runs + 1 >= static_cast<std::int64_t>(orders[1].size()));
  for (const auto& stage : slots)
    for (const PassSlot& slot : stage) CHECK(slot.sent < slot.runs);
  const Sets megatron{"model.layers=16", "parallelism={tensor: 1, pipeline: 4, virtual_pipeline: 2, data: 4}",
                      "batch.global=16", "overlap.pipeline=false", "software.ends_slots=true"};
  CHECK(step(megatron).iteration.value() > 0);
}

TEST_CASE("slots keep the order of passes, and inputs are made before they are needed") {
  for (const Schedule* schedule : kSchedules) {
    const std::int32_t chunks = schedule->chunks == kAnyChunks ? 2 : static_cast<std::int32_t>(schedule->chunks);
    for (const std::int32_t microbatches : {4, 8, 12}) {
      const PipelineShape shape{4, chunks, microbatches, false};
      if (schedule->misfit(shape)) continue;
      INFO(schedule->name << ' ' << microbatches);
      const StageOrders orders = paper_orders(*schedule, shape);
      const auto slots = slots_of(*schedule, schedule->map(4, chunks), orders);
      for (std::size_t stage = 0; stage < orders.size(); ++stage) {
        REQUIRE(slots[stage].size() == orders[stage].size());
        for (std::size_t i = 0; i < slots[stage].size(); ++i) {
          CHECK(slots[stage][i].sent < slots[stage][i].runs);
          if (i > 0) CHECK(slots[stage][i - 1].runs < slots[stage][i].runs);
        }
      }
    }
  }
}

namespace {
/// Of a job whose ranks of a stage are alike: when the last pass ends if every stage ends each slot as a slow loop over
/// slots has it, from the lengths of passes and messages in `report`.
double end_slot_by_slot(const StepReport& report, const std::vector<std::vector<PassSlot>>& slots, double& engine) {
  struct Action {
    PassTime pass;
    bool any = false;
    double message = 0;
  };
  const std::size_t stages = slots.size();
  std::int64_t last = 0;
  for (const auto& of_stage : slots) last = std::max(last, of_stage.back().runs);
  std::vector<std::vector<Action>> table(stages, std::vector<Action>(static_cast<std::size_t>(last) + 1));
  double begin = 1e9;
  engine = 0;
  for (const Timeline& timeline : report.timelines) {
    const auto stage = static_cast<std::size_t>(timeline.stage);
    const std::vector<PassTime> passes = passes_of(timeline);
    REQUIRE(passes.size() == slots[stage].size());
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const Timeline::Span* sent = message(timeline, passes[i], true);
      table[stage][static_cast<std::size_t>(slots[stage][i].runs)] = {
          passes[i], true, sent == nullptr ? 0 : sim::to_seconds(sent->finish - sent->start)};
      engine = std::max(engine, sim::to_seconds(passes[i].finish));
      begin = std::min(begin, sim::to_seconds(passes[i].start));
    }
  }
  constexpr std::int32_t chunks = 2;
  std::vector<double> ready(stages, begin);
  for (std::size_t slot = 0; slot <= static_cast<std::size_t>(last); ++slot) {
    std::vector<double> done = ready;
    for (std::size_t s = 0; s < stages; ++s) {
      const Action& action = table[s][slot];
      if (action.any) done[s] += sim::to_seconds(action.pass.finish - action.pass.start);
    }
    ready = done;
    for (std::size_t s = 0; s < stages; ++s) {
      const Action& action = table[s][slot];
      if (!action.any) continue;
      const bool forward = action.pass.pass == 'F';
      const bool at_end =
          forward ? s + 1 == stages && action.pass.chunk + 1 == chunks : s == 0 && action.pass.chunk == 0;
      if (at_end) continue;
      const std::size_t other = forward ? (s + 1) % stages : (s + stages - 1) % stages;
      const double sent = std::max(done[s], done[other]) + action.message;
      ready[s] = std::max(ready[s], sent);
      ready[other] = std::max(ready[other], sent);
    }
  }
  return *std::max_element(ready.begin(), ready.end());
}
}  // namespace

TEST_CASE("a pipeline that ends its slots takes as long as slot by slot, and longer than one that does not") {
  const Sets free{"model.layers=16",
                  "parallelism={tensor: 1, pipeline: 4, virtual_pipeline: 2, data: 4, sharding: none}",
                  "overlap={tensor: false, pipeline: false, gradients: false, parameters: false}",
                  "software={inherits: torchtitan-2024.12, kernel_issue: 0 us, transfer_issue: 0 us}"};
  const Schedule& schedule = schedules::interleaved_1f1b;
  for (const std::int32_t microbatches : {4, 8, 16}) {
    INFO(microbatches);
    const Sets sets = plus(free, {"batch.global=" + std::to_string(4 * microbatches)});
    const StepReport slotted = step(sets), own_pace = step(plus(sets, {"software.ends_slots=false"}));
    const PipelineShape shape{4, 2, microbatches, false};
    const auto slots = slots_of(schedule, schedule.map(4, 2), paper_orders(schedule, shape));
    double engine = 0;
    const double reference = end_slot_by_slot(slotted, slots, engine);
    CHECK(engine == Approx(reference).epsilon(0.002));
    CHECK(slotted.iteration > own_pace.iteration);
  }
}

TEST_CASE("buckets that follow the model: one a chunk of an interleaved pipeline, else one a layer") {
  const Sets follow{"software.parameter_bucket='1 MB'", "software.gradient_bucket='1 MB'",
                    "software.bucket_cut=as_model"};
  const StepReport interleaved = step(plus(kInterleaved, follow));
  for (const Timeline& timeline : interleaved.timelines) {
    CHECK(spans_of(timeline, "(parameters, forward)").size() == 4);
    CHECK(spans_of(timeline, "(gradients, backward)").size() == 4);
  }
  const StepReport plain = step(plus(kInterleaved, plus(follow, {"parallelism.virtual_pipeline=1"})));
  for (const Timeline& timeline : plain.timelines) {
    CHECK(spans_of(timeline, "(gradients, backward)").size() == 4);
    // Cut evenly, so that the embedding of the first stage or the head of the last takes its share of buckets.
    const auto gathers = spans_of(timeline, "(parameters, forward)").size();
    CHECK(gathers >= 4);
    CHECK(gathers <= 7);
  }
}

TEST_CASE("buckets of a size hold so much for every rank; beyond the first chunk of a pipeline there may be none") {
  // A layer has 50.4 M parameters, 100.7 MB of 16 bit, over 4 data-parallel ranks.
  const auto gathers = [](const Sets& sets, std::int64_t stage, std::int32_t chunk) {
    const Sets base{"software.parameter_bucket='10 MB'", "model.tied_embeddings=false", "model.vocab=128",
                    "model.seq=128"};
    std::size_t count = 0;
    for (const Timeline& timeline : step(plus(kInterleaved, plus(base, sets))).timelines) {
      if (timeline.stage != stage) continue;
      for (const Timeline::Span* span : spans_of(timeline, "(parameters, forward)")) count += span->chunk == chunk;
    }
    return count;
  };
  CHECK(gathers({}, 1, 1) == 10);
  CHECK(gathers({"software.bucket_elements_per_rank=5e6"}, 1, 1) == 3);   // 20 M elements of 2 bytes
  CHECK(gathers({"software.bucket_elements_per_rank=1e6"}, 1, 1) == 10);  // 8 MB, less than the size
  CHECK(gathers({"software.bucket_cut=first_chunk"}, 0, 0) == 10);
  CHECK(gathers({"software.bucket_cut=first_chunk"}, 0, 1) == 1);
  CHECK(gathers({"software.bucket_cut=first_chunk"}, 1, 0) == 1);
}

TEST_CASE("collectives in step: stage s reduces s backward passes late and gathers s forward passes early") {
  const StepReport report = step(plus(
      kInterleaved, {"software.data_collectives_in_step=true", "software.bucket_cut=as_model", "batch.global=48"}));
  for (const Timeline& timeline : report.timelines) {
    std::vector<PassTime> forward, backward;
    for (const PassTime& pass : passes_of(timeline)) (pass.pass == 'F' ? forward : backward).push_back(pass);
    REQUIRE(forward.size() == 48);  // 12 micro-batches, 4 chunks
    const auto stage = static_cast<std::size_t>(timeline.stage);
    const auto reductions = spans_of(timeline, "(gradients, backward)"),
               gathers = spans_of(timeline, "(parameters, forward)");
    REQUIRE(reductions.size() == 4);
    REQUIRE(gathers.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      // The last group of four micro-batches: chunk 3 - i ends with backward pass 32 + 4 i + 3.
      const std::size_t ends = std::min<std::size_t>(32 + 4 * i + 3 + stage, 47);
      INFO("stage " << stage << ", chunk " << reductions[i]->chunk);
      CHECK(reductions[i]->chunk == static_cast<std::int32_t>(3 - i));
      CHECK(reductions[i]->ready == backward[ends].finish);
      CHECK(gathers[i]->chunk == static_cast<std::int32_t>(i));
      // Two at the start; chunk 2 and 3 when stage 0 enters chunk 1 and 2, its forward passes 4 and 8.
      if (i >= 2 && 4 * (i - 1) > stage) CHECK(gathers[i]->ready == forward[4 * (i - 1) - stage - 1].finish);
    }
  }
}

TEST_CASE("a layer's weights are cast to fp8 once a step, whatever the number of micro-batches") {
  const Sets fp8{"cluster.device=h100-sxm-80gb", "precision=fp8", "software.inherits=megascale"};
  const StepReport report = step(plus(kInterleaved, fp8));
  const Job job = tests::small_job(plus(kInterleaved, fp8));
  // 12 h^2 weights, 13 h of biases and norms; read in 16 bit, written in 8 bit twice.
  const double bytes = (12.0 * 2048 * 2048 + 13.0 * 2048) * (2 + 1 + 1);
  const double seconds = sim::to_seconds(job.machine.device.streaming(calibration::Streaming::cast_transpose, bytes));
  for (const Timeline& timeline : report.timelines) {
    int casts = 0;
    for (const Timeline::Span& span : timeline.spans) {
      for (const KernelSlice& kernel : span.kernels) {
        if (kernel.name != "weights to fp8") continue;
        ++casts;
        CHECK(span.microbatch == 0);
        // Beside a collective it takes longer.
        CHECK(sim::to_seconds(kernel.duration) >= seconds * (1 - 1e-6));
        CHECK(sim::to_seconds(kernel.duration) <=
              seconds * job.software.overlap.compute_slowdown_under_collective * (1 + 1e-6));
      }
    }
    CHECK(casts == 4);
  }
  const StepReport gathered = step(plus(kInterleaved, plus(fp8, {"software.parameter_gather_dtype=fp8"})));
  CHECK(gathered.memory.stages.front().parts.weight_copies == 0);
  CHECK(report.memory.stages.front().parts.weight_copies == Approx(4 * bytes / 2).epsilon(1e-6));
}

TEST_CASE("where scales of fp8 are reduced after every pass, each pass costs a small all-reduce more") {
  const Sets flat{"cluster.device=h100-sxm-80gb", "precision=fp8",
                  "parallelism={tensor: 2, pipeline: 1, data: 8, sharding: none}",
                  "software={inherits: megatron-2023, kernel_issue: 0 us, transfer_issue: 0 us}"};
  const StepReport without = step(flat), with = step(plus(flat, {"software.reduces_amax=true"}));
  const Job job = tests::small_job(flat);
  const topology::Cluster cluster(job.machine.node, job.machine.fabric, 16, 8, sim::Settings());
  std::vector<std::int64_t> all(16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const GroupShape shape = shape_of(all, cluster);
  // Of 8 layers 12 numbers each.
  const CollectiveCost one =
      collective_cost(CollectiveOp::all_reduce, 8 * 12 * 4, shape, job.machine.device, job.software, cluster);
  // Four micro-batches, forward and backward, the last one beside the gradients, which have groups of their own; the
  // way between nodes comes on top.
  const double seconds = sim::to_seconds(with.iteration) - sim::to_seconds(without.iteration);
  const double each = sim::to_seconds(one.latency) + sim::to_seconds(shape.hop);
  CHECK(seconds >= 7 * sim::to_seconds(one.latency));
  CHECK(seconds <= 8 * each);
}

TEST_CASE("an evaluation costs the host its time once, however many batches it has") {
  const auto evaluation = [](const char* host) {
    return simulate_step(tests::small_job({"evaluation={every_steps: 10, sequences: 100}",
                                           std::string("software.evaluation_host=") + host}))
        .evaluation.seconds;
  };
  CHECK(evaluation("2 s") - evaluation("0 s") == Approx(2));
}

TEST_CASE("kernels slowed beside collectives take as long when passes are run as one operation each") {
  for (const char* more : {"software.compute_slowdown_under_collective=1.3", "software.data_collectives_in_step=true",
                           "parallelism.virtual_pipeline=1", "software.gradient_bucket='40 MB'"}) {
    const Sets sets = plus(
        kInterleaved, {"software.compute_slowdown_under_collective=1.3", "software.parameter_bucket='40 MB'", more});
    Question brief;
    brief.parts = Question::Parts::times;
    INFO(more);
    CHECK(simulate_step(tests::small_job(sets), brief).iteration == step(sets).iteration);
  }
}

TEST_CASE("stages whose hosts wait inside passes for lengths of documents, and for messages, do not wait for ever") {
  // The host of one stage rotates document by document, and posts no receive while it does; that of the other waits for
  // its message to be taken.
  for (const char* layout : {"parallelism={pipeline: 2, data: 2, schedule: zb_v}",
                             "parallelism={pipeline: 2, data: 2, schedule: interleaved_1f1b, virtual_pipeline: 2}"}) {
    INFO(layout);
    const Sets sets{"cluster.gpus=4",
                    "model.layers=8",
                    layout,
                    "batch={global: 16, document_tokens: 64}",
                    "overlap.pipeline=false",
                    "software=nemo-25.11",
                    "model.positions=rotary"};
    CHECK(step(sets).iteration > sim::Duration{});
  }
}
