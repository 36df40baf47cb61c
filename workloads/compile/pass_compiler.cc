// Items of a pass in the order of the program. See pass_compiler.h.
#include "workloads/compile/pass_compiler.h"

#include <algorithm>
#include <array>
#include <optional>
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
  std::vector<bool> begun(static_cast<std::size_t>(chunks), false);
  for (PassInStep& pass : out) {
    if (!ends_microbatch(pass.pass.kind)) continue;
    pass.first_gradients = !begun[index(pass.pass.chunk)];
    begun[index(pass.pass.chunk)] = true;
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
  for (const DataStream& data : data_) {
    if (data.data.by_unit) share += data.data.by_weight.on ? data.weights.share_beside() : data.units.share_beside();
  }
  return parts_.pace.at(std::min(1.0, share));
}

/// What follows is computation of these items: takes the share of it that data-parallel collectives run beside.
void PassCompiler::pass_by(std::span<const PassItem> items) {
  beside_ = 0;
  for (DataStream& data : data_) {
    const bool none = data.data.by_unit || !data.transfers.anything_beside();
    beside_ = std::min(1.0, beside_ + (none ? 0 : data.transfers.share_beside(compute_seconds(items))));
  }
  const std::int32_t microbatch = writer_.pass().microbatch;
  const bool slows = beside_ > 0 && parts_.pace.beside_collective != 1;
  if (slows && (writer_.slowed.empty() || writer_.slowed.back() != microbatch)) writer_.slowed.push_back(microbatch);
}

/// Goes through the items of one pass, with the data-parallel collectives that belong between them.
class PassCompiler::Walk {
 public:
  Walk(PassCompiler& compiler, const PassInStep& pass, std::vector<Due> buckets)
      : c_(compiler),
        pass_(pass),
        range_(c_.stage_.range(pass.pass.chunk)),
        all_(c_.template_of(pass.pass.chunk).of(pass.pass.kind)),
        buckets_(std::move(buckets)),
        awaited_(c_.data_.size(), 0) {}

  bool done() const { return at_ == all_.size(); }
  const PassItem& next() const { return all_[at_]; }
  void step();
  /// Items from the next one up to the end of its layer, if that is where they begin and nothing belongs between them;
  /// else none.
  std::size_t layer_ahead() const {
    const std::int32_t layer = all_[at_].layer;
    if (layer < 0 || (at_ > 0 && all_[at_ - 1].layer == layer)) return 0;
    std::size_t end = at_ + 1;
    while (end < all_.size() && all_[end].layer == layer) ++end;
    const bool cut = next_bucket_ < buckets_.size() && buckets_[next_bucket_].bucket.after_items < end;
    return cut || end > through_ ? 0 : end - at_;
  }
  /// Goes on without the next item, which somebody else has written.
  void skip() {
    if (at_ == through_) through_ = at_ + 1;
    ++at_;
    while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].bucket.after_items == at_) reduce();
  }
  /// A chunk without layers has no weight gradients to compute, but an embedding to reduce.
  void end() {
    while (next_bucket_ < buckets_.size()) reduce();
  }

 private:
  void reduce() {
    const Due& due = buckets_[next_bucket_++];
    due.of->reduce(due.bucket.parameters);
  }

  PassCompiler& c_;
  const PassInStep& pass_;
  const LayerRange& range_;
  const std::vector<PassItem>& all_;
  std::vector<Due> buckets_;
  std::vector<std::size_t> awaited_;
  std::size_t at_ = 0, through_ = 0, next_bucket_ = 0;
  std::int32_t cast_through_ = -1;
};

