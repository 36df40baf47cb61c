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

/// deepseek-ai/FlashMLA, README of 2025-02-24: 580 TFLOPS where it computes and 3000 GB/s where it reads, on an H800 of
/// 989 and 3350.
constexpr double kFlashMlaCompute = 580.0 / 989.4, kFlashMlaMemory = 3000.0 / 3350;

/// Bytes of an activation.
constexpr double kActivationBytes = 2;

double as_real(std::int64_t n) { return static_cast<double>(n); }

/// Whether it works on the rows whose next token is drawn, and on no others.
bool on_sampled(const ServedOp& op) {
  if (const auto* p = std::get_if<ProductOp>(&op)) return p->rows == Rows::sampled;
  if (const auto* r = std::get_if<RowsOp>(&op)) return r->rows == Rows::sampled;
  return false;
}

Branch branch_of(const ServedOp& op) {
  if (const auto* p = std::get_if<ProductOp>(&op)) return p->branch;
  if (const auto* r = std::get_if<RowsOp>(&op)) return r->branch;
  return std::holds_alternative<ExpertsOp>(op) || std::holds_alternative<RouteOp>(op) ? Branch::routed : Branch::line;
}

/// Of exchanges what is seen: `hidden` seconds of them run beside the other half's kernels. Where more is hidden,
/// kernels of one half run beside exchanges of the other.
void hide_exchanges(std::vector<PartOfIteration>& parts, double& sum, double hidden) {
  if (!(hidden > 0)) return;
  double sent = 0;
  const auto routes = [](const PartOfIteration& part) { return part.name == "dispatch" || part.name == "combine"; };
  for (const PartOfIteration& part : parts) sent += routes(part) ? part.times * part.seconds : 0;
  const double share = std::min(1.0, hidden / sent), rest = (hidden - share * sent) / (sum - sent);
  for (PartOfIteration& part : parts) part.seconds *= routes(part) ? 1 - share : 1 - rest;
  sum -= hidden;
}

}  // namespace

IterationTimes::IterationTimes(ServedReplica replica, calibration::ServingKernels kernels)
    : replica_(std::move(replica)),
      kernels_(std::move(kernels)),
      pass_(served_pass(replica_.model, replica_.layout, replica_.precision, replica_.gpus_per_node,
                        replica_.speculation.tokens)) {
  const calibration::Gemm large{calibration::DataType::bf16, 8192, 8192, 8192};
  const calibration::DeviceProfile& device = kernels_.device();
  sustained_ = sim::to_seconds(device.gemm(large)) / sim::to_seconds(device.isolated().gemm(large));
  const double ratio = has_bends() ? kFineRatio : kGridRatio;
  for (std::int64_t keys = 1; keys < kMostKeys;
       keys = std::max(keys + 1, static_cast<std::int64_t>(std::ceil(ratio * as_real(keys)))))
    grid_.push_back(keys);
}

/// Whether attention's time bends where caches outgrow what is seen of them.
bool IterationTimes::has_bends() const {
  bool bends = false;
  each_op([&](const ServedOp& op, double) {
    const auto* a = std::get_if<AttendOp>(&op);
    bends = bends || (a != nullptr && a->window > 0) || std::holds_alternative<SparseOp>(op);
  });
  return bends;
}

/// Rows of the captured graph that an iteration takes; 0: of none. Those with prompts in them are captured in pieces
/// around their attention, where an engine's host has a cost a layer for that, or not at all.
std::int64_t IterationTimes::graph_of(double rows, bool has_prompts) const {
  if (has_prompts && replica_.engine.host.layer == 0) return 0;
  return replica_.engine.padded(static_cast<std::int64_t>(rows));
}

/// Attention groups that have as many rows as the fullest, of all that have some: a few prompts are dealt out to a few.
double IterationTimes::busy_groups(double all, double rows) const {
  const double fullest = rows * as_real(replica_.layout.pipeline);
  return std::clamp(std::round(all / fullest), 1.0, as_real(replica_.layout.attention_data));
}

/// Of a batch, what one attention group has in one stage at a time.
double IterationTimes::share_of(double count) const {
  const double parts = as_real(replica_.layout.attention_data * replica_.layout.pipeline);
  return parts == 1 ? count : std::ceil(count / parts);
}

/// By the data sheet.
double IterationTimes::roofline(WeightType type, double flops, double bytes) const {
  const calibration::DeviceProfile& device = kernels_.device();
  return std::max(flops / device.peak(calibration::multiplied_as(type)).value(),
                  bytes / device.memory_bandwidth().value());
}

/// What requests ask of tokens beyond the greatest logit.
double IterationTimes::sampling_seconds(double rows) const {
  const Sampling& asked = replica_.sampling;
  const calibration::Truncation way = replica_.engine.sampler.truncation;
  const double vocabulary = as_real(replica_.model.vocab), each = bytes_of_a_logit(asked, way);
  const double cut = calibration::truncation_seconds(kernels_.device(), way, asked.cut(), rows, vocabulary);
  if (!(each > 0)) return cut;
  return cut + sim::to_seconds(kernels_.device().streaming(Streaming::copy, rows * vocabulary * each));
}

