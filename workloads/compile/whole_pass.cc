// Max-plus composition (Baccelli et al., Synchronization and Linearity, 1992): every time inside the pass is
// max(t0 + a, h0 + b) for two constants, so that walking the items once with pairs (a, b) in place of times gives the
// pass's own pair. The rules are those of the engine: streams in order, a kernel run's issue_bound, a transfer's issue,
// latency and capped fluid part. Left out: routes whose rate others can change, collectives of other groups than the
// tensor's, and hosts that wait for kernels.
#include <algorithm>
#include <cmath>

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
    const std::int64_t duration = slower == 1.0 ? item.duration.value() : scaled(item.duration, slower).value();
    const std::int64_t bound = item.issue_bound.value() + duration - item.duration.value();
    compute = {ready.device + duration, std::max(ready.host + duration, host + bound)};
    host += item.issue.value();
    busy += duration;
  }
  WholePass pass;
  const bool meets_others = std::any_of(items.begin(), items.end(), [](const PassItem& item) {
    return item.comm ? !(item.group == CommGroup::tensor) : item.host_waits;
  });
  pass.closed = pending.empty() && !items.empty() && !meets_others;
  pass.duration = sim::Duration(compute.device);
  pass.issue = sim::Duration(host);
  pass.issue_bound = sim::Duration(std::max(compute.host, host));
  pass.highest_rate = highest;
  pass.tensor_wait = sim::Duration(compute.device - busy);
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

}  // namespace orrery::workloads