void PassCompiler::compile(const PassInStep& pass) {
  writer_.begin(pass.pass, true);
  if (pass.pass.kind == PassKind::forward && parts_.fetch) writer_.compute_at_once(*parts_.fetch, Category::host);
  const PassTemplate& passes = template_of(pass.pass.chunk);
  const std::vector<Due> buckets = buckets_of(pass, passes);
  const auto walk = [&] {
    Walk items(*this, pass, buckets);
    while (!items.done()) items.step();
    items.end();
  };
  if (std::any_of(data_.begin(), data_.end(), [](const DataStream& data) { return data.data.by_unit; })) {
    const bool forward = pass.pass.kind == PassKind::forward;
    for (DataStream& data : data_) {
      const bool gathers = data.data.shards_parameters() || pass.first_use || (forward && data.data.gathers_every_pass);
      const bool reduces = pass.last_gradients || !data.data.fetches.reduces_last_pass();
      const UnitCollectives::Turn turn{gathers, reduces, pass.last_gradients};
      if (data.data.by_weight.on)
        data.weights.begin(pass.pass, passes.of(pass.pass.kind), turn);
      else if (data.data.by_unit)
        data.units.begin(pass.pass, passes, turn);
    }
    walk();
    for (DataStream& data : data_) {
      if (data.data.by_weight.on)
        data.weights.end();
      else if (data.data.by_unit)
        data.units.end();
    }
  } else if (!buckets.empty() || !runs_whole(pass, passes)) {
    walk();
  }
}

/// In the order in which they fall due.
std::vector<PassCompiler::Due> PassCompiler::buckets_of(const PassInStep& pass, const PassTemplate& passes) {
  std::vector<Due> buckets;
  for (DataStream& data : data_) {
    // Of a forward pass that runs as one with it a backward pass has nothing to take over.
    if (pass.pass.kind != PassKind::forward) data.transfers.begin_pass(pass.first_gradients, pass.last_gradients);
    const bool each = data.chunks.leaves_every_pass() && ends_microbatch(pass.pass.kind);
    if (!pass.last_gradients && !each) continue;
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
  const WholePasses& how = parts_.whole;
  const bool awaits = in_step.first_use && (!parts_.casts.empty() || gathered_ahead(pass.chunk));
  if (awaits || (how.sure_rate <= 0 && !how.alone && !how.stretches) || writer_.is_pending()) return false;
  const std::size_t row = kPassKinds * index(pass.chunk) + static_cast<std::size_t>(pass.kind);
  const TemplateLibrary::Whole*& undisturbed = wholes_[row];
  const double alone = parts_.pace.at(0);
  if (undisturbed == nullptr) undisturbed = &library_.whole(passes, pass.kind, alone, how);
  if (!undisturbed->pass.closed) return false;
  const bool sure = how.alone || (how.sure_rate > 0 && undisturbed->pass.highest_rate <= how.sure_rate);
  if (!sure && undisturbed->pass.stretch.items.empty()) return false;
  pass_by(passes.of(pass.kind));
  const double slower = pace();
  const TemplateLibrary::Whole* known = slower == alone ? undisturbed : &library_.whole(passes, pass.kind, slower, how);
  if (sure)
    writer_.whole_pass(known->pass, known->note);
  else
    writer_.stretch(known->pass, known->note);
  return true;
}

void PassCompiler::Walk::step() {
  const PassItem& item = all_[at_];
  const std::int32_t layer = item.layer;
  const bool in_block = c_.stage_.split.is_block(range_.begin + layer);
  for (DataStream& data : c_.data_) {
    if (data.data.by_weight.on)
      data.weights.enter(at_);
    else if (data.data.by_unit)
      data.units.enter(in_block ? layer : -1);
  }
  if (at_ == through_) {
    const bool more = next_bucket_ < buckets_.size();
    through_ = more ? std::max(at_ + 1, buckets_[next_bucket_].bucket.after_items) : all_.size();
    c_.pass_by({&all_[at_], through_ - at_});
  }
  if (pass_.first_use) {
    std::size_t stream = 0;
    for (DataStream& data : c_.data_) data.chunks.await_parameters(range_, layer, awaited_[stream++]);
  }
  if (pass_.first_use && layer > cast_through_) {
    cast_through_ = layer;
    c_.cast(range_.begin + layer);
  }
  const std::size_t ahead = layer_ahead();
  if (ahead > 0 && c_.runs_as_stretch(range_.begin + layer, pass_.pass.kind)) {
    at_ += ahead;
  } else {
    c_.item(item);
    if (layer >= 0) c_.writer_.notes.back().layer = static_cast<std::int32_t>(range_.begin + layer);
    ++at_;
  }
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].bucket.after_items == at_) reduce();
}