double IterationTimes::all_reduce(double gpus, double bytes, bool captured) const {
  const double beside = replica_.engine.host.exchange;
  if (gpus <= as_real(replica_.gpus_per_node))
    return beside + kernels_.seconds(calibration::ServedAllReduce{gpus, bytes, captured});
  SIM_CHECK(replica_.across != nullptr, "a group of {} GPUs lies on several nodes that are not known", gpus);
  return beside + replica_.across->seconds(std::llround(gpus), bytes);
}

IterationTimes::Part IterationTimes::of_rows(const ServedOp& op, const PassRows& pass) const {
  const auto [rows, captured, busy] = pass;
  const calibration::DeviceProfile& device = kernels_.device();
  const calibration::ServingEngine::Kernels& habits = replica_.engine.habits;
  if (const auto* p = std::get_if<ProductOp>(&op)) {
    if (p->in != RouterType::bf16) return of_router(*p, rows);
    const double bytes = p->n * p->k * calibration::weight_bytes(p->type), flops = 2 * rows * p->n * p->k;
    // Scales of blocks are found as they are cast, whatever a checkpoint knows.
    using calibration::InputCasts;
    const bool finds = habits.casts == InputCasts::found_scales || p->type == WeightType::fp8_block ||
                       (p->type == WeightType::nvfp4 && habits.casts != InputCasts::fused);
    double seconds = kernels_.seconds(calibration::ServedProduct{p->type, rows, p->n, p->k, finds, habits.products});
    if (p->type == WeightType::fp8 && habits.casts == InputCasts::known_scales)
      seconds += sim::to_seconds(
          device.streaming(Streaming::copy, rows * p->k * (kActivationBytes + calibration::weight_bytes(p->type))));
    const double peak = device.peak(calibration::multiplied_as(p->type)).value();
    const bool computes = p->rows == Rows::all && flops / peak > bytes / device.memory_bandwidth().value();
    if (computes && rows >= kManyRows) seconds *= sustained_;
    const double all = bytes + kActivationBytes * rows * (p->n + p->k);
    const Use use = computes ? Use::compute : Use::memory;
    return {p->name, use, seconds, flops, all, roofline(p->type, flops, all), calibration::multiplied_as(p->type)};
  }
  if (const auto* r = std::get_if<RowsOp>(&op)) {
    const double bytes = rows * r->bytes_each;
    const double least = roofline(WeightType::bf16, 0, bytes);
    const bool fused = r->behind_sum && habits.norms == calibration::Norms::fused;
    double drawn = 0, moved = bytes;
    if (r->name == "sampler" && kernels_.times_sampling()) {
      // A softmax and its draw as they were measured, and what else the engine does to its logits.
      const double vocabulary = as_real(replica_.model.vocab);
      drawn = kernels_.seconds(calibration::ServedSampling{rows, vocabulary});
      moved = std::max(0.0, bytes - kActivationBytes * rows * vocabulary);
    }
    if (r->name == "sampler") drawn += sampling_seconds(rows);
    const double seconds = fused ? least : drawn + sim::to_seconds(device.streaming(Streaming::copy, moved));
    return {r->name, Use::memory, seconds, 0, bytes, least};
  }
  if (const auto* s = std::get_if<SumOp>(&op)) {
    return of_sum(*s, pass);
  }
  if (const auto* e = std::get_if<ExpertsOp>(&op)) {
    calibration::ServedMixture mixture = e->mixture;
    mixture.tokens = rows * std::min(e->groups, busy);
    if (replica_.layout.attention_data == 1 || habits.experts == calibration::ExpertKernels::marlin)
      mixture.kernels = habits.experts;
    const calibration::MixtureLoad load = calibration::load_of(mixture);
    calibration::ServedMixture seen = mixture;
    if (e->dispatched && !gathers_all()) {
      // Experts of the fullest rank, and its rows: a mixture of its own, with no more choices than it has experts.
      seen.experts = std::max(1.0, std::ceil((mixture.slots > 0 ? mixture.slots : mixture.experts) / mixture.ranks));
      seen.top_k = std::min(mixture.top_k, seen.experts);
      seen.tokens = load.rows / seen.top_k;
      seen.ranks = 1;
      seen.slots = 0;
    }
    const double expert = (mixture.gated ? 3 : 2) * mixture.hidden * mixture.ffn;
    const double bytes = load.activated * expert * calibration::weight_bytes(mixture.type) +
                         2 * kActivationBytes * load.rows * mixture.hidden;
    const double flops = 2 * load.rows * expert;
    const bool computes = flops / device.peak(calibration::multiplied_as(mixture.type)).value() >
                          bytes / device.memory_bandwidth().value();
    return {"experts",
            computes ? Use::compute : Use::memory,
            kernels_.seconds(seen),
            flops,
            bytes,
            roofline(mixture.type, flops, bytes),
            calibration::multiplied_as(mixture.type)};
  }
  if (const auto* x = std::get_if<RouteOp>(&op)) {
    const bool out = x->exchange.pass == calibration::ExchangePass::dispatch;
    return {out ? "dispatch" : "combine", Use::communication, route(*x, pass), 0,
            rows * x->exchange.top_k * x->exchange.hidden * (out ? 1 : kActivationBytes)};
  }
  return {};
}

