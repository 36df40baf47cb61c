// The shipped devices by the words with which recipes and result logs name them.
#pragma once
#include <cstdint>
#include <string_view>

namespace orrery::tools {

struct KnownDevice {
  const char* word;    // in lower case
  const char* device;  // a shipped device
  const char* fabric;  // a shipped fabric that nodes of it usually stand in
  std::int64_t per_node;
};

/// The device that a name states, in any case and beside digits, as 16xXE9680x8H100-SXM-80GB or ..._256gpu_gb200_fp8mx;
/// null: none. GB200 states no B200.
const KnownDevice* device_in(std::string_view name);

}  // namespace orrery::tools
