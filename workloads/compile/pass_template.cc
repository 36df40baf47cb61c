// Cuts pieces into operations. A collective that overlaps with the GEMM beside it is pipelined shard by shard (Wang et
// al., ASPLOS 2023; Transformer Engine's userbuffers): of t shards one is at hand at the start and one is left at the
// end, so
//  - an all-gather runs beside the first (t-1)/t of the GEMM that it feeds, and the last 1/t waits for it;
//  - a reduce-scatter begins when 1/t of the GEMM that it drains is done, and its last 1/t follows the GEMM's end.
#include "workloads/compile/pass_template.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "workloads/model/layer_writer.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

namespace {
/// `work` of a kernel's work, in `share` of its time.
Kernel part(const Kernel& kernel, double share, double work, const char* suffix) {
  Kernel cut = kernel;
  cut.name += suffix;
  cut.time = scaled(kernel.time, share);
  cut.flops *= work;
  cut.bytes *= work;
  return cut;
}
/// What the host does between kernels, as time of the device, which has nothing to do meanwhile.
Kernel host_gap(sim::Duration time) { return {"host", time, false, 0, 0, {}}; }
/// Of the kernels' time that which is this share of each one's.
float share_of(const std::vector<Kernel>& kernels, double Kernel::*share) {
  double all = 0, part = 0;
  for (const Kernel& kernel : kernels) {
    all += sim::to_seconds(kernel.time);
    part += kernel.*share * sim::to_seconds(kernel.time);
  }
  return all > 0 ? static_cast<float>(part / all) : 0.0F;
}
}  // namespace

std::uint32_t TemplateLibrary::run_of(std::vector<Kernel> kernels) {
  std::vector<std::pair<std::string, std::int64_t>> key;
  key.reserve(kernels.size());
  for (const Kernel& kernel : kernels) key.emplace_back(kernel.name, kernel.time.value());
  const auto [it, fresh] = run_ids_.try_emplace(std::move(key), static_cast<std::uint32_t>(out_.runs.size()));
  if (fresh) out_.runs.push_back(std::move(kernels));
  return it->second;
}

std::uint32_t TemplateLibrary::traffic(const TrafficKey& key) {
  const auto [it, fresh] = traffic_ids_.try_emplace({key.group.order, static_cast<int>(key.op), key.what, key.bytes},
                                                    static_cast<std::uint32_t>(out_.traffic.size()));
  if (fresh) out_.traffic.push_back(key);
  return it->second;
}

PassItem TemplateLibrary::compute(std::vector<Kernel> kernels, std::int32_t layer) {
  PassItem item;
  item.layer = layer;
  // max-plus closed form of a run of kernels launched one after the other (sim/plan.h).
  const sim::Duration forward = costs_.host.kernel_issue;
  const sim::Duration backward = scaled(forward, costs_.host.backward_issue_share);
  if (costs_.host.blocking_launches) {
    std::vector<Kernel> one_by_one;
    one_by_one.reserve(2 * kernels.size());
    for (Kernel& kernel : kernels) {
      one_by_one.push_back(host_gap((kernel.backward ? backward : forward) * kernel.launches + kernel.host));
      one_by_one.push_back(std::move(kernel));
    }
    for (const Kernel& kernel : one_by_one) item.duration += kernel.time;
    item.shares = {share_of(one_by_one, &Kernel::routed), share_of(one_by_one, &Kernel::spared)};
    item.issue_bound = item.duration;
    item.run = run_of(std::move(one_by_one));
    return item;
  }
  const auto issue_of = [&](const Kernel& kernel) {
    return (kernel.backward ? backward : forward) * kernel.launches + kernel.host;
  };
  for (const Kernel& kernel : kernels) item.issue += issue_of(kernel);
  sim::Duration tail{}, issued = item.issue;
  for (std::size_t k = kernels.size(); k-- > 0;) {
    tail += kernels[k].time;
    item.issue_bound = std::max(item.issue_bound, issued + tail);
    issued -= issue_of(kernels[k]);
  }
  item.duration = tail;
  item.shares = {share_of(kernels, &Kernel::routed), share_of(kernels, &Kernel::spared)};
  item.run = run_of(std::move(kernels));
  return item;
}

