// What runs over the times of steps, with times that are given: campaigns of weeks, queues of jobs; and the what-if
// page's requests.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/campaign.h"
#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/target.h"
#include "tools/study/queue_trace.h"
#include "tools/whatif/engine.h"
#include "workloads/runs/campaign/run.h"
#include "workloads/runs/queue/replay.h"

namespace orrery::fuzz {

namespace {

/// 512 GPUs in 64 nodes, replicas of 32.
campaign::Machine machine() {
  campaign::Machine m;
  m.gpus = 512;
  m.nodes = 64;
  m.gpus_per_node = m.nics_per_node = 8;
  m.replicas = 16;
  m.replica_gpus = 32;
  m.global = 256;
  m.seq = 2048;
  m.pcie = 25e9;
  m.state_bytes = 1e12;
  m.rank_bytes = 20e9;
  return m;
}

/// Steps of 5 s, longer with replicas missing and with something slow.
campaign::Prices prices_for(const campaign::Spec& spec, std::int64_t replicas) {
  campaign::Prices prices;
  for (const campaign::Cause& cause : spec.fleet.causes) prices.slow += cause.effect == campaign::Effect::slow ? 1 : 0;
  if (spec.elastic.on) {
    const std::int64_t missing = replicas - std::clamp<std::int64_t>(spec.elastic.min_replicas, 1, replicas);
    prices.levels += static_cast<std::size_t>(std::min<std::int64_t>(missing, 16));
  }
  for (std::size_t phase = 0; phase <= spec.ramp.size(); ++phase) {
    for (std::size_t level = 0; level < prices.levels; ++level) {
      for (std::size_t slow = 0; slow < prices.slow; ++slow)
        prices.step.push_back(sim::seconds(5.0 + 0.3 * static_cast<double>(level) + (slow > 0 ? 2.0 : 0.0)));
    }
  }
  prices.evaluation = sim::seconds(10);
  prices.evaluation_every = 100;
  return prices;
}

/// Every picosecond of a campaign is in one class.
void read_campaign(const std::string& text) {
  sim::Settings document = sim::Settings::mapping({"input", 1, 1});
  document.set("campaign", scenarios::parse_yaml(text, "input"));
  scenarios::schema().check(document);  // as a scenario's is, before anything is made of it
  const std::optional<campaign::Spec> spec = scenarios::load_campaign(document);
  if (!spec) throw sim::UserError("got nothing, expected a campaign");
  const campaign::Machine on = machine();
  const campaign::Plan plan = campaign::compile(*spec, on, prices_for(*spec, on.replicas));
  const campaign::Outcome outcome = campaign::run(plan, 1);
  expect(outcome.wall.value() >= 0 && outcome.steps >= 0 && outcome.steps <= std::max<std::int64_t>(plan.steps, 0),
         "a campaign of another number of steps");
  campaign::Picoseconds sum = 0;
  for (const campaign::Elapsed share : outcome.shares) sum += share.value();
  expect(sum == outcome.wall.value(), "shares that do not add up");
  expect(std::isfinite(campaign::failure_rate(plan)), "a failure rate that is no number");
}

/// GPUs' time is conserved under every policy.
void read_queue(const std::string& text) {
  static const queue::Layout kLayout = [] {
    queue::Layout layout;
    layout.gpus_per_node = 8;
    for (std::int32_t node = 0; node < 16; ++node) layout.unit_of.push_back(node / 4);
    for (std::int32_t unit = 0; unit < 4; ++unit) layout.pod_of.push_back(unit / 2);
    return layout;
  }();
  const tools::QueueTrace trace = tools::read_queue_trace(memory_file().with(text), kLayout.gpus());
  if (trace.jobs.empty() || trace.jobs.size() > 200) return;
  __int128 work = 0;
  for (const queue::Request& job : trace.jobs) {
    expect(job.gpus > 0 && job.gpus <= kLayout.gpus() && job.work_ms >= 0 && job.limit_ms >= 0, "a job that is none");
    work += static_cast<__int128>(job.gpus) * job.work_ms;
  }
  for (const queue::Order order : {queue::Order::fifo, queue::Order::shortest, queue::Order::backfill}) {
    const queue::Outcome outcome =
        queue::replay(kLayout, {trace.jobs, {{1, 1.01, 1.02, 1.05}}}, {order, queue::Placement::best_fit}, 1);
    expect(outcome.gpu_ms[0] == work, "work that is not what the jobs have");
    __int128 all = 0;
    for (const __int128 part : outcome.gpu_ms) all += part;
    expect(all == static_cast<__int128>(outcome.end_ms - outcome.begin_ms) * kLayout.gpus(),
           "GPUs' time that does not add up");
  }
}

void read_request(const std::string& text) {
  static tools::WhatIfEngine engine(tools::WhatIfEngine::Names::shipped);
  const std::string answer = engine.answer(text);
  const nlohmann::json json = nlohmann::json::parse(answer, nullptr, false);
  expect(json.is_object(), "an answer that is no object");
  expect(!json.contains("bug"), "an answer that is a bug: " + answer.substr(0, 300));
  if (json.contains("error")) throw sim::UserError(json["error"].dump());
}

std::vector<std::string> campaign_seeds() {
  return {
      "steps: 20000\nfailures:\n  observed: {window: 10 days, devices: 1024}\n  causes:\n"
      "    gpu: {per: device, mtbf: 20000 h, loses: node, repair: 12 h}\n"
      "    slow: {per: node, mtbf: 2000 h, effect: slow, slowdown: 1.5, loses: node, repair: 12 h}\n"
      "    hang: {per: job, mtbf: 200 h, effect: hang}\n"
      "    rack: {per: group, group: 8, mtbf: 20000 h, loses: group, repair: 1 h}\n"
      "    old: {per: nic, count: 3, shape: 2.5, age: 100 h}\n"
      "checkpoint:\n  every_steps: 20\n  tiers: [{to: neighbour}, {to: storage, one_in: 10}]\nrepair: {spares: 2}\n",
      "tokens: 100e9\nfailures: llama3-2024\ncheckpoint:\n  every: 20 min\n"
      "  tiers: [{to: host, background: false}, {to: storage, write: 2 GB/s, read: 5 GB/s, total: 100 GB/s}]\n"
      "repair: {spares: 1, detection: 20 s, diagnosis: 3 min, swap: 10 s, warm_up_steps: 5}\n"
      "elastic: {min_replicas: 14}\nmaintenance: {every: 14 days, for: 4 h}\n",
      "window: 54 days\nlimit: 100 days\nramp: [{until_tokens: 1e9, global: 64}, {until_tokens: 5e9, global: 128}]\n"
      "failures: {inherits: llama3-2024, causes: {clock: {per: device, mtbf: 20000 h, effect: slow,"
      " slowdown: 1.25, loses: node, repair: 1 day}}}\n"};
}
std::vector<std::string> queue_seeds() {
  return {"job,submit_s,gpus,duration_s,limit_s\n1,20,8,3.5,10\n2,10,4,60,\n3,30,0,5,5\n4,31,2,0,5\n5,32,128,9,9\n",
          "job_id,user,gpu_num,cpu_num,state,submit_time,duration,queue\r\n"
          "1,u,1,4,COMPLETED,2023-02-28 23:59:59,12,0\r\n\r\n2,u,2,4,FAILED,2023-03-02T00:00:00+08:00,13,\"1,5\"\r\n",
          "arrival,plan_gpu,runtime,walltime\n0,16,100,200\n5,64,50,50\n5,1,7,9\n6,128,10,20\n7,3,1e3,1e3\n"};
}
std::vector<std::string> request_seeds() {
  const std::string job =
      "cluster: {device: h100-sxm-80gb, gpus: 4, fabric: single-node}\\nmodel: {layers: 2, hidden: 256, heads: 4, "
      "vocab: 512, seq: 128}\\nparallelism: {tensor: 2, pipeline: 2}\\nbatch: {global: 4, micro: 1}\\n";
  return {R"({"do": "run", "text": ")" + job + R"(", "file": "a.yaml", "sets": ["batch.micro=2"], "remedies": false})",
          R"({"do": "points", "text": ")" + job + R"(", "points": [["batch.micro=2"], ["precision=fp8"]]})",
          R"({"do": "import", "form": "megatron", "text": "--num-layers 2 --hidden-size 256", "file": "x"})",
          R"({"do": "import", "form": "hf", "text": "{\"model_type\": \"gpt2\", \"n_layer\": 2}", "file": "x"})"};
}

}  // namespace

std::vector<Target> study_targets() {
  return {{"campaign", "a campaign of weeks, run once", read_campaign, campaign_seeds},
          {"queue", "a trace of a queue, replayed", read_queue, queue_seeds},
          {"request", "a request of the what-if page", read_request, request_seeds}};
}

}  // namespace orrery::fuzz
