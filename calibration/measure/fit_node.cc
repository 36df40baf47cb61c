// A link's rate from a transfer: what one GPU sent, over the share of a link that large transfers reach. All-reduces
// say nothing here, as switches may add up for them.
#include "calibration/measure/fit_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace orrery::calibration {
namespace {

constexpr double kReached = 0.85;      // share of a link's rate that large transfers reach, where no profile says
constexpr double kAssumedPcie = 32e9;  // bytes/s, PCIe 4.0 x16
constexpr double kFewest = 16e6;       // bytes of a transfer that says something of a link
constexpr double kSame = 0.03;         // relative, of two statements of a rate
constexpr double kHidden = 0.3;        // of the base's rate: what is slower does not run over its links
constexpr double kManyLinks = 1.5;     // times a pair's rate: GPUs with a link to each other send over several at once

/// The fastest that a GPU sent in groups of each size, bytes/s.
std::map<std::int64_t, double> reached(const Samples& samples) {
  std::map<std::int64_t, double> out;
  for (const CollectiveSample& s : samples.collective) {
    const auto bytes = static_cast<double>(s.bytes.value());
    if (s.gpus < 2 || s.op == CollectiveOp::all_reduce || bytes < kFewest) continue;
    out[s.gpus] = std::max(out[s.gpus], wire_bytes(s.op, static_cast<double>(s.gpus), bytes) / s.seconds);
  }
  return out;
}

double fastest_of(const std::map<std::int64_t, double>& rates) {
  double out = 0;
  for (const auto& [gpus, rate] : rates) out = std::max(out, rate);
  return out;
}

std::string rate_text(double rate) { return fmt::format("{:.1f} GB/s", rate / 1e9); }

/// What a document says, over a base's host side (NICs, PCIe switches, memory) or an assumed one.
struct Written {
  std::string kind, lines, why;
};

Written switched(double rate, std::int64_t links, std::string why) {
  return {"nvswitch", fmt::format("  switches: 4\n  links: {}\n  rate: {}\n", links > 0 ? links : 18, rate_text(rate)),
          std::move(why)};
}
Written meshed(double each, std::string why) {
  return {"mesh", fmt::format("  mesh_rate: {}\n", rate_text(each)), std::move(why)};
}
Written over_pcie(double rate, std::string why) {
  return {"pcie", fmt::format("  rate: {}\n", rate_text(rate)), std::move(why)};
}

/// What the driver says of links.
Written of_driver(const DeviceFacts& f) {
  if (f.links.peers > 0)
    return meshed(f.links.bandwidth / f.links.peers,
                  fmt::format("{} GPUs by direct links, as the driver says", f.links.peers));
  return switched(f.links.bandwidth, f.links.count, "links and rate as the driver says");
}

/// What transfers say alone.
Written of_transfers(const DeviceFacts& f, const std::map<std::int64_t, double>& rates, double efficiency) {
  const double pair = rates.begin()->second, most = rates.rbegin()->second;
  const std::int64_t group = rates.rbegin()->first;
  const std::string why = fmt::format("from transfers measured between {} GPUs", group);
  if (rates.begin()->first == 2 && group > 2 && most > kManyLinks * pair) return meshed(pair / efficiency, why);
  const double slot = f.links.pcie > 0 ? f.links.pcie : kAssumedPcie;
  if (fastest_of(rates) <= slot) return over_pcie(fastest_of(rates) / efficiency, why);
  return switched(fastest_of(rates) / efficiency, 0, why);
}

double payload_share(const BaseProfile* base) { return base != nullptr ? base->node.efficiency : kReached; }

/// Whether the base's wiring is contradicted, and by what.
bool contradicts(const BaseProfile& base, const DeviceFacts& f, const std::map<std::int64_t, double>& rates,
                 Written& by) {
  const double line = base.node.rate;
  if (f.links.bandwidth > 0) {
    if (std::abs(f.links.bandwidth / line - 1) <= kSame) return false;
    by = of_driver(f);
    return true;
  }
  if (rates.empty()) return false;
  const double fastest = fastest_of(rates);
  // A pair in a mesh has one of a GPU's links.
  const bool alone = rates.rbegin()->first == 2 && base.node.mesh;
  if (fastest <= line && (alone || fastest >= kHidden * line * base.node.efficiency)) return false;
  by = of_transfers(f, rates, base.node.efficiency);
  return true;
}

std::string node_section(const Written& w, const DeviceFacts& f, const BaseProfile* base, std::int64_t gpus) {
  constexpr std::int64_t kPcieSwitches = 4;
  std::string host = fmt::format("  pcie_switches: {}\n", std::min(kPcieSwitches, gpus));
  if (base == nullptr)
    host += fmt::format("  latency: 0.7 us\n  efficiency: {}\n  pcie: {}\n", kReached,
                        rate_text(f.links.pcie > 0 ? f.links.pcie : kAssumedPcie));
  return fmt::format("\nnode:\n  kind: {}\n  gpus: {}\n{}{}  provenance: '{}; {}'\n", w.kind, gpus, w.lines, host,
                     w.why,
                     base != nullptr ? "what it does not say as " + base->name
                                     : "latency, efficiency and the side of the host assumed");
}

}  // namespace

FittedNode fit_node(const DeviceFacts& f, const Samples& samples, const BaseProfile* base) {
  const std::map<std::int64_t, double> rates = reached(samples);
  double fastest = 0;
  for (const CollectiveSample& s : samples.collective)
    fastest = std::max(fastest,
                       wire_bytes(s.op, static_cast<double>(s.gpus), static_cast<double>(s.bytes.value())) / s.seconds);
  FittedNode out;
  Written wiring;
  const auto written = [&](double line, bool laws) {
    out.yaml = node_section(wiring, f, base, out.gpus);
    out.line_rate = std::max(line, fastest);
    out.rates = laws ? GroupRates::by_law : GroupRates::own;
    return out;
  };
  if (base != nullptr) {
    out.gpus = std::max(base->node.gpus, f.gpus);
    if (contradicts(*base, f, rates, wiring)) {
      if (wiring.kind != "nvswitch" && f.links.peers > 0) out.gpus = f.links.peers + 1;
      return written(std::max(f.links.bandwidth, fastest_of(rates) / payload_share(base)), wiring.kind == "nvswitch");
    }
    if (f.gpus > base->node.gpus)
      out.yaml = fmt::format("\nnode: {{gpus: {}}}  # of this machine; the rest as {}\n", f.gpus, base->name);
    out.line_rate = std::max(base->node.rate, fastest);
    out.rates = base->node.switched ? GroupRates::by_law : GroupRates::own;
    return out;
  }
  // Of wiring that no profile knows, groups of each size have rates of their own.
  constexpr std::int64_t kUsual = 8;
  out.gpus = f.gpus > 1 ? f.gpus : kUsual;
  if (f.links.bandwidth > 0) {
    wiring = of_driver(f);
    if (f.links.peers > 0) out.gpus = f.links.peers + 1;
    return written(f.links.bandwidth, false);
  }
  if (!rates.empty()) {
    wiring = of_transfers(f, rates, kReached);
    return written(fastest_of(rates) / kReached, false);
  }
  const double slot = f.links.pcie > 0 ? f.links.pcie : kAssumedPcie;
  wiring = over_pcie(slot, fmt::format("assumed: {} GPUs over PCIe alone{}; nothing was measured between GPUs, and no "
                                       "driver names links",
                                       out.gpus, f.links.pcie > 0 ? ", at the rate of this slot" : " of 32 GB/s"));
  return written(slot, false);
}

}  // namespace orrery::calibration
