// Interference. Two things happen to a product beside a collective: the collective's blocks hold processors, and what
// they move takes memory bandwidth. A copy at full rate by as many blocks as a collective has channels shows the most
// that both can do; the same copy, slowed down to a share of that rate, shows what a collective does that its links
// hold back. Between them lies the load of a step, which a reader of the section computes (scenarios).
#include "calibration/measure/fit_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>

namespace orrery::calibration {
namespace {

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<double> values_of(const Samples& samples, std::string_view kind, std::string_view name) {
  std::vector<double> out;
  for (const FactSample& s : samples.facts)
    if (s.kind == kind && s.name == name) out.push_back(s.value);
  return out;
}

/// Ratios by the percentage of full traffic; names without one are at full rate.
std::map<int, std::vector<double>> ratios_of(const Samples& samples) {
  constexpr std::string_view kBeside = "gemm_beside_copy";
  std::map<int, std::vector<double>> out;
  for (const FactSample& s : samples.facts) {
    if (s.kind != "interference" || !s.name.starts_with(kBeside)) continue;
    const std::string rest = s.name.substr(kBeside.size());
    const int percent = rest.empty() ? 100 : std::atoi(rest.c_str() + 1);
    if (percent >= 1 && percent <= 100) out[percent].push_back(std::max(1.0, s.value));
  }
  return out;
}

/// Bytes a second that the full traffic moves while nothing else runs.
double full_traffic(const Samples& samples) {
  for (const FactSample& s : samples.facts)
    if (s.kind == "interference" && s.name == "traffic_alone" && s.bytes > 0) return s.bytes / s.value;
  return 0;
}

std::string interference(const Samples& samples) {
  const std::map<int, std::vector<double>> ratios = ratios_of(samples);
  const double full = full_traffic(samples);
  if (ratios.empty() || !(full > 0)) return "";
  std::string traffic, products;
  double before = 1;
  for (const auto& [percent, values] : ratios) {
    before = std::max(before, middle(values));  // more traffic costs no less
    traffic += fmt::format("{}{:.1f} GB/s", traffic.empty() ? "" : ", ", full * percent / 100 / 1e9);
    products += fmt::format("{}{:.3f}", products.empty() ? "" : ", ", before);
  }
  return fmt::format(
      "\ninterference:  # time of a product beside a copy by 24 blocks, over its time alone\n  traffic: [{}]\n"
      "  products: [{}]\n  provenance: 'measured here'\n",
      traffic, products);
}

bool in_a_section(const FactSample& s, const Samples& samples) {
  if (s.kind == "host") return s.name.starts_with("launch_") || s.name == "kernel_gap";
  return s.kind == "interference" && full_traffic(samples) > 0 && !s.name.ends_with("reduction");
}

/// Time of experts' products in one launch over that on several streams, which steps are predicted with.
std::vector<double> one_launch_over_streams(const Samples& samples) {
  std::vector<double> out;
  for (const GroupedSample& one : samples.grouped) {
    if (one.shape.kernel != GroupedKernel::grouped) continue;
    for (const GroupedSample& other : samples.grouped) {
      const GroupedGemm &a = one.shape, &b = other.shape;
      if (b.kernel == GroupedKernel::streams && b.dtype == a.dtype && b.form == a.form && b.out == a.out &&
          b.in == a.in && b.tokens == a.tokens)
        out.push_back(one.seconds / other.seconds);
    }
  }
  return out;
}

}  // namespace

std::string host_sections(const Samples& samples) {
  std::string host;
  for (const auto& [name, key] :
       {std::pair{"launch_eager", "launch"}, {"launch_graph", "graph_launch"}, {"kernel_gap", "kernel_gap"}}) {
    const std::vector<double> values = values_of(samples, "host", name);
    if (!values.empty()) host += fmt::format("  {}: {:.3f} us\n", key, middle(values) * 1e6);
  }
  if (!host.empty()) host = fmt::format("\nhost:\n{}  provenance: 'measured here'\n", host);
  return host + interference(samples);
}

std::string with_host_link(std::string node, const Samples& samples) {
  constexpr double kLarge = 1 << 26;  // bytes beyond what a copy's start counts in
  double rate = 0;
  for (const FactSample& s : samples.facts)
    if (s.kind == "host" && (s.name == "copy_h2d" || s.name == "copy_d2h") && s.bytes >= kLarge)
      rate = rate > 0 ? std::min(rate, s.bytes / s.value) : s.bytes / s.value;
  if (!(rate > 0)) return node;
  const std::string link = fmt::format("host_link: {:.2f} GB/s", rate / 1e9);
  if (node.empty()) return fmt::format("\nnode: {{{}}}  # the slower of copies to the host and from it\n", link);
  if (const std::size_t flow = node.find("node: {"); flow != std::string::npos)
    return node.insert(flow + std::string_view("node: {").size(), link + ", ");
  return node + fmt::format("  {}  # the slower of copies to the host and from it\n", link);
}

std::string facts_text(const Samples& samples) {
  std::string out;
  if (const std::vector<double> ratios = one_launch_over_streams(samples); !ratios.empty())
    out +=
        fmt::format("#   products of experts in one launch: {:.3f} times as long as on four streams\n", middle(ratios));
  for (const FactSample& s : samples.facts) {
    if (in_a_section(s, samples)) continue;
    const std::string size = s.bytes > 0 ? fmt::format(", {:.0f} bytes", s.bytes) : "";
    out += s.kind == "interference" && s.name != "traffic_alone"
               ? fmt::format("#   {}{}: {:.3f} times as long\n", s.name, size, s.value)
               : fmt::format("#   {} {}{}: {:.3f} us\n", s.kind, s.name, size, s.value * 1e6);
  }
  return out.empty() ? "" : "\n# Measured besides, for the reader:\n" + out;
}

}  // namespace orrery::calibration