/// TensorRT-LLM's choice (fused_moe_cutlass.py, select_alltoall_method_type).
bool IterationTimes::gathers_all() const {
  const ServedLayout& layout = replica_.layout;
  return replica_.engine.habits.few_ranks == calibration::FewRanks::gather && layout.expert > 1 &&
         !layout.experts_apart() && layout.expert <= replica_.model.experts.top_k;
}

/// Gathered, rows take half of an all-reduce each way, on their way out as the experts' products take them (to 4 bits
/// they are cast ahead of it). Else few rows go by DeepEP's low-latency kernels and many by
/// those that send a row to a node once; one-sided stores within an NVLink domain, where they were measured, take any
/// number.
double IterationTimes::route(const RouteOp& op, const PassRows& pass) const {
  calibration::LowLatencyExchange exchange = op.exchange;
  const ServedLayout& layout = replica_.layout;
  const double groups = as_real(layout.attention_data);
  double rows = pass.each;
  const bool leaves = exchange.pass == calibration::ExchangePass::dispatch;
  if (gathers_all()) {
    const bool cast = leaves && replica_.precision.experts == WeightType::nvfp4;
    const double each = cast ? calibration::weight_bytes(WeightType::nvfp4) : kActivationBytes;
    return all_reduce(exchange.gpus, rows * std::min(groups, pass.busy) * exchange.hidden * each, pass.captured) / 2;
  }
  if (op.gathers)
    return all_reduce(exchange.gpus, rows * groups * exchange.hidden * kActivationBytes, pass.captured) / 2;
  // Apart, each of fewer GPUs of experts has the rows of several of attention.
  if (layout.experts_apart()) rows *= std::max(1.0, as_real(layout.stage_gpus()) / as_real(layout.expert_gpus));
  exchange.tokens = rows;
  const calibration::Dispatcher* library = replica_.exchanges.kernels.get();
  const bool network = exchange.nodes > 1;
  const bool few = rows <= replica_.engine.habits.few_rows;
  if (library == nullptr) return kernels_.seconds(exchange);
  const std::string& device = kernels_.device().name();
  const bool one_sided = library->measured(device, exchange.pass, network) != nullptr && library->processors() == 0;
  if (few && !one_sided) return kernels_.seconds(exchange);
  const calibration::ExchangeKernel* kernel = library->kernel(device, exchange.pass, network);
  if (kernel == nullptr || (!network && !one_sided && library->processors() == 0)) return kernels_.seconds(exchange);
  calibration::TokenExchange many =
      calibration::even_exchange(rows, exchange.hidden * (leaves ? 1.03125 : kActivationBytes), exchange.top_k,
                                 exchange.experts, exchange.gpus, exchange.nodes);
  many.processors = library->processors();
  return kernel->alone(many, network ? replica_.nic_rate : replica_.nvlink_rate);
}

/// Rows that pass from a stage to the next, all the way.
double IterationTimes::between_stages(double rows) const {
  const std::int64_t stages = replica_.layout.pipeline;
  if (stages == 1) return 0;
  const bool across = replica_.layout.gpus() > replica_.gpus_per_node;
  const double bytes = kActivationBytes * rows * as_real(replica_.model.hidden);
  const double within =
      sim::to_seconds(kernels_.device()
                          .node_collective(calibration::CollectiveOp::send_receive, 2,
                                           sim::Bytes(static_cast<std::int64_t>(std::max(1.0, bytes))))
                          .total());
  return as_real(stages - 1) * (across ? replica_.nic_latency + bytes / replica_.nic_rate : within);
}

/// What shared experts do not take because they run while routed ones do: all but what their weights need of the
/// memory's bandwidth, as long as the routed ones take.
double IterationTimes::beside(const ServedStack& stack, const PassRows& rows) const {
  const bool elsewhere = replica_.layout.experts_apart();  // the routed ones: no stream beside is needed
  if (!rows.captured || replica_.engine.habits.shared == calibration::SharedExperts::in_line || elsewhere) return 0;
  double routed = 0, shared = 0, bytes = 0;
  for (const ServedOp& op : stack.ops) {
    const Branch branch = branch_of(op);
    if (branch == Branch::line) continue;
    const Part part = of_rows(op, rows);
    if (branch == Branch::routed) {
      routed += part.seconds;
    } else {
      shared += part.seconds;
      bytes += part.bytes;
    }
  }
  return std::clamp(shared - bytes / kernels_.device().memory_bandwidth().value(), 0.0, routed);
}

GpuWork IterationTimes::layers(const PassRows& rows) const {
  GpuWork work;
  if (!(rows.each > 0)) return work;
  each_op([&](const ServedOp& op, double times) {
    if (!on_sampled(op)) work.add(of_rows(op, rows), times);
  });
  for (const ServedStack& stack : pass_.stacks) {
    const double hidden = as_real(stack.layers) * beside(stack, rows);
    work.use.memory -= hidden;
    work.duty.streaming = std::max(0.0, work.duty.streaming - hidden);
  }
  work.add({"between stages", Use::communication, between_stages(rows.each)}, 1);
  return work;
}

GpuWork IterationTimes::head(double sampled) const {
  GpuWork work;
  if (!(sampled > 0)) return work;
  each_op([&](const ServedOp& op, double times) {
    if (on_sampled(op)) work.add(of_rows(op, {sampled, true}), times);
  });
  return work;
}

