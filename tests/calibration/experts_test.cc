// Layers of experts as tables time them: routing, the parts of the time, tables and their fits.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "calibration/device/expert_layer.h"
#include "calibration/device/routing.h"
#include "calibration/measure/fit.h"
#include "calibration/measure/fit_profile.h"
#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"
#include "tests/skipped.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::sim::UserError;

std::int64_t sum(const std::vector<std::int64_t>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
}

constexpr const char* kHeader = "dtype,tokens,hidden,expert_ffn,top_k,experts,moe_tp,moe_ep,distribution,ms\n";

Samples read(const std::string& rows) {
  const auto file =
      std::filesystem::temp_directory_path() / ("orrery_experts_" + std::to_string(std::hash<std::string>{}(rows)));
  std::ofstream(file) << kHeader << rows;
  try {
    Samples out = read_samples(file.string());
    std::filesystem::remove(file);
    return out;
  } catch (const UserError&) {
    std::filesystem::remove(file);
    throw;
  }
}

std::string refusal(const std::string& rows) {
  try {
    read(rows);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

/// Kernels that start at once and reach all of a memory of so many bytes/s, on a device of 100 TFLOP/s.
GroupedModel on_100_processors(double bandwidth) {
  GroupedModel products;
  products.peak = 100e12;
  products.processors = 100;
  products.memory_bandwidth = bandwidth;
  products.memory_efficiency = 1;
  products.launch = 0;
  return products;
}

}  // namespace

TEST_CASE("balanced routing gives every expert its share") {
  // 1024 tokens, 8 of 64 experts: 128 each. One rank of eight holds eight of them.
  CHECK(tokens_of_experts({1024, 8, 64, 1}, 0) == std::vector<std::int64_t>(64, 128));
  CHECK(tokens_of_experts({1024, 8, 64, 8}, 0) == std::vector<std::int64_t>(8, 128));
  // Fewer tokens than a cycle: four tokens choose 4 of 64 experts, 16 apart, and each is chosen once or not at all.
  const auto few = tokens_of_experts({4, 4, 64, 1}, 0);
  CHECK(sum(few) == 16);
  CHECK(*std::max_element(few.begin(), few.end()) == 1);
  CHECK_THROWS(tokens_of_experts({4, 4, 64, 3}, 0));
  CHECK_THROWS(tokens_of_experts({4, 65, 64, 1}, 0));
}

TEST_CASE("a power law's draws keep every choice, load one rank most, and give no expert a token twice") {
  for (std::uint64_t draw = 0; draw < 8; ++draw)
    for (double alpha : {1.01, 1.2}) {
      CHECK(sum(tokens_of_experts({4096, 8, 128, 1, alpha}, draw)) == 4096 * 8);
      const auto all = tokens_of_experts({4096, 8, 128, 1, alpha}, draw);
      CHECK(*std::max_element(all.begin(), all.end()) > 2 * 256);  // twice the mean at least
      // The rank that is looked at has at least the mean.
      CHECK(sum(tokens_of_experts({4096, 8, 128, 8, alpha}, draw)) >= 4096);
      // Two of eight experts: nobody gets more than all tokens.
      const auto two = tokens_of_experts({1000, 2, 8, 1, alpha}, draw);
      CHECK(*std::max_element(two.begin(), two.end()) <= 1000);
      CHECK(sum(two) == 2000);
      CHECK(tokens_of_experts({4096, 8, 128, 8, alpha}, draw) == tokens_of_experts({4096, 8, 128, 8, alpha}, draw));
    }
  CHECK(tokens_of_experts({4096, 8, 128, 1, 1.2}, 0) != tokens_of_experts({4096, 8, 128, 1, 1.2}, 1));
}

TEST_CASE("what a power law deals beyond one of each token goes to all ranks, in older tables to the fullest one") {
  bool more = false, fewer = false;
  for (std::uint64_t draw = 0; draw < 32; ++draw) {
    const auto tokens = [&](std::int64_t ranks, Beyond beyond) {
      return tokens_of_experts({1000, 2, 8, ranks, 1.2, beyond}, draw);
    };
    // On one rank nothing is lost either way; the experts of the fewest tokens get more where they are looked for.
    const auto all = tokens(1, Beyond::all_ranks), own = tokens(1, Beyond::own_rank);
    CHECK(sum(all) == 2000);
    CHECK(sum(own) == 2000);
    const std::int64_t least = *std::min_element(all.begin(), all.end());
    CHECK(least + 1 >= *std::min_element(own.begin(), own.end()));  // rounding falls otherwise
    CHECK(*std::max_element(all.begin(), all.end()) <= 1000);
    more = more || least > *std::min_element(own.begin(), own.end()) + 10;
    // The fullest of four ranks keeps a quarter of it in place of all, but for the rounding of eight loads.
    const std::int64_t shared = sum(tokens(4, Beyond::all_ranks)), kept = sum(tokens(4, Beyond::own_rank));
    CHECK(shared <= kept + 8);
    CHECK(shared >= 500);
    fewer = fewer || shared + 50 < kept;
  }
  CHECK(more);
  CHECK(fewer);
}

TEST_CASE("tokens by chance are those of the binomial law") {
  // One token of one in four: six of eight experts have none. Two tokens, each of every second: a quarter, half,
  // quarter.
  CHECK(tokens_by_chance(1, 0.25) == std::vector<double>{0, 0, 0, 0, 0, 0, 1, 1});
  CHECK(tokens_by_chance(2, 0.5) == std::vector<double>{0, 0, 1, 1, 1, 1, 2, 2});
  CHECK(tokens_by_chance(300, 1) == std::vector<double>(8, 300));
  // Of many tokens the normal law: of eight parts the middle ones lie 1.534 and 0.157 spreads off the mean.
  const std::vector<double> many = tokens_by_chance(8192, 0.25);
  const double spread = std::sqrt(8192 * 0.25 * 0.75);
  CHECK(many.front() == Approx(2048 - 1.534 * spread).margin(1));
  CHECK(many[4] == Approx(2048 + 0.157 * spread).margin(1));
  CHECK(many.back() == Approx(2048 + 1.534 * spread).margin(1));
}

TEST_CASE("loads of ranks are those of their experts, one in the mean") {
  CHECK(loads_of_ranks({4096, 8, 128, 4}, 0) == std::vector<double>(4, 1.0));
  CHECK(busiest_rank({4096, 8, 128, 4}) == 1);
  CHECK(busiest_rank({4096, 8, 128, 1, 1.2}) == 1);  // one rank has them all
  for (std::uint64_t draw = 0; draw < 8; ++draw) {
    const Routing routing{4096, 8, 128, 4, 1.2};
    const std::vector<double> loads = loads_of_ranks(routing, draw);
    REQUIRE(loads.size() == 4);
    CHECK(std::accumulate(loads.begin(), loads.end(), 0.0) == Approx(4));
    // An expert cannot take more than one of each token: no rank more than its 32 experts' times 4096.
    for (const double load : loads) CHECK(load <= 32 * 4096 / (4096 * 8 / 4.0));
    CHECK(loads == loads_of_ranks(routing, draw));
  }
  // A steeper law loads one rank more, and so do more ranks with fewer experts each.
  CHECK(busiest_rank({4096, 8, 128, 4, 1.2}) > busiest_rank({4096, 8, 128, 4, 0.6}));
  CHECK(busiest_rank({4096, 8, 128, 16, 1.2}) > busiest_rank({4096, 8, 128, 4, 1.2}));
}

TEST_CASE("results that are added to memory's expose what they move beyond others, and no more") {
  GroupedModel model = on_100_processors(1e15);  // memory that never binds
  model.tiles = {{128, 128, 1.0, 0}};
  const std::vector<GroupMember> group{{256, 512, 4096, 6}, {128, 512, 4096, 2}};
  const double results = 6 * 256 * 512.0 + 2 * 128 * 512.0, plain = model.structure(group);
  CHECK(model.structure(group, 8) == Approx(plain).epsilon(1e-6));
  model.accumulate_exposed = 0.5;
  CHECK(model.structure(group) == plain);
  CHECK(model.structure(group, 8) - plain == Approx(0.5 * 6 * results / 1e15).epsilon(1e-3));
  CHECK(grouped_from(GemmModel{}).accumulate_exposed == GemmModel{}.accumulate_exposed);
}

TEST_CASE("weight gradients of one expert on streams take about as long as that product by itself") {
  const DeviceProfile device = profile("b200-sxm-180gb");
  for (const std::int64_t tokens : {2048, 8192, 32768}) {
    GroupedGemm grouped;
    grouped.out = 4096;
    grouped.in = 7168;
    grouped.tokens = {tokens};
    grouped.form = Gemm::Form::weight_gradient;
    grouped.accumulate = true;
    grouped.kernel = GroupedKernel::streams;
    Gemm one;
    one.m = 4096;
    one.n = 7168;
    one.k = tokens;
    one.form = grouped.form;
    one.accumulate = true;
    CHECK(to_seconds(device.grouped_gemm(grouped)) == Approx(to_seconds(device.gemm(one))).epsilon(0.2));
  }
}

TEST_CASE("the time of a layer of experts is that of its two products and of what moves around them") {
  GroupedModel products = on_100_processors(1e12);
  products.tiles = {{128, 128, 1.0, 0}};
  ServedExperts around;
  around.fixed = 20e-6;
  around.choice = 1e-9;
  around.score = 1e-11;
  around.expert = 2e-9;
  around.gather = around.activate = around.scatter = 0.5;
  ExpertLayer l;
  l.tokens = 1024;
  l.hidden = 1024;
  l.ffn = 512;
  l.top_k = 2;
  l.experts = 16;
  l.expert_ranks = 4;
  const ExpertWork work(l);
  // A quarter of 2048 choices is this rank's: 512 rows over four experts.
  CHECK(work.rows() == Approx(128));
  CHECK(work.flops() == Approx(2.0 * 512 * 1024 * (2 * 512 + 512)));
  const ExpertWork::Parts parts = work.parts(products, around);
  const std::vector<GroupMember> first{{128, 1024, 1024, 4}}, second{{128, 1024, 512, 4}};
  CHECK(parts.first == Approx(products.structure(first)));
  CHECK(parts.second == Approx(products.structure(second)));
  const double moved = 512.0 * 1024 * 4 + 512.0 * (1024 * 2 + 512 * 2) + (512.0 + 1024) * 1024 * 2;
  CHECK(parts.around == Approx(20e-6 + 2048e-9 + 1024 * 16 * 1e-11 + 4 * 2e-9 + moved / 0.5e12));
  CHECK(work.seconds(products, around) == Approx(parts.total));
  // 1024 tokens are more than one block sorts, in whatever number they choose; three choices it never sorts.
  ServedExperts more = around;
  more.sort = 3e-6;
  more.unfused = 30e-6;
  more.unfused_token = 10e-9;
  const auto added = [&](std::int64_t tokens, std::int64_t top_k, std::int64_t experts) {
    ExpertLayer other = l;
    other.tokens = tokens;
    other.top_k = top_k;
    other.experts = experts;
    const ExpertWork its(other);
    return its.parts(products, more).around - its.parts(products, around).around;
  };
  CHECK(added(1024, 2, 16) == Approx(3e-6));
  CHECK(added(256, 2, 16) == Approx(0).margin(1e-12));
  CHECK(added(256, 3, 16) == Approx(3e-6));
  // 22 choices, or experts beyond 512, are chosen by kernels one after another.
  CHECK(added(256, 22, 512) == Approx(3e-6 + 30e-6 + 256 * 10e-9));
  CHECK(added(256, 16, 512) == Approx(3e-6));
  CHECK(added(256, 8, 1024) == Approx(30e-6 + 256 * 10e-9));
  // Without a gate the first product and what the activation reads are half as wide.
  l.gated = false;
  CHECK(ExpertWork(l).flops() == Approx(2.0 * 512 * 1024 * (512 + 512)));
}

TEST_CASE("a layer runs the tiles that were timed for the last power of two of its tokens") {
  GroupedModel products = on_100_processors(1e18);
  products.quantisation = 1;
  products.tiles = {{64, 128, 0.5, 0}, {128, 128, 2 / 3.0, 0}};
  ExpertLayer l;
  l.hidden = l.ffn = 384;
  l.gated = false;
  const double small = 2 * 64 * 128 * 384 / 0.5e12, large = 1.5 * small;
  const auto first = [&](std::int64_t tokens, DataType type) {
    l.tokens = tokens;
    l.dtype = type;
    return ExpertWork(l).parts(products, {}).first;
  };
  // One expert, three columns of tiles: 2048 tokens are 96 small ones or 48 large, 4095 are two waves or one, and so
  // are 4096, for which the tuner looked. Kernels by blocks have none.
  CHECK(first(2048, DataType::bf16) == Approx(small));
  CHECK(first(4095, DataType::bf16) == Approx(2 * small));
  CHECK(first(4096, DataType::bf16) == Approx(large));
  CHECK(first(4095, DataType::fp8_blockwise) == Approx(large));
  // It looks no further than 8192. Of one column these are two waves of small tiles or one of large ones, 16384 three
  // or two, and three small ones would be faster.
  l.ffn = 128;
  products.tiles[1].rate = 0.625;
  CHECK(first(8192, DataType::bf16) == Approx(1.6 * small));
  CHECK(first(16384, DataType::bf16) == Approx(2 * 1.6 * small));
  CHECK(first(16384, DataType::fp8_blockwise) == Approx(3 * small).epsilon(0.01));  // large ones are nearly as likely
}

TEST_CASE("tables of experts are read") {
  const Samples s = read(
      "bfloat16,256,4096,1536,8,128,1,4,power_law_1.2,0.5\n"
      "nvfp4,256,4096,2048,8,256,1,1,balanced,0.25\n"
      "nvfp4,256,4096,2048,8,256,1,1,balanced,0.5\n"
      "fp8,256,2688,1856,6,128,2,1,balanced,0.5\n");
  REQUIRE(s.experts.size() == 3);
  CHECK(s.faster_twins == 1);
  CHECK(s.experts[0].shape.alpha == Approx(1.2));
  // A table of more than 16384 tokens is older, and deals otherwise.
  CHECK(s.experts[0].shape.beyond == Beyond::all_ranks);
  const Samples older = read(
      "bfloat16,256,4096,1536,8,128,1,4,power_law_1.2,0.5\n"
      "bfloat16,20480,4096,1536,8,128,1,4,power_law_1.2,0.5\n");
  for (const ExpertSample& e : older.experts) CHECK(e.shape.beyond == Beyond::own_rank);
  CHECK(s.experts[0].shape.expert_ranks == 4);
  CHECK(s.experts[0].shape.gated);
  CHECK(s.experts[0].seconds == Approx(0.5e-3));
  CHECK(s.experts[1].seconds == Approx(0.5e-3));
  CHECK_FALSE(s.experts[2].shape.gated);
  CHECK(refusal("bf16,256,4096,1536,8,128,1,3,balanced,0.5\n").find(":2:8: moe_ep: got 3") != std::string::npos);
  CHECK(refusal("bf16,256,4096,1536,8,128,1,1,random,0.5\n").find("distribution: got 'random'") != std::string::npos);
  CHECK(refusal("bf16,256,4096,1536,200,128,1,1,balanced,0.5\n").find("top_k") != std::string::npos);
  CHECK(refusal("bf16,256,4096,16,8,128,32,1,balanced,0.5\n").find("moe_tp") != std::string::npos);
}

TEST_CASE("a layer whose tuner's file another one may have written does not count as tuned") {
  const auto tuned = [](const std::string& rows) {
    std::vector<bool> out;
    for (const ExpertSample& s : read(rows).experts) out.push_back(s.tuned);
    return out;
  };
  // Two models of 512 wide parts and 16 experts a rank; a third has 32 experts a rank, and a file of its own.
  CHECK(tuned("bfloat16,256,4096,1024,10,512,2,32,balanced,0.5\n"
              "bfloat16,256,4096,2048,8,256,4,16,balanced,0.5\n"
              "bfloat16,256,4096,2048,8,256,4,8,balanced,0.5\n"
              "fp8,256,4096,2048,8,256,4,16,balanced,0.5\n") == std::vector<bool>{false, false, true, true});
  // Other tokens and other routing of one model share a file rightly.
  CHECK(tuned("bfloat16,256,4096,2048,8,256,4,16,balanced,0.5\n"
              "bfloat16,512,4096,2048,8,256,4,16,power_law_1.2,0.5\n") == std::vector<bool>{true, true});
  // The name for one expert a rank is the beginning of that for sixteen, not the other way round.
  CHECK(tuned("bfloat16,256,4096,2048,8,256,4,16,balanced,0.5\n"
              "bfloat16,256,4096,2048,8,256,4,256,balanced,0.5\n") == std::vector<bool>{true, false});
  // Two kernels of one layer share a name; products in fp8 by blocks have no tuner.
  CHECK(tuned("nvfp4,256,4096,2048,8,256,1,1,balanced,0.25\n"
              "nvfp4,256,4096,2048,8,256,1,1,balanced,0.5\n"
              "nvfp4,512,4096,2048,8,256,1,4,balanced,0.5\n") == std::vector<bool>{false, false});
  CHECK(tuned("fp8_block,256,4096,2048,8,256,4,16,balanced,0.5\n"
              "fp8_block,256,4096,2048,8,256,4,256,balanced,0.5\n") == std::vector<bool>{true, true});
}

TEST_CASE("published layers of experts are predicted within bounds, but for those that may not have been tuned",
          "[full-size]") {
  struct Device {
    const char *table, *profile;
  };
  for (const Device& device : {Device{"moe-a100-sxm", "a100-sxm-80gb"}, Device{"moe-h100-sxm", "h100-sxm-80gb"},
                               Device{"moe-h200-sxm", "h200-sxm-141gb"}, Device{"moe-b200-sxm", "b200-sxm-180gb"},
                               Device{"moe-gb200", "gb200"}}) {
    const std::string file = table(device.table);
    if (file.empty()) {
      orrery::tests::skipped(std::string("no ../shared/measured/") + device.table + ": experts are not checked on it");
      return;
    }
    const DeviceProfile p = profile(device.profile).isolated();
    const std::vector<ExpertSample> samples = read_samples(file).experts;
    std::map<DataType, std::vector<double>> relative;
    constexpr double kLong = 1.5;  // times the prediction, which no tuned product takes
    std::map<bool, std::size_t> rows, long_rows;
    for (std::size_t i = 0; i < samples.size(); i += 7) {
      const double time = orrery::sim::to_seconds(p.served_experts(samples[i].shape));
      ++rows[samples[i].tuned];
      if (samples[i].seconds > kLong * time) ++long_rows[samples[i].tuned];
      if (samples[i].tuned) relative[samples[i].shape.dtype].push_back(time / samples[i].seconds - 1);
    }
    CAPTURE(device.table, rows, long_rows);
    CHECK(long_rows[true] <= rows[true] / 50);
    // Had the collector's names nothing to do with it, both would have as many (A100's have none).
    if (rows[false] > 100 && device.table != std::string("moe-a100-sxm"))
      CHECK(long_rows[false] * rows[true] > 5 * long_rows[true] * rows[false]);
    for (const auto& [type, errors] : relative) {
      CAPTURE(device.profile, name_of(type));
      CHECK(summarise(errors).median_ape < (type == DataType::nvfp4 ? 11 : 7));
    }
  }
}
