// Is memory what the papers derive, and does the walk over the schedule agree with what is counted in simulated time?
#include "workloads/memory/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/workloads/example.h"
#include "tests/workloads/layers.h"
#include "workloads/schedules/catalogue.h"
#include "workloads/traffic/closed_form_parameters.h"

using namespace orrery;
using namespace orrery::workloads;
using orrery::tests::small_job;

namespace {

using Sets = std::vector<std::string>;

double first_stage_parameters(const Job& job) {
  const LayerSplit split = split_layers(job);
  return StageLayout{split, job.parallelism.chunk_map(), 0}.parameters();
}
std::vector<StageMemory> stages_of(const Job& job) { return stage_memory(job, split_layers(job)); }

StageMemory first_stage(const Sets& sets) { return stages_of(small_job(sets)).front(); }

/// Passes whose chunks keep one unit each and need nothing more: the high-water mark counts passes in flight.
double most_in_flight(const Schedule& schedule, std::int32_t stage, const PipelineShape& shape) {
  const std::vector<PassBytes> unit(static_cast<std::size_t>(shape.chunks), PassBytes{1, 0, 0});
  return high_water(schedule.passes(stage, shape), unit).bytes();
}

/// A row of table 3 of Korthikanti et al. (arXiv 2205.05198).
struct Published {
  const char* name;
  double heads, hidden, layers, tensor, pipeline, chunks, batch, micro;
};

Job job_of(const Published& row, const char* recompute, bool sequence_parallel) {
  const std::string text = fmt::format(
      "name: {}\n"
      "cluster: {{device: a100-sxm-80gb, gpus: {}, fabric: selene-hdr}}\n"
      "model: {{kind: gpt, layers: {}, hidden: {}, heads: {}, vocab: 51200, seq: 2048}}\n"
      "parallelism: {{tensor: {}, pipeline: {}, virtual_pipeline: {}, data: 1, sequence_parallel: {}, sharding: "
      "none}}\n"
      "batch: {{global: {}, micro: {}}}\n"
      "precision: fp16\n"
      "recompute: {}\n"
      "attention: unfused\n"
      "software: megatron-2022\n",
      row.name, row.tensor * row.pipeline, row.layers, row.hidden, row.heads, row.tensor, row.pipeline, row.chunks,
      sequence_parallel, row.batch, row.micro, recompute);
  return scenarios::load_scenario(scenarios::parse_yaml(text, "published.yaml")).job;
}

const std::vector<Published>& published() {
  static const std::vector<Published> rows{{"22B", 64, 6144, 48, 8, 1, 1, 4, 4},
                                           {"175B", 96, 12288, 96, 8, 8, 3, 64, 1},
                                           {"530B", 128, 20480, 105, 8, 35, 3, 280, 1},
                                           {"1T", 160, 25600, 128, 8, 64, 1, 512, 1}};
  return rows;
}

}  // namespace

TEST_CASE("passes in flight follow the closed form of each schedule, at every stage") {
  for (const std::int32_t p : {1, 2, 3, 4, 8}) {
    for (std::int32_t s = 0; s < p; ++s) {
      for (std::int32_t m = 1; m <= 4 * p; ++m) {
        CHECK(most_in_flight(schedules::one_f_one_b, s, {p, 1, m}) == std::min(m, p - s));
        CHECK(most_in_flight(schedules::eager_1f1b, s, {p, 1, m}) == std::min(m, 2 * (p - s) - 1));
        CHECK(most_in_flight(schedules::gpipe, s, {p, 1, m}) == m);
        for (const std::int32_t v : {2, 3, 5}) {
          if (p == 1 || m % p != 0) continue;
          // One group of micro-batches runs all its forward passes first; else the warm-up and one more.
          const std::int32_t all = m * v, ahead = 2 * (p - 1 - s) + (v - 1) * p + 1;
          CHECK(most_in_flight(schedules::interleaved_1f1b, s, {p, v, m}) == (m == p ? all : std::min(all, ahead)));
        }
      }
    }
  }
}

TEST_CASE("the fullest moment is the first pass that reaches it, with its working set") {
  // Stage 0 of 2 runs F0 F1 B0 F2 B1 ...: two held when B0 works. Were B's working set smaller than F's next, F1 it is.
  const std::vector<Pass> passes = schedules::one_f_one_b.passes(0, {.stages = 2, .microbatches = 4});
  const HighWater backward = high_water(passes, {{10, 3, 0}});
  CHECK(backward.held == 20);
  CHECK(backward.working == 3);
  CHECK(backward.pass == Pass{PassKind::backward, 0, 0});
  CHECK(backward.in_flight == std::vector<std::int32_t>{2});
  const HighWater forward = high_water(passes, {{10, 0, 0}});
  CHECK(forward.bytes() == 20);
  CHECK(forward.pass == Pass{PassKind::forward, 0, 1});
  CHECK(forward.in_flight == std::vector<std::int32_t>{2});
}

TEST_CASE("units of sharded parameters are part of the fullest moment where its pass works backwards") {
  const std::vector<Pass> passes = schedules::one_f_one_b.passes(0, {.stages = 2, .microbatches = 4});
  CHECK(high_water(passes, {{10, 1, 0, 0, 1}}).units == 1);  // of one byte that the pass needs
  CHECK(high_water({passes.front()}, {{10, 1, 0, 0, 1}}).units == 0);
}