/// Kernels that vLLM's table of latent blocks has more than the engine, which compiles a rotation into one: sines,
/// copies, signs, products, sums for queries and keys (rotary_embedding/deepseek_scaling_rope.py, forward_native).
constexpr double kEagerRotation = 12;

IterationTimes::Part IterationTimes::of_decodes(const ServedOp& op, double sequences, double keys,
                                                std::span<const calibration::PromptPiece> beside) const {
  Part part{"attention of decodes", Use::memory};
  if (const auto* a = std::get_if<AttendOp>(&op)) {
    const double visible = a->window > 0 ? std::min(keys, sequences * a->window) : keys;
    // Queries of one sequence see the same keys, as further heads would.
    const double heads = a->heads * checked();
    const calibration::DecodeAttention shape{sequences,   visible,     0,         heads,
                                             a->kv_heads, a->head_dim, a->window, a->kv_bytes};
    part.seconds =
        beside.empty() ? kernels_.seconds(shape) : kernels_.seconds_beside(shape, of_prompts(op, beside).seconds);
    part.flops = 4 * visible * heads * a->head_dim;
    part.bytes = 2 * visible * a->kv_heads * a->head_dim * a->kv_bytes;
  } else if (const auto* l = std::get_if<LatentOp>(&op)) {
    // All heads of a query see one row, so that each further query is as much work as another sequence.
    const calibration::PromptPiece each{sequences * checked(), 1, std::max(0.0, keys / sequences - 1)};
    calibration::LatentBlock block = l->block;
    block.pieces = {&each, 1};
    block.decode = true;
    const double row = block.kv_lora + block.rope;
    const double core = 2 * checked() * keys * block.heads * (row + block.kv_lora);
    if (replica_.engine.habits.latent == calibration::LatentCore::flash_mla) {
      const calibration::PromptPiece alone{each.sequences, 1, 0};
      block.pieces = {&alone, 1};
      const calibration::DeviceProfile& device = kernels_.device();
      part.seconds = std::max(core / (kFlashMlaCompute * device.peak(calibration::DataType::bf16).value()),
                              keys * row * block.kv_bytes / (kFlashMlaMemory * device.memory_bandwidth().value()));
    }
    part.seconds += kernels_.seconds(block);
    if (replica_.engine.kernels == calibration::Engine::vllm) {
      const double kernel = sim::to_seconds(kernels_.device().streaming(Streaming::copy, 1));
      part.seconds = std::max(part.seconds - kEagerRotation * kernel, part.seconds / 2);
    }
    part.flops = checked() * (2 * sequences * l->weights / calibration::weight_bytes(block.type) +
                              2 * keys * block.heads * (row + block.kv_lora));
    part.bytes = l->weights + keys * row * block.kv_bytes;
  } else if (const auto* s = std::get_if<StateOp>(&op)) {
    part.name = "states of decodes";
    part.seconds = mixer_seconds(*s, sequences, checked(), calibration::ServedPhase::decode);
    part.bytes = 2 * sequences * s->sequence_bytes;
  } else if (const auto* b = std::get_if<SparseOp>(&op)) {
    calibration::SparseBlock block = b->block;
    block.sequences = sequences;
    block.fresh = checked();
    block.cached = std::max(0.0, keys / sequences - 1);
    part.seconds = kernels_.seconds(block);
    const calibration::SparseWork work = calibration::work_of(block);
    part.flops = work.flops;
    part.bytes = work.bytes;
  }
  part.roofline = roofline(WeightType::bf16, part.flops, part.bytes);
  return part;
}

/// Convolution and scan, or the step of a state, of so many sequences with as many tokens each.
double IterationTimes::mixer_seconds(const StateOp& op, double sequences, double positions,
                                     calibration::ServedPhase phase) const {
  using ScanPart = calibration::ServedScan::Part;
  calibration::ServedScan scan = op.scan;
  scan.sequences = sequences;
  scan.positions = positions;
  const auto took = [&](ScanPart part) {
    scan.part = part;
    return kernels_.seconds(kernels_.as_run(scan, phase));
  };
  return (op.convolved ? took(ScanPart::convolution) : 0) +
         took(phase == calibration::ServedPhase::prompt ? ScanPart::prompt : ScanPart::step);
}

GpuWork IterationTimes::attention(double sequences, double keys,
                                  std::span<const calibration::PromptPiece> beside) const {
  GpuWork work;
  if (sequences > 0)
    each_op([&](const ServedOp& op, double times) { work.add(of_decodes(op, sequences, keys, beside), times); });
  return work;
}

GpuWork IterationTimes::drafts(double sequences, double keys) const {
  GpuWork work;
  if (pass_.draft.empty() || !(sequences > 0)) return work;
  const std::int64_t padded = replica_.engine.padded(static_cast<std::int64_t>(std::ceil(sequences)));
  const double rows = padded > 0 ? as_real(padded) : sequences;
  for (const ServedOp& op : pass_.draft) {
    work.add(of_rows(op, {rows, padded > 0}), 1);
    work.add(of_decodes(op, sequences, keys), 1 / checked());
  }
  work += head(sequences);
  return work * as_real(replica_.speculation.tokens);
}