namespace {
/// Host time that a pass waits for, as a launch that takes so long; where launches block, the device waits it out.
PassItem host_work(const char* name, sim::Duration host, const PassCosts& costs,
                   const calibration::DeviceProfile& device, TemplateLibrary& library) {
  Kernel copy{name, device.streaming(calibration::Streaming::copy, 0), false, 0, 0, {}};
  if (costs.host.blocking_launches) {
    copy.time += host;
    return library.compute({copy}, -1);
  }
  PassItem item = library.compute({copy}, -1);
  item.issue += host;
  item.issue_bound += host;
  return item;
}
}  // namespace

std::optional<PassItem> step_begin(const PassCosts& costs, const calibration::DeviceProfile& device,
                                   TemplateLibrary& library) {
  if (costs.host.step_begin_host == sim::Duration{}) return std::nullopt;
  return host_work("step", costs.host.step_begin_host, costs, device, library);
}

std::optional<PassItem> microbatch_fetch(const PassCosts& costs, const calibration::DeviceProfile& device,
                                         TemplateLibrary& library) {
  if (costs.host.microbatch_host == sim::Duration{} && !costs.waits_for_batch) return std::nullopt;
  PassItem item = host_work("micro-batch", costs.host.microbatch_host, costs, device, library);
  item.host_waits = costs.waits_for_batch && !costs.host.blocking_launches;  // else it has waited
  return item;
}

namespace {
/// Whether a product of it reads operands of a type with scales.
bool is_quantised(const LayerOp& op) {
  const auto* linear = std::get_if<LinearOp>(&op);
  return linear != nullptr && std::any_of(linear->products.begin(), linear->products.end(), [](const MatMul& product) {
           return calibration::is_quantised(product.type);
         });
}
/// Whether it is a cast of weights that every pass makes.
bool casts_weights(const LayerOp& op) {
  const auto* stream = std::get_if<StreamingOp>(&op);
  if (stream == nullptr) return false;
  const std::string_view name = stream->name;
  return name == kRowsOfWeights || name == kColumnsOfWeights;
}
}  // namespace

std::optional<PassItem> weight_cast(const Layer& layer, const Precision& precision,
                                    const calibration::DeviceProfile& device, TemplateLibrary& library) {
  if (std::none_of(layer.ops.begin(), layer.ops.end(), is_quantised)) return std::nullopt;
  if (layer.weights.front().frozen) return std::nullopt;  // held as the products read them
  if (std::any_of(layer.ops.begin(), layer.ops.end(), casts_weights)) return std::nullopt;
  const DataType type = precision.matmul;
  const bool fp8_already = precision.parameters == DataType::fp8;
  const double operand = calibration::operand_bytes(type);  // by rows and by columns, or transposed
  const double wide = calibration::bytes_of(precision.activations);
  // Two levels of scales: the tensor's largest magnitude is found in a pass of its own (nvfp4, arXiv 2509.25149).
  const double looked_at = type == DataType::nvfp4 ? wide : 0;
  const double read = fp8_already ? 1 : wide + looked_at, written = fp8_already ? 1 : 2 * operand;
  // Every parameter of the layer that is trained: those that are no weights of a product are one in thousands.
  const double bytes = trained_parameters(layer) * (read + written);
  const auto time = device.streaming(calibration::Streaming::cast_transpose, bytes);
  return library.compute({{fmt::format("weights to {}", calibration::name_of(type)), time, false, 0, bytes, {}}}, -1);
}

double compute_seconds(std::span<const PassItem> items) {
  sim::Duration sum{};
  for (const PassItem& item : items) {
    if (!item.comm) sum += item.duration;
  }
  return sim::to_seconds(sum);
}

