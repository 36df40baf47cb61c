// Kernels of a pass, one after the other, and the tables over them.
#include "workloads/step/iteration_times.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;

/// Rows beyond which the device's clock is that of a loaded one.
constexpr double kManyRows = 512;
/// Between nodes of the grid of keys; finer where windows bend what is linear otherwise.
constexpr double kGridRatio = 1.2, kFineRatio = 1.03;
constexpr std::int64_t kMostKeys = std::int64_t{1} << 40;

double as_real(std::int64_t n) { return static_cast<double>(n); }

}  // namespace

UseOfTime& UseOfTime::operator+=(const UseOfTime& other) {
  compute += other.compute;
  memory += other.memory;
  communication += other.communication;
  host += other.host;
  padding += other.padding;
  return *this;
}

UseOfTime operator*(UseOfTime use, double times) {
  return {use.compute * times, use.memory * times, use.communication * times, use.host * times, use.padding * times};
}

IterationTimes::IterationTimes(ServedReplica replica, calibration::ServingKernels kernels)
    : replica_(std::move(replica)),
      kernels_(std::move(kernels)),
      pass_(served_pass(replica_.model, replica_.layout, replica_.precision, replica_.gpus_per_node)) {
  const calibration::Gemm large{calibration::DataType::bf16, 8192, 8192, 8192};
  const calibration::DeviceProfile& device = kernels_.device();
  sustained_ = sim::to_seconds(device.gemm(large)) / sim::to_seconds(device.isolated().gemm(large));
  const double ratio = replica_.model.attention.window > 0 ? kFineRatio : kGridRatio;
  for (std::int64_t keys = 1; keys < kMostKeys;
       keys = std::max(keys + 1, static_cast<std::int64_t>(std::ceil(ratio * as_real(keys)))))
    grid_.push_back(keys);
}

/// Of a batch, what one attention group has in one stage at a time.
double IterationTimes::share_of(double count) const {
  const double parts = as_real(replica_.layout.attention_data * replica_.layout.pipeline);
  return parts == 1 ? count : std::ceil(count / parts);
}

UseOfTime IterationTimes::layers(double rows, bool captured) const {
  UseOfTime use;
  if (!(rows > 0)) return use;
  const calibration::DeviceProfile& device = kernels_.device();
  const double many = rows >= kManyRows ? sustained_ : 1;
  const auto add_op = [&](const ServedOp& op, double times) {
    if (const auto* p = std::get_if<ProductOp>(&op); p != nullptr && p->rows == Rows::all) {
      const double seconds = kernels_.seconds(calibration::ServedProduct{p->type, rows, p->n, p->k});
      const double peak = device.peak(calibration::multiplied_as(p->type)).value();
      const bool computes = 2 * rows * p->n * p->k / peak >
                            p->n * p->k * calibration::weight_bytes(p->type) / device.memory_bandwidth().value();
      (computes ? use.compute : use.memory) += times * seconds * (computes ? many : 1);
    } else if (const auto* r = std::get_if<RowsOp>(&op); r != nullptr && r->rows == Rows::all) {
      use.memory += times * sim::to_seconds(device.streaming(Streaming::copy, rows * r->bytes_each));
    } else if (const auto* s = std::get_if<SumOp>(&op)) {
      use.communication +=
          times * kernels_.seconds(calibration::ServedAllReduce{s->gpus, rows * s->bytes_each, captured});
    } else if (const auto* e = std::get_if<ExpertsOp>(&op)) {
      calibration::ServedMixture mixture = e->mixture;
      mixture.tokens = rows * e->groups;
      use.memory += times * kernels_.seconds(mixture);
    } else if (const auto* x = std::get_if<RouteOp>(&op)) {
      calibration::LowLatencyExchange exchange = x->exchange;
      exchange.tokens = rows;
      use.communication += times * kernels_.seconds(exchange);
    }
  };
  for (const ServedStack& stack : pass_.stacks) {
    for (const ServedOp& op : stack.ops) add_op(op, as_real(stack.layers));
  }
  for (const ServedOp& op : pass_.ends) add_op(op, 1);
  const std::int64_t stages = replica_.layout.pipeline;
  if (stages > 1) {
    const bool across = replica_.layout.gpus() > replica_.gpus_per_node;
    const double bytes = 2 * rows * as_real(replica_.model.hidden);
    const double within =
        sim::to_seconds(device
                            .node_collective(calibration::CollectiveOp::send_receive, 2,
                                             sim::Bytes(static_cast<std::int64_t>(std::max(1.0, bytes))))
                            .total());
    use.communication += as_real(stages - 1) * (across ? replica_.nic_latency + bytes / replica_.nic_rate : within);
  }
  return use;
}

