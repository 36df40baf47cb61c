// Operations of an iteration that a published implementation computes otherwise than most: routers in fp32, all-reduces
// that are part of a product. See iteration_times.h.
#include <algorithm>
#include <cmath>

#include "workloads/step/iteration_times.h"

namespace orrery::workloads {

/// Of a router in fp32: its rows are written once more by the norm ahead of it, and read in twice their bytes. Products
/// in TF32 have half the rate of those in 16 bits.
IterationTimes::Part IterationTimes::of_router(const ProductOp& op, double rows) const {
  const calibration::DeviceProfile& device = kernels_.device();
  const bool plain = op.in == RouterType::fp32;
  const double flops = 2 * rows * op.n * op.k;
  const double bytes = sizeof(float) * (op.n * op.k + rows * (op.n + 2 * op.k));
  const double cast = sizeof(float) * rows * op.k / device.memory_bandwidth().value();
  const auto whole = [](double x) { return std::max<std::int64_t>(1, std::llround(x)); };
  const double product =
      plain ? sim::to_seconds(device.gemm({calibration::DataType::fp32, whole(rows), whole(op.n), whole(op.k)}))
            : 2 * kernels_.seconds(calibration::ServedProduct{op.type, rows, op.n, op.k});
  const calibration::DataType type = plain ? calibration::DataType::fp32 : calibration::DataType::bf16;
  const double peak = device.peak(type).value() / (plain ? 1 : 2), least = bytes / device.memory_bandwidth().value();
  return {op.name,
          flops / peak > least ? Use::compute : Use::memory,
          cast + product,
          flops,
          bytes,
          std::max(flops / peak, least),
          type};
}

/// Where it is part of the product ahead of it, ranks add up a tile as soon as it is made: what is seen is what takes
/// longer than all waves of tiles but the last, and what the last one sends.
IterationTimes::Part IterationTimes::of_sum(const SumOp& op, const PassRows& pass) const {
  const double bytes = pass.each * op.bytes_each;
  double seconds = all_reduce(op.gpus, bytes, pass.captured);
  if (op.product && replica_.engine.habits.sums == calibration::Sums::in_products) {
    constexpr double kRows = 128, kColumns = 256;
    const double tiles = std::ceil(pass.each / kRows) * std::ceil(op.product->n / kColumns);
    const double waves = std::max(1.0, tiles / static_cast<double>(kernels_.device().processors()));
    const double beside = of_rows(*op.product, pass).seconds * (1 - 1 / waves);
    seconds = std::max(seconds - beside, seconds / waves);
  }
  return {"all-reduce", Use::communication, seconds, 0, bytes};
}

}  // namespace orrery::workloads