sim::Duration TemplateLibrary::call_of(const CommGroup& group) const {
  const calibration::HostCosts& host = costs_.host;
  const calibration::HostCosts::GroupCalls& calls = host.calls;
  const std::vector<bool>& near = prices_.shapes.pipeline_same_node;
  bool checked = calls.checked == calibration::ChecksCalls::always;
  if (calls.checked == calibration::ChecksCalls::between_nodes)
    checked = std::find(near.begin(), near.end(), false) != near.end();
  sim::Duration call = host.transfer_issue;
  if (group == CommGroup::tensor) call += calls.tensor;
  if (!checked) return call;
  const GroupShape& shape = prices_.shapes[group];
  call += calls.per_rank * shape.ranks;
  if (shape.nodes > 1) call += calls.per_node * shape.nodes;
  return call;
}

PassItem TemplateLibrary::transfer(const Piece& piece, double share, bool counts, std::int32_t passes_by) {
  PassItem item;
  item.comm = true;
  item.group = piece.group;
  item.cost = prices_.of(piece.op, piece.bytes * share, piece.group);
  item.issue = call_of(piece.group);
  if (costs_.host.blocking_launches) item.cost.latency += costs_.host.transfer_issue;
  const std::int64_t ranks = prices_.shapes[piece.group].ranks;
  const double sent = prices_.sent(piece.op, piece.bytes, piece.group);
  item.traffic = traffic({piece.group, piece.op, piece.what, ranks, piece.bytes, sent});
  item.share = share;
  item.counts = counts;
  item.passes_by = passes_by;
  return item;
}

/// A collective's channels hold a processor each while it lasts, and the kernels that run meanwhile do without them: of
/// a second beside it, a share of (processors held / all) has to be made up for. Collectives that are cut up with their
/// GEMMs (overlap.tensor) use other kernels, whose cost is in tensor_overlap_slowdown.
void TemplateLibrary::lend_processors(std::vector<Kernel>& kernels, const Piece& collective) const {
  const double share = costs_.overlap.collective_processors / static_cast<double>(prices_.device.processors());
  const GroupShape& group = prices_.shapes[CommGroup::tensor];
  if (share <= 0 || costs_.overlaps_tensor || !(collective.group == CommGroup::tensor) || group.nodes > 1) return;
  const sim::Bytes bytes(std::max<std::int64_t>(1, std::llround(collective.bytes)));
  double left = sim::to_seconds(prices_.device.node_collective(collective.op, group.ranks, bytes).total());
  for (Kernel& kernel : kernels) {
    if (left <= 0) return;
    const double alone = sim::to_seconds(kernel.time);
    if (!kernel.matmul) {
      left -= alone;
      continue;
    }
    const double beside = std::min(left, alone / (1 - share));
    kernel.time += sim::seconds(share * beside);
    left -= beside;
  }
}

double TemplateLibrary::beside_exchange() const {
  const auto all = static_cast<double>(prices_.device.processors());
  return all / (all - std::min(costs_.exchange_processors, all / 2));
}