UseOfTime IterationTimes::head(double sampled) const {
  UseOfTime use;
  if (!(sampled > 0)) return use;
  for (const ServedOp& op : pass_.ends) {
    if (const auto* p = std::get_if<ProductOp>(&op); p != nullptr && p->rows == Rows::sampled)
      use.memory += kernels_.seconds(calibration::ServedProduct{p->type, sampled, p->n, p->k});
    else if (const auto* r = std::get_if<RowsOp>(&op); r != nullptr && r->rows == Rows::sampled)
      use.memory += sim::to_seconds(kernels_.device().streaming(Streaming::copy, sampled * r->bytes_each));
  }
  return use;
}

double IterationTimes::attention(double sequences, double keys) const {
  if (!(sequences > 0)) return 0;
  double sum = 0;
  for (const ServedStack& stack : pass_.stacks) {
    for (const ServedOp& op : stack.ops) {
      if (const auto* a = std::get_if<AttendOp>(&op)) {
        const double visible = a->window > 0 ? std::min(keys, sequences * a->window) : keys;
        sum += as_real(stack.layers) *
               kernels_.seconds(calibration::DecodeAttention{sequences, visible, 0, a->heads, a->kv_heads, a->head_dim,
                                                             a->window, a->kv_bytes});
      } else if (const auto* l = std::get_if<LatentOp>(&op)) {
        const calibration::PromptPiece each{sequences, 1, std::max(0.0, keys / sequences - 1)};
        calibration::LatentBlock block = l->block;
        block.pieces = {&each, 1};
        block.decode = true;
        sum += as_real(stack.layers) * kernels_.seconds(block);
      }
    }
  }
  return sum;
}

double IterationTimes::prompts(const std::vector<calibration::PromptPiece>& pieces) const {
  if (pieces.empty()) return 0;
  double sum = 0, rows = 0;
  for (const calibration::PromptPiece& piece : pieces) rows += piece.sequences * piece.fresh;
  const double many = rows >= kManyRows ? sustained_ : 1;
  for (const ServedStack& stack : pass_.stacks) {
    for (const ServedOp& op : stack.ops) {
      if (const auto* a = std::get_if<AttendOp>(&op)) {
        sum += as_real(stack.layers) * many *
               kernels_.seconds(calibration::PrefillAttention{pieces, a->heads, a->kv_heads, a->head_dim, 0, a->window,
                                                              a->kv_bytes});
      } else if (const auto* l = std::get_if<LatentOp>(&op)) {
        calibration::LatentBlock block = l->block;
        block.pieces = pieces;
        block.decode = false;
        sum += as_real(stack.layers) * many * kernels_.seconds(block);
      }
    }
  }
  // Prompts are dealt out to attention groups whole, and pass stages one behind the other.
  const double groups = std::min(as_real(replica_.layout.attention_data), static_cast<double>(pieces.size()));
  return sum / std::max(1.0, groups);
}

double IterationTimes::kernels_of_pass() const {
  double count = 0;
  for (const ServedStack& stack : pass_.stacks) count += as_real(stack.layers) * static_cast<double>(stack.ops.size());
  return count;
}

double IterationTimes::host_bound(double gpu, double sequences, double rows, bool has_prompts) const {
  const calibration::ServingEngine::Host& host = replica_.engine.host;
  double launches = 0;
  if (rows > as_real(replica_.engine.largest_graph()))
    launches = kernels_of_pass() * host.kernel;
  else if (has_prompts)
    launches = as_real(replica_.model.layers) * host.layer;
  const double busy = host.iteration + sequences * host.sequence;
  const double device = std::max(gpu, launches);
  return (host.overlap == calibration::HostOverlap::schedule ? std::max(device, busy) : device + busy) + host.gap;
}

double IterationTimes::decode_seconds(std::int64_t sequences, double keys) const {
  const double here = share_of(as_real(sequences));
  const auto rows = static_cast<std::int64_t>(here);
  const std::int64_t padded = replica_.engine.padded(rows);
  const double gpu = layers(padded > 0 ? as_real(padded) : here, padded > 0).sum() + head(here).sum() +
                     attention(here, keys * here / as_real(sequences));
  return host_bound(gpu, as_real(sequences), here, false);
}