void PassCompiler::compile_in_turn(const PassInStep& one, const PassInStep& other) {
  struct Side {
    const PassInStep* pass;
    Walk walk;
    std::optional<std::uint32_t> awaited;  // an exchange under way
    double seconds = 0;                    // that it takes alone
  };
  const auto side_of = [&](const PassInStep& pass) {
    writer_.begin(pass.pass, true);
    if (pass.pass.kind == PassKind::forward && parts_.fetch) writer_.compute_at_once(*parts_.fetch, Category::host);
    return Side{&pass, Walk(*this, pass, buckets_of(pass, template_of(pass.pass.chunk))), {}, 0};
  };
  std::array<Side, 2> sides{side_of(one), side_of(other)};
  const auto exchanges = [](const PassItem& item) { return item.comm && item.group == CommGroup::expert; };
  for (std::size_t turn = 0; !sides[0].walk.done() || !sides[1].walk.done(); turn = 1 - turn) {
    Side& side = sides[turn];
    if (side.walk.done()) continue;
    writer_.begin(side.pass->pass, true);
    if (side.awaited) writer_.next_waits_for(*side.awaited);
    side.awaited.reset();
    side.seconds = 0;
    exchange_ = sides[1 - turn].seconds;
    while (!side.walk.done() && !exchanges(side.walk.next())) side.walk.step();
    exchange_ = 0;
    while (!side.walk.done() && exchanges(side.walk.next())) {
      const PassItem& item = side.walk.next();
      const ProgramWriter::Transfer t{item.group, item.cost, item.traffic, item.share, item.counts};
      side.awaited = writer_.transfer(t, writer_.after_compute());
      side.seconds += library_.seconds_of(item);
      side.walk.skip();
    }
    if (side.walk.done() && side.awaited) writer_.next_waits_for(*side.awaited);
  }
  for (Side& side : sides) {
    writer_.begin(side.pass->pass, true);
    side.walk.end();
  }
}

/// Factor on a run of kernels, of which some are beside another pass's exchange: that holds SMs, and device memory,
/// that they do without, but for those that they leave free anyway. Left out: that the exchange itself is slower beside
/// them.
double PassCompiler::beside_exchange(const PassItem& item) {
  const double alone = sim::to_seconds(item.duration);
  if (exchange_ <= 0 || alone <= 0) return 1;
  const double slower = std::max(1.0, library_.beside_exchange() * (1 - static_cast<double>(item.shares.spared)));
  const double share = std::min(1.0, exchange_ / (alone * slower));
  exchange_ -= share * alone * slower;
  return 1 + share * (slower - 1);
}

/// One layer of a pass as a stretch; false, and nothing done, where it is none.
bool PassCompiler::runs_as_stretch(std::int64_t layer, PassKind kind) {
  if (!parts_.whole.stretches || writer_.is_pending() || exchange_ > 0) return false;
  for (const DataStream& data : data_) {
    if (data.data.by_weight.on) return false;  // its collectives lie between items
  }
  const std::uint8_t row = stage_.split.network.layers[static_cast<std::size_t>(layer)];
  const WholePass& whole = library_.whole_layer(row, kind, pace(), parts_.whole);
  if (whole.stretch.items.empty()) return false;
  writer_.stretch(whole, kNoWholePass);
  return true;
}

void PassCompiler::item(const PassItem& item) {
  if (item.comm) {
    ProgramWriter::Transfer t{item.group, item.cost, item.traffic, item.share, item.counts};
    t.issue = item.issue;
    writer_.later_waits_for(writer_.transfer(t, writer_.ready_to_compute()), item.passes_by);
  } else {
    writer_.compute(item, Category::compute, pace() * beside_exchange(item));
  }
}

/// The weights of a layer, ahead of its first use.
void PassCompiler::cast(std::int64_t layer) {
  const auto known = parts_.casts.find(stage_.split.network.layers[static_cast<std::size_t>(layer)]);
  if (known != parts_.casts.end()) writer_.compute_before(known->second, Category::compute, pace());
}

}  // namespace orrery::workloads