TEST_CASE("a chunk's whole gradients live from its first backward pass to the end of its last") {
  // F F B B of chunk 0, then of chunk 1: 20 kept and 5 of gradients in each, which never meet.
  const auto of = [](PassKind kind, std::int32_t chunk, std::int32_t microbatch) {
    return Pass{kind, chunk, microbatch};
  };
  std::vector<Pass> passes;
  for (const std::int32_t chunk : {0, 1}) {
    for (const PassKind kind : {PassKind::forward, PassKind::backward})
      for (const std::int32_t m : {0, 1}) passes.push_back(of(kind, chunk, m));
  }
  const HighWater apart = high_water(passes, {{10, 1, 0, 5}, {10, 1, 0, 6}});
  CHECK(apart.held == 20);
  CHECK(apart.gradients == 6);
  CHECK(apart.bytes() == 27);
  CHECK(apart.pass == of(PassKind::backward, 1, 0));
  // Where chunk 0 has a backward pass left, its gradients stay beside the other's.
  std::rotate(passes.begin() + 3, passes.begin() + 4, passes.end());
  const HighWater both = high_water(passes, {{10, 1, 0, 5}, {10, 1, 0, 6}});
  CHECK(both.gradients == 11);
  CHECK(both.held == 30);
}

TEST_CASE("gradients that come and go with their chunk's passes take what the chunks under way have of them") {
  const std::vector<std::string> job{"parallelism={tensor: 2, pipeline: 4, virtual_pipeline: 2, data: 2}",
                                     "parallelism.sharding=gradients", "software.gradient_reduction=once",
                                     "precision={gradients: fp32}", "batch.global=8"};
  const auto memory = [&](const char* late) {
    std::vector<std::string> sets = job;
    sets.push_back(std::string("software.allocates_gradients_late=") + late);
    const Job made = small_job(sets);
    return stage_memory(made, split_layers(made))[1];
  };
  // As many micro-batches as stages: all forward passes come first, and the fullest moment is the first backward pass,
  // of one of two chunks alike. Of the other's fp32 gradients this rank's half stays.
  const StageMemory early = memory("false"), late = memory("true");
  const double chunk = early.parameters / 2 / 2;  // parameters of two bytes
  CHECK(late.peak.microbatch == early.peak.microbatch);
  CHECK(early.total - late.total == Approx(4 * chunk * 0.5));
  CHECK(late.passing_gradients == Approx(4 * chunk * 0.5));
  CHECK(late.activations == early.activations);
}

TEST_CASE("the fullest moment of a simulated step begins with the collective that its pass begins with") {
  sim::Program program;
  std::vector<OpNote> notes;
  sim::Record record;
  const auto run = [&](const Pass& pass, Category category, std::int64_t start, std::int64_t finish) {
    sim::Op op;
    op.kind = category == Category::compute ? sim::OpKind::compute : sim::OpKind::transfer;
    op.category = static_cast<std::uint8_t>(category);
    program.add(op);
    OpNote& note = notes.emplace_back();
    note.kind = pass.kind;
    note.microbatch = pass.microbatch;
    note.chunk = 0;
    note.within_pass = true;
    record.start.push_back(sim::SimTime(start));
    record.finish.push_back(sim::SimTime(finish));
  };
  const Pass f0{PassKind::forward, 0, 0}, f1{PassKind::forward, 0, 1};
  const Pass b0{PassKind::backward, 0, 0}, b1{PassKind::backward, 0, 1};
  run(f0, Category::tensor_comm, 100, 150);
  run(f0, Category::compute, 150, 200);
  run(f1, Category::compute, 200, 300);
  run(b0, Category::context_comm, 300, 320);
  run(b0, Category::compute, 320, 400);
  run(b0, Category::compute, 400, 450);
  run(b1, Category::compute, 450, 500);
  // Two micro-batches keep 10 each; with the first backward pass come 3 to work with and the chunk's gradients, 5.
  const HighWater top = counted_high_water(record, program, notes, {{10, 3, 0, 5}});
  CHECK(top.held == 20);
  CHECK(top.working == 3);
  CHECK(top.gradients == 5);
  CHECK(top.pass == b0);
  CHECK(top.in_flight == std::vector<std::int32_t>{2});
  CHECK(top.at_s == Approx(300e-12));
}

TEST_CASE("activations walked in schedule order are those counted in simulated time") {
  std::vector<Sets> layouts{
      {},
      {"parallelism.virtual_pipeline=4", "parallelism.sequence_parallel=true", "overlap.pipeline=true"},
      {"parallelism.pipeline=8", "parallelism.tensor=1", "parallelism.data=2", "software=megatron-2021"},
      {"parallelism.pipeline=4", "parallelism.data=2", "recompute=full", "attention=unfused", "batch.micro=2"},
      {"parallelism.pipeline=4", "parallelism.data=2", "recompute={kind: full, layers: 1}"},
      {"parallelism.pipeline=4", "parallelism.data=2", "recompute=selective", "attention=unfused"},
      {"model.layers=7", "parallelism.pipeline=2", "parallelism.virtual_pipeline=2", "batch.global=128"},
      {"parallelism.pipeline=1", "parallelism.data=8", "parallelism.sharding=parameters"},
      {"parallelism.schedule=zb_h2", "parallelism.pipeline=4", "parallelism.data=2", "recompute=full"},
      {"parallelism.schedule=zb_v", "parallelism.pipeline=4", "parallelism.data=2", "attention=unfused"},
      {"parallelism.context=2", "parallelism.data=2"},
      {"parallelism.virtual_pipeline=4", "parallelism.sharding=gradients", "software.gradient_reduction=once",
       "software.allocates_gradients_late=true"},
  };
  for (const Schedule* schedule : kSchedules) {
    layouts.push_back(tests::sets_for(*schedule));
    layouts.back().insert(layouts.back().end(), {"parallelism.pipeline=4", "parallelism.data=2"});
  }
  for (const Sets& sets : layouts) {
    INFO(fmt::format("{}", fmt::join(sets, " ")));
    Question options;
    options.counts_memory = true;
    const StepReport report = simulate_step(small_job(sets), options);
    for (const StageMemory& stage : report.memory.stages) {
      REQUIRE(stage.peak.during != StageMemory::During::optimizer);
      CHECK(stage.counted_activations == Approx(stage.activations).epsilon(1e-12));
      CHECK(stage.peak.at_s > 0);
      CHECK(stage.peak.at_s < sim::to_seconds(report.iteration));
    }
  }
}

