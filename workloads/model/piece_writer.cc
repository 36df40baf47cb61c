// Kernels with their times, and where pieces end. See piece_writer.h.
#include "workloads/model/piece_writer.h"

#include <algorithm>
#include <cmath>

namespace orrery::workloads {

namespace {

/// Rows of a linear layer's matrices are its widths long; 16-bit ones begin at 16 bytes if these are multiples of
/// eight.
double rate_of_16_bit(const calibration::Gemm& shape, const calibration::GemmRates& rates) {
  constexpr std::int64_t kAligned = 8;
  const bool aligned = shape.m % kAligned == 0 && shape.n % kAligned == 0 && shape.k % kAligned == 0;
  return rates.of_library * (aligned ? 1 : rates.misaligned);
}

/// Over that with one scale: the same while sums are short, and along the logarithm of their length down to its own.
double rate_with_scales_of_rows(const calibration::Gemm& shape, const calibration::GemmRates& rates) {
  if (shape.form != calibration::Gemm::Form::forward) return 1;
  constexpr double kShort = 4096;  // and twice as many are long
  const double length = std::clamp(std::log2(static_cast<double>(shape.k) / kShort), 0.0, 1.0);
  return 1 + (rates.rows_scaled - 1) * length;
}

}  // namespace

/// Kernels of one recipe that follow each other are one operation of the framework.
void PieceWriter::add(Kernel kernel) {
  const bool goes_on = kernel.recipe != nullptr && !out_->empty() && !out_->back().is_comm() &&
                       out_->back().kernels.back().recipe == kernel.recipe;
  if (out_->empty() || out_->back().is_comm() || cut_) {
    out_->push_back({});
    out_->back().weights = weights_;
    cut_ = false;
  }
  kernel.backward = backward && !recomputing;
  kernel.host = std::exchange(host_, {});
  if (!replayed && !goes_on) kernel.host += kernel.backward ? times_.operation_host_backward : times_.operation_host;
  // One launch replays all kernels of a graph up to where something else stands between.
  if (replayed && std::exchange(in_graph_, true) && !out_->back().kernels.empty()) kernel.launches = 0;
  if (!replayed) in_graph_ = false;
  out_->back().kernels.push_back(std::move(kernel));
}

void PieceWriter::host_works(const HostOp& op) {
  if (op.experts == 0) {
    host_ += times_.expert_layer_host;
    return;
  }
  if (op.new_sizes) host_ += times_.expert_dispatch_host;
  host_ += sim::Duration(std::llround(op.experts * static_cast<double>(times_.expert_host.value())));
}

void PieceWriter::stream(const StreamingOp& op) {
  const double bytes = op.elements * op.bytes_each;
  const auto launches = std::max<std::int64_t>(1, std::llround(op.launches));
  Kernel kernel{op.name,
                device().streaming(op.kernel, bytes, op.elements) * launches,
                false,
                0,
                bytes * static_cast<double>(launches),
                {}};
  kernel.recipe = op.recipe;
  kernel.launches = launches;
  add(std::move(kernel));
  out_->back().kernels.back().by_elements = device().goes_by_elements(op.kernel, bytes, op.elements);
  if (!op.routed || times_.busiest_load <= 1) return;
  const double load = times_.busiest_load;
  grows(out_->back().kernels.back(), device().streaming(op.kernel, bytes * load, op.elements * load));
}

void PieceWriter::grows(Kernel& kernel, sim::Duration of_busiest) const {
  if (kernel.time == sim::Duration{}) return;
  const double mean = sim::to_seconds(kernel.time), more = sim::to_seconds(of_busiest) - mean;
  kernel.routed = std::clamp(more / (mean * (times_.busiest_load - 1)), 0.0, 1.0);
}

void PieceWriter::stream(calibration::Streaming kernel, double bytes, const char* name,
                         const calibration::Recipe* recipe) {
  Kernel made{name, device().streaming(kernel, bytes), false, 0, bytes, {}};
  made.recipe = recipe;
  add(std::move(made));
}

void PieceWriter::gemm(std::string name, const calibration::Gemm& shape) {
  const auto d = [](std::int64_t count) { return static_cast<double>(count); };
  const double operand = calibration::bytes_of(shape.dtype);
  const double result = shape.accumulate ? 2 * calibration::bytes_of(shape.sum) : 2;
  const double bytes = d(shape.batch) * ((d(shape.m) * d(shape.k) + d(shape.k) * d(shape.n)) * operand +
                                         d(shape.m) * d(shape.n) * result);
  const double flops = 2 * d(shape.batch) * d(shape.m) * d(shape.n) * d(shape.k);
  Kernel kernel{std::move(name), time_of(shape), shape.batch == 1, flops, bytes, shape.dtype};
  kernel.shape = {shape.m, shape.n, shape.k, shape.batch};
  add(std::move(kernel));
}

void PieceWriter::grouped_gemm(std::string name, const calibration::Gemm& shape, std::int64_t copies, bool grouped) {
  using Form = calibration::Gemm::Form;
  const auto d = [](std::int64_t count) { return static_cast<double>(count); };
  const bool of_weights = shape.form == Form::weight_gradient;
  const std::int64_t tokens = of_weights ? shape.k : shape.n;
  calibration::GroupedGemm group;
  group.dtype = shape.dtype;
  group.out = shape.form == Form::data_gradient ? shape.k : shape.m;
  group.in = shape.form == Form::forward ? shape.k : shape.form == Form::data_gradient ? shape.m : shape.n;
  group.tokens = calibration::even_tokens(tokens, copies);
  group.form = shape.form;
  group.accumulate = shape.accumulate;
  group.sum = shape.sum;
  group.kernel = grouped ? calibration::GroupedKernel::streams : calibration::GroupedKernel::loop;
  Kernel kernel{std::move(name)};
  kernel.time = device().grouped_gemm(group);
  kernel.flops = 2 * d(shape.m) * d(shape.n) * d(shape.k);
  const double operand = calibration::bytes_of(shape.dtype), result = shape.accumulate ? 2 * bytes_of(shape.sum) : 2;
  const double weights = d(copies) * d(group.out) * d(group.in), rows = d(tokens) * (d(group.out) + d(group.in));
  kernel.bytes = weights * (of_weights ? result : operand) + rows * operand;
  kernel.type = shape.dtype;
  if (times_.busiest_load > 1) {
    group.tokens = calibration::even_tokens(std::llround(d(tokens) * times_.busiest_load), copies);
    grows(kernel, device().grouped_gemm(group));
  }
  kernel.shape = {shape.m, shape.n, shape.k, 1};
  kernel.launches = copies;  // Transformer Engine's grouped GEMM calls cuBLAS for each, on four streams
  add(std::move(kernel));
}

void PieceWriter::product(std::string name, const calibration::Gemm& shape, const MatMul& of) {
  if (of.copies == 1)
    gemm(std::move(name), shape);
  else
    grouped_gemm(std::move(name), shape, of.copies, of.grouped);
  if (of.spares <= 0 || shape.form == calibration::Gemm::Form::weight_gradient) return;
  Kernel& kernel = out_->back().kernels.back();
  const auto all = static_cast<double>(device().processors());
  kernel.spared = std::min(of.spares, all / 2) / all;
  kernel.time = sim::seconds(sim::to_seconds(kernel.time) / (1 - kernel.spared));
}

sim::Duration PieceWriter::time_of(const calibration::Gemm& shape) const {
  const sim::Duration time = device().gemm(shape);
  double rate = 1;
  if (shape.batch == 1 && calibration::bytes_of(shape.dtype) == 2) rate = rate_of_16_bit(shape, times_.gemm_rates);
  if (shape.dtype == DataType::fp8_rowwise) rate = rate_with_scales_of_rows(shape, times_.gemm_rates);
  return rate == 1 ? time : sim::Duration(std::llround(static_cast<double>(time.value()) / rate));
}

void PieceWriter::comm(CommGroup group, calibration::CollectiveOp op, double bytes, const char* what,
                       CommOverlap overlap) {
  Piece piece;
  piece.op = op;
  piece.bytes = bytes;
  piece.what = recomputing ? std::string(what) + " (recomputed)" : what;
  piece.overlap = overlap;
  piece.group = group;
  out_->push_back(std::move(piece));
}

}  // namespace orrery::workloads
