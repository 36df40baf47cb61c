// The exchange of dispatcher.h, and its document.
#include "calibration/device/dispatcher.h"

#include <algorithm>
#include <cmath>

#include "calibration/device/profile_model.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

using sim::Settings;

double seconds_or(const Settings& s, std::string_view key, double missing) {
  return s.find(key) == nullptr ? missing : sim::to_seconds(s.at(key).as_duration());
}

double rate_or(const Settings& s, std::string_view key, double missing) {
  return s.find(key) == nullptr ? missing : s.at(key).as_bandwidth().value();
}

ExchangeKernel load_exchange(const Settings& s) {
  constexpr double kFree = 1e18;  // bytes/s
  ExchangeKernel k;
  k.device = s.at("device").text();
  k.pass =
      s.at("pass").as_choice({"dispatch", "combine"}) == "dispatch" ? ExchangePass::dispatch : ExchangePass::combine;
  k.network = s.at("reach").as_choice({"domain", "network"}) == "network";
  k.fixed = seconds_or(s, "fixed", 0);
  k.rank = seconds_or(s, "rank", 0);
  k.node = seconds_or(s, "node", 0);
  k.fill_rows = s.get_number("fill_rows", 1);
  k.fill_rate = rate_or(s, "fill_rate", kFree);
  k.processor.token = seconds_or(s, "token", 0);
  k.processor.copy = seconds_or(s, "copy", 0);
  k.processor.source_rate = rate_or(s, "source_rate", kFree);
  k.processor.network_rate = rate_or(s, "network_rate", kFree);
  k.processor.copy_rate = rate_or(s, "copy_rate", kFree);
  k.exponent = s.get_number("exponent", 4);
  k.share = numbers_at(s, "share");
  k.sizes = numbers_at(s, "sizes");
  if (k.share.size() != k.sizes.size())
    s.at("share").expected(fmt::format("a list of {} numbers, one for each of sizes", k.sizes.size()));
  for (std::size_t i = 1; i < k.sizes.size(); ++i)
    if (!(k.sizes[i] > k.sizes[i - 1])) s.at("sizes").items()[i].expected("more than the one before it");
  k.error = load_uncertainty(s.find("error"));
  return k;
}

}  // namespace

double distinct_groups(double groups, double choices, double experts) {
  SIM_CHECK(groups >= 1 && choices >= 0 && experts >= groups, "{} choices of {} experts in {} groups", choices, experts,
            groups);
  const double each = experts / groups;
  double missed = 1;  // probability that none of the choices falls into a certain group
  for (double taken = 0; taken < choices; ++taken)
    missed *= std::max(0.0, (experts - each - taken) / (experts - taken));
  return groups * (1 - missed);
}

TokenExchange even_exchange(double tokens, double row_bytes, double top_k, double experts, double ranks, double nodes,
                            double most_nodes) {
  TokenExchange e;
  e.tokens = tokens;
  e.row_bytes = row_bytes;
  e.ranks = ranks;
  e.nodes = nodes;
  const double within = most_nodes > 0 ? std::min(most_nodes, nodes) : nodes;
  const double choosable = experts * within / nodes;
  e.reached = distinct_groups(within, top_k, choosable);
  e.copies = distinct_groups(ranks * within / nodes, top_k, choosable);
  return e;
}

double ExchangeKernel::latency(const TokenExchange& e) const {
  return fixed + rank * e.ranks + node * e.nodes + std::min(e.tokens, fill_rows) * e.row_bytes / fill_rate;
}

double ExchangeKernel::processor_seconds(const TokenExchange& e) const {
  const double crossing = network ? e.reached * e.row_bytes / processor.network_rate : 0.0;
  return e.tokens *
         (processor.token + e.row_bytes / processor.source_rate + crossing +
          e.copies * (processor.copy + e.row_bytes / processor.copy_rate)) /
         std::max(1.0, e.processors);
}

double ExchangeKernel::link_bytes(const TokenExchange& e) const {
  const double away = network ? e.reached * (1 - 1 / e.nodes) : e.copies * (1 - 1 / e.ranks);
  return e.tokens * away * e.row_bytes;
}

double ExchangeKernel::link_share(const TokenExchange& e) const {
  const double size = network ? e.nodes : e.ranks;
  if (size <= sizes.front()) return share.front();
  for (std::size_t i = 1; i < sizes.size(); ++i)
    if (size <= sizes[i]) {
      const double t = std::log(size / sizes[i - 1]) / std::log(sizes[i] / sizes[i - 1]);
      return share[i - 1] + t * (share[i] - share[i - 1]);
    }
  return share.back();
}

double ExchangeKernel::alone(const TokenExchange& e, double line_rate) const {
  const double moved = processor_seconds(e), carried = link_bytes(e) / (link_share(e) * line_rate);
  const double longer = std::max(moved, carried);
  if (!(longer > 0)) return latency(e);
  const double joined = longer * std::pow(1 + std::pow(std::min(moved, carried) / longer, exponent), 1 / exponent);
  return latency(e) + joined;
}

Dispatcher Dispatcher::load(const Settings& document) {
  if (!document.is_mapping()) document.expected("a dispatcher: a mapping of keys");
  dispatcher_keys().check(document);
  Dispatcher out;
  out.name_ = document.at("name").text();
  out.meaning_ = document.get_text("meaning", "");
  out.processors_ = document.at("processors").as_number();
  if (const Settings* stands_in = document.find("stands_in"))
    for (const auto& [beginning, measured] : stands_in->members())
      out.stands_in_.emplace_back(beginning, measured.text());
  const Settings& kernels = document.at("kernels");
  if (!kernels.is_sequence() || kernels.items().empty()) kernels.expected("a list of kernels");
  for (const Settings& item : kernels.items()) out.kernels_.push_back(load_exchange(item));
  if (const Settings* more = document.find("more_kernels"))
    for (const Settings& item : more->items()) out.kernels_.push_back(load_exchange(item));
  return out;
}

const ExchangeKernel* Dispatcher::measured(std::string_view device, ExchangePass pass, bool network) const {
  for (const ExchangeKernel& k : kernels_)
    if (k.pass == pass && k.network == network && device.starts_with(k.device)) return &k;
  return nullptr;
}

const ExchangeKernel* Dispatcher::kernel(std::string_view device, ExchangePass pass, bool network) const {
  if (const ExchangeKernel* own = measured(device, pass, network)) return own;
  for (const auto& [beginning, other] : stands_in_)
    if (device.starts_with(beginning))
      if (const ExchangeKernel* like = measured(other, pass, network)) return like;
  for (const ExchangeKernel& k : kernels_)
    if (k.pass == pass && k.network == network) return &k;
  return nullptr;
}

}  // namespace orrery::calibration