TEST_CASE("between the halves of a split backward pass stays what weight gradients need") {
  // Table 1 of arXiv 2401.10241: 34 s b h + 5 a b s^2 are kept, 32 s b h are left for the weight gradients.
  Sets sets{"parallelism.tensor=1", "parallelism.pipeline=8", "parallelism.data=2", "attention=unfused",
            "parallelism.schedule=zb_h1"};
  const Job job = small_job(sets);
  const double sbh = 1024.0 * 2048;
  CHECK(tests::block_bytes(job).kept == Approx(34 * sbh + 5 * 16 * 1024.0 * 1024));
  CHECK(tests::block_bytes(job).between == Approx(32 * sbh));
  sets.emplace_back("model.gated_mlp=true");  // one gradient of 4h more, of the gate's product
  CHECK(tests::block_bytes(small_job(sets)).between == Approx(40 * sbh));
  // F0 b0 F1 b1 W0 W1, keeping 10 and leaving 4: before b1 works, 4 + 10 are held.
  const std::vector<Pass> passes{{PassKind::forward, 0, 0},         {PassKind::input_gradient, 0, 0},
                                 {PassKind::forward, 0, 1},         {PassKind::input_gradient, 0, 1},
                                 {PassKind::weight_gradient, 0, 0}, {PassKind::weight_gradient, 0, 1}};
  const HighWater top = high_water(passes, {{10, 1, 4}});
  CHECK(top.held == 14);
  CHECK(top.pass == passes[3]);
  CHECK(top.in_flight == std::vector<std::int32_t>{2});
}

TEST_CASE("what a block keeps is the sum of the tensors that its kernels save, each counted once") {
  // Bytes per element of s b h for bf16 (Korthikanti et al., section 4.1): 13 for attention (norm and linear input 2 +
  // 2, mask 1, queries and output 4, keys and values 4), 21 for an MLP of 4 h (2 + 2, up and activation 8 + 8, mask 1).
  const Sets whole{"parallelism.tensor=1", "parallelism.pipeline=8", "parallelism.data=2"};
  const auto kept = [&](Sets sets) {
    sets.insert(sets.end(), whole.begin(), whole.end());
    return tests::block_bytes(small_job(sets)).kept;
  };
  const double sbh = 1024.0 * 2048, rows = 16 * 1024.0;
  CHECK(kept({}) == Approx(34 * sbh + 4 * rows));  // fused: an fp32 log-sum-exp for each row of scores
  CHECK(kept({"model.gated_mlp=true"}) == Approx(42 * sbh + 4 * rows));  // a third tensor of 4 h
  CHECK(kept({"model.kv_heads=4"}) == Approx(31 * sbh + 4 * rows));      // a quarter of the keys and values
  CHECK(kept({"software.dropout=false"}) == Approx(32 * sbh + 4 * rows));
  CHECK(kept({"model.post_norm=true"}) == Approx(38 * sbh + 4 * rows));
  // One norm, one input, one mask for both halves.
  CHECK(kept({"model.parallel_block=true"}) == Approx(29 * sbh + 4 * rows));
  CHECK(kept({"model.parallel_block=true", "model.post_norm=true"}) == Approx(31 * sbh + 4 * rows));
  // Scores: softmax, its mask and what leaves it; without dropout the softmax alone.
  const double scores = rows * 1024;
  CHECK(kept({"attention=unfused"}) == Approx(34 * sbh + 5 * scores));
  CHECK(kept({"attention=unfused", "software.dropout=false"}) == Approx(32 * sbh + 2 * scores));
  CHECK(kept({"attention=unfused", "recompute=selective"}) == Approx(34 * sbh));
  CHECK(kept({"recompute=full"}) == Approx(2 * sbh));
}