/// Of micro-batches that are under way together each side has one at a time: a layer takes as long as the busier side
/// needs for all, or as one needs for its way through both, and once it is seen that the last comes behind the first
/// (MegaScale-Infer, equations 4 and 5).
double IterationTimes::to_and_fro(const PassRows& rows, double sequences, double keys, double prompt_seconds) const {
  const double count = as_real(replica_.layout.micro_batches), layers = as_real(replica_.model.layers);
  const PassRows part{std::ceil(rows.each / count), rows.captured, rows.busy};
  const double here = std::ceil(sequences / count), seen = sequences > 0 ? keys * here / sequences : 0;
  double whole = prompt_seconds, pipelined = 0, fill = 0;
  for (const ServedStack& stack : pass_.stacks) {
    double attends = prompt_seconds / count / layers, expert = 0, out = 0, back = 0, all = 0;
    for (const ServedOp& op : stack.ops) {
      if (here > 0) {
        attends += of_decodes(op, here, seen).seconds;
        all += of_decodes(op, sequences, keys).seconds;
      }
      if (on_sampled(op)) continue;
      const double took = of_rows(op, part).seconds;
      all += of_rows(op, rows).seconds;
      if (const auto* route = std::get_if<RouteOp>(&op))
        (route->exchange.pass == calibration::ExchangePass::dispatch ? out : back) += took;
      else
        (std::holds_alternative<ExpertsOp>(op) ? expert : attends) += took;
    }
    const double way = attends + expert + out + back;
    const double busiest = std::max({attends, expert, out, back});
    whole += as_real(stack.layers) * all;
    pipelined += as_real(stack.layers) * std::max(way, count * busiest);
    fill = std::max(fill, std::min(way - busiest, (count - 1) * busiest));
  }
  return count == 1 ? 0 : whole - pipelined - fill;
}

/// Halves one after the other, in each the longer of what it computes and what the other half sends; nothing where that
/// takes longer than all at once, when an engine would not split.
double IterationTimes::overlapped(const PassRows& rows, double sequences, double keys, double prompt_seconds) const {
  if (replica_.layout.experts_apart()) return to_and_fro(rows, sequences, keys, prompt_seconds);
  if (replica_.engine.habits.batches != calibration::MicroBatches::overlapped || replica_.layout.attention_data == 1)
    return 0;
  double sent = 0;
  const PassRows half{std::ceil(rows.each / 2), rows.captured, rows.busy};
  each_op([&](const ServedOp& op, double times) {
    if (std::holds_alternative<RouteOp>(op)) sent += times * of_rows(op, half).seconds;
  });
  const double computed =
      layers(half).seconds() - sent + attention(std::ceil(sequences / 2), keys / 2).seconds() + prompt_seconds / 2;
  const double whole = layers(rows).seconds() + attention(sequences, keys).seconds() + prompt_seconds;
  return std::max(0.0, whole - 2 * std::max(computed, sent));
}

IterationTimes::Part IterationTimes::of_prompts(const ServedOp& op,
                                                std::span<const calibration::PromptPiece> pieces) const {
  double sequences = 0, rows = 0, pairs = 0, keys = 0;
  for (const calibration::PromptPiece& piece : pieces) {
    sequences += piece.sequences;
    rows += piece.sequences * piece.fresh;
    keys += piece.sequences * (piece.fresh + piece.cached);
    pairs += piece.sequences * piece.fresh * (piece.cached + (piece.fresh + 1) / 2);
  }
  const double many = rows >= kManyRows ? sustained_ : 1;
  // Prompts are dealt out to attention groups whole, and pass stages one behind the other.
  const double groups = std::max(1.0, std::min(as_real(replica_.layout.attention_data), as_real(std::ssize(pieces))));
  Part part{"attention of prompts", Use::attention};
  if (const auto* a = std::get_if<AttendOp>(&op)) {
    std::vector<calibration::PromptPiece> both;
    if (!a->causal) {
      // Every token sees all of its prompt: as many pairs as behind half as much again.
      both.assign(pieces.begin(), pieces.end());
      for (calibration::PromptPiece& piece : both) piece.cached = (piece.fresh - 1) / 2;
      pieces = both;
      pairs = 0;
      for (const calibration::PromptPiece& piece : pieces) pairs += piece.sequences * piece.fresh * piece.fresh;
    }
    part.seconds = kernels_.seconds(
        calibration::PrefillAttention{pieces, a->heads, a->kv_heads, a->head_dim, 0, a->window, a->kv_bytes});
    part.flops = 4 * pairs * a->heads * a->head_dim;
    part.bytes = 2 * keys * a->kv_heads * a->head_dim * a->kv_bytes;
  } else if (const auto* l = std::get_if<LatentOp>(&op)) {
    calibration::LatentBlock block = l->block;
    block.pieces = pieces;
    block.decode = false;
    part.use = Use::compute;  // its projections most of all
    part.type = calibration::multiplied_as(block.type);
    part.seconds = kernels_.seconds(block);
    part.flops = 2 * rows * l->weights / calibration::weight_bytes(block.type) +
                 2 * pairs * block.heads * (block.nope + block.rope + block.value);
    part.bytes = l->weights + keys * (block.kv_lora + block.rope) * block.kv_bytes;
  } else if (const auto* s = std::get_if<StateOp>(&op); s != nullptr && rows > 0) {
    part.name = "states of prompts";
    part.use = Use::memory;
    part.seconds = mixer_seconds(*s, sequences, rows / sequences, calibration::ServedPhase::prompt);
    part.bytes = 2 * sequences * s->sequence_bytes;
  } else if (const auto* b = std::get_if<SparseOp>(&op); b != nullptr && rows > 0) {
    // Prompts of the mean length, behind as much as makes their pairs.
    calibration::SparseBlock block = b->block;
    block.decode = false;
    block.sequences = sequences;
    block.fresh = rows / sequences;
    block.cached = std::max(0.0, pairs / rows - (block.fresh + 1) / 2);
    part.use = Use::compute;
    part.type = calibration::multiplied_as(block.type);
    part.seconds = kernels_.seconds(block);
    const calibration::SparseWork work = calibration::work_of(block);
    part.flops = work.flops;
    part.bytes = work.bytes;
  }
  part.seconds *= many / groups;
  part.flops /= groups;
  part.roofline = roofline(WeightType::bf16, part.flops, part.bytes);
  return part;
}

