// Laws of what an engine's kernels take.
#include "calibration/serving_kernels.h"

#include "tests/calibration/support.h"
#include "tests/catch.h"

namespace {

using namespace orrery::calibration;
using namespace orrery::calibration_test;

TEST_CASE("an engine's kernels never beat the memory's peak") {
  const DeviceProfile device = profile("h100-sxm-80gb");
  for (const Engine engine : {Engine::trtllm, Engine::vllm, Engine::sglang}) {
    const ServingKernels kernels(device, engine);
    for (const double sequences : {1., 8., 64., 512.})
      for (const double cached : {1., 100., 4096., 100000.}) {
        const double bytes = 2 * sequences * cached * 8 * 128 * 2;
        CHECK(kernels.seconds(DecodeAttention{sequences, sequences * cached, 0, 64, 8, 128, 0, 2}) >=
              bytes / device.memory_bandwidth().value());
      }
    for (const double m : {1., 16., 256.})
      CHECK(kernels.seconds(ServedProduct{WeightType::bf16, m, 8192, 8192}) >=
            2 * 8192. * 8192 / device.memory_bandwidth().value());
  }
}

TEST_CASE("nothing to do takes an engine's kernels no time") {
  const ServingKernels kernels(profile("h100-sxm-80gb"), Engine::vllm);
  CHECK(kernels.seconds(DecodeAttention{0, 0}) == 0);
  CHECK(kernels.seconds(ServedProduct{WeightType::bf16, 0, 1, 1}) == 0);
  CHECK(kernels.seconds(ServedAllReduce{1, 1e6}) == 0);
  CHECK(kernels.seconds(PrefillAttention{{}, 8, 8, 128}) == 0);
}

}  // namespace