double IterationTimes::seconds(const PassTokens& tokens) const {
  std::vector<calibration::PromptPiece> pieces;
  double decodes = 0, keys = 0, fresh = 0;
  for (const TokenGroup& group : tokens.groups) {
    if (group.fresh == 1 && group.cached > 0) {
      decodes += as_real(group.sequences);
      keys += as_real(group.sequences * (group.cached + 1));
    } else {
      pieces.push_back({as_real(group.sequences), as_real(group.fresh), as_real(group.cached)});
      fresh += as_real(group.sequences * group.fresh);
    }
  }
  if (pieces.empty()) return decode_seconds(static_cast<std::int64_t>(decodes), keys);
  const double spread = std::min(as_real(replica_.layout.attention_data), static_cast<double>(pieces.size())) *
                        as_real(replica_.layout.pipeline);
  const double here = share_of(decodes), rows = here + std::ceil(fresh / spread);
  const std::int64_t padded = replica_.engine.padded(static_cast<std::int64_t>(rows));
  const double gpu = layers(padded > 0 ? as_real(padded) : rows, padded > 0).sum() +
                     head(share_of(as_real(tokens.sampled))).sum() +
                     (decodes > 0 ? attention(here, keys * here / decodes) : 0) + prompts(pieces);
  return host_bound(gpu, decodes + static_cast<double>(pieces.size()), rows, true);
}

double IterationTimes::layers_at(std::int64_t rows) {
  const auto look = [&](std::vector<double>& table, std::int64_t at, std::int64_t count, bool captured) {
    if (table.size() <= static_cast<std::size_t>(at)) table.resize(static_cast<std::size_t>(at) + 1, -1);
    double& known = table[static_cast<std::size_t>(at)];
    if (known < 0) known = layers(as_real(count), captured).sum();
    return known;
  };
  const std::int64_t padded = replica_.engine.padded(rows);
  if (padded > 0) return look(layers_, padded, padded, true);
  return look(layers_far_, rows, rows, false);
}

double IterationTimes::head_at(std::int64_t sampled) {
  if (head_.size() <= static_cast<std::size_t>(sampled)) head_.resize(static_cast<std::size_t>(sampled) + 1, -1);
  double& known = head_[static_cast<std::size_t>(sampled)];
  if (known < 0) known = head(as_real(sampled)).sum();
  return known;
}

double IterationTimes::attention_at(std::int64_t sequences, std::int64_t keys) {
  if (sequences == 0) return 0;
  const auto at = static_cast<std::size_t>(sequences);
  if (attention_.size() <= at) attention_.resize(at + 1);
  if (attention_[at].empty()) attention_[at].assign(grid_.size(), -1);
  const auto node = static_cast<std::size_t>(std::upper_bound(grid_.begin(), grid_.end(), keys) - grid_.begin() - 1);
  const auto look = [&](std::size_t n) {
    double& known = attention_[at][n];
    if (known < 0) known = attention(as_real(sequences), as_real(std::max(grid_[n], sequences)));
    return known;
  };
  const double low = look(node), high = look(node + 1);
  const double from = as_real(std::max(grid_[node], sequences)), until = as_real(std::max(grid_[node + 1], sequences));
  return until > from ? low + (high - low) * (as_real(keys) - from) / (until - from) : low;
}

serving::Segment IterationTimes::decode(std::int64_t sequences, std::int64_t keys) {
  SIM_CHECK(sequences >= 1 && keys >= sequences && keys < kMostKeys / 2, "{} sequences see {} keys", sequences, keys);
  const auto at = static_cast<std::size_t>(sequences);
  if (decode_.size() <= at) decode_.resize(at + 1);
  std::vector<serving::Time>& nodes = decode_[at];
  if (nodes.empty()) nodes.assign(grid_.size(), -1);
  const auto node = static_cast<std::size_t>(std::upper_bound(grid_.begin(), grid_.end(), keys) - grid_.begin() - 1);
  const auto look = [&](std::size_t n) {
    if (nodes[n] < 0)
      nodes[n] = sim::seconds(decode_seconds(sequences, as_real(std::max(grid_[n], sequences)))).value();
    return nodes[n];
  };
  const serving::Time low = look(node), high = look(node + 1);
  const std::int64_t from = std::max(grid_[node], sequences), until = grid_[node + 1];
  const double slope = until > from ? static_cast<double>(high - low) / as_real(until - from) : 0;
  return {from, until, low, static_cast<serving::Time>(std::llround(slope))};
}