GpuWork IterationTimes::prompts(const std::vector<calibration::PromptPiece>& pieces) const {
  GpuWork work;
  if (!pieces.empty()) each_op([&](const ServedOp& op, double times) { work.add(of_prompts(op, pieces), times); });
  return work;
}

/// Operations that a host runs one by one for what a pass counts as one: of latent attention its projections, norms,
/// rotations, attention and casts, and of one that chooses its keys the indexer's beside; of experts the choice, the
/// sorting, two products and an activation, the sum; of a scan in chunks its convolution, gates, norms of queries
/// and keys, seven kernels, and states that are picked, cast and put back (sglang, gdn_backend.py and fla/chunk.py).
double IterationTimes::kernels_of_pass() const {
  constexpr double kLatent = 24, kSparse = 34, kExperts = 16, kFused = 4, kScan = 15;
  // TensorRT-LLM's own kernels for experts are one operation behind the choice, a cast and a scale
  // (fused_moe_cutlass.py, fused_moe_trtllm_gen.py); those of Triton and DeepGEMM run one by one.
  const calibration::ServingEngine& engine = replica_.engine;
  const bool fused = engine.kernels == calibration::Engine::trtllm &&
                     engine.habits.experts == calibration::ExpertKernels::least_latency &&
                     replica_.precision.experts != WeightType::mxfp4;
  const double experts = fused ? kFused : kExperts;
  double count = 0;
  each_op([&](const ServedOp& op, double times) {
    count += times * (std::holds_alternative<LatentOp>(op)    ? kLatent
                      : std::holds_alternative<SparseOp>(op)  ? kSparse
                      : std::holds_alternative<StateOp>(op)   ? kScan
                      : std::holds_alternative<ExpertsOp>(op) ? experts
                                                              : 1);
  });
  return count;
}

double IterationTimes::host_bound(double gpu, double sequences, double rows, bool has_prompts) const {
  const calibration::ServingEngine::Host& host = replica_.engine.host;
  double launches = 0;
  if (rows > as_real(replica_.engine.largest_graph()) || (has_prompts && host.layer == 0))
    launches = kernels_of_pass() * host.kernel;
  else if (has_prompts)
    launches = as_real(replica_.model.layers) * host.layer;
  // Attention groups have a scheduler each.
  const double own = std::ceil(sequences / as_real(replica_.layout.attention_data));
  const double busy = host.iteration + own * host.sequence;
  const double device = std::max(gpu, launches);
  return (host.overlap == calibration::HostOverlap::schedule ? std::max(device, busy) : device + busy) + host.gap;
}

double IterationTimes::decode_seconds(std::int64_t sequences, double keys) const {
  const double here = share_of(as_real(sequences));
  const double rows = here * checked(), seen = keys * here / as_real(sequences);
  const std::int64_t padded = replica_.engine.padded(static_cast<std::int64_t>(rows));
  const double computed = padded > 0 ? as_real(padded) : rows;
  const PassRows pass{computed, padded > 0};
  GpuWork work = layers(pass);
  work += head(rows);
  work += attention(here, seen);
  work += drafts(here, seen);
  const double gpu = work.seconds() - overlapped(pass, here, seen, 0) + replica_.power.stretch(work.duty);
  return host_bound(gpu, as_real(sequences), rows, false);
}

IterationTimes::Batch IterationTimes::batch_of(const PassTokens& tokens) const {
  Batch batch;
  double fresh = 0, keys = 0;
  for (const TokenGroup& group : tokens.groups) {
    if (group.fresh == 1 && group.cached > 0) {
      batch.decodes += as_real(group.sequences);
      keys += as_real(group.sequences * (group.cached + 1));
    } else {
      // Prompts are dealt out to attention groups one by one.
      constexpr std::int64_t kMost = 4096;
      const bool each = replica_.layout.attention_data > 1 && group.sequences <= kMost;
      for (std::int64_t i = 0; i < (each ? group.sequences : 1); ++i)
        batch.pieces.push_back({each ? 1 : as_real(group.sequences), as_real(group.fresh), as_real(group.cached)});
      fresh += as_real(group.sequences * group.fresh);
    }
  }
  const double spread =
      std::max(1.0, std::min(as_real(replica_.layout.attention_data), as_real(std::ssize(batch.pieces)))) *
      as_real(replica_.layout.pipeline);
  batch.here = share_of(batch.decodes);
  batch.keys = batch.decodes > 0 ? keys * batch.here / batch.decodes : 0;
  batch.rows = batch.here * checked() + std::ceil(fresh / spread);
  const std::int64_t padded = graph_of(batch.rows, !batch.pieces.empty());
  batch.computed = padded > 0 ? PassRows{as_real(padded), true} : PassRows{batch.rows, false};
  if (padded == 0 && !batch.pieces.empty())
    batch.computed.busy = busy_groups(fresh + batch.decodes * checked(), batch.rows);
  batch.sampled = share_of(batch.pieces.empty() ? batch.decodes : as_real(tokens.sampled));
  batch.sampled += batch.here * (checked() - 1);
  return batch;
}

