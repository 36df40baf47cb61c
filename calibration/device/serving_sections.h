// Documents of engines' kernels, calibration/serving/<device>.yaml: read and written. Private to this room.
//
//   engines:
//     vllm:
//       decode-attention:
//         bf16:
//           provenance: ...
//           error: {samples, median_pct, p90_pct, held_out, held_out_median_pct, held_out_p90_pct}
//           launch: 6.1 us
//           ...
//           correction: {tasks: [...], keys: [...], per_mille: '12 -3 ...'}   # ln(time / structure), row-major
#pragma once

#include <memory>
#include <string>

#include "calibration/device/optimise.h"
#include "calibration/device/serving_model.h"

namespace orrery::calibration {

/// `document` null: all is assumed. Throws sim::UserError naming the place.
std::shared_ptr<const ServingKernels::Model> load_serving(const DeviceProfile& device, Engine engine,
                                                          const sim::Settings* document);

/// How well a kernel's fit holds: on all samples, and on those held out of a fit on the others.
struct ServingError {
  FitError all, held_out;
};
/// The kernel as a mapping, indented by `indent`, without its own key.
std::string to_yaml(const ServingKernel& kernel, const ServingError& error, const std::string& provenance, int indent);

}  // namespace orrery::calibration