TEST_CASE("messages hold what is on its way: a buffer for each neighbour, the gathered input, keys and values") {
  const auto messages = [](Sets sets, std::size_t stage = 0) {
    const std::vector<StageMemory> stages = stages_of(small_job(sets));
    REQUIRE(stages[stage].peak.during != StageMemory::During::optimizer);
    return stages[stage].parts.messages;
  };
  const double hidden = 1024.0 * 2048;        // elements of a micro-batch's hidden states, 2 bytes each
  CHECK(messages({}) == Approx(2 * hidden));  // the first of two stages has one neighbour
  CHECK(messages({"overlap.pipeline=true"}) == Approx(2 * 2 * hidden));  // one more is received ahead
  const Sets four{"parallelism.pipeline=4", "parallelism.data=2"};
  CHECK(messages(four, 0) == Approx(2 * hidden));
  CHECK(messages(four, 1) == Approx(2 * 2 * hidden));
  CHECK(messages(four, 3) == Approx(2 * hidden));
  CHECK(messages({"parallelism.virtual_pipeline=2"}) == Approx(2 * 2 * hidden));  // chunks go round
  const Sets alone{"parallelism.pipeline=1", "parallelism.data=8"};
  CHECK(messages(alone) == 0);
  // Sequence parallelism over two ranks: halves are sent, wholes are gathered, forward and backward.
  CHECK(messages({"parallelism.sequence_parallel=true"}) == Approx(2 * hidden / 2 + 2 * 2 * hidden));
  // Keys and values of a rank: 2 x half of the tokens x half of the heads. With few words a block is the fullest.
  const double keys_and_values = 2 * hidden / 2 / 2;
  const Sets context{"parallelism.context=2", "parallelism.pipeline=1", "parallelism.data=4", "model.vocab=1024"};
  CHECK(messages(context) == Approx(2 * 2 * keys_and_values));  // the block at work and the one that is sent
  Sets by_heads = context;                                      // queries, keys and values in the order of ranks
  by_heads.emplace_back("parallelism.context_method=all_to_all");
  CHECK(messages(by_heads) == Approx(2 * 1.5 * keys_and_values));
  Sets gathered{"parallelism.context=4", "parallelism.context_method=all_gather", "parallelism.pipeline=1",
                "parallelism.data=2", "model.vocab=1024"};
  CHECK(messages(gathered) == Approx(4 * 2 * keys_and_values / 2));  // those of all four ranks
  // In blocks, their gradients in fp32: as they come in, with this rank's part, and on their way out.
  gathered.push_back("software.gathered_in_blocks=true");
  CHECK(messages(gathered) == Approx((4 * 2 + 3 * 4) * keys_and_values / 2));
  Sets two = context;  // of two ranks likewise
  two.insert(two.end(), {"parallelism.context_method=all_gather", "software.gathered_in_blocks=true"});
  CHECK(messages(two) == Approx((2 * 2 + 3 * 4) * keys_and_values));
  Sets one = alone;
  one.insert(one.end(), {"parallelism.context_method=all_gather", "software.gathered_in_blocks=true"});
  CHECK(messages(one) == 0);
  Sets many_words = context;  // a loss exchanges none
  many_words.emplace_back("model.vocab=1000000");
  CHECK(messages(many_words) == 0);
}

TEST_CASE("what a stage has sent stays with what its pass keeps, where it is kept at all; the last one sends nothing") {
  const auto kept = [](const char* keeps, std::size_t stage) {
    const Job job = small_job({std::string("software.keeps_pipeline_outputs=") + keeps});
    const LayerSplit split = split_layers(job);
    return chunk_bytes(split, job.parallelism.chunk_map(), job.software.memory, job.method.precision)[stage][0].kept;
  };
  CHECK(kept("true", 0) - kept("false", 0) == 2 * 1024.0 * 2048);  // in 16 bit
  CHECK(kept("true", 1) == kept("false", 1));
}

TEST_CASE("parts that are gathered and reduced as lists lie there once more") {
  const Sets base{"parallelism={tensor: 1, pipeline: 1, data: 16}", "precision=fp16", "batch.global=16",
                  "software.fp16_accumulation=fp16", "overlap={gradients: false, parameters: false}"};
  const auto with = [&](const Sets& sets, const char* lists) {
    Sets all = base;
    all.insert(all.end(), sets.begin(), sets.end());
    all.push_back(std::string("software.collectives_by_list=") + lists);
    return first_stage(all);
  };
  // Weight by weight: the largest of a block, 2048 x 8192, and the gradient of the ends.
  const Sets by_weight{"parallelism.sharding=parameters", "software.fetches=by_weight"};
  const ShardParameters shard = tests::shard_parameters(small_job(base));
  const double ends = shard.embedding + shard.head;
  CHECK(with(by_weight, "true").parts.gathered - with(by_weight, "false").parts.gathered ==
        Approx(2 * (2048.0 * 8192 + ends)));
  CHECK(with(by_weight, "false").parts.gathered == Approx(2 * ends + 2 * ends));  // more than a block's largest
  // With few words a block's largest counts, twice where the next is fetched ahead, and its gradient.
  Sets few = by_weight;
  few.push_back("model.vocab=1024");
  CHECK(with(few, "false").parts.gathered == Approx(2.0 * (1 + 1) * 2048 * 8192));
  few.push_back("overlap.parameters=true");
  CHECK(with(few, "false").parts.gathered == Approx(2.0 * (2 + 1) * 2048 * 8192));
  // All at once behind the optimizer step: a flat copy for each rank, the library's of them all, and this rank's part.
  const Sets after{"parallelism.sharding=optimizer", "optimizer=lamb", "model.seq=64", "model.vocab=1024",
                   "recompute=full"};
  const StageMemory whole = with(after, "false"), listed = with(after, "true");
  REQUIRE(whole.peak.during == StageMemory::During::optimizer);
  REQUIRE(listed.peak.during == StageMemory::During::optimizer);
  Sets small = base;
  small.insert(small.end(), after.begin(), after.end());
  const double all = first_stage_parameters(small_job(small));
  CHECK(listed.parts.step - whole.parts.step == Approx(2 * (2 * all + all / 16)));
}