std::vector<PassItem> TemplateLibrary::items(const Pieces& pieces) {
  const double slower = costs_.overlap.tensor_overlap_slowdown;
  const auto shards = [&](const Piece& collective) {
    return static_cast<double>(prices_.shapes[collective.group].ranks);
  };
  std::vector<PassItem> out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    if (piece.is_comm()) {
      const bool drains = piece.overlap == CommOverlap::with_previous && i > 0 && !pieces[i - 1].is_comm() &&
                          pieces[i - 1].kernels.back().matmul;
      if (drains) continue;  // emitted with the run before
      const bool passes = piece.overlap == CommOverlap::behind || piece.overlap == CommOverlap::with_next;
      out.push_back(transfer(piece, 1.0, true, passes ? 1 : 0));
      continue;
    }
    const std::size_t first = out.size();
    std::vector<Kernel> kernels = piece.kernels;
    const bool beside = i > 0 && pieces[i - 1].is_comm() && pieces[i - 1].overlap == CommOverlap::behind;
    if (beside) {  // the collective takes SMs and memory bandwidth from the GEMMs that it runs beside
      for (Kernel& kernel : kernels) {
        if (kernel.matmul) kernel = part(kernel, slower, 1.0, "");
      }
      lend_processors(kernels, pieces[i - 1]);
    }
    const bool fed =
        i > 0 && pieces[i - 1].is_comm() && pieces[i - 1].overlap == CommOverlap::with_next && kernels.front().matmul;
    const bool drained = i + 1 < pieces.size() && pieces[i + 1].is_comm() &&
                         pieces[i + 1].overlap == CommOverlap::with_previous && kernels.back().matmul &&
                         (kernels.size() > 1 || !fed);
    if (fed) {
      const double t = shards(pieces[i - 1]);
      out.push_back(compute({part(kernels.front(), slower * (t - 1) / t, (t - 1) / t, " (overlapped)")}, -1));
      kernels.front() = part(kernels.front(), slower / t, 1 / t, " (last shard)");
      kernels.front().host = {};  // called for with the part before
    }
    if (drained) {
      const double t = shards(pieces[i + 1]);
      const Kernel whole = kernels.back();
      kernels.back() = part(whole, slower / t, 1 / t, " (first shard)");
      out.push_back(compute(std::move(kernels), -1));
      out.push_back(transfer(pieces[i + 1], (t - 1) / t, true, 1));
      Kernel rest = part(whole, slower * (t - 1) / t, (t - 1) / t, " (overlapped)");
      rest.host = {};  // likewise
      out.push_back(compute({std::move(rest)}, -1));
      out.push_back(transfer(pieces[i + 1], 1 / t, false, 0));
    } else {
      out.push_back(compute(std::move(kernels), -1));
    }
    out.back().host_waits = piece.host_waits;
    for (std::size_t made = first; made < out.size(); ++made) out[made].weights = piece.weights;
  }
  return out;
}

/// No piece reaches over the end of a layer, so that a chunk's passes are those of its layers, one after the other.
const TemplateLibrary::LayerItems& TemplateLibrary::of_kind(std::uint8_t kind) {
  const auto [it, fresh] = kinds_.try_emplace(kind);
  if (!fresh) return it->second;
  const KernelTimes times{prices_.device,
                          costs_.gemm_rates,
                          costs_.host.expert_layer_host,
                          costs_.host.expert_dispatch_host,
                          costs_.host.expert_host,
                          costs_.host.operation_host,
                          scaled(costs_.host.operation_host, costs_.host.backward_issue_share),
                          costs_.host.graphs,
                          costs_.cuts_at_weights,
                          costs_.busiest_load};
  const LayerPasses passes = passes_of(network_.kinds[kind], times, costs_.splits_backward);
  it->second[static_cast<std::size_t>(PassKind::forward)] = items(passes.forward);
  it->second[static_cast<std::size_t>(PassKind::backward)] = items(passes.backward);
  it->second[static_cast<std::size_t>(PassKind::input_gradient)] = items(passes.input_gradient);
  it->second[static_cast<std::size_t>(PassKind::weight_gradient)] = items(passes.weight_gradient);
  return it->second;
}

const PassTemplate& TemplateLibrary::of(const LayerRange& range) {
  const auto first = network_.layers.begin() + range.begin;
  const std::vector<std::uint8_t> kinds(first, first + range.size());
  const auto [it, fresh] = templates_.try_emplace(kinds);
  if (!fresh) return it->second;
  PassTemplate& passes = it->second;
  for (std::size_t kind = 0; kind < passes.items.size(); ++kind) {
    std::vector<PassItem>& all = passes.items[kind];
    passes.done_at[kind].resize(kinds.size());
    for (std::size_t step = 0; step < kinds.size(); ++step) {
      const bool forward = kind == static_cast<std::size_t>(PassKind::forward);
      const std::size_t place = forward ? step : kinds.size() - 1 - step;
      for (const PassItem& item : of_kind(kinds[place])[kind]) {
        all.push_back(item);
        all.back().layer = static_cast<std::int32_t>(place);
      }
      passes.done_at[kind][place] = all.size();
    }
  }
  return passes;
}

}  // namespace orrery::workloads