serving::Time IterationTimes::mixed(const serving::Mixed& batch) {
  std::vector<calibration::PromptPiece> pieces;
  pieces.reserve(batch.pieces.size());
  double fresh = 0;
  for (const serving::Piece& piece : batch.pieces) {
    pieces.push_back({1, as_real(piece.fresh), as_real(piece.cached)});
    fresh += as_real(piece.fresh);
  }
  const double spread = std::min(as_real(replica_.layout.attention_data), static_cast<double>(pieces.size())) *
                        as_real(replica_.layout.pipeline);
  const double here = share_of(as_real(batch.decodes)), rows = here + std::ceil(fresh / std::max(1.0, spread));
  const double keys = batch.decodes > 0 ? as_real(batch.keys) * here / as_real(batch.decodes) : 0;
  const double gpu = layers_at(static_cast<std::int64_t>(rows)) +
                     head_at(static_cast<std::int64_t>(share_of(as_real(batch.sampled)))) +
                     attention_at(static_cast<std::int64_t>(here), static_cast<std::int64_t>(keys)) + prompts(pieces);
  return sim::seconds(host_bound(gpu, as_real(batch.decodes) + static_cast<double>(pieces.size()), rows, true)).value();
}

UseOfTime IterationTimes::use_of(const serving::Work& work) const {
  UseOfTime use;
  if (!(work.iterations > 0)) return use;
  const double n = work.iterations, decodes = work.decodes / n, fresh = work.fresh / n, pieces = work.pieces / n;
  const double here = share_of(decodes);
  const double spread =
      std::max(1.0, std::min(as_real(replica_.layout.attention_data), pieces) * as_real(replica_.layout.pipeline));
  const double rows = here + fresh / spread;
  const std::int64_t padded = replica_.engine.padded(static_cast<std::int64_t>(std::ceil(rows)));
  use = layers(rows, padded > 0);
  if (padded > 0) use.padding = std::max(0.0, layers(as_real(padded), true).sum() - use.sum());
  use += head(share_of(work.sampled / n));
  if (decodes > 0) use.memory += attention(here, work.keys / n * here / decodes);
  if (fresh > 0) {
    // Prompts of the mean length, behind as much as makes the pairs.
    const double each = fresh / std::max(1.0, pieces);
    const double cached = std::max(0.0, (work.pairs / n / std::max(1.0, pieces) - each * (each + 1) / 2) / each);
    use.compute += prompts({{std::max(1.0, pieces), each, cached}}) /
                   std::max(1.0, std::min(as_real(replica_.layout.attention_data), pieces));
  }
  const double took = static_cast<double>(work.time) / sim::kPicosecondsPerSecond;
  UseOfTime all = use * n;
  if (all.sum() > took) return all * (took / all.sum());  // means of what is not linear
  all.host = took - all.sum();
  return all;
}

IterationTimes::Traffic IterationTimes::traffic_of(const serving::Work& work) const {
  const double parts = as_real(replica_.layout.attention_data), stages = as_real(replica_.layout.pipeline);
  const double rows = (work.decodes + work.fresh) / parts;
  double heads = 0;
  for (const ServedStack& stack : pass_.stacks) {
    for (const ServedOp& op : stack.ops) {
      if (const auto* a = std::get_if<AttendOp>(&op)) heads += as_real(stack.layers) * a->heads * a->head_dim;
      if (const auto* l = std::get_if<LatentOp>(&op))
        heads += as_real(stack.layers) * l->block.heads * (l->block.nope + l->block.rope + l->block.value) / 2;
    }
  }
  Traffic traffic;
  traffic.flops = (product_flops(pass_, Rows::all) * rows + product_flops(pass_, Rows::sampled) * work.sampled / parts +
                   4 * heads * (work.pairs + work.keys) / parts) /
                  stages;
  traffic.bytes = weight_bytes(pass_) * work.iterations * stages / stages +
                  cache_bytes_per_token(pass_) * (work.keys + work.fresh + work.decodes) / parts;
  return traffic;
}

}  // namespace orrery::workloads