GpuWork IterationTimes::work_of(const Batch& batch) const {
  GpuWork work = layers(batch.computed);
  work += head(batch.sampled);
  work += attention(batch.here, batch.keys, batch.pieces);
  work += prompts(batch.pieces);
  work += drafts(batch.here, batch.keys);
  return work;
}

double IterationTimes::seconds(const PassTokens& tokens) const {
  const Batch batch = batch_of(tokens);
  const GpuWork work = work_of(batch);
  const double gpu = work.seconds() + replica_.power.stretch(work.duty) -
                     overlapped(batch.computed, batch.here, batch.keys, prompts(batch.pieces).seconds());
  return host_bound(gpu, batch.decodes + as_real(std::ssize(batch.pieces)), batch.rows, !batch.pieces.empty());
}

std::vector<PartOfIteration> IterationTimes::parts(const PassTokens& tokens) const {
  const Batch batch = batch_of(tokens);
  std::vector<PartOfIteration> parts;
  const double clock = replica_.power.clock(work_of(batch).duty), speed = replica_.power.board.product_speed(clock);
  double sum = 0;
  const auto add_part = [&](PartOfIteration part, double times, std::int64_t stack) {
    if (!(part.seconds > 0)) return;
    if (part.use == Use::compute) part.seconds /= speed;
    if (part.use == Use::attention) part.seconds /= clock;
    part.times = times;
    part.stack = stack;
    sum += times * part.seconds;
    parts.push_back(part);
  };
  const auto add_ops = [&](const std::vector<ServedOp>& ops, double times, std::int64_t stack, double shared_share) {
    for (const ServedOp& op : ops) {
      if (batch.here > 0) add_part(of_decodes(op, batch.here, batch.keys, batch.pieces), times, stack);
      if (!batch.pieces.empty()) add_part(of_prompts(op, batch.pieces), times, stack);
      const PassRows rows = on_sampled(op) ? PassRows{batch.sampled, true} : batch.computed;
      if (!(rows.each > 0)) continue;
      Part part = of_rows(op, rows);
      if (branch_of(op) == Branch::shared) part.seconds *= shared_share;
      add_part(part, times, stack);
    }
  };
  for (std::size_t i = 0; i < pass_.stacks.size(); ++i) {
    const ServedStack& stack = pass_.stacks[i];
    double shared = 0;
    for (const ServedOp& op : stack.ops)
      if (branch_of(op) == Branch::shared) shared += of_rows(op, batch.computed).seconds;
    // Of shared experts what is not hidden behind the routed ones.
    const double shown = shared > 0 ? 1 - beside(stack, batch.computed) / shared : 1;
    add_ops(stack.ops, as_real(stack.layers), static_cast<std::int64_t>(i), shown);
  }
  add_ops(pass_.ends, 1, -1, 1);
  add_part({"between stages", Use::communication, between_stages(batch.computed.each)}, 1, -1);
  add_part({"drafts", Use::memory, drafts(batch.here, batch.keys).seconds()}, 1, -1);
  const double hidden = overlapped(batch.computed, batch.here, batch.keys, prompts(batch.pieces).seconds());
  hide_exchanges(parts, sum, hidden);
  add_part({"micro-batches", Use::communication, -hidden}, 1, -1);
  const double whole =
      host_bound(sum, batch.decodes + as_real(std::ssize(batch.pieces)), batch.rows, !batch.pieces.empty());
  add_part({"host", Use::host, whole - sum}, 1, -1);
  return parts;
}

const GpuWork& IterationTimes::layers_at(const PassRows& rows) {
  const auto busy = rows.captured || rows.busy > as_real(replica_.layout.attention_data)
                        ? std::size_t{0}
                        : static_cast<std::size_t>(rows.busy);
  std::vector<std::vector<std::optional<GpuWork>>>& tables = layers_[rows.captured ? 1 : 0];
  if (tables.size() <= busy) tables.resize(busy + 1);
  std::vector<std::optional<GpuWork>>& table = tables[busy];
  const auto at = static_cast<std::size_t>(rows.each);
  if (table.size() <= at) table.resize(at + 1);
  if (!table[at]) table[at] = layers(rows);
  return *table[at];
}

const GpuWork& IterationTimes::head_at(std::int64_t sampled) {
  const auto at = static_cast<std::size_t>(sampled);
  if (head_.size() <= at) head_.resize(at + 1);
  if (!head_[at]) head_[at] = head(as_real(sampled));
  return *head_[at];
}

