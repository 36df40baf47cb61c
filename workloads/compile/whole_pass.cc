// Max-plus composition (Baccelli et al., Synchronization and Linearity, 1992): every time inside the pass is
// max(t0 + a, h0 + b) for two constants, so that walking the items once with pairs (a, b) in place of times gives the
// pass's own pair. The rules are those of the engine: streams in order, a kernel run's issue_bound, a transfer's issue,
// latency and capped fluid part. Left out: routes whose rate others can change, collectives of other groups than the
// tensor's, and hosts that wait for kernels.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sim/engine.h"
#include "workloads/compile/pass_template.h"

namespace orrery::workloads {

namespace {

constexpr std::int64_t kNever = -(std::int64_t{1} << 60);  // of no influence

/// max(t0 + device, h0 + host), in picoseconds.
struct Pair {
  std::int64_t device = kNever, host = kNever;
};
Pair later(const Pair& x, const Pair& y) { return {std::max(x.device, y.device), std::max(x.host, y.host)}; }

struct Pending {
  Pair finish;
  std::int32_t passes_by;
};

/// The kernels of an item, all of which take `slower` times as long as it says.
sim::Stretch::Item kernels_of(const PassItem& item, double slower) {
  sim::Stretch::Item out;
  out.issue = item.issue.value();
  out.duration = slower == 1.0 ? item.duration.value() : scaled(item.duration, slower).value();
  out.issue_bound = item.issue_bound.value() + out.duration - item.duration.value();
  return out;
}

sim::Stretch::Item transfer_of(const PassItem& item) {
  sim::Stretch::Item out;
  out.transfer = true;
  out.issue = item.issue.value();
  out.duration = item.cost.latency.value();
  out.pattern = static_cast<std::uint32_t>(item.cost.pattern);
  out.work = item.cost.work;
  out.rate_cap = item.cost.rate_cap;
  return out;
}

/// As ProgramWriter lists them. A collective that is waited for has those before it behind it.
sim::Stretch stretch_of(std::span<const PassItem> items, double slower) {
  sim::Stretch stretch;
  std::vector<std::pair<std::uint32_t, std::int32_t>> pending;  // their number, and how many kernels may pass by
  std::uint32_t transfers = 0;
  stretch.items.reserve(items.size());
  for (const PassItem& item : items) {
    if (item.comm) {
      stretch.items.push_back(transfer_of(item));
      pending.emplace_back(++transfers, item.passes_by);
      continue;
    }
    sim::Stretch::Item& kernels = stretch.items.emplace_back(kernels_of(item, slower));
    std::erase_if(pending, [&](auto& p) {
      if (p.second-- > 0) return false;
      kernels.transfers = std::max(kernels.transfers, p.first);
      return true;
    });
  }
  return stretch;
}

}  // namespace

WholePass whole_pass(std::span<const PassItem> items, double slower, const WholePasses& passes) {
  Pair compute{0, kNever}, tensor{0, kNever};
  std::vector<Pending> pending;
  std::int64_t host = 0, busy = 0;
  double highest = 0;
  for (const PassItem& item : items) {
    if (item.comm) {
      Pair at = later(compute, tensor);
      at.host = std::max(at.host, host + item.issue.value());
      const double cap = item.cost.rate_cap > 0 ? std::min(item.cost.rate_cap, passes.most_rate) : passes.most_rate;
      const std::int64_t moves = item.cost.latency.value() + passes.least_latency.value() +
                                 sim::unlimited_transfer(item.cost.work, std::isfinite(cap) ? cap : 0).value();
      tensor = {at.device + moves, at.host + moves};
      pending.push_back({tensor, item.passes_by});
      if (item.cost.work > 0) highest = std::max(highest, item.cost.rate_cap > 0 ? item.cost.rate_cap : HUGE_VAL);
      host += item.issue.value();
      continue;
    }
    Pair ready = compute;
    std::erase_if(pending, [&](Pending& p) {
      if (p.passes_by-- > 0) return false;
      ready = later(ready, p.finish);
      return true;
    });
    const sim::Stretch::Item kernels = kernels_of(item, slower);
    compute = {ready.device + kernels.duration, std::max(ready.host + kernels.duration, host + kernels.issue_bound)};
    host += kernels.issue;
    busy += kernels.duration;
  }
  WholePass pass;
  const bool meets_others = std::any_of(items.begin(), items.end(), [](const PassItem& item) {
    return item.comm ? !(item.group == CommGroup::tensor) : item.host_waits;
  });
  const bool drawn =
      std::any_of(items.begin(), items.end(), [](const PassItem& item) { return item.shares.routed > 0; });
  pass.closed = pending.empty() && !items.empty() && !meets_others;
  pass.duration = sim::Duration(compute.device);
  pass.issue = sim::Duration(host);
  pass.issue_bound = sim::Duration(std::max(compute.host, host));
  pass.highest_rate = highest;
  pass.tensor_wait = sim::Duration(compute.device - busy);
  const bool any = std::any_of(items.begin(), items.end(), [](const PassItem& item) { return item.comm; });
  if (passes.stretches && pass.closed && any && !drawn) pass.stretch = stretch_of(items, slower);
  return pass;
}

const TemplateLibrary::Whole& TemplateLibrary::whole(const PassTemplate& passes, PassKind kind, double slower,
                                                     const WholePasses& how) {
  const auto [it, fresh] = wholes_.try_emplace({&passes, kind, slower});
  if (!fresh) return it->second;
  const std::vector<PassItem>& items = passes.of(kind);
  Whole& whole = it->second;
  whole.pass = whole_pass(items, slower, how);
  whole.note = static_cast<std::uint32_t>(out_.whole_passes.size());
  WholePassNote note;
  note.tensor_wait = whole.pass.tensor_wait;
  for (const PassItem& item : items) {
    if (!item.comm) continue;
    OpNote transfer;
    transfer.traffic = item.traffic;
    transfer.share = item.share;
    transfer.counts = item.counts;
    note.transfers.push_back(transfer);
  }
  out_.whole_passes.push_back(std::move(note));
  return whole;
}

const WholePass& TemplateLibrary::whole_layer(std::uint8_t kind, PassKind pass, double slower, const WholePasses& how) {
  const auto [it, fresh] = whole_layers_.try_emplace({kind, pass, slower});
  if (fresh) it->second = whole_pass(of_kind(kind)[static_cast<std::size_t>(pass)], slower, how);
  return it->second;
}

}  // namespace orrery::workloads
