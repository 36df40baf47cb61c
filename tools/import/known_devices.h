// The shipped devices by the words with which recipes and result logs name them, and what usually joins their nodes.
#pragma once
#include <cstdint>
#include <string_view>

namespace orrery::tools {

struct KnownDevice {
  const char* word;    // in lower case
  const char* device;  // a shipped device
  std::int64_t per_node;
};

/// The device that a name states, in any case and beside digits, as 16xXE9680x8H100-SXM-80GB or ..._256gpu_gb200_fp8mx;
/// null: none. GB200 states no B200.
const KnownDevice* device_in(std::string_view name);

/// The device of a cloud's type of machine ("p5.48xlarge", "a3-megagpu-8g"), or that a name states; null: none.
const KnownDevice* device_of_instance(std::string_view type);

/// A shipped fabric that clusters of a shipped device are usually built with, an assumption to be said; NDR InfiniBand
/// by rails where nothing else is known.
std::string_view usual_fabric(std::string_view device);

}  // namespace orrery::tools
