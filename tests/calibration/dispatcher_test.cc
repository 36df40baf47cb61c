// Tokens to experts and back: what is counted, what the time is made of, documents, and tables where they exist.
#include "calibration/device/dispatcher.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "calibration/measure/fit_exchange.h"
#include "sim/error.h"
#include "tests/calibration/support.h"
#include "tests/catch.h"
#include "tests/skipped.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;
using orrery::sim::UserError;

Dispatcher dispatcher(const std::string& name) {
  namespace scenarios = orrery::scenarios;
  return Dispatcher::load(
      scenarios::resolve(scenarios::shelf_of("dispatchers"), orrery::sim::Settings::scalar(name, {"test", 1, 1}))
          .document);
}

/// A kernel whose every part can be worked out by hand.
ExchangeKernel simple_kernel() {
  ExchangeKernel k;
  k.fixed = 10e-6;
  k.processor.token = 1e-6;
  k.processor.copy = 2e-6;
  k.share = {0.5};
  k.exponent = 100;  // the longer of the two
  return k;
}

std::string refusal(const std::string& text) {
  try {
    Dispatcher::load(orrery::scenarios::parse_yaml(text, "d.yaml"));
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

constexpr const char* kHead = "name: d\nprocessors: 20\nkernels:\n  - {device: x, pass: dispatch, reach: domain, ";

}  // namespace

TEST_CASE("distinct groups of random choices") {
  // One choice is in one group. All experts are in all groups. Two of four experts in two groups: the second is in the
  // other group in two of three cases.
  CHECK(distinct_groups(8, 1, 256) == Approx(1));
  CHECK(distinct_groups(8, 256, 256) == Approx(8));
  CHECK(distinct_groups(2, 2, 4) == Approx(1 + 2.0 / 3));
  CHECK(distinct_groups(4, 3, 4) == Approx(3));  // an expert each: choices differ, so groups do
  CHECK_THROWS(distinct_groups(8, 1, 4));
}

TEST_CASE("an even exchange counts ranks and nodes, and keeps to a limit of nodes") {
  const TokenExchange all = even_exchange(100, 1000, 8, 256, 64, 8);
  CHECK(all.copies == Approx(distinct_groups(64, 8, 256)));
  CHECK(all.reached == Approx(distinct_groups(8, 8, 256)));
  const TokenExchange four = even_exchange(100, 1000, 8, 256, 64, 8, 4);
  CHECK(four.reached == Approx(distinct_groups(4, 8, 128)));
  CHECK(four.reached < all.reached);
  CHECK(four.copies == Approx(distinct_groups(32, 8, 128)));
  CHECK(even_exchange(100, 1000, 8, 256, 8, 1).reached == Approx(1));
}

TEST_CASE("the longer of processors and links, after a fixed part") {
  const ExchangeKernel k = simple_kernel();
  TokenExchange e{1000, 1000, 4, 1, 8, 1, 10};
  // 1000 tokens of 1 us and 4 copies of 2 us on 10 SMs: 900 us. Links carry 4 * 7/8 MB.
  CHECK(k.processor_seconds(e) == Approx(900e-6));
  CHECK(k.link_bytes(e) == Approx(3.5e6));
  CHECK(k.alone(e, 1e12) == Approx(910e-6));
  // At half of 1 GB/s they take 7 ms, which the SMs hide behind.
  CHECK(k.alone(e, 1e9) == Approx(7e-3 + 10e-6));
  // Twice the SMs, half their time.
  e.processors = 20;
  CHECK(k.alone(e, 1e12) == Approx(460e-6));
}

TEST_CASE("between nodes a row crosses once for each node") {
  ExchangeKernel k = simple_kernel();
  k.network = true;
  k.processor.token = k.processor.copy = 0;
  k.node = 5e-6;
  k.fill_rows = 64;
  k.fill_rate = 1e9;
  k.processor.network_rate = 1e9;
  k.sizes = {2, 8};
  k.share = {1.0, 0.4};
  TokenExchange e{1000, 1000, 6, 2, 32, 4, 10};
  // 2 nodes of 4, so 1.5 of them away: 1.5 MB over a NIC. Halfway between 2 and 8 nodes (in the logarithm): 0.7.
  CHECK(k.link_bytes(e) == Approx(1.5e6));
  CHECK(k.link_share(e) == Approx(0.7));
  CHECK(k.processor_seconds(e) == Approx(1000 * 2 * 1e-6 / 10));
  // Four nodes of 5 us, and 64 rows of 1 kB at 1 GB/s before the first is through.
  CHECK(k.latency(e) == Approx(10e-6 + 20e-6 + 64e-6));
  CHECK(k.alone(e, 1e8) == Approx(k.latency(e) + 1.5e6 / 0.7e8));
}

TEST_CASE("more tokens, more choices and fewer SMs are never faster, with every shipped kernel") {
  for (const std::string& name : names_in("calibration/dispatchers")) {
    const Dispatcher d = dispatcher(name);
    for (const std::string& device : names_in("calibration/profiles"))
      for (const ExchangePass pass : {ExchangePass::dispatch, ExchangePass::combine})
        for (const double nodes : {1.0, 2.0, 4.0}) {
          const ExchangeKernel* k = d.kernel(device, pass, nodes > 1);
          if (k == nullptr) continue;
          CAPTURE(name, device, nodes, k->device);
          const auto time = [&](double tokens, double top_k, double processors) {
            TokenExchange e = even_exchange(tokens, 7168, top_k, 256, 8 * nodes, nodes);
            e.processors = processors;
            return k->alone(e, nodes > 1 ? 50e9 : 450e9);
          };
          const double sms = d.processors();
          CHECK(time(4096, 8, sms) > time(2048, 8, sms));
          CHECK(time(4096, 8, sms) > time(4096, 4, sms));
          CHECK(time(4096, 8, sms) <= time(4096, 8, sms / 2));
          CHECK(time(1, 1, sms) >= k->fixed);
          // Links are the bound that no number of SMs helps against.
          const TokenExchange e = even_exchange(65536, 7168, 8, 256, 8 * nodes, nodes);
          CHECK(time(65536, 8, 1e6) >= k->link_bytes(e) / (nodes > 1 ? 50e9 : 450e9));
        }
  }
}

TEST_CASE("a device without measurements takes the kernels of the one that stands in for it") {
  const Dispatcher d = dispatcher("deepep");
  const auto device_of = [&](const char* name, bool network) {
    return d.kernel(name, ExchangePass::dispatch, network)->device;
  };
  CHECK(device_of("h200-sxm-141gb", false) == "h200-sxm");
  CHECK(device_of("gh200-96gb", false) == "h200-sxm");
  CHECK(device_of("h800-sxm-80gb", true) == "h100-sxm");
  CHECK(device_of("b200-sxm-180gb", false) == "b200-sxm");
  CHECK(device_of("b200-sxm-180gb", true) == "h200-sxm");
  CHECK(d.measured("gh200-96gb", ExchangePass::dispatch, false) == nullptr);
  CHECK(dispatcher("nvlink-one-sided").kernel("gb200", ExchangePass::dispatch, true) == nullptr);
}

TEST_CASE("documents of dispatchers are checked") {
  const std::string head = kHead;
  CHECK(refusal(head + "sizes: [8], share: [0.7]}\n").empty());
  CHECK(refusal(head + "sizes: [8, 4], share: [0.7, 0.6]}\n").find("more than the one before it") != std::string::npos);
  CHECK(refusal(head + "sizes: [8], share: [0.7, 0.6]}\n").find("share") != std::string::npos);
  CHECK(refusal(head + "sizes: [8], share: [7]}\n").find("d.yaml:4:") != std::string::npos);
  CHECK(refusal(head + "sizes: [8], share: [0.7], speed: 3}\n").find("speed") != std::string::npos);
}

TEST_CASE("a fit gives back the kernel that made the times") {
  ExchangeKernel truth = simple_kernel();
  truth.fill_rate = 2e9;
  truth.processor.token = 3e-7;
  truth.processor.copy = 6e-8;
  truth.processor.source_rate = 50e9;
  truth.processor.copy_rate = 30e9;
  truth.sizes = {8};
  truth.share = {0.7};
  truth.exponent = 4;
  std::vector<ExchangeSample> samples;
  for (double tokens : {8., 128., 1024., 8192., 65536.})
    for (double hidden : {2048., 4096., 7168.})
      for (double top_k : {1., 4., 8.})
        for (double processors : {4., 12., 24.}) {
          ExchangeSample s{"deepep", "x", ExchangePass::dispatch, even_exchange(tokens, hidden, top_k, 256, 8, 1), 0};
          s.shape.processors = processors;
          s.seconds = truth.alone(s.shape, 450e9);
          samples.push_back(s);
        }
  const FitError error = judge_exchange({"x", ExchangePass::dispatch, false, true, 450e9}, samples);
  CHECK(error.samples == samples.size());
  CHECK(error.median_ape < 1);
  CHECK(error.p90_ape < 3);
}

TEST_CASE("exchanges as published tables time them") {
  const std::map<std::string, double> links{{"h100-sxm", 450e9}, {"h200-sxm", 450e9}, {"b200-sxm", 900e9},
                                            {"b300-sxm", 900e9}, {"gb200", 900e9},    {"gb300", 900e9}};
  for (const char* name : {"deepep-normal", "gb200-alltoall"}) {
    const std::string file = table(name);
    if (file.empty()) {
      orrery::tests::skipped(std::string("no ../shared/measured/") + name +
                             ": exchanges of tokens are not checked on it");
      return;
    }
    std::map<std::string, std::vector<double>> relative;
    for (const ExchangeSample& s : read_samples(file).exchange) {
      static const Dispatcher deepep = dispatcher("deepep"), one_sided = dispatcher("nvlink-one-sided");
      const bool network = s.shape.nodes > 1;
      const ExchangeKernel* k = (s.library == "deepep" ? deepep : one_sided).measured(s.device, s.pass, network);
      REQUIRE(k != nullptr);
      const double time = k->alone(s.shape, network ? 50e9 : links.at(s.device));
      relative[s.library + s.device + (s.pass == ExchangePass::combine ? " combine" : " dispatch") +
               (network ? " nodes" : "")]
          .push_back(time / s.seconds - 1);
    }
    CHECK(relative.size() == (name == std::string("deepep-normal") ? 16 : 2));
    for (const auto& [what, errors] : relative) {
      CAPTURE(what);
      CHECK(summarise(errors).median_ape < 8);
    }
  }
}