TEST_CASE("a buffer for every micro-batch's message holds what is kept of an input that came in it") {
  const auto allocated = [](const char* apart, std::size_t stage, const char* layers = "[4, 4]") {
    const Sets sets{std::string("software.receives_apart=") + apart, std::string("parallelism.stage_layers=") + layers};
    return stages_of(small_job(sets))[stage].allocated;
  };
  // Eight micro-batches of 1024 tokens, 2048 wide in 16 bit; the last stage, which keeps one of them, receives no
  // gradients.
  constexpr double kMessage = 1024.0 * 2048 * 2;
  CHECK(allocated("true", 0) - allocated("false", 0) == Approx(8 * kMessage));
  CHECK(allocated("true", 1) - allocated("false", 1) == Approx(7 * kMessage));
  // Behind a stage of the embedding alone likewise.
  CHECK(allocated("true", 1, "[0, 8]") - allocated("false", 1, "[0, 8]") == Approx(7 * kMessage));
}

TEST_CASE("whole gradients stand beside their shards in buckets, or layer by layer, twice where they overlap") {
  const Sets base{"parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=16",
                  "software.gradient_reduction=every_pass", "parallelism.sharding=gradients"};
  const auto gathered = [&](Sets sets) {
    sets.insert(sets.end(), base.begin(), base.end());
    return first_stage(sets).parts.gathered;
  };
  const std::string bucket = "software.gradient_bucket='40 MB'";
  CHECK(gathered({bucket, "overlap.gradients=false"}) == Approx(40e6));
  CHECK(gathered({bucket, "overlap.gradients=true"}) == Approx(80e6));
  const double layer = tests::shard_parameters(small_job(base)).layer;
  const std::string none = "software.gradient_bucket='0 B'";
  // 16-bit gradients are cast to fp32 before they are reduced, so both are there.
  CHECK(gathered({none, "overlap.gradients=false", "precision={matmul: bf16, gradients: fp32}"}) == Approx(6 * layer));
  CHECK(gathered({none, "overlap.gradients=true", "precision={matmul: bf16, gradients: fp32}"}) == Approx(12 * layer));
  CHECK(gathered({none, "overlap.gradients=false", "precision={matmul: bf16, gradients: bf16}"}) == Approx(2 * layer));
  Sets optimizer = base;
  optimizer.back() = "parallelism.sharding=optimizer";
  CHECK(first_stage(optimizer).parts.gathered == 0);
}

TEST_CASE("fp8 weights and their transposes stand beside the 16-bit ones, of blocks alone") {
  const Sets fp8{"cluster.device=h100-sxm-80gb", "precision=fp8", "parallelism.tensor=1", "parallelism.pipeline=1",
                 "parallelism.data=16"};
  const auto copies = [&](Sets sets) {
    sets.insert(sets.end(), fp8.begin(), fp8.end());
    return first_stage(sets).parts.weight_copies;
  };
  const Job job = small_job(fp8);
  const double blocks = 8 * tests::shard_parameters(job).layer;
  CHECK(copies({}) == 2 * blocks);                          // to the byte
  CHECK(copies({"parallelism.sharding=parameters"}) == 0);  // gathered, cast and given back
  CHECK(first_stage({"cluster.device=h100-sxm-80gb"}).parts.weight_copies == 0);
  // Of four bits each, with a scale in eight for 16 of them.
  const Sets nvfp4{"cluster.device=b200-sxm-180gb", "precision=nvfp4", "parallelism.tensor=1", "parallelism.pipeline=1",
                   "parallelism.data=16"};
  CHECK(first_stage(nvfp4).parts.weight_copies == Approx(2 * (0.5 + 1.0 / 16) * blocks));
}

TEST_CASE("more micro-batches than are walked change nothing, except for GPipe") {
  for (const char* layout : {"parallelism.virtual_pipeline=1", "parallelism.virtual_pipeline=4"}) {
    // Eight micro-batches are 4 p; 32 are walked as eight.
    const Job few = small_job({layout}), many = small_job({layout, "batch.global=128"});
    for (std::int32_t s = 0; s < 2; ++s) {
      const auto chunks = static_cast<std::int32_t>(few.parallelism.virtual_pipeline);
      const Schedule& schedule = *few.parallelism.schedule;
      CHECK(most_in_flight(schedule, s, {2, chunks, 8}) == most_in_flight(schedule, s, {2, chunks, 32}));
      CHECK(stages_of(few)[static_cast<std::size_t>(s)].total == stages_of(many)[static_cast<std::size_t>(s)].total);
    }
  }
  const auto activations = [](const char* batch) {
    return first_stage({"parallelism.schedule=gpipe", batch}).activations;
  };
  CHECK(activations("batch.global=128") > 3.5 * activations("batch.global=32"));
}

