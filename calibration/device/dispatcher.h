// How long it takes to send tokens to the ranks of their experts (dispatch) and to bring results back (combine), by the
// kernels of libraries that do both in one: DeepEP, one-sided stores over NVLink. Numbers are a document of their own,
// calibration/dispatchers/<name>.yaml, one row for each device, pass and reach that was measured.
//
// A rank has `tokens` rows. A row goes once to each distinct rank that holds one of its experts (`copies` of them in
// the mean, the rank itself among them); between nodes it crosses the network once for each distinct node that it
// reaches (`reached` of them) and is spread there over NVLink. Processors (SMs) that the kernel takes move rows, while
// links carry them:
//   processors = tokens * (token + row/source_rate) + tokens * reached * row/network_rate (between nodes)
//                + tokens * copies * (copy + row/copy_rate),   all over the SMs taken
//   links      = tokens * copies * (1 - 1/ranks) * row / (link_share(ranks) * line rate of a GPU)       in one domain
//              = tokens * reached * (1 - 1/nodes) * row / (network_share(nodes) * line rate of a GPU's NIC)   beyond it
//   time = fixed + rank * ranks + node * nodes + min(tokens, fill_rows) * row/fill_rate
//          + (processors^q + links^q)^(1/q)
// fill_rows * row/fill_rate: the rows that are under way before the first arrives. The simulation takes the fixed part
// and the processors' part from here and lets links be shared as they are; `alone` is what an exchange with no other
// traffic takes. Source: deepseek-ai/DeepEP (csrc/kernels/intranode.cu, internode.cu); fits as each document says.
// Left out: imbalance (callers scale what the busiest rank sends or receives), chunk sizes (tuned, as measured).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibration/device/uncertainty.h"
#include "sim/keys.h"
#include "sim/settings.h"
#include "sim/units.h"

namespace orrery::calibration {

enum class ExchangePass : std::uint8_t { dispatch, combine };

/// The distinct groups, of `groups` of equal size, that `choices` different experts of `experts` fall into in the mean,
/// every set of experts being as likely.
double distinct_groups(double groups, double choices, double experts);

/// Tokens of one rank on their way to experts.
struct TokenExchange {
  double tokens = 1;     // rows of the rank
  double row_bytes = 1;  // of a row with its scales
  double copies = 1;     // distinct ranks that a row goes to, its own among them
  double reached = 1;    // distinct nodes, or NVLink domains, its own among them
  double ranks = 1, nodes = 1;
  double processors = 0;  // SMs that the kernel takes; 0: its rates are those of the whole kernel
};

/// The exchange of `tokens` rows that choose `top_k` of `experts` evenly, on `ranks` in `nodes`; each row stays within
/// `most_nodes` nodes (0: any), as with group-limited routing (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
TokenExchange even_exchange(double tokens, double row_bytes, double top_k, double experts, double ranks, double nodes,
                            double most_nodes = 0);

/// One kernel on one device.
struct ExchangeKernel {
  std::string device;  // beginning of the names of profiles: h200
  ExchangePass pass = ExchangePass::dispatch;
  bool network = false;                    // crosses nodes
  double fixed = 0, rank = 0, node = 0;    // seconds
  double fill_rows = 1, fill_rate = 1e18;  // rows; bytes/s
  /// What one SM does.
  struct Processor {
    double token = 0, copy = 0;                                        // seconds for each
    double source_rate = 1e18, network_rate = 1e18, copy_rate = 1e18;  // bytes/s
  } processor;
  std::vector<double> sizes{1}, share{1};  // of the line rate, by ranks or by nodes, interpolated in ln
  double exponent = 4;                     // q
  Uncertainty error;

  /// Seconds before and beside the transfer, whatever the links.
  double latency(const TokenExchange& e) const;
  /// Seconds that the SMs take to move rows.
  double processor_seconds(const TokenExchange& e) const;
  /// Bytes that a rank sends over its links, NVLink's or its NIC's.
  double link_bytes(const TokenExchange& e) const;
  /// Share of their line rate that the kernel reaches.
  double link_share(const TokenExchange& e) const;
  /// Seconds, no other traffic about. `line_rate`: bytes/s of a GPU's NVLinks or of its NIC, one direction.
  double alone(const TokenExchange& e, double line_rate) const;
};

/// A library that dispatches and combines.
class Dispatcher {
 public:
  /// Throws sim::UserError naming the place of an unknown key, a missing number or lists of different lengths.
  static Dispatcher load(const sim::Settings& document);

  const std::string& name() const { return name_; }
  const std::string& meaning() const { return meaning_; }
  /// SMs that its kernels take by default; 0: none are set aside, and rates are those of whole kernels.
  double processors() const { return processors_; }
  /// That of the device; where it was not measured, of the device that the document names in its stead
  /// (`stands_in`), and else the first of the document that fits pass and reach. nullptr: the library does not reach so
  /// far.
  const ExchangeKernel* kernel(std::string_view device, ExchangePass pass, bool network) const;
  /// As kernel(), but only what was measured on the device.
  const ExchangeKernel* measured(std::string_view device, ExchangePass pass, bool network) const;

 private:
  std::string name_, meaning_;
  double processors_ = 0;
  std::vector<ExchangeKernel> kernels_;
  std::vector<std::pair<std::string, std::string>> stands_in_;  // beginning of a profile's name, measured device
};

/// The library that a job's exchanges go by, and the SMs that it is given. Libraries of one name are one document.
struct ExchangeLibrary {
  std::shared_ptr<const Dispatcher> kernels;  // null: the collective library's all-to-all
  double processors = 0;                      // SMs that a kernel takes

  std::string_view name() const { return kernels == nullptr ? std::string_view{} : std::string_view(kernels->name()); }
  bool operator==(const ExchangeLibrary& other) const {
    return name() == other.name() && processors == other.processors;
  }
};

/// Every key of calibration/dispatchers/<name>.yaml.
const sim::KeyTable& dispatcher_keys();

}  // namespace orrery::calibration
