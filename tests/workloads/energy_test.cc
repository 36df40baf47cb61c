// Energy of a step: sums by hand, laws, and the clock that a cap leaves.
#include "workloads/job/energy.h"

#include <algorithm>
#include <numeric>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/step/step.h"

namespace {

using namespace orrery;
using namespace orrery::workloads;
using tests::small_job;

using Sets = std::vector<std::string>;

double part(const Energy& energy, EnergyPart p) { return energy.parts_j[static_cast<std::size_t>(p)]; }

/// A device that draws nothing but what `power` says, as in "standing=100 W".
Sets drawing(const Sets& power, const Sets& more = {}) {
  Sets sets;
  for (const Sets& keys :
       {Sets{"governs=false", "limit=100 kW", "standing=0 W", "active=0 W", "per_flop.bf16=0 J", "per_flop.fp32=0 J",
             "per_byte=0 J", "per_link_byte=0 J", "per_nic_byte=0 J", "host=0 W", "conversion=1"},
        power})
    for (const std::string& key : keys) sets.push_back("cluster.device.power." + key);
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

Energy energy_of(const Sets& sets) { return simulate_step(small_job(sets)).energy; }

}  // namespace

TEST_CASE("what stands is drawn all the time, the rest of the node too, and supplies lose their share") {
  const StepReport report = simulate_step(small_job(
      drawing({"standing=100 W", "host=50 W", "conversion=0.75"}, {"power={pue: 1.5, carbon_g_per_kwh: 360}"})));
  const double seconds = sim::to_seconds(report.iteration);
  const Energy& energy = report.energy;
  // Sixteen GPUs of 100 W and 50 W beside each, 200 W apiece at the plug.
  CHECK(energy.job_w() == Approx(16 * 200));
  CHECK(energy.gpu_w() == Approx(100));
  CHECK(energy.node_w() == Approx(8 * 200));
  CHECK(energy.node_peak_w() == Approx(8 * 200));
  CHECK(energy.total_j() == Approx(16 * 200 * seconds));
  CHECK(energy.site_j() == Approx(1.5 * 16 * 200 * seconds));
  // 360 g for each 3.6 MJ: a gram for each 10 kJ.
  CHECK(energy.grams_of(energy.site_j()) == Approx(energy.site_j() / 1e4));
}

TEST_CASE("products take the energy of the model's FLOPs") {
  // Unfused attention multiplies whole squares, as the model's FLOPs count them; the vocabulary divides.
  const StepReport report = simulate_step(small_job(drawing({"per_flop.bf16=1 pJ"}, {"attention=unfused"})));
  const double flops = report.rates.model_tflops_per_gpu * 1e12 * 16 * sim::to_seconds(report.iteration);
  CHECK(part(report.energy, EnergyPart::products) == Approx(flops * 1e-12).epsilon(1e-6));
  CHECK(report.energy.total_j() == Approx(part(report.energy, EnergyPart::products)));
}

TEST_CASE("an operation takes the same energy under any schedule, layout of stages and number of simulated ranks") {
  const Sets device = drawing({"per_flop.bf16=1 pJ"});
  const auto products = [&](const Sets& more) {
    Sets sets = device;
    sets.insert(sets.end(), more.begin(), more.end());
    return part(energy_of(sets), EnergyPart::products);
  };
  const double plain = products({});
  CHECK(products({"parallelism.schedule=gpipe"}) == Approx(plain));
  CHECK(products({"parallelism.schedule=zb_h1"}) == Approx(plain));
  CHECK(products({"parallelism.schedule=interleaved_1f1b", "parallelism.virtual_pipeline=2"}) == Approx(plain));
  CHECK(products({"parallelism.schedule=dualpipe"}) == Approx(plain));
  CHECK(products({"parallelism.pipeline=1", "parallelism.data=8"}) == Approx(plain));
  // Full recomputation runs the forward pass of the blocks once more: a third of their share.
  CHECK(products({"recompute=full"}) > 1.2 * plain);
  CHECK(products({"recompute=full"}) < 4 / 3.0 * plain);
}

TEST_CASE("bytes inside nodes and through NICs are those of the communication table") {
  const Job job = small_job(drawing({"per_link_byte=1 nJ", "per_nic_byte=2 nJ"}));
  const StepReport report = simulate_step(job);
  double all = 0, tensor = 0;
  for (const TrafficRow& row : report.traffic) {
    all += row.simulated_bytes;
    if (row.dimension == "tensor") tensor += row.simulated_bytes;
  }
  // A byte on a link costs 1 nJ, through two NICs 4 nJ: both kinds add up to all that was simulated.
  const double links = part(report.energy, EnergyPart::links) / 1e-9;
  const double network = part(report.energy, EnergyPart::network) / 4e-9;
  CHECK(links + network == Approx(all).epsilon(1e-9));
  CHECK(links > tensor * (1 - 1e-9));  // tensor groups lie in nodes
  CHECK(network > 0);                  // data groups of four do not
}

TEST_CASE("the parts are all of the energy, and mean power over the step's time as well") {
  const StepReport report = simulate_step(small_job());
  const Energy& energy = report.energy;
  REQUIRE(energy.known);
  CHECK(energy.job_w() * sim::to_seconds(report.iteration) ==
        Approx(std::accumulate(energy.parts_j.begin(), energy.parts_j.end(), 0.0)));
  for (const double joules : energy.parts_j) CHECK(joules > 0);
  const double limit = small_job().machine.device.power().limit;
  CHECK(energy.gpu_w() < energy.busiest_gpu_w);
  CHECK(energy.busiest_gpu_w <= limit * (1 + 1e-9));
}

TEST_CASE("a simulation of every rank, and one of the time alone, draw what a folded one does") {
  const Job job = small_job();
  Question full, brief;
  full.ranks = Question::Ranks::every;
  brief.parts = Question::Parts::energy;
  const double folded = simulate_step(job).energy.total_j();
  CHECK(simulate_step(job, full).energy.total_j() == folded);
  CHECK(simulate_step(job, brief).energy.total_j() == folded);
  brief.parts = Question::Parts::times;
  CHECK_FALSE(simulate_step(job, brief).energy.known);
}

TEST_CASE("a node draws less, the more of its step is waiting") {
  // Fewer micro-batches in a pipeline of the same length are more of a bubble; the same work over a slower network is
  // more waiting for gradients.
  const auto watts = [](const Sets& sets) { return energy_of(sets).node_w(); };
  CHECK(watts({"parallelism.pipeline=4", "parallelism.data=2", "batch.global=8"}) <
        watts({"parallelism.pipeline=4", "parallelism.data=2", "batch.global=64"}));
  CHECK(watts({"cluster.fabric.nic_rate=10 Gb/s"}) < watts({}));
}

TEST_CASE("warmer boards leave their clock what leakage does not take, and the warmest holds the others up") {
  const auto job_with = [](const Sets& more) {
    Sets sets{"cluster.device=h100-sxm-80gb", "cluster.fabric=ndr-rail", "model.hidden=8192", "model.heads=64",
              "model.ffn_hidden=32768"};
    sets.insert(sets.end(), more.begin(), more.end());
    return small_job(sets);
  };
  // Thirty kelvin at a hundredth of what stands each are three tenths of it more: the step of a board that stands so.
  const Job usual = job_with({}), warm = job_with({"power.warmer=30"});
  const double standing = usual.machine.device.power().standing;
  const Job leaky = job_with({fmt::format("cluster.device.power.standing={} W", 1.3 * standing)});
  REQUIRE(usual.machine.device.clock() < 1);
  CHECK(warm.machine.device.clock() == leaky.machine.device.clock());
  CHECK(simulate_step(warm).iteration == simulate_step(leaky).iteration);
  CHECK(simulate_step(warm).energy.gpu_w() == Approx(simulate_step(leaky).energy.gpu_w()));
  CHECK(warm.machine.device.clock() < usual.machine.device.clock());
  // A spread moves no board of the mean, but whoever waits for the warmest; twice the spread costs twice as much
  // nearly.
  const Job spread = job_with({"power.temperature_spread=5"}), twice = job_with({"power.temperature_spread=10"});
  CHECK(spread.machine.device.clock() == usual.machine.device.clock());
  CHECK(spread.power.pace_spread > 0);
  CHECK(twice.power.pace_spread == Approx(2 * spread.power.pace_spread).epsilon(0.05));
  CHECK(simulate_step(spread).iteration > simulate_step(usual).iteration);
  // With power to spare temperature takes nothing from the clock.
  CHECK(job_with({"power.temperature_spread=5", "cluster.device.power.limit='5 kW'"}).power.pace_spread == 0);
  CHECK_THROWS_AS(small_job({"power.warmer=10"}), sim::UserError);  // a device of measured clocks
}

TEST_CASE("a row's temperature is what its stream and its own watts make, and watts what that leaks") {
  calibration::PowerModel power;
  power.limit = 700;
  power.standing = 100;
  power.active = 900;
  power.exponent = 1;
  calibration::Duty duty;
  duty.elements = 1;  // so that watts are standing + 900 x clock
  Cooling cooling{Cooling::By::air, 20, 0.05, 0.01, 3, 200, 30};
  const double reference = reference_temperature_c(700), leakage = 0.01;
  const std::vector<WarmRow> rows = warm_rows(cooling, power, 700, leakage, 0, duty);
  REQUIRE(rows.size() == 3);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // All are at their limit, so that each warms the stream by 7 K and itself by 35.
    CHECK(rows[i].watts == Approx(700));
    CHECK(rows[i].temperature_c == Approx(20 + 35 + 7 * static_cast<double>(i)));
    CHECK_FALSE(rows[i].throttled);
    const double standing = 100 * (1 + leakage * (rows[i].temperature_c - reference));
    CHECK(rows[i].clock == Approx((700 - standing) / 900));
  }
  // Below the limit: watts w and temperature t of one row solve w = 100 (1 + 0.01 (t - r)) + 450, t = 20 + 0.05 w.
  power.active = 450;
  cooling.rows = 1;
  const WarmRow alone = warm_rows(cooling, power, 700, leakage, 0, duty).front();
  const double watts = (100 * (1 + leakage * (20 - reference)) + 450) / (1 - 100 * leakage * 0.05);
  CHECK(alone.clock == 1);
  CHECK(alone.watts == Approx(watts));
  CHECK(alone.temperature_c == Approx(20 + 0.05 * watts));
  // A slowdown temperature is a limit of power: 30 K over the inlet are 600 W at 0.05 K each.
  power.active = 900;
  cooling.slowdown_c = 50;
  const WarmRow slowed = warm_rows(cooling, power, 700, leakage, 0, duty).front();
  CHECK(slowed.throttled);
  CHECK(slowed.watts == Approx(600));
  CHECK(slowed.temperature_c == Approx(50));
}