TEST_CASE("model states and activations of Korthikanti's table 3 are those of its equations") {
  for (const Published& r : published()) {
    INFO(r.name);
    const double s = 2048, vocab = 51200, L = r.layers, h = r.hidden, p = r.pipeline, t = r.tensor, v = r.chunks;
    const double sbh = s * r.micro * h;
    const double P = 12 * L * h * h * (1 + 13 / (12 * h) + (vocab + s) / (12 * L * h));
    // The last of several stages holds a copy of the tied embedding.
    const double held = P + (p > 1 ? vocab * h : 0);
    for (const bool selective : {true, false}) {
      const Job job = job_of(r, selective ? "selective" : "full", selective);
      const std::vector<StageMemory> stages = stages_of(job);
      double states = 0;
      for (const StageMemory& stage : stages) states += (stage.parameters + stage.gradients + stage.optimizer) * t;
      CHECK(states == Approx(16 * held).epsilon(0.01));
      // Section 4.2.3: the first stage holds L layers, with interleaving L (1 + (p - 1) / (p v)). Beside them dropout
      // masks of the embedding and, on the only stage, the inputs of final norm and head and the fp32 logits.
      const double layers = v > 1 ? L * (1 + (p - 1) / (p * v)) : L;
      const double cut = selective ? t : 1;
      double kept = layers * (selective ? 34 : 2) * sbh / cut;
      if (p == 1) kept += 4 * sbh / cut + 4 * s * r.micro * vocab / t;
      const LayerSplit split = split_layers(job);
      kept += tests::in_flight(job, split, 0).embeddings * sbh / cut;
      const HighWater top =
          high_water(job.parallelism.schedule->passes(0, job.pipeline_shape()),
                     chunk_bytes(split, job.parallelism.chunk_map(), job.software.memory, job.method.precision)[0]);
      CHECK(top.held == Approx(kept).epsilon(1e-9));
      // Selective recompute needs little beside; full recompute a whole layer with its scores.
      if (selective) CHECK(top.bytes() < 1.1 * kept);
      const bool in_step = stages.front().peak.during == StageMemory::During::optimizer;
      CHECK(stages.front().activations == Approx(in_step ? 0 : top.bytes()).epsilon(1e-12));
      const double whole = sbh * (10 + 24 / t + 5 * r.heads * s / (h * t)) - 2 * sbh;
      if (!selective) CHECK(top.working >= whole);
    }
  }
}

TEST_CASE("the first layers of every part of a pipeline are recomputed, where a scenario says how many") {
  // 8 layers on two stages of two chunks: two of a part. With one of them recomputed, half of what is kept stays whole.
  const auto in_part = [](const char* recompute, const Sets& more = {}) {
    Sets sets{"parallelism.virtual_pipeline=2", std::string("recompute=") + recompute};
    sets.insert(sets.end(), more.begin(), more.end());
    return small_job(sets);
  };
  const auto layers_again = [](const LayerSplit& split) {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < split.network.size(); ++i) count += split.network.layer(i).recomputed ? 1 : 0;
    return count;
  };
  const auto kept = [&](const char* recompute) {
    const Job job = in_part(recompute);
    const LayerSplit split = split_layers(job);
    const StageLayout second{split, job.parallelism.chunk_map(), 1};
    return bytes_of(split.network, second.range(0)).kept;
  };
  CHECK(kept("{kind: full, layers: 1}") == Approx((kept("none") + kept("full")) / 2));
  CHECK(layers_again(split_layers(in_part("{kind: full, layers: 1}"))) == 4);
  CHECK(layers_again(split_layers(in_part("none"))) == 0);
  // Five layers, embedding and head are seven units over four parts, 1 2 2 2: blocks 0 2 2 1. Three parts have a first.
  CHECK(layers_again(split_layers(in_part("{kind: full, layers: 1}", {"model.layers=5"}))) == 3);
  // As many as there are is all of them, to the picosecond and the byte.
  const StepReport all = simulate_step(in_part("full")), many = simulate_step(in_part("{kind: full, layers: 2}"));
  CHECK(tests::comparable(all) == tests::comparable(many));
  const StepReport none = simulate_step(in_part("none")), half = simulate_step(in_part("{kind: full, layers: 1}"));
  CHECK(none.iteration < half.iteration);
  CHECK(half.iteration < all.iteration);
  CHECK(half.rates.hfu_pct / half.rates.mfu_pct ==
        Approx((none.rates.hfu_pct / none.rates.mfu_pct + all.rates.hfu_pct / all.rates.mfu_pct) / 2));
}

TEST_CASE("recomputing, sequence parallelism and sharding each save what they should") {
  const Sets unfused{"attention=unfused", "software=megatron-2022"};
  const auto with = [&](Sets more) {
    more.insert(more.end(), unfused.begin(), unfused.end());
    return first_stage(more);
  };
  const double none = with({"recompute=none"}).activations, selective = with({"recompute=selective"}).activations,
               full = with({"recompute=full"}).activations;
  CHECK(none > selective);
  CHECK(selective > full);
  CHECK(with({"parallelism.sequence_parallel=true"}).activations < none);
  double last = HUGE_VAL;
  for (const char* sharding : {"none", "optimizer", "gradients", "parameters"}) {
    const StageMemory m =
        first_stage({"parallelism.pipeline=1", "parallelism.data=8", "software.gradient_reduction=every_pass",
                     std::string("parallelism.sharding=") + sharding});
    CHECK(m.total < last);
    last = m.total;
  }
}

TEST_CASE("gradients are kept as the software accumulates them") {
  const auto per_parameter = [](const Sets& sets) {
    const Job job = small_job(sets);
    const StageMemory m = stages_of(job).front();
    return (m.parameters + m.gradients + m.optimizer + m.parts.accumulators) / first_stage_parameters(job);
  };
  CHECK(per_parameter({"software=megatron-2023"}) == Approx(18));                       // 2 + 4 + 12
  CHECK(per_parameter({"software=megatron-2023", "precision=fp16"}) == Approx(18));     // by the fused GEMM, in fp32
  CHECK(per_parameter({"software=megatron-2021", "precision=fp16"}) == Approx(16));     // accumulated in fp16
  CHECK(per_parameter({"software=zero-bubble-2023", "precision=fp16"}) == Approx(16));  // likewise, by the fused GEMM
  CHECK(per_parameter({"software=megatron-2023", "precision={matmul: fp16, gradients: fp32}"}) == Approx(18));
  CHECK(per_parameter({"software=megatron-deepspeed-2022"}) == Approx(20));  // fp32 beside the 16-bit gradients
  CHECK(per_parameter({"optimizer=sgd"}) == Approx(14));                     // one moment
}