GpuWork IterationTimes::attention_at(std::int64_t sequences, std::int64_t keys) {
  if (sequences == 0) return {};
  const auto at = static_cast<std::size_t>(sequences);
  if (attention_.size() <= at) attention_.resize(at + 1);
  if (attention_[at].empty()) attention_[at].resize(grid_.size());
  const auto node = static_cast<std::size_t>(std::upper_bound(grid_.begin(), grid_.end(), keys) - grid_.begin() - 1);
  const auto look = [&](std::size_t n) -> const Attended& {
    std::optional<Attended>& known = attention_[at][n];
    if (!known) {
      const GpuWork work = attention(as_real(sequences), as_real(std::max(grid_[n], sequences)));
      known = {work.seconds(), work.duty.flops[kAttended], work.duty.bytes};
    }
    return *known;
  };
  const double from = as_real(std::max(grid_[node], sequences)), until = as_real(std::max(grid_[node + 1], sequences));
  const Attended &low = look(node), &high = look(node + 1);
  const double share = until > from ? (as_real(keys) - from) / (until - from) : 0;
  const auto between = [&](double a, double b) { return a + (b - a) * share; };
  GpuWork work;
  work.use.memory = work.duty.streaming = between(low.seconds, high.seconds);
  work.duty.flops[kAttended] = between(low.flops, high.flops);
  work.duty.bytes = between(low.bytes, high.bytes);
  return work;
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
      nodes[n] = sim::seconds(decode_seconds(sequences, as_real(std::max(grid_[n], sequences))) /
                              replica_.tokens_per_iteration())
                     .value();
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
  const double spread = std::min(as_real(replica_.layout.attention_data), as_real(std::ssize(pieces))) *
                        as_real(replica_.layout.pipeline);
  const double here = share_of(as_real(batch.decodes)),
               rows = here * checked() + std::ceil(fresh / std::max(1.0, spread));
  const double keys = batch.decodes > 0 ? as_real(batch.keys) * here / as_real(batch.decodes) : 0;
  GpuWork work = prompts(pieces);
  const double prompt = work.seconds();
  const std::int64_t padded = graph_of(rows, true);
  const PassRows computed =
      padded > 0 ? PassRows{as_real(padded), true}
                 : PassRows{std::floor(rows), false, busy_groups(fresh + as_real(batch.decodes) * checked(), rows)};
  work += layers_at(computed);
  work += head_at(static_cast<std::int64_t>(share_of(as_real(batch.sampled)) + here * (checked() - 1)));
  if (kernels_.packs_no_queries() && !pieces.empty())
    work += attention(std::floor(here), std::floor(keys), pieces);
  else
    work += attention_at(static_cast<std::int64_t>(here), static_cast<std::int64_t>(keys));
  work += drafts(here, keys);
  const double gpu = work.seconds() + replica_.power.stretch(work.duty) - overlapped(computed, here, keys, prompt);
  return sim::seconds(host_bound(gpu, as_real(batch.decodes) + static_cast<double>(pieces.size()), rows, true)).value();
}

GpuWork IterationTimes::work_of(const serving::Work& work) const {
  GpuWork one;
  if (!(work.iterations > 0)) return one;
  const double n = work.iterations, decodes = work.decodes / n, fresh = work.fresh / n, pieces = work.pieces / n;
  const double here = share_of(decodes), drafted = here * (checked() - 1);
  const double spread =
      std::max(1.0, std::min(as_real(replica_.layout.attention_data), pieces) * as_real(replica_.layout.pipeline));
  const double rows = here + drafted + fresh / spread;
  const std::int64_t padded = graph_of(std::ceil(rows), fresh > 0);
  one = layers(padded > 0 ? PassRows{as_real(padded), true}
                          : PassRows{rows, false, fresh > 0 ? busy_groups(fresh + decodes * checked(), rows) : kAll});
  if (padded > 0) {
    const UseOfTime filled = layers({rows, true}).use;
    const double padding = std::max(0.0, one.use.sum() - filled.sum());
    one.use = filled;
    one.use.padding = padding;
  }
  one += head(share_of(work.sampled / n) + drafted);
  if (decodes > 0) one += drafts(here, work.keys / n * here / decodes);
  if (decodes > 0) one += attention(here, work.keys / n * here / decodes);
  if (fresh > 0) {
    // Prompts of the mean length, behind as much as makes the pairs.
    const double each = fresh / std::max(1.0, pieces);
    const double cached = std::max(0.0, (work.pairs / n / std::max(1.0, pieces) - each * (each + 1) / 2) / each);
    one += prompts({{std::max(1.0, pieces), each, cached}}) *
           (1 / std::max(1.0, std::min(as_real(replica_.layout.attention_data), pieces)));
  }
  one.use.compute += replica_.power.stretch(one.duty);
  const double took = static_cast<double>(work.time) / sim::kPicosecondsPerSecond;
  GpuWork all = one * iterations_of(work);
  if (all.seconds() > took)
    all.use = all.use * (took / all.seconds());  // means of what is not linear
  else
    all.use.host = took - all.seconds();
  return all;
}

/// The loop counts an iteration that only decodes once for each token that comes of it.
double IterationTimes::iterations_of(const serving::Work& work) const {
  return work.pieces > 0 ? work.iterations : work.iterations / replica_.tokens_per_iteration();
}

}  // namespace orrery::workloads
