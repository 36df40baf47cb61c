// The keys of a dispatcher's document, calibration/dispatchers/<name>.yaml.
#include "calibration/device/dispatcher.h"
#include "sim/key_rows.h"

namespace orrery::calibration {

const sim::KeyTable& dispatcher_keys() {
  static const sim::KeyTable table = [] {
    constexpr sim::Bounds kFixed{"0 s", "10 ms"}, kRate{"10 MB/s", "1 EB/s"}, kShare{"0.01", "1"};
    std::vector<sim::Key> rows{
        sim::key_row("name", "text", "", "", {}, "Name of the library."),
        sim::key_row("meaning", "text", "", "-", {}, "What it does, in a sentence."),
        sim::key_row("source", "text", "", "-", {}, "Where its kernels and the measurements stand."),
        sim::key_row("processors", "number", "SMs", "", {},
                     "SMs that a kernel takes by default; 0: none are set aside.", {"0", "1024"}),
        sim::key_row(
            "stands_in", "mapping", "", "-", {},
            "Beginnings of the names of profiles that were not measured, and the device whose kernels they take."),
        sim::key_row("stands_in.*", "text", "", "-", {}, "A device of the kernels."),
        sim::key_row("kernels", "list", "", "", {},
                     "One kernel on one device each; the first that fits stands in for others."),
        sim::key_row("kernels[].device", "text", "", "", {}, "Beginning of the names of the device's profiles."),
        sim::key_row("kernels[].pass", "choice", "", "", {"dispatch", "combine"},
                     "Tokens to experts, or results back."),
        sim::key_row("kernels[].reach", "choice", "", "", {"domain", "network"},
                     "Within one NVLink domain, or between nodes."),
        sim::key_row("kernels[].error", "mapping", "", "-", {}, "How well the fit holds on rows left out of it."),
        sim::key_row("kernels[].exponent", "number", "", "4", {},
                     "How SMs' time and links' time join: 1 adds them, more hides.", {"1", "100"}),
        sim::key_row("kernels[].sizes", "list", "", "", {},
                     "Ranks (domain) or nodes (network) that share is given for, rising.", {"1", "1e6"}),
        sim::key_row("kernels[].share", "list", "", "", {}, "Share of the links' line rate that the kernel reaches.",
                     kShare),
        sim::key_row("kernels[].fill_rows", "number", "rows", "1", {},
                     "Rows that are under way before the first arrives.", {"0", "1e6"}),
    };
    const auto row = [&](const char* name, const char* type, const char* unit, const char* meaning,
                         sim::Bounds bounds) {
      rows.push_back({std::string("kernels[].") + name, type, unit, "-", {}, meaning, bounds});
    };
    row("fixed", "quantity", "s", "Time of an exchange of nothing.", kFixed);
    row("rank", "quantity", "s", "More for each rank of the group.", kFixed);
    row("node", "quantity", "s", "More for each node of the group.", kFixed);
    row("token", "quantity", "s", "Time of one SM for each token.", kFixed);
    row("copy", "quantity", "s", "Time of one SM for each rank that a token goes to.", kFixed);
    row("fill_rate", "quantity", "bytes/s", "Rate at which the first rows get through.", kRate);
    row("source_rate", "quantity", "bytes/s", "Rate of one SM at a token's own row.", kRate);
    row("network_rate", "quantity", "bytes/s", "Rate of one SM at rows that cross the network.", kRate);
    row("copy_rate", "quantity", "bytes/s", "Rate of one SM at the row of each rank that a token goes to.", kRate);
    constexpr sim::Bounds kCount{"0", "1e9"}, kPercent{"0", "1e5"};
    row("error.samples", "number", "", "Measurements that were held out.", kCount);
    row("error.folds", "number", "", "Parts that they were cut into, each left out once.", kCount);
    row("error.median_pct", "number", "", "Median of the error, in percent.", kPercent);
    row("error.p90_pct", "number", "", "Its 90th percentile.", kPercent);
    rows.push_back(
        sim::key_row("more_kernels", "list", "", "-", {}, "As kernels, of devices that no measurements here are of."));
    for (std::size_t i = 0, own = rows.size(); i < own; ++i) {
      if (!rows[i].path.starts_with("kernels[].")) continue;
      sim::Key more = rows[i];
      more.path = "more_" + more.path;
      rows.push_back(std::move(more));
    }
    return sim::KeyTable(std::move(rows));
  }();
  return table;
}

}  // namespace orrery::calibration