TEST_CASE("a job goes at the pace of the warmest row, draws by the mean, and liquid is cooler than air") {
  const auto job_with = [](const Sets& more) {
    Sets sets{"cluster.device=h100-sxm-80gb", "cluster.fabric=ndr-rail", "model.hidden=8192", "model.heads=64",
              "model.ffn_hidden=32768"};
    sets.insert(sets.end(), more.begin(), more.end());
    return small_job(sets);
  };
  const Job air = job_with({"power.cooling.kind=air"}), liquid = job_with({"power.cooling.kind=liquid"});
  const Job hot = job_with({"power.cooling={kind: air, inlet: 35}"}), usual = job_with({});
  REQUIRE(air.power.rows.size() == 2);
  REQUIRE(usual.machine.device.clock() < 1);
  CHECK(air.power.rows[1].temperature_c > air.power.rows[0].temperature_c);
  CHECK(air.machine.device.clock() == Approx(air.power.rows[1].clock));
  // At its limit in usual air the mean of the rows is where the device's constants hold.
  CHECK(air.power.cooled_k == Approx(0).margin(0.01));
  CHECK(air.machine.device.clock() < usual.machine.device.clock());
  CHECK(hot.machine.device.clock() < air.machine.device.clock());
  CHECK(liquid.machine.device.clock() > usual.machine.device.clock());
  CHECK(simulate_step(hot).iteration > simulate_step(air).iteration);
  CHECK(simulate_step(liquid).iteration < simulate_step(air).iteration);
  // How long it takes is said: three time constants, after which a twentieth is left.
  const Job slow = job_with({"power.cooling={kind: air, time_constant: 1 min}"});
  const auto says = [&](const std::string& text) { return text.find("180 s after a start") != std::string::npos; };
  CHECK(std::any_of(slow.assumptions.begin(), slow.assumptions.end(), says));
  CHECK(std::none_of(air.assumptions.begin(), air.assumptions.end(), says));
  // No cooler leaves anything to work with where the air is nearly as warm as a GPU may be.
  CHECK_THROWS_AS(job_with({"power.cooling={kind: air, inlet: 80}"}), sim::UserError);
  CHECK_THROWS_AS(small_job({"power.cooling.kind=air"}), sim::UserError);  // a device of measured clocks
}