TEST_CASE("FSDP gathers the root unit, a layer, and the next one where it is fetched ahead") {
  const Sets base{"parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=16", "software=llm-foundry",
                  "parallelism.sharding=parameters"};
  const auto gathered = [&](const char* ahead) {
    Sets sets = base;
    sets.push_back(fmt::format("overlap={{parameters: {0}, gradients: {0}}}", ahead));
    return first_stage(sets).parts.gathered;
  };
  const ShardParameters shard = tests::shard_parameters(small_job(base));
  // 16-bit parameters of each, and gradients of layers; in the pass over a layer the head's gradient stands whole, as
  // the root's are reduced at the end. Fetched ahead it is fullest where the layer behind has left a gradient to
  // reduce.
  const Model model = small_job(base).model;  // whose head has the embedding's words, and no other weights
  const double words = static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
  const double root = 2 * (shard.embedding + shard.head) + 2 * words;
  CHECK(gathered("false") == root + 4 * shard.layer);  // to the byte
  CHECK(gathered("true") == root + 4 * 2 * shard.layer);
}

TEST_CASE("where the optimizer step is fullest, its temporaries count and activations do not") {
  // 1 sequence of 128 tokens: activations vanish beside fp32 copies of fp16 gradients, 4 bytes per parameter.
  const Sets tiny{"software={inherits: megatron-2023, fp16_accumulation: fp16}", "precision=fp16", "model.seq=128",
                  "recompute=full"};
  const Job job = small_job(tiny);
  const StageMemory m = stages_of(job).front();
  CHECK(m.peak.during == StageMemory::During::optimizer);
  CHECK(m.activations == 0);
  CHECK(m.parts.step == Approx(4 * first_stage_parameters(job)));
  // LAMB keeps its update of every parameter that the rank updates until the norm is known.
  Sets lamb = tiny;
  lamb.insert(lamb.end(), {"optimizer=lamb", "precision=bf16"});
  CHECK(first_stage(lamb).parts.step == Approx(m.parts.step));
  // DeepSpeed's step flattens the 16-bit gradients of what the rank updates ahead of that copy: 2 bytes more of each.
  Sets flat = tiny;
  flat.front() = "software={inherits: megatron-2023, fp16_accumulation: fp16, recipe: {optimizer: flattened}}";
  CHECK(first_stage(flat).parts.step == Approx((4 + 2) * first_stage_parameters(job)));
}

TEST_CASE("an optimizer that needs more beside its step takes no less memory, wherever the fullest moment lies") {
  const Sets bucket{"parallelism.sharding=gradients", "software.gradient_reduction=every_pass",
                    "software.gradient_bucket='50 MB'", "overlap.gradients=false"};
  for (const Sets& held : {Sets{}, bucket}) {
    int in_step = 0, in_pass = 0;
    for (int seq = 128; seq <= 8192; seq += 128) {
      Sets sets = held;
      sets.insert(sets.end(), {"model.seq=" + std::to_string(seq), "model.vocab=1024", "recompute=full"});
      Sets lamb = sets;
      lamb.push_back("optimizer=lamb");
      const StageMemory adam = first_stage(sets), more = first_stage(lamb);
      INFO("sequences of " << seq);
      CHECK(more.total >= adam.total);
      ++(more.peak.during == StageMemory::During::optimizer ? in_step : in_pass);
    }
    CHECK(in_step > 0);
    CHECK(in_pass > 0);
  }
}

TEST_CASE("a stage's total is the sum of its parts, and the reserve counts communicators") {
  const Job job = small_job({"software.allocator_overhead=0.25", "software.context_memory='1 GB'",
                             "software.communicator_memory='1 GB'", "parallelism.pipeline=4", "parallelism.data=2"});
  const std::vector<StageMemory> stages = stages_of(job);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageMemory& m = stages[s];
    CHECK(m.total == Approx(m.parameters + m.gradients + m.optimizer + m.activations + m.buffers));
    CHECK(m.buffers == Approx(m.parts.sum()));
    CHECK(m.parts.fragmentation == Approx(m.allocated / 4));
    CHECK(m.total == Approx(1.25 * m.allocated + m.parts.context));
    // Tensor, data, pipeline and model groups; first and last stage share the embedding.
    CHECK(m.parts.context == Approx(s == 0 || s == 3 ? 6e9 : 5e9));
  }
  CHECK(peak_memory(stages) == Approx(std::max(stages.front().total, std::max(stages[1].total, stages[3].total))));
}

TEST_CASE("a lone stage leaves its allocator no gaps, as it frees in reverse") {
  for (const char* pipeline : {"1", "2"}) {
    const Job job = small_job(
        {"software.allocator_overhead=0.25", std::string("parallelism.pipeline=") + pipeline, "parallelism.data=null"});
    const StageMemory m = stages_of(job).front();
    CHECK(m.parts.fragmentation == Approx(*pipeline == '1' ? 0 : m.allocated / 4));
  }
}

