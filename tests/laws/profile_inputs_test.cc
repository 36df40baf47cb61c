// Every number of a device profile counts: changed by a fifth, it moves what the profile answers or is refused.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "calibration/device/profile.h"
#include "scenarios/scenario.h"
#include "tests/catch.h"

using namespace orrery;

namespace {

/// What a device profile answers over a spread of kernels and collectives, as one list of picoseconds.
std::vector<std::int64_t> kernel_times(const calibration::DeviceProfile& device) {
  using namespace calibration;
  std::vector<std::int64_t> times;
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    if (!device.has(type)) continue;
    for (const std::int64_t n : {64, 512, 2048, 8192}) {
      for (const std::int64_t k : {64, 1024, 16384, 131072}) {
        Gemm shape{type, n, n, k};
        times.push_back(device.gemm(shape).value());
        shape.accumulate = true;
        times.push_back(device.gemm(shape).value());
        for (const auto form : {Gemm::Form::data_gradient, Gemm::Form::weight_gradient}) {
          shape.form = form;
          times.push_back(device.gemm(shape).value());
        }
      }
    }
  }
  for (const std::int64_t head_dim : {64, 128, 160}) {
    for (const std::int64_t s : {128, 2048, 16384}) {
      for (const std::int64_t heads : {1, 32}) {
        times.push_back(device.attention({DataType::bf16, 1, s, s, heads, heads, head_dim}).value());
        times.push_back(device.attention({DataType::bf16, 1, s, s, heads, heads, head_dim, true, 0, true}).value());
        for (const bool backward : {false, true}) {
          Attention first{DataType::bf16, 1, s, s, heads, heads, head_dim, true, 0, backward};
          first.kernel = AttentionKernel::flash_1;
          first.dropout = true;
          times.push_back(device.attention(first).value());
          first.kernel = AttentionKernel::flash_2;
          times.push_back(device.attention(first).value());
          first.kernel = AttentionKernel::fused_fp8;
          times.push_back(device.attention(first).value());
          first.kernel = AttentionKernel::fused_2026;
          times.push_back(device.attention(first).value());
          first.kernel = AttentionKernel::fused;
          times.push_back(device.attention(first).value());
        }
      }
    }
  }
  for (int kernel = 0; kernel <= static_cast<int>(Streaming::gradient_norm); ++kernel) {
    for (const double bytes : {1e3, 1e9})
      times.push_back(device.streaming(static_cast<Streaming>(kernel), bytes).value());
  }
  for (int op = 0; op <= static_cast<int>(CollectiveOp::send_receive); ++op) {
    for (const std::int64_t gpus : {2, 3, 4, 5, 6, 7, 8}) {
      for (std::int64_t bytes = 1024; bytes < (1LL << 33); bytes *= 4) {
        times.push_back(device.node_collective(static_cast<CollectiveOp>(op), gpus, sim::Bytes(bytes)).total().value());
      }
    }
  }
  return times;
}

void scalars(const sim::Settings& node, const std::string& path, std::map<std::string, std::string>& out) {
  if (node.is_scalar()) out[path] = node.text();
  for (const auto& [name, member] : node.members()) scalars(member, path.empty() ? name : path + "." + name, out);
}

}  // namespace

TEST_CASE("every number of a device's kernel-time model moves some kernel's time") {
  const std::vector<const char*> kernels{"gemm", "attention", "attention_kernels", "streaming", "collectives"};
  const std::vector<std::pair<const char*, std::vector<const char*>>> profiles{
      {"a100-sxm-80gb", kernels}, {"h100-sxm-80gb", kernels}, {"b200-sxm-180gb", {"mxfp8_products"}}};
  for (const auto& [name, sections] : profiles) {
    const sim::Settings profile =
        scenarios::read_yaml(scenarios::data_directory() + "/calibration/profiles/" + name + ".yaml");
    const auto times = kernel_times(calibration::DeviceProfile::load(profile));
    std::map<std::string, std::string> numbers;
    for (const char* section : sections) {
      if (const sim::Settings* found = profile.find(section)) scalars(*found, section, numbers);
    }
    CHECK(numbers.size() > (sections.size() > 1 ? 20 : 2));
    for (const auto& [path, text] : numbers) {
      if (path.find("provenance") != std::string::npos || path.find(".error") != std::string::npos) continue;
      // What the published tables time beside the kernel: only the comparison with such tables reads it.
      if (path.find(".cache_") != std::string::npos || path.find(".cast_") != std::string::npos) continue;
      std::size_t end = 0;
      double value = 0;
      try {
        value = std::stod(text, &end);
      } catch (const std::exception&) {
        continue;
      }
      if (value == 0) continue;
      INFO(name << " " << path << " = " << text);
      sim::Settings changed = profile;
      const double scaled = value * 0.8;
      const bool whole = value >= 2 && value == std::floor(value) && end == text.size();
      const std::string number =
          whole ? fmt::format("{}", static_cast<std::int64_t>(value) - 1) : fmt::format("{:.9g}", scaled);
      changed.set_path(path, sim::Settings::scalar(number + text.substr(end), {"--set", 0, 0}));
      try {
        const bool moved = kernel_times(calibration::DeviceProfile::load(changed)) != times;
        CHECK(moved);
      } catch (const sim::UserError& error) {
        SUCCEED(error.what());  // refused with a reason is fine too
      }
    }
  }
}