TEST_CASE("a cap below the limit slows products by the same balance, one above it changes nothing") {
  const auto seconds = [](Sets sets) {
    sets.emplace_back("model.hidden=8192");
    sets.emplace_back("model.heads=64");
    sets.emplace_back("model.ffn_hidden=32768");
    const Job job = small_job(sets);
    return sim::to_seconds(simulate_step(job).iteration);
  };
  const Sets h100{"cluster.device=h100-sxm-80gb", "cluster.fabric=ndr-rail"};
  const auto with = [](Sets sets, const char* set) {
    sets.emplace_back(set);
    return sets;
  };
  const double usual = seconds(h100);
  CHECK(seconds(with(h100, "power.cap=500 W")) > usual);
  // A cap is a limit: the same step as on a board with a lower one.
  CHECK(seconds(with(h100, "power.cap=500 W")) == seconds(with(h100, "cluster.device.power.limit='500 W'")));
  CHECK(seconds(with(h100, "power.cap=2 kW")) == usual);
  // A device whose clocks were measured under its limit: slower under a cap, and no faster for a higher limit.
  const double a100 = seconds({});
  CHECK(seconds({"power.cap=300 W"}) > a100);
  CHECK(seconds({"power.cap=400 W"}) == a100);
  CHECK(seconds({"cluster.device.power.limit='600 W'"}) == a100);
  CHECK_THROWS_AS(small_job({"power.cap=60 W"}), sim::UserError);  // below what stands
}

TEST_CASE("a device whose document says nothing of power has no energy, and takes no cap") {
  const StepReport report = simulate_step(small_job({"cluster.device.power=null"}));
  CHECK_FALSE(report.energy.known);
  CHECK_THROWS_AS(small_job({"cluster.device.power=null", "power.cap=300 W"}), sim::UserError);
}
