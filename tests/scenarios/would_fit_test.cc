// Do the changes that are proposed against running out of memory really make it fit, and is none of them idle?
#include "scenarios/would_fit.h"

#include "tests/catch.h"
#include "tests/scenarios/expect.h"
#include "workloads/memory/memory.h"

namespace orrery::scenarios {

namespace {

sim::Settings changed(const sim::Settings& document, const std::vector<std::string>& changes) {
  sim::Settings copy = document;
  for (const std::string& change : changes) apply_set(copy, change);
  return copy;
}

struct Answer {
  double peak = 0;
  bool fits = false;
};

Answer answer(const sim::Settings& document) {
  const workloads::Job job = load_scenario(document).job;
  const workloads::StepReport report = workloads::simulate_step(job);
  CHECK(report.memory.peak_bytes ==
        Approx(workloads::peak_memory(workloads::stage_memory(job, workloads::split_layers(job)))).epsilon(1e-12));
  return {report.memory.peak_bytes, report.memory.fits};
}

sim::Settings document_with(const std::vector<std::string>& changes) {
  return changed(parse_yaml(small_scenario(), "small.yaml"), changes);
}

}  // namespace

TEST_CASE("every single change proposed makes the scenario fit, as simulated") {
  // 2048 long sequences of 24 layers without recompute: activations are what does not fit.
  const sim::Settings document =
      document_with({"batch.micro=32", "batch.global=2048", "model.seq=4096", "precision=bf16", "attention=flash",
                     "recompute=none", "software=megatron-2023", "parallelism.sequence_parallel=false"});
  REQUIRE_FALSE(answer(document).fits);
  const std::vector<workloads::Remedy> remedies = would_fit(document);
  REQUIRE(remedies.size() >= 2);
  bool recompute = false, micro = false;
  for (const workloads::Remedy& remedy : remedies) {
    const Answer now = answer(changed(document, remedy.changes));
    INFO(remedy.changes.front());
    CHECK(now.fits);
    CHECK(now.peak == Approx(remedy.peak_bytes));
    recompute = recompute || remedy.changes.front() == "recompute=full";
    micro = micro || remedy.changes.front().starts_with("batch.micro=");
  }
  CHECK(recompute);
  CHECK(micro);
}

TEST_CASE("where no single change is enough, a combination without idle parts is proposed") {
  const sim::Settings document = document_with(
      {"model.layers=48", "model.hidden=8192", "model.heads=64", "model.seq=2048", "batch.micro=16", "batch.global=512",
       "attention=unfused", "recompute=none", "software=megatron-2021", "precision=bf16", "parallelism.tensor=8",
       "parallelism.pipeline=1", "parallelism.data=8", "parallelism.sharding=none"});
  REQUIRE_FALSE(answer(document).fits);
  const std::vector<workloads::Remedy> remedies = would_fit(document);
  REQUIRE(remedies.size() == 1);
  const std::vector<std::string>& changes = remedies.front().changes;
  REQUIRE(changes.size() >= 2);
  CHECK(answer(changed(document, changes)).fits);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    std::vector<std::string> fewer = changes;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    INFO("without " << changes[i]);
    bool enough = false;
    try {
      enough = answer(changed(document, fewer)).fits;
    } catch (const sim::UserError&) {
      // Half of a change of layout does not even load.
    }
    CHECK_FALSE(enough);
  }
}

TEST_CASE("what fits nowhere gets no proposal") {
  const sim::Settings document = document_with({"model.hidden=131072", "model.heads=128", "model.layers=96"});
  CHECK(would_fit(document).empty());
}

}  // namespace orrery::scenarios
