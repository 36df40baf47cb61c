// Items of a pass in the order of the program. See pass_compiler.h.
#include "workloads/compile/pass_compiler.h"

#include <algorithm>
#include <utility>

namespace orrery::workloads {

namespace {
constexpr std::size_t kPassKinds = 4;
std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
}  // namespace

std::vector<PassInStep> in_step(const std::vector<Pass>& passes, std::int64_t chunks) {
  std::vector<bool> seen(static_cast<std::size_t>(chunks), false), ended = seen;
  std::vector<PassInStep> out(passes.size());
  for (std::size_t i = 0; i < passes.size(); ++i) {
    out[i].pass = passes[i];
    if (passes[i].kind != PassKind::forward) continue;
    out[i].first_use = !seen[index(passes[i].chunk)];
    seen[index(passes[i].chunk)] = true;
  }
  for (std::size_t i = passes.size(); i-- > 0;) {
    if (!ends_microbatch(passes[i].kind)) continue;
    out[i].last_gradients = !ended[index(passes[i].chunk)];
    ended[index(passes[i].chunk)] = true;
  }
  return out;
}

PassCompiler::PassCompiler(Parts parts, const DataParallelism& data, const StageLayout& stage, TemplateLibrary& library,
                           ProgramWriter& writer, DataTransfers& transfers, DataCollectives& chunks,
                           UnitCollectives& units)
    : parts_(std::move(parts)),
      data_(data),
      stage_(stage),
      library_(library),
      writer_(writer),
      transfers_(transfers),
      chunks_(chunks),
      units_(units),
      templates_(static_cast<std::size_t>(stage.chunks()), nullptr),
      wholes_(kPassKinds * static_cast<std::size_t>(stage.chunks()), nullptr) {}

const PassTemplate& PassCompiler::template_of(std::int32_t chunk) {
  const PassTemplate*& known = templates_[index(chunk)];
  if (known == nullptr) known = &library_.of(stage_.range(chunk));
  return *known;
}

double PassCompiler::pace() const { return parts_.pace.at(data_.by_unit ? units_.share_beside() : beside_); }

/// What follows is computation of these items: takes the share of it that data-parallel collectives run beside.
void PassCompiler::pass_by(std::span<const PassItem> items) {
  const bool none = data_.by_unit || !transfers_.anything_beside();
  beside_ = none ? 0 : transfers_.share_beside(compute_seconds(items));
}

void PassCompiler::compile(const PassInStep& pass) {
  writer_.begin(pass.pass, true);
  if (pass.pass.kind == PassKind::forward && parts_.fetch) writer_.compute_at_once(*parts_.fetch, Category::other);
  const PassTemplate& passes = template_of(pass.pass.chunk);
  std::vector<DataCollectives::Bucket> buckets;
  if (pass.last_gradients) buckets = chunks_.buckets(stage_.range(pass.pass.chunk), passes, pass.pass.kind);
  if (data_.by_unit) {
    const bool forward = pass.pass.kind == PassKind::forward;
    const bool gathers = data_.shards_parameters() || pass.first_use || (forward && data_.gathers_every_pass);
    units_.begin(pass.pass, passes, {gathers, true, pass.last_gradients});
    items(pass, passes, buckets);
    units_.end();
  } else if (!buckets.empty() || !runs_whole(pass, passes)) {
    items(pass, passes, buckets);
  }
}

/// The pass as one operation; false, and nothing done, where something else could disturb what goes on inside.
bool PassCompiler::runs_whole(const PassInStep& in_step, const PassTemplate& passes) {
  const Pass& pass = in_step.pass;
  const bool awaits = in_step.first_use && (!parts_.casts.empty() || chunks_.gathered_ahead(pass.chunk));
  if (awaits || parts_.undisturbed_rate <= 0 || writer_.is_pending()) return false;
  const std::size_t row = kPassKinds * index(pass.chunk) + static_cast<std::size_t>(pass.kind);
  const TemplateLibrary::Whole*& undisturbed = wholes_[row];
  const double alone = parts_.pace.at(0);
  if (undisturbed == nullptr) undisturbed = &library_.whole(passes, pass.kind, alone);
  if (!undisturbed->pass.closed || undisturbed->pass.highest_rate > parts_.undisturbed_rate) return false;
  pass_by(passes.of(pass.kind));
  const double slower = pace();
  const TemplateLibrary::Whole* known = slower == alone ? undisturbed : &library_.whole(passes, pass.kind, slower);
  writer_.whole_pass(known->pass, known->note);
  return true;
}

void PassCompiler::items(const PassInStep& pass, const PassTemplate& passes,
                         const std::vector<DataCollectives::Bucket>& buckets) {
  const LayerRange& range = stage_.range(pass.pass.chunk);
  const std::vector<PassItem>& all = passes.of(pass.pass.kind);
  std::size_t awaited = 0, next_bucket = 0;
  std::int32_t cast_through = -1;
  for (std::size_t i = 0, through = 0; i < all.size(); ++i) {
    const std::int32_t layer = all[i].layer;
    const bool in_block = stage_.split.is_block(range.begin + layer);
    if (data_.by_unit) units_.enter(in_block ? layer : -1);
    if (i == through) {
      through = next_bucket < buckets.size() ? std::max(i + 1, buckets[next_bucket].after_items) : all.size();
      pass_by({&all[i], through - i});
    }
    if (pass.first_use) chunks_.await_parameters(range, layer, awaited);
    if (pass.first_use && layer > cast_through) {
      cast_through = layer;
      cast(range.begin + layer);
    }
    item(all[i]);
    while (next_bucket < buckets.size() && buckets[next_bucket].after_items == i + 1)
      chunks_.reduce(buckets[next_bucket++].parameters);
  }
  // A chunk without layers has no weight gradients to compute, but an embedding to reduce.
  while (next_bucket < buckets.size()) chunks_.reduce(buckets[next_bucket++].parameters);
}

void PassCompiler::item(const PassItem& item) {
  if (item.comm) {
    ProgramWriter::Transfer t{item.group, item.cost, item.traffic, item.share, item.counts};
    t.issue = item.issue;
    writer_.later_waits_for(writer_.transfer(t, writer_.ready_to_compute()), item.passes_by);
  } else {
    writer_.compute(item, Category::compute, pace());
  }
}

/// The weights of a layer, ahead of its first use.
void PassCompiler::cast(std::int64_t layer) {
  const auto known = parts_.casts.find(stage_.split.network.layers[static_cast<std::size_t>(layer)]);
  if (known != parts_.casts.end()) writer_.compute_before(known->second, Category::compute, pace());
}

}  // namespace orrery::workloads