TEST_CASE("what attention keeps beside its operands, to the byte: first copies of keys, and of the output") {
  // Two sequences of 1024, 2048 wide, over two tensor ranks, in 16 bit.
  const double tensor = 2 * 1024.0 * 2048 / 2 * 2;
  const auto kept = [](Sets sets) {
    sets.emplace_back("batch.micro=2");
    const LayerSplit split = split_layers(small_job(sets));
    return bytes_of(split.block()).kept;
  };
  const double before = kept({});
  CHECK(kept({"software.keeps_first_keys=true"}) - before == 2 * tensor);
  // Of fewer keys than queries each has a tensor of its own.
  const double grouped = kept({"model.kv_heads=4"});
  CHECK(kept({"model.kv_heads=4", "software.keeps_first_keys=true"}) == grouped);
  CHECK(kept({"software.output_copy=kept"}) - before == tensor);
  CHECK(kept({"software.output_copy=made_again"}) == before);
}

TEST_CASE("what attention and its projection make is gone where both run again") {
  const double tensor = 1024.0 * 2048 / 2 * 2, outside = 1024.0 * 2048 * 2, rows = 1024.0 * 16 / 2 * 4;
  const auto kept = [](const char* modules, Sets sets = {}) {
    sets.push_back(std::string("recompute={kind: selective, modules: ") + modules + "}");
    const LayerSplit split = split_layers(small_job(sets));
    return bytes_of(split.block()).kept;
  };
  const double norms = kept("[norms]");
  // A checkpointed region of attention keeps its output, which the projection reads, and not the sums of its rows.
  CHECK(norms - kept("[norms, core_attention]") == rows);
  CHECK(norms - kept("[norms, attention_out]") == outside);
  CHECK(norms - kept("[norms, core_attention, attention_out]") == rows + outside + tensor);
  CHECK(norms - kept("[norms, core_attention]", {"software.recomputes_needed_only=true"}) == rows + tensor);
}

TEST_CASE("weights and gradients of a stage are two bytes for each of its parameters, to the byte") {
  for (const Sets& sets : {Sets{"parallelism.data=4", "parallelism.pipeline=2", "parallelism.sharding=none"},
                           Sets{"parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=16"}}) {
    const Job job = small_job(sets);
    const StageMemory first = stages_of(job).front();
    CHECK(first.parameters == 2 * first_stage_parameters(job));
    CHECK(first.gradients == 2 * first_stage_parameters(job));
  }
}

TEST_CASE("the need of a job is that of its fullest stage, whichever it is, and whether it fits or not") {
  const Job job = small_job({"parallelism.pipeline=4", "parallelism.data=2"});
  const auto capacity = static_cast<double>(job.machine.device.memory().value());
  for (const double more : {-0.5, 0.5}) {
    for (std::size_t fullest = 0; fullest < 4; ++fullest) {
      std::vector<StageMemory> stages(4);
      for (std::size_t s = 0; s < 4; ++s) stages[s].total = (1 + more) * capacity - (s == fullest ? 0 : 1e9);
      const MemoryNeed need = memory_need(stages, job.machine);
      CHECK(need.stage == fullest);
      CHECK(need.peak == stages[fullest].total);
      CHECK(need.capacity == capacity);
      CHECK(need.fits() == (more < 0));
    }
  }
}

TEST_CASE("communicators are those of the groups that have more than one rank") {
  const auto communicators = [](Sets sets) {
    sets.insert(sets.end(), {"software.context_memory='1 GB'", "software.communicator_memory='1 GB'"});
    return first_stage(sets).parts.context / 1e9 - 1;
  };
  const Sets alone{"cluster.gpus=8", "parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=null"};
  const auto with = [&](const Sets& more) {
    Sets sets = alone;
    sets.insert(sets.end(), more.begin(), more.end());
    return communicators(sets);
  };
  CHECK(with({}) == Approx(1));                                                         // data
  CHECK(with({"parallelism.tensor=8"}) == Approx(1));                                   // tensor
  CHECK(with({"parallelism.tensor=2"}) == Approx(2));                                   // tensor, data
  CHECK(with({"parallelism.tensor=2", "parallelism.context=2"}) == Approx(3));          // and context
  CHECK(with({"parallelism.pipeline=8", "model.tied_embeddings=false"}) == Approx(1));  // pipeline
  // States shared out over half of the ranks: those, and the ones that hold the same part.
  CHECK(with({"software=llm-foundry", "parallelism.sharding=parameters", "parallelism.shard_group=4"}) == Approx(2));
  // Pipeline, and embedding and head.
  CHECK(with({"parallelism.pipeline=8", "model.tied_embeddings=true"}) == Approx(2));
}

TEST_CASE("gradient buckets hold no more than the gradients that a rank has") {
  // Overlapped, two buckets are under way: one is filled while the other is reduced.
  const Sets every{"parallelism.sharding=gradients", "software.gradient_reduction=every_pass",
                   "overlap={gradients: true, parameters: true}"};
  const auto gathered = [&](const char* bucket) {
    Sets sets = every;
    sets.push_back(fmt::format("software.gradient_bucket='{}'", bucket));
    return first_stage(sets).parts.gathered;
  };
  const Job job = small_job(every);
  const double all = first_stage_parameters(job) * calibration::bytes_of(job.method.precision.gradients);
  CHECK(gathered("10 MB") == 2 * 10e6);
  CHECK(gathered("100 GB") == Approx(all));
  CHECK(gathered("1 TB") == Approx(all));
}
