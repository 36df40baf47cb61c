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

PassCompiler::PassCompiler(Parts parts, const StageLayout& stage, TemplateLibrary& library, ProgramWriter& writer,
                           DataStreams& data)
    : parts_(std::move(parts)),
      stage_(stage),
      library_(library),
      writer_(writer),
      data_(data),
      templates_(static_cast<std::size_t>(stage.chunks()), nullptr),
      wholes_(kPassKinds * static_cast<std::size_t>(stage.chunks()), nullptr) {}

const PassTemplate& PassCompiler::template_of(std::int32_t chunk) {
  const PassTemplate*& known = templates_[index(chunk)];
  if (known == nullptr) known = &library_.of(stage_.range(chunk));
  return *known;
}

double PassCompiler::pace() const {
  double share = beside_;
  for (const DataStream& data : data_) share += data.data.by_unit ? data.units.share_beside() : 0;
  return parts_.pace.at(std::min(1.0, share));
}

/// What follows is computation of these items: takes the share of it that data-parallel collectives run beside.
void PassCompiler::pass_by(std::span<const PassItem> items) {
  beside_ = 0;
  for (DataStream& data : data_) {
    const bool none = data.data.by_unit || !data.transfers.anything_beside();
    beside_ = std::min(1.0, beside_ + (none ? 0 : data.transfers.share_beside(compute_seconds(items))));
  }
}

void PassCompiler::compile(const PassInStep& pass) {
  writer_.begin(pass.pass, true);
  if (pass.pass.kind == PassKind::forward && parts_.fetch) writer_.compute_at_once(*parts_.fetch, Category::other);
  const PassTemplate& passes = template_of(pass.pass.chunk);
  const std::vector<Due> buckets = buckets_of(pass, passes);
  if (data_.front().data.by_unit) {
    const bool forward = pass.pass.kind == PassKind::forward;
    for (DataStream& data : data_) {
      const bool gathers = data.data.shards_parameters() || pass.first_use || (forward && data.data.gathers_every_pass);
      if (data.data.by_unit) data.units.begin(pass.pass, passes, {gathers, true, pass.last_gradients});
    }
    items(pass, passes, buckets);
    for (DataStream& data : data_) {
      if (data.data.by_unit) data.units.end();
    }
  } else if (!buckets.empty() || !runs_whole(pass, passes)) {
    items(pass, passes, buckets);
  }
}

/// In the order in which they fall due.
std::vector<PassCompiler::Due> PassCompiler::buckets_of(const PassInStep& pass, const PassTemplate& passes) {
  std::vector<Due> buckets;
  if (!pass.last_gradients) return buckets;
  for (DataStream& data : data_) {
    for (const auto& bucket : data.chunks.buckets(stage_.range(pass.pass.chunk), passes, pass.pass.kind))
      buckets.push_back({bucket, &data.chunks});
  }
  std::stable_sort(buckets.begin(), buckets.end(),
                   [](const Due& a, const Due& b) { return a.bucket.after_items < b.bucket.after_items; });
  return buckets;
}

bool PassCompiler::gathered_ahead(std::int32_t chunk) const {
  return std::any_of(data_.begin(), data_.end(),
                     [chunk](const DataStream& data) { return data.chunks.gathered_ahead(chunk); });
}

/// The pass as one operation; false, and nothing done, where something else could disturb what goes on inside.
bool PassCompiler::runs_whole(const PassInStep& in_step, const PassTemplate& passes) {
  const Pass& pass = in_step.pass;
  const bool awaits = in_step.first_use && (!parts_.casts.empty() || gathered_ahead(pass.chunk));
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

void PassCompiler::items(const PassInStep& pass, const PassTemplate& passes, const std::vector<Due>& buckets) {
  const LayerRange& range = stage_.range(pass.pass.chunk);
  const std::vector<PassItem>& all = passes.of(pass.pass.kind);
  std::vector<std::size_t> awaited(data_.size(), 0);
  std::size_t next_bucket = 0;
  const auto reduce = [](const Due& due) { due.of->reduce(due.bucket.parameters); };
  std::int32_t cast_through = -1;
  for (std::size_t i = 0, through = 0; i < all.size(); ++i) {
    const std::int32_t layer = all[i].layer;
    const bool in_block = stage_.split.is_block(range.begin + layer);
    for (DataStream& data : data_) {
      if (data.data.by_unit) data.units.enter(in_block ? layer : -1);
    }
    if (i == through) {
      through = next_bucket < buckets.size() ? std::max(i + 1, buckets[next_bucket].bucket.after_items) : all.size();
      pass_by({&all[i], through - i});
    }
    if (pass.first_use) {
      std::size_t stream = 0;
      for (DataStream& data : data_) data.chunks.await_parameters(range, layer, awaited[stream++]);
    }
    if (pass.first_use && layer > cast_through) {
      cast_through = layer;
      cast(range.begin + layer);
    }
    item(all[i]);
    while (next_bucket < buckets.size() && buckets[next_bucket].bucket.after_items == i + 1)
      reduce(buckets[next_bucket++]);
  }
  // A chunk without layers has no weight gradients to compute, but an embedding to reduce.
  while (next_bucket < buckets.size()) reduce(buckets[next_bucket++]);
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
